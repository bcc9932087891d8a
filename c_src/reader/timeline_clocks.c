/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings of one boot of one machine share a clock: they form a domain. Every other domain is
 * related to the first one by messages, directly or through domains that were related before.
 * Domains with the most messages come first.
 */
#include <errno.h>
#include <stdlib.h>

#include "timeline.h"

/* True if both recordings have ticks of the processor's counter, and it was never corrected
 * (kymo_meta.epochs). */
static bool counts_alike(const struct kymo_reader *a, const struct kymo_reader *b)
{
    return a->meta.clock == KYMO_CLOCK_COUNTER && b->meta.clock == KYMO_CLOCK_COUNTER &&
           (a->meta.epochs | b->meta.epochs) == 0 && (a->jumps | b->jumps) == 0;
}

static bool same_boot(const struct kymo_meta *a, const struct kymo_meta *b)
{
    static const uint8_t unknown[sizeof a->boot_id];
    return memcmp(a->boot_id, b->boot_id, sizeof unknown) == 0 &&
           memcmp(a->boot_id, unknown, sizeof unknown) != 0;
}

static void find_domains(struct kymo_timeline *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        struct kymo_member *m = &t->m[i];
        m->domain = i;
        for (uint32_t k = 0; k < i && m->domain == i; k++) {
            if (t->m[k].domain == k && same_boot(&m->r->meta, &t->m[k].r->meta))
                m->domain = k;
        }
        if (i == 0)
            m->relation.kind = KYMO_RELATION_SELF;
        else
            m->relation.kind =
                counts_alike(m->r, t->m[m->domain].r) ? KYMO_RELATION_COUNTER : KYMO_RELATION_CLOCK;
    }
}

int64_t kymo_timeline_domain_ns(struct kymo_timeline *t, uint32_t i, uint64_t ticks, int64_t ns)
{
    struct kymo_member *m = &t->m[i];
    if (m->domain == i || !counts_alike(m->r, t->m[m->domain].r))
        return ns;
    return kymo_clock_ns(&t->m[m->domain].r->clock, &m->hint, ticks);
}

int64_t kymo_timeline_ns(struct kymo_timeline *t, uint32_t i, uint64_t ticks, int64_t ns)
{
    uint32_t domain = t->m[i].domain;
    ns = kymo_timeline_domain_ns(t, i, ticks, ns);
    return domain == 0 ? ns : kymo_bridge_convert(&t->bridges[domain], ns);
}

/* ---- by messages ---- */

struct work {
    struct kymo_timeline *t;
    struct kymo_crossing *crossings;
    size_t n;
    struct kymo_bridge_message *messages; /* room for n */
    bool *placed;                         /* by domain: its bridge is known */
};

/* Collects the messages between a domain and those already related, with times converted to the
 * first domain. */
static size_t gather(struct work *w, uint32_t domain, size_t *sent, size_t *received)
{
    size_t n = 0;
    *sent = *received = 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct kymo_crossing *c = &w->crossings[i];
        bool out = c->from == domain && w->placed[c->to], in = c->to == domain && w->placed[c->from];
        if (!out && !in)
            continue;
        uint32_t there = out ? c->to : c->from;
        int64_t at = out ? c->received : c->sent;
        if (there != 0)
            at = kymo_bridge_convert(&w->t->bridges[there], at);
        w->messages[n++] =
            (struct kymo_bridge_message){.other = out ? c->sent : c->received, .base = at, .to_other = in};
        *sent += out;
        *received += in;
    }
    return n;
}

/* The unrelated domain with the most messages in the direction that has fewer; t->n if there is
 * none. */
static uint32_t next_domain(struct work *w)
{
    uint32_t best = w->t->n;
    size_t most = 0;
    for (uint32_t d = 1; d < w->t->n; d++) {
        size_t sent, received;
        if (w->placed[d] || w->t->m[d].domain != d)
            continue;
        (void)gather(w, d, &sent, &received);
        size_t fewer = sent < received ? sent : received;
        if (best == w->t->n || fewer > most) {
            best = d;
            most = fewer;
        }
    }
    return best;
}

static int place(struct work *w, uint32_t domain)
{
    struct kymo_timeline *t = w->t;
    struct kymo_bridge *bridge = &t->bridges[domain];
    size_t sent, received, n = gather(w, domain, &sent, &received);
    int rc = kymo_bridge_fit(bridge, w->messages, n);
    if (rc == -ENOMEM)
        return rc;
    if (rc != 0) {
        const struct kymo_meta *a = &t->m[domain].r->meta, *b = &t->m[0].r->meta;
        uint64_t ahead = ((uint64_t)a->t0_mono_ns - (uint64_t)a->t0_wall_ns) -
                         ((uint64_t)b->t0_mono_ns - (uint64_t)b->t0_wall_ns);
        kymo_bridge_constant(bridge, (int64_t)ahead, w->messages, rc == -ENODATA ? n : 0);
    }
    for (uint32_t i = domain; i < t->n; i++) {
        if (t->m[i].domain == domain)
            t->m[i].relation =
                (struct kymo_relation){.kind = rc == 0 ? KYMO_RELATION_MESSAGES : KYMO_RELATION_WALL,
                                       .sent = sent,
                                       .received = received,
                                       .uncertainty = bridge->uncertainty,
                                       .contradicted = rc == -ERANGE};
    }
    w->placed[domain] = true;
    return 0;
}

int kymo_timeline_relate(struct kymo_timeline *t)
{
    struct work w = {.t = t};
    bool several = false;
    find_domains(t);
    for (uint32_t i = 0; i < t->n; i++)
        several = several || t->m[i].domain != 0;
    if (!several)
        return 0;
    int rc = kymo_timeline_crossings(t, &w.crossings, &w.n);
    w.messages = malloc((w.n + 1) * sizeof *w.messages);
    w.placed = calloc(t->n, sizeof *w.placed);
    if (rc == 0 && (w.messages == NULL || w.placed == NULL))
        rc = -ENOMEM;
    if (rc == 0)
        w.placed[0] = true;
    for (uint32_t d; rc == 0 && (d = next_domain(&w)) < t->n;)
        rc = place(&w, d);
    free(w.crossings);
    free(w.messages);
    free(w.placed);
    return rc;
}
