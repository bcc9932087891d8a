/* SPDX-License-Identifier: Apache-2.0
 *
 * The shadow stack: derives which traced calls of a process are open from call, return_from,
 * exception_from and return_to events. Single-threaded.
 *
 * What the events mean:
 *   return_from F   the innermost open F has ended, and all calls above it.
 *   return_to T     the last call has ended, and those that it had replaced by tail calls;
 *                   T runs now. If T is open, all calls above it have ended. Otherwise (T is
 *                   not traced, or its call is older than the recording) it is unknown
 *                   whether the call below the last one had called T, or had ended with a
 *                   tail call. This depends on the code, so it is learned: see struct
 *                   kymo_facts.
 *   call            it is unknown whether the caller stays on the stack. If neither
 *                   return_to nor return_from can follow, the end of the call will never be
 *                   known, and the call opens no frame.
 *
 * A T that is not open is pushed as an inferred frame, so that later returns find it. It is
 * not a recorded call, and is never shown.
 *
 * If the events have the depth of the process's stack (kymo_event.depth), nothing is inferred
 * or learned:
 *   call at d         calls at a greater depth have ended. One at the same depth has been
 *                     replaced by a tail call, and has ended too. But one whose return_from is
 *                     recorded stays open until then, as its frame stays on the stack of the
 *                     process. Calls at a lower depth are open.
 *   return_to at d    all calls at a greater depth have ended, and no others.
 *   return_from at d  the call of this function at d has ended, and all calls above it.
 * So a missing return shows with the next call or return at its depth or a lower one.
 *
 * Whatever the order of events (overwritten or lost events, both return_from and return_to
 * for one return, exit with open calls), frames are removed only from the top, and each
 * exactly once.
 */
#ifndef KYMO_STACK_H
#define KYMO_STACK_H

#include "kymo_map.h"
#include "kymo_reader.h"

enum kymo_frame_kind {
    KYMO_FRAME_CALL = 0,
    KYMO_FRAME_INFERRED = 1, /* returned to, never called */
    KYMO_FRAME_GC_MINOR = 2,
    KYMO_FRAME_GC_MAJOR = 3
};

struct kymo_frame {
    uint32_t mfa;   /* canonical dictionary id; 0 for garbage collections */
    uint32_t above; /* inferred: the function that was open above the frame below */
    uint8_t kind;   /* enum kymo_frame_kind */
    uint8_t reserved[3];
    uint32_t depth; /* shown frames below this one */
    uint32_t words; /* on the stack of the process at the call, KYMO_DEPTH_UNKNOWN */
    uint64_t user;  /* for the owner of the stack; 0 at first */
};

/* Why a frame ends. */
enum kymo_leave {
    KYMO_LEAVE_RETURN,    /* its return_from or exception_from */
    KYMO_LEAVE_RETURN_TO, /* a return_to: itself or by a tail call */
    KYMO_LEAVE_TAIL,      /* a tail call replaced it by itself or a cycle of calls */
    KYMO_LEAVE_LOST,      /* its end was not recorded */
    KYMO_LEAVE_HIBERNATE, /* the process hibernates, which throws its stack away */
    KYMO_LEAVE_END,       /* exit of the process or end of the recording */
    KYMO_LEAVE_REPLACED   /* a tail call has taken its place on the stack of the process */
};

/* Called for each frame that ends, from the top down. NULL is allowed. */
typedef void (*kymo_leave_fn)(void *arg, const struct kymo_frame *f, enum kymo_leave why);

/* What is known about the functions of the recording; shared by all processes. */
struct kymo_facts {
    bool return_to_seen;     /* return_to events exist */
    struct kymo_map returns; /* function -> uint32_t: the function has return_from or exception_from
                                events; 1 = there was one, 0 = they are expected */
    struct kymo_map pairs;   /* caller << 32 | callee -> struct kymo_pair */
};

/* How often the caller was still on the stack after the callee (kept), or had ended with it
 * (tail). */
struct kymo_pair {
    uint32_t kept, tail;
};

#define KYMO_PAIRS_MAX 262144u /* further pairs are not learned */

