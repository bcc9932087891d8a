/* SPDX-License-Identifier: Apache-2.0
 *
 * Tracks of threads and processes, and the slices that are open on them: running processes, lives
 * of processes, calls and collections.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "kymo_timeline.h"
#include "perfetto_state.h"

void kymo_pfx_peer(struct kymo_pfx *x, unsigned key, uint64_t ident)
{
    struct kymo_pfx_process **p = kymo_map_get(&x->processes, ident);
    if (p == NULL) {
        kymo_pf_ident(&x->w, key, ident);
        return;
    }
    if ((*p)->string_iid == 0) {
        char label[512];
        size_t len = kymo_name_process(x->naming, ident, label, sizeof label);
        (*p)->string_iid = kymo_pf_new_string(&x->w, label, len);
    }
    kymo_pf_string_iid(&x->w, key, (*p)->string_iid);
}

/* ---- threads ---- */

struct kymo_pfx_node *kymo_pfx_node(const struct kymo_pfx *x, uint64_t ident)
{
    return &x->nodes[kymo_timeline_of(x->r, ident)];
}

struct kymo_pfx_node *kymo_pfx_node_of_slot(const struct kymo_pfx *x, uint32_t slot)
{
    return &x->nodes[kymo_timeline_of_slot(x->r, slot)];
}

uint64_t kymo_pfx_thread(struct kymo_pfx *x, uint32_t slot)
{
    static const char *const kinds[] = {"thread", "scheduler", "dirty cpu scheduler", "dirty io scheduler"};
    uint32_t n;
    const struct kymo_slot *slots = kymo_reader_slots(x->r, &n);
    uint64_t track = (uint64_t)TRACK_THREAD_BASE + slot;
    const struct kymo_pfx_node *node = kymo_pfx_node_of_slot(x, slot);
    if (slot >= n || slot >= x->n_threads)
        return node->track;
    if (!x->threads[slot].described) {
        char name[96];
        const struct kymo_slot *s = &slots[slot];
        const char *kind = kinds[s->thread_kind <= KYMO_T_DIRTY_IO ? s->thread_kind : 0];
        int len = s->thread_no != 0
                      ? snprintf(name, sizeof name, "%s %u", kind, s->thread_no)
                      : snprintf(name, sizeof name, "%s %.16s (slot %u)", kind, s->thread_name, slot);
        kymo_pf_thread(&x->w, track, node->track, node->pid, name, (size_t)len);
        x->threads[slot].described = true;
    }
    return track;
}

uint64_t kymo_pfx_track(struct kymo_pfx *x, struct kymo_pfx_process *p)
{
    if (p->described)
        return p->track;
    char label[512];
    size_t len = kymo_name_process(x->naming, p->ident, label, sizeof label);
    const struct kymo_pfx_node *node = kymo_pfx_node(x, p->ident);
    if (KYMO_IDENT_KIND(p->ident) == KYMO_I_PID)
        kymo_pf_thread(&x->w, p->track, node->track, node->pid, label, len);
    else
        kymo_pf_track(&x->w, p->track, node->track, label, len);
    p->described = true;
    return p->track;
}

/* Writes the number of running processes from now on. */
static void count_running(struct kymo_pfx *x, struct kymo_pfx_node *node, int64_t ns)
{
    if (!node->running_described)
        kymo_pf_counter_track(&x->w, node->running_track, node->track, "running", KYMO_PF_COUNT);
    node->running_described = true;
    kymo_pf_counter(&x->w, node->running_track, node->n_running, ns);
}

/* ---- events shed by a budget ---- */

static void begin_shed(struct kymo_pfx *x, struct kymo_pfx_node *node)
{
    static const char name[] = "left out to keep the budget";
    char text[1024];
    if (kymo_shed_walk_text(&node->shed, text, sizeof text) == 0)
        return;
    if (node->shed_track == 0) {
        node->shed_track = x->next_track++;
        kymo_pf_track(&x->w, node->shed_track, node->track, name, sizeof name - 1);
    }
    kymo_pf_event(&x->w, KYMO_PF_BEGIN, node->shed_track, KYMO_PF_CAT_SHED);
    kymo_pf_name(&x->w, KYMO_PF_N_SHED);
    kymo_pf_text(&x->w, KYMO_PF_K_LEFT_OUT, text);
    kymo_pf_emit(&x->w, node->shed_span.from > x->first ? node->shed_span.from : x->first);
    node->shed_open = true;
    x->slices++;
}

static void end_shed(struct kymo_pfx *x, struct kymo_pfx_node *node, int64_t ns)
{
    if (node->shed_open) {
        kymo_pf_event(&x->w, KYMO_PF_END, node->shed_track, KYMO_PF_CAT_NONE);
        kymo_pf_emit(&x->w, ns);
    }
    node->shed_open = false;
}

