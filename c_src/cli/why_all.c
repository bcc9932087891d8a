/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to servers of one role are a kind. The slowest hundredth are the slow ones, those between the
 * quartiles the normal ones; between both, the tail is needed for what the 99th percentile would be. Up to SAMPLES
 * of each, evenly chosen, are explained. The parts with the same cause in processes of the same role and, where it
 * is known, in the same function, are one row; time in a queue counts as what held it up.
 */
#include "why_all.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "kymo_map.h"
#include "why.h"

enum { SAMPLES = 100, ROWS = 64, AT_LEAST = 20, SHOWN = 8 };

/* Damaged recordings have durations whose sum does not fit. */
static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

struct sample {
    uint64_t client, server;
    int64_t start, ns;
    uint32_t mfa, kind;
};

/* SLOW and TAIL are the slowest tenth. */
enum group { SLOW, TAIL, NORMAL, GROUPS };

struct row {
    uint8_t cause;
    uint64_t role;
    uint32_t mfa;
    uint64_t process;              /* one of that role */
    int64_t ns[GROUPS];            /* sums */
    int64_t behind;                /* the part of ns[SLOW] in which the request waited behind others */
    int64_t of[TAIL + 1][SAMPLES]; /* of each request */
};

struct kind {
    uint64_t server;     /* one of that role */
    size_t first, n;     /* its samples, the fastest first */
    size_t size[GROUPS]; /* how many requests each group has */
    size_t explained[GROUPS];
    int64_t sum[GROUPS]; /* of the durations of those */
    int64_t cost;        /* how much longer the slow ones took than the median, in all */
    int64_t took[TAIL + 1][SAMPLES];
    struct row row[ROWS];
    size_t rows;
    bool cut; /* there was no row for some parts */
};

struct all {
    struct cli_analysis *a;
    struct sample *sample;
    size_t n, room;
    struct kymo_map kinds; /* role -> number + 1 */
    struct kind **kind;    /* those to explain, the dearest first */
    size_t n_kinds;
    struct cli_why_target *targets;
    uint32_t *of; /* for each target GROUPS times the number of its kind, and its group */
    size_t n_targets, next;
    bool cut, no_memory;
};

/* ---- all requests ---- */

static void on_request(void *arg, const struct kymo_request *q)
{
    struct all *x = arg;
    int64_t ns = kymo_request_total(q);
    if (q->passed_on || q->kind == KYMO_REQ_CAST || ns == KYMO_NO_TIME || x->no_memory ||
        !cli_wants_request(x->a, q))
        return;
    if (x->n == x->room) {
        size_t room = x->room == 0 ? 4096 : x->room * 2;
        struct sample *more = realloc(x->sample, room * sizeof *more);
        x->no_memory = more == NULL;
        if (more == NULL)
            return;
        x->sample = more;
        x->room = room;
    }
    x->sample[x->n++] = (struct sample){
        .client = q->client, .server = q->server, .start = q->sent, .ns = ns, .mfa = q->handler_mfa};
}

static int by_kind(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->ns != y->ns ? (x->ns < y->ns ? -1 : 1) : (x->start > y->start) - (x->start < y->start);
}

/* The names of processes are known only after the first reading. */
static bool number_kinds(struct all *x)
{
    for (size_t i = 0; i < x->n; i++) {
        uint32_t *number = kymo_map_put(&x->kinds, kymo_naming_role(x->a->naming, x->sample[i].server), NULL);
        if (number == NULL)
            return false;
        if (*number == 0)
            *number = (uint32_t)x->kinds.count;
        x->sample[i].kind = *number - 1;
    }
    if (x->n > 0)
        qsort(x->sample, x->n, sizeof *x->sample, by_kind);
    return true;
}

static int64_t duration_at(const struct all *x, const struct kind *k, size_t i)
{
    return x->sample[k->first + i].ns;
}

/* A hundredth is slower than the 99th percentile. */
static size_t slower(const struct kind *k)
{
    return k->n / 100;
}

/* The dearest come first; only a->top of them are kept. */
static void insert(struct all *x, struct kind *k)
{
    size_t i = x->n_kinds++;
    for (; i > 0 && x->kind[i - 1]->cost < k->cost; i--)
        x->kind[i] = x->kind[i - 1];
    x->kind[i] = k;
    if (x->n_kinds > x->a->top)
        free(x->kind[--x->n_kinds]);
}

