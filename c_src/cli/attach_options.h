/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that attach, check, top and live share: how to reach a node, and what to record.
 * They become arguments of the Erlang half (attach.h). One thread.
 */
#ifndef KYMO_CLI_ATTACH_OPTIONS_H
#define KYMO_CLI_ATTACH_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach.h"

struct attach_options {
    const char *command; /* for messages */
    char *cookie;        /* malloc'ed */
    const char *erl, *proto_dist, *ssl_dist_optfile, *port, *pid;
    bool given;     /* any of these options was given */
    bool functions; /* --functions was given */
    bool slow;      /* --slow was given */
    bool events;    /* --events was given */
    bool selects;   /* an option that selects what is recorded was given */
    int64_t for_ns; /* how long to record; 0: until the end is asked for */
    struct attach_args child;
};

enum {
    ATTACH_OPTION = 2000, /* the first of these options' values for getopt_long */
    ATTACH_OPTIONS = 24   /* the maximum number of these options */
};

void attach_options_init(struct attach_options *a, const char *command);
void attach_options_free(struct attach_options *a);
/* Appends the options to `longs`, which has n elements and room for ATTACH_OPTIONS more. The
 * caller terminates the array with zeros. `port` is the name of the option for the node's port.
 * Returns the new number of elements. */
size_t attach_options_add(struct option *longs, size_t n, const char *port);
/* Handles one of these options. Erases a cookie in `value`. Returns an exit status, after a
 * message unless it is KYMO_EXIT_OK. */
int attach_options_take(struct attach_options *a, int option, char *value);
/* Handles --for: how long to record. Returns like attach_options_take. */
int attach_options_for(struct attach_options *a, const char *value);
/* Makes the command line that runs `action` for the nodes, a list that ends with NULL. home is
 * the result of attach_home. */
void attach_options_command(struct attach_args *args, const struct attach_options *a, const char *home,
                            const char *action, char **nodes);
/* Runs `action` for the nodes until it has ended, as attach_run does. `output` is the folder for
 * recordings, or NULL; *interrupted as of attach_run. Returns an exit status, after a message unless it is
 * KYMO_EXIT_OK. */
int attach_options_run(const struct attach_options *a, const char *action, const char *output, bool quiet,
                       bool lines, char **nodes, bool *interrupted);
/* True if the Erlang half is installed. Otherwise prints a message. */
bool attach_has_modules(const char *home);

#endif
