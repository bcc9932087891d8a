/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo why --all: what all slow requests to a server have in common, compared with normal ones. One thread.
 */
#ifndef KYMO_CLI_WHY_ALL_H
#define KYMO_CLI_WHY_ALL_H

#include "analyse.h"

/* Compares for each of the a->top kinds of servers whose slow requests cost the most time, and prints it
 * as text or JSON. Reads the recording twice. Memory: 40 bytes for each request. Returns an exit status. */
int cli_why_all(struct cli_analysis *a);

#endif
