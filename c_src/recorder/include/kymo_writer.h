/* SPDX-License-Identifier: Apache-2.0
 *
 * What a tracing thread does. Everything here is for producer threads and never
 * blocks, allocates or enters the kernel (but see kymo_writer_get). Recording is
 * wait-free but for what is lock-free: definitions, and the change of segments
 * and of leases.
 *
 *     struct kymo_writer *w = kymo_writer_get(r);
 *     if (w == NULL) return;                        // counted as lost, or not active
 *     uint32_t mfa = kymo_dict_mfa(w, m, f, a);     // 0: not known yet
 *     if (mfa == 0) ... name the atoms, kymo_dict_mfa_add ...
 *     uint8_t *p = kymo_reserve(w, KYMO_E_CALL, 12);
 *     if (p != NULL) {
 *         p = kymo_put64(p, who);
 *         p = kymo_put32(p, mfa);
 *         kymo_commit(w, p);
 *     }
 *     kymo_writer_put(w);
 *
 * get .. put is the critical section that stop waits for: keep it short, and
 * never leave it out after a successful get. Definitions (kymo_dict_*) must be
 * made before reserve, not between reserve and commit.
 */
#ifndef KYMO_WRITER_H
#define KYMO_WRITER_H

#include <string.h>

#include "kymo_recorder.h"

/* True while events are wanted. One relaxed load: for the `enabled` callbacks. */
static inline bool kymo_recorder_active(const struct kymo_recorder *r);
/* True from the moment a stop was asked for or a limit was reached: the tracer
 * answers `remove` to trace_status. */
static inline bool kymo_recorder_ended(const struct kymo_recorder *r);

/* The calling thread's writer, taken in this recorder at its first event.
 * NULL: the recorder is not active (nothing counted), no slot is left (counted
 * as KYMO_LOST_NO_SLOT), or the thread already is between get and put (counted
 * as KYMO_LOST_REENTRY). */
static inline struct kymo_writer *kymo_writer_get(struct kymo_recorder *r);
/* The same for what is no event, such as a definition alone: nothing is counted
 * as lost. */
static inline struct kymo_writer *kymo_writer_borrow(struct kymo_recorder *r);
static inline void kymo_writer_put(struct kymo_writer *w);

/* 1 in N by event: true when this event is to be recorded, else counted as
 * sampled out. Always true when sample is 1 or sampling is by process. */
static inline bool kymo_sample(struct kymo_writer *w);

/* Starts a record of at most max_body bytes after the record header, stamps it
 * with the current time, opens the next segment when needed. NULL: the event is
 * lost and counted, or a limit was reached (then the recorder has ended). */
static inline uint8_t *kymo_reserve(struct kymo_writer *w, unsigned id, size_t max_body);
/* Makes the record visible; end is one past its last byte, within max_body. */
static inline void kymo_commit(struct kymo_writer *w, uint8_t *end);
/* Counts an event that the caller could not record. */
void kymo_lose(struct kymo_writer *w, enum kymo_loss cause);

/* Little-endian stores without alignment; return the byte after. */
static inline uint8_t *kymo_put8(uint8_t *p, uint8_t v);
static inline uint8_t *kymo_put16(uint8_t *p, uint16_t v);
static inline uint8_t *kymo_put32(uint8_t *p, uint32_t v);
static inline uint8_t *kymo_put64(uint8_t *p, uint64_t v);

/* ---- dictionary ------------------------------------------------------------
 * Keys are words that stay the same for the life of the recorder (atom terms).
 * Lookups go through a direct-mapped cache of the thread, then a lock-free table
 * shared by all threads. They return the id, or 0 when there is none yet;
 * the *_add functions append the definition, durable before they return, and
 * return its id, or KYMO_DICT_NO_ROOM (counted in meta.dict_full): the event is
 * then recorded with id 0. */
#define KYMO_DICT_NO_ROOM 0u
/* False once the dictionary is full: then naming an atom is wasted work. One load. */
static inline bool kymo_dict_has_room(const struct kymo_writer *w);
static inline uint32_t kymo_dict_atom(struct kymo_writer *w, uint64_t word);
uint32_t kymo_dict_atom_add(struct kymo_writer *w, uint64_t word, const char *utf8, size_t len);
static inline uint32_t kymo_dict_mfa(struct kymo_writer *w, uint64_t m, uint64_t f, uint32_t arity);
/* module and function are ids of atoms (0 when there was no room for them). */
uint32_t kymo_dict_mfa_add(struct kymo_writer *w, uint64_t m, uint64_t f, uint32_t arity, uint32_t module,
                           uint32_t function);
/* Terms are found by a 64-bit hash of the caller's and their bytes. */
uint32_t kymo_dict_term(struct kymo_writer *w, uint64_t hash, const uint8_t *etf, size_t len);
/* Describes a process; not deduplicated. Ids may be 0, idents KYMO_IDENT_NONE: not known.
 * false: no room. */
struct kymo_described {
    uint64_t ident;
    uint32_t name, mfa;      /* ids of an atom and a function */
    uint64_t parent, caller; /* idents: who started it, and for whom it works */
};
bool kymo_dict_process(struct kymo_writer *w, const struct kymo_described *p);

/* ---- most events -------------------------------------------------------------
 * A call without contents, from get to put in one step: a record KYMO_E_CALL of the
 * ident of the tracee and the id of the function. False: nothing was done and
 * nothing counted, go the way of steps. That is for what is rare: the thread has no
 * writer yet or is between get and put, the recorder is not active, samples, or has
 * not seen the function, a segment or the lease of a limit ends here. */
static inline bool kymo_record_call(struct kymo_recorder *r, uint64_t tracee, uint64_t m, uint64_t f,
                                    uint32_t arity);

#include "kymo_writer_impl.h"

#endif
