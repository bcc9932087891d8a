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

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        T(replied),
        T(server_exits),
        T(client_exits),
        T(asked_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