/* Calls that were ended by a guess: a function returned to one that was not open, and nothing
 * was known about these callers. From the one that returned down. */
#define KYMO_GUESS_CALLS 8u
#define KYMO_GUESSES 4u
struct kymo_guess {
    uint32_t mfa[KYMO_GUESS_CALLS];
    uint32_t n;    /* how many are in mfa */
    uint32_t left; /* frames that remained open */
};

struct kymo_stack {
    struct kymo_frame *f;
    uint32_t n, room;
    uint32_t shown;      /* frames that are not inferred */
    uint32_t calls;      /* frames of KYMO_FRAME_CALL */
    uint32_t beyond;     /* calls over KYMO_STACK_MAX, not stored */
    uint32_t last;       /* function that ended last */
    uint8_t last_op;     /* private */
    uint64_t loss_epoch; /* of the last event */
    bool doubtful;       /* events were lost: nothing is learned until it is empty */
    /* The newest guesses, the oldest first. */
    struct kymo_guess guesses[KYMO_GUESSES];
    uint32_t n_guesses;
};

/* Open calls beyond this number are counted but not stored. */
#define KYMO_STACK_MAX 65536u
/* With this many open calls, a repeated function is assumed to loop with tail calls, unless
 * its callers are known to stay. */
#define KYMO_STACK_LOOP 400u

/* An all-zero struct kymo_stack is empty. Facts need kymo_facts_init. */
void kymo_facts_init(struct kymo_facts *facts);
void kymo_facts_free(struct kymo_facts *facts);
/* Copies facts into the uninitialised `to`. False if there is no memory; free it also then. */
bool kymo_facts_copy(struct kymo_facts *to, const struct kymo_facts *facts);
/* Notes that calls of this function have a return_from or exception_from event. */
void kymo_facts_returns(struct kymo_facts *facts, uint32_t mfa);
/* Frees the stack. Frames that are still open are dropped without a call of `leave`. */
void kymo_stack_free(struct kymo_stack *st);

/* Each of the following functions may end frames. mfa is a canonical id, 0 = unknown; words is the
 * depth of the process's stack, KYMO_DEPTH_UNKNOWN. */

/* Returns the new frame, valid until the next call of a function of this file; NULL if the
 * call opens none (see above), or if there is no memory. */
struct kymo_frame *kymo_stack_call(struct kymo_stack *st, struct kymo_facts *facts, uint32_t mfa,
                                   uint32_t words, kymo_leave_fn leave, void *arg);
void kymo_stack_return_to(struct kymo_stack *st, struct kymo_facts *facts, uint32_t mfa, uint32_t words,
                          kymo_leave_fn leave, void *arg);
/* return_from and exception_from. True if this ended a frame of mfa. */
bool kymo_stack_return_from(struct kymo_stack *st, struct kymo_facts *facts, uint32_t mfa, uint32_t words,
                            kymo_leave_fn leave, void *arg);
/* Opens a garbage collection. kind is KYMO_FRAME_GC_*. NULL if there is no memory. */
struct kymo_frame *kymo_stack_gc_start(struct kymo_stack *st, uint8_t kind, kymo_leave_fn leave, void *arg);
/* False if no collection of this kind is open. */
bool kymo_stack_gc_end(struct kymo_stack *st, uint8_t kind, kymo_leave_fn leave, void *arg);
/* Learns from the open calls at the end of a process, or of the first look: repeated calls
 * without a known return to their caller were a loop of tail calls. */
void kymo_stack_learn_end(const struct kymo_stack *st, struct kymo_facts *facts);
/* Events of this process were lost if `epoch` (kymo_reader_loss_epoch) is not that of
 * the last call. */
void kymo_stack_lost(struct kymo_stack *st, uint64_t epoch);
/* The process hibernates: all calls have ended, without a return. */
void kymo_stack_hibernate(struct kymo_stack *st, kymo_leave_fn leave, void *arg);
/* Ends everything. */
void kymo_stack_clear(struct kymo_stack *st, kymo_leave_fn leave, void *arg);

#endif