void kymo_pfx_shed(struct kymo_pfx *x)
{
    for (uint32_t i = 0; i < x->n_nodes; i++) {
        struct kymo_pfx_node *node = &x->nodes[i];
        while (node->shed_has && node->shed_span.from <= x->now) {
            if (!node->shed_open && node->shed_span.to > x->first)
                begin_shed(x, node);
            if (node->shed_span.to > x->now)
                break;
            end_shed(x, node, node->shed_span.to);
            node->shed_has = kymo_shed_walk_next(&node->shed, &node->shed_span);
        }
    }
}

void kymo_pfx_shed_end(struct kymo_pfx *x)
{
    for (uint32_t i = 0; i < x->n_nodes; i++)
        end_shed(x, &x->nodes[i], x->newest);
}

/* ---- scheduling ---- */

/* Ends the slice of the running process, if any; returns whether there was one. ev is its `out`
 * event, or NULL if it is unknown when it stopped. */
static bool end_running(struct kymo_pfx *x, uint32_t slot, const struct kymo_event *ev)
{
    struct kymo_pfx_thread *t = &x->threads[slot];
    if (t->running == KYMO_IDENT_NONE)
        return false;
    t->running = KYMO_IDENT_NONE;
    kymo_pfx_node_of_slot(x, slot)->n_running--;
    kymo_pf_event(&x->w, KYMO_PF_END, kymo_pfx_thread(x, slot), KYMO_PF_CAT_NONE);
    if (ev == NULL) {
        kymo_pf_text(&x->w, KYMO_PF_K_ENDED, "not recorded");
    } else {
        if (ev->id == KYMO_E_OUT_EXITED || ev->id == KYMO_E_PORT_OUT_EXITED)
            kymo_pf_text(&x->w, KYMO_PF_K_ENDED, "exited");
        kymo_pfx_fields(x, ev, KYMO_FIELD(FUNCTION) | KYMO_FIELD(ATOM) | KYMO_FIELD(OUT_REASON));
    }
    kymo_pf_emit(&x->w, x->now);
    return true;
}

void kymo_pfx_run(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    if (ev->slot >= x->n_threads)
        return;
    (void)end_running(x, ev->slot, NULL);
    uint64_t track = kymo_pfx_thread(x, ev->slot);
    x->threads[ev->slot].running = p->ident;
    kymo_pfx_node_of_slot(x, ev->slot)->n_running++;
    kymo_pf_event(&x->w, KYMO_PF_BEGIN, track, KYMO_PF_CAT_RUNNING);
    if (p->name_iid == 0) {
        char label[512];
        size_t len = kymo_name_process(x->naming, p->ident, label, sizeof label);
        p->name_iid = kymo_pf_new_name(&x->w, label, len);
    }
    kymo_pf_name(&x->w, p->name_iid);
    if (ev->id == KYMO_E_IN_EXITING || ev->id == KYMO_E_PORT_IN_EXITING)
        kymo_pf_text(&x->w, KYMO_PF_K_STATE, "exiting");
    kymo_pfx_fields(x, ev,
                    KYMO_FIELD(FUNCTION) | KYMO_FIELD(ATOM) | KYMO_FIELD(RUNNABLE_BY) | KYMO_FIELD(WAITED) |
                        KYMO_PFX_OPTIONS);
    kymo_pf_emit(&x->w, ev->ns);
    x->slices++;
    count_running(x, kymo_pfx_node_of_slot(x, ev->slot), ev->ns);
}

void kymo_pfx_stop(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    if (ev->slot >= x->n_threads || x->threads[ev->slot].running != p->ident)
        return;
    (void)end_running(x, ev->slot, ev);
    count_running(x, kymo_pfx_node_of_slot(x, ev->slot), x->now);
}

/* ---- slices of calls and collections ---- */

/* The heap after a collection, old heap included; ev is its end. */
static void count_heap(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev,
                       int64_t ns)
{
    enum { WORD_BYTES = 8 };
    if (p->heap_track == 0) {
        p->heap_track = x->next_track++;
        kymo_pf_counter_track(&x->w, p->heap_track, kymo_pfx_track(x, p), "heap after gc", KYMO_PF_BYTES);
    }
    kymo_pf_counter(&x->w, p->heap_track,
                    (ev->gc[KYMO_GC_heap_size] + ev->gc[KYMO_GC_old_heap_size]) * WORD_BYTES, ns);
}

