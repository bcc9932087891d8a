/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums up the path: steps in order of time, and parts by cause and process, with the function
 * that ran longest in each.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "why_int.h"

const char *kymo_why_cause_name(uint8_t cause)
{
    static const char *const names[KYMO_WHY_CAUSES] = {
        "unknown", "running", "running_dirty", "gc",   "queue",  "scheduler", "dirty_queue",
        "port",    "timer",   "suspended",     "node", "active", "network",   "stopped"};
    return names[cause < KYMO_WHY_CAUSES ? cause : 0];
}

static bool has_function(uint8_t cause)
{
    return cause == KYMO_WHY_RUNNING || cause == KYMO_WHY_DIRTY || cause == KYMO_WHY_ACTIVE ||
           cause == KYMO_WHY_QUEUE;
}

/* ---- functions ---- */

/* Adds the time from `from` to `to`, in which `mfa` was the innermost function, to its sum. */
static void credit(struct kymo_map *sums, uint32_t mfa, int64_t from, int64_t to, uint32_t *best,
                   int64_t *most)
{
    int64_t *sum = to > from ? kymo_map_put(sums, mfa, NULL) : NULL;
    if (sum == NULL)
        return;
    *sum += to - from;
    if (*sum > *most) {
        *most = *sum;
        *best = mfa;
    }
}

/* Stretches of one process and cause, in order of time. */
struct merged {
    const struct kymo_why_stretch *const *s;
    size_t n;
};

/* Credits mfa with the overlap of [from, to] and the stretches. *at is the first stretch that may
 * overlap; it is advanced past those that end before `from`. */
static void credit_overlap(const struct merged *m, size_t *at, struct kymo_map *sums, uint32_t mfa,
                           int64_t from, int64_t to, uint32_t *best, int64_t *most)
{
    while (*at < m->n && m->s[*at]->end <= from)
        ++*at;
    for (size_t i = *at; i < m->n && m->s[i]->start < to; i++) {
        int64_t a = m->s[i]->start > from ? m->s[i]->start : from, b = m->s[i]->end < to ? m->s[i]->end : to;
        /* On a dirty scheduler, the event of the run names the native function. */
        bool own = mfa == 0 || (m->s[i]->cause == KYMO_WHY_DIRTY && m->s[i]->mfa != 0);
        credit(sums, own ? m->s[i]->mfa : mfa, a, b, best, most);
    }
}

/* Finds the function that was innermost for most of the time of the stretches. The spans of a
 * process nest and are in the order of their calls, so one pass with a stack visits each change of
 * the innermost function. */
static void top_function(const struct kymo_why *w, uint64_t process, const struct merged *m, uint32_t *best,
                         int64_t *most)
{
    enum { STACK = 4096 };
    struct kymo_why_range range = kymo_why_spans(w, process);
    const struct kymo_why_span **stack = malloc(STACK * sizeof(const struct kymo_why_span *));
    struct kymo_map sums;
    size_t n = 0, at = 0;
    int64_t time = INT64_MIN;
    *best = 0;
    *most = 0;
    kymo_map_init(&sums, sizeof(int64_t));
    for (size_t i = range.first; stack != NULL && i <= range.end; i++) {
        const struct kymo_why_span *next = i < range.end ? &w->spans.p[i] : NULL;
        int64_t start = next != NULL ? next->start : INT64_MAX;
        /* Spans that end before the next one begins. */
        while (n > 0 && stack[n - 1]->end != KYMO_NO_TIME && stack[n - 1]->end <= start) {
            credit_overlap(m, &at, &sums, stack[n - 1]->mfa, time, stack[n - 1]->end, best, most);
            time = stack[n - 1]->end > time ? stack[n - 1]->end : time;
            n--;
        }
        credit_overlap(m, &at, &sums, n > 0 ? stack[n - 1]->mfa : 0, time, start, best, most);
        time = start;
        if (next != NULL && n < STACK)
            stack[n++] = next;
    }
    kymo_map_free(&sums);
    free(stack);
}

/* ---- parts ---- */

