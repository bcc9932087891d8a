/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of how the reader interprets the notes of a budget, and of what is derived from them.
 */
#include "kymo_recorded.h"
#include "reader_fixture.h"
#include "shed_spans.h"

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

/* ---- what is derived, compared with a simple calculation ---- */

enum { FUNCTIONS = 20, NOTES = 300 };

static uint32_t rnd(uint32_t n)
{
    static uint32_t x = 12345;
    x = x * 1664525 + 1013904223;
    return (x >> 8) % n;
}

/* A recording in which functions and kinds of events are shed and restored at random. */
static struct kymo_reader *open_random(struct testrec *t, uint32_t *mfa)
{
    static const uint32_t kinds[] = {
        0, 0, 0, 1u << KYMO_KIND_CALLS, 1u << KYMO_KIND_MESSAGES, 1u << KYMO_KIND_CALLS | 1u << KYMO_KIND_GC};
    start(t);
    uint32_t m = tr_atom(t, "m"), f = tr_atom(t, "f");
    uint64_t at = 1000;
    for (uint32_t i = 0; i < FUNCTIONS; i++)
        mfa[i] = tr_mfa(t, m, f, i);
    for (unsigned i = 0; i < NOTES; i++, at += rnd(3) == 0 ? 0 : 1 + rnd(50)) {
        uint32_t ids[3] = {mfa[rnd(FUNCTIONS)], mfa[rnd(FUNCTIONS)], mfa[rnd(FUNCTIONS)]};
        note(t, at, rnd(2) == 0 ? KYMO_SHED : KYMO_GIVEN_BACK, kinds[rnd(6)], ids, rnd(4));
    }
    return open_it(t);
}

static bool is_shed(const struct kymo_shed *s, int64_t ns)
{
    return s->from <= ns && ns < s->to;
}

/* Everything that is shed at this time; returns how much that is. */
static size_t text_at(const struct kymo_reader *r, int64_t ns, char *buf, size_t size)
{
    size_t n, used = 0, found = 0;
    const struct kymo_shed *s = kymo_reader_shed(r, &n);
    char name[64];
    buf[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (s[i].kind != KYMO_KINDS || !is_shed(&s[i], ns))
            continue;
        kymo_format_mfa(r, s[i].mfa, name, sizeof name);
        used += (size_t)snprintf(buf + used, size - used, "%s%s", found++ > 0 ? ", " : "", name);
    }
    for (unsigned kind = 0; kind < KYMO_KINDS; kind++) {
        for (size_t i = 0; i < n; i++) {
            if (s[i].kind == kind && is_shed(&s[i], ns))
                used += (size_t)snprintf(buf + used, size - used, "%s%s", found++ > 0 ? ", " : "",
                                         kymo_kind_name(kind));
        }
    }
    return found;
}

/* The next time after ns at which something begins or ceases to be shed. */
static int64_t next_change(const struct kymo_shed *s, size_t n, int64_t ns)
{
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        if (s[i].from < s[i].to && s[i].from > ns && s[i].from < next)
            next = s[i].from;
        if (s[i].from < s[i].to && s[i].to > ns && s[i].to < next)
            next = s[i].to;
    }
    return next;
}

static void spans(void **state)
{
    (void)state;
    struct testrec t;
    uint32_t mfa[FUNCTIONS];
    size_t n, found = 0;
    struct kymo_reader *r = open_random(&t, mfa);
    const struct kymo_shed *s = kymo_reader_shed(r, &n);
    struct kymo_shed_walk w;
    struct kymo_shed_span span = {.to = 0};
    char text[1024], expected[1024];
    assert_true(n > NOTES / 4);
    assert_int_equal(kymo_shed_walk_init(&w, r, 0), 0);
    for (int64_t ns = next_change(s, n, 0); ns != INT64_MAX; ns = next_change(s, n, ns)) {
        size_t shed = text_at(r, ns, expected, sizeof expected);
        if (shed == 0)
            continue;
        assert_true(kymo_shed_walk_next(&w, &span));
        assert_int_equal(span.from, ns);
        assert_int_equal(span.to, next_change(s, n, ns));
        assert_int_equal(kymo_shed_walk_text(&w, text, sizeof text), shed);
        assert_string_equal(text, expected);
        found++;
    }
    assert_true(found > NOTES / 4);
    assert_false(kymo_shed_walk_next(&w, &span));
    kymo_shed_walk_free(&w);
    /* A recording of the timeline that has no notes. */
    assert_int_equal(kymo_shed_walk_init(&w, r, 1), 0);
    assert_false(kymo_shed_walk_next(&w, &span));
    kymo_shed_walk_free(&w);
    kymo_reader_close(r);
    tr_free(&t);
}

