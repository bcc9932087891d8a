/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the longest of many stretches of time: the longest of all, and for each part of the
 * recording the longest that begin in it, so that there are some in every part at any zoom level.
 * Fixed memory. Single-threaded.
 */
#ifndef KYMO_REPORT_LARGEST_H
#define KYMO_REPORT_LARGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct report_stretch {
    uint64_t id; /* distinguishes entries with the same start */
    int64_t start, end;
    int64_t middle[2];       /* of requests: handled, replied; of collections: words before, after */
    uint64_t process, other; /* idents */
    uint32_t mfa, depth;
};

struct report_heap {
    struct report_stretch *item; /* shortest first */
    uint32_t n, room;
};

/* Keeps the `room` longest stretches. Returns false if there is no memory. The caller frees item. */
bool report_heap_init(struct report_heap *h, uint32_t room);
void report_heap_add(struct report_heap *h, const struct report_stretch *s);
/* Sorts the stretches, the longest first. None can be added afterwards. */
void report_heap_sort(struct report_heap *h);

struct report_largest {
    struct report_heap all;
    struct report_heap *part;
    struct report_stretch *items; /* of all parts */
    uint32_t parts;
    int64_t first, last;
    uint64_t seen;
};

/* Keeps the `most` longest of all, and the `each` longest of each of `parts` parts between first and
 * last. Returns false if there is no memory; call report_largest_free in both cases. */
bool report_largest_init(struct report_largest *l, uint32_t most, uint32_t parts, uint32_t each,
                         int64_t first, int64_t last);
void report_largest_free(struct report_largest *l);
void report_largest_add(struct report_largest *l, const struct report_stretch *s);
/* Returns the kept stretches, each once, in order of start, or NULL if there is no memory. The caller
 * frees the list. */
struct report_stretch *report_largest_list(const struct report_largest *l, size_t *n);

#endif