/* The time at which the open slices of p end: now, but not before its newest event. */
static int64_t now_of(const struct kymo_pfx *x, const struct kymo_pfx_process *p)
{
    return x->now > p->last ? x->now : p->last;
}

void kymo_pfx_leave(void *leaving, const struct kymo_frame *f, enum kymo_leave why)
{
    static const char *const ended[] = {
        NULL, NULL, "tail call", "not recorded", "hibernation", "with its process", "tail call"};
    const struct kymo_pfx_leaving *l = leaving;
    struct kymo_pfx *x = l->x;
    if (f->depth >= DEPTH_MAX)
        return;
    kymo_pf_event(&x->w, KYMO_PF_END, kymo_pfx_track(x, l->p), KYMO_PF_CAT_NONE);
    if (ended[why] != NULL)
        kymo_pf_text(&x->w, KYMO_PF_K_ENDED, ended[why]);
    if (f->user != x->loss_epoch)
        kymo_pf_text(&x->w, KYMO_PF_K_LOST, "yes");
    if (why == KYMO_LEAVE_RETURN && l->cause != NULL)
        kymo_pfx_fields(x, l->cause, KYMO_FIELD(ATOM) | KYMO_FIELD(GC) | KYMO_FIELD(CONTENT));
    kymo_pf_emit(&x->w, now_of(x, l->p));
    if (f->kind >= KYMO_FRAME_GC_MINOR && why == KYMO_LEAVE_RETURN && l->cause != NULL &&
        l->cause->n_gc >= KYMO_GC_SIZES)
        count_heap(x, l->p, l->cause, now_of(x, l->p));
}

void kymo_pfx_enter(struct kymo_pfx *x, struct kymo_pfx_process *p, struct kymo_frame *f,
                    const struct kymo_event *ev)
{
    if (f->depth >= DEPTH_MAX)
        return;
    f->user = x->loss_epoch;
    bool gc = f->kind >= KYMO_FRAME_GC_MINOR;
    kymo_pf_event(&x->w, KYMO_PF_BEGIN, kymo_pfx_track(x, p), gc ? KYMO_PF_CAT_GC : KYMO_PF_CAT_CALL);
    if (gc) {
        kymo_pf_name(&x->w, f->kind == KYMO_FRAME_GC_MINOR ? KYMO_PF_N_GC_MINOR : KYMO_PF_N_GC_MAJOR);
    } else {
        kymo_pf_name(&x->w, kymo_pf_mfa(&x->w, f->mfa));
    }
    kymo_pfx_fields(x, ev, KYMO_FIELD(GC) | KYMO_FIELD(CONTENT) | KYMO_PFX_OPTIONS);
    kymo_pf_emit(&x->w, ev->ns);
    x->slices++;
}

/* ---- lives ---- */

static bool is_birth(const struct kymo_event *ev)
{
    return ev->id == KYMO_E_SPAWNED || ev->id == KYMO_E_OPEN;
}

void kymo_pfx_begin_alive(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    if (p->begun || p->dead) /* it may have exited before the horizon */
        return;
    p->begun = p->alive = true;
    bool older = x->cut && !is_birth(ev) && kymo_map_get(&x->older, p->ident) != NULL;
    if (!x->cut || is_birth(ev))
        p->mail = MAIL_KNOWN;
    kymo_pf_event(&x->w, KYMO_PF_BEGIN, kymo_pfx_track(x, p),
                  KYMO_IDENT_KIND(p->ident) == KYMO_I_PORT ? KYMO_PF_CAT_PORT : KYMO_PF_CAT_PROCESS);
    kymo_pf_name(&x->w, KYMO_PF_N_ALIVE);
    if (is_birth(ev)) {
        kymo_pf_ident(&x->w, KYMO_PF_K_FROM, ev->peer);
        kymo_pfx_fields(
            x, ev, KYMO_FIELD(FUNCTION) | KYMO_FIELD(INITIAL_CALL) | KYMO_FIELD(ATOM) | KYMO_FIELD(CONTENT));
    } else {
        kymo_pf_text(&x->w, KYMO_PF_K_SINCE,
                     older ? "before the horizon" : "before its first event in the recording");
    }
    kymo_pf_emit(&x->w, older && x->cut_ns < ev->ns ? x->cut_ns : ev->ns);
    x->slices++;
}

/* `why` is the reason if there is no event (ev is NULL). */
static void end_alive(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev,
                      const char *why)
{
    struct kymo_pfx_leaving l = {x, p, ev};
    kymo_stack_clear(&p->stack, kymo_pfx_leave, &l);
    if (!p->alive)
        return;
    p->alive = false;
    kymo_pf_event(&x->w, KYMO_PF_END, kymo_pfx_track(x, p), KYMO_PF_CAT_NONE);
    if (ev == NULL)
        kymo_pf_text(&x->w, KYMO_PF_K_ENDED, why);
    else
        kymo_pfx_fields(x, ev, KYMO_FIELD(ATOM) | KYMO_FIELD(CONTENT));
    kymo_pf_emit(&x->w, now_of(x, p));
}

