/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of a recorder: its life, its limits, its clock.
 */
#include "rec_check.h"

/* ---- life ---------------------------------------------------------------------------- */

static void stops_once(void **state)
{
    struct kymo_options o = rc_options(rc_path("stop"), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);
    struct kymo_writer *w;
    struct rc_rec rec;

    (void)state;
    assert_int_equal(rc_calls(r, 0, 10), 10);
    w = kymo_writer_get(r);
    assert_non_null(w);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), -EDEADLK);
    assert_int_equal(kymo_recorder_pause(r), -EDEADLK);
    assert_int_equal(kymo_recorder_snapshot(r, rc_path("inside"), NULL, NULL), -EDEADLK);
    kymo_writer_put(w);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_OWNER), 0);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), -EALREADY);
    kymo_recorder_stop_async(r, KYMO_R_STOP);
    assert_int_equal(kymo_recorder_pause(r), -ESHUTDOWN);
    assert_int_equal(kymo_recorder_resume(r), -ESHUTDOWN);
    assert_true(kymo_recorder_ended(r));
    assert_false(kymo_recorder_active(r));
    assert_null(kymo_writer_get(r));
    assert_int_equal(rc_info(r).state, KYMO_CLOSED);
    assert_int_equal(rc_info(r).reason, KYMO_R_OWNER);
    assert_int_equal(rc_info(r).events, 10);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, 10);
    assert_int_equal(rec.n_events, 11);
    assert_int_equal(rec.events[10].id, KYMO_E_STATE);
    assert_int_equal(rec.events[10].kind, KYMO_STOPPING);
    assert_int_equal(rec.dict_len, rec.meta.dict_used); /* truncated to the used size */
    rc_free(&rec);
}

static void stops_without_waiting(void **state)
{
    struct kymo_options o = rc_options(rc_path("async"), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);

    (void)state;
    rc_arm(KYMO_AT_QUIESCE);
    kymo_recorder_stop_async(r, KYMO_R_OWNER);
    assert_true(kymo_recorder_ended(r));
    rc_await_gate(KYMO_AT_QUIESCE); /* the worker ends it */
    assert_int_equal(rc_info(r).state, KYMO_STOPPING);
    rc_release(KYMO_AT_QUIESCE);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    assert_int_equal(rc_info(r).state, KYMO_CLOSED);
    assert_int_equal(rc_info(r).reason, KYMO_R_OWNER);
    kymo_recorder_close(r);
}

static void pauses(void **state)
{
    struct kymo_options o = rc_options(rc_path("pause"), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);
    const uint8_t ids[] = {KYMO_E_CALL, KYMO_E_STATE, KYMO_E_STATE, KYMO_E_CALL, KYMO_E_STATE, KYMO_E_STATE};
    const uint8_t kinds[] = {0, KYMO_PAUSED, KYMO_ACTIVE, 0, KYMO_PAUSED, KYMO_STOPPING};
    struct rc_rec rec;

    (void)state;
    assert_int_equal(kymo_recorder_resume(r), -EALREADY);
    assert_true(rc_call(r, 1));
    assert_int_equal(kymo_recorder_pause(r), 0);
    assert_int_equal(kymo_recorder_pause(r), -EALREADY);
    assert_false(kymo_recorder_active(r));
    assert_false(kymo_recorder_ended(r));
    assert_false(rc_call(r, 2));
    assert_int_equal(rc_info(r).state, KYMO_PAUSED);
    assert_int_equal(kymo_recorder_resume(r), 0);
    assert_true(rc_call(r, 3));
    assert_int_equal(kymo_recorder_pause(r), 0);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    assert_int_equal(rc_info(r).events, 2);
    assert_int_equal(rc_info(r).lost[KYMO_LOST_REENTRY], 0);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.n_events, 6);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(rec.events[i].id, ids[i]);
        assert_int_equal(rec.events[i].kind, kinds[i]);
    }
    rc_free(&rec);
}

/* ---- limits ---------------------------------------------------------------------------- */

