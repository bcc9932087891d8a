/* SPDX-License-Identifier: Apache-2.0
 *
 * The activity of each process and thread over time. The recording is divided into LANE_PARTS equal
 * parts; for each part a lane has the shares of time in which the process was scheduled in, in calls,
 * and in collections. Single-threaded.
 *
 * Memory: LANES_MAX processes of 5 KiB. If there are more, those with the least activity so far are
 * merged into one lane of others.
 */
#ifndef KYMO_REPORT_LANES_H
#define KYMO_REPORT_LANES_H

#include "names.h"

enum { LANE_PARTS = 480 };

/* Lanes count nanoseconds of these in each part. */
enum report_activity { LANE_RUNNING, LANE_CALLS, LANE_GC, LANE_KINDS };
struct report_lane {
    uint64_t ident; /* KYMO_IDENT_NONE: the others */
    double sum[LANE_KINDS];
    uint64_t runs;
    bool wanted; /* always shown, even with little activity */
    bool own;    /* of kymo: only among the others; set by report_lanes_choose */
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
    /* After report_lanes_choose: the lanes to show, busiest first. */
    struct report_lane **shown;
    size_t n_shown;
    struct kymo_map number; /* ident -> uint32_t, the place in shown */
};

/* Returns false if there is no memory; call report_lanes_free in both cases. */
bool report_lanes_init(struct report_lanes *l, const struct cli_analysis *a, int64_t first, int64_t last);
void report_lanes_free(struct report_lanes *l);
void report_lanes_run(struct report_lanes *l, const struct kymo_run *run);
/* Outermost calls only. */
void report_lanes_call(struct report_lanes *l, const struct kymo_span *s);
void report_lanes_collection(struct report_lanes *l, const struct kymo_collection *c);
/* The process always gets a lane. */
void report_lanes_want(struct report_lanes *l, uint64_t ident);
/* Chooses the busiest `most` lanes and the wanted ones; the others, and kymo's own, become one lane.
 * Returns false if there is no memory. */
bool report_lanes_choose(struct report_lanes *l, size_t most);
/* The index of the lane of a process among those shown, or -1. */
int64_t report_lane_of(const struct report_lanes *l, uint64_t ident);
/* JSON members "lanes" and "threads". Shares are strings of LANE_PARTS base64 digits (A is none, / is
 * all of the time); null if the recording does not contain the events. */
void report_lanes_json(const struct report_lanes *l);

#endif
