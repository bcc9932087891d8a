/* SPDX-License-Identifier: Apache-2.0
 *
 * What `kymo info` finds out, apart from how it is shown: info.c fills it,
 * info_text.c and info_json.c write it.
 */
#ifndef KYMO_CLI_INFO_H
#define KYMO_CLI_INFO_H

#include "kymo_cli.h"

struct cli_info {
    struct kymo_reader *r;
    const char *dir;
    const struct kymo_meta *meta;
    const struct kymo_slot *slots;
    uint32_t n_slots;
    const struct kymo_damage *damage;

    /* Read from the segments. */
    uint64_t events;             /* without notes */
    uint64_t tags[KYMO_E_COUNT]; /* by event id */
    uint64_t *slot_events;       /* by slot */
    int64_t first_ns, last_ns;   /* valid when events != 0 */
    struct cli_tally processes;  /* by ident */
    uint64_t *mfa_calls;         /* by dictionary id; canonical ids after reading */
    struct cli_count *top_processes, *top_functions;
    size_t n_top_processes, n_top_functions;
    size_t n_functions; /* that were called */

    /* Sums over the counters of the recorder. */
    uint64_t counted, bytes, sampled_out, overwritten;
    uint64_t lost[KYMO_LOSS_CAUSES];
    uint64_t lost_total;

    /* Sizes of the files. */
    uint64_t files, file_bytes, ring_bytes, ring_disk_bytes, dict_bytes;
    /* Definitions by enum kymo_dict_kind; [0] counts all. */
    uint64_t defs[KYMO_DICT_PROC + 1];
};

/* "closed: stopped", "the node died while recording", ... */
const char *cli_info_state(const struct cli_info *in);
/* A word for machines: closed, snapshot, crashed, or the state's name. */
const char *cli_info_state_word(const struct cli_info *in);

void cli_info_text(const struct cli_info *in);
void cli_info_json(const struct cli_info *in);

#endif
