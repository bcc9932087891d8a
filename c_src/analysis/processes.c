/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes and ports: where and how long they run, and their start and exit.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis_int.h"

static void lose_run(struct kymo_an *x, struct kymo_an_process *p);

struct kymo_an_process *kymo_an_known(const struct kymo_an *x, uint64_t ident)
{
    struct kymo_an_process **p = kymo_map_get(&x->processes, ident);
    return p != NULL ? *p : NULL;
}

/* Sets its name, if it is in the dictionary. */
static void name_process(struct kymo_an *x, struct kymo_an_process *p)
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

static struct kymo_an_process *add(struct kymo_an *x, const struct kymo_event *ev)
{
    struct kymo_an_process *p = calloc(1, sizeof *p);
    struct kymo_an_process **at = p != NULL ? kymo_map_put(&x->processes, ev->who, NULL) : NULL;
    if (at == NULL) {
        free(p);
        x->failed = true;
        return NULL;
    }
    *at = p;
    p->ident = ev->who;
    uint64_t evicted;
    p->place = kymo_residents_add(&x->residents, ev->who, &evicted);
    struct kymo_an_process *old = evicted != KYMO_IDENT_NONE ? kymo_an_known(x, evicted) : NULL;
    if (old != NULL) {
        x->res->evicted++;
        kymo_an_forget(x, old, NULL);
        x->residents.ident[p->place] = ev->who;
    }
    p->runs_lost = x->runs_lost;
    p->run_start = p->out_at = p->runnable = KYMO_NO_TIME;
    p->replied = KYMO_NO_TIME;
    p->placed = ev->id == KYMO_E_SPAWNED ? x->placings : 0;
    p->mail = x->cut && ev->id != KYMO_E_SPAWNED ? KYMO_AN_MAIL_UNKNOWN : KYMO_AN_MAIL_KNOWN;
    bool born = ev->id == KYMO_E_SPAWNED || ev->id == KYMO_E_OPEN;
    p->life = (struct kymo_life){.process = ev->who,
                                 .parent = born ? ev->peer : KYMO_IDENT_NONE,
                                 .spawned_as = ev->id == KYMO_E_SPAWNED ? kymo_canonical(x->r, ev->mfa) : 0,
                                 .first = ev->ns,
                                 .start = born ? ev->ns : KYMO_NO_TIME,
                                 .end = KYMO_NO_TIME};
    name_process(x, p);
    return p;
}

static struct kymo_an_process **recent(struct kymo_an *x, uint64_t ident)
{
    return &x->recent[ident % KYMO_AN_RECENT];
}

struct kymo_an_process *kymo_an_process(struct kymo_an *x, const struct kymo_event *ev)
{
    struct kymo_an_process *p = *recent(x, ev->who);
    if (p == NULL || p->ident != ev->who) {
        unsigned kind = KYMO_IDENT_KIND(ev->who);
        if (kind != KYMO_I_PID && kind != KYMO_I_PORT)
            return NULL;
        p = kymo_an_known(x, ev->who);
        bool born = ev->id == KYMO_E_SPAWNED || ev->id == KYMO_E_OPEN;
        if (p == NULL && !born && kymo_map_get(&x->dead, ev->who) != NULL)
            return NULL; /* a late event of a process whose exit has been reported */
        if (p == NULL)
            p = add(x, ev);
        if (p == NULL)
            return NULL;
        *recent(x, ev->who) = p;
    }
    if (p->runs_lost != x->runs_lost)
        lose_run(x, p);
    kymo_residents_heard(&x->residents, p->place);
    return p;
}

/* ---- running ---- */

int64_t kymo_an_busy(const struct kymo_an *x, const struct kymo_an_process *p)
{
    if (p->sched == 0)
        return KYMO_NO_TIME;
    int64_t now = x->now > p->last ? x->now : p->last;
    return p->running && now > p->run_start ? p->busy + (now - p->run_start) : p->busy;
}

