/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_names.h"
#include "watch_int.h"

/* Samples of the counters are at least this far apart; the records of one sample are closer. */
enum { SAMPLE_NS = 5000000 };

/* Flags of a function, by canonical id. */
enum { MATCHED = 1, ENDS = 2, EXPECTED = 4 };

/* A run that has fired and has not ended. */
struct fired_run {
    int64_t start;
    uint64_t by; /* triggers, a bit each */
};

struct kymo_triggers {
    void (*fired)(void *arg, const struct kymo_firing *f);
    void *arg;
    struct kymo_trigger g[KYMO_TRIGGERS_MAX];
    struct kymo_opens opens[KYMO_TRIGGERS_MAX]; /* of calls */
    uint32_t n;
    int64_t from, cooldown;
    int64_t quiet_until[KYMO_TRIGGERS_MAX];
    uint64_t suppressed;
    struct kymo_live *live;
    struct kymo_naming *naming;
    struct kymo_analysis_sink sink;
    const struct kymo_reader *r;
    uint64_t *chosen; /* by canonical id: triggers whose pattern it fits, a bit each */
    uint8_t *known;   /* by canonical id: chosen is known, its ends are recorded, its calls are spans */
    bool return_to;   /* there are return_to events */
    uint32_t n_ids;
    struct kymo_map fired_requests; /* id -> triggers that have fired and it is open, a bit each */
    struct kymo_map fired_runs;     /* process -> struct fired_run */
    struct kymo_map full;           /* process -> triggers whose number its mailbox exceeds, a bit each */
    int64_t sampled;                /* the newest sample of the counters; KYMO_NO_TIME: none since a gap */
    int64_t usual;                  /* time between two samples; 0: not known */
    int64_t now;
    int64_t sure_from; /* events before it are missing: what was open may have ended unseen */
    bool gap;          /* events just before the next one are missing */
    bool exits;        /* events of the life of processes are recorded, including exits */
    bool paused;       /* the recorder is paused: what is open may end unseen */
    bool failed;
};

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
    kymo_map_init(&t->fired_runs, sizeof(struct fired_run));
    kymo_map_init(&t->full, sizeof(uint64_t));
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
    kymo_map_free(&t->full);
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

