/* SPDX-License-Identifier: Apache-2.0
 *
 * The size of a message. */
#ifndef KYMO_NIF_SIZE_H
#define KYMO_NIF_SIZE_H

#include <erl_nif.h>
#include <stdint.h>

/* The heap words of t, as erts_debug:flat_size/1, from visiting at most `limit` terms.
 * KYMO_SIZE_MORE is set if the size may be larger: the limit was reached, or t contains a fun,
 * whose environment is not visited, or a term whose layout is unknown. Any thread; only reads
 * words, and allocates nothing. */
uint32_t nif_size_words(ERL_NIF_TERM t, uint32_t limit);

#endif
