/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two halves of the encoder share: nif_term.c walks terms that hold others,
 * nif_leaf.c writes those that do not. All functions are called by one encoding
 * only, in its thread. They never write beyond `end', never ask the runtime for a
 * binary, a bitstring or a reference, and allocate nothing.
 *
 * An encoding is done twice at most. In the first pass nothing is left out, and a
 * term that does not fit ends the pass: false. In the second, room for '...' is
 * kept for all that is still to come, so at least NIF_CUT_BYTES are free and what
 * does not fit is replaced by it: always true. */
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

/* The answer to "this does not fit". */
bool nif_put_cut(struct nif_enc *e, const uint8_t *end);
/* As nif_put_cut, but for what is left out of any pass: it is no question of room. */
bool nif_put_left_out(struct nif_enc *e, const uint8_t *end);

bool nif_put_bytes(struct nif_enc *e, const uint8_t *end, const uint8_t *bytes, size_t len);
bool nif_put_atom(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t);
bool nif_put_small(struct nif_enc *e, const uint8_t *end, int64_t v);
bool nif_put_local_pid(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t);
bool nif_put_local_port(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t);
/* A boxed term that holds no others; those of a kind that does are left out. */
bool nif_put_leaf(struct nif_enc *e, const uint8_t *end, ERL_NIF_TERM t);

#endif
