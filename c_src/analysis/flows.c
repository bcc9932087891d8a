/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_flows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Sends looked at for one receive: further ones are not certain enough. */
enum { LOOK_MAX = 256, HASH_BYTES = 512, FIRST_ROOM = 1024 };

struct queue {
    uint32_t first, last; /* index + 1, 0 = none */
    uint32_t n;
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
    f->most = KYMO_FLOWS_OPEN;
    f->entries = malloc(FIRST_ROOM * sizeof *f->entries);
    if (f->entries == NULL)
        return -ENOMEM;
    f->room = FIRST_ROOM;
    return 0;
}

void kymo_flows_free(struct kymo_flows *f)
{
    free(f->entries);
    kymo_map_free(&f->queues);
    memset(f, 0, sizeof *f);
}

/* Aliases are made for one call each and don't name their process: what one
 * sender sends to any of them waits in one queue. */
static uint64_t queue_of(const struct kymo_flows *f, uint64_t from, uint64_t to, uint64_t ref)
{
    if (f->nodes && ref != 0 && to == KYMO_IDENT(KYMO_I_REF, ref))
        return to;
    return KYMO_IDENT_KIND(to) == KYMO_I_REF ? KYMO_IDENT(KYMO_I_REF, from) : to;
}

static struct kymo_flow_entry *entry(const struct kymo_flows *f, uint32_t i)
{
    return &f->entries[i - 1];
}

/* Takes entry i, which follows prev (0 = it is the first), out of its queue. */
static void take(struct kymo_flows *f, struct queue *q, uint32_t i, uint32_t prev)
{
    struct kymo_flow_entry *e = entry(f, i);
    if (prev == 0)
        q->first = e->next;
    else
        entry(f, prev)->next = e->next;
    if (q->last == i)
        q->last = prev;
    q->n--;
    if (e->older != 0)
        entry(f, e->older)->newer = e->newer;
    else
        f->oldest = e->newer;
    if (e->newer != 0)
        entry(f, e->newer)->older = e->older;
    else
        f->newest = e->older;
    e->next = f->free;
    f->free = i;
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

static bool grow(struct kymo_flows *f)
{
    uint32_t room = f->room < f->most / 2 ? 2 * f->room : f->most;
    struct kymo_flow_entry *p = room > f->room ? realloc(f->entries, (size_t)room * sizeof *p) : NULL;
    if (p == NULL)
        return false;
    f->entries = p;
    f->room = room;
    return true;
}

/* A free entry: index + 1. The oldest of all goes for it when there is none. */
static uint32_t free_entry(struct kymo_flows *f)
{
    if (f->free == 0 && (f->used < f->room || grow(f)))
        return ++f->used;
    if (f->free == 0) {
        /* It is the first of its queue. */
        struct kymo_flow_entry *e = entry(f, f->oldest);
        tell_gone(f, e);
        f->evicted++;
        take(f, kymo_map_get(&f->queues, e->to), f->oldest, 0);
    }
    uint32_t i = f->free;
    f->free = entry(f, i)->next;
    return i;
}

uint64_t kymo_flows_send(struct kymo_flows *f, const struct kymo_message *m)
{
    uint64_t id = kymo_flows_id(f), key = queue_of(f, m->from, m->to, m->ref);
    uint32_t i = free_entry(f); /* before its queue is looked up: it may be the one that ends */
    struct queue *q = kymo_map_put(&f->queues, key, NULL);
    if (q == NULL) {
        entry(f, i)->next = f->free;
        f->free = i;
        return id;
    }
    *entry(f, i) = (struct kymo_flow_entry){.id = id,
                                            .to = key,
                                            .from = m->from,
                                            .hash = m->hash,
                                            .ref = m->ref,
                                            .ns = m->ns,
                                            .size = m->size,
                                            .older = f->newest,
                                            .kind = m->kind};
    if (f->newest != 0)
        entry(f, f->newest)->newer = i;
    else
        f->oldest = i;
    f->newest = i;
    if (q->last != 0)
        entry(f, q->last)->next = i;
    else
        q->first = i;
    q->last = i;
    q->n++;
    return id;
}

uint32_t kymo_flows_waiting(const struct kymo_flows *f, uint64_t to, int64_t *oldest)
{
    const struct queue *q = kymo_map_get(&f->queues, to);
    if (q == NULL)
        return 0;
    *oldest = entry(f, q->first)->ns;
    return q->n;
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
        const struct kymo_flow_entry *e = entry(f, i);
        if (e->from == m->from && fits(e, m))
            found = i;
        i = e->next;
    }
    if (found == 0)
        return 0;
    uint64_t id = arrow_of(entry(f, found), m);
    f->found = *entry(f, found);
    for (uint32_t i = q->first, prev = 0; i != 0;) {
        uint32_t next = entry(f, i)->next;
        if (entry(f, i)->from == m->from) {
            if (i != found || id == 0)
                tell_gone(f, entry(f, i));
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
        const struct kymo_flow_entry *e = entry(f, i);
        if (fits(e, m)) {
            if (found == 0) {
                found = i;
                before = prev;
            } else if (!ordered || e->from != entry(f, found)->from) {
                certain = false;
                break;
            }
        }
        prev = i;
        i = e->next;
    }
    if (found == 0)
        return 0;
    uint64_t id = arrow_of(entry(f, found), m);
    f->found = *entry(f, found);
    if (!certain || id == 0)
        tell_gone(f, &f->found);
    take(f, q, found, before);
    return certain ? id : 0;
}

uint64_t kymo_flows_receive(struct kymo_flows *f, const struct kymo_message *m)
{
    uint64_t id = f->nodes && m->ref != 0 ? from_anyone(f, KYMO_IDENT(KYMO_I_REF, m->ref), m, true) : 0;
    if (id != 0)
        return id;
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
    for (struct queue *q; (q = kymo_map_get(&f->queues, key)) != NULL;) {
        tell_gone(f, entry(f, q->first));
        take(f, q, q->first, 0);
    }
}

void kymo_flows_exit(struct kymo_flows *f, uint64_t ident)
{
    drop_queue(f, ident);
    drop_queue(f, KYMO_IDENT(KYMO_I_REF, ident));
}

void kymo_flows_lost(struct kymo_flows *f)
{
    for (uint32_t i = f->gone != NULL ? f->oldest : 0; i != 0; i = entry(f, i)->newer)
        f->gone(f->gone_arg, entry(f, i));
    f->used = f->free = f->oldest = f->newest = 0;
    kymo_map_free(&f->queues);
}
