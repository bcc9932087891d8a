/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_flows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* LOOK_MAX: the number of sends compared with one receive; further ones are too uncertain. */
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
    m->slot = ev->slot;
    m->number = ev->number;
    m->digest = ev->digest != 0;
    if (m->digest) {
        m->hash = ev->digest;
        return;
    }
    /* Few messages have the same reference: a request, its reply, a 'DOWN'. */
    if (ev->ref != 0) {
        m->hash = (ev->ref ^ ev->message) | 1u;
        return;
    }
    /* Contents are cut in the same way on both sides, but {Content, Peer} is a different term. */
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
    kymo_map_init(&f->numbers, sizeof(uint32_t));
    f->most = KYMO_FLOWS_OPEN;
    f->entries = malloc(FIRST_ROOM * sizeof *f->entries);
    if (f->entries == NULL)
        return -ENOMEM;
    f->room = FIRST_ROOM;
    return 0;
}

int kymo_flows_timeline(struct kymo_flows *f, struct kymo_reader *r)
{
    f->nodes = kymo_timeline_size(r) > 1;
    return f->nodes ? kymo_early_init(&f->early, r) : 0;
}

void kymo_flows_free(struct kymo_flows *f)
{
    if (f->nodes)
        kymo_early_free(&f->early);
    free(f->entries);
    kymo_map_free(&f->queues);
    kymo_map_free(&f->numbers);
    memset(f, 0, sizeof *f);
}

/* The queue for a message. An alias is made for a single call, and does not identify its process,
 * so messages of one sender to all aliases share a queue. */
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

/* Removes entry i from its queue. */
static void leave_queue(struct kymo_flows *f, uint32_t i)
{
    struct kymo_flow_entry *e = entry(f, i);
    struct queue *q = kymo_map_get(&f->queues, e->to);
    if (e->prev != 0)
        entry(f, e->prev)->next = e->next;
    else
        q->first = e->next;
    if (e->next != 0)
        entry(f, e->next)->prev = e->prev;
    else
        q->last = e->prev;
    q->n--;
    if (q->first == 0)
        kymo_map_remove(&f->queues, e->to);
}

/* Removes entry i and frees it. */
static void take(struct kymo_flows *f, uint32_t i)
{
    struct kymo_flow_entry *e = entry(f, i);
    if (!e->lone)
        leave_queue(f, i);
    if (e->number != 0)
        kymo_map_remove(&f->numbers, kymo_message_key(e->number, e->node));
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
}

/* Reports that this send will not be matched. */
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

/* Returns index + 1 of a free entry. If there is none, drops the oldest entry. */
static uint32_t free_entry(struct kymo_flows *f)
{
    if (f->free == 0 && (f->used < f->room || grow(f)))
        return ++f->used;
    if (f->free == 0) {
        tell_gone(f, entry(f, f->oldest));
        f->evicted++;
        take(f, f->oldest);
    }
    uint32_t i = f->free;
    f->free = entry(f, i)->next;
    return i;
}

static struct kymo_flow_entry entry_of(const struct kymo_message *m, uint64_t id, uint64_t key)
{
    return (struct kymo_flow_entry){.id = id,
                                    .to = key,
                                    .from = m->from,
                                    .hash = m->hash,
                                    .ref = m->ref,
                                    .ns = m->ns,
                                    .number = m->number,
                                    .size = m->size,
                                    .kind = m->kind,
                                    .node = m->node,
                                    .digest = m->digest};
}

/* Entry i can be found by its number from now on. Another one with the same key, which only
 * a damaged recording has, goes. False: no memory. */
static bool put_number(struct kymo_flows *f, uint32_t i)
{
    uint64_t key = kymo_message_key(entry(f, i)->number, entry(f, i)->node);
    const uint32_t *other = kymo_map_get(&f->numbers, key);
    if (other != NULL) {
        uint32_t place = *other;
        tell_gone(f, entry(f, place));
        take(f, place);
    }
    uint32_t *place = kymo_map_put(&f->numbers, key, NULL);
    if (place == NULL)
        return false;
    *place = i;
    return true;
}

