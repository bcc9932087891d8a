/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of kymo_why.h with handmade recordings: where the time of a process went.
 */
#include <errno.h>

#include "order.h"
#include "why_scene.h"

static void waits_for_a_server(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.a);
    message(&x, 0, 50000, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CALL, 77);
    wm(&x, 0, 100000, KYMO_E_OUT, PID(1), x.a);
    wm(&x, 1, 150000, KYMO_E_IN, PID(9), x.b);
    message(&x, 1, 150010, KYMO_E_RECEIVE, PID(9), PID(1), KYMO_MSG_CALL, 77);
    wm(&x, 1, 150020, KYMO_E_CALL, PID(9), x.handle_call);
    gc(&x, 1, 200000, KYMO_E_GC_MAJOR_START, PID(9));
    gc(&x, 1, 500000, KYMO_E_GC_MAJOR_END, PID(9));
    wm(&x, 1, 700000, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    message(&x, 1, 700010, KYMO_E_SEND, PID(9), PID(1), KYMO_MSG_REPLY, 77);
    wm(&x, 1, 700020, KYMO_E_OUT, PID(9), x.b);
    wm(&x, 0, 800010, KYMO_E_IN, PID(1), x.a);
    message(&x, 0, 800020, KYMO_E_RECEIVE, PID(1), PID(9), KYMO_MSG_REPLY, 77);
    wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.a);
    explain(&x, answer);
    assert_int_equal(part(answer, KYMO_WHY_GC, PID(9))->ns, 300000);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(9))->ns, 250010);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(9))->mfa, x.handle_call);
    assert_int_equal(part(answer, KYMO_WHY_SCHEDULER, PID(9))->ns, 50000);
    assert_int_equal(part(answer, KYMO_WHY_SCHEDULER, PID(1))->ns, 100000);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(1))->ns, 100000 + 199990);
    assert_int_equal(answer->part[0].cause, KYMO_WHY_GC);
    for (size_t i = 1; i < answer->n_steps; i++)
        assert_int_equal(answer->step[i].start, answer->step[i - 1].end);
    close_scene(&x);
    free(answer);
}

/* Those in the mailbox before were kept by a process that ran. */
static void assert_held_up(const struct kymo_why_part *p, uint64_t process, int64_t ns)
{
    assert_int_equal(p->held_up.cause, KYMO_WHY_RUNNING);
    assert_int_equal(p->held_up.process, process);
    assert_int_equal(p->held_up.ns, ns);
}

static void waits_in_a_mailbox(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    message(&x, 1, 10, KYMO_E_SEND, PID(2), PID(9), KYMO_MSG_CALL, 88);
    wm(&x, 1, 20, KYMO_E_IN, PID(9), x.b);
    message(&x, 1, 30, KYMO_E_RECEIVE, PID(9), PID(2), KYMO_MSG_CALL, 88);
    wm(&x, 1, 40, KYMO_E_CALL, PID(9), x.handle_call);
    wm(&x, 0, 50, KYMO_E_IN, PID(1), x.a);
    message(&x, 0, 50000, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CALL, 77);
    wm(&x, 0, 60000, KYMO_E_OUT, PID(1), x.a);
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
    assert_int_equal(answer->part[0].process, PID(9));
    assert_int_equal(answer->part[0].ns, 800030 - 60000);
    assert_int_equal(answer->part[0].requests, 1);
    assert_int_equal(answer->part[0].mfa, x.handle_call);
    assert_held_up(&answer->part[0], PID(9), 800030 - 60000);
    assert_int_equal(answer->part[0].held_up.mfa, x.handle_call);
    close_scene(&x);
    free(answer);
}

/* A server that waits for another one is busy, although its scheduler is not: the request
 * that comes then is there before the reply that wakes it. */
