/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_names.h"
#include "watch_int.h"

struct kymo_triggers *kymo_triggers_new(void (*fired)(void *arg, const struct kymo_firing *f), void *arg)
{
    struct kymo_triggers *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->fired = fired;
    t->arg = arg;
    t->from = t->sure_from = INT64_MIN;
    t->sampled = KYMO_NO_TIME;
    kymo_map_init(&t->fired_requests, sizeof(uint64_t));
    kymo_map_init(&t->fired_runs, sizeof(struct kymo_fired_run));
    kymo_map_init(&t->unfetched, sizeof(uint64_t));
    kymo_map_init(&t->longest, sizeof(uint64_t));
    kymo_map_init(&t->reported, sizeof(struct kymo_reported_call));
    for (uint32_t i = 0; i < KYMO_TRIGGERS_MAX; i++) {
        kymo_opens_init(&t->opens[i]);
        t->quiet_until[i] = INT64_MIN;
    }
    return t;
}

void kymo_triggers_free(struct kymo_triggers *t)
{
    if (t == NULL)
        return;
    kymo_live_free(t->live);
    kymo_naming_free(t->naming);
    for (uint32_t i = 0; i < KYMO_TRIGGERS_MAX; i++) {
        kymo_trigger_free(&t->g[i]);
        kymo_opens_free(&t->opens[i]);
    }
    kymo_map_free(&t->fired_requests);
    kymo_map_free(&t->fired_runs);
    kymo_map_free(&t->unfetched);
    kymo_map_free(&t->longest);
    kymo_map_free(&t->reported);
    free(t->chosen);
    free(t->known);
    free(t);
}

int kymo_triggers_add(struct kymo_triggers *t, const char *text, char *err, size_t err_size)
{
    if (t->n == KYMO_TRIGGERS_MAX) {
        snprintf(err, err_size, "more than %u triggers", KYMO_TRIGGERS_MAX);
        return -EINVAL;
    }
    struct kymo_trigger g = {.text = NULL};
    int rc = kymo_trigger_parse(&g, text, err, err_size);
    if (rc == 0)
        t->g[t->n++] = g;
    else
        kymo_trigger_free(&g);
    return rc;
}

size_t kymo_triggers_count(const struct kymo_triggers *t)
{
    return t->n;
}

void kymo_triggers_from(struct kymo_triggers *t, int64_t from)
{
    t->from = from;
}

void kymo_triggers_cooldown(struct kymo_triggers *t, int64_t ns)
{
    t->cooldown = ns;
}

uint64_t kymo_triggers_suppressed(const struct kymo_triggers *t)
{
    return t->suppressed;
}

const struct kymo_naming *kymo_triggers_naming(const struct kymo_triggers *t)
{
    return t->naming;
}

uint64_t kymo_triggers_unwatched(const struct kymo_triggers *t)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < t->n; i++)
        n += t->opens[i].left_out;
    return n;
}

/* ---- which function, which process ---- */

static bool grow_ids(struct kymo_triggers *t)
{
    uint32_t n = kymo_reader_dict_size(t->r) + 1;
    if (n <= t->n_ids)
        return true;
    uint64_t *chosen = realloc(t->chosen, n * sizeof *chosen);
    if (chosen != NULL)
        t->chosen = chosen;
    uint8_t *known = chosen != NULL ? realloc(t->known, n) : NULL;
    if (known == NULL)
        return false;
    t->known = known;
    memset(known + t->n_ids, 0, n - t->n_ids);
    t->n_ids = n;
    return true;
}

uint64_t kymo_triggers_of(struct kymo_triggers *t, uint32_t mfa)
{
    if (mfa == 0 || mfa >= t->n_ids)
        return 0;
    if ((t->known[mfa] & KYMO_TRIG_MATCHED) == 0) {
        t->known[mfa] |= KYMO_TRIG_MATCHED;
        t->chosen[mfa] = 0;
        for (uint32_t i = 0; i < t->n; i++) {
            const struct kymo_trigger *g = &t->g[i];
            if ((g->kind == KYMO_TRIG_CALL || g->kind == KYMO_TRIG_REQUEST) &&
                (g->pattern == NULL || kymo_function_fits(t->naming, mfa, g->pattern)))
                t->chosen[mfa] |= 1ull << i;
        }
    }
    return t->chosen[mfa];
}

