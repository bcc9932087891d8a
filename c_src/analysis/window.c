/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a process is the function that it executes, whether it is scheduled in, and
 * whether it is collecting garbage. Whenever the state changes, the time since the last change
 * is added to the sums of the previous state.
 */
#include "kymo_window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_lesson.h"
#include "kymo_live.h"

/* Whether a process is scheduled in. UNKNOWN: its scheduling is not recorded, or no change has
 * been seen yet. Its time then counts for the functions that it calls, but not as running time. */
enum { UNKNOWN = 0, IN, OUT };

int kymo_window_init(struct kymo_window *w, uint32_t n_threads)
{
    memset(w, 0, sizeof *w);
    kymo_map_init(&w->functions, sizeof(struct kymo_window_function));
    kymo_map_init(&w->processes, sizeof(struct kymo_window_process));
    kymo_slow_calls_init(&w->slow);
    w->start = w->now = KYMO_NO_TIME;
    w->n_threads = n_threads;
    w->threads = calloc((size_t)n_threads + 1, sizeof *w->threads);
    if (w->threads == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < n_threads; i++)
        w->threads[i] = (struct kymo_window_thread){.process = KYMO_IDENT_NONE, .since = KYMO_NO_TIME};
    return 0;
}

static void drop_functions(struct kymo_window *w)
{
    size_t it = 0;
    for (struct kymo_window_function *f; (f = kymo_map_next(&w->functions, &it, NULL)) != NULL;)
        kymo_histogram_free(&f->times);
    kymo_map_free(&w->functions);
}

void kymo_window_free(struct kymo_window *w)
{
    drop_functions(w);
    kymo_map_free(&w->processes);
    kymo_slow_calls_free(&w->slow);
    free(w->threads);
    w->threads = NULL;
}

void kymo_window_read(struct kymo_window *w, const struct kymo_reader *r)
{
    w->r = r;
}

/* ---- rows ---- */

static void *row(struct kymo_window *w, struct kymo_map *map, uint64_t key, size_t most)
{
    bool added;
    void *found = kymo_map_get(map, key);
    if (found != NULL)
        return found;
    if (map->count >= most) {
        w->others++;
        return NULL;
    }
    found = kymo_map_put(map, key, &added);
    w->failed = w->failed || found == NULL;
    return found;
}

static struct kymo_window_function *function_row(struct kymo_window *w, uint32_t mfa)
{
    return row(w, &w->functions, mfa, KYMO_WINDOW_FUNCTIONS);
}

static struct kymo_window_process *process_row(struct kymo_window *w, uint64_t ident)
{
    unsigned kind = KYMO_IDENT_KIND(ident);
    if (kind != KYMO_I_PID && kind != KYMO_I_PORT)
        return NULL;
    return row(w, &w->processes, ident, KYMO_WINDOW_PROCESSES);
}

/* ---- time ---- */

/* Nanoseconds from `since` to `until` within this window; 0 if unknown. */
static int64_t elapsed(const struct kymo_window *w, int64_t since, int64_t until)
{
    if (since == KYMO_NO_TIME || w->start == KYMO_NO_TIME)
        return 0;
    if (since < w->start)
        since = w->start;
    return until > since ? until - since : 0;
}

/* Adds the time of p up to `until` to the sums of its current state. */
static void settle(struct kymo_window *w, struct kymo_window_process *p, int64_t until)
{
    int64_t ns = p->since == 0 ? 0 : elapsed(w, p->since, until);
    if (p->scheduled == IN)
        p->running += ns;
    if (p->in != 0 && p->scheduled != OUT && !p->collecting && ns > 0) {
        struct kymo_window_function *f = function_row(w, p->in);
        if (f != NULL)
            f->self += ns;
    }
    if (p->since == 0 || until > p->since)
        p->since = until;
}

static void settle_thread(struct kymo_window *w, struct kymo_window_thread *t, int64_t until)
{
    if (t->process == KYMO_IDENT_NONE)
        return;
    t->busy += elapsed(w, t->since, until);
    if (until > t->since)
        t->since = until;
}

/* ---- events ---- */