static bool is_dirty(const struct kymo_an *x, uint32_t slot)
{
    return slot < x->n_slots &&
           (x->slots[slot].thread_kind == KYMO_T_DIRTY_CPU || x->slots[slot].thread_kind == KYMO_T_DIRTY_IO);
}

/* Whether the run that p is in is KYMO_RUN_OPEN, if the recording ends now. */
static bool is_open(const struct kymo_an *x, const struct kymo_an_process *p)
{
    return x->at_end && p->running && kymo_since(p->out_at, p->run_start) != KYMO_NO_TIME;
}

/* Ends a run of p. If its `out` was not recorded, `end` is KYMO_NO_TIME, and its scheduling is
 * unknown until the next `in`. */
static void end_run(struct kymo_an *x, struct kymo_an_process *p, int64_t end, uint32_t out_mfa,
                    uint8_t reason, bool hibernated, bool exited)
{
    struct kymo_run run = {.process = p->ident,
                           .slot = p->slot,
                           .in_mfa = p->in_mfa,
                           .out_mfa = out_mfa,
                           .start = p->run_start,
                           .end = end,
                           .waited = kymo_since(p->out_at, p->run_start),
                           .runnable = p->runnable,
                           .by = p->by,
                           .reason = reason,
                           .dirty = is_dirty(x, p->slot),
                           .hibernated = hibernated,
                           .exited = exited,
                           .open = end == KYMO_NO_TIME && is_open(x, p)};
    if (p->running && end != KYMO_NO_TIME && end > p->run_start)
        p->busy += end - p->run_start;
    if (run.waited != KYMO_NO_TIME)
        p->life.waiting += run.waited;
    if (run.waited != KYMO_NO_TIME && run.runnable > run.waited)
        run.runnable = run.waited; /* by another clock */
    p->running = false;
    p->runnable = KYMO_NO_TIME;
    p->by = KYMO_RUNNABLE_UNKNOWN;
    p->out_at = end;
    p->run_start = KYMO_NO_TIME;
    p->life.runs++;
    if (end == KYMO_NO_TIME)
        p->sched++;
    if (p->slot < x->n_slots && x->running[p->slot] == p->ident)
        x->running[p->slot] = KYMO_IDENT_NONE;
    kymo_an_report_run(x, &run);
}

void kymo_an_in(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev)
{
    if (p->running)
        end_run(x, p, KYMO_NO_TIME, 0, KYMO_OUT_UNKNOWN, false, false);
    if (ev->slot < x->n_slots) {
        struct kymo_an_process *q =
            x->running[ev->slot] != KYMO_IDENT_NONE ? kymo_an_known(x, x->running[ev->slot]) : NULL;
        if (q != NULL && q->running && q->slot == ev->slot)
            end_run(x, q, KYMO_NO_TIME, 0, KYMO_OUT_UNKNOWN, false, false);
        x->running[ev->slot] = p->ident;
    }
    if (p->sched == 0)
        p->sched = 1;
    p->running = true;
    p->slot = ev->slot;
    p->run_start = p->last;
    bool known = ev->id == KYMO_E_IN && ev->kind != KYMO_RUNNABLE_UNKNOWN && ev->value <= INT64_MAX / 4;
    p->runnable = known ? (int64_t)ev->value : KYMO_NO_TIME;
    p->by = known ? ev->kind : (uint8_t)KYMO_RUNNABLE_UNKNOWN;
    p->in_mfa = kymo_canonical(x->r, ev->mfa);
}

void kymo_an_out(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev, bool hibernates)
{
    bool exited = ev->id == KYMO_E_OUT_EXITED || ev->id == KYMO_E_PORT_OUT_EXITED;
    if (p->sched == 0)
        p->sched = 1;
    if (!p->running) { /* it was running at the horizon */
        p->slot = ev->slot;
        p->in_mfa = 0;
        p->out_at = KYMO_NO_TIME;
    }
    uint8_t reason = ev->id == KYMO_E_OUT ? ev->kind : (uint8_t)KYMO_OUT_UNKNOWN;
    end_run(x, p, p->last, kymo_canonical(x->r, ev->mfa), reason, hibernates, exited);
}