static void waits_for_a_waiting_server(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    message(&x, 1, 10, KYMO_E_SEND, PID(2), PID(9), KYMO_MSG_CALL, 88);
    wm(&x, 1, 20, KYMO_E_IN, PID(9), x.b);
    message(&x, 1, 30, KYMO_E_RECEIVE, PID(9), PID(2), KYMO_MSG_CALL, 88);
    wm(&x, 1, 40, KYMO_E_CALL, PID(9), x.handle_call);
    message(&x, 1, 50, KYMO_E_SEND, PID(9), PID(7), KYMO_MSG_CALL, 99);
    wm(&x, 1, 60, KYMO_E_OUT, PID(9), x.b);
    wm(&x, 1, 70, KYMO_E_IN, PID(7), x.b);
    wm(&x, 0, 50, KYMO_E_IN, PID(1), x.a);
    message(&x, 0, 50000, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CALL, 77);
    wm(&x, 0, 60000, KYMO_E_OUT, PID(1), x.a);
    message(&x, 1, 700000, KYMO_E_SEND, PID(7), PID(9), KYMO_MSG_REPLY, 99);
    wm(&x, 1, 700010, KYMO_E_OUT, PID(7), x.b);
    wm(&x, 1, 700020, KYMO_E_IN, PID(9), x.b);
    message(&x, 1, 700030, KYMO_E_RECEIVE, PID(9), PID(1), KYMO_MSG_CALL, 77);
    message(&x, 1, 700040, KYMO_E_RECEIVE, PID(9), PID(7), KYMO_MSG_REPLY, 99);
    wm(&x, 1, 800000, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    message(&x, 1, 800010, KYMO_E_SEND, PID(9), PID(2), KYMO_MSG_REPLY, 88);
    wm(&x, 1, 800030, KYMO_E_CALL, PID(9), x.handle_call);
    wm(&x, 1, 900000, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    message(&x, 1, 900010, KYMO_E_SEND, PID(9), PID(1), KYMO_MSG_REPLY, 77);
    wm(&x, 1, 900020, KYMO_E_OUT, PID(9), x.b);
    wm(&x, 0, 900030, KYMO_E_IN, PID(1), x.a);
    message(&x, 0, 900040, KYMO_E_RECEIVE, PID(1), PID(9), KYMO_MSG_REPLY, 77);
    wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.a);
    explain(&x, answer);
    assert_int_equal(answer->part[0].cause, KYMO_WHY_QUEUE);
    assert_int_equal(answer->part[0].process, PID(9));
    assert_int_equal(answer->part[0].requests, 1);
    assert_held_up(&answer->part[0], PID(7), 700000 - 60000);
    close_scene(&x);
    free(answer);
}

/* PID(5) sends requests to the waiting server, which examines each of them. */
static void disturb(struct scene *x, uint64_t at, uint64_t ref)
{
    wm(x, 0, at, KYMO_E_IN, PID(5), x->b);
    message(x, 0, at + 1000, KYMO_E_SEND, PID(5), PID(9), KYMO_MSG_CALL, ref);
    wm(x, 0, at + 2000, KYMO_E_OUT, PID(5), x->b);
    wm(x, 0, at + 3000, KYMO_E_IN, PID(9), x->b);
    message(x, 0, at + 4000, KYMO_E_RECEIVE, PID(9), PID(5), KYMO_MSG_CALL, ref);
    wm(x, 0, at + 5000, KYMO_E_OUT, PID(9), x->b);
}

static void assert_nothing_of(const struct kymo_why_answer *answer, uint64_t process)
{
    for (size_t i = 0; i < answer->n; i++)
        assert_true(answer->part[i].process != process);
}

/* Other processes that send to a server do not end its wait for a certain message. */
static void bystanders_and_an_answer(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    calls_a_waiting_server(&x);
    wm(&x, 1, 35000, KYMO_E_IN, PID(7), x.b);
    disturb(&x, 200000, 55);
    disturb(&x, 400000, 56);
    /* One arrives right after another. */
    wm(&x, 0, 406000, KYMO_E_IN, PID(9), x.b);
    message(&x, 0, 406100, KYMO_E_RECEIVE, PID(9), PID(5), KYMO_MSG_CALL, 58);
    wm(&x, 0, 408500, KYMO_E_OUT, PID(9), x.b);
    /* The last of them arrives before the reply, and both are fetched together. */
    wm(&x, 0, 698000, KYMO_E_IN, PID(5), x.b);
    message(&x, 0, 699000, KYMO_E_SEND, PID(5), PID(9), KYMO_MSG_CALL, 57);
    wm(&x, 0, 699500, KYMO_E_OUT, PID(5), x.b);
    message(&x, 1, 700000, KYMO_E_SEND, PID(7), PID(9), KYMO_MSG_PLAIN, 0);
    wm(&x, 1, 700010, KYMO_E_OUT, PID(7), x.b);
    wm(&x, 0, 750000, KYMO_E_IN, PID(9), x.b);
    message(&x, 0, 751000, KYMO_E_RECEIVE, PID(9), PID(5), KYMO_MSG_CALL, 57);
    message(&x, 0, 752000, KYMO_E_RECEIVE, PID(9), PID(7), KYMO_MSG_PLAIN, 0);
    server_replies(&x, 800000);
    explain(&x, answer);
    assert_int_equal(answer->part[0].cause, KYMO_WHY_RUNNING);
    assert_int_equal(answer->part[0].process, PID(7));
    assert_int_equal(answer->part[0].ns, 700000 - 40000);
    assert_nothing_of(answer, PID(5));
    close_scene(&x);
    free(answer);
}

static void bystanders_and_a_timeout(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    calls_a_waiting_server(&x);
    disturb(&x, 200000, 55);
    disturb(&x, 400000, 56);
    wm(&x, 0, 2698000, KYMO_E_IN, PID(5), x.b);
    message(&x, 0, 2699000, KYMO_E_SEND, PID(5), PID(9), KYMO_MSG_CALL, 57);
    wm(&x, 0, 2699500, KYMO_E_OUT, PID(5), x.b);
    wm(&x, 0, 2750000, KYMO_E_IN, PID(9), x.b);
    message(&x, 0, 2751000, KYMO_E_RECEIVE, PID(9), PID(5), KYMO_MSG_CALL, 57);
    timeout(&x, 0, 2752000, PID(9));
    server_replies(&x, 2800000);
    explain_first(&x, 3000000, answer);
    assert_int_equal(answer->part[0].cause, KYMO_WHY_TIMER);
    assert_int_equal(answer->part[0].process, PID(9));
    assert_int_equal(answer->part[0].ns, 2750000 - 40000);
    assert_nothing_of(answer, PID(5));
    close_scene(&x);
    free(answer);
}

/* PID(7) works for the server, which examines the request of PID(5) from 2000000 to 4000000, and
 * then gets its reply. */
static void long_look_at_a_request(struct scene *x, bool collects)
{
    calls_a_waiting_server(x);
    wm(x, 1, 35000, KYMO_E_IN, PID(7), x->b);
    wm(x, 0, 1990000, KYMO_E_IN, PID(5), x->b);
    message(x, 0, 1991000, KYMO_E_SEND, PID(5), PID(9), KYMO_MSG_CALL, 55);
    wm(x, 0, 1992000, KYMO_E_OUT, PID(5), x->b);
    wm(x, 0, 2000000, KYMO_E_IN, PID(9), x->b);
    message(x, 0, 2001000, KYMO_E_RECEIVE, PID(9), PID(5), KYMO_MSG_CALL, 55);
    if (collects) {
        gc(x, 0, 2002000, KYMO_E_GC_MAJOR_START, PID(9));
        gc(x, 0, 3999000, KYMO_E_GC_MAJOR_END, PID(9));
    }
    wm(x, 0, 4000000, KYMO_E_OUT, PID(9), x->b);
    message(x, 1, 4700000, KYMO_E_SEND, PID(7), PID(9), KYMO_MSG_PLAIN, 0);
    wm(x, 1, 4700010, KYMO_E_OUT, PID(7), x->b);
    wm(x, 0, 4750000, KYMO_E_IN, PID(9), x->b);
    message(x, 0, 4752000, KYMO_E_RECEIVE, PID(9), PID(7), KYMO_MSG_PLAIN, 0);
    server_replies(x, 4800000);
}

/* Collections on a dirty scheduler, which are runs of their own. */
static void collects_on_another_scheduler(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    x.t.slots[1].thread_kind = KYMO_T_DIRTY_CPU;
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.b);
    wm(&x, 0, 1000, KYMO_E_OUT, PID(1), x.b);
    wm(&x, 1, 101000, KYMO_E_IN, PID(1), x.b);
    gc(&x, 1, 101200, KYMO_E_GC_MAJOR_START, PID(1));
    gc(&x, 1, 801200, KYMO_E_GC_MAJOR_END, PID(1));
    wm(&x, 1, 801300, KYMO_E_OUT, PID(1), x.b);
    wm(&x, 0, 900000, KYMO_E_IN, PID(1), x.b);
    wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.b);
    explain(&x, answer);
    assert_int_equal(answer->part[0].cause, KYMO_WHY_GC);
    assert_int_equal(answer->part[0].ns, 700000);
    const struct kymo_why_part *queue = part(answer, KYMO_WHY_DIRTY_QUEUE, PID(1));
    assert_int_equal(queue->ns, 100000);
    assert_true(queue->to_collect);
    assert_int_equal(queue->mfa, 0);
    close_scene(&x);
    free(answer);
}

