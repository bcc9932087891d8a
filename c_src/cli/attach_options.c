/* SPDX-License-Identifier: Apache-2.0 */
#include "attach_options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kymo_cli.h"

enum kind {
    PASSED, /* passed on unchanged; checked by the node, or not at all */
    SLOW,
    MEMORY,
    COOKIE,
    ERL,
    PROTO_DIST,
    SSL_DIST_OPTFILE,
    PORT,
    PID,
    TIMEOUT
};

static const struct {
    const char *option, *key;
    enum kind kind;
    bool selects;
} table[] = {{"functions", "functions", PASSED, true},
             {"slow", "slow", SLOW, true},
             {"events", "events", PASSED, true},
             {"process", "process", PASSED, true},
             {"calls", "calls", PASSED, true},
             {"messages", "messages", PASSED, true},
             {"budget", "budget", PASSED, true},
             {"counters", "counters", PASSED, true},
             {"system-monitor", "system_monitor", PASSED, true},
             {"garbage-collection", "garbage_collection", PASSED, true},
             {"received-messages", "received_messages", PASSED, true},
             {"memory", "memory", MEMORY, true},
             {"node-dir", "node_dir", PASSED, false},
             {"cookie-file", "cookie_file", PASSED, false},
             {"cookie", NULL, COOKIE, false},
             {"erl", NULL, ERL, false},
             {"proto-dist", NULL, PROTO_DIST, false},
             {"ssl-dist-optfile", NULL, SSL_DIST_OPTFILE, false},
             {NULL, "port", PORT, false}, /* attach_options_add names it */
             {"pid", "pid", PID, false},
             {"timeout", "timeout", TIMEOUT, false}};
/* kymo_options:most_slow() */
#define MOST_SLOW_US INT64_C(134217727)

enum { N = sizeof table / sizeof *table };
_Static_assert(sizeof table / sizeof *table <= ATTACH_OPTIONS, "room for all");

void attach_options_init(struct attach_options *a, const char *command)
{
    *a = (struct attach_options){.command = command, .erl = "erl"};
}

void attach_options_free(struct attach_options *a)
{
    free(a->cookie);
    attach_args_free(&a->child);
}

size_t attach_options_add(struct option *longs, size_t n, const char *port)
{
    for (int i = 0; i < N; i++)
        longs[n++] = (struct option){table[i].kind == PORT ? port : table[i].option, required_argument, NULL,
                                     ATTACH_OPTION + i};
    return n;
}

static int number(struct attach_options *a, int i, const char *text, uint64_t max)
{
    uint64_t n;
    const char *name = table[i].option != NULL ? table[i].option : "port of the node";
    if (!cli_parse_number(text, &n) || n == 0 || n > max)
        return cli_usage(a->command, "--%s takes a number from 1 to %" PRIu64 ", not '%s'", name, max, text);
    attach_args_pair(&a->child, table[i].key, text);
    return KYMO_EXIT_OK;
}

/* Passes on PATTERN=TIME with the time in microseconds, rounded up. A pattern may contain = itself. A
 * time without a unit would be seconds here, and is microseconds in kymo:trace/2, so it is refused. */
static int slow(struct attach_options *a, const char *value)
{
    const char *time = strrchr(value, '=');
    char *text = NULL;
    int64_t ns;
    if (time == NULL || strspn(value, ", ") >= (size_t)(time - value) ||
        isdigit((unsigned char)value[strlen(value) - 1]) || !cli_parse_duration(time + 1, &ns) ||
        ns > MOST_SLOW_US * 1000)
        return cli_usage(a->command,
                         "--slow takes functions and a time up to 134s with its unit, such as "
                         "'lists:sort/1=10ms', not '%s'",
                         value);
    if (asprintf(&text, "%.*s=%" PRId64, (int)(time - value), value, (ns + 999) / 1000) < 0)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    attach_args_pair(&a->child, "slow", text);
    free(text);
    return KYMO_EXIT_OK;
}

static int timeout(struct attach_options *a, const char *value)
{
    int64_t ns;
    char ms[32];
    if (!cli_parse_duration(value, &ns) || ns < INT64_C(1000000000) || ns > INT64_C(3600) * 1000000000)
        return cli_usage(a->command, "--timeout takes a time from 1s to 1h, such as 10s, not '%s'", value);
    snprintf(ms, sizeof ms, "%" PRId64, ns / 1000000);
    attach_args_pair(&a->child, "timeout", ms);
    return KYMO_EXIT_OK;
}

int attach_options_for(struct attach_options *a, const char *value)
{
    int64_t ns;
    char ms[32];
    if (!cli_parse_duration(value, &ns) || ns < 1000000 || ns > INT64_C(1000000) * UINT32_MAX / 2)
        return cli_usage(a->command,
                         "--for takes a time from 1ms to 596h, such as 500ms, 10s or 5m, not '%s'", value);
    snprintf(ms, sizeof ms, "%" PRId64, ns / 1000000);
    attach_args_pair(&a->child, "for", ms);
    a->for_ns = ns;
    a->given = a->selects = true;
    return KYMO_EXIT_OK;
}

