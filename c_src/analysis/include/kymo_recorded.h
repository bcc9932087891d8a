/* SPDX-License-Identifier: Apache-2.0
 *
 * The time for which the calls of a function were recorded: without the stretches in which a budget
 * had shed the function, or calls in general. For a single recording. One thread.
 */
#ifndef KYMO_RECORDED_H
#define KYMO_RECORDED_H

#include "kymo_reader.h"

/* Private. */
struct kymo_recorded {
    struct kymo_recorded_stretch *calls;     /* in which calls were shed: in order, apart */
    struct kymo_recorded_stretch *functions; /* in which functions were shed: by function, in order */
    size_t n_calls, n_functions;
    int64_t first, last;
};

/* For the time from `first` to `last`, CLOCK_MONOTONIC. Takes n log n steps for n stretches. Returns
 * 0 or -ENOMEM; call kymo_recorded_free in both cases. */
int kymo_recorded_init(struct kymo_recorded *x, const struct kymo_reader *r, int64_t first, int64_t last);
/* In ns. mfa: a canonical id. Takes log n steps for each stretch of the function. */
int64_t kymo_recorded_ns(const struct kymo_recorded *x, uint32_t mfa);
void kymo_recorded_free(struct kymo_recorded *x);

#endif
