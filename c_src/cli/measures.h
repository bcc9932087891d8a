/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports what a recorder leaves undone because of faults of the runtime, so that what is not in the
 * recording is not taken for something that did not happen. Single-threaded.
 */
#ifndef KYMO_CLI_MEASURES_H
#define KYMO_CLI_MEASURES_H

#include "kymo_cli.h"

/* The lines of kymo info. */
void cli_measures_text(const struct kymo_meta *m);
/* Writes the JSON member "measures": an array. */
void cli_json_measures(const struct kymo_meta *m);
/* A sentence with what is not recorded and the release that has the fix, without a full stop; false if
 * nothing is missing because of a measure. */
bool cli_measures_phrase(const struct kymo_meta *m, char *buf, size_t size);

#endif
