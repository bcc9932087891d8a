/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of JSON into an output file. Single threaded.
 */
#ifndef KYMO_OUT_JSON_H
#define KYMO_OUT_JSON_H

#include "outfile.h"

/* A string of n bytes of UTF-8, quotes included; bytes that are no UTF-8 become U+FFFD. */
void kymo_out_json_string(struct kymo_out *out, const char *text, size_t n);

#endif
