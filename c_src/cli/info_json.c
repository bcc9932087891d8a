/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo info --json: one object; kymo.1 describes the keys. Times are integers
 * in nanoseconds, keys never disappear.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "info.h"

static void key(const char *name)
{
    cli_json_string(name);
    putchar(':');
}

static void number(const char *name, uint64_t v)
{
    putchar(',');
    key(name);
    printf("%" PRIu64, v);
}

static void integer(const char *name, int64_t v)
{
    putchar(',');
    key(name);
    printf("%" PRId64, v);
}

static void string(const char *name, const char *v)
{
    putchar(',');
    key(name);
    cli_json_string(v);
}

/* 0 stands for "none" in the recording and is null here. */
static void optional(const char *name, uint64_t v)
{
    if (v != 0) {
        number(name, v);
    } else {
        putchar(',');
        key(name);
        fputs("null", stdout);
    }
}

static void loss_object(const uint64_t *lost)
{
    uint64_t total = 0;
    for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++)
        total += lost[c];
    printf("{\"total\":%" PRIu64, total);
    for (unsigned c = 0; c <= KYMO_LOST_REENTRY; c++)
        number(kymo_loss_name(c), lost[c]);
    putchar('}');
}

static void head(const struct cli_info *in)
{
    const struct kymo_meta *m = in->meta;
    char node[sizeof m->node + 1];
    memcpy(node, m->node, m->node_len);
    node[m->node_len] = '\0';
    printf("{\"format\":%u", KYMO_FORMAT_VERSION);
    string("recording", in->dir);
    string("state", in->state_word);
    string("reason", kymo_reason_name(m->reason));
    string("node", node);
    string("otp_release", m->otp_release);
    string("erts_version", m->erts_version);
    number("os_pid", m->os_pid);
    string("policy", m->policy == KYMO_DISCARD ? "discard" : "overwrite");
    string("clock", m->clock == KYMO_CLOCK_COUNTER ? "counter" : "monotonic");
    number("n_slots", m->n_slots);
    number("slots_used", m->slots_used);
    number("segment_bytes", m->segment_bytes);
    number("n_segments", m->n_segments);
    number("memory", m->memory);
    number("epochs", m->epochs);
    integer("start_unix_ns", m->t0_wall_ns);
    integer("start_erlang_ns", m->t0_erl_ns);
    optional("limit_bytes", m->limit_bytes);
    optional("limit_events", m->limit_events);
    optional("limit_ns", m->limit_ns);
    number("sample", m->sample);
    string("sample_kind", m->sample_kind == 1 ? "process" : "event");
}

static void counters(const struct cli_info *in)
{
    uint64_t t0 = (uint64_t)in->meta->t0_mono_ns;
    number("events", in->events);
    number("incomplete_events", in->incomplete);
    number("recorded", in->counted);
    number("recorded_bytes", in->bytes);
    number("overwritten", in->overwritten);
    number("sampled_out", in->sampled_out);
    number("events_removed", in->meta->events_removed);
    number("files_removed", in->meta->files_removed);
    integer("first_ns", in->events != 0 ? (int64_t)((uint64_t)in->first_ns - t0) : 0);
    integer("last_ns", in->events != 0 ? (int64_t)((uint64_t)in->last_ns - t0) : 0);
    printf(",\"whole\":%s", in->whole ? "true" : "false");
    integer("complete_from_ns", (int64_t)((uint64_t)in->horizon_ns - t0));
    integer("complete_from_unix_ns", kymo_reader_wall_ns(in->r, in->horizon_ns));
    integer("complete_for_ns", cli_info_complete_ns(in));
    number("clock_jumps", kymo_reader_jumps(in->r));
    number("pool_segments", in->pool_segments);
    number("pool_bytes", in->pool_bytes);
    number("data_files", in->files);
    number("data_bytes", in->file_bytes);
    number("ring_bytes", in->ring_bytes);
    number("ring_disk_bytes", in->ring_disk_bytes);
    number("dict_used", in->meta->dict_used);
    number("dict_bytes", in->meta->dict_bytes);
    number("dict_full", in->meta->dict_full);
    number("dict_atoms", in->defs[KYMO_DICT_ATOM]);
    number("dict_functions", in->defs[KYMO_DICT_MFA]);
    number("dict_terms", in->defs[KYMO_DICT_TERM]);
    number("dict_processes", in->defs[KYMO_DICT_PROC]);
    number("io_errno", in->meta->io_errno);
    number("taken", in->meta->taken);
    number("missing_events", in->missing);
    fputs(",\"lost\":", stdout);
    loss_object(in->lost);
    const struct kymo_damage *d = in->damage;
    printf(",\"damage\":{\"segments_bad\":%" PRIu64, d->segments_bad);
    number("records_bad", d->records_bad);
    number("bytes_cut", d->bytes_cut);
    number("segments_moved", d->segments_moved);
    number("dict_bad", d->dict_bad);
    number("seq_gaps", d->seq_gaps);
    printf("},\"complete\":%s", in->intact ? "true" : "false");
}

