/* SPDX-License-Identifier: Apache-2.0
 *
 * Events shed by a budget, for the exporters: the spans of time in which events were shed, and a
 * description as text. Single-threaded.
 */
#ifndef KYMO_SHED_SPANS_H
#define KYMO_SHED_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kymo_reader.h"

struct kymo_shed_span {
    int64_t from, to; /* CLOCK_MONOTONIC; to: INT64_MAX = the end of the recording */
};

/* Iterates over the spans of one recording of a timeline (0 for a single recording) in order of
 * time. Within a span the same functions and kinds of events are shed; between spans nothing is. */
struct kymo_shed_walk {
    const struct kymo_reader *r;
    uint32_t recording;
    int64_t *times; /* sorted times at which this changes */
    size_t n, next;
};

/* Returns 0 or -ENOMEM; call kymo_shed_walk_free in both cases. The reader must outlive it. */
int kymo_shed_walk_init(struct kymo_shed_walk *w, const struct kymo_reader *r, uint32_t recording);
/* Returns false if there are no more. */
bool kymo_shed_walk_next(struct kymo_shed_walk *w, struct kymo_shed_span *span);
void kymo_shed_walk_free(struct kymo_shed_walk *w);

/* Describes what was shed at any time in [from, to): "lists:seq/2, lists:map/2 and 40 more functions,
 * messages". The text is shortened to fit; size must be at least 256. Returns the number of functions
 * and kinds of events; if it is 0, buf is "". */
size_t kymo_shed_text(const struct kymo_reader *r, uint32_t recording, int64_t from, int64_t to, char *buf,
                      size_t size);

#endif
