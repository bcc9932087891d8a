/* SPDX-License-Identifier: Apache-2.0
 *
 * The child runs the Erlang half, which attaches, prints the folder of the recording, and
 * detaches on request or when its standard input is closed, as when this process is killed.
 * Its messages go to a file in memory, because they would be lost on a screen.
 */
#include "attach_show.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kymo_cli.h"

int attach_show_target(const struct attach_options *o, int n, char **args, bool *is_node)
{
    *is_node = false;
    if (o->pid != NULL && n > 0)
        return cli_usage(o->command, "--pid is used instead of a node: give one of them");
    if (o->pid == NULL) {
        if (n != 1)
            return cli_usage(o->command, "name one recording or one node, not %d", n);
        if (args[0][0] == '\0')
            return cli_usage(o->command, "the name of the recording is empty");
        bool may_be = strchr(args[0], '@') != NULL && strchr(args[0], '/') == NULL;
        bool exists = access(args[0], F_OK) == 0;
        if (!exists && !may_be && strchr(args[0], '/') == NULL)
            return cli_fail(KYMO_EXIT_READ,
                            "there is no recording '%s'; to read a node, add its host, as in %s@localhost",
                            args[0], args[0]);
        if (!may_be || exists) {
            return !o->given ? KYMO_EXIT_OK
                             : cli_usage(o->command,
                                         "'%s' is no node, which is called name@host: a recording needs no "
                                         "options to reach or to record it",
                                         args[0]);
        }
    }
    *is_node = true;
    return KYMO_EXIT_OK;
}

/* Prints the messages of the child since the last call. */
static void repeat(struct attach_show *s)
{
    char text[4096];
    ssize_t n;
    while ((n = pread(s->said, text, sizeof text, s->repeated)) > 0) {
        (void)!write(STDERR_FILENO, text, (size_t)n);
        s->repeated += n;
    }
}

static int wait_for_end(struct attach_show *s)
{
    int status;
    pid_t child = s->child;
    s->child = -1;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return cli_fail(KYMO_EXIT_NODE, "%s: %s", s->erl, strerror(errno));
    }
    return attach_status(status, s->erl);
}

/* Reads the folder that the child prints. */
static int read_dir(struct attach_show *s, int fd)
{
    size_t room = 0;
    FILE *f = fdopen(fd, "r");
    if (f == NULL) {
        close(fd);
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    }
    ssize_t n = getline(&s->text, &room, f);
    (void)fclose(f);
    if (n <= 1 || s->text[n - 1] != '\n')
        return KYMO_EXIT_NODE;
    s->text[n - 1] = '\0';
    s->dir = s->text;
    return KYMO_EXIT_OK;
}

static int start(struct attach_show *s, const struct attach_options *o, char *const *args)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    signal(SIGCHLD, SIG_DFL); /* the parent of this program may have set it to be ignored */
    s->said = memfd_create("kymo", MFD_CLOEXEC);
    if (s->said < 0 || pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
        int status = cli_fail(KYMO_EXIT_NODE, "no pipe: %s", strerror(errno));
        for (int i = 0; i < 2; i++) {
            if (in[i] >= 0)
                close(in[i]);
        }
        return status;
    }
    const int of_child[3] = {in[0], out[1], s->said};
    s->child = attach_child(args, o->cookie, o->pid, of_child, &mask);
    s->in = in[1];
    close(in[0]);
    close(out[1]);
    if (s->child > 0)
        return read_dir(s, out[0]);
    close(out[0]);
    return KYMO_EXIT_NODE;
}

int attach_show_open(struct attach_show *s, const struct attach_options *o, char **nodes, bool quiet)
{
    struct attach_args args = {0};
    int status = KYMO_EXIT_OK;
    *s = (struct attach_show){.child = -1, .in = -1, .said = -1, .erl = o->erl};
    char *home = attach_home();
    if (home == NULL)
        return cli_fail(KYMO_EXIT_NODE, "the folder of this program: %s", strerror(errno));
    if (!attach_has_modules(home))
        status = KYMO_EXIT_NODE;
    if (status == KYMO_EXIT_OK) {
        attach_options_command(&args, o, home, "show", nodes);
        attach_args_pair(&args, "quiet", quiet ? "true" : "false");
        status = args.failed ? cli_fail(KYMO_EXIT_MEMORY, "out of memory") : start(s, o, args.list);
    }
    if (status == KYMO_EXIT_OK)
        repeat(s);
    attach_args_free(&args);
    free(home);
    return status;
}

int attach_show_close(struct attach_show *s, int status)
{
    if (s->in >= 0)
        (void)!write(s->in, "\n", 1);
    if (s->child > 0) {
        int ended = wait_for_end(s);
        if (status == KYMO_EXIT_OK || (s->dir == NULL && ended != KYMO_EXIT_OK))
            status = ended;
        repeat(s);
    }
    if (s->in >= 0)
        close(s->in);
    if (s->said >= 0)
        close(s->said);
    free(s->text);
    return status;
}
