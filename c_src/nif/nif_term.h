/* SPDX-License-Identifier: Apache-2.0
 *
 * A bounded encoder for the external term format, which writes directly into the ring. Any
 * thread. It sends no messages, uses no process heap and allocates nothing: it reads the words
 * of a term (nif_boxed.h), and not more of them than it writes.
 */
#ifndef KYMO_NIF_TERM_H
#define KYMO_NIF_TERM_H

#include <stddef.h>

#include "nif_handle.h"

/* The size of the atom '...', which replaces everything that was left out. */
#define NIF_CUT_BYTES 5u
/* Terms nested deeper than this are left out: schedulers have small stacks. */
#define NIF_MAX_DEPTH 64u

/* Writes t, without the leading 131, in at most max bytes, which must be at least NIF_CUT_BYTES.
 * Returns the length. The result is always a complete external term. Parts that do not fit, and
 * terms whose layout is unknown, are replaced by '...'; binaries lose their end, long tuples
 * and maps their last elements. *cut is set if something was left out, and never cleared.
 * {'$fun', Text} is written for a local fun, because the size of its environment is not
 * bounded, and {'$record', Module, Name, #{Field => Value}} for a native record. */
size_t nif_term_encode(ErlNifEnv *env, const struct nif_handle *h, ERL_NIF_TERM t, uint8_t *out, size_t max,
                       bool *cut);

/* Hashes of bytes and of terms. A reference is hashed by its numbers, another term by as much of
 * its encoding as fits into 512 bytes. Hashes are equal on all nodes, except for maps with
 * several keys, whose order differs between nodes. They differ between runs of a node. */
uint64_t nif_hash_bytes(const uint8_t *bytes, size_t len);
/* The hash of a reference. Returns false if its layout is unknown. */
bool nif_ref_hash(ERL_NIF_TERM ref, uint64_t *hash);
uint64_t nif_term_hash(ErlNifEnv *env, const struct nif_handle *h, ERL_NIF_TERM t);

/* Writes the UTF-8 text of an atom. Returns its length, or 0 if it does not fit. */
#define NIF_ATOM_MAX 1024u
size_t nif_atom_text(ErlNifEnv *env, ERL_NIF_TERM atom, char out[static NIF_ATOM_MAX], bool *ok);

#endif
