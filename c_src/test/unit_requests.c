/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of which request a callback is for, with handmade recordings. PID(9) is the server. Each
 * client sends with its number as the reference.
 */
#include "why_scene.h"

static void sends(struct scene *x, uint64_t at, unsigned client)
{
    message(x, 0, at, KYMO_E_SEND, PID(client), PID(9), KYMO_MSG_CALL, client);
}

static void fetches(struct scene *x, uint64_t at, unsigned client)
{
    message(x, 1, at, KYMO_E_RECEIVE, PID(9), PID(client), KYMO_MSG_CALL, client);
}

static void replies(struct scene *x, uint64_t at, unsigned client)
{
    message(x, 1, at, KYMO_E_SEND, PID(9), PID(client), KYMO_MSG_REPLY, client);
}

static void gets_reply(struct scene *x, uint64_t at, unsigned client)
{
    message(x, 0, at, KYMO_E_RECEIVE, PID(client), PID(9), KYMO_MSG_REPLY, client);
}

/* A callback that takes 50, and its reply. */
static void handles(struct scene *x, uint64_t at, unsigned client)
{
    wm(x, 1, at, KYMO_E_CALL, PID(9), x->handle_call);
    wm(x, 1, at + 50, KYMO_E_RETURN_FROM, PID(9), x->handle_call);
    replies(x, at + 60, client);
    gets_reply(x, at + 70, client);
}

static void casts(struct scene *x, uint64_t at)
{
    message(x, 0, at, KYMO_E_SEND, PID(8), PID(9), KYMO_MSG_CAST, 0);
    message(x, 1, at + 10, KYMO_E_RECEIVE, PID(9), PID(8), KYMO_MSG_CAST, 0);
}

static uint32_t function(struct scene *x, const char *module, const char *name, uint32_t arity)
{
    return tr_mfa(&x->t, tr_atom(&x->t, module), tr_atom(&x->t, name), arity);
}

static void handles_cast(struct scene *x, uint64_t at)
{
    uint32_t handle_cast = function(x, "m", "handle_cast", 2);
    wm(x, 1, at, KYMO_E_CALL, PID(9), handle_cast);
    wm(x, 1, at + 50, KYMO_E_RETURN_FROM, PID(9), handle_cast);
}

/* The server waits for the next message, which arrives at at + 10 and is fetched at at + 20. */
static void idle(struct scene *x, uint64_t at)
{
    uint32_t loop = function(x, "gen_server", "loop", 7);
    wm(x, 1, at, KYMO_E_OUT, PID(9), loop);
    wm(x, 1, at + 15, KYMO_E_IN, PID(9), loop);
}

/* The request of a client, or the cast that was sent then. */
static const struct kymo_request *of_client(const struct scene *x, unsigned client)
{
    for (size_t i = 0; i < x->requests; i++) {
        if (x->request[i].client == PID(client) && x->request[i].kind == KYMO_REQ_CALL)
            return &x->request[i];
    }
    fail();
    return NULL;
}

static const struct kymo_request *cast_at(const struct scene *x, uint64_t at)
{
    for (size_t i = 0; i < x->requests; i++) {
        if (x->request[i].kind == KYMO_REQ_CAST && x->request[i].sent == (int64_t)(START + at))
            return &x->request[i];
    }
    fail();
    return NULL;
}

static void assert_handled(const struct kymo_request *q, uint64_t at)
{
    assert_int_equal(q->handled, START + at);
    assert_int_equal(q->handled_end, START + at + 50);
    assert_true(q->handler != 0 && q->handler_mfa != 0);
    assert_false(q->inferred);
}

static void assert_not_handled(const struct kymo_request *q)
{
    assert_true(q->handled == KYMO_NO_TIME && q->handled_end == KYMO_NO_TIME);
    assert_true(q->handler == 0 && q->handler_mfa == 0);
}

/* ---- calls ---- */

/* Two requests of before the recording are in the mailbox. */
static void calls_behind_a_backlog(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    sends(&x, 100, 1);
    fetches(&x, 110, 1);
    handles(&x, 200, 6);
    sends(&x, 290, 2);
    fetches(&x, 295, 2);
    handles(&x, 300, 7);
    handles(&x, 400, 1);
    handles(&x, 500, 2);
    analyse(&x);
    assert_int_equal(x.requests, 2);
    assert_handled(of_client(&x, 1), 400);
    assert_handled(of_client(&x, 2), 500);
    assert_int_equal(of_client(&x, 1)->behind, 2);
    assert_int_equal(of_client(&x, 2)->behind, 2);
    assert_int_equal(x.res.unplaced, 0);
    close_scene(&x);
}

/* The same without the ends of callbacks. */
static void backlog_without_returns(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    sends(&x, 100, 1);
    fetches(&x, 110, 1);
    for (unsigned i = 0; i < 3; i++) {
        wm(&x, 1, 200 + 100 * i, KYMO_E_CALL, PID(9), x.handle_call);
        replies(&x, 260 + 100 * i, i == 2 ? 1 : 6 + i);
    }
    gets_reply(&x, 470, 1);
    analyse(&x);
    assert_int_equal(x.requests, 1);
    assert_int_equal(x.request[0].handled, START + 400);
    assert_true(x.request[0].handled_end == KYMO_NO_TIME);
    close_scene(&x);
}

