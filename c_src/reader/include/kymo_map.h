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
    bool has_odd;  /* the one key that has no slot like others is there */
};

/* Never fails: the table is allocated by the first put. value_size may be 0
 * (a set). */
void kymo_map_init(struct kymo_map *m, size_t value_size);
void kymo_map_free(struct kymo_map *m);
/* Makes `to`, which holds nothing yet, a copy of m. False: no memory, it is empty. */
bool kymo_map_copy(struct kymo_map *to, const struct kymo_map *m);

/* The value of key, or NULL. In a set any non-NULL pointer means "there". */
void *kymo_map_get(const struct kymo_map *m, uint64_t key);

/* The value of key, added as zero bytes when it was not there (*added, which
 * may be NULL, says so). NULL: no memory; the map is as before. */
void *kymo_map_put(struct kymo_map *m, uint64_t key, bool *added);

/* False when key was not there. */
bool kymo_map_remove(struct kymo_map *m, uint64_t key);

/* Walks the map in no particular order: start with *it = 0; NULL at the end.
 * The map must not be changed on the way, values may be. */
void *kymo_map_next(const struct kymo_map *m, size_t *it, uint64_t *key);

#endif
