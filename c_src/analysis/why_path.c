/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path, from the end backwards. A process that waited for a message hands
 * the path over to its sender; the rest of its time is its own.
 */
#include <stdlib.h>
#include <string.h>

#include "kymo_timeline.h"
#include "why_int.h"

/* Handovers on one path at a time. */
enum { DEPTH_MAX = 100 };
/* Stretches of one path. */
#define PATH_MAX_STRETCHES 1000000u
/* A wait for a scheduler that is shorter needs no busy thread to explain it. */
enum { WAKEUP_NS = 200000 };
/* A run this short that did nothing is no end of a wait: the process looked at a signal
 * or at a message that it did not want. */
enum { GLANCE_NS = 50000 };
/* The same where it is certain that it did not want the messages. */
enum { LONG_GLANCE_NS = 1000000 };
/* No timeout of a receive but 0 is over sooner. */
enum { TIMEOUT_MIN_NS = 1000000 };
/* What a process did right before it was scheduled out, or somebody else before it was
 * scheduled in. */
enum { JUST_NS = 1000000 };

static void add(struct kymo_why *w, struct kymo_why_stretch s)
{
    struct kymo_why_path *path = w->queue == KYMO_IDENT_NONE ? &w->path : &w->held_up;
    if (s.end <= s.start)
        return;
    if (path->n == path->room) {
        size_t room = path->room == 0 ? 256 : path->room * 2;
        if (room > PATH_MAX_STRETCHES) {
            w->path_cut = true; /* the rest is unknown, see kymo_why_explain */
            return;
        }
        void *more = realloc(path->p, room * sizeof *path->p);
        if (more == NULL) {
            w->failed = true;
            return;
        }
        path->p = more;
        path->room = room;
    }
    s.queue = w->queue;
    path->p[path->n++] = s;
}