/* Room for each kind with enough requests; only the dearest keep it. */
static bool find_kinds(struct all *x)
{
    x->kind = calloc(x->kinds.count + 1, sizeof(struct kind *));
    if (x->kind == NULL)
        return false;
    for (size_t first = 0, end; first < x->n; first = end) {
        for (end = first; end < x->n && x->sample[end].kind == x->sample[first].kind;)
            end++;
        struct kind *k = end - first >= AT_LEAST ? calloc(1, sizeof *k) : NULL;
        if (end - first < AT_LEAST)
            continue;
        if (k == NULL)
            return false;
        *k = (struct kind){.server = x->sample[first].server, .first = first, .n = end - first};
        k->size[SLOW] = slower(k) + 1;
        k->size[TAIL] = k->n / 10 > k->size[SLOW] ? k->n / 10 - k->size[SLOW] : 0;
        k->size[NORMAL] = k->n / 2;
        for (size_t i = k->n - k->size[SLOW]; i < k->n; i++)
            k->cost = plus(k->cost, duration_at(x, k, i) - duration_at(x, k, k->n / 2));
        insert(x, k);
    }
    return true;
}

/* ---- what to explain ---- */

static void choose(struct all *x, uint32_t kind, enum group group, size_t from)
{
    const struct kind *k = x->kind[kind];
    size_t n = k->size[group], take = n < SAMPLES ? n : SAMPLES;
    for (size_t i = 0; i < take; i++) {
        const struct sample *s = &x->sample[k->first + from + i * n / take];
        x->of[x->n_targets] = kind * GROUPS + group;
        x->targets[x->n_targets++] = (struct cli_why_target){.process = s->client,
                                                             .server = s->server,
                                                             .mfa = s->mfa,
                                                             .start = s->start,
                                                             .end = plus(s->start, s->ns)};
    }
}

static bool choose_all(struct all *x)
{
    size_t most = x->n_kinds * GROUPS * SAMPLES;
    x->targets = calloc(most + 1, sizeof *x->targets);
    x->of = calloc(most + 1, sizeof *x->of);
    if (x->targets == NULL || x->of == NULL)
        return false;
    for (size_t i = 0; i < x->n_kinds; i++) {
        const struct kind *k = x->kind[i];
        choose(x, (uint32_t)i, SLOW, k->n - k->size[SLOW]);
        choose(x, (uint32_t)i, TAIL, k->n - k->size[SLOW] - k->size[TAIL]);
        choose(x, (uint32_t)i, NORMAL, k->n / 4);
    }
    return true;
}

/* The row of a cause. NULL if there are too many. */
static struct row *row_of(const struct all *x, struct kind *k, uint8_t cause, uint64_t process, uint32_t mfa)
{
    uint64_t role = kymo_naming_role(x->a->naming, process);
    for (size_t i = 0; i < k->rows; i++) {
        struct row *r = &k->row[i];
        if (r->cause == cause && r->role == role && r->mfa == mfa)
            return r;
    }
    if (k->rows == ROWS) {
        k->cut = true;
        return NULL;
    }
    k->row[k->rows] = (struct row){.cause = cause, .role = role, .mfa = mfa, .process = process};
    return &k->row[k->rows++];
}

/* Adds to the row of a cause. i: number of the request in its group. */
static void add(struct row *r, enum group group, size_t i, int64_t ns, bool behind)
{
    if (r == NULL)
        return;
    r->ns[group] = plus(r->ns[group], ns);
    if (group == SLOW && behind)
        r->behind = plus(r->behind, ns);
    if (group != NORMAL)
        r->of[group][i] = plus(r->of[group][i], ns);
}

static void explained(void *arg, const struct cli_why_target *t, const struct kymo_why_answer *answer)
{
    struct all *x = arg;
    uint32_t of = x->of[x->next++];
    struct kind *k = x->kind[of / GROUPS];
    enum group group = (enum group)(of % GROUPS);
    size_t i = k->explained[group]++;
    k->sum[group] = plus(k->sum[group], t->end - t->start);
    if (group != NORMAL)
        k->took[group][i] = t->end - t->start;
    x->cut = x->cut || answer->cut;
    for (size_t j = 0; j < answer->n; j++) {
        const struct kymo_why_part *p = &answer->part[j];
        const struct kymo_why_held_up *by = &p->held_up;
        bool held_up = p->cause == KYMO_WHY_QUEUE && by->process != KYMO_IDENT_NONE;
        if (held_up)
            add(row_of(x, k, by->cause, by->process, by->mfa), group, i, by->ns, true);
        if (!held_up || p->ns > by->ns)
            add(row_of(x, k, p->cause, p->process, p->mfa), group, i, p->ns - (held_up ? by->ns : 0), false);
    }
}

