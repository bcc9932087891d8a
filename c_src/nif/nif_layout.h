/* SPDX-License-Identifier: Apache-2.0
 *
 * What the library knows of the words that terms are made of. An atom, a local
 * pid, a local port and a small integer are one word each, so they can be told
 * apart and recorded without a call into the runtime. All of it is checked at
 * load against the runtime that loads the library: the tags must be as below
 * or the load fails; the layout of pids and ports is found out, and where it is
 * not understood the slow path through the external term format is taken.
 */
#ifndef KYMO_NIF_LAYOUT_H
#define KYMO_NIF_LAYOUT_H

#include <erl_nif.h>
#include <stdbool.h>
#include <stdint.h>

_Static_assert(sizeof(ERL_NIF_TERM) == 8, "kymo needs a 64-bit runtime");

#define NIF_TAG_LIST 1u
#define NIF_TAG_BOXED 2u
#define NIF_TAG_IMMEDIATE 3u
#define NIF_TAG_PID 0x3u
#define NIF_TAG_PORT 0x7u
#define NIF_TAG_SMALL 0xfu
#define NIF_TAG_ATOM 0x0bu
#define NIF_NIL 0x3bu

struct nif_layout {
    bool pid_ok;           /* local pids are data << 4 | NIF_TAG_PID */
    unsigned pid_bits;     /* ... whose low bits are the number, the rest the serial */
    bool port_ok;          /* local ports are number << 4 | NIF_TAG_PORT */
    bool header_ok;        /* a boxed term starts with arity << 6 | kind */
    unsigned heap_bin;     /* kind of a binary whose bytes are in the term */
    unsigned refc_bin;     /* kind of a binary with its bytes elsewhere */
    uint32_t refc_words;   /* heap words of such a binary */
    uint32_t sub_words;    /* more words of a part of one */
    uint32_t fun_words;    /* the least that a fun takes */
    uint32_t empty_map_words;
};
extern struct nif_layout nif_layout;

/* Fills nif_layout. info is the load_info given by kymo_tracer.erl. 0, or a
 * number that says which check failed. Load time only. */
int nif_layout_init(ErlNifEnv *env, ERL_NIF_TERM info);

static inline bool nif_is_immediate(ERL_NIF_TERM t)
{
    return (t & 3u) == NIF_TAG_IMMEDIATE;
}
static inline bool nif_is_list_cell(ERL_NIF_TERM t)
{
    return (t & 3u) == NIF_TAG_LIST;
}
static inline bool nif_is_atom(ERL_NIF_TERM t)
{
    return (t & 0x3fu) == NIF_TAG_ATOM;
}
static inline bool nif_is_small(ERL_NIF_TERM t)
{
    return (t & 0xfu) == NIF_TAG_SMALL;
}
static inline bool nif_is_local_pid(ERL_NIF_TERM t)
{
    return (t & 0xfu) == NIF_TAG_PID;
}
static inline bool nif_is_local_port(ERL_NIF_TERM t)
{
    return (t & 0xfu) == NIF_TAG_PORT;
}
/* The value of a small integer. */
static inline int64_t nif_small(ERL_NIF_TERM t)
{
    return (int64_t)t >> 4;
}
/* Header word of a boxed term; only when nif_layout.header_ok. */
static inline uint64_t nif_header(ERL_NIF_TERM t)
{
    return *(const uint64_t *)(uintptr_t)(t & ~(ERL_NIF_TERM)7);
}
/* Heap words of a boxed term that holds no other terms. */
static inline uint32_t nif_header_words(uint64_t header)
{
    return (uint32_t)(header >> 6) + 1u;
}
static inline unsigned nif_header_kind(uint64_t header)
{
    return (unsigned)(header & 0x3fu);
}

#endif
