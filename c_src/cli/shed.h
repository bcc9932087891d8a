/* SPDX-License-Identifier: Apache-2.0
 *
 * What a budget has kept out of the recording, for those who would otherwise take it for
 * something that did not happen. What ended before the horizon is left out: nothing of
 * that time is shown.
 */
#ifndef KYMO_CLI_SHED_H
#define KYMO_CLI_SHED_H

#include "kymo_cli.h"

/* Whether there is anything. */
bool cli_shed_any(const struct kymo_reader *r);
/* "calls of lists:seq/2 and 3 more functions, messages"; empty when there is nothing. */
void cli_shed_phrase(const struct kymo_reader *r, char *buf, size_t size);
/* The lines of kymo info. */
void cli_shed_text(const struct kymo_reader *r);
/* The member "budget" of a JSON object: null, or what it is and what was shed. */
void cli_json_budget(const struct kymo_reader *r);

#endif