static void simple(struct kymo_why *w, uint8_t cause, uint64_t process, int64_t start, int64_t end,
                   uint32_t mfa)
{
    add(w, (struct kymo_why_stretch){.cause = cause,
                                     .process = process,
                                     .blame = KYMO_IDENT_NONE,
                                     .start = start,
                                     .end = end,
                                     .mfa = mfa});
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool is_dirty(const struct kymo_why *w, uint32_t slot)
{
    return slot < w->n_slots &&
           (w->slot[slot].thread_kind == KYMO_T_DIRTY_CPU || w->slot[slot].thread_kind == KYMO_T_DIRTY_IO);
}

/* ---- running ---- */

/* The index of the first collection of the process that ends after `time`: they do not
 * overlap. */
static size_t collection_from(const struct kymo_why *w, struct kymo_why_range c, int64_t time)
{
    size_t low = c.first, high = c.end;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (w->collections.p[mid].end <= time)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* A run, with the collections in it apart. */
static void ran(struct kymo_why *w, const struct kymo_why_run *run, int64_t start, int64_t end)
{
    uint8_t cause = is_dirty(w, run->slot) ? KYMO_WHY_DIRTY : KYMO_WHY_RUNNING;
    struct kymo_why_range c = kymo_why_collections(w, run->process);
    int64_t at = start;
    for (size_t i = collection_from(w, c, start); i < c.end && w->collections.p[i].start < end; i++) {
        const struct kymo_collection *gc = &w->collections.p[i];
        int64_t from = later(gc->start, at), to = earlier(gc->end, end);
        simple(w, cause, run->process, at, from, run->in_mfa);
        simple(w, KYMO_WHY_GC, run->process, from, to, 0);
        at = later(at, to);
    }
    simple(w, cause, run->process, at, end, run->in_mfa);
}

/* ---- waiting for a scheduler, and what looks like it ---- */

/* The process that had it suspended until just before `end`. *since: not before. */
static uint64_t suspender(const struct kymo_why *w, uint64_t process, int64_t end, int64_t *since)
{
    const struct kymo_why_span *resumed = NULL;
    for (size_t i = w->suspensions.n; i-- > 0;) {
        const struct kymo_why_span *s = &w->suspensions.p[i];
        const uint8_t *what = kymo_map_get(&w->suspends, s->mfa);
        if (s->start > end || s->process == process || what == NULL)
            continue;
        if (*what == 3 && resumed == NULL && end - s->start <= JUST_NS) {
            resumed = s;
        } else if (*what == 2 && resumed != NULL && s->process == resumed->process) {
            *since = s->start;
            return s->process;
        }
    }
    return KYMO_IDENT_NONE;
}

/* It could run from start to end, when `next` began, and did not. */
static void wait_runnable(struct kymo_why *w, uint64_t process, int64_t start, int64_t end,
                          const struct kymo_why_run *next)
{
    struct kymo_why_stretch s = {.cause = KYMO_WHY_SCHEDULER,
                                 .process = process,
                                 .start = start,
                                 .end = end,
                                 .blame = KYMO_IDENT_NONE};
    int64_t since;
    if (end <= start)
        return;
    double busy = kymo_why_busy(w, next->slot, start, end, process, &s.blame, &s.blame_ns);
    if (is_dirty(w, next->slot)) {
        s.cause = KYMO_WHY_DIRTY_QUEUE;
        s.mfa = next->in_mfa;
    } else if (end - start > WAKEUP_NS) {
        uint64_t by = suspender(w, process, end, &since);
        if (by != KYMO_IDENT_NONE && since < end) {
            wait_runnable(w, process, start, since, next);
            s.start = later(start, since);
            s.cause = KYMO_WHY_SUSPENDED;
            s.blame = by;
            s.blame_ns = 0;
        } else if (busy < 0.5) {
            bool still = kymo_why_all_running(w, next->slot, start, end) < (end - start) / 20;
            s.cause = still ? KYMO_WHY_NODE : KYMO_WHY_UNKNOWN;
            s.blame = KYMO_IDENT_NONE;
            s.blame_ns = 0;
        }
    }
    add(w, s);
}

/* What was sent at `start` by `from` let it run at `end`. */
static void wait_delivered(struct kymo_why *w, uint64_t from, const struct kymo_why_run *next, int64_t start,
                           int64_t end)
{
    if (kymo_timeline_apart(w->r, from, next->process))
        simple(w, KYMO_WHY_NETWORK, next->process, start, end, 0);
    else
        wait_runnable(w, next->process, start, end, next);
}

/* ---- messages ---- */

/* The index of the first message of the process that was fetched at `time` or later. */
static size_t fetched_from(const struct kymo_why *w, struct kymo_why_range m, int64_t time)
{
    size_t low = m.first, high = m.end;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (w->mails.p[mid].fetched < time)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool is_timeout(const struct kymo_mail *m)
{
    return m->kind == KYMO_MSG_TIMEOUT;
}

/* Whether a message is a request that arrived while its receiver handled another one: the
 * handler does not wait for it. */
static bool is_next_request(const struct kymo_why *w, const struct kymo_mail *m)
{
    struct kymo_why_range h = kymo_why_handled(w, m->to);
    size_t low = h.first, high = h.end;
    if (m->kind != KYMO_MSG_CALL && m->kind != KYMO_MSG_CAST && m->kind != KYMO_MSG_IO)
        return false;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (w->handled.p[mid].handled < m->fetched)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == h.first || w->handled.p[low - 1].mail == m->id)
        return false;
    const struct kymo_request *q = &w->handled.p[low - 1];
    int64_t end = q->handled_end != KYMO_NO_TIME ? q->handled_end : q->replied;
    return end == KYMO_NO_TIME || end >= m->fetched;
}

/* ---- waiting without a message ---- */

/* The port that it sent something to right before it was scheduled out. */
static uint64_t port_before(const struct kymo_why *w, uint64_t process, int64_t out)
{
    struct kymo_why_range m = kymo_why_to_ports(w, process);
    for (size_t i = m.end; i-- > m.first;) {
        const struct kymo_mail *mail = &w->to_ports.p[i];
        if (mail->sent <= out)
            return out - mail->sent <= JUST_NS ? mail->to : KYMO_IDENT_NONE;
    }
    return KYMO_IDENT_NONE;
}

static bool is_function(const struct kymo_why *w, uint32_t id, const char *module, const char *function)
{
    struct kymo_mfa mfa;
    if (!kymo_reader_mfa(w->r, id, &mfa) || !kymo_why_in_module(w, id, module))
        return false;
    struct kymo_text t = kymo_reader_atom(w->r, mfa.function);
    return t.len == strlen(function) && memcmp(t.s, function, t.len) == 0;
}

/* Whether a run began with a look at the next request, which came during the wait before:
 * that was a wait in a receive, for something else. */
static bool looked_at_request(const struct kymo_why *w, const struct kymo_why_run *before,
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

static void wait_silent(struct kymo_why *w, const struct kymo_why_run *before,
                        const struct kymo_why_run *next, int64_t start, int64_t end)
{
    struct kymo_why_stretch s = {.process = before->process,
                                 .start = start,
                                 .end = end,
                                 .blame = KYMO_IDENT_NONE,
                                 .mfa = before->out_mfa};
    int64_t since;
    uint64_t who;
    if (end <= start)
        return;
    if (is_dirty(w, next->slot) || is_dirty(w, before->slot)) {
        wait_runnable(w, before->process, start, end, next);
        return;
    }
    uint64_t port = port_before(w, before->process, before->end);
    bool to_port = is_function(w, before->out_mfa, "erlang", "port_command") ||
                   is_function(w, before->out_mfa, "erts_internal", "port_command") ||
                   kymo_why_in_module(w, before->out_mfa, "prim_inet");
    uint64_t by = suspender(w, before->process, end, &since);
    if (by != KYMO_IDENT_NONE && end - start > WAKEUP_NS) {
        s.cause = KYMO_WHY_SUSPENDED;
        s.blame = by;
    } else if (port != KYMO_IDENT_NONE || to_port) {
        s.cause = KYMO_WHY_PORT;
        s.blame = port;
    } else {
        /* With messages recorded, a wait that none of them ended, nor a timeout, was not in
         * a receive: the process had used up its reductions. Unless a message was looked at. */
        bool sleeps = is_function(w, before->out_mfa, "timer", "sleep");
        double enough = w->mails.n > 0 && !sleeps ? 0.5 : 0.9;
        double busy = kymo_why_busy(w, next->slot, start, end, before->process, &who, &s.blame_ns);
        bool receives = end - start > WAKEUP_NS && looked_at_request(w, before, next);
        if ((busy >= enough && !receives) || end - start <= WAKEUP_NS) {
            s.cause = KYMO_WHY_SCHEDULER;
            s.blame = who;
        } else {
            s.cause = sleeps ? KYMO_WHY_TIMER : KYMO_WHY_UNKNOWN;
            s.blame_ns = 0;
        }
    }
    add(w, s);
}

/* ---- waiting for a message ---- */

/* The message that ended the wait before run `next`, as far as messages say it: of those
 * that were fetched when it ran again and before it went on with other work, the one that
 * was there first. Not the next requests to a server that handles one, nor, when there is
 * another, messages from those whose messages did not end the wait before (`seen`, a map
 * of senders, NULL = none). NULL: no such message. */
static const struct kymo_mail *waker(const struct kymo_why *w, const struct kymo_why_run *next,
                                     const struct kymo_map *seen)
{
    struct kymo_why_range m = kymo_why_mails(w, next->process);
    int64_t end = next->acted != KYMO_NO_TIME ? next->acted : next->end;
    const struct kymo_mail *first = NULL, *rejected = NULL;
    bool woken = false;
    for (size_t i = fetched_from(w, m, next->start); i < m.end && w->mails.p[i].fetched <= end; i++) {
        const struct kymo_mail *mail = &w->mails.p[i];
        bool sent_known = mail->sent != KYMO_NO_TIME;
        if (sent_known && mail->sent > next->start && !woken)
            continue; /* it came while the process ran, for another reason */
        woken = true;
        if (is_next_request(w, mail))
            continue;
        if (seen != NULL && kymo_map_get(seen, mail->from) != NULL)
            rejected = mail; /* the last one was looked at last */
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

/* The reply to the newest request of the process that was fetched in this run: what it
 * waited for, whatever else came. */
static const struct kymo_request *reply_in(const struct kymo_why *w, const struct kymo_why_run *next)
{
    struct kymo_why_range m = kymo_why_mails(w, next->process);
    for (size_t i = m.first; i < m.end && w->mails.p[i].fetched <= next->end; i++) {
        if (w->mails.p[i].fetched < next->start)
            continue;
        const struct kymo_request *q = request_of(w, &w->mails.p[i]);
        if (q != NULL && q->client == next->process && q->sent != KYMO_NO_TIME && q->sent < next->start)
            return q;
    }
    return NULL;
}

/* The index of the last run of the process that began before `time`; range.end: none. */
static size_t run_before(const struct kymo_why *w, struct kymo_why_range range, int64_t time)
{
    size_t low = range.first, high = range.end;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (w->runs.p[mid].start < time)
            low = mid + 1;
        else
            high = mid;
    }
    return low > range.first ? low - 1 : range.end;
}

/* Requests that the server handled, or was handling, between the sending of q and its
 * turn. */
static uint32_t handled_before(const struct kymo_why *w, const struct kymo_request *q)
{
    struct kymo_why_range h = kymo_why_handled(w, q->server);
    uint32_t n = 0;
    for (size_t i = h.first; i < h.end && w->handled.p[i].handled < q->handled; i++) {
        const struct kymo_request *other = &w->handled.p[i];
        int64_t end = other->handled_end != KYMO_NO_TIME ? other->handled_end : other->replied;
        n += other->id != q->id && (end == KYMO_NO_TIME ? other->handled > q->sent : end > q->sent);
    }
    return n;
}

static void walk(struct kymo_why *w, uint64_t process, int64_t start, int64_t end, unsigned depth);

/* From the sending of a request to its reply: its turn in the mailbox, then its
 * handling. What held those ahead of it up is walked, too, beside the path. */
static void walk_request(struct kymo_why *w, const struct kymo_request *q, int64_t start, int64_t end,
                         unsigned depth)
{
    int64_t turn = q->handled != KYMO_NO_TIME ? earlier(later(q->handled, start), end) : start;
    walk(w, q->server, turn, end, depth);
    if (turn <= start)
        return;
    uint32_t others = w->queue == KYMO_IDENT_NONE ? handled_before(w, q) : 0;
    if (q->kind == KYMO_REQ_SPAWN && kymo_timeline_apart(w->r, q->client, q->server)) {
        simple(w, KYMO_WHY_NETWORK, q->server, start, turn, 0);
        return;
    }
    if (others == 0) {
        walk(w, q->server, start, turn, depth);
        return;
    }
    add(w, (struct kymo_why_stretch){.cause = KYMO_WHY_QUEUE,
                                     .process = q->server,
                                     .blame = KYMO_IDENT_NONE,
                                     .start = start,
                                     .end = turn,
                                     .requests = others});
    w->queue = q->server;
    walk(w, q->server, start, turn, depth);
    w->queue = KYMO_IDENT_NONE;
}

/* The time of a run without its collections. */
static int64_t worked(const struct kymo_why *w, const struct kymo_why_run *run)
{
    struct kymo_why_range c = kymo_why_collections(w, run->process);
    int64_t ns = run->end - run->start;
    for (size_t i = collection_from(w, c, run->start); i < c.end && w->collections.p[i].start < run->end; i++)
        ns -= earlier(w->collections.p[i].end, run->end) - later(w->collections.p[i].start, run->start);
    return ns;
}

/* Whether a run did not end the wait in which it began: the process looked at a signal or
 * at messages that it did not want, and waited on in the same receive. */
static bool is_glance(const struct kymo_why *w, const struct kymo_why_run *run)
{
    struct kymo_why_range m = kymo_why_mails(w, run->process);
    size_t i = fetched_from(w, m, run->start), messages = 0;
    int64_t ns = run->end - run->start;
    if (run->acted != KYMO_NO_TIME || run->in_mfa != run->out_mfa || run[1].in_mfa != run->out_mfa ||
        reply_in(w, run) != NULL)
        return false;
    bool unwanted = true;
    for (; i < m.end && w->mails.p[i].fetched <= run->end; i++, messages++) {
        if (is_timeout(&w->mails.p[i]))
            return false;
        unwanted = unwanted && is_next_request(w, &w->mails.p[i]);
    }
    if (messages > 0 && unwanted)
        return worked(w, run) < LONG_GLANCE_NS;
    return ns < GLANCE_NS && ns < run[1].start - run->end;
}

/* The run that the wait before run `next` really began after. Unless a message ended the
 * wait, only looks at signals are passed. Whose messages were looked at is added to
 * `seen`. */
static size_t without_glances(struct kymo_why *w, struct kymo_why_range range, size_t before, int64_t start,
                              bool by_message, struct kymo_map *seen)
{
    const struct kymo_why_run *r = w->runs.p;
    for (; before > range.first && r[before].start > start && is_glance(w, &r[before]); before--) {
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

/* Who does not say more of itself. */
static uint8_t cause_of_sender(const struct kymo_mail *m)
{
    switch (KYMO_IDENT_KIND(m->from)) {
    case KYMO_I_PORT: return KYMO_WHY_PORT;
    case KYMO_I_ATOM: return KYMO_WHY_TIMER;
    case KYMO_I_NONE: return is_timeout(m) ? KYMO_WHY_TIMER : KYMO_WHY_UNKNOWN;
    default: return KYMO_WHY_UNKNOWN;
    }
}

/* The wait of a process before run `next`, down to `start`. Returns the time that is
 * explained then. */
static int64_t wait_before(struct kymo_why *w, struct kymo_why_range range, size_t next, int64_t start,
                           int64_t end, unsigned depth)
{
    const struct kymo_why_run *run = &w->runs.p[next];
    bool first = next == range.first; /* when it ran before is not known */
    size_t before = first ? next : next - 1;
    const struct kymo_request *q = reply_in(w, run);
    if (q != NULL && q->replied != KYMO_NO_TIME) {
        /* Whatever ran between was a look at another message. */
        while (before > range.first && w->runs.p[before].start > q->sent)
            before--;
        int64_t from = first ? start : later(w->runs.p[before].end, start);
        int64_t sent = later(earlier(q->replied, end), from);
        wait_delivered(w, q->server, run, sent, end);
        walk_request(w, q, from, sent, depth + 1);
        return from;
    }
    const struct kymo_mail *m = waker(w, run, NULL);
    if (!first) {
        struct kymo_map seen;
        kymo_map_init(&seen, 0);
        before = without_glances(w, range, before, start, m != NULL, &seen);
        m = waker(w, run, &seen);
        kymo_map_free(&seen);
        if (m != NULL && is_timeout(m) && run->start - w->runs.p[before].end < TIMEOUT_MIN_NS)
            m = NULL; /* of a receive ... after 0, later */
    }
    int64_t from = first ? start : later(w->runs.p[before].end, start);
    uint32_t out_mfa = first ? 0 : w->runs.p[before].out_mfa;
    if (m != NULL && (m->sent == KYMO_NO_TIME || KYMO_IDENT_KIND(m->from) != KYMO_I_PID)) {
        int64_t sent = m->sent != KYMO_NO_TIME ? earlier(later(m->sent, from), end) : end, since;
        uint8_t cause = cause_of_sender(m);
        if (is_timeout(m) && suspender(w, run->process, end, &since) != KYMO_IDENT_NONE)
            sent = earlier(later(since, from), end); /* it was over before the process could run */
        wait_runnable(w, run->process, sent, end, run);
        add(w, (struct kymo_why_stretch){.cause = cause,
                                         .process = run->process,
                                         .blame = cause == KYMO_WHY_PORT ? m->from : KYMO_IDENT_NONE,
                                         .start = from,
                                         .end = sent,
                                         .mfa = out_mfa});
    } else if (m != NULL && (m->sent > from || kymo_timeline_apart(w->r, m->from, run->process))) {
        int64_t sent = later(earlier(m->sent, end), from); /* it may have come while the process ran */
        wait_delivered(w, m->from, run, sent, end);
        walk(w, m->from, from, sent, depth + 1);
    } else if (m != NULL && first) {
        wait_runnable(w, run->process, from, end, run);
    } else if (first) {
        simple(w, KYMO_WHY_UNKNOWN, run->process, from, end, 0);
    } else { /* no message, or it was there before */
        wait_silent(w, &w->runs.p[before], run, from, end);
    }
    return from;
}

/* Without scheduling: what it asked others for is on the path, the rest is its own. */
static void walk_unscheduled(struct kymo_why *w, uint64_t process, int64_t start, int64_t end, unsigned depth)
{
    struct kymo_why_range asked = kymo_why_asked(w, process);
    for (size_t i = asked.end; i-- > asked.first && end > start;) {
        const struct kymo_request *q = &w->asked.p[i];
        if (q->received == KYMO_NO_TIME || q->received > end || q->sent == KYMO_NO_TIME ||
            q->received <= start)
            continue;
        int64_t sent = later(q->sent, start), reply = q->replied != KYMO_NO_TIME ? q->replied : q->received;
        reply = later(earlier(reply, end), sent);
        simple(w, KYMO_WHY_ACTIVE, process, reply, end, 0);
        walk_request(w, q, sent, reply, depth + 1);
        end = sent;
    }
    simple(w, KYMO_WHY_ACTIVE, process, start, end, 0);
}

static void walk(struct kymo_why *w, uint64_t process, int64_t start, int64_t end, unsigned depth)
{
    struct kymo_why_range range = kymo_why_runs(w, process);
    bool is_pid = KYMO_IDENT_KIND(process) == KYMO_I_PID;
    if (end <= start)
        return;
    if (depth > DEPTH_MAX || !is_pid) {
        w->path_cut = w->path_cut || depth > DEPTH_MAX;
        simple(w, KYMO_IDENT_KIND(process) == KYMO_I_PORT ? KYMO_WHY_PORT : KYMO_WHY_UNKNOWN, process, start,
               end, 0);
        return;
    }
    if (range.first == range.end) {
        if (w->runs.n == 0)
            walk_unscheduled(w, process, start, end, depth);
        else
            simple(w, KYMO_WHY_UNKNOWN, process, start, end, 0);
        return;
    }
    while (end > start) {
        size_t i = run_before(w, range, end);
        if (i == range.end) {
            (void)wait_before(w, range, range.first, start, end, depth);
            return;
        }
        const struct kymo_why_run *run = &w->runs.p[i];
        if (run->end >= end) {
            int64_t from = later(run->start, start);
            ran(w, run, from, end);
            end = from;
        } else if (i + 1 < range.end) {
            end = wait_before(w, range, i + 1, start, end, depth);
        } else {
            int64_t from = later(run->end, start);
            simple(w, KYMO_WHY_UNKNOWN, process, from, end, run->out_mfa);
            end = from;
        }
    }
}

static void begin(struct kymo_why *w)
{
    w->path.n = w->held_up.n = 0;
    w->queue = KYMO_IDENT_NONE;
    w->path_cut = false;
}

void kymo_why_walk(struct kymo_why *w, uint64_t process, int64_t start, int64_t end)
{
    begin(w);
    walk(w, process, start, end, 0);
}

void kymo_why_walk_cast(struct kymo_why *w, const struct kymo_request *q)
{
    begin(w);
    walk_request(w, q, q->sent, q->handled_end, 0);
}
