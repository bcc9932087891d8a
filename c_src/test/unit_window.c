/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the windows of a recording that is being written: which facts count in which window.
 * Handmade recordings are read in pieces.
 */
#include "kymo_live.h"
#include "kymo_window.h"
#include "scene.h"

/* Reads the recording in pieces. */
struct pieces {
    struct scene x;
    struct kymo_window w;
    struct kymo_live *an;
    struct kymo_event ev; /* the next event */
    bool more;
    int64_t t0; /* time of START */
};

static void next(struct pieces *p)
{
    p->more = kymo_reader_next(p->x.r, &p->ev) == 1;
}

/* The events of the scene so far are the recording. */
static void begin(struct pieces *p)
{
    open_recording(&p->x);
    assert_int_equal(kymo_window_init(&p->w, 2), 0);
    kymo_window_read(&p->w, p->x.r);
    struct kymo_analysis_sink sink = kymo_window_sink(&p->w);
    assert_int_equal(kymo_live_new(&p->an, p->x.r, &sink, 1), 0);
    assert_int_equal(kymo_reader_rewind(p->x.r), 0);
    p->t0 = kymo_reader_ns(p->x.r, START);
    kymo_window_next(&p->w, p->t0, true);
    next(p);
}

/* Ends the window at `at`: all events up to then are read. */
static void cut(struct pieces *p, int64_t at)
{
    for (; p->more && p->ev.ns <= p->t0 + at; next(p))
        assert_true(kymo_live_event(p->an, &p->ev, true));
    kymo_window_cut(&p->w, p->an, p->t0 + at);
    assert_false(p->w.failed);
}

static void end(struct pieces *p)
{
    kymo_live_free(p->an);
    kymo_window_free(&p->w);
    close_scene(&p->x);
}

static const struct kymo_window_function *function(const struct pieces *p, uint32_t mfa)
{
    static const struct kymo_window_function none;
    const struct kymo_window_function *f = kymo_map_get(&p->w.functions, mfa);
    return f != NULL ? f : &none;
}

static const struct kymo_window_process *process(const struct pieces *p, uint64_t ident)
{
    static const struct kymo_window_process none;
    const struct kymo_window_process *found = kymo_map_get(&p->w.processes, ident);
    return found != NULL ? found : &none;
}

/* A call spans three windows: each counts its part, and the last one its duration. */
static void calls_are_cut_at_edges(void **state)
{
    (void)state;
    struct pieces p;
    open_scene(&p.x);
    wm(&p.x, 0, 10, KYMO_E_IN, PID(1), p.x.a);
    wm(&p.x, 0, 20, KYMO_E_OUT, PID(1), p.x.a);
    wm(&p.x, 0, 50, KYMO_E_IN, PID(1), p.x.a);
    wm(&p.x, 0, 100, KYMO_E_CALL, PID(1), p.x.a);
    wm(&p.x, 0, 200, KYMO_E_CALL, PID(1), p.x.b);
    wm(&p.x, 0, 250, KYMO_E_RETURN_FROM, PID(1), p.x.b);
    wm(&p.x, 0, 2300, KYMO_E_RETURN_FROM, PID(1), p.x.a);
    wm(&p.x, 0, 2400, KYMO_E_OUT, PID(1), p.x.a);
    begin(&p);
    cut(&p, 1000);
    assert_int_equal(p.w.events, 6);
    assert_int_equal(p.w.calls, 2);
    assert_int_equal(function(&p, p.x.a)->calls, 1);
    assert_int_equal(function(&p, p.x.a)->self, 850);
    assert_int_equal(function(&p, p.x.a)->times.total, 0);
    assert_int_equal(function(&p, p.x.b)->self, 50);
    assert_int_equal(function(&p, p.x.b)->times.total, 1);
    assert_int_equal(function(&p, p.x.b)->times.max, 50);
    assert_int_equal(process(&p, PID(1))->running, 960);
    assert_int_equal(process(&p, PID(1))->calls, 2);
    assert_int_equal(p.w.threads[0].busy, 960);
    kymo_window_next(&p.w, p.t0 + 1000, false);
    cut(&p, 2000);
    assert_int_equal(p.w.events, 0);
    assert_int_equal(function(&p, p.x.a)->calls, 0);
    assert_int_equal(function(&p, p.x.a)->self, 1000);
    assert_int_equal(process(&p, PID(1))->running, 1000);
    assert_int_equal(p.w.threads[0].busy, 1000);
    kymo_window_next(&p.w, p.t0 + 2000, false);
    cut(&p, 3000);
    assert_int_equal(function(&p, p.x.a)->self, 300);
    assert_int_equal(function(&p, p.x.a)->times.total, 1);
    assert_int_equal(process(&p, PID(1))->running, 400);
    assert_int_equal(p.w.threads[0].busy, 400);
    end(&p);
}

