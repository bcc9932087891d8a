/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the conversion of ticks to nanoseconds: by the calibration table, and by the start times of
 * segments after the end of the table or if the clock has jumped.
 */
#include "reader_fixture.h"

enum { MS = 1000000, SEGMENTS = 90, PER_SEGMENT = 10 };

#define SECOND INT64_C(1000000000)

/* Two ticks per nanosecond, starting at 0. */
static void two_ticks(struct testrec *t)
{
    tr_init(t);
    t->meta.clock = KYMO_CLOCK_COUNTER;
    t->meta.ticks_per_sec = 2000000000;
    t->meta.t0_ticks = 0;
    t->meta.t0_mono_ns = 0;
    t->meta.n_calib = 1;
}

static void calibrate(struct testrec *t, uint64_t ticks, int64_t ns)
{
    t->calib[t->meta.n_calib++] = (struct kymo_calib){ticks, ns};
}

static void set_mono(struct testseg *s, int64_t ns)
{
    memcpy(s->b + offsetof(struct kymo_segment, mono_ns), &ns, sizeof ns);
}

/* A segment with PER_SEGMENT events, `step` ticks apart. The events have its number. */
static uint64_t last_of[2];

static void segment(struct testrec *t, uint32_t slot, uint64_t seq, uint64_t ticks, uint64_t step,
                    int64_t mono)
{
    struct testseg s;
    ts_open(&s, t, slot, seq, ticks);
    set_mono(&s, mono);
    if (seq > 1)
        ts_after(&s, last_of[slot], (seq - 1) * PER_SEGMENT);
    last_of[slot] = ticks + (PER_SEGMENT - 1) * step;
    for (uint64_t i = 0; i < PER_SEGMENT; i++)
        ts_wm(&s, ticks + i * step, KYMO_E_CALL, seq, 0);
    ts_close(&s, true);
    tr_to_data(t, 1, &s, true);
}

static void assert_near(int64_t a, int64_t b, int64_t most)
{
    if (a - b > most || b - a > most)
        fail_msg("%ld is not near %ld", (long)a, (long)b);
}

/* The last calibration was a second after the start, and the clock has been 1 % faster since. No
 * time is wrong by more than 1 % of a segment. */
static void after_the_last_calibration(void **state)
{
    (void)state;
    struct testrec t;
    struct kymo_event ev;
    uint64_t n = 0;
    two_ticks(&t);
    calibrate(&t, 2 * SECOND, SECOND);
    for (uint64_t seq = 1; seq <= SEGMENTS; seq++) { /* 100 ms each */
        uint64_t begin = 2 * SECOND + (seq - 1) * 202 * MS;
        segment(&t, 0, seq, begin, 202 * MS / PER_SEGMENT, SECOND + (int64_t)(seq - 1) * 100 * MS);
    }
    struct kymo_reader *r = open_it(&t);
    for (int64_t last = 0; kymo_reader_next(r, &ev) == 1; n++) {
        assert_near(ev.ns, SECOND + (int64_t)n * 10 * MS, MS);
        assert_true(ev.ns >= last);
        last = ev.ns;
    }
    assert_int_equal(n, SEGMENTS * PER_SEGMENT);
    assert_int_equal(kymo_reader_jumps(r), 0);
    /* After the last of them the rate is unchanged. */
    assert_near(kymo_reader_ns(r, 2 * SECOND + 100 * 202 * (uint64_t)MS), 11 * SECOND, MS);
    kymo_reader_close(r);
    tr_free(&t);
}

/* The clock jumped after the table's point at five seconds, and the recorder noticed after a new
 * segment had been opened. Neither this nor a damaged header changes the times of other segments. */
