/* SPDX-License-Identifier: Apache-2.0
 *
 * Stop and pause: a writer belongs to its producer between enter and put, and to
 * whoever stops or pauses once it has seen that no producer is in there.
 * kymo_writer_enter, kymo_writer_put, kymo_quiesce, kymo_begin_stop, leave_slot.
 *
 * One writer and two producers that have it one after the other; the control
 * thread pauses and resumes; then producer A asks for the end, inside or outside of
 * its critical section, and the worker does the rest. Pause and the end exclude
 * each other by a mutex, so one process plays both.
 *
 * Shown: no producer touches the writer while the control thread owns it; what
 * one wrote the next to own it sees (no data race on the writer's memory); the end
 * is reached.
 *
 * check membarrier:
 * check fenced: FENCED
 * mutant without a barrier: NO_BARRIER
 * mutant barrier before the state is changed: BARRIER_EARLY
 * mutant barrier after busy was looked at: BARRIER_LATE
 * mutant barrier only in one producer: BARRIER_IN_ONE
 * mutant the state is looked at before busy is set: STATE_FIRST
 * mutant the state is not looked at: STATE_IGNORED
 * mutant relaxed load of the state: STATE_RELAXED
 * mutant relaxed store of busy in put: PUT_RELAXED
 * mutant relaxed load of busy by the stopper: LOOK_RELAXED
 * mutant busy is not looked at: LOOK_NEVER
 * mutant relaxed store of owner: LEAVE_RELAXED
 * mutant relaxed claim of owner: CLAIM_RELAXED
 * mutant relaxed change of the state by resume: RESUME_RELAXED
 * mutant resume before the control thread is done: RESUME_EARLY
 * mutant fenced, relaxed exchange of busy: FENCED BUSY_RELAXED
 * mutant fenced, acquire load of the state: FENCED STATE_ACQUIRE
 * mutant fenced, acquire load of busy by the stopper: FENCED LOOK_ACQUIRE
 * mutant fenced, relaxed store of busy in put: FENCED PUT_RELAXED
 * mutant fenced, relaxed change of the state: FENCED PAUSE_RELAXED
 */
#define THREADS 3
#define LOCATIONS 4
#define TIMES 12
#include "memory.pml"

#define STATE 0
#define BUSY 1
#define OWNER 2
#define WRITER 3 /* the writer's memory, not atomic */

#define ACTIVE 0
#define PAUSED 1
#define STOPPING 2

#define CONTROL 0
#define A 1
#define B 2

bool owned;  /* the control thread has the writer */
bool inside; /* a producer has it */

inline load_state(State)
{
#ifdef STATE_RELAXED
    load_relaxed(STATE, State)
#elif defined(FENCED) && !defined(STATE_ACQUIRE)
    load_seq_cst(STATE, State)
#else
    load_acquire(STATE, State)
#endif
}

inline set_busy(Old)
{
#if defined(FENCED) && !defined(BUSY_RELAXED)
    exchange_seq_cst(BUSY, 1, Old)
#elif defined(FENCED)
    exchange_relaxed(BUSY, 1, Old)
#else
    store_relaxed(BUSY, 1)
#endif
}

inline put()
{
#ifdef PUT_RELAXED
    store_relaxed(BUSY, 0)
#else
    store_release(BUSY, 0)
#endif
}

/* x is ACTIVE when the producer is in. */
inline enter()
{
#ifdef STATE_FIRST
    load_state(x);
    set_busy(y);
#else
    set_busy(y);
    load_state(x);
#endif
#ifdef STATE_IGNORED
    x = ACTIVE;
#endif
    y = 0;
    if
    :: x == ACTIVE -> inside = true
    :: else -> store_release(BUSY, 0)
    fi
}

inline use_writer()
{
    plain_load(WRITER, y);
    plain_store(WRITER, y + 1);
    y = 0
}

#define change_state(from, to, x) cas_seq_cst(STATE, from, to, x)

