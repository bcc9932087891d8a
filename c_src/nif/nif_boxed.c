/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_boxed.h"

struct nif_boxed nif_boxed;

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "digits and numbers are read as they lie");

static uint64_t bytes_of(uint64_t bits)
{
    return bits / 8 + (bits % 8 != 0);
}

static const uint8_t *address(uint64_t word)
{
    return (const uint8_t *)(uintptr_t)word;
}

static struct nif_bits from(const uint8_t *base, uint64_t offset, uint64_t bits)
{
    return (struct nif_bits){.base = base + offset / 8, .offset = (unsigned)(offset % 8), .bits = bits};
}

/* ---- binaries and bitstrings ------------------------------------------------------- */

/* Until OTP 26:
 *   heap bytes  header, size, bytes
 *   refc bytes  header, size, next, runtime's binary, address, flags
 *   part        header, size, offset, bits | bit offset << 8 | ..., the whole term
 * Sizes and offsets are in bytes, `bits' are those after the last whole byte. */
static struct nif_bits classic_bits(ERL_NIF_TERM t)
{
    enum { SIZE = 1, BYTES = 2, ADDRESS = 4, OFFSET = 2, BITS = 3, WHOLE = 4 };
    const ERL_NIF_TERM *w = nif_words(t);
    uint64_t offset = 0, bits = w[SIZE] * 8;
    if (nif_kind(t) == NIF_SUB_BITS) {
        offset = w[OFFSET] * 8 + (w[BITS] >> 8 & 0xffu);
        bits += w[BITS] & 0xffu;
        t = w[WHOLE];
        w = nif_words(t);
    }
    return from(nif_kind(t) == NIF_HEAP_BITS ? (const uint8_t *)(w + BYTES) : address(w[ADDRESS]), offset,
                bits);
}

/* Since OTP 27, all in bits:
 *   heap bits  header, size, bytes
 *   part       header, address | flags, start, end, reference to the whole
 *   reference  header, runtime's binary, next
 * The flag means that the address may be outdated, because the binary was appended to in place,
 * which may have moved it. */
static struct nif_bits counted_bits(ERL_NIF_TERM t)
{
    enum {
        SIZE = 1,
        BYTES = 2,
        ADDRESS = 1,
        START = 2,
        END = 3,
        WHOLE = 4,
        BINARY = 1,
        MOVES = 2,
        FLAGS = 3
    };
    const ERL_NIF_TERM *w = nif_words(t);
    if (nif_kind(t) == NIF_HEAP_BITS) {
        return from((const uint8_t *)(w + BYTES), 0, w[SIZE]);
    }
    const uint8_t *base = (w[ADDRESS] & MOVES) != 0
                              ? address(nif_words(w[WHOLE])[BINARY]) + nif_boxed.binary_bytes
                              : address(w[ADDRESS] & ~(uint64_t)FLAGS);
    return from(base, w[START], w[END] - w[START]);
}

struct nif_bits nif_bits(ERL_NIF_TERM t)
{
    return nif_boxed.counts_bits ? counted_bits(t) : classic_bits(t);
}

/* Until OTP 26, flat_size/1 counts a part of whole bytes like a separate binary of that size. */
static uint32_t classic_part_words(ERL_NIF_TERM t)
{
    enum { SIZE = 1, BITS = 3, WHOLE = 4, HEAP_BITS_WORDS = 2 };
    const ERL_NIF_TERM *w = nif_words(t);
    unsigned bits = (unsigned)((w[BITS] & 0xffu) + (w[BITS] >> 8 & 0xffu));
    uint32_t words = bits == 0 ? 0 : nif_header_words(w[0]) + 1; /* the header excludes WHOLE */
    if (nif_kind(w[WHOLE]) == NIF_REFC_BITS) {
        return words + nif_header_words(nif_header(w[WHOLE]));
    }
    return words + HEAP_BITS_WORDS + (uint32_t)((w[SIZE] + bytes_of(bits) + 7) / 8);
}

uint32_t nif_bits_words(ERL_NIF_TERM t)
{
    enum { WHOLE = 4 };
    uint32_t words = nif_header_words(nif_header(t));
    if (nif_kind(t) != NIF_SUB_BITS) {
        return words;
    }
    return nif_boxed.counts_bits ? words + nif_header_words(nif_header(nif_words(t)[WHOLE]))
                                 : classic_part_words(t);
}

