/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges the dictionaries and idents of all recordings. A remote process in one recording may be
 * a local one in another: it has the same ident on the timeline.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "etf_tags.h"
#include "timeline.h"

enum { MFA_BYTES = 12, PROC_NAME = 16, PROC_MFA = 20, PROC_PARENT = 24, PROC_CALLER = 32 };

/* ---- ids and idents ---- */

uint32_t kymo_timeline_id(const struct kymo_timeline *t, uint32_t i, uint32_t id)
{
    return id != 0 && id <= t->m[i].r->defs.n ? id + t->m[i].first_id : 0;
}

uint64_t kymo_timeline_translate(const struct kymo_timeline *t, uint32_t i, uint64_t ident)
{
    uint64_t data = KYMO_IDENT_DATA(ident);
    unsigned kind = KYMO_IDENT_KIND(ident);
    const uint64_t *there;
    switch (kind) {
    case KYMO_I_PID:
    case KYMO_I_PORT: return (ident & ~KYMO_NODE_MASK) | (uint64_t)i << KYMO_NODE_SHIFT;
    case KYMO_I_TERM:
    case KYMO_I_ATOM:
        data = data <= UINT32_MAX ? kymo_timeline_id(t, i, (uint32_t)data) : 0;
        there = kind == KYMO_I_TERM ? kymo_map_get(&t->elsewhere, data) : NULL;
        return there != NULL ? *there : KYMO_IDENT(kind, data);
    default: return ident;
    }
}

uint64_t kymo_timeline_ident(const struct kymo_reader *r, uint64_t ident, uint32_t i)
{
    unsigned kind = KYMO_IDENT_KIND(ident);
    if (r->timeline == NULL || (kind != KYMO_I_PID && kind != KYMO_I_PORT))
        return ident;
    return (ident & ~KYMO_NODE_MASK) | (uint64_t)i << KYMO_NODE_SHIFT;
}

static uint32_t of_id(const struct kymo_timeline *t, uint64_t id)
{
    uint32_t i = t->n - 1;
    while (i > 0 && id <= t->m[i].first_id)
        i--;
    return i;
}

uint32_t kymo_timeline_of(const struct kymo_reader *r, uint64_t ident)
{
    const struct kymo_timeline *t = r->timeline;
    uint32_t i;
    if (t == NULL)
        return 0;
    switch (KYMO_IDENT_KIND(ident)) {
    case KYMO_I_PID:
    case KYMO_I_PORT: i = (uint32_t)((ident & KYMO_NODE_MASK) >> KYMO_NODE_SHIFT); return i < t->n ? i : 0;
    case KYMO_I_TERM:
    case KYMO_I_ATOM: return of_id(t, KYMO_IDENT_DATA(ident));
    default: return 0;
    }
}

uint32_t kymo_timeline_of_slot(const struct kymo_reader *r, uint32_t slot)
{
    const struct kymo_timeline *t = r->timeline;
    uint32_t i = t != NULL ? t->n - 1 : 0;
    while (i > 0 && slot < t->m[i].first_slot)
        i--;
    return i;
}

/* True for a process, a port, or a registered name. */
static bool has_node(uint64_t ident)
{
    unsigned kind = KYMO_IDENT_KIND(ident);
    return kind == KYMO_I_PID || kind == KYMO_I_PORT || kind == KYMO_I_ATOM;
}

bool kymo_timeline_apart(const struct kymo_reader *r, uint64_t a, uint64_t b)
{
    return r->timeline != NULL && has_node(a) && has_node(b) &&
           kymo_timeline_of(r, a) != kymo_timeline_of(r, b);
}

/* ---- terms of other nodes ---- */

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Reads the atom at *p, which recorders write in UTF-8, and moves *p past it. */
static bool take_atom(const uint8_t **p, const uint8_t *end, struct kymo_text *out)
{
    size_t left = (size_t)(end - *p), head;
    if (left >= 2 && **p == T_SMALL_UTF8_ATOM) {
        head = 2;
        out->len = (*p)[1];
    } else if (left >= 3 && **p == T_UTF8_ATOM) {
        head = 3;
        out->len = (uint32_t)(*p)[1] << 8 | (*p)[2];
    } else {
        return false;
    }
    if (left - head < out->len)
        return false;
    out->s = (const char *)*p + head;
    *p += head + out->len;
    return true;
}

