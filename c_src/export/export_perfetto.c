/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps a recording to Perfetto's tracks, slices, instants and flows. The table
 * of what becomes what is in doc/exports.md.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "etf_tags.h"
#include "export_perfetto.h"

/* ---- tracks ---- */

static uint64_t thread_track(struct kymo_pfx *x, uint32_t slot)
{
    static const char *const kinds[] = {"thread", "scheduler", "dirty cpu scheduler", "dirty io scheduler"};
    uint32_t n;
    const struct kymo_slot *slots = kymo_reader_slots(x->r, &n);
    uint64_t track = (uint64_t)TRACK_THREAD_BASE + slot;
    if (!x->threads_described) {
        x->threads_described = true;
        kymo_pf_track(&x->w, TRACK_THREADS, TRACK_NODE, "schedulers", 10);
    }
    if (slot >= n || slot >= x->n_threads)
        return TRACK_THREADS;
    if (!x->threads[slot].described) {
        char name[96];
        const struct kymo_slot *s = &slots[slot];
        const char *kind = kinds[s->thread_kind <= KYMO_T_DIRTY_IO ? s->thread_kind : 0];
        int len = s->thread_no != 0
                      ? snprintf(name, sizeof name, "%s %u", kind, s->thread_no)
                      : snprintf(name, sizeof name, "%s %.16s (slot %u)", kind, s->thread_name, slot);
        kymo_pf_track(&x->w, track, TRACK_THREADS, name, (size_t)len);
        x->threads[slot].described = true;
    }
    return track;
}

static enum kymo_pf_category category_of(uint64_t ident)
{
    return KYMO_IDENT_KIND(ident) == KYMO_I_PORT ? KYMO_PF_CAT_PORT : KYMO_PF_CAT_PROCESS;
}

static void add_arguments(struct kymo_pfx *x, const struct kymo_event *ev)
{
    if (ev->has_content)
        kymo_pf_arguments(&x->w, ev->mfa, ev->content, ev->content_len,
                          (ev->content_flags & KYMO_C_CUT) != 0);
}

/* Opens the slice that spans the life of a process. `since` says from when on
 * when it is not its birth. */
static void begin_alive(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    kymo_pf_event(&x->w, KYMO_PF_BEGIN, p->track, category_of(p->ident));
    kymo_pf_name(&x->w, KYMO_PF_N_ALIVE);
    if (ev->id == KYMO_E_SPAWNED || ev->id == KYMO_E_OPEN) {
        kymo_pf_ident(&x->w, KYMO_PF_K_FROM, ev->peer);
        kymo_pf_dict(&x->w, KYMO_PF_K_CALLED, ev->mfa);
        kymo_pf_dict(&x->w, KYMO_PF_K_DRIVER, ev->atom);
    } else {
        kymo_pf_text(&x->w, KYMO_PF_K_SINCE, "before its first event in the recording");
    }
    if (ev->id == KYMO_E_SPAWNED)
        add_arguments(x, ev);
    kymo_pf_emit(&x->w, ev->ns);
    p->alive = true;
    x->slices++;
}

static void on_leave(void *arg, const struct kymo_frame *f, enum kymo_leave why);
static void end_alive(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev,
                      const char *why);

static void forget(struct kymo_pfx *x, struct kymo_pfx_process *p)
{
    /* Even after its exit it may have called something. */
    x->last = p;
    kymo_stack_clear(&p->stack, on_leave, x);
    x->last = NULL;
    kymo_residents_remove(&x->residents, p->place);
    kymo_map_remove(&x->processes, p->ident);
    free(p);
}

/* Frees a process, whether the graveyard holds it or not. */
static void bury(struct kymo_pfx *x, struct kymo_pfx_process *p)
{
    for (uint32_t i = 0; i < DEAD_MAX; i++) {
        if (x->dead[i] == p)
            x->dead[i] = NULL;
    }
    forget(x, p);
}

/* Nothing was heard of it for long, and its place is taken. */
static void evict(struct kymo_pfx *x, uint64_t ident, uint32_t place)
{
    struct kymo_pfx_process **p = kymo_map_get(&x->processes, ident);
    if (p == NULL || (*p)->place != place)
        return;
    end_alive(x, *p, NULL, "nothing heard of it");
    uint64_t taken = x->residents.ident[place];
    bury(x, *p);
    x->residents.ident[place] = taken;
}

