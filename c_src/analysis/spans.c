/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls and collections of a process. A shadow stack determines which are open (kymo_stack.h);
 * a parallel array has the data of each.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis_int.h"

/* The maximum number of frames searched for an open call of the same function. */
enum { RECURSION_MAX = 1024 };

struct leaving {
    struct kymo_an *x;
    struct kymo_an_process *p;
    const struct kymo_event *cause; /* NULL: the end of the recording */
};

static struct kymo_an_open *open_at(struct kymo_an *x, struct kymo_an_process *p, uint32_t depth)
{
    if (depth >= p->open_room) {
        uint32_t room = p->open_room == 0 ? 8 : p->open_room * 2;
        while (room <= depth)
            room *= 2;
        struct kymo_an_open *more = realloc(p->open, room * sizeof *more);
        if (more == NULL) {
            x->failed = true;
            return NULL;
        }
        p->open = more;
        p->open_room = room;
    }
    return &p->open[depth];
}

const struct kymo_span *kymo_an_innermost(const struct kymo_an_process *p)
{
    for (uint32_t i = p->stack.shown; i-- > 0;) {
        if (p->open[i].span.id != 0)
            return &p->open[i].span;
    }
    return NULL;
}

static bool is_recursive(const struct kymo_an_process *p, uint32_t depth, uint32_t mfa)
{
    uint32_t low = depth > RECURSION_MAX ? depth - RECURSION_MAX : 0;
    for (uint32_t i = depth; i-- > low;) {
        if (p->open[i].span.mfa == mfa && p->open[i].span.id != 0)
            return true;
    }
    return false;
}

/* ---- ends ---- */

static uint8_t ended_by(enum kymo_leave why, const struct kymo_event *cause)
{
    switch (why) {
    case KYMO_LEAVE_RETURN:
        return cause != NULL && cause->id == KYMO_E_EXCEPTION_FROM ? KYMO_SPAN_EXCEPTION : KYMO_SPAN_RETURN;
    case KYMO_LEAVE_RETURN_TO: return KYMO_SPAN_RETURN;
    case KYMO_LEAVE_TAIL:
    case KYMO_LEAVE_REPLACED: return KYMO_SPAN_TAIL;
    case KYMO_LEAVE_LOST: return KYMO_SPAN_LOST;
    case KYMO_LEAVE_HIBERNATE: return KYMO_SPAN_HIBERNATE;
    default: return cause != NULL ? KYMO_SPAN_EXIT : KYMO_SPAN_OPEN;
    }
}

/* Adds the times of a call that has ended to the frame below, if there is one. */
static void add_to_below(struct kymo_an_process *p, uint32_t depth, int64_t total, int64_t busy)
{
    if (depth == 0)
        return;
    struct kymo_an_open *below = &p->open[depth - 1];
    if (total == KYMO_NO_TIME) {
        below->inner_unknown = true;
    } else {
        below->below += total;
        if (busy != KYMO_NO_TIME)
            below->below_busy += busy;
    }
}

static struct kymo_heap heap_of(const struct kymo_event *ev)
{
    if (ev->n_gc != KYMO_GC_SIZES)
        return (struct kymo_heap){0};
    return (struct kymo_heap){.heap = ev->gc[KYMO_GC_heap_size] + ev->gc[KYMO_GC_old_heap_size],
                              .fragments = ev->gc[KYMO_GC_mbuf_size],
                              .binaries = ev->gc[KYMO_GC_bin_vheap_size] + ev->gc[KYMO_GC_bin_old_vheap_size],
                              .known = true};
}