/* A native function on a dirty scheduler, called by a traced function. */
static void native_function(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    uint32_t nif = tr_mfa(&x.t, tr_atom(&x.t, "prim_file"), tr_atom(&x.t, "write_nif"), 2);
    x.t.slots[1].thread_kind = KYMO_T_DIRTY_IO;
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.b);
    wm(&x, 0, 500, KYMO_E_CALL, PID(1), x.handle_call);
    wm(&x, 0, 1000, KYMO_E_OUT, PID(1), nif);
    wm(&x, 1, 101000, KYMO_E_IN, PID(1), nif);
    wm(&x, 1, 801000, KYMO_E_OUT, PID(1), nif);
    wm(&x, 0, 900000, KYMO_E_IN, PID(1), x.b);
    wm(&x, 0, 950000, KYMO_E_RETURN_FROM, PID(1), x.handle_call);
    wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.b);
    explain(&x, answer);
    assert_int_equal(answer->part[0].cause, KYMO_WHY_DIRTY);
    assert_int_equal(answer->part[0].mfa, nif);
    assert_int_equal(answer->part[0].mfa_ns, 700000);
    const struct kymo_why_part *queue = part(answer, KYMO_WHY_DIRTY_QUEUE, PID(1));
    assert_false(queue->to_collect);
    assert_int_equal(queue->mfa, nif);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(1))->mfa, x.handle_call);
    close_scene(&x);
    free(answer);
}