static void a_jump_stays_where_it_is(void **state)
{
    (void)state;
    static const int64_t said[] = {-2 * SECOND, 2 * SECOND, -20 * MS, -MS - 1, -MS, MS, INT64_MAX, INT64_MIN};
    for (size_t k = 0; k < sizeof said / sizeof *said; k++) {
        struct testrec t;
        struct kymo_event ev;
        int64_t last[2] = {0, 0}, true_begin = 0;
        uint64_t n = 0;
        two_ticks(&t);
        for (int64_t i = 1; i <= 10; i++)
            calibrate(&t, 2 * (uint64_t)(i * SECOND), i * SECOND);
        for (uint64_t seq = 1; seq <= 9; seq++) {
            int64_t ns = (int64_t)seq * SECOND;
            for (uint32_t slot = 0; slot < 2; slot++) {
                bool odd = slot == 1 && seq == 5;
                int64_t mono = !odd                                              ? ns
                               : said[k] > 10 * SECOND || said[k] < -10 * SECOND ? said[k]
                                                                                 : ns + said[k];
                segment(&t, slot, seq, 2 * (uint64_t)ns, 2 * 10 * MS, mono);
            }
        }
        struct kymo_reader *r = open_it(&t);
        for (; kymo_reader_next(r, &ev) == 1; n++) {
            assert_true(ev.ns >= last[ev.slot]);
            last[ev.slot] = ev.ns;
            true_begin = (int64_t)ev.ticks / 2;
            if (ev.slot == 0 || ev.who != 5)
                assert_int_equal(ev.ns, true_begin);
            else if (said[k] >= -MS) /* as close as the clocks are, or read late */
                assert_int_equal(ev.ns, true_begin);
            else if (said[k] == -20 * MS)
                assert_int_equal(ev.ns, true_begin - 20 * MS);
            else /* no further than the neighbouring segments */
                assert_true(ev.ns >= 4 * SECOND && ev.ns <= 6 * SECOND);
        }
        assert_int_equal(n, 2 * 9 * PER_SEGMENT);
        assert_int_equal(kymo_reader_jumps(r), said[k] >= -MS || said[k] == INT64_MIN ? 0 : 1);
        kymo_reader_close(r);
        tr_free(&t);
    }
}

/* The time in a damaged header is not used as a point. */
static void nonsense_is_no_point(void **state)
{
    (void)state;
    struct testrec t;
    struct kymo_event ev;
    two_ticks(&t);
    calibrate(&t, 2 * SECOND, SECOND);
    for (uint64_t seq = 1; seq <= 50; seq++) {
        uint64_t begin = 2 * SECOND + seq * 200 * MS;
        int64_t mono = (int64_t)begin / 2;
        segment(&t, 0, seq, begin, 20 * MS, seq % 10 == 3 ? mono * 7 : seq % 10 == 6 ? -mono : mono);
    }
    struct kymo_reader *r = open_it(&t);
    for (int64_t last = 0; kymo_reader_next(r, &ev) == 1; last = ev.ns) {
        assert_true(ev.ns >= last);
        if (ev.who % 10 != 3 && ev.who % 10 != 6)
            assert_near(ev.ns, (int64_t)ev.ticks / 2, 1);
        else
            assert_near(ev.ns, (int64_t)ev.ticks / 2, 200 * MS);
    }
    assert_int_equal(kymo_reader_jumps(r), 5);
    kymo_reader_close(r);
    tr_free(&t);
}

/* With the monotonic clock there is nothing to convert. */
static void ticks_that_are_nanoseconds(void **state)
{
    (void)state;
    struct testrec t;
    struct kymo_event ev;
    tr_init(&t);
    segment(&t, 0, 1, 2000000, 5, 99);
    struct kymo_reader *r = open_it(&t);
    while (kymo_reader_next(r, &ev) == 1)
        assert_int_equal(ev.ns, ev.ticks);
    assert_int_equal(kymo_reader_jumps(r), 0);
    kymo_reader_close(r);
    tr_free(&t);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        TEST(after_the_last_calibration),
        TEST(a_jump_stays_where_it_is),
        TEST(nonsense_is_no_point),
        TEST(ticks_that_are_nanoseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
