/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of kymo_why.h with handmade recordings: time in which all schedulers were stopped.
 */
#include "why_scene.h"

/* Thread 0 runs PID(1) until 100 us and from 900 us on. Between, it could run all of the time. */
static void open_waiting(struct scene *x)
{
    open_scene(x);
    wm(x, 0, 0, KYMO_E_IN, PID(1), x->a);
    out_for(x, 0, 100000, PID(1), x->a, KYMO_OUT_REDUCTIONS);
}

static void close_waiting(struct scene *x)
{
    in_from_queue(x, 0, 900000, PID(1), x->a, KYMO_RUNNABLE_OUT, 800000);
    wm(x, 0, 1000000, KYMO_E_OUT, PID(1), x->a);
}

/* A stop from `from` to `to`, reported in PID(1) at `at`. */
static void stopped(struct scene *x, uint32_t slot, uint64_t at, uint32_t cause, uint64_t from, uint64_t to)
{
    ts_stopped(&x->s[slot], START + at, PID(1), cause, to - from, at - from, 0);
}

static void assert_parts(struct scene *x, int64_t stopped_ns, uint32_t cause)
{
    struct kymo_why_answer *answer = new_answer();
    explain(x, answer);
    const struct kymo_why_part *p = part(answer, KYMO_WHY_STOPPED, PID(1));
    if (stopped_ns == 0) {
        assert_null(p);
    } else {
        assert_non_null(p);
        assert_int_equal(p->ns, stopped_ns);
        assert_int_equal(p->blame, KYMO_IDENT(KYMO_I_ATOM, cause));
    }
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(1))->ns, 200000);
    int64_t rest = 0;
    for (size_t i = 0; i < answer->n; i++)
        rest += answer->part[i].cause != KYMO_WHY_STOPPED && answer->part[i].cause != KYMO_WHY_RUNNING
                    ? answer->part[i].ns
                    : 0;
    assert_int_equal(rest, 800000 - stopped_ns);
    close_scene(x);
    free(answer);
}

static void a_stop_is_the_cause(void **state)
{
    (void)state;
    struct scene x;
    open_waiting(&x);
    uint32_t cause = tr_atom(&x.t, "nif_upgrade");
    stopped(&x, 0, 900000, cause, 200000, 850000);
    close_waiting(&x);
    assert_parts(&x, 650000, cause);
}

/* Only what overlaps the wait counts. The longest one is named. */
static void several_stops(void **state)
{
    (void)state;
    struct scene x;
    open_waiting(&x);
    uint32_t first = tr_atom(&x.t, "setnode"), longest = tr_atom(&x.t, "nif_upgrade");
    stopped(&x, 1, 880000, first, 50000, 150000);
    stopped(&x, 1, 880000, longest, 200000, 500000);
    stopped(&x, 1, 880000, first, 600000, 650000);
    stopped(&x, 1, 960000, first, 870000, 950000);
    close_waiting(&x);
    assert_parts(&x, 50000 + 300000 + 50000 + 30000, longest);
}

/* Two sessions report the same stop. */
static void reported_twice(void **state)
{
    (void)state;
    struct scene x;
    open_waiting(&x);
    uint32_t cause = tr_atom(&x.t, "nif_upgrade");
    stopped(&x, 0, 890000, cause, 200000, 700000);
    stopped(&x, 0, 890000, cause, 200100, 700100);
    close_waiting(&x);
    assert_parts(&x, 500100, cause);
}

/* No recorder writes a stop that ends later than its report, or whose times overflow. */
static void impossible_times(void **state)
{
    (void)state;
    struct scene x;
    open_waiting(&x);
    uint32_t cause = tr_atom(&x.t, "nif_upgrade");
    ts_stopped(&x.s[0], START + 890000, PID(1), cause, 500000, 100000, 0);
    ts_stopped(&x.s[0], START + 890000, PID(1), cause, UINT64_MAX, 600000, 0);
    ts_stopped(&x.s[0], START + 890000, PID(1), cause, 1, UINT64_MAX, 0);
    close_waiting(&x);
    assert_parts(&x, 0, cause);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        T(a_stop_is_the_cause),
        T(several_stops),
        T(reported_twice),
        T(impossible_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