static void threads(const struct cli_info *in)
{
    static const char *const kinds[] = {"other", "scheduler", "dirty_cpu", "dirty_io"};
    bool first = true;
    fputs(",\"threads\":[", stdout);
    for (uint32_t i = 0; i < in->n_slots; i++) {
        const struct kymo_slot *s = &in->slots[i];
        uint64_t lost[KYMO_LOSS_CAUSES];
        if (s->used == 0 && in->slot_events[i] + in->slot_incomplete[i] == 0)
            continue;
        memcpy(lost, s->lost, sizeof lost);
        lost[KYMO_LOST_IO] += s->io_lost;
        printf("%s{\"slot\":%" PRIu32, first ? "" : ",", i);
        first = false;
        string("kind", s->thread_kind < sizeof kinds / sizeof *kinds ? kinds[s->thread_kind] : "other");
        number("number", s->thread_no);
        string("name", s->thread_name);
        number("events", in->slot_events[i]);
        number("incomplete_events", in->slot_incomplete[i]);
        number("recorded", s->events);
        number("recorded_bytes", s->bytes);
        number("overwritten", s->overwritten);
        number("sampled_out", s->sampled_out);
        fputs(",\"lost\":", stdout);
        loss_object(lost);
        putchar('}');
    }
    putchar(']');
}

/* Ports have tags of their own here: "in" and "port_in". */
static void tags(const struct cli_info *in)
{
    bool first = true;
    fputs(",\"tags\":{", stdout);
    for (unsigned id = 0; id < KYMO_E_COUNT; id++) {
        char name[64];
        bool of_port = id >= KYMO_E_PORT_IN && id <= KYMO_E_PORT_OUT_EXITED;
        if (in->tags[id] == 0)
            continue;
        snprintf(name, sizeof name, "%s%s", of_port ? "port_" : "", kymo_event_name((uint8_t)id));
        printf("%s", first ? "" : ",");
        first = false;
        key(name);
        printf("%" PRIu64, in->tags[id]);
    }
    putchar('}');
}

static void processes(const struct cli_info *in)
{
    printf(",\"process_count\":%zu", in->processes.map.count);
    number("process_count_error", in->processes.error);
    fputs(",\"processes\":[", stdout);
    for (size_t i = 0; i < in->n_top_processes && !cli_output_lost(); i++) {
        const struct cli_count *c = &in->top_processes[i];
        char text[2200];
        uint32_t name, mfa;
        printf("%s{\"events\":%" PRIu64, i > 0 ? "," : "", c->count);
        kymo_format_ident(in->r, c->key, text, sizeof text);
        string("process", text);
        kymo_reader_process(in->r, c->key, &name, &mfa);
        if (name != 0) {
            kymo_format_atom(kymo_reader_atom(in->r, name), text, sizeof text);
            string("name", text);
        }
        if (mfa != 0) {
            kymo_format_mfa(in->r, mfa, text, sizeof text);
            string("initial_call", text);
        }
        putchar('}');
    }
    putchar(']');
}

static void functions(const struct cli_info *in)
{
    printf(",\"function_count\":%zu,\"functions\":[", in->n_functions);
    for (size_t i = 0; i < in->n_top_functions && !cli_output_lost(); i++) {
        const struct cli_count *c = &in->top_functions[i];
        char mfa[2200];
        printf("%s{\"calls\":%" PRIu64, i > 0 ? "," : "", c->count);
        kymo_format_mfa(in->r, (uint32_t)c->key, mfa, sizeof mfa);
        string("function", mfa);
        putchar('}');
    }
    putchar(']');
}

void cli_info_json(const struct cli_info *in)
{
    head(in);
    counters(in);
    threads(in);
    tags(in);
    processes(in);
    functions(in);
    fputs("}\n", stdout);
}
