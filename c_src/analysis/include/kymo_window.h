/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node does now: sums over a short time, one after the other without a gap, for
 * `kymo top`. A sink of the analysis of what is being written (kymo_live.h). One thread.
 *
 * Times are cut at the edges: of a call or a run that began in the window before, only the
 * part in this window counts, and so does what is still open. So no function has more time
 * in a window than the window times the processes, and the sums of all windows are the
 * whole. The duration of a call counts in the window in which the call ends.
 *
 * Memory: WINDOW_FUNCTIONS functions and WINDOW_PROCESSES processes; what finds no room is
 * counted in `others`.
 */
#ifndef KYMO_WINDOW_H
#define KYMO_WINDOW_H

#include "kymo_analysis.h"
#include "kymo_histogram.h"
#include "kymo_map.h"

#define KYMO_WINDOW_FUNCTIONS 20000u
#define KYMO_WINDOW_PROCESSES 100000u

/* Of one function, by canonical id. */
struct kymo_window_function {
    uint64_t calls;              /* that began */
    int64_t self;                /* ns in the function itself: without traced calls in it, collections, and
                                    time scheduled out where that was recorded */
    struct kymo_histogram times; /* durations of calls that ended */
};

/* Of one process or port, by ident. */
struct kymo_window_process {
    int64_t running; /* ns scheduled in */
    uint64_t calls, sent, received;
    /* Private: what it does now. */
    int64_t since;
    uint32_t in; /* function, 0 = none that is known */
    uint8_t scheduled;
    bool collecting, gone;
};

/* Of one thread, by slot. */
struct kymo_window_thread {
    int64_t busy; /* ns that it ran processes and ports */
    /* Private. */
    uint64_t process;
    int64_t since;
};

struct kymo_window {
    int64_t start; /* of this window, CLOCK_MONOTONIC; KYMO_NO_TIME before the first cut */
    uint64_t events, calls, messages, collections;
    uint64_t others;           /* facts of functions and processes that found no room */
    struct kymo_map functions; /* canonical id -> struct kymo_window_function */
    struct kymo_map processes; /* ident -> struct kymo_window_process */
    struct kymo_window_thread *threads;
    uint32_t n_threads;
    bool has_running; /* scheduling is recorded: seen in any window so far */
    bool failed;      /* out of memory */
    /* Private. */
    const struct kymo_reader *r;
    int64_t now;
};

/* n_threads: slots of the recording. 0 or -ENOMEM; free in both cases. */
int kymo_window_init(struct kymo_window *w, uint32_t n_threads);
void kymo_window_free(struct kymo_window *w);
/* Canonical ids come from r from now on, a later reading of the same recording. */
void kymo_window_read(struct kymo_window *w, const struct kymo_reader *r);
struct kymo_analysis_sink kymo_window_sink(struct kymo_window *w);
/* Adds to the sums what is still open, up to `end`. Then they are complete and can be read,
 * until kymo_window_next. No later event may be older than the end; one that is counts in
 * the next window, without the time before it. */
void kymo_window_cut(struct kymo_window *w, int64_t end);
/* Begins the next window at `start`, with sums of 0. What was open goes on, unless events
 * were left out before it (`gap`): then nothing is known of what is open. */
void kymo_window_next(struct kymo_window *w, int64_t start, bool gap);

#endif
