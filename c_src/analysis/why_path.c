/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path, from the end backwards. A process that waited for a message hands
 * the path over to its sender; the rest of its time is its own.
 */
#include <stdlib.h>
#include <string.h>

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
/* A process does not use up its reductions in less. */
enum { TIMESLICE_NS = 30000 };
/* What a process did right before it was scheduled out, or somebody else before it was
 * scheduled in. */
enum { JUST_NS = 1000000 };

static void add(struct kymo_why *w, struct kymo_why_stretch s)
{
    if (s.end <= s.start)
        return;
    if (w->path.n == w->path.room) {
        size_t room = w->path.room == 0 ? 256 : w->path.room * 2;
        if (room > PATH_MAX_STRETCHES) {
            w->cut = true; /* the rest is unknown, see kymo_why_explain */
            return;
        }
        void *more = realloc(w->path.p, room * sizeof *w->path.p);
        if (more == NULL) {
            w->failed = true;
            return;
        }
        w->path.p = more;
        w->path.room = room;
    }
    w->path.p[w->path.n++] = s;
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

/* A run, with the collections in it apart. */
static void ran(struct kymo_why *w, const struct kymo_run *run, int64_t start, int64_t end)
{
    uint8_t cause = is_dirty(w, run->slot) ? KYMO_WHY_DIRTY : KYMO_WHY_RUNNING;
    struct kymo_why_range c = kymo_why_collections(w, run->process);
    int64_t at = start;
    size_t low = c.first, high = c.end;
    while (low < high) { /* collections of a process do not overlap */
        size_t mid = low + (high - low) / 2;
        if (w->collections.p[mid].end <= start)
            low = mid + 1;
        else
            high = mid;
    }
    for (size_t i = low; i < c.end && w->collections.p[i].start < end; i++) {
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
    const struct kymo_span *resumed = NULL;
    for (size_t i = w->suspensions.n; i-- > 0;) {
        const struct kymo_span *s = &w->suspensions.p[i];
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
                          const struct kymo_run *next)
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
            bool still = kymo_why_all_running(w, start, end) < (end - start) / 20;
            s.cause = still ? KYMO_WHY_NODE : KYMO_WHY_UNKNOWN;
            s.blame = KYMO_IDENT_NONE;
            s.blame_ns = 0;
        }
    }
    add(w, s);
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

/* Whether a process that was scheduled out without a message waited in a receive, and so
 * for its timeout: only if it can't have used up its reductions. Then it has run for
 * long, or was in a function of the runtime that goes on later. */
static bool waits_in_receive(const struct kymo_why *w, const struct kymo_run *run)
{
    if (is_function(w, run->out_mfa, "timer", "sleep"))
        return true;
    return run->end - run->start < TIMESLICE_NS && !kymo_why_in_module(w, run->out_mfa, "erlang") &&
           !kymo_why_in_module(w, run->out_mfa, "erts_internal") &&
           !kymo_why_in_module(w, run->out_mfa, "ets");
}

static void wait_silent(struct kymo_why *w, const struct kymo_run *before, const struct kymo_run *next,
                        int64_t start, int64_t end)
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
    } else if (kymo_why_busy(w, next->slot, start, end, before->process, &who, &s.blame_ns) >= 0.9 ||
               end - start <= WAKEUP_NS) {
        s.cause = KYMO_WHY_SCHEDULER; /* it had used up its reductions */
        s.blame = who;
    } else {
        s.cause = waits_in_receive(w, before) ? KYMO_WHY_TIMER : KYMO_WHY_UNKNOWN;
        s.blame_ns = 0;
    }
    add(w, s);
}

/* ---- waiting for a message ---- */

/* The message that ended a wait: of those fetched when it ran again, the one sent first.
 * NULL: none. */
static const struct kymo_mail *waker(const struct kymo_why *w, const struct kymo_run *next)
{
    struct kymo_why_range m = kymo_why_mails(w, next->process);
    const struct kymo_mail *first = NULL;
    size_t low = m.first, high = m.end;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (w->mails.p[mid].fetched < next->start)
            low = mid + 1;
        else
            high = mid;
    }
    for (size_t i = low; i < m.end && w->mails.p[i].fetched <= next->end; i++) {
        const struct kymo_mail *mail = &w->mails.p[i];
        if (mail->sent != KYMO_NO_TIME && mail->sent > next->start)
            continue; /* it came while it ran */
        if (first == NULL ||
            (mail->sent != KYMO_NO_TIME && first->sent != KYMO_NO_TIME && mail->sent < first->sent))
            first = mail;
    }
    return first;
}

