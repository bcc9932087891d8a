/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a timeline and returns its events in order of time.
 */
#include "timeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- opening ---- */

static int fail(char *err, size_t err_size, int rc, const char *text)
{
    snprintf(err, err_size, "%s", text);
    return rc;
}

/* True if two recordings are of the same run of the same node. */
static bool same_node(const struct kymo_meta *a, const struct kymo_meta *b)
{
    return a->node_len == b->node_len && memcmp(a->node, b->node, a->node_len) == 0 &&
           a->creation == b->creation && a->os_pid == b->os_pid &&
           memcmp(a->boot_id, b->boot_id, sizeof a->boot_id) == 0;
}

static int check_members(const struct kymo_timeline *t, const char *const *dirs, char *err, size_t err_size)
{
    for (uint32_t i = 1; i < t->n; i++) {
        for (uint32_t k = 0; k < i; k++) {
            const struct kymo_meta *a = &t->m[k].r->meta, *b = &t->m[i].r->meta;
            bool same = memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0;
            if (!same && !same_node(a, b))
                continue;
            snprintf(err, err_size, "%s and %s are %s: give one recording of each node", dirs[k], dirs[i],
                     same ? "the same recording, or snapshots of it" : "recordings of the same node");
            return -EINVAL;
        }
    }
    return 0;
}

/* Concatenates the counters of all threads. */
static int add_slots(struct kymo_reader *r)
{
    struct kymo_timeline *t = r->timeline;
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        t->m[i].first_slot = n;
        n += t->m[i].r->n_slots;
    }
    r->slots = calloc((size_t)n + 1, sizeof *r->slots);
    if (r->slots == NULL)
        return -ENOMEM;
    r->n_slots = n;
    for (uint32_t i = 0; i < t->n; i++)
        memcpy(r->slots + t->m[i].first_slot, t->m[i].r->slots, t->m[i].r->n_slots * sizeof *r->slots);
    return 0;
}

/* Concatenates what the recorders have shed. */
static int add_shed(struct kymo_reader *r)
{
    struct kymo_timeline *t = r->timeline;
    for (uint32_t i = 0; i < t->n; i++) {
        const struct kymo_reader *m = t->m[i].r;
        void *list = r->shed;
        if (m->n_shed == 0)
            continue;
        if (!kymo_grow(&list, &r->shed_room, r->n_shed + m->n_shed, sizeof *r->shed))
            return -ENOMEM;
        r->shed = list;
        for (size_t k = 0; k < m->n_shed; k++) {
            struct kymo_shed one = m->shed[k];
            one.mfa = kymo_timeline_id(t, i, one.mfa);
            one.recording = i;
            one.from = kymo_timeline_ns(t, i, kymo_reader_ticks(m, one.from), one.from);
            if (one.to != INT64_MAX)
                one.to = kymo_timeline_ns(t, i, kymo_reader_ticks(m, one.to), one.to);
            r->shed[r->n_shed++] = one;
        }
    }
    return 0;
}

/* Makes the header: sums, and the earliest start on the clocks of the first recording. */
static void make_meta(struct kymo_reader *r)
{
    struct kymo_timeline *t = r->timeline;
    struct kymo_meta *all = &r->meta;
    size_t used = 0;
    *all = t->m[0].r->meta;
    for (uint32_t i = 0; i < t->n; i++) {
        const struct kymo_meta *m = &t->m[i].r->meta;
        int64_t start = kymo_timeline_ns(t, i, m->t0_ticks, m->t0_mono_ns);
        int64_t earlier = (int64_t)((uint64_t)start - (uint64_t)all->t0_mono_ns);
        if (earlier < 0) {
            all->t0_mono_ns = start;
            all->t0_wall_ns = (int64_t)((uint64_t)all->t0_wall_ns + (uint64_t)earlier);
            all->t0_erl_ns = (int64_t)((uint64_t)all->t0_erl_ns + (uint64_t)earlier);
        }
        for (size_t b = 0; i > 0 && b < sizeof all->uuid; b++)
            all->uuid[b] ^= m->uuid[b];
        all->dict_full += i > 0 ? m->dict_full : 0;
        all->no_slot += i > 0 ? m->no_slot : 0;
        all->taken += i > 0 ? m->taken : 0;
        all->shed += i > 0 ? m->shed : 0;
        all->shed_unnamed += i > 0 ? m->shed_unnamed : 0;
        r->jumps += t->m[i].r->jumps;
        r->crashed = r->crashed || t->m[i].r->crashed;
        int len = snprintf((char *)all->node + used, sizeof all->node - used, "%s%s", i > 0 ? ", " : "",
                           t->m[i].name);
        used += (size_t)len < sizeof all->node - used ? (size_t)len : sizeof all->node - used - 1;
    }
    all->node_len = (uint32_t)used;
    all->n_slots = r->n_slots;
}

