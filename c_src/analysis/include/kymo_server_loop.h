/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions in which servers wait for their next message. Pure.
 */
#ifndef KYMO_SERVER_LOOP_H
#define KYMO_SERVER_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "kymo_reader.h"

/* Whether this function is the loop of a server behaviour. False if it is unknown (0). A process that
 * is scheduled out there is waiting for any message, or is about to look for one. */
bool kymo_is_server_loop(const struct kymo_reader *r, uint32_t mfa);

#endif
