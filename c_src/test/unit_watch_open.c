/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of triggers for causes that are still open, and for those of which events are missing: when
 * they fire, and that they fire only once.
 */
#include "film.h"

/* An open cause fires once, and not again at its end. */
static void film_open_ones(bool exits)
{
    struct film x;
    open_film(&x);
    add(&x, "call,m:f,1ms");
    add(&x, "request,_,1ms");
    add(&x, "schedule,1ms");
    add(&x, "schedule,3ms");
    if (exits)
        wm(&x, 10, KYMO_E_EXIT, PID(8), x.normal);
    wm(&x, 10, KYMO_E_CALL, PID(9), x.f); /* so it is known that its ends are recorded */
    wm(&x, 10, KYMO_E_RETURN_FROM, PID(9), x.f);
    wm(&x, 10, KYMO_E_IN, PID(1), x.f); /* and those of its runs */
    wm(&x, 10, KYMO_E_OUT, PID(1), x.f);
    wm(&x, 10, KYMO_E_IN, PID(1), x.f);
    wm(&x, 10, KYMO_E_CALL, PID(1), x.f);
    message(&x, 10, KYMO_E_SEND, PID(1), PID(2), KYMO_MSG_CALL, 77);
    uint64_t sent = x.now;
    wm(&x, 2 * MS, KYMO_E_CALL, PID(3), x.g);
    uint64_t first = x.now;
    message(&x, 10, KYMO_E_SEND, PID(2), PID(1), KYMO_MSG_REPLY, 77);
    message(&x, 10, KYMO_E_RECEIVE, PID(1), PID(2), KYMO_MSG_REPLY, 77);
    wm(&x, 10, KYMO_E_RETURN_FROM, PID(1), x.f);
    wm(&x, 2 * MS, KYMO_E_OUT, PID(1), x.f);
    struct kymo_reader *r = developed(&x);
    uint64_t all = x.now;
    x.now = first;
    uint64_t given = give(&x, r, 0, exits ? 9 : 8);
    assert_int_equal(x.n, exits ? 3 : 0);
    for (size_t i = 0; i < x.n; i++) {
        assert_true(x.fired[i].open && x.fired[i].process == PID(1));
        assert_int_equal(x.fired[i].number, i);
        assert_int_equal(x.fired[i].end, first);
    }
    if (exits) {
        assert_int_equal(x.fired[1].start, sent);
        assert_true(x.fired[1].server == PID(2));
    }
    /* The same recording opened again: what was given is not new. */
    struct kymo_reader *later = open_written();
    x.now = all;
    give(&x, later, given, UINT64_MAX);
    kymo_reader_close(r);
    assert_int_equal(x.n, 4);
    size_t at_end = 0;
    for (size_t i = 0; i < x.n; i++)
        at_end += !x.fired[i].open;
    assert_int_equal(at_end, exits ? 1 : 4); /* the run has exceeded the other limit by its end */
    close_film(&x, later);
}

static void open_ones(void **state)
{
    (void)state;
    film_open_ones(true);
}

/* If exits are not recorded, a cause fires only at its end. */
static void without_exits(void **state)
{
    (void)state;
    film_open_ones(false);
}

/* If ends of calls are not recorded, an open call may have ended long ago and does not fire. */
static void without_ends(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "call,_,1us");
    for (unsigned i = 0; i < 5000; i++)
        wm(&x, 1000 * MS, KYMO_E_CALL, PID(1), i % 2 == 0 ? x.f : x.g);
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, 0);
    close_film(&x, r);
}

/* A process that has become sensitive has an `in` event, and no more events. */
static void sensitive(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "schedule,1us");
    wm(&x, 10, KYMO_E_EXIT, PID(8), x.normal);
    wm(&x, 10, KYMO_E_IN, PID(1), x.f);
    x.now += 1000 * MS;
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, 0);
    close_film(&x, r);
}

static void note_state(struct film *x, uint64_t ns, uint8_t state)
{
    uint64_t at = after(x, ns);
    ts_record(&x->s, at, KYMO_E_STATE, &state, 1, false);
}

/* Calls that end while the recorder is paused are not open, and not over either. */
static void paused(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "call,m:f,1ms");
    add(&x, "request,_,1ms");
    wm(&x, 10, KYMO_E_EXIT, PID(8), x.normal);
    wm(&x, 10, KYMO_E_CALL, PID(1), x.f);
    wm(&x, 10, KYMO_E_RETURN_FROM, PID(1), x.f);
    wm(&x, 10, KYMO_E_CALL, PID(1), x.f);
    wm(&x, 10, KYMO_E_CALL, PID(2), x.f); /* has no more events */
    message(&x, 10, KYMO_E_SEND, PID(1), PID(2), KYMO_MSG_CALL, 77);
    note_state(&x, 10, KYMO_PAUSED);
    struct kymo_reader *r = developed(&x);
    x.now += 10 * MS;
    uint64_t given = give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, 0);
    ts_open(&x.s, &x.t, 0, ++x.seq, x.now);
    note_state(&x, 10, KYMO_ACTIVE);
    wm(&x, 10 * MS, KYMO_E_RETURN_FROM, PID(1), x.f); /* of another call */
    wm(&x, 10, KYMO_E_CALL, PID(1), x.f);
    wm(&x, 2 * MS, KYMO_E_RETURN_FROM, PID(1), x.f);
    struct kymo_reader *later = developed(&x);
    give(&x, later, given, UINT64_MAX);
    kymo_reader_close(r);
    assert_int_equal(x.n, 1);
    assert_int_equal(x.fired[0].value, 2 * MS);
    close_film(&x, later);
}