/* The text names as many functions as fit, and counts the others. */
static void long_text(void **state)
{
    (void)state;
    struct testrec t;
    char text[256], all[256];
    struct kymo_shed_walk w;
    struct kymo_shed_span span;
    start(&t);
    uint32_t m = tr_atom(&t, "m"), f = tr_atom(&t, "f");
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t mfa = tr_mfa(&t, m, f, i);
        note(&t, 100, KYMO_SHED, i == 50 ? 1u << KYMO_KIND_MESSAGES : 0, &mfa, 1);
    }
    struct kymo_reader *r = open_it(&t);
    assert_int_equal(kymo_shed_walk_init(&w, r, 0), 0);
    assert_true(kymo_shed_walk_next(&w, &span));
    assert_int_equal(kymo_shed_walk_text(&w, text, sizeof text), 101);
    assert_int_equal(kymo_shed_text(r, 0, all, sizeof all), 101);
    assert_string_equal(all, text);
    assert_string_equal(text, "m:f/0, m:f/1, m:f/2, m:f/3, m:f/4, m:f/5, m:f/6, m:f/7, m:f/8, m:f/9, m:f/10, "
                              "m:f/11, m:f/12 and 87 more functions, messages");
    kymo_shed_walk_free(&w);
    kymo_reader_close(r);
    tr_free(&t);
}

/* For times within, around and before all that was shed. */
static void recorded_time(void **state)
{
    (void)state;
    static const int64_t limits[][2] = {{1500, 3000}, {0, 20000}, {0, 500}, {2000, 2000}};
    struct testrec t;
    uint32_t mfa[FUNCTIONS];
    size_t n;
    struct kymo_reader *r = open_random(&t, mfa);
    const struct kymo_shed *s = kymo_reader_shed(r, &n);
    for (unsigned k = 0; k < sizeof limits / sizeof *limits; k++) {
        struct kymo_recorded x;
        assert_int_equal(kymo_recorded_init(&x, r, limits[k][0], limits[k][1]), 0);
        for (uint32_t f = 0; f < FUNCTIONS; f++) {
            int64_t ns = 0;
            for (int64_t at = limits[k][0]; at < limits[k][1]; at++) {
                bool shed = false;
                for (size_t i = 0; i < n && !shed; i++)
                    shed = is_shed(&s[i], at) &&
                           (s[i].kind == KYMO_KIND_CALLS || (s[i].kind == KYMO_KINDS && s[i].mfa == mfa[f]));
                ns += !shed;
            }
            assert_int_equal(kymo_recorded_ns(&x, mfa[f]), ns);
        }
        assert_true(kymo_recorded_ns(&x, 0) <= limits[k][1] - limits[k][0]);
        kymo_recorded_free(&x);
    }
    kymo_reader_close(r);
    tr_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(stretches, make_dir, drop_dir),
                                       cmocka_unit_test_setup_teardown(none, make_dir, drop_dir),
                                       cmocka_unit_test_setup_teardown(spans, make_dir, drop_dir),
                                       cmocka_unit_test_setup_teardown(long_text, make_dir, drop_dir),
                                       cmocka_unit_test_setup_teardown(recorded_time, make_dir, drop_dir)};
    return cmocka_run_group_tests_name("shed", tests, NULL, NULL);
}
