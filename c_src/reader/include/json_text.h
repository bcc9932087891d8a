/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings of JSON, for all that writes it. Pure functions.
 */
#ifndef KYMO_JSON_TEXT_H
#define KYMO_JSON_TEXT_H

#include <stddef.h>

/* Gives `put` the pieces of n bytes of text as a JSON string, quotes included. Bytes that
 * are not UTF-8 become U+FFFD. */
void kymo_json_string(void (*put)(void *arg, const void *bytes, size_t n), void *arg, const char *text,
                      size_t n);

#endif
