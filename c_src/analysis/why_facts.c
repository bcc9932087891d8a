/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "kymo_lesson.h"
#include "kymo_timeline.h"
#include "order.h"
#include "why_int.h"

/* ---- collecting ---- */

/* Makes room for one more element; returns NULL if there is none. */
static void *grown(struct kymo_why *w, void *p, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return p;
    if (n >= KYMO_WHY_FACTS_MAX) {
        w->facts_cut = true;
        return NULL;
    }
    size_t more = *room == 0 ? 256 : *room * 2;
    void *bigger = realloc(p, more * size);
    if (bigger == NULL) {
        w->failed = true;
        return NULL;
    }
    *room = more;
    return bigger;
}

#define APPEND(list, fact) \
    do { \
        void *p_ = grown(w, (list).p, (list).n, &(list).room, sizeof *(list).p); \
        if (p_ != NULL) { \
            (list).p = p_; \
            (list).p[(list).n++] = (fact); \
        } \
    } while (0)

bool kymo_why_in_module(const struct kymo_why *w, uint32_t id, const char *module)
{
    struct kymo_mfa mfa;
    return kymo_reader_mfa(w->r, id, &mfa) && kymo_text_is(kymo_reader_atom(w->r, mfa.module), module);
}

static uint8_t suspends(struct kymo_why *w, uint32_t id)
{
    uint8_t *known = kymo_map_put(&w->suspends, id, NULL);
    struct kymo_mfa mfa;
    if (known == NULL)
        return 1;
    if (*known == 0) {
        *known = 1;
        if (kymo_why_in_module(w, id, "erlang") && kymo_reader_mfa(w->r, id, &mfa)) {
            struct kymo_text f = kymo_reader_atom(w->r, mfa.function);
            *known = kymo_text_is(f, "suspend_process") ? 2 : kymo_text_is(f, "resume_process") ? 3 : 1;
        }
    }
    return *known;
}

/* ---- windows ---- */

