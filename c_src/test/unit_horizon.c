/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the horizon, from which on a recording is complete, and of how the events before it are
 * reported. In these recordings threads have lost their oldest segments at different times.
 */
#include "reader_fixture.h"

#define PID(n) KYMO_IDENT(KYMO_I_PID, n)

enum { RECORDS = 10 };

/* Segment seq of a thread: RECORDS calls of process `slot`, one tick apart, starting at 1,000,000 *
 * (seq + 1). */
static uint64_t begin_of(uint64_t seq)
{
    return 1000000 * (seq + 1);
}

static void segment(struct testseg *s, const struct testrec *t, uint32_t slot, uint64_t seq, bool closed)
{
    ts_open(s, t, slot, seq, begin_of(seq));
    if (seq > 1)
        ts_after(s, begin_of(seq - 1) + RECORDS - 1, (seq - 1) * RECORDS);
    for (uint64_t i = 0; i < RECORDS; i++)
        ts_wm(s, begin_of(seq) + i, KYMO_E_CALL, PID(slot), (uint32_t)seq);
    if (closed)
        ts_close(s, false);
}

/* Segments first .. last of a thread, the last one open, in the pool's places from `at` on. */
static void thread(struct testrec *t, uint32_t slot, uint64_t first, uint64_t last, size_t at)
{
    struct testseg s;
    for (uint64_t seq = first; seq <= last; seq++) {
        segment(&s, t, slot, seq, seq < last);
        tr_to_place(t, &s, at++);
    }
    t->slots[slot].used = 1;
    t->slots[slot].seq = last;
    t->slots[slot].events = last * RECORDS;
    t->slots[slot].bytes = (last - 1) * RECORDS * 17;
    t->slots[slot].overwritten = (first - 1) * RECORDS;
    t->slots[slot].gone_until = first > 1 ? begin_of(first - 1) + RECORDS - 1 : 0;
}

/* Checks the number of events of each thread; `incomplete`: how many of all events are marked so. */
static void count(struct kymo_reader *r, unsigned of[TR_SLOTS], unsigned *incomplete)
{
    struct kymo_event ev;
    memset(of, 0, TR_SLOTS * sizeof *of);
    *incomplete = 0;
    assert_int_equal(kymo_reader_rewind(r), 0);
    while (kymo_reader_next(r, &ev) == 1) {
        of[ev.slot]++;
        *incomplete += ev.incomplete;
    }
}

static void expect_horizon(const struct kymo_reader *r, uint64_t expected)
{
    uint64_t ticks;
    int64_t ns;
    assert_int_equal(kymo_reader_horizon(r, &ticks, &ns), expected != 0);
    assert_int_equal(ticks, expected != 0 ? expected : 1000000);
    assert_int_equal(ns, ticks);
}

static void a_whole_recording_has_none(void **state)
{
    (void)state;
    struct testrec t;
    unsigned of[TR_SLOTS], incomplete;
    tr_init(&t);
    thread(&t, 0, 1, 3, 0);
    thread(&t, 1, 1, 1, 3);
    struct kymo_reader *r = open_it(&t);
    expect_horizon(r, 0);
    for (unsigned all = 0; all < 2; all++) {
        kymo_reader_show_all(r, all == 1);
        count(r, of, &incomplete);
        assert_int_equal(of[0], 3 * RECORDS);
        assert_int_equal(of[1], RECORDS);
        assert_int_equal(incomplete, 0);
    }
    kymo_reader_close(r);
    tr_free(&t);
}

/* Thread 0 has all events, thread 1 only those after the last event of its segment 4. */
static void it_is_the_newest_oldest_event(void **state)
{
    (void)state;
    struct testrec t;
    unsigned of[TR_SLOTS], incomplete;
    int64_t first, last;
    uint64_t segments, bytes;
    tr_init(&t);
    thread(&t, 0, 1, 6, 0);
    thread(&t, 1, 5, 6, 6);
    thread(&t, 2, 3, 6, 8); /* older */
    struct kymo_reader *r = open_it(&t);
    expect_horizon(r, begin_of(4) + RECORDS - 1);
    count(r, of, &incomplete);
    assert_int_equal(of[0], 2 * RECORDS);
    assert_int_equal(of[1], 2 * RECORDS);
    assert_int_equal(of[2], 2 * RECORDS);
    assert_int_equal(incomplete, 0);
    assert_int_equal(kymo_reader_span(r, &first, &last), 0);
    assert_int_equal(first, begin_of(4) + RECORDS - 1);
    assert_int_equal(last, begin_of(6) + RECORDS - 1);
    kymo_reader_show_all(r, true);
    count(r, of, &incomplete);
    assert_int_equal(of[0], 6 * RECORDS);
    assert_int_equal(of[1], 2 * RECORDS);
    assert_int_equal(of[2], 4 * RECORDS);
    assert_int_equal(incomplete, 6 * RECORDS);
    assert_int_equal(kymo_reader_span(r, &first, &last), 0);
    assert_int_equal(first, begin_of(1));
    kymo_reader_pool(r, &segments, &bytes);
    assert_int_equal(segments, 12);
    assert_int_equal(bytes, 12 * (KYMO_SEG_HEADER + RECORDS * 17));
    kymo_reader_close(r);
    tr_free(&t);
}

