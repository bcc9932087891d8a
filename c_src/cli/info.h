/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of `kymo info`. info.c fills it in; info_text.c and info_json.c print it, and only
 * look up names in addition.
 */
#ifndef KYMO_CLI_INFO_H
#define KYMO_CLI_INFO_H

#include "counters.h"
#include "firing.h"
#include "kymo_cli.h"

struct cli_info {
    struct kymo_reader *r;
    const char *dir;
    const struct kymo_meta *meta;
    const struct kymo_slot *slots;
    uint32_t n_slots;
    const struct kymo_damage *damage;
    const char *state;      /* as text: "closed: stopped", ... */
    const char *state_word; /* in JSON: closed, snapshot, crashed, or the state's name */
    bool intact;            /* --strict finds nothing incomplete */
    bool has_firing;
    struct cli_firing firing; /* of the trigger that this snapshot was taken for */

    /* The time from which the recording is complete. */
    bool whole;         /* from its start, and no recorded event is missing */
    int64_t horizon_ns; /* that time; the start if whole */

    /* Read from the segments: events from the horizon on, without notes. */
    uint64_t events;
    uint64_t by_event[KYMO_E_COUNT]; /* by event id; notes too */
    uint64_t *slot_events;           /* by slot */
    int64_t first_ns, last_ns;       /* valid when events != 0 */
    struct cli_counters node;        /* the node's counters */
    /* Events before the horizon that are still there. */
    uint64_t incomplete;
    uint64_t *slot_incomplete;  /* by slot */
    struct cli_tally processes; /* by ident */
    uint64_t *mfa_calls;        /* by dictionary id; canonical ids after reading */
    struct cli_count *top_processes, *top_functions;
    size_t n_top_processes, n_top_functions;
    size_t n_functions; /* that were called */

    /* Sums over the counters of the recorder. */
    uint64_t counted, bytes, sampled_out, overwritten;
    uint64_t lost[KYMO_LOSS_CAUSES];
    uint64_t lost_total;
    /* Events that were recorded, neither overwritten nor removed, but cannot be found. */
    uint64_t missing;

    /* The pool, and the sizes of the files. */
    uint64_t pool_segments, pool_bytes; /* in use */
    uint64_t files, file_bytes, ring_bytes, ring_disk_bytes, dict_bytes;
    /* Definitions by enum kymo_dict_kind; [0] counts all. */
    uint64_t defs[KYMO_DICT_KINDS];
};

/* The time before the last event for which the recording is complete. */
static inline int64_t cli_info_complete_ns(const struct cli_info *in)
{
    return in->events == 0 ? 0 : (int64_t)((uint64_t)in->last_ns - (uint64_t)in->horizon_ns);
}

/* The state of a recording and how it ended, for people and for programs (info.c). */
const char *cli_state_text(const struct kymo_reader *r);
const char *cli_state_word(const struct kymo_reader *r);

/* What is exact in this recording (info.c). */
struct cli_exact cli_info_exact(const struct cli_info *in);

void cli_info_text(const struct cli_info *in);
void cli_info_json(const struct cli_info *in);
/* The member "damage" of a JSON object (info_json.c). */
void cli_json_damage(const struct kymo_damage *d);

#endif
