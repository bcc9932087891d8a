/* SPDX-License-Identifier: Apache-2.0
 *
 * Running the Erlang half of `kymo attach` (src/kymo_attach.erl): one child process, the
 * user's erl, with a pipe as its standard input.
 *
 * The first SIGINT, SIGTERM or SIGHUP asks the child to end the recording and to
 * fetch it; a second one kills the child. The end of this process, however it ends, closes
 * the pipe, and the child leaves the node at once. In all cases the node cleans up after
 * itself.
 */
#ifndef KYMO_CLI_ATTACH_H
#define KYMO_CLI_ATTACH_H

#include <stdbool.h>
#include <stddef.h>

/* The arguments of the child, a list that grows. One thread. */
struct attach_args {
    char **list; /* NULL at its end once there is one */
    size_t n, size;
    bool failed; /* out of memory; further additions do nothing */
};

void attach_args_add(struct attach_args *a, const char *text);
/* "key=value" */
void attach_args_pair(struct attach_args *a, const char *key, const char *value);
void attach_args_free(struct attach_args *a);

/* The folder of the application that this program belongs to, with ebin and priv in it.
 * malloc'ed; NULL with errno. */
char *attach_home(void);

/* Runs args[0], found in PATH, and waits for its end. cookie, if not NULL, is given to it
 * in the environment, where other users can't read it. With pid, the child joins the network and
 * the host name of that process, which takes privileges unless they are this process's own.
 * Returns the exit status of the child, KYMO_EXIT_NODE after a message when it can't be run or
 * was killed. */
int attach_run(char *const *args, const char *cookie, const char *pid);

#endif