/* The recording of the node with this name, and this creation if it is known; t->n if there is
 * none. */
static uint32_t find_node(const struct kymo_timeline *t, struct kymo_text name, uint32_t creation)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const struct kymo_meta *m = &t->m[i].r->meta;
        if (m->node_len == name.len && memcmp(m->node, name.s, name.len) == 0 &&
            (creation == 0 || m->creation == 0 || m->creation == creation))
            return i;
    }
    return t->n;
}

/* The id of an atom in recording i; 0 if there is none. */
static uint32_t find_atom(const struct kymo_timeline *t, uint32_t i, struct kymo_text text)
{
    const struct kymo_defs *d = &t->m[i].r->defs;
    for (uint32_t id = 1; id <= d->n; id++) {
        if (d->def[id].kind == KYMO_DICT_ATOM && d->def[id].len == text.len &&
            memcmp(d->arena + d->def[id].at, text.s, text.len) == 0)
            return d->def[id].canonical;
    }
    return 0;
}

/* The ident of the process, port or registered name of a recording that the term refers to. */
static uint64_t stands_for(const struct kymo_timeline *t, const uint8_t *p, size_t len)
{
    const uint8_t *end = p + len;
    struct kymo_text name, node;
    uint32_t i, id;
    if (len == 0)
        return KYMO_IDENT_NONE;
    uint8_t tag = *p++;
    if (tag == T_SMALL_TUPLE) {
        if (p == end || *p++ != 2 || !take_atom(&p, end, &name) || !take_atom(&p, end, &node) || p != end ||
            (i = find_node(t, node, 0)) == t->n || (id = find_atom(t, i, name)) == 0)
            return KYMO_IDENT_NONE;
        return kymo_timeline_translate(t, i, KYMO_IDENT(KYMO_I_ATOM, id));
    }
    bool port = tag == T_NEW_PORT || tag == T_V4_PORT;
    if ((tag != T_NEW_PID && !port) || !take_atom(&p, end, &node))
        return KYMO_IDENT_NONE;
    size_t bytes = tag == T_NEW_PORT ? 4 : 8;
    if ((size_t)(end - p) != bytes + 4 || (i = find_node(t, node, be32(p + bytes))) == t->n)
        return KYMO_IDENT_NONE;
    uint64_t ident = KYMO_IDENT(KYMO_I_PID, be32(p) | (uint64_t)be32(p + 4) << 28);
    if (tag == T_NEW_PORT)
        ident = KYMO_IDENT(KYMO_I_PORT, be32(p));
    else if (tag == T_V4_PORT)
        ident = KYMO_IDENT(KYMO_I_PORT, (uint64_t)be32(p) << 32 | be32(p + 4));
    return kymo_timeline_translate(t, i, ident);
}

static int resolve_terms(struct kymo_timeline *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const struct kymo_defs *d = &t->m[i].r->defs;
        for (uint32_t id = 1; id <= d->n; id++) {
            if (d->def[id].kind != KYMO_DICT_TERM)
                continue;
            uint64_t there = stands_for(t, d->arena + d->def[id].at, d->def[id].len), *place;
            if (there == KYMO_IDENT_NONE)
                continue;
            place = kymo_map_put(&t->elsewhere, kymo_timeline_id(t, i, id), NULL);
            if (place == NULL)
                return -ENOMEM;
            *place = there;
        }
    }
    return 0;
}

/* ---- the dictionary ---- */

static void put32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

static void put64(uint8_t *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}

