/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests with handmade recordings of runs whose `out` event was not recorded: how long they lasted is
 * unknown, in every view. A process that becomes sensitive has such a run, and so has every process
 * of the recorder.
 */
#include "kymo_live.h"
#include "kymo_window.h"
#include "why_scene.h"

/* PID(9) begins to run on thread 1 and is never scheduled out. Meanwhile PID(1) can run, and does not
 * for 790,000 ns. */
static void waits_beside_a_run_without_end(struct scene *x)
{
    open_scene(x);
    spawned(x, 1, 5, PID(9), PID(8), x->b);
    wm(x, 1, 10, KYMO_E_IN, PID(9), x->b);
    wm(x, 0, 0, KYMO_E_IN, PID(1), x->b);
    message(x, 0, 10, KYMO_E_RECEIVE, PID(1), PID(2), KYMO_MSG_PLAIN, 0);
    wm(x, 0, 10000, KYMO_E_OUT, PID(1), x->b);
    wm(x, 0, 20000, KYMO_E_IN, PID(2), x->a);
    wm(x, 0, 300000, KYMO_E_OUT, PID(2), x->a);
    wm(x, 0, 800000, KYMO_E_IN, PID(1), x->b);
    wm(x, 0, 1000000, KYMO_E_OUT, PID(1), x->b);
}

static const struct kymo_life *life_of(const struct scene *x, uint64_t process)
{
    for (size_t i = 0; i < x->lives; i++) {
        if (x->life[i].process == process)
            return &x->life[i];
    }
    fail();
    return NULL;
}

static const struct kymo_run *last_run_of(const struct scene *x, uint64_t process)
{
    for (size_t i = x->runs; i-- > 0;) {
        if (x->run[i].process == process)
            return &x->run[i];
    }
    fail();
    return NULL;
}

static void is_not_blamed(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    waits_beside_a_run_without_end(&x);
    explain(&x, answer);
    for (size_t i = 0; i < answer->n; i++)
        assert_true(answer->part[i].blame != PID(9));
    assert_int_equal(last_run_of(&x, PID(9))->end, KYMO_NO_TIME);
    close_scene(&x);
    free(answer);
}

/* The process has run for as long as its events show, and no longer. */
static void has_no_running_time(void **state)
{
    (void)state;
    struct scene x;
    waits_beside_a_run_without_end(&x);
    message(&x, 1, 4010, KYMO_E_SEND, PID(9), PID(1), KYMO_MSG_PLAIN, 0);
    analyse(&x);
    assert_int_equal(life_of(&x, PID(9))->running, 4000);
    assert_int_equal(life_of(&x, PID(1))->running, 10000 + 200000);
    assert_true(kymo_run_state(last_run_of(&x, PID(9))) == KYMO_RUN_UNKNOWN);
    assert_true(kymo_run_state(last_run_of(&x, PID(1))) == KYMO_RUN_ENDED);
    close_scene(&x);
}

/* A process that has been scheduled out before, and runs when the recording ends. */
static void is_open_at_the_end(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.b);
    wm(&x, 0, 10000, KYMO_E_OUT, PID(1), x.b);
    wm(&x, 0, 400000, KYMO_E_IN, PID(1), x.b);
    wm(&x, 1, 990000, KYMO_E_IN, PID(2), x.b);
    wm(&x, 1, 1000000, KYMO_E_OUT, PID(2), x.b);
    explain(&x, answer);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(1))->ns, 10000 + 600000);
    assert_true(kymo_run_state(last_run_of(&x, PID(1))) == KYMO_RUN_OPEN);
    assert_int_equal(life_of(&x, PID(1))->running, 10000 + 600000);
    close_scene(&x);
    free(answer);
}

/* The same, but another process began to run on its thread. */
static void is_unknown_if_another_one_ran_there(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.b);
    wm(&x, 0, 10000, KYMO_E_OUT, PID(1), x.b);
    wm(&x, 0, 400000, KYMO_E_IN, PID(1), x.b);
    wm(&x, 0, 500000, KYMO_E_IN, PID(2), x.b);
    wm(&x, 0, 1000000, KYMO_E_OUT, PID(2), x.b);
    explain(&x, answer);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(1))->ns, 10000);
    assert_int_equal(part(answer, KYMO_WHY_UNKNOWN, PID(1))->ns, 990000);
    assert_true(kymo_run_state(last_run_of(&x, PID(1))) == KYMO_RUN_UNKNOWN);
    close_scene(&x);
    free(answer);
}

