/* SPDX-License-Identifier: Apache-2.0
 *
 * Brings many large elements in order: their keys are sorted, then each element is copied
 * once. Pure functions.
 */
#ifndef KYMO_ORDER_H
#define KYMO_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* By what element number `at` is ordered. */
struct kymo_order {
    uint64_t first, second;
    uint64_t at;
};

/* A signed key as one that is compared without a sign. */
static inline uint64_t kymo_order_signed(int64_t key)
{
    return (uint64_t)key ^ (UINT64_C(1) << 63);
}

/* Sorts n keys by first and second; equal ones stay as they are. False: no memory. */
bool kymo_order_sort(struct kymo_order *keys, size_t n);
/* A new array of the n elements of `size` bytes at p, in the order of the keys. NULL: no
 * memory. */
void *kymo_order_apply(const struct kymo_order *keys, size_t n, const void *p, size_t size);

#endif
