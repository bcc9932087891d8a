/* SPDX-License-Identifier: Apache-2.0
 *
 * What the messages of a process tell about its waits: which message ended a wait, and which runs
 * did not end it.
 */
#include "kymo_server_loop.h"
#include "kymo_timeline.h"
#include "why_int.h"

/* A shorter run in which the process did nothing does not end a wait: the process handled a
 * signal, or scanned a message that its receive does not match. */
enum { GLANCE_NS = 50000 };
/* The same limit, if it is certain that the receive does not match the messages. */
enum { LONG_GLANCE_NS = 1000000 };

/* The index of the first message in the range that was fetched at `time` or later. */
static size_t fetched_from(const struct kymo_why *w, struct kymo_why_range m, int64_t time)
{
    return KYMO_WHY_FROM(w->mails, struct kymo_mail, fetched, m, time);
}

/* The index of the first request in the range that was handled at `time` or later. */
static size_t handled_from(const struct kymo_why *w, struct kymo_why_range h, int64_t time)
{
    return KYMO_WHY_FROM(w->handled, struct kymo_request, handled, h, time);
}

bool kymo_why_is_timeout(const struct kymo_mail *m)
{
    return m->kind == KYMO_MSG_TIMEOUT;
}

/* Whether a message is a request that arrived while its receiver handled another one. The handler
 * was not waiting for such a message. */
static bool is_next_request(const struct kymo_why *w, const struct kymo_mail *m)
{
    struct kymo_why_range h = kymo_why_handled(w, m->to);
    if (m->kind != KYMO_MSG_CALL && m->kind != KYMO_MSG_CAST && m->kind != KYMO_MSG_IO)
        return false;
    size_t i = handled_from(w, h, m->fetched);
    if (i == h.first || w->handled.p[i - 1].mail == m->id)
        return false;
    int64_t end = kymo_request_done(&w->handled.p[i - 1]);
    return end == KYMO_NO_TIME || end >= m->fetched;
}

bool kymo_why_had_request(const struct kymo_why *w, const struct kymo_why_run *before,
                          const struct kymo_why_run *next)
{
    struct kymo_why_range h = kymo_why_handled(w, next->process);
    size_t i = handled_from(w, h, next->start);
    if (i == h.end || w->handled.p[i].handled > next->end || !kymo_is_server_loop(w->r, before->out_mfa))
        return false;
    const struct kymo_request *q = &w->handled.p[i];
    return q->sent != KYMO_NO_TIME && q->sent <= before->end &&
           !kymo_timeline_apart(w->r, q->client, q->server);
}

bool kymo_why_looked_at_request(const struct kymo_why *w, const struct kymo_why_run *before,
                                const struct kymo_why_run *next)
{
    struct kymo_why_range m = kymo_why_mails(w, next->process);
    int64_t end = next->acted != KYMO_NO_TIME ? next->acted : next->end;
    for (size_t i = fetched_from(w, m, next->start); i < m.end && w->mails.p[i].fetched <= end; i++) {
        const struct kymo_mail *mail = &w->mails.p[i];
        if (mail->sent != KYMO_NO_TIME && mail->sent > before->end && mail->sent <= next->start &&
            is_next_request(w, mail))
            return true;
    }
    return false;
}

const struct kymo_mail *kymo_why_waker(const struct kymo_why *w, const struct kymo_why_run *next,
                                       const struct kymo_map *seen)
{
    struct kymo_why_range m = kymo_why_mails(w, next->process);
    int64_t end = next->acted != KYMO_NO_TIME ? next->acted : next->end;
    const struct kymo_mail *first = NULL, *rejected = NULL;
    bool woken = false;
    for (size_t i = fetched_from(w, m, next->start); i < m.end && w->mails.p[i].fetched <= end; i++) {
        const struct kymo_mail *mail = &w->mails.p[i];
        bool sent_known = mail->sent != KYMO_NO_TIME;
        if (mail->taken != KYMO_NO_TIME && mail->taken > next->end)
            continue; /* it stayed in the mailbox */
        if (sent_known && mail->sent > next->start && !woken)
            continue; /* it arrived when the process already ran for another reason */
        woken = true;
        if (is_next_request(w, mail))
            continue;
        if (seen != NULL && kymo_map_get(seen, mail->from) != NULL)
            rejected = mail; /* keep the newest: the receive looked at it last */
        else if (first == NULL || (sent_known && first->sent != KYMO_NO_TIME && mail->sent < first->sent))
            first = mail;
    }
    return first != NULL ? first : rejected;
}

