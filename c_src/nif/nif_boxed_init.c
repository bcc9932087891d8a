/* SPDX-License-Identifier: Apache-2.0
 *
 * Determines the layout of boxed terms for nif_boxed.h. Each kind is derived from a sample and
 * then used to read the sample back; if the result differs from the known contents, the kind
 * stays NIF_UNKNOWN. An address is followed only in a term whose header has the expected
 * length. */
#include "nif_atoms.h"
#include "nif_boxed.h"

enum { ETF_VERSION = 131, ETF_NEW_PID = 88, ETF_NEW_PORT = 89, ETF_NEWER_REF = 90, ETF_RECORD = 67 };
enum { SAMPLE_BYTES = 1000, PID_TAIL = 12, EXT_MAX = 1200 };

static bool is_boxed(ERL_NIF_TERM t)
{
    return (t & 3u) == NIF_TAG_BOXED;
}

/* True if this may be the address of memory that the runtime has allocated. */
static bool is_address(uint64_t word)
{
    return word >= 1u << 16 && word >> 47 == 0 && (word & 7u) == 0;
}

static bool has_words(ERL_NIF_TERM t, uint32_t words)
{
    return is_boxed(t) && nif_header_words(nif_header(t)) == words;
}

/* Stores the kind of a sample. Returns false if its header already belongs to another kind. */
static bool set_kind(ERL_NIF_TERM t, enum nif_kind kind)
{
    if (!is_boxed(t) || (nif_header(t) & 3u) != 0) {
        return false;
    }
    uint8_t *at = &nif_boxed.kinds[nif_header(t) >> 2 & 15u];
    if (*at != NIF_UNKNOWN && *at != kind) {
        return false;
    }
    *at = (uint8_t)kind;
    return true;
}

static void forget(enum nif_kind kind)
{
    for (size_t i = 0; i < sizeof nif_boxed.kinds; i++) {
        if (nif_boxed.kinds[i] == kind) {
            nif_boxed.kinds[i] = NIF_UNKNOWN;
        }
    }
}

static ERL_NIF_TERM decode(ErlNifEnv *env, const uint8_t *bytes, size_t len)
{
    ERL_NIF_TERM t;
    return enif_binary_to_term(env, bytes, len, &t, 0) == 0 ? 0 : t;
}

/* ---- numbers ------------------------------------------------------------------------- */

static void learn_numbers(ErlNifEnv *env)
{
    const uint64_t top = UINT64_C(1) << 63;
    ERL_NIF_TERM positive = enif_make_uint64(env, UINT64_MAX - 1);
    ERL_NIF_TERM negative = enif_make_int64(env, INT64_MIN);
    ERL_NIF_TERM flt = enif_make_double(env, 1.5);
    size_t n;
    if (!has_words(positive, 2) || !set_kind(positive, NIF_BIG_POSITIVE) ||
        *nif_digits(positive, &n) != UINT64_MAX - 1) {
        forget(NIF_BIG_POSITIVE);
    }
    if (!has_words(negative, 2) || !set_kind(negative, NIF_BIG_NEGATIVE) ||
        *nif_digits(negative, &n) != top) {
        forget(NIF_BIG_NEGATIVE);
    }
    if (!has_words(flt, 2) || !set_kind(flt, NIF_FLOAT) || nif_float(flt) != 1.5) {
        forget(NIF_FLOAT);
    }
}

/* ---- binaries and bitstrings ------------------------------------------------------------ */

static bool is_at(ERL_NIF_TERM t, const uint8_t *base, unsigned offset, uint64_t bits)
{
    struct nif_bits b = nif_bits(t);
    return b.base == base && b.offset == offset && b.bits == bits;
}

static bool holds_sample(ERL_NIF_TERM t)
{
    struct nif_bits b = nif_bits(t);
    if (b.offset != 0 || b.bits != SAMPLE_BYTES * 8) {
        return false;
    }
    for (unsigned i = 0; i < SAMPLE_BYTES; i++) {
        if (b.base[i] != i % 251) {
            return false;
        }
    }
    return true;
}

