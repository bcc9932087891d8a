/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo check: what is wrong in a recording, or with a node, which is recorded for that.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach_show.h"
#include "check_rules.h"
#include "check_run.h"
#include "kymo_cli.h"

#define DEFAULT_FOR "5s"

/* ---- the rules of kymo ---- */

/* What a rule looks for: its second line. */
static void list_rules(void)
{
    for (size_t i = 0; i < check_n_rules; i++) {
        const char *line = strchr(check_rules[i].sql, '\n');
        line += line == NULL ? 0 : strspn(line, "\n- ");
        printf("%-20s  %.*s\n", check_rules[i].name, line == NULL ? 0 : (int)strcspn(line, "\n"),
               line == NULL ? "" : line);
    }
}

static int print_rule(const char *name)
{
    for (size_t i = 0; i < check_n_rules; i++) {
        if (strcmp(check_rules[i].name, name) == 0) {
            fputs(check_rules[i].sql, stdout);
            return cli_flush(KYMO_EXIT_OK);
        }
    }
    if (strcmp(name, "tables") == 0) {
        fputs(check_tables, stdout);
        return cli_flush(KYMO_EXIT_OK);
    }
    return cli_usage("check", "there is no rule %s: kymo check --list names them", name);
}

/* ---- a node ---- */

/* Creates a folder of its own for the recording. From malloc; NULL after a message. */
static char *temporary_folder(void)
{
    char *dir = NULL;
    const char *parent = getenv("TMPDIR");
    if (asprintf(&dir, "%s/kymo-check-XXXXXX", parent != NULL && parent[0] != '\0' ? parent : "/tmp") < 0) {
        (void)cli_fail(KYMO_EXIT_MEMORY, "out of memory");
        return NULL;
    }
    if (mkdtemp(dir) != NULL)
        return dir;
    (void)cli_fail(KYMO_EXIT_WRITE, "%s: %s", dir, strerror(errno));
    free(dir);
    return NULL;
}

/* Removes such a folder, with its files. */
static void remove_folder(const char *dir)
{
    DIR *d = opendir(dir);
    if (d != NULL) {
        for (struct dirent *e; (e = readdir(d)) != NULL;)
            (void)unlinkat(dirfd(d), e->d_name, 0);
        closedir(d);
    }
    (void)rmdir(dir);
}

/* What a signal that ends the command says, so that the folder has a name. */
static char kept[4096];

static void on_signal(int signal)
{
    (void)!write(STDERR_FILENO, kept, strlen(kept));
    raise(signal); /* is handled as usual when this function has returned */
}

/* From here on, signals that end the command name the folder. Those that are ignored stay so. */
static void name_when_ended(const char *dir)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now, then = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    snprintf(kept, sizeof kept, "kymo: ended early; what was recorded is in %s\n", dir);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            (void)sigaction(ending[i], &then, NULL);
    }
}

/* Records the node into the folder, or into a temporary one, which stays if there are findings and something
 * names it: their commands read it. */
static int check_node(struct check *c, struct attach_options *o, const char *output, char **nodes)
{
    char *own = output == NULL ? temporary_folder() : NULL;
    const char *dir = own != NULL ? own : output;
    bool interrupted, named = false, remove = true;
    if (dir == NULL)
        return KYMO_EXIT_WRITE;
    if (own != NULL)
        attach_args_pair(&o->child, "temporary", "true");
    name_when_ended(dir); /* while kymo attach runs, it handles them */
    int status = attach_options_run(o, "record", dir, c->quiet, false, nodes, &interrupted);
    if (status == KYMO_EXIT_OK) {
        c->wanted_ns = interrupted ? o->for_ns : 0;
        status = check_recording(c, dir, &named);
        remove = own != NULL && (status == KYMO_EXIT_OK || status == KYMO_EXIT_NODE ||
                                 (status == KYMO_EXIT_FINDINGS && c->quiet && !named));
        if (!remove && (!c->quiet || (own != NULL && !named)))
            cli_warn("the recording is in %s", dir);
    } else if (status == KYMO_EXIT_NODE && nodes[0] != NULL && strchr(nodes[0], '@') == NULL) {
        cli_warn("there is no recording '%s', so this is taken for the name of a node", nodes[0]);
    }
    if (own != NULL && remove)
        remove_folder(own);
    free(own);
    return status;
}

