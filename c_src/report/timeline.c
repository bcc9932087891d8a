/* SPDX-License-Identifier: Apache-2.0 */
#include "timeline.h"

#include <stdlib.h>

#include "json.h"

enum { LANES_SHOWN = 250, PARTS = 480 };

/* How many are kept: the longest of all, and the longest of each part of the recording. */
static const struct {
    const char *name;
    uint32_t most, each;
} limits[ROWS] = {{"calls", 6000, 16},
                  {"runs", 4000, 8},
                  {"requests", 2000, 3},
                  {"messages", 1500, 3},
                  {"collections", 1000, 2}};

int report_timeline_init(struct report_timeline *t, struct cli_analysis *a, int64_t first, int64_t last)
{
    bool ok = report_lanes_init(&t->lanes, a, first, last);
    t->a = a;
    for (unsigned i = 0; i < ROWS; i++)
        ok &= report_largest_init(&t->rows[i], limits[i].most, PARTS, limits[i].each, first, last);
    return ok ? KYMO_EXIT_OK : cli_fail(KYMO_EXIT_MEMORY, "out of memory");
}

void report_timeline_free(struct report_timeline *t)
{
    report_lanes_free(&t->lanes);
    for (unsigned i = 0; i < ROWS; i++)
        report_largest_free(&t->rows[i]);
}

/* ---- collecting ---- */

static void keep_call(struct report_largest *rows, const struct kymo_span *s)
{
    if (s->ended == KYMO_SPAN_MOMENT || s->start == KYMO_NO_TIME || s->end == KYMO_NO_TIME)
        return;
    struct report_stretch x = {.id = s->id,
                               .start = s->start,
                               .end = s->end,
                               .process = s->process,
                               .other = KYMO_IDENT_NONE,
                               .mfa = s->mfa,
                               .depth = s->depth};
    report_largest_add(&rows[ROW_CALLS], &x);
}

static void keep_run(struct report_largest *rows, const struct kymo_run *run)
{
    if (run->start == KYMO_NO_TIME || run->end == KYMO_NO_TIME)
        return;
    struct report_stretch x = {.start = run->start,
                               .end = run->end,
                               .process = run->process,
                               .other = run->slot,
                               .mfa = run->in_mfa};
    report_largest_add(&rows[ROW_RUNS], &x);
}

static void keep_request(struct report_largest *rows, const struct kymo_request *q)
{
    int64_t end = q->kind == KYMO_REQ_CAST ? q->handled_end : q->received;
    if (q->sent == KYMO_NO_TIME || end == KYMO_NO_TIME)
        return;
    struct report_stretch x = {.id = q->id,
                               .start = q->sent,
                               .end = end,
                               .middle = {q->handled, q->replied < end ? q->replied : KYMO_NO_TIME},
                               .process = q->client,
                               .other = q->server,
                               .mfa = q->handler_mfa};
    report_largest_add(&rows[ROW_REQUESTS], &x);
}

static void keep_message(struct report_largest *rows, const struct kymo_mail *m)
{
    if (m->sent == KYMO_NO_TIME || m->fetched == KYMO_NO_TIME || m->from == KYMO_IDENT_NONE)
        return;
    struct report_stretch x = {
        .id = m->id, .start = m->sent, .end = m->fetched, .process = m->from, .other = m->to};
    report_largest_add(&rows[ROW_MESSAGES], &x);
}

static void keep_collection(struct report_largest *rows, const struct kymo_collection *c)
{
    if (c->start == KYMO_NO_TIME || c->end == KYMO_NO_TIME)
        return;
    struct report_stretch x = {.start = c->start,
                               .end = c->end,
                               .middle = {(int64_t)c->before.heap, (int64_t)c->after.heap},
                               .process = c->process,
                               .other = KYMO_IDENT_NONE,
                               .depth = c->major};
    report_largest_add(&rows[ROW_COLLECTIONS], &x);
}

static void on_span(void *arg, const struct kymo_span *s)
{
    struct report_timeline *t = arg;
    report_lanes_call(&t->lanes, s);
    keep_call(t->rows, s);
}

static void on_run(void *arg, const struct kymo_run *run)
{
    struct report_timeline *t = arg;
    report_lanes_run(&t->lanes, run);
    keep_run(t->rows, run);
}

static void on_request(void *arg, const struct kymo_request *q)
{
    struct report_timeline *t = arg;
    if (cli_wants_request(t->a, q))
        keep_request(t->rows, q);
}

