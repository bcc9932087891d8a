/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo info for people.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "info.h"
#include "measures.h"
#include "shed.h"

#define COUNT(n) cli_format_count((n), (char[32]){0}, 32)
#define BYTES(n) cli_format_bytes((n), (char[32]){0}, 32)

static void head(const struct cli_info *in)
{
    const struct kymo_meta *m = in->meta;
    char text[128], node[1100];
    char dir[CLI_NAME_BYTES];
    printf("recording    %s\n", cli_printable(in->dir, dir, sizeof dir));
    printf("state        %s\n", in->state);
    if (m->node_len > 0) {
        kymo_format_atom((struct kymo_text){(const char *)m->node, m->node_len}, node, sizeof node);
        printf("node         %s", node);
        if (m->otp_release[0] != '\0')
            printf(", OTP %.15s, ERTS %.15s", m->otp_release, m->erts_version);
        printf(", os process %" PRIu64 "\n", m->os_pid);
    }
    if (m->exact != 0)
        printf("exact        %s\n", cli_exact_text(cli_info_exact(in), text, sizeof text));
    kymo_format_utc(m->t0_wall_ns, text, sizeof text);
    printf("started      %s\n", text);
    printf("policy       %s, clock %s", m->policy == KYMO_DISCARD ? "discard" : "overwrite",
           m->clock == KYMO_CLOCK_COUNTER ? "counter" : "monotonic");
    if (m->epochs != 0)
        printf(", set %" PRIu32 " time%s", m->epochs, CLI_S(m->epochs));
    if (kymo_reader_jumps(in->r) != 0)
        printf(", %s segment%s with corrected times", COUNT(kymo_reader_jumps(in->r)),
               CLI_S(kymo_reader_jumps(in->r)));
    putchar('\n');
    if (m->limit_bytes != 0)
        printf("limit        %s\n", BYTES(m->limit_bytes));
    if (m->limit_events != 0)
        printf("limit        %s event%s\n", COUNT(m->limit_events), CLI_S(m->limit_events));
    if (m->limit_ns != 0) {
        cli_format_seconds((int64_t)m->limit_ns, text, sizeof text);
        printf("limit        %s s\n", text);
    }
    if (m->sample > 1)
        printf("sampling     1 in %" PRIu32 " %s\n", m->sample, m->sample_kind == 1 ? "processes" : "events");
}

static void memory(const struct cli_info *in)
{
    const struct kymo_meta *m = in->meta;
    if (m->memory != 0)
        printf("memory       %s: %s segments of %s for all threads, %s in use with %s\n", BYTES(m->memory),
               COUNT(m->n_segments), BYTES(m->segment_bytes), COUNT(in->pool_segments),
               BYTES(in->pool_bytes));
}

/* The time from which the recording is complete. */
static void horizon(const struct cli_info *in)
{
    char since[64], length[64], wall[64];
    if (in->missing != 0) {
        printf("complete     no: recorded events are missing\n");
        return;
    }
    if (in->damage->dict_bad != 0 || in->meta->dict_full != 0) {
        printf("complete     no: names are missing\n");
        return;
    }
    if (in->whole) {
        printf("complete     from the start\n");
        return;
    }
    cli_format_seconds((int64_t)((uint64_t)in->horizon_ns - (uint64_t)in->meta->t0_mono_ns), since,
                       sizeof since);
    cli_format_seconds(cli_info_complete_ns(in), length, sizeof length);
    cli_format_local(kymo_reader_wall_ns(in->r, in->horizon_ns), wall, sizeof wall);
    printf("complete     from %s, %s s after the start: the last %s s\n", wall, since,
           in->events != 0 ? length : "0.000000000");
    if (in->incomplete != 0)
        printf("             %s older events are incomplete; --all includes them\n", COUNT(in->incomplete));
}

