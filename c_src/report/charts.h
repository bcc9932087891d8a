/* SPDX-License-Identifier: Apache-2.0
 *
 * The node's counters over time, and the reports of its system monitor. Single-threaded.
 */
#ifndef KYMO_REPORT_CHARTS_H
#define KYMO_REPORT_CHARTS_H

#include "analyse.h"
#include "kymo_gauges.h"

/* Number of equal parts of the recording, as for the lanes; maximum number of reports in the page. */
enum { CHART_PARTS = 480, CHART_REPORTS = 500 };

struct report_chart;

struct report_charts {
    struct cli_analysis *a;
    struct kymo_gauges gauges;
    struct kymo_map lines;         /* node << 32 | counter << 16 | index -> struct report_chart * */
    struct kymo_event *reports;    /* the first n_reports records `system_monitor` */
    size_t n_reports, all_reports; /* number kept, and of all */
    int64_t first, last;
    bool failed; /* out of memory */
};

/* first, last: times of the recording (CLOCK_MONOTONIC). Never fails; call report_charts_free
 * afterwards. */
void report_charts_init(struct report_charts *c, struct cli_analysis *a, int64_t first, int64_t last);
void report_charts_free(struct report_charts *c);
struct kymo_analysis_sink report_charts_sink(struct report_charts *c);
/* JSON: an object with `lines` and `reports`. A line has the mean of a counter in each part, null if
 * the part has no sample, and the lowest, mean, highest and last of its values; sums are shown as
 * rates per second. Returns 0 or an exit status. */
int report_charts_json(struct report_charts *c, const char *key);

#endif
