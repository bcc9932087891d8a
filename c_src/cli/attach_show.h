/* SPDX-License-Identifier: Apache-2.0
 *
 * Records a running node for commands that show the recording while it is written. Attaches
 * like `kymo attach`, and removes everything from the node at the end. The recording is read
 * in place, so the node must run on this machine. One thread.
 */
#ifndef KYMO_CLI_ATTACH_SHOW_H
#define KYMO_CLI_ATTACH_SHOW_H

#include "attach_options.h"

struct attach_show {
    const char *dir; /* the recording */
    /* Private. */
    char *text; /* malloc'ed; dir is in it */
    pid_t child;
    int in, said;
    off_t repeated; /* bytes of its messages that were printed */
    const char *erl;
};

/* Determines whether the argument of a command is a folder or a node. Without an argument, --pid
 * selects a node. Returns an exit status, after a message unless it is KYMO_EXIT_OK. */
int attach_show_target(const struct attach_options *o, int n, char **args, bool *is_node);

/* Attaches, and waits until the recording can be read. With `quiet`, prints errors only. If a
 * signal ends this process during that, the node cleans up. Returns an exit status, after a
 * message unless it is KYMO_EXIT_OK. Call attach_show_close in both cases. */
int attach_show_open(struct attach_show *s, const struct attach_options *o, char **nodes, bool quiet);
/* Ends the recording, waits until everything was removed from the node, and prints the
 * child's messages. Returns `status`, or an error that has occurred since opening. */
int attach_show_close(struct attach_show *s, int status);

#endif
