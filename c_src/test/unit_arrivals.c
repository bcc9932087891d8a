/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of recordings whose received messages were left out, with handmade recordings. PID(9) is the server,
 * PID(1) and PID(2) are clients.
 */
#include "why_scene.h"

enum { REF = 77, OTHER_REF = 88 };

static void open_unreceived(struct scene *x)
{
    static const char measures[] = "received\t27.3.4.8\treceived messages\n";
    open_scene(x);
    memcpy(x->t.meta.measures, measures, sizeof measures - 1);
    x->t.meta.measures_len = sizeof measures - 1;
}

static void sends(struct scene *x, uint64_t at, unsigned from, uint64_t to, uint8_t kind, uint64_t ref)
{
    message(x, 0, at, KYMO_E_SEND, PID(from), to, kind, ref);
}

static void in(struct scene *x, uint32_t slot, uint64_t at, unsigned who)
{
    wm(x, slot, at, KYMO_E_IN, PID(who), x->a);
}

static void out(struct scene *x, uint32_t slot, uint64_t at, unsigned who)
{
    wm(x, slot, at, KYMO_E_OUT, PID(who), x->a);
}

/* The server waits: it fetches the request when it is scheduled in. The reply goes to an alias. */
static void waiting(void **state)
{
    (void)state;
    struct scene x;
    open_unreceived(&x);
    out(&x, 1, 10, 9);
    in(&x, 0, 50, 1);
    sends(&x, 100, 1, PID(9), KYMO_MSG_CALL, REF);
    out(&x, 0, 110, 1);
    in(&x, 1, 200, 9);
    message(&x, 1, 300, KYMO_E_SEND, PID(9), KYMO_IDENT(KYMO_I_REF, 5), KYMO_MSG_REPLY, REF);
    out(&x, 1, 310, 9);
    in(&x, 0, 400, 1);
    analyse(&x);
    assert_int_equal(x.requests, 1);
    const struct kymo_request *q = &x.request[0];
    assert_int_equal(q->ended, KYMO_REQ_REPLIED);
    assert_int_equal(q->fetched, START + 200);
    assert_int_equal(q->handled, START + 200);
    assert_true(q->inferred);
    assert_int_equal(q->replied, START + 300);
    assert_int_equal(q->received, START + 400);
    for (size_t i = 0; i < x.mails; i++)
        assert_false(x.mail[i].assumed);
    assert_int_equal(x.mails, 2);
    close_scene(&x);
}

/* It runs already, for another client: the time at which it fetches the second request is assumed, and it
 * begins with it after the first reply. */
static void busy(void **state)
{
    (void)state;
    struct scene x;
    open_unreceived(&x);
    out(&x, 1, 10, 9);
    sends(&x, 100, 1, PID(9), KYMO_MSG_CALL, REF);
    in(&x, 1, 150, 9);
    sends(&x, 200, 2, PID(9), KYMO_MSG_CALL, OTHER_REF);
    message(&x, 1, 300, KYMO_E_SEND, PID(9), PID(1), KYMO_MSG_REPLY, REF);
    message(&x, 1, 400, KYMO_E_SEND, PID(9), PID(2), KYMO_MSG_REPLY, OTHER_REF);
    in(&x, 0, 500, 1);
    out(&x, 0, 510, 1);
    in(&x, 0, 520, 2);
    analyse(&x);
    assert_int_equal(x.requests, 2);
    assert_int_equal(x.request[0].handled, START + 150);
    assert_int_equal(x.request[1].handled, START + 300);
    assert_int_equal(x.request[1].replied, START + 400);
    assert_int_equal(x.request[1].received, START + 520);
    size_t assumed = 0;
    for (size_t i = 0; i < x.mails; i++) {
        assumed += x.mail[i].assumed;
        assert_true(kymo_mail_waited(&x.mail[i]) == KYMO_NO_TIME || !x.mail[i].assumed);
    }
    assert_int_equal(assumed, 1);
    close_scene(&x);
}

/* Scheduling was not recorded. */
static void not_scheduled(void **state)
{
    (void)state;
    struct scene x;
    open_unreceived(&x);
    sends(&x, 50, 9, PID(1), KYMO_MSG_PLAIN, 0); /* both are known */
    sends(&x, 60, 1, PID(9), KYMO_MSG_PLAIN, 0);
    sends(&x, 100, 1, PID(9), KYMO_MSG_CALL, REF);
    message(&x, 1, 300, KYMO_E_SEND, PID(9), PID(1), KYMO_MSG_REPLY, REF);
    analyse(&x);
    assert_int_equal(x.requests, 1);
    assert_int_equal(x.request[0].ended, KYMO_REQ_REPLIED);
    assert_int_equal(x.request[0].replied, START + 300);
    close_scene(&x);
}

/* A request that may have been behind one from another node is not assigned to a callback by its place: only
 * its reply shows when it was handled. */
static void place_unknown(void **state)
{
    (void)state;
    struct scene x;
    open_unreceived(&x);
    uint32_t loop = tr_mfa(&x.t, tr_atom(&x.t, "gen_server"), tr_atom(&x.t, "loop"), 7);
    wm(&x, 1, 10, KYMO_E_OUT, PID(9), loop);
    sends(&x, 100, 1, PID(9), KYMO_MSG_CALL, REF);
    wm(&x, 1, 150, KYMO_E_IN, PID(9), loop);
    wm(&x, 1, 160, KYMO_E_CALL, PID(9), x.handle_call); /* for a client on another node */
    wm(&x, 1, 200, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    message(&x, 1, 210, KYMO_E_SEND, PID(9), KYMO_IDENT(KYMO_I_REF, 5), KYMO_MSG_REPLY, OTHER_REF);
    wm(&x, 1, 300, KYMO_E_CALL, PID(9), x.handle_call);
    wm(&x, 1, 350, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    message(&x, 1, 360, KYMO_E_SEND, PID(9), PID(1), KYMO_MSG_REPLY, REF);
    analyse(&x);
    for (size_t i = 0; i < x.requests; i++) {
        if (x.request[i].client == PID(1))
            assert_int_equal(x.request[i].handled, START + 300);
    }
    close_scene(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(waiting, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(busy, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(not_scheduled, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(place_unknown, make_dir, drop_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
