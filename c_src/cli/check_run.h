/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the rules of kymo check on a recording, and prints what they find. One thread.
 *
 * A rule is a statement of SQL over the tables of a recording. It has the columns finding (a sentence),
 * weight (from 0 to 1, the share of the recording, or of a resource, that is concerned) and more (arguments
 * of kymo that show more; REC stands for the recording). Besides the tables it has the functions of SQLite,
 * and duration(ns), bytes(n), counted(n, word), recorded_ns() and recording_end_ns().
 */
#ifndef KYMO_CLI_CHECK_RUN_H
#define KYMO_CLI_CHECK_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct check {
    bool json, brief, quiet, strict; /* the options of the same names */
    int64_t wanted_ns; /* how long a recording that was interrupted should have become; 0: it was not */
    /* Private: the rules of the user's folder. */
    struct check_own {
        char *path, *sql;
    } * own;
    size_t n_own;
};

/* Reads the rules in the files *.sql of a folder, to be run after those of kymo. Does not parse them: SQLite
 * needs the tables of a recording for that. Returns an exit status, after a message unless it is
 * KYMO_EXIT_OK; call check_free in both cases. */
int check_read_rules(struct check *c, const char *folder);
/* Runs all rules on the recording, and prints the findings to standard output. *named: whether they name the
 * recording, and were written. Returns KYMO_EXIT_FINDINGS if there are any, KYMO_EXIT_OK if there is none,
 * KYMO_EXIT_NODE after a message if the recording was interrupted too early to judge the node, or another exit
 * status after a message. */
int check_recording(const struct check *c, const char *dir, bool *named);
void check_free(struct check *c);

#endif