static void on_mail(void *arg, const struct kymo_mail *m)
{
    keep_message(((struct report_timeline *)arg)->rows, m);
}

static void on_collection(void *arg, const struct kymo_collection *c)
{
    struct report_timeline *t = arg;
    report_lanes_collection(&t->lanes, c);
    keep_collection(t->rows, c);
}

struct kymo_analysis_sink report_timeline_sink(struct report_timeline *t)
{
    return (struct kymo_analysis_sink){.arg = t,
                                       .span = on_span,
                                       .run = on_run,
                                       .request = on_request,
                                       .mail = on_mail,
                                       .collection = on_collection};
}

/* ---- output ---- */

enum column { C_LANE, C_START, C_NS, C_OTHER, C_NAME, C_DEPTH, C_MIDDLE, C_MIDDLE_2, COLUMNS };
static const char *const column_names[COLUMNS] = {"lane", "start", "ns",    "other",
                                                  "name", "depth", "first", "second"};

static bool has_column(enum report_row row, enum column c)
{
    switch (c) {
    case C_OTHER: return row == ROW_RUNS || row == ROW_REQUESTS || row == ROW_MESSAGES;
    case C_NAME: return row == ROW_CALLS || row == ROW_RUNS || row == ROW_REQUESTS;
    case C_DEPTH: return row == ROW_CALLS || row == ROW_COLLECTIONS;
    case C_MIDDLE:
    case C_MIDDLE_2: return row == ROW_REQUESTS || row == ROW_COLLECTIONS;
    default: return true;
    }
}

static void write_cell(const struct report_timeline *t, enum report_row row, enum column c,
                       const struct report_stretch *s, int64_t before, struct report_names *names)
{
    switch (c) {
    case C_LANE: cli_json_int(NULL, report_lane_of(&t->lanes, s->process)); break;
    case C_START: cli_json_int(NULL, s->start - before); break;
    case C_NS: cli_json_int(NULL, s->end - s->start); break;
    case C_OTHER:
        cli_json_int(NULL, row == ROW_RUNS ? (int64_t)s->other : report_lane_of(&t->lanes, s->other));
        break;
    case C_NAME:
        cli_json_int(NULL, s->mfa != 0 ? (int64_t)report_name(names, REPORT_FUNCTION, s->mfa) : -1);
        break;
    case C_DEPTH: cli_json_uint(NULL, s->depth); break;
    default: {
        int64_t v = s->middle[c - C_MIDDLE];
        if (row == ROW_REQUESTS && v != KYMO_NO_TIME)
            v -= s->start;
        cli_json_ns(NULL, v);
    }
    }
}

/* Removes stretches whose process has no lane in the page. */
static size_t in_lanes(const struct report_timeline *t, struct report_stretch *list, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (report_lane_of(&t->lanes, list[i].process) >= 0)
            list[kept++] = list[i];
    }
    return kept;
}

static int write_row(const struct report_timeline *t, enum report_row row, struct report_names *names)
{
    size_t n;
    struct report_stretch *list = report_largest_list(&t->rows[row], &n);
    if (list == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    n = in_lanes(t, list, n);
    cli_json_open(limits[row].name, '{');
    cli_json_uint("in_all", t->rows[row].seen);
    for (enum column c = C_LANE; c < COLUMNS; c++) {
        int64_t before = t->a->t0;
        if (!has_column(row, c))
            continue;
        cli_json_open(column_names[c], '[');
        for (size_t i = 0; i < n; i++) {
            write_cell(t, row, c, &list[i], before, names);
            before = list[i].start;
        }
        cli_json_close(']');
    }
    cli_json_close('}');
    free(list);
    return KYMO_EXIT_OK;
}

int report_timeline_json(struct report_timeline *t, const char *key, struct report_names *names)
{
    int status = KYMO_EXIT_OK;
    if (t->lanes.failed || !report_lanes_choose(&t->lanes, LANES_SHOWN))
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    cli_json_open(key, '{');
    cli_json_int("first_ns", t->lanes.first - t->a->t0);
    cli_json_int("last_ns", t->lanes.last - t->a->t0);
    report_lanes_json(&t->lanes);
    for (enum report_row row = ROW_CALLS; row < ROWS && status == KYMO_EXIT_OK; row++)
        status = write_row(t, row, names);
    cli_json_close('}');
    return status;
}
