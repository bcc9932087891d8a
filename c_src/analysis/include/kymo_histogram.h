/* SPDX-License-Identifier: Apache-2.0
 *
 * A histogram of durations, for quantiles. Each bucket is 1/32 of a power of two wide, so results
 * are within 1.6 % of the real values. Memory: 4 bytes for each bucket between the smallest and
 * the largest duration, at most 7.5 KiB. Single-threaded.
 */
#ifndef KYMO_HISTOGRAM_H
#define KYMO_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

/* Buckets of each power of two. */
#define KYMO_HISTOGRAM_SUB 32u

struct kymo_histogram {
    uint32_t *n;           /* number of durations by bucket, from `first` on; NULL = empty */
    uint16_t first, count; /* buckets */
    uint64_t total;
    int64_t max;
};

/* An empty histogram is all zero bytes. ns >= 0. Returns false if there is no memory; nothing is
 * added then. */
bool kymo_histogram_add(struct kymo_histogram *h, int64_t ns);
/* The quantile q (0 to 1): the duration that this part of all durations does not exceed; for 1, the
 * largest. KYMO_NO_TIME if the histogram is empty. */
int64_t kymo_histogram_quantile(const struct kymo_histogram *h, double q);
/* The duration that represents bucket `bucket` (from `first` on). */
int64_t kymo_histogram_value(unsigned bucket);
void kymo_histogram_free(struct kymo_histogram *h);

#endif