static int by_start(const void *a, const void *b)
{
    const struct kymo_why_window *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

bool kymo_why_window(struct kymo_why *w, int64_t start, int64_t end)
{
    struct kymo_why_window new = {start - KYMO_WHY_BEFORE_NS, end};
    size_t n = 0;
    APPEND(w->windows, new);
    if (w->failed)
        return false;
    qsort(w->windows.p, w->windows.n, sizeof *w->windows.p, by_start);
    for (size_t i = 1; i < w->windows.n; i++) {
        struct kymo_why_window *last = &w->windows.p[n], *next = &w->windows.p[i];
        if (next->start > last->end)
            w->windows.p[++n] = *next;
        else if (next->end > last->end)
            last->end = next->end;
    }
    w->windows.n = n + 1;
    return true;
}

/* Whether the interval from start to end overlaps a window. An interval with an unknown end is
 * treated as never ending. */
static bool wanted(const struct kymo_why *w, int64_t start, int64_t end)
{
    size_t low = 0, high = w->windows.n;
    if (high == 0)
        return true;
    while (low < high) { /* search for a window that overlaps the interval */
        size_t mid = low + (high - low) / 2;
        if (end != KYMO_NO_TIME && w->windows.p[mid].start > end)
            high = mid;
        else if (w->windows.p[mid].end < start)
            low = mid + 1;
        else
            return true;
    }
    return false;
}

/* ---- facts ---- */

static void on_stop(struct kymo_why *w, const struct kymo_event *ev)
{
    struct kymo_why_stop s = {.node = kymo_timeline_of_slot(w->r, ev->slot), .cause = ev->atom};
    if (__builtin_sub_overflow(ev->ns, ev->begun, &s.start) ||
        __builtin_add_overflow(s.start, ev->value, &s.end) || s.end > ev->ns)
        return; /* no recorder writes that */
    if (wanted(w, s.start, s.end))
        APPEND(w->stops, s);
}

static void on_event(void *arg, const struct kymo_event *ev)
{
    struct kymo_why *w = arg;
    int64_t *acted;
    if (w->windows.n > 0 && ev->ns < w->windows.p[0].start)
        return;
    switch (ev->id) {
    case KYMO_E_IN:
    case KYMO_E_EXIT: kymo_map_remove(&w->acted, ev->who); return;
    case KYMO_E_CALL:
    case KYMO_E_RETURN_TO:
    case KYMO_E_RETURN_FROM:
    case KYMO_E_EXCEPTION_FROM:
    case KYMO_E_SEND:
    case KYMO_E_SEND_NE:
        acted = kymo_map_put(&w->acted, ev->who, NULL);
        if (acted == NULL)
            w->failed = true;
        else if (*acted == 0)
            *acted = ev->ns;
        return;
    case KYMO_E_STOPPED: on_stop(w, ev); return;
    default: return;
    }
}

static void on_span(void *arg, const struct kymo_span *s)
{
    struct kymo_why *w = arg;
    struct kymo_why_span kept = {
        .process = s->process, .id = s->id, .start = s->start, .end = s->end, .mfa = s->mfa};
    if (suspends(w, s->mfa) > 1)
        APPEND(w->suspensions, kept);
    if (s->ended != KYMO_SPAN_MOMENT && wanted(w, s->start, s->end))
        APPEND(w->spans, kept);
}

static void on_mail(void *arg, const struct kymo_mail *m)
{
    struct kymo_why *w = arg;
    int64_t sent = m->sent != KYMO_NO_TIME ? m->sent : m->fetched;
    w->has_messages = true;
    if (!wanted(w, sent, m->fetched != KYMO_NO_TIME ? m->fetched : sent))
        return;
    if (KYMO_IDENT_KIND(m->to) == KYMO_I_PORT)
        APPEND(w->to_ports, *m);
    else if (m->fetched != KYMO_NO_TIME)
        APPEND(w->mails, *m);
}

static void on_request(void *arg, const struct kymo_request *q)
{
    struct kymo_why *w = arg;
    int64_t end = q->received != KYMO_NO_TIME ? q->received : q->handled_end;
    end = end != KYMO_NO_TIME && q->handled_end > end ? q->handled_end : end;
    if (!wanted(w, q->sent != KYMO_NO_TIME ? q->sent : q->fetched, end))
        return;
    if (q->kind != KYMO_REQ_CAST && !q->passed_on)
        APPEND(w->asked, *q);
    if (q->handled != KYMO_NO_TIME)
        APPEND(w->handled, *q);
}

static void on_run(void *arg, const struct kymo_run *run)
{
    struct kymo_why *w = arg;
    if (run->start == KYMO_NO_TIME)
        return;
    const int64_t *acted = kymo_map_get(&w->acted, run->process);
    struct kymo_why_run kept = {.process = run->process,
                                .slot = run->slot,
                                .in_mfa = run->in_mfa,
                                .out_mfa = run->out_mfa,
                                .start = run->start,
                                .end = run->end,
                                .runnable = run->runnable,
                                .by = run->by,
                                .exited = run->exited,
                                .state = (uint8_t)kymo_run_state(run),
                                .acted = acted != NULL ? *acted : KYMO_NO_TIME};
    struct kymo_why_newest *newest = kymo_map_put(&w->newest, run->process, NULL);
    if (newest == NULL) {
        w->failed = true;
        return;
    }
    struct kymo_why_newest before = *newest;
    bool waited = before.known && before.run.end != KYMO_NO_TIME;
    /* After a run without an end, the next run is kept too, even outside the windows: it shows
     * that the former is not the last run of the process (see close_runs). */
    bool after_endless = before.kept && before.run.end == KYMO_NO_TIME;
    /* A wait is explained by the runs before and after it, which may be outside the windows. */
    bool wait = waited && wanted(w, before.run.end, run->start);
    *newest = (struct kymo_why_newest){.run = kept, .known = true};
    newest->kept = wait || after_endless || wanted(w, run->start, run->end);
    if (wait && !before.kept)
        APPEND(w->runs, before.run);
    if (newest->kept)
        APPEND(w->runs, kept);
}

static void on_collection(void *arg, const struct kymo_collection *c)
{
    struct kymo_why *w = arg;
    if (c->start != KYMO_NO_TIME && c->end != KYMO_NO_TIME && wanted(w, c->start, c->end))
        APPEND(w->collections, *c);
}

static void on_life(void *arg, const struct kymo_life *life)
{
    struct kymo_why *w = arg;
    struct kymo_why_birth birth = {.process = life->process, .parent = life->parent, .at = life->start};
    if (birth.at != KYMO_NO_TIME && birth.parent != KYMO_IDENT_NONE && wanted(w, birth.at, birth.at))
        APPEND(w->births, birth);
}

struct kymo_why *kymo_why_new(const struct kymo_reader *r)
{
    struct kymo_why *w = calloc(1, sizeof *w);
    if (w == NULL)
        return NULL;
    w->r = r;
    w->slot = kymo_reader_slots(r, &w->n_slots);
    kymo_map_init(&w->replies, sizeof(size_t));
    kymo_map_init(&w->suspends, sizeof(uint8_t));
    kymo_map_init(&w->acted, sizeof(int64_t));
    kymo_map_init(&w->newest, sizeof(struct kymo_why_newest));
    return w;
}

void kymo_why_free(struct kymo_why *w)
{
    if (w == NULL)
        return;
    free(w->windows.p);
    free(w->runs.p);
    free(w->slots.p);
    free(w->collections.p);
    free(w->spans.p);
    free(w->mails.p);
    free(w->to_ports.p);
    free(w->asked.p);
    free(w->handled.p);
    free(w->last_ends);
    free(w->path.p);
    free(w->held_up.p);
    free(w->suspensions.p);
    free(w->stops.p);
    free(w->births.p);
    kymo_map_free(&w->replies);
    kymo_map_free(&w->suspends);
    kymo_map_free(&w->acted);
    kymo_map_free(&w->newest);
    free(w);
}

bool kymo_why_is_cut(const struct kymo_why *w)
{
    return w->facts_cut;
}

struct kymo_analysis_sink kymo_why_sink(struct kymo_why *w)
{
    return (struct kymo_analysis_sink){.arg = w,
                                       .event = on_event,
                                       .span = on_span,
                                       .mail = on_mail,
                                       .request = on_request,
                                       .run = on_run,
                                       .collection = on_collection,
                                       .life = on_life};
}

/* ---- order ---- */

/* Returns a copy of the n elements at p, sorted by their keys, or NULL if there is no memory.
 * Frees the keys. */
static void *in_order(struct kymo_why *w, struct kymo_order *keys, const void *p, size_t n, size_t size)
{
    void *to = keys != NULL && kymo_order_sort(keys, n) ? kymo_order_apply(keys, n, p, size) : NULL;
    w->failed = w->failed || to == NULL;
    free(keys);
    return to;
}

/* Keys for SORT: a member that is an unsigned number, or a time. */
#define BY(member) ((uint64_t)element_->member)
#define BY_TIME(member) kymo_order_signed(element_->member)
/* Sorts a list by two keys of its elements. */
#define SORT(list, first, second) \
    do { \
        size_t n_ = (list).n; \
        struct kymo_order *keys_ = n_ > 1 ? malloc(n_ * sizeof *keys_) : NULL; \
        for (size_t i_ = 0; i_ < n_ && keys_ != NULL; i_++) { \
            const __typeof__((list).p[0]) *element_ = &(list).p[i_]; \
            keys_[i_] = (struct kymo_order){first, second, i_}; \
        } \
        void *p_ = n_ > 1 ? in_order(w, keys_, (list).p, n_, sizeof *(list).p) : NULL; \
        if (p_ != NULL) { \
            free((list).p); \
            (list).p = p_; \
            (list).room = n_; \
        } \
    } while (0)

/* Runs without an end are dropped if there is a later one of the process, so that nothing is assumed
 * about the time up to that. The last one gets the latest possible end. */
static void close_runs(struct kymo_why *w)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->runs.n; i++) {
        struct kymo_why_run run = w->runs.p[i];
        bool last = i + 1 == w->runs.n || w->runs.p[i + 1].process != run.process;
        if (run.end == KYMO_NO_TIME && !last)
            continue;
        if (run.end == KYMO_NO_TIME)
            run.end = INT64_MAX;
        w->runs.p[kept++] = run;
    }
    w->runs.n = kept;
}

