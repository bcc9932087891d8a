/* SPDX-License-Identifier: Apache-2.0
 *
 * The shadow stack: which traced calls of a process are open, worked out from
 * call, return_from, exception_from and return_to. Single threaded.
 *
 * What the events say, and what they leave open:
 *   return_from F   the nearest open F has ended; what is open above it too.
 *   return_to T     the last call and those that it had replaced by tail calls
 *                   have ended, T runs now. When T is open the calls above it
 *                   have ended. When it isn't (nobody traces T, or its call is
 *                   older than the recording) nothing tells whether the call
 *                   below the last one had called T, or had ended by a tail
 *                   call. That is a property of the code, so it is learnt: see
 *                   struct kymo_facts.
 *   call            nothing tells whether the caller stays. Nothing at all
 *                   says when a call ends that neither return_to nor return_from
 *                   will follow: such a call opens no frame.
 *
 * A T that isn't open is remembered as an inferred frame: it is on the stack
 * to be found again, but it is not a call that was seen and it is never shown.
 *
 * Ring wrap, lost events, one return seen twice (return_from and return_to),
 * exit with open calls: whatever the order of events, frames only leave from
 * the top and each exactly once.
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
    uint64_t user;  /* for the owner of the stack; 0 at first */
};

/* Why a frame ends. */
enum kymo_leave {
    KYMO_LEAVE_RETURN,    /* its return_from or exception_from */
    KYMO_LEAVE_RETURN_TO, /* a return_to: itself or by a tail call */
    KYMO_LEAVE_TAIL,      /* a tail call replaced it by itself or a cycle of calls */
    KYMO_LEAVE_LOST,      /* its end was not recorded */
    KYMO_LEAVE_HIBERNATE, /* the process hibernates, which throws its stack away */
    KYMO_LEAVE_END        /* exit of the process or end of the recording */
};

/* Called for each frame that ends, from the top down. NULL is allowed. */
typedef void (*kymo_leave_fn)(void *arg, const struct kymo_frame *f, enum kymo_leave why);

/* What the recording has told about its functions so far; one for all
 * processes. */
struct kymo_facts {
    bool return_to_seen;     /* return_to events exist */
    struct kymo_map returns; /* set of functions with return_from or exception_from */
    struct kymo_map pairs;   /* caller << 32 | callee -> struct kymo_pair */
};

/* Seen how often: the caller was still there after the callee (kept), or was
 * gone with it (tail). */
struct kymo_pair {
    uint32_t kept, tail;
};

#define KYMO_PAIRS_MAX 262144u /* no new pair is learnt beyond */

/* Calls ended together by a return to a function that was not open, because
 * nothing was known of them: from the one that returned down. */
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
    bool doubtful;       /* events were lost: nothing is learnt until it is empty */
    /* The newest times that calls were ended for want of knowledge, oldest first. */
    struct kymo_guess guesses[KYMO_GUESSES];
    uint32_t n_guesses;
};

/* More open calls than this are counted and not stored. */
#define KYMO_STACK_MAX 65536u
/* From this many open calls on, a repeated function is taken for a loop of
 * tail calls unless it is known that its callers stay. */
#define KYMO_STACK_LOOP 400u

/* All zero bytes are an empty stack and no facts; kymo_facts_init is needed for
 * facts. */
void kymo_facts_init(struct kymo_facts *facts);
void kymo_facts_free(struct kymo_facts *facts);
/* Makes `to`, which holds nothing yet, a copy. False: no memory; free it all the same. */
bool kymo_facts_copy(struct kymo_facts *to, const struct kymo_facts *facts);
/* The stack must be empty, or the frames are forgotten without a word. */
void kymo_stack_free(struct kymo_stack *st);

/* Each of the following may end frames. mfa is a canonical id; 0 = unknown. */

/* The new frame, valid until the next call of a function of this file; NULL
 * when this call opens none (see above, or no memory). */
struct kymo_frame *kymo_stack_call(struct kymo_stack *st, struct kymo_facts *facts, uint32_t mfa,
                                   kymo_leave_fn leave, void *arg);
void kymo_stack_return_to(struct kymo_stack *st, struct kymo_facts *facts, uint32_t mfa, kymo_leave_fn leave,
                          void *arg);
/* return_from and exception_from. True when a frame of mfa ended by it. */
bool kymo_stack_return_from(struct kymo_stack *st, struct kymo_facts *facts, uint32_t mfa,
                            kymo_leave_fn leave, void *arg);
/* Opens a garbage collection; kind is KYMO_FRAME_GC_*. NULL: no memory. */
struct kymo_frame *kymo_stack_gc_start(struct kymo_stack *st, uint8_t kind, kymo_leave_fn leave, void *arg);
/* False when none of that kind is open. */
bool kymo_stack_gc_end(struct kymo_stack *st, uint8_t kind, kymo_leave_fn leave, void *arg);
/* To be called before the end of a process, or of what is read of it: calls that
 * repeat themselves, still open although nothing is known of any return to their
 * caller, were a loop of tail calls. */
void kymo_stack_learn_end(const struct kymo_stack *st, struct kymo_facts *facts);
/* Events of this process were lost if `epoch` (kymo_reader_loss_epoch) is not that of
 * the last call. */
void kymo_stack_lost(struct kymo_stack *st, uint64_t epoch);
/* The process hibernates: all calls have ended, without a return. */
void kymo_stack_hibernate(struct kymo_stack *st, kymo_leave_fn leave, void *arg);
/* Ends everything. */
void kymo_stack_clear(struct kymo_stack *st, kymo_leave_fn leave, void *arg);

#endif
