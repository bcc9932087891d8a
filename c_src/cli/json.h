/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes JSON to standard output or another stream. Commas are inserted automatically. key is
 * NULL for elements of arrays. One document at a time.
 */
#ifndef KYMO_CLI_JSON_H
#define KYMO_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "kymo_histogram.h"
#include <stdio.h>

/* Writes to this stream from now on; NULL = standard output. Also where
 * cli_json_string (kymo_cli.h) writes. */
void cli_json_to(FILE *f);
FILE *cli_json_stream(void);
/* A key alone; the next call writes its value, with a NULL key. */
void cli_json_key(const char *key);
/* bracket is '{' or '['; the end takes '}' or ']'. */
void cli_json_open(const char *key, char bracket);
void cli_json_close(char bracket);
/* Members of an object that are JSON already, with commas between them. */
void cli_json_members(const char *members);
void cli_json_text(const char *key, const char *text);
void cli_json_int(const char *key, int64_t n);
void cli_json_uint(const char *key, uint64_t n);
/* A finite number. */
void cli_json_double(const char *key, double d);
void cli_json_bool(const char *key, bool b);
void cli_json_null(const char *key);
/* A time or duration in nanoseconds; null for KYMO_NO_TIME. */
void cli_json_ns(const char *key, int64_t ns);
/* [[ns, n], ...]: n durations of about ns (within 10 %); empty ones are left out. */
void cli_json_histogram(const char *key, const struct kymo_histogram *h);
/* Ends the document, or a line of JSON Lines. */
void cli_json_end(void);

#endif