/* On a thread, a run has ended at the latest when the next one begins. */
static void bound_runs(struct kymo_why *w)
{
    for (size_t i = 0; i + 1 < w->slots.n; i++) {
        struct kymo_why_run *run = &w->slots.p[i];
        if (run->state != KYMO_RUN_ENDED && run[1].slot == run->slot)
            run->end = run[1].start;
    }
}

/* Fills last_ends, a tree in an array: number i is part of number i + (i & -i), which covers more. */
static bool find_ends(struct kymo_why *w)
{
    size_t n = w->handled.n;
    w->last_ends = malloc((n + 1) * sizeof *w->last_ends);
    if (w->last_ends == NULL)
        return false;
    for (size_t i = 1; i <= n; i++)
        w->last_ends[i] = kymo_request_done(&w->handled.p[i - 1]);
    for (size_t i = 1; i <= n; i++) {
        size_t more = i + (i & (~i + 1));
        if (more <= n)
            w->last_ends[more] = kymo_later(w->last_ends[more], w->last_ends[i]);
    }
    return true;
}

bool kymo_why_sort(struct kymo_why *w)
{
    if (w->sorted || w->failed)
        return !w->failed;
    SORT(w->runs, BY(process), BY_TIME(start));
    close_runs(w);
    w->slots.p = malloc((w->runs.n + 1) * sizeof *w->slots.p);
    if (w->slots.p == NULL) {
        w->failed = true;
        return false;
    }
    if (w->runs.n > 0)
        memcpy(w->slots.p, w->runs.p, w->runs.n * sizeof *w->slots.p);
    w->slots.n = w->runs.n;
    SORT(w->slots, BY(slot), BY_TIME(start));
    bound_runs(w);
    SORT(w->stops, BY(node), BY_TIME(start));
    SORT(w->collections, BY(process), BY_TIME(start));
    SORT(w->spans, BY(process), BY(id));
    SORT(w->mails, BY(to), BY_TIME(fetched));
    SORT(w->to_ports, BY(from), BY_TIME(sent));
    SORT(w->asked, BY(client), BY_TIME(sent));
    SORT(w->handled, BY(server), BY_TIME(handled));
    SORT(w->births, BY(process), BY_TIME(at));
    SORT(w->suspensions, BY_TIME(start), BY(id));
    w->failed = w->failed || !find_ends(w);
    if (w->failed)
        return false;
    for (size_t i = 0; i < w->asked.n; i++) {
        if (w->asked.p[i].reply_mail == 0)
            continue;
        size_t *place = kymo_map_put(&w->replies, w->asked.p[i].reply_mail, NULL);
        if (place == NULL) {
            w->failed = true;
            return false;
        }
        *place = i + 1;
    }
    w->sorted = true;
    return true;
}

