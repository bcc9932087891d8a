/* SPDX-License-Identifier: Apache-2.0
 *
 * Running the Erlang half of `kymo attach` (src/kymo_attach.erl): one child process, the
 * user's erl, with a pipe as its standard input.
 *
 * The first SIGINT, SIGTERM or SIGHUP makes the child end the recording and fetch it, a second
 * one give it up and remove it from the node; a third one kills the child. If this process ends
 * for any reason, the pipe is closed, and the child disconnects at once. In all cases the part of kymo in the node cleans up.
 */
#ifndef KYMO_CLI_ATTACH_H
#define KYMO_CLI_ATTACH_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The arguments of the child: a growing list. */
struct attach_args {
    char **list; /* NULL at its end once there is one */
    size_t n, size;
    bool failed; /* out of memory; further additions do nothing */
};

void attach_args_add(struct attach_args *a, const char *text);
/* "key=value" */
void attach_args_pair(struct attach_args *a, const char *key, const char *value);
void attach_args_free(struct attach_args *a);

/* The folder of the application that this program belongs to, which contains ebin and priv.
 * Allocated with malloc; NULL and errno on failure. */
char *attach_home(void);

/* Runs args[0], found in PATH, and waits until it has ended. With `lines`, each line of standard
 * input requests a snapshot from the child, and Ctrl-D on a terminal the end. A cookie that is not
 * NULL is passed in the environment, where other users cannot read it. With pid, the child joins the
 * network and host name namespaces of that process; this needs privileges unless they are the
 * namespaces of this process. *interrupted becomes true if a signal asked for the end. Returns the exit
 * status of the child, or KYMO_EXIT_NODE after a message if the child cannot be run or was killed. */
int attach_run(char *const *args, const char *cookie, const char *pid, bool lines, bool *interrupted);

/* The parts of attach_run, for callers that wait in another way. attach_child starts args[0]
 * with this signal mask and with `fds` as its standard input, output and error (negative: those
 * of this process). Returns its process id, or -1 after a message. */
pid_t attach_child(char *const *args, const char *cookie, const char *pid, const int *fds,
                   const sigset_t *mask);
/* The exit status for a status of waitpid. */
int attach_status(int status, const char *name);

#endif
