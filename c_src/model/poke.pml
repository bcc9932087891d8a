/* SPDX-License-Identifier: Apache-2.0
 *
 * Who keeps a segment open for long is asked to change it: whoever draws the ticket
 * that is a quarter of a lap later (`next`) looks at the claim of that place and, if
 * it is still open, stores 0 to `end` of the writer that the segment names. The owner
 * stores to `end` too: when it opened the segment, and each time it was in the slow
 * path for another reason. Nothing may be lost between the two, or the segment stays
 * open for another lap, and its newest events are overwritten soon after it is closed.
 *
 *   owner   claim, instance; then, each time: end = room, a seq_cst fence, next;
 *           when the segment is too old by then: end = 0
 *   taker   next + 1, a seq_cst fence, claim, instance, 0 to end
 *
 * Either the taker sees the claim and its 0 comes after the owner's store to end, or
 * the owner sees the taker's ticket.
 *
 * Shown: when all is done, no segment is both open and older than the limit while
 * its owner's end leaves room.
 *
 * check base:
 * mutant the owner looks at the age first: AGE_FIRST
 * mutant the owner looks at the age only in the slow path: OPEN_BLINDLY
 * mutant the owner does not look: NO_LOOK
 * mutant no fence in the owner: NO_OWNER_FENCE
 * mutant no fence in the taker: NO_TAKER_FENCE
 * mutant the taker looks before it draws: LOOK_EARLY
 * mutant instance is written last: INSTANCE_LATE
 */
#define THREADS 2
#define LOCATIONS 4
#define TIMES 8
#include "memory.pml"

#define NEXT 0     /* 1: the ticket that looks at this segment was drawn */
#define CLAIM 1    /* 1: open */
#define INSTANCE 2 /* 1: names the owner; 0: the one before */
#define END 3      /* of the owner: 1 leaves room */

#define OWNER 0
#define TAKER 1

inline set_end()
{
#ifdef AGE_FIRST
    load_relaxed(NEXT, x);
    if
    :: x == 0 -> store_relaxed(END, 1)
    :: else -> store_relaxed(END, 0)
    fi;
#else
    store_relaxed(END, 1);
#ifndef NO_LOOK
#ifndef NO_OWNER_FENCE
    fence_seq_cst(OWNER);
#endif
    load_relaxed(NEXT, x);
    if
    :: x == 1 -> store_relaxed(END, 0)
    :: else
    fi;
#endif
#endif
    x = 0
}

proctype owner(byte me)
{
    USES_MEMORY;
    byte x;

    cas_acquire(CLAIM, 0, 1, x);
    x = 0;
#ifndef INSTANCE_LATE
    store_relaxed(INSTANCE, 1);
#endif
#ifdef OPEN_BLINDLY
    store_relaxed(END, 1);
#else
    set_end();
#endif
#ifdef INSTANCE_LATE
    store_relaxed(INSTANCE, 1);
#endif
    if /* events, which may have met the 0; then the slow path for another reason */
    :: set_end()
    :: true
    fi
}

proctype taker(byte me)
{
    USES_MEMORY;
    byte x, y;

#ifndef LOOK_EARLY
    modify(NEXT, true, 0, 1, x, false, false, false);
#ifndef NO_TAKER_FENCE
    fence_seq_cst(TAKER);
#endif
#endif
    load_relaxed(CLAIM, x);
    load_relaxed(INSTANCE, y);
#ifdef LOOK_EARLY
    fence_seq_cst(TAKER);
    modify(NEXT, true, 0, 1, at, false, false, false);
    at = 0;
#endif
    if
    :: x == 1 && y == 1 -> store_relaxed(END, 0)
    :: else
    fi;
    x = 0;
    y = 0
}

init
{
    atomic {
        run owner(OWNER);
        run taker(TAKER)
    }
    _nr_pr == 1;
    assert(NEWEST(END) == 0)
}