static void span(const struct cli_info *in)
{
    char first[64], last[64], length[64];
    uint64_t t0 = (uint64_t)in->meta->t0_mono_ns;
    printf("events       %s here", COUNT(in->events));
    if (in->incomplete != 0)
        printf(", %s older", COUNT(in->incomplete));
    printf(", %s recorded", COUNT(in->counted));
    if (in->overwritten != 0)
        printf(", %s overwritten", COUNT(in->overwritten));
    if (in->meta->events_removed != 0)
        printf(", %s in %s removed files", COUNT(in->meta->events_removed), COUNT(in->meta->files_removed));
    if (in->sampled_out != 0)
        printf(", %s left out by sampling", COUNT(in->sampled_out));
    putchar('\n');
    if (in->events == 0)
        return;
    cli_format_seconds((int64_t)((uint64_t)in->first_ns - t0), first, sizeof first);
    cli_format_seconds((int64_t)((uint64_t)in->last_ns - t0), last, sizeof last);
    cli_format_seconds((int64_t)((uint64_t)in->last_ns - (uint64_t)in->first_ns), length, sizeof length);
    printf("span         %s s, from %s to %s after the start\n", length, first, last);
}

static void storage(const struct cli_info *in)
{
    printf("files        %s in %s data file%s, ring %s", BYTES(in->file_bytes), COUNT(in->files),
           CLI_S(in->files), BYTES(in->ring_bytes));
    if (in->ring_disk_bytes < in->ring_bytes)
        printf(", %s of it on disk", BYTES(in->ring_disk_bytes));
    putchar('\n');
    const uint64_t mfas = in->defs[KYMO_DICT_MFA], atoms = in->defs[KYMO_DICT_ATOM],
                   terms = in->defs[KYMO_DICT_TERM], processes = in->defs[KYMO_DICT_PROC];
    printf("dictionary   %s of %s used: %s function%s, %s atom%s, %s term%s, %s process%s\n",
           BYTES(in->meta->dict_used),
           BYTES(in->meta->dict_bytes != 0 ? in->meta->dict_bytes : in->dict_bytes), COUNT(mfas), CLI_S(mfas),
           COUNT(atoms), CLI_S(atoms), COUNT(terms), CLI_S(terms), COUNT(processes),
           processes == 1 ? "" : "es");
    if (in->meta->dict_full != 0)
        printf("             full: %s definition%s did not fit, so their events have no names\n",
               COUNT(in->meta->dict_full), CLI_S(in->meta->dict_full));
}

static void loss(const struct cli_info *in)
{
    if (in->lost_total == 0) {
        printf("lost         nothing\n");
    } else {
        printf("lost         %s event%s:", COUNT(in->lost_total), CLI_S(in->lost_total));
        for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++) {
            if (in->lost[c] != 0)
                printf(" %s %s", kymo_loss_name(c), COUNT(in->lost[c]));
        }
        putchar('\n');
    }
    if (in->meta->io_errno != 0)
        printf("             writing failed: %s\n", strerror((int)in->meta->io_errno));
}

static void taken(const struct cli_info *in)
{
    if (in->meta->taken != 0)
        printf("taken        %s trace patterns, flags or sessions were removed by another tracer:\n"
               "             events are missing from then on\n",
               COUNT(in->meta->taken));
}

/* What begins a line of this part of the output. */
static const char *damage_label(bool *any)
{
    const char *label = *any ? "            " : "damage      ";
    *any = true;
    return label;
}

static void damage(const struct cli_info *in)
{
    const struct kymo_damage *d = in->damage;
    const struct {
        uint64_t n;
        const char *what;
    } items[] = {{d->segments_bad, "segments are invalid"},
                 {d->records_bad, "segments are truncated"},
                 {d->bytes_cut, "bytes of events were skipped"},
                 {d->segments_moved, "segments were overwritten while being read"},
                 {d->dict_missing != 0 ? 0 : d->dict_bad, "bytes of the dictionary were skipped"},
                 {d->seq_gaps, "segments are missing"},
                 {in->missing, "events that were recorded are missing"}};
    char missing[64];
    bool any = false;
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        if (items[i].n != 0)
            printf("%s %s %s\n", damage_label(&any), COUNT(items[i].n), items[i].what);
    }
    if (d->dict_missing != 0)
        printf("%s the file '" KYMO_DICT_NAME "' is missing (copy the recording again)\n",
               damage_label(&any));
    if (kymo_reader_missing_file(in->r, missing, sizeof missing))
        printf("%s the file '%s' is missing (copy the recording again)\n", damage_label(&any), missing);
    if (!any)
        printf("damage       none\n");
}

