/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared parts of the command `kymo`, built on kymo_reader.h. Single-threaded. On an error,
 * functions print the file and the reason to standard error, and return an exit status.
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
    KYMO_EXIT_SQL = 1,        /* SQLite rejected a statement */
    KYMO_EXIT_USAGE = 2,
    KYMO_EXIT_READ = 3,  /* the recording cannot be opened or read */
    KYMO_EXIT_WRITE = 4, /* the output cannot be written */
    KYMO_EXIT_MEMORY = 5,
    KYMO_EXIT_NODE = 6,    /* a node cannot be reached or recorded; also in kymo_attach_error.erl */
    KYMO_EXIT_FINDINGS = 7 /* kymo check found something */
};

/* The version of kymo: "1.2.3". */
const char *cli_version(void);

/* ---- messages (main.c) ---- */

/* Prints "kymo: ..." to standard error, and returns status. */
int cli_fail(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cli_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* As cli_fail with KYMO_EXIT_USAGE; also prints where to find help. */
int cli_usage(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same after getopt has printed the error. */
int cli_bad_option(const char *command);
/* Checks that args is exactly one recording. Returns an exit status. */
int cli_one_recording(const char *command, int n, char **args);
/* The exit status for a negative errno of the reader. */
int cli_read_status(int error);
/* Says why a recording was not opened, from the text of the reader, which begins with its name. Returns the
 * exit status. */
int cli_not_opened(int error, const char *text);
/* Opens a recording. Returns an exit status. */
int cli_open(const char *dir, struct kymo_reader **out);
/* Opens one or more recordings as one timeline (kymo_timeline.h). A folder that contains
 * recordings, as made by kymo attach, is replaced by these recordings. If the relation of their
 * clocks is uncertain, warns on standard error, unless quiet. Returns an exit status. */
int cli_open_timeline(const char *command, int n, char **args, bool quiet, struct kymo_reader **out);
/* True if the folder is not a recording but contains some; then prints which, for commands
 * that take only one recording. */
bool cli_say_inner(const char *folder);
/* Writes the JSON member "nodes" of a timeline: the names of the nodes, how their clocks are
 * related, and what their runtimes report exactly; empty for one recording. */
void cli_json_nodes(const struct kymo_reader *r);
/* Flushes standard output, and returns the exit status: `status`, or KYMO_EXIT_WRITE. A full
 * disk is an error, a closed pipe is not. */
int cli_flush(int status);
/* True if standard output is closed or cannot be written, so that the command can stop
 * early. Reads errno: call it directly after writing. */
bool cli_output_lost(void);
/* What --strict reports: the recorder lost events, other tracers removed its settings, or
 * the reader found damage. Overwriting, file retention and sampling do not count. */
bool cli_incomplete(const struct kymo_reader *r);
/* Stores how many recorded events are missing and why, if any (kymo_damage.events_missing). size is at
 * least 160. Returns false if none is. */
bool cli_missing_phrase(const struct kymo_reader *r, char *buf, size_t size);
/* Prints to standard error what is incomplete, if anything. Returns the exit status. */
int cli_say_incomplete(const struct kymo_reader *r, bool strict);
/* Warns that no event was shown. `filtered`: because of the filter. */
void cli_warn_empty(const struct kymo_reader *r, bool filtered);

/* Commands. argv[0] is the name of the command. They return an exit status. */
int cli_info(int argc, char **argv);
int cli_print(int argc, char **argv);
int cli_print_tree(int argc, char **argv);
int cli_export(int argc, char **argv);
int cli_stats(int argc, char **argv);
int cli_requests(int argc, char **argv);
int cli_why(int argc, char **argv);
int cli_mailboxes(int argc, char **argv);
int cli_check(int argc, char **argv);
int cli_diff(int argc, char **argv);
int cli_sql(int argc, char **argv);
int cli_attach(int argc, char **argv);
int cli_watch(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_claim(int argc, char **argv);  /* not for users */
int cli_report(int argc, char **argv); /* of report/ */
int cli_live(int argc, char **argv);   /* of report/ */

/* The usage text of a command (help.c); NULL for an unknown command. */
const char *cli_help(const char *command);

/* Rejects empty names of recordings, and an output that would overwrite a file of one of
 * them (export.c). `out` may be NULL or "-", which are not files. Returns an exit status. */
int cli_check_output(const char *command, const char *out, int n, char **recordings);

/* ---- progress (progress.c) ---- */

struct cli_progress {
    const char *what; /* "reading", ... */
    int64_t start_ms, shown_ms;
    bool terminal; /* standard error is a terminal, and --quiet was not given */
    bool drawn;
};
void cli_progress_start(struct cli_progress *p, const char *what, bool quiet);
/* To be called every few thousand events. Has the type of kymo_export_options.progress. */
void cli_progress_show(void *progress, uint64_t done, uint64_t total);
void cli_progress_end(struct cli_progress *p);

/* ---- filters (filter.c) ---- */

struct cli_filter {
    int64_t from, to;             /* ns since the start of the recording; INT64_MIN, INT64_MAX = no bound */
    bool all;                     /* include events before the horizon */
    bool notes_too;               /* exports: pass notes and return_to, which keep stacks correct */
    uint64_t events;              /* one bit per event id; 0 = all */
    const char **pids, **modules; /* as given */
    const char *from_text, *to_text;
    size_t n_pids, n_modules;
    /* Looked up in the recording. */
    struct kymo_map who;    /* set of idents */
    struct kymo_map names;  /* set of canonical atom ids: registered names */
    struct kymo_map wanted; /* set of canonical atom ids: modules */
};

/* Options shared by print and export, for getopt_long. */
enum { CLI_OPT_FROM = 1000, CLI_OPT_TO, CLI_OPT_PID, CLI_OPT_EVENTS, CLI_OPT_MODULE };
#define CLI_FILTER_OPTIONS \
    {"from", required_argument, NULL, CLI_OPT_FROM}, {"to", required_argument, NULL, CLI_OPT_TO}, \
        {"pid", required_argument, NULL, CLI_OPT_PID}, {"events", required_argument, NULL, CLI_OPT_EVENTS}, \
    { \
        "module", required_argument, NULL, CLI_OPT_MODULE \
    }

void cli_filter_init(struct cli_filter *f);
void cli_filter_free(struct cli_filter *f);
/* Processes one option. Returns an exit status. */
int cli_filter_option(struct cli_filter *f, const char *command, int option, const char *value);
/* Looks up names and times in the recording, and warns about names that it does not
 * contain. Returns an exit status. */
int cli_filter_resolve(struct cli_filter *f, const char *command, struct kymo_reader *r);
/* Looks up the names again in a later state of the same recording, without warnings. */
int cli_filter_resolve_names(struct cli_filter *f, const struct kymo_reader *r);
/* True if the event passes the filter, apart from the window. Has the type of
 * kymo_export_options.keep. */
bool cli_filter_keep(void *filter, const struct kymo_reader *r, const struct kymo_event *ev);

/* True if --pid selects this process, or --module the module of this function. */
bool cli_filter_process(const struct cli_filter *f, const struct kymo_reader *r, uint64_t ident);
bool cli_filter_function(const struct cli_filter *f, const struct kymo_reader *r, uint32_t mfa);

/* Parsers. They return false if the text is malformed. */
/* "1.5s", "200ms", "3m", ... in nanoseconds. A number without a unit is in seconds. */
bool cli_parse_duration(const char *text, int64_t *ns);
/* A time as --from takes it, in ns since the start of the recording. If r is NULL, only the
 * syntax is checked. */
bool cli_parse_time(const char *text, struct kymo_reader *r, int64_t *since_start);
/* <0.1.2>, 0.1.2 or #Port<0.3>. False for a registered name. */
bool cli_parse_ident(const char *text, uint64_t *ident);
/* Decimal digits only. */
bool cli_parse_number(const char *text, uint64_t *n);

/* ---- text (text.c) ---- */

/* Local time, "2024-05-01 14:00:00.123 +0200". buf of at least 48 bytes. */
void cli_format_local(int64_t unix_ns, char *buf, size_t size);
/* Seconds with nine decimals, "12.000000345". buf of at least 32 bytes. */
void cli_format_seconds(int64_t ns, char *buf, size_t size);
/* 1234567 as "1,234,567", 65536 as "64 KiB". buf of at least 32 bytes; returns buf. */
const char *cli_format_count(uint64_t n, char *buf, size_t size);
/* The ending of the word after a number. */
#define CLI_S(n) ((n) == 1 ? "" : "s")
const char *cli_format_bytes(uint64_t n, char *buf, size_t size);
/* Prints the ident of a process, its name and its initial function to standard output. */
void cli_print_process(const struct kymo_reader *r, uint64_t ident);
/* "1.23 ms", "-" for KYMO_NO_TIME. buf of at least 32 bytes; returns buf. */
const char *cli_format_duration(int64_t ns, char *buf, size_t size);
/* What is exact: which send a message comes from, when it is taken out of the mailbox, times in
 * run queues, which calls are open. */
struct cli_exact {
    bool messages, taken, run_queues, calls;
    bool stops; /* when all schedulers were stopped */
};
/* What a runtime reports, from the bits KYMO_EXACT_* of its recording. */
struct cli_exact cli_exact_of(uint32_t bits);
/* "derived" if nothing is. 128 bytes are enough. */
const char *cli_exact_text(struct cli_exact e, char *buf, size_t size);
/* Writes the JSON member "exact". */
void cli_json_exact(struct cli_exact e);
/* Text that kymo did not write, such as the name of a folder, for a terminal: control characters
 * and bytes that are not UTF-8 become \x{..}. Cut to size. Returns buf. */
enum { CLI_NAME_BYTES = 4 * 4096 };
const char *cli_printable(const char *text, char *buf, size_t size);
/* Writes a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD. */
void cli_json_string(const char *text);

/* ---- top N (tally.c) ---- */

/* Counts per key in bounded memory. Beyond a million keys the rarest are dropped, and counts
 * become lower bounds, at most `error` too low. */
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
/* Stores the largest counts in out[0..n), largest first, equal ones by key. Returns how many
 * were stored. */
size_t cli_tally_top(const struct cli_tally *t, struct cli_count *out, size_t n);

#endif