/* ---- the command ---- */

enum { OPT_JSON = 1, OPT_BRIEF, OPT_LIST, OPT_PRINT, OPT_RULES, OPT_FOR, OPT_STRICT };

struct arguments {
    struct check check;
    struct attach_options node;
    const char *folder, *rule, *output;
    bool list, timed;
};

static int take(struct arguments *a, int option, char *value)
{
    switch (option) {
    case OPT_JSON: a->check.json = true; return KYMO_EXIT_OK;
    case OPT_BRIEF: a->check.brief = true; return KYMO_EXIT_OK;
    case OPT_LIST: a->list = true; return KYMO_EXIT_OK;
    case OPT_PRINT: a->rule = value; return KYMO_EXIT_OK;
    case OPT_RULES: a->folder = value; return KYMO_EXIT_OK;
    case OPT_FOR: a->timed = true; return attach_options_for(&a->node, value);
    case 'o':
        if (value[0] == '\0')
            return cli_usage("check", "the name of the output is empty");
        a->node.given = true;
        a->output = value;
        return KYMO_EXIT_OK;
    case 'q': a->check.quiet = true; return KYMO_EXIT_OK;
    case OPT_STRICT: a->check.strict = true; return KYMO_EXIT_OK;
    case '?': return cli_bad_option("check");
    default: return attach_options_take(&a->node, option, value);
    }
}

/* Also the name of a node of this host, as for kymo attach, if there is no recording of that name. */
static int target(const struct attach_options *o, int n, char **args, bool *is_node)
{
    *is_node = o->pid == NULL && n == 1 && args[0][0] != '\0' && strchr(args[0], '/') == NULL &&
               access(args[0], F_OK) != 0;
    return *is_node ? KYMO_EXIT_OK : attach_show_target(o, n, args, is_node);
}

static int run(struct arguments *a, int n, char **args)
{
    bool is_node = false, named;
    if (a->list || a->rule != NULL) {
        if (n > 0 || a->node.given)
            return cli_usage("check", "--list and --print take no recording and no node");
        if (a->rule != NULL)
            return print_rule(a->rule);
        list_rules();
        return cli_flush(KYMO_EXIT_OK);
    }
    int status = target(&a->node, n, args, &is_node);
    if (status == KYMO_EXIT_OK && a->folder != NULL)
        status = check_read_rules(&a->check, a->folder);
    if (status == KYMO_EXIT_OK && is_node && !a->timed)
        status = attach_options_for(&a->node, DEFAULT_FOR);
    if (status != KYMO_EXIT_OK)
        return status;
    return is_node ? check_node(&a->check, &a->node, a->output, args)
                   : check_recording(&a->check, args[0], &named);
}

int cli_check(int argc, char **argv)
{
    struct option options[16 + ATTACH_OPTIONS] = {
        {"json", no_argument, NULL, OPT_JSON},         {"brief", no_argument, NULL, OPT_BRIEF},
        {"list", no_argument, NULL, OPT_LIST},         {"print", required_argument, NULL, OPT_PRINT},
        {"rules", required_argument, NULL, OPT_RULES}, {"for", required_argument, NULL, OPT_FOR},
        {"output", required_argument, NULL, 'o'},      {"quiet", no_argument, NULL, 'q'},
        {"strict", no_argument, NULL, OPT_STRICT}};
    enum { OWN = 9 };
    struct arguments a = {.list = false};
    attach_options_init(&a.node, "check");
    (void)attach_options_add(options, OWN, "port");
    int status = KYMO_EXIT_OK;
    for (int o; status == KYMO_EXIT_OK && (o = getopt_long(argc, argv, "o:q", options, NULL)) != -1;)
        status = take(&a, o, optarg);
    if (status == KYMO_EXIT_OK)
        status = run(&a, argc - optind, argv + optind);
    check_free(&a.check);
    attach_options_free(&a.node);
    return status;
}
