/* SPDX-License-Identifier: Apache-2.0
 *
 * The critical path, from the end backwards. When a process waited for a message, the path
 * continues in its sender; all other time belongs to the process itself.
 */
#include <stdlib.h>
#include <string.h>

#include "kymo_timeline.h"
#include "why_int.h"

/* Maximum number of nested handovers from a process to the one that it waited for. */
enum { DEPTH_MAX = 100 };
/* Maximum number of stretches of a path. */
#define PATH_MAX_STRETCHES 1000000u
/* A wait of up to this long is attributed to the scheduler even if no thread was busy. */
enum { WAKEUP_NS = 200000 };
/* A shorter run in which the process did nothing does not end a wait: the process handled a
 * signal, or scanned a message that its receive does not match. */
enum { GLANCE_NS = 50000 };
/* The same limit, if it is certain that the receive does not match the messages. */
enum { LONG_GLANCE_NS = 1000000 };
/* The shortest timeout of a receive, other than 0. */
enum { TIMEOUT_MIN_NS = 1000000 };

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

static bool is_dirty(const struct kymo_why *w, uint32_t slot)
{
    return slot < w->n_slots &&
           (w->slot[slot].thread_kind == KYMO_T_DIRTY_CPU || w->slot[slot].thread_kind == KYMO_T_DIRTY_IO);
}

/* ---- running ---- */

/* The index of the first collection in the range that ends after `time`. Collections of a process
 * do not overlap. */
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

/* Adds the part of a run from start to end, with its collections as separate stretches. */
static void ran(struct kymo_why *w, const struct kymo_why_run *run, int64_t start, int64_t end)
{
    uint8_t cause = is_dirty(w, run->slot) ? KYMO_WHY_DIRTY : KYMO_WHY_RUNNING;
    struct kymo_why_range c = kymo_why_collections(w, run->process);
    int64_t at = start;
    for (size_t i = collection_from(w, c, start); i < c.end && w->collections.p[i].start < end; i++) {
        const struct kymo_collection *gc = &w->collections.p[i];
        int64_t from = kymo_later(gc->start, at), to = kymo_earlier(gc->end, end);
        simple(w, cause, run->process, at, from, run->in_mfa);
        simple(w, KYMO_WHY_GC, run->process, from, to, 0);
        at = kymo_later(at, to);
    }
    simple(w, cause, run->process, at, end, run->in_mfa);
}

/* ---- waiting for a scheduler, and waits that look the same ---- */

/* Adds a wait from start to end in which the process could run (it was not suspended), and did not
 * run; then run `next` began. */
static void wait_scheduler(struct kymo_why *w, uint64_t process, int64_t start, int64_t end,
                           const struct kymo_why_run *next)
{
    struct kymo_why_stretch s = {.cause = KYMO_WHY_SCHEDULER,
                                 .process = process,
                                 .start = start,
                                 .end = end,
                                 .blame = KYMO_IDENT_NONE};
    if (end <= start)
        return;
    double busy = kymo_why_busy(w, next->slot, start, end, process, &s.blame, &s.blame_ns);
    if (is_dirty(w, next->slot)) {
        s.cause = KYMO_WHY_DIRTY_QUEUE;
        s.mfa = next->in_mfa;
    } else if (end - start > WAKEUP_NS && busy < 0.5) {
        bool known = next->by == KYMO_RUNNABLE_OUT ||
                     (next->runnable != KYMO_NO_TIME && start >= next->start - next->runnable);
        bool still = kymo_why_all_running(w, next->slot, start, end) < (end - start) / 20;
        s.cause = still ? KYMO_WHY_NODE : known ? KYMO_WHY_SCHEDULER : KYMO_WHY_UNKNOWN;
        s.blame = KYMO_IDENT_NONE;
        s.blame_ns = 0;
    }
    add(w, s);
}

/* Adds a wait from start to end in which the process would have run if it had not been suspended or
 * waiting for a scheduler; then run `next` began. */
