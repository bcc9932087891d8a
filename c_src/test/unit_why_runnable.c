/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of kymo_why.h with handmade recordings: processes that have a timeout, are suspended, or could
 * run and do not.
 */
#include "why_scene.h"

/* erlang:NAME/1. */
static uint32_t of_erlang(struct scene *x, const char *name)
{
    return tr_mfa(&x->t, tr_atom(&x->t, "erlang"), tr_atom(&x->t, name), 1);
}

/* A server that has waited for long gets a request, and no process of the node runs meanwhile. */
static void idle_server_of_a_stopped_node(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    wm(&x, 0, 0, KYMO_E_IN, PID(9), x.b);
    wm(&x, 0, 100000, KYMO_E_OUT, PID(9), x.b);
    wm(&x, 1, 4900000, KYMO_E_IN, PID(1), x.a);
    message(&x, 1, 5010000, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CALL, 77);
    wm(&x, 1, 5011000, KYMO_E_OUT, PID(1), x.a);
    wm(&x, 0, 8000000, KYMO_E_IN, PID(9), x.a);
    message(&x, 0, 8001000, KYMO_E_RECEIVE, PID(9), PID(1), KYMO_MSG_CALL, 77);
    wm(&x, 0, 8002000, KYMO_E_CALL, PID(9), x.handle_call);
    server_replies(&x, 8010000);
    explain_later(&x, 5000000, 3200000, answer);
    assert_int_equal(part(answer, KYMO_WHY_NODE, PID(9))->ns, 8000000 - 5011000);
    close_scene(&x);
    free(answer);
}

/* A timeout that was over while the process was suspended did not end the wait. */
static void suspended_beyond_a_timeout(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    calls_a_waiting_server(&x);
    uint32_t suspend = of_erlang(&x, "suspend_process");
    uint32_t resume = of_erlang(&x, "resume_process");
    wm(&x, 1, 35000, KYMO_E_IN, PID(7), x.b);
    wm(&x, 1, 500000, KYMO_E_CALL, PID(7), suspend);
    wm(&x, 1, 501000, KYMO_E_RETURN_FROM, PID(7), suspend);
    wm(&x, 1, 2740000, KYMO_E_CALL, PID(7), resume);
    wm(&x, 1, 2741000, KYMO_E_RETURN_FROM, PID(7), resume);
    wm(&x, 1, 2742000, KYMO_E_OUT, PID(7), x.b);
    wm(&x, 0, 2750000, KYMO_E_IN, PID(9), x.b);
    timeout(&x, 0, 2750500, PID(9));
    server_replies(&x, 2800000);
    explain_first(&x, 3000000, answer);
    assert_int_equal(part(answer, KYMO_WHY_SUSPENDED, PID(9))->ns, 2750000 - 500000);
    assert_int_equal(part(answer, KYMO_WHY_SUSPENDED, PID(9))->blame, PID(7));
    assert_int_equal(part(answer, KYMO_WHY_TIMER, PID(9))->ns, 500000 - 40000);
    close_scene(&x);
    free(answer);
}

/* While it was suspended, the process fetched a message, and handled two signals one right after the
 * other. No scheduler was free when it was resumed. */
static void suspended_and_signalled(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    calls_a_waiting_server(&x);
    wm(&x, 1, 100000, KYMO_E_IN, PID(7), x.b);
    wm(&x, 1, 100000, KYMO_E_CALL, PID(7), of_erlang(&x, "suspend_process"));
    message(&x, 1, 200000, KYMO_E_SEND, PID(7), PID(9), KYMO_MSG_PLAIN, 0);
    wm(&x, 0, 201000, KYMO_E_IN, PID(9), x.b);
    message(&x, 0, 201500, KYMO_E_RECEIVE, PID(9), PID(7), KYMO_MSG_PLAIN, 0);
    wm(&x, 0, 202000, KYMO_E_OUT, PID(9), x.b);
    wm(&x, 0, 1000000, KYMO_E_IN, PID(9), x.b);
    wm(&x, 0, 1001300, KYMO_E_OUT, PID(9), x.b);
    wm(&x, 0, 1002500, KYMO_E_IN, PID(9), x.b);
    wm(&x, 0, 1003800, KYMO_E_OUT, PID(9), x.b);
    wm(&x, 1, 4000000, KYMO_E_CALL, PID(7), of_erlang(&x, "resume_process"));
    wm(&x, 1, 4001000, KYMO_E_OUT, PID(7), x.b);
    wm(&x, 0, 5500000, KYMO_E_IN, PID(9), x.b);
    timeout(&x, 0, 5500500, PID(9));
    server_replies(&x, 5510000);
    explain_first(&x, 6000000, answer);
    assert_int_equal(part(answer, KYMO_WHY_SUSPENDED, PID(9))->ns, 4000000 - 100000);
    assert_int_equal(part(answer, KYMO_WHY_TIMER, PID(9))->ns, 100000 - 40000);
    close_scene(&x);
    free(answer);
}

