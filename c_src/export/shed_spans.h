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

/* The end of a stretch: its index. */
struct kymo_shed_end {
    int64_t ns;
    size_t stretch;
};

/* Iterates over the spans of one recording of a timeline (0 for a single recording) in order of
 * time. Within a span the same functions and kinds of events are shed; between spans nothing is. */
struct kymo_shed_walk {
    /* Private. */
    const struct kymo_reader *r;
    struct kymo_shed_stretch *stretches; /* by their begin */
    struct kymo_shed_end *ends;          /* in order of time */
    size_t n, next_begin, next_end;
    size_t first, last;          /* stretches of the present span */
    size_t shed[KYMO_KINDS + 1]; /* their number, by kind */
};

/* Takes n log n steps for n stretches, as do all calls of kymo_shed_walk_next. Returns 0 or -ENOMEM;
 * call kymo_shed_walk_free in both cases. The reader must outlive it. */
int kymo_shed_walk_init(struct kymo_shed_walk *w, const struct kymo_reader *r, uint32_t recording);
/* Returns false if there are no more. */
bool kymo_shed_walk_next(struct kymo_shed_walk *w, struct kymo_shed_span *span);
void kymo_shed_walk_free(struct kymo_shed_walk *w);

/* Describes what was shed in the span that kymo_shed_walk_next has returned last: "lists:seq/2,
 * lists:map/2 and 40 more functions, messages". The text is shortened to fit; size must be at least
 * 256. Returns the number of functions and kinds of events; if it is 0, buf is "". */
size_t kymo_shed_walk_text(const struct kymo_shed_walk *w, char *buf, size_t size);
/* The same for everything that was shed at any time in one recording. */
size_t kymo_shed_text(const struct kymo_reader *r, uint32_t recording, char *buf, size_t size);

#endif