static void on_in(struct kymo_window *w, struct kymo_window_process *p, const struct kymo_event *ev)
{
    w->has_running = true;
    if (ev->slot < w->n_threads) {
        struct kymo_window_thread *t = &w->threads[ev->slot];
        /* The `out` event of the previous process was not recorded. */
        struct kymo_window_process *q =
            t->process != KYMO_IDENT_NONE ? kymo_map_get(&w->processes, t->process) : NULL;
        if (q != NULL && q != p && q->scheduled == IN) {
            q->scheduled = UNKNOWN;
            q->in = 0;
            q->since = ev->ns;
        }
        *t = (struct kymo_window_thread){.busy = t->busy, .process = ev->who, .since = ev->ns};
    }
    if (p->scheduled == UNKNOWN)
        p->since = ev->ns; /* it was scheduled out, or its scheduling was not recorded */
    else
        settle(w, p, ev->ns);
    p->scheduled = IN;
}

static void on_out(struct kymo_window *w, struct kymo_window_process *p, const struct kymo_event *ev)
{
    w->has_running = true;
    if (ev->slot < w->n_threads) {
        struct kymo_window_thread *t = &w->threads[ev->slot];
        if (t->process == ev->who)
            settle_thread(w, t, ev->ns);
        t->process = KYMO_IDENT_NONE;
    }
    settle(w, p, ev->ns);
    p->scheduled = OUT;
}

static void count_call(struct kymo_window *w, struct kymo_window_process *p, struct kymo_window_function *f)
{
    w->calls++;
    if (f != NULL)
        f->calls++;
    p->calls++;
}

static void on_call(struct kymo_window *w, struct kymo_window_process *p, const struct kymo_event *ev)
{
    uint32_t mfa = kymo_canonical(w->r, ev->mfa);
    if (!kymo_slow_calls_called(&w->slow, mfa))
        w->failed = true;
    count_call(w, p, function_row(w, mfa));
}

static void on_slow(struct kymo_window *w, struct kymo_window_process *p, const struct kymo_event *ev)
{
    uint32_t mfa = kymo_canonical(w->r, ev->mfa);
    int64_t start;
    if (!kymo_slow_calls_shows(&w->slow, ev, mfa, &start))
        return;
    struct kymo_window_function *f = function_row(w, mfa);
    count_call(w, p, f);
    if (f != NULL && !kymo_histogram_add(&f->times, (int64_t)ev->value))
        w->failed = true;
}

static void on_event_of(struct kymo_window *w, struct kymo_window_process *p, const struct kymo_event *ev)
{
    switch (ev->id) {
    case KYMO_E_CALL: on_call(w, p, ev); break;
    case KYMO_E_SLOW: on_slow(w, p, ev); break;
    case KYMO_E_SEND:
    case KYMO_E_SEND_NE:
        w->messages++;
        p->sent++;
        break;
    case KYMO_E_RECEIVE: p->received += ev->message != KYMO_MSG_TIMEOUT; break;
    case KYMO_E_IN:
    case KYMO_E_IN_EXITING:
    case KYMO_E_PORT_IN:
    case KYMO_E_PORT_IN_EXITING: on_in(w, p, ev); break;
    case KYMO_E_OUT:
    case KYMO_E_OUT_EXITING:
    case KYMO_E_PORT_OUT:
    case KYMO_E_PORT_OUT_EXITING: on_out(w, p, ev); break;
    case KYMO_E_OUT_EXITED:
    case KYMO_E_PORT_OUT_EXITED:
        on_out(w, p, ev);
        p->gone = true;
        break;
    case KYMO_E_GC_MINOR_START:
    case KYMO_E_GC_MAJOR_START:
        settle(w, p, ev->ns);
        w->collections++;
        p->collecting = true;
        break;
    case KYMO_E_GC_MINOR_END:
    case KYMO_E_GC_MAJOR_END:
        settle(w, p, ev->ns);
        p->collecting = false;
        break;
    case KYMO_E_EXIT:
    case KYMO_E_CLOSED: p->gone = true; break;
    default: break;
    }
}

