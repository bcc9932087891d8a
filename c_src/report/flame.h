/* SPDX-License-Identifier: Apache-2.0
 *
 * The flame graph: time by call stack, aggregated while reading. Each role or each process is a
 * root; the frames are its traced calls and its collections. The own times of all nodes of a
 * function add up to the time that kymo stats shows. Single-threaded.
 *
 * Memory: FLAME_NODES nodes of 48 bytes. If there is no room for a node, its time counts for the
 * caller.
 */
#ifndef KYMO_REPORT_FLAME_H
#define KYMO_REPORT_FLAME_H

#include "names.h"

struct report_flame {
    const struct cli_analysis *a;
    bool by_role;
    struct report_node *nodes; /* [0] is the root of all */
    uint32_t n, room;
    struct kymo_map children;  /* parent << 32 | key -> uint32_t */
    struct kymo_map roots;     /* role or ident -> its node and an ident */
    struct kymo_map processes; /* ident -> struct report_stack * */
    struct report_stack *last;
    uint64_t last_ident;
    bool failed; /* out of memory */
};

/* Returns 0 or an exit status; call report_flame_free in both cases. */
int report_flame_init(struct report_flame *f, const struct cli_analysis *a, bool by_role);
void report_flame_free(struct report_flame *f);
struct kymo_analysis_sink report_flame_sink(struct report_flame *f);
/* JSON: columns parent (-1 for roots), name, self (ns), running (the part of self in which the
 * process was scheduled in, as far as it is known) and calls, parents before their children. The
 * `most` nodes with the largest totals are kept. The others are summed up in one node with the name
 * -1 below each kept parent. Returns 0 or an exit status. */
int report_flame_json(struct report_flame *f, const char *key, uint32_t most, struct report_names *names);

#endif
