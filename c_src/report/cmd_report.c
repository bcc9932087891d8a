/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo report: one HTML file that shows a recording to people without kymo. One look at
 * the recording for all sums, then one for the answers.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answers.h"
#include "calls.h"
#include "flame.h"
#include "health.h"
#include "json.h"
#include "mailboxes.h"
#include "outfile.h"
#include "page.h"
#include "stats.h"
#include "timeline.h"

/* Rows of tables, frames of each flame graph. */
enum { FUNCTIONS = 500, PROCESSES = 500, SERVERS = 100, FRAMES = 8000 };

struct report {
    struct cli_analysis a;
    const char *dir;
    struct cli_stats functions, processes, roles;
    struct cli_calls calls;
    struct cli_mailboxes mailboxes;
    struct report_flame by_role, by_process;
    struct report_timeline timeline;
    struct report_answers answers;
    struct report_names names;
};

static int init(struct report *x)
{
    int64_t first = x->a.t0, last = first;
    (void)kymo_reader_span(x->a.r, &first, &last); /* an empty recording has none */
    cli_stats_init(&x->functions, &x->a, CLI_BY_FUNCTION);
    cli_stats_init(&x->processes, &x->a, CLI_BY_PROCESS);
    cli_stats_init(&x->roles, &x->a, CLI_BY_ROLE);
    cli_mailboxes_init(&x->mailboxes, &x->a);
    report_answers_init(&x->answers, &x->a);
    report_names_init(&x->names, &x->a);
    x->a.top = SERVERS;
    int status = cli_calls_init(&x->calls, &x->a);
    if (status == KYMO_EXIT_OK)
        status = report_flame_init(&x->by_role, &x->a, true);
    if (status == KYMO_EXIT_OK)
        status = report_flame_init(&x->by_process, &x->a, false);
    if (status == KYMO_EXIT_OK)
        status = report_timeline_init(&x->timeline, &x->a, first, last);
    return status;
}

static void clear(struct report *x)
{
    cli_stats_free(&x->functions);
    cli_stats_free(&x->processes);
    cli_stats_free(&x->roles);
    cli_calls_free(&x->calls);
    cli_mailboxes_free(&x->mailboxes);
    report_flame_free(&x->by_role);
    report_flame_free(&x->by_process);
    report_timeline_free(&x->timeline);
    report_answers_free(&x->answers);
    report_names_free(&x->names);
}

static int read_all(struct report *x)
{
    const struct kymo_analysis_sink sinks[] = {
        cli_stats_sink(&x->functions),     cli_stats_sink(&x->processes),
        cli_stats_sink(&x->roles),         cli_calls_sink(&x->calls),
        cli_mailboxes_sink(&x->mailboxes), report_flame_sink(&x->by_role),
        report_flame_sink(&x->by_process), report_timeline_sink(&x->timeline),
        report_answers_sink(&x->answers)};
    int status = cli_analysis_run(&x->a, sinks, sizeof sinks / sizeof *sinks);
    if (status != KYMO_EXIT_OK)
        return status;
    return report_answers_explain(&x->answers);
}

/* ---- output ---- */

static int table(struct report *x, const char *key, const struct cli_stats *s, enum cli_stats_column order,
                 uint64_t top)
{
    cli_json_key(key);
    x->a.top = top;
    return cli_stats_show(s, order);
}

static int write_tables(struct report *x)
{
    int status = table(x, "functions", &x->functions, CLI_SELF, FUNCTIONS);
    if (status == KYMO_EXIT_OK)
        status = table(x, "processes", &x->processes, CLI_RUNNING, PROCESSES);
    if (status == KYMO_EXIT_OK)
        status = table(x, "roles", &x->roles, CLI_RUNNING, PROCESSES);
    x->a.top = SERVERS;
    if (status == KYMO_EXIT_OK) {
        cli_json_key("calls");
        status = cli_calls_show(&x->calls);
    }
    x->a.top = PROCESSES;
    if (status == KYMO_EXIT_OK) {
        cli_json_key("mailboxes");
        status = cli_mailboxes_show(&x->mailboxes, false);
    }
    return status;
}

/* Those whom the answers speak of are shown in any case. */
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
    cli_json_analysis(&x->a);
    cli_json_bool("part", x->a.filter.from != INT64_MIN || x->a.filter.to != INT64_MAX);
    report_health_json(&x->a, "recording", x->dir);
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
    report_names_json(&x->names, "names");
    cli_json_close('}');
    cli_json_end();
    return status == KYMO_EXIT_OK && x->names.failed ? cli_fail(KYMO_EXIT_MEMORY, "out of memory") : status;
}

