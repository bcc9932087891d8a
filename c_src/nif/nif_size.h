/* SPDX-License-Identifier: Apache-2.0
 *
 * How large is a message? */
#ifndef KYMO_NIF_SIZE_H
#define KYMO_NIF_SIZE_H

#include <erl_nif.h>
#include <stdint.h>

/* The heap words that t takes, as erts_debug:flat_size/1, found by visiting at
 * most limit terms; KYMO_SIZE_MORE is set when it may be more than that: the
 * limit was reached, or t holds a fun, whose environment is not visited, or a
 * term whose layout is not known. Any thread; reads words only, so it takes no
 * memory and copies nothing. */
uint32_t nif_size_words(ERL_NIF_TERM t, uint32_t limit);

#endif