static const struct kymo_request *request_of(const struct kymo_why *w, const struct kymo_mail *reply)
{
    const size_t *place = kymo_map_get(&w->replies, reply->id);
    return place != NULL ? &w->asked.p[*place - 1] : NULL;
}

const struct kymo_request *kymo_why_reply_in(const struct kymo_why *w, const struct kymo_why_run *next)
{
    struct kymo_why_range m = kymo_why_mails(w, next->process);
    for (size_t i = fetched_from(w, m, next->start); i < m.end && w->mails.p[i].fetched <= next->end; i++) {
        const struct kymo_request *q = request_of(w, &w->mails.p[i]);
        if (q != NULL && q->client == next->process && q->sent != KYMO_NO_TIME && q->sent < next->start)
            return q;
    }
    return NULL;
}

const struct kymo_request *kymo_why_failed_in(const struct kymo_why *w, const struct kymo_why_run *next)
{
    struct kymo_why_range asked = kymo_why_asked(w, next->process);
    size_t after = KYMO_WHY_FROM(w->asked, struct kymo_request, sent, asked, next->start);
    if (after == asked.first)
        return NULL;
    const struct kymo_request *q = &w->asked.p[after - 1];
    bool failed = q->ended == KYMO_REQ_DOWN || q->ended == KYMO_REQ_TIMEOUT;
    return failed && q->sent != KYMO_NO_TIME && q->received >= next->start && q->received <= next->end ? q
                                                                                                       : NULL;
}

uint64_t kymo_why_replier(const struct kymo_request *q)
{
    return q->kind != KYMO_REQ_CAST && q->replier != KYMO_IDENT_NONE ? q->replier : q->server;
}

int64_t kymo_why_handed_over(const struct kymo_why *w, const struct kymo_request *q, int64_t start,
                             int64_t end)
{
    struct kymo_why_range m = kymo_why_mails(w, q->replier);
    int64_t first = end;
    for (size_t i = fetched_from(w, m, start); i < m.end && w->mails.p[i].fetched <= end; i++) {
        const struct kymo_mail *mail = &w->mails.p[i];
        if (mail->from == q->server && mail->sent != KYMO_NO_TIME && mail->sent >= start)
            first = kymo_earlier(first, mail->sent);
    }
    return first < end ? first : start;
}

const struct kymo_request *kymo_why_passed_on(const struct kymo_why *w, const struct kymo_request *q)
{
    struct kymo_why_range h = kymo_why_handled(w, kymo_why_replier(q));
    for (size_t i = handled_from(w, h, q->sent);
         q->ref != 0 && i < h.end && w->handled.p[i].handled <= q->replied; i++) {
        const struct kymo_request *other = &w->handled.p[i];
        if (other->passed_on && other->ref == q->ref && other->id != q->id && other->sent >= q->sent &&
            other->replied == q->replied && other->replier == q->replier)
            return other;
    }
    return NULL;
}

uint32_t kymo_why_handled_before(const struct kymo_why *w, const struct kymo_request *q)
{
    struct kymo_why_range h = kymo_why_handled(w, q->server);
    size_t began = KYMO_WHY_AFTER(w->handled, struct kymo_request, handled, h, q->sent);
    size_t turn = handled_from(w, h, q->handled);
    uint32_t n = turn > began ? (uint32_t)(turn - began) : 0;
    /* And those that the server was handling when q was sent. */
    for (size_t i = (began < turn ? began : turn); i > h.first;) {
        size_t covered = i & (~i + 1);
        if (w->last_ends[i] <= q->sent) {
            i -= covered;
        } else {
            i--;
            n += kymo_request_done(&w->handled.p[i]) > q->sent && w->handled.p[i].id != q->id;
        }
    }
    return n > q->behind ? n : q->behind; /* requests of before the recording are no facts */
}

