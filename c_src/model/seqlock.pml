/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a segment that may be used again while it is read: segment_open and
 * kymo_commit on one side, the copies of snapshot.c and of the reader on the other.
 *
 * A segment is used three times, by two threads in turn, with two records each
 * time; it passes between them by a claim (pool.pml). Each use has a number of its
 * own, `order`. A reader looks once, at any moment:
 *
 *   order1 (acquire), commit1 (acquire), the copy, an acquire fence,
 *   commit2 (acquire), order2; good when order2 = order1 and commit2 >= commit1
 *
 * Order encloses commit on both sides. In front: with an order that is read after
 * commit1, or with the order in the copy, commit1 may still be of the use before,
 * and promise records that the new use has not written. Behind: an order that is
 * read before commit2 may still be the old one while commit2 is of the new use.
 * A reader that knows the order from elsewhere, through something that was released
 * after the segment was opened, need not load order1.
 *
 * Who reads by system calls can't order the loads within one of them. It reads the
 * header twice in front (order1, then commit1) and twice behind.
 *
 * Shown: a copy that the reader accepts has the records of the use with that order,
 * all that commit1 promised.
 *
 * check loads:
 * check system calls: CALLS
 * mutant commit is not reset: NO_RESET
 * mutant commit is reset after the header was written: RESET_LATE
 * mutant no release fence after the reset: NO_RELEASE_FENCE
 * mutant relaxed store of commit after a record: COMMIT_RELAXED
 * mutant commit before the record: COMMIT_EARLY
 * mutant order is not renewed: SAME_ORDER
 * mutant segment given away by a relaxed store: CLAIM_RELAXED
 * mutant order taken from the copy: ORDER_IN_COPY
 * mutant order taken from the claim: ORDER_FROM_CLAIM
 * mutant order before the copy, but after commit: ORDER_LATE
 * mutant relaxed load of the first order: ORDER_RELAXED
 * mutant relaxed load of the first commit: FIRST_RELAXED
 * mutant no acquire fence after the copy: NO_ACQUIRE_FENCE
 * mutant commit is not looked at again: COMMIT_ONCE
 * mutant order is not looked at again: ORDER_ONCE
 * mutant order is looked at again before commit: ORDER_FIRST
 * mutant relaxed load of the second commit: SECOND_RELAXED
 * mutant system calls, one for the header in front: CALLS ONE_IN_FRONT
 * mutant system calls, one for the header behind: CALLS ONE_BEHIND
 */
#define THREADS 3
#define LOCATIONS 5
#define TIMES 11
#include "memory.pml"

#define COMMIT 0
#define ORDER 1
#define RECORD1 2
#define RECORD2 3
#define CLAIM 4 /* the use that may begin now, 100 and more while it lasts */

#define READER 2

/* The records of use u are u. All stores but that of the claim may be seen by the
 * reader at any time, so they are relaxed and not plain; that the writers do not
 * race is asserted. */
inline write(Where, New)
{
    d_step {
        assert(V(me, Where) == last[Where]); /* else two writers race */
        append(Where, New, false)
    }
}

inline commit(New)
{
#ifdef COMMIT_RELAXED
    store_relaxed(COMMIT, New)
#else
    store_release(COMMIT, New)
#endif
}

inline use_segment(Use)
{
#if !defined(NO_RESET) && !defined(RESET_LATE)
    write(COMMIT, 0);
#endif
#ifndef NO_RELEASE_FENCE
    fence_release();
#endif
#ifdef SAME_ORDER
    write(ORDER, 1);
#else
    write(ORDER, Use);
#endif
#ifdef RESET_LATE
    write(COMMIT, 0);
    fence_release();
#endif
#ifdef COMMIT_EARLY
    commit(1);
    write(RECORD1, Use);
    commit(2);
    write(RECORD2, Use);
#else
    write(RECORD1, Use);
    commit(1);
    write(RECORD2, Use);
    commit(2);
#endif
}

proctype writer(byte me; byte first)
{
    USES_MEMORY;
    byte x, use;

    use = first;
    do
    :: use <= 3 ->
       do
       :: cas_acquire(CLAIM, use, 100 + use, x);
          if
          :: x == use -> break
          :: else
          fi
       od;
       x = 0;
       use_segment(use);
#ifdef CLAIM_RELAXED
       store_relaxed(CLAIM, use + 1);
#else
       store_release(CLAIM, use + 1);
#endif
       use = use + 2
    :: else -> break
    od
}

/* The order of these loads does not matter, since each may return an old value or
 * a new one. */
inline copy()
{
    load_relaxed(RECORD1, record1);
    load_relaxed(RECORD2, record2)
}

inline read_by_loads()
{
#ifdef ORDER_FROM_CLAIM
    load_acquire(CLAIM, order1);
    order1 = (order1 > 100 -> order1 - 100 : order1 - 1);
#elif !defined(ORDER_IN_COPY) && !defined(ORDER_LATE)
#ifdef ORDER_RELAXED
    load_relaxed(ORDER, order1);
#else
    load_acquire(ORDER, order1);
#endif
#endif
#ifdef FIRST_RELAXED
    load_relaxed(COMMIT, commit1);
#else
    load_acquire(COMMIT, commit1);
#endif
#ifdef ORDER_LATE
    load_acquire(ORDER, order1);
#endif
    copy();
#ifdef ORDER_IN_COPY
    load_relaxed(ORDER, order1);
#endif
#ifndef NO_ACQUIRE_FENCE
    fence_acquire();
#endif
#ifdef ORDER_FIRST
    load_relaxed(ORDER, order2);
#endif
#ifdef SECOND_RELAXED
    load_relaxed(COMMIT, commit2);
#else
    load_acquire(COMMIT, commit2);
#endif
#ifndef ORDER_FIRST
    load_relaxed(ORDER, order2);
#endif
#ifdef COMMIT_ONCE
    commit2 = commit1;
#endif
#ifdef ORDER_ONCE
    order2 = order1;
#endif
    skip
}

/* The fields of a header that is read by one call, in any order. */
inline header(Order, Commit)
{
    if
    :: load_relaxed(ORDER, Order); load_relaxed(COMMIT, Commit)
    :: load_relaxed(COMMIT, Commit); load_relaxed(ORDER, Order)
    fi;
    fence_acquire() /* between two calls */
}

inline read_by_calls()
{
    header(order1, commit1);
#ifndef ONE_IN_FRONT
    header(other, commit1);
#endif
    copy();
    fence_acquire();
    header(order2, commit2);
#ifndef ONE_BEHIND
    header(order2, other);
#endif
    other = 0
}

proctype reader(byte me)
{
    USES_MEMORY;
    byte commit1, commit2, order1, order2, record1, record2, other;

#if defined(CALLS)
    read_by_calls();
#else
    read_by_loads();
#endif
    if
    :: commit1 > 0 && commit2 >= commit1 && order1 == order2 ->
       assert(record1 == order1);
       assert(commit1 == 1 || record2 == order1)
    :: else
    fi
}

init
{
    atomic {
        NEWEST(CLAIM) = 1;
        run writer(0, 1);
        run writer(1, 2);
        run reader(READER)
    }
}
