/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a Perfetto trace without the writer's code, and checks for errors that Perfetto would ignore
 * silently: each packet declares that it needs the incremental state, names are interned before use,
 * slices nest and all of them end, times on a track of slices do not decrease, and an arrow ends once,
 * after its beginning.
 */
#ifndef KYMO_PF_CHECK_H
#define KYMO_PF_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PF_TRACKS = 4096, PF_NAMES = 8192, PF_FLOWS = 4096 };

struct pf_track {
    uint64_t uuid;
    char name[128];
    bool is_process, is_counter;
    uint64_t events;
    int64_t depth, last;
    uint64_t open[256]; /* names of the open slices */
};

struct pf_event {
    uint64_t type, track, name_iid, flow, ends_flow;
    int64_t ts;
    const char *name;
};

struct pf_check {
    const char *error; /* NULL: no error */
    uint64_t packets, begins, ends, instants, flows;
    int64_t ts;
    struct pf_track *tracks;
    unsigned n_tracks;
    char **names; /* by iid */
    struct {
        uint64_t id;
        int64_t ts;
        bool ended;
    } * open_flows;
    unsigned n_flows;
    void (*seen)(void *arg, const struct pf_check *c, const struct pf_track *t, const struct pf_event *e);
    void *arg;
};

struct pf_span {
    const uint8_t *p, *end;
};

static inline bool pf_varint(struct pf_span *s, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; s->p < s->end && shift < 70; shift += 7) {
        uint8_t b = *s->p++;
        *v |= shift < 64 ? (uint64_t)(b & 0x7f) << shift : 0;
        if (b < 0x80)
            return true;
    }
    return false;
}

/* Reads the next field: its number, and its value or bytes. */
static inline bool pf_field(struct pf_span *s, uint64_t *number, uint64_t *v, struct pf_span *bytes)
{
    uint64_t key;
    bytes->p = bytes->end = s->p;
    *v = 0;
    if (!pf_varint(s, &key))
        return false;
    *number = key >> 3;
    if ((key & 7) == 0)
        return pf_varint(s, v);
    if ((key & 7) == 1) {
        if (s->end - s->p < 8)
            return false;
        for (unsigned i = 0; i < 8; i++)
            *v |= (uint64_t)*s->p++ << (8 * i);
        return true;
    }
    if ((key & 7) != 2 || !pf_varint(s, v) || *v > (uint64_t)(s->end - s->p))
        return false;
    bytes->p = s->p;
    bytes->end = s->p += *v;
    return true;
}

static inline void pf_fail(struct pf_check *c, const char *why)
{
    if (c->error == NULL)
        c->error = why;
}

static inline struct pf_track *pf_track_of(struct pf_check *c, uint64_t uuid)
{
    for (unsigned i = 0; i < c->n_tracks; i++) {
        if (c->tracks[i].uuid == uuid)
            return &c->tracks[i];
    }
    return NULL;
}

static inline void pf_descriptor(struct pf_check *c, struct pf_span s)
{
    uint64_t n, v;
    struct pf_span b;
    if (c->n_tracks == PF_TRACKS) {
        pf_fail(c, "too many tracks");
        return;
    }
    if (c->n_tracks % 64 == 0) {
        c->tracks = realloc(c->tracks, (c->n_tracks + 64) * sizeof *c->tracks);
        if (c->tracks == NULL)
            abort();
    }
    struct pf_track *t = &c->tracks[c->n_tracks++];
    memset(t, 0, sizeof *t);
    t->last = INT64_MIN;
    while (s.p < s.end && pf_field(&s, &n, &v, &b)) {
        if (n == 1)
            t->uuid = v;
        if (n == 2)
            snprintf(t->name, sizeof t->name, "%.*s", (int)(b.end - b.p), (const char *)b.p);
        if (n == 3)
            t->is_process = true;
        if (n == 8)
            t->is_counter = true;
        if (n == 5 && pf_track_of(c, v) == NULL)
            pf_fail(c, "a parent that is not described");
    }
    for (unsigned i = 0; i + 1 < c->n_tracks; i++) {
        if (c->tracks[i].uuid == t->uuid)
            pf_fail(c, "a track described twice");
    }
}

static inline void pf_intern(struct pf_check *c, struct pf_span s)
{
    uint64_t n, v, iid = 0;
    struct pf_span entry, b;
    while (s.p < s.end && pf_field(&s, &n, &v, &entry)) {
        const uint8_t *text = NULL;
        size_t len = 0;
        if (n != 2) /* event names */
            continue;
        while (entry.p < entry.end && pf_field(&entry, &n, &v, &b)) {
            iid = n == 1 ? v : iid;
            text = n == 2 ? b.p : text;
            len = n == 2 ? (size_t)(b.end - b.p) : len;
        }
        if (iid == 0 || iid >= PF_NAMES || text == NULL || c->names[iid] != NULL)
            pf_fail(c, "a bad or repeated interned name");
        else
            c->names[iid] = strndup((const char *)text, len);
    }
}

static inline void pf_flows(struct pf_check *c, const struct pf_event *e)
{
    if (e->flow != 0 && c->n_flows < PF_FLOWS) {
        c->open_flows[c->n_flows].id = e->flow;
        c->open_flows[c->n_flows].ts = e->ts;
        c->open_flows[c->n_flows++].ended = false;
    }
    if (e->ends_flow == 0)
        return;
    c->flows++;
    for (unsigned i = 0; i < c->n_flows; i++) {
        if (c->open_flows[i].id == e->ends_flow) {
            if (c->open_flows[i].ended)
                pf_fail(c, "an arrow that ends twice");
            if (c->open_flows[i].ts > e->ts)
                pf_fail(c, "an arrow back in time");
            c->open_flows[i].ended = true;
            return;
        }
    }
    if (c->n_flows < PF_FLOWS)
        pf_fail(c, "an arrow without a beginning");
}

