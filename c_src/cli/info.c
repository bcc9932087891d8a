/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo info: gathers struct cli_info in one pass over the events and from the
 * recorder's counters, then has it written.
 */
#include "info.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *cli_state_text(const struct kymo_reader *r)
{
    const struct kymo_meta *meta = kymo_reader_meta(r);
    static const char *const ended[] = {"closed",
                                        "closed: stopped",
                                        "closed: the owner of the recording died",
                                        "closed: the limit on bytes was reached",
                                        "closed: the limit on events was reached",
                                        "closed: the limit on duration was reached",
                                        "closed: the tracer was unloaded or the node halted",
                                        "closed: nothing referred to the recorder any more"};
    if (meta->snapshot != 0)
        return "snapshot";
    if (kymo_reader_crashed(r))
        return "never closed: the node died while recording";
    switch (meta->state) {
    case KYMO_ACTIVE: return "recording";
    case KYMO_PAUSED: return "paused";
    case KYMO_STOPPING: return "stopping";
    case KYMO_CLOSED: return meta->reason < sizeof ended / sizeof *ended ? ended[meta->reason] : ended[0];
    default: return kymo_state_name(meta->state);
    }
}

const char *cli_state_word(const struct kymo_reader *r)
{
    const struct kymo_meta *meta = kymo_reader_meta(r);
    if (meta->snapshot != 0)
        return "snapshot";
    return kymo_reader_crashed(r) ? "crashed" : kymo_state_name(meta->state);
}

static inline void count(struct cli_info *in, const struct kymo_event *ev, uint32_t n_ids)
{
    bool note = ev->id >= KYMO_E_FIRST_NOTE;
    if (ev->incomplete) {
        in->incomplete += !note;
        in->slot_incomplete[ev->slot] += !note;
        return;
    }
    in->by_event[ev->id]++;
    if (note) {
        cli_counters_add(&in->node, in->r, ev);
        return;
    }
    if (in->events++ == 0)
        in->first_ns = in->last_ns = ev->ns;
    if (ev->ns > in->last_ns)
        in->last_ns = ev->ns;
    in->slot_events[ev->slot]++;
    cli_tally_add(&in->processes, ev->who);
    if (ev->id == KYMO_E_CALL && ev->mfa <= n_ids)
        in->mfa_calls[ev->mfa]++;
}

struct cli_exact cli_info_exact(const struct cli_info *in)
{
    struct cli_exact exact = cli_exact_of(in->meta->exact);
    bool sampled = in->meta->sample > 1 && in->meta->sample_kind == 0; /* calls are missing */
    exact.taken = in->by_event[KYMO_E_TAKEN] != 0;
    exact.stops = exact.stops && in->by_event[KYMO_E_IN] != 0;
    exact.calls = exact.calls && in->by_event[KYMO_E_CALL] != 0 && !sampled;
    return exact;
}

static int collect(struct cli_info *in, bool quiet)
{
    struct kymo_event ev;
    struct cli_progress progress;
    uint32_t n_ids = kymo_reader_dict_size(in->r);
    uint64_t records = 0, done, total;
    int rc;
    cli_progress_start(&progress, "reading", quiet);
    kymo_reader_show_all(in->r, true);
    while ((rc = kymo_reader_next(in->r, &ev)) == 1) {
        if (++records % 16384 == 0) {
            kymo_reader_progress(in->r, &done, &total);
            cli_progress_show(&progress, done, total);
        }
        count(in, &ev, n_ids);
    }
    cli_progress_end(&progress);
    if (rc < 0)
        return cli_fail(cli_read_status(rc), "%s: reading stopped: %s", in->dir, strerror(-rc));
    return in->processes.failed ? cli_fail(KYMO_EXIT_MEMORY, "out of memory") : KYMO_EXIT_OK;
}

static void sum_counters(struct cli_info *in)
{
    for (uint32_t i = 0; i < in->n_slots; i++) {
        const struct kymo_slot *s = &in->slots[i];
        in->counted += s->events;
        in->bytes += s->bytes;
        in->sampled_out += s->sampled_out;
        in->overwritten += s->overwritten;
        for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++)
            in->lost[c] += kymo_slot_lost(s, c);
    }
    in->lost[KYMO_LOST_NO_SLOT] += in->meta->no_slot;
    for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++)
        in->lost_total += in->lost[c];
}

static void measure_files(struct cli_info *in)
{
    DIR *d = opendir(in->dir);
    if (d == NULL)
        return; /* removed since it was opened: sizes stay 0 */
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        struct stat st;
        int at = dirfd(d);
        if (at < 0 || fstatat(at, e->d_name, &st, 0) != 0 || !S_ISREG(st.st_mode))
            continue;
        if (strcmp(e->d_name, KYMO_RING_NAME) == 0) {
            in->ring_bytes = (uint64_t)st.st_size;
            in->ring_disk_bytes = (uint64_t)st.st_blocks * 512;
        } else if (strcmp(e->d_name, KYMO_DICT_NAME) == 0) {
            in->dict_bytes = (uint64_t)st.st_size;
        } else if (strncmp(e->d_name, "data.", 5) == 0) {
            in->files++;
            in->file_bytes += (uint64_t)st.st_size;
        }
    }
    closedir(d);
}

