/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of how the reader interprets the notes of a budget.
 */
#include "reader_fixture.h"

/* A clock that counts nanoseconds from 0. */
static void start(struct testrec *t)
{
    tr_init(t);
    t->meta.t0_ticks = 0;
    t->meta.t0_mono_ns = 0;
    t->meta.clock = KYMO_CLOCK_MONOTONIC;
    t->meta.ticks_per_sec = 1000000000;
    t->calib[0] = (struct kymo_calib){0, 0};
    t->meta.n_calib = 1;
    t->meta.shed = 1;
}

static void note(struct testrec *t, uint64_t ticks, uint32_t what, uint32_t kinds, const uint32_t *ids,
                 size_t n)
{
    struct {
        uint64_t ticks;
        uint32_t what, kinds, ids[4];
    } payload = {ticks, what, kinds, {0}};
    if (n > 0)
        memcpy(payload.ids, ids, n * sizeof *ids);
    tr_define(t, KYMO_DICT_SHED, &payload, KYMO_DICT_SHED_HDR + n * sizeof *ids);
}

static void expect(const struct kymo_reader *r, size_t i, uint32_t mfa, uint32_t kind, int64_t from,
                   int64_t to)
{
    size_t n;
    const struct kymo_shed *s = kymo_reader_shed(r, &n);
    assert_true(i < n);
    assert_int_equal(s[i].mfa, mfa);
    assert_int_equal(s[i].kind, kind);
    assert_int_equal(s[i].from, from);
    assert_int_equal(s[i].to, to);
}

static void stretches(void **state)
{
    (void)state;
    struct testrec t;
    size_t n;
    start(&t);
    uint32_t m = tr_atom(&t, "m"), f = tr_atom(&t, "f"), a = tr_mfa(&t, m, f, 1), b = tr_mfa(&t, m, f, 2);
    uint32_t again = tr_mfa(&t, m, f, 1); /* defined twice: the same function */
    uint32_t messages = 1u << KYMO_KIND_MESSAGES, gc = 1u << KYMO_KIND_GC;
    note(&t, 100, KYMO_SHED, messages | gc, (uint32_t[]){a, b, 0}, 3);
    note(&t, 150, KYMO_SHED, messages, &a, 1); /* is shed already */
    note(&t, 200, KYMO_GIVEN_BACK, gc, (uint32_t[]){again, 0}, 2);
    note(&t, 250, KYMO_GIVEN_BACK, gc, &again, 1); /* is not shed */
    note(&t, 300, KYMO_SHED, 0, &a, 1);
    struct kymo_reader *r = open_it(&t);
    assert_int_equal(kymo_reader_damage(r)->dict_bad, 0);
    (void)kymo_reader_shed(r, &n);
    assert_int_equal(n, 6);
    expect(r, 0, 0, KYMO_KIND_MESSAGES, 100, INT64_MAX);
    expect(r, 1, 0, KYMO_KIND_GC, 100, 200);
    expect(r, 2, a, KYMO_KINDS, 100, 200);
    expect(r, 3, b, KYMO_KINDS, 100, INT64_MAX);
    expect(r, 4, 0, KYMO_KINDS, 100, INT64_MAX); /* without a name, so it is unknown which one was restored */
    expect(r, 5, a, KYMO_KINDS, 300, INT64_MAX);
    kymo_reader_close(r);
    tr_free(&t);
}

/* Recordings made before budgets existed, and damaged notes. */
static void none(void **state)
{
    (void)state;
    struct testrec t;
    size_t n;
    start(&t);
    t.meta.shed = 0;
    tr_atom(&t, "m");
    struct kymo_reader *r = open_it(&t);
    (void)kymo_reader_shed(r, &n);
    assert_int_equal(n, 0);
    kymo_reader_close(r);
    t.meta.shed = 3;
    tr_define(&t, KYMO_DICT_SHED, "short", 5);
    note(&t, 1, 77, UINT32_MAX, (uint32_t[]){999}, 1); /* neither shed nor restored */
    tr_remove(dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    r = open_it(&t);
    (void)kymo_reader_shed(r, &n);
    assert_int_equal(n, 0);
    assert_true(kymo_reader_damage(r)->dict_bad > 0);
    kymo_reader_close(r);
    tr_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(stretches, make_dir, drop_dir),
                                       cmocka_unit_test_setup_teardown(none, make_dir, drop_dir)};
    return cmocka_run_group_tests_name("shed", tests, NULL, NULL);
}
