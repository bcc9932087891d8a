/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks external terms of a recording, before they are printed or put into a
 * file that others decode. Pure functions, any thread.
 */
#ifndef KYMO_ETF_CHECK_H
#define KYMO_ETF_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kymo_format.h"

/* The length of the term at p, without the leading 131; 0 if it is not a complete and valid term
 * of at most n bytes. Compressed terms and distribution headers are not accepted. */
size_t kymo_etf_length(const uint8_t *p, size_t n);
/* True if p is one term of n bytes that the recorded runtime or a later one can decode anywhere:
 * it is valid as above, no map has equal keys, and pids, ports and references of the recorded
 * node have allowed values. */
bool kymo_etf_readable(const struct kymo_meta *meta, const uint8_t *p, size_t n);
bool kymo_etf_may_be_pid(const struct kymo_meta *meta, uint64_t number, uint64_t serial);
bool kymo_etf_may_be_port(const struct kymo_meta *meta, uint64_t number);
/* The number of characters of a text, or -1 if it is not UTF-8 as Erlang accepts it. */
int kymo_etf_chars(const uint8_t *s, size_t len);

#endif