static void limit_on_events_is_exact(void **state)
{
    static const uint64_t limits[] = {1, 2, 255, 256, 257, 1000, 100000};

    (void)state;
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct kymo_options o = rc_options(rc_path("events"), KYMO_OVERWRITE);
        struct kymo_recorder *r;
        uint64_t n = limits[i], half = n / 2;

        o.limit_events = n;
        r = rc_open(&o);
        assert_int_equal(rc_calls(r, 0, half), half);
        /* A pause returns the leases. */
        assert_int_equal(kymo_recorder_pause(r), 0);
        assert_int_equal(kymo_recorder_resume(r), 0);
        assert_int_equal(rc_calls(r, half, n - half - 1), n - half - 1);
        assert_true(kymo_recorder_active(r));
        assert_true(rc_call(r, n - 1));
        assert_true(kymo_recorder_ended(r)); /* at the last event, not at the one after it */
        assert_false(rc_call(r, n));
        assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
        assert_int_equal(rc_info(r).reason, KYMO_R_EVENTS);
        assert_int_equal(rc_info(r).events, n);
        assert_int_equal(rc_info(r).lost[KYMO_LOST_RING_FULL], 0);
        kymo_recorder_close(r);
        rc_remove(o.dir);
    }
}

struct hammer {
    struct kymo_recorder *r;
    uint64_t n, done;
};

static void *hammer(void *arg)
{
    struct hammer *h = arg;

    for (h->done = 0; h->done < h->n; h->done++) {
        if (!rc_call(h->r, h->done))
            break;
    }
    return NULL;
}

/* Threads that exit having recorded less than their lease leave the rest to others: to the next
 * thread in their slot, or to an existing one. */
static void leases_come_back(void **state)
{
    struct kymo_options o = rc_options(rc_path("leases"), KYMO_OVERWRITE);
    struct hammer h = {.n = 7};
    pthread_t t;

    (void)state;
    rc_pool(&o, 8, 32);
    o.limit_events = 100000;
    h.r = rc_open(&o);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(pthread_create(&t, NULL, hammer, &h), 0);
        pthread_join(t, NULL);
        assert_int_equal(h.done, 7);
        /* From the second round on, the thread has a slot of its own in addition. */
        assert_true(rc_call(h.r, i));
    }
    assert_int_equal(rc_info(h.r).slots_used, 2);
    assert_int_equal(rc_calls(h.r, 0, 100000 - 801), 100000 - 801);
    assert_true(kymo_recorder_active(h.r));
    assert_true(rc_call(h.r, 0));
    assert_true(kymo_recorder_ended(h.r));
    kymo_recorder_close(h.r);
}