/* Binaries that the NIF interface creates, which returns their addresses. */
static bool learn_made(ErlNifEnv *env, ERL_NIF_TERM *part)
{
    ERL_NIF_TERM small, large;
    unsigned char *s = enif_make_new_binary(env, 3, &small);
    unsigned char *l = enif_make_new_binary(env, SAMPLE_BYTES, &large);
    if (s == NULL || l == NULL) {
        return false;
    }
    memset(s, 0, 3);
    memset(l, 0, SAMPLE_BYTES);
    *part = enif_make_sub_binary(env, large, 10, 500);
    if (!has_words(small, 3) || !is_boxed(large) || !is_boxed(*part) || !set_kind(small, NIF_HEAP_BITS)) {
        return false;
    }
    nif_boxed.counts_bits = nif_words(small)[1] == 3 * 8;
    if (nif_boxed.counts_bits) {
        const ERL_NIF_TERM *w = nif_words(large);
        if (!has_words(large, 5) || !set_kind(large, NIF_SUB_BITS) || !has_words(w[4], 3) ||
            !is_address(nif_words(w[4])[1])) {
            return false;
        }
        nif_boxed.binary_bytes = (uint64_t)(uintptr_t)l - nif_words(w[4])[1];
    } else if (!has_words(large, 6) || !set_kind(large, NIF_REFC_BITS)) {
        return false;
    }
    return has_words(*part, nif_boxed.counts_bits ? 5 : 4) && set_kind(*part, NIF_SUB_BITS) &&
           is_at(small, s, 0, 3 * 8) && is_at(large, l, 0, SAMPLE_BYTES * 8) &&
           nif_boxed.binary_bytes < 256 && is_at(*part, l + 10, 0, 500 * 8);
}

/* A bitstring that ends within a byte. */
static bool learn_tail(ErlNifEnv *env)
{
    static const uint8_t ext[] = {ETF_VERSION, 77, 0, 0, 0, 2, 3, 0xff, 0xe0};
    ERL_NIF_TERM t = decode(env, ext, sizeof ext);
    if (t == 0 || !is_boxed(t) || (nif_kind(t) != NIF_SUB_BITS && nif_kind(t) != NIF_HEAP_BITS)) {
        return false;
    }
    struct nif_bits b = nif_bits(t);
    return b.bits == 11 && b.offset == 0 && b.base[0] == 0xff && (b.base[1] & 0xe0) == 0xe0;
}

static void learn_bits(ErlNifEnv *env, const struct nif_samples *s)
{
    ERL_NIF_TERM part;
    bool ok = learn_made(env, &part) && learn_tail(env) && is_boxed(s->large) && is_boxed(s->offset) &&
              is_boxed(s->built) && nif_header(s->offset) == nif_header(part) &&
              nif_header(s->built) == nif_header(part) &&
              nif_kind(s->large) == (nif_boxed.counts_bits ? NIF_SUB_BITS : NIF_REFC_BITS) &&
              holds_sample(s->large) && holds_sample(s->built) &&
              is_at(s->offset, nif_bits(s->large).base, 3, SAMPLE_BYTES * 8 - 3);
    if (!ok) {
        forget(NIF_HEAP_BITS);
        forget(NIF_REFC_BITS);
        forget(NIF_SUB_BITS);
    }
}

/* ---- references, and terms of other nodes ------------------------------------------------- */

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Writes the external format of a reference of this node. Returns its length, or 0. */
static size_t external_ref(ErlNifEnv *env, ERL_NIF_TERM t, uint8_t ext[static EXT_MAX])
{
    ErlNifBinary bin;
    if (enif_term_to_binary(env, t, &bin) == 0) {
        return 0;
    }
    size_t len = bin.size > 20 && bin.size <= EXT_MAX && bin.data[1] == ETF_NEWER_REF ? bin.size : 0;
    memcpy(ext, bin.data, len);
    enif_release_binary(&bin);
    return len;
}

/* True if t has the numbers at the end of this external format. */
static bool has_numbers(ERL_NIF_TERM t, const uint8_t *ext, size_t len)
{
    struct nif_ref ref;
    uint32_t n = (uint32_t)ext[2] << 8 | ext[3];
    if (!nif_ref(t, &ref) || ref.n != n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (ref.number[i] != be32(ext + len - 4 * n + 4 * i)) {
            return false;
        }
    }
    return true;
}

