/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorts many large elements: sorts their keys, then copies each element once. Pure functions.
 */
#ifndef KYMO_ORDER_H
#define KYMO_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The sort key of element number `at`. */
struct kymo_order {
    uint64_t first, second;
    uint64_t at;
};

/* Converts a signed key to one for unsigned comparison. */
static inline uint64_t kymo_order_signed(int64_t key)
{
    return (uint64_t)key ^ (UINT64_C(1) << 63);
}

/* Sorts n keys by first and second; stable. Returns false if out of memory. */
bool kymo_order_sort(struct kymo_order *keys, size_t n);
/* Returns a new array of the n elements of `size` bytes at p, in the order of the keys; NULL if out
 * of memory. */
void *kymo_order_apply(const struct kymo_order *keys, size_t n, const void *p, size_t size);

#endif