/* The time of each cause is the same on the path as in the parts, even if its stretches are short. */
static void path_equals_parts(void **state)
{
    (void)state;
    enum { SHORT = 20, NS = 10000 };
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.b);
    for (uint64_t i = 0; i < SHORT; i++) {
        gc(&x, 0, 100 + i * 450, KYMO_E_GC_MAJOR_START, PID(1));
        gc(&x, 0, 150 + i * 450, KYMO_E_GC_MAJOR_END, PID(1));
    }
    wm(&x, 0, NS, KYMO_E_OUT, PID(1), x.b);
    explain_first(&x, NS, answer);
    int64_t collected = 0;
    for (size_t i = 0; i < answer->n_steps; i++)
        collected += answer->step[i].cause == KYMO_WHY_GC ? answer->step[i].end - answer->step[i].start : 0;
    assert_int_equal(answer->n_steps, 2 * SHORT + 1);
    assert_int_equal(part(answer, KYMO_WHY_GC, PID(1))->ns, SHORT * 50);
    assert_int_equal(collected, SHORT * 50);
    assert_false(answer->path_cut);
    close_scene(&x);
    free(answer);
}

/* If examining a message takes long only because of a collection, the wait does not end. */
static void bystander_and_a_collection(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    long_look_at_a_request(&x, true);
    explain_first(&x, 5000000, answer);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(7))->ns, 4700000 - 40000);
    assert_null(part(answer, KYMO_WHY_GC, PID(9)));
    close_scene(&x);
    free(answer);
}