/* A reference to an object of the runtime (a magic reference) has its numbers in that object,
 * near the beginning. */
static void learn_magic(ErlNifEnv *env, ERL_NIF_TERM t)
{
    enum { NEAR = 64 };
    uint8_t ext[EXT_MAX];
    if (!is_boxed(t) || nif_kind(t) != NIF_REF || !has_words(t, 3) || !is_address(nif_words(t)[1])) {
        return;
    }
    size_t len = external_ref(env, t, ext);
    for (uint32_t at = 4; len != 0 && at + 12 <= NEAR; at += 4) {
        nif_boxed.magic_numbers = at;
        if (has_numbers(t, ext, len)) {
            return;
        }
    }
    nif_boxed.magic_numbers = 0;
}

static void learn_alias(ErlNifEnv *env, ERL_NIF_TERM t)
{
    uint8_t ext[EXT_MAX];
    if (!has_words(t, 4) || nif_kind(t) != NIF_REF) {
        return;
    }
    size_t len = external_ref(env, t, ext);
    nif_boxed.alias_header = nif_header(t);
    nif_boxed.alias_numbers = len != 0 && ext[3] == NIF_REF_NUMBERS ? NIF_REF_NUMBERS : 3;
    if (len == 0 || !has_numbers(t, ext, len)) {
        nif_boxed.alias_header = 0;
    }
}

/* Learns how nodes are represented, from a term of a node with this node's name and another
 * creation. */
static bool learn_node(ERL_NIF_TERM t, ERL_NIF_TERM name, uint32_t creation)
{
    enum { NODE = 1, ENTRY_WORDS = 6 };
    uint64_t word = nif_words(t)[NODE];
    if (!is_address(word)) {
        return false;
    }
    const ERL_NIF_TERM *entry = (const ERL_NIF_TERM *)(uintptr_t)word;
    for (uint32_t i = 0; i + 1 < ENTRY_WORDS; i++) {
        if (entry[i] == name && (uint32_t)entry[i + 1] == creation) {
            nif_boxed.node_name = i;
            return true;
        }
    }
    return false;
}

static bool is_external(ERL_NIF_TERM t, ERL_NIF_TERM name, uint32_t creation, uint64_t data)
{
    struct nif_external e = nif_external(t);
    return e.node == name && e.creation == creation && e.data == data;
}

static bool learn_external(ErlNifEnv *env, uint8_t ext[static EXT_MAX], size_t len)
{
    enum { NAME = 4, NUMBERS = 12, CREATION = 4, MORE = 2 };
    uint8_t other[EXT_MAX] = {ETF_VERSION};
    size_t name_len = len - NAME - CREATION - NUMBERS;
    memcpy(other + 1, ext + NAME, name_len);
    ERL_NIF_TERM name = decode(env, other, 1 + name_len);
    uint8_t *creation_at = ext + NAME + name_len;
    creation_at[3] ^= 0x55;
    creation_at[2] ^= 0x55;
    uint32_t creation = be32(creation_at);
    ERL_NIF_TERM ref = decode(env, ext, len);
    if (!nif_is_atom(name) || !has_words(ref, 5) || !set_kind(ref, NIF_EXTERNAL_REF) ||
        !learn_node(ref, name, creation) || !has_numbers(ref, ext, len)) {
        return false;
    }
    struct nif_ref r;
    if (!nif_ref(ref, &r) || r.node != name || r.creation != creation) {
        return false;
    }
    /* The same name for a pid: number, serial, creation; and a port: number, creation. */
    static const uint8_t numbers[8] = {0, 0, 0x12, 0x34, 0, 0, 0x05, 0x67};
    uint8_t *p = other + MORE + name_len;
    memmove(other + MORE, other + 1, name_len);
    other[1] = ETF_NEW_PID;
    memcpy(p, numbers, 8);
    memcpy(p + 8, creation_at, CREATION);
    ERL_NIF_TERM pid = decode(env, other, MORE + name_len + 8 + CREATION);
    other[1] = ETF_NEW_PORT;
    memcpy(p + 4, creation_at, CREATION);
    ERL_NIF_TERM port = decode(env, other, MORE + name_len + 4 + CREATION);
    return has_words(pid, 4) && set_kind(pid, NIF_EXTERNAL_PID) &&
           is_external(pid, name, creation, UINT64_C(0x0567) << 32 | 0x1234) && has_words(port, 4) &&
           set_kind(port, NIF_EXTERNAL_PORT) && is_external(port, name, creation, 0x1234);
}

