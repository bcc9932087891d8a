/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what a budget has shed, from its notes in the dictionary.
 */
#include <errno.h>
#include <stdlib.h>

#include "kymo_reader_int.h"

/* Stretches that have begun and not ended. Notes are in the order of their ids, because one
 * process writes them. */
struct open {
    size_t at; /* index of the stretch in the list, plus 1; 0 = restored */
};

/* A key that differs from the ids of functions. */
static uint64_t kind_key(unsigned kind)
{
    return (uint64_t)1 << 32 | kind;
}

static int shed(struct kymo_reader *r, struct kymo_map *open, uint64_t key, const struct kymo_shed *one)
{
    struct open *o = kymo_map_put(open, key, NULL);
    void *list = r->shed;
    if (o == NULL || (o->at == 0 && !kymo_grow(&list, &r->shed_room, r->n_shed + 1, sizeof *r->shed)))
        return -ENOMEM;
    r->shed = list;
    if (o->at == 0) {
        r->shed[r->n_shed++] = *one;
        o->at = r->n_shed;
    }
    return 0;
}

static void give_back(struct kymo_reader *r, struct kymo_map *open, uint64_t key, int64_t ns)
{
    struct open *o = kymo_map_get(open, key);
    if (o == NULL || o->at == 0)
        return;
    r->shed[o->at - 1].to = ns;
    o->at = 0;
}

static int note(struct kymo_reader *r, struct kymo_map *open, const uint8_t *p, uint32_t len)
{
    struct kymo_shed one = {.from = kymo_reader_ns(r, kymo_get64(p)), .to = INT64_MAX};
    uint32_t what = kymo_get32(p + 8), kinds = kymo_get32(p + 12);
    int rc = 0;
    for (unsigned kind = 0; kind < KYMO_KINDS && rc == 0; kind++) {
        if ((kinds >> kind & 1) == 0)
            continue;
        one.kind = kind;
        if (what == KYMO_SHED)
            rc = shed(r, open, kind_key(kind), &one);
        else
            give_back(r, open, kind_key(kind), one.from);
    }
    one.kind = KYMO_KINDS;
    for (uint32_t at = KYMO_DICT_SHED_HDR; at < len && rc == 0; at += 4) {
        one.mfa = kymo_reader_canonical(r, kymo_get32(p + at));
        if (what == KYMO_SHED)
            rc = shed(r, open, one.mfa, &one);
        else if (one.mfa != 0) /* functions without a name cannot be told apart */
            give_back(r, open, one.mfa, one.from);
    }
    return rc;
}

int kymo_shed_find(struct kymo_reader *r)
{
    struct kymo_map open;
    int rc = 0;
    if (r->meta.shed == 0)
        return 0;
    kymo_map_init(&open, sizeof(struct open));
    for (uint32_t id = 1; id <= r->defs.n && rc == 0; id++) {
        const struct kymo_def *d = &r->defs.def[id];
        if (d->kind == KYMO_DICT_SHED)
            rc = note(r, &open, r->defs.arena + d->at, d->len);
    }
    kymo_map_free(&open);
    return rc;
}

const struct kymo_shed *kymo_reader_shed(const struct kymo_reader *r, size_t *n)
{
    *n = r->n_shed;
    return r->shed;
}
