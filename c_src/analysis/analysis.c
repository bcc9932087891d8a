/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis_int.h"
#include "kymo_timeline.h"

enum { PROGRESS_EVERY = 1 << 17 };

/* ---- one event ---- */

static void on_out(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev)
{
    uint8_t function = ev->id == KYMO_E_OUT ? kymo_an_function(x, kymo_canonical(x->r, ev->mfa)) : 0;
    bool hibernates = (function & KYMO_AN_F_HIBERNATE) != 0;
    kymo_an_out(x, p, ev, hibernates);
    kymo_an_server_out(x, p, ev, function);
    if (hibernates)
        kymo_an_end_spans(x, p, ev);
}

static void on_message(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev)
{
    x->res->has_messages = true;
    x->res->has_refs = x->res->has_refs || ev->ref != 0;
    x->res->has_numbers = x->res->has_numbers || ev->number != 0;
    if (ev->id == KYMO_E_RECEIVE && ev->message == KYMO_MSG_TIMEOUT) {
        kymo_an_timeout(x, p);
        kymo_an_request_timeout(x, p);
    } else if (ev->id == KYMO_E_RECEIVE) {
        p->life.received++;
        kymo_an_request_received(x, p, ev, kymo_an_receive(x, p, ev));
    } else {
        p->life.sent++;
        if (kymo_an_unreceived(x, ev->slot))
            kymo_an_arrives(x, p, ev);
        else
            kymo_an_request_sent(x, p, ev, kymo_an_send(x, ev));
    }
}

static void on_taken(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev)
{
    struct kymo_mail mail;
    x->res->has_taken = true;
    if (kymo_an_taken(x, p, ev, &mail))
        kymo_an_request_taken(x, p, &mail);
}

static void on_call(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev)
{
    const struct kymo_span *s = kymo_an_stack_event(x, p, ev);
    x->res->has_calls = true;
    x->res->has_depths = x->res->has_depths || ev->depth != KYMO_DEPTH_UNKNOWN;
    if (s != NULL)
        kymo_an_request_call(x, p, s);
}

static void on_event_of(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev)
{
    /* An event of a thread whose clock had jumped may be older. */
    if (ev->ns > p->last)
        p->last = ev->ns;
    if (p->mail == KYMO_AN_MAIL_FIRST && (ev->id != KYMO_E_RECEIVE || ev->message == KYMO_MSG_TIMEOUT))
        p->mail = KYMO_AN_MAIL_KNOWN;
    /* It was in the loop and begins with fetching. If no message is known to be in its mailbox, there
     * was nothing to handle. Otherwise it may have been preempted there: a process with signals
     * fetches messages when it is scheduled in. */
    if (p->in_loop && ev->id == KYMO_E_RECEIVE && (p->queue.first == 0 || p->placed != x->placings))
        kymo_an_server_idle(x, p);
    p->in_loop = p->in_loop && ev->id == KYMO_E_IN;
    switch (ev->id) {
    case KYMO_E_CALL: on_call(x, p, ev); break;
    case KYMO_E_RETURN_TO:
    case KYMO_E_RETURN_FROM:
    case KYMO_E_EXCEPTION_FROM:
        x->res->has_ends = true;
        kymo_an_stack_event(x, p, ev);
        break;
    case KYMO_E_GC_MINOR_START:
    case KYMO_E_GC_MAJOR_START:
    case KYMO_E_GC_MINOR_END:
    case KYMO_E_GC_MAJOR_END:
        x->res->has_gc = true;
        kymo_an_stack_event(x, p, ev);
        break;
    case KYMO_E_SEND:
    case KYMO_E_SEND_NE:
    case KYMO_E_RECEIVE: on_message(x, p, ev); break;
    case KYMO_E_SLOW: x->res->has_slow = true; break;
    case KYMO_E_TAKEN: on_taken(x, p, ev); break;
    case KYMO_E_IN:
    case KYMO_E_IN_EXITING:
    case KYMO_E_PORT_IN:
    case KYMO_E_PORT_IN_EXITING:
        x->res->has_running = true;
        x->res->has_runnable =
            x->res->has_runnable || (ev->id == KYMO_E_IN && ev->kind != KYMO_RUNNABLE_UNKNOWN);
        kymo_an_in(x, p, ev);
        if (ev->id == KYMO_E_IN && kymo_an_unreceived(x, ev->slot))
            kymo_an_arrivals(x, p, false);
        break;
    case KYMO_E_OUT:
    case KYMO_E_OUT_EXITING:
    case KYMO_E_OUT_EXITED:
    case KYMO_E_PORT_OUT:
    case KYMO_E_PORT_OUT_EXITING:
    case KYMO_E_PORT_OUT_EXITED: on_out(x, p, ev); break;
    case KYMO_E_EXIT:
    case KYMO_E_CLOSED: kymo_an_forget(x, p, ev); break;
    case KYMO_E_REGISTER:
    case KYMO_E_UNREGISTER: kymo_an_rename(x, p, ev); break;
    default: break;
    }
}