static void count_definitions(struct cli_info *in)
{
    for (uint32_t id = 1; id <= kymo_reader_dict_size(in->r); id++) {
        uint8_t kind = kymo_reader_dict_kind(in->r, id);
        if (kind == 0 || kind >= KYMO_DICT_KINDS)
            continue;
        in->defs[0]++;
        in->defs[kind]++;
    }
}

/* Adds up functions that were defined twice, and finds those with the most calls. */
static size_t top_functions(struct cli_info *in, size_t top)
{
    struct cli_tally t;
    cli_tally_init(&t);
    for (uint32_t id = 0; id <= kymo_reader_dict_size(in->r); id++) {
        uint64_t *sum =
            in->mfa_calls[id] == 0 ? NULL : kymo_map_put(&t.map, kymo_reader_canonical(in->r, id), NULL);
        if (sum != NULL)
            *sum += in->mfa_calls[id];
    }
    in->n_functions = t.map.count;
    size_t n = cli_tally_top(&t, in->top_functions, top);
    cli_tally_free(&t);
    return n;
}

static int fill(struct cli_info *in, size_t top, bool quiet)
{
    in->meta = kymo_reader_meta(in->r);
    in->slots = kymo_reader_slots(in->r, &in->n_slots);
    in->damage = kymo_reader_damage(in->r);
    in->has_firing = cli_firing_read(in->dir, &in->firing);
    in->state = cli_state_text(in->r);
    in->state_word = cli_state_word(in->r);
    kymo_reader_pool(in->r, &in->pool_segments, &in->pool_bytes);
    in->slot_events = calloc(in->n_slots, sizeof *in->slot_events);
    in->slot_incomplete = calloc(in->n_slots, sizeof *in->slot_incomplete);
    in->mfa_calls = calloc((size_t)kymo_reader_dict_size(in->r) + 1, sizeof *in->mfa_calls);
    in->top_processes = calloc(top + 1, sizeof *in->top_processes);
    in->top_functions = calloc(top + 1, sizeof *in->top_functions);
    if (in->slot_events == NULL || in->slot_incomplete == NULL || in->mfa_calls == NULL ||
        in->top_processes == NULL || in->top_functions == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    int status = collect(in, quiet);
    if (status != KYMO_EXIT_OK)
        return status;
    uint64_t ticks; /* a living recorder may have moved the horizon until now */
    bool has_horizon = kymo_reader_horizon(in->r, &ticks, &in->horizon_ns);
    sum_counters(in);
    measure_files(in);
    count_definitions(in);
    in->n_top_processes = cli_tally_top(&in->processes, in->top_processes, top);
    in->n_top_functions = top_functions(in, top);
    in->missing = kymo_reader_missing(in->r, in->events + in->incomplete);
    in->whole = !has_horizon && in->missing == 0;
    in->intact = in->missing == 0 && !cli_incomplete(in->r);
    return KYMO_EXIT_OK;
}

int cli_info(int argc, char **argv)
{
    enum { OPT_JSON = 1, OPT_TOP, OPT_QUIET, OPT_STRICT };
    static const struct option options[] = {{"json", no_argument, NULL, OPT_JSON},
                                            {"top", required_argument, NULL, OPT_TOP},
                                            {"quiet", no_argument, NULL, OPT_QUIET},
                                            {"strict", no_argument, NULL, OPT_STRICT},
                                            {NULL, 0, NULL, 0}};
    enum { MAX_TOP = 100000 };
    struct cli_info in = {.r = NULL};
    bool json = false, quiet = false, strict = false;
    uint64_t top = 10;
    int status = KYMO_EXIT_OK;
    for (int o; status == KYMO_EXIT_OK && (o = getopt_long(argc, argv, "n:q", options, NULL)) != -1;) {
        switch (o) {
        case OPT_JSON: json = true; break;
        case 'n':
        case OPT_TOP:
            if (!cli_parse_number(optarg, &top) || top > MAX_TOP)
                status = cli_usage("info", "--top: '%s' is not a number of at most %d", optarg, MAX_TOP);
            break;
        case 'q':
        case OPT_QUIET: quiet = true; break;
        case OPT_STRICT: strict = true; break;
        default: status = cli_bad_option("info");
        }
    }
    if (status == KYMO_EXIT_OK)
        status = cli_one_recording("info", argc - optind, argv + optind);
    if (status != KYMO_EXIT_OK)
        return status;
    in.dir = argv[optind];
    cli_tally_init(&in.processes);
    status = cli_open(in.dir, &in.r);
    if (status == KYMO_EXIT_OK)
        status = fill(&in, (size_t)top, quiet);
    if (status == KYMO_EXIT_OK) {
        if (json)
            cli_info_json(&in);
        else
            cli_info_text(&in);
        status = cli_flush(KYMO_EXIT_OK);
        if (status == KYMO_EXIT_OK && strict)
            status = cli_say_incomplete(in.r, true);
        if (status == KYMO_EXIT_OK && strict && in.missing != 0)
            status = cli_fail(KYMO_EXIT_INCOMPLETE, "incomplete: recorded events are missing");
    }
    kymo_reader_close(in.r);
    cli_tally_free(&in.processes);
    cli_counters_free(&in.node);
    free(in.slot_events);
    free(in.slot_incomplete);
    free(in.mfa_calls);
    free(in.top_processes);
    free(in.top_functions);
    return status;
}
