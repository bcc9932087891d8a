/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions for budgets: the number of events that each thread records, the functions and
 * kinds that they belong to, and notes of what was shed. For control threads
 * (kymo_recorder.h); they cost producers nothing.
 */
#ifndef KYMO_BUDGET_H
#define KYMO_BUDGET_H

#include "kymo_recorder.h"
#include "kymo_writer.h"

/* The present time in ticks, for `since` of kymo_recorder_sample. */
uint64_t kymo_recorder_ticks(const struct kymo_recorder *r);

/* The number of events that slot i was offered: recorded, lost and left out by sampling.
 * Returns false if slot i is not in use. */
bool kymo_recorder_offered(struct kymo_recorder *r, uint32_t i, uint64_t *events);

/* The number of call events of one function. */
struct kymo_loud {
    uint64_t module, function; /* words of the atoms, 0 = not known */
    uint32_t arity, id;        /* id in the dictionary */
    uint64_t events;
};

/* Event counts in a sample of the newest records. */
struct kymo_sample {
    uint64_t kinds[KYMO_KINDS]; /* calls: with return_from and exception_from */
    uint64_t return_to;
    uint64_t other;
    /* The functions with the most events, in descending order. */
    struct kymo_loud *functions; /* an array of the caller */
    uint32_t n_functions;        /* in: its size; out: the number of functions in it */
};

/* Counts records that are not older than `since`, in at most four megabytes of the newest
 * segments. Unless that limit is reached, no record is left out. Returns 0, -EBUSY if another
 * control function is running, -ESHUTDOWN if the recorder is stopping, -ENOMEM or -ECHILD. */
int kymo_recorder_sample(struct kymo_recorder *r, uint64_t since, struct kymo_sample *out);

/* Stores the budget in meta, for readers. 0 means none. */
void kymo_recorder_budget(struct kymo_recorder *r, uint64_t ppm, uint64_t events);

/* Notes that functions (dictionary ids) and kinds (bits 1 << enum kymo_kind) were shed or
 * restored now. Notes that do not fit are counted in meta. Call it between kymo_writer_get
 * and kymo_writer_put. */
void kymo_note_shed(struct kymo_writer *w, enum kymo_shedding what, uint32_t kinds, const uint32_t *functions,
                    uint32_t n);

#endif
