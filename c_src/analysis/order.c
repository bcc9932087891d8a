/* SPDX-License-Identifier: Apache-2.0
 *
 * A radix sort, starting with the lowest digit. It makes one pass for each digit in which keys
 * differ: idents and times of a recording have most digits in common.
 */
#include "order.h"

#include <stdlib.h>
#include <string.h>

enum { DIGIT = 11, DIGITS = 1 << DIGIT };
enum { AHEAD = 8 };

static bool in_order(const struct kymo_order *keys, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (keys[i - 1].first > keys[i].first ||
            (keys[i - 1].first == keys[i].first && keys[i - 1].second > keys[i].second))
            return false;
    }
    return true;
}

static inline size_t digit(const struct kymo_order *key, bool first, unsigned shift)
{
    return (first ? key->first : key->second) >> shift & (DIGITS - 1);
}

/* One pass: distributes `from` to `to` by one digit. */
static void deal(const struct kymo_order *from, struct kymo_order *to, size_t n, bool first, unsigned shift)
{
    size_t place[DIGITS] = {0}, sum = 0;
    for (size_t i = 0; i < n; i++)
        place[digit(&from[i], first, shift)]++;
    for (size_t d = 0; d < DIGITS; d++) {
        size_t here = place[d];
        place[d] = sum;
        sum += here;
    }
    for (size_t i = 0; i < n; i++)
        to[place[digit(&from[i], first, shift)]++] = from[i];
}

/* The bits in which the keys differ. */
static uint64_t differences(const struct kymo_order *keys, size_t n, bool first)
{
    uint64_t bits = 0;
    for (size_t i = 1; i < n; i++)
        bits |= first ? keys[i].first ^ keys[0].first : keys[i].second ^ keys[0].second;
    return bits;
}

bool kymo_order_sort(struct kymo_order *keys, size_t n)
{
    if (in_order(keys, n))
        return true;
    struct kymo_order *other = malloc(n * sizeof *other), *from = keys, *to = other;
    if (other == NULL)
        return false;
    for (unsigned k = 0; k < 2; k++) {
        uint64_t bits = differences(keys, n, k == 1);
        for (unsigned shift = 0; shift < 64 && bits >> shift != 0;) {
            if ((bits >> shift & 1) == 0) {
                shift++;
                continue;
            }
            deal(from, to, n, k == 1, shift);
            struct kymo_order *swap = from;
            from = to;
            to = swap;
            shift += DIGIT;
        }
    }
    if (from != keys)
        memcpy(keys, from, n * sizeof *keys);
    free(other);
    return true;
}

void *kymo_order_apply(const struct kymo_order *keys, size_t n, const void *p, size_t size)
{
    uint8_t *to = malloc(n * size + 1);
    const uint8_t *from = p;
    for (size_t i = 0; to != NULL && i < n; i++) {
        /* Prefetches, because the elements are in random order. */
        if (i + AHEAD < n)
            __builtin_prefetch(from + keys[i + AHEAD].at * size);
        memcpy(to + i * size, from + keys[i].at * size, size);
    }
    return to;
}
