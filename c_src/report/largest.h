/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the longest of many stretches of time: the longest of all, and of each part of
 * the recording the longest that begin there, so that every part has some however far one
 * zooms in. Fixed memory. One thread.
 */
#ifndef KYMO_REPORT_LARGEST_H
#define KYMO_REPORT_LARGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct report_stretch {
    uint64_t id; /* tells one from another that begins at the same time */
    int64_t start, end;
    int64_t middle[2];       /* of requests: handled, replied; of collections: words before, after */
    uint64_t process, other; /* idents */
    uint32_t mfa, depth;
};

struct report_heap {
    struct report_stretch *item; /* the shortest first */
    uint32_t n, room;
};

struct report_largest {
    struct report_heap all;
    struct report_heap *part;
    struct report_stretch *items; /* of all parts */
    uint32_t parts;
    int64_t first, last;
    uint64_t seen;
};

/* `most` of all and `each` of each of `parts` between the times. False: no memory. Free in
 * both cases. */
bool report_largest_init(struct report_largest *l, uint32_t most, uint32_t parts, uint32_t each,
                         int64_t first, int64_t last);
void report_largest_free(struct report_largest *l);
void report_largest_add(struct report_largest *l, const struct report_stretch *s);
/* What is kept, each once, in order of start. The caller frees it. NULL: no memory. */
struct report_stretch *report_largest_list(const struct report_largest *l, size_t *n);

#endif