/* Time scheduled out or in collections does not count for any function. */
static void waiting_and_collecting(void **state)
{
    (void)state;
    struct pieces p;
    open_scene(&p.x);
    wm(&p.x, 0, 0, KYMO_E_IN, PID(1), p.x.a);
    wm(&p.x, 0, 100, KYMO_E_CALL, PID(1), p.x.a);
    gc(&p.x, 0, 200, KYMO_E_GC_MINOR_START, PID(1));
    gc(&p.x, 0, 240, KYMO_E_GC_MINOR_END, PID(1));
    wm(&p.x, 0, 300, KYMO_E_OUT, PID(1), p.x.a);
    wm(&p.x, 1, 1500, KYMO_E_IN, PID(1), p.x.a);
    wm(&p.x, 1, 1600, KYMO_E_RETURN_FROM, PID(1), p.x.a);
    wm(&p.x, 1, 1700, KYMO_E_OUT, PID(1), p.x.a);
    begin(&p);
    cut(&p, 1000);
    assert_int_equal(function(&p, p.x.a)->self, 160);
    assert_int_equal(process(&p, PID(1))->running, 300);
    assert_int_equal(p.w.collections, 1);
    kymo_window_next(&p.w, p.t0 + 1000, false);
    cut(&p, 2000);
    assert_int_equal(function(&p, p.x.a)->self, 100);
    assert_int_equal(function(&p, p.x.a)->times.max, 1500);
    assert_int_equal(process(&p, PID(1))->running, 200);
    assert_int_equal(p.w.threads[0].busy, 0);
    assert_int_equal(p.w.threads[1].busy, 200);
    end(&p);
}

/* Calls and runs that were open before a gap do not count after it. */
static void gap_forgets_what_is_open(void **state)
{
    (void)state;
    struct pieces p;
    open_scene(&p.x);
    wm(&p.x, 0, 0, KYMO_E_IN, PID(1), p.x.a);
    wm(&p.x, 0, 100, KYMO_E_CALL, PID(1), p.x.a);
    wm(&p.x, 0, 2500, KYMO_E_RETURN_FROM, PID(1), p.x.a);
    wm(&p.x, 0, 2600, KYMO_E_CALL, PID(1), p.x.b);
    wm(&p.x, 0, 2700, KYMO_E_RETURN_FROM, PID(1), p.x.b);
    wm(&p.x, 0, 2800, KYMO_E_OUT, PID(1), p.x.a);
    begin(&p);
    cut(&p, 1000);
    assert_true(kymo_live_gap(p.an));
    kymo_window_next(&p.w, p.t0 + 2000, true);
    cut(&p, 3000);
    assert_int_equal(function(&p, p.x.a)->self, 0);
    assert_int_equal(function(&p, p.x.a)->times.total, 0);
    assert_int_equal(function(&p, p.x.b)->self, 100);
    assert_int_equal(function(&p, p.x.b)->times.total, 1);
    assert_int_equal(process(&p, PID(1))->running, 0); /* its start is unknown */
    assert_int_equal(p.w.threads[0].busy, 0);
    end(&p);
}

/* Messages, exits; a process that has exited is not in the next window. */
static void messages_and_exits(void **state)
{
    (void)state;
    struct pieces p;
    open_scene(&p.x);
    atom(&p.x, 1, 50, KYMO_E_REGISTER, PID(2), 0);
    message(&p.x, 0, 100, KYMO_E_SEND, PID(1), PID(2), KYMO_MSG_CALL, 7);
    message(&p.x, 1, 200, KYMO_E_RECEIVE, PID(2), PID(1), KYMO_MSG_CALL, 7);
    message(&p.x, 1, 1200, KYMO_E_SEND, PID(2), PID(1), KYMO_MSG_REPLY, 7);
    atom(&p.x, 1, 1300, KYMO_E_EXIT, PID(2), 0);
    begin(&p);
    cut(&p, 1000);
    assert_int_equal(p.w.messages, 1);
    assert_int_equal(process(&p, PID(1))->sent, 1);
    assert_int_equal(process(&p, PID(2))->received, 1);
    assert_int_equal(kymo_live_pending(p.an, PID(2)), 1);
    kymo_window_next(&p.w, p.t0 + 1000, false);
    cut(&p, 2000);
    assert_int_equal(process(&p, PID(2))->sent, 1);
    assert_int_equal(kymo_live_pending(p.an, PID(2)), 0);
    kymo_window_next(&p.w, p.t0 + 2000, false);
    assert_int_equal(p.w.processes.count, 0);
    end(&p);
}

