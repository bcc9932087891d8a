/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the command `kymo`, over kymo_reader.h. One thread; everything that
 * fails says on standard error which file and why, and becomes an exit status.
 */
#ifndef KYMO_CLI_H
#define KYMO_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kymo_map.h"
#include "kymo_reader.h"

/* Exit statuses, as documented in kymo.1. */
enum {
    KYMO_EXIT_OK = 0,
    KYMO_EXIT_INCOMPLETE = 1, /* only with --strict: events are missing, see cli_incomplete */
    KYMO_EXIT_SQL = 1,        /* SQLite refused a statement */
    KYMO_EXIT_USAGE = 2,
    KYMO_EXIT_READ = 3,  /* the recording can't be opened or read */
    KYMO_EXIT_WRITE = 4, /* the output can't be written */
    KYMO_EXIT_MEMORY = 5,
    KYMO_EXIT_NODE = 6 /* a node can't be reached, or not be recorded; also of kymo_attach_error.erl */
};

/* The version of kymo: "1.2.3". */
const char *cli_version(void);

/* ---- messages (main.c) ---- */

/* "kymo: ..." on standard error; returns status. */
int cli_fail(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cli_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* As cli_fail with KYMO_EXIT_USAGE, and where to find help. */
int cli_usage(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* After getopt has said what is wrong. */
int cli_bad_option(const char *command);
/* The exit status for a negative errno of the reader. */
/* Is args the one name of a recording that `command` needs? Else an exit status. */
int cli_one_recording(const char *command, int n, char **args);
int cli_read_status(int error);
/* Opens the recording; a message and an exit status when it can't. */
int cli_open(const char *dir, struct kymo_reader **out);
/* Flushes standard output. A full disk is an error, a closed pipe is not. */
int cli_flush(int status);
/* True when standard output has gone away or can't be written: stop early. Call
 * it soon after writing: it looks at errno. */
bool cli_output_lost(void);
/* What --strict reports: the recorder lost events, others took its tracing away, or the
 * reader found damage. Overwriting, removed files and sampling are what was asked for. */
bool cli_incomplete(const struct kymo_reader *r);
/* Says on standard error what is incomplete, if anything is. The exit status. */
int cli_say_incomplete(const struct kymo_reader *r, bool strict);
/* No event was shown. `filtered`: there are some, which the user did not ask for. */
void cli_warn_empty(const struct kymo_reader *r, bool filtered);

/* Commands: argv[0] is the command's name. They return an exit status. */
int cli_info(int argc, char **argv);
int cli_print(int argc, char **argv);
int cli_print_tree(int argc, char **argv);
int cli_export(int argc, char **argv);
int cli_stats(int argc, char **argv);
int cli_calls(int argc, char **argv);
int cli_why(int argc, char **argv);
int cli_mailboxes(int argc, char **argv);
int cli_diff(int argc, char **argv);
int cli_sql(int argc, char **argv);
int cli_attach(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_report(int argc, char **argv); /* of report/ */
int cli_live(int argc, char **argv);   /* of report/ */

/* Usage texts; help.c. NULL for a command that there isn't. */
const char *cli_help(const char *command);

/* True when the output would be a file in the recording, in place of one of its own
 * (export.c). NULL and "-" are no files. */
bool cli_inside(const char *out, const char *recording);

/* ---- progress (progress.c) ---- */

struct cli_progress {
    const char *what; /* "reading", ... */
    int64_t start_ms, shown_ms;
    bool terminal; /* standard error is one, and --quiet was not given */
    bool drawn;
};
void cli_progress_start(struct cli_progress *p, const char *what, bool quiet);
/* Cheap enough for every few thousand events. Fits kymo_export_options.progress. */
void cli_progress_show(void *progress, uint64_t done, uint64_t total);
void cli_progress_end(struct cli_progress *p);

/* ---- filters (filter.c) ---- */

struct cli_filter {
    int64_t from, to; /* ns since the start of the recording; INT64_MIN, INT64_MAX = open */
    bool all;         /* events before the horizon are wanted too */
    bool notes_too;   /* exports: notes of the recorder and return_to pass, they keep stacks right */
    uint64_t tags;    /* bit per event id; 0 = all */
    const char **pids, **modules; /* as given */
    const char *from_text, *to_text;
    size_t n_pids, n_modules;
    /* Resolved against the recording. */
    struct kymo_map who;    /* set of idents */
    struct kymo_map names;  /* set of canonical atom ids: registered names */
    struct kymo_map wanted; /* set of canonical atom ids: modules */
};

/* Options shared by print and export: an option of getopt_long for each. */
enum { CLI_OPT_FROM = 1000, CLI_OPT_TO, CLI_OPT_PID, CLI_OPT_TAG, CLI_OPT_MODULE };
#define CLI_FILTER_OPTIONS \
    {"from", required_argument, NULL, CLI_OPT_FROM}, {"to", required_argument, NULL, CLI_OPT_TO}, \
        {"pid", required_argument, NULL, CLI_OPT_PID}, {"tag", required_argument, NULL, CLI_OPT_TAG}, \
    { \
        "module", required_argument, NULL, CLI_OPT_MODULE \
    }

void cli_filter_init(struct cli_filter *f);
void cli_filter_free(struct cli_filter *f);
/* Takes one option. 0, or an exit status after a message. */
int cli_filter_option(struct cli_filter *f, const char *command, int option, const char *value);
/* Looks names and times up in the recording. Warns of what is not in it. */
int cli_filter_resolve(struct cli_filter *f, const char *command, struct kymo_reader *r);
/* Looks the names up again, in a later state of the same recording. Warns of nothing. */
int cli_filter_resolve_names(struct cli_filter *f, const struct kymo_reader *r);
/* Whether the event passes all but the window; fits kymo_export_options.keep. */
bool cli_filter_keep(void *filter, const struct kymo_reader *r, const struct kymo_event *ev);

/* Whether --pid and --module name this process, or the module of this function. */
bool cli_filter_process(const struct cli_filter *f, const struct kymo_reader *r, uint64_t ident);
bool cli_filter_function(const struct cli_filter *f, const struct kymo_reader *r, uint32_t mfa);

/* "1.5s", "200ms", "3m" ...: nanoseconds. A number alone is seconds. */
bool cli_parse_duration(const char *text, int64_t *ns);
/* A time as --from takes it, in ns since the start of the recording. r may be NULL: then
 * only the form is checked. */
bool cli_parse_time(const char *text, struct kymo_reader *r, int64_t *since_start);
/* Digits only. */
bool cli_parse_number(const char *text, uint64_t *n);

/* ---- text (text.c) ---- */

/* Local time, "2024-05-01 14:00:00.123 +0200". buf of at least 48 bytes. */
void cli_format_local(int64_t unix_ns, char *buf, size_t size);
/* Seconds with nine decimals, "12.000000345". buf of at least 32 bytes. */
void cli_format_seconds(int64_t ns, char *buf, size_t size);
/* 1234567 as "1,234,567", 65536 as "64 KiB". buf of at least 32 bytes. */
const char *cli_format_count(uint64_t n, char *buf, size_t size);
const char *cli_format_bytes(uint64_t n, char *buf, size_t size);
/* A JSON string of UTF-8 text, quotes included; bytes that are not UTF-8 become
 * U+FFFD. */
void cli_json_string(const char *text);

/* ---- top N (tally.c) ---- */

/* Counts per key in bounded memory: beyond a million keys the rarest are
 * forgotten, and counts become lower bounds, at most `error` too low. */
struct cli_tally {
    struct kymo_map map; /* key -> uint64_t */
    uint64_t error;
    bool failed; /* out of memory */
    uint64_t last_key;
    uint64_t *last; /* value of last_key, NULL = none */
};
struct cli_count {
    uint64_t key, count;
};
void cli_tally_init(struct cli_tally *t);
void cli_tally_free(struct cli_tally *t);
void cli_tally_grow(struct cli_tally *t, uint64_t key);
static inline void cli_tally_add(struct cli_tally *t, uint64_t key)
{
    if (t->last == NULL || t->last_key != key)
        cli_tally_grow(t, key);
    if (t->last != NULL)
        ++*t->last;
}
/* The largest counts, largest first (ties: smaller key first), into out[0..n).
 * Returns how many there are. */
size_t cli_tally_top(const struct cli_tally *t, struct cli_count *out, size_t n);

#endif