static int open_members(struct kymo_timeline *t, const char *const *dirs, uint32_t n, char *err,
                        size_t err_size)
{
    t->m = calloc(n, sizeof *t->m);
    t->bridges = calloc(n, sizeof *t->bridges);
    if (t->m == NULL || t->bridges == NULL)
        return fail(err, err_size, -ENOMEM, "not enough memory");
    for (uint32_t i = 0; i < n; i++) {
        int rc = kymo_reader_open(dirs[i], &t->m[i].r, err, err_size);
        if (rc != 0)
            return rc;
        t->n++;
    }
    return check_members(t, dirs, err, err_size);
}

int kymo_timeline_open(const char *const *dirs, uint32_t n, struct kymo_reader **out, char *err,
                       size_t err_size)
{
    if (n == 1)
        return kymo_reader_open(dirs[0], out, err, err_size);
    *out = NULL;
    if (n == 0 || n > KYMO_TIMELINE_MAX) {
        snprintf(err, err_size, "a timeline takes 1 to %u recordings, not %u", KYMO_TIMELINE_MAX, n);
        return -EINVAL;
    }
    struct kymo_reader *r = calloc(1, sizeof *r);
    struct kymo_timeline *t = calloc(1, sizeof *t);
    if (r == NULL || t == NULL) {
        free(r);
        free(t);
        return fail(err, err_size, -ENOMEM, "not enough memory");
    }
    r->timeline = t;
    r->files.dir = -1;
    for (unsigned i = 0; i < KYMO_OPEN_FILES; i++)
        r->files.open[i].fd = -1;
    kymo_map_init(&r->defs.processes, sizeof(struct kymo_process));
    kymo_map_init(&t->elsewhere, sizeof(uint64_t));
    int rc = open_members(t, dirs, n, err, err_size);
    if (rc == 0) {
        rc = kymo_timeline_relate(t);
        if (rc == 0)
            rc = kymo_timeline_merge_names(r);
        if (rc == 0)
            rc = add_slots(r);
        if (rc == 0)
            rc = add_shed(r);
        if (rc != 0)
            fail(err, err_size, rc, rc == -ENOMEM ? "not enough memory" : strerror(-rc));
    }
    if (rc != 0) {
        kymo_reader_close(r);
        return rc;
    }
    make_meta(r);
    kymo_timeline_rewind(r);
    *out = r;
    return 0;
}

void kymo_timeline_close(struct kymo_timeline *t)
{
    if (t == NULL)
        return;
    for (uint32_t i = 0; i < t->n; i++) {
        kymo_reader_close(t->m[i].r);
        kymo_bridge_free(&t->bridges[i]);
    }
    kymo_map_free(&t->elsewhere);
    free(t->bridges);
    free(t->m);
    free(t);
}

/* ---- events ---- */

/* Reads the next event of recording i. Returns 0 or a negative errno. */
static int advance(struct kymo_timeline *t, uint32_t i)
{
    struct kymo_member *m = &t->m[i];
    struct kymo_event *ev = &m->ev;
    int rc = kymo_reader_next(m->r, ev);
    m->has_next = rc == 1;
    if (rc != 1)
        return rc;
    ev->ns = kymo_timeline_ns(t, i, ev->ticks, ev->ns);
    ev->slot += m->first_slot;
    ev->who = kymo_timeline_translate(t, i, ev->who);
    ev->peer = kymo_timeline_translate(t, i, ev->peer);
    ev->mfa = kymo_timeline_id(t, i, ev->mfa);
    ev->atom = kymo_timeline_id(t, i, ev->atom);
    ev->initial = kymo_timeline_id(t, i, ev->initial);
    ev->in_mfa = kymo_timeline_id(t, i, ev->in_mfa);
    return 0;
}

int kymo_timeline_next(struct kymo_reader *r, struct kymo_event *ev)
{
    struct kymo_timeline *t = r->timeline;
    int rc = 0;
    for (uint32_t i = 0; i < t->n && rc == 0; i++) {
        if (!t->started || i == t->given)
            rc = advance(t, i);
    }
    t->started = true;
    t->given = t->n;
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->m[i].has_next && (t->given == t->n || t->m[i].ev.ns < t->m[t->given].ev.ns))
            t->given = i;
    }
    if (t->given == t->n)
        return 0;
    struct kymo_member *m = &t->m[t->given];
    *ev = m->ev;
    if (r->jumps == 0 && ev->ns < t->newest) /* rounding */
        ev->ns = t->newest;
    t->newest = ev->ns;
    if (ev->id == KYMO_E_REGISTER)
        kymo_defs_learn(&r->defs, ev->who, ev->atom);
    uint64_t epoch = kymo_reader_loss_epoch(m->r);
    r->loss_epoch += epoch != m->loss_epoch;
    m->loss_epoch = epoch;
    return 1;
}