static bool atom_fits(const struct kymo_triggers *t, uint32_t atom, const char *pattern)
{
    char text[1100];
    if (atom == 0)
        return false;
    kymo_format_atom(kymo_reader_atom(t->r, atom), text, sizeof text);
    return kymo_name_fits(text, pattern);
}

/* A request that is passed on is a part of another one: only a pattern for its server wants it. */
static bool wants_request(struct kymo_triggers *t, uint32_t i, const struct kymo_request *q)
{
    uint32_t atom, mfa;
    const char *pattern = t->g[i].pattern;
    if (pattern == NULL && q->passed_on)
        return false;
    if (pattern == NULL || (kymo_triggers_of(t, q->handler_mfa) >> i & 1) != 0)
        return true;
    if (KYMO_IDENT_KIND(q->server) == KYMO_I_ATOM)
        return atom_fits(t, (uint32_t)KYMO_IDENT_DATA(q->server), pattern);
    kymo_naming_best(t->naming, q->server, &atom, &mfa);
    return atom_fits(t, atom, pattern) || (mfa != 0 && kymo_function_fits(t->naming, mfa, pattern));
}

/* ---- firing ---- */

void kymo_trigger_fire(struct kymo_triggers *t, uint32_t i, const struct kymo_firing *f)
{
    struct kymo_firing it = *f;
    it.trigger = &t->g[i];
    it.number = i;
    if (it.end < t->from)
        return;
    if (it.end < t->quiet_until[i]) {
        t->suppressed++;
        return;
    }
    if (__builtin_add_overflow(it.end, t->cooldown, &t->quiet_until[i]))
        t->quiet_until[i] = INT64_MAX;
    t->fired(t->arg, &it);
}

static void fire_request(struct kymo_triggers *t, uint32_t i, const struct kymo_request *q, int64_t end,
                         bool open)
{
    struct kymo_firing f = {.open = open,
                            .value = end - q->sent,
                            .start = q->sent,
                            .end = end,
                            .process = q->client,
                            .server = q->server,
                            .mfa = q->handler_mfa};
    kymo_trigger_fire(t, i, &f);
}

static void on_request(void *arg, const struct kymo_request *q)
{
    struct kymo_triggers *t = arg;
    uint64_t *fired = kymo_map_get(&t->fired_requests, q->id), before = fired != NULL ? *fired : 0;
    int64_t total = kymo_request_total(q);
    if (fired != NULL)
        kymo_map_remove(&t->fired_requests, q->id);
    for (uint32_t i = 0; total != KYMO_NO_TIME && i < t->n; i++) {
        if (kymo_trigger_is(t, i, KYMO_TRIG_REQUEST) && (before >> i & 1) == 0 && total > t->g[i].limit &&
            wants_request(t, i, q))
            fire_request(t, i, q, q->sent + total, false);
    }
}

/* Checks a request that is open. Ignores casts, whose end is unknown if callbacks are not
 * traced. */
static void on_open_request(void *arg, const struct kymo_request *q)
{
    struct kymo_triggers *t = arg;
    if (q->sent == KYMO_NO_TIME || q->sent < t->sure_from || q->kind == KYMO_REQ_CAST ||
        q->kind == KYMO_REQ_SPAWN)
        return;
    int64_t until = q->received != KYMO_NO_TIME ? q->received : t->now; /* the client may have given up */
    for (uint32_t i = 0; i < t->n; i++) {
        if (!kymo_trigger_is(t, i, KYMO_TRIG_REQUEST) || until - q->sent <= t->g[i].limit ||
            !wants_request(t, i, q))
            continue;
        uint64_t *fired = kymo_map_get(&t->fired_requests, q->id);
        if (fired == NULL)
            fired = kymo_map_put(&t->fired_requests, q->id, NULL);
        if (fired == NULL)
            t->failed = true;
        else if ((*fired >> i & 1) == 0) {
            *fired |= 1ull << i;
            fire_request(t, i, q, until, true);
        }
    }
}