/* The first known run of the server is one in which it only fetched the request, while it was
 * suspended: it had been waiting for longer than what is recorded of it. */
static void suspended_before_the_first_run(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    wm(&x, 1, 0, KYMO_E_CALL, PID(7), of_erlang(&x, "suspend_process"));
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.a);
    message(&x, 0, 10000, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CALL, 77);
    wm(&x, 0, 11000, KYMO_E_OUT, PID(1), x.a);
    wm(&x, 0, 12000, KYMO_E_IN, PID(9), x.a);
    message(&x, 0, 13000, KYMO_E_RECEIVE, PID(9), PID(1), KYMO_MSG_CALL, 77);
    wm(&x, 0, 14000, KYMO_E_OUT, PID(9), x.a);
    wm(&x, 1, 4000000, KYMO_E_CALL, PID(7), of_erlang(&x, "resume_process"));
    wm(&x, 1, 4001000, KYMO_E_OUT, PID(7), x.b);
    wm(&x, 0, 5500000, KYMO_E_IN, PID(9), x.a);
    timeout(&x, 0, 5500500, PID(9));
    wm(&x, 0, 5501000, KYMO_E_CALL, PID(9), x.handle_call);
    server_replies(&x, 5510000);
    explain_first(&x, 6000000, answer);
    assert_int_equal(part(answer, KYMO_WHY_SUSPENDED, PID(9))->ns, 4000000 - 14000);
    assert_null(part(answer, KYMO_WHY_TIMER, PID(9)));
    close_scene(&x);
    free(answer);
}

/* A server is suspended, and no scheduler is free when it is resumed. It gets a request meanwhile, which
 * it fetches while it is suspended, or not until later. No event tells what ended the wait. */
static void suspended_with_a_request(bool fetched, const char *module, const char *function,
                                     struct kymo_why_answer *answer)
{
    struct scene x;
    open_scene(&x);
    uint32_t loop = tr_mfa(&x.t, tr_atom(&x.t, module), tr_atom(&x.t, function), 7);
    wm(&x, 1, 0, KYMO_E_CALL, PID(7), of_erlang(&x, "suspend_process"));
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.a);
    message(&x, 0, 10000, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CALL, 77);
    wm(&x, 0, 11000, KYMO_E_OUT, PID(1), x.a);
    wm(&x, 0, 12000, KYMO_E_IN, PID(9), loop);
    if (fetched)
        message(&x, 0, 13000, KYMO_E_RECEIVE, PID(9), PID(1), KYMO_MSG_CALL, 77);
    wm(&x, 0, 14000, KYMO_E_OUT, PID(9), loop);
    wm(&x, 1, 4000000, KYMO_E_CALL, PID(7), of_erlang(&x, "resume_process"));
    wm(&x, 1, 4001000, KYMO_E_OUT, PID(7), x.b);
    wm(&x, 0, 4002000, KYMO_E_IN, PID(8), x.b);
    wm(&x, 0, 5499000, KYMO_E_OUT, PID(8), x.b);
    wm(&x, 0, 5500000, KYMO_E_IN, PID(9), loop);
    if (!fetched)
        message(&x, 0, 5500500, KYMO_E_RECEIVE, PID(9), PID(1), KYMO_MSG_CALL, 77);
    wm(&x, 0, 5501000, KYMO_E_CALL, PID(9), x.handle_call);
    server_replies(&x, 5510000);
    explain_first(&x, 6000000, answer);
    close_scene(&x);
}

