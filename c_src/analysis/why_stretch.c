/* SPDX-License-Identifier: Apache-2.0
 *
 * Stretches of the path that belong to one process: its runs, and its waits for a scheduler, a port
 * or another process that resumes it.
 */
#include <stdlib.h>

#include "kymo_timeline.h"
#include "why_int.h"

/* Maximum number of stretches of a path. */
#define PATH_MAX_STRETCHES 1000000u
/* A wait of up to this long is attributed to the scheduler even if no thread was busy. */
enum { WAKEUP_NS = 200000 };

void kymo_why_add(struct kymo_why *w, struct kymo_why_stretch s)
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

void kymo_why_add_simple(struct kymo_why *w, uint8_t cause, uint64_t process, int64_t start, int64_t end,
                         uint32_t mfa)
{
    kymo_why_add(w, (struct kymo_why_stretch){.cause = cause,
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

void kymo_why_add_run(struct kymo_why *w, const struct kymo_why_run *run, int64_t start, int64_t end)
{
    uint8_t cause = run->state == KYMO_RUN_UNKNOWN ? KYMO_WHY_UNKNOWN
                    : is_dirty(w, run->slot)       ? KYMO_WHY_DIRTY
                                                   : KYMO_WHY_RUNNING;
    struct kymo_why_range c = kymo_why_collections(w, run->process);
    int64_t at = start;
    for (size_t i = kymo_why_collection_from(w, c, start); i < c.end && w->collections.p[i].start < end;
         i++) {
        const struct kymo_collection *gc = &w->collections.p[i];
        int64_t from = kymo_later(gc->start, at), to = kymo_earlier(gc->end, end);
        kymo_why_add_simple(w, cause, run->process, at, from, run->in_mfa);
        kymo_why_add_simple(w, KYMO_WHY_GC, run->process, from, to, 0);
        at = kymo_later(at, to);
    }
    kymo_why_add_simple(w, cause, run->process, at, end, run->in_mfa);
}

/* Adds a wait from start to end in which the process could run (it was not suspended, and schedulers
 * were not stopped), and did not run; then run `next` began. */
static void wait_turn(struct kymo_why *w, uint64_t process, int64_t start, int64_t end,
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
        s.to_collect = kymo_why_worked(w, next) < (next->end - next->start) / 2;
        s.mfa = s.to_collect ? 0 : next->in_mfa; /* the function that was interrupted */
    } else if (end - start > WAKEUP_NS && busy < 0.5) {
        bool known = next->by == KYMO_RUNNABLE_OUT ||
                     (next->runnable != KYMO_NO_TIME && start >= next->start - next->runnable);
        bool still = kymo_why_all_running(w, next->slot, start, end) < (end - start) / 20;
        s.cause = still ? KYMO_WHY_NODE : known ? KYMO_WHY_SCHEDULER : KYMO_WHY_UNKNOWN;
        s.blame = KYMO_IDENT_NONE;
        s.blame_ns = 0;
    }
    kymo_why_add(w, s);
}

/* The same, but schedulers may have been stopped. Dirty ones never are. */
static void wait_scheduler(struct kymo_why *w, uint64_t process, int64_t start, int64_t end,
                           const struct kymo_why_run *next)
{
    const struct kymo_why_stop *stop;
    while (start < end && !is_dirty(w, next->slot) &&
           (stop = kymo_why_stopped(w, next->slot, start, end)) != NULL) {
        int64_t from = kymo_later(stop->start, start), to = kymo_earlier(stop->end, end);
        wait_turn(w, process, start, from, next);
        kymo_why_add(w, (struct kymo_why_stretch){.cause = KYMO_WHY_STOPPED,
                                                  .process = process,
                                                  .blame = KYMO_IDENT(KYMO_I_ATOM, stop->cause),
                                                  .blame_ns = to - from,
                                                  .start = from,
                                                  .end = to});
        start = to;
    }
    wait_turn(w, process, start, end, next);
}

void kymo_why_add_runnable(struct kymo_why *w, uint64_t process, int64_t start, int64_t end,
                           const struct kymo_why_run *next)
{
    struct kymo_why_suspension by;
    /* A loop, from the end backwards: a process may be suspended many times in one wait. */
    while (end - start > WAKEUP_NS && !is_dirty(w, next->slot) &&
           kymo_why_suspended(w, process, start, end, &by) && by.since < end) {
        wait_scheduler(w, process, by.until, end, next);
        kymo_why_add(w, (struct kymo_why_stretch){.cause = KYMO_WHY_SUSPENDED,
                                                  .process = process,
                                                  .blame = by.by,
                                                  .start = kymo_later(start, by.since),
                                                  .end = by.until});
        end = by.since;
    }
    wait_scheduler(w, process, start, end, next);
}

void kymo_why_add_delivered(struct kymo_why *w, uint64_t from, const struct kymo_why_run *next, int64_t start,
                            int64_t end)
{
    if (kymo_timeline_apart(w->r, from, next->process))
        kymo_why_add_simple(w, KYMO_WHY_NETWORK, next->process, start, end, 0);
    else
        kymo_why_add_runnable(w, next->process, start, end, next);
}

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
    return kymo_text_is(kymo_reader_atom(w->r, mfa.function), function);
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
    kymo_why_add(w, (struct kymo_why_stretch){.cause = to_port ? KYMO_WHY_PORT : KYMO_WHY_SUSPENDED,
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
    kymo_why_add_runnable(w, next->process, ready, end, next);
    if (next->by == KYMO_RUNNABLE_TIMER && adjacent)
        kymo_why_add_simple(w, KYMO_WHY_TIMER, next->process, start, ready, before->out_mfa);
    else if (next->by == KYMO_RUNNABLE_RESUME && adjacent)
        wait_resumed(w, before, start, ready);
    else
        *told = ready <= start;
    return ready;
}

void kymo_why_add_silent(struct kymo_why *w, const struct kymo_why_run *before,
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
        kymo_why_add_runnable(w, before->process, start, end, next);
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
    } else if (!queued && end - start > WAKEUP_NS && kymo_why_had_request(w, before, next) &&
               kymo_why_suspended(w, before->process, start, end, &by)) {
        kymo_why_add_runnable(w, before->process, start, end, next);
        return;
    } else {
        /* If messages are recorded, and neither a message nor a timeout ended the wait, it was
         * not in a receive: the process had used up its reductions. The exception is a receive
         * that has looked at a message which it does not match. */
        bool sleeps = is_function(w, before->out_mfa, "timer", "sleep");
        double enough = w->has_messages && !sleeps ? 0.5 : 0.9;
        double busy = kymo_why_busy(w, next->slot, start, end, before->process, &who, &s.blame_ns);
        bool receives = end - start > WAKEUP_NS && kymo_why_looked_at_request(w, before, next);
        if (!queued && ((busy >= enough && !receives) || end - start <= WAKEUP_NS)) {
            s.cause = KYMO_WHY_SCHEDULER;
            s.blame = who;
        } else {
            s.cause = sleeps ? KYMO_WHY_TIMER : KYMO_WHY_UNKNOWN;
            s.blame_ns = 0;
        }
    }
    kymo_why_add(w, s);
}

void kymo_why_add_last(struct kymo_why *w, const struct kymo_why_run *last, int64_t start, int64_t end)
{
    bool sleeps = is_function(w, last->out_mfa, "timer", "sleep");
    kymo_why_add_simple(w, sleeps ? KYMO_WHY_TIMER : KYMO_WHY_UNKNOWN, last->process, start, end,
                        last->out_mfa);
}
