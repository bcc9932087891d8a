/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "kymo_cli.h"

enum { MAX_KEYS = 700000 }; /* fits in a map of 2^20 places: 17 MiB */

void cli_tally_init(struct cli_tally *t)
{
    memset(t, 0, sizeof *t);
    kymo_map_init(&t->map, sizeof(uint64_t));
}

void cli_tally_free(struct cli_tally *t)
{
    kymo_map_free(&t->map);
    t->last = NULL;
}

/* Drops at least half of the keys, those with the smallest counts. */
static void prune(struct cli_tally *t)
{
    size_t by_bits[65] = {0}, it = 0, below = 0;
    uint64_t key;
    for (uint64_t *v; (v = kymo_map_next(&t->map, &it, NULL)) != NULL;)
        by_bits[*v == 0 ? 0 : 64 - __builtin_clzll(*v)]++;
    unsigned bits = 0;
    while (bits < 64 && (below += by_bits[bits]) * 2 < t->map.count)
        bits++;
    uint64_t least = bits >= 64 ? UINT64_MAX : 1ull << bits; /* counts below this are forgotten */
    struct kymo_map kept;
    kymo_map_init(&kept, sizeof(uint64_t));
    it = 0;
    for (uint64_t *v; !t->failed && (v = kymo_map_next(&t->map, &it, &key)) != NULL;) {
        if (*v < least)
            continue;
        uint64_t *copy = kymo_map_put(&kept, key, NULL);
        if (copy == NULL)
            t->failed = true;
        else
            *copy = *v;
    }
    kymo_map_free(&t->map);
    t->map = kept;
    t->error += least - 1;
}

void cli_tally_grow(struct cli_tally *t, uint64_t key)
{
    if (t->map.count >= MAX_KEYS && kymo_map_get(&t->map, key) == NULL)
        prune(t);
    t->last = kymo_map_put(&t->map, key, NULL);
    t->last_key = key;
    if (t->last == NULL)
        t->failed = true;
}

static int largest(const void *a, const void *b)
{
    const struct cli_count *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

size_t cli_tally_top(const struct cli_tally *t, struct cli_count *out, size_t n)
{
    size_t used = 0, it = 0;
    uint64_t key;
    if (n == 0)
        return 0;
    /* out is kept sorted; most keys are smaller than its last. */
    for (const uint64_t *v; (v = kymo_map_next(&t->map, &it, &key)) != NULL;) {
        struct cli_count c = {key, *v};
        if (used == n && largest(&c, &out[n - 1]) > 0)
            continue;
        size_t i = used < n ? used++ : n - 1;
        for (; i > 0 && largest(&c, &out[i - 1]) < 0; i--)
            out[i] = out[i - 1];
        out[i] = c;
    }
    return used;
}
