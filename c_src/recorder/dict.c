/* SPDX-License-Identifier: Apache-2.0
 *
 * The dictionary: an append-only mapped file, and a hash table in memory that indexes it.
 * Lock-free: a thread that stops at any point here blocks no other thread. At worst it leaves
 * a hole in the file, which readers skip.
 *
 * Keys of the table: the word of an atom; the atom ids and arity of an MFA; the caller's hash
 * of a term (the bytes are compared as well).
 */
#include <zlib.h>

#include "kymo_internal.h"

#define KYMO_CLAIMED 1u
#define KYMO_ENTRY_MIN 24u
/* If a definition of up to this size does not fit, the dictionary is marked as full, and no
 * more definitions are tried: building one costs the tracee far more than testing the mark. */
#define KYMO_ENTRY_COMMON 2048u

/* Ids stay below 2^26: 1 GiB of entries of 24 bytes. */
_Static_assert((1u << 30) / KYMO_ENTRY_MIN < (1u << 26), "an id fits in 26 bits of an MFA key");
#define KYMO_ARITY_MAX 4095u

/* The table has one place for each 32 bytes of dictionary; most definitions are longer. At
 * most seven eighths of the places are used, so that a search always ends. */
static unsigned table_bits(uint64_t dict_bytes)
{
    unsigned bits = 8;

    while (((uint64_t)1 << bits) < dict_bytes / 32)
        bits++;
    return bits;
}

static uint64_t table_most(const struct kymo_dict *d)
{
    return (d->mask + 1) / 8 * 7;
}

uint64_t kymo_dict_table_bytes(uint64_t dict_bytes)
{
    return ((uint64_t)1 << table_bits(dict_bytes)) * sizeof(struct kymo_dict_slot);
}

void kymo_dict_init(struct kymo_dict *d, void *mem, uint64_t bytes, void *table)
{
    unsigned bits = table_bits(bytes);

    d->mem = mem;
    d->bytes = bytes;
    d->table = table;
    d->mask = ((uint64_t)1 << bits) - 1;
    d->shift = 64 - bits;
}

struct definition {
    enum kymo_dict_kind kind;
    uint64_t key;
    const void *payload;
    size_t len;
};

static uint64_t first_place(const struct kymo_dict *d, const struct definition *def)
{
    return kymo_mix(def->key + ((uint64_t)def->kind << 56)) >> d->shift;
}

static bool same(const struct kymo_dict *d, uint64_t i, uint64_t val, const struct definition *def)
{
    const struct kymo_dict_entry *e;

    if (val == KYMO_CLAIMED || val >> 60 != (uint64_t)def->kind || kymo_get(&d->table[i].key) != def->key)
        return false;
    if (def->kind != KYMO_DICT_TERM)
        return true;
    e = (const struct kymo_dict_entry *)(const void *)(d->mem + ((val >> 32) & 0xfffffffu) * 8);
    return e->len == def->len && memcmp(e + 1, def->payload, def->len) == 0;
}

static uint32_t find(const struct kymo_dict *d, const struct definition *def)
{
    uint64_t val;

    for (uint64_t i = first_place(d, def);; i = (i + 1) & d->mask) {
        val = kymo_get_acquire(&d->table[i].val);
        if (val == 0)
            return 0;
        if (same(d, i, val, def))
            return (uint32_t)val;
    }
}

