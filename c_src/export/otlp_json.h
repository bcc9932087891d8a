/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes lines of OTLP in JSON: ids in hex, 64-bit integers as strings, members in the order in
 * which the collector's file exporter writes them. A line is passed to the target when it is full,
 * so memory is bounded by KYMO_OTLP_LINE_BYTES and one span. The first error is kept, and later
 * calls do nothing. Single-threaded.
 */
#ifndef KYMO_OTLP_JSON_H
#define KYMO_OTLP_JSON_H

#include <stdbool.h>

#include "kymo_otlp.h"

/* Span kinds, with the numbers of the protocol. */
enum kymo_otlp_kind {
    KYMO_OTLP_INTERNAL = 1,
    KYMO_OTLP_SERVER = 2,
    KYMO_OTLP_CLIENT = 3,
    KYMO_OTLP_PRODUCER = 4,
    KYMO_OTLP_CONSUMER = 5
};

struct kymo_otlp_span {
    uint64_t trace[2], id, parent; /* parent 0 = none */
    const char *name;
    enum kymo_otlp_kind kind;
    int64_t start, end; /* ns since the Unix epoch */
    const char *error;  /* NULL = status not set; else a description of the error */
};

/* A value of a metric. */
struct kymo_otlp_point {
    int64_t start, time; /* ns since the Unix epoch */
    bool has_start;      /* the value belongs to a sum */
    uint64_t n;
    double divisor;  /* the value is n / divisor; 0: the value is n */
    const char *key; /* of its attribute, NULL = no attribute */
    const char *text;
    int64_t number; /* the attribute if text is NULL */
};

struct kymo_otlp_writer {
    const struct kymo_otlp_target *target;
    enum kymo_otlp_signal signal;
    char *buf;
    size_t n, room;
    size_t head;      /* size of the resource and scope with which each line begins */
    size_t items;     /* spans, or metric values, in the line */
    char section;     /* of the span being written: 'a'ttributes, 'e'vents, 'l'inks */
    bool first;       /* the next item is the first in that section, or in the list of the metric */
    uint64_t written; /* items */
    int error;
    char *err;
    size_t err_size;
};

/* After this call the functions for attributes (of the resource), then kymo_otlp_scope, then those
 * for spans or metrics. err must stay valid until kymo_otlp_writer_finish. */
void kymo_otlp_writer_init(struct kymo_otlp_writer *w, const struct kymo_otlp_target *target,
                           enum kymo_otlp_signal signal, char *err, size_t err_size);
void kymo_otlp_scope(struct kymo_otlp_writer *w, const char *version);
/* Passes the last line to the target. Returns 0 or the first error, with a message in w->err. */
int kymo_otlp_writer_finish(struct kymo_otlp_writer *w);
void kymo_otlp_writer_free(struct kymo_otlp_writer *w);

/* Write a span: begin, attributes, events, links, end; in this order. */
void kymo_otlp_span_begin(struct kymo_otlp_writer *w, const struct kymo_otlp_span *s);
void kymo_otlp_text(struct kymo_otlp_writer *w, const char *key, const char *text);
void kymo_otlp_int(struct kymo_otlp_writer *w, const char *key, int64_t n);
void kymo_otlp_bool(struct kymo_otlp_writer *w, const char *key, bool b);
void kymo_otlp_event(struct kymo_otlp_writer *w, int64_t unix_ns, const char *name);
/* Writes a link; `why` is the value of its attribute kymo.link. */
void kymo_otlp_link(struct kymo_otlp_writer *w, const uint64_t trace[2], uint64_t id, const char *why);
/* dropped: number of links that were left out. */
void kymo_otlp_span_end(struct kymo_otlp_writer *w, const struct kymo_otlp_span *s, size_t dropped);

/* Write a metric: begin, points, end. A line has each metric at most once, and is passed to the
 * target by kymo_otlp_metrics_line. */
void kymo_otlp_metric_begin(struct kymo_otlp_writer *w, const char *name, const char *unit, bool sum);
void kymo_otlp_point(struct kymo_otlp_writer *w, const struct kymo_otlp_point *p);
void kymo_otlp_metric_end(struct kymo_otlp_writer *w, bool sum);
void kymo_otlp_metrics_line(struct kymo_otlp_writer *w);

#endif