static void learn_refs(ErlNifEnv *env, const struct nif_samples *s)
{
    uint8_t ext[EXT_MAX];
    ERL_NIF_TERM ref = enif_make_ref(env);
    size_t len = has_words(ref, 3) && set_kind(ref, NIF_REF) ? external_ref(env, ref, ext) : 0;
    nif_boxed.ref_header = len == 0 ? 0 : nif_header(ref);
    if (len == 0 || !has_numbers(ref, ext, len)) {
        forget(NIF_REF);
        return;
    }
    learn_magic(env, s->magic);
    learn_alias(env, s->alias);
    if (!learn_external(env, ext, len)) {
        forget(NIF_EXTERNAL_PID);
        forget(NIF_EXTERNAL_PORT);
        forget(NIF_EXTERNAL_REF);
    }
}

/* ---- funs, maps, records ---------------------------------------------------------------------- */

static void learn_funs(ErlNifEnv *env, const struct nif_samples *s)
{
    enum { ENTRY = 1, NEAR = 12 };
    ERL_NIF_TERM erlang = enif_make_atom(env, "erlang"), self = enif_make_atom(env, "self");
    if (!set_kind(s->fun, NIF_FUN) || !is_address(nif_words(s->fun)[ENTRY])) {
        return;
    }
    const ERL_NIF_TERM *entry = (const ERL_NIF_TERM *)(uintptr_t)nif_words(s->fun)[ENTRY];
    for (uint32_t i = 1; i + 2 < NEAR; i++) {
        if (entry[i] == erlang && entry[i + 1] == self && entry[i + 2] == 0) {
            nif_boxed.export_mfa = i;
            return;
        }
    }
}

/* Decodes a native record with two fields, which runtimes without records reject. */
static void learn_records(ErlNifEnv *env)
{
    static const uint8_t ext[] = {ETF_VERSION, ETF_RECORD, 0,   0,   0,   2,   0,   119, 4,  'k', 'y', 'm',
                                  'o',         119,        4,   'c', 'a', 'l', 'l', 119, 2,  'o', 'k', 119,
                                  5,           't',        'r', 'a', 'c', 'e', 97,  1,   97, 2};
    ERL_NIF_TERM t = decode(env, ext, sizeof ext);
    if (t == 0 || !has_words(t, 4) || !set_kind(t, NIF_RECORD)) {
        return;
    }
    struct nif_fields f = {0};
    if (is_boxed(nif_words(t)[1]) && nif_header(nif_words(t)[1]) == 7u << 6) {
        f = nif_fields(t);
    }
    if (f.n == 2 && f.module == enif_make_atom(env, "kymo") && f.name == nif_am.call) {
        unsigned first = f.keys[0] == nif_am.ok ? 0 : 1;
        if (f.keys[first] == nif_am.ok && f.keys[1 - first] == nif_am.trace &&
            f.values[first] == enif_make_int(env, 1) && f.values[1 - first] == enif_make_int(env, 2)) {
            return;
        }
    }
    forget(NIF_RECORD);
}

void nif_boxed_init(ErlNifEnv *env, const struct nif_samples *s)
{
    memset(&nif_boxed, 0, sizeof nif_boxed);
    if (!nif_layout.header_ok) {
        return;
    }
    set_kind(enif_make_tuple1(env, nif_am.ok), NIF_TUPLE);
    learn_numbers(env);
    learn_bits(env, s);
    learn_refs(env, s);
    learn_funs(env, s);
    learn_records(env);
}
