/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of requests without a reply with handmade recordings: the client stops waiting, or the server
 * exits.
 */
#include "why_scene.h"

enum { REF = 77, NS = 5000000 };

static uint32_t function(struct scene *x, const char *module, const char *name, uint8_t arity)
{
    return tr_mfa(&x->t, tr_atom(&x->t, module), tr_atom(&x->t, name), arity);
}

/* PID(1) calls PID(9), which begins to handle the request at 30000 and sleeps from 40000 on. */
static uint32_t calls_a_sleeper(struct scene *x)
{
    open_scene(x);
    uint32_t sleep = function(x, "timer", "sleep", 1), do_call = function(x, "gen", "do_call", 4);
    wm(x, 0, 0, KYMO_E_IN, PID(1), x->a);
    message(x, 0, 10000, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CALL, REF);
    wm(x, 0, 20000, KYMO_E_OUT, PID(1), do_call);
    wm(x, 1, 20000, KYMO_E_IN, PID(9), x->b);
    message(x, 1, 25000, KYMO_E_RECEIVE, PID(9), PID(1), KYMO_MSG_CALL, REF);
    wm(x, 1, 30000, KYMO_E_CALL, PID(9), x->handle_call);
    wm(x, 1, 40000, KYMO_E_OUT, PID(9), sleep);
    return do_call;
}

/* The receive of PID(1) times out, in a run that began in `in`. */
static void times_out(struct scene *x, uint64_t at, uint32_t in)
{
    wm(x, 0, at, KYMO_E_IN, PID(1), in);
    timeout(x, 0, at + 10000, PID(1));
}

/* PID(9) goes on at `at`, and replies. */
static void wakes_up(struct scene *x, uint64_t at)
{
    wm(x, 1, at, KYMO_E_IN, PID(9), function(x, "timer", "sleep", 1));
    timeout(x, 1, at + 10, PID(9));
    wm(x, 1, at + 20, KYMO_E_RETURN_FROM, PID(9), x->handle_call);
    message(x, 1, at + 30, KYMO_E_SEND, PID(9), PID(1), KYMO_MSG_REPLY, REF);
    wm(x, 1, at + 40, KYMO_E_OUT, PID(9), x->b);
}

/* The path is in the server until the client stops waiting. */
static void client_gives_up(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    uint32_t do_call = calls_a_sleeper(&x);
    times_out(&x, 3000000, do_call);
    timeout(&x, 0, 3015000, PID(1));
    wm(&x, 0, NS, KYMO_E_OUT, PID(1), x.a);
    wakes_up(&x, 4000000);
    explain_first(&x, NS, answer);
    assert_int_equal(x.requests, 1);
    const struct kymo_request *q = &x.request[0];
    assert_int_equal(q->ended, KYMO_REQ_TIMEOUT);
    assert_int_equal(q->received, START + 3010000);
    assert_int_equal(q->replied, START + 4000030);
    assert_int_equal(kymo_request_total(q), 3010000 - 10000);
    assert_true(kymo_request_reply(q) == KYMO_NO_TIME);
    assert_int_equal(answer->part[0].cause, KYMO_WHY_TIMER);
    assert_int_equal(answer->part[0].process, PID(9));
    assert_int_equal(answer->part[0].ns, 3000000 - 40000);
    close_scene(&x);
    free(answer);
}

/* The client exits because of the timeout, and the recording ends before the server goes on. */
static void server_sleeps_on(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    uint32_t do_call = calls_a_sleeper(&x);
    times_out(&x, 3000000, do_call);
    wm(&x, 0, NS, KYMO_E_OUT, PID(1), x.a);
    atom(&x, 0, NS + 10, KYMO_E_EXIT, PID(1), tr_atom(&x.t, "timeout"));
    explain_first(&x, NS, answer);
    assert_int_equal(x.request[0].ended, KYMO_REQ_TIMEOUT);
    assert_int_equal(part(answer, KYMO_WHY_TIMER, PID(9))->ns, 3000000 - 40000);
    close_scene(&x);
    free(answer);
}

/* The reply comes while the client looks for it a last time. */
static void reply_at_the_last_moment(void **state)
{
    (void)state;
    struct scene x;
    uint32_t do_call = calls_a_sleeper(&x);
    times_out(&x, 3000000, do_call);
    wakes_up(&x, 3010005);
    message(&x, 0, 3010050, KYMO_E_RECEIVE, PID(1), PID(9), KYMO_MSG_REPLY, REF);
    analyse(&x);
    assert_int_equal(x.request[0].ended, KYMO_REQ_REPLIED);
    assert_int_equal(x.request[0].received, START + 3010050);
    close_scene(&x);
}

/* The timeout of another receive tells nothing about the request. */
static void another_receive(void **state)
{
    (void)state;
    struct scene x;
    calls_a_sleeper(&x);
    times_out(&x, 3000000, x.a);
    analyse(&x);
    assert_int_equal(x.request[0].ended, KYMO_REQ_OPEN);
    assert_true(x.request[0].received == KYMO_NO_TIME);
    close_scene(&x);
}

/* The path is in the server until it exits. */
static void server_exits(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    uint32_t do_call = calls_a_sleeper(&x);
    wm(&x, 1, 3000000, KYMO_E_IN, PID(9), function(&x, "timer", "sleep", 1));
    wm(&x, 1, 3010000, KYMO_E_OUT_EXITED, PID(9), 0);
    wm(&x, 0, 3100000, KYMO_E_IN, PID(1), do_call);
    message(&x, 0, 3110000, KYMO_E_RECEIVE, PID(1), KYMO_IDENT_NONE, KYMO_MSG_DOWN, REF);
    wm(&x, 0, NS, KYMO_E_OUT, PID(1), x.a);
    explain_first(&x, NS, answer);
    assert_int_equal(x.request[0].ended, KYMO_REQ_DOWN);
    assert_int_equal(answer->part[0].cause, KYMO_WHY_TIMER);
    assert_int_equal(answer->part[0].process, PID(9));
    assert_int_equal(answer->part[0].ns, 3000000 - 40000);
    assert_int_equal(part(answer, KYMO_WHY_SCHEDULER, PID(1))->ns, 90000);
    close_scene(&x);
    free(answer);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        T(client_gives_up), T(server_sleeps_on), T(reply_at_the_last_moment),
        T(another_receive), T(server_exits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