static void wait_runnable(struct kymo_why *w, uint64_t process, int64_t start, int64_t end,
                          const struct kymo_why_run *next)
{
    struct kymo_why_suspension by;
    /* A loop, from the end backwards: a process may be suspended many times in one wait. */
    while (end - start > WAKEUP_NS && !is_dirty(w, next->slot) &&
           kymo_why_suspended(w, process, start, end, &by) && by.since < end) {
        wait_scheduler(w, process, by.until, end, next);
        add(w, (struct kymo_why_stretch){.cause = KYMO_WHY_SUSPENDED,
                                         .process = process,
                                         .blame = by.by,
                                         .start = kymo_later(start, by.since),
                                         .end = by.until});
        end = by.since;
    }
    wait_scheduler(w, process, start, end, next);
}

/* Adds the wait from `start`, when `from` sent a message, to `end`, when the message had made its
 * receiver run. */
static void wait_delivered(struct kymo_why *w, uint64_t from, const struct kymo_why_run *next, int64_t start,
                           int64_t end)
{
    if (kymo_timeline_apart(w->r, from, next->process))
        simple(w, KYMO_WHY_NETWORK, next->process, start, end, 0);
    else
        wait_runnable(w, next->process, start, end, next);
}

/* ---- messages ---- */

/* The index of the first message in the range that was fetched at `time` or later. */
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

/* Whether a message is a request that arrived while its receiver handled another one. The handler
 * was not waiting for such a message. */
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

