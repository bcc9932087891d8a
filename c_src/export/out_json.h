/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes JSON to an output file. Single-threaded.
 */
#ifndef KYMO_OUT_JSON_H
#define KYMO_OUT_JSON_H

#include "outfile.h"

/* Writes n bytes of UTF-8 as a quoted string; bytes that are not valid UTF-8 become U+FFFD. */
void kymo_out_json_string(struct kymo_out *out, const char *text, size_t n);

#endif
