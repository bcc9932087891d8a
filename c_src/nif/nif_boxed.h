/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the words of boxed terms without calling the runtime. The time that the runtime's
 * functions take is not bounded: they copy binaries that begin at a bit offset, end the append
 * optimisation of a binary that is being built, and allocate for the external format of a
 * reference. And they abort if asked for the type of a term that the NIF interface does not
 * know.
 *
 * The layout is determined at load from samples, and verified. Terms whose layout is not
 * recognised are NIF_UNKNOWN: their contents are left out, and their size counts as "more".
 * Any thread; nothing here allocates, locks or fails. The words of a term may be read only
 * while the runtime keeps it, that is during the callback to which it was passed.
 */
#ifndef KYMO_NIF_BOXED_H
#define KYMO_NIF_BOXED_H

#include <string.h>

#include "nif_layout.h"

enum nif_kind {
    NIF_UNKNOWN,
    NIF_TUPLE,
    NIF_BIG_POSITIVE,
    NIF_BIG_NEGATIVE,
    NIF_FLOAT,
    NIF_REF,
    NIF_FUN,
    NIF_MAP,
    NIF_RECORD,    /* a native record, since OTP 29 */
    NIF_HEAP_BITS, /* a binary or bitstring whose bytes are in the term */
    NIF_REFC_BITS, /* until OTP 26: a whole binary whose bytes are elsewhere */
    NIF_SUB_BITS,  /* a part of another one; since OTP 27 also a whole binary as NIF_REFC_BITS */
    NIF_EXTERNAL_PID,
    NIF_EXTERNAL_PORT,
    NIF_EXTERNAL_REF
};

struct nif_boxed {
    uint8_t kinds[16]; /* enum nif_kind of the 16 kinds of headers */
    /* Since OTP 27 sizes are in bits, and a part of a bitstring has the address of the bytes. */
    bool counts_bits;
    uint64_t binary_bytes;             /* offset of the bytes in the runtime's binary object */
    uint32_t magic_numbers;            /* offset of a reference's numbers in its object; 0: unknown */
    uint64_t ref_header, alias_header; /* 0: unknown */
    uint32_t alias_numbers;            /* 3 or NIF_REF_NUMBERS */
    uint32_t node_name;                /* word of a node's name in its entry, before its creation */
    uint32_t export_mfa;               /* word of the module in an export entry; 0: unknown */
};
extern struct nif_boxed nif_boxed;

/* Samples made by kymo_tracer.erl for nif_boxed_init. */
struct nif_samples {
    ERL_NIF_TERM large;  /* 1000 bytes: N rem 251 */
    ERL_NIF_TERM offset; /* all but the first 3 bits of it */
    ERL_NIF_TERM built;  /* the same bytes, in a binary that is being appended to */
    ERL_NIF_TERM magic;  /* a reference to an object of the runtime */
    ERL_NIF_TERM alias;  /* a reference that is an alias, or was one */
    ERL_NIF_TERM fun;    /* fun erlang:self/0 */
};

/* Fills in nif_boxed. During load only, after nif_layout.header_ok was determined. */
void nif_boxed_init(ErlNifEnv *env, const struct nif_samples *s);

static inline enum nif_kind nif_header_kind_of(uint64_t header)
{
    return (enum nif_kind)nif_boxed.kinds[header >> 2 & 15u];
}
/* Of a term that is neither immediate nor a list. */
static inline enum nif_kind nif_kind(ERL_NIF_TERM boxed)
{
    return nif_header_kind_of(nif_header(boxed));
}

/* The kind of any term; NIF_UNKNOWN for immediates and lists. */
static inline enum nif_kind nif_any_kind(ERL_NIF_TERM t)
{
    return (t & 3u) == NIF_TAG_BOXED ? nif_kind(t) : NIF_UNKNOWN;
}
static inline bool nif_is_ref(ERL_NIF_TERM t)
{
    enum nif_kind kind = nif_any_kind(t);
    return kind == NIF_REF || kind == NIF_EXTERNAL_REF;
}

/* ---- binaries and bitstrings --------------------------------------------------- */

/* The bits [offset, offset + bits) after base; the offset is below 8. */
struct nif_bits {
    const uint8_t *base;
    unsigned offset;
    uint64_t bits;
};

/* The bits of a term of kind NIF_HEAP_BITS, NIF_REFC_BITS or NIF_SUB_BITS. The address is valid
 * only now, because appending to the binary may move its bytes. */
struct nif_bits nif_bits(ERL_NIF_TERM t);

/* The heap words of such a term, as erts_debug:flat_size/1. */
uint32_t nif_bits_words(ERL_NIF_TERM t);

/* Copies the first n bits to out, and pads the last byte with zeros. */
void nif_bits_copy(const struct nif_bits *b, uint64_t n, uint8_t *out);

/* ---- references, and terms of other nodes ---------------------------------------- */

enum { NIF_REF_NUMBERS = 5 };
struct nif_ref {
    ERL_NIF_TERM node; /* atom; 0: this one */
    uint32_t creation; /* of another node */
    uint32_t n;
    uint32_t number[NIF_REF_NUMBERS];
};

/* Reads a term of kind NIF_REF or NIF_EXTERNAL_REF. False if its layout is unknown. The first
 * three numbers identify it within its node. */
bool nif_ref(ERL_NIF_TERM t, struct nif_ref *ref);

/* A pid or port of another node: its 8 bytes of data, number below serial. */
struct nif_external {
    ERL_NIF_TERM node;
    uint32_t creation;
    uint64_t data;
};
struct nif_external nif_external(ERL_NIF_TERM t);

/* ---- the rest ---------------------------------------------------------------------- */

/* Module, function and arity (a plain number) of an external fun; NULL if the layout is unknown.
 * Call it only for external funs. */
static inline const ERL_NIF_TERM *nif_export_mfa(ERL_NIF_TERM fun)
{
    const ERL_NIF_TERM *entry = (const ERL_NIF_TERM *)(uintptr_t)nif_words(fun)[1];
    return nif_boxed.export_mfa == 0 ? NULL : entry + nif_boxed.export_mfa;
}

/* A native record: as many keys, which are atoms, as values. */
struct nif_fields {
    ERL_NIF_TERM module, name;
    uint32_t n;
    const ERL_NIF_TERM *keys, *values;
};
/* Of a term of kind NIF_RECORD. */
struct nif_fields nif_fields(ERL_NIF_TERM t);

/* The 64-bit digits of a large integer, the lowest first. */
static inline const uint64_t *nif_digits(ERL_NIF_TERM t, size_t *n)
{
    *n = (size_t)(nif_header(t) >> 6);
    return (const uint64_t *)(const void *)(nif_words(t) + 1);
}
static inline double nif_float(ERL_NIF_TERM t)
{
    double d;
    memcpy(&d, nif_words(t) + 1, sizeof d);
    return d;
}

#endif
