/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo attach: reads the options and has Erlang do the work (attach_run.c). The fetched
 * recording is summarised here.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach.h"
#include "kymo_cli.h"

enum action { RECORD, KEEP, SNAPSHOT, DETACH, PRINT, LIST, LIST_RECORDERS };
static const char *const action_names[] = {"record", "keep", "snapshot",      "detach",
                                           "print",  "list", "list-recorders"};

struct attach {
    enum action action;
    char *cookie; /* malloc'ed */
    const char *erl, *proto_dist, *ssl_dist_optfile, *port, *pid, *output;
    bool quiet;
    bool selects; /* an option that says what is recorded was given */
    struct attach_args child;
};

/* Options that are checked by the node, or not at all: passed on as they are. */
static const struct {
    const char *option, *key;
    bool selects;
} passed[] = {
    {"functions", "functions", true}, {"events", "events", true},      {"process", "process", true},
    {"policy", "policy", true},       {"calls", "calls", true},        {"messages", "messages", true},
    {"budget", "budget", true},       {"node-dir", "node_dir", false}, {"cookie-file", "cookie_file", false}};
enum { N_PASSED = sizeof passed / sizeof *passed };

enum {
    OPT_PASSED = 2000, /* and the index into passed */
    OPT_FOR = OPT_PASSED + N_PASSED,
    OPT_MEMORY,
    OPT_KEEP,
    OPT_SNAPSHOT,
    OPT_DETACH,
    OPT_PRINT,
    OPT_LIST,
    OPT_LIST_RECORDERS,
    OPT_COOKIE,
    OPT_ERL,
    OPT_PROTO_DIST,
    OPT_SSL_DIST_OPTFILE,
    OPT_PORT,
    OPT_PID
};

static int set_action(struct attach *a, enum action action)
{
    if (a->action != RECORD && a->action != action)
        return cli_usage("attach", "--%s and --%s exclude each other", action_names[a->action],
                         action_names[action]);
    a->action = action;
    return KYMO_EXIT_OK;
}

static int number(struct attach *a, const char *key, const char *option, const char *text, uint64_t max)
{
    uint64_t n;
    if (!cli_parse_number(text, &n) || n == 0 || n > max)
        return cli_usage("attach", "--%s takes a number from 1 to %" PRIu64 ", not '%s'", option, max, text);
    attach_args_pair(&a->child, key, text);
    return KYMO_EXIT_OK;
}

static int duration(struct attach *a, const char *text)
{
    int64_t ns;
    char ms[32];
    if (!cli_parse_duration(text, &ns) || ns < 1000000 || ns > INT64_C(1000000) * UINT32_MAX / 2)
        return cli_usage("attach", "--for takes a time such as 500ms, 10s or 5m, not '%s'", text);
    snprintf(ms, sizeof ms, "%" PRId64, ns / 1000000);
    attach_args_pair(&a->child, "for", ms);
    a->selects = true;
    return KYMO_EXIT_OK;
}

/* Keeps the cookie, but not in the arguments, which other users can see. */
static int take_cookie(struct attach *a, char *value)
{
    free(a->cookie);
    a->cookie = strdup(value);
    memset(value, '*', strlen(value));
    return a->cookie != NULL ? KYMO_EXIT_OK : cli_fail(KYMO_EXIT_MEMORY, "no memory");
}