static void suspended_in_the_loop(void **state)
{
    (void)state;
    for (int fetched = 0; fetched < 2; fetched++) {
        struct kymo_why_answer *answer = new_answer();
        suspended_with_a_request(fetched == 1, "gen_server", "loop", answer);
        assert_int_equal(part(answer, KYMO_WHY_SUSPENDED, PID(9))->ns, 4000000 - 14000);
        assert_int_equal(part(answer, KYMO_WHY_SUSPENDED, PID(9))->blame, PID(7));
        assert_int_equal(part(answer, KYMO_WHY_SCHEDULER, PID(9))->blame, PID(8));
        const struct kymo_why_part *unknown = part(answer, KYMO_WHY_UNKNOWN, PID(9));
        assert_true(unknown == NULL || unknown->ns <= 12000 - 10000); /* before its first run */
        free(answer);
    }
}

/* The same in a callback: it may have waited for something that is not recorded, and it may have been
 * another process that was suspended. */
static void suspended_in_a_callback(void **state)
{
    (void)state;
    struct kymo_why_answer *answer = new_answer();
    suspended_with_a_request(true, "m", "handle_info", answer);
    assert_null(part(answer, KYMO_WHY_SUSPENDED, PID(9)));
    assert_int_equal(part(answer, KYMO_WHY_UNKNOWN, PID(9))->ns, 5500000 - 14000);
    free(answer);
}

/* A suspension that took less time than the clock can tell, at the end of a wait for a scheduler. */
static void suspended_for_no_time(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    uint32_t suspend = of_erlang(&x, "suspend_process");
    uint32_t resume = of_erlang(&x, "resume_process");
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.a);
    out_for(&x, 0, 100000, PID(1), x.a, KYMO_OUT_REDUCTIONS);
    wm(&x, 1, 800000, KYMO_E_IN, PID(7), x.b);
    wm(&x, 1, 900000, KYMO_E_CALL, PID(7), suspend);
    wm(&x, 1, 900000, KYMO_E_RETURN_FROM, PID(7), suspend);
    wm(&x, 1, 900000, KYMO_E_CALL, PID(7), resume);
    wm(&x, 1, 900000, KYMO_E_RETURN_FROM, PID(7), resume);
    in_from_queue(&x, 0, 900000, PID(1), x.a, KYMO_RUNNABLE_OUT, 800000);
    wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.a);
    explain(&x, answer);
    assert_null(part(answer, KYMO_WHY_SUSPENDED, PID(1)));
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(1))->ns, 200000);
    close_scene(&x);
    free(answer);
}

/* A process that was scheduled out and in without a message waited for no timer. */
static void preempted_waits_for_no_timer(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.b);
    message(&x, 0, 10, KYMO_E_RECEIVE, PID(1), PID(2), KYMO_MSG_PLAIN, 0);
    wm(&x, 0, 10000, KYMO_E_OUT, PID(1), x.b);
    wm(&x, 0, 20000, KYMO_E_IN, PID(2), x.a);
    wm(&x, 0, 600000, KYMO_E_OUT, PID(2), x.a);
    wm(&x, 0, 800000, KYMO_E_IN, PID(1), x.b);
    wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.b);
    explain(&x, answer);
    assert_null(part(answer, KYMO_WHY_TIMER, PID(1)));
    assert_int_equal(part(answer, KYMO_WHY_SCHEDULER, PID(1))->ns, 790000);
    assert_int_equal(part(answer, KYMO_WHY_SCHEDULER, PID(1))->blame, PID(2));
    close_scene(&x);
    free(answer);
}

/* Neither did a process that polled for a message with a timeout of 0. */
static void polling_waits_for_no_timer(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.b);
    timeout(&x, 0, 10, PID(1));
    wm(&x, 0, 400000, KYMO_E_OUT, PID(1), x.b);
    wm(&x, 0, 410000, KYMO_E_IN, PID(2), x.a);
    wm(&x, 0, 490000, KYMO_E_OUT, PID(2), x.a);
    wm(&x, 0, 500000, KYMO_E_IN, PID(1), x.b);
    timeout(&x, 0, 700000, PID(1));
    wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.b);
    explain(&x, answer);
    assert_null(part(answer, KYMO_WHY_TIMER, PID(1)));
    assert_int_equal(part(answer, KYMO_WHY_SCHEDULER, PID(1))->ns, 100000);
    close_scene(&x);
    free(answer);
}