/* Messages, or callbacks, are missing here. */
static void lose_messages(struct kymo_an *x)
{
    kymo_flows_lost(&x->flows);
    x->placings++;
}

/* Handles the time at which a budget began to shed kinds of events, or restored them. */
static void on_break(struct kymo_an *x, unsigned kinds)
{
    bool unreceived = memchr(x->unreceived, 1, sizeof x->unreceived) != NULL;
    if ((kinds & KYMO_BREAK_MESSAGES) != 0 || (unreceived && (kinds & KYMO_BREAK_RUNNING) != 0)) {
        kymo_an_requests_end(x);
        lose_messages(x);
    }
    if ((kinds & KYMO_BREAK_FUNCTIONS) != 0) {
        kymo_an_requests_unqueue(x);
        x->placings++;
    }
    if ((kinds & KYMO_BREAK_RUNNING) != 0)
        kymo_an_runs_lost(x);
    if ((kinds & KYMO_BREAK_CALLS) != 0)
        x->broken++;
}

void kymo_an_event(struct kymo_an *x, const struct kymo_event *ev, uint64_t loss_epoch)
{
    unsigned kinds = kymo_breaks_passed(&x->breaks, ev->ns);
    if (kinds != 0)
        on_break(x, kinds);
    x->now = ev->ns;
    x->newest = ev->ns > x->newest ? ev->ns : x->newest;
    kymo_an_report_event(x, ev);
    if (x->loss_epoch != loss_epoch + x->broken) {
        x->loss_epoch = loss_epoch + x->broken;
        lose_messages(x);
    }
    if (ev->id >= KYMO_E_FIRST_NOTE)
        return;
    struct kymo_an_process *p = kymo_an_process(x, ev);
    if (p != NULL)
        on_event_of(x, p, ev);
    kymo_flows_event(&x->flows, ev);
}

/* ---- all of them ---- */

int kymo_an_next(void *reader, struct kymo_event *ev)
{
    return kymo_reader_next(reader, ev);
}

static void progress(const struct kymo_an *x)
{
    uint64_t done, total;
    if (x->o->progress == NULL)
        return;
    kymo_reader_progress(x->r, &done, &total);
    x->o->progress(x->o->progress_arg, done, total);
}

/* Reports what is still open at the end. */
static void finish(struct kymo_an *x)
{
    x->now = x->newest;
    x->at_end = true;
    kymo_an_requests_end(x);
    kymo_an_forget_all(x);
    kymo_flows_end(&x->flows); /* reports messages that were not received */
    kymo_an_held_end(x);
    x->res->evicted += x->flows.evicted;
}

/* Makes a first pass over the recording, or takes the result of that of an earlier run. */
static int learn(struct kymo_an *x)
{
    struct kymo_lesson *kept = x->o->lesson;
    int rc = 0;
    if (kept == NULL)
        return kymo_lesson_take(&x->lesson, x->r, kymo_an_next, x->r);
    if (!kept->taken) {
        kymo_facts_free(&kept->facts);
        rc = kymo_lesson_take(kept, x->r, kymo_an_next, x->r);
    }
    /* A copy, because the run adds to it. */
    x->lesson.running = kept->running;
    x->lesson.takes = kept->takes;
    if (rc == 0 && !kymo_facts_copy(&x->lesson.facts, &kept->facts))
        rc = -ENOMEM;
    return rc;
}

