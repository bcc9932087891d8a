/* SPDX-License-Identifier: Apache-2.0
 *
 * The dictionary: a sequence of entries, with holes if a thread died between reserving and
 * writing. An entry is valid only with its magic and CRC.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "kymo_reader_int.h"

/* Ids ascend with file offsets, except for threads that are between incrementing the two
 * counters. An id far beyond that is damage, for which no table is allocated. */
enum { ID_SLACK = KYMO_SLOTS_MAX };

/* The maximum number of definitions with the same hash. Beyond it, equal definitions are not
 * merged; only a file made for that purpose has so many. */
enum { MAX_CLASHES = 64 };

/* The maximum number of processes named by events, to bound memory. */
enum { MAX_LEARNT = 200000 };

/* Bytes of a description without and with parent and caller. */
enum { PROC_ALONE = 24, PROC_RELATED = 40 };

static bool define(struct kymo_defs *d, const struct kymo_dict_entry *e, const uint8_t *payload)
{
    void *p = d->def;
    size_t room = d->def_room;
    if (!kymo_grow(&p, &room, (size_t)e->id + 1, sizeof *d->def))
        return false;
    d->def = p;
    d->def_room = (uint32_t)room;
    if (e->id > d->n) {
        memset(&d->def[d->n + 1], 0, (size_t)(e->id - d->n) * sizeof *d->def);
        d->n = e->id;
    }
    if (d->def[e->id].kind != 0)
        return true; /* an id belongs to its first definition */
    p = d->arena;
    bool ok = kymo_grow(&p, &d->room, d->used + e->len + 1, 1);
    d->arena = p;
    if (!ok)
        return false;
    if (e->len > 0)
        memcpy(d->arena + d->used, payload, e->len);
    d->def[e->id] = (struct kymo_def){.at = d->used, .canonical = e->id, .len = e->len, .kind = e->kind};
    d->used += e->len;
    return true;
}

static bool well_formed(const struct kymo_dict_entry *e)
{
    switch (e->kind) {
    case KYMO_DICT_ATOM: return e->len <= 255 * 4;
    case KYMO_DICT_MFA: return e->len == 12;
    case KYMO_DICT_PROC: return e->len == PROC_ALONE || e->len == PROC_RELATED;
    case KYMO_DICT_SHED: return e->len >= KYMO_DICT_SHED_HDR && e->len % 4 == 0;
    default: return e->kind == KYMO_DICT_TERM;
    }
}

/* The entry of a process, added if there was none; NULL if out of memory. */
static struct kymo_process *described(struct kymo_defs *d, uint64_t ident)
{
    bool added;
    struct kymo_process *p = kymo_map_put(&d->processes, ident, &added);
    if (p != NULL && added)
        p->parent = p->caller = KYMO_IDENT_NONE;
    return p;
}

/* Adds a description. A later one of the same process adds to the earlier one. */
static bool describe(struct kymo_defs *d, const uint8_t *payload, uint32_t len)
{
    struct kymo_process *p = described(d, kymo_get64(payload));
    if (p == NULL)
        return false;
    uint32_t name = kymo_get32(payload + 16), mfa = kymo_get32(payload + 20);
    if (name != 0)
        p->name = name;
    if (mfa != 0)
        p->mfa = mfa;
    if (len == PROC_RELATED) {
        uint64_t parent = kymo_get64(payload + 24), caller = kymo_get64(payload + 32);
        if (parent != KYMO_IDENT_NONE)
            p->parent = parent;
        if (caller != KYMO_IDENT_NONE)
            p->caller = caller;
    }
    return true;
}