/* No thread is busy and no message explains the wait, but the runtime records its cause. */
static void run_queue_is_known(void **state)
{
    static const struct {
        uint8_t by, cause;
    } known[] = {{KYMO_RUNNABLE_TIMER, KYMO_WHY_TIMER}, {KYMO_RUNNABLE_MESSAGE, KYMO_WHY_UNKNOWN}};
    (void)state;
    struct kymo_why_answer *answer = new_answer();
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct scene x;
        open_scene(&x);
        wm(&x, 0, 0, KYMO_E_IN, PID(1), x.a);
        out_for(&x, 0, 100000, PID(1), x.a, KYMO_OUT_WAITING);
        wm(&x, 0, 100010, KYMO_E_IN, PID(2), x.b);
        wm(&x, 0, 200000, KYMO_E_OUT, PID(2), x.b);
        in_from_queue(&x, 0, 900000, PID(1), x.a, known[i].by, 300000);
        wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.a);
        explain(&x, answer);
        assert_int_equal(part(answer, known[i].cause, PID(1))->ns, 500000);
        assert_int_equal(part(answer, KYMO_WHY_NODE, PID(1))->ns, 300000);
        assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(1))->ns, 200000);
        close_scene(&x);
    }
    free(answer);
}

/* A process that was resumed had been suspended by a busy port if it was writing to one. */
static void busy_port_is_known(void **state)
{
    (void)state;
    struct kymo_why_answer *answer = new_answer();
    for (int writes = 0; writes < 2; writes++) {
        struct scene x;
        open_scene(&x);
        uint32_t f =
            writes ? tr_mfa(&x.t, tr_atom(&x.t, "erts_internal"), tr_atom(&x.t, "port_command"), 3) : x.a;
        wm(&x, 0, 0, KYMO_E_IN, PID(1), x.a);
        out_for(&x, 0, 100000, PID(1), f, KYMO_OUT_SUSPENDED);
        in_from_queue(&x, 0, 900000, PID(1), f, KYMO_RUNNABLE_RESUME, 300000);
        wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.a);
        explain(&x, answer);
        assert_int_equal(part(answer, writes ? KYMO_WHY_PORT : KYMO_WHY_SUSPENDED, PID(1))->ns, 500000);
        close_scene(&x);
    }
    free(answer);
}

/* The process used up its reductions: it was runnable all of the time. */
static void preempted_is_known(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.a);
    out_for(&x, 0, 100000, PID(1), x.a, KYMO_OUT_REDUCTIONS);
    wm(&x, 0, 100010, KYMO_E_IN, PID(2), x.b);
    wm(&x, 0, 300000, KYMO_E_OUT, PID(2), x.b);
    in_from_queue(&x, 0, 900000, PID(1), x.a, KYMO_RUNNABLE_OUT, 799900);
    wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.a);
    explain(&x, answer);
    assert_int_equal(part(answer, KYMO_WHY_SCHEDULER, PID(1))->ns, 800000);
    close_scene(&x);
    free(answer);
}

/* Short runs in one function, without any other event: the process was preempted again and again, and
 * did not only look at its mailbox. */
static void preempted_again_and_again(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.b);
    for (uint64_t at = 20000; at < 1000000; at += 100000) {
        out_for(&x, 0, at, PID(1), x.b, KYMO_OUT_REDUCTIONS);
        wm(&x, 0, at + 1000, KYMO_E_IN, PID(2), x.a);
        wm(&x, 0, at + 79000, KYMO_E_OUT, PID(2), x.a);
        in_from_queue(&x, 0, at + 80000, PID(1), x.b, KYMO_RUNNABLE_OUT, 79900);
    }
    wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.b);
    explain(&x, answer);
    assert_int_equal(part(answer, KYMO_WHY_SCHEDULER, PID(1))->ns, 10 * 80000);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(1))->ns, 1000000 - 10 * 80000);
    assert_null(part(answer, KYMO_WHY_UNKNOWN, PID(1)));
    close_scene(&x);
    free(answer);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        T(idle_server_of_a_stopped_node),
        T(suspended_beyond_a_timeout),
        T(suspended_and_signalled),
        T(suspended_before_the_first_run),
        T(suspended_in_the_loop),
        T(suspended_in_a_callback),
        T(suspended_for_no_time),
        T(preempted_waits_for_no_timer),
        T(polling_waits_for_no_timer),
        T(run_queue_is_known),
        T(busy_port_is_known),
        T(preempted_is_known),
        T(preempted_again_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
