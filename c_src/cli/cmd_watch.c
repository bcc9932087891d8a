/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo watch: follows a recording and prints a line of JSON each time a trigger fires. An event
 * is evaluated after a margin in which all threads have published older events.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "firing.h"
#include "follow.h"
#include "json.h"

/* A thread publishes an event within this time after taking its timestamp, unless it is
 * preempted in between. */
enum { MARGIN_NS = 100000000 };
enum { CHECK_EVERY = 4096 };
/* The maximum number of lines per pass with --piped: the reader may have no flow control. */
enum { PIPED_MAX = 1000 };

struct watch {
    struct kymo_triggers *t;
    struct kymo_reader *r;
    struct cli_follow f;
    const char *from_text;
    uint64_t limit, fired;
    uint64_t in_look;  /* lines printed in this pass */
    uint64_t left_out; /* lines beyond PIPED_MAX */
    int64_t seen;      /* CLOCK_MONOTONIC: events up to this time were evaluated */
    bool piped, quiet;
};

static void on_fired(void *arg, const struct kymo_firing *f)
{
    struct watch *w = arg;
    if (w->piped && w->in_look >= PIPED_MAX) {
        w->left_out++;
        return;
    }
    if (w->fired < w->limit)
        cli_firing_json(w->r, kymo_triggers_naming(w->t), f);
    w->fired++;
    w->in_look++;
}

static int64_t monotonic(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* True if standard input was closed, with --piped: the program that reads the firings is gone. */
static bool nobody_waits(const struct watch *w)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    return w->piped && poll(&in, 1, 0) > 0 && read(STDIN_FILENO, &byte, 1) == 0;
}

/* Reports that events were overwritten before they were read, and perhaps a firing missed. */
static void say_missed(struct watch *w)
{
    if (!w->f.missed)
        return;
    w->f.missed = false;
    kymo_triggers_gap(w->t);
    if (w->piped) {
        cli_json_open(NULL, '{');
        cli_json_bool("missed", true);
        cli_json_close('}');
        cli_json_end();
    } else if (!w->quiet) {
        cli_warn("events were overwritten or removed before they could be examined");
    }
}

static void say_seen(const struct watch *w)
{
    if (!w->piped)
        return;
    cli_json_open(NULL, '{');
    cli_json_int("seen_ns", w->seen - kymo_reader_meta(w->r)->t0_mono_ns);
    cli_json_uint("suppressed", w->left_out + kymo_triggers_suppressed(w->t));
    cli_json_close('}');
    cli_json_end();
}

static int no_memory(void)
{
    return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
}

/* Evaluates new events up to `until`. */
static int judge(struct watch *w, int64_t until)
{
    struct kymo_event ev;
    uint64_t jumps = kymo_reader_jumps(w->r), n = 0;
    int64_t newest = w->seen;
    int rc;
    while (w->fired < w->limit && (rc = kymo_reader_next(w->r, &ev)) == 1) {
        if (++n % CHECK_EVERY == 0 && (cli_follow_interrupted() || cli_output_lost() || nobody_waits(w)))
            return KYMO_EXIT_OK;
        if (ev.ns > until && jumps == 0)
            break;
        if (ev.ns > until)
            continue;
        if (!kymo_triggers_event(w->t, &ev, cli_follow_is_new(&w->f, &ev)))
            return no_memory();
        newest = ev.ns > newest ? ev.ns : newest;
    }
    if (w->fired >= w->limit)
        return KYMO_EXIT_OK;
    if (rc < 0)
        return cli_fail(cli_read_status(rc), "reading stopped: %s", strerror(-rc));
    if (until != INT64_MAX)
        newest = until;
    w->seen = newest > w->seen ? newest : w->seen;
    return kymo_triggers_round(w->t, w->seen) ? KYMO_EXIT_OK : no_memory();
}

/* Replaces the reader by one of the recording's present state. */
static int reopen(struct watch *w, const char *dir)
{
    struct kymo_reader *r;
    int status = cli_follow_reopen(&w->f, dir, w->r, &r);
    if (status != KYMO_EXIT_OK)
        return status;
    int rc = kymo_triggers_reader(w->t, r);
    kymo_reader_close(w->r);
    w->r = r;
    return rc == 0 ? KYMO_EXIT_OK : no_memory();
}