/* Not even a run that is open is blamed: it may have ended long ago. */
static void open_runs_are_not_blamed(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    wm(&x, 1, 0, KYMO_E_IN, PID(9), x.b);
    wm(&x, 1, 5, KYMO_E_OUT, PID(9), x.b);
    wm(&x, 1, 10, KYMO_E_IN, PID(9), x.b);
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.b);
    message(&x, 0, 10, KYMO_E_RECEIVE, PID(1), PID(2), KYMO_MSG_PLAIN, 0);
    wm(&x, 0, 10000, KYMO_E_OUT, PID(1), x.b);
    wm(&x, 0, 800000, KYMO_E_IN, PID(1), x.b);
    wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.b);
    explain(&x, answer);
    for (size_t i = 0; i < answer->n; i++)
        assert_true(answer->part[i].blame == KYMO_IDENT_NONE);
    close_scene(&x);
    free(answer);
}

/* The process that ran while a server could not is named with its time, too, if that is why a request
 * waited behind others. */
static void held_up_has_the_time(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    message(&x, 1, 10, KYMO_E_SEND, PID(2), PID(9), KYMO_MSG_CALL, 88);
    wm(&x, 1, 20, KYMO_E_IN, PID(9), x.a);
    message(&x, 1, 30, KYMO_E_RECEIVE, PID(9), PID(2), KYMO_MSG_CALL, 88);
    wm(&x, 1, 40, KYMO_E_CALL, PID(9), x.handle_call);
    wm(&x, 0, 50, KYMO_E_IN, PID(1), x.a);
    message(&x, 0, 50000, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CALL, 77);
    wm(&x, 0, 60000, KYMO_E_OUT, PID(1), x.a);
    out_for(&x, 1, 70000, PID(9), x.a, KYMO_OUT_REDUCTIONS);
    wm(&x, 1, 80000, KYMO_E_IN, PID(7), x.b);
    wm(&x, 1, 690000, KYMO_E_OUT, PID(7), x.b);
    in_from_queue(&x, 1, 700000, PID(9), x.a, KYMO_RUNNABLE_OUT, 630000);
    wm(&x, 1, 800000, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    message(&x, 1, 800010, KYMO_E_SEND, PID(9), PID(2), KYMO_MSG_REPLY, 88);
    message(&x, 1, 800020, KYMO_E_RECEIVE, PID(9), PID(1), KYMO_MSG_CALL, 77);
    wm(&x, 1, 800030, KYMO_E_CALL, PID(9), x.handle_call);
    wm(&x, 1, 900000, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    message(&x, 1, 900010, KYMO_E_SEND, PID(9), PID(1), KYMO_MSG_REPLY, 77);
    wm(&x, 1, 900020, KYMO_E_OUT, PID(9), x.b);
    wm(&x, 0, 900030, KYMO_E_IN, PID(1), x.a);
    message(&x, 0, 900040, KYMO_E_RECEIVE, PID(1), PID(9), KYMO_MSG_REPLY, 77);
    wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.a);
    explain(&x, answer);
    assert_int_equal(answer->part[0].cause, KYMO_WHY_QUEUE);
    assert_int_equal(answer->part[0].held_up.cause, KYMO_WHY_SCHEDULER);
    assert_int_equal(answer->part[0].held_up.blame, PID(7));
    assert_int_equal(answer->part[0].held_up.blame_ns, 690000 - 80000);
    close_scene(&x);
    free(answer);
}

/* An answer does not depend on which other times are explained, too. */
static void other_windows_change_nothing(void **state)
{
    (void)state;
    enum { FROM = 5000000 };
    struct kymo_analysis_options o = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    struct kymo_why_answer *answer[2] = {new_answer(), new_answer()};
    for (int more = 0; more < 2; more++) {
        struct scene x;
        char err[256] = "";
        open_scene(&x);
        wm(&x, 1, 10, KYMO_E_IN, PID(9), x.b);
        wm(&x, 1, 50, KYMO_E_IN, PID(7), x.b);
        wm(&x, 1, 60, KYMO_E_OUT, PID(7), x.b);
        wm(&x, 0, FROM, KYMO_E_IN, PID(1), x.b);
        message(&x, 0, FROM + 10, KYMO_E_RECEIVE, PID(1), PID(2), KYMO_MSG_PLAIN, 0);
        wm(&x, 0, FROM + 10000, KYMO_E_OUT, PID(1), x.b);
        wm(&x, 0, FROM + 800000, KYMO_E_IN, PID(1), x.b);
        wm(&x, 0, FROM + 1000000, KYMO_E_OUT, PID(1), x.b);
        open_recording(&x);
        struct kymo_why *w = kymo_why_new(x.r);
        assert_non_null(w);
        assert_true(kymo_why_window(w, START + FROM, START + FROM + 1000000));
        if (more)
            assert_true(kymo_why_window(w, START, START + 1000000));
        struct kymo_analysis_sink sink = kymo_why_sink(w);
        assert_int_equal(kymo_analyse(x.r, &o, &sink, 1, &x.res, err, sizeof err), 0);
        assert_int_equal(kymo_why_explain(w, PID(1), START + FROM, START + FROM + 1000000, answer[more]), 0);
        kymo_why_free(w);
        close_scene(&x);
    }
    assert_int_equal(answer[0]->n, answer[1]->n);
    for (size_t i = 0; i < answer[0]->n; i++) {
        const struct kymo_why_part *a = &answer[0]->part[i], *b = &answer[1]->part[i];
        assert_true(a->cause == b->cause && a->process == b->process && a->ns == b->ns);
        assert_true(a->blame == b->blame && a->blame_ns == b->blame_ns);
    }
    free(answer[0]);
    free(answer[1]);
}

static const struct kymo_window_process *row(const struct kymo_window *w, uint64_t process)
{
    static const struct kymo_window_process none;
    const struct kymo_window_process *p = kymo_map_get(&w->processes, process);
    return p != NULL ? p : &none;
}

/* In kymo top: for each of three windows, what it shows of PID(9), PID(1) and thread 1. */
static void top_does_not_show_it(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_window w;
    struct kymo_live *an;
    struct kymo_event ev;
    open_scene(&x);
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.b);
    spawned(&x, 1, 5, PID(9), PID(8), x.b);
    wm(&x, 1, 10, KYMO_E_IN, PID(9), x.b);
    wm(&x, 0, 100, KYMO_E_OUT, PID(1), x.b);
    wm(&x, 0, 500, KYMO_E_IN, PID(1), x.b);
    wm(&x, 0, 2900, KYMO_E_OUT, PID(1), x.b);
    open_recording(&x);
    assert_int_equal(kymo_window_init(&w, 2), 0);
    kymo_window_read(&w, x.r);
    struct kymo_analysis_sink sink = kymo_window_sink(&w);
    assert_int_equal(kymo_live_new(&an, x.r, &sink, 1), 0);
    assert_int_equal(kymo_reader_rewind(x.r), 0);
    int64_t t0 = kymo_reader_ns(x.r, START);
    kymo_window_next(&w, t0, true);
    bool more = kymo_reader_next(x.r, &ev) == 1;
    for (int64_t edge = 1000; edge <= 3000; edge += 1000) {
        for (; more && ev.ns <= t0 + edge; more = kymo_reader_next(x.r, &ev) == 1)
            assert_true(kymo_live_event(an, &ev, true));
        kymo_window_cut(&w, an, t0 + edge);
        assert_int_equal(row(&w, PID(9))->running, 0);
        assert_int_equal(w.threads[1].busy, 0);
        assert_int_equal(row(&w, PID(1))->running, edge == 1000 ? 600 : edge == 2000 ? 1000 : 900);
        assert_int_equal(w.threads[0].busy, edge == 1000 ? 600 : edge == 2000 ? 1000 : 900);
        kymo_window_next(&w, t0 + edge, false);
    }
    kymo_live_free(an);
    kymo_window_free(&w);
    close_scene(&x);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        T(is_not_blamed),
        T(has_no_running_time),
        T(is_open_at_the_end),
        T(is_unknown_if_another_one_ran_there),
        T(open_runs_are_not_blamed),
        T(held_up_has_the_time),
        T(other_windows_change_nothing),
        T(top_does_not_show_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
