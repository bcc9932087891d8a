/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of OTLP in JSON: ids in hex, 64-bit integers as strings, members in the order in
 * which the collector's file exporter writes them. A line is handed to the target when it is
 * full, so memory is bounded by KYMO_OTLP_LINE_BYTES and one span. The first error sticks:
 * later calls do nothing. Single threaded.
 */
#ifndef KYMO_OTLP_JSON_H
#define KYMO_OTLP_JSON_H

#include <stdbool.h>

#include "kymo_otlp.h"

/* As in the protocol. */
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
    const char *error;  /* NULL = status not set; else what went wrong, in words */
};

struct kymo_otlp_writer {
    const struct kymo_otlp_target *target;
    char *buf;
    size_t n, room;
    size_t head; /* bytes of the resource and scope, which each line begins with */
    size_t spans;
    char section;     /* of the span that is written: 'a'ttributes, 'e'vents, 'l'inks */
    bool first;       /* in that section */
    uint64_t written; /* spans */
    int error;
    char *err;
    size_t err_size;
};

/* Begins with the attributes of the resource: call the functions for attributes, then
 * kymo_otlp_scope, then spans. err is used until the end. */
void kymo_otlp_writer_init(struct kymo_otlp_writer *w, const struct kymo_otlp_target *target, char *err,
                           size_t err_size);
void kymo_otlp_scope(struct kymo_otlp_writer *w, const char *version);
/* Hands over what is left. 0 or the error; w->err says it in words. */
int kymo_otlp_writer_finish(struct kymo_otlp_writer *w);
void kymo_otlp_writer_free(struct kymo_otlp_writer *w);

/* A span: begin, attributes, events, links, end; in this order. */
void kymo_otlp_span_begin(struct kymo_otlp_writer *w, const struct kymo_otlp_span *s);
void kymo_otlp_text(struct kymo_otlp_writer *w, const char *key, const char *text);
void kymo_otlp_int(struct kymo_otlp_writer *w, const char *key, int64_t n);
void kymo_otlp_bool(struct kymo_otlp_writer *w, const char *key, bool b);
void kymo_otlp_event(struct kymo_otlp_writer *w, int64_t unix_ns, const char *name);
/* `why` becomes the attribute kymo.link. */
void kymo_otlp_link(struct kymo_otlp_writer *w, const uint64_t trace[2], uint64_t id, const char *why);
/* dropped: links that were left out. */
void kymo_otlp_span_end(struct kymo_otlp_writer *w, const struct kymo_otlp_span *s, size_t dropped);

#endif
