/* SPDX-License-Identifier: Apache-2.0
 *
 * What a recorder left undone because of faults of the runtime (struct kymo_meta.measures). Pure functions;
 * any thread.
 */
#ifndef KYMO_MEASURES_H
#define KYMO_MEASURES_H

#include <stdbool.h>
#include <stddef.h>

#include "kymo_format.h"

struct kymo_measure {
    char name[64], fixed_in[32], left_out[400]; /* cut to the room there is; "" = none */
};

/* Reads the measure at *at, which is 0 at first, and moves to the next one. False at the end, and if the
 * rest is damaged. */
bool kymo_measure_next(const struct kymo_meta *m, size_t *at, struct kymo_measure *out);
/* Whether the measure with this name was in force. */
bool kymo_measured(const struct kymo_meta *m, const char *name);

#endif