static inline void pf_slice(struct pf_check *c, struct pf_track *t, struct pf_event *e)
{
    if (e->type == 1) {
        c->begins++;
        if (t->depth >= 256) {
            pf_fail(c, "too deep");
            return;
        }
        t->open[t->depth++] = e->name_iid;
    } else if (e->type == 2) {
        c->ends++;
        if (t->depth == 0) {
            pf_fail(c, "an end without a beginning");
            return;
        }
        e->name_iid = t->open[--t->depth];
        e->name = c->names[e->name_iid];
    } else {
        c->instants += e->type == 3;
        return;
    }
    if (e->ts < t->last)
        pf_fail(c, "slices that go back in time");
    t->last = e->ts;
}

static inline void pf_track_event(struct pf_check *c, struct pf_span s, int64_t ts)
{
    struct pf_event e = {.ts = ts};
    struct pf_span b;
    bool has_value = false;
    uint64_t n, v;
    while (s.p < s.end) {
        if (!pf_field(&s, &n, &v, &b)) {
            pf_fail(c, "a bad event");
            return;
        }
        switch (n) {
        case 9: e.type = v; break;
        case 10: e.name_iid = v; break;
        case 11: e.track = v; break;
        case 30:                          /* a whole number */
        case 44: has_value = true; break; /* a fraction */
        case 47: e.flow = v; break;
        case 48: e.ends_flow = v; break;
        default: break;
        }
    }
    struct pf_track *t = pf_track_of(c, e.track);
    if (t == NULL || e.type < 1 || e.type > 4) {
        pf_fail(c, "an event of no track or type");
        return;
    }
    t->events++;
    if (t->is_counter != (e.type == 4) || (e.type == 4 && !has_value))
        pf_fail(c, "a slice among counters, or a counter among slices");
    if (e.type == 4)
        return;
    if (e.type != 2 && (e.name_iid == 0 || e.name_iid >= PF_NAMES || c->names[e.name_iid] == NULL)) {
        pf_fail(c, "an event without a name");
        return;
    }
    e.name = c->names[e.name_iid];
    pf_slice(c, t, &e);
    pf_flows(c, &e);
    if (c->seen != NULL && c->error == NULL)
        c->seen(c->arg, c, t, &e);
}

static inline void pf_snapshot(struct pf_check *c, struct pf_span s)
{
    uint64_t n, v;
    struct pf_span clock, b;
    while (s.p < s.end && pf_field(&s, &n, &v, &clock)) {
        uint64_t id = 0, ts = 0;
        while (n == 1 && clock.p < clock.end && pf_field(&clock, &n, &v, &b)) {
            id = n == 1 ? v : id;
            ts = n == 2 ? v : ts;
            n = 1;
        }
        if (id == 64)
            c->ts = (int64_t)ts;
    }
}

static inline void pf_packet(struct pf_check *c, struct pf_span s)
{
    uint64_t n, v, delta = 0, clock = 64, sequence = 0, flags = 0;
    struct pf_span b, event = {NULL, NULL};
    while (s.p < s.end) {
        if (!pf_field(&s, &n, &v, &b)) {
            pf_fail(c, "a bad packet");
            return;
        }
        switch (n) {
        case 6: pf_snapshot(c, b); break;
        case 8: delta = v; break;
        case 10: sequence = v; break;
        case 11: event = b; break;
        case 12: pf_intern(c, b); break;
        case 13: flags = v; break;
        case 58: clock = v; break;
        case 60: pf_descriptor(c, b); break;
        default: break;
        }
    }
    if (sequence == 0 || flags != (c->packets == 0 ? 1u : 2u))
        pf_fail(c, "a packet without its sequence or flags");
    c->packets++;
    if (event.p != NULL) {
        if (clock == 64)
            c->ts += (int64_t)delta;
        pf_track_event(c, event, clock == 64 ? c->ts : (int64_t)delta);
    }
}

/* Checks n bytes; c->seen and c->arg may be set, the rest must be zero. */
static inline void pf_check(struct pf_check *c, const uint8_t *p, size_t size)
{
    struct pf_span s = {p, p + size}, b;
    uint64_t n, v;
    c->names = calloc(PF_NAMES, sizeof *c->names);
    c->open_flows = calloc(PF_FLOWS, sizeof *c->open_flows);
    if (c->names == NULL || c->open_flows == NULL)
        abort();
    while (s.p < s.end && c->error == NULL) {
        if (!pf_field(&s, &n, &v, &b) || n != 1)
            pf_fail(c, "not a trace");
        else
            pf_packet(c, b);
    }
    for (unsigned i = 0; i < c->n_tracks; i++) {
        if (c->tracks[i].depth != 0)
            pf_fail(c, "a slice without an end");
        if (c->tracks[i].events == 0 && !c->tracks[i].is_process)
            pf_fail(c, "a track without events");
    }
}

static inline void pf_check_free(struct pf_check *c)
{
    for (unsigned i = 0; i < PF_NAMES; i++)
        free(c->names[i]);
    free(c->names);
    free(c->tracks);
    free(c->open_flows);
}

#endif