/* Its slot has what its segments cannot tell. */
static void a_thread_of_which_nothing_is_left(void **state)
{
    (void)state;
    struct testrec t;
    unsigned of[TR_SLOTS], incomplete;
    tr_init(&t);
    thread(&t, 0, 1, 6, 0);
    t.slots[3].used = 1;
    t.slots[3].events = t.slots[3].overwritten = 1000;
    t.slots[3].gone_until = begin_of(3) + 4;
    struct kymo_reader *r = open_it(&t);
    expect_horizon(r, begin_of(3) + 4);
    kymo_reader_show_all(r, true);
    count(r, of, &incomplete);
    assert_int_equal(of[0], 6 * RECORDS);
    /* An event of another thread at the same time may have been before it. */
    assert_int_equal(incomplete, 2 * RECORDS + 5);
    kymo_reader_close(r);
    tr_free(&t);
}

/* An event at the time of the horizon, in the thread that determines it, is after the missing ones. */
static void the_same_time_in_the_same_thread(void **state)
{
    (void)state;
    struct testrec t;
    struct testseg s;
    unsigned of[TR_SLOTS], incomplete;
    tr_init(&t);
    ts_open(&s, &t, 1, 2, 3000000);
    ts_after(&s, 3000000, 50);
    ts_wm(&s, 3000000, KYMO_E_CALL, PID(1), 1);
    ts_wm(&s, 3000001, KYMO_E_CALL, PID(1), 1);
    tr_to_place(&t, &s, 0);
    ts_open(&s, &t, 0, 1, 2999999);
    ts_wm(&s, 2999999, KYMO_E_CALL, PID(1), 1);
    ts_wm(&s, 3000000, KYMO_E_CALL, PID(1), 1);
    ts_wm(&s, 3000001, KYMO_E_CALL, PID(1), 1);
    tr_to_place(&t, &s, 1);
    struct kymo_reader *r = open_it(&t);
    count(r, of, &incomplete);
    assert_int_equal(of[1], 2);
    assert_int_equal(of[0], 1);
    assert_false(kymo_reader_incomplete(r, 1, 3000000));
    assert_true(kymo_reader_incomplete(r, 0, 3000000));
    kymo_reader_close(r);
    tr_free(&t);
}

/* A segment may survive newer ones of its thread. meta is as after a power failure: it has no
 * record of what was overwritten. */
static void a_gap_counts(void **state)
{
    (void)state;
    struct testrec t;
    struct testseg s;
    uint32_t n;
    tr_init(&t);
    thread(&t, 0, 1, 6, 0);
    thread(&t, 1, 5, 6, 6);
    segment(&s, &t, 1, 2, true);
    tr_to_place(&t, &s, 9);
    t.slots[1].gone_until = 0;
    t.slots[1].overwritten = 0;
    struct kymo_reader *r = open_it(&t);
    expect_horizon(r, begin_of(4) + RECORDS - 1);
    assert_int_equal(kymo_reader_slots(r, &n)[1].overwritten, 3 * RECORDS);
    kymo_reader_close(r);

    /* And a segment that the recorder counted as overwritten, before it was killed without reusing
     * it. */
    thread(&t, 1, 5, 6, 6);
    memset(t.ring.p + 9 * TR_SEGMENT, 0, TR_SEGMENT);
    t.slots[1].overwritten = 5 * RECORDS;
    r = open_it(&t);
    assert_int_equal(kymo_reader_slots(r, &n)[1].overwritten, 4 * RECORDS);
    /* The events of the open segment are counted from its bytes. */
    assert_int_equal(kymo_reader_slots(r, &n)[1].bytes, 6 * RECORDS * 17);
    kymo_reader_close(r);

    /* Only the counter includes the newest segments. */
    memset(t.ring.p + 7 * TR_SEGMENT, 0, TR_SEGMENT);
    t.slots[1].seq = 0;
    t.slots[1].overwritten = 5 * RECORDS;
    r = open_it(&t);
    assert_int_equal(kymo_reader_slots(r, &n)[1].overwritten, 5 * RECORDS);
    kymo_reader_close(r);
    tr_free(&t);
}

static void snapshots_have_one(void **state)
{
    (void)state;
    struct testrec t;
    struct testseg s;
    unsigned of[TR_SLOTS], incomplete;
    tr_init(&t);
    t.meta.snapshot = 1;
    t.ring.n = 0;
    for (uint32_t slot = 0; slot < 2; slot++) {
        for (uint64_t seq = 1 + 2 * slot; seq <= 4; seq++) {
            segment(&s, &t, slot, seq, true);
            tr_to_data(&t, 1, &s, true);
        }
    }
    tr_write(&t, dir);
    char path[128];
    snprintf(path, sizeof path, "%s/ring", dir);
    unlink(path);
    struct kymo_reader *r = open_written();
    expect_horizon(r, begin_of(2) + RECORDS - 1);
    count(r, of, &incomplete);
    assert_int_equal(of[0], 2 * RECORDS);
    assert_int_equal(of[1], 2 * RECORDS);
    kymo_reader_close(r);
    tr_free(&t);
}

