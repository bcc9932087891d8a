/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of the C11 model: what a thread may read is not the newest value but
 * any value that it is not yet known to have passed.
 *
 * Each location keeps all values ever stored, in the order in which they were
 * stored; the index of a value is its time. A view gives one time for each
 * location. A thread's view says how far it has come at least: a load returns any
 * value from there to the newest, so stores become visible late, in any order
 * between locations, and loads take place early. A value carries a view too:
 *
 *   release store    the value carries the view of its thread
 *   relaxed store    it carries the view of the thread at its last release fence
 *   acquire load     adds the view of the value to that of the thread
 *   relaxed load     keeps that view until the next acquire fence
 *   read-modify-write  reads the newest value and hands its view on
 *   seq_cst          one more view is shared by all: a seq_cst store enters its
 *                    time there, a seq_cst load reads from there on, a seq_cst
 *                    fence makes it and the view of the thread equal
 *
 * That is the usual operational form of the C11 model without load buffering: a
 * store is not performed before the loads in front of it. No supported compiler
 * or machine does that where the store depends on what was loaded, which is the
 * case wherever these protocols rely on it.
 *
 * plain_load and plain_store are accesses that are not atomic: they are an error
 * where the thread does not know the newest value, which is a data race.
 *
 * The includer defines THREADS, LOCATIONS and TIMES (values of one location at
 * most). Each process that uses the inlines declares USES_MEMORY first; `me` is
 * its number. Each inline is one step.
 */
byte val[LOCATIONS * TIMES];
byte last[LOCATIONS]; /* time of the newest value */
byte carried[LOCATIONS * TIMES * LOCATIONS];
byte view[THREADS * LOCATIONS];
byte fenced_view[THREADS * LOCATIONS];  /* at the last release fence */
byte waiting_view[THREADS * LOCATIONS]; /* for an acquire fence */
byte common[LOCATIONS];                 /* of seq_cst */

#define USES_MEMORY byte at, k
#define V(thread, l) view[(thread) * LOCATIONS + (l)]
#define AT_FENCE(thread, l) fenced_view[(thread) * LOCATIONS + (l)]
#define WAITING(thread, l) waiting_view[(thread) * LOCATIONS + (l)]
#define CARRIED(l, time, k) carried[((l) * TIMES + (time)) * LOCATIONS + (k)]
#define NEWEST(l) val[(l) * TIMES + last[l]]
#define RAISE(x, y) x = ((x) < (y) -> (y) : (x))

inline read_from(Loc, Out, Acquire, Total)
{
    at = V(me, Loc);
    if
    :: Total && at < common[Loc] -> at = common[Loc]
    :: else
    fi;
    do
    :: at < last[Loc] -> at++
    :: break
    od;
    d_step {
        Out = val[(Loc) * TIMES + at];
        V(me, Loc) = at;
        for (k : 0 .. LOCATIONS - 1) {
            RAISE(WAITING(me, k), CARRIED(Loc, at, k));
            if
            :: Acquire -> RAISE(V(me, k), CARRIED(Loc, at, k))
            :: else
            fi
        }
        k = 0;
        at = 0
    }
}

inline append(Where, New, Release)
{
    assert(last[Where] + 1 < TIMES);
    last[Where]++;
    V(me, Where) = last[Where];
    NEWEST(Where) = New;
    for (k : 0 .. LOCATIONS - 1) {
        CARRIED(Where, last[Where], k) = (Release -> V(me, k) : AT_FENCE(me, k))
    }
    CARRIED(Where, last[Where], Where) = last[Where];
    k = 0
}

#define load_relaxed(l, x) atomic { read_from(l, x, false, false) }
#define load_acquire(l, x) atomic { read_from(l, x, true, false) }
#define load_seq_cst(l, x) atomic { read_from(l, x, true, true) }

#define store_relaxed(l, x) d_step { append(l, x, false) }
#define store_release(l, x) d_step { append(l, x, true) }

/* Reads the newest value into Old; when it is Expected, or Always, stores Value.
 * What fails is a relaxed load. */
inline modify(Loc, Always, Expected, Value, Old, Acquire, Give, Total)
{
    d_step {
        Old = NEWEST(Loc);
        V(me, Loc) = last[Loc];
        for (k : 0 .. LOCATIONS - 1) {
            RAISE(WAITING(me, k), CARRIED(Loc, last[Loc], k));
            if
            :: Acquire && (Always || Old == Expected) -> RAISE(V(me, k), CARRIED(Loc, last[Loc], k))
            :: else
            fi
        }
        if
        :: Always || Old == Expected ->
            append(Loc, Value, Give);
            for (k : 0 .. LOCATIONS - 1) { /* a release sequence goes on */
                RAISE(CARRIED(Loc, last[Loc], k), CARRIED(Loc, last[Loc] - 1, k))
            }
            if
            :: Total -> common[Loc] = last[Loc]
            :: else
            fi
        :: else
        fi;
        k = 0
    }
}

#define exchange_relaxed(l, x, old) modify(l, true, 0, x, old, false, false, false)
#define exchange_seq_cst(l, x, old) modify(l, true, 0, x, old, true, true, true)
#define cas_relaxed(l, expected, x, old) modify(l, false, expected, x, old, false, false, false)
#define cas_acquire(l, expected, x, old) modify(l, false, expected, x, old, true, false, false)
#define cas_seq_cst(l, expected, x, old) modify(l, false, expected, x, old, true, true, true)

inline fence_release()
{
    d_step {
        for (k : 0 .. LOCATIONS - 1) {
            AT_FENCE(me, k) = V(me, k)
        }
        k = 0
    }
}
inline fence_acquire()
{
    d_step {
        for (k : 0 .. LOCATIONS - 1) {
            RAISE(V(me, k), WAITING(me, k))
        }
        k = 0
    }
}
/* Of any thread: membarrier(2) makes others execute one. */
inline fence_seq_cst(Thread)
{
    d_step {
        for (k : 0 .. LOCATIONS - 1) {
            RAISE(V(Thread, k), WAITING(Thread, k));
            RAISE(common[k], V(Thread, k));
            V(Thread, k) = common[k];
            AT_FENCE(Thread, k) = common[k]
        }
        k = 0
    }
}

inline plain_load(Loc, Out)
{
    d_step {
        assert(V(me, Loc) == last[Loc]); /* else a data race */
        Out = NEWEST(Loc)
    }
}
inline plain_store(Loc, Value)
{
    d_step {
        assert(V(me, Loc) == last[Loc]); /* else a data race */
        append(Loc, Value, false)
    }
}