static int run(struct kymo_an *x)
{
    struct kymo_event ev;
    uint64_t ticks, jumps = kymo_reader_jumps(x->r);
    int64_t horizon;
    uint32_t since_progress = 0;
    kymo_reader_show_all(x->r, false);
    int rc = learn(x);
    x->takes = x->lesson.takes;
    if (rc == 0)
        rc = kymo_reader_rewind(x->r);
    if (rc < 0)
        return rc;
    bool first = true;
    while (!x->failed && (rc = kymo_reader_next(x->r, &ev)) == 1) {
        if (first) /* with an active recorder it is unknown before */
            x->cut = kymo_reader_horizon(x->r, &ticks, &horizon);
        first = false;
        if (ev.ns > x->to) {
            if (jumps == 0)
                break;
            continue;
        }
        kymo_an_event(x, &ev, kymo_reader_loss_epoch(x->r));
        if (++since_progress == PROGRESS_EVERY) {
            since_progress = 0;
            progress(x);
        }
    }
    if (rc < 0)
        return rc;
    finish(x);
    progress(x);
    return x->failed ? -ENOMEM : 0;
}

static int64_t bound(int64_t t0, int64_t since)
{
    int64_t sum;
    if (since == INT64_MIN || since == INT64_MAX)
        return since;
    if (__builtin_add_overflow(t0, since, &sum))
        return since < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

int kymo_an_init(struct kymo_an *x)
{
    int64_t t0 = kymo_reader_meta(x->r)->t0_mono_ns;
    x->from = bound(t0, x->o->from_ns);
    x->to = bound(t0, x->o->to_ns);
    x->newest = INT64_MIN;
    x->placings = 1;
    kymo_map_init(&x->processes, sizeof(struct kymo_an_process *));
    kymo_map_init(&x->dead, 0);
    kymo_map_init(&x->names, sizeof(uint64_t));
    kymo_map_init(&x->by_ref, sizeof(uint32_t));
    kymo_map_init(&x->by_mail, sizeof(uint32_t));
    kymo_map_init(&x->held, sizeof(struct kymo_mail));
    x->slots = kymo_reader_slots(x->r, &x->n_slots);
    x->running = calloc((size_t)x->n_slots + 1, sizeof *x->running);
    x->n_functions = kymo_reader_dict_size(x->r) + 1;
    x->functions = calloc(x->n_functions, sizeof *x->functions);
    if (x->running == NULL || x->functions == NULL || kymo_flows_init(&x->flows) != 0 ||
        kymo_residents_init(&x->residents) != 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < x->n_slots; i++)
        x->running[i] = KYMO_IDENT_NONE;
    x->flows.gone = kymo_an_mail_gone;
    x->flows.gone_arg = x;
    kymo_an_arrivals_init(x);
    int rc = kymo_breaks_read(&x->breaks, x->r, INT64_MIN);
    return rc == 0 ? kymo_flows_timeline(&x->flows, x->r) : rc;
}

void kymo_an_clear(struct kymo_an *x)
{
    size_t it = 0;
    for (struct kymo_an_process **p; (p = kymo_map_next(&x->processes, &it, NULL)) != NULL;) {
        kymo_stack_free(&(*p)->stack);
        free((*p)->open);
        free(*p);
    }
    kymo_map_free(&x->processes);
    kymo_map_free(&x->dead);
    kymo_map_free(&x->names);
    kymo_map_free(&x->by_ref);
    kymo_map_free(&x->by_mail);
    kymo_map_free(&x->held);
    free(x->held_ring);
    kymo_flows_free(&x->flows);
    kymo_breaks_free(&x->breaks);
    kymo_residents_free(&x->residents);
    kymo_facts_free(&x->lesson.facts);
    free(x->running);
    free(x->functions);
    free(x->sinks);
    free(x->requests);
    free(x);
}

int kymo_analyse(struct kymo_reader *r, const struct kymo_analysis_options *o,
                 const struct kymo_analysis_sink *sinks, size_t n, struct kymo_analysis_result *res,
                 char *err, size_t err_size)
{
    memset(res, 0, sizeof *res);
    res->first = res->last = KYMO_NO_TIME;
    struct kymo_an *x = calloc(1, sizeof *x);
    int rc = -ENOMEM;
    if (x != NULL) {
        x->r = r;
        x->o = o;
        x->res = res;
        rc = kymo_an_init(x);
        if (rc == 0)
            rc = kymo_an_report_init(x, sinks, n);
        if (rc == 0)
            rc = run(x);
        kymo_an_clear(x);
    }
    if (rc == -ENOMEM)
        snprintf(err, err_size, "not enough memory");
    else if (rc < 0)
        snprintf(err, err_size, "cannot read the rest of the recording: %s", strerror(-rc));
    return rc;
}
