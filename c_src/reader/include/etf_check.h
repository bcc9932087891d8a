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

/* Length of the term at p, which has no 131 in front, or 0 when it is not a
 * whole and valid term of at most n bytes. Compressed terms and distribution
 * headers are not terms in this sense. */
size_t kymo_etf_length(const uint8_t *p, size_t n);
/* Whether p is one term of n bytes that the recorded runtime or a later one can
 * decode, wherever it runs: as above, no map has a key twice, and pids, ports and
 * references of the recorded node are such as it may have. */
bool kymo_etf_readable(const struct kymo_meta *meta, const uint8_t *p, size_t n);
bool kymo_etf_may_be_pid(const struct kymo_meta *meta, uint64_t number, uint64_t serial);
bool kymo_etf_may_be_port(const struct kymo_meta *meta, uint64_t number);
/* Number of characters of a text, or -1 when it is not UTF-8 as Erlang takes it. */
int kymo_etf_chars(const uint8_t *s, size_t len);

#endif
