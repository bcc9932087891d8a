/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands that are views of the analysis have in common: their options, the
 * run, names, durations as text. One thread, as the rest of the command.
 */
#ifndef KYMO_CLI_ANALYSE_H
#define KYMO_CLI_ANALYSE_H

#include <getopt.h>

#include "kymo_analysis.h"
#include "kymo_cli.h"
#include "kymo_naming.h"

struct cli_analysis {
    const char *command;
    struct cli_filter filter;
    struct kymo_reader *r;
    struct kymo_naming *naming;
    struct kymo_analysis_result result;
    int64_t t0;   /* CLOCK_MONOTONIC of the start of the recording */
    uint64_t top; /* how many lines to show */
    bool json, quiet, strict;
    bool histograms; /* JSON: members "histogram" too, see cli_json_histogram */
    /* Functions chosen by --function, as given; and the answers by canonical id: 0 not
     * asked yet, 1 no, 2 yes. */
    const char **functions;
    size_t n_functions;
    uint8_t *chosen;
    uint32_t n_chosen;
};

enum { CLI_OPT_JSON = 1100, CLI_OPT_TOP, CLI_OPT_QUIET, CLI_OPT_STRICT, CLI_OPT_FUNCTION };
#define CLI_ANALYSIS_SHORT "n:q"
#define CLI_ANALYSIS_OPTIONS \
    {"from", required_argument, NULL, CLI_OPT_FROM}, {"to", required_argument, NULL, CLI_OPT_TO}, \
        {"pid", required_argument, NULL, CLI_OPT_PID}, {"module", required_argument, NULL, CLI_OPT_MODULE}, \
        {"function", required_argument, NULL, CLI_OPT_FUNCTION}, {"json", no_argument, NULL, CLI_OPT_JSON}, \
        {"top", required_argument, NULL, CLI_OPT_TOP}, {"quiet", no_argument, NULL, CLI_OPT_QUIET}, \
    { \
        "strict", no_argument, NULL, CLI_OPT_STRICT \
    }

void cli_analysis_init(struct cli_analysis *a, const char *command, uint64_t top);
/* Takes one option of those above, short ones too. 0, or an exit status. */
int cli_analysis_option(struct cli_analysis *a, int option, const char *value);
/* Opens the recording and looks up what the options name. 0, or an exit status. */
int cli_analysis_open(struct cli_analysis *a, const char *dir);
/* The same with a reader that is open; it is closed with the analysis. */
int cli_analysis_take(struct cli_analysis *a, struct kymo_reader *r);
/* Analyses it: the sinks get the facts of the window. May be called again. */
int cli_analysis_run(struct cli_analysis *a, const struct kymo_analysis_sink *sinks, size_t n);
/* The same with a window of its own, in ns since the start of the recording. */
int cli_analysis_run_window(struct cli_analysis *a, const struct kymo_analysis_sink *sinks, size_t n,
                            int64_t from, int64_t to);
/* Flushes, looks at --strict, closes everything; returns the exit status. */
int cli_analysis_close(struct cli_analysis *a, int status);

/* Whether --pid, --module and --function let it through. */
bool cli_wants_process(const struct cli_analysis *a, uint64_t ident);
bool cli_wants_function(struct cli_analysis *a, uint32_t mfa);

/* "1.23 ms", "-" for KYMO_NO_TIME: in buf, which is returned. */
const char *cli_format_duration(int64_t ns, char *buf, size_t size);
#define CLI_DURATION(ns) cli_format_duration((ns), (char[32]){0}, 32)
/* Seconds since the start of the recording; "-" for KYMO_NO_TIME. */
const char *cli_format_since(const struct cli_analysis *a, int64_t ns, char *buf, size_t size);
#define CLI_SINCE(a, ns) cli_format_since((a), (ns), (char[32]){0}, 32)
#define CLI_COUNT(n) cli_format_count((n), (char[32]){0}, 32)

/* What the recording lacks for this command, one line each on standard error unless
 * --quiet: `what` is what the missing events would have shown. */
void cli_lacks(const struct cli_analysis *a, bool has, const char *events, const char *what);

/* JSON of the window and of what the recording has: the members of the top object
 * that all these commands begin with. */
void cli_json_analysis(const struct cli_analysis *a);
/* Members KEY (with the name) and KEY_pid. */
void cli_json_process(const struct cli_analysis *a, const char *key, uint64_t ident);
void cli_json_function(const struct cli_analysis *a, const char *key, uint32_t mfa);
/* Time since the start of the recording, in ns. */
void cli_json_since(const struct cli_analysis *a, const char *key, int64_t ns);

#endif
