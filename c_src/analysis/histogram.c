/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_histogram.h"

#include <stdlib.h>
#include <string.h>

#include "kymo_analysis.h"

enum { BITS = 5, SUB = KYMO_HISTOGRAM_SUB };
_Static_assert(SUB == 1 << BITS, "buckets of a power of two");

static unsigned bucket_of(int64_t ns)
{
    uint64_t v = ns < 0 ? 0 : (uint64_t)ns;
    if (v < SUB)
        return (unsigned)v;
    unsigned shift = 63u - (unsigned)__builtin_clzll(v) - BITS;
    return (shift + 1) * SUB + (unsigned)((v >> shift) - SUB);
}

int64_t kymo_histogram_value(unsigned bucket)
{
    if (bucket < SUB)
        return bucket;
    unsigned shift = bucket / SUB - 1;
    uint64_t low = (uint64_t)(SUB + bucket % SUB) << shift;
    return (int64_t)(low + ((UINT64_C(1) << shift) >> 1));
}

/* Makes room for the bucket. */
static bool reach(struct kymo_histogram *h, unsigned bucket)
{
    if (h->n != NULL && bucket >= h->first && bucket < (unsigned)h->first + h->count)
        return true;
    unsigned first = h->n == NULL || bucket < h->first ? bucket : h->first;
    unsigned end =
        h->n == NULL || bucket >= (unsigned)h->first + h->count ? bucket + 1 : (unsigned)h->first + h->count;
    uint32_t *more = calloc(end - first, sizeof *more);
    if (more == NULL)
        return false;
    if (h->n != NULL)
        memcpy(more + (h->first - first), h->n, h->count * sizeof *more);
    free(h->n);
    h->n = more;
    h->first = (uint16_t)first;
    h->count = (uint16_t)(end - first);
    return true;
}

bool kymo_histogram_add(struct kymo_histogram *h, int64_t ns)
{
    unsigned bucket = bucket_of(ns);
    if (!reach(h, bucket))
        return false;
    if (h->n[bucket - h->first] < UINT32_MAX)
        h->n[bucket - h->first]++;
    h->total++;
    if (ns > h->max)
        h->max = ns;
    return true;
}

int64_t kymo_histogram_quantile(const struct kymo_histogram *h, double q)
{
    if (h->total == 0)
        return KYMO_NO_TIME;
    double wanted = q * (double)h->total, seen = 0;
    for (unsigned i = 0; i < h->count; i++) {
        seen += (double)h->n[i];
        if (seen >= wanted && seen > 0) {
            int64_t v = kymo_histogram_value(h->first + i);
            return v < h->max ? v : h->max;
        }
    }
    return h->max;
}

void kymo_histogram_free(struct kymo_histogram *h)
{
    free(h->n);
    memset(h, 0, sizeof *h);
}