/* Old data files were removed; a copy of a segment in them is left in the pool. */
static void removed_files(void **state)
{
    (void)state;
    struct testrec t;
    struct testseg s;
    unsigned of[TR_SLOTS], incomplete;
    tr_init(&t);
    t.meta.policy = KYMO_DISCARD;
    t.meta.files_removed = 1;
    t.meta.events_removed = 4 * RECORDS;
    for (uint32_t slot = 0; slot < 2; slot++) {
        for (uint64_t seq = 1; seq <= 5; seq++) {
            segment(&s, &t, slot, seq, true);
            if (slot == 1 && seq == 2)
                tr_to_place(&t, &s, 0);
            if (slot == 0 || seq > 4)
                tr_to_data(&t, 2, &s, true);
        }
        t.slots[slot].used = 1;
        t.slots[slot].drained_seq = 5;
    }
    t.slots[1].gone_until = begin_of(4) + RECORDS - 1;
    struct kymo_reader *r = open_it(&t);
    expect_horizon(r, begin_of(4) + RECORDS - 1);
    assert_int_equal(kymo_reader_meta(r)->events_removed, 3 * RECORDS);
    assert_int_equal(kymo_reader_damage(r)->seq_gaps, 0);
    kymo_reader_show_all(r, true);
    count(r, of, &incomplete);
    assert_int_equal(of[0], 5 * RECORDS);
    assert_int_equal(of[1], 2 * RECORDS);
    assert_int_equal(incomplete, 5 * RECORDS);
    kymo_reader_close(r);
    tr_free(&t);
}

/* A segment that is missing in the middle without a reason counts as damage; older events are
 * incomplete, too. */
static void damage_moves_it(void **state)
{
    (void)state;
    struct testrec t;
    struct testseg s;
    unsigned of[TR_SLOTS], incomplete;
    tr_init(&t);
    t.meta.policy = KYMO_DISCARD;
    for (uint64_t seq = 1; seq <= 5; seq++) {
        segment(&s, &t, 0, seq, true);
        if (seq != 3)
            tr_to_data(&t, 1, &s, true);
    }
    struct kymo_reader *r = open_it(&t);
    expect_horizon(r, begin_of(3) + RECORDS - 1);
    assert_int_equal(kymo_reader_damage(r)->seq_gaps, 1);
    count(r, of, &incomplete);
    assert_int_equal(of[0], 2 * RECORDS);
    kymo_reader_show_all(r, true);
    count(r, of, &incomplete);
    assert_int_equal(of[0], 4 * RECORDS);
    assert_int_equal(incomplete, 2 * RECORDS);
    kymo_reader_close(r);
    tr_free(&t);
}

/* A file that ends within a segment: the missing events count like missing segments. */
static void cut_files_move_it(void **state)
{
    (void)state;
    struct testrec t;
    struct testseg s;
    unsigned of[TR_SLOTS], incomplete;
    tr_init(&t);
    t.meta.policy = KYMO_DISCARD;
    for (uint64_t seq = 1; seq <= 4; seq++) {
        segment(&s, &t, 0, seq, true);
        tr_to_data(&t, seq <= 2 ? 1 : 2, &s, true);
    }
    t.data[1].n -= 20;
    struct kymo_reader *r = open_it(&t);
    expect_horizon(r, begin_of(2) + RECORDS - 1);
    count(r, of, &incomplete);
    assert_int_equal(of[0], 2 * RECORDS);
    kymo_reader_close(r);
    tr_free(&t);
}

/* All remaining events are older than the missing ones. */
static void nothing_is_complete(void **state)
{
    (void)state;
    struct testrec t;
    struct kymo_event ev;
    int64_t first, last;
    tr_init(&t);
    thread(&t, 0, 1, 2, 0);
    t.slots[1].gone_until = begin_of(9);
    struct kymo_reader *r = open_it(&t);
    assert_int_equal(kymo_reader_next(r, &ev), 0);
    assert_int_equal(kymo_reader_span(r, &first, &last), -ENODATA);
    kymo_reader_close(r);
    tr_free(&t);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        TEST(a_whole_recording_has_none),
        TEST(it_is_the_newest_oldest_event),
        TEST(a_thread_of_which_nothing_is_left),
        TEST(the_same_time_in_the_same_thread),
        TEST(a_gap_counts),
        TEST(snapshots_have_one),
        TEST(removed_files),
        TEST(damage_moves_it),
        TEST(cut_files_move_it),
        TEST(nothing_is_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
