/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of lost events: between two notes of loss of the same thread, no thread counts as complete.
 * Thread 0 is complete and has an event each millisecond; thread 1 loses events.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "kymo_reader.h"
#include "testrec.h"

enum { MS = 1000000, TICKS = 20 };

struct story {
    char dir[64], rec[96];
    struct testrec t;
    struct testseg whole, first, second;
};

static void event(struct testseg *s, uint64_t ms, unsigned id)
{
    ts_wm(s, ms * MS, id, KYMO_IDENT(KYMO_I_PID, 1), 0);
}

static void note(struct testseg *s, uint64_t ms, uint64_t n)
{
    uint8_t body[9] = {KYMO_LOST_RING_FULL};
    memcpy(body + 1, &n, 8);
    ts_record(s, ms * MS, KYMO_E_LOST, body, sizeof body, false);
}

static int setup(void **state)
{
    struct story *x = calloc(1, sizeof *x);
    if (x == NULL)
        return -1;
    snprintf(x->dir, sizeof x->dir, "/tmp/kymo-loss-XXXXXX");
    if (mkdtemp(x->dir) == NULL) {
        free(x);
        return -1;
    }
    snprintf(x->rec, sizeof x->rec, "%s/rec", x->dir);
    tr_init(&x->t);
    x->t.slots[0].used = x->t.slots[1].used = 1;
    ts_open(&x->whole, &x->t, 0, 1, MS);
    for (unsigned ms = 1; ms <= TICKS; ms++)
        event(&x->whole, ms, KYMO_E_CALL);
    ts_open(&x->first, &x->t, 1, 1, MS);
    ts_open(&x->second, &x->t, 1, 2, 12 * MS);
    *state = x;
    return 0;
}

static int teardown(void **state)
{
    struct story *x = *state;
    tr_free(&x->t);
    tr_remove(x->rec);
    int rc = rmdir(x->dir);
    free(x);
    return rc;
}

/* The incomplete events of thread 0 are those from `from` to `to` ms; from 0: none. */
static void expect_doubt(struct story *x, bool two, unsigned from, unsigned to)
{
    struct kymo_reader *r;
    struct kymo_event ev;
    char err[256] = "";
    ts_close(&x->first, true);
    tr_to_place(&x->t, &x->whole, 0);
    tr_to_place(&x->t, &x->first, 1);
    if (two)
        tr_to_place(&x->t, &x->second, 2);
    tr_write(&x->t, x->rec);
    if (kymo_reader_open(x->rec, &r, err, sizeof err) != 0)
        fail_msg("%s", err);
    for (unsigned pass = 0; pass < 2; pass++) {
        uint64_t epoch = kymo_reader_loss_epoch(r);
        unsigned seen = 0;
        while (kymo_reader_next(r, &ev) == 1) {
            bool changed = kymo_reader_loss_epoch(r) != epoch;
            unsigned ms = (unsigned)(ev.ticks / MS);
            epoch = kymo_reader_loss_epoch(r);
            if (ev.slot != 0)
                continue;
            seen++;
            if (changed != (from != 0 && ms >= from && ms <= to))
                fail_msg("%u ms: %s", ms, changed ? "in doubt" : "certain");
        }
        assert_int_equal(seen, TICKS);
        assert_int_equal(kymo_reader_rewind(r), 0);
    }
    kymo_reader_close(r);
}

static void nothing_is_lost(void **state)
{
    struct story *x = *state;
    event(&x->first, 3, KYMO_E_CALL);
    event(&x->second, 13, KYMO_E_CALL);
    expect_doubt(x, true, 0, 0);
}

/* At equal times, thread 0 comes first. */
static void from_note_to_note(void **state)
{
    struct story *x = *state;
    event(&x->first, 3, KYMO_E_CALL);
    note(&x->first, 5, 1);
    note(&x->first, 9, 7);
    event(&x->first, 11, KYMO_E_CALL);
    event(&x->second, 13, KYMO_E_CALL);
    expect_doubt(x, true, 6, 9);
}

static void of_several_causes(void **state)
{
    struct story *x = *state;
    event(&x->first, 3, KYMO_E_CALL);
    for (unsigned ms = 5; ms < 9; ms++)
        note(&x->first, ms, 7);
    event(&x->first, 10, KYMO_E_CALL);
    expect_doubt(x, false, 6, 8);
}