ssize_t kymo_defs_parse(struct kymo_defs *d, const uint8_t *p, size_t n, uint64_t offset, bool last,
                        uint64_t *bad)
{
    size_t pos = 0;
    while (pos < n) {
        struct kymo_dict_entry e;
        size_t left = n - pos;
        if (left < sizeof e) {
            if (!last)
                break;
            return (ssize_t)n; /* the end of the file: no room for an entry */
        }
        memcpy(&e, p + pos, sizeof e);
        size_t size = (sizeof e + e.len + 7) & ~(size_t)7;
        if (e.magic == KYMO_DICT_MAGIC && e.id != 0 && e.id <= (offset + pos) / 16 + ID_SLACK &&
            well_formed(&e)) {
            if (size > left && !last)
                break;
            if (sizeof e + e.len <= left && crc32(0, p + pos + 8, 8u + e.len) == e.crc) {
                const uint8_t *payload = p + pos + sizeof e;
                if (!define(d, &e, payload) || (e.kind == KYMO_DICT_PROC && !describe(d, payload, e.len)))
                    return -ENOMEM;
                pos += size < left ? size : left;
                continue;
            }
        }
        if (kymo_get64(p + pos) != 0)
            *bad += 8;
        pos += 8;
    }
    return (ssize_t)pos;
}

/* The payload of a definition for comparison: an MFA with the canonical ids of its atoms, so that
 * equal names compare equal. */
static const uint8_t *content_of(const struct kymo_defs *d, uint32_t id, uint8_t mfa[12], uint32_t *len)
{
    const struct kymo_def *def = &d->def[id];
    const uint8_t *p = d->arena + def->at;
    *len = def->len;
    if (def->kind != KYMO_DICT_MFA)
        return p;
    for (unsigned i = 0; i < 2; i++) {
        uint32_t atom = kymo_get32(p + 4 * i);
        if (atom <= d->n && d->def[atom].kind == KYMO_DICT_ATOM)
            atom = d->def[atom].canonical;
        memcpy(mfa + 4 * i, &atom, 4);
    }
    memcpy(mfa + 8, p + 8, 4);
    return mfa;
}

static uint64_t hash(uint8_t kind, const uint8_t *p, uint32_t len)
{
    uint64_t h = 0xcbf29ce484222325ull ^ kind;
    for (uint32_t i = 0; i < len; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    return h;
}

static bool same(const struct kymo_defs *d, uint32_t a, uint32_t b)
{
    uint8_t mfa_a[12], mfa_b[12];
    uint32_t len_a, len_b;
    const uint8_t *p = content_of(d, a, mfa_a, &len_a), *q = content_of(d, b, mfa_b, &len_b);
    return d->def[a].kind == d->def[b].kind && len_a == len_b && memcmp(p, q, len_a) == 0;
}

int kymo_defs_finish(struct kymo_defs *d)
{
    struct kymo_map seen; /* hash of the content -> lowest id; clashes take the next free hash */
    kymo_map_init(&seen, sizeof(uint32_t));
    int rc = 0;
    /* Atoms first: MFAs are compared by them. */
    for (unsigned pass = 0; pass < 2; pass++) {
        for (uint32_t id = 1; id <= d->n && rc == 0; id++) {
            struct kymo_def *def = &d->def[id];
            if (def->kind == 0 || def->kind >= KYMO_DICT_PROC || (def->kind == KYMO_DICT_ATOM) != (pass == 0))
                continue;
            uint8_t mfa[12];
            uint32_t len;
            const uint8_t *p = content_of(d, id, mfa, &len);
            uint64_t h = hash(def->kind, p, len);
            bool done = false;
            for (uint64_t i = 0; i < MAX_CLASHES && !done && rc == 0; i++) {
                bool added;
                uint32_t *first = kymo_map_put(&seen, h + i, &added);
                if (first == NULL) {
                    rc = -ENOMEM;
                } else if (added) {
                    *first = id;
                    done = true;
                } else if (same(d, *first, id)) {
                    def->canonical = *first;
                    done = true;
                }
            }
        }
    }
    kymo_map_free(&seen);
    return rc;
}

void kymo_defs_learn(struct kymo_defs *d, uint64_t ident, uint32_t name_atom)
{
    if (name_atom == 0 || d->processes.count >= MAX_LEARNT)
        return;
    struct kymo_process *p = described(d, ident);
    if (p != NULL && p->name == 0) /* without memory, the process has no name */
        p->name = name_atom;
}

void kymo_defs_free(struct kymo_defs *d)
{
    free(d->arena);
    free(d->def);
    kymo_map_free(&d->processes);
    memset(d, 0, sizeof *d);
}