static int by_time(const void *a, const void *b)
{
    const struct kymo_why_stretch *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int by_part(const void *a, const void *b)
{
    const struct kymo_why_stretch *x = *(const struct kymo_why_stretch *const *)a,
                                  *y = *(const struct kymo_why_stretch *const *)b;
    if (x->cause != y->cause)
        return x->cause < y->cause ? -1 : 1;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int largest_first(const void *a, const void *b)
{
    const struct kymo_why_part *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return x->cause != y->cause ? (x->cause < y->cause ? -1 : 1)
                                : (x->process < y->process ? -1 : x->process > y->process);
}

/* The stretches from s[i] on that have the same process and cause as s[i]. */
static struct merged merge(const struct kymo_why_stretch *const *s, size_t i, size_t n)
{
    size_t end = i;
    while (end < n && s[end]->cause == s[i]->cause && s[end]->process == s[i]->process)
        end++;
    return (struct merged){s + i, end - i};
}

/* The stretches of the path with this `queue`, sorted as merge needs them, and their number in *n.
 * Returns NULL if there is no memory. */
static const struct kymo_why_stretch **in_order(const struct kymo_why_path *path, uint64_t queue, size_t *n)
{
    const struct kymo_why_stretch **s = malloc((path->n + 1) * sizeof(const struct kymo_why_stretch *));
    *n = 0;
    for (size_t i = 0; s != NULL && i < path->n; i++) {
        if (path->p[i].queue == queue)
            s[(*n)++] = &path->p[i];
    }
    if (s != NULL)
        qsort(s, *n, sizeof(const struct kymo_why_stretch *), by_part);
    return s;
}

/* Finds the process or port that is blamed for the largest part of these stretches. *blame is
 * KYMO_IDENT_NONE if none is. */
static void blame_most(const struct merged *m, uint64_t *blame, int64_t *blame_ns)
{
    struct kymo_map sums; /* process or port -> int64_t */
    int64_t most = -1;
    *blame = KYMO_IDENT_NONE;
    *blame_ns = 0;
    kymo_map_init(&sums, sizeof(int64_t));
    for (size_t i = 0; i < m->n; i++) {
        const struct kymo_why_stretch *s = m->s[i];
        int64_t *sum = s->blame != KYMO_IDENT_NONE ? kymo_map_put(&sums, s->blame, NULL) : NULL;
        if (sum == NULL)
            continue;
        *sum += s->blame_ns;
        if (*sum > most) {
            most = *blame_ns = *sum;
            *blame = s->blame;
        }
    }
    kymo_map_free(&sums);
}

/* The cause and process that took most of the time that a request waited in the mailbox of this
 * server. */
static struct kymo_why_held_up held_up(const struct kymo_why *w, uint64_t server)
{
    struct kymo_why_held_up most = {.process = KYMO_IDENT_NONE, .blame = KYMO_IDENT_NONE};
    struct merged of_most = {NULL, 0};
    size_t n;
    const struct kymo_why_stretch **s = in_order(&w->held_up, server, &n);
    for (size_t i = 0; i < n;) {
        struct merged m = merge(s, i, n);
        int64_t ns = 0;
        for (size_t k = 0; k < m.n; k++)
            ns += m.s[k]->end - m.s[k]->start;
        if (ns > most.ns) {
            most.ns = ns;
            of_most = m;
        }
        i += m.n;
    }
    if (of_most.n > 0) {
        most.cause = of_most.s[0]->cause;
        most.process = of_most.s[0]->process;
        blame_most(&of_most, &most.blame, &most.blame_ns);
        most.mfa = of_most.s[0]->mfa;
        most.to_collect = of_most.s[0]->to_collect;
        most.times = (uint32_t)of_most.n;
        if (has_function(most.cause))
            top_function(w, most.process, &of_most, &most.mfa, &most.mfa_ns);
    }
    free(s);
    return most;
}

/* The part for the stretches of one cause and process. */
static struct kymo_why_part sum_up(const struct kymo_why *w, const struct merged *m)
{
    const struct kymo_why_stretch *first = m->s[0];
    struct kymo_why_part part = {.cause = first->cause, .process = first->process};
    int64_t to_collect = 0;
    blame_most(m, &part.blame, &part.blame_ns);
    for (size_t i = 0; i < m->n; i++) {
        const struct kymo_why_stretch *s = m->s[i];
        part.ns += s->end - s->start;
        part.times++;
        part.requests = s->requests > part.requests ? s->requests : part.requests;
        part.mfa = part.mfa != 0 ? part.mfa : s->mfa;
        to_collect += s->to_collect ? s->end - s->start : 0;
    }
    part.to_collect = to_collect > part.ns / 2;
    if (has_function(part.cause))
        top_function(w, part.process, m, &part.mfa, &part.mfa_ns);
    if (part.cause == KYMO_WHY_QUEUE)
        part.held_up = held_up(w, part.process);
    return part;
}

/* Adds a part. If there is no room, the smallest is merged into the last part, whose cause is
 * unknown. */
static void add_part(struct kymo_why_answer *out, const struct kymo_why_part *part)
{
    if (out->n < KYMO_WHY_PARTS - 1) {
        out->part[out->n++] = *part;
        return;
    }
    qsort(out->part, out->n, sizeof *out->part, largest_first);
    struct kymo_why_part *last = &out->part[KYMO_WHY_PARTS - 1];
    if (out->n == KYMO_WHY_PARTS - 1) {
        memset(last, 0, sizeof *last);
        last->process = last->blame = KYMO_IDENT_NONE;
        out->n++;
    }
    struct kymo_why_part *least = &out->part[KYMO_WHY_PARTS - 2];
    const struct kymo_why_part *rest = part;
    struct kymo_why_part kept;
    if (part->ns > least->ns) {
        kept = *least;
        *least = *part;
        rest = &kept;
    }
    last->ns += rest->ns;
    last->times += rest->times;
    out->cut = true;
}

static int parts(const struct kymo_why *w, struct kymo_why_answer *out)
{
    size_t n;
    const struct kymo_why_stretch **s = in_order(&w->path, KYMO_IDENT_NONE, &n);
    if (s == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n;) {
        struct merged m = merge(s, i, n);
        struct kymo_why_part part = sum_up(w, &m);
        out->ns += part.ns;
        add_part(out, &part);
        i += m.n;
    }
    qsort(out->part, out->n, sizeof *out->part, largest_first);
    free(s);
    return 0;
}

/* ---- steps ---- */

/* Whether a stretch is part of the step that follows it. */
static bool belongs(const struct kymo_why_step *step, const struct kymo_why_stretch *s)
{
    return step->process == s->process && step->cause == s->cause && step->start == s->end;
}

static void steps(const struct kymo_why *w, struct kymo_why_answer *out)
{
    /* Collects steps from the newest backwards, as many as there is room for, then reverses
     * them. */
    size_t n = 0;
    for (size_t i = w->path.n; i-- > 0;) {
        const struct kymo_why_stretch *s = &w->path.p[i];
        struct kymo_why_step *last = n > 0 ? &out->step[n - 1] : NULL;
        if (last != NULL && belongs(last, s)) {
            last->start = s->start;
            continue;
        }
        if (n == KYMO_WHY_STEPS) {
            out->path_cut = true;
            break;
        }
        out->step[n++] = (struct kymo_why_step){.cause = s->cause,
                                                .process = s->process,
                                                .blame = s->blame,
                                                .start = s->start,
                                                .end = s->end,
                                                .mfa = s->mfa};
    }
    for (size_t i = 0; i < n / 2; i++) {
        struct kymo_why_step t = out->step[i];
        out->step[i] = out->step[n - 1 - i];
        out->step[n - 1 - i] = t;
    }
    out->n_steps = n;
}

/* Fills *out from w->path. */
static int sum_up_path(struct kymo_why *w, uint64_t process, int64_t start, int64_t end,
                       struct kymo_why_answer *out)
{
    if (w->path.n > 1)
        qsort(w->path.p, w->path.n, sizeof *w->path.p, by_time);
    out->cut = w->facts_cut || w->path_cut;
    if (w->failed)
        return -ENOMEM;
    steps(w, out);
    int rc = parts(w, out);
    if (rc == 0 && out->ns < end - start) { /* stretches were dropped for lack of room */
        struct kymo_why_part rest = {
            .process = process, .blame = KYMO_IDENT_NONE, .ns = end - start - out->ns, .times = 1};
        out->ns += rest.ns;
        add_part(out, &rest);
        qsort(out->part, out->n, sizeof *out->part, largest_first);
    }
    return rc;
}

int kymo_why_explain(struct kymo_why *w, uint64_t process, int64_t start, int64_t end,
                     struct kymo_why_answer *out)
{
    memset(out, 0, sizeof *out);
    if (end < start)
        return -EINVAL;
    if (!kymo_why_sort(w))
        return -ENOMEM;
    kymo_why_walk(w, process, start, end);
    return sum_up_path(w, process, start, end, out);
}

int kymo_why_explain_cast(struct kymo_why *w, const struct kymo_request *q, struct kymo_why_answer *out)
{
    memset(out, 0, sizeof *out);
    if (q->handled_end < q->sent)
        return -EINVAL;
    if (!kymo_why_sort(w))
        return -ENOMEM;
    kymo_why_walk_cast(w, q);
    return sum_up_path(w, q->server, q->sent, q->handled_end, out);
}
