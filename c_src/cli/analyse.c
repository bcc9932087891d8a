/* SPDX-License-Identifier: Apache-2.0 */
#include "analyse.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "kymo_timeline.h"

/* ---- options ---- */

void cli_analysis_init(struct cli_analysis *a, const char *command, uint64_t top)
{
    memset(a, 0, sizeof *a);
    a->command = command;
    a->top = top;
    cli_filter_init(&a->filter);
}

static int add_function(struct cli_analysis *a, const char *value)
{
    if (*value == '\0')
        return cli_usage(a->command, "--function: the name is empty");
    const char **more = realloc(a->functions, (a->n_functions + 1) * sizeof *more);
    if (more == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    a->functions = more;
    more[a->n_functions++] = value;
    return KYMO_EXIT_OK;
}

int cli_analysis_option(struct cli_analysis *a, int option, const char *value)
{
    switch (option) {
    case CLI_OPT_JSON: a->json = true; return KYMO_EXIT_OK;
    case 'n':
    case CLI_OPT_TOP:
        if (!cli_parse_number(value, &a->top))
            return cli_usage(a->command, "--top: '%s' is not a number", value);
        return KYMO_EXIT_OK;
    case 'q':
    case CLI_OPT_QUIET: a->quiet = true; return KYMO_EXIT_OK;
    case CLI_OPT_STRICT: a->strict = true; return KYMO_EXIT_OK;
    case CLI_OPT_FUNCTION: return add_function(a, value);
    case '?': return cli_bad_option(a->command);
    default: return cli_filter_option(&a->filter, a->command, option, value);
    }
}

/* ---- the run ---- */

int cli_analysis_take(struct cli_analysis *a, struct kymo_reader *r)
{
    a->r = r;
    a->t0 = kymo_reader_meta(a->r)->t0_mono_ns;
    int status = cli_filter_resolve(&a->filter, a->command, a->r);
    if (status != KYMO_EXIT_OK)
        return status;
    a->n_chosen = kymo_reader_dict_size(a->r) + 1;
    a->chosen = calloc(a->n_chosen, 1);
    a->naming = kymo_naming_new(a->r);
    return a->chosen != NULL && a->naming != NULL ? KYMO_EXIT_OK
                                                  : cli_fail(KYMO_EXIT_MEMORY, "out of memory");
}

int cli_analysis_open(struct cli_analysis *a, const char *dir)
{
    int status = cli_open(dir, &a->r);
    return status == KYMO_EXIT_OK ? cli_analysis_take(a, a->r) : status;
}

int cli_analysis_open_timeline(struct cli_analysis *a, int n, char **args)
{
    int status = cli_open_timeline(a->command, n, args, a->quiet, &a->r);
    return status == KYMO_EXIT_OK ? cli_analysis_take(a, a->r) : status;
}

/* There are no facts: warns why. An error if the files with all events are missing. */
static int say_empty(const struct cli_analysis *a)
{
    char first_text[32], last_text[32], missing[160];
    int64_t first, last;
    bool none = kymo_reader_span(a->r, &first, &last) != 0;
    if (none && cli_missing_phrase(a->r, missing, sizeof missing))
        return cli_fail(KYMO_EXIT_READ, "nothing to show: %s", missing);
    if (a->quiet)
        return KYMO_EXIT_OK;
    if (none)
        cli_warn("nothing to show: the recording has no events");
    else
        cli_warn("nothing to show: there is no event at that time; the recording has events from %s to %s s",
                 cli_format_since(a, first, first_text, sizeof first_text),
                 cli_format_since(a, last, last_text, sizeof last_text));
    return KYMO_EXIT_OK;
}

int cli_analysis_run_window(struct cli_analysis *a, const struct kymo_analysis_sink *sinks, size_t n,
                            int64_t from, int64_t to)
{
    struct cli_progress progress;
    struct kymo_analysis_options o = {.from_ns = from,
                                      .to_ns = to,
                                      .progress = cli_progress_show,
                                      .progress_arg = &progress,
                                      .lesson = &a->lesson};
    struct kymo_analysis_sink *all = calloc(n + 1, sizeof *all);
    char err[512] = "";
    if (all == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    all[0] = (struct kymo_analysis_sink){.arg = a->naming, .event = kymo_naming_event};
    if (n > 0)
        memcpy(all + 1, sinks, n * sizeof *sinks);
    cli_progress_start(&progress, "reading", a->quiet);
    int rc = kymo_analyse(a->r, &o, all, n + 1, &a->result, err, sizeof err);
    cli_progress_end(&progress);
    free(all);
    if (rc != 0)
        return cli_fail(cli_read_status(rc), "%s", err);
    return a->result.events == 0 ? say_empty(a) : KYMO_EXIT_OK;
}

int cli_analysis_run(struct cli_analysis *a, const struct kymo_analysis_sink *sinks, size_t n)
{
    return cli_analysis_run_window(a, sinks, n, a->filter.from, a->filter.to);
}

int cli_analysis_close(struct cli_analysis *a, int status)
{
    status = cli_flush(status);
    if (status == KYMO_EXIT_OK && (a->strict || !a->quiet))
        status = cli_say_incomplete(a->r, a->strict);
    if (status == KYMO_EXIT_OK && a->result.evicted != 0) {
        if (!a->quiet)
            cli_warn("too much was open at one time to keep it in memory: the ends are unknown of %" PRIu64
                     " messages, requests or processes; choose a shorter time with --from and --to",
                     a->result.evicted);
        status = a->strict ? KYMO_EXIT_INCOMPLETE : KYMO_EXIT_OK;
    }
    kymo_facts_free(&a->lesson.facts);
    kymo_naming_free(a->naming);
    kymo_reader_close(a->r);
    cli_filter_free(&a->filter);
    free(a->functions);
    free(a->chosen);
    return status;
}

/* ---- what is wanted ---- */

bool cli_wants_process(const struct cli_analysis *a, uint64_t ident)
{
    return a->filter.n_pids == 0 ? !kymo_naming_is_own(a->naming, ident)
                                 : cli_filter_process(&a->filter, a->r, ident);
}

bool cli_wants_request(const struct cli_analysis *a, const struct kymo_request *q)
{
    if (a->filter.n_pids == 0)
        return !kymo_naming_is_own(a->naming, q->client) && !kymo_naming_is_own(a->naming, q->server);
    return cli_wants_process(a, q->client) || cli_wants_process(a, q->server) ||
           cli_wants_process(a, q->replier);
}

static bool is_chosen(const struct cli_analysis *a, uint32_t mfa)
{
    for (size_t i = 0; i < a->n_functions; i++) {
        if (kymo_function_fits(a->naming, mfa, a->functions[i]))
            return true;
    }
    return false;
}

bool cli_wants_function(struct cli_analysis *a, uint32_t mfa)
{
    if (a->filter.n_modules != 0 && !cli_filter_function(&a->filter, a->r, mfa))
        return false;
    if (a->n_functions == 0)
        return true;
    if (mfa >= a->n_chosen)
        return false;
    if (a->chosen[mfa] == 0)
        a->chosen[mfa] = is_chosen(a, mfa) ? 2 : 1;
    return a->chosen[mfa] == 2;
}

/* ---- text ---- */

const char *cli_format_since(const struct cli_analysis *a, int64_t ns, char *buf, size_t size)
{
    if (ns == KYMO_NO_TIME)
        snprintf(buf, size, "-");
    else
        cli_format_seconds((int64_t)((uint64_t)ns - (uint64_t)a->t0), buf, size);
    return buf;
}

void cli_lacks(const struct cli_analysis *a, bool has, const char *events, const char *what)
{
    if (!has && !a->quiet && a->result.events != 0)
        cli_warn("the recording has no %s: %s", events, what);
}

void cli_casts_unplaced(const struct cli_analysis *a)
{
    uint64_t n = a->result.unplaced;
    if (n > 0 && !a->quiet)
        cli_warn("it is unknown whether and when %s cast%s handled: other messages were in the mailbox when "
                 "the recording began, or events were lost",
                 CLI_COUNT(n), n == 1 ? " was" : "s were");
}

void cli_lacks_calls(const struct cli_analysis *a, const char *what)
{
    bool only_slow = a->result.has_slow && !a->result.has_calls;
    cli_lacks(a, !only_slow, "calls other than slow ones, which kymo print --events slow shows", what);
    cli_lacks(a, only_slow || a->result.has_calls, "calls", what);
}

/* What is exact in the events of one node: what its runtime reports, if there are such events. */
static struct cli_exact exact_on(const struct cli_analysis *a, uint32_t node)
{
    const struct kymo_analysis_result *res = &a->result;
    struct cli_exact exact = cli_exact_of(kymo_timeline_meta(a->r, node)->exact);
    return (struct cli_exact){.messages = exact.messages && res->has_numbers,
                              .taken = exact.taken && res->has_taken,
                              .run_queues = exact.run_queues && res->has_runnable,
                              .calls = exact.calls && res->has_depths};
}

static bool is_any(struct cli_exact e)
{
    return e.messages || e.taken || e.run_queues || e.calls;
}

void cli_say_exact(const struct cli_analysis *a)
{
    char first[128], text[128];
    struct cli_exact exact = exact_on(a, 0);
    uint32_t nodes = kymo_timeline_size(a->r), alike = 1;
    cli_exact_text(exact, first, sizeof first);
    while (alike < nodes && strcmp(first, cli_exact_text(exact_on(a, alike), text, sizeof text)) == 0)
        alike++;
    if (alike == nodes) {
        if (is_any(exact))
            printf("exact: %s\n", first);
        return;
    }
    for (uint32_t i = 0; i < nodes; i++) {
        exact = exact_on(a, i);
        printf("exact on %s: %s\n", kymo_timeline_name(a->r, i),
               is_any(exact) ? cli_exact_text(exact, text, sizeof text) : "nothing");
    }
}

/* ---- JSON ---- */

void cli_json_since(const struct cli_analysis *a, const char *key, int64_t ns)
{
    cli_json_ns(key, ns == KYMO_NO_TIME ? ns : (int64_t)((uint64_t)ns - (uint64_t)a->t0));
}

void cli_json_analysis(const struct cli_analysis *a)
{
    const struct kymo_analysis_result *res = &a->result;
    cli_json_since(a, "first_ns", res->first);
    cli_json_since(a, "last_ns", res->last);
    cli_json_uint("events", res->events);
    cli_json_uint("lost", res->lost);
    cli_json_uint("evicted", res->evicted);
    cli_json_nodes(a->r);
    cli_json_open("has", '{');
    cli_json_bool("calls", res->has_calls);
    cli_json_bool("returns", res->has_ends);
    cli_json_bool("messages", res->has_messages);
    cli_json_bool("references", res->has_refs);
    cli_json_bool("running", res->has_running);
    cli_json_bool("gc", res->has_gc);
    cli_json_bool("message_numbers", res->has_numbers);
    cli_json_bool("taken", res->has_taken);
    cli_json_bool("run_queues", res->has_runnable);
    cli_json_bool("call_depths", res->has_depths);
    cli_json_close('}');
}

void cli_json_process(const struct cli_analysis *a, const char *key, uint64_t ident)
{
    char text[1100], member[64];
    snprintf(member, sizeof member, "%s_pid", key);
    if (ident == KYMO_IDENT_NONE) {
        cli_json_null(key);
        cli_json_null(member);
        return;
    }
    kymo_name_short(a->naming, ident, text, sizeof text);
    cli_json_text(key, text);
    kymo_format_ident(a->r, ident, text, sizeof text);
    cli_json_text(member, text);
}

void cli_json_function(const struct cli_analysis *a, const char *key, uint32_t mfa)
{
    char text[2300];
    if (mfa == 0) {
        cli_json_null(key);
        return;
    }
    kymo_name_function(a->naming, mfa, text, sizeof text);
    cli_json_text(key, text);
}
