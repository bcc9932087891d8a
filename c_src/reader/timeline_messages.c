/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds messages between machines by the hash of the reference in a request and in its reply,
 * which is the same on all nodes. This takes two passes: the first finds the references that
 * were sent to another node, the second all messages with these references. A reference that is
 * in several messages of a kind, because a request was forwarded, is ignored.
 *
 * The runtime records the sending of a message to another node after passing it to the
 * distribution. The thread may be preempted for long in between. It is certain only that the
 * message was sent after the previous event of the thread.
 */
#include <errno.h>
#include <stdlib.h>

#include "timeline.h"

enum { REQUEST = 0, REPLY = 2, SENT = 0, RECEIVED = 1, ENDS = 4 };

/* The messages with one reference. */
struct exchange {
    int64_t at[ENDS]; /* on the clock of the domain; REQUEST or REPLY, plus SENT or RECEIVED */
    uint8_t of[ENDS]; /* recording */
    uint8_t n[ENDS];  /* number of messages, 2 = more than one */
};

struct search {
    struct kymo_timeline *t;
    struct kymo_map exchanges; /* reference -> struct exchange */
    uint64_t sample;           /* references with one of these bits are ignored */
    int64_t *before;           /* by slot of the recording being read: the time of its newest event */
};

/* REQUEST or REPLY; -1 for other messages. */
static int part_of(const struct kymo_event *ev)
{
    if (ev->ref == 0 || (ev->id != KYMO_E_SEND && ev->id != KYMO_E_RECEIVE))
        return -1;
    int end = ev->id == KYMO_E_SEND ? SENT : RECEIVED;
    switch (ev->message) {
    case KYMO_MSG_CALL:
    case KYMO_MSG_IO: return REQUEST + end;
    case KYMO_MSG_REPLY:
    case KYMO_MSG_IO_REPLY: return REPLY + end;
    default: return -1;
    }
}

/* Halves the number of references, the same way in all recordings. */
static int halve(struct search *s)
{
    struct kymo_map rest;
    size_t it = 0;
    uint64_t ref;
    kymo_map_init(&rest, sizeof(struct exchange));
    s->sample = s->sample << 1 | 1;
    while (kymo_map_next(&s->exchanges, &it, &ref) != NULL) {
        if ((ref & s->sample) == 0 && kymo_map_put(&rest, ref, NULL) == NULL) {
            kymo_map_free(&rest);
            return -ENOMEM;
        }
    }
    kymo_map_free(&s->exchanges);
    s->exchanges = rest;
    return 0;
}

/* The first pass. */
static int look_for(struct search *s, uint32_t i, const struct kymo_event *ev)
{
    (void)i;
    if (ev->id != KYMO_E_SEND || part_of(ev) < 0 || KYMO_IDENT_KIND(ev->peer) != KYMO_I_TERM ||
        (ev->ref & s->sample) != 0)
        return 0;
    if (kymo_map_put(&s->exchanges, ev->ref, NULL) == NULL)
        return -ENOMEM;
    return s->exchanges.count > KYMO_TIMELINE_MESSAGES ? halve(s) : 0;
}

/* The second pass. */
static int note(struct search *s, uint32_t i, const struct kymo_event *ev)
{
    int part = part_of(ev);
    struct exchange *x = part >= 0 ? kymo_map_get(&s->exchanges, ev->ref) : NULL;
    int64_t now = kymo_timeline_domain_ns(s->t, i, ev->ticks, ev->ns), before = s->before[ev->slot];
    s->before[ev->slot] = now;
    if (x == NULL)
        return 0;
    bool sent = ev->id == KYMO_E_SEND;
    x->n[part] = x->n[part] > 0 || (sent && before == INT64_MIN) ? 2 : 1;
    x->at[part] = sent ? before : now;
    x->of[part] = (uint8_t)i;
    return 0;
}

static int read_all(struct search *s, int (*each)(struct search *, uint32_t, const struct kymo_event *))
{
    struct kymo_event ev;
    int rc = 0;
    for (uint32_t i = 0; i < s->t->n && rc == 0; i++) {
        struct kymo_reader *r = s->t->m[i].r;
        free(s->before);
        s->before = malloc(r->n_slots * sizeof *s->before);
        rc = s->before != NULL ? kymo_reader_rewind(r) : -ENOMEM;
        for (uint32_t slot = 0; rc == 0 && slot < r->n_slots; slot++)
            s->before[slot] = INT64_MIN;
        while (rc == 0 && (rc = kymo_reader_next(r, &ev)) == 1)
            rc = each(s, i, &ev);
    }
    return rc;
}

static bool crosses(const struct search *s, const struct exchange *x, int part, struct kymo_crossing *out)
{
    if (x->n[part + SENT] != 1 || x->n[part + RECEIVED] != 1)
        return false;
    *out = (struct kymo_crossing){.from = s->t->m[x->of[part + SENT]].domain,
                                  .to = s->t->m[x->of[part + RECEIVED]].domain,
                                  .sent = x->at[part + SENT],
                                  .received = x->at[part + RECEIVED]};
    return out->from != out->to;
}

int kymo_timeline_crossings(struct kymo_timeline *t, struct kymo_crossing **out, size_t *n)
{
    struct search s = {.t = t};
    kymo_map_init(&s.exchanges, sizeof(struct exchange));
    *n = 0;
    *out = NULL;
    int rc = read_all(&s, look_for);
    if (rc == 0)
        rc = read_all(&s, note);
    if (rc == 0) {
        *out = malloc((2 * s.exchanges.count + 1) * sizeof **out);
        rc = *out != NULL ? 0 : -ENOMEM;
    }
    size_t it = 0;
    for (struct exchange *x; rc == 0 && (x = kymo_map_next(&s.exchanges, &it, NULL)) != NULL;) {
        *n += crosses(&s, x, REQUEST, &(*out)[*n]);
        *n += crosses(&s, x, REPLY, &(*out)[*n]);
    }
    kymo_map_free(&s.exchanges);
    free(s.before);
    return rc;
}