inline ask_for_end()
{
    do
    :: change_state(ACTIVE, STOPPING, y);
       if
       :: y == ACTIVE || y == STOPPING -> break
       :: else
       fi;
       change_state(PAUSED, STOPPING, y);
       if
       :: y == PAUSED || y == STOPPING -> break
       :: else
       fi
    od;
    y = 0
}

inline record(Asks)
{
    enter();
    if
    :: x == ACTIVE ->
       assert(!owned);
       use_writer();
       assert(!owned);
       if
       :: Asks && !asked -> asked = true; ask_for_end()
       :: true
       fi;
       inside = false;
       put()
    :: else
    fi;
    x = 0
}

/* The thread ends: the segment is closed, the slot left. */
inline leave()
{
    enter();
    if
    :: x == ACTIVE ->
       assert(!owned);
       use_writer();
       inside = false;
       put()
    :: else
    fi;
    x = 0;
#ifdef LEAVE_RELAXED
    store_relaxed(OWNER, 0)
#else
    store_release(OWNER, 0)
#endif
}

inline claim()
{
#ifdef CLAIM_RELAXED
    cas_relaxed(OWNER, 0, 1, x)
#else
    cas_acquire(OWNER, 0, 1, x)
#endif
}

proctype producer(byte me; bool asks)
{
    USES_MEMORY;
    byte x, y;
    bool asked;

    claim();
    if
    :: x == 0 -> /* else no slot is left */
       record(asks);
       if
       :: asks -> record(asks); leave()
       :: else
       fi
    :: else
    fi;
    x = 0;
    if
    :: asks && !asked -> ask_for_end()
    :: else
    fi
}

inline barrier()
{
#if !defined(FENCED) && !defined(NO_BARRIER)
    fence_seq_cst(CONTROL);
    fence_seq_cst(A);
#ifndef BARRIER_IN_ONE
    fence_seq_cst(B);
#endif
    fence_seq_cst(CONTROL);
#endif
    skip
}

inline quiesce()
{
#if !defined(BARRIER_EARLY) && !defined(BARRIER_LATE)
    barrier();
#endif
#ifndef LOOK_NEVER
    do
    ::
#ifdef LOOK_RELAXED
       load_relaxed(BUSY, x);
#elif defined(LOOK_ACQUIRE)
       load_acquire(BUSY, x);
#else
       load_seq_cst(BUSY, x);
#endif
       if
       :: x == 0 -> break
       :: else
       fi
    od;
#endif
#ifdef BARRIER_LATE
    barrier();
#endif
    skip
}

inline own_writer()
{
    owned = true;
    assert(!inside);
    use_writer();
    owned = false
}

proctype control(byte me)
{
    USES_MEMORY;
    byte x, y;

    if
    ::
#ifdef BARRIER_EARLY
       barrier();
#endif
#ifdef PAUSE_RELAXED
       modify(STATE, false, ACTIVE, PAUSED, x, false, false, false);
#else
       change_state(ACTIVE, PAUSED, x);
#endif
       if
       :: x == ACTIVE ->
          quiesce();
#ifdef RESUME_EARLY
          change_state(PAUSED, ACTIVE, x);
          own_writer();
#else
          own_writer();
#ifdef RESUME_RELAXED
          cas_relaxed(STATE, PAUSED, ACTIVE, x);
#else
          change_state(PAUSED, ACTIVE, x);
#endif
#endif
          x = 0
       :: else -> x = 0
       fi
    :: true
    fi;
#ifdef BARRIER_EARLY
    barrier();
#endif
    do
    :: load_acquire(STATE, x);
       if
       :: x == STOPPING -> break
       :: else
       fi
    od;
    quiesce();
    own_writer();
    owned = true;
    x = 0
}

init
{
    atomic {
        run control(CONTROL);
        run producer(A, true);
        run producer(B, false)
    }
}
