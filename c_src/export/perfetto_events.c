/* SPDX-License-Identifier: Apache-2.0
 *
 * Dispatches events by their kind. doc/exports.md has the table of the mapping.
 */
#include "perfetto_state.h"

/* ---- instants ---- */

/* Writes an instant on a track, with all fields that are not its track or its name. */
static void instant(struct kymo_pfx *x, uint64_t track, enum kymo_pf_category category,
                    const struct kymo_event *ev)
{
    bool call = ev->id == KYMO_E_CALL;
    kymo_pf_event(&x->w, KYMO_PF_INSTANT, track, category);
    kymo_pf_name(&x->w, call ? kymo_pf_mfa(&x->w, kymo_canonical(x->r, ev->mfa)) : ev->id);
    kymo_pfx_fields(x, ev, ~(KYMO_FIELD(PROCESS) | (call ? KYMO_FIELD(FUNCTION) : 0)));
    kymo_pf_emit(&x->w, ev->ns);
    x->slices++;
}

static enum kymo_pf_category category_of(const struct kymo_event *ev)
{
    if (ev->incomplete)
        return KYMO_PF_CAT_INCOMPLETE;
    if (ev->id == KYMO_E_CALL)
        return KYMO_PF_CAT_CALL;
    if (ev->id == KYMO_E_SEQ_TRACE)
        return KYMO_PF_CAT_SEQ_TRACE;
    return KYMO_IDENT_KIND(ev->who) == KYMO_I_PORT ? KYMO_PF_CAT_PORT : KYMO_PF_CAT_PROCESS;
}

static void note(struct kymo_pfx *x, const struct kymo_event *ev)
{
    if (ev->id == KYMO_E_COUNTERS || ev->id == KYMO_E_MONITOR) {
        if (ev->id == KYMO_E_COUNTERS)
            kymo_pfx_counters(x, ev);
        else
            kymo_pfx_monitor(x, ev);
        return;
    }
    bool lost = ev->id == KYMO_E_LOST;
    uint64_t track = lost ? kymo_pfx_thread(x, ev->slot) : kymo_pfx_track_of_note(x, ev);
    kymo_pf_event(&x->w, KYMO_PF_INSTANT, track, lost ? KYMO_PF_CAT_LOSS : KYMO_PF_CAT_NOTE);
    kymo_pf_name(&x->w, lost ? KYMO_PF_N_LOST : ev->id);
    kymo_pfx_fields(x, ev, ~UINT64_C(0));
    kymo_pf_emit(&x->w, ev->ns);
    x->slices++;
}

/* Scheduling is drawn on the track of the thread. */
static bool is_of_thread(const struct kymo_event *ev)
{
    return ev->id >= KYMO_E_IN && ev->id <= KYMO_E_PORT_OUT_EXITED;
}

/* ---- before the horizon ---- */

void kymo_pfx_older(struct kymo_pfx *x, const struct kymo_event *ev, bool shown)
{
    bool end = ev->id == KYMO_E_EXIT || ev->id == KYMO_E_CLOSED;
    if (end)
        kymo_map_remove(&x->older, ev->who);
    else if (x->older.count < OLDER_MAX && ev->id < KYMO_E_FIRST_NOTE)
        (void)kymo_map_put(&x->older, ev->who, NULL); /* if there is no memory, its slice begins later */
    if (!shown)
        return;
    x->now = ev->ns;
    if (ev->id >= KYMO_E_FIRST_NOTE) {
        note(x, ev);
        return;
    }
    struct kymo_pfx_process *p = kymo_pfx_process(x, ev);
    uint64_t track = is_of_thread(ev) ? kymo_pfx_thread(x, ev->slot)
                     : p != NULL      ? kymo_pfx_track(x, p)
                                      : kymo_pfx_node_of_slot(x, ev->slot)->track;
    instant(x, track, KYMO_PF_CAT_INCOMPLETE, ev);
    if (p != NULL && end)
        kymo_pfx_exit(x, p, ev);
}

/* ---- from the horizon on ---- */

/* Keeps track of registered names, so that sends to names can be resolved. */
static void rename_process(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    uint32_t name = kymo_canonical(x->r, ev->atom);
    if (name == 0)
        return;
    if (ev->id == KYMO_E_REGISTER) {
        uint64_t *to = kymo_map_put(&x->names, name, NULL);
        if (to != NULL)
            *to = p->ident;
        p->name = KYMO_IDENT(KYMO_I_ATOM, name);
    } else {
        kymo_map_remove(&x->names, name);
        p->name = KYMO_IDENT_NONE;
    }
}

