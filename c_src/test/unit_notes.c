/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the notes of the recorder: they are not events, so no count, limit, loss or sample includes
 * them.
 */
#include "rec_check.h"

static uint8_t body[1600];

/* A record `counters` with n values that are zero. */
static bool note(struct kymo_recorder *r, unsigned n)
{
    struct kymo_writer *w = kymo_writer_borrow(r);
    bool done;

    if (w == NULL)
        return false;
    (void)kymo_put16(body, (uint16_t)n);
    done = kymo_write_note(w, KYMO_E_COUNTERS, body, 2 + n * KYMO_COUNTER_BYTES);
    kymo_writer_put(w);
    return done;
}

static uint64_t notes(const struct rc_rec *rec)
{
    uint64_t n = 0;

    for (size_t i = 0; i < rec->n_events; i++)
        n += rec->events[i].id == KYMO_E_COUNTERS;
    return n;
}

/* Also as the first record of a thread, before its first lease. */
static void no_event(void **state)
{
    struct kymo_options o = rc_options(rc_path("events"), KYMO_OVERWRITE);
    struct kymo_recorder *r;
    struct kymo_info i;
    struct rc_rec rec;
    uint64_t events = 0;

    (void)state;
    o.limit_events = 50;
    rc_pool(&o, 1, 40);
    r = rc_open(&o);
    for (unsigned n = 0; n < 200; n++) {
        (void)note(r, n % 20);
        events += rc_call(r, n);
    }
    assert_int_equal(events, 50);
    i = rc_info(r);
    assert_int_equal(i.events, 50);
    assert_int_equal(rc_lost(&i), 0);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, 50);
    /* One before each event: the last event has ended the recording. */
    assert_int_equal(notes(&rec), 50);
    rc_free(&rec);
}

/* Notes overwrite old segments like events do; overwritten notes are not counted. */
static void overwritten(void **state)
{
    struct kymo_options o = rc_options(rc_path("over"), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);
    struct kymo_info i;
    struct rc_rec rec;

    (void)state;
    for (unsigned n = 0; n < 1000; n++)
        assert_true(note(r, KYMO_COUNTERS_MAX));
    i = rc_info(r);
    assert_int_equal(i.events, 0);
    assert_int_equal(i.overwritten, 0);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, 0);
    assert_true(notes(&rec) > 0 && notes(&rec) < 1000);
    rc_free(&rec);
}

static void too_big_and_paused(void **state)
{
    struct kymo_options o = rc_options(rc_path("big"), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);
    struct kymo_writer *w = kymo_writer_borrow(r);
    static uint8_t big[KYMO_SEGMENT_MIN];
    struct kymo_info i;

    (void)state;
    assert_false(kymo_write_note(w, KYMO_E_COUNTERS, big, sizeof big));
    kymo_writer_put(w);
    assert_true(note(r, 1));
    assert_int_equal(kymo_recorder_pause(r), 0);
    assert_false(note(r, 1));
    assert_int_equal(kymo_recorder_resume(r), 0);
    assert_true(note(r, 1));
    i = rc_info(r);
    assert_int_equal(rc_lost(&i), 0);
    kymo_recorder_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_event),
        cmocka_unit_test(overwritten),
        cmocka_unit_test(too_big_and_paused),
    };

    return cmocka_run_group_tests_name("notes", tests, rc_setup, rc_teardown);
}