/* In JSON a < is part of a string only, where it may be written as \u003c: whatever a
 * name is, it does not end the element that the data is in. */
static void write_without_tags(struct kymo_out *out, const char *json, size_t n)
{
    for (size_t i = 0; i < n;) {
        const char *tag = memchr(json + i, '<', n - i);
        size_t until = tag != NULL ? (size_t)(tag - json) : n;
        kymo_out_write(out, json + i, until - i);
        if (tag != NULL)
            kymo_out_write(out, "\\u003c", 6);
        i = until + (tag != NULL);
    }
}

static int write_page(const char *path, const char *json, size_t n, uint64_t *bytes)
{
    struct kymo_out out;
    char err[512] = "";
    int rc = kymo_out_open(&out, path, err, sizeof err);
    if (rc == 0) {
        kymo_out_write(&out, report_page_head, report_page_head_size);
        write_without_tags(&out, json, n);
        kymo_out_write(&out, report_page_tail, report_page_tail_size);
        *bytes = kymo_out_bytes(&out);
        rc = kymo_out_finish(&out, err, sizeof err);
    }
    if (rc == 0 || rc == -EPIPE) /* a reader that went away has seen enough */
        return KYMO_EXIT_OK;
    return cli_fail(rc == -ENOMEM ? KYMO_EXIT_MEMORY : KYMO_EXIT_WRITE, "%s", err);
}

static int write_report(struct report *x, const char *path)
{
    char *json = NULL, size[32], events[32];
    size_t n = 0;
    uint64_t bytes = 0;
    FILE *f = open_memstream(&json, &n);
    if (f == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    cli_json_to(f);
    int status = write_data(x);
    cli_json_to(NULL);
    if (fclose(f) != 0 && status == KYMO_EXIT_OK)
        status = cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    if (status == KYMO_EXIT_OK)
        status = write_page(path, json, n, &bytes);
    free(json);
    if (status == KYMO_EXIT_OK && !x->a.quiet && strcmp(path, "-") != 0)
        fprintf(stderr, "%s: %s events, %s\n", path,
                cli_format_count(x->a.result.events, events, sizeof events),
                cli_format_bytes(bytes, size, sizeof size));
    return status;
}

/* ---- the command ---- */

static int check(const char *out, int n, char **args)
{
    int status = cli_one_recording("report", n, args);
    if (status != KYMO_EXIT_OK)
        return status;
    return *out == '\0' ? cli_usage("report", "-o is missing or empty: where to?") : KYMO_EXIT_OK;
}

int cli_report(int argc, char **argv)
{
    static const struct option options[] = {
        {"from", required_argument, NULL, CLI_OPT_FROM}, {"to", required_argument, NULL, CLI_OPT_TO},
        {"output", required_argument, NULL, 'o'},        {"quiet", no_argument, NULL, CLI_OPT_QUIET},
        {"strict", no_argument, NULL, CLI_OPT_STRICT},   {NULL, 0, NULL, 0}};
    struct report *x = calloc(1, sizeof *x);
    const char *out = "";
    int status = KYMO_EXIT_OK;
    if (x == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    cli_analysis_init(&x->a, "report", 0);
    x->a.json = x->a.histograms = true;
    for (int o; status == KYMO_EXIT_OK && (o = getopt_long(argc, argv, "o:q", options, NULL)) != -1;) {
        if (o == 'o')
            out = optarg;
        else
            status = cli_analysis_option(&x->a, o, optarg);
    }
    if (status == KYMO_EXIT_OK)
        status = check(out, argc - optind, argv + optind);
    if (status == KYMO_EXIT_OK && cli_inside(out, argv[optind]))
        status = cli_usage("report", "-o: %s is inside the recording: choose another folder", out);
    x->dir = optind < argc ? argv[optind] : "";
    if (status == KYMO_EXIT_OK)
        status = cli_analysis_open(&x->a, x->dir);
    if (status == KYMO_EXIT_OK)
        status = init(x);
    if (status == KYMO_EXIT_OK)
        status = read_all(x);
    if (status == KYMO_EXIT_OK)
        status = write_report(x, out);
    clear(x);
    status = cli_analysis_close(&x->a, status);
    free(x);
    return status;
}
