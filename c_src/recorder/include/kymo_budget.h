/* SPDX-License-Identifier: Apache-2.0
 *
 * What a budget needs: how many events each thread records, which functions and kinds
 * of events they are, and notes of what was shed. For control threads (kymo_recorder.h);
 * producers pay nothing for any of it.
 */
#ifndef KYMO_BUDGET_H
#define KYMO_BUDGET_H

#include "kymo_recorder.h"
#include "kymo_writer.h"

/* Ticks of now, for `since` of kymo_recorder_sample. */
uint64_t kymo_recorder_ticks(const struct kymo_recorder *r);

/* Events that slot i was offered: recorded, lost and left out by sampling. False: there
 * is no such slot in use. */
bool kymo_recorder_offered(struct kymo_recorder *r, uint32_t i, uint64_t *events);

/* Events of calls, of one function. */
struct kymo_loud {
    uint64_t module, function; /* words of the atoms, 0 = not known */
    uint32_t arity, id;        /* id in the dictionary */
    uint64_t events;
};

/* Events in a part of the newest records. */
struct kymo_sample {
    uint64_t kinds[KYMO_KINDS]; /* calls: with return_from and exception_from */
    uint64_t return_to;         /* to whatever called a traced function */
    uint64_t other;
    /* The loudest functions, the loudest first. */
    struct kymo_loud *functions; /* room for n_functions, by the caller */
    uint32_t n_functions;        /* in: room; out: how many there are */
};

/* Counts records that are not older than `since`, in at most four megabytes of the newest
 * segments: the same share of each thread's events as long as nothing is left out.
 * -EBUSY: another control function is at work; -ESHUTDOWN: the recorder is ending;
 * -ENOMEM, -ECHILD. */
int kymo_recorder_sample(struct kymo_recorder *r, uint64_t since, struct kymo_sample *out);

/* The budget, for meta. 0: none. */
void kymo_recorder_budget(struct kymo_recorder *r, uint64_t ppm, uint64_t events);

/* Notes that functions (ids of the dictionary) and kinds (bits 1 << enum kymo_kind) were
 * shed or given back, now. What finds no room is counted in meta. Between kymo_writer_get
 * and kymo_writer_put. */
void kymo_note_shed(struct kymo_writer *w, enum kymo_shedding what, uint32_t kinds, const uint32_t *functions,
                    uint32_t n);

#endif
