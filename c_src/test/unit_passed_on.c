/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of kymo_analysis.h with handmade recordings: requests that a server passes on to another
 * process, which replies to the client.
 */
#include "scene.h"

enum { REF = 77 };

static void asks(struct scene *x, uint64_t at, uint64_t client, uint64_t server)
{
    message(x, 0, at, KYMO_E_SEND, client, server, KYMO_MSG_CALL, REF);
    message(x, 0, at + 10, KYMO_E_RECEIVE, server, client, KYMO_MSG_CALL, REF);
}

static const struct kymo_request *to_server(const struct scene *x, uint64_t server)
{
    for (size_t i = 0; i < x->requests; i++) {
        if (x->request[i].server == server)
            return &x->request[i];
    }
    fail();
    return NULL;
}

/* The reply ends both requests. */
static void replied(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    asks(&x, 100, PID(1), PID(8));
    asks(&x, 200, PID(8), PID(9));
    message(&x, 0, 300, KYMO_E_SEND, PID(9), PID(1), KYMO_MSG_REPLY, REF);
    message(&x, 0, 320, KYMO_E_RECEIVE, PID(1), PID(9), KYMO_MSG_REPLY, REF);
    analyse(&x);
    assert_int_equal(x.requests, 2);
    const struct kymo_request *first = to_server(&x, PID(8)), *second = to_server(&x, PID(9));
    assert_false(first->passed_on);
    assert_true(second->passed_on);
    assert_int_equal(second->client, PID(8));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(x.request[i].ended, KYMO_REQ_REPLIED);
        assert_int_equal(x.request[i].replier, PID(9));
        assert_int_equal(x.request[i].replied, START + 300);
        assert_int_equal(x.request[i].received, START + 320);
    }
    /* Without callbacks: to pass it on shows that the server had begun with it. */
    assert_true(first->inferred);
    assert_int_equal(first->handled, START + 110);
    for (size_t i = 0; i < x.lives; i++)
        assert_int_equal(x.life[i].requests, x.life[i].process == PID(1) || x.life[i].process == PID(8));
    close_scene(&x);
}

/* The end of the server does not end the request that it has passed on. */
static void server_exits(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    asks(&x, 100, PID(1), PID(8));
    asks(&x, 200, PID(8), PID(9));
    message(&x, 0, 220, KYMO_E_SEND, PID(8), PID(7), KYMO_MSG_CALL, 88);
    atom(&x, 0, 250, KYMO_E_EXIT, PID(8), tr_atom(&x.t, "normal"));
    message(&x, 0, 300, KYMO_E_SEND, PID(9), PID(1), KYMO_MSG_REPLY, REF);
    message(&x, 0, 320, KYMO_E_RECEIVE, PID(1), PID(9), KYMO_MSG_REPLY, REF);
    analyse(&x);
    assert_int_equal(x.requests, 3);
    assert_int_equal(to_server(&x, PID(7))->ended, KYMO_REQ_GONE);
    assert_int_equal(to_server(&x, PID(8))->ended, KYMO_REQ_REPLIED);
    assert_int_equal(to_server(&x, PID(9))->ended, KYMO_REQ_REPLIED);
    close_scene(&x);
}