/* If it takes long for another reason, the server may have done other work. But a message ended the
 * wait before it, so it was not a wait for a scheduler. */
static void long_look_is_no_wait_for_a_scheduler(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    long_look_at_a_request(&x, false);
    explain_first(&x, 5000000, answer);
    assert_int_equal(part(answer, KYMO_WHY_UNKNOWN, PID(9))->ns, 2000000 - 40000);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(7))->ns, 4700000 - 4000000);
    close_scene(&x);
    free(answer);
}

/* A timeout ends a receive: what arrives after it is another wait. */
static void message_after_a_timeout(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    calls_a_waiting_server(&x);
    wm(&x, 1, 35000, KYMO_E_IN, PID(7), x.b);
    wm(&x, 0, 2500000, KYMO_E_IN, PID(9), x.b);
    timeout(&x, 0, 2500500, PID(9));
    wm(&x, 0, 2501000, KYMO_E_OUT, PID(9), x.b);
    message(&x, 1, 2700000, KYMO_E_SEND, PID(7), PID(9), KYMO_MSG_PLAIN, 0);
    wm(&x, 1, 2700010, KYMO_E_OUT, PID(7), x.b);
    wm(&x, 0, 2750000, KYMO_E_IN, PID(9), x.b);
    message(&x, 0, 2752000, KYMO_E_RECEIVE, PID(9), PID(7), KYMO_MSG_PLAIN, 0);
    server_replies(&x, 2800000);
    explain_first(&x, 3000000, answer);
    assert_int_equal(part(answer, KYMO_WHY_TIMER, PID(9))->ns, 2500000 - 40000);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(7))->ns, 2700000 - 2501000);
    close_scene(&x);
    free(answer);
}

/* Facts outside the windows are not kept, but for the runs before and after a wait inside them. */
static void windows(void **state)
{
    (void)state;
    enum { APART = 100000000 };
    struct scene x;
    struct kymo_analysis_options o = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    struct kymo_why_answer *answer = new_answer();
    char err[256] = "";
    open_scene(&x);
    for (uint64_t at = 0; at <= 3 * APART; at += APART) {
        wm(&x, 0, at, KYMO_E_IN, PID(1), x.b);
        wm(&x, 0, at + 1000000, KYMO_E_OUT, PID(1), x.b);
    }
    open_recording(&x);
    struct kymo_why *w = kymo_why_new(x.r);
    assert_non_null(w);
    assert_true(kymo_why_window(w, START + 3 * APART, START + 3 * APART + 500000));
    assert_true(kymo_why_window(w, START, START + 500000));
    struct kymo_analysis_sink sink = kymo_why_sink(w);
    assert_int_equal(kymo_analyse(x.r, &o, &sink, 1, &x.res, err, sizeof err), 0);
    assert_false(kymo_why_is_cut(w));
    for (uint64_t at = 0; at <= 3 * APART; at += APART) {
        assert_int_equal(
            kymo_why_explain(w, PID(1), (int64_t)(START + at), (int64_t)(START + at + 500000), answer), 0);
        assert_int_equal(answer->ns, 500000);
        assert_int_equal(answer->n, 1);
        assert_int_equal(answer->part[0].cause == KYMO_WHY_RUNNING, at != APART);
    }
    kymo_why_free(w);
    close_scene(&x);
    free(answer);
}

