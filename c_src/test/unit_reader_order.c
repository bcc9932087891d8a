/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of headers that are valid but wrong: numbers and times of segments that contradict each other
 * or the records. Damaged segments are dropped and counted, without affecting others.
 */
#include "reader_fixture.h"

enum { SEGMENTS = 12, RECORDS = 5 };

static unsigned shift;
static size_t segment_bytes;

/* Segment n has the calls of process n, from this tick on. */
static uint64_t begin_of(uint64_t n)
{
    return n << shift;
}

/* Two threads with segments 1 .. SEGMENTS, closed, in data.000001. They begin
 * 2^log2 ticks apart. */
static void make_every(struct testrec *t, unsigned log2)
{
    struct testseg s;
    shift = log2;
    tr_init(t);
    for (uint64_t n = 1; n <= SEGMENTS; n++) {
        for (uint32_t slot = 0; slot < 2; slot++) {
            ts_open(&s, t, slot, n, begin_of(n));
            for (uint64_t i = 0; i < RECORDS; i++)
                ts_wm(&s, begin_of(n) + 10 + i, KYMO_E_CALL, slot * 100 + n, 0);
            ts_close(&s, true);
            tr_to_data(t, 1, &s, true);
        }
    }
    segment_bytes = t->data[1].n / (2 * SEGMENTS);
}

/* So far apart that each record has two possible times. */
static void make(struct testrec *t)
{
    make_every(t, 33);
}

/* The header of segment n of thread 0. */
static struct kymo_segment *header(struct testrec *t, unsigned n)
{
    return (struct kymo_segment *)(void *)(t->data[1].p + (n - 1) * 2 * segment_bytes);
}

/* Reads the recording in both modes. All of thread 1 is there, and all segments of thread 0 but
 * `without` (0 = none), each event with its time; `without` counts as damaged, once. */
static void expect_without(const struct testrec *t, unsigned without, unsigned damaged)
{
    struct kymo_reader *r = open_it(t);
    struct kymo_event ev;
    const uint8_t *bytes;
    unsigned of[200] = {0};
    uint64_t last = 0, end[2] = {0, 0}, raw = 0;
    size_t len;
    while (kymo_reader_next(r, &ev) == 1) {
        assert_true(ev.who < 200 && ev.ticks >= last);
        assert_int_equal(ev.ticks >> shift, ev.who % 100);
        last = ev.ticks;
        of[ev.who]++;
    }
    for (unsigned n = 1; n <= SEGMENTS; n++) {
        assert_int_equal(of[100 + n], RECORDS);
        assert_int_equal(of[n], n == without ? 0 : RECORDS);
    }
    assert_int_equal(kymo_reader_damage(r)->segments_bad, damaged);
    assert_int_equal(kymo_reader_damage(r)->records_bad, 0);
    for (uint64_t i = 0; kymo_reader_segment(r, i, &bytes, &len) == 1; i++) {
        struct kymo_segment h;
        assert_non_null(bytes);
        memcpy(&h, bytes, sizeof h);
        assert_true(h.ts_begin >= end[h.instance] && h.ts_end >= h.ts_begin);
        end[h.instance] = h.ts_end;
        raw += h.events;
    }
    assert_int_equal(raw, (2 * SEGMENTS - (without != 0)) * RECORDS);
    assert_int_equal(kymo_reader_damage(r)->segments_bad, damaged);
    kymo_reader_close(r);
}

static void good_ones_stay(void **state)
{
    (void)state;
    struct testrec t;
    make(&t);
    expect_without(&t, 0, 0);
    tr_free(&t);
}

/* Before all others, after them, and between them. */
static void a_wrong_number_costs_one_segment(void **state)
{
    (void)state;
    struct testrec t;
    for (unsigned n = 2; n < SEGMENTS; n++) {
        static const uint64_t wrong[] = {1ull << 40, 1ull << 63, SEGMENTS + 1};
        for (unsigned i = 0; i < 3; i++) {
            make(&t);
            header(&t, n)->seq = wrong[i];
            expect_without(&t, n, 1);
            tr_free(&t);
        }
    }
    make(&t); /* as if more had been recorded before */
    for (unsigned n = 1; n <= SEGMENTS; n++)
        header(&t, n)->seq += 1000;
    header(&t, 7)->seq = 1;
    expect_without(&t, 7, 1);
    tr_free(&t);
}

/* The records have the time. */
static void a_wrong_time_costs_one_segment(void **state)
{
    (void)state;
    struct testrec t;
    for (unsigned n = 2; n <= SEGMENTS; n++) {
        make(&t);
        header(&t, n)->ts_begin = 0;
        expect_without(&t, n, 1);
        tr_free(&t);
    }
}

/* Before the previous segment, but close enough for the records to have their times: nothing is
 * lost. */
static void a_time_that_is_a_little_off_costs_nothing(void **state)
{
    (void)state;
    struct testrec t;
    make_every(&t, 20);
    header(&t, 7)->ts_begin = begin_of(4);
    expect_without(&t, 0, 0);
    tr_free(&t);
}

/* All events are shown, but the header is wrong. */
static void a_wrong_end_is_counted(void **state)
{
    (void)state;
    struct testrec t;
    make(&t);
    header(&t, 3)->ts_end += 1ull << 50;
    expect_without(&t, 0, 1);
    tr_free(&t);
}

/* A segment whose turn has come and that could not be used: later ones must not be delivered with
 * times before those of other threads. */
static void time_goes_on_after_bad_ones(void **state)
{
    (void)state;
    struct testrec t;
    struct kymo_reader *r;
    struct kymo_event ev;
    uint64_t last = 0, n = 0;
    char err[256];
    make(&t);
    header(&t, 3)->seq = 1ull << 40;
    header(&t, 4)->crc ^= 1;
    header(&t, 4)->ts_begin = 1;
    header(&t, 9)->crc ^= 1;
    header(&t, 12)->seq = 2;
    tr_write(&t, dir);
    assert_int_equal(kymo_reader_open(dir, &r, err, sizeof err), 0);
    for (; kymo_reader_next(r, &ev) == 1; n++) {
        assert_true(ev.ticks >= last);
        last = ev.ticks;
    }
    assert_true(n >= (2 * SEGMENTS - 5) * RECORDS);
    kymo_reader_close(r);
    tr_free(&t);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        TEST(good_ones_stay),
        TEST(a_wrong_number_costs_one_segment),
        TEST(a_wrong_time_costs_one_segment),
        TEST(a_time_that_is_a_little_off_costs_nothing),
        TEST(a_wrong_end_is_counted),
        TEST(time_goes_on_after_bad_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
