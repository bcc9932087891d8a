/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
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

/* 0, or -1 with errno; then *joining says whether the kernel refused to join the namespace, which was found. */
static int join(const char *pid, const char *name, int type, bool *joining)
{
    char path[64];
    struct stat own, other;
    *joining = false;
    snprintf(path, sizeof path, "/proc/self/ns/%s", name);
    if (stat(path, &own) != 0)
        return -1;
    snprintf(path, sizeof path, "/proc/%s/ns/%s", pid, name);
    if (stat(path, &other) != 0)
        return -1;
    if (own.st_dev == other.st_dev && own.st_ino == other.st_ino)
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *joining = fd >= 0;
    return fd < 0 ? -1 : setns(fd, type);
}

/* Without the process's own network and host name, its node can't be reached. Ends the child if that fails. */
static void join_node(const char *pid)
{
    bool joining;
    if (join(pid, "net", CLONE_NEWNET, &joining) == 0 && join(pid, "uts", CLONE_NEWUTS, &joining) == 0)
        return;
    if (joining)
        cli_warn("the network namespace of process %s can't be joined (setns: %s): run this command as root "
                 "with the "
                 "capability CAP_SYS_ADMIN, where no filter of system calls (seccomp) refuses setns, such as "
                 "on the "
                 "machine itself instead of in a container",
                 pid, strerror(errno));
    else if (errno == ENOENT)
        cli_warn("there is no process %s: find the node with 'kymo attach --list'", pid);
    else if (geteuid() == 0)
        cli_warn("the namespaces of process %s can't be read (%s): run this command with the capability "
                 "CAP_SYS_PTRACE, such as on the machine itself instead of in a container",
                 pid, strerror(errno));
    else
        cli_warn("the network of process %s can't be used (%s): run this command as root", pid,
                 strerror(errno));
    _exit(KYMO_EXIT_NODE);
}

/* Options of the user's other runtimes: ERL_FLAGS, ERL_AFLAGS, ERL_ZFLAGS, ERL_OTP25_FLAGS. */
static void unset_flags(void)
{
    for (char **e = environ; e != NULL && *e != NULL;) {
        char name[32];
        size_t n = strcspn(*e, "=");
        if (n < sizeof name && n >= sizeof "ERL_FLAGS" - 1 && strncmp(*e, "ERL_", 4) == 0 &&
            strncmp(*e + n - 5, "FLAGS", 5) == 0) {
            memcpy(name, *e, n);
            name[n] = '\0';
            unsetenv(name);
            e = environ;
        } else {
            e++;
        }
    }
}

/* Limits with which no runtime starts are raised as far as this user may. What is left of them is the reason why
 * one has not started, or has been killed; others are "". */
enum { FILES_NEEDED = 64 };
static const rlim_t space_needed = (rlim_t)4 << 30;

static bool is_less(rlim_t limit, rlim_t needed)
{
    return limit != RLIM_INFINITY && limit < needed;
}

static bool raised(struct rlimit *limit, rlim_t needed)
{
    if (!is_less(limit->rlim_cur, needed))
        return false;
    limit->rlim_cur = limit->rlim_max;
    return true;
}

static void raise_limits(void)
{
    struct rlimit files, space;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && raised(&files, FILES_NEEDED))
        (void)setrlimit(RLIMIT_NOFILE, &files);
    if (getrlimit(RLIMIT_AS, &space) == 0 && raised(&space, space_needed))
        (void)setrlimit(RLIMIT_AS, &space);
}

static const char *small_limit(char *text, size_t room)
{
    struct rlimit files, space;
    text[0] = '\0';
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && is_less(files.rlim_max, FILES_NEEDED))
        snprintf(text, room,
                 "; this command may open only %ju files: raise that limit (ulimit -n) to %d or more",
                 (uintmax_t)files.rlim_max, FILES_NEEDED);
    else if (getrlimit(RLIMIT_AS, &space) == 0 && is_less(space.rlim_max, space_needed))
        snprintf(
            text, room,
            "; this command may use only %ju MiB of addresses: raise that limit (ulimit -v) to 4 GiB or more",
            (uintmax_t)(space.rlim_max >> 20));
    return text;
}

/* Runs in the child. The child may write to the terminal, but only the parent gets the signals
 * of its keys. */
static _Noreturn void run(char *const *args, const char *cookie, const char *pid, const int *fds,
                          const sigset_t *mask)
{
    signal(SIGPIPE, SIG_DFL);
    signal(SIGTTOU, SIG_IGN); /* writes progress although it is not in the foreground */
    sigprocmask(SIG_SETMASK, mask, NULL);
    for (int fd = 0; fd < 3; fd++) {
        if (fds[fd] >= 0 && dup2(fds[fd], fd) < 0) {
            cli_warn("%s: %s", args[0], strerror(errno));
            _exit(KYMO_EXIT_NODE);
        }
    }
    unset_flags();
    raise_limits();
    if (setpgid(0, 0) != 0 ||
        /* A crash dump would contain the cookie. */
        setenv("ERL_CRASH_DUMP_SECONDS", "0", 1) != 0 ||
        (cookie != NULL ? setenv("KYMO_ATTACH_COOKIE", cookie, 1) : unsetenv("KYMO_ATTACH_COOKIE")) != 0) {
        cli_warn("%s: %s", args[0], strerror(errno));
        _exit(KYMO_EXIT_NODE);
    }
    if (pid != NULL)
        join_node(pid);
    execvp(args[0], args);
    cli_warn("%s: %s; Erlang is needed (see --erl)", args[0], strerror(errno));
    _exit(KYMO_EXIT_NODE);
}