static int take(struct attach *a, int option, char *value)
{
    switch (option) {
    case 'o':
        if (value[0] == '\0')
            return cli_usage("attach", "the name of the output is empty");
        a->output = value;
        return KYMO_EXIT_OK;
    case 'q': a->quiet = true; return KYMO_EXIT_OK;
    case OPT_FOR: return duration(a, value);
    case OPT_MEMORY: a->selects = true; return number(a, "memory", "memory", value, INT64_MAX);
    case OPT_KEEP:
    case OPT_SNAPSHOT:
    case OPT_DETACH:
    case OPT_PRINT:
    case OPT_LIST:
    case OPT_LIST_RECORDERS: return set_action(a, KEEP + (enum action)(option - OPT_KEEP));
    case OPT_COOKIE: return take_cookie(a, value);
    case OPT_ERL: a->erl = value; return KYMO_EXIT_OK;
    case OPT_PROTO_DIST: a->proto_dist = value; return KYMO_EXIT_OK;
    case OPT_SSL_DIST_OPTFILE: a->ssl_dist_optfile = value; return KYMO_EXIT_OK;
    case OPT_PID: a->pid = value; return number(a, "pid", "pid", value, INT32_MAX);
    case OPT_PORT: a->port = value; return number(a, "port", "port", value, 65535);
    default:
        if (value[strspn(value, ", ")] == '\0')
            return cli_usage("attach", "--%s takes a value, not '%s'", passed[option - OPT_PASSED].option,
                             value);
        attach_args_pair(&a->child, passed[option - OPT_PASSED].key, value);
        a->selects |= passed[option - OPT_PASSED].selects;
        return KYMO_EXIT_OK;
    }
}

static int options(struct attach *a, int argc, char **argv)
{
    struct option longs[N_PASSED + 16] = {{"output", required_argument, NULL, 'o'},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {"for", required_argument, NULL, OPT_FOR},
                                          {"memory", required_argument, NULL, OPT_MEMORY},
                                          {"keep", no_argument, NULL, OPT_KEEP},
                                          {"snapshot", no_argument, NULL, OPT_SNAPSHOT},
                                          {"detach", no_argument, NULL, OPT_DETACH},
                                          {"print", no_argument, NULL, OPT_PRINT},
                                          {"list", no_argument, NULL, OPT_LIST},
                                          {"list-recorders", no_argument, NULL, OPT_LIST_RECORDERS},
                                          {"cookie", required_argument, NULL, OPT_COOKIE},
                                          {"erl", required_argument, NULL, OPT_ERL},
                                          {"proto-dist", required_argument, NULL, OPT_PROTO_DIST},
                                          {"ssl-dist-optfile", required_argument, NULL, OPT_SSL_DIST_OPTFILE},
                                          {"port", required_argument, NULL, OPT_PORT},
                                          {"pid", required_argument, NULL, OPT_PID}};
    size_t n = 0;
    while (longs[n].name != NULL)
        n++;
    for (int i = 0; i < N_PASSED; i++)
        longs[n + (size_t)i] = (struct option){passed[i].option, required_argument, NULL, OPT_PASSED + i};
    int option;
    while ((option = getopt_long(argc, argv, "o:q", longs, NULL)) != -1) {
        int status = option == '?' ? cli_bad_option("attach") : take(a, option, optarg);
        if (status != KYMO_EXIT_OK)
            return status;
    }
    return KYMO_EXIT_OK;
}

/* Options and nodes that do not go together. */
static int check(const struct attach *a, int n_nodes)
{
    bool records = a->action == RECORD || a->action == KEEP || a->action == PRINT;
    bool no_node = a->action == LIST || a->action == PRINT;
    if (no_node && n_nodes > 0)
        return cli_usage("attach", "--%s takes no node", action_names[a->action]);
    if (a->pid != NULL && (no_node || n_nodes > 0))
        return cli_usage("attach", "--pid is used instead of a node: give one of them");
    if (!no_node && n_nodes == 0 && a->pid == NULL)
        return cli_usage("attach", "name a node, such as rabbit@host");
    if (a->port != NULL && n_nodes > 1)
        return cli_usage("attach", "--port works with one node, but %d are given", n_nodes);
    if ((a->action == RECORD || a->action == SNAPSHOT || a->action == PRINT) && a->output == NULL)
        return cli_usage("attach", "the output folder is missing: add -o DIR");
    if ((a->action == KEEP || a->action == LIST || a->action == LIST_RECORDERS) && a->output != NULL)
        return cli_usage("attach", "--%s writes no output", action_names[a->action]);
    if (!records && a->selects)
        return cli_usage("attach", "--%s takes no options that choose what to record",
                         action_names[a->action]);
    return KYMO_EXIT_OK;
}

