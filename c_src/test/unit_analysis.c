/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the analysis with handmade recordings whose facts are known.
 */
#include <stdio.h>

#include "kymo_lesson.h"
#include "kymo_naming.h"
#include "kymo_residents.h"
#include "scene.h"

/* ---- tests ---- */

static void calls_nest(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.a);
    wm(&x, 0, 100, KYMO_E_CALL, PID(1), x.a);
    wm(&x, 0, 200, KYMO_E_CALL, PID(1), x.b);
    gc(&x, 0, 210, KYMO_E_GC_MINOR_START, PID(1));
    gc(&x, 0, 240, KYMO_E_GC_MINOR_END, PID(1));
    wm(&x, 0, 250, KYMO_E_OUT, PID(1), x.b);
    wm(&x, 0, 350, KYMO_E_IN, PID(1), x.b);
    wm(&x, 0, 400, KYMO_E_RETURN_FROM, PID(1), x.b);
    wm(&x, 0, 500, KYMO_E_RETURN_FROM, PID(1), x.a);
    wm(&x, 0, 600, KYMO_E_OUT, PID(1), x.a);
    analyse(&x);
    assert_int_equal(x.spans, 2);
    const struct kymo_span *b = &x.span[0], *a = &x.span[1];
    assert_int_equal(b->mfa, x.b);
    assert_int_equal(b->parent, a->id);
    assert_int_equal(b->caller, x.a);
    assert_int_equal(b->depth, 1);
    assert_int_equal(b->end - b->start, 200);
    assert_int_equal(b->gc, 30);
    assert_int_equal(b->self, 170);
    assert_int_equal(b->running, 100);
    assert_int_equal(b->self_running, 70);
    assert_int_equal(a->end - a->start, 400);
    assert_int_equal(a->self, 200);
    assert_int_equal(a->running, 300);
    assert_int_equal(a->gc, 30);
    assert_int_equal(a->ended, KYMO_SPAN_RETURN);
    assert_int_equal(x.collections, 1);
    assert_int_equal(x.collection[0].span, b->id);
    assert_int_equal(x.runs, 2);
    assert_int_equal(x.run[1].waited, 100);
    assert_int_equal(x.lives, 1);
    assert_int_equal(x.life[0].running, 500);
    assert_int_equal(x.life[0].waiting, 100);
    close_scene(&x);
}

/* Runs the analysis over the recording once more, and collects its spans. */
static size_t spans_again(struct scene *x, struct kymo_lesson *lesson)
{
    struct kymo_analysis_options o = {.from_ns = INT64_MIN, .to_ns = INT64_MAX, .lesson = lesson};
    struct kymo_analysis_sink sink = {.arg = x, .span = keep_span};
    char err[256] = "";
    x->spans = 0;
    assert_int_equal(kymo_analyse(x->r, &o, &sink, 1, &x->res, err, sizeof err), 0);
    return x->spans;
}

static void lesson_is_kept(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_lesson lesson = {0};
    open_scene(&x);
    wm(&x, 0, 100, KYMO_E_CALL, PID(1), x.a);
    wm(&x, 0, 500, KYMO_E_RETURN_FROM, PID(1), x.a);
    open_recording(&x);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(spans_again(&x, i == 0 ? NULL : &lesson), 1);
        assert_int_equal(x.span[0].ended, KYMO_SPAN_RETURN);
        assert_int_equal(lesson.taken, i > 0);
    }
    /* Without what was learnt about a, it is unknown that the call ends. */
    kymo_map_free(&lesson.facts.returns);
    assert_int_equal(spans_again(&x, &lesson), 1);
    assert_int_equal(x.span[0].ended, KYMO_SPAN_MOMENT);
    assert_int_equal(lesson.facts.returns.count, 0); /* a run learns in a copy */
    kymo_facts_free(&lesson.facts);
    close_scene(&x);
}

