/* SPDX-License-Identifier: Apache-2.0
 *
 * Current activity of a node for `kymo top`: sums over short consecutive windows of time. A sink of
 * the analysis of a recording that is being written (kymo_live.h). Single-threaded.
 *
 * Times are cut at the edges of a window: if a call or run began before the window or is still
 * open, only its part within the window counts. So the time of a function never exceeds the length
 * of the window times the number of processes, and the sums of all windows add up to the whole. The
 * duration of a call counts in the window in which the call ends.
 *
 * A call that the runtime reports as slow counts as a call that has ended, unless calls of the
 * function are recorded too.
 *
 * Memory: KYMO_WINDOW_FUNCTIONS functions and KYMO_WINDOW_PROCESSES processes; facts of further
 * ones are counted in `others`.
 */
#ifndef KYMO_WINDOW_H
#define KYMO_WINDOW_H

#include "kymo_analysis.h"
#include "kymo_histogram.h"
#include "kymo_map.h"
#include "kymo_slow_calls.h"

#define KYMO_WINDOW_FUNCTIONS 20000u
#define KYMO_WINDOW_PROCESSES 100000u

/* Sums of one function, by canonical id. */
struct kymo_window_function {
    uint64_t calls;              /* number of calls that began */
    int64_t self;                /* ns in the function itself: without traced calls in it, collections, and
                                    time scheduled out if that is recorded */
    struct kymo_histogram times; /* durations of calls that ended */
};

/* Sums of one process or port, by ident. */
struct kymo_window_process {
    int64_t running; /* ns scheduled in */
    uint64_t calls, sent, received;
    /* Private: its current state. */
    int64_t since;
    uint32_t in; /* function, 0 = none known */
    uint8_t scheduled;
    bool collecting, gone;
};

/* Sums of one thread, by slot. */
struct kymo_window_thread {
    int64_t busy; /* ns in which it ran processes and ports */
    /* Private. */
    uint64_t process;
    int64_t since;
};

struct kymo_live;

struct kymo_window {
    struct kymo_slow_calls slow;
    int64_t start; /* of this window, CLOCK_MONOTONIC; KYMO_NO_TIME before the first cut */
    uint64_t events, calls, messages, collections;
    uint64_t others;           /* facts of functions and processes for which there was no room */
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

/* n_threads: number of slots of the recording. Returns 0 or -ENOMEM; call kymo_window_free in both
 * cases. */
int kymo_window_init(struct kymo_window *w, uint32_t n_threads);
void kymo_window_free(struct kymo_window *w);
/* Must be called before the first event, and with each later reader of the same recording:
 * canonical ids come from r from now on. */
void kymo_window_read(struct kymo_window *w, const struct kymo_reader *r);
struct kymo_analysis_sink kymo_window_sink(struct kymo_window *w);
/* Adds the time of open calls and runs up to `end`, except of runs that are KYMO_RUN_UNKNOWN in l, which
 * has the same events. The sums are then complete and can be read until kymo_window_next. Later events should not be older than `end`; one that is counts in the next
 * window, without the time before it. */
void kymo_window_cut(struct kymo_window *w, const struct kymo_live *l, int64_t end);
/* Begins the next window at `start`, with all sums 0. Open calls and runs continue, unless events
 * were skipped before it (`gap`): then it is unknown what is open. */
void kymo_window_next(struct kymo_window *w, int64_t start, bool gap);

#endif
