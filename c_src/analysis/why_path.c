/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path, from the end backwards. When a process waited for a message, the path
 * continues in its sender; all other time belongs to the process itself.
 */
#include "kymo_timeline.h"
#include "why_int.h"

/* Maximum number of nested handovers from a process to the one that it waited for. */
enum { DEPTH_MAX = 100 };
/* The shortest timeout of a receive, other than 0. */
enum { TIMEOUT_MIN_NS = 1000000 };

/* The index of the last run in the range that began before `time`, or range.end. */
static size_t run_before(const struct kymo_why *w, struct kymo_why_range range, int64_t time)
{
    size_t from = KYMO_WHY_FROM(w->runs, struct kymo_why_run, start, range, time);
    return from > range.first ? from - 1 : range.end;
}

static void walk(struct kymo_why *w, uint64_t process, int64_t start, int64_t end, unsigned depth);
static void walk_request(struct kymo_why *w, const struct kymo_request *q, int64_t start, int64_t end,
                         unsigned depth);

/* Walks the handling of a request from `turn`, when the server began with it, to its reply (end). If
 * another process sent the reply, the path is in that process from when the request was passed on to
 * it, or else from when the server sent it another message or spawned it. */
static void walk_handling(struct kymo_why *w, const struct kymo_request *q, int64_t turn, int64_t end,
                          unsigned depth)
{
    uint64_t replier = kymo_why_replier(q);
    if (replier == q->server) {
        walk(w, q->server, turn, end, depth);
        return;
    }
    const struct kymo_request *on = kymo_why_passed_on(w, q);
    if (on != NULL) {
        int64_t sent = kymo_earlier(kymo_later(on->sent, turn), end);
        walk_request(w, on, sent, end, depth + 1);
        walk(w, on->client, turn, sent, depth + 1);
        return;
    }
    int64_t from = kymo_why_handed_over(w, q, turn, end);
    walk(w, replier, from, end, depth + 1);
    walk(w, q->server, turn, from, depth);
}

/* Walks a request from its send (start) to its reply (end): the wait in the mailbox, then its
 * handling. If other requests were ahead of it in the mailbox, what the server did for them is
 * walked too, into held_up instead of the path. */
static void walk_request(struct kymo_why *w, const struct kymo_request *q, int64_t start, int64_t end,
                         unsigned depth)
{
    int64_t turn = q->handled != KYMO_NO_TIME ? kymo_earlier(kymo_later(q->handled, start), end) : start;
    if (depth > DEPTH_MAX) {
        walk(w, q->server, start, end, depth);
        return;
    }
    walk_handling(w, q, turn, end, depth);
    if (turn <= start)
        return;
    uint32_t others = w->queue == KYMO_IDENT_NONE ? kymo_why_handled_before(w, q) : 0;
    if (q->kind == KYMO_REQ_SPAWN && kymo_timeline_apart(w->r, q->client, q->server)) {
        kymo_why_add_simple(w, KYMO_WHY_NETWORK, q->server, start, turn, 0);
        return;
    }
    if (others == 0) {
        walk(w, q->server, start, turn, depth);
        return;
    }
    kymo_why_add(w, (struct kymo_why_stretch){.cause = KYMO_WHY_QUEUE,
                                              .process = q->server,
                                              .blame = KYMO_IDENT_NONE,
                                              .start = start,
                                              .end = turn,
                                              .requests = others});
    w->queue = q->server;
    walk(w, q->server, start, turn, depth);
    w->queue = KYMO_IDENT_NONE;
}

/* When the wait for a reply that did not come ended: the server exited, or the process could run `run`
 * after a timeout. */
static int64_t given_up(const struct kymo_why *w, const struct kymo_request *q,
                        const struct kymo_why_run *run)
{
    if (q->ended == KYMO_REQ_TIMEOUT)
        return run->runnable != KYMO_NO_TIME ? run->start - run->runnable : run->start;
    struct kymo_why_range server = kymo_why_runs(w, q->server);
    size_t last = run_before(w, server, run->start);
    bool exited = last < server.end && w->runs.p[last].exited;
    return exited ? w->runs.p[last].end : run->start;
}

/* Explains the wait of a process before run `next`, up to `end` and not before `start`. Returns
 * the beginning of the explained time. */
