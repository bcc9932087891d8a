/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums the runs of each process by the function in which they stopped, and how long the process then
 * waited. Memory: at most 160 bytes for each such function of a process that is alive, and for the process.
 * Single-threaded.
 */
#ifndef KYMO_WAITS_H
#define KYMO_WAITS_H

#include "kymo_map.h"
#include "kymo_tables.h"

struct kymo_waits {
    struct kymo_map processes;   /* ident -> struct waiting, see waits.c */
    struct kymo_map by_function; /* number of the process and mfa -> place + 1 */
    uint32_t numbered;
    struct waits_place *places;
    uint32_t n_places, room, unused; /* unused: the first free one + 1, 0 = none */
    const struct kymo_shed *shed;
    size_t n_shed;
    /* Receives the rows, as kymo_table_rows does. */
    int (*row)(void *arg, enum kymo_table_id table, const void *row);
    void *arg;
};

/* Runs that the budget has left out end a wait. `row` and `arg` are those of the table KYMO_TABLE_WAITS. */
void kymo_waits_init(struct kymo_waits *w, const struct kymo_shed *shed, size_t n_shed,
                     int (*row)(void *, enum kymo_table_id, const void *), void *arg);
/* The next run of any process. Returns 0 or -ENOMEM. */
int kymo_waits_run(struct kymo_waits *w, const struct kymo_run *run);
/* The process has ended, or the recording has, at `end`: gives its rows. Returns what `row` returned. */
int kymo_waits_exit(struct kymo_waits *w, uint64_t process, int64_t end);
/* The same for all processes that are left, once. */
int kymo_waits_end(struct kymo_waits *w, int64_t end);
void kymo_waits_free(struct kymo_waits *w);

#endif