/* ---- the 99th percentile without a cause ---- */

/* How many of the first n, sorted samples of the kind took longer. */
static size_t longer(const struct all *x, const struct kind *k, size_t n, int64_t ns)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (duration_at(x, k, middle) <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return n - low;
}

/* At most: those that are not explained keep their duration. Each explained request stands for as many of its
 * group as there are for each. */
static int64_t p99_without(const struct all *x, const struct kind *k, const struct row *r)
{
    int64_t low = 0, high = duration_at(x, k, k->n - 1);
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        double above = (double)longer(x, k, k->n - k->size[SLOW] - k->size[TAIL], middle);
        for (unsigned group = SLOW; group <= TAIL; group++) {
            for (size_t i = 0; i < k->explained[group]; i++)
                above += (int64_t)((uint64_t)k->took[group][i] - (uint64_t)r->of[group][i]) > middle
                             ? (double)k->size[group] / (double)k->explained[group]
                             : 0;
        }
        if (above <= (double)slower(k))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* ---- output ---- */

static int largest_first(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->ns[SLOW] != y->ns[SLOW])
        return x->ns[SLOW] > y->ns[SLOW] ? -1 : 1;
    return (x->ns[NORMAL] < y->ns[NORMAL]) - (x->ns[NORMAL] > y->ns[NORMAL]);
}

static int64_t mean(const struct kind *k, int64_t sum, enum group group)
{
    return k->explained[group] > 0 ? sum / (int64_t)k->explained[group] : 0;
}

static void text_row(const struct all *x, const struct kind *k, const struct row *r)
{
    char who[1200], function[2300];
    kymo_name_role(x->a->naming, r->process, who, sizeof who);
    kymo_name_function(x->a->naming, r->mfa, function, sizeof function);
    printf("%9s %9s %11s  %-13s %s%s%s%s", CLI_DURATION(mean(k, r->ns[SLOW], SLOW)),
           CLI_DURATION(mean(k, r->ns[NORMAL], NORMAL)), CLI_DURATION(p99_without(x, k, r)),
           kymo_why_cause_name(r->cause), r->cause == KYMO_WHY_QUEUE ? "behind others in " : "", who,
           r->mfa != 0 ? ", mostly in " : "", r->mfa != 0 ? function : "");
    if (r->behind > 0)
        printf("; %s of it behind other requests", CLI_DURATION(mean(k, r->behind, SLOW)));
    putchar('\n');
}

static void text_kind(const struct all *x, const struct kind *k)
{
    char who[1200];
    int64_t rest[GROUPS] = {0};
    size_t shown = k->rows > SHOWN + 1 ? SHOWN : k->rows;
    kymo_name_role(x->a->naming, k->server, who, sizeof who);
    printf("%s: %s requests, p50 %s, p99 %s, max %s\n", who, CLI_COUNT(k->n),
           CLI_DURATION(duration_at(x, k, k->n / 2)), CLI_DURATION(duration_at(x, k, k->n - 1 - slower(k))),
           CLI_DURATION(duration_at(x, k, k->n - 1)));
    printf("%zu slow one%s: %s on average; %zu normal ones: %s\n", k->explained[SLOW],
           k->explained[SLOW] == 1 ? "" : "s", CLI_DURATION(mean(k, k->sum[SLOW], SLOW)),
           k->explained[NORMAL], CLI_DURATION(mean(k, k->sum[NORMAL], NORMAL)));
    printf("%9s %9s %11s  cause\n", "slow", "normal", "p99 without");
    for (size_t i = 0; i < shown; i++)
        text_row(x, k, &k->row[i]);
    for (size_t i = shown; i < k->rows; i++) {
        for (unsigned group = 0; group < GROUPS; group++)
            rest[group] = plus(rest[group], k->row[i].ns[group]);
    }
    if (shown < k->rows)
        printf("%9s %9s %11s  %zu smaller ones\n", CLI_DURATION(mean(k, rest[SLOW], SLOW)),
               CLI_DURATION(mean(k, rest[NORMAL], NORMAL)), "", k->rows - shown);
}