static int64_t wait_before(struct kymo_why *w, struct kymo_why_range range, size_t next, int64_t start,
                           int64_t end, unsigned depth)
{
    const struct kymo_why_run *run = &w->runs.p[next];
    bool first = next == range.first; /* no earlier run is known */
    size_t before = first ? next : next - 1;
    const struct kymo_why_birth *birth = first ? kymo_why_birth(w, run->process) : NULL;
    if (birth != NULL && birth->at == start) { /* it could run from then on */
        kymo_why_add_runnable(w, run->process, start, end, run);
        return start;
    }
    const struct kymo_request *q = kymo_why_reply_in(w, run), *failed = kymo_why_failed_in(w, run);
    bool replied = q != NULL && q->replied != KYMO_NO_TIME;
    if (replied || failed != NULL) {
        q = replied ? q : failed;
        /* In runs after the send the process only looked at other messages. */
        while (before > range.first && w->runs.p[before].start > q->sent)
            before--;
        int64_t from = first ? start : kymo_later(w->runs.p[before].end, start);
        int64_t until = kymo_later(kymo_earlier(replied ? q->replied : given_up(w, q, run), end), from);
        if (!replied && q->ended == KYMO_REQ_TIMEOUT)
            kymo_why_add_runnable(w, run->process, until, end, run);
        else
            kymo_why_add_delivered(w, kymo_why_replier(q), run, until, end);
        walk_request(w, q, from, until, depth + 1);
        return from;
    }
    const struct kymo_mail *m = kymo_why_waker(w, run, NULL);
    if (!first) {
        struct kymo_map seen;
        kymo_map_init(&seen, 0);
        before = kymo_why_without_glances(w, range, before, start, m != NULL, &seen);
        m = kymo_why_waker(w, run, &seen);
        kymo_map_free(&seen);
        if (m != NULL && kymo_why_is_timeout(m) && run->start - w->runs.p[before].end < TIMEOUT_MIN_NS)
            m = NULL; /* too early: it belongs to a later receive with `after 0` */
    }
    int64_t from = first ? start : kymo_later(w->runs.p[before].end, start);
    uint32_t out_mfa = first ? 0 : w->runs.p[before].out_mfa;
    if (m != NULL && (m->sent == KYMO_NO_TIME || KYMO_IDENT_KIND(m->from) != KYMO_I_PID)) {
        int64_t sent = m->sent != KYMO_NO_TIME ? kymo_earlier(kymo_later(m->sent, from), end) : end;
        uint8_t cause = kymo_why_cause_of_sender(m);
        if (cause == KYMO_WHY_UNKNOWN && run->by == KYMO_RUNNABLE_TIMER)
            cause = KYMO_WHY_TIMER;
        else if (cause == KYMO_WHY_UNKNOWN && run->by == KYMO_RUNNABLE_PORT)
            cause = KYMO_WHY_PORT;
        if (kymo_why_is_timeout(m)) {
            const struct kymo_why_run *b = &w->runs.p[before];
            bool glance = !first && before == range.first && kymo_why_is_glance(w, b, b[1].start);
            int64_t since = kymo_why_timeout_end(w, run, glance ? b : NULL, first ? start : b->end, end);
            sent = kymo_earlier(kymo_later(since, from), end);
        }
        kymo_why_add_runnable(w, run->process, sent, end, run);
        kymo_why_add(w, (struct kymo_why_stretch){.cause = cause,
                                                  .process = run->process,
                                                  .blame = cause == KYMO_WHY_PORT ? m->from : KYMO_IDENT_NONE,
                                                  .start = from,
                                                  .end = sent,
                                                  .mfa = out_mfa});
    } else if (m != NULL && (first || m->sent > w->runs.p[before].end ||
                             kymo_timeline_apart(w->r, m->from, run->process))) {
        int64_t sent =
            kymo_later(kymo_earlier(m->sent, end), from); /* it may have arrived while the process ran */
        kymo_why_add_delivered(w, m->from, run, sent, end);
        walk(w, m->from, from, sent, depth + 1);
    } else if (first) {
        kymo_why_add_simple(w, KYMO_WHY_UNKNOWN, run->process, from, end, 0);
    } else { /* no message, or one that was sent before the wait */
        kymo_why_add_silent(w, &w->runs.p[before], run, from, end);
    }
    return from;
}

/* The run that ended the wait before run `next`, if the wait lasted longer than until `end`. */
static size_t wait_end(const struct kymo_why *w, struct kymo_why_range range, size_t next, int64_t end)
{
    const struct kymo_why_run *r = w->runs.p;
    while (next + 1 < range.end && r[next].start > end && kymo_why_is_glance(w, &r[next], r[next + 1].start))
        next++;
    return next;
}

/* For recordings without scheduling events: requests of the process are walked, and all other time
 * is its own (KYMO_WHY_ACTIVE). */
static void walk_unscheduled(struct kymo_why *w, uint64_t process, int64_t start, int64_t end, unsigned depth)
{
    struct kymo_why_range asked = kymo_why_asked(w, process);
    for (size_t i = asked.end; i-- > asked.first && end > start;) {
        const struct kymo_request *q = &w->asked.p[i];
        if (q->received == KYMO_NO_TIME || q->received > end || q->sent == KYMO_NO_TIME ||
            q->received <= start)
            continue;
        int64_t sent = kymo_later(q->sent, start),
                reply = q->replied != KYMO_NO_TIME ? q->replied : q->received;
        reply = kymo_later(kymo_earlier(reply, end), sent);
        kymo_why_add_simple(w, KYMO_WHY_ACTIVE, process, reply, end, 0);
        walk_request(w, q, sent, reply, depth + 1);
        end = sent;
    }
    kymo_why_add_simple(w, KYMO_WHY_ACTIVE, process, start, end, 0);
}

static void walk(struct kymo_why *w, uint64_t process, int64_t start, int64_t end, unsigned depth)
{
    struct kymo_why_range range = kymo_why_runs(w, process);
    bool is_pid = KYMO_IDENT_KIND(process) == KYMO_I_PID;
    if (end <= start)
        return;
    if (depth > DEPTH_MAX || !is_pid) {
        w->path_cut = w->path_cut || depth > DEPTH_MAX;
        kymo_why_add_simple(w, KYMO_IDENT_KIND(process) == KYMO_I_PORT ? KYMO_WHY_PORT : KYMO_WHY_UNKNOWN,
                            process, start, end, 0);
        return;
    }
    const struct kymo_why_birth *birth = kymo_why_birth(w, process);
    if (birth != NULL && birth->at > start && birth->at < end) {
        walk(w, birth->parent, start, birth->at, depth + 1);
        start = birth->at;
    }
    if (range.first == range.end) {
        if (w->runs.n == 0)
            walk_unscheduled(w, process, start, end, depth);
        else
            kymo_why_add_simple(w, KYMO_WHY_UNKNOWN, process, start, end, 0);
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
            int64_t from = kymo_later(run->start, start);
            kymo_why_add_run(w, run, from, end);
            end = from;
        } else if (i + 1 < range.end) {
            end = wait_before(w, range, wait_end(w, range, i + 1, end), start, end, depth);
        } else {
            int64_t from = kymo_later(run->end, start);
            kymo_why_add_last(w, run, from, end);
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