void kymo_pfx_process_free(struct kymo_pfx_process *p)
{
    kymo_stack_free(&p->stack);
    free(p->slow);
    free(p);
}

static void forget(struct kymo_pfx *x, struct kymo_pfx_process *p)
{
    /* Calls may have been recorded even after its exit. */
    struct kymo_pfx_leaving l = {x, p, NULL};
    kymo_stack_clear(&p->stack, kymo_pfx_leave, &l);
    if (x->last == p)
        x->last = NULL;
    kymo_residents_remove(&x->residents, p->place);
    kymo_map_remove(&x->processes, p->ident);
    kymo_pfx_process_free(p);
}

/* Frees a process, whether or not it is among x->dead. */
static void bury(struct kymo_pfx *x, struct kymo_pfx_process *p)
{
    for (uint32_t i = 0; i < DEAD_MAX; i++) {
        if (x->dead[i] == p)
            x->dead[i] = NULL;
    }
    forget(x, p);
}

void kymo_pfx_exit(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    if (p->dead)
        return;
    end_alive(x, p, ev, NULL);
    kymo_flows_exit(&x->flows, p->ident);
    kymo_map_remove(&x->older, p->ident);
    p->dead = true;
    struct kymo_pfx_process **grave = &x->dead[x->dead_next++ & (DEAD_MAX - 1)];
    if (*grave != NULL)
        forget(x, *grave);
    *grave = p;
}

/* Drops a process without recent events, because its place is needed. */
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

/* Sets its name, as far as it is known so far. */
static void name_process(struct kymo_pfx *x, struct kymo_pfx_process *p)
{
    uint32_t name, mfa;
    p->name = KYMO_IDENT_NONE;
    if (!kymo_reader_process(x->r, p->ident, &name, &mfa) || name == 0)
        return;
    name = kymo_canonical(x->r, name);
    p->name = KYMO_IDENT(KYMO_I_ATOM, name);
    bool added;
    uint64_t *to = kymo_map_put(&x->names, name, &added);
    if (to != NULL && added)
        *to = p->ident;
}

static struct kymo_pfx_process *add_process(struct kymo_pfx *x, const struct kymo_event *ev)
{
    struct kymo_pfx_process *p = calloc(1, sizeof *p);
    struct kymo_pfx_process **at = p != NULL ? kymo_map_put(&x->processes, ev->who, NULL) : NULL;
    if (at == NULL) {
        free(p);
        x->w.out.error = x->w.out.error != 0 ? x->w.out.error : -ENOMEM;
        return NULL;
    }
    *at = p;
    uint64_t evicted;
    p->ident = ev->who;
    p->place = kymo_residents_add(&x->residents, ev->who, &evicted);
    if (evicted != KYMO_IDENT_NONE)
        evict(x, evicted, p->place);
    p->track = x->next_track++;
    name_process(x, p);
    return p;
}

struct kymo_pfx_process *kymo_pfx_process(struct kymo_pfx *x, const struct kymo_event *ev)
{
    bool birth = is_birth(ev);
    struct kymo_pfx_process *p = x->last, **known;
    if (p == NULL || p->ident != ev->who || (birth && p->dead)) {
        if (KYMO_IDENT_KIND(ev->who) != KYMO_I_PID && KYMO_IDENT_KIND(ev->who) != KYMO_I_PORT)
            return NULL;
        known = kymo_map_get(&x->processes, ev->who);
        p = known != NULL ? *known : NULL;
        if (p != NULL && birth && p->dead) {
            bury(x, p); /* the pid has been reused */
            p = NULL;
        }
        if (p == NULL)
            p = add_process(x, ev);
    }
    if (p != NULL)
        kymo_residents_heard(&x->residents, p->place);
    return x->last = p;
}

void kymo_pfx_end_all(struct kymo_pfx *x)
{
    x->now = x->newest;
    for (uint32_t i = 0; i < x->n_threads; i++) {
        struct kymo_pfx_node *node = kymo_pfx_node_of_slot(x, i);
        if (end_running(x, i, NULL) && node->n_running == 0)
            count_running(x, node, x->now);
    }
    size_t it = 0;
    for (struct kymo_pfx_process **p; (p = kymo_map_next(&x->processes, &it, NULL)) != NULL;)
        end_alive(x, *p, NULL, "end of the recording");
}