/* ---- finding ---- */

/* The elements whose key, an unsigned integer of key_size bytes at `offset`, equals `key`. */
static struct kymo_why_range range_of(const void *p, size_t n, size_t size, size_t offset, size_t key_size,
                                      uint64_t key)
{
    struct kymo_why_range range;
    size_t bound[2];
    for (unsigned side = 0; side < 2; side++) {
        size_t low = 0, high = n;
        while (low < high) {
            size_t mid = low + (high - low) / 2;
            uint64_t v = 0;
            memcpy(&v, (const uint8_t *)p + mid * size + offset, key_size);
            if (v < key || (side == 1 && v == key))
                low = mid + 1;
            else
                high = mid;
        }
        bound[side] = low;
    }
    range.first = bound[0];
    range.end = bound[1];
    return range;
}

size_t kymo_why_from(const void *p, size_t size, size_t offset, struct kymo_why_range range, int64_t time)
{
    size_t low = range.first, high = range.end;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int64_t at;
        memcpy(&at, (const uint8_t *)p + mid * size + offset, sizeof(at));
        if (at < time)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

#define RANGE(list, type, member, key) \
    range_of((list).p, (list).n, sizeof(type), offsetof(type, member), sizeof((type *)0)->member, key)

struct kymo_why_range kymo_why_runs(const struct kymo_why *w, uint64_t process)
{
    return RANGE(w->runs, struct kymo_why_run, process, process);
}

struct kymo_why_range kymo_why_slot(const struct kymo_why *w, uint32_t slot)
{
    return RANGE(w->slots, struct kymo_why_run, slot, slot);
}

struct kymo_why_range kymo_why_collections(const struct kymo_why *w, uint64_t process)
{
    return RANGE(w->collections, struct kymo_collection, process, process);
}

size_t kymo_why_collection_from(const struct kymo_why *w, struct kymo_why_range c, int64_t time)
{
    return KYMO_WHY_AFTER(w->collections, struct kymo_collection, end, c, time);
}

struct kymo_why_range kymo_why_spans(const struct kymo_why *w, uint64_t process)
{
    return RANGE(w->spans, struct kymo_why_span, process, process);
}

struct kymo_why_range kymo_why_mails(const struct kymo_why *w, uint64_t to)
{
    return RANGE(w->mails, struct kymo_mail, to, to);
}

struct kymo_why_range kymo_why_to_ports(const struct kymo_why *w, uint64_t from)
{
    return RANGE(w->to_ports, struct kymo_mail, from, from);
}

struct kymo_why_range kymo_why_asked(const struct kymo_why *w, uint64_t client)
{
    return RANGE(w->asked, struct kymo_request, client, client);
}

struct kymo_why_range kymo_why_handled(const struct kymo_why *w, uint64_t server)
{
    return RANGE(w->handled, struct kymo_request, server, server);
}

const struct kymo_why_birth *kymo_why_birth(const struct kymo_why *w, uint64_t process)
{
    struct kymo_why_range range = RANGE(w->births, struct kymo_why_birth, process, process);
    return range.first < range.end ? &w->births.p[range.first] : NULL;
}

/* ---- running processes ---- */

static int64_t overlap(const struct kymo_why_run *run, int64_t start, int64_t end)
{
    int64_t from = run->start > start ? run->start : start, to = run->end < end ? run->end : end;
    return to > from ? to - from : 0;
}

/* One more than the index of the last run in the range that began before `end`; range.first if
 * there is none. */
static size_t last_before(const struct kymo_why *w, struct kymo_why_range range, int64_t end)
{
    return KYMO_WHY_FROM(w->slots, struct kymo_why_run, start, range, end);
}

static bool same_node(const struct kymo_why *w, uint32_t slot, uint32_t other)
{
    return kymo_timeline_of_slot(w->r, slot) == kymo_timeline_of_slot(w->r, other);
}

double kymo_why_busy(const struct kymo_why *w, uint32_t slot, int64_t start, int64_t end, uint64_t not_this,
                     uint64_t *who, int64_t *ns)
{
    uint32_t kind = slot < w->n_slots ? w->slot[slot].thread_kind : KYMO_T_SCHEDULER;
    struct kymo_map sums; /* process -> int64_t */
    double busiest = 0;
    *who = KYMO_IDENT_NONE;
    *ns = 0;
    if (end <= start)
        return 0;
    kymo_map_init(&sums, sizeof(int64_t));
    for (uint32_t i = 0; i < w->n_slots; i++) {
        if (w->slot[i].used == 0 || w->slot[i].thread_kind != kind || !same_node(w, i, slot))
            continue;
        struct kymo_why_range range = kymo_why_slot(w, i);
        int64_t all = 0;
        for (size_t k = last_before(w, range, end); k-- > range.first;) {
            const struct kymo_why_run *run = &w->slots.p[k];
            if (run->end <= start)
                break;
            if (run->process == not_this || run->state == KYMO_RUN_UNKNOWN)
                continue;
            int64_t time = overlap(run, start, end);
            all += time;
            if (run->state != KYMO_RUN_ENDED)
                continue;
            int64_t *sum = kymo_map_put(&sums, run->process, NULL);
            if (sum == NULL)
                continue;
            *sum += time;
            if (*sum > *ns) {
                *ns = *sum;
                *who = run->process;
            }
        }
        double part = (double)all / (double)(end - start);
        busiest = part > busiest ? part : busiest;
    }
    kymo_map_free(&sums);
    return busiest;
}

int64_t kymo_why_all_running(const struct kymo_why *w, uint32_t slot, int64_t start, int64_t end)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < w->n_slots; i++) {
        if (!same_node(w, i, slot))
            continue;
        struct kymo_why_range range = kymo_why_slot(w, i);
        for (size_t k = last_before(w, range, end); k-- > range.first && w->slots.p[k].end > start;)
            sum += overlap(&w->slots.p[k], start, end);
    }
    return sum;
}

