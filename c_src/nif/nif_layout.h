/* SPDX-License-Identifier: Apache-2.0
 *
 * The representation of terms. An atom, a local pid, a local port and a small integer are
 * one word each, so they can be recognised and recorded without a call into the runtime.
 * This is checked when a runtime loads the library: the tags must be those below, or the
 * load fails. The layout of pids and ports is determined at load; if it is unknown, they are
 * converted through the external term format, which is slower. nif_boxed.h has the layout of
 * boxed terms.
 */
#ifndef KYMO_NIF_LAYOUT_H
#define KYMO_NIF_LAYOUT_H

#include <erl_nif.h>
#include <stdbool.h>
#include <stdint.h>

#define NIF_LIKELY(x) __builtin_expect(!!(x), 1)
#define NIF_UNLIKELY(x) __builtin_expect(!!(x), 0)
/* For functions on rare paths. */
#define NIF_RARE __attribute__((noinline, cold))

_Static_assert(sizeof(ERL_NIF_TERM) == 8, "kymo needs a 64-bit runtime");

#define NIF_TAG_LIST 1u
#define NIF_TAG_BOXED 2u
#define NIF_TAG_IMMEDIATE 3u
#define NIF_TAG_PID 0x3u
#define NIF_TAG_PORT 0x7u
#define NIF_TAG_SMALL 0xfu
#define NIF_TAG_ATOM 0x0bu
#define NIF_NIL 0x3bu
#define NIF_NO_KIND 0x40u

/* How the words of local pids and ports contain their data, above the tag. Since OTP 26 the low
 * bits are an index into a table of the runtime, in which neighbours are on different cache
 * lines: the low bits of the data, rotated. How many bits and how far depends on the size of
 * the table (+P, +Q). On older releases the low bits are the data, and the bits above them the
 * index, which can be computed from the data. */
struct nif_rotation {
    bool ok;             /* false if the layout is unknown */
    uint8_t right, left; /* the sum is how many low bits are rotated */
    uint64_t mask;       /* these low bits */
    uint64_t keep;       /* the bits that are not rotated */
};

/* What every event needs is in one cache line. */
struct nif_layout {
    struct nif_rotation pid;
    unsigned pid_bits; /* the low bits of a pid are its number, the rest the serial */
    bool pid_plain;    /* pid.ok, and the data are those of an ident */
    bool header_ok;    /* tuples, lists and the headers of boxed terms are as below */
    bool map_ok;       /* small maps are as below */
    uint64_t map_header;
    /* Header kinds of the most frequent binaries: with the bytes in the term, and with the bytes
     * elsewhere (and its heap words). NIF_NO_KIND if unknown. */
    unsigned heap_bin, refc_bin;
    uint32_t refc_words;
    struct nif_rotation port;
    uint32_t fun_words; /* the minimum size of a fun */
    uint32_t empty_map_words;
    int64_t units_per_sec; /* the native unit of time */
} __attribute__((aligned(64)));
extern struct nif_layout nif_layout;

/* Fills in nif_layout. info is the load_info from kymo_tracer.erl. Returns 0, or a number that
 * identifies the check that failed. During load only. */
int nif_layout_init(ErlNifEnv *env, ERL_NIF_TERM info);

/* A duration of the native unit in nanoseconds; -1 if that is too large. */
int64_t nif_layout_ns(int64_t units);

/* True if the layout of all terms is known, so that no event needs a slow path for its terms. */
static inline bool nif_layout_known(void)
{
    return nif_layout.pid.ok && nif_layout.port.ok && nif_layout.header_ok && nif_layout.map_ok;
}

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
static inline uint64_t nif_rotate(ERL_NIF_TERM t, const struct nif_rotation *r)
{
    uint64_t word = t >> 4;
    uint64_t low = word & r->mask;
    return (word & r->keep) | low >> r->right | (low << r->left & r->mask);
}
/* Only when nif_layout.pid.ok; number below serial, see pid_bits. */
static inline uint64_t nif_pid_data(ERL_NIF_TERM pid)
{
    return nif_rotate(pid, &nif_layout.pid);
}
static inline uint32_t nif_pid_number(uint64_t data)
{
    return (uint32_t)(data & ((1u << nif_layout.pid_bits) - 1u));
}
static inline uint64_t nif_pid_serial(uint64_t data)
{
    return data >> nif_layout.pid_bits;
}
/* Only when nif_layout.port.ok. */
static inline uint64_t nif_port_number(ERL_NIF_TERM port)
{
    return nif_rotate(port, &nif_layout.port);
}
/* The value of a small integer. */
static inline int64_t nif_small(ERL_NIF_TERM t)
{
    return (int64_t)t >> 4;
}
/* The words of a list cell or a boxed term. On some runtimes the third bit of a pointer marks
 * literals. */
static inline const ERL_NIF_TERM *nif_words(ERL_NIF_TERM t)
{
    return (const ERL_NIF_TERM *)(uintptr_t)(t & ~(ERL_NIF_TERM)7);
}
/* The following functions require nif_layout.header_ok. A boxed term starts with the header
 * arity << 6 | kind. A tuple has kind 0, and its elements follow. A list cell is head and tail. */
static inline uint64_t nif_header(ERL_NIF_TERM t)
{
    return *nif_words(t);
}
/* The elements of a tuple of this arity; NULL if t is something else. */
static inline const ERL_NIF_TERM *nif_tuple(ERL_NIF_TERM t, unsigned arity)
{
    return (t & 3u) == NIF_TAG_BOXED && nif_header(t) == (uint64_t)arity << 6 ? nif_words(t) + 1 : NULL;
}
/* True if t is a map of n keys. Requires nif_layout.map_ok. A small map is a header, the number
 * of keys, the tuple of its keys, and its values. */
static inline bool nif_map_has(ERL_NIF_TERM t, uint64_t n)
{
    return (t & 3u) == NIF_TAG_BOXED && nif_header(t) == nif_layout.map_header && nif_words(t)[1] == n;
}
/* The value in a map with only this key; else 0. */
static inline ERL_NIF_TERM nif_map_one(ERL_NIF_TERM map, ERL_NIF_TERM key)
{
    return nif_map_has(map, 1) && nif_words(nif_words(map)[2])[1] == key ? nif_words(map)[3] : 0;
}
/* The heap words of a boxed term that contains no other terms. */
static inline uint32_t nif_header_words(uint64_t header)
{
    return (uint32_t)(header >> 6) + 1u;
}
static inline unsigned nif_header_kind(uint64_t header)
{
    return (unsigned)(header & 0x3fu);
}

#endif
