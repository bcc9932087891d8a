/* SPDX-License-Identifier: Apache-2.0 */
#include "answers.h"

#include <stdlib.h>

#include "json.h"
#include "request_list.h"

/* Maximum number of groups; further ones are counted together. */
enum { GROUPS_MAX = 65536 };

struct group {
    struct cli_why_target slowest;
    uint64_t n;
    int64_t total;
};

void report_answers_init(struct report_answers *x, struct cli_analysis *a)
{
    *x = (struct report_answers){.a = a};
    kymo_map_init(&x->requests, sizeof(struct group));
    kymo_map_init(&x->calls, sizeof(struct group));
}

void report_answers_free(struct report_answers *x)
{
    kymo_map_free(&x->requests);
    kymo_map_free(&x->calls);
    for (size_t i = 0; i < x->n; i++)
        free(x->answer[i].why);
}

static void add(struct report_answers *x, struct kymo_map *groups, uint64_t key,
                const struct cli_why_target *t)
{
    if (groups->count >= GROUPS_MAX && kymo_map_get(groups, key) == NULL)
        key = 0;
    struct group *g = kymo_map_put(groups, key, NULL);
    if (g == NULL) {
        x->failed = true;
        return;
    }
    int64_t ns = t->end - t->start;
    if (g->n == 0 || ns > g->slowest.end - g->slowest.start)
        g->slowest = *t;
    g->n++;
    g->total += ns;
}

static void on_request(void *arg, const struct kymo_request *q)
{
    struct report_answers *x = arg;
    if (q->kind == KYMO_REQ_CAST || q->passed_on || kymo_request_total(q) == KYMO_NO_TIME ||
        !cli_wants_request(x->a, q))
        return;
    struct cli_why_target t = {.process = q->client,
                               .server = q->server,
                               .mfa = q->handler_mfa,
                               .ahead = q->ahead,
                               .start = q->sent,
                               .end = q->received,
                               .request = *q};
    uint64_t key = kymo_naming_role(x->a->naming, q->server) * 0x9e3779b97f4a7c15u ^ q->handler_mfa;
    add(x, &x->requests, key, &t);
}

static void on_span(void *arg, const struct kymo_span *s)
{
    struct report_answers *x = arg;
    /* Calls are explained only if there are no requests. */
    if (x->requests.count > 0 || s->ended == KYMO_SPAN_MOMENT || s->start == KYMO_NO_TIME ||
        s->end == KYMO_NO_TIME)
        return;
    struct cli_why_target t = {
        .process = s->process, .server = KYMO_IDENT_NONE, .mfa = s->mfa, .start = s->start, .end = s->end};
    add(x, &x->calls, s->mfa, &t);
}

struct kymo_analysis_sink report_answers_sink(struct report_answers *x)
{
    return (struct kymo_analysis_sink){.arg = x, .request = on_request, .span = on_span};
}

/* ---- choosing ---- */

static int64_t length(const struct cli_why_target *t)
{
    return t->end - t->start;
}

static int slowest_first(const void *a, const void *b)
{
    const struct group *x = *(const struct group *const *)a, *y = *(const struct group *const *)b;
    if (length(&x->slowest) != length(&y->slowest))
        return length(&x->slowest) > length(&y->slowest) ? -1 : 1;
    return x->slowest.start < y->slowest.start ? -1 : x->slowest.start > y->slowest.start;
}

/* Whether t is part of a slower one: it was made while the slower one lasted, by the server of that
 * request, or for a call by the same process. */
static bool part_of(const struct cli_why_target *t, const struct cli_why_target *slower)
{
    uint64_t by = slower->server != KYMO_IDENT_NONE ? slower->server : slower->process;
    return t->process == by && t->start >= slower->start && t->end <= slower->end;
}

/* Whether groups[i] is part of one of groups[0 .. i), which are slower. */
static bool is_part(const struct group *const *groups, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (part_of(&groups[i]->slowest, &groups[j]->slowest))
            return true;
    }
    return false;
}

static int choose(struct report_answers *x)
{
    const struct kymo_map *from = x->requests.count > 0 ? &x->requests : &x->calls;
    const struct group **groups = calloc(from->count + 1, sizeof(const struct group *));
    size_t n = 0, it = 0;
    /* Limits the number of groups examined, because each is compared with all before it. */
    enum { LOOKED_AT = 1000 };
    if (groups == NULL || x->failed) {
        free(groups);
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    }
    for (const struct group *g; (g = kymo_map_next(from, &it, NULL)) != NULL;)
        groups[n++] = g;
    qsort(groups, n, sizeof(const struct group *), slowest_first);
    for (size_t i = 0; i < n && i < LOOKED_AT && x->n < ANSWERS_MAX; i++) {
        if (!is_part(groups, i))
            x->answer[x->n++] =
                (struct report_answer){groups[i]->slowest, groups[i]->n, groups[i]->total, NULL};
    }
    free(groups);
    return KYMO_EXIT_OK;
}

static void on_answer(void *arg, const struct cli_why_target *t, const struct kymo_why_answer *answer)
{
    struct report_answers *x = arg;
    struct report_answer *to = &x->answer[x->explained++];
    (void)t;
    to->why = malloc(sizeof *to->why);
    if (to->why != NULL)
        *to->why = *answer;
    else
        x->failed = true;
}

int report_answers_explain(struct report_answers *x)
{
    struct kymo_analysis_result whole = x->a->result;
    struct cli_why_target targets[ANSWERS_MAX];
    int status = choose(x);
    for (size_t i = 0; i < x->n; i++)
        targets[i] = x->answer[i].target;
    if (status == KYMO_EXIT_OK)
        status = cli_why_explain(x->a, targets, x->n, on_answer, x);
    if (status == KYMO_EXIT_OK && x->failed)
        status = cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    x->a->result = whole;
    return status;
}

void report_answers_json(const struct report_answers *x, const char *key)
{
    cli_json_open(key, '[');
    for (size_t i = 0; i < x->n; i++) {
        cli_json_open(NULL, '{');
        cli_json_uint("of", x->answer[i].n);
        cli_json_int("of_ns", x->answer[i].total);
        cli_json_key("why");
        cli_why_json(x->a, &x->answer[i].target, x->answer[i].why);
        cli_json_close('}');
    }
    cli_json_close(']');
}