const struct kymo_why_stop *kymo_why_stopped(const struct kymo_why *w, uint32_t slot, int64_t start,
                                             int64_t end)
{
    struct kymo_why_range range =
        RANGE(w->stops, struct kymo_why_stop, node, kymo_timeline_of_slot(w->r, slot));
    size_t low = KYMO_WHY_AFTER(w->stops, struct kymo_why_stop, end, range, start); /* they do not overlap */
    return low < range.end && w->stops.p[low].start < end ? &w->stops.p[low] : NULL;
}

/* The number of suspensions and resumptions that began at `end` or before. */
static size_t suspensions_until(const struct kymo_why *w, int64_t end)
{
    struct kymo_why_range all = {0, w->suspensions.n};
    return KYMO_WHY_AFTER(w->suspensions, struct kymo_why_span, start, all, end);
}

bool kymo_why_suspended(const struct kymo_why *w, uint64_t process, int64_t start, int64_t end,
                        struct kymo_why_suspension *found)
{
    const struct kymo_why_span *resumed = NULL;
    for (size_t i = suspensions_until(w, end); i-- > 0;) {
        const struct kymo_why_span *s = &w->suspensions.p[i];
        const uint8_t *what = kymo_map_get(&w->suspends, s->mfa);
        if (resumed == NULL && end - s->start > KYMO_WHY_JUST_NS && s->start - start <= (end - start) / 2)
            return false; /* and all others are earlier */
        if (s->process == process || what == NULL)
            continue;
        if (*what == 3 && resumed == NULL) {
            resumed = s;
        } else if (*what == 2 && resumed != NULL && s->process == resumed->process) {
            bool just = end - resumed->start <= KYMO_WHY_JUST_NS;
            *found = (struct kymo_why_suspension){s->process, s->start, just ? end : resumed->start};
            return just || 2 * (found->until - kymo_later(start, found->since)) > end - start;
        }
    }
    return false;
}