static int first(struct watch *w)
{
    int64_t from, t0 = kymo_reader_meta(w->r)->t0_mono_ns;
    if (w->from_text != NULL) {
        if (!cli_parse_time(w->from_text, w->r, &from))
            return cli_usage("watch", "--from: '%s' is not a time", w->from_text);
        kymo_triggers_from(w->t, t0 + from);
    }
    w->seen = t0;
    int rc = kymo_triggers_reader(w->t, w->r);
    return rc == 0 ? KYMO_EXIT_OK : cli_fail(cli_read_status(rc), "reading stopped: %s", strerror(-rc));
}

static int follow(struct watch *w, const char *dir)
{
    int64_t before = monotonic();
    int status = cli_open(dir, &w->r);
    if (status == KYMO_EXIT_OK)
        status = first(w);
    if (status != KYMO_EXIT_OK)
        return status;
    if (cli_follow_begin(&w->f, w->r) != 0)
        return no_memory();
    for (bool more = true; more && status == KYMO_EXIT_OK;) {
        bool over = cli_follow_is_over(w->r);
        cli_follow_round(&w->f, w->r, true);
        say_missed(w);
        w->in_look = 0;
        status = judge(w, over ? INT64_MAX : before - MARGIN_NS);
        say_seen(w);
        (void)fflush(stdout);
        more = !over && w->fired < w->limit && !cli_output_lost() && cli_follow_wait() && !nobody_waits(w);
        before = monotonic();
        if (more && status == KYMO_EXIT_OK)
            status = reopen(w, dir);
    }
    cli_follow_end(&w->f);
    return status;
}

int cli_watch(int argc, char **argv)
{
    enum { OPT_TRIGGER = 1, OPT_FROM, OPT_LIMIT, OPT_COOLDOWN, OPT_PIPED, OPT_QUIET };
    static const struct option options[] = {{"trigger", required_argument, NULL, OPT_TRIGGER},
                                            {"from", required_argument, NULL, OPT_FROM},
                                            {"limit", required_argument, NULL, OPT_LIMIT},
                                            {"piped", no_argument, NULL, OPT_PIPED},
                                            {"cooldown", required_argument, NULL, OPT_COOLDOWN},
                                            {"quiet", no_argument, NULL, OPT_QUIET},
                                            {NULL, 0, NULL, 0}};
    struct watch w = {.limit = UINT64_MAX};
    char err[512] = "";
    int status = KYMO_EXIT_OK, rc;
    int64_t ignored, cooldown;
    w.t = kymo_triggers_new(on_fired, &w);
    if (w.t == NULL)
        return no_memory();
    for (int o; status == KYMO_EXIT_OK && (o = getopt_long(argc, argv, "n:q", options, NULL)) != -1;) {
        switch (o) {
        case OPT_TRIGGER:
            rc = kymo_triggers_add(w.t, optarg, err, sizeof err);
            if (rc != 0)
                status = rc == -ENOMEM ? no_memory() : cli_usage("watch", "--trigger: %s", err);
            break;
        case OPT_FROM:
            w.from_text = optarg;
            if (!cli_parse_time(optarg, NULL, &ignored))
                status = cli_usage("watch", "--from: '%s' is not a time", optarg);
            break;
        case 'n':
        case OPT_LIMIT:
            if (!cli_parse_number(optarg, &w.limit))
                status = cli_usage("watch", "--limit: '%s' is not a number", optarg);
            break;
        case OPT_COOLDOWN:
            if (cli_parse_duration(optarg, &cooldown))
                kymo_triggers_cooldown(w.t, cooldown);
            else
                status = cli_usage("watch", "--cooldown: '%s' is not a time such as 500ms or 10s", optarg);
            break;
        case OPT_PIPED: w.piped = true; break;
        case 'q':
        case OPT_QUIET: w.quiet = true; break;
        default: status = cli_bad_option("watch");
        }
    }
    if (status == KYMO_EXIT_OK && kymo_triggers_count(w.t) == 0)
        status = cli_usage("watch", "nothing to watch for: at least one --trigger is needed");
    if (status == KYMO_EXIT_OK)
        status = cli_one_recording("watch", argc - optind, argv + optind);
    if (status == KYMO_EXIT_OK)
        status = follow(&w, argv[optind]);
    status = cli_flush(status);
    if (status == KYMO_EXIT_OK && !w.quiet && kymo_triggers_unwatched(w.t) > 0)
        cli_warn("%" PRIu64 " call%s ended: too many were open", kymo_triggers_unwatched(w.t),
                 kymo_triggers_unwatched(w.t) == 1 ? " could be examined only when it"
                                                   : "s could be examined only when they");
    kymo_triggers_free(w.t);
    kymo_reader_close(w.r);
    return status;
}