pid_t attach_child(char *const *args, const char *cookie, const char *pid, const int *fds,
                   const sigset_t *mask)
{
    char current[PATH_MAX];
    if (getcwd(current, sizeof current) == NULL) { /* Erlang does not start without one. */
        (void)cli_fail(KYMO_EXIT_NODE, "the current folder can't be used (%s): change to another one",
                       strerror(errno));
        return -1;
    }
    pid_t child = fork();
    if (child == 0)
        run(args, cookie, pid, fds, mask);
    if (child < 0)
        (void)cli_fail(KYMO_EXIT_NODE, "no process for %s: %s", args[0], strerror(errno));
    return child;
}

int attach_status(int status, const char *name)
{
    char limit[128];
    if (WIFEXITED(status)) {
        int code = WEXITSTATUS(status);
        /* Other statuses are those of a program that is no runtime, or of one that did not start. */
        if (code == KYMO_EXIT_OK || code == KYMO_EXIT_USAGE || code == KYMO_EXIT_WRITE ||
            code == KYMO_EXIT_NODE)
            return code;
        if (small_limit(limit, sizeof limit)[0] != '\0')
            return cli_fail(KYMO_EXIT_NODE, "%s ended with status %d%s", name, code, limit);
        return cli_fail(KYMO_EXIT_NODE, "%s ended with status %d: name an erl of OTP 25 or later with --erl",
                        name, code);
    }
    return cli_fail(KYMO_EXIT_NODE,
                    "%s was killed by signal %d; the node removes everything that was sent to it, but a "
                    "recording that was being fetched only after ten minutes: 'kymo attach --detach NODE -o "
                    "DIR' copies the rest into the same DIR. If the node has died, its recording stays on "
                    "its machine, in kymo-attach-*/recording in its temporary directory%s",
                    name, WTERMSIG(status), small_limit(limit, sizeof limit));
}

/* Forwards each line of standard input as a request for a snapshot, and Ctrl-D on a terminal as
 * the request to end. Other input may end at any time, as in a service, which asks for nothing.
 * Returns false if there is no more input. */
static bool forward_lines(int out)
{
    char text[256];
    ssize_t n = read(STDIN_FILENO, text, sizeof text);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    for (ssize_t i = 0; i < n; i++) {
        if (text[i] == '\n')
            (void)!write(out, "s", 1);
    }
    if (n <= 0 && isatty(STDIN_FILENO))
        (void)!write(out, "\n", 1);
    return n > 0;
}

/* Waits for a signal, and forwards lines meanwhile. If poll(2) fails, standard input is not read. */
static ssize_t next_signal(int signals, struct signalfd_siginfo *sig, int out, bool *lines)
{
    struct pollfd p[] = {{.fd = signals, .events = POLLIN},
                         {.fd = *lines ? STDIN_FILENO : -1, .events = POLLIN}};
    if (*lines && poll(p, 2, -1) < 0) {
        if (errno == EINTR)
            return 0;
        cli_warn("standard input is ignored, so it can't ask for a snapshot: %s", strerror(errno));
        *lines = false;
    } else if (*lines) {
        if (p[1].revents != 0)
            *lines = forward_lines(out);
        if (p[0].revents == 0)
            return 0;
    }
    return read(signals, sig, sizeof *sig);
}

/* Forwards signals and lines until the child has ended. */
static int wait_for(pid_t child, const char *name, int signals, int out, bool lines, bool *interrupted)
{
    static const char *const wishes[] = {"\n", "q"};
    enum { WISHES = sizeof wishes / sizeof *wishes };
    int status;
    size_t asked = 0;
    for (;;) {
        struct signalfd_siginfo sig;
        if (next_signal(signals, &sig, out, &lines) != (ssize_t)sizeof sig)
            continue;
        if (sig.ssi_signo != SIGCHLD) {
            /* If the child is gone, the code below notices it. */
            if (asked == WISHES || write(out, wishes[asked], 1) != 1)
                (void)kill(child, SIGKILL);
            else
                asked++;
            *interrupted = true;
        } else if (waitpid(child, &status, WNOHANG) == child) {
            break;
        }
    }
    return attach_status(status, name);
}

int attach_run(char *const *args, const char *cookie, const char *pid, bool lines, bool *interrupted)
{
    int fds[2], fd = -1, status = KYMO_EXIT_NODE;
    sigset_t signals, before;
    *interrupted = false;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGCHLD);
    /* The parent of this program may have set SIGCHLD to be ignored. */
    signal(SIGCHLD, SIG_DFL);
    if (pipe2(fds, O_CLOEXEC) != 0)
        return cli_fail(KYMO_EXIT_NODE, "no pipe: %s", strerror(errno));
    sigprocmask(SIG_BLOCK, &signals, &before);
    fd = signalfd(-1, &signals, SFD_CLOEXEC);
    const int of_child[3] = {fds[0], -1, -1};
    pid_t child = fd < 0 ? -1 : attach_child(args, cookie, pid, of_child, &before);
    if (fd < 0)
        (void)cli_fail(KYMO_EXIT_NODE, "no descriptor for signals: %s", strerror(errno));
    if (child > 0)
        status = wait_for(child, args[0], fd, fds[1], lines, interrupted);
    if (fd >= 0)
        close(fd);
    close(fds[0]);
    close(fds[1]);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}