/* The triggers that have fired for this run before its end, a bit each; NULL if there are none. */
static uint64_t *fired_by(struct kymo_triggers *t, const struct kymo_run *run, bool make)
{
    struct kymo_fired_run *f = kymo_map_get(&t->fired_runs, run->process);
    if (f == NULL && make) {
        if (t->fired_runs.count >= KYMO_TRIGGERS_OPEN) /* left from processes that ended unseen */
            kymo_map_free(&t->fired_runs);
        f = kymo_map_put(&t->fired_runs, run->process, NULL);
        t->failed = t->failed || f == NULL;
    }
    if (f != NULL && f->start != run->start)
        *f = (struct kymo_fired_run){.start = run->start};
    return f != NULL ? &f->by : NULL;
}

/* Checks a run. If it has not ended, its `end` is KYMO_NO_TIME. */
static void on_run(void *arg, const struct kymo_run *run)
{
    struct kymo_triggers *t = arg;
    bool open = run->end == KYMO_NO_TIME;
    int64_t end = open ? t->now : run->end;
    for (uint32_t i = 0; !run->dirty && run->start != KYMO_NO_TIME && i < t->n; i++) {
        if (!kymo_trigger_is(t, i, KYMO_TRIG_SCHEDULE) || end - run->start <= t->g[i].limit)
            continue;
        uint64_t *by = fired_by(t, run, open);
        if (by != NULL && (*by >> i & 1) != 0)
            continue;
        if (by != NULL)
            *by |= 1ull << i;
        kymo_trigger_fire_call(t, i, run->process, run->in_mfa, run->start, end, open);
    }
    if (!open)
        kymo_map_remove(&t->fired_runs, run->process);
}

/* Checks a run that has not ended so far. */
static void on_open_run(void *arg, const struct kymo_run *run)
{
    const struct kymo_triggers *t = arg;
    if (kymo_run_state(run) == KYMO_RUN_OPEN && run->start >= t->sure_from)
        on_run(arg, run);
}

static void on_run_end(void *arg, const struct kymo_run *run)
{
    if (run->end != KYMO_NO_TIME)
        on_run(arg, run);
}

static void on_collection(void *arg, const struct kymo_collection *c)
{
    struct kymo_triggers *t = arg;
    int64_t ns = kymo_since(c->start, c->end);
    for (uint32_t i = 0; ns != KYMO_NO_TIME && i < t->n; i++) {
        if (kymo_trigger_is(t, i, KYMO_TRIG_COLLECTION) && ns > t->g[i].limit)
            kymo_trigger_fire_call(t, i, c->process, 0, c->start, c->end, false);
    }
}

static bool is_normal(const struct kymo_triggers *t, uint32_t atom)
{
    struct kymo_text s = kymo_reader_atom(t->r, atom);
    return atom != 0 &&
           ((s.len == 6 && memcmp(s.s, "normal", 6) == 0) || (s.len == 8 && memcmp(s.s, "shutdown", 8) == 0));
}

static void on_exit_of(struct kymo_triggers *t, const struct kymo_event *ev)
{
    /* A reason that did not fit into the dictionary may have been `normal`. */
    if (ev->atom == 0 && kymo_reader_meta(t->r)->dict_full != 0)
        return;
    if (is_normal(t, ev->atom))
        return;
    for (uint32_t i = 0; i < t->n; i++) {
        if (!kymo_trigger_is(t, i, KYMO_TRIG_EXIT) ||
            (t->g[i].pattern != NULL && !atom_fits(t, ev->atom, t->g[i].pattern)))
            continue;
        struct kymo_firing f = {
            .start = ev->ns, .end = ev->ns, .process = ev->who, .server = KYMO_IDENT_NONE, .atom = ev->atom};
        kymo_trigger_fire(t, i, &f);
    }
}

