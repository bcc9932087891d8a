/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds Erlang terms in the external format.
 *
 * The functions append to a buffer (struct kymo_pb, which remembers a failed allocation). Sizes are
 * those of OTP 25 and later.
 */
#ifndef KYMO_ETF_WRITE_H
#define KYMO_ETF_WRITE_H

#include "etf_check.h"
#include "protobuf.h"

#define KYMO_ETF_VERSION 131

/* Text that is not a valid atom (invalid UTF-8 or more than 255 characters) becomes '?'. */
void kymo_etf_atom(struct kymo_pb *b, const char *s, size_t len);
void kymo_etf_atom_z(struct kymo_pb *b, const char *s);
void kymo_etf_uint(struct kymo_pb *b, uint64_t v);
void kymo_etf_int(struct kymo_pb *b, int64_t v);
/* The elements must follow. */
void kymo_etf_tuple(struct kymo_pb *b, unsigned arity);
/* The elements and a tail (kymo_etf_nil) must follow. */
void kymo_etf_list(struct kymo_pb *b, uint32_t n);
void kymo_etf_nil(struct kymo_pb *b);
/* A local pid or port of this node. */
void kymo_etf_pid(struct kymo_pb *b, const struct kymo_meta *meta, uint32_t number, uint32_t serial);
void kymo_etf_port(struct kymo_pb *b, const struct kymo_meta *meta, uint64_t number);
/* Appends an encoded term, without the version byte 131; check it with kymo_etf_length first. */
void kymo_etf_raw(struct kymo_pb *b, const uint8_t *p, size_t n);

#endif