/* A cast is explained from its sending until it was handled. */
static void explains_a_cast(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_analysis_options o = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    struct kymo_why_answer *answer = new_answer();
    struct kymo_request q = {.client = PID(1),
                             .server = PID(9),
                             .kind = KYMO_REQ_CAST,
                             .sent = START + 10000,
                             .handled = START + 50000,
                             .handled_end = START + 900000};
    char err[256] = "";
    assert_non_null(answer);
    open_scene(&x);
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.a);
    message(&x, 0, 10000, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CAST, 0);
    wm(&x, 0, 20000, KYMO_E_OUT, PID(1), x.a);
    wm(&x, 1, 30000, KYMO_E_IN, PID(9), x.b);
    message(&x, 1, 30010, KYMO_E_RECEIVE, PID(9), PID(1), KYMO_MSG_CAST, 0);
    wm(&x, 1, 1000000, KYMO_E_OUT, PID(9), x.b);
    open_recording(&x);
    struct kymo_why *w = kymo_why_new(x.r);
    assert_non_null(w);
    struct kymo_analysis_sink sink = kymo_why_sink(w);
    assert_int_equal(kymo_analyse(x.r, &o, &sink, 1, &x.res, err, sizeof err), 0);
    assert_int_equal(kymo_why_explain_cast(w, &q, answer), 0);
    assert_int_equal(answer->ns, 890000);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(9))->ns, 870000);
    assert_null(part(answer, KYMO_WHY_RUNNING, PID(1)));
    q.handled_end = q.sent - 1;
    assert_int_equal(kymo_why_explain_cast(w, &q, answer), -EINVAL);
    kymo_why_free(w);
    close_scene(&x);
    free(answer);
}

static int by_keys(const void *a, const void *b)
{
    const struct kymo_order *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->second != y->second)
        return x->second < y->second ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* Keys that differ in any bits, with many that are equal. */
static void keys_in_order(void **state)
{
    (void)state;
    enum { MOST = 3000 };
    static struct kymo_order keys[MOST], expected[MOST];
    static uint64_t element[MOST][3];
    uint64_t rng = 7;
    for (unsigned round = 0; round < 300; round++) {
        size_t n = round * 10;
        for (size_t i = 0; i < n; i++) {
            rng = rng * 6364136223846793005ull + 1442695040888963407ull;
            keys[i] = (struct kymo_order){.first = (rng >> 40) % 20 << round % 60,
                                          .second = kymo_order_signed((int64_t)(rng << 20) >> (round % 64)),
                                          .at = i};
            for (size_t k = 0; k < 3; k++)
                element[i][k] = i + k;
        }
        memcpy(expected, keys, sizeof keys);
        qsort(expected, n, sizeof *expected, by_keys);
        assert_true(kymo_order_sort(keys, n));
        uint64_t *to = kymo_order_apply(keys, n, element, sizeof element[0]);
        assert_non_null(to);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(keys[i].at, expected[i].at);
            assert_memory_equal(to + 3 * i, element[keys[i].at], sizeof element[0]);
        }
        free(to);
    }
    assert_true(kymo_order_signed(-1) < kymo_order_signed(0));
    assert_true(kymo_order_signed(INT64_MIN) < kymo_order_signed(INT64_MIN + 1));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        T(waits_for_a_server),
        T(waits_in_a_mailbox),
        T(waits_for_a_waiting_server),
        T(bystanders_and_an_answer),
        T(bystanders_and_a_timeout),
        T(collects_on_another_scheduler),
        T(native_function),
        T(path_equals_parts),
        T(bystander_and_a_collection),
        T(long_look_is_no_wait_for_a_scheduler),
        T(message_after_a_timeout),
        T(windows),
        T(explains_a_cast),
        T(keys_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