/* One loss: it happened at the time of the note, between two events of thread 0. */
static void at_one_time(void **state)
{
    struct story *x = *state;
    event(&x->first, 3, KYMO_E_CALL);
    note(&x->first, 5, 1);
    event(&x->first, 10, KYMO_E_CALL);
    expect_doubt(x, false, 0, 0);
}

/* The first segment had room for one note. */
static void in_two_segments(void **state)
{
    struct story *x = *state;
    event(&x->first, 3, KYMO_E_CALL);
    note(&x->first, 10, 1);
    note(&x->second, 14, 7);
    event(&x->second, 15, KYMO_E_CALL);
    expect_doubt(x, true, 11, 14);
}

static void lose(struct story *x, uint64_t n, uint64_t last_ms)
{
    x->t.slots[1].lost[KYMO_LOST_RING_FULL] = n;
    x->t.slots[1].lost_last = last_ms * MS;
}

/* There was no segment for a note. */
static void at_the_end(void **state)
{
    struct story *x = *state;
    event(&x->first, 3, KYMO_E_CALL);
    note(&x->first, 5, 1);
    event(&x->first, 6, KYMO_E_CALL);
    lose(x, 3, 9);
    expect_doubt(x, false, 7, 9);
}

/* Its notes have all losses: one before the segment, and two since. */
static void noted_at_the_end(void **state)
{
    struct story *x = *state;
    struct kymo_segment h;
    memcpy(&h, x->first.b, sizeof h);
    h.lost_before = 1;
    memcpy(x->first.b, &h, sizeof h);
    note(&x->first, 2, 1);
    event(&x->first, 3, KYMO_E_CALL);
    note(&x->first, 5, 2);
    event(&x->first, 6, KYMO_E_CALL);
    lose(x, 3, 9);
    expect_doubt(x, false, 0, 0);
}

static void in_a_thread_without_segments(void **state)
{
    struct story *x = *state;
    event(&x->first, 3, KYMO_E_CALL);
    x->t.slots[2].lost[KYMO_LOST_RING_FULL] = 2;
    x->t.slots[2].lost_last = 4 * MS;
    expect_doubt(x, false, 1, 4);
}

/* The next event after the newest loss does not know yet what precedes it. */
static void without_a_slot(void **state)
{
    struct story *x = *state;
    event(&x->first, 3, KYMO_E_CALL);
    x->t.meta.no_slot = 2;
    x->t.meta.no_slot_first = 6 * MS - 1;
    x->t.meta.no_slot_last = 9 * MS - 1;
    expect_doubt(x, false, 6, 9);
}

static void at_a_time_that_is_not_known(void **state)
{
    struct story *x = *state;
    event(&x->first, 3, KYMO_E_CALL);
    lose(x, 1, 0);
    expect_doubt(x, false, 4, TICKS);
}

/* What was recorded there is unknown. */
static void a_damaged_segment(void **state)
{
    struct story *x = *state;
    event(&x->first, 3, KYMO_E_CALL);
    uint32_t good = x->first.len;
    event(&x->first, 4, KYMO_E_CALL);
    event(&x->first, 5, KYMO_E_CALL);
    event(&x->second, 13, KYMO_E_CALL);
    x->first.b[good] = 127; /* not the id of an event */
    expect_doubt(x, true, 4, 13);
}

/* A different number for each cause, and for files that could not be written. */
static void all_together(void **state)
{
    struct story *x = *state;
    struct kymo_reader *r;
    char err[256] = "";
    uint64_t sum = 0;
    for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++) {
        x->t.slots[c & 1].lost[c] = UINT64_C(1) << c;
        sum += UINT64_C(1) << c;
    }
    x->t.slots[1].io_lost = 1000;
    x->t.meta.no_slot = 20000;
    tr_to_place(&x->t, &x->whole, 0);
    tr_write(&x->t, x->rec);
    if (kymo_reader_open(x->rec, &r, err, sizeof err) != 0)
        fail_msg("%s", err);
    assert_int_equal(kymo_reader_lost(r), sum + 21000);
    kymo_reader_close(r);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_lost),
        TEST(from_note_to_note),
        TEST(of_several_causes),
        TEST(at_one_time),
        TEST(in_two_segments),
        TEST(a_damaged_segment),
        TEST(at_the_end),
        TEST(noted_at_the_end),
        TEST(in_a_thread_without_segments),
        TEST(without_a_slot),
        TEST(at_a_time_that_is_not_known),
        TEST(all_together),
    };
    return cmocka_run_group_tests_name("loss", tests, NULL, NULL);
}
