/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_flows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Sends looked at for one receive: further ones are not certain enough. */
enum { LOOK_MAX = 256, HASH_BYTES = 512 };

struct queue {
    uint32_t first, last; /* index + 1, 0 = none */
};

void kymo_message_look(struct kymo_message *m, const struct kymo_event *ev)
{
    m->size = (ev->size & KYMO_SIZE_MORE) != 0 ? KYMO_SIZE_UNKNOWN : ev->size;
    m->hash = 0;
    m->ns = ev->ns;
    m->kind = ev->message;
    m->ref = ev->ref;
    /* A reference is in few messages: a request, its reply, a 'DOWN'. */
    if (ev->ref != 0) {
        m->hash = (ev->ref ^ ev->message) | 1u;
        return;
    }
    /* Cut contents depend on the bound alone, but {Content, Peer} is another term. */
    if (!ev->has_content || (ev->content_flags & KYMO_C_PAIR) != 0)
        return;
    uint32_t n = ev->content_len < HASH_BYTES ? ev->content_len : HASH_BYTES;
    uint64_t h = 0xcbf29ce484222325ull ^ ev->content_len;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ ev->content[i]) * 0x100000001b3ull;
    m->hash = h != 0 ? h : 1;
}

bool kymo_message_alike(uint32_t size_a, uint64_t hash_a, uint32_t size_b, uint64_t hash_b)
{
    if (hash_a != 0 && hash_b != 0)
        return hash_a == hash_b;
    return size_a == size_b || size_a == KYMO_SIZE_UNKNOWN || size_b == KYMO_SIZE_UNKNOWN;
}

int kymo_flows_init(struct kymo_flows *f)
{
    memset(f, 0, sizeof *f);
    kymo_map_init(&f->queues, sizeof(struct queue));
    f->ring = calloc(KYMO_FLOWS_OPEN, sizeof *f->ring);
    return f->ring != NULL ? 0 : -ENOMEM;
}

void kymo_flows_free(struct kymo_flows *f)
{
    free(f->ring);
    kymo_map_free(&f->queues);
    memset(f, 0, sizeof *f);
}

/* Aliases are made for one call each and don't name their process: what one
 * sender sends to any of them waits in one queue. */
static uint64_t queue_of(uint64_t from, uint64_t to)
{
    return KYMO_IDENT_KIND(to) == KYMO_I_REF ? KYMO_IDENT(KYMO_I_REF, from) : to;
}

/* Takes entry i, which follows prev (0 = it is the first), out of its queue. */
static void take(struct kymo_flows *f, struct queue *q, uint32_t i, uint32_t prev)
{
    struct kymo_flow_entry *e = &f->ring[i - 1];
    if (prev == 0)
        q->first = e->next;
    else
        f->ring[prev - 1].next = e->next;
    if (q->last == i)
        q->last = prev;
    e->id = 0;
    if (q->first == 0)
        kymo_map_remove(&f->queues, e->to);
}

/* Nothing will be matched with this send. */
static void tell_gone(const struct kymo_flows *f, const struct kymo_flow_entry *e)
{
    if (f->gone != NULL)
        f->gone(f->gone_arg, e);
}

uint64_t kymo_flows_id(struct kymo_flows *f)
{
    return ++f->sent;
}

uint64_t kymo_flows_send(struct kymo_flows *f, const struct kymo_message *m)
{
    uint64_t id = kymo_flows_id(f);
    uint32_t i = (uint32_t)(id % KYMO_FLOWS_OPEN) + 1;
    struct kymo_flow_entry *e = &f->ring[i - 1];
    if (e->id > f->lost_at) {
        /* The oldest of all is the oldest of its queue. */
        tell_gone(f, e);
        take(f, kymo_map_get(&f->queues, e->to), i, 0);
    }
    struct queue *q = kymo_map_put(&f->queues, queue_of(m->from, m->to), NULL);
    if (q == NULL)
        return id;
    *e = (struct kymo_flow_entry){.id = id,
                                  .to = queue_of(m->from, m->to),
                                  .from = m->from,
                                  .hash = m->hash,
                                  .ref = m->ref,
                                  .ns = m->ns,
                                  .size = m->size,
                                  .kind = m->kind};
    if (q->last != 0)
        f->ring[q->last - 1].next = i;
    else
        q->first = i;
    q->last = i;
    return id;
}

static bool fits(const struct kymo_flow_entry *e, const struct kymo_message *m)
{
    return kymo_message_alike(e->size, e->hash, m->size, m->hash);
}

