/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports the node's counters, and the number of reports of its system monitor, as OpenTelemetry
 * metrics: levels are gauges, and counters that only increase are cumulative monotonic sums. A sink
 * of the second pass. Single-threaded. Memory: KYMO_OTLP_POINTS values per node.
 */
#ifndef KYMO_OTLP_METRICS_H
#define KYMO_OTLP_METRICS_H

#include "kymo_analysis.h"
#include "kymo_map.h"
#include "otlp_json.h"

struct kymo_otlp_metrics_node; /* otlp_metrics.c */

struct kymo_otlp_metrics {
    const struct kymo_reader *r;
    struct kymo_otlp_writer *writers; /* of metrics, by node */
    struct kymo_otlp_metrics_node *nodes;
    uint32_t n;
    struct kymo_map sums; /* node, counter and index -> the sequence of its values */
    uint64_t points;
    bool failed; /* no memory */
};

/* writers: an array of n, one per node. Returns 0 or -ENOMEM; call kymo_otlp_metrics_free in both
 * cases. */
int kymo_otlp_metrics_init(struct kymo_otlp_metrics *x, const struct kymo_reader *r,
                           struct kymo_otlp_writer *writers, uint32_t n);
void kymo_otlp_metrics_free(struct kymo_otlp_metrics *x);
struct kymo_analysis_sink kymo_otlp_metrics_sink(struct kymo_otlp_metrics *x);
/* Writes the remaining values. Must be called before the writers are finished. */
void kymo_otlp_metrics_finish(struct kymo_otlp_metrics *x);

#endif
