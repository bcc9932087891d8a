/* SPDX-License-Identifier: Apache-2.0
 *
 * The second pass: converts facts of the analysis to spans. Single-threaded.
 */
#ifndef KYMO_OTLP_SPANS_H
#define KYMO_OTLP_SPANS_H

#include "kymo_naming.h"
#include "kymo_slow_calls.h"
#include "otlp_chains.h"
#include "otlp_json.h"

struct kymo_otlp_spans {
    struct kymo_reader *r;
    struct kymo_otlp_chains *chains; /* linked */
    struct kymo_naming *naming;
    struct kymo_otlp_writer *writers; /* by node */
    struct kymo_otlp_writer *w;       /* of the node of the span being written */
    struct kymo_map open; /* id of a span of the analysis -> struct kymo_otlp_open (otlp_spans.c) */
    struct kymo_slow_calls slow;
    int64_t newest; /* time of the newest event */
    uint64_t requests, traces;
    bool failed; /* no memory */
};

void kymo_otlp_spans_init(struct kymo_otlp_spans *x, struct kymo_reader *r, struct kymo_otlp_chains *chains,
                          struct kymo_naming *naming, struct kymo_otlp_writer *writers);
void kymo_otlp_spans_free(struct kymo_otlp_spans *x);
/* The sink for the second pass, which must have the same window as the first. */
struct kymo_analysis_sink kymo_otlp_spans_sink(struct kymo_otlp_spans *x);

#endif