uint64_t kymo_flows_send(struct kymo_flows *f, const struct kymo_message *m)
{
    uint64_t id = kymo_flows_id(f), key = queue_of(f, m->from, m->to, m->ref);
    if (m->digest && f->nodes && !kymo_early_waits(&f->early, m->to, m->hash, m->slot, m->ns)) {
        struct kymo_flow_entry passed = entry_of(m, id, key);
        tell_gone(f, &passed);
        return id;
    }
    /* Before the queue is looked up, because this may remove the queue. */
    uint32_t i = free_entry(f);
    *entry(f, i) = entry_of(m, id, key);
    bool found = m->number == 0 || put_number(f, i);
    struct queue *q = found ? kymo_map_put(&f->queues, key, NULL) : NULL;
    if (q == NULL) {
        if (m->number != 0)
            kymo_map_remove(&f->numbers, kymo_message_key(m->number, m->node));
        entry(f, i)->next = f->free;
        f->free = i;
        return id;
    }
    entry(f, i)->prev = q->last;
    entry(f, i)->older = f->newest;
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

void kymo_flows_found(struct kymo_flows *f, const struct kymo_message *m)
{
    if (m->digest && f->nodes)
        (void)kymo_early_waits(&f->early, m->to, m->hash, m->slot, m->ns);
}

uint32_t kymo_flows_waiting(const struct kymo_flows *f, uint64_t to, int64_t *oldest)
{
    const struct queue *q = kymo_map_get(&f->queues, to);
    if (q == NULL)
        return 0;
    *oldest = entry(f, q->first)->ns;
    return q->n;
}

bool kymo_flows_take_first(struct kymo_flows *f, uint64_t to, struct kymo_flow_entry *out)
{
    const struct queue *q = kymo_map_get(&f->queues, to);
    if (q == NULL)
        return false;
    uint32_t i = q->first;
    *out = *entry(f, i);
    take(f, i);
    return true;
}

static bool fits(const struct kymo_flow_entry *e, const struct kymo_message *m)
{
    return e->number == 0 && e->digest == m->digest && kymo_message_alike(e->size, e->hash, m->size, m->hash);
}

/* The id of the message, unless it would be received before it was sent, as between threads whose
 * clocks had jumped. */
static uint64_t arrow_of(const struct kymo_flow_entry *e, const struct kymo_message *m)
{
    return e->ns <= m->ns ? e->id : 0;
}

/* The oldest send in the queue that fits the message, or 0; of its sender only, if `known`. *certain is
 * cleared if another one fits that could be it as well, for an unknown sender: one of another sender, or any if
 * the order of this queue is not kept. */
static uint32_t fitting(const struct kymo_flows *f, uint64_t key, const struct kymo_message *m, bool known,
                        bool ordered, bool *certain)
{
    const struct queue *q = key != KYMO_IDENT_NONE ? kymo_map_get(&f->queues, key) : NULL;
    uint32_t found = 0, looked = 0;
    for (uint32_t i = q != NULL ? q->first : 0; i != 0 && looked < LOOK_MAX; looked++) {
        const struct kymo_flow_entry *e = entry(f, i);
        if (fits(e, m) && (!known || e->from == m->from)) {
            if (found == 0)
                found = i;
            else if (!ordered || e->from != entry(f, found)->from)
                *certain = false;
            if (known || !*certain)
                break;
        }
        i = e->next;
    }
    return found;
}

/* Of sends to the process and to its name, the one that was sent first; 0: there is none. */
static uint32_t sent_first(const struct kymo_flows *f, uint32_t a, uint32_t b)
{
    return a == 0 || (b != 0 && entry(f, b)->id < entry(f, a)->id) ? b : a;
}

/* Sends of the sender in this queue up to that id were received without an event, and are dropped. */
static void drop_older(struct kymo_flows *f, uint64_t key, uint64_t from, uint64_t id)
{
    const struct queue *q = key != KYMO_IDENT_NONE ? kymo_map_get(&f->queues, key) : NULL;
    for (uint32_t i = q != NULL ? q->first : 0; i != 0 && entry(f, i)->id <= id;) {
        uint32_t next = entry(f, i)->next;
        if (entry(f, i)->from == from) {
            tell_gone(f, entry(f, i));
            take(f, i);
        }
        i = next;
    }
}

/* Takes a send out of its queue and reports it, if it is not certain or its time is after that of the message. */
static uint64_t taken(struct kymo_flows *f, uint32_t found, const struct kymo_message *m, bool certain)
{
    if (found == 0)
        return 0;
    uint64_t id = certain ? arrow_of(entry(f, found), m) : 0;
    f->found = *entry(f, found);
    if (id == 0)
        tell_gone(f, &f->found);
    take(f, found);
    return id;
}

/* For a known sender: takes the oldest of its sends, to the process or its name, that looks the same. */
static uint64_t from_sender(struct kymo_flows *f, const struct kymo_message *m)
{
    bool certain = true;
    uint32_t to_pid = fitting(f, m->to, m, true, true, &certain);
    uint32_t found = sent_first(f, to_pid, fitting(f, m->name, m, true, true, &certain));
    if (found == 0)
        return 0;
    uint64_t before = entry(f, found)->id - 1, id = taken(f, found, m, true);
    drop_older(f, m->to, m->from, before);
    drop_older(f, m->name, m->from, before);
    return id;
}

/* For an unknown sender: takes the only send that fits, or the oldest one if all that fit have
 * the same sender and `ordered` says that their order is kept. If the choice is ambiguous, drops
 * the oldest one without a match, so that the number of open sends stays correct. */
static uint64_t from_anyone(struct kymo_flows *f, uint64_t key, uint64_t name, const struct kymo_message *m,
                            bool ordered)
{
    bool certain = true;
    uint32_t a = fitting(f, key, m, false, ordered, &certain);
    uint32_t b = fitting(f, name, m, false, ordered, &certain);
    if (a != 0 && b != 0 && entry(f, a)->from != entry(f, b)->from)
        certain = false;
    f->found.id = 0;
    return taken(f, sent_first(f, a, b), m, certain);
}

/* A cast of another node. */
static uint64_t from_afar(struct kymo_flows *f, const struct kymo_message *m)
{
    uint64_t id = from_anyone(f, m->to, m->name, m, true);
    if (f->found.id == 0)
        kymo_early_received(&f->early, m->to, m->hash, m->ns);
    return id;
}

/* The messages that the sender of entry i has sent before it to the same receiver have been
 * received unseen: they go. Those to aliases are for different receivers. */
static void drop_before(struct kymo_flows *f, uint32_t i)
{
    if (KYMO_IDENT_KIND(entry(f, i)->to) == KYMO_I_REF)
        return;
    const struct queue *q = kymo_map_get(&f->queues, entry(f, i)->to);
    uint64_t from = entry(f, i)->from;
    for (uint32_t k = q->first, looked = 0; k != i && looked < LOOK_MAX; looked++) {
        uint32_t next = entry(f, k)->next;
        if (entry(f, k)->from == from) {
            tell_gone(f, entry(f, k));
            take(f, k);
        }
        k = next;
    }
}

/* The send with the same number. */
static uint64_t by_number(struct kymo_flows *f, const struct kymo_message *m)
{
    const uint32_t *place = kymo_map_get(&f->numbers, kymo_message_key(m->number, m->node));
    f->found.id = 0;
    if (place == NULL)
        return 0;
    uint32_t i = *place;
    if (entry(f, i)->number != m->number || entry(f, i)->node != m->node)
        return 0;
    if (!entry(f, i)->lone)
        drop_before(f, i);
    uint64_t id = arrow_of(entry(f, i), m);
    f->found = *entry(f, i);
    if (id == 0)
        tell_gone(f, &f->found);
    take(f, i);
    return id;
}

uint64_t kymo_flows_receive(struct kymo_flows *f, const struct kymo_message *m)
{
    if (m->number != 0) {
        uint64_t exact = by_number(f, m);
        /* What comes from another node has a number of its receiver's. */
        if (f->found.id != 0 || !f->nodes)
            return exact;
    }
    if (m->digest)
        return f->nodes ? from_afar(f, m) : 0;
    uint64_t id = f->nodes && m->ref != 0
                      ? from_anyone(f, KYMO_IDENT(KYMO_I_REF, m->ref), KYMO_IDENT_NONE, m, true)
                      : 0;
    if (id != 0)
        return id;
    if (m->from == KYMO_IDENT_NONE)
        return from_anyone(f, m->to, m->name, m, true);
    id = from_sender(f, m);
    return id != 0 ? id : from_anyone(f, KYMO_IDENT(KYMO_I_REF, m->from), KYMO_IDENT_NONE, m, false);
}

static void drop_queue(struct kymo_flows *f, uint64_t key)
{
    for (struct queue *q; (q = kymo_map_get(&f->queues, key)) != NULL;) {
        uint32_t first = q->first;
        tell_gone(f, entry(f, first));
        take(f, first);
    }
}

void kymo_flows_exit(struct kymo_flows *f, uint64_t ident)
{
    drop_queue(f, ident);
    drop_queue(f, KYMO_IDENT(KYMO_I_REF, ident));
}

/* Those with a number leave their queues, whose order is not reliable any more; the others
 * go. */
static void keep_numbered(struct kymo_flows *f)
{
    uint32_t first = 0;
    /* Those from before the last loss are in no queue already. */
    for (uint32_t i = f->newest; i != 0 && !entry(f, i)->lone; i = entry(f, i)->older)
        first = i;
    for (uint32_t i = first; i != 0;) {
        uint32_t newer = entry(f, i)->newer;
        if (entry(f, i)->number != 0) {
            entry(f, i)->lone = true;
        } else {
            tell_gone(f, entry(f, i));
            take(f, i);
        }
        i = newer;
    }
    kymo_map_free(&f->queues);
}

void kymo_flows_lost(struct kymo_flows *f)
{
    if (f->numbers.count == 0) {
        kymo_flows_end(f);
        return;
    }
    keep_numbered(f);
    if (f->nodes)
        kymo_early_lost(&f->early);
}

void kymo_flows_end(struct kymo_flows *f)
{
    for (uint32_t i = f->gone != NULL ? f->oldest : 0; i != 0; i = entry(f, i)->newer)
        f->gone(f->gone_arg, entry(f, i));
    f->used = f->free = f->oldest = f->newest = 0;
    if (f->nodes)
        kymo_early_lost(&f->early);
    kymo_map_free(&f->queues);
    kymo_map_free(&f->numbers);
}
