/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of kymo_why.h with handmade recordings: requests to which another process than the server
 * replied.
 */
#include "why_scene.h"

enum { REF = 77 };

/* PID(1) calls PID(9), which begins to handle the request at 30000. */
static void calls_a_server(struct scene *x)
{
    open_scene(x);
    wm(x, 0, 0, KYMO_E_IN, PID(1), x->a);
    message(x, 0, 10000, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CALL, REF);
    wm(x, 0, 20000, KYMO_E_OUT, PID(1), x->a);
    wm(x, 1, 20000, KYMO_E_IN, PID(9), x->b);
    message(x, 1, 25000, KYMO_E_RECEIVE, PID(9), PID(1), KYMO_MSG_CALL, REF);
    wm(x, 1, 30000, KYMO_E_CALL, PID(9), x->handle_call);
}

/* The callback returns without a reply. */
static void does_not_reply(struct scene *x, uint64_t at)
{
    wm(x, 1, at, KYMO_E_RETURN_FROM, PID(9), x->handle_call);
    wm(x, 1, at + 10000, KYMO_E_OUT, PID(9), x->b);
}

/* PID(7) runs, waits until a timeout at 4800000, and replies. */
static void sleeps_and_replies(struct scene *x, uint64_t at)
{
    wm(x, 1, at, KYMO_E_IN, PID(7), x->b);
    wm(x, 1, at + 10000, KYMO_E_OUT, PID(7), x->b);
    wm(x, 1, 4800000, KYMO_E_IN, PID(7), x->b);
    timeout(x, 1, 4810000, PID(7));
    message(x, 1, 4820000, KYMO_E_SEND, PID(7), PID(1), KYMO_MSG_REPLY, REF);
    wm(x, 1, 4830000, KYMO_E_OUT, PID(7), x->b);
    wm(x, 0, 4850000, KYMO_E_IN, PID(1), x->a);
    message(x, 0, 4860000, KYMO_E_RECEIVE, PID(1), PID(7), KYMO_MSG_REPLY, REF);
    wm(x, 0, 5000000, KYMO_E_OUT, PID(1), x->a);
}

/* The server spawns a process, which replies. Until it was spawned, the path is in the server. */
static void replied_by_a_child(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    calls_a_server(&x);
    spawned(&x, 1, 100000, PID(7), PID(9), x.b);
    does_not_reply(&x, 110000);
    sleeps_and_replies(&x, 300000);
    explain_first(&x, 5000000, answer);
    assert_int_equal(x.requests, 1);
    assert_int_equal(x.request[0].ended, KYMO_REQ_REPLIED);
    assert_int_equal(x.request[0].server, PID(9));
    assert_int_equal(x.request[0].replier, PID(7));
    assert_int_equal(answer->part[0].cause, KYMO_WHY_TIMER);
    assert_int_equal(answer->part[0].process, PID(7));
    assert_int_equal(answer->part[0].ns, 4800000 - 310000);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(7))->ns, 10000 + 20000);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(9))->ns, 100000 - 20000);
    assert_null(part(answer, KYMO_WHY_UNKNOWN, PID(7)));
    assert_null(part(answer, KYMO_WHY_UNKNOWN, PID(9)));
    close_scene(&x);
    free(answer);
}

/* The server sends the work to a process that is busy then: from that message on, the path is in that
 * process. */
static void replied_by_a_busy_worker(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    calls_a_server(&x);
    message(&x, 1, 100000, KYMO_E_SEND, PID(9), PID(7), KYMO_MSG_PLAIN, 0);
    does_not_reply(&x, 110000);
    wm(&x, 0, 21000, KYMO_E_IN, PID(7), x.b);
    message(&x, 0, 700000, KYMO_E_RECEIVE, PID(7), PID(9), KYMO_MSG_PLAIN, 0);
    message(&x, 0, 800000, KYMO_E_SEND, PID(7), PID(1), KYMO_MSG_REPLY, REF);
    wm(&x, 0, 810000, KYMO_E_OUT, PID(7), x.b);
    wm(&x, 0, 850000, KYMO_E_IN, PID(1), x.a);
    message(&x, 0, 860000, KYMO_E_RECEIVE, PID(1), PID(7), KYMO_MSG_REPLY, REF);
    wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.a);
    explain(&x, answer);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(7))->ns, 800000 - 100000);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(9))->ns, 100000 - 20000);
    close_scene(&x);
    free(answer);
}