static void json_group(const char *key, const struct kind *k, enum group group)
{
    cli_json_open(key, '{');
    cli_json_uint("explained", k->explained[group]);
    cli_json_int("mean_ns", mean(k, k->sum[group], group));
    cli_json_close('}');
}

static void json_row(const struct all *x, const struct kind *k, const struct row *r)
{
    char who[1200];
    cli_json_open(NULL, '{');
    cli_json_text("cause", kymo_why_cause_name(r->cause));
    kymo_name_role(x->a->naming, r->process, who, sizeof who);
    cli_json_text("role", who);
    cli_json_function(x->a, "function", r->mfa);
    cli_json_int("slow_ns", mean(k, r->ns[SLOW], SLOW));
    cli_json_int("behind_ns", mean(k, r->behind, SLOW));
    cli_json_int("normal_ns", mean(k, r->ns[NORMAL], NORMAL));
    cli_json_int("p99_without_ns", p99_without(x, k, r));
    cli_json_close('}');
}

static void json_kind(const struct all *x, const struct kind *k)
{
    char who[1200];
    kymo_name_role(x->a->naming, k->server, who, sizeof who);
    cli_json_open(NULL, '{');
    cli_json_text("server", who);
    cli_json_uint("requests", k->n);
    cli_json_int("p50_ns", duration_at(x, k, k->n / 2));
    cli_json_int("p99_ns", duration_at(x, k, k->n - 1 - slower(k)));
    cli_json_int("max_ns", duration_at(x, k, k->n - 1));
    json_group("slow", k, SLOW);
    json_group("normal", k, NORMAL);
    cli_json_open("causes", '[');
    for (size_t i = 0; i < k->rows; i++)
        json_row(x, k, &k->row[i]);
    cli_json_close(']');
    cli_json_bool("cut", k->cut);
    cli_json_close('}');
}

static void show(const struct all *x)
{
    if (x->a->json) {
        cli_json_open(NULL, '{');
        cli_json_analysis(x->a);
        cli_json_open("kinds", '[');
    }
    for (size_t i = 0; i < x->n_kinds && !cli_output_lost(); i++) {
        struct kind *k = x->kind[i];
        if (k->rows > 0)
            qsort(k->row, k->rows, sizeof *k->row, largest_first);
        if (!x->a->json && i > 0)
            putchar('\n');
        if (x->a->json)
            json_kind(x, k);
        else
            text_kind(x, k);
    }
    if (x->a->json) {
        cli_json_close(']');
        cli_json_close('}');
        cli_json_end();
    }
}

static void say_what_lacks(const struct all *x)
{
    const struct kymo_analysis_result *res = &x->a->result;
    if (x->a->quiet)
        return;
    if (x->n_kinds == 0)
        cli_warn("nothing to compare: no server has %d requests with a reply; %s", (int)AT_LEAST,
                 res->has_messages ? "record for longer, or give fewer options" : "record messages");
    if (x->cut)
        cli_warn("there are too many events in this time: parts of the explanation are left out");
    cli_lacks(x->a, res->has_running, "running events", "running and waiting cannot be distinguished");
}

int cli_why_all(struct cli_analysis *a)
{
    struct all x = {.a = a};
    struct kymo_analysis_sink sink = {.arg = &x, .request = on_request};
    kymo_map_init(&x.kinds, sizeof(uint32_t));
    int status = cli_analysis_run(a, &sink, 1);
    if (status == KYMO_EXIT_OK && (x.no_memory || !number_kinds(&x) || !find_kinds(&x) || !choose_all(&x)))
        status = cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    if (status == KYMO_EXIT_OK)
        status = cli_why_explain(a, x.targets, x.n_targets, explained, &x);
    if (status == KYMO_EXIT_OK) {
        say_what_lacks(&x);
        show(&x);
    }
    for (size_t i = 0; i < x.n_kinds; i++)
        free(x.kind[i]);
    free(x.kind);
    free(x.sample);
    free(x.targets);
    free(x.of);
    kymo_map_free(&x.kinds);
    return status;
}