static const struct kymo_request *request_of(const struct kymo_why *w, const struct kymo_mail *reply)
{
    const size_t *place = kymo_map_get(&w->replies, reply->id);
    return place != NULL ? &w->asked.p[*place - 1] : NULL;
}

/* The reply to the newest request of the process that was fetched in this run: what it
 * waited for, whatever else came. */
static const struct kymo_request *reply_in(const struct kymo_why *w, const struct kymo_run *next)
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
 * handling. */
static void walk_request(struct kymo_why *w, const struct kymo_request *q, int64_t start, int64_t end,
                         unsigned depth)
{
    int64_t turn = q->handled != KYMO_NO_TIME ? earlier(later(q->handled, start), end) : start;
    walk(w, q->server, turn, end, depth);
    if (turn <= start)
        return;
    uint32_t others = handled_before(w, q);
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
}

/* The run that the wait before `next` really began after: runs between that did nothing
 * were looks at signals. */
static size_t without_glances(const struct kymo_why *w, struct kymo_why_range range, size_t before,
                              const struct kymo_run *next, int64_t start)
{
    const struct kymo_run *r = w->runs.p;
    while (before > range.first && r[before].start > start && r[before].end - r[before].start < GLANCE_NS &&
           r[before].end - r[before].start < r[before + 1].start - r[before].end &&
           r[before].in_mfa == r[before].out_mfa && r[before].out_mfa == next->in_mfa &&
           waker(w, &r[before]) == NULL)
        before--;
    return before;
}

/* Who does not say more of itself. */
static uint8_t cause_of_sender(const struct kymo_mail *m)
{
    switch (KYMO_IDENT_KIND(m->from)) {
    case KYMO_I_PORT: return KYMO_WHY_PORT;
    case KYMO_I_ATOM: return KYMO_WHY_TIMER;
    case KYMO_I_NONE: return m->kind == KYMO_MSG_TIMEOUT ? KYMO_WHY_TIMER : KYMO_WHY_UNKNOWN;
    default: return KYMO_WHY_UNKNOWN;
    }
}

/* The wait of a process before run `next`, down to `start`. Returns the time that is
 * explained then. */
static int64_t wait_before(struct kymo_why *w, struct kymo_why_range range, size_t next, int64_t start,
                           int64_t end, unsigned depth)
{
    const struct kymo_run *run = &w->runs.p[next];
    bool first = next == range.first; /* when it ran before is not known */
    size_t before = first ? next : next - 1;
    const struct kymo_request *q = reply_in(w, run);
    if (q != NULL && q->replied != KYMO_NO_TIME) {
        /* Whatever ran between was a look at another message. */
        while (before > range.first && w->runs.p[before].start > q->sent)
            before--;
        int64_t from = first ? start : later(w->runs.p[before].end, start);
        int64_t sent = later(earlier(q->replied, end), from);
        wait_runnable(w, run->process, sent, end, run);
        walk_request(w, q, from, sent, depth + 1);
        return from;
    }
    const struct kymo_mail *m = waker(w, run);
    if (!first && (m == NULL || m->from == KYMO_IDENT_NONE))
        before = without_glances(w, range, before, run, start);
    int64_t from = first ? start : later(w->runs.p[before].end, start);
    uint32_t out_mfa = first ? 0 : w->runs.p[before].out_mfa;
    if (m != NULL && (m->sent == KYMO_NO_TIME || KYMO_IDENT_KIND(m->from) != KYMO_I_PID)) {
        int64_t sent = m->sent != KYMO_NO_TIME ? later(m->sent, from) : end;
        uint8_t cause = cause_of_sender(m);
        wait_runnable(w, run->process, sent, end, run);
        add(w, (struct kymo_why_stretch){.cause = cause,
                                         .process = run->process,
                                         .blame = cause == KYMO_WHY_PORT ? m->from : KYMO_IDENT_NONE,
                                         .start = from,
                                         .end = sent,
                                         .mfa = out_mfa});
    } else if (m != NULL && m->sent > from) {
        wait_runnable(w, run->process, m->sent, end, run);
        walk(w, m->from, from, m->sent, depth + 1);
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
        w->cut = w->cut || depth > DEPTH_MAX;
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
        const struct kymo_run *run = &w->runs.p[i];
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

void kymo_why_walk(struct kymo_why *w, uint64_t process, int64_t start, int64_t end)
{
    w->path.n = 0;
    walk(w, process, start, end, 0);
}