/* The process or port that an event is about; NULL when it is about something
 * else (seq_trace from a name) or there is no memory. */
static struct kymo_pfx_process *process_of(struct kymo_pfx *x, const struct kymo_event *ev)
{
    bool born = ev->id == KYMO_E_SPAWNED || ev->id == KYMO_E_OPEN;
    if (x->last != NULL && x->last->ident == ev->who && !(born && x->last->dead))
        return x->last;
    if (KYMO_IDENT_KIND(ev->who) != KYMO_I_PID && KYMO_IDENT_KIND(ev->who) != KYMO_I_PORT)
        return NULL;
    struct kymo_pfx_process **known = kymo_map_get(&x->processes, ev->who);
    if (known != NULL && !(born && (*known)->dead))
        return x->last = *known;
    if (known != NULL)
        bury(x, *known); /* the pid came round again */
    struct kymo_pfx_process *p = calloc(1, sizeof *p);
    struct kymo_pfx_process **slot = p != NULL ? kymo_map_put(&x->processes, ev->who, NULL) : NULL;
    if (slot == NULL) {
        free(p);
        x->w.out.error = x->w.out.error != 0 ? x->w.out.error : -ENOMEM;
        return NULL;
    }
    x->fresh = true;
    *slot = p;
    uint64_t evicted;
    p->place = kymo_residents_add(&x->residents, ev->who, &evicted);
    if (evicted != KYMO_IDENT_NONE)
        evict(x, evicted, p->place);
    p->ident = ev->who;
    p->track = x->next_track++;
    p->name = KYMO_IDENT_NONE;
    char label[512];
    p->spawned = ev->id == KYMO_E_SPAWNED ? ev->mfa : 0;
    size_t len = kymo_label(x->r, p->ident, p->spawned, label, sizeof label);
    kymo_pf_track(&x->w, p->track, TRACK_NODE, label, len);
    uint32_t name, mfa;
    if (kymo_reader_process(x->r, p->ident, &name, &mfa) && name != 0) {
        name = kymo_canonical(x->r, name);
        p->name = KYMO_IDENT(KYMO_I_ATOM, name);
        bool added;
        uint64_t *to = kymo_map_put(&x->names, name, &added);
        if (to != NULL && added)
            *to = p->ident;
    }
    begin_alive(x, p, ev);
    return x->last = p;
}

/* ---- slices of calls and collections ---- */

void kymo_pfx_content(struct kymo_pfx *x, unsigned key, const struct kymo_event *ev)
{
    if (ev->has_content)
        kymo_pf_term(&x->w, key, ev->content, ev->content_len, (ev->content_flags & KYMO_C_CUT) != 0);
}

void kymo_pfx_options(struct kymo_pfx *x, const struct kymo_event *ev)
{
    if (!ev->has_opts)
        return;
    if ((ev->opt_flags & KYMO_O_MSR) != 0)
        kymo_pf_term(&x->w, KYMO_PF_K_RESULT, ev->msr, ev->msr_len, (ev->opt_flags & KYMO_O_MSR_CUT) != 0);
    if ((ev->opt_flags & KYMO_O_SCHED) != 0)
        kymo_pf_uint(&x->w, KYMO_PF_K_SCHEDULER, ev->opt_sched);
}

static void add_gc_sizes(struct kymo_pfx *x, const struct kymo_event *ev)
{
    for (unsigned i = 0; i < ev->n_gc && i < KYMO_GC_SIZES; i++)
        kymo_pf_uint(&x->w, KYMO_PF_K_GC + i, ev->gc[i]);
}

static void on_leave(void *arg, const struct kymo_frame *f, enum kymo_leave why)
{
    static const char *const ended[] = {NULL, NULL, "tail call", "not recorded", "with its process"};
    struct kymo_pfx *x = arg;
    if (f->depth >= DEPTH_MAX)
        return;
    kymo_pf_event(&x->w, KYMO_PF_END, x->last->track, KYMO_PF_CAT_NONE);
    if (ended[why] != NULL)
        kymo_pf_text(&x->w, KYMO_PF_K_ENDED, ended[why]);
    if (f->user != x->losses)
        kymo_pf_text(&x->w, KYMO_PF_K_LOST, "yes");
    const struct kymo_event *ev = x->cause;
    if (why == KYMO_LEAVE_RETURN && ev != NULL) {
        if (ev->id == KYMO_E_EXCEPTION_FROM)
            kymo_pf_dict(&x->w, KYMO_PF_K_CLASS, ev->atom);
        kymo_pfx_content(x, KYMO_PF_K_VALUE, ev);
        add_gc_sizes(x, ev);
    }
    kymo_pf_emit(&x->w, x->now);
}

