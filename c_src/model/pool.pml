/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool of segments under the policy overwrite: pool.c, segment_open and
 * kymo_reserve_slow of writer.c.
 *
 * Threads draw tickets (`next`) and take the place of their ticket when it is
 * closed and was last taken by an older ticket, by compare-and-swap on its claim.
 * The worker sums closed places, which anybody may take meanwhile, and stores the sum
 * by compare-and-swap against the turn in the header. Whoever draws ticket t asks
 * the owner of the place of ticket t - AGE, if that is still open, to change (0 to
 * its `end`). An owner looks at the age of its segment each time after it has set
 * `end`, and begins no event in one that is too old.
 *
 * Steps are interleaved, memory is sequentially consistent here. What passes from
 * one owner to the next is ordered by release and acquire of the claim, which
 * seqlock.pml covers, and the race for `end` is in poke.pml.
 *
 * Shown, at any time:
 *  - a place has one owner or nobody;
 *  - a segment has the sum of what is in it, or none;
 *  - orders are unique, and a place is never taken by an older ticket than before;
 *  - of each thread, events made = events in kept segments + overwritten, except
 *    between the two steps of whoever is about to destroy them;
 *  - a taker that runs alone finds a place: it draws no more tickets in vain than
 *    one that it drew long before and one for each other thread;
 *  - what is destroyed had its last event begun more than 3/4 of a lap ago. For that
 *    drawing and asking are one step here (PROMPT): a thread that is stopped in
 *    between asks late, and the next to ask comes one lap later. In the second run
 *    they are two, without this bound.
 *
 * check prompt: PROMPT
 * check slow askers:
 * mutant places that are open are taken: TAKE_OPEN
 * mutant later tickets are not looked at: TAKE_NEWER
 * mutant claim by a plain store: BLIND_CLAIM
 * mutant tickets drawn in two steps: SPLIT_TICKET
 * mutant the sum is put there by a plain store: BLIND_SUM
 * mutant all turns are alike: ONE_TURN
 * mutant closed before the last event is complete: CLOSE_EARLY
 * mutant overwritten events counted before the place is taken: COUNT_EARLY
 * mutant overwritten events not counted: NO_COUNT
 * mutant overwritten events added in two steps: SPLIT_COUNT
 * mutant nobody is asked: PROMPT NO_ASKING
 * mutant the age is not looked at after opening: PROMPT OPEN_BLINDLY
 * mutant the age is looked at before end is set: PROMPT AGE_FIRST
 */
#define PLACES 4
#define THREADS 2
#define AGE (PLACES / 4)
/* The last ticket, and the events of thread i: so many that a ticket may wait for a lap. */
#ifdef PROMPT
#define LAST 10
#define EVENTS(i) 3
#else
#define LAST 9
#define EVENTS(i) (i == 0 -> 2 : 5)
#endif
#define SUMS 1   /* of the worker */

#define OPEN 1

#define NONE 255

byte next = PLACES;
byte ticket[PLACES]; /* the claims */
byte flag[PLACES];
byte owner[PLACES]; /* the headers of the segments: instance */
byte count[PLACES]; /* events */
byte turn[PLACES];
byte sum[PLACES] = NONE;
bit end[THREADS];   /* 1: there is room */
byte overwritten[THREADS];

/* For the properties. */
byte made[THREADS];
byte users[PLACES]; /* who think that it is theirs */
#define SUM_IS_TRUE(p) (sum[p] == NONE || sum[p] == count[p])
byte counting;      /* who has counted a segment and not yet destroyed it */
#ifdef PROMPT
byte begun[PLACES]; /* `next` when the last event in the place began */
#else
byte failed[THREADS]; /* tickets in vain since anything else moved */
#endif

#define PLACE(t) ((t) % PLACES)
#define AGED (next - mine > AGE)

inline moved()
{
#ifndef PROMPT
    for (k : 0 .. THREADS - 1) {
        failed[k] = 0
    }
    k = 0
#else
    skip
#endif
}

inline ask()
{
#ifndef NO_ASKING
    if
    :: t >= PLACES + AGE ->
       p = PLACE(t - AGE);
       if
       :: flag[p] == OPEN && ticket[p] <= t - AGE -> end[owner[p]] = 0
       :: else
       fi;
       p = 0
    :: else
    fi
#else
    skip
#endif
}

inline draw()
{
#ifdef SPLIT_TICKET
    t = next;
    d_step { next = t + 1; ask() }
#elif defined(PROMPT)
    d_step { t = next; next++; ask() }
#else
    d_step { t = next; next++ }
    d_step { ask() }
#endif
}

inline claim_place()
{
    d_step {
        if
#ifdef BLIND_CLAIM
        :: true ->
#else
        :: ticket[PLACE(t)] == seen && flag[PLACE(t)] == seen_flag ->
#endif
           mine = t;
           assert(t > ticket[PLACE(t)]);
#ifdef PROMPT
           assert(count[PLACE(t)] == 0 || (next - begun[PLACE(t)]) * 4 > PLACES * 3);
#endif
           ticket[PLACE(t)] = t;
           flag[PLACE(t)] = OPEN;
           users[PLACE(t)]++;
           assert(users[PLACE(t)] == 1);
           moved()
        :: else
        fi
    }
}