/* Copies the cookie, and erases it from the arguments, which other users can see. */
static int take_cookie(struct attach_options *a, char *value)
{
    if (value[0] == '\0')
        return cli_usage(a->command, "--cookie takes a value, not ''");
    free(a->cookie);
    a->cookie = strdup(value);
    memset(value, '*', strlen(value));
    return a->cookie != NULL ? KYMO_EXIT_OK : cli_fail(KYMO_EXIT_MEMORY, "out of memory");
}

static bool is_key(int i, const char *key)
{
    return table[i].key != NULL && strcmp(table[i].key, key) == 0;
}

int attach_options_take(struct attach_options *a, int option, char *value)
{
    int i = option - ATTACH_OPTION;
    a->given = true;
    a->selects |= table[i].selects;
    a->slow |= table[i].kind == SLOW;
    a->functions |= is_key(i, "functions");
    a->events |= is_key(i, "events");
    switch (table[i].kind) {
    case SLOW: return slow(a, value);
    case MEMORY: return number(a, i, value, INT64_MAX);
    case COOKIE: return take_cookie(a, value);
    case ERL: a->erl = value; return KYMO_EXIT_OK;
    case PROTO_DIST: a->proto_dist = value; return KYMO_EXIT_OK;
    case SSL_DIST_OPTFILE: a->ssl_dist_optfile = value; return KYMO_EXIT_OK;
    case PORT: a->port = value; return number(a, i, value, 65535);
    case PID: a->pid = value; return number(a, i, value, INT32_MAX);
    case TIMEOUT: return timeout(a, value);
    case PASSED: break;
    }
    if (value[strspn(value, ", ")] == '\0')
        return cli_usage(a->command, "--%s takes a value, not '%s'", table[i].option, value);
    attach_args_pair(&a->child, table[i].key, value);
    return KYMO_EXIT_OK;
}

/* Starts a small and quiet runtime; arguments of kymo follow -extra. */
void attach_options_command(struct attach_args *args, const struct attach_options *a, const char *home,
                            const char *action, char **nodes)
{
    const char *const runtime[] = {a->erl,          "+Bi",     "-noshell",     "-noinput",  "-boot",
                                   "no_dot_erlang", "-kernel", "logger_level", "emergency", "-s",
                                   "kymo_attach",   "main",    "-pa"};
    for (size_t i = 0; i < sizeof runtime / sizeof *runtime; i++)
        attach_args_add(args, runtime[i]);
    char *path = NULL;
    if (asprintf(&path, "%s/ebin", home) < 0)
        path = NULL;
    if (path != NULL)
        attach_args_add(args, path);
    else
        args->failed = true;
    free(path);
    attach_args_add(args, "-extra");
    attach_args_pair(args, "command", action);
    attach_args_pair(args, "terminal", isatty(STDERR_FILENO) ? "true" : "false");
    attach_args_pair(args, "selects", a->selects ? "true" : "false");
    if (a->proto_dist != NULL)
        attach_args_pair(args, "proto_dist", a->proto_dist);
    if (a->ssl_dist_optfile != NULL)
        attach_args_pair(args, "ssl_dist_optfile", a->ssl_dist_optfile);
    if (asprintf(&path, "%s/priv", home) >= 0) {
        attach_args_pair(args, "priv", path);
        free(path);
    } else {
        args->failed = true;
    }
    for (size_t i = 0; i < a->child.n; i++)
        attach_args_add(args, a->child.list[i]);
    args->failed |= a->child.failed;
    for (char **node = nodes; *node != NULL; node++)
        attach_args_pair(args, "node", *node);
}

bool attach_has_modules(const char *home)
{
    char *path = NULL;
    if (asprintf(&path, "%s/ebin/kymo_attach.beam", home) < 0)
        return false;
    bool found = access(path, R_OK) == 0;
    if (!found)
        cli_warn("%s: %s; run the kymo in priv/bin of an installation", path, strerror(errno));
    free(path);
    return found;
}

int attach_options_run(const struct attach_options *a, const char *action, const char *output, bool quiet,
                       bool lines, char **nodes, bool *interrupted)
{
    struct attach_args args = {0};
    int status = KYMO_EXIT_NODE;
    char *home = attach_home();
    *interrupted = false;
    if (home == NULL)
        return cli_fail(status, "the folder of this program: %s", strerror(errno));
    if (attach_has_modules(home)) {
        attach_options_command(&args, a, home, action, nodes);
        attach_args_pair(&args, "quiet", quiet ? "true" : "false");
        if (output != NULL)
            attach_args_pair(&args, "output", output);
        status = args.failed ? cli_fail(KYMO_EXIT_MEMORY, "out of memory")
                             : attach_run(args.list, a->cookie, a->pid, lines, interrupted);
    }
    attach_args_free(&args);
    free(home);
    return status;
}