static void end_collection(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_an_open *o,
                           int64_t end, uint32_t depth, const struct kymo_event *cause)
{
    struct kymo_collection c = {.process = p->ident,
                                .span = depth > 0 ? p->open[depth - 1].span.id : 0,
                                .start = o->span.start,
                                .end = end,
                                .before = o->heap,
                                .major = o->span.mfa == KYMO_FRAME_GC_MAJOR};
    if (cause != NULL && end != KYMO_NO_TIME)
        c.after = heap_of(cause);
    if (end != KYMO_NO_TIME)
        p->life.gc += end - o->span.start;
    p->life.collections++;
    kymo_an_report_collection(x, &c);
}

static void end_call(struct kymo_an *x, struct kymo_an_process *p, struct kymo_an_open *o, uint8_t ended,
                     int64_t end, bool replaced)
{
    struct kymo_span *s = &o->span;
    int64_t busy = kymo_an_busy(x, p);
    s->ended = ended;
    s->end = end;
    s->self = s->running = s->self_running = s->gc = KYMO_NO_TIME;
    if (end != KYMO_NO_TIME) {
        s->gc = p->life.gc - o->gc;
        if (!o->inner_unknown)
            s->self = end - s->start - o->below;
        if (busy != KYMO_NO_TIME && o->busy != KYMO_NO_TIME && o->sched == p->sched) {
            s->running = busy - o->busy;
            if (!o->inner_unknown)
                s->self_running = s->running - o->below_busy;
        }
    }
    kymo_an_report_span(x, s);
    kymo_an_request_span_ended(x, p, s, replaced);
}

static void on_leave(void *arg, const struct kymo_frame *f, enum kymo_leave why)
{
    const struct leaving *l = arg;
    struct kymo_an *x = l->x;
    struct kymo_an_process *p = l->p;
    if (f->depth >= p->open_room) /* there was no memory for its data */
        return;
    struct kymo_an_open *o = &p->open[f->depth];
    uint8_t ended = ended_by(why, l->cause);
    /* It may have ended during a loss of events, and this may be the end of another call. */
    if (ended != KYMO_SPAN_OPEN && o->loss_epoch != x->loss_epoch)
        ended = KYMO_SPAN_LOST;
    bool known = ended != KYMO_SPAN_LOST && ended != KYMO_SPAN_OPEN;
    int64_t end = known ? p->last : KYMO_NO_TIME;
    if (o->span.id == 0)
        end_collection(x, p, o, end, f->depth, l->cause);
    else
        end_call(x, p, o, ended, end, ended == KYMO_SPAN_TAIL && why == KYMO_LEAVE_REPLACED);
    int64_t busy = kymo_an_busy(x, p);
    add_to_below(p, f->depth, known ? end - o->span.start : KYMO_NO_TIME,
                 busy != KYMO_NO_TIME && o->busy != KYMO_NO_TIME && o->sched == p->sched ? busy - o->busy
                                                                                         : KYMO_NO_TIME);
}

void kymo_an_end_spans(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev)
{
    struct leaving l = {x, p, ev};
    if (ev != NULL && ev->id == KYMO_E_OUT)
        kymo_stack_hibernate(&p->stack, on_leave, &l);
    else
        kymo_stack_clear(&p->stack, on_leave, &l);
}

/* ---- beginnings ---- */

static void begin(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_frame *f,
                  const struct kymo_event *ev)
{
    struct kymo_an_open *o = open_at(x, p, f->depth);
    if (o == NULL)
        return;
    const struct kymo_span *parent = f->depth > 0 ? &p->open[f->depth - 1].span : NULL;
    memset(o, 0, sizeof *o);
    o->busy = kymo_an_busy(x, p);
    o->sched = p->sched;
    o->gc = p->life.gc;
    o->loss_epoch = x->loss_epoch;
    o->span = (struct kymo_span){.process = p->ident,
                                 .mfa = f->mfa,
                                 .parent = parent != NULL ? parent->id : 0,
                                 .caller = parent != NULL ? parent->mfa : 0,
                                 .depth = f->depth,
                                 .start = p->last,
                                 .end = KYMO_NO_TIME,
                                 .self = KYMO_NO_TIME,
                                 .running = KYMO_NO_TIME,
                                 .self_running = KYMO_NO_TIME,
                                 .gc = KYMO_NO_TIME,
                                 .ended = KYMO_SPAN_OPEN,
                                 .slot = ev->slot};
    if (f->kind >= KYMO_FRAME_GC_MINOR) {
        o->span.mfa = f->kind;
        o->heap = heap_of(ev);
        return;
    }
    o->span.id = ++x->calls;
    p->life.calls++;
}

