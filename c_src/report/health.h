/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes the recording and what is missing from it. Single-threaded.
 */
#ifndef KYMO_REPORT_HEALTH_H
#define KYMO_REPORT_HEALTH_H

#include "analyse.h"

/* JSON: an object with the node, the state, the horizon, losses by cause, damage. */
void report_health_json(const struct cli_analysis *a, const char *key, const char *dir);

#endif
