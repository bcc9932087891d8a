/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of a function of two 64-bit integers in rounds.h. Compiled with -pg; only this function
 * is instrumented.
 */
#include "rounds.h"

void traced(uint64_t a, uint64_t b);

__attribute__((noinline)) void traced(uint64_t a, uint64_t b)
{
    __asm__ volatile("" : : "r"(a), "r"(b) : "memory");
}

__attribute__((noinline)) NOT_TRACED void run(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        OPAQUE(i);
        traced(i, i + 1);
    }
}

NOT_TRACED int main(void)
{
    (void)rounds();
    return 0;
}
