/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_layout.h"

#include <string.h>

#include "nif_atoms.h"

struct nif_layout nif_layout;

enum { ETF_VERSION = 131, ETF_NEW_PID = 88, ETF_NEW_PORT = 89 };
enum { PID_TAIL = 12, PORT_TAIL = 8 }; /* bytes after the name of the node */

/* Turns the bytes of an external term into the word of the term; 0 when the
 * runtime does not accept them. */
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

/* Do the words of pids hold the number in their low `bits` bits and the serial
 * above? Asks the runtime for the pids of several numbers. */
static bool pid_layout_is(ErlNifEnv *env, uint8_t *ext, size_t len, unsigned bits, uint32_t max_serial)
{
    const uint32_t max = (1u << bits) - 1u;
    const uint32_t numbers[] = {1, max, max & 0x05555555u, max & 0x0aaaaaaau};
    const uint32_t serials[] = {0, 1, max_serial, max_serial & 0x5555u};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        for (size_t j = 0; j < sizeof serials / sizeof *serials; j++) {
            put32(ext + len - PID_TAIL, numbers[i]);
            put32(ext + len - PID_TAIL + 4, serials[j]);
            ERL_NIF_TERM t = decode(env, ext, len);
            uint64_t data = (uint64_t)numbers[i] | (uint64_t)serials[j] << bits;
            if (t != (data << 4 | NIF_TAG_PID)) {
                return false;
            }
        }
    }
    return true;
}

static void find_pid_layout(ErlNifEnv *env, uint8_t *ext, size_t len)
{
    if (pid_layout_is(env, ext, len, 28, 0xffff)) {
        nif_layout.pid_ok = true;
        nif_layout.pid_bits = 28;
    } else if (pid_layout_is(env, ext, len, 15, 0x1fff)) {
        nif_layout.pid_ok = true;
        nif_layout.pid_bits = 15;
    }
}

static void find_port_layout(ErlNifEnv *env, uint8_t *ext, size_t pid_len)
{
    const uint32_t numbers[] = {1, 0x05555555, 0x0aaaaaaa, 0x0fffffff};
    uint8_t creation[4];
    memcpy(creation, ext + pid_len - 4, 4);
    size_t len = pid_len - PID_TAIL + PORT_TAIL;
    ext[1] = ETF_NEW_PORT;
    memcpy(ext + len - 4, creation, 4);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        put32(ext + len - PORT_TAIL, numbers[i]);
        if (decode(env, ext, len) != ((uint64_t)numbers[i] << 4 | NIF_TAG_PORT)) {
            return;
        }
    }
    nif_layout.port_ok = true;
}

/* Words of boxed terms: known terms must have the headers that are expected. */
static void find_headers(ErlNifEnv *env)
{
    ERL_NIF_TERM tuple = enif_make_tuple3(env, nif_am.ok, nif_am.ok, nif_am.ok);
    ERL_NIF_TERM flt = enif_make_double(env, 1.5);
    ERL_NIF_TERM big = enif_make_uint64(env, UINT64_MAX);
    ERL_NIF_TERM ref = enif_make_ref(env);
    ERL_NIF_TERM small_bin, large_bin;
    unsigned char *s = enif_make_new_binary(env, 3, &small_bin);
    unsigned char *l = enif_make_new_binary(env, 1000, &large_bin);
    if (s == NULL || l == NULL) {
        return;
    }
    memset(s, 0, 3);
    memset(l, 0, 1000);
    const ERL_NIF_TERM boxed[] = {tuple, flt, big, ref, small_bin, large_bin};
    for (size_t i = 0; i < sizeof boxed / sizeof *boxed; i++) {
        if ((boxed[i] & 3u) != NIF_TAG_BOXED) {
            return;
        }
    }
    uint32_t ref_words = nif_header_words(nif_header(ref));
    if (nif_header(tuple) != 3u << 6 || nif_header_words(nif_header(flt)) != 2 ||
        nif_header_words(nif_header(big)) != 2 || ref_words < 2 || ref_words > 8) {
        return;
    }
    nif_layout.heap_bin = nif_header_kind(nif_header(small_bin));
    nif_layout.refc_bin = nif_header_kind(nif_header(large_bin));
    nif_layout.header_ok = nif_layout.heap_bin != nif_layout.refc_bin;
}

/* {RefcWords, PartWords, FunWords, EmptyMapWords} as erts_debug:flat_size
 * reports them for samples. */
static bool read_info(ErlNifEnv *env, ERL_NIF_TERM info)
{
    const ERL_NIF_TERM *e;
    int n;
    unsigned v[4];
    if (enif_get_tuple(env, info, &n, &e) == 0 || n != 4) {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        if (enif_get_uint(env, e[i], &v[i]) == 0 || v[i] > 1000) {
            return false;
        }
    }
    nif_layout.refc_words = v[0];
    nif_layout.sub_words = v[1] - v[0];
    nif_layout.fun_words = v[2];
    nif_layout.empty_map_words = v[3];
    return v[1] >= v[0];
}

int nif_layout_init(ErlNifEnv *env, ERL_NIF_TERM info)
{
    memset(&nif_layout, 0, sizeof nif_layout);
    ErlNifPid self;
    ErlNifBinary bin;
    uint8_t ext[1100];
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
    if (!read_info(env, info)) {
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
    return 0;
}