static void open_frame(struct kymo_pfx *x, struct kymo_pfx_process *p, struct kymo_frame *f,
                       const struct kymo_event *ev)
{
    if (f->depth >= DEPTH_MAX)
        return;
    f->user = x->losses;
    bool gc = f->kind >= KYMO_FRAME_GC_MINOR;
    kymo_pf_event(&x->w, KYMO_PF_BEGIN, p->track, gc ? KYMO_PF_CAT_GC : KYMO_PF_CAT_CALL);
    if (gc) {
        kymo_pf_name(&x->w, f->kind == KYMO_FRAME_GC_MINOR ? KYMO_PF_N_GC_MINOR : KYMO_PF_N_GC_MAJOR);
        add_gc_sizes(x, ev);
    } else {
        kymo_pf_name(&x->w, kymo_pf_mfa(&x->w, f->mfa));
        add_arguments(x, ev);
    }
    kymo_pfx_options(x, ev);
    kymo_pf_emit(&x->w, ev->ns);
    x->slices++;
}

static void on_call(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    uint32_t mfa = kymo_canonical(x->r, ev->mfa);
    struct kymo_frame *f = kymo_stack_call(&p->stack, &x->lesson.facts, mfa, on_leave, x);
    if (f != NULL) {
        open_frame(x, p, f, ev);
        return;
    }
    kymo_pf_event(&x->w, KYMO_PF_INSTANT, p->track, KYMO_PF_CAT_CALL);
    kymo_pf_name(&x->w, kymo_pf_mfa(&x->w, mfa));
    add_arguments(x, ev);
    kymo_pfx_options(x, ev);
    kymo_pf_emit(&x->w, ev->ns);
    x->slices++;
}

static void on_gc(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    bool minor = ev->id == KYMO_E_GC_MINOR_START || ev->id == KYMO_E_GC_MINOR_END;
    uint8_t kind = minor ? KYMO_FRAME_GC_MINOR : KYMO_FRAME_GC_MAJOR;
    if (ev->id == KYMO_E_GC_MINOR_START || ev->id == KYMO_E_GC_MAJOR_START) {
        struct kymo_frame *f = kymo_stack_gc_start(&p->stack, kind, on_leave, x);
        if (f != NULL)
            open_frame(x, p, f, ev);
    } else {
        kymo_stack_gc_end(&p->stack, kind, on_leave, x);
    }
}

/* ---- life ---- */

/* `why`: when there is no event that says it. */
static void end_alive(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev,
                      const char *why)
{
    x->last = p;
    kymo_stack_clear(&p->stack, on_leave, x);
    if (!p->alive)
        return;
    p->alive = false;
    kymo_pf_event(&x->w, KYMO_PF_END, p->track, KYMO_PF_CAT_NONE);
    if (ev == NULL) {
        kymo_pf_text(&x->w, KYMO_PF_K_ENDED, why);
    } else if (ev->has_content) {
        kymo_pfx_content(x, KYMO_PF_K_REASON, ev);
    } else {
        kymo_pf_dict(&x->w, KYMO_PF_K_REASON, ev->atom);
    }
    kymo_pf_emit(&x->w, x->now);
}

static void on_exit_event(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    if (p->dead)
        return;
    end_alive(x, p, ev, NULL);
    kymo_flows_exit(&x->flows, p->ident);
    p->dead = true;
    struct kymo_pfx_process **grave = &x->dead[x->dead_next++ & (DEAD_MAX - 1)];
    if (*grave != NULL)
        forget(x, *grave);
    *grave = p;
    x->last = NULL;
}

/* ---- schedulers ---- */