/* The first call of its function, whose end is in a later state. */
static void first_call(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "call,m:f/1,1ms");
    wm(&x, 10, KYMO_E_CALL, PID(1), x.f);
    struct kymo_reader *r = developed(&x);
    x.now += 5 * MS;
    assert_int_equal(give(&x, r, 0, UINT64_MAX), 1);
    assert_int_equal(x.n, 0); /* nothing has said yet that its ends are recorded */
    ts_open(&x.s, &x.t, 0, ++x.seq, x.now);
    wm(&x, 10, KYMO_E_RETURN_FROM, PID(1), x.f);
    struct kymo_reader *later = developed(&x);
    give(&x, later, 1, UINT64_MAX);
    kymo_reader_close(r);
    assert_int_equal(x.n, 1);
    assert_int_equal(x.fired[0].value, 5 * MS + 10);
    close_film(&x, later);
}

/* Calls that the runtime has reported before any return of the function was recorded do not fire
 * again at their ends; the next ones do. */
static void first_slow_calls(void **state)
{
    (void)state;
    enum { PROCESSES = 100 };
    struct film x;
    open_film(&x);
    add(&x, "call,m:f/1,1ms");
    wm(&x, 10, KYMO_E_EXIT, PID(1000), x.normal);
    for (unsigned i = 0; i < PROCESSES; i++)
        wm(&x, 10, KYMO_E_CALL, PID(i + 1), x.f);
    x.now += 5 * MS;
    for (unsigned i = 0; i < PROCESSES; i++)
        slow(&x, 10, PID(i + 1), x.f, 5 * MS);
    struct kymo_reader *r = developed(&x);
    uint64_t given = give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, PROCESSES);
    ts_open(&x.s, &x.t, 0, ++x.seq, x.now);
    wm(&x, 10, KYMO_E_RETURN_FROM, PID(1), x.f);
    struct kymo_reader *first = developed(&x);
    given = give(&x, first, given, UINT64_MAX); /* the others look open */
    kymo_reader_close(r);
    ts_open(&x.s, &x.t, 0, ++x.seq, x.now);
    for (unsigned i = 1; i < PROCESSES; i++)
        wm(&x, 10, KYMO_E_RETURN_FROM, PID(i + 1), x.f);
    for (unsigned i = 0; i < PROCESSES; i++) {
        wm(&x, 10, KYMO_E_CALL, PID(i + 1), x.f);
        slow(&x, 2 * MS, PID(i + 1), x.f, 2 * MS);
        wm(&x, 10, KYMO_E_RETURN_FROM, PID(i + 1), x.f);
    }
    struct kymo_reader *later = developed(&x);
    give(&x, later, given, UINT64_MAX);
    kymo_reader_close(first);
    assert_int_equal(x.n, 2 * PROCESSES);
    for (unsigned i = 0; i < 2 * PROCESSES; i++)
        assert_true(x.fired[i].process == PID(i % PROCESSES + 1) && !x.fired[i].open);
    close_film(&x, later);
}

/* Events are missing in between: what looks like the end may be that of another call. */
static void gap(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "call,m:f/1,1ms");
    wm(&x, 10, KYMO_E_CALL, PID(1), x.f);
    wm(&x, 5 * MS, KYMO_E_RETURN_FROM, PID(1), x.f);
    wm(&x, 10, KYMO_E_CALL, PID(1), x.f);
    wm(&x, 5 * MS, KYMO_E_RETURN_FROM, PID(1), x.f);
    struct kymo_reader *r = developed(&x);
    uint64_t end = x.now;
    x.now = 2000000;
    give(&x, r, 0, 1);
    kymo_triggers_gap(x.triggers);
    struct kymo_reader *later = open_written();
    x.now = end;
    give(&x, later, 1, UINT64_MAX);
    kymo_reader_close(r);
    assert_int_equal(x.n, 1);
    assert_int_equal(x.fired[0].end, end);
    close_film(&x, later);
}

static void from_a_time(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "collection,1us");
    for (unsigned i = 0; i < 10; i++) {
        gc(&x, 1000, KYMO_E_GC_MINOR_START, PID(1));
        gc(&x, 2000, KYMO_E_GC_MINOR_END, PID(1));
        if (i == 6)
            kymo_triggers_from(x.triggers, (int64_t)x.now);
    }
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, 4);
    close_film(&x, r);
}

/* A cause at 0, 2, 4 ... us of which each takes 1 us. */
static void cooldown(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "collection,500ns");
    add(&x, "collection,600ns");
    kymo_triggers_cooldown(x.triggers, 10000);
    for (unsigned i = 0; i < 1000; i++) {
        gc(&x, 1000, KYMO_E_GC_MINOR_START, PID(1));
        gc(&x, 1000, KYMO_E_GC_MINOR_END, PID(1));
    }
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, 2 * 200);
    assert_int_equal(kymo_triggers_suppressed(x.triggers), 2 * 800);
    for (size_t i = 2; i < x.n; i++)
        assert_int_equal(x.fired[i].end - x.fired[i - 2].end, 10000);
    close_film(&x, r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(open_ones),   IN_FOLDER(without_exits), IN_FOLDER(without_ends),     IN_FOLDER(sensitive),
        IN_FOLDER(paused),      IN_FOLDER(first_call),    IN_FOLDER(first_slow_calls), IN_FOLDER(gap),
        IN_FOLDER(from_a_time), IN_FOLDER(cooldown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