void nif_bits_copy(const struct nif_bits *b, uint64_t n, uint8_t *out)
{
    size_t whole = (size_t)(n / 8);
    unsigned tail = (unsigned)(n % 8), shift = b->offset;
    const uint8_t *in = b->base;
    if (shift == 0) {
        memcpy(out, in, whole);
    } else {
        for (size_t i = 0; i < whole; i++) {
            out[i] = (uint8_t)(in[i] << shift | in[i + 1] >> (8 - shift));
        }
    }
    if (tail != 0) {
        unsigned v = (unsigned)in[whole] << shift;
        if (shift + tail > 8) {
            v |= in[whole + 1] >> (8 - shift);
        }
        out[whole] = (uint8_t)(v & 0xff00u >> tail);
    }
}

/* ---- references, and terms of other nodes -------------------------------------------- */

/* A reference of this node is a header, a 32-bit marker that differs from all addresses, and its
 * numbers; or a header, the address of an object that has the numbers, and a pointer. All
 * references have three numbers. That of an alias also has its process, which is part of the
 * external format since OTP 26. */
static bool local_ref(const ERL_NIF_TERM *w, struct nif_ref *ref)
{
    const uint32_t marker = UINT32_MAX;
    const uint8_t *data = (const uint8_t *)(w + 1);
    uint32_t first;
    memcpy(&first, data, sizeof first);
    ref->n = w[0] == nif_boxed.ref_header ? 3 : w[0] == nif_boxed.alias_header ? nif_boxed.alias_numbers : 0;
    if (first == marker) {
        memcpy(ref->number, data + sizeof first, ref->n * sizeof first);
        return ref->n != 0;
    }
    if (nif_boxed.magic_numbers == 0 || w[0] != nif_boxed.ref_header) {
        return false;
    }
    memcpy(ref->number, address(w[1]) + nif_boxed.magic_numbers, 3 * sizeof first);
    return true;
}

/* header, node, next, data. */
enum { NODE = 1, DATA = 3 };

static void node_of(const ERL_NIF_TERM *w, ERL_NIF_TERM *name, uint32_t *creation)
{
    const ERL_NIF_TERM *node = (const ERL_NIF_TERM *)(uintptr_t)w[NODE];
    *name = node[nif_boxed.node_name];
    *creation = (uint32_t)node[nif_boxed.node_name + 1];
}

bool nif_ref(ERL_NIF_TERM t, struct nif_ref *ref)
{
    const ERL_NIF_TERM *w = nif_words(t);
    ref->node = 0;
    ref->creation = 0;
    if (nif_kind(t) == NIF_REF) {
        return local_ref(w, ref);
    }
    const uint8_t *data = (const uint8_t *)(w + DATA);
    memcpy(&ref->n, data, sizeof ref->n);
    if (ref->n > NIF_REF_NUMBERS) {
        return false;
    }
    memcpy(ref->number, data + sizeof ref->n, ref->n * sizeof *ref->number);
    node_of(w, &ref->node, &ref->creation);
    return true;
}

struct nif_external nif_external(ERL_NIF_TERM t)
{
    const ERL_NIF_TERM *w = nif_words(t);
    struct nif_external e = {.data = w[DATA]};
    node_of(w, &e.node, &e.creation);
    return e;
}

/* ---- native records ---------------------------------------------------------------------- */

/* header, definition, values; the definition is a tuple: order of the fields, hash,
 * module, name, exported?, keys in the order of the values. */
struct nif_fields nif_fields(ERL_NIF_TERM t)
{
    enum { DEFINITION = 1, VALUES = 2, MODULE = 3, NAME = 4, KEYS = 6 };
    const ERL_NIF_TERM *w = nif_words(t);
    const ERL_NIF_TERM *d = nif_words(w[DEFINITION]);
    return (struct nif_fields){.module = d[MODULE],
                               .name = d[NAME],
                               .n = nif_header_words(w[0]) - VALUES,
                               .keys = d + KEYS,
                               .values = w + VALUES};
}
