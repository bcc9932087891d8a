/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the commands that show results of the analysis: options, running the analysis,
 * names, durations as text. Single-threaded, like all of the command.
 */
#ifndef KYMO_CLI_ANALYSE_H
#define KYMO_CLI_ANALYSE_H

#include <getopt.h>

#include "kymo_analysis.h"
#include "kymo_cli.h"
#include "kymo_lesson.h"
#include "kymo_naming.h"

struct cli_analysis {
    const char *command;
    struct cli_filter filter;
    struct kymo_reader *r;
    struct kymo_naming *naming;
    struct kymo_analysis_result result;
    struct kymo_lesson lesson; /* result of the first run, used by the next ones */
    int64_t t0;                /* CLOCK_MONOTONIC of the start of the recording */
    uint64_t top;              /* how many lines to show */
    bool json, quiet, strict;
    bool histograms; /* JSON: members "histogram" too, see cli_json_histogram */
    /* The arguments of --function; and for each canonical id whether one of them matches: 0 not
     * determined yet, 1 no, 2 yes. */
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
/* Handles one of the options above. Returns an exit status. */
int cli_analysis_option(struct cli_analysis *a, int option, const char *value);
/* Opens the recording and looks up the names in the options. Returns an exit status. */
int cli_analysis_open(struct cli_analysis *a, const char *dir);
/* The same for one or more recordings, as one timeline. */
int cli_analysis_open_timeline(struct cli_analysis *a, int n, char **args);
/* The same with an open reader, which cli_analysis_close closes. */
int cli_analysis_take(struct cli_analysis *a, struct kymo_reader *r);
/* Analyses the recording. The sinks get the facts of the window. May be called repeatedly. */
int cli_analysis_run(struct cli_analysis *a, const struct kymo_analysis_sink *sinks, size_t n);
/* The same with a window of its own, in ns since the start of the recording. */
int cli_analysis_run_window(struct cli_analysis *a, const struct kymo_analysis_sink *sinks, size_t n,
                            int64_t from, int64_t to);
/* Flushes the output, applies --strict, and closes everything. Returns the exit status. */
int cli_analysis_close(struct cli_analysis *a, int status);

/* True if --pid, --module and --function select it. Without --pid, kymo's own processes and the
 * requests to and from them are left out. */
bool cli_wants_process(const struct cli_analysis *a, uint64_t ident);
bool cli_wants_request(const struct cli_analysis *a, const struct kymo_request *q);
bool cli_wants_function(struct cli_analysis *a, uint32_t mfa);

#define CLI_DURATION(ns) cli_format_duration((ns), (char[32]){0}, 32)
/* Seconds since the start of the recording; "-" for KYMO_NO_TIME. */
const char *cli_format_since(const struct cli_analysis *a, int64_t ns, char *buf, size_t size);
#define CLI_SINCE(a, ns) cli_format_since((a), (ns), (char[32]){0}, 32)
#define CLI_COUNT(n) cli_format_count((n), (char[32]){0}, 32)

/* Unless `has`, warns on standard error that the recording has no such events, and what they
 * would have shown. Nothing with --quiet. */
void cli_lacks(const struct cli_analysis *a, bool has, const char *events, const char *what);
/* The same for calls, of which slow ones alone are not enough. */
void cli_lacks_calls(const struct cli_analysis *a, const char *what);
/* Warns of casts that may have been handled at a time which is unknown. Nothing with --quiet. */
void cli_casts_unplaced(const struct cli_analysis *a);
/* Prints a line about what the runtime reports exactly in this recording; nothing if all is
 * derived. A line for each node if the nodes of a timeline differ. After the analysis. */
void cli_say_exact(const struct cli_analysis *a);

/* Writes the members with which the JSON object of each of these commands begins: the window,
 * and what was recorded. */
void cli_json_analysis(const struct cli_analysis *a);
/* Members KEY (with the name) and KEY_pid. */
void cli_json_process(const struct cli_analysis *a, const char *key, uint64_t ident);
void cli_json_function(const struct cli_analysis *a, const char *key, uint32_t mfa);
/* Time since the start of the recording, in ns. */
void cli_json_since(const struct cli_analysis *a, const char *key, int64_t ns);

#endif
