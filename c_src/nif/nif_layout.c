/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_layout.h"

#include <string.h>

#include "nif_atoms.h"
#include "nif_map.h"

struct nif_layout nif_layout;

enum { ETF_VERSION = 131, ETF_NEW_PID = 88, ETF_NEW_PORT = 89 };
enum { PID_TAIL = 12, PORT_TAIL = 8 }; /* bytes after the name of the node */

/* Decodes an external term to its word. Returns 0 if the runtime rejects it. */
static ERL_NIF_TERM decode(ErlNifEnv *env, const uint8_t *bytes, size_t len)
{
    ERL_NIF_TERM t;
    return enif_binary_to_term(env, bytes, len, &t, 0) == 0 ? 0 : t;
}

static void put32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

/* Pids or ports of this node, which are made by their data. */
struct sample {
    ErlNifEnv *env;
    uint8_t *ext; /* external term of one of them */
    size_t len;
    unsigned bits; /* pids: of the number; 0 for a port */
};

static ERL_NIF_TERM with_data(const struct sample *s, uint64_t data)
{
    if (s->bits != 0) {
        put32(s->ext + s->len - PID_TAIL, (uint32_t)(data & ((1u << s->bits) - 1u)));
        put32(s->ext + s->len - PID_TAIL + 4, (uint32_t)(data >> s->bits));
    } else {
        put32(s->ext + s->len - PORT_TAIL, (uint32_t)data);
    }
    return decode(s->env, s->ext, s->len);
}

/* Determines the rotation of the low bits by setting the bits of the data one at a time, as long
 * as each changes one bit of the word. */
static bool learn_rotation(const struct sample *s, unsigned width, struct nif_rotation *r)
{
    unsigned at[64] = {0}, bits = 0;
    for (unsigned i = 0; i < width; i++) {
        uint64_t word = with_data(s, UINT64_C(1) << i) >> 4;
        if (word == 0 || (word & (word - 1)) != 0) {
            return false;
        }
        at[i] = (unsigned)__builtin_ctzll(word);
        if (at[i] != i) {
            bits = i + 1;
        }
    }
    r->right = bits == 0 ? 0 : (uint8_t)at[0];
    r->left = (uint8_t)(bits - r->right);
    r->mask = (UINT64_C(1) << bits) - 1;
    r->keep = ~r->mask;
    return true;
}

/* Determines where a word has its `width` bits of data: rotated, or unchanged in the low bits.
 * In both cases decoding words must return the data. */
static void find_rotation(const struct sample *s, unsigned width, unsigned tag, struct nif_rotation *r)
{
    const uint64_t all = UINT64_MAX >> (64 - width);
    const uint64_t probes[] = {
        0, 1, all, all & 0x0f0f0f0f0f0f0f0f, all & 0x5555555555555555, all & 0x00ff12345678abcd};
    const size_t n = sizeof probes / sizeof *probes;
    if (!learn_rotation(s, width, r)) {
        *r = (struct nif_rotation){.keep = all};
    }
    for (size_t i = 0; i < n + width; i++) {
        uint64_t data = i < n ? probes[i] : UINT64_C(1) << (i - n);
        ERL_NIF_TERM t = with_data(s, data);
        if ((t & 0xfu) != tag || nif_rotate(t, r) != data) {
            return;
        }
    }
    r->ok = true;
}

/* Before OTP 26 a pid has 15 bits of number and 13 of serial, later 28 and 32. */
static void find_pid_layout(ErlNifEnv *env, uint8_t *ext, size_t len)
{
    struct sample s = {.env = env, .ext = ext, .len = len, .bits = 28};
    if (with_data(&s, 1u << 27) != 0) {
        find_rotation(&s, 60, NIF_TAG_PID, &nif_layout.pid);
    } else {
        s.bits = 15;
        find_rotation(&s, 28, NIF_TAG_PID, &nif_layout.pid);
    }
    nif_layout.pid_bits = s.bits;
    nif_layout.pid_plain = nif_layout.pid.ok && s.bits == 28;
}

static void find_port_layout(ErlNifEnv *env, uint8_t *ext, size_t pid_len)
{
    uint8_t creation[4];
    size_t len = pid_len - PID_TAIL + PORT_TAIL;
    struct sample s = {.env = env, .ext = ext, .len = len};
    memcpy(creation, ext + pid_len - 4, 4);
    ext[1] = ETF_NEW_PORT;
    memcpy(ext + len - 4, creation, 4);
    find_rotation(&s, 28, NIF_TAG_PORT, &nif_layout.port);
}

/* Tuples, lists and the headers of boxed terms must be as expected. */
static void find_headers(ErlNifEnv *env)
{
    ERL_NIF_TERM tuple = enif_make_tuple3(env, nif_am.ok, nif_am.call, nif_am.send);
    ERL_NIF_TERM list = enif_make_list_cell(env, nif_am.call, nif_am.send);
    if ((tuple & 3u) != NIF_TAG_BOXED || !nif_is_list_cell(list)) {
        return;
    }
    const ERL_NIF_TERM *el = nif_tuple(tuple, 3);
    const ERL_NIF_TERM *cell = nif_words(list);
    nif_layout.header_ok = el != NULL && el[0] == nif_am.ok && el[1] == nif_am.call && el[2] == nif_am.send &&
                           cell[0] == nif_am.call && cell[1] == nif_am.send;
}

