/* SPDX-License-Identifier: Apache-2.0
 *
 * An LTTng-UST tracepoint in rounds.h.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_provider.h"

#include "rounds.h"

__attribute__((noinline)) void run(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        OPAQUE(i);
        lttng_ust_tracepoint(kymo_bench, two_words, i, i + 1);
    }
}

int main(void)
{
    (void)rounds();
    return 0;
}