static void end_running(struct kymo_pfx *x, uint32_t slot, const struct kymo_event *ev)
{
    struct kymo_pfx_thread *t = &x->threads[slot];
    if (t->running == KYMO_IDENT_NONE)
        return;
    t->running = KYMO_IDENT_NONE;
    kymo_pf_event(&x->w, KYMO_PF_END, thread_track(x, slot), KYMO_PF_CAT_NONE);
    if (ev == NULL) {
        kymo_pf_text(&x->w, KYMO_PF_K_ENDED, "not recorded");
    } else {
        if (ev->id == KYMO_E_OUT_EXITED || ev->id == KYMO_E_PORT_OUT_EXITED)
            kymo_pf_text(&x->w, KYMO_PF_K_ENDED, "exited");
        kymo_pf_dict(&x->w, KYMO_PF_K_AT, ev->mfa != 0 ? ev->mfa : ev->atom);
    }
    kymo_pf_emit(&x->w, x->now);
}

static void on_in(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    if (ev->slot >= x->n_threads)
        return;
    end_running(x, ev->slot, NULL);
    uint64_t track = thread_track(x, ev->slot);
    x->threads[ev->slot].running = p->ident;
    kymo_pf_event(&x->w, KYMO_PF_BEGIN, track, KYMO_PF_CAT_RUNNING);
    if (p->name_iid == 0) {
        char label[512];
        size_t len = kymo_label(x->r, p->ident, p->spawned, label, sizeof label);
        p->name_iid = kymo_pf_new_name(&x->w, label, len);
    }
    kymo_pf_name(&x->w, p->name_iid);
    kymo_pf_dict(&x->w, KYMO_PF_K_AT, ev->mfa != 0 ? ev->mfa : ev->atom);
    if (ev->id == KYMO_E_IN_EXITING || ev->id == KYMO_E_PORT_IN_EXITING)
        kymo_pf_text(&x->w, KYMO_PF_K_STATE, "exiting");
    kymo_pfx_options(x, ev);
    kymo_pf_emit(&x->w, ev->ns);
    x->slices++;
}

static void on_out(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    if (ev->slot < x->n_threads && x->threads[ev->slot].running == p->ident)
        end_running(x, ev->slot, ev);
}

/* ---- the rest ---- */