/* Converts the ids in a definition of recording i. */
static void translate_payload(const struct kymo_timeline *t, uint32_t i, const struct kymo_def *def,
                              uint8_t *p)
{
    if (def->kind == KYMO_DICT_MFA && def->len >= MFA_BYTES) {
        put32(p, kymo_timeline_id(t, i, kymo_get32(p)));
        put32(p + 4, kymo_timeline_id(t, i, kymo_get32(p + 4)));
    } else if (def->kind == KYMO_DICT_PROC) {
        put64(p, kymo_timeline_translate(t, i, kymo_get64(p)));
        put32(p + PROC_NAME, kymo_timeline_id(t, i, kymo_get32(p + PROC_NAME)));
        put32(p + PROC_MFA, kymo_timeline_id(t, i, kymo_get32(p + PROC_MFA)));
        if (def->len > PROC_CALLER) {
            put64(p + PROC_PARENT, kymo_timeline_translate(t, i, kymo_get64(p + PROC_PARENT)));
            put64(p + PROC_CALLER, kymo_timeline_translate(t, i, kymo_get64(p + PROC_CALLER)));
        }
    }
}

static int add_processes(struct kymo_reader *r, uint32_t i)
{
    const struct kymo_timeline *t = r->timeline;
    size_t it = 0;
    uint64_t ident;
    for (const struct kymo_process *from;
         (from = kymo_map_next(&t->m[i].r->defs.processes, &it, &ident)) != NULL;) {
        struct kymo_process *to =
            kymo_map_put(&r->defs.processes, kymo_timeline_translate(t, i, ident), NULL);
        if (to == NULL)
            return -ENOMEM;
        *to = (struct kymo_process){.name = kymo_timeline_id(t, i, from->name),
                                    .mfa = kymo_timeline_id(t, i, from->mfa),
                                    .parent = kymo_timeline_translate(t, i, from->parent),
                                    .caller = kymo_timeline_translate(t, i, from->caller)};
    }
    return 0;
}

static int merge(struct kymo_reader *r)
{
    const struct kymo_timeline *t = r->timeline;
    struct kymo_defs *all = &r->defs;
    uint64_t ids = 0, bytes = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        ids += t->m[i].r->defs.n;
        bytes += t->m[i].r->defs.used;
    }
    if (ids >= UINT32_MAX)
        return -ENOMEM;
    all->def = calloc(ids + 1, sizeof *all->def);
    all->arena = malloc(bytes + 1);
    if (all->def == NULL || all->arena == NULL)
        return -ENOMEM;
    all->n = all->def_room = (uint32_t)ids;
    all->room = bytes + 1;
    for (uint32_t i = 0; i < t->n; i++) {
        const struct kymo_defs *d = &t->m[i].r->defs;
        if (d->used > 0)
            memcpy(all->arena + all->used, d->arena, d->used);
        for (uint32_t id = 1; id <= d->n; id++) {
            struct kymo_def *def = &all->def[id + t->m[i].first_id];
            *def = d->def[id];
            def->at += all->used;
            def->canonical = kymo_timeline_id(t, i, def->canonical);
            if (def->kind != 0)
                translate_payload(t, i, def, all->arena + def->at);
        }
        all->used += d->used;
    }
    return 0;
}

/* ---- nodes ---- */

static void name_nodes(struct kymo_timeline *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        struct kymo_member *m = &t->m[i];
        const struct kymo_meta *meta = &m->r->meta;
        struct kymo_text text = {(const char *)meta->node, meta->node_len};
        unsigned same = 1;
        for (uint32_t k = 0; k < i; k++) {
            const struct kymo_meta *before = &t->m[k].r->meta;
            same +=
                before->node_len == meta->node_len && memcmp(before->node, meta->node, meta->node_len) == 0;
        }
        kymo_format_atom(text, m->name, sizeof m->name);
        /* Remove the quotes around node@host. */
        size_t n = strlen(m->name);
        if (n == text.len + 2 && m->name[0] == '\'') {
            memmove(m->name, m->name + 1, n - 2);
            m->name[n -= 2] = '\0';
        }
        if (same > 1)
            snprintf(m->name + n, sizeof m->name - n, "#%u", same);
    }
}

int kymo_timeline_merge_names(struct kymo_reader *r)
{
    struct kymo_timeline *t = r->timeline;
    uint32_t first = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        t->m[i].first_id = first;
        if (__builtin_add_overflow(first, t->m[i].r->defs.n, &first))
            return -ENOMEM;
    }
    name_nodes(t);
    int rc = resolve_terms(t);
    if (rc == 0)
        rc = merge(r);
    for (uint32_t i = 0; i < t->n && rc == 0; i++)
        rc = add_processes(r, i);
    return rc;
}