/* The runtime, as small and as quiet as it can be; our arguments follow -extra. */
static void command(struct attach_args *args, const struct attach *a, const char *home, char **nodes)
{
    const char *const runtime[] = {a->erl,          "+Bi",     "-noshell",     "-noinput",  "-boot",
                                   "no_dot_erlang", "-kernel", "logger_level", "emergency", "-setcookie",
                                   "kymo",          "-s",      "kymo_attach",  "main"};
    for (size_t i = 0; i < sizeof runtime / sizeof *runtime; i++)
        attach_args_add(args, runtime[i]);
    char *path = NULL;
    attach_args_add(args, "-pa");
    if (asprintf(&path, "%s/ebin", home) < 0)
        path = NULL;
    if (path != NULL)
        attach_args_add(args, path);
    else
        args->failed = true;
    free(path);
    const char *const pairs[][2] = {{"-proto_dist", a->proto_dist},
                                    {"-ssl_dist_optfile", a->ssl_dist_optfile},
                                    {"-erl_epmd_port", a->port}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (pairs[i][1] != NULL) {
            attach_args_add(args, pairs[i][0]);
            attach_args_add(args, pairs[i][1]);
        }
    }
    attach_args_add(args, "-extra");
    attach_args_pair(args, "command", action_names[a->action]);
    attach_args_pair(args, "terminal", isatty(STDERR_FILENO) ? "true" : "false");
    attach_args_pair(args, "quiet", a->quiet ? "true" : "false");
    if (a->output != NULL)
        attach_args_pair(args, "output", a->output);
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

/* Whether the Erlang half is there. */
static bool has_modules(const char *home)
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

/* What kymo info says of the one recording, and what to ask next. */
static int summary(const char *output)
{
    char name[] = "kymo info", quiet[] = "-q", top[] = "-n", five[] = "5", end[] = "--";
    char *dir = strdup(output);
    if (dir == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "no memory");
    char *args[] = {name, quiet, top, five, end, dir, NULL};
    optind = 0; /* the options of this command were read */
    int status = cli_info(6, args);
    free(dir);
    if (status == KYMO_EXIT_OK)
        printf("\nSee also: kymo why %s; kymo stats %s; kymo report %s -o OUT.html\n", output, output,
               output);
    return cli_flush(status);
}

int cli_attach(int argc, char **argv)
{
    struct attach a = {.erl = "erl"};
    struct attach_args args = {0};
    char *home = NULL;
    int status = options(&a, argc, argv);
    if (status == KYMO_EXIT_OK)
        status = check(&a, argc - optind);
    if (status != KYMO_EXIT_OK)
        goto out;
    home = attach_home();
    if (home == NULL) {
        status = cli_fail(KYMO_EXIT_NODE, "the folder of this program: %s", strerror(errno));
        goto out;
    }
    if (!has_modules(home)) {
        status = KYMO_EXIT_NODE;
        goto out;
    }
    bool one = argc - optind <= 1, made = false;
    if (!one && a.output != NULL) {
        made = mkdir(a.output, 0700) == 0;
        if (!made && errno != EEXIST) {
            status = cli_fail(KYMO_EXIT_WRITE, "%s: %s", a.output, strerror(errno));
            goto out;
        }
    }
    command(&args, &a, home, argv + optind);
    if (args.failed) {
        status = cli_fail(KYMO_EXIT_MEMORY, "no memory");
        goto out;
    }
    status = attach_run(args.list, a.cookie, a.pid);
    if (made && status != KYMO_EXIT_OK)
        (void)rmdir(a.output); /* if nothing is in it */
    if (status == KYMO_EXIT_OK && a.action != PRINT && a.output != NULL && one && !a.quiet)
        status = summary(a.output);
out:
    free(home);
    free(a.cookie);
    attach_args_free(&args);
    attach_args_free(&a.child);
    return status;
}