/* Takes a place: `mine` is its order. */
inline take()
{
    do
    :: next > LAST -> goto done
    :: else ->
       draw();
       atomic {
           seen = ticket[PLACE(t)];
           seen_flag = flag[PLACE(t)];
           if
#ifndef TAKE_OPEN
           :: seen_flag == OPEN -> t = 0
#endif
#ifndef TAKE_NEWER
           :: seen_flag == 0 && seen > t -> t = 0
#endif
           :: else
           fi
       }
       atomic {
           if
           :: t != 0 ->
#ifdef COUNT_EARLY
              overwritten[owner[PLACE(t)]] = overwritten[owner[PLACE(t)]] + count[PLACE(t)];
#endif
              claim_place()
           :: else
           fi;
           t = 0;
           seen = 0;
           seen_flag = 0;
           if
           :: mine != 0 -> break
           :: else
           fi;
#ifndef PROMPT
           failed[i]++;
           assert(failed[i] <= THREADS) /* stale, the other threads */
#endif
       }
    od;
    skip;
    /* What the place held is gone. */
#ifdef SPLIT_COUNT
    seen = overwritten[owner[PLACE(mine)]] + count[PLACE(mine)];
    d_step { overwritten[owner[PLACE(mine)]] = seen; seen = 0; counting++ }
#elif !defined(COUNT_EARLY) && !defined(NO_COUNT)
    d_step { overwritten[owner[PLACE(mine)]] = overwritten[owner[PLACE(mine)]] + count[PLACE(mine)]; counting++ }
#else
    counting++;
#endif
    d_step {
        assert(users[PLACE(mine)] == 1);
        count[PLACE(mine)] = 0; /* commit = 0, then the header */
        owner[PLACE(mine)] = i;
        sum[PLACE(mine)] = NONE;
#ifndef ONE_TURN
        turn[PLACE(mine)] = mine;
#endif
#ifdef PROMPT
        begun[PLACE(mine)] = 0;
#endif
        counting--
    }
}

inline close()
{
    d_step {
        assert(users[PLACE(mine)] == 1 && flag[PLACE(mine)] == OPEN && ticket[PLACE(mine)] == mine);
        assert(SUM_IS_TRUE(PLACE(mine)));
        users[PLACE(mine)]--;
        flag[PLACE(mine)] = 0;
        end[i] = 0;
        mine = 0;
        moved()
    }
}

/* All events of this thread are kept or counted. */
inline check_events()
{
    for (k : 0 .. PLACES - 1) {
        if
        :: owner[k] == i -> seen = seen + count[k]
        :: else
        fi
    }
    k = 0;
    assert(counting != 0 || made[i] == overwritten[i] + seen);
    seen = 0
}

inline event()
{
#ifdef CLOSE_EARLY
    p = mine;
    close();
    mine = p;
    p = 0;
#endif
    atomic {
#ifndef CLOSE_EARLY
        assert(users[PLACE(mine)] == 1);
#endif
        made[i]++;
        count[PLACE(mine)]++;
#ifdef PROMPT
        begun[PLACE(mine)] = when;
#endif
        when = 0;
        check_events();
#ifdef CLOSE_EARLY
        mine = 0;
#endif
        if
        :: mine != 0 -> no_room = true
#if defined(PROMPT) || defined(CLOSE_EARLY)
        :: true
#endif
        fi
    }
}

/* kymo_reserve_slow: ends with a segment that has room. */
inline slow()
{
#ifdef AGE_FIRST
    if
    :: mine != 0 && AGED -> close()
    :: else
    fi;
#endif
    do
    :: mine != 0 && !no_room ->
       end[i] = 1;
#if defined(AGE_FIRST) || defined(OPEN_BLINDLY)
       when = next;
       break
#else
       if
       :: atomic { !AGED -> when = next }; break
       :: else -> close()
       fi
#endif
    :: else ->
       if
       :: mine != 0 -> close()
       :: else
       fi;
       no_room = false;
       take()
    od
}

proctype thread(byte i)
{
    byte t, p, k, seen, seen_flag, mine, when;
    bool no_room;

    do
    :: made[i] == EVENTS(i) -> break
    :: else ->
       if
       :: atomic { mine != 0 && end[i] == 1 && !no_room -> when = next }
       :: else -> slow()
#ifdef PROMPT
       :: mine != 0 && !no_room -> slow() /* for another reason */
#endif
       fi;
       event()
    od;
done:
    skip;
    d_step { check_events() }
}

/* Sums; they do not matter for what PROMPT shows. It may have looked at the claim
 * long before it stores: that look alone would not do. */
proctype worker()
{
    byte p, seen, now, sums;

    do
    :: sums == SUMS -> break
    :: else ->
       sums++;
       select (p : 0 .. PLACES - 1);
       seen = (flag[p] == 0 -> ticket[p] : 0);
       if
       :: seen != 0 ->
          now = count[p];
          if
          :: flag[p] == 0 && ticket[p] == seen ->
             d_step {
                 if
#ifdef BLIND_SUM
                 :: true ->
#elif defined(ONE_TURN)
                 :: sum[p] == NONE ->
#else
                 :: sum[p] == NONE && turn[p] == seen ->
#endif
                    sum[p] = now;
                    assert(flag[p] != 0 || SUM_IS_TRUE(p))
                 :: else
                 fi
             }
          :: else
          fi
       :: else
       fi;
       seen = 0;
       now = 0;
       p = 0
    od
}

init
{
    atomic {
#ifndef PROMPT
        run worker();
#endif
        run thread(0);
        run thread(1)
    }
}