/* The `out` event of a process was lost: when another one runs on its thread, its state becomes
 * unknown. */
static void lost_out(void **state)
{
    (void)state;
    struct pieces p;
    open_scene(&p.x);
    wm(&p.x, 0, 100, KYMO_E_IN, PID(1), p.x.a);
    wm(&p.x, 0, 300, KYMO_E_IN, PID(2), p.x.a);
    wm(&p.x, 0, 400, KYMO_E_OUT, PID(2), p.x.a);
    begin(&p);
    cut(&p, 1000);
    assert_int_equal(process(&p, PID(1))->running, 0);
    assert_int_equal(process(&p, PID(2))->running, 100);
    assert_int_equal(p.w.threads[0].busy, 100);
    end(&p);
}

/* Random events, cut at random times: the sums of all windows equal those of one window. */
static void sums_do_not_depend_on_edges(void **state)
{
    (void)state;
    enum { EVENTS = 200, CUTS = 20 };
    for (unsigned seed = 1; seed <= 50; seed++) {
        int64_t self[2] = {0}, running[2] = {0}, busy[2] = {0};
        uint64_t ended[2] = {0}, calls[2] = {0};
        for (int cuts = 0; cuts < 2; cuts++) {
            struct pieces p;
            unsigned depth = 0, random = seed;
            bool in = false;
            open_scene(&p.x);
            wm(&p.x, 0, 1, KYMO_E_IN, PID(1), p.x.a);
            wm(&p.x, 0, 2, KYMO_E_OUT, PID(1), p.x.a); /* from then on its runs are known to go on */
            for (uint64_t i = 1; i <= EVENTS; i++) {
                random = random * 1103515245u + 12345u;
                unsigned dice = random >> 16;
                unsigned what = dice % 4;
                if (!in || (what == 0 && i < EVENTS)) {
                    wm(&p.x, 0, i * 10, in ? KYMO_E_OUT : KYMO_E_IN, PID(1), p.x.a);
                    in = !in;
                } else if (what == 1 && depth > 0) {
                    depth--;
                    wm(&p.x, 0, i * 10, KYMO_E_RETURN_FROM, PID(1), depth % 2 == 0 ? p.x.a : p.x.b);
                } else if (depth < 6) {
                    wm(&p.x, 0, i * 10, KYMO_E_CALL, PID(1), depth % 2 == 0 ? p.x.a : p.x.b);
                    depth++;
                }
            }
            begin(&p);
            int64_t at = 0, whole = EVENTS * 10 + 10;
            for (int c = 0; at < whole; c++) {
                random = random * 1103515245u + 12345u;
                int64_t until = cuts == 0 || c >= CUTS ? whole : at + 1 + (int64_t)((random >> 16) % 500);
                at = until < whole ? until : whole;
                cut(&p, at);
                const uint32_t mfas[] = {p.x.a, p.x.b};
                for (int i = 0; i < 2; i++) {
                    self[cuts] += function(&p, mfas[i])->self;
                    ended[cuts] += function(&p, mfas[i])->times.total;
                    calls[cuts] += function(&p, mfas[i])->calls;
                }
                running[cuts] += process(&p, PID(1))->running;
                busy[cuts] += p.w.threads[0].busy;
                kymo_window_next(&p.w, p.t0 + at, false);
            }
            end(&p);
        }
        assert_int_equal(self[0], self[1]);
        assert_int_equal(running[0], running[1]);
        assert_int_equal(busy[0], busy[1]);
        assert_int_equal(ended[0], ended[1]);
        assert_int_equal(calls[0], calls[1]);
        assert_true(self[0] <= running[0] && running[0] == busy[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(calls_are_cut_at_edges, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(waiting_and_collecting, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(gap_forgets_what_is_open, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(messages_and_exits, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(lost_out, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(sums_do_not_depend_on_edges, make_dir, drop_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