static void limit_on_events_holds_for_threads(void **state)
{
    struct kymo_options o = rc_options(rc_path("shared-limit"), KYMO_OVERWRITE);
    struct hammer h[4] = {{.n = UINT64_MAX}, {.n = UINT64_MAX}, {.n = UINT64_MAX}, {.n = UINT64_MAX}};
    struct kymo_recorder *r;
    uint64_t events;
    pthread_t t[4];

    (void)state;
    o.limit_events = 200000;
    r = rc_open(&o);
    for (unsigned i = 0; i < 4; i++) {
        h[i].r = r;
        assert_int_equal(pthread_create(&t[i], NULL, hammer, &h[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    events = rc_info(r).events;
    assert_int_equal(rc_info(r).reason, KYMO_R_EVENTS);
    assert_true(events <= o.limit_events);
    assert_true(events + 3 * 256 >= o.limit_events);
    assert_int_equal(h[0].done + h[1].done + h[2].done + h[3].done, events);
    kymo_recorder_close(r);
}

static void limit_on_bytes_holds(void **state)
{
    struct kymo_options o = rc_options(rc_path("bytes"), KYMO_OVERWRITE);
    uint64_t per_segment = (4096 - KYMO_SEG_HEADER) / RC_CALL_BYTES;
    struct kymo_recorder *r;

    (void)state;
    o.limit_bytes = 7 * 4096 + 4000;
    r = rc_open(&o);
    assert_int_equal(rc_calls(r, 0, 7 * per_segment), 7 * per_segment);
    assert_true(kymo_recorder_active(r));
    assert_false(rc_call(r, 0));
    assert_true(kymo_recorder_ended(r));
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    assert_int_equal(rc_info(r).reason, KYMO_R_BYTES);
    assert_int_equal(rc_info(r).events, 7 * per_segment);
    kymo_recorder_close(r);
}

static void limit_on_duration_holds(void **state)
{
    struct kymo_options o = rc_options(rc_path("duration"), KYMO_OVERWRITE);
    unsigned before = rc_passed(KYMO_AT_QUIESCE);
    struct kymo_recorder *r;
    struct rc_rec rec;

    (void)state;
    o.limit_ns = 3000000;
    r = rc_open(&o);
    rc_await_passed(KYMO_AT_QUIESCE, before + 1);
    assert_true(kymo_recorder_ended(r));
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.meta.reason, KYMO_R_DURATION);
    assert_true(rec.calib[rec.meta.n_calib - 1].mono_ns - rec.meta.t0_mono_ns >= 3000000);
    rc_free(&rec);
}

/* ---- clock ------------------------------------------------------------------------------- */

static int64_t to_ns(const struct rc_rec *rec, uint64_t ticks)
{
    const struct kymo_calib *a = &rec->calib[0], *b = &rec->calib[rec->meta.n_calib - 1];

    return a->mono_ns + (int64_t)((double)(ticks - a->ticks) * (double)(b->mono_ns - a->mono_ns) /
                                  (double)(b->ticks - a->ticks));
}

/* Events lie between readings of CLOCK_MONOTONIC before and after them, within the error of the
 * calibration. */
static void times_are_right(void **state)
{
    (void)state;
    for (unsigned c = KYMO_CLOCK_MONOTONIC; c <= KYMO_CLOCK_COUNTER; c++) {
        struct kymo_options o = rc_options(rc_path(c == KYMO_CLOCK_COUNTER ? "tsc" : "mono"), KYMO_OVERWRITE);
        int64_t before[50], after[50];
        struct kymo_recorder *r;
        struct rc_rec rec;

        o.clock = (enum kymo_clock)c;
        r = rc_open(&o);
        if (c == KYMO_CLOCK_MONOTONIC)
            assert_int_equal(rc_info(r).clock, c);
        for (unsigned i = 0; i < 50; i++) {
            before[i] = (int64_t)kymo_clock_mono();
            assert_true(rc_call(r, i));
            after[i] = (int64_t)kymo_clock_mono();
        }
        kymo_recorder_close(r);
        rc_load(o.dir, &rec);
        assert_in_range(rec.meta.ticks_per_sec, 1000000u, 10000000000u); /* CNTVCT may have a low frequency */
        for (unsigned i = 0; i < 50; i++) {
            int64_t at = c == KYMO_CLOCK_COUNTER && rec.meta.clock == KYMO_CLOCK_COUNTER
                             ? to_ns(&rec, rec.events[i].ticks)
                             : (int64_t)rec.events[i].ticks;

            assert_true(at >= before[i] - 20000 && at <= after[i] + 20000);
        }
        rc_free(&rec);
    }
}

/* The table of calibrations never overflows, and always spans the whole recording. */
static void calibration_thins_out(void **state)
{
    struct kymo_options o = rc_options(rc_path("calibration"), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);
    uint64_t step = r->calib_step_ns;
    struct rc_rec rec;

    (void)state;
    pthread_mutex_lock(&r->ctl); /* as the worker does */
    for (unsigned i = 0; i < 3000; i++) {
        kymo_calibrate(r, KYMO_CALIB_POINT);
        assert_true(r->meta->n_calib < KYMO_CALIB_MAX);
    }
    assert_true(r->calib_step_ns >= 16 * step);
    pthread_mutex_unlock(&r->ctl);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec); /* checks that the points increase */
    assert_true(rec.meta.n_calib >= 128);
    assert_int_equal(rec.calib[0].ticks, rec.meta.t0_ticks);
    assert_int_equal(rec.calib[0].mono_ns, rec.meta.t0_mono_ns);
    rc_free(&rec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_once),
        cmocka_unit_test(stops_without_waiting),
        cmocka_unit_test(pauses),
        cmocka_unit_test(limit_on_events_is_exact),
        cmocka_unit_test(leases_come_back),
        cmocka_unit_test(limit_on_events_holds_for_threads),
        cmocka_unit_test(limit_on_bytes_holds),
        cmocka_unit_test(limit_on_duration_holds),
        cmocka_unit_test(times_are_right),
        cmocka_unit_test(calibration_thins_out),
    };

    return cmocka_run_group_tests_name("recorder", tests, rc_setup, rc_teardown);
}