static void on_event(void *arg, const struct kymo_event *ev)
{
    struct kymo_window *w = arg;
    w->now = ev->ns;
    if (ev->id >= KYMO_E_FIRST_NOTE)
        return;
    w->events++;
    struct kymo_window_process *p = process_row(w, ev->who);
    if (p != NULL)
        on_event_of(w, p, ev);
}

/* The process executes another function from now on. */
static void enter(struct kymo_window *w, uint64_t process, uint32_t mfa)
{
    struct kymo_window_process *p = process_row(w, process);
    if (p == NULL)
        return;
    settle(w, p, w->now);
    p->in = mfa;
}

static void on_open(void *arg, const struct kymo_span *s)
{
    enter(arg, s->process, s->mfa);
}

static void on_span(void *arg, const struct kymo_span *s)
{
    struct kymo_window *w = arg;
    if (s->ended == KYMO_SPAN_MOMENT)
        return;
    enter(w, s->process, s->caller);
    int64_t total = kymo_since(s->start, s->end);
    struct kymo_window_function *f = total != KYMO_NO_TIME ? function_row(w, s->mfa) : NULL;
    if (f != NULL && !kymo_histogram_add(&f->times, total))
        w->failed = true;
}

struct kymo_analysis_sink kymo_window_sink(struct kymo_window *w)
{
    return (struct kymo_analysis_sink){.arg = w, .event = on_event, .span_open = on_open, .span = on_span};
}

/* ---- edges ---- */

/* Leaves out the time since the last event of a process if it is not known that it still runs. */
static void doubt(void *arg, const struct kymo_run *run)
{
    struct kymo_window *w = arg;
    struct kymo_window_process *p = kymo_map_get(&w->processes, run->process);
    if (kymo_run_state(run) == KYMO_RUN_OPEN)
        return;
    if (p != NULL && p->scheduled == IN)
        p->since = INT64_MAX;
    if (run->slot < w->n_threads && w->threads[run->slot].process == run->process)
        w->threads[run->slot].since = INT64_MAX;
}

void kymo_window_cut(struct kymo_window *w, const struct kymo_live *l, int64_t end)
{
    size_t it = 0;
    kymo_live_runs(l, doubt, w);
    for (struct kymo_window_process *p; (p = kymo_map_next(&w->processes, &it, NULL)) != NULL;)
        settle(w, p, end);
    for (uint32_t i = 0; i < w->n_threads; i++)
        settle_thread(w, &w->threads[i], end);
}

/* Whether the state of a process must be kept for its next event. A process that is scheduled
 * out and executes no known function can be treated as one that was never seen. */
static bool has_state(const struct kymo_window_process *p)
{
    return !p->gone && (p->in != 0 || p->scheduled == IN || p->collecting);
}

/* Drops processes that have exited and those without state that must be kept. After a gap, drops
 * all. */
static void keep_processes(struct kymo_window *w, int64_t start, bool gap)
{
    struct kymo_map kept;
    size_t it = 0;
    uint64_t ident;
    kymo_map_init(&kept, sizeof(struct kymo_window_process));
    for (const struct kymo_window_process *p;
         !gap && (p = kymo_map_next(&w->processes, &it, &ident)) != NULL;) {
        if (!has_state(p))
            continue;
        struct kymo_window_process *copy = kymo_map_put(&kept, ident, NULL);
        if (copy == NULL) {
            w->failed = true;
            break;
        }
        *copy = (struct kymo_window_process){
            .since = start, .in = p->in, .scheduled = p->scheduled, .collecting = p->collecting};
    }
    kymo_map_free(&w->processes);
    w->processes = kept;
}

void kymo_window_next(struct kymo_window *w, int64_t start, bool gap)
{
    drop_functions(w);
    kymo_map_init(&w->functions, sizeof(struct kymo_window_function));
    keep_processes(w, start, gap);
    for (uint32_t i = 0; i < w->n_threads; i++) {
        struct kymo_window_thread *t = &w->threads[i];
        *t = (struct kymo_window_thread){.process = gap ? KYMO_IDENT_NONE : t->process,
                                         .since = gap ? KYMO_NO_TIME : start};
    }
    w->events = w->calls = w->messages = w->collections = w->others = 0;
    w->start = w->now = start;
}