/* Takes into account for p that events were lost. */
static void lose_run(struct kymo_an *x, struct kymo_an_process *p)
{
    if (p->running)
        end_run(x, p, KYMO_NO_TIME, 0, KYMO_OUT_UNKNOWN, false, false);
    p->runs_lost = x->runs_lost;
    p->out_at = KYMO_NO_TIME;
    p->sched += p->sched > 0;
}

void kymo_an_runs_lost(struct kymo_an *x)
{
    x->runs_lost++;
    for (uint32_t i = 0; i < x->n_slots; i++) {
        struct kymo_an_process *p = x->running[i] != KYMO_IDENT_NONE ? kymo_an_known(x, x->running[i]) : NULL;
        if (p != NULL)
            lose_run(x, p);
    }
}

/* ---- life ---- */

void kymo_an_rename(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev)
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

static void remember_dead(struct kymo_an *x, uint64_t ident)
{
    uint64_t *place = &x->dead_ring[x->dead_next++ % KYMO_AN_DEAD_MAX];
    if (x->dead_next > KYMO_AN_DEAD_MAX)
        kymo_map_remove(&x->dead, *place);
    *place = ident;
    if (kymo_map_put(&x->dead, ident, NULL) == NULL)
        x->failed = true;
}

void kymo_an_forget(struct kymo_an *x, struct kymo_an_process *p, const struct kymo_event *ev)
{
    if (p->runs_lost != x->runs_lost)
        lose_run(x, p);
    kymo_an_end_spans(x, p, ev);
    kymo_flows_exit(&x->flows, p->ident);
    if (ev != NULL)
        kymo_an_request_exit(x, p);
    else
        kymo_an_request_forget(x, p);
    p->life.last = p->last;
    p->life.end = ev != NULL ? p->last : KYMO_NO_TIME;
    p->life.reason = ev != NULL ? kymo_canonical(x->r, ev->atom) : 0;
    p->life.exited_in = ev != NULL && ev->id == KYMO_E_EXIT ? kymo_canonical(x->r, ev->mfa) : 0;
    p->life.running = kymo_an_busy(x, p);
    if (p->running && ev == NULL && !is_open(x, p)) /* it ran at its last event; later is unknown */
        p->life.running = p->busy + (p->last > p->run_start ? p->last - p->run_start : 0);
    if (p->running)
        end_run(x, p, ev != NULL ? p->last : KYMO_NO_TIME, 0, KYMO_OUT_UNKNOWN, false, ev != NULL);
    if (p->life.running == KYMO_NO_TIME)
        p->life.waiting = KYMO_NO_TIME;
    kymo_an_report_life(x, &p->life);
    kymo_residents_remove(&x->residents, p->place);
    if (ev != NULL)
        remember_dead(x, p->ident);
    if (*recent(x, p->ident) == p)
        *recent(x, p->ident) = NULL;
    kymo_map_remove(&x->processes, p->ident);
    free(p->open);
    free(p);
}

void kymo_an_forget_all(struct kymo_an *x)
{
    /* The map must not change while it is walked. */
    size_t n = 0, it = 0, room = x->processes.count;
    struct kymo_an_process **all = calloc(room + 1, sizeof(struct kymo_an_process *));
    if (all == NULL) {
        x->failed = true;
        return;
    }
    for (struct kymo_an_process **p; n < room && (p = kymo_map_next(&x->processes, &it, NULL)) != NULL;)
        all[n++] = *p;
    for (size_t i = 0; i < n; i++)
        kymo_an_forget(x, all[i], NULL);
    free(all);
}