/* The end of the client ends all of them. */
static void client_exits(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    asks(&x, 100, PID(1), PID(7));
    asks(&x, 200, PID(7), PID(8));
    asks(&x, 300, PID(8), PID(9));
    atom(&x, 0, 400, KYMO_E_EXIT, PID(1), tr_atom(&x.t, "killed"));
    analyse(&x);
    assert_int_equal(x.requests, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(x.request[i].ended, KYMO_REQ_GONE);
    close_scene(&x);
}

/* A client that sends the same reference again makes another request. */
static void asked_again(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    asks(&x, 100, PID(1), PID(8));
    asks(&x, 200, PID(8), PID(9));
    asks(&x, 300, PID(1), PID(7));
    message(&x, 0, 400, KYMO_E_SEND, PID(7), PID(1), KYMO_MSG_REPLY, REF);
    message(&x, 0, 420, KYMO_E_RECEIVE, PID(1), PID(7), KYMO_MSG_REPLY, REF);
    analyse(&x);
    assert_int_equal(x.requests, 3);
    assert_int_equal(to_server(&x, PID(8))->ended, KYMO_REQ_OPEN);
    assert_int_equal(to_server(&x, PID(9))->ended, KYMO_REQ_OPEN);
    assert_int_equal(to_server(&x, PID(7))->ended, KYMO_REQ_REPLIED);
    assert_false(to_server(&x, PID(7))->passed_on);
    close_scene(&x);
}

/* 8 passes the request on to 9 and to 10, and 9 has another one behind it. */
static void passed_on_to_two(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    spawned(&x, 1, 50, PID(9), PID(2), x.a);
    asks(&x, 100, PID(1), PID(8));
    message(&x, 0, 200, KYMO_E_SEND, PID(8), PID(9), KYMO_MSG_CALL, REF);
    message(&x, 0, 210, KYMO_E_SEND, PID(8), PID(10), KYMO_MSG_CALL, REF);
    message(&x, 0, 300, KYMO_E_RECEIVE, PID(10), PID(8), KYMO_MSG_CALL, REF);
    message(&x, 0, 310, KYMO_E_RECEIVE, PID(9), PID(8), KYMO_MSG_CALL, REF);
    message(&x, 0, 320, KYMO_E_SEND, PID(3), PID(9), KYMO_MSG_CALL, 88);
    message(&x, 0, 330, KYMO_E_RECEIVE, PID(9), PID(3), KYMO_MSG_CALL, 88);
    wm(&x, 0, 400, KYMO_E_CALL, PID(9), x.handle_call);
    wm(&x, 0, 450, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    message(&x, 0, 460, KYMO_E_SEND, PID(9), PID(1), KYMO_MSG_REPLY, REF);
    message(&x, 0, 470, KYMO_E_RECEIVE, PID(1), PID(9), KYMO_MSG_REPLY, REF);
    wm(&x, 0, 500, KYMO_E_CALL, PID(9), x.handle_call);
    wm(&x, 0, 550, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    message(&x, 0, 560, KYMO_E_SEND, PID(9), PID(3), KYMO_MSG_REPLY, 88);
    message(&x, 0, 570, KYMO_E_RECEIVE, PID(3), PID(9), KYMO_MSG_REPLY, 88);
    analyse(&x);
    assert_int_equal(x.requests, 4);
    assert_int_equal(to_server(&x, PID(10))->fetched, START + 300);
    for (size_t i = 0; i < x.requests; i++) {
        const struct kymo_request *q = &x.request[i];
        assert_int_equal(q->ended, KYMO_REQ_REPLIED);
        if (q->server == PID(9))
            assert_int_equal(q->handled, START + (q->client == PID(3) ? 500 : 400));
    }
    close_scene(&x);
}

/* The client gives up before the server passes the request on: the reply ends both. */
static void passed_on_after_timeout(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    uint32_t waits = tr_mfa(&x.t, tr_atom(&x.t, "gen"), tr_atom(&x.t, "do_call"), 4);
    wm(&x, 0, 10, KYMO_E_IN, PID(1), waits);
    message(&x, 0, 100, KYMO_E_SEND, PID(1), PID(8), KYMO_MSG_CALL, REF);
    wm(&x, 0, 120, KYMO_E_OUT, PID(1), waits);
    message(&x, 0, 130, KYMO_E_RECEIVE, PID(8), PID(1), KYMO_MSG_CALL, REF);
    wm(&x, 0, 5000, KYMO_E_IN, PID(1), waits);
    message(&x, 0, 5010, KYMO_E_RECEIVE, PID(1), KYMO_IDENT_NONE, KYMO_MSG_TIMEOUT, 0);
    message(&x, 0, 5020, KYMO_E_RECEIVE, PID(1), KYMO_IDENT_NONE, KYMO_MSG_TIMEOUT, 0);
    wm(&x, 0, 5040, KYMO_E_OUT, PID(1), x.a);
    asks(&x, 6000, PID(8), PID(9));
    message(&x, 0, 6200, KYMO_E_SEND, PID(9), PID(1), KYMO_MSG_REPLY, REF);
    message(&x, 0, 9000, KYMO_E_SEND, PID(1), PID(8), KYMO_MSG_PLAIN, 0);
    analyse(&x);
    assert_int_equal(x.requests, 2);
    for (size_t i = 0; i < x.requests; i++) {
        assert_int_equal(x.request[i].ended, KYMO_REQ_TIMEOUT);
        assert_int_equal(x.request[i].received, START + 5010);
    }
    close_scene(&x);
}

/* A server that sends a request to itself again and again: the number of requests is bounded. */
static void passed_on_without_end(void **state)
{
    (void)state;
    enum { TIMES = 30 };
    struct scene x;
    open_scene(&x);
    asks(&x, 100, PID(1), PID(8));
    for (uint64_t i = 1; i <= TIMES; i++) {
        message(&x, 0, 100 + 20 * i, KYMO_E_SEND, PID(8), PID(8), KYMO_MSG_CALL, REF);
        message(&x, 1, 110 + 20 * i, KYMO_E_RECEIVE, PID(8), PID(8), KYMO_MSG_CALL, REF);
    }
    message(&x, 0, 100 + 20 * (TIMES + 1), KYMO_E_SEND, PID(8), PID(1), KYMO_MSG_REPLY, REF);
    message(&x, 0, 110 + 20 * (TIMES + 1), KYMO_E_RECEIVE, PID(1), PID(8), KYMO_MSG_REPLY, REF);
    analyse(&x);
    assert_int_equal(x.requests, 17);
    for (size_t i = 0; i < x.requests; i++)
        assert_int_equal(x.request[i].ended, KYMO_REQ_REPLIED);
    close_scene(&x);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        T(replied),
        T(server_exits),
        T(client_exits),
        T(asked_again),
        T(passed_on_to_two),
        T(passed_on_after_timeout),
        T(passed_on_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
