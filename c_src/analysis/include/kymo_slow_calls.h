/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells which of the calls that the runtime has reported as slow (KYMO_E_SLOW) are to be shown: those
 * of functions whose calls are not recorded, because a recorded call is shown itself.
 *
 * For one thread. Functions are given by their canonical ids.
 */
#ifndef KYMO_SLOW_CALLS_H
#define KYMO_SLOW_CALLS_H

#include "kymo_analysis.h"
#include "kymo_map.h"

struct kymo_slow_calls {
    struct kymo_map called; /* a function whose calls are recorded -> nothing */
};

static inline void kymo_slow_calls_init(struct kymo_slow_calls *s)
{
    kymo_map_init(&s->called, 0);
}

static inline void kymo_slow_calls_free(struct kymo_slow_calls *s)
{
    kymo_map_free(&s->called);
}

/* A call of the function is recorded. Returns false if out of memory. */
static inline bool kymo_slow_calls_called(struct kymo_slow_calls *s, uint32_t mfa)
{
    return kymo_map_get(&s->called, mfa) != NULL || kymo_map_put(&s->called, mfa, NULL) != NULL;
}

/* Returns whether this slow call of the function is to be shown, and in *start when it began. */
static inline bool kymo_slow_calls_shows(const struct kymo_slow_calls *s, const struct kymo_event *ev,
                                         uint32_t mfa, int64_t *start)
{
    return kymo_map_get(&s->called, mfa) == NULL && kymo_slow_start(ev, start);
}

#endif