/* The server replies within the callback, or later and from another callback. */
static void replies_within_callbacks(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    sends(&x, 100, 1);
    fetches(&x, 110, 1);
    sends(&x, 120, 2);
    fetches(&x, 130, 2);
    sends(&x, 140, 3);
    fetches(&x, 150, 3);
    wm(&x, 1, 200, KYMO_E_CALL, PID(9), x.handle_call);
    replies(&x, 220, 6);
    wm(&x, 1, 250, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    wm(&x, 1, 300, KYMO_E_CALL, PID(9), x.handle_call);
    replies(&x, 320, 1);
    wm(&x, 1, 350, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    gets_reply(&x, 360, 1);
    wm(&x, 1, 400, KYMO_E_CALL, PID(9), x.handle_call); /* of 2, which gets its reply later */
    wm(&x, 1, 450, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    wm(&x, 1, 500, KYMO_E_CALL, PID(9), x.handle_call);
    replies(&x, 520, 2);
    wm(&x, 1, 550, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    replies(&x, 560, 3);
    gets_reply(&x, 570, 2);
    gets_reply(&x, 580, 3);
    analyse(&x);
    assert_int_equal(x.requests, 3);
    assert_handled(of_client(&x, 1), 300);
    assert_handled(of_client(&x, 2), 400);
    assert_handled(of_client(&x, 3), 500);
    close_scene(&x);
}

/* The order was wrong: the reply after the callback is to another request. */
static void reply_corrects_the_order(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    spawned(&x, 1, 50, PID(9), PID(1), x.a);
    sends(&x, 100, 1);
    fetches(&x, 110, 1);
    handles(&x, 200, 6); /* by a client that is not recorded */
    handles(&x, 300, 1);
    sends(&x, 400, 2);
    fetches(&x, 410, 2);
    sends(&x, 420, 3);
    fetches(&x, 430, 3);
    handles(&x, 500, 3);
    analyse(&x);
    assert_int_equal(x.requests, 3);
    assert_handled(of_client(&x, 1), 300);
    assert_handled(of_client(&x, 3), 500);
    assert_not_handled(of_client(&x, 2));
    assert_int_equal(of_client(&x, 2)->ended, KYMO_REQ_OPEN);
    close_scene(&x);
}

/* The client has exited, but its request is still in the mailbox. */
static void request_of_the_dead(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    spawned(&x, 1, 50, PID(9), PID(1), x.a);
    sends(&x, 100, 1);
    fetches(&x, 110, 1);
    casts(&x, 120);
    sends(&x, 140, 2);
    fetches(&x, 150, 2);
    atom(&x, 0, 160, KYMO_E_EXIT, PID(1), tr_atom(&x.t, "killed"));
    wm(&x, 1, 200, KYMO_E_CALL, PID(9), x.handle_call);
    wm(&x, 1, 250, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    handles_cast(&x, 300);
    wm(&x, 1, 400, KYMO_E_CALL, PID(9), x.handle_call);
    wm(&x, 1, 450, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    analyse(&x);
    assert_int_equal(x.requests, 3);
    assert_not_handled(of_client(&x, 1));
    assert_handled(cast_at(&x, 120), 300);
    assert_handled(of_client(&x, 2), 400);
    close_scene(&x);
}

/* ---- casts ---- */

static void casts_behind_a_backlog(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    casts(&x, 100);
    handles_cast(&x, 200);
    casts(&x, 300);
    handles_cast(&x, 400);
    analyse(&x);
    assert_int_equal(x.requests, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_not_handled(&x.request[i]);
        assert_int_equal(x.request[i].ended, KYMO_REQ_OPEN);
        assert_true(kymo_request_total(&x.request[i]) == KYMO_NO_TIME);
    }
    assert_int_equal(x.res.unplaced, 2);
    close_scene(&x);
}

/* A reply tells which request the server is at, and so which casts come next. */
static void casts_around_a_call(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    casts(&x, 100);
    sends(&x, 120, 1);
    fetches(&x, 130, 1);
    casts(&x, 140);
    handles_cast(&x, 200);
    handles_cast(&x, 300);
    handles(&x, 400, 1);
    handles_cast(&x, 500);
    casts(&x, 600);
    analyse(&x);
    assert_int_equal(x.requests, 4);
    assert_not_handled(cast_at(&x, 100));
    assert_int_equal(cast_at(&x, 100)->ended, KYMO_REQ_NO_REPLY);
    assert_handled(of_client(&x, 1), 400);
    assert_handled(cast_at(&x, 140), 500);
    assert_int_equal(cast_at(&x, 600)->ended, KYMO_REQ_OPEN);
    assert_int_equal(x.res.unplaced, 1);
    close_scene(&x);
}

static void casts_to_an_idle_server(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    casts(&x, 50); /* handled before the first callback that is recorded */
    idle(&x, 100);
    casts(&x, 110);
    handles_cast(&x, 200);
    out_for(&x, 1, 290, PID(9), function(&x, "gen_server", "loop", 7), KYMO_OUT_WAITING);
    analyse(&x);
    assert_int_equal(x.requests, 2);
    assert_not_handled(cast_at(&x, 50));
    assert_handled(cast_at(&x, 110), 200);
    close_scene(&x);
}

/* Scheduled out at the beginning of the loop, but not to wait: it goes on without fetching. */
static void casts_to_a_preempted_server(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    casts(&x, 70);
    idle(&x, 100);
    handles_cast(&x, 130);
    out_for(&x, 1, 190, PID(9), function(&x, "gen_server", "loop", 7), KYMO_OUT_REDUCTIONS);
    wm(&x, 1, 195, KYMO_E_IN, PID(9), x.a);
    casts(&x, 200);
    handles_cast(&x, 230);
    analyse(&x);
    assert_int_equal(x.requests, 2);
    assert_not_handled(cast_at(&x, 70));
    assert_not_handled(cast_at(&x, 200));
    close_scene(&x);
}

/* The same with casts in the mailbox, and a signal at scheduling in makes it fetch the next one. */
static void casts_to_a_preempted_server_with_signals(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    uint32_t loop = function(&x, "gen_server", "loop", 7);
    spawned(&x, 1, 50, PID(9), PID(1), x.a);
    casts(&x, 70);
    casts(&x, 90);
    handles_cast(&x, 110);
    wm(&x, 1, 160, KYMO_E_OUT, PID(9), loop);
    message(&x, 0, 170, KYMO_E_SEND, PID(8), PID(9), KYMO_MSG_CAST, 0);
    wm(&x, 1, 200, KYMO_E_IN, PID(9), loop);
    message(&x, 1, 201, KYMO_E_RECEIVE, PID(9), PID(8), KYMO_MSG_CAST, 0);
    handles_cast(&x, 210);
    handles_cast(&x, 310);
    analyse(&x);
    assert_handled(cast_at(&x, 70), 110);
    assert_handled(cast_at(&x, 90), 210);
    assert_handled(cast_at(&x, 170), 310);
    close_scene(&x);
}

/* A cast whose sender is not recorded is handled in its place. */
static void cast_of_an_unknown_sender(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    idle(&x, 100);
    message(&x, 1, 120, KYMO_E_RECEIVE, PID(9), PID(7), KYMO_MSG_CAST, 0);
    casts(&x, 130);
    handles_cast(&x, 200);
    handles_cast(&x, 300);
    analyse(&x);
    assert_int_equal(x.requests, 1);
    assert_handled(&x.request[0], 300);
    close_scene(&x);
}

/* Callbacks may be among the events that were lost. */
static void casts_after_a_loss(void **state)
{
    (void)state;
    struct scene x;
    uint8_t lost[9] = {KYMO_LOST_RING_FULL, 3};
    open_scene(&x);
    idle(&x, 100);
    casts(&x, 110);
    casts(&x, 130);
    handles_cast(&x, 200);
    ts_record(&x.s[0], START + 260, KYMO_E_LOST, lost, sizeof lost, false);
    handles_cast(&x, 300);
    idle(&x, 400);
    casts(&x, 410);
    handles_cast(&x, 500);
    analyse(&x);
    assert_int_equal(x.requests, 3);
    assert_handled(cast_at(&x, 110), 200);
    assert_not_handled(cast_at(&x, 130));
    assert_handled(cast_at(&x, 410), 500);
    assert_int_equal(x.res.unplaced, 1);
    close_scene(&x);
}

/* ---- why ---- */

/* Requests of before the recording hold up that of PID(1). */
static void held_up_by_a_backlog(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = new_answer();
    open_scene(&x);
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.a);
    sends(&x, 10000, 1);
    wm(&x, 0, 20000, KYMO_E_OUT, PID(1), x.a);
    wm(&x, 1, 30000, KYMO_E_IN, PID(9), x.b);
    fetches(&x, 30010, 1);
    handles(&x, 40000, 6);
    handles(&x, 400000, 7);
    wm(&x, 0, 900065, KYMO_E_IN, PID(1), x.a);
    handles(&x, 900000, 1);
    wm(&x, 1, 900080, KYMO_E_OUT, PID(9), x.b);
    wm(&x, 0, 1000000, KYMO_E_OUT, PID(1), x.a);
    explain(&x, answer);
    assert_int_equal(answer->part[0].cause, KYMO_WHY_QUEUE);
    assert_int_equal(answer->part[0].process, PID(9));
    assert_int_equal(answer->part[0].requests, 2);
    close_scene(&x);
    free(answer);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        T(calls_behind_a_backlog),      T(backlog_without_returns),
        T(replies_within_callbacks),    T(reply_corrects_the_order),
        T(request_of_the_dead),         T(casts_behind_a_backlog),
        T(casts_around_a_call),         T(casts_to_an_idle_server),
        T(casts_to_a_preempted_server), T(casts_to_a_preempted_server_with_signals),
        T(cast_of_an_unknown_sender),   T(casts_after_a_loss),
        T(held_up_by_a_backlog),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
