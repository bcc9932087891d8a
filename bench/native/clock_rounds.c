/* SPDX-License-Identifier: Apache-2.0
 *
 * clock_rounds counter|monotonic|none: reads a clock, or nothing, in rounds.h.
 */
#include <string.h>

#include "kymo_writer.h"
#include "rounds.h"

static enum { NONE, COUNTER, MONOTONIC } clock_read;

__attribute__((noinline)) void run(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t now = 0;

        OPAQUE(i);
        if (clock_read == COUNTER)
            now = kymo_counter();
        else if (clock_read == MONOTONIC)
            now = kymo_clock_mono();
        __asm__ volatile("" : : "r"(now));
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    clock_read = strcmp(argv[1], "counter") == 0     ? COUNTER
                 : strcmp(argv[1], "monotonic") == 0 ? MONOTONIC
                                                     : NONE;
    (void)rounds();
    return 0;
}