static void find_maps(ErlNifEnv *env)
{
    ERL_NIF_TERM empty = enif_make_new_map(env), one, two;
    if (!nif_layout.header_ok || !enif_make_map_put(env, empty, nif_am.call, nif_am.send, &one) ||
        !enif_make_map_put(env, one, nif_am.link, nif_am.exit, &two)) {
        return;
    }
    nif_layout.map_header = nif_header(empty);
    nif_layout.map_ok = nif_map_has(empty, 0) && nif_map_has(one, 1) && nif_map_has(two, 2) &&
                        nif_tuple(nif_words(one)[2], 1) != NULL &&
                        nif_map_one(one, nif_am.call) == nif_am.send && nif_map_one(one, nif_am.send) == 0;
}

/* Reads {FunWords, EmptyMapWords, Large, Offset, Built, Magic, Alias, Fun, UnitsPerSecond}: two
 * sizes from erts_debug:flat_size/1, samples, and the native unit of time. */
static bool read_info(ErlNifEnv *env, ERL_NIF_TERM info, struct nif_samples *samples)
{
    const ERL_NIF_TERM *e;
    int n;
    if (enif_get_tuple(env, info, &n, &e) == 0 || n != 9 ||
        enif_get_uint(env, e[0], &nif_layout.fun_words) == 0 ||
        enif_get_uint(env, e[1], &nif_layout.empty_map_words) == 0) {
        return false;
    }
    *samples = (struct nif_samples){
        .large = e[2], .offset = e[3], .built = e[4], .magic = e[5], .alias = e[6], .fun = e[7]};
    ErlNifSInt64 units;
    if (!enif_get_int64(env, e[8], &units) || units <= 0) {
        return false;
    }
    nif_layout.units_per_sec = units;
    return enif_is_binary(env, e[2]) && enif_is_ref(env, e[5]) && enif_is_ref(env, e[6]) &&
           enif_is_fun(env, e[7]);
}

/* Determines the headers of binaries for the fast path of nif_size.c. */
static void find_binaries(ERL_NIF_TERM large, ERL_NIF_TERM small)
{
    bool known = nif_layout.header_ok && nif_kind(large) != NIF_UNKNOWN && nif_kind(small) == NIF_HEAP_BITS;
    nif_layout.heap_bin = known ? nif_header_kind(nif_header(small)) : NIF_NO_KIND;
    nif_layout.refc_bin = known ? nif_header_kind(nif_header(large)) : NIF_NO_KIND;
    nif_layout.refc_words = known ? nif_bits_words(large) : 0;
}

int64_t nif_layout_ns(int64_t units)
{
    enum { NS_PER_SEC = 1000000000 };
    int64_t whole = units / nif_layout.units_per_sec, part = units % nif_layout.units_per_sec, ns;
    if (__builtin_mul_overflow(whole, NS_PER_SEC, &whole) ||
        __builtin_mul_overflow(part, NS_PER_SEC, &part) ||
        __builtin_add_overflow(whole, part / nif_layout.units_per_sec, &ns)) {
        return -1;
    }
    return ns;
}

int nif_layout_init(ErlNifEnv *env, ERL_NIF_TERM info)
{
    memset(&nif_layout, 0, sizeof nif_layout);
    ErlNifPid self;
    ErlNifBinary bin;
    struct nif_samples samples;
    uint8_t ext[1100];
    ERL_NIF_TERM small;
    ERL_NIF_TERM list = enif_make_list1(env, nif_am.ok);

    if (!nif_is_atom(nif_am.ok) || !nif_is_atom(nif_am.dirty_io)) {
        return 1;
    }
    if (!nif_is_small(enif_make_int(env, -7)) || nif_small(enif_make_int(env, -7)) != -7 ||
        nif_small(enif_make_int64(env, 1ll << 40)) != 1ll << 40) {
        return 2;
    }
    if (!nif_is_list_cell(list) || enif_make_list(env, 0) != NIF_NIL) {
        return 3;
    }
    if (!read_info(env, info, &samples)) {
        return 4;
    }
    if (enif_self(env, &self) == NULL || enif_term_to_binary(env, self.pid, &bin) == 0) {
        return 5;
    }
    bool known = bin.size > 2 + PID_TAIL && bin.size <= sizeof ext && bin.data[0] == ETF_VERSION &&
                 bin.data[1] == ETF_NEW_PID;
    if (known) {
        size_t len = bin.size;
        memcpy(ext, bin.data, len);
        find_pid_layout(env, ext, len);
        find_port_layout(env, ext, len);
    }
    enif_release_binary(&bin);
    find_headers(env);
    find_maps(env);
    nif_boxed_init(env, &samples);
    nif_map_init(env);
    if (enif_make_new_binary(env, 0, &small) == NULL) {
        return 6;
    }
    find_binaries(samples.large, small);
    return 0;
}
