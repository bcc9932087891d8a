/* SPDX-License-Identifier: Apache-2.0
 *
 * How a tracing thread records an event. Everything here is for producer threads, and
 * never blocks, allocates or enters the kernel (except as noted at kymo_writer_get).
 * Recording is wait-free; adding definitions, changing segments and renewing leases
 * are lock-free.
 *
 *     struct kymo_writer *w = kymo_writer_get(r);
 *     if (w == NULL) return;                        // counted as lost, or not active
 *     uint32_t mfa = kymo_dict_mfa(w, m, f, a);     // 0: not defined yet
 *     if (mfa == 0) ... name the atoms, kymo_dict_mfa_add ...
 *     uint8_t *p = kymo_reserve(w, KYMO_E_CALL, 12);
 *     if (p != NULL) {
 *         p = kymo_put64(p, who);
 *         p = kymo_put32(p, mfa);
 *         kymo_commit(w, p);
 *     }
 *     kymo_writer_put(w);
 *
 * From get to put is the critical section that stop waits for: keep it short, and
 * call put after every successful get. Call kymo_dict_* before reserve, not between
 * reserve and commit.
 */
#ifndef KYMO_WRITER_H
#define KYMO_WRITER_H

#include <string.h>

#include "kymo_recorder.h"

/* True while the recorder accepts events. One relaxed load, for the `enabled` callbacks. */
static inline bool kymo_recorder_active(const struct kymo_recorder *r);
/* True once a stop was requested or a limit was reached: the tracer then returns
 * `remove` for trace_status. */
static inline bool kymo_recorder_ended(const struct kymo_recorder *r);

/* Returns the calling thread's writer; its first event in this recorder takes a slot.
 * NULL: the recorder is not active (nothing is counted), no slot is left (counted
 * as KYMO_LOST_NO_SLOT), or the thread is already between get and put (counted as
 * KYMO_LOST_REENTRY). */
static inline struct kymo_writer *kymo_writer_get(struct kymo_recorder *r);
/* The same for work without an event, such as a definition: never counts a loss. */
static inline struct kymo_writer *kymo_writer_borrow(struct kymo_recorder *r);
static inline void kymo_writer_put(struct kymo_writer *w);

/* Sampling of 1 in N events: returns true if this event is to be recorded; otherwise
 * counts it as sampled out. Always true if sample is 1 or sampling is by process. */
static inline bool kymo_sample(struct kymo_writer *w);

/* Begins a record of at most max_body bytes after the record header, with the current
 * time, in a new segment if necessary. NULL: the event is lost, and has been counted,
 * or a limit was reached, and the recorder has ended. */
static inline uint8_t *kymo_reserve(struct kymo_writer *w, unsigned id, size_t max_body);
/* Makes the record visible to readers; end is one past its last byte, within max_body. */
static inline void kymo_commit(struct kymo_writer *w, uint8_t *end);
/* Records a note. Notes are not counted as events, recorded or lost, and not sampled. `id` is
 * KYMO_E_COUNTERS, KYMO_E_MONITOR or KYMO_E_OBSERVED, `body` its fields. Returns false, without recording, if
 * there is no room now or the recorder has reached a limit. Call it between kymo_writer_borrow
 * and kymo_writer_put. */
bool kymo_write_note(struct kymo_writer *w, unsigned id, const uint8_t *body, size_t len);
/* Counts an event that the caller could not record. */
void kymo_lose(struct kymo_writer *w, enum kymo_loss cause);

/* Unaligned little-endian stores; return the address after the stored bytes. */
static inline uint8_t *kymo_put8(uint8_t *p, uint8_t v);
static inline uint8_t *kymo_put16(uint8_t *p, uint16_t v);
static inline uint8_t *kymo_put32(uint8_t *p, uint32_t v);
static inline uint8_t *kymo_put64(uint8_t *p, uint64_t v);

/* ---- dictionary ------------------------------------------------------------
 * Keys are words that do not change during the life of the recorder (atom terms).
 * Lookups use a direct-mapped cache of the thread, then a lock-free table shared by
 * all threads. They return the id, or 0 if there is none yet. The *_add functions
 * append the definition, which is durable when they return, and return its id or,
 * if the dictionary is full, KYMO_DICT_NO_ROOM (counted in meta.dict_full); the event
 * is then recorded with id 0. */
#define KYMO_DICT_NO_ROOM 0u
/* False once the dictionary is full: names need not be looked up then. One load. */
static inline bool kymo_dict_has_room(const struct kymo_writer *w);
static inline uint32_t kymo_dict_atom(struct kymo_writer *w, uint64_t word);
uint32_t kymo_dict_atom_add(struct kymo_writer *w, uint64_t word, const char *utf8, size_t len);
static inline uint32_t kymo_dict_mfa(struct kymo_writer *w, uint64_t m, uint64_t f, uint32_t arity);
/* module and function are ids of atoms (0 if the dictionary was full). */
uint32_t kymo_dict_mfa_add(struct kymo_writer *w, uint64_t m, uint64_t f, uint32_t arity, uint32_t module,
                           uint32_t function);
/* Terms are found by a 64-bit hash, computed by the caller, and by their bytes. */
uint32_t kymo_dict_term(struct kymo_writer *w, uint64_t hash, const uint8_t *etf, size_t len);
/* Describes a process; not deduplicated. Unknown ids are 0, unknown idents
 * KYMO_IDENT_NONE. Returns false if the dictionary is full. */
struct kymo_described {
    uint64_t ident;
    uint32_t name, mfa;      /* ids of an atom and a function */
    uint64_t parent, caller; /* idents: its parent, and the process it works for */
};
bool kymo_dict_process(struct kymo_writer *w, const struct kymo_described *p);

/* ---- fast path -----------------------------------------------------------------
 * Records a call without contents in one step, from get to put: a KYMO_E_CALL record
 * with the ident of the tracee and the id of the function. False: nothing was done or
 * counted, use the single steps instead. That happens rarely: the thread has no writer
 * yet or is between get and put; the recorder is not active, samples, or has no id for
 * the function; or a segment or the lease of a limit ends here. */
static inline bool kymo_record_call(struct kymo_recorder *r, uint64_t tracee, uint64_t m, uint64_t f,
                                    uint32_t arity);
/* The same as a KYMO_E_CALL_DEPTH record. Returns false also if depth > KYMO_DEPTH_MAX. */
static inline bool kymo_record_call_at(struct kymo_recorder *r, uint64_t tracee, uint64_t m, uint64_t f,
                                       uint32_t arity, uint64_t depth);

#include "kymo_writer_impl.h"

#endif