/* No arrow goes back in time: between threads whose clocks had jumped it would. */
static uint64_t arrow_of(const struct kymo_flow_entry *e, const struct kymo_message *m)
{
    return e->ns <= m->ns ? e->id : 0;
}

/* The sender is known: its oldest send in this queue that looks the same. Older
 * ones of the same sender were received unseen: they go. */
static uint64_t from_sender(struct kymo_flows *f, uint64_t key, const struct kymo_message *m)
{
    struct queue *q = kymo_map_get(&f->queues, key);
    if (q == NULL)
        return 0;
    uint32_t found = 0, looked = 0;
    for (uint32_t i = q->first; i != 0 && looked < LOOK_MAX && found == 0; looked++) {
        const struct kymo_flow_entry *e = &f->ring[i - 1];
        if (e->from == m->from && fits(e, m))
            found = i;
        i = e->next;
    }
    if (found == 0)
        return 0;
    uint64_t id = arrow_of(&f->ring[found - 1], m);
    f->found = f->ring[found - 1];
    for (uint32_t i = q->first, prev = 0; i != 0;) {
        uint32_t next = f->ring[i - 1].next;
        if (f->ring[i - 1].from == m->from) {
            if (i != found || id == 0)
                tell_gone(f, &f->ring[i - 1]);
            take(f, q, i, prev);
        } else {
            prev = i;
        }
        if (i == found)
            break;
        i = next;
    }
    return id;
}

/* Neither sender nor receiver ties a send to this receive for sure: the only
 * one that fits, or the oldest when all that fit have one sender and `ordered`
 * says that these keep their order. When there are several to choose from, the
 * oldest goes without an answer, so that the numbers stay right. */
static uint64_t from_anyone(struct kymo_flows *f, uint64_t key, const struct kymo_message *m, bool ordered)
{
    struct queue *q = kymo_map_get(&f->queues, key);
    if (q == NULL)
        return 0;
    uint32_t found = 0, before = 0, looked = 0;
    bool certain = true;
    for (uint32_t i = q->first, prev = 0; i != 0 && looked < LOOK_MAX; looked++) {
        const struct kymo_flow_entry *e = &f->ring[i - 1];
        if (fits(e, m)) {
            if (found == 0) {
                found = i;
                before = prev;
            } else if (!ordered || e->from != f->ring[found - 1].from) {
                certain = false;
                break;
            }
        }
        prev = i;
        i = e->next;
    }
    if (found == 0)
        return 0;
    uint64_t id = arrow_of(&f->ring[found - 1], m);
    f->found = f->ring[found - 1];
    if (!certain || id == 0)
        tell_gone(f, &f->found);
    take(f, q, found, before);
    return certain ? id : 0;
}

uint64_t kymo_flows_receive(struct kymo_flows *f, const struct kymo_message *m)
{
    uint64_t id = 0;
    if (m->from == KYMO_IDENT_NONE) {
        id = from_anyone(f, m->to, m, true);
        if (id == 0 && m->name != KYMO_IDENT_NONE)
            id = from_anyone(f, m->name, m, true);
    } else {
        id = from_sender(f, m->to, m);
        if (id == 0 && m->name != KYMO_IDENT_NONE)
            id = from_sender(f, m->name, m);
        if (id == 0)
            id = from_anyone(f, KYMO_IDENT(KYMO_I_REF, m->from), m, false);
    }
    return id;
}

static void drop_queue(struct kymo_flows *f, uint64_t key)
{
    struct queue *q = kymo_map_get(&f->queues, key);
    if (q == NULL)
        return;
    for (uint32_t i = q->first; i != 0; i = f->ring[i - 1].next) {
        tell_gone(f, &f->ring[i - 1]);
        f->ring[i - 1].id = 0;
    }
    kymo_map_remove(&f->queues, key);
}

void kymo_flows_exit(struct kymo_flows *f, uint64_t ident)
{
    drop_queue(f, ident);
    drop_queue(f, KYMO_IDENT(KYMO_I_REF, ident));
}

void kymo_flows_lost(struct kymo_flows *f)
{
    size_t it = 0;
    for (const struct queue *q; f->gone != NULL && (q = kymo_map_next(&f->queues, &it, NULL)) != NULL;) {
        for (uint32_t i = q->first; i != 0; i = f->ring[i - 1].next)
            f->gone(f->gone_arg, &f->ring[i - 1]);
    }
    f->lost_at = f->sent;
    kymo_map_free(&f->queues);
}
