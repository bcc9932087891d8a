/* SPDX-License-Identifier: Apache-2.0
 *
 * The pairs of a map, read from its words. The runtime's own iterator allocates for
 * a map of more than 32 keys. A small map is a header, its size, the tuple of its
 * keys and its values. A large one is a tree: its root has the size, each node up
 * to 16 children, which are nodes, pairs (list cells), or tuples of pairs whose
 * keys have the same hash. Any thread; takes no memory. */
#ifndef KYMO_NIF_MAP_H
#define KYMO_NIF_MAP_H

#include "nif_boxed.h"

/* Levels of a tree of keys with 64 bits of hash, 4 for each level, and then some. */
enum { NIF_MAP_LEVELS = 20 };

struct nif_map_children {
    const ERL_NIF_TERM *next;
    uint64_t left;
};

struct nif_map_iter {
    size_t n; /* pairs of the map */
    /* keys and values beside each other, or the tree: */
    const ERL_NIF_TERM *keys, *values;
    size_t left;
    unsigned depth;
    struct nif_map_children stack[NIF_MAP_LEVELS];
};

/* The children of a map's node, the pairs of its own included; the root is one too.
 * Only for a node that nif_map_is_tree. */
struct nif_map_children nif_map_node(const ERL_NIF_TERM *node);
static inline bool nif_map_is_tree(const ERL_NIF_TERM *map)
{
    return (map[0] >> 6 & 3u) != 0;
}

/* Prepares for a term of kind NIF_MAP, or for keys and values that are given. False:
 * the map is not as described above. */
bool nif_map_begin(struct nif_map_iter *it, ERL_NIF_TERM map);
void nif_map_begin_arrays(struct nif_map_iter *it, const ERL_NIF_TERM *keys, const ERL_NIF_TERM *values,
                          size_t n);

/* The next pair. False: no more, or none that is understood. */
bool nif_map_next(struct nif_map_iter *it, ERL_NIF_TERM *key, ERL_NIF_TERM *value);

/* Finds out whether maps are as described; else they become NIF_UNKNOWN. Load time
 * only, after nif_boxed_init. */
void nif_map_init(ErlNifEnv *env);

#endif
