/* SPDX-License-Identifier: Apache-2.0
 *
 * For budgets: finds the words of atoms by their dictionary ids, and writes notes of what was
 * shed.
 */
#include <stdlib.h>

#include "kymo_budget.h"
#include "kymo_internal.h"

/* Ids per note. A note is at most KYMO_ENTRY_COMMON long: if it does not fit and the
 * dictionary is marked as full, ordinary definitions would not have fitted much longer. */
#define NOTE_IDS 500u

void kymo_recorder_budget(struct kymo_recorder *r, uint64_t ppm, uint64_t events)
{
    kymo_set(&r->meta->budget_ppm, ppm);
    kymo_set(&r->meta->budget_events, events);
}

/* An atom id whose word is wanted. */
struct wanted {
    uint32_t id;
    uint64_t *word;
};

static int by_id(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

/* The first entry for this id, or NULL. */
static struct wanted *first(struct wanted *v, size_t n, uint32_t id)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (v[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && v[low].id == id ? &v[low] : NULL;
}

/* Fills in the word of each wanted entry of this kind. */
static void look_up(const struct kymo_dict *d, enum kymo_dict_kind kind, struct wanted *v, size_t n)
{
    qsort(v, n, sizeof *v, by_id);
    for (uint64_t i = 0; i <= d->mask; i++) {
        uint64_t val = kymo_get_acquire(&d->table[i].val);

        if (val >> 60 != (uint64_t)kind)
            continue;
        for (struct wanted *w = first(v, n, (uint32_t)val); w != NULL && w < v + n && w->id == (uint32_t)val;
             w++)
            *w->word = kymo_get(&d->table[i].key);
    }
}

void kymo_dict_find_functions(const struct kymo_dict *d, struct kymo_loud *v, uint32_t n)
{
    struct wanted *wanted = calloc((size_t)n * 2 + 1, sizeof *wanted);
    uint64_t *keys = calloc((size_t)n + 1, sizeof *keys);

    if (wanted != NULL && keys != NULL) {
        for (uint32_t i = 0; i < n; i++)
            wanted[i] = (struct wanted){v[i].id, &keys[i]};
        look_up(d, KYMO_DICT_MFA, wanted, n);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t module, function;

            kymo_dict_mfa_of_key(keys[i], &module, &function, &v[i].arity);
            wanted[2 * i] = (struct wanted){module, &v[i].module};
            wanted[2 * i + 1] = (struct wanted){function, &v[i].function};
        }
        look_up(d, KYMO_DICT_ATOM, wanted, (size_t)n * 2);
    }
    free(keys);
    free(wanted);
}

void kymo_note_shed(struct kymo_writer *w, enum kymo_shedding what, uint32_t kinds, const uint32_t *functions,
                    uint32_t n)
{
    struct kymo_recorder *r = w->rec;
    struct {
        uint64_t ticks;
        uint32_t what, kinds;
        uint32_t ids[NOTE_IDS];
    } note = {.ticks = kymo_now(w), .what = what, .kinds = kinds};
    uint32_t done = 0;

    if (what == KYMO_SHED)
        kymo_add(&r->meta->shed, (uint64_t)n + (uint64_t)__builtin_popcount(kinds));
    do {
        uint32_t part = n - done < NOTE_IDS ? n - done : NOTE_IDS;

        if (part > 0)
            memcpy(note.ids, functions + done, part * sizeof *functions);
        if (!kymo_dict_note(r, KYMO_DICT_SHED, &note, KYMO_DICT_SHED_HDR + part * sizeof *functions))
            kymo_add(&r->meta->shed_unnamed, (uint64_t)part + (uint64_t)__builtin_popcount(note.kinds));
        note.kinds = 0;
        done += part;
    } while (done < n);
}
