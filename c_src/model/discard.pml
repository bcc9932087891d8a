/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool of segments under the policy discard: take_permit, kymo_pool_take,
 * kymo_pool_release and kymo_pool_drained of pool.c.
 *
 * A place is free, open, or full until the worker has drained it. Who takes one
 * needs a permit first: one of its own (`own_free`, OWN at the start) or, when none
 * is left, a spare one. The permit goes back to where it came from when the worker
 * has drained the segment. Without a permit the event is lost.
 *
 * Thread 0 floods: it fills segment after segment. Thread 1 records little: it takes
 * its time between segments. The worker drains full places in any order.
 *
 * Steps are interleaved, memory is sequentially consistent: a place is free before
 * the permit for it exists, by release of the permit and acquire of who takes it.
 *
 * Shown:
 *  - permits are never more than free places, so that who has one finds a place;
 *  - a thread all of whose closed segments are drained, with their permits back,
 *    never loses an event, however much another floods;
 *  - when all is drained all permits are back.
 *
 * check base:
 * mutant drained permits always become spare ones: ALWAYS_SPARE
 * mutant drained permits always go to the owner: ALWAYS_OWN
 * mutant no permits are reserved: NO_RESERVE
 * mutant one permit for each thread: ONE_OWN
 * mutant the permit before the place: PERMIT_EARLY
 * mutant own permits are taken in two steps: SPLIT_OWN
 * mutant spare permits are taken in two steps: SPLIT_SPARE
 * mutant a place is taken without a permit: NO_PERMIT
 * mutant full places are taken: TAKE_FULL
 */
#define PLACES 5
#define THREADS 2
#ifdef ONE_OWN
#define OWN 1
#else
#define OWN 2
#endif
#define SEGMENTS(i) (i == 0 -> 4 : 3)

#define FREE 0
#define OPEN 1
#define FULL 2

byte state[PLACES];
bit from_spare[PLACES];
byte owner[PLACES];
byte own_free[THREADS];
byte spare;
byte undrained[THREADS]; /* full segments without permit; for the properties */
byte ended;

inline count_free()
{
    free = 0;
    for (k : 0 .. PLACES - 1) {
        free = free + (state[k] == FREE -> 1 : 0)
    }
    k = 0;
    assert(own_free[0] + own_free[1] + spare <= free);
    free = 0
}

inline take_permit()
{
#if defined(NO_PERMIT)
    has = 1
#elif defined(NO_RESERVE)
    d_step {
        if
        :: spare > 0 -> spare--; has = 2
        :: else
        fi
    }
#else
    if
    :: own_free[i] > 0 ->
#ifdef SPLIT_OWN
       n = own_free[i];
       own_free[i] = n - 1;
       n = 0;
#else
       own_free[i]--;
#endif
       has = 1
    :: else ->
#ifdef SPLIT_SPARE
       n = spare;
       if
       :: n > 0 -> spare = n - 1; has = 2
       :: else
       fi;
       n = 0
#else
       d_step {
           if
           :: spare > 0 -> spare--; has = 2
           :: else
           fi
       }
#endif
    fi
#endif
}

/* Which one does not matter here. */
inline find_place()
{
    d_step {
        do
#ifdef TAKE_FULL
        :: p < PLACES && state[p] == OPEN -> p++
#else
        :: p < PLACES && state[p] != FREE -> p++
#endif
        :: else -> break
        od;
        assert(p < PLACES && state[p] == FREE); /* else undrained events are destroyed */
        state[p] = OPEN;
        owner[p] = i;
        from_spare[p] = (has == 2);
        mine = p + 1;
        p = 0
    }
}

proctype thread(byte i)
{
    byte p, k, n, has, mine, segments, free;
    bool idle;

    do
    :: segments == SEGMENTS(i) -> break
    :: else ->
       segments++;
       d_step {
           idle = (undrained[i] == 0);
           /* Its own is closed. */
           if
           :: mine != 0 ->
              state[mine - 1] = FULL;
              undrained[i]++;
              mine = 0
           :: else
           fi
       }
       take_permit();
       if
       :: has == 0 ->
          assert(!idle)
       :: else ->
          find_place()
       fi;
       atomic { has = 0; idle = false }
    od;
    skip;
    d_step {
        if
        :: mine != 0 ->
           state[mine - 1] = FULL;
           undrained[i]++;
           mine = 0
        :: else
        fi;
        ended++
    }
}

inline give_permit()
{
#ifdef ALWAYS_SPARE
    spare++
#elif defined(ALWAYS_OWN)
    own_free[o]++
#elif defined(NO_RESERVE)
    spare++
#else
    if
    :: s -> spare++
    :: else -> own_free[o]++
    fi
#endif
}

proctype worker()
{
    byte p, k, o, free;
    bit s;

    do
    :: ended == THREADS && undrained[0] == 0 && undrained[1] == 0 -> break
    :: undrained[0] + undrained[1] > 0 ->
       if
       :: atomic { state[0] == FULL -> p = 0; o = owner[p]; s = from_spare[p] }
       :: atomic { state[1] == FULL -> p = 1; o = owner[p]; s = from_spare[p] }
       :: atomic { state[2] == FULL -> p = 2; o = owner[p]; s = from_spare[p] }
       :: atomic { state[3] == FULL -> p = 3; o = owner[p]; s = from_spare[p] }
       :: atomic { state[4] == FULL -> p = 4; o = owner[p]; s = from_spare[p] }
       fi;
#ifdef PERMIT_EARLY
       atomic { give_permit(); count_free() }
       atomic { state[p] = FREE; undrained[o]--; o = 0; s = 0; p = 0 }
#else
       state[p] = FREE;
       atomic { give_permit(); undrained[o]--; count_free(); o = 0; s = 0; p = 0 }
#endif
    od;
    skip;
    assert(own_free[0] + own_free[1] + spare == PLACES);
#ifndef NO_RESERVE
    assert(own_free[0] == OWN && own_free[1] == OWN)
#endif
}

init
{
    atomic {
#ifdef NO_RESERVE
        spare = PLACES;
#else
        own_free[0] = OWN;
        own_free[1] = OWN;
        spare = PLACES - OWN * THREADS;
#endif
        run worker();
        run thread(0);
        run thread(1)
    }
}