/* The triggers of calls and requests that name this function, a bit each. */
static uint64_t triggers_of(struct kymo_triggers *t, uint32_t mfa)
{
    if (mfa == 0 || mfa >= t->n_ids)
        return 0;
    if ((t->known[mfa] & MATCHED) == 0) {
        t->known[mfa] |= MATCHED;
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

static bool is_kind(const struct kymo_triggers *t, uint32_t i, unsigned kind)
{
    return t->g[i].kind == kind;
}

static bool atom_fits(const struct kymo_triggers *t, uint32_t atom, const char *pattern)
{
    char text[1100];
    if (atom == 0)
        return false;
    kymo_format_atom(kymo_reader_atom(t->r, atom), text, sizeof text);
    return kymo_name_fits(text, pattern);
}

static bool wants_request(struct kymo_triggers *t, uint32_t i, const struct kymo_request *q)
{
    uint32_t atom, mfa;
    const char *pattern = t->g[i].pattern;
    if (pattern == NULL || (triggers_of(t, q->handler_mfa) >> i & 1) != 0)
        return true;
    if (KYMO_IDENT_KIND(q->server) == KYMO_I_ATOM)
        return atom_fits(t, (uint32_t)KYMO_IDENT_DATA(q->server), pattern);
    kymo_naming_best(t->naming, q->server, &atom, &mfa);
    return atom_fits(t, atom, pattern) || (mfa != 0 && kymo_function_fits(t->naming, mfa, pattern));
}

/* ---- firing ---- */

static void fire(struct kymo_triggers *t, uint32_t i, const struct kymo_firing *f)
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

static void fire_call(struct kymo_triggers *t, uint32_t i, uint64_t process, uint32_t mfa, int64_t start,
                      int64_t end, bool open)
{
    struct kymo_firing f = {.open = open,
                            .value = end - start,
                            .start = start,
                            .end = end,
                            .process = process,
                            .server = KYMO_IDENT_NONE,
                            .mfa = mfa};
    fire(t, i, &f);
}

static void on_span_open(void *arg, const struct kymo_span *s)
{
    struct kymo_triggers *t = arg;
    uint64_t which = triggers_of(t, s->mfa);
    for (uint32_t i = 0; which != 0 && i < t->n; i++) {
        if ((which >> i & 1) == 0 || !is_kind(t, i, KYMO_TRIG_CALL))
            continue;
        struct kymo_waiting w = {.id = s->id, .start = s->start, .process = s->process, .mfa = s->mfa};
        t->failed = !kymo_opens_add(&t->opens[i], &w) || t->failed;
    }
}

static void on_span(void *arg, const struct kymo_span *s)
{
    struct kymo_triggers *t = arg;
    uint64_t which = s->ended != KYMO_SPAN_MOMENT ? triggers_of(t, s->mfa) : 0;
    for (uint32_t i = 0; which != 0 && i < t->n; i++) {
        if ((which >> i & 1) == 0 || !is_kind(t, i, KYMO_TRIG_CALL))
            continue;
        bool waited_for = kymo_opens_end(&t->opens[i], s->id) || t->opens[i].left_out > 0;
        if (waited_for && s->end != KYMO_NO_TIME && s->end - s->start > t->g[i].limit)
            fire_call(t, i, s->process, s->mfa, s->start, s->end, false);
    }
}

/* True if the recording has the ends of this function's calls. Without them it is unknown
 * whether a call is still open. */
static bool has_ends(const struct kymo_triggers *t, uint32_t mfa)
{
    return t->return_to || (mfa < t->n_ids && (t->known[mfa] & ENDS) != 0);
}

/* A call that the runtime has reported as slow. If its end is recorded too, its span fires. */
static void on_slow(struct kymo_triggers *t, const struct kymo_event *ev)
{
    uint32_t mfa = kymo_reader_canonical(t->r, ev->mfa);
    uint64_t which = has_ends(t, mfa) ? 0 : triggers_of(t, mfa);
    int64_t start;
    if (ev->value > INT64_MAX || __builtin_sub_overflow(ev->ns, (int64_t)ev->value, &start))
        return;
    for (uint32_t i = 0; which != 0 && i < t->n; i++) {
        if ((which >> i & 1) != 0 && is_kind(t, i, KYMO_TRIG_CALL) && (int64_t)ev->value > t->g[i].limit)
            fire_call(t, i, ev->who, mfa, start, ev->ns, false);
    }
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
    fire(t, i, &f);
}

static void on_request(void *arg, const struct kymo_request *q)
{
    struct kymo_triggers *t = arg;
    uint64_t *fired = kymo_map_get(&t->fired_requests, q->id), before = fired != NULL ? *fired : 0;
    int64_t total = kymo_request_total(q);
    if (fired != NULL)
        kymo_map_remove(&t->fired_requests, q->id);
    for (uint32_t i = 0; total != KYMO_NO_TIME && i < t->n; i++) {
        if (is_kind(t, i, KYMO_TRIG_REQUEST) && (before >> i & 1) == 0 && total > t->g[i].limit &&
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
    for (uint32_t i = 0; i < t->n; i++) {
        if (!is_kind(t, i, KYMO_TRIG_REQUEST) || t->now - q->sent <= t->g[i].limit || !wants_request(t, i, q))
            continue;
        uint64_t *fired = kymo_map_get(&t->fired_requests, q->id);
        if (fired == NULL)
            fired = kymo_map_put(&t->fired_requests, q->id, NULL);
        if (fired == NULL)
            t->failed = true;
        else if ((*fired >> i & 1) == 0) {
            *fired |= 1ull << i;
            fire_request(t, i, q, t->now, true);
        }
    }
}

/* The triggers that have fired for this run before its end, a bit each; NULL if there are none. */
static uint64_t *fired_by(struct kymo_triggers *t, const struct kymo_run *run, bool make)
{
    struct fired_run *f = kymo_map_get(&t->fired_runs, run->process);
    if (f == NULL && make) {
        if (t->fired_runs.count >= KYMO_TRIGGERS_OPEN) /* left from processes that ended unseen */
            kymo_map_free(&t->fired_runs);
        f = kymo_map_put(&t->fired_runs, run->process, NULL);
        t->failed = t->failed || f == NULL;
    }
    if (f != NULL && f->start != run->start)
        *f = (struct fired_run){.start = run->start};
    return f != NULL ? &f->by : NULL;
}

/* Checks a run. If it has not ended, its `end` is KYMO_NO_TIME. */
static void on_run(void *arg, const struct kymo_run *run)
{
    struct kymo_triggers *t = arg;
    bool open = run->end == KYMO_NO_TIME;
    int64_t end = open ? t->now : run->end;
    for (uint32_t i = 0; !run->dirty && run->start != KYMO_NO_TIME && i < t->n; i++) {
        if (!is_kind(t, i, KYMO_TRIG_SCHEDULE) || end - run->start <= t->g[i].limit)
            continue;
        uint64_t *by = fired_by(t, run, open);
        if (by != NULL && (*by >> i & 1) != 0)
            continue;
        if (by != NULL)
            *by |= 1ull << i;
        fire_call(t, i, run->process, run->in_mfa, run->start, end, open);
    }
    if (!open)
        kymo_map_remove(&t->fired_runs, run->process);
}

/* Checks an open run. Ignores processes without any `out` event so far: they may have become
 * sensitive, so that the end of the run is never recorded. */
static void on_open_run(void *arg, const struct kymo_run *run)
{
    const struct kymo_triggers *t = arg;
    if (run->waited != KYMO_NO_TIME && run->start >= t->sure_from)
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
        if (is_kind(t, i, KYMO_TRIG_COLLECTION) && ns > t->g[i].limit)
            fire_call(t, i, c->process, 0, c->start, c->end, false);
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
        if (!is_kind(t, i, KYMO_TRIG_EXIT) ||
            (t->g[i].pattern != NULL && !atom_fits(t, ev->atom, t->g[i].pattern)))
            continue;
        struct kymo_firing f = {
            .start = ev->ns, .end = ev->ns, .process = ev->who, .server = KYMO_IDENT_NONE, .atom = ev->atom};
        fire(t, i, &f);
    }
}

/* Fires when the limit is exceeded, and again only after the number was half of it or less. */
static void on_sent(struct kymo_triggers *t, const struct kymo_event *ev)
{
    uint64_t to;
    int64_t oldest;
    uint32_t n = kymo_live_waiting(t->live, ev, &to, &oldest);
    if (n == 0 || KYMO_IDENT_KIND(to) == KYMO_I_PORT || KYMO_IDENT_KIND(to) == KYMO_I_REF)
        return;
    uint64_t *full = kymo_map_get(&t->full, to);
    for (uint32_t i = 0; i < t->n; i++) {
        if (!is_kind(t, i, KYMO_TRIG_MAILBOX))
            continue;
        bool was = full != NULL && (*full >> i & 1) != 0;
        if (was && n <= (uint64_t)t->g[i].limit / 2 + 1) {
            *full &= ~(1ull << i);
            was = false;
        }
        if (was || n <= (uint64_t)t->g[i].limit)
            continue;
        if (full == NULL && t->full.count >= KYMO_TRIGGERS_OPEN)
            kymo_map_free(&t->full);
        if (full == NULL && (full = kymo_map_put(&t->full, to, NULL)) == NULL) {
            t->failed = true;
            return;
        }
        *full |= 1ull << i;
        struct kymo_firing f = {
            .value = n, .start = oldest, .end = ev->ns, .process = to, .server = KYMO_IDENT_NONE};
        fire(t, i, &f);
    }
}

/* ---- what the node says of itself ---- */

/* One process of high priority takes the samples. When it comes much later than it does
 * usually, no process could run. */
static void on_sample(struct kymo_triggers *t, const struct kymo_event *ev)
{
    int64_t passed = kymo_since(t->sampled, ev->ns);
    if (passed != KYMO_NO_TIME && passed < SAMPLE_NS)
        return;
    struct kymo_firing f = {.value = passed,
                            .start = t->sampled,
                            .end = ev->ns,
                            .process = KYMO_IDENT_NONE,
                            .server = KYMO_IDENT_NONE};
    t->sampled = ev->ns;
    if (passed == KYMO_NO_TIME)
        return;
    for (uint32_t i = 0; t->usual != 0 && passed / 2 > t->usual && i < t->n; i++) {
        if (is_kind(t, i, KYMO_TRIG_STOPPED) && passed > t->g[i].limit)
            fire(t, i, &f);
    }
    /* Towards the median: a late one is no measure. */
    t->usual = t->usual == 0       ? passed
               : passed > t->usual ? t->usual + t->usual / 16
                                   : t->usual - t->usual / 16;
}

static void on_report(struct kymo_triggers *t, const struct kymo_event *ev)
{
    enum { MS = 1000000 };
    bool times = ev->kind == KYMO_M_LONG_GC || ev->kind == KYMO_M_LONG_SCHEDULE;
    const char *name = ev->kind < KYMO_M_FIRST_NOTE ? kymo_monitor_name(ev->kind) : NULL;
    if (name == NULL || (ev->kind == KYMO_M_LONG_QUEUE && ev->value == 0)) /* short again */
        return;
    int64_t value = ev->value < INT64_MAX / MS ? (int64_t)ev->value : INT64_MAX / MS;
    struct kymo_firing f = {.value = times                           ? value * MS
                                     : ev->kind == KYMO_M_LARGE_HEAP ? value
                                                                     : 0,
                            .end = ev->ns,
                            .process = ev->who,
                            .server = KYMO_IDENT_NONE,
                            .mfa = times && ev->in_mfa != 0 ? kymo_reader_canonical(t->r, ev->in_mfa) : 0,
                            .reported = name};
    if (!times || __builtin_sub_overflow(ev->ns, f.value, &f.start))
        f.start = ev->ns;
    for (uint32_t i = 0; i < t->n; i++) {
        if (is_kind(t, i, KYMO_TRIG_REPORTED) &&
            (t->g[i].pattern == NULL || kymo_name_fits(name, t->g[i].pattern)))
            fire(t, i, &f);
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
                                          .span_open = on_span_open,
                                          .span = on_span,
                                          .request = on_request,
                                          .run = on_run_end,
                                          .collection = on_collection};
    t->naming = kymo_naming_new(r);
    if (t->naming == NULL || !grow_ids(t))
        return -ENOMEM;
    return kymo_live_new(&t->live, r, &t->sink, 1);
}

/* Makes the analysis expect the end of calls that a trigger names, including the first call of a
 * function. */
static void look_at_call(struct kymo_triggers *t, uint32_t id)
{
    uint32_t mfa = id != 0 ? kymo_reader_canonical(t->r, id) : 0;
    uint64_t which = triggers_of(t, mfa);
    if (which == 0 || (t->known[mfa] & EXPECTED) != 0)
        return;
    t->known[mfa] |= EXPECTED;
    if (kymo_live_ends(t->live, mfa))
        t->known[mfa] |= ENDS;
    for (uint32_t i = 0; i < t->n; i++) {
        if ((which >> i & 1) != 0 && is_kind(t, i, KYMO_TRIG_CALL))
            kymo_live_expect(t->live, mfa);
    }
}

static void look_at_end(struct kymo_triggers *t, uint32_t id)
{
    uint32_t mfa = id != 0 ? kymo_reader_canonical(t->r, id) : 0;
    if (mfa < t->n_ids)
        t->known[mfa] |= ENDS;
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
        look_at_call(t, ev->mfa);
    else if (ev->id == KYMO_E_RETURN_FROM || ev->id == KYMO_E_EXCEPTION_FROM)
        look_at_end(t, ev->mfa);
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
        on_sent(t, ev);
    if (is_new && ev->id == KYMO_E_SLOW)
        on_slow(t, ev);
    if (is_new && ev->id == KYMO_E_COUNTERS)
        on_sample(t, ev);
    if (is_new && ev->id == KYMO_E_MONITOR)
        on_report(t, ev);
    return !t->failed;
}

void kymo_triggers_gap(struct kymo_triggers *t)
{
    t->failed = !kymo_live_gap(t->live) || t->failed;
    t->gap = true;
}

static void fire_open_calls(struct kymo_triggers *t, uint32_t i)
{
    struct kymo_waiting w;
    while (kymo_opens_next(&t->opens[i], t->now - t->g[i].limit, &w)) {
        if (w.start < t->sure_from)
            continue;
        if (has_ends(t, w.mfa))
            fire_call(t, i, w.process, w.mfa, w.start, t->now, true);
        else if (!kymo_opens_keep(&t->opens[i], w.id))
            t->failed = true;
    }
}

bool kymo_triggers_round(struct kymo_triggers *t, int64_t now)
{
    bool requests = false, runs = false;
    t->now = now;
    if (t->gap || !t->exits) /* a process whose exit was not seen would seem to run on */
        return !t->failed;
    for (uint32_t i = 0; i < t->n; i++) {
        requests = requests || is_kind(t, i, KYMO_TRIG_REQUEST);
        runs = runs || is_kind(t, i, KYMO_TRIG_SCHEDULE);
        if (is_kind(t, i, KYMO_TRIG_CALL))
            fire_open_calls(t, i);
    }
    if (requests)
        kymo_live_requests(t->live, on_open_request, t);
    if (runs)
        kymo_live_runs(t->live, on_open_run, t);
    return !t->failed;
}
