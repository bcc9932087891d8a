/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo attach: reads the options, runs the Erlang half, which does the work (attach_run.c),
 * and prints a summary of the fetched recording.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach_options.h"
#include "kymo_cli.h"
#include "kymo_triggers.h"

enum action { RECORD, KEEP, SNAPSHOT, DETACH, PRINT, LIST, LIST_RECORDERS };
static const char *const action_names[] = {"record", "keep", "snapshot",      "detach",
                                           "print",  "list", "list-recorders"};

/* As for on_trigger of kymo:start/1. */
enum { COOLDOWN_MAX_MS = 1000000000 };

struct attach {
    enum action action;
    const char *output;
    bool quiet, calls_watched;
    size_t triggers;
    const char *limits; /* the first option that limits the snapshots of triggers, or NULL */
    struct attach_options o;
};

enum {
    OPT_POLICY = 1,
    OPT_FOR,
    OPT_TRIGGER,
    OPT_COOLDOWN,
    OPT_MAX,
    OPT_KEEP_SNAPSHOTS,
    OPT_KEEP_BYTES,
    OPT_KEEP,
    OPT_SNAPSHOT,
    OPT_DETACH,
    OPT_PRINT,
    OPT_LIST,
    OPT_LIST_RECORDERS
};

static int set_action(struct attach *a, enum action action)
{
    if (a->action != RECORD && a->action != action)
        return cli_usage("attach", "--%s and --%s exclude each other", action_names[a->action],
                         action_names[action]);
    a->action = action;
    return KYMO_EXIT_OK;
}

/* Checks a trigger with the parser of kymo watch, which will evaluate it. */
static int trigger(struct attach *a, const char *text)
{
    char err[512] = "";
    struct kymo_triggers *t = kymo_triggers_new(NULL, NULL);
    int rc = t != NULL ? kymo_triggers_add(t, text, err, sizeof err) : -ENOMEM;
    kymo_triggers_free(t);
    if (rc == -ENOMEM)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    if (rc != 0)
        return cli_usage("attach", "--trigger: %s", err);
    a->triggers++;
    a->calls_watched |= strncmp(text, "call,", 5) == 0;
    a->o.selects = true;
    attach_args_pair(&a->o.child, "trigger", text);
    return KYMO_EXIT_OK;
}

/* What limits the snapshots of triggers, as in the option on_trigger of kymo:start/1. */
static int limit(struct attach *a, const char *option, const char *key, const char *text)
{
    uint64_t n;
    bool good = strcmp(text, "infinity") == 0 || (cli_parse_number(text, &n) && n > 0 && n <= INT64_MAX);
    if (!good)
        return cli_usage("attach", "--%s takes a number from 1 on, or infinity, not '%s'", option, text);
    attach_args_pair(&a->o.child, key, text);
    a->limits = option;
    return KYMO_EXIT_OK;
}

static int cooldown(struct attach *a, const char *text)
{
    int64_t ns;
    char us[32];
    if (!cli_parse_duration(text, &ns) || ns < 0 || ns / 1000000 > COOLDOWN_MAX_MS)
        return cli_usage("attach", "--cooldown takes a time such as 500ms, 10s or 5m, not '%s'", text);
    snprintf(us, sizeof us, "%" PRId64 "us", ns / 1000);
    attach_args_pair(&a->o.child, "cooldown", us);
    a->limits = "cooldown";
    return KYMO_EXIT_OK;
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
    case OPT_FOR: return attach_options_for(&a->o, value);
    case OPT_TRIGGER: return trigger(a, value);
    case OPT_COOLDOWN: return cooldown(a, value);
    case OPT_MAX: return limit(a, "max", "max", value);
    case OPT_KEEP_SNAPSHOTS: return limit(a, "keep-snapshots", "keep", value);
    case OPT_KEEP_BYTES: return limit(a, "keep-bytes", "keep_bytes", value);
    case OPT_POLICY:
        attach_args_pair(&a->o.child, "policy", value);
        a->o.selects = true;
        return KYMO_EXIT_OK;
    case OPT_KEEP:
    case OPT_SNAPSHOT:
    case OPT_DETACH:
    case OPT_PRINT:
    case OPT_LIST:
    case OPT_LIST_RECORDERS: return set_action(a, KEEP + (enum action)(option - OPT_KEEP));
    case '?': return cli_bad_option("attach");
    default: return attach_options_take(&a->o, option, value);
    }
}