/* The server passes the request on to PID(7), in whose mailbox it waits behind another one. */
static void passed_on_to_a_busy_server(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    calls_a_server(&x);
    wm(&x, 0, 21000, KYMO_E_IN, PID(7), x.b);
    message(&x, 0, 21200, KYMO_E_SEND, PID(5), PID(7), KYMO_MSG_CALL, 55);
    message(&x, 0, 21500, KYMO_E_RECEIVE, PID(7), PID(5), KYMO_MSG_CALL, 55);
    wm(&x, 0, 22000, KYMO_E_CALL, PID(7), x.handle_call);
    message(&x, 1, 100000, KYMO_E_SEND, PID(9), PID(7), KYMO_MSG_CALL, REF);
    does_not_reply(&x, 110000);
    wm(&x, 0, 600000, KYMO_E_RETURN_FROM, PID(7), x.handle_call);
    message(&x, 0, 600010, KYMO_E_SEND, PID(7), PID(5), KYMO_MSG_REPLY, 55);
    message(&x, 0, 600020, KYMO_E_RECEIVE, PID(7), PID(9), KYMO_MSG_CALL, REF);
    wm(&x, 0, 600030, KYMO_E_CALL, PID(7), x.handle_call);
    wm(&x, 0, 800000, KYMO_E_RETURN_FROM, PID(7), x.handle_call);
    message(&x, 0, 800010, KYMO_E_SEND, PID(7), PID(1), KYMO_MSG_REPLY, REF);
    wm(&x, 0, 810000, KYMO_E_OUT, PID(7), x.b);
    wm(&x, 0, 850000, KYMO_E_IN, PID(1), x.a);
    message(&x, 0, 860000, KYMO_E_RECEIVE, PID(1), PID(7), KYMO_MSG_REPLY, REF);
    wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.a);
    explain(&x, answer);
    assert_int_equal(part(answer, KYMO_WHY_QUEUE, PID(7))->ns, 600030 - 100000);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(7))->ns, 800010 - 600030);
    assert_int_equal(part(answer, KYMO_WHY_RUNNING, PID(9))->ns, 100000 - 20000);
    assert_null(part(answer, KYMO_WHY_UNKNOWN, PID(9)));
    close_scene(&x);
    free(answer);
}

/* A damaged recording, in which two chains have one reference and all times are the same. */
static void one_reference_twice(void **state)
{
    (void)state;
    static const unsigned hops[2][3] = {{8, 9, 11}, {8, 7, 12}};
    struct scene x;
    open_scene(&x);
    struct kymo_why_answer *answer = new_answer();
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.a);
    for (unsigned chain = 0; chain < 2; chain++) {
        for (unsigned hop = 0, from = 1; hop < 3; from = hops[chain][hop++]) {
            message(&x, 0, 1000, KYMO_E_SEND, PID(from), PID(hops[chain][hop]), KYMO_MSG_CALL, REF);
            if (hop < 2)
                message(&x, 0, 1000, KYMO_E_RECEIVE, PID(hops[chain][hop]), PID(from), KYMO_MSG_CALL, REF);
        }
        if (chain == 0) {
            message(&x, 0, 1000, KYMO_E_SEND, PID(7), PID(1), KYMO_MSG_REPLY, REF);
            message(&x, 0, 1000, KYMO_E_RECEIVE, PID(1), PID(7), KYMO_MSG_REPLY, REF);
        }
    }
    wm(&x, 0, 1050, KYMO_E_OUT, PID(1), x.a);
    message(&x, 0, 2000, KYMO_E_SEND, PID(9), PID(1), KYMO_MSG_REPLY, REF);
    wm(&x, 0, 3000, KYMO_E_IN, PID(1), x.a);
    message(&x, 0, 3010, KYMO_E_RECEIVE, PID(1), PID(9), KYMO_MSG_REPLY, REF);
    wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.a);
    explain(&x, answer);
    assert_true(answer->n > 0);
    close_scene(&x);
    free(answer);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        T(replied_by_a_child),
        T(replied_by_a_busy_worker),
        T(passed_on_to_a_busy_server),
        T(one_reference_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
