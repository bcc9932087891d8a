/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports what a budget has shed, so that missing events are not taken for events that did not
 * happen. Stretches that ended before the horizon are omitted, as no events of that time are
 * shown.
 */
#ifndef KYMO_CLI_SHED_H
#define KYMO_CLI_SHED_H

#include "kymo_cli.h"

/* True if anything was shed. */
bool cli_shed_any(const struct kymo_reader *r);
/* A phrase such as "calls of lists:seq/2 from 1.5 s on, messages for a while"; empty if nothing
 * was shed. */
void cli_shed_phrase(const struct kymo_reader *r, char *buf, size_t size);
/* The lines of kymo info. */
void cli_shed_text(const struct kymo_reader *r);
/* Writes the JSON member "budget": null, or the budget and what was shed. */
void cli_json_budget(const struct kymo_reader *r);

#endif