static void unknown_stays_unknown(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    /* No in or out events, one call that never ends, one without return events. */
    wm(&x, 0, 50, KYMO_E_CALL, PID(1), x.handle_call);
    wm(&x, 0, 60, KYMO_E_RETURN_FROM, PID(1), x.handle_call);
    wm(&x, 0, 100, KYMO_E_CALL, PID(1), x.handle_call);
    wm(&x, 0, 200, KYMO_E_CALL, PID(1), x.b);
    analyse(&x);
    assert_int_equal(x.spans, 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(x.span[i].running == KYMO_NO_TIME);
    assert_int_equal(x.span[1].mfa, x.b);
    assert_int_equal(x.span[1].ended, KYMO_SPAN_MOMENT);
    assert_int_equal(x.span[2].ended, KYMO_SPAN_OPEN);
    assert_true(x.span[2].end == KYMO_NO_TIME && x.span[2].self == KYMO_NO_TIME);
    assert_true(x.life[0].running == KYMO_NO_TIME);
    close_scene(&x);
}

/* A call that was open when another thread lost events may have ended during the loss: it has no
 * end, and later calls are not nested in it. */
static void loss_ends_what_is_open(void **state)
{
    (void)state;
    struct scene x;
    uint8_t lost[9] = {KYMO_LOST_RING_FULL, 3};
    open_scene(&x);
    wm(&x, 0, 100, KYMO_E_CALL, PID(1), x.a);
    wm(&x, 0, 110, KYMO_E_CALL, PID(1), x.b);
    wm(&x, 1, 120, KYMO_E_CALL, PID(2), x.a);
    ts_record(&x.s[1], START + 150, KYMO_E_LOST, lost, sizeof lost, false);
    wm(&x, 0, 200, KYMO_E_RETURN_FROM, PID(1), x.b);
    wm(&x, 0, 210, KYMO_E_CALL, PID(1), x.handle_call);
    wm(&x, 0, 250, KYMO_E_RETURN_FROM, PID(1), x.handle_call);
    wm(&x, 0, 300, KYMO_E_RETURN_FROM, PID(1), x.a);
    wm(&x, 1, 310, KYMO_E_RETURN_FROM, PID(2), x.a);
    analyse(&x);
    assert_int_equal(x.spans, 4);
    for (size_t i = 0; i < 4; i++) {
        bool later = x.span[i].mfa == x.handle_call;
        assert_int_equal(x.span[i].ended, later ? KYMO_SPAN_RETURN : KYMO_SPAN_LOST);
        assert_true((x.span[i].end != KYMO_NO_TIME) == later);
        if (later)
            assert_true(x.span[i].end - x.span[i].start == 40 && x.span[i].parent == 0);
    }
    close_scene(&x);
}

static void budget(struct scene *x, uint64_t at, uint32_t what, uint32_t kind, uint32_t mfa)
{
    struct {
        uint64_t ticks;
        uint32_t what, kinds, mfa;
    } note = {START + at, what, kind < KYMO_KINDS ? 1u << kind : 0, mfa};
    tr_define(&x->t, KYMO_DICT_SHED, &note, KYMO_DICT_SHED_HDR + (kind < KYMO_KINDS ? 0 : 4));
    x->t.meta.shed++;
}

/* A budget sheds messages, callbacks and running events, and restores them: nothing that was open
 * at that time is matched with later events. */
static void left_out_by_a_budget(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    uint32_t m = tr_atom(&x.t, "m"), handle_cast = tr_mfa(&x.t, m, tr_atom(&x.t, "handle_cast"), 2);
    budget(&x, 500, KYMO_SHED, KYMO_KIND_RUNNING, 0);
    budget(&x, 500, KYMO_SHED, KYMO_KINDS, handle_cast);
    budget(&x, 600, KYMO_SHED, KYMO_KIND_MESSAGES, 0);
    budget(&x, 9000, KYMO_GIVEN_BACK, KYMO_KIND_RUNNING, 0);
    budget(&x, 9000, KYMO_GIVEN_BACK, KYMO_KINDS, handle_cast);
    budget(&x, 9000, KYMO_GIVEN_BACK, KYMO_KIND_MESSAGES, 0);
    /* Handled before anything is shed. Nothing was in the new mailbox before. */
    spawned(&x, 1, 90, PID(9), PID(1), x.a);
    message(&x, 0, 100, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CAST, 0);
    message(&x, 1, 110, KYMO_E_RECEIVE, PID(9), PID(1), KYMO_MSG_CAST, 0);
    wm(&x, 1, 120, KYMO_E_CALL, PID(9), handle_cast);
    wm(&x, 1, 150, KYMO_E_RETURN_FROM, PID(9), handle_cast);
    wm(&x, 0, 200, KYMO_E_IN, PID(1), x.a);
    wm(&x, 0, 300, KYMO_E_OUT, PID(1), x.a);
    /* Open when messages and callbacks begin to be missing: a cast that waits for its callback, one
     * that waits for its receiver, and a call without its reply. */
    message(&x, 0, 510, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CAST, 0);
    message(&x, 1, 520, KYMO_E_RECEIVE, PID(9), PID(1), KYMO_MSG_CAST, 0);
    message(&x, 0, 610, KYMO_E_SEND, PID(2), PID(9), KYMO_MSG_CAST, 0);
    message(&x, 0, 620, KYMO_E_SEND, PID(2), PID(9), KYMO_MSG_CALL, 77);
    /* Events of later calls and casts. */
    wm(&x, 1, 9100, KYMO_E_CALL, PID(9), handle_cast);
    wm(&x, 1, 9200, KYMO_E_RETURN_FROM, PID(9), handle_cast);
    message(&x, 1, 9300, KYMO_E_RECEIVE, PID(9), PID(2), KYMO_MSG_CAST, 0);
    wm(&x, 1, 9310, KYMO_E_CALL, PID(9), handle_cast);
    wm(&x, 1, 9320, KYMO_E_RETURN_FROM, PID(9), handle_cast);
    wm(&x, 0, 9400, KYMO_E_IN, PID(1), x.a);
    wm(&x, 0, 9500, KYMO_E_OUT, PID(1), x.a);
    analyse(&x);
    size_t handled = 0;
    for (size_t i = 0; i < x.requests; i++) {
        const struct kymo_request *q = &x.request[i];
        handled += q->handled != KYMO_NO_TIME && q->sent != KYMO_NO_TIME;
        assert_true(q->received == KYMO_NO_TIME);
        assert_true(q->handled == KYMO_NO_TIME || q->sent == KYMO_NO_TIME || q->handled - q->sent == 20);
    }
    assert_int_equal(handled, 1);
    for (size_t i = 0; i < x.mails; i++)
        assert_true(x.mail[i].fetched == KYMO_NO_TIME || x.mail[i].sent == KYMO_NO_TIME ||
                    x.mail[i].fetched - x.mail[i].sent == 10);
    assert_int_equal(x.runs, 2);
    assert_true(x.run[1].waited == KYMO_NO_TIME);
    close_scene(&x);
}

/* A process continues on another thread although its `out` event is missing. */
static void lost_out(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    wm(&x, 0, 0, KYMO_E_IN, PID(1), x.a);
    wm(&x, 0, 10, KYMO_E_CALL, PID(1), x.a);
    wm(&x, 0, 100, KYMO_E_IN, PID(2), x.a); /* so PID(1) does not run there any more */
    wm(&x, 1, 200, KYMO_E_IN, PID(1), x.a);
    wm(&x, 1, 300, KYMO_E_RETURN_FROM, PID(1), x.a);
    wm(&x, 1, 400, KYMO_E_OUT, PID(1), x.a);
    wm(&x, 0, 500, KYMO_E_OUT, PID(2), x.a);
    analyse(&x);
    assert_int_equal(x.spans, 1);
    assert_int_equal(x.span[0].end - x.span[0].start, 290);
    assert_true(x.span[0].running == KYMO_NO_TIME);
    assert_int_equal(x.runs, 3);
    assert_true(x.run[0].end == KYMO_NO_TIME);
    assert_true(x.run[1].waited == KYMO_NO_TIME);
    close_scene(&x);
}

/* Two clients send requests to a server, which handles them one after the other. */
static void two_requests(struct scene *x, bool callbacks)
{
    const uint64_t alias = KYMO_IDENT(KYMO_I_REF, 77);
    message(x, 0, 100, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CALL, 77);
    message(x, 0, 110, KYMO_E_SEND, PID(2), PID(9), KYMO_MSG_CALL, 88);
    message(x, 1, 120, KYMO_E_RECEIVE, PID(9), PID(1), KYMO_MSG_CALL, 77);
    message(x, 1, 121, KYMO_E_RECEIVE, PID(9), PID(2), KYMO_MSG_CALL, 88);
    if (callbacks)
        wm(x, 1, 130, KYMO_E_CALL, PID(9), x->handle_call);
    if (callbacks)
        wm(x, 1, 200, KYMO_E_RETURN_FROM, PID(9), x->handle_call);
    message(x, 1, 210, KYMO_E_SEND, PID(9), alias, KYMO_MSG_REPLY, 77);
    message(x, 0, 220, KYMO_E_RECEIVE, PID(1), PID(9), KYMO_MSG_REPLY, 77);
    if (callbacks)
        wm(x, 1, 230, KYMO_E_CALL, PID(9), x->handle_call);
    if (callbacks)
        wm(x, 1, 300, KYMO_E_RETURN_FROM, PID(9), x->handle_call);
    message(x, 1, 310, KYMO_E_SEND, PID(9), PID(2), KYMO_MSG_REPLY, 88);
    message(x, 0, 330, KYMO_E_RECEIVE, PID(2), PID(9), KYMO_MSG_REPLY, 88);
}

static void requests_are_paired(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    two_requests(&x, true);
    analyse(&x);
    assert_int_equal(x.requests, 2);
    const struct kymo_request *q = &x.request[1];
    assert_int_equal(x.request[0].client, PID(1));
    assert_int_equal(x.request[0].handled - x.request[0].sent, 30);
    assert_int_equal(q->client, PID(2));
    assert_int_equal(q->server, PID(9));
    assert_int_equal(q->ended, KYMO_REQ_REPLIED);
    assert_int_equal(q->fetched - q->sent, 11);
    assert_int_equal(q->handled - q->sent, 120);
    assert_int_equal(q->handled_end - q->sent, 190);
    assert_int_equal(q->replied - q->sent, 200);
    assert_int_equal(q->received - q->sent, 220);
    assert_int_equal(q->handler_mfa, x.handle_call);
    assert_false(q->inferred);
    assert_int_equal(x.mails, 4);
    for (size_t i = 0; i < 4; i++)
        assert_true(x.mail[i].sent != KYMO_NO_TIME);
    close_scene(&x);
}

static void order_of_replies(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    two_requests(&x, false);
    analyse(&x);
    assert_int_equal(x.requests, 2);
    assert_true(x.request[1].inferred);
    assert_int_equal(x.request[1].handled - x.request[1].sent, 100); /* the reply before */
    close_scene(&x);
}

/* Three messages that look the same. The send or the receive of the first is lost, and the receiver
 * takes the others in a different order. */
static void messages_by_number(void **state)
{
    (void)state;
    struct scene x;
    uint8_t lost[9] = {KYMO_LOST_RING_FULL, 1};
    open_scene(&x);
    numbered(&x, 0, 100, KYMO_E_SEND, PID(1), PID(9), 11, KYMO_MSG_PLAIN, 0);
    numbered(&x, 0, 110, KYMO_E_SEND, PID(1), PID(9), 12, KYMO_MSG_PLAIN, 0);
    numbered(&x, 0, 120, KYMO_E_SEND, PID(2), PID(9), 13, KYMO_MSG_PLAIN, 0);
    ts_record(&x.s[1], START + 130, KYMO_E_LOST, lost, sizeof lost, false);
    numbered(&x, 1, 140, KYMO_E_RECEIVE, PID(9), KYMO_IDENT_NONE, 12, KYMO_MSG_PLAIN, 0);
    numbered(&x, 1, 141, KYMO_E_RECEIVE, PID(9), KYMO_IDENT_NONE, 13, KYMO_MSG_PLAIN, 0);
    numbered(&x, 1, 142, KYMO_E_RECEIVE, PID(9), KYMO_IDENT_NONE, 14, KYMO_MSG_PLAIN, 0);
    taken(&x, 1, 200, PID(9), 13, 1);
    taken(&x, 1, 300, PID(9), 12, KYMO_PASSED_MANY);
    taken(&x, 1, 310, PID(9), 0, 0);
    taken(&x, 1, 320, PID(8), 14, 0); /* not its receiver */
    analyse(&x);
    assert_int_equal(x.mails, 4);
    assert_true(x.res.has_numbers && x.res.has_taken && !x.res.has_runnable);
    const struct kymo_mail *a = &x.mail[0], *b = &x.mail[1];
    assert_int_equal(a->from, PID(2));
    assert_int_equal(a->fetched - a->sent, 21);
    assert_int_equal(a->taken - a->sent, 80);
    assert_int_equal(kymo_mail_waited(a), 80);
    assert_int_equal(a->passed, 1);
    assert_true(a->exact);
    assert_int_equal(b->from, PID(1));
    assert_int_equal(b->fetched - b->sent, 30);
    assert_int_equal(b->taken - b->sent, 190);
    assert_int_equal(b->passed, KYMO_PASSED_MANY);
    for (size_t i = 2; i < 4; i++) {
        assert_int_equal(x.mail[i].taken, KYMO_NO_TIME);
        assert_true((x.mail[i].sent == KYMO_NO_TIME) != (x.mail[i].fetched == KYMO_NO_TIME));
    }
    close_scene(&x);
}

/* The callbacks of the server are not traced. It takes the second request first. */
static void requests_taken(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    numbered(&x, 0, 100, KYMO_E_SEND, PID(1), PID(9), 11, KYMO_MSG_CALL, 77);
    numbered(&x, 0, 110, KYMO_E_SEND, PID(2), PID(9), 12, KYMO_MSG_CALL, 88);
    numbered(&x, 1, 120, KYMO_E_RECEIVE, PID(9), PID(1), 11, KYMO_MSG_CALL, 77);
    numbered(&x, 1, 121, KYMO_E_RECEIVE, PID(9), PID(2), 12, KYMO_MSG_CALL, 88);
    taken(&x, 1, 150, PID(9), 12, 1);
    numbered(&x, 1, 210, KYMO_E_SEND, PID(9), PID(2), 13, KYMO_MSG_REPLY, 88);
    numbered(&x, 0, 220, KYMO_E_RECEIVE, PID(2), PID(9), 13, KYMO_MSG_REPLY, 88);
    taken(&x, 1, 230, PID(9), 11, 0);
    numbered(&x, 1, 310, KYMO_E_SEND, PID(9), PID(1), 14, KYMO_MSG_REPLY, 77);
    numbered(&x, 0, 330, KYMO_E_RECEIVE, PID(1), PID(9), 14, KYMO_MSG_REPLY, 77);
    analyse(&x);
    assert_int_equal(x.requests, 2);
    assert_int_equal(x.request[0].client, PID(2));
    assert_int_equal(x.request[0].handled - x.request[0].sent, 40);
    assert_int_equal(x.request[1].client, PID(1));
    assert_int_equal(x.request[1].handled - x.request[1].sent, 130);
    assert_false(x.request[0].inferred || x.request[1].inferred);
    close_scene(&x);
}

/* A callback handles the request that was taken last. */
static void callback_of_the_taken(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    numbered(&x, 0, 100, KYMO_E_SEND, PID(1), PID(9), 11, KYMO_MSG_CALL, 77);
    numbered(&x, 0, 110, KYMO_E_SEND, PID(2), PID(9), 12, KYMO_MSG_CALL, 88);
    numbered(&x, 1, 120, KYMO_E_RECEIVE, PID(9), PID(1), 11, KYMO_MSG_CALL, 77);
    numbered(&x, 1, 121, KYMO_E_RECEIVE, PID(9), PID(2), 12, KYMO_MSG_CALL, 88);
    wm(&x, 1, 130, KYMO_E_CALL, PID(9), x.handle_call); /* for a request whose events were lost */
    wm(&x, 1, 140, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    taken(&x, 1, 150, PID(9), 12, 1);
    wm(&x, 1, 160, KYMO_E_CALL, PID(9), x.handle_call);
    wm(&x, 1, 200, KYMO_E_RETURN_FROM, PID(9), x.handle_call);
    numbered(&x, 1, 210, KYMO_E_SEND, PID(9), PID(2), 13, KYMO_MSG_REPLY, 88);
    numbered(&x, 0, 220, KYMO_E_RECEIVE, PID(2), PID(9), 13, KYMO_MSG_REPLY, 88);
    analyse(&x);
    assert_int_equal(x.requests, 2);
    assert_int_equal(x.request[0].client, PID(2));
    assert_int_equal(x.request[0].handled - x.request[0].sent, 50);
    assert_int_equal(x.request[0].handled_end - x.request[0].sent, 90);
    assert_int_equal(x.request[1].handled, KYMO_NO_TIME);
    close_scene(&x);
}

static void times_in_run_queues(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    in_from_queue(&x, 0, 100, PID(1), x.a, KYMO_RUNNABLE_SPAWN, 30);
    out_for(&x, 0, 200, PID(1), x.a, KYMO_OUT_REDUCTIONS);
    in_from_queue(&x, 1, 250, PID(1), x.a, KYMO_RUNNABLE_OUT, 51); /* of another clock */
    out_for(&x, 1, 300, PID(1), x.b, KYMO_OUT_WAITING);
    wm(&x, 0, 400, KYMO_E_IN, PID(1), x.b);
    wm(&x, 0, 410, KYMO_E_OUT, PID(1), x.b);
    analyse(&x);
    assert_true(x.res.has_runnable);
    assert_int_equal(x.runs, 3);
    assert_int_equal(x.run[0].runnable, 30);
    assert_int_equal(x.run[0].by, KYMO_RUNNABLE_SPAWN);
    assert_int_equal(x.run[0].reason, KYMO_OUT_REDUCTIONS);
    assert_int_equal(x.run[1].runnable, 50);
    assert_int_equal(x.run[1].reason, KYMO_OUT_WAITING);
    assert_int_equal(x.run[2].runnable, KYMO_NO_TIME);
    assert_int_equal(x.run[2].by, KYMO_RUNNABLE_UNKNOWN);
    close_scene(&x);
}

static void open_and_dead(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    uint32_t reason = tr_atom(&x.t, "killed");
    message(&x, 0, 100, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CALL, 77);
    message(&x, 0, 110, KYMO_E_SEND, PID(2), PID(9), KYMO_MSG_CALL, 88);
    message(&x, 1, 120, KYMO_E_RECEIVE, PID(9), PID(1), KYMO_MSG_CALL, 77);
    message(&x, 0, 200, KYMO_E_RECEIVE, PID(1), PID(9), KYMO_MSG_DOWN, 77);
    atom(&x, 0, 300, KYMO_E_EXIT, PID(2), reason);
    analyse(&x);
    assert_int_equal(x.requests, 2);
    assert_int_equal(x.request[0].ended, KYMO_REQ_DOWN);
    assert_int_equal(x.request[0].received - x.request[0].sent, 100);
    assert_int_equal(x.request[1].ended, KYMO_REQ_GONE);
    assert_true(x.request[1].received == KYMO_NO_TIME);
    bool exited = false;
    for (size_t i = 0; i < x.lives; i++)
        exited = exited || (x.life[i].process == PID(2) && x.life[i].end == (int64_t)START + 300);
    assert_true(exited);
    close_scene(&x);
}

/* ---- names ---- */

static void names(void **state)
{
    (void)state;
    struct scene x;
    char text[256];
    uint32_t boss, elixir, run, init_p;
    open_scene(&x);
    boss = tr_atom(&x.t, "boss");
    elixir = tr_atom(&x.t, "Elixir.MyApp.Worker");
    run = tr_mfa(&x.t, elixir, tr_atom(&x.t, "run!"), 1);
    init_p = tr_mfa(&x.t, tr_atom(&x.t, "proc_lib"), tr_atom(&x.t, "init_p"), 5);
    uint8_t body[24];
    uint64_t who = PID(5), parent = PID(1);
    memcpy(body, &who, 8);
    memcpy(body + 8, &parent, 8);
    memcpy(body + 16, &init_p, 4);
    memcpy(body + 20, &run, 4);
    ts_record(&x.s[0], START + 10, KYMO_E_SPAWNED_PROC, body, sizeof body, false);
    atom(&x, 0, 20, KYMO_E_REGISTER, PID(6), boss);
    open_recording(&x);
    struct kymo_naming *n = kymo_naming_new(x.r);
    struct kymo_analysis_options o = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    struct kymo_analysis_sink sink = {.arg = n, .event = kymo_naming_event};
    assert_int_equal(kymo_analyse(x.r, &o, &sink, 1, &x.res, text, sizeof text), 0);
    assert_true(kymo_naming_elixir(n));
    kymo_name_process(n, PID(5), text, sizeof text);
    assert_string_equal(text, "<0.5.0> MyApp.Worker.run!/1");
    kymo_name_short(n, PID(6), text, sizeof text);
    assert_string_equal(text, "boss");
    kymo_name_function(n, x.a, text, sizeof text);
    assert_string_equal(text, ":m.a/0");
    kymo_name_short(n, PID(7), text, sizeof text);
    assert_string_equal(text, "<0.7.0>");
    assert_true(kymo_naming_role(n, PID(7)) == kymo_naming_role(n, PID(8)));
    assert_true(kymo_naming_role(n, PID(5)) != kymo_naming_role(n, PID(6)));
    kymo_naming_free(n);
    close_scene(&x);
}

/* Names that are not module names in Elixir are written as in Erlang. No control sequence of a
 * recording reaches the terminal. */
static void names_are_quoted(void **state)
{
    (void)state;
    static const struct {
        const char *module, *name;
    } all[] = {{"Elixir.MyApp.Worker_2", "MyApp.Worker_2"}, {"Elixir.\033]0;x\007", ":'Elixir.\\e]0;x\\007'"},
               {"Elixir.A\nB", ":'Elixir.A\\nB'"},          {"Elixir.A\177", ":'Elixir.A\\d'"},
               {"Elixir.A\302\233", ":'Elixir.A\\233'"},    {"Elixir.A B", ":'Elixir.A B'"}};
    enum { ALL = sizeof all / sizeof *all };
    struct scene x;
    char text[256], function[256];
    uint32_t module[ALL], mfa[ALL];
    open_scene(&x);
    for (int i = 0; i < ALL; i++) {
        module[i] = tr_atom(&x.t, all[i].module);
        mfa[i] = tr_mfa(&x.t, module[i], tr_atom(&x.t, "run"), 1);
        atom(&x, 0, 20 + (uint64_t)i, KYMO_E_REGISTER, PID(40 + (uint64_t)i), module[i]);
    }
    open_recording(&x);
    struct kymo_naming *n = kymo_naming_new(x.r);
    struct kymo_analysis_options o = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    struct kymo_analysis_sink sink = {.arg = n, .event = kymo_naming_event};
    assert_int_equal(kymo_analyse(x.r, &o, &sink, 1, &x.res, text, sizeof text), 0);
    for (int i = 0; i < ALL; i++) {
        kymo_name_module(n, module[i], text, sizeof text);
        assert_string_equal(text, all[i].name);
        snprintf(function, sizeof function, "%s.run/1", all[i].name);
        kymo_name_function(n, mfa[i], text, sizeof text);
        assert_string_equal(text, function);
        kymo_name_short(n, PID(40 + (uint64_t)i), text, sizeof text);
        assert_null(strpbrk(text, "\033\007\n\177"));
    }
    kymo_naming_free(n);
    close_scene(&x);
}

/* Processes 20 to 26 are described in the dictionary; 30 and 31 are spawned during the recording. */
static void names_of_relatives(void **state)
{
    (void)state;
    struct scene x;
    char text[256];
    open_scene(&x);
    uint32_t boss = tr_atom(&x.t, "boss");
    uint32_t apply = tr_mfa(&x.t, tr_atom(&x.t, "erlang"), tr_atom(&x.t, "apply"), 2);
    uint32_t supervisor = tr_mfa(&x.t, tr_atom(&x.t, "supervisor"), tr_atom(&x.t, "chan_sup"), 1);
    uint32_t init = tr_mfa(&x.t, tr_atom(&x.t, "chan"), tr_atom(&x.t, "init"), 1);
    uint32_t task = tr_mfa(&x.t, tr_atom(&x.t, "proc_lib"), tr_atom(&x.t, "init_p"), 5);
    uint64_t none = KYMO_IDENT_NONE, named = KYMO_IDENT(KYMO_I_ATOM, boss);
    tr_relatives(&x.t, PID(20), 0, supervisor, named, none);
    tr_relatives(&x.t, PID(21), 0, init, PID(20), none);
    tr_relatives(&x.t, PID(22), 0, apply, PID(21), none);
    tr_relatives(&x.t, PID(23), 0, apply, PID(22), none);
    tr_relatives(&x.t, PID(24), 0, task, named, PID(21));
    tr_relatives(&x.t, PID(25), 0, apply, PID(26), PID(99)); /* a cycle, and an unknown process */
    tr_relatives(&x.t, PID(26), 0, apply, PID(25), none);
    tr_relatives(&x.t, PID(27), 0, init, PID(28), none);
    tr_relatives(&x.t, PID(28), 0, supervisor, none, none);
    uint8_t body[20];
    for (uint64_t who = 30; who < 32; who++) {
        uint64_t ident = PID(who), parent = who == 30 ? PID(21) : PID(30);
        memcpy(body, &ident, 8);
        memcpy(body + 8, &parent, 8);
        memcpy(body + 16, &apply, 4);
        ts_record(&x.s[0], START + who, KYMO_E_SPAWNED, body, sizeof body, false);
    }
    atom(&x, 0, 40, KYMO_E_REGISTER, PID(30), tr_atom(&x.t, "worker"));
    open_recording(&x);
    struct kymo_naming *n = kymo_naming_new(x.r);
    struct kymo_analysis_options o = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    struct kymo_analysis_sink sink = {.arg = n, .event = kymo_naming_event};
    assert_int_equal(kymo_analyse(x.r, &o, &sink, 1, &x.res, text, sizeof text), 0);
    const struct {
        uint64_t pid;
        const char *name, *role;
    } all[] = {{20, "<0.20.0> supervisor:chan_sup/1 under boss", "supervisor:chan_sup/1"},
               {21, "<0.21.0> chan:init/1 under boss", "chan:init/1"},
               {22, "<0.22.0> erlang:apply/2 under chan:init/1", "erlang:apply/2 under chan:init/1"},
               {23, "<0.23.0> erlang:apply/2 under chan:init/1", "erlang:apply/2 under chan:init/1"},
               {24, "<0.24.0> proc_lib:init_p/5 for chan:init/1", "proc_lib:init_p/5 for chan:init/1"},
               {25, "<0.25.0> erlang:apply/2", "erlang:apply/2"},
               {27, "<0.27.0> chan:init/1 under supervisor:chan_sup/1", "chan:init/1"},
               {30, "<0.30.0> worker", "worker"},
               {31, "<0.31.0> erlang:apply/2 under worker", "erlang:apply/2 under worker"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_int_equal(kymo_name_process(n, PID(all[i].pid), text, sizeof text), strlen(all[i].name));
        assert_string_equal(text, all[i].name);
        kymo_name_role(n, PID(all[i].pid), text, sizeof text);
        assert_string_equal(text, all[i].role);
        kymo_name_short(n, PID(all[i].pid), text, sizeof text);
        assert_string_equal(text, all[i].role);
        /* Wherever the text is cut, it ends at the returned length. */
        for (size_t size = 1; size < 50; size++) {
            size_t len = kymo_name_process(n, PID(all[i].pid), text, size);
            assert_int_equal(len, strlen(text));
        }
    }
    assert_true(kymo_naming_role(n, PID(22)) == kymo_naming_role(n, PID(23)));
    assert_true(kymo_naming_role(n, PID(22)) != kymo_naming_role(n, PID(31)));
    assert_true(kymo_naming_role(n, PID(22)) != kymo_naming_role(n, PID(24)));
    kymo_naming_free(n);
    close_scene(&x);
}

static void keep_backlog(void *arg, const struct kymo_life *life)
{
    uint32_t *most = arg;
    if (life->process == PID(9) && life->mailbox_max > *most)
        *most = life->mailbox_max;
}

/* A server is forgotten to bound memory while a cast is in its queue and calls have no reply, and is
 * heard of again. */
static void forgotten_server(void **state)
{
    (void)state;
    enum { OTHERS = 2 * KYMO_RESIDENTS };
    struct scene x;
    open_scene(&x);
    uint32_t m = tr_atom(&x.t, "m"), handle_cast = tr_mfa(&x.t, m, tr_atom(&x.t, "handle_cast"), 2);
    message(&x, 0, 100, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CAST, 0);
    message(&x, 0, 110, KYMO_E_RECEIVE, PID(9), PID(1), KYMO_MSG_CAST, 0);
    message(&x, 0, 120, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CALL, 1);
    message(&x, 0, 130, KYMO_E_SEND, PID(2), PID(9), KYMO_MSG_CALL, 2);
    uint64_t at = 200, seq = 1;
    for (uint32_t i = 0; i < OTHERS; i++, at++) {
        if (x.s[0].len + 64 > TR_SEGMENT) {
            ts_close(&x.s[0], true);
            tr_to_data(&x.t, 1, &x.s[0], true);
            ts_open(&x.s[0], &x.t, 0, ++seq, START + at);
        }
        wm(&x, 0, at, KYMO_E_CALL, PID(100 + i), x.a);
    }
    wm(&x, 0, at, KYMO_E_CALL, PID(9), handle_cast);
    message(&x, 0, at + 10, KYMO_E_SEND, PID(9), PID(1), KYMO_MSG_REPLY, 1);
    message(&x, 0, at + 20, KYMO_E_SEND, PID(9), PID(2), KYMO_MSG_REPLY, 2);
    message(&x, 0, at + 30, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CALL, 3);
    ts_close(&x.s[0], true);
    ts_close(&x.s[1], true);
    tr_to_data(&x.t, 1, &x.s[0], true);
    x.r = open_it(&x.t);
    uint32_t backlog = 0;
    struct kymo_analysis_options o = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    struct kymo_analysis_sink sinks[] = {{.arg = &x, .request = keep_request},
                                         {.arg = &backlog, .life = keep_backlog}};
    char err[256] = "";
    assert_int_equal(kymo_analyse(x.r, &o, sinks, 2, &x.res, err, sizeof err), 0);
    assert_true(x.res.evicted > KYMO_RESIDENTS / 2);
    assert_int_equal(x.requests, 4);
    const struct kymo_request *cast = NULL;
    for (unsigned i = 0; i < 4; i++) {
        if (x.request[i].kind == KYMO_REQ_CAST)
            cast = &x.request[i];
    }
    assert_non_null(cast);
    assert_int_equal(cast->fetched - cast->sent, 10);
    assert_true(cast->handled == KYMO_NO_TIME);
    assert_int_equal(backlog, 2);
    close_scene(&x);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        T(calls_nest),
        T(lesson_is_kept),
        T(unknown_stays_unknown),
        T(lost_out),
        T(loss_ends_what_is_open),
        T(requests_are_paired),
        T(order_of_replies),
        T(open_and_dead),
        T(names),
        T(names_of_relatives),
        T(names_are_quoted),
        T(left_out_by_a_budget),
        T(forgotten_server),
        T(messages_by_number),
        T(requests_taken),
        T(callback_of_the_taken),
        T(times_in_run_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
