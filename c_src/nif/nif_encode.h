/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the two parts of the encoder: nif_term.c for terms that contain others, nif_leaf.c
 * for terms that do not. The functions work for one encoding in its own thread. They never
 * write beyond `end', never call the runtime for a binary, a bitstring or a reference, and
 * allocate nothing.
 *
 * A term is encoded in at most two passes. The first one leaves nothing out, and ends with
 * false at the first term that does not fit. The second one reserves room for '...' for
 * everything that follows, so at least NIF_CUT_BYTES are always free; it replaces what does
 * not fit by '...', and always returns true. */
#ifndef KYMO_NIF_ENCODE_H
#define KYMO_NIF_ENCODE_H

#include "nif_boxed.h"
#include "nif_term.h"

/* Tags of the external term format. */
enum {
    NIF_ETF_NEW_FLOAT = 70,
    NIF_ETF_BIT_BINARY = 77,
    NIF_ETF_NEW_PID = 88,
    NIF_ETF_NEW_PORT = 89,
    NIF_ETF_NEWER_REF = 90,
    NIF_ETF_SMALL_INTEGER = 97,
    NIF_ETF_INTEGER = 98,
    NIF_ETF_SMALL_TUPLE = 104,
    NIF_ETF_LARGE_TUPLE = 105,
    NIF_ETF_NIL = 106,
    NIF_ETF_STRING = 107,
    NIF_ETF_LIST = 108,
    NIF_ETF_BINARY = 109,
    NIF_ETF_SMALL_BIG = 110,
    NIF_ETF_LARGE_BIG = 111,
    NIF_ETF_EXPORT = 113,
    NIF_ETF_MAP = 116,
    NIF_ETF_ATOM_UTF8 = 118,
    NIF_ETF_SMALL_ATOM_UTF8 = 119,
    NIF_ETF_V4_PORT = 120,
    NIF_ETF_VERSION = 131
};

struct nif_enc {
    ErlNifEnv *env;
    const struct nif_handle *h;
    uint8_t *p;
    bool cutting; /* the second pass */
    bool cut;     /* something was left out */
};

static inline size_t nif_room(const struct nif_enc *e, const uint8_t *end)
{
    return (size_t)(end - e->p);
}

static inline uint8_t *nif_be32(uint8_t *p, uint64_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
    return p + 4;
}

/* To be called for a term that does not fit: fails in the first pass, writes '...' in the
 * second. */
bool nif_put_cut(struct nif_enc *e, const uint8_t *end);
/* As nif_put_cut, but for a term that is left out in both passes, whatever the room. */
bool nif_put_left_out(struct nif_enc *e, const uint8_t *end);

bool nif_put_bytes(struct nif_enc *e, const uint8_t *end, const uint8_t *bytes, size_t len);
bool nif_put_atom(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t);
bool nif_put_small(struct nif_enc *e, const uint8_t *end, int64_t v);
bool nif_put_local_pid(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t);
bool nif_put_local_port(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t);
/* Writes a boxed term that contains no other terms; leaves out other kinds. */
bool nif_put_leaf(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t);

#endif
