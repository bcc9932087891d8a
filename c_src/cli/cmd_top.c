/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo top: the current activity of a node, from its recording. On a terminal an interactive
 * screen, elsewhere tables or a line of JSON for each window.
 */
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "attach_show.h"
#include "terminal.h"
#include "top.h"

enum { SECOND = 1000000000, ROWS = 10, LINES_AROUND = 8, HOURS_MAX = 3600 };

struct top {
    struct cli_live live;
    struct cli_top_order order;
    struct cli_top_size size;
    int64_t interval;
    uint64_t count; /* windows to show; 0 = until the end */
    uint64_t rows;  /* --rows; 0 = not given */
    bool json, quiet, screen;
    bool fresh; /* the recording has just begun: wait for the first window */
    bool paused;
    const char *title; /* the name of the recording or node, as given */
};

/* ---- the screen ---- */

static const struct {
    char key;
    const char *column;
} sort_keys[] = {{'c', "calls"},   {'s', "self"}, {'9', "p99"}, {'m', "max"},
                 {'r', "running"}, {'i', "in"},   {'o', "out"}, {'w', "waiting"}};
enum { SORT_KEYS = sizeof sort_keys / sizeof *sort_keys };

static int draw(struct top *t)
{
    char *text = NULL;
    size_t n = 0;
    unsigned rows, columns;
    char title[CLI_NAME_BYTES];
    FILE *f = open_memstream(&text, &n);
    if (f == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    cli_terminal_size(&rows, &columns);
    size_t around = LINES_AROUND + cli_node_now_lines(&t->live.node);
    size_t room = rows > around + 2 ? rows - around : 2;
    t->size.processes = room / 2;
    t->size.functions = room - room / 2;
    fprintf(f, "\001kymo top %s, by %s and %s%s\n", cli_printable(t->title, title, sizeof title),
            cli_top_column_name(t->order.functions), cli_top_column_name(t->order.processes),
            t->paused ? ", PAUSED" : "");
    bool good = cli_top_text(f, &t->live, &t->order, &t->size);
    fputs("q quit, space pause, sort by c s 9 m (functions), r i o w (processes)", f);
    good = fclose(f) == 0 && good;
    if (good)
        cli_terminal_draw(text, n);
    free(text);
    return good ? KYMO_EXIT_OK : cli_fail(KYMO_EXIT_MEMORY, "out of memory");
}

/* Handles a key. Returns false to quit. */
static bool obey(struct top *t, int key)
{
    if (key == 'q' || key == 'Q' || key == CLI_TERMINAL_END)
        return false;
    if (key == ' ' || key == 'p') {
        t->paused = !t->paused;
        if (!t->paused)
            cli_live_jump(&t->live);
    }
    for (int i = 0; i < SORT_KEYS; i++) {
        if (key == sort_keys[i].key)
            (void)cli_top_sort_by(&t->order, sort_keys[i].column);
    }
    return true;
}

/* ---- the loop ---- */

static int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

static int show(struct top *t)
{
    bool good;
    if (t->screen)
        return draw(t);
    if (t->json)
        good = cli_top_json(&t->live, &t->order, &t->size);
    else
        good = cli_top_text(stdout, &t->live, &t->order, &t->size) && putchar('\n') != EOF;
    (void)fflush(stdout);
    return good || cli_output_lost() ? KYMO_EXIT_OK : cli_fail(KYMO_EXIT_MEMORY, "out of memory");
}

/* Waits until `next`, and handles keys. Returns false at the end; *status is the exit status. */
static bool wait_for(struct top *t, int64_t next, int *status)
{
    for (;;) {
        int key = cli_terminal_wait(t->paused ? INT64_MAX : next);
        if (key == CLI_TERMINAL_TIME)
            return true;
        bool was_paused = t->paused;
        if (!obey(t, key))
            return false;
        if (was_paused && !t->paused)
            return true;
        *status = draw(t);
        if (*status != KYMO_EXIT_OK)
            return false;
    }
}

/* Waits until `next`. Returns false if SIGINT or SIGTERM has arrived. */
static bool wait_without_keys(int64_t next)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    int64_t left = next - clock_ns();
    const struct timespec time = {.tv_sec = left > 0 ? left / SECOND : 0,
                                  .tv_nsec = left > 0 ? left % SECOND : 0};
    return sigtimedwait(&set, NULL, &time) < 0;
}

static int loop(struct top *t)
{
    int status = KYMO_EXIT_OK;
    int64_t next = clock_ns();
    if (t->fresh && !t->screen) {
        if (!wait_without_keys(next += t->interval))
            return status;
        status = cli_live_again(&t->live);
        if (status != KYMO_EXIT_OK)
            return status;
    }
    for (uint64_t shown = 0;;) {
        status = cli_live_round(&t->live);
        if (status != KYMO_EXIT_OK || t->live.interrupted)
            return status;
        status = show(t);
        if (status != KYMO_EXIT_OK || ++shown == t->count || t->live.over || cli_output_lost())
            return status;
        next += t->interval;
        if (next < clock_ns()) /* the round took longer than the interval */
            next = clock_ns();
        if (t->screen ? !wait_for(t, next, &status) : !wait_without_keys(next))
            return status;
    }
}