int64_t kymo_why_worked(const struct kymo_why *w, const struct kymo_why_run *run)
{
    struct kymo_why_range c = kymo_why_collections(w, run->process);
    int64_t ns = run->end - run->start;
    for (size_t i = kymo_why_collection_from(w, c, run->start);
         i < c.end && w->collections.p[i].start < run->end; i++)
        ns -= kymo_earlier(w->collections.p[i].end, run->end) -
              kymo_later(w->collections.p[i].start, run->start);
    return ns;
}

bool kymo_why_is_glance(const struct kymo_why *w, const struct kymo_why_run *run, int64_t end)
{
    struct kymo_why_range m = kymo_why_mails(w, run->process);
    size_t i = fetched_from(w, m, run->start), messages = 0;
    int64_t ns = run->end - run->start;
    if (run[1].by == KYMO_RUNNABLE_OUT) /* it could run all the time */
        return false;
    if (run->acted != KYMO_NO_TIME || run->in_mfa != run->out_mfa || run[1].in_mfa != run->out_mfa ||
        kymo_why_reply_in(w, run) != NULL)
        return false;
    bool unwanted = true;
    for (; i < m.end && w->mails.p[i].fetched <= run->end; i++, messages++) {
        if (kymo_why_is_timeout(&w->mails.p[i]))
            return false;
        unwanted = unwanted && is_next_request(w, &w->mails.p[i]);
    }
    if (messages > 0 && unwanted)
        return kymo_why_worked(w, run) < LONG_GLANCE_NS;
    return ns < GLANCE_NS && ns < end - run->end;
}

size_t kymo_why_without_glances(struct kymo_why *w, struct kymo_why_range range, size_t before, int64_t start,
                                bool by_message, struct kymo_map *seen)
{
    const struct kymo_why_run *r = w->runs.p;
    int64_t end = r[before + 1].start;
    for (; before > range.first && r[before].start > start && kymo_why_is_glance(w, &r[before], end);
         before--) {
        struct kymo_why_range m = kymo_why_mails(w, r[before].process);
        size_t i = fetched_from(w, m, r[before].start);
        if (!by_message && i < m.end && w->mails.p[i].fetched <= r[before].end)
            break;
        for (; i < m.end && w->mails.p[i].fetched <= r[before].end; i++) {
            if (w->mails.p[i].from != KYMO_IDENT_NONE && kymo_map_put(seen, w->mails.p[i].from, NULL) == NULL)
                w->failed = true;
        }
    }
    return before;
}

uint8_t kymo_why_cause_of_sender(const struct kymo_mail *m)
{
    switch (KYMO_IDENT_KIND(m->from)) {
    case KYMO_I_PORT: return KYMO_WHY_PORT;
    case KYMO_I_ATOM: return KYMO_WHY_TIMER;
    case KYMO_I_NONE: return kymo_why_is_timeout(m) ? KYMO_WHY_TIMER : KYMO_WHY_UNKNOWN;
    default: return KYMO_WHY_UNKNOWN;
    }
}

/* When the first message was sent that the process fetched between `fetched` and the end of `run`;
 * only those count that were sent on this node after `out`, and that are no requests which arrived
 * while another one was handled. `end` if there is none. */
static int64_t first_sent(const struct kymo_why *w, const struct kymo_why_run *run, int64_t fetched,
                          int64_t out, int64_t end)
{
    struct kymo_why_range m = kymo_why_mails(w, run->process);
    int64_t first = end;
    for (size_t i = fetched_from(w, m, fetched); i < m.end && w->mails.p[i].fetched <= run->end; i++) {
        const struct kymo_mail *mail = &w->mails.p[i];
        if (mail->sent != KYMO_NO_TIME && mail->sent > out && !is_next_request(w, mail) &&
            !kymo_timeline_apart(w->r, mail->from, run->process))
            first = kymo_earlier(first, mail->sent);
    }
    return first;
}

int64_t kymo_why_timeout_end(const struct kymo_why *w, const struct kymo_why_run *run,
                             const struct kymo_why_run *glance, int64_t out, int64_t end)
{
    struct kymo_why_suspension by;
    int64_t began = glance != NULL ? INT64_MIN : out;
    int64_t sent = first_sent(w, run, glance != NULL ? glance->start : out, began, end);
    if (kymo_why_suspended(w, run->process, sent, end, &by))
        return kymo_later(by.since, began);
    return first_sent(w, run, run->start, out, end);
}