static const struct kymo_span *begin_call(struct kymo_an *x, struct kymo_an_process *p, uint32_t mfa,
                                          const struct kymo_frame *f, const struct kymo_event *ev)
{
    if (f == NULL) { /* its end is unknown */
        const struct kymo_span *in = kymo_an_innermost(p);
        x->moment = (struct kymo_span){.id = ++x->calls,
                                       .parent = in != NULL ? in->id : 0,
                                       .process = p->ident,
                                       .mfa = mfa,
                                       .caller = in != NULL ? in->mfa : 0,
                                       .depth = p->stack.shown,
                                       .ended = KYMO_SPAN_MOMENT,
                                       .start = p->last,
                                       .end = KYMO_NO_TIME,
                                       .self = KYMO_NO_TIME,
                                       .running = KYMO_NO_TIME,
                                       .self_running = KYMO_NO_TIME,
                                       .gc = KYMO_NO_TIME,
                                       .slot = ev->slot};
        p->life.calls++;
        kymo_an_report_span(x, &x->moment);
        return &x->moment;
    }
    begin(x, p, f, ev);
    if (f->depth >= p->open_room)
        return NULL;
    struct kymo_span *s = &p->open[f->depth].span;
    s->recursive = is_recursive(p, f->depth, mfa);
    kymo_an_report_open(x, s);
    return s;
}

const struct kymo_span *kymo_an_stack_event(struct kymo_an *x, struct kymo_an_process *p,
                                            const struct kymo_event *ev)
{
    struct leaving l = {x, p, ev};
    struct kymo_facts *facts = &x->lesson.facts;
    uint32_t mfa = kymo_canonical(x->r, ev->mfa);
    struct kymo_frame *f = NULL;
    const struct kymo_span *s;
    if (p->stack.loss_epoch != x->loss_epoch) /* after a loss, no open call is certain any more */
        kymo_stack_clear(&p->stack, on_leave, &l);
    kymo_stack_lost(&p->stack, x->loss_epoch);
    switch (ev->id) {
    case KYMO_E_CALL:
        f = kymo_stack_call(&p->stack, facts, mfa, ev->depth, on_leave, &l);
        s = begin_call(x, p, mfa, f, ev);
        kymo_an_request_span_replaced(x, p, s);
        return s;
    case KYMO_E_RETURN_TO: kymo_stack_return_to(&p->stack, facts, mfa, ev->depth, on_leave, &l); return NULL;
    case KYMO_E_RETURN_FROM:
    case KYMO_E_EXCEPTION_FROM:
        kymo_stack_return_from(&p->stack, facts, mfa, ev->depth, on_leave, &l);
        return NULL;
    case KYMO_E_GC_MINOR_START: f = kymo_stack_gc_start(&p->stack, KYMO_FRAME_GC_MINOR, on_leave, &l); break;
    case KYMO_E_GC_MAJOR_START: f = kymo_stack_gc_start(&p->stack, KYMO_FRAME_GC_MAJOR, on_leave, &l); break;
    case KYMO_E_GC_MINOR_END: kymo_stack_gc_end(&p->stack, KYMO_FRAME_GC_MINOR, on_leave, &l); return NULL;
    default: kymo_stack_gc_end(&p->stack, KYMO_FRAME_GC_MAJOR, on_leave, &l); return NULL;
    }
    if (f != NULL)
        begin(x, p, f, ev);
    else
        x->failed = true;
    return NULL;
}
