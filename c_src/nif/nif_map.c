/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_map.h"

#include "nif_atoms.h"

/* Bits 6 and 7 of a map's header. */
enum { SMALL = 0, NODE = 1, ROOT_FULL = 2, ROOT = 3 };

struct nif_map_children nif_map_node(const ERL_NIF_TERM *node)
{
    unsigned present = (unsigned)(node[0] >> 16 & 0xffffu);
    return (struct nif_map_children){.next = node + ((node[0] >> 6 & 3u) == NODE ? 1 : 2),
                                     .left = (uint64_t)__builtin_popcount(present)};
}

bool nif_map_begin(struct nif_map_iter *it, ERL_NIF_TERM map)
{
    enum { SIZE = 1, KEYS = 2, VALUES = 3 };
    const ERL_NIF_TERM *w = nif_words(map);
    unsigned type = (unsigned)(w[0] >> 6 & 3u);
    if (type == SMALL) {
        nif_map_begin_arrays(it, nif_words(w[KEYS]) + 1, w + VALUES, w[SIZE]);
        return true;
    }
    nif_map_begin_arrays(it, NULL, NULL, w[SIZE]);
    it->stack[0] = nif_map_node(w);
    it->depth = 1;
    return type != NODE;
}

void nif_map_begin_arrays(struct nif_map_iter *it, const ERL_NIF_TERM *keys, const ERL_NIF_TERM *values,
                          size_t n)
{
    it->n = n;
    it->left = keys == NULL ? 0 : n;
    it->keys = keys;
    it->values = values;
    it->depth = 0;
}

static bool push(struct nif_map_iter *it, struct nif_map_children children)
{
    if (it->depth == NIF_MAP_LEVELS) {
        return false;
    }
    it->stack[it->depth++] = children;
    return true;
}

/* Descends into a child that is not a pair. */
static bool descend(struct nif_map_iter *it, ERL_NIF_TERM child)
{
    if ((child & 3u) != NIF_TAG_BOXED) {
        return false;
    }
    const ERL_NIF_TERM *w = nif_words(child);
    switch (nif_header_kind_of(w[0])) {
    case NIF_MAP: return (w[0] >> 6 & 3u) == NODE && push(it, nif_map_node(w));
    case NIF_TUPLE: return push(it, (struct nif_map_children){.next = w + 1, .left = w[0] >> 6});
    default: return false;
    }
}

bool nif_map_next(struct nif_map_iter *it, ERL_NIF_TERM *key, ERL_NIF_TERM *value)
{
    if (it->left > 0) {
        it->left--;
        *key = *it->keys++;
        *value = *it->values++;
        return true;
    }
    while (it->depth > 0) {
        struct nif_map_children *top = &it->stack[it->depth - 1];
        if (top->left == 0) {
            it->depth--;
            continue;
        }
        top->left--;
        ERL_NIF_TERM child = *top->next++;
        if (nif_is_list_cell(child)) {
            *key = nif_words(child)[0];
            *value = nif_words(child)[1];
            return true;
        }
        if (!descend(it, child)) {
            return false;
        }
    }
    return false;
}

/* True if the map has each of the keys 0 to n - 1 once, with the key as its value. */
static bool has_all(ERL_NIF_TERM map, unsigned n)
{
    enum { MOST = 512 };
    struct nif_map_iter it;
    ERL_NIF_TERM key, value;
    bool seen[MOST] = {false};
    unsigned pairs = 0;
    if ((map & 3u) != NIF_TAG_BOXED || nif_kind(map) != NIF_MAP || !nif_map_begin(&it, map) || it.n != n) {
        return false;
    }
    while (nif_map_next(&it, &key, &value)) {
        if (!nif_is_small(key) || value != key || nif_small(key) < 0 || nif_small(key) >= n ||
            seen[nif_small(key)]) {
            return false;
        }
        seen[nif_small(key)] = true;
        pairs++;
    }
    return pairs == n;
}

/* Checks small maps, the smallest maps that are trees, and a tree of several levels. */
void nif_map_init(ErlNifEnv *env)
{
    static const unsigned looked_at[] = {0, 1, 2, 32, 33, 40, 300};
    ERL_NIF_TERM map = enif_make_new_map(env);
    size_t next = 0;
    if (!nif_layout.map_ok) {
        return;
    }
    uint8_t *kind = &nif_boxed.kinds[nif_header(map) >> 2 & 15u];
    bool ok = *kind == NIF_UNKNOWN;
    *kind = ok ? NIF_MAP : *kind;
    for (unsigned n = 0; ok && next < sizeof looked_at / sizeof *looked_at; n++) {
        if (n == looked_at[next]) {
            ok = has_all(map, n);
            next++;
        }
        ERL_NIF_TERM t = enif_make_uint(env, n);
        ok = ok && enif_make_map_put(env, map, t, t, &map);
    }
    if (!ok && *kind == NIF_MAP) {
        *kind = NIF_UNKNOWN;
    }
}