static int options(struct attach *a, int argc, char **argv)
{
    struct option longs[16 + ATTACH_OPTIONS] = {
        {"output", required_argument, NULL, 'o'},
        {"quiet", no_argument, NULL, 'q'},
        {"for", required_argument, NULL, OPT_FOR},
        {"policy", required_argument, NULL, OPT_POLICY},
        {"trigger", required_argument, NULL, OPT_TRIGGER},
        {"cooldown", required_argument, NULL, OPT_COOLDOWN},
        {"max", required_argument, NULL, OPT_MAX},
        {"keep-snapshots", required_argument, NULL, OPT_KEEP_SNAPSHOTS},
        {"keep-bytes", required_argument, NULL, OPT_KEEP_BYTES},
        {"keep", no_argument, NULL, OPT_KEEP},
        {"snapshot", no_argument, NULL, OPT_SNAPSHOT},
        {"detach", no_argument, NULL, OPT_DETACH},
        {"print", no_argument, NULL, OPT_PRINT},
        {"list", no_argument, NULL, OPT_LIST},
        {"list-recorders", no_argument, NULL, OPT_LIST_RECORDERS}};
    size_t n = 0;
    while (longs[n].name != NULL)
        n++;
    (void)attach_options_add(longs, n, "port");
    for (int option; (option = getopt_long(argc, argv, "o:q", longs, NULL)) != -1;) {
        int status = take(a, option, optarg);
        if (status != KYMO_EXIT_OK)
            return status;
    }
    return KYMO_EXIT_OK;
}

/* Rejects options and nodes that cannot be combined. */
static int check(const struct attach *a, int n_nodes)
{
    bool records = a->action == RECORD || a->action == KEEP || a->action == PRINT;
    bool no_node = a->action == LIST || a->action == PRINT;
    if (no_node && n_nodes > 0)
        return cli_usage("attach", "--%s takes no node", action_names[a->action]);
    if (a->o.pid != NULL && (no_node || n_nodes > 0))
        return cli_usage("attach", "--pid is used instead of a node: give one of them");
    if (!no_node && n_nodes == 0 && a->o.pid == NULL)
        return cli_usage("attach", "name a node, such as rabbit@host");
    if (a->o.port != NULL && n_nodes > 1)
        return cli_usage("attach", "--port works with one node, but %d are given", n_nodes);
    if ((a->action == RECORD || a->action == SNAPSHOT || a->action == PRINT) && a->output == NULL)
        return cli_usage("attach", "the output folder is missing: add -o DIR");
    if ((a->action == LIST || a->action == LIST_RECORDERS) && a->output != NULL)
        return cli_usage("attach", "--%s writes no output", action_names[a->action]);
    if (a->triggers > 0 && a->action == PRINT)
        return cli_usage("attach", "--print takes no --trigger: add the option triggers to the expression");
    if (a->triggers > 0 && a->action == KEEP && a->output == NULL)
        return cli_usage("attach", "--keep with --trigger needs a folder for the snapshots: add -o DIR");
    if (a->limits != NULL && a->triggers == 0)
        return cli_usage("attach", "--%s limits the snapshots of triggers: add --trigger", a->limits);
    if (a->calls_watched && !a->o.functions && !a->o.slow)
        return cli_usage("attach",
                         "a trigger of calls needs --functions or --slow: it sees what is recorded");
    if (!records && a->o.selects)
        return cli_usage("attach", "--%s takes no options that choose what to record",
                         action_names[a->action]);
    return KYMO_EXIT_OK;
}

/* Prints kymo info of the recording, and suggests further commands: those for slow calls if there
 * are no other events. */
static int summary(const char *output, bool only_slow)
{
    char name[] = "kymo info", quiet[] = "-q", top[] = "-n", five[] = "5", end[] = "--";
    char *dir = strdup(output);
    if (dir == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    char *args[] = {name, quiet, top, five, end, dir, NULL};
    optind = 0; /* makes getopt start again with new arguments */
    int status = cli_info(6, args);
    free(dir);
    if (status == KYMO_EXIT_OK && only_slow)
        printf("\nSee also: kymo print --tree %s; kymo report %s -o OUT.html\n", output, output);
    else if (status == KYMO_EXIT_OK)
        printf("\nSee also: kymo why %s; kymo stats %s; kymo report %s -o OUT.html\n", output, output,
               output);
    return cli_flush(status);
}

int cli_attach(int argc, char **argv)
{
    struct attach a = {0};
    attach_options_init(&a.o, "attach");
    int status = options(&a, argc, argv);
    if (status == KYMO_EXIT_OK)
        status = check(&a, argc - optind);
    bool one = argc - optind <= 1, made = false, interrupted;
    if (status == KYMO_EXIT_OK && !one && a.output != NULL) {
        made = mkdir(a.output, 0700) == 0;
        if (!made && errno != EEXIST)
            status = cli_fail(KYMO_EXIT_WRITE, "%s: %s", a.output, strerror(errno));
    }
    if (status == KYMO_EXIT_OK)
        status = attach_options_run(&a.o, action_names[a.action], a.output, a.quiet,
                                    a.action == KEEP && a.output != NULL, argv + optind, &interrupted);
    if (made && status != KYMO_EXIT_OK)
        (void)rmdir(a.output); /* succeeds only if it is empty */
    if (status == KYMO_EXIT_OK && a.action != PRINT && a.action != KEEP && a.output != NULL && one &&
        !a.quiet)
        status = summary(a.output, a.o.slow && !a.o.functions && !a.o.events);
    attach_options_free(&a.o);
    return status;
}
