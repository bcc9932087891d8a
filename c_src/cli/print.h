/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two forms of kymo print have in common. One thread.
 */
#ifndef KYMO_CLI_PRINT_H
#define KYMO_CLI_PRINT_H

#include "kymo_cli.h"

/* What the content and the atom of an event are called. */
const char *cli_content_key(uint8_t id);
const char *cli_atom_key(uint8_t id);

/* One event as a line of JSON. */
void cli_print_json(const struct kymo_reader *r, const struct kymo_slot *slots, const struct kymo_event *ev);

#endif