/* For calls, returns and collections: updates the stack of p, which begins and ends slices. */
static void change_stack(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    struct kymo_pfx_leaving l = {x, p, ev};
    struct kymo_facts *facts = &x->lesson.facts;
    struct kymo_frame *f = NULL;
    switch (ev->id) {
    case KYMO_E_CALL:
        f = kymo_stack_call(&p->stack, facts, kymo_canonical(x->r, ev->mfa), ev->depth, kymo_pfx_leave, &l);
        if (f == NULL) /* its end will never be known */
            instant(x, kymo_pfx_track(x, p), category_of(ev), ev);
        break;
    case KYMO_E_RETURN_TO:
        kymo_stack_return_to(&p->stack, facts, kymo_canonical(x->r, ev->mfa), ev->depth, kymo_pfx_leave, &l);
        break;
    case KYMO_E_RETURN_FROM:
    case KYMO_E_EXCEPTION_FROM:
        kymo_stack_return_from(&p->stack, facts, kymo_canonical(x->r, ev->mfa), ev->depth, kymo_pfx_leave,
                               &l);
        break;
    case KYMO_E_GC_MINOR_START:
        f = kymo_stack_gc_start(&p->stack, KYMO_FRAME_GC_MINOR, kymo_pfx_leave, &l);
        break;
    case KYMO_E_GC_MAJOR_START:
        f = kymo_stack_gc_start(&p->stack, KYMO_FRAME_GC_MAJOR, kymo_pfx_leave, &l);
        break;
    case KYMO_E_GC_MINOR_END: kymo_stack_gc_end(&p->stack, KYMO_FRAME_GC_MINOR, kymo_pfx_leave, &l); break;
    default: kymo_stack_gc_end(&p->stack, KYMO_FRAME_GC_MAJOR, kymo_pfx_leave, &l);
    }
    if (f != NULL)
        kymo_pfx_enter(x, p, f, ev);
}

static void event_of(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    bool first = !p->begun;
    kymo_pfx_begin_alive(x, p, ev);
    p->last = ev->ns > p->last ? ev->ns : p->last;
    kymo_stack_lost(&p->stack, x->loss_epoch);
    if (p->mail == MAIL_FIRST && (ev->id != KYMO_E_RECEIVE || ev->message == KYMO_MSG_TIMEOUT))
        p->mail = MAIL_KNOWN;
    switch (ev->id) {
    case KYMO_E_CALL:
    case KYMO_E_RETURN_TO:
    case KYMO_E_RETURN_FROM:
    case KYMO_E_EXCEPTION_FROM:
    case KYMO_E_GC_MINOR_START:
    case KYMO_E_GC_MINOR_END:
    case KYMO_E_GC_MAJOR_START:
    case KYMO_E_GC_MAJOR_END: change_stack(x, p, ev); break;
    case KYMO_E_SEND:
    case KYMO_E_SEND_NE: kymo_pfx_send(x, p, ev); break;
    case KYMO_E_RECEIVE: kymo_pfx_receive(x, p, ev); break;
    case KYMO_E_SLOW: kymo_pfx_slow(x, p, ev); break;
    case KYMO_E_STOPPED: kymo_pfx_stopped(x, ev); break;
    case KYMO_E_TAKEN: kymo_pfx_taken(x, p, ev); break;
    case KYMO_E_IN:
    case KYMO_E_IN_EXITING:
    case KYMO_E_PORT_IN:
    case KYMO_E_PORT_IN_EXITING: kymo_pfx_run(x, p, ev); break;
    case KYMO_E_OUT:
        kymo_pfx_stop(x, p, ev);
        if (kymo_hibernates(x->r, ev)) {
            struct kymo_pfx_leaving l = {x, p, ev};
            kymo_stack_hibernate(&p->stack, kymo_pfx_leave, &l);
        }
        break;
    case KYMO_E_OUT_EXITING:
    case KYMO_E_OUT_EXITED:
    case KYMO_E_PORT_OUT:
    case KYMO_E_PORT_OUT_EXITING:
    case KYMO_E_PORT_OUT_EXITED: kymo_pfx_stop(x, p, ev); break;
    case KYMO_E_EXIT:
    case KYMO_E_CLOSED: kymo_pfx_exit(x, p, ev); break;
    case KYMO_E_SPAWNED:
    case KYMO_E_OPEN:
        if (!first) /* else its slice shows it */
            instant(x, kymo_pfx_track(x, p), category_of(ev), ev);
        break;
    case KYMO_E_REGISTER:
    case KYMO_E_UNREGISTER:
        rename_process(x, p, ev);
        instant(x, kymo_pfx_track(x, p), category_of(ev), ev);
        break;
    default: instant(x, kymo_pfx_track(x, p), category_of(ev), ev);
    }
}

static void set_now(struct kymo_pfx *x, int64_t ns)
{
    x->now = ns;
    x->newest = ns > x->newest ? ns : x->newest;
}

void kymo_pfx_event(struct kymo_pfx *x, const struct kymo_event *ev)
{
    set_now(x, ev->ns);
    if (x->left_out)
        kymo_pfx_shed(x);
    unsigned breaks = kymo_breaks_passed(&x->breaks, ev->ns);
    x->broken += (breaks & KYMO_BREAK_CALLS) != 0;
    if (x->loss_epoch != kymo_reader_loss_epoch(x->r) + x->broken) {
        x->loss_epoch = kymo_reader_loss_epoch(x->r) + x->broken;
        kymo_flows_lost(&x->flows);
    } else if ((breaks & KYMO_BREAK_MESSAGES) != 0) {
        kymo_flows_lost(&x->flows);
    }
    kymo_pfx_expire(x, ev->ns);
    if (ev->id >= KYMO_E_FIRST_NOTE) {
        note(x, ev);
        return;
    }
    struct kymo_pfx_process *p = kymo_pfx_process(x, ev);
    if (p == NULL) {
        instant(x, kymo_pfx_node_of_slot(x, ev->slot)->track, category_of(ev), ev);
    } else if (ev->ns >= p->last || is_of_thread(ev)) {
        event_of(x, p, ev);
    } else { /* from a thread whose clock has jumped */
        struct kymo_event later = *ev;
        later.ns = p->last;
        event_of(x, p, &later);
    }
    kymo_flows_event(&x->flows, ev);
}
