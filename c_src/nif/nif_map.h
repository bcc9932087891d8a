/* SPDX-License-Identifier: Apache-2.0
 *
 * Iterates over the pairs of a map by reading its words. The runtime's iterator allocates for
 * maps of more than 32 keys. A small map is a header, its size, the tuple of its keys, and its
 * values. A large map is a tree: the root has the size, and each node has up to 16 children,
 * which are nodes, pairs (list cells), or tuples of pairs whose keys have the same hash. Any
 * thread; allocates nothing. */
#ifndef KYMO_NIF_MAP_H
#define KYMO_NIF_MAP_H

#include "nif_boxed.h"

/* The maximum number of levels: 64 bits of hash, 4 per level, and some reserve. */
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

/* The children of a node or root, including pairs. Only for terms for which nif_map_is_tree is
 * true. */
struct nif_map_children nif_map_node(const ERL_NIF_TERM *node);
static inline bool nif_map_is_tree(const ERL_NIF_TERM *map)
{
    return (map[0] >> 6 & 3u) != 0;
}

/* Begins an iteration over a term of kind NIF_MAP, or over given keys and values. Returns false
 * if the map has an unknown layout. */
bool nif_map_begin(struct nif_map_iter *it, ERL_NIF_TERM map);
void nif_map_begin_arrays(struct nif_map_iter *it, const ERL_NIF_TERM *keys, const ERL_NIF_TERM *values,
                          size_t n);

/* Returns the next pair; false at the end, or if the layout is unknown. */
bool nif_map_next(struct nif_map_iter *it, ERL_NIF_TERM *key, ERL_NIF_TERM *value);

/* Checks that maps have this layout; otherwise they become NIF_UNKNOWN. During load only, after
 * nif_boxed_init. */
void nif_map_init(ErlNifEnv *env);

#endif