/* The port to which the process sent something right before it was scheduled out at `out`. */
static uint64_t port_before(const struct kymo_why *w, uint64_t process, int64_t out)
{
    struct kymo_why_range m = kymo_why_to_ports(w, process);
    for (size_t i = m.end; i-- > m.first;) {
        const struct kymo_mail *mail = &w->to_ports.p[i];
        if (mail->sent <= out)
            return out - mail->sent <= KYMO_WHY_JUST_NS ? mail->to : KYMO_IDENT_NONE;
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

/* Whether run `next` began with fetching a request that arrived during the wait before it, while
 * another request was being handled. Then the wait was in a receive that the request does not
 * match. */
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

/* Whether the run ended while the process was writing to a port, which is stored in *port if it is
 * known. A port that is busy suspends the process, and resumes it later. */
static bool writes(const struct kymo_why *w, const struct kymo_why_run *run, uint64_t *port)
{
    *port = port_before(w, run->process, run->end);
    return *port != KYMO_IDENT_NONE || is_function(w, run->out_mfa, "erlang", "port_command") ||
           is_function(w, run->out_mfa, "erts_internal", "port_command") ||
           kymo_why_in_module(w, run->out_mfa, "prim_inet");
}

/* A wait that ended because the process was resumed, by another process or by a port. */
static void wait_resumed(struct kymo_why *w, const struct kymo_why_run *before, int64_t start, int64_t end)
{
    struct kymo_why_suspension s = {.by = KYMO_IDENT_NONE};
    uint64_t port;
    bool to_port = !kymo_why_suspended(w, before->process, end, end, &s) && writes(w, before, &port);
    add(w, (struct kymo_why_stretch){.cause = to_port ? KYMO_WHY_PORT : KYMO_WHY_SUSPENDED,
                                     .process = before->process,
                                     .blame = to_port ? port : s.by,
                                     .start = start,
                                     .end = end,
                                     .mfa = before->out_mfa});
}

/* For a wait that no message explains, if the time in a run queue before `next` is known, which is
 * the end of the wait: adds it, and returns when it began. Sets *told if the wait before that time
 * is explained too, because the runtime recorded what ended it. */
static int64_t wait_queued(struct kymo_why *w, const struct kymo_why_run *before,
                           const struct kymo_why_run *next, int64_t start, int64_t end, bool *told)
{
    int64_t ready = kymo_later(kymo_earlier(next->start - next->runnable, end), start);
    bool adjacent = before + 1 == next;
    *told = true;
    if (adjacent && next->by == KYMO_RUNNABLE_OUT)
        ready = start; /* it stayed runnable when it was scheduled out */
    wait_runnable(w, next->process, ready, end, next);
    if (next->by == KYMO_RUNNABLE_TIMER && adjacent)
        simple(w, KYMO_WHY_TIMER, next->process, start, ready, before->out_mfa);
    else if (next->by == KYMO_RUNNABLE_RESUME && adjacent)
        wait_resumed(w, before, start, ready);
    else
        *told = ready <= start;
    return ready;
}

static void wait_silent(struct kymo_why *w, const struct kymo_why_run *before,
                        const struct kymo_why_run *next, int64_t start, int64_t end)
{
    struct kymo_why_stretch s = {.process = before->process,
                                 .start = start,
                                 .end = end,
                                 .blame = KYMO_IDENT_NONE,
                                 .mfa = before->out_mfa};
    struct kymo_why_suspension by;
    uint64_t who;
    if (end <= start)
        return;
    if (is_dirty(w, next->slot) || is_dirty(w, before->slot)) {
        wait_runnable(w, before->process, start, end, next);
        return;
    }
    bool queued = next->runnable != KYMO_NO_TIME, told = false;
    if (queued)
        s.end = end = wait_queued(w, before, next, start, end, &told);
    if (told)
        return;
    uint64_t port;
    bool to_port = writes(w, before, &port);
    if (end - start > WAKEUP_NS && kymo_why_suspended(w, before->process, end, end, &by)) {
        s.cause = KYMO_WHY_SUSPENDED;
        s.blame = by.by;
    } else if (to_port) {
        s.cause = KYMO_WHY_PORT;
        s.blame = port;
    } else {
        /* If messages are recorded, and neither a message nor a timeout ended the wait, it was
         * not in a receive: the process had used up its reductions. The exception is a receive
         * that has looked at a message which it does not match. */
        bool sleeps = is_function(w, before->out_mfa, "timer", "sleep");
        double enough = w->mails.n > 0 && !sleeps ? 0.5 : 0.9;
        double busy = kymo_why_busy(w, next->slot, start, end, before->process, &who, &s.blame_ns);
        bool receives = end - start > WAKEUP_NS && looked_at_request(w, before, next);
        if (!queued && ((busy >= enough && !receives) || end - start <= WAKEUP_NS)) {
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

/* The message that probably ended the wait before run `next`, or NULL. Candidates are the messages
 * that were fetched in this run before the process did other work; the one sent first is chosen.
 * Requests that arrived while the process handled another one do not count. Messages from senders
 * in `seen` (a set, may be NULL), whose earlier messages did not end the wait, count only if there
 * is no other candidate. */
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

/* The reply to the newest request of the process, if it was fetched in this run. The process
 * waited for it, even if other messages arrived. */
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

/* The index of the last run in the range that began before `time`, or range.end. */
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

/* The number of requests that the server handled, or was handling, between the time q was sent and
 * the time it began to handle q. */
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

/* Walks a request from its send (start) to its reply (end): the wait in the mailbox, then its
 * handling. If other requests were ahead of it in the mailbox, what the server did for them is
 * walked too, into held_up instead of the path. */
static void walk_request(struct kymo_why *w, const struct kymo_request *q, int64_t start, int64_t end,
                         unsigned depth)
{
    int64_t turn = q->handled != KYMO_NO_TIME ? kymo_earlier(kymo_later(q->handled, start), end) : start;
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

/* The duration of a run without its collections. */
static int64_t worked(const struct kymo_why *w, const struct kymo_why_run *run)
{
    struct kymo_why_range c = kymo_why_collections(w, run->process);
    int64_t ns = run->end - run->start;
    for (size_t i = collection_from(w, c, run->start); i < c.end && w->collections.p[i].start < run->end; i++)
        ns -= kymo_earlier(w->collections.p[i].end, run->end) -
              kymo_later(w->collections.p[i].start, run->start);
    return ns;
}

/* Whether a run did not end the wait before it: the process only handled a signal, or looked at
 * messages that its receive does not match, and went on waiting in the same receive until `end`. */
static bool is_glance(const struct kymo_why *w, const struct kymo_why_run *run, int64_t end)
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
    return ns < GLANCE_NS && ns < end - run->end;
}

/* Goes back from run `before` over runs that are glances (see is_glance), to the run after which
 * the wait really began; returns its index. Unless a message ended the wait (by_message), stops at
 * glances at messages. Adds the senders of these messages to `seen`. */
static size_t without_glances(struct kymo_why *w, struct kymo_why_range range, size_t before, int64_t start,
                              bool by_message, struct kymo_map *seen)
{
    const struct kymo_why_run *r = w->runs.p;
    int64_t end = r[before + 1].start;
    for (; before > range.first && r[before].start > start && is_glance(w, &r[before], end); before--) {
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

/* The cause of a wait that ended with a message whose sender is not a process or whose send is not
 * known. */
static uint8_t cause_of_sender(const struct kymo_mail *m)
{
    switch (KYMO_IDENT_KIND(m->from)) {
    case KYMO_I_PORT: return KYMO_WHY_PORT;
    case KYMO_I_ATOM: return KYMO_WHY_TIMER;
    case KYMO_I_NONE: return is_timeout(m) ? KYMO_WHY_TIMER : KYMO_WHY_UNKNOWN;
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

/* For a receive that began at `out`, and whose timeout made `run` begin: returns since when the
 * process could not run until `end`. It would have run when a message arrived, and fetched it. A
 * process that is suspended fetches messages, but takes none of them. */
static int64_t timeout_end(const struct kymo_why *w, const struct kymo_why_run *run, int64_t out, int64_t end)
{
    struct kymo_why_suspension by;
    if (kymo_why_suspended(w, run->process, first_sent(w, run, out, out, end), end, &by))
        return kymo_later(by.since, out);
    return first_sent(w, run, run->start, out, end);
}

/* Explains the wait of a process before run `next`, up to `end` and not before `start`. Returns
 * the beginning of the explained time. */
static int64_t wait_before(struct kymo_why *w, struct kymo_why_range range, size_t next, int64_t start,
                           int64_t end, unsigned depth)
{
    const struct kymo_why_run *run = &w->runs.p[next];
    bool first = next == range.first; /* no earlier run is known */
    size_t before = first ? next : next - 1;
    const struct kymo_request *q = reply_in(w, run);
    if (q != NULL && q->replied != KYMO_NO_TIME) {
        /* In runs after the send the process only looked at other messages. */
        while (before > range.first && w->runs.p[before].start > q->sent)
            before--;
        int64_t from = first ? start : kymo_later(w->runs.p[before].end, start);
        int64_t sent = kymo_later(kymo_earlier(q->replied, end), from);
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
            m = NULL; /* too early: it belongs to a later receive with `after 0` */
    }
    int64_t from = first ? start : kymo_later(w->runs.p[before].end, start);
    uint32_t out_mfa = first ? 0 : w->runs.p[before].out_mfa;
    if (m != NULL && (m->sent == KYMO_NO_TIME || KYMO_IDENT_KIND(m->from) != KYMO_I_PID)) {
        int64_t sent = m->sent != KYMO_NO_TIME ? kymo_earlier(kymo_later(m->sent, from), end) : end;
        uint8_t cause = cause_of_sender(m);
        if (cause == KYMO_WHY_UNKNOWN && run->by == KYMO_RUNNABLE_TIMER)
            cause = KYMO_WHY_TIMER;
        else if (cause == KYMO_WHY_UNKNOWN && run->by == KYMO_RUNNABLE_PORT)
            cause = KYMO_WHY_PORT;
        if (is_timeout(m))
            sent = kymo_earlier(
                kymo_later(timeout_end(w, run, first ? start : w->runs.p[before].end, end), from), end);
        wait_runnable(w, run->process, sent, end, run);
        add(w, (struct kymo_why_stretch){.cause = cause,
                                         .process = run->process,
                                         .blame = cause == KYMO_WHY_PORT ? m->from : KYMO_IDENT_NONE,
                                         .start = from,
                                         .end = sent,
                                         .mfa = out_mfa});
    } else if (m != NULL && (m->sent > from || kymo_timeline_apart(w->r, m->from, run->process))) {
        int64_t sent =
            kymo_later(kymo_earlier(m->sent, end), from); /* it may have arrived while the process ran */
        wait_delivered(w, m->from, run, sent, end);
        walk(w, m->from, from, sent, depth + 1);
    } else if (m != NULL && first) {
        wait_runnable(w, run->process, from, end, run);
    } else if (first) {
        simple(w, KYMO_WHY_UNKNOWN, run->process, from, end, 0);
    } else { /* no message, or one that was sent before the wait */
        wait_silent(w, &w->runs.p[before], run, from, end);
    }
    return from;
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
            int64_t from = kymo_later(run->start, start);
            ran(w, run, from, end);
            end = from;
        } else if (i + 1 < range.end) {
            end = wait_before(w, range, i + 1, start, end, depth);
        } else {
            int64_t from = kymo_later(run->end, start);
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
