/* SPDX-License-Identifier: Apache-2.0 */
#include "data.h"

#include <stdlib.h>

#include "answers.h"
#include "charts.h"
#include "flame.h"
#include "health.h"
#include "json.h"
#include "mailboxes.h"
#include "requests.h"
#include "slow.h"
#include "stats.h"
#include "timeline.h"

/* Maximum number of rows of each table, and of frames of each flame graph. */
enum { FUNCTIONS = 500, SLOW_CALLS = 500, PROCESSES = 500, SERVERS = 100, FRAMES = 8000 };

struct report {
    struct cli_analysis *a;
    const char *dir;
    const struct report_live *live; /* or NULL */
    struct cli_stats functions, processes, roles;
    struct cli_requests requests;
    struct cli_mailboxes mailboxes;
    struct report_flame by_role, by_process;
    struct report_timeline timeline;
    struct report_answers answers;
    struct report_charts charts;
    struct report_slow slow;
    struct report_names names;
};

static int init(struct report *x)
{
    int64_t first = x->a->t0, last = first;
    (void)kymo_reader_span(x->a->r, &first, &last); /* an empty recording has none */
    cli_stats_init(&x->functions, x->a, CLI_BY_FUNCTION);
    cli_stats_init(&x->processes, x->a, CLI_BY_PROCESS);
    cli_stats_init(&x->roles, x->a, CLI_BY_ROLE);
    cli_mailboxes_init(&x->mailboxes, x->a);
    report_answers_init(&x->answers, x->a);
    report_names_init(&x->names, x->a);
    report_charts_init(&x->charts, x->a, first, last);
    x->a->top = SERVERS;
    int status = cli_requests_init(&x->requests, x->a);
    if (status == KYMO_EXIT_OK)
        status = report_slow_init(&x->slow, x->a, SLOW_CALLS);
    if (status == KYMO_EXIT_OK)
        status = report_flame_init(&x->by_role, x->a, true);
    if (status == KYMO_EXIT_OK)
        status = report_flame_init(&x->by_process, x->a, false);
    if (status == KYMO_EXIT_OK)
        status = report_timeline_init(&x->timeline, x->a, first, last);
    return status;
}

static void clear(struct report *x)
{
    cli_stats_free(&x->functions);
    cli_stats_free(&x->processes);
    cli_stats_free(&x->roles);
    cli_requests_free(&x->requests);
    cli_mailboxes_free(&x->mailboxes);
    report_flame_free(&x->by_role);
    report_flame_free(&x->by_process);
    report_timeline_free(&x->timeline);
    report_answers_free(&x->answers);
    report_names_free(&x->names);
    report_charts_free(&x->charts);
    report_slow_free(&x->slow);
}

static int read_all(struct report *x)
{
    const struct kymo_analysis_sink sinks[] = {
        cli_stats_sink(&x->functions),     cli_stats_sink(&x->processes),
        cli_stats_sink(&x->roles),         cli_requests_sink(&x->requests),
        cli_mailboxes_sink(&x->mailboxes), report_flame_sink(&x->by_role),
        report_flame_sink(&x->by_process), report_timeline_sink(&x->timeline),
        report_answers_sink(&x->answers),  report_charts_sink(&x->charts),
        report_slow_sink(&x->slow)};
    int status = cli_analysis_run(x->a, sinks, sizeof sinks / sizeof *sinks);
    if (status != KYMO_EXIT_OK)
        return status;
    return report_answers_explain(&x->answers);
}

/* ---- JSON ---- */

static int table(struct report *x, const char *key, const struct cli_stats *s, enum cli_stats_column order,
                 uint64_t top)
{
    cli_json_key(key);
    x->a->top = top;
    return cli_stats_show(s, order);
}

static int write_tables(struct report *x)
{
    int status = table(x, "functions", &x->functions, CLI_SELF, FUNCTIONS);
    if (status == KYMO_EXIT_OK)
        status = table(x, "processes", &x->processes, CLI_RUNNING, PROCESSES);
    if (status == KYMO_EXIT_OK)
        status = table(x, "roles", &x->roles, CLI_RUNNING, PROCESSES);
    report_slow_json(&x->slow, "slow_calls");
    x->a->top = SERVERS;
    if (status == KYMO_EXIT_OK) {
        cli_json_key("requests");
        status = cli_requests_show(&x->requests);
    }
    x->a->top = PROCESSES;
    if (status == KYMO_EXIT_OK) {
        cli_json_key("mailboxes");
        status = cli_mailboxes_show(&x->mailboxes, false);
    }
    return status;
}

/* The processes that occur in the answers always get a lane. */
static void want_lanes(struct report *x)
{
    for (size_t i = 0; i < x->answers.n; i++) {
        const struct report_answer *answer = &x->answers.answer[i];
        report_lanes_want(&x->timeline.lanes, answer->target.process);
        report_lanes_want(&x->timeline.lanes, answer->target.server);
        for (size_t k = 0; k < answer->why->n; k++)
            report_lanes_want(&x->timeline.lanes, answer->why->part[k].process);
    }
}

static int write_data(struct report *x)
{
    cli_json_open(NULL, '{');
    cli_json_text("version", cli_version());
    cli_json_analysis(x->a);
    cli_json_bool("part", x->a->filter.from != INT64_MIN || x->a->filter.to != INT64_MAX);
    if (x->live != NULL)
        report_live_json(x->live);
    report_health_json(x->a, "recording", x->dir);
    report_answers_json(&x->answers, "answers");
    int status = write_tables(x);
    want_lanes(x);
    cli_json_open("flame", '{');
    if (status == KYMO_EXIT_OK)
        status = report_flame_json(&x->by_role, "role", FRAMES, &x->names);
    if (status == KYMO_EXIT_OK)
        status = report_flame_json(&x->by_process, "process", FRAMES, &x->names);
    cli_json_close('}');
    if (status == KYMO_EXIT_OK)
        status = report_timeline_json(&x->timeline, "timeline", &x->names);
    if (status == KYMO_EXIT_OK)
        status = report_charts_json(&x->charts, "counters");
    report_names_json(&x->names, "names");
    cli_json_close('}');
    cli_json_end();
    return status == KYMO_EXIT_OK && x->names.failed ? cli_fail(KYMO_EXIT_MEMORY, "out of memory") : status;
}

int report_data_write(struct cli_analysis *a, const char *dir, const struct report_live *live, FILE *f)
{
    struct report *x = calloc(1, sizeof *x);
    if (x == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    x->a = a;
    x->dir = dir;
    x->live = live;
    a->json = a->histograms = true;
    int status = init(x);
    if (status == KYMO_EXIT_OK)
        status = read_all(x);
    cli_json_to(f);
    if (status == KYMO_EXIT_OK)
        status = write_data(x);
    cli_json_to(NULL);
    clear(x);
    free(x);
    return status;
}

void report_live_json(const struct report_live *live)
{
    cli_json_open("live", '{');
    cli_json_bool("over", live->over != NULL);
    cli_json_text("why", live->over != NULL ? live->over : live->failed != NULL ? live->failed : "");
    cli_json_ns("window_ns", live->window);
    cli_json_ns("wanted_ns", live->wanted);
    cli_json_int("until_unix_ns", live->until_unix);
    cli_json_ns("interval_ns", live->interval);
    cli_json_close('}');
}
