/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash map from 64-bit keys to values of one fixed size, for per-process,
 * per-function and per-id state of the reader, the command and the exporters.
 * Not thread safe. Any key is allowed, 0 too.
 *
 * Values live inside the table: a pointer to one is valid until the next call
 * of put that adds a key, or of remove or free; it is aligned to 8 bytes. Memory is at
 * most about 4 * (value_size + 15) bytes per key at its largest number of keys; it shrinks
 * only at free.
 */
#ifndef KYMO_MAP_H
#define KYMO_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kymo_map {
    uint8_t *entries; /* slots + 1 of them: a key and its value each */
    size_t value_size;
    size_t stride; /* of entries */
    size_t count;  /* keys in the map */
    size_t slots;  /* 0 or a power of two */
    bool has_odd;  /* the special key, which has a slot of its own, is in the map */
};

/* Never fails: the table is allocated by the first put. value_size may be 0
 * (a set). */
void kymo_map_init(struct kymo_map *m, size_t value_size);
void kymo_map_free(struct kymo_map *m);
/* Makes `to`, which must be empty, a copy of m. Returns false if out of memory; then `to` stays
 * empty. */
bool kymo_map_copy(struct kymo_map *to, const struct kymo_map *m);

/* The value of key, or NULL. In a set any non-NULL pointer means "there". */
void *kymo_map_get(const struct kymo_map *m, uint64_t key);

/* The value of key. If there was none, adds zero bytes and sets *added, which may be NULL.
 * Returns NULL if out of memory; then the map is unchanged. */
void *kymo_map_put(struct kymo_map *m, uint64_t key, bool *added);

/* Removes a key. Returns false if it was not in the map. */
bool kymo_map_remove(struct kymo_map *m, uint64_t key);

/* Iterates over the map in no particular order. Start with *it = 0; returns NULL at the end. Keys
 * must not be added or removed during the iteration; values may be changed. */
void *kymo_map_next(const struct kymo_map *m, size_t *it, uint64_t *key);

#endif