static void threads(const struct cli_info *in)
{
    bool title = false;
    for (uint32_t i = 0; i < in->n_slots; i++) {
        const struct kymo_slot *s = &in->slots[i];
        uint64_t lost = 0;
        char name[32];
        for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++)
            lost += kymo_slot_lost(s, c);
        if (s->used == 0 && in->slot_events[i] + in->slot_incomplete[i] == 0 && lost == 0)
            continue;
        if (!title)
            printf("\n%-7s %-15s %15s %15s %15s %15s %15s\n", "thread", "name", "here", "older", "recorded",
                   "overwritten", "lost");
        title = true;
        kymo_format_thread(s, i, name, sizeof name);
        printf("%-7s %-15.15s %15s %15s %15s %15s %15s", name, s->thread_name, COUNT(in->slot_events[i]),
               COUNT(in->slot_incomplete[i]), COUNT(s->events), COUNT(s->overwritten), COUNT(lost));
        for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++) {
            uint64_t n = kymo_slot_lost(s, c);
            if (n != 0)
                printf(" %s %s", kymo_loss_name(c), COUNT(n));
        }
        putchar('\n');
    }
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0.0 : 100.0 * (double)part / (double)whole;
}

static void by_event(const struct cli_info *in)
{
    printf("\n%15s  %6s  %s\n", "events", "%", "event");
    for (unsigned id = 0; id < KYMO_E_COUNT; id++) {
        if (in->by_event[id] == 0)
            continue;
        bool of_port = id >= KYMO_E_PORT_IN && id <= KYMO_E_PORT_OUT_EXITED;
        bool note = id >= KYMO_E_FIRST_NOTE;
        printf("%15s  %6.2f  %s%s\n", COUNT(in->by_event[id]),
               note ? 0.0 : percent(in->by_event[id], in->events), kymo_event_name((uint8_t)id),
               of_port ? " (port)"
               : note  ? " (note of the recorder)"
                       : "");
    }
}

static void processes(const struct cli_info *in)
{
    if (in->n_top_processes == 0)
        return;
    printf("\n%15s  %6s  %s\n", "events", "%", "process");
    for (size_t i = 0; i < in->n_top_processes && !cli_output_lost(); i++) {
        const struct cli_count *c = &in->top_processes[i];
        printf("%15s  %6.2f  ", COUNT(c->count), percent(c->count, in->events));
        cli_print_process(in->r, c->key);
        putchar('\n');
    }
    if (in->processes.map.count > in->n_top_processes)
        printf("%15s  %6s  ... of %s%s processes\n", "", "", in->processes.error != 0 ? "more than " : "",
               COUNT(in->processes.map.count));
    if (in->processes.error != 0)
        printf("%15s  %6s  very many processes: each count may be up to %s too low\n", "", "",
               COUNT(in->processes.error));
}

static void functions(const struct cli_info *in)
{
    if (in->n_top_functions == 0)
        return;
    printf("\n%15s  %6s  %s\n", "calls", "%", "function");
    for (size_t i = 0; i < in->n_top_functions && !cli_output_lost(); i++) {
        const struct cli_count *c = &in->top_functions[i];
        char mfa[2200];
        kymo_format_mfa(in->r, (uint32_t)c->key, mfa, sizeof mfa);
        printf("%15s  %6.2f  %s\n", COUNT(c->count), percent(c->count, in->by_event[KYMO_E_CALL]), mfa);
    }
    if (in->n_functions > in->n_top_functions)
        printf("%15s  %6s  ... of %s functions\n", "", "", COUNT(in->n_functions));
}

void cli_info_text(const struct cli_info *in)
{
    head(in);
    memory(in);
    horizon(in);
    span(in);
    if (in->has_firing)
        cli_firing_text(&in->firing, in->r);
    storage(in);
    loss(in);
    taken(in);
    cli_shed_text(in->r);
    cli_measures_text(in->meta);
    damage(in);
    threads(in);
    if (in->events != 0 || in->by_event[KYMO_E_LOST] != 0 || in->by_event[KYMO_E_COUNTERS] != 0 ||
        in->by_event[KYMO_E_MONITOR] != 0)
        by_event(in);
    processes(in);
    functions(in);
    cli_counters_text(&in->node, in->r);
}
