/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach.h"
#include "kymo_cli.h"

static void add_owned(struct attach_args *a, char *text)
{
    if (text == NULL || a->failed) {
        a->failed = true;
        free(text);
        return;
    }
    if (a->n + 1 >= a->size) {
        size_t size = a->size == 0 ? 32 : a->size * 2;
        char **list = realloc(a->list, size * sizeof *list);
        if (list == NULL) {
            a->failed = true;
            free(text);
            return;
        }
        a->list = list;
        a->size = size;
    }
    a->list[a->n++] = text;
    a->list[a->n] = NULL;
}

void attach_args_add(struct attach_args *a, const char *text)
{
    add_owned(a, strdup(text));
}

void attach_args_pair(struct attach_args *a, const char *key, const char *value)
{
    char *text = NULL;
    add_owned(a, asprintf(&text, "%s=%s", key, value) < 0 ? NULL : text);
}

void attach_args_free(struct attach_args *a)
{
    for (size_t i = 0; i < a->n; i++)
        free(a->list[i]);
    free(a->list);
    *a = (struct attach_args){0};
}

/* The program is HOME/priv/bin/kymo. */
char *attach_home(void)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0)
        return NULL;
    path[n] = '\0';
    return strdup(dirname(dirname(dirname(path))));
}

/* 0, or -1 with errno. */
static int join(const char *pid, const char *name, int type)
{
    char path[64];
    struct stat own, other;
    snprintf(path, sizeof path, "/proc/self/ns/%s", name);
    if (stat(path, &own) != 0)
        return -1;
    snprintf(path, sizeof path, "/proc/%s/ns/%s", pid, name);
    if (stat(path, &other) != 0)
        return -1;
    if (own.st_dev == other.st_dev && own.st_ino == other.st_ino)
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -1 : setns(fd, type);
}

/* In the child. What it says goes to the terminal, but the keys that send signals are
 * for the parent. */
static _Noreturn void run(char *const *args, const char *cookie, const char *pid, int in,
                          const sigset_t *mask)
{
    signal(SIGPIPE, SIG_DFL);
    signal(SIGTTOU, SIG_IGN); /* it is no longer in the foreground, and reports progress all the same */
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (setpgid(0, 0) != 0 || dup2(in, STDIN_FILENO) < 0 ||
        /* A dump of the runtime would hold the cookie. */
        setenv("ERL_CRASH_DUMP_SECONDS", "0", 1) != 0 ||
        (cookie != NULL ? setenv("KYMO_ATTACH_COOKIE", cookie, 1) : unsetenv("KYMO_ATTACH_COOKIE")) != 0) {
        cli_warn("%s: %s", args[0], strerror(errno));
        _exit(KYMO_EXIT_NODE);
    }
    if (pid != NULL && (join(pid, "net", CLONE_NEWNET) != 0 || join(pid, "uts", CLONE_NEWUTS) != 0)) {
        cli_warn("the namespaces of process %s: %s", pid, strerror(errno));
        _exit(KYMO_EXIT_NODE);
    }
    execvp(args[0], args);
    cli_warn("%s: %s; Erlang is needed (see --erl)", args[0], strerror(errno));
    _exit(KYMO_EXIT_NODE);
}

/* Forwards signals until the child has ended. */
static int wait_for(pid_t child, const char *name, const sigset_t *signals, int out)
{
    int status;
    bool asked = false;
    for (;;) {
        int sig;
        if (sigwait(signals, &sig) != 0)
            continue;
        if (sig != SIGCHLD) {
            /* A child that is gone is seen below. */
            if (asked || write(out, "\n", 1) != 1)
                (void)kill(child, SIGKILL);
            asked = true;
        } else if (waitpid(child, &status, WNOHANG) == child) {
            break;
        }
    }
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    return cli_fail(KYMO_EXIT_NODE,
                    "%s was killed by signal %d; the node removes what was put there by itself", name,
                    WTERMSIG(status));
}

int attach_run(char *const *args, const char *cookie, const char *pid)
{
    int fds[2];
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGCHLD);
    /* SIGCHLD may have been ignored by whatever has started this program. */
    signal(SIGCHLD, SIG_DFL);
    if (pipe2(fds, O_CLOEXEC) != 0)
        return cli_fail(KYMO_EXIT_NODE, "no pipe: %s", strerror(errno));
    sigprocmask(SIG_BLOCK, &signals, &before);
    pid_t child = fork();
    if (child == 0)
        run(args, cookie, pid, fds[0], &before);
    int status;
    if (child < 0)
        status = cli_fail(KYMO_EXIT_NODE, "no process for %s: %s", args[0], strerror(errno));
    else
        status = wait_for(child, args[0], &signals, fds[1]);
    close(fds[0]);
    close(fds[1]);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}
