/* SPDX-License-Identifier: Apache-2.0
 *
 * The main loop of the programs of bench/native_run, which makes them take turns: reads numbers
 * from stdin, calls run() with each, and prints the thread's processor time in nanoseconds.
 * Returns at the end of the input with the sum of the numbers.
 */
#ifndef ROUNDS_H
#define ROUNDS_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define NOT_TRACED __attribute__((no_instrument_function))

/* Records n events. Not static and not inlined: callgrind counts in this function. */
void run(uint64_t n);

/* Keeps the compiler from merging the iterations of the loop in run(). */
#define OPAQUE(i) __asm__ volatile("" : "+r"(i) : : "memory")

static inline NOT_TRACED uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline NOT_TRACED uint64_t rounds(void)
{
    uint64_t n, sum = 0;

    while (scanf("%" SCNu64, &n) == 1) {
        uint64_t begin = cpu_ns();

        run(n);
        printf("%" PRIu64 "\n", cpu_ns() - begin);
        (void)fflush(stdout);
        sum += n;
    }
    return sum;
}

#endif