void kymo_timeline_rewind(struct kymo_reader *r)
{
    struct kymo_timeline *t = r->timeline;
    for (uint32_t i = 0; i < t->n; i++) {
        (void)kymo_reader_rewind(t->m[i].r);
        t->m[i].has_next = false;
        t->m[i].loss_epoch = 0;
    }
    t->started = false;
    t->given = t->n;
    t->newest = INT64_MIN;
    r->loss_epoch = 0;
}

void kymo_timeline_show_all(struct kymo_reader *r, bool all)
{
    r->all = all;
    for (uint32_t i = 0; i < r->timeline->n; i++)
        kymo_reader_show_all(r->timeline->m[i].r, all);
}

void kymo_timeline_progress(const struct kymo_reader *r, uint64_t *done, uint64_t *total)
{
    *done = *total = 0;
    for (uint32_t i = 0; i < r->timeline->n; i++) {
        uint64_t d, n;
        kymo_reader_progress(r->timeline->m[i].r, &d, &n);
        *done += d;
        *total += n;
    }
}

/* ---- spans of time ---- */

bool kymo_timeline_horizon(const struct kymo_reader *r, uint64_t *ticks, int64_t *ns)
{
    struct kymo_timeline *t = r->timeline;
    bool any = false;
    *ticks = r->meta.t0_ticks;
    *ns = r->meta.t0_mono_ns;
    for (uint32_t i = 0; i < t->n; i++) {
        uint64_t at;
        int64_t at_ns;
        if (!kymo_reader_horizon(t->m[i].r, &at, &at_ns))
            continue;
        at_ns = kymo_timeline_ns(t, i, at, at_ns);
        if (!any || at_ns > *ns) {
            *ticks = at;
            *ns = at_ns;
        }
        any = true;
    }
    return any;
}

int kymo_timeline_member_span(struct kymo_reader *r, uint32_t i, int64_t *first_ns, int64_t *last_ns)
{
    struct kymo_timeline *t = r->timeline;
    if (t == NULL)
        return kymo_reader_span(r, first_ns, last_ns);
    int rc = kymo_reader_span(t->m[i].r, first_ns, last_ns);
    uint32_t domain = t->m[i].domain;
    if (rc == 0 && domain != 0) {
        *first_ns = kymo_bridge_convert(&t->bridges[domain], *first_ns);
        *last_ns = kymo_bridge_convert(&t->bridges[domain], *last_ns);
    }
    return rc;
}

int kymo_timeline_span(struct kymo_reader *r, int64_t *first_ns, int64_t *last_ns)
{
    bool any = false;
    for (uint32_t i = 0; i < r->timeline->n; i++) {
        int64_t first, last;
        int rc = kymo_timeline_member_span(r, i, &first, &last);
        if (rc == -ENODATA)
            continue;
        if (rc < 0)
            return rc;
        *first_ns = !any || first < *first_ns ? first : *first_ns;
        *last_ns = !any || last > *last_ns ? last : *last_ns;
        any = true;
    }
    return any ? 0 : -ENODATA;
}

const struct kymo_damage *kymo_timeline_damage(const struct kymo_reader *r)
{
    struct kymo_timeline *t = r->timeline;
    t->damage = (struct kymo_damage){0};
    for (uint32_t i = 0; i < t->n; i++) {
        const struct kymo_damage *d = kymo_reader_damage(t->m[i].r);
        t->damage.segments_bad += d->segments_bad;
        t->damage.records_bad += d->records_bad;
        t->damage.bytes_cut += d->bytes_cut;
        t->damage.segments_moved += d->segments_moved;
        t->damage.dict_bad += d->dict_bad;
        t->damage.dict_missing += d->dict_missing;
        t->damage.seq_gaps += d->seq_gaps;
        t->damage.events_missing += d->events_missing;
    }
    return &t->damage;
}

bool kymo_timeline_missing_file(const struct kymo_reader *r, char *name, size_t size)
{
    struct kymo_timeline *t = r->timeline;
    for (uint32_t i = 0; i < t->n; i++) {
        if (kymo_reader_missing_file(t->m[i].r, name, size))
            return true;
    }
    return false;
}

/* ---- recordings ---- */

uint32_t kymo_timeline_size(const struct kymo_reader *r)
{
    return r->timeline != NULL ? r->timeline->n : 1;
}

const struct kymo_meta *kymo_timeline_meta(const struct kymo_reader *r, uint32_t i)
{
    return r->timeline != NULL ? &r->timeline->m[i].r->meta : &r->meta;
}

struct kymo_relation kymo_timeline_relation(const struct kymo_reader *r, uint32_t i)
{
    return r->timeline != NULL ? r->timeline->m[i].relation
                               : (struct kymo_relation){.kind = KYMO_RELATION_SELF};
}

const char *kymo_timeline_name(const struct kymo_reader *r, uint32_t i)
{
    return r->timeline != NULL ? r->timeline->m[i].name : "";
}
