/* SPDX-License-Identifier: Apache-2.0
 *
 * How busy each process and each thread was over time: the recording is cut into
 * LANE_PARTS equal parts, and each has the share of it that the process was scheduled in,
 * in calls, and in collections. One thread.
 *
 * Memory: LANES_MAX processes of 5 KiB. When there are more, those with the least
 * activity so far become part of one lane of others.
 */
#ifndef KYMO_REPORT_LANES_H
#define KYMO_REPORT_LANES_H

#include "names.h"

enum { LANE_PARTS = 480 };

/* Nanoseconds in each part. */
enum report_activity { LANE_RUNNING, LANE_CALLS, LANE_GC, LANE_KINDS };
struct report_lane {
    uint64_t ident; /* KYMO_IDENT_NONE: the others */
    double sum[LANE_KINDS];
    uint64_t runs;
    bool wanted; /* shown however little it did */
    float part[LANE_KINDS][LANE_PARTS];
};

struct report_lanes {
    const struct cli_analysis *a;
    int64_t first, last;       /* of the recording */
    struct kymo_map processes; /* ident -> struct report_lane * */
    struct report_lane *others;
    struct report_lane *threads; /* by slot */
    uint32_t n_threads;
    uint64_t n_others; /* processes in `others` */
    bool failed;       /* out of memory */
    /* After report_lanes_choose: the lanes to show, the busiest first. */
    struct report_lane **shown;
    size_t n_shown;
    struct kymo_map number; /* ident -> uint32_t, the place in shown */
};

/* False: no memory. Free in both cases. */
bool report_lanes_init(struct report_lanes *l, const struct cli_analysis *a, int64_t first, int64_t last);
void report_lanes_free(struct report_lanes *l);
void report_lanes_run(struct report_lanes *l, const struct kymo_run *run);
/* Outermost calls only. */
void report_lanes_call(struct report_lanes *l, const struct kymo_span *s);
void report_lanes_collection(struct report_lanes *l, const struct kymo_collection *c);
/* The process gets a lane in any case. */
void report_lanes_want(struct report_lanes *l, uint64_t ident);
/* The busiest `most` and those that are wanted; the others become one lane. False: no
 * memory. */
bool report_lanes_choose(struct report_lanes *l, size_t most);
/* The place of a process among those shown, or -1. */
int64_t report_lane_of(const struct report_lanes *l, uint64_t ident);
/* JSON members "lanes" and "threads". Shares are texts of LANE_PARTS digits of base 64
 * (A is nothing, / is all of the time); null where the recording doesn't say. */
void report_lanes_json(const struct report_lanes *l);

#endif
