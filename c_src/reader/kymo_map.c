/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing with linear probing; removal shifts the following keys back,
 * so there are no tombstones and a map with much coming and going stays small.
 */
#include "kymo_map.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 64 };

/* Idents differ in their low bits mostly, and an adversary may choose them:
 * mix all bits into the low ones. */
static size_t home(const struct kymo_map *m, uint64_t key)
{
    key ^= key >> 32;
    key *= 0x9e3779b97f4a7c15ull;
    key ^= key >> 29;
    key *= 0xbf58476d1ce4e5b9ull;
    key ^= key >> 32;
    return (size_t)key & (m->slots - 1);
}

static uint8_t *value(const struct kymo_map *m, size_t i)
{
    return m->values + i * m->value_size;
}

/* The slot of key, or the free one where it would go. */
static size_t find(const struct kymo_map *m, uint64_t key)
{
    size_t i = home(m, key);
    while (m->used[i] && m->keys[i] != key)
        i = (i + 1) & (m->slots - 1);
    return i;
}

void kymo_map_init(struct kymo_map *m, size_t value_size)
{
    memset(m, 0, sizeof *m);
    m->value_size = value_size;
}

void kymo_map_free(struct kymo_map *m)
{
    size_t value_size = m->value_size;
    free(m->keys);
    free(m->used);
    free(m->values);
    kymo_map_init(m, value_size);
}

static bool grow(struct kymo_map *m)
{
    struct kymo_map bigger = *m;
    bigger.slots = m->slots == 0 ? FIRST_SLOTS : m->slots * 2;
    bigger.keys = calloc(bigger.slots, sizeof *bigger.keys);
    bigger.used = calloc(bigger.slots, 1);
    /* One byte more, so that the values of a set have an address too. */
    bigger.values = calloc(bigger.slots + 1, m->value_size == 0 ? 1 : m->value_size);
    if (bigger.keys == NULL || bigger.used == NULL || bigger.values == NULL) {
        free(bigger.keys);
        free(bigger.used);
        free(bigger.values);
        return false;
    }
    for (size_t i = 0; i < m->slots; i++) {
        if (m->used[i]) {
            size_t j = find(&bigger, m->keys[i]);
            bigger.used[j] = 1;
            bigger.keys[j] = m->keys[i];
            memcpy(value(&bigger, j), value(m, i), m->value_size);
        }
    }
    free(m->keys);
    free(m->used);
    free(m->values);
    m->keys = bigger.keys;
    m->used = bigger.used;
    m->values = bigger.values;
    m->slots = bigger.slots;
    return true;
}

void *kymo_map_get(const struct kymo_map *m, uint64_t key)
{
    if (m->slots == 0)
        return NULL;
    size_t i = find(m, key);
    return m->used[i] ? value(m, i) : NULL;
}

void *kymo_map_put(struct kymo_map *m, uint64_t key, bool *added)
{
    if (added != NULL)
        *added = false;
    if (m->slots != 0) {
        size_t i = find(m, key);
        if (m->used[i])
            return value(m, i);
    }
    if ((m->count + 1) * 4 > m->slots * 3 && !grow(m))
        return NULL;
    size_t i = find(m, key);
    m->used[i] = 1;
    m->keys[i] = key;
    memset(value(m, i), 0, m->value_size);
    m->count++;
    if (added != NULL)
        *added = true;
    return value(m, i);
}

bool kymo_map_remove(struct kymo_map *m, uint64_t key)
{
    if (m->slots == 0)
        return false;
    size_t hole = find(m, key);
    if (!m->used[hole])
        return false;
    size_t mask = m->slots - 1;
    for (size_t i = (hole + 1) & mask; m->used[i]; i = (i + 1) & mask) {
        /* The key at i may move to the hole unless its home lies between. */
        if (((i - home(m, m->keys[i])) & mask) >= ((i - hole) & mask)) {
            m->keys[hole] = m->keys[i];
            memcpy(value(m, hole), value(m, i), m->value_size);
            hole = i;
        }
    }
    m->used[hole] = 0;
    m->count--;
    return true;
}

void *kymo_map_next(const struct kymo_map *m, size_t *it, uint64_t *key)
{
    while (*it < m->slots) {
        size_t i = (*it)++;
        if (m->used[i]) {
            if (key != NULL)
                *key = m->keys[i];
            return value(m, i);
        }
    }
    return NULL;
}
