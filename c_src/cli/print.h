/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the text and JSON forms of kymo print. One thread.
 */
#ifndef KYMO_CLI_PRINT_H
#define KYMO_CLI_PRINT_H

#include "kymo_cli.h"

/* The keys of an event's content and atom. */
const char *cli_content_key(uint8_t id);
const char *cli_atom_key(uint8_t id);

/* One event as a line of JSON. */
void cli_print_json(const struct kymo_reader *r, const struct kymo_slot *slots, const struct kymo_event *ev);

#endif