static void on_name(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
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

/* [Term | Extra] is what a tag that this program does not know had. */
static void add_term(struct kymo_pfx *x, const struct kymo_event *ev)
{
    size_t head;
    if (ev->id != KYMO_E_OTHER || !ev->has_content || !kymo_term_cell(ev->content, ev->content_len, &head)) {
        kymo_pfx_content(x, KYMO_PF_K_TERM, ev);
        return;
    }
    const uint8_t *p = ev->content + KYMO_CELL_HEAD;
    uint32_t rest = ev->content_len - KYMO_CELL_HEAD - (uint32_t)head;
    bool was_cut = (ev->content_flags & KYMO_C_CUT) != 0;
    kymo_pf_term(&x->w, KYMO_PF_K_TERM, p, (uint32_t)head, was_cut);
    if (p[head] != T_NIL)
        kymo_pf_term(&x->w, KYMO_PF_K_EXTRA, p + head, rest, was_cut);
}

/* Everything that is a moment on its process: fields by their letters. */
static void instant(struct kymo_pfx *x, uint64_t track, const struct kymo_event *ev)
{
    bool seq = ev->id == KYMO_E_SEQ_TRACE;
    bool port = KYMO_IDENT_KIND(ev->who) == KYMO_I_PORT;
    kymo_pf_event(&x->w, KYMO_PF_INSTANT, track,
                  seq    ? KYMO_PF_CAT_SEQ_TRACE
                  : port ? KYMO_PF_CAT_PORT
                         : KYMO_PF_CAT_PROCESS);
    kymo_pf_name(&x->w, ev->id);
    if (ev->peer != KYMO_IDENT_NONE)
        kymo_pf_ident(&x->w, KYMO_PF_K_PEER, ev->peer);
    kymo_pf_dict(&x->w, ev->id == KYMO_E_SPAWN ? KYMO_PF_K_CALLED : KYMO_PF_K_AT, ev->mfa);
    bool names = ev->id == KYMO_E_REGISTER || ev->id == KYMO_E_UNREGISTER;
    kymo_pf_dict(&x->w,
                 names                    ? KYMO_PF_K_NAME
                 : ev->id == KYMO_E_OTHER ? KYMO_PF_K_TAG
                                          : KYMO_PF_K_REASON,
                 ev->atom);
    if (seq) {
        static const char *const kinds[] = {"?", "send", "receive", "print", "other"};
        unsigned kind = ev->kind & 0x7fu;
        kymo_pf_text(&x->w, KYMO_PF_K_KIND, kinds[kind <= KYMO_SEQ_OTHER ? kind : 0]);
        kymo_pf_uint(&x->w, KYMO_PF_K_LABEL, ev->value);
        char serial[32];
        int len = snprintf(serial, sizeof serial, "%u -> %u", ev->serial_prev, ev->serial_cur);
        kymo_pf_string(&x->w, KYMO_PF_K_SERIAL, serial, (size_t)len);
    }
    if (ev->id == KYMO_E_SPAWN)
        add_arguments(x, ev);
    else
        add_term(x, ev);
    kymo_pfx_options(x, ev);
    kymo_pf_emit(&x->w, ev->ns);
    x->slices++;
}

static void on_note(struct kymo_pfx *x, const struct kymo_event *ev)
{
    if (ev->id == KYMO_E_LOST) {
        x->losses++;
        kymo_flows_lost(&x->flows);
        uint64_t track = thread_track(x, ev->slot);
        kymo_pf_event(&x->w, KYMO_PF_INSTANT, track, KYMO_PF_CAT_LOSS);
        kymo_pf_name(&x->w, KYMO_PF_N_LOST);
        kymo_pf_uint(&x->w, KYMO_PF_K_COUNT, ev->value);
        kymo_pf_text(&x->w, KYMO_PF_K_CAUSE, kymo_loss_name(ev->kind));
    } else {
        kymo_pf_event(&x->w, KYMO_PF_INSTANT, TRACK_NODE, KYMO_PF_CAT_NOTE);
        kymo_pf_name(&x->w, ev->id);
        if (ev->id == KYMO_E_STATE)
            kymo_pf_text(&x->w, KYMO_PF_K_STATE, kymo_state_name(ev->kind));
    }
    kymo_pf_emit(&x->w, ev->ns);
    x->slices++;
}

static void on_event(struct kymo_pfx *x, const struct kymo_event *ev)
{
    x->now = ev->ns;
    x->cause = ev;
    if (x->held_first != x->held_next)
        kymo_pfx_expire(x, ev->ns);
    if (ev->id >= KYMO_E_FIRST_NOTE) {
        on_note(x, ev);
        return;
    }
    x->fresh = false;
    struct kymo_pfx_process *p = process_of(x, ev);
    if (p != NULL)
        kymo_residents_heard(&x->residents, p->place);
    if (p != NULL && p->losses != x->losses) {
        kymo_stack_lost(&p->stack);
        p->losses = x->losses;
    }
    if (p == NULL) {
        instant(x, TRACK_NODE, ev);
        return;
    }
    switch (ev->id) {
    case KYMO_E_CALL: on_call(x, p, ev); break;
    case KYMO_E_RETURN_TO:
        kymo_stack_return_to(&p->stack, &x->lesson.facts, kymo_canonical(x->r, ev->mfa), on_leave, x);
        break;
    case KYMO_E_RETURN_FROM:
    case KYMO_E_EXCEPTION_FROM:
        kymo_stack_return_from(&p->stack, &x->lesson.facts, kymo_canonical(x->r, ev->mfa), on_leave, x);
        break;
    case KYMO_E_SEND:
    case KYMO_E_SEND_NE: kymo_pfx_send(x, p, ev); break;
    case KYMO_E_RECEIVE: kymo_pfx_receive(x, p, ev); break;
    case KYMO_E_SPAWNED:
    case KYMO_E_OPEN:
        /* When it is the first word of the process its slice says it. */
        if (!x->fresh)
            instant(x, p->track, ev);
        break;
    case KYMO_E_EXIT:
    case KYMO_E_CLOSED: on_exit_event(x, p, ev); break;
    case KYMO_E_IN:
    case KYMO_E_IN_EXITING:
    case KYMO_E_PORT_IN:
    case KYMO_E_PORT_IN_EXITING: on_in(x, p, ev); break;
    case KYMO_E_OUT:
    case KYMO_E_OUT_EXITING:
    case KYMO_E_OUT_EXITED:
    case KYMO_E_PORT_OUT:
    case KYMO_E_PORT_OUT_EXITING:
    case KYMO_E_PORT_OUT_EXITED: on_out(x, p, ev); break;
    case KYMO_E_GC_MINOR_START:
    case KYMO_E_GC_MINOR_END:
    case KYMO_E_GC_MAJOR_START:
    case KYMO_E_GC_MAJOR_END: on_gc(x, p, ev); break;
    case KYMO_E_REGISTER:
    case KYMO_E_UNREGISTER:
        on_name(x, p, ev);
        instant(x, p->track, ev);
        break;
    default: instant(x, p->track, ev); break;
    }
}

/* Ends what is open at the time of the last event. */
static void end_all(struct kymo_pfx *x)
{
    x->cause = NULL;
    kymo_pfx_expire(x, INT64_MAX);
    for (uint32_t i = 0; i < x->n_threads; i++)
        end_running(x, i, NULL);
    size_t it = 0;
    for (struct kymo_pfx_process **p; (p = kymo_map_next(&x->processes, &it, NULL)) != NULL;)
        end_alive(x, *p, NULL, "end of the recording");
}

static int run(struct kymo_pfx *x, struct kymo_feed *feed, const char *path, char *err, size_t err_size)
{
    struct kymo_event ev;
    int rc = kymo_feed_next(feed, &ev);
    int64_t start = rc == 1 ? ev.ns : kymo_reader_meta(x->r)->t0_mono_ns;
    if (rc < 0)
        return kymo_feed_error(rc, err, err_size);
    int opened = kymo_pf_open(&x->w, x->r, path, start, err, err_size);
    if (opened != 0)
        return opened;
    x->now = start;
    const struct kymo_meta *meta = kymo_reader_meta(x->r);
    uint32_t n = meta->node_len < sizeof meta->node ? meta->node_len : (uint32_t)sizeof meta->node;
    kymo_pf_track(&x->w, TRACK_NODE, 0, n > 0 ? (const char *)meta->node : "Erlang node", n > 0 ? n : 11);
    for (; rc == 1 && x->w.out.error == 0; rc = kymo_feed_next(feed, &ev))
        on_event(x, &ev);
    if (rc < 0)
        return kymo_feed_error(rc, err, err_size);
    end_all(x);
    feed->res->written = x->slices;
    feed->res->bytes = kymo_out_bytes(&x->w.out);
    return kymo_pf_finish(&x->w, err, err_size);
}

int kymo_export_perfetto(struct kymo_reader *r, const struct kymo_export_options *o,
                         struct kymo_export_result *res, char *err, size_t err_size)
{
    struct kymo_feed feed;
    int rc = kymo_feed_start(&feed, r, o, res, err, err_size);
    if (rc != 0)
        return rc;
    struct kymo_pfx *x = calloc(1, sizeof *x);
    if (x == NULL) {
        snprintf(err, err_size, "not enough memory");
        return -ENOMEM;
    }
    x->r = r;
    x->w.out.fd = -1;
    x->next_track = TRACK_PROCESS_BASE;
    kymo_map_init(&x->processes, sizeof(struct kymo_pfx_process *));
    kymo_map_init(&x->names, sizeof(uint64_t));
    kymo_reader_slots(r, &x->n_threads);
    x->threads = calloc(x->n_threads + 1, sizeof *x->threads);
    if (x->threads == NULL || kymo_flows_init(&x->flows) != 0 || kymo_residents_init(&x->residents) != 0) {
        snprintf(err, err_size, "not enough memory");
        rc = -ENOMEM;
    } else {
        for (uint32_t i = 0; i < x->n_threads; i++)
            x->threads[i].running = KYMO_IDENT_NONE;
        rc = kymo_feed_lesson(&feed, &x->lesson, err, err_size);
        if (rc == 0)
            rc = run(x, &feed, o->out, err, err_size);
    }
    size_t it = 0;
    for (struct kymo_pfx_process **p; (p = kymo_map_next(&x->processes, &it, NULL)) != NULL;) {
        kymo_stack_free(&(*p)->stack);
        free(*p);
    }
    kymo_map_free(&x->processes);
    kymo_map_free(&x->names);
    for (uint32_t i = 0; i < HELD_MAX; i++)
        kymo_pb_free(&x->held[i].event);
    kymo_flows_free(&x->flows);
    kymo_residents_free(&x->residents);
    kymo_facts_free(&x->lesson.facts);
    kymo_pf_free(&x->w);
    free(x->threads);
    free(x);
    return rc;
}