static int show_dir(struct top *t, const char *dir)
{
    int status = cli_live_open(&t->live, "top", dir, t->interval);
    if (status == KYMO_EXIT_OK && t->screen) {
        int rc = cli_terminal_open();
        if (rc != 0)
            status = cli_fail(KYMO_EXIT_WRITE, "the terminal: %s", strerror(-rc));
    }
    if (status == KYMO_EXIT_OK)
        status = loop(t);
    if (t->screen)
        cli_terminal_close();
    char why[96];
    if (status == KYMO_EXIT_OK && t->live.over && !t->quiet)
        cli_warn("%s: %s; kymo report shows all of the recording", dir,
                 cli_live_why_over(t->live.a.r, why, sizeof why));
    cli_live_close(&t->live);
    return cli_flush(status);
}

static int show_node(struct top *t, const struct attach_options *o, char **nodes)
{
    struct attach_show s;
    int status = attach_show_open(&s, o, nodes, t->quiet);
    t->fresh = true;
    if (status == KYMO_EXIT_OK)
        status = show_dir(t, s.dir);
    return attach_show_close(&s, status);
}

/* ---- options ---- */

enum { OPT_ONCE = 1, OPT_SORT, OPT_ROWS, OPT_JSON };

static int take(struct top *t, int option, const char *value)
{
    switch (option) {
    case 'd':
        if (!cli_parse_duration(value, &t->interval) || t->interval < SECOND / 10 ||
            t->interval > (int64_t)HOURS_MAX * SECOND)
            return cli_usage("top", "--delay takes a time from 100ms to 1h, not '%s'", value);
        return KYMO_EXIT_OK;
    case 'n':
        if (!cli_parse_number(value, &t->count) || t->count == 0)
            return cli_usage("top", "--count takes a number from 1 on, not '%s'", value);
        return KYMO_EXIT_OK;
    case OPT_ONCE: t->count = 1; return KYMO_EXIT_OK;
    case OPT_SORT:
        if (!cli_top_sort_by(&t->order, value))
            return cli_usage("top", "--sort takes %s, not '%s'", cli_top_column_names(), value);
        return KYMO_EXIT_OK;
    case OPT_ROWS:
        if (!cli_parse_number(value, &t->rows) || t->rows == 0)
            return cli_usage("top", "--rows takes a number from 1 on, not '%s'", value);
        return KYMO_EXIT_OK;
    case OPT_JSON: t->json = true; return KYMO_EXIT_OK;
    case 'q': t->quiet = true; return KYMO_EXIT_OK;
    default: return cli_bad_option("top");
    }
}

int cli_top(int argc, char **argv)
{
    struct option options[16 + ATTACH_OPTIONS] = {{"delay", required_argument, NULL, 'd'},
                                                  {"count", required_argument, NULL, 'n'},
                                                  {"once", no_argument, NULL, OPT_ONCE},
                                                  {"sort", required_argument, NULL, OPT_SORT},
                                                  {"rows", required_argument, NULL, OPT_ROWS},
                                                  {"json", no_argument, NULL, OPT_JSON},
                                                  {"quiet", no_argument, NULL, 'q'}};
    enum { OWN = 7 };
    struct attach_options node;
    struct top *t = calloc(1, sizeof *t);
    bool is_node = false;
    if (t == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    attach_options_init(&node, "top");
    (void)attach_options_add(options, OWN, "node-port");
    t->interval = SECOND;
    t->order = (struct cli_top_order){.functions = CLI_TOP_SELF, .processes = CLI_TOP_RUNNING};
    int status = KYMO_EXIT_OK;
    for (int o; status == KYMO_EXIT_OK && (o = getopt_long(argc, argv, "d:n:q", options, NULL)) != -1;)
        status = o >= ATTACH_OPTION ? attach_options_take(&node, o, optarg) : take(t, o, optarg);
    if (status == KYMO_EXIT_OK)
        status = attach_show_target(&node, argc - optind, argv + optind, &is_node);
    t->screen = t->count == 0 && !t->json && isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
    t->size.functions = t->size.processes = t->rows != 0 ? (size_t)t->rows : ROWS;
    t->size.marks = t->screen;
    t->title = optind < argc ? argv[optind] : node.pid;
    if (status == KYMO_EXIT_OK)
        status = is_node ? show_node(t, &node, argv + optind) : show_dir(t, argv[optind]);
    attach_options_free(&node);
    free(t);
    return status;
}