/* Returns the id of val, or that of an equal entry if another thread has added one first. */
static uint32_t insert(struct kymo_dict *d, const struct definition *def, uint64_t val)
{
    for (uint64_t i = first_place(d, def);; i = (i + 1) & d->mask) {
        uint64_t v = kymo_get_acquire(&d->table[i].val);

        if (v == 0 && __atomic_compare_exchange_n(&d->table[i].val, &v, (uint64_t)KYMO_CLAIMED, false,
                                                  __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
            kymo_set(&d->table[i].key, def->key);
            kymo_set_release(&d->table[i].val, val);
            return (uint32_t)val;
        }
        if (same(d, i, v, def))
            return (uint32_t)v;
    }
}

/* Counts a definition that did not fit. If it was of common size, marks the dictionary as
 * full. */
static uint32_t no_room(struct kymo_recorder *r, uint64_t total)
{
    if (total <= KYMO_ENTRY_COMMON)
        kymo_set(&r->head.dict_full, 1u);
    kymo_add(&r->meta->dict_full, (uint64_t)1);
    return 0;
}

/* Appends an entry at *offset. Returns its id, or 0 if there is no room. */
static uint32_t append(struct kymo_recorder *r, const struct definition *def, uint64_t *offset)
{
    uint64_t total = KYMO_DICT_HDR + kymo_round8(def->len);
    uint64_t used = kymo_get(&r->meta->dict_used);
    struct kymo_dict_entry *e;

    do {
        if (kymo_get(&r->head.dict_full) || def->len > UINT16_MAX || r->dict.bytes - used < total)
            return no_room(r, total);
    } while (!__atomic_compare_exchange_n(&r->meta->dict_used, &used, used + total, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    KYMO_POINT(KYMO_AT_DICT_RESERVED);
    e = (struct kymo_dict_entry *)(void *)(r->dict.mem + used);
    e->kind = (uint8_t)def->kind;
    e->flags = 0;
    e->len = (uint16_t)def->len;
    e->id = kymo_add(&r->dict.last_id, 1u) + 1;
    memcpy(e + 1, def->payload, def->len);
    e->crc = (uint32_t)crc32(0, &e->kind, (uInt)(KYMO_DICT_HDR - 8 + def->len));
    kymo_set_release(&e->magic, KYMO_DICT_MAGIC);
    *offset = used;
    return e->id;
}

static uint32_t define(struct kymo_recorder *r, const struct definition *def)
{
    uint64_t offset;
    uint32_t id;

    if (kymo_add(&r->dict.found, (uint64_t)1) >= table_most(&r->dict)) {
        (void)__atomic_fetch_sub(&r->dict.found, (uint64_t)1, __ATOMIC_RELAXED);
        return no_room(r, KYMO_DICT_HDR);
    }
    id = append(r, def, &offset);
    if (id == 0) {
        (void)__atomic_fetch_sub(&r->dict.found, (uint64_t)1, __ATOMIC_RELAXED);
        return KYMO_DICT_NO_ROOM;
    }
    return insert(&r->dict, def, (uint64_t)def->kind << 60 | (offset / 8) << 32 | id);
}

static uint32_t cache_atom(struct kymo_writer *w, uint64_t word, uint32_t id)
{
    if (id != 0)
        *kymo_atom_cache(w, word) = (struct kymo_cached_atom){word, id, 0};
    return id;
}

uint32_t kymo_dict_atom_shared(struct kymo_writer *w, uint64_t word)
{
    const struct definition def = {KYMO_DICT_ATOM, word, NULL, 0};

    return cache_atom(w, word, find(&w->rec->dict, &def));
}

uint32_t kymo_dict_atom_add(struct kymo_writer *w, uint64_t word, const char *utf8, size_t len)
{
    const struct definition def = {KYMO_DICT_ATOM, word, utf8, len};

    return cache_atom(w, word, define(w->rec, &def));
}

static uint64_t mfa_key(uint32_t module, uint32_t function, uint32_t arity)
{
    return (uint64_t)module << 38 | (uint64_t)function << 12 | arity;
}

void kymo_dict_mfa_of_key(uint64_t key, uint32_t *module, uint32_t *function, uint32_t *arity)
{
    *module = (uint32_t)(key >> 38);
    *function = (uint32_t)(key >> 12) & ((1u << 26) - 1);
    *arity = (uint32_t)key & KYMO_ARITY_MAX;
}

static uint32_t cache_mfa(struct kymo_writer *w, uint64_t m, uint64_t f, uint32_t arity, uint32_t id)
{
    if (id != 0)
        *kymo_mfa_cache(w, m, f, arity) = (struct kymo_cached_mfa){m, f, arity, id};
    return id;
}

uint32_t kymo_dict_mfa_shared(struct kymo_writer *w, uint64_t m, uint64_t f, uint32_t arity)
{
    struct definition def = {KYMO_DICT_MFA, 0, NULL, 0};
    uint32_t module = kymo_dict_atom(w, m);
    uint32_t function = kymo_dict_atom(w, f);

    if (module == 0 || function == 0 || arity > KYMO_ARITY_MAX)
        return 0;
    def.key = mfa_key(module, function, arity);
    return cache_mfa(w, m, f, arity, find(&w->rec->dict, &def));
}

uint32_t kymo_dict_mfa_add(struct kymo_writer *w, uint64_t m, uint64_t f, uint32_t arity, uint32_t module,
                           uint32_t function)
{
    const uint32_t payload[3] = {module, function, arity};
    const struct definition def = {KYMO_DICT_MFA, mfa_key(module, function, arity), payload, sizeof payload};

    if (module == 0 || function == 0 || arity > KYMO_ARITY_MAX) {
        kymo_add(&w->rec->meta->dict_full, (uint64_t)1);
        return KYMO_DICT_NO_ROOM;
    }
    return cache_mfa(w, m, f, arity, define(w->rec, &def));
}

uint32_t kymo_dict_term(struct kymo_writer *w, uint64_t hash, const uint8_t *etf, size_t len)
{
    const struct definition def = {KYMO_DICT_TERM, hash, etf, len};
    uint32_t id = find(&w->rec->dict, &def);

    return id != 0 ? id : define(w->rec, &def);
}

bool kymo_dict_note(struct kymo_recorder *r, enum kymo_dict_kind kind, const void *payload, size_t len)
{
    const struct definition def = {kind, 0, payload, len};
    uint64_t offset;

    return append(r, &def, &offset) != 0;
}

bool kymo_dict_process(struct kymo_writer *w, const struct kymo_described *p)
{
    const struct {
        uint64_t ident, ticks;
        uint32_t name, mfa;
        uint64_t parent, caller;
    } payload = {p->ident, kymo_now(w), p->name, p->mfa, p->parent, p->caller};

    return kymo_dict_note(w->rec, KYMO_DICT_PROC, &payload, sizeof payload);
}
