/* SPDX-License-Identifier: Apache-2.0
 *
 * Terms into bytes: a bounded encoder of the external term format that writes
 * straight into the ring. Any thread; no message, no process heap, no memory:
 * what a term holds is read from its words (nif_boxed.h), and of that no more than
 * what is written.
 */
#ifndef KYMO_NIF_TERM_H
#define KYMO_NIF_TERM_H

#include <stddef.h>

#include "nif_handle.h"

/* What stands for everything that was left out: the atom '...'. */
#define NIF_CUT_BYTES 5u
/* Terms nested deeper than this are left out: schedulers have small stacks. */
#define NIF_MAX_DEPTH 64u

/* Writes t without the leading 131, in at most max bytes, at least
 * NIF_CUT_BYTES. Returns the length; always a whole external term. *cut is set
 * when something was left out and never cleared: parts of a term that do not
 * fit are replaced by '...', binaries lose their end, long tuples and maps
 * their last elements. So is a kind of term whose layout is not known. Funs are
 * not encoded, since what they hold is not bounded: {'$fun', Text} stands for a
 * local one. {'$record', Module, Name, #{Field => Value}} stands for a native
 * record. */
size_t nif_term_encode(ErlNifEnv *env, const struct nif_handle *h, ERL_NIF_TERM t, uint8_t *out, size_t max,
                       bool *cut);

/* Numbers that are the same for the same bytes, and for the same term: of a reference
 * from its node and its numbers, of another term from what of it fits into 512 bytes.
 * Not the same in another run of the node. */
uint64_t nif_hash_bytes(const uint8_t *bytes, size_t len);
/* The same of a reference alone: false when its layout is not understood. */
bool nif_ref_hash(ERL_NIF_TERM ref, uint64_t *hash);
uint64_t nif_term_hash(ErlNifEnv *env, const struct nif_handle *h, ERL_NIF_TERM t);

/* The UTF-8 text of an atom; 0 when it has none that fits. */
#define NIF_ATOM_MAX 1024u
size_t nif_atom_text(ErlNifEnv *env, ERL_NIF_TERM atom, char out[static NIF_ATOM_MAX], bool *ok);

#endif
