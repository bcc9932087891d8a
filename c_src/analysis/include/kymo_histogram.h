/* SPDX-License-Identifier: Apache-2.0
 *
 * Durations by number, for quantiles: each bucket is 1/32 of a power of two wide, so
 * that what comes out is within 1.6 % of what went in. Memory: 4 bytes for each bucket
 * between the smallest and the largest duration, at most 7.5 KiB. One thread.
 */
#ifndef KYMO_HISTOGRAM_H
#define KYMO_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

/* Buckets of each power of two. */
#define KYMO_HISTOGRAM_SUB 32u

struct kymo_histogram {
    uint32_t *n;           /* by bucket, from `first` on; NULL = empty */
    uint16_t first, count; /* buckets */
    uint64_t total;
    int64_t max;
};

/* All zero bytes are an empty histogram. False: no memory, nothing added. ns >= 0. */
bool kymo_histogram_add(struct kymo_histogram *h, int64_t ns);
/* The duration that q (0 to 1) of all do not exceed, the largest for 1. KYMO_NO_TIME
 * when it is empty. */
int64_t kymo_histogram_quantile(const struct kymo_histogram *h, double q);
/* The duration that bucket `bucket` (from `first` on) stands for. */
int64_t kymo_histogram_value(unsigned bucket);
void kymo_histogram_free(struct kymo_histogram *h);

#endif
