/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing with linear probing. Removal shifts the following keys back, so there are
 * no tombstones, and a map with many insertions and removals stays small. A key and its value
 * are adjacent in memory: most look-ups touch one cache line. Keys are stored as their
 * difference from ODD_KEY, an unlikely key, so that 0 marks a free place. ODD_KEY itself has a
 * place of its own after all others.
 */
#include "kymo_map.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 64 };
#define ODD_KEY 0xb5ad4eceda1ce2a9ull

/* Mixes all bits into the low ones: idents differ mostly in their low bits, and an adversary may
 * choose them. */
static inline size_t home(const struct kymo_map *m, uint64_t key)
{
    key ^= key >> 32;
    key *= 0x9e3779b97f4a7c15ull;
    key ^= key >> 29;
    key *= 0xbf58476d1ce4e5b9ull;
    key ^= key >> 32;
    return (size_t)key & (m->slots - 1);
}

static inline uint64_t *key_at(const struct kymo_map *m, size_t i)
{
    return (uint64_t *)(void *)(m->entries + i * m->stride);
}

static inline void *value_at(const struct kymo_map *m, size_t i)
{
    return m->entries + i * m->stride + sizeof(uint64_t);
}

/* The slot of key, which is not ODD_KEY, or the free one where it would go. */
static inline size_t find(const struct kymo_map *m, uint64_t key)
{
    size_t i = home(m, key);
    for (uint64_t there; (there = *key_at(m, i)) != (key ^ ODD_KEY) && there != 0;)
        i = (i + 1) & (m->slots - 1);
    return i;
}

void kymo_map_init(struct kymo_map *m, size_t value_size)
{
    memset(m, 0, sizeof *m);
    m->value_size = value_size;
    m->stride = sizeof(uint64_t) + (value_size + 7) / 8 * 8;
}

void kymo_map_free(struct kymo_map *m)
{
    size_t value_size = m->value_size;
    free(m->entries);
    kymo_map_init(m, value_size);
}

/* One extra byte, so that the value of ODD_KEY has an address even in a set. */
static size_t bytes_of(const struct kymo_map *m)
{
    return (m->slots + 1) * m->stride + 1;
}

bool kymo_map_copy(struct kymo_map *to, const struct kymo_map *m)
{
    kymo_map_init(to, m->value_size);
    if (m->slots == 0)
        return true;
    uint8_t *entries = malloc(bytes_of(m));
    if (entries == NULL)
        return false;
    memcpy(entries, m->entries, bytes_of(m));
    *to = *m;
    to->entries = entries;
    return true;
}

static bool grow(struct kymo_map *m)
{
    struct kymo_map bigger = *m;
    bigger.slots = m->slots == 0 ? FIRST_SLOTS : m->slots * 2;
    bigger.entries = calloc(1, bytes_of(&bigger));
    if (bigger.entries == NULL)
        return false;
    for (size_t i = 0; i < m->slots; i++) {
        uint64_t key = *key_at(m, i);
        if (key != 0)
            memcpy(key_at(&bigger, find(&bigger, key ^ ODD_KEY)), key_at(m, i), m->stride);
    }
    if (m->slots != 0)
        memcpy(key_at(&bigger, bigger.slots), key_at(m, m->slots), m->stride);
    free(m->entries);
    *m = bigger;
    return true;
}

void *kymo_map_get(const struct kymo_map *m, uint64_t key)
{
    if (m->slots == 0)
        return NULL;
    if (key == ODD_KEY)
        return m->has_odd ? value_at(m, m->slots) : NULL;
    size_t i = find(m, key);
    return *key_at(m, i) != 0 ? value_at(m, i) : NULL;
}

void *kymo_map_put(struct kymo_map *m, uint64_t key, bool *added)
{
    if (added != NULL)
        *added = false;
    size_t i = 0;
    if (m->slots != 0 && key != ODD_KEY) {
        i = find(m, key);
        if (*key_at(m, i) != 0)
            return value_at(m, i);
    } else if (m->has_odd && key == ODD_KEY) {
        return value_at(m, m->slots);
    }
    if ((m->count + 1) * 4 > m->slots * 3) {
        if (!grow(m))
            return NULL;
        i = key != ODD_KEY ? find(m, key) : 0;
    }
    if (key == ODD_KEY) {
        m->has_odd = true;
        i = m->slots;
    }
    *key_at(m, i) = key ^ ODD_KEY;
    memset(value_at(m, i), 0, m->value_size);
    m->count++;
    if (added != NULL)
        *added = true;
    return value_at(m, i);
}

bool kymo_map_remove(struct kymo_map *m, uint64_t key)
{
    if (m->slots == 0)
        return false;
    if (key == ODD_KEY) {
        bool there = m->has_odd;
        m->count -= there;
        m->has_odd = false;
        return there;
    }
    size_t hole = find(m, key);
    if (*key_at(m, hole) == 0)
        return false;
    size_t mask = m->slots - 1;
    uint64_t there;
    for (size_t i = (hole + 1) & mask; (there = *key_at(m, i)) != 0; i = (i + 1) & mask) {
        /* The key at i may move to the hole unless its home lies between. */
        if (((i - home(m, there ^ ODD_KEY)) & mask) >= ((i - hole) & mask)) {
            memcpy(key_at(m, hole), key_at(m, i), m->stride);
            hole = i;
        }
    }
    *key_at(m, hole) = 0;
    m->count--;
    return true;
}

void *kymo_map_next(const struct kymo_map *m, size_t *it, uint64_t *key)
{
    /* ODD_KEY comes first: *it is one more than the slot. */
    if (*it == 0) {
        *it = 1;
        if (m->has_odd) {
            if (key != NULL)
                *key = ODD_KEY;
            return value_at(m, m->slots);
        }
    }
    while (*it <= m->slots) {
        size_t i = (*it)++ - 1;
        if (*key_at(m, i) != 0) {
            if (key != NULL)
                *key = *key_at(m, i) ^ ODD_KEY;
            return value_at(m, i);
        }
    }
    return NULL;
}