/* ---- the run ---- */

int kymo_triggers_reader(struct kymo_triggers *t, struct kymo_reader *r)
{
    t->r = r;
    if (t->live != NULL) {
        kymo_live_reader(t->live, r);
        return kymo_naming_reader(t->naming, r) && grow_ids(t) ? 0 : -ENOMEM;
    }
    t->sink = (struct kymo_analysis_sink){.arg = t,
                                          .span_open = kymo_triggers_call,
                                          .span = kymo_triggers_call_end,
                                          .request = on_request,
                                          .run = on_run_end,
                                          .collection = on_collection};
    t->naming = kymo_naming_new(r);
    if (t->naming == NULL || !grow_ids(t))
        return -ENOMEM;
    return kymo_live_new(&t->live, r, &t->sink, 1);
}

/* Handles a state of the recorder: while it is paused, anything may end unseen. */
static void look_at_state(struct kymo_triggers *t, uint8_t state)
{
    bool paused = state == KYMO_PAUSED;
    if (paused || t->paused)
        kymo_triggers_gap(t);
    t->paused = paused;
}

/* To be called before the analysis gets the event. */
static void look_at(struct kymo_triggers *t, const struct kymo_event *ev)
{
    kymo_naming_event(t->naming, ev);
    if (t->gap || ev->id == KYMO_E_LOST) {
        t->sure_from = ev->ns;
        t->sampled = KYMO_NO_TIME;
    }
    t->gap = false;
    if (ev->id == KYMO_E_CALL)
        kymo_triggers_expect(t, ev->mfa);
    else if (ev->id == KYMO_E_RETURN_FROM || ev->id == KYMO_E_EXCEPTION_FROM)
        kymo_triggers_has_end(t, ev->mfa);
    else if (ev->id == KYMO_E_RETURN_TO)
        t->return_to = true;
    else if (ev->id == KYMO_E_STATE)
        look_at_state(t, ev->kind);
    else if (ev->id >= KYMO_E_SPAWN && ev->id <= KYMO_E_UNREGISTER)
        t->exits = true;
}

bool kymo_triggers_event(struct kymo_triggers *t, const struct kymo_event *ev, bool is_new)
{
    if (is_new)
        look_at(t, ev);
    if (!kymo_live_event(t->live, ev, is_new))
        return false;
    if (is_new && ev->id == KYMO_E_EXIT)
        on_exit_of(t, ev);
    if (is_new && ev->id == KYMO_E_SEND)
        kymo_triggers_sent(t, ev);
    if (is_new && ev->id == KYMO_E_SLOW)
        kymo_triggers_slow(t, ev);
    if (is_new && ev->id == KYMO_E_COUNTERS) {
        kymo_triggers_sample(t, ev);
        kymo_triggers_lengths(t, ev);
    }
    if (is_new && ev->id == KYMO_E_MONITOR)
        kymo_triggers_report(t, ev);
    return !t->failed;
}

void kymo_triggers_gap(struct kymo_triggers *t)
{
    t->failed = !kymo_live_gap(t->live) || t->failed;
    t->gap = true;
}

bool kymo_triggers_round(struct kymo_triggers *t, int64_t now)
{
    bool requests = false, runs = false;
    t->now = now;
    if (t->gap || !t->exits) /* a process whose exit was not seen would seem to run on */
        return !t->failed;
    for (uint32_t i = 0; i < t->n; i++) {
        requests = requests || kymo_trigger_is(t, i, KYMO_TRIG_REQUEST);
        runs = runs || kymo_trigger_is(t, i, KYMO_TRIG_SCHEDULE);
        if (kymo_trigger_is(t, i, KYMO_TRIG_CALL))
            kymo_triggers_open_calls(t, i);
    }
    if (requests)
        kymo_live_requests(t->live, on_open_request, t);
    if (runs)
        kymo_live_runs(t->live, on_open_run, t);
    return !t->failed;
}
