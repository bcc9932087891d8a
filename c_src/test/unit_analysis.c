/* SPDX-License-Identifier: Apache-2.0
 *
 * The analysis, over recordings made by hand whose facts are known.
 */
#include <errno.h>
#include <stdio.h>

#include "kymo_analysis.h"
#include "kymo_naming.h"
#include "kymo_why.h"
#include "reader_fixture.h"

#define PID(n) KYMO_IDENT(KYMO_I_PID, n)
#define START 2000000u /* of the segments */

enum { FACTS = 64 };

/* Two threads' records and the facts that come of them. */
struct scene {
    struct testrec t;
    struct testseg s[2];
    uint32_t a, b, handle_call;
    struct kymo_span span[FACTS];
    struct kymo_mail mail[FACTS];
    struct kymo_request request[FACTS];
    struct kymo_run run[FACTS];
    struct kymo_collection collection[FACTS];
    struct kymo_life life[FACTS];
    size_t spans, mails, requests, runs, collections, lives;
    struct kymo_analysis_result res;
    struct kymo_reader *r;
};

static void open_scene(struct scene *x)
{
    memset(x, 0, sizeof *x);
    tr_init(&x->t);
    uint32_t m = tr_atom(&x->t, "m");
    x->a = tr_mfa(&x->t, m, tr_atom(&x->t, "a"), 0);
    x->b = tr_mfa(&x->t, m, tr_atom(&x->t, "b"), 1);
    x->handle_call = tr_mfa(&x->t, m, tr_atom(&x->t, "handle_call"), 3);
    for (uint32_t i = 0; i < 2; i++) {
        x->t.slots[i].used = 1;
        x->t.slots[i].thread_kind = KYMO_T_SCHEDULER;
        x->t.slots[i].thread_no = i + 1;
        ts_open(&x->s[i], &x->t, i, 1, START);
    }
}

/* Records of thread `slot` at START + at. */
static void wm(struct scene *x, uint32_t slot, uint64_t at, unsigned id, uint64_t who, uint32_t mfa)
{
    ts_wm(&x->s[slot], START + at, id, who, mfa);
}

static void message(struct scene *x, uint32_t slot, uint64_t at, unsigned id, uint64_t who, uint64_t peer,
                    uint8_t kind, uint64_t ref)
{
    ts_message(&x->s[slot], START + at, id, who, peer, kind, ref);
}

static void gc(struct scene *x, uint32_t slot, uint64_t at, unsigned id, uint64_t who)
{
    uint8_t body[9] = {0};
    memcpy(body, &who, 8);
    ts_record(&x->s[slot], START + at, id, body, sizeof body, false);
}

static void atom(struct scene *x, uint32_t slot, uint64_t at, unsigned id, uint64_t who, uint32_t name)
{
    wm(x, slot, at, id, who, name); /* the same fields, other letters */
}

/* ---- facts ---- */

#define KEEP(name, type, array, count) \
    static void name(void *arg, const type *fact) \
    { \
        struct scene *x = arg; \
        assert_true(x->count < FACTS); \
        x->array[x->count++] = *fact; \
    }
KEEP(keep_span, struct kymo_span, span, spans)
KEEP(keep_mail, struct kymo_mail, mail, mails)
KEEP(keep_request, struct kymo_request, request, requests)
KEEP(keep_run, struct kymo_run, run, runs)
KEEP(keep_collection, struct kymo_collection, collection, collections)
KEEP(keep_life, struct kymo_life, life, lives)

static struct kymo_analysis_sink sink_of(struct scene *x)
{
    return (struct kymo_analysis_sink){.arg = x,
                                       .span = keep_span,
                                       .mail = keep_mail,
                                       .request = keep_request,
                                       .run = keep_run,
                                       .collection = keep_collection,
                                       .life = keep_life};
}

static void open_recording(struct scene *x)
{
    for (uint32_t i = 0; i < 2; i++) {
        ts_close(&x->s[i], true);
        tr_to_ring(&x->t, &x->s[i]);
    }
    x->r = open_it(&x->t);
}

static void analyse(struct scene *x)
{
    struct kymo_analysis_options o = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    struct kymo_analysis_sink sink = sink_of(x);
    char err[256] = "";
    open_recording(x);
    assert_int_equal(kymo_analyse(x->r, &o, &sink, 1, &x->res, err, sizeof err), 0);
}

static void close_scene(struct scene *x)
{
    kymo_reader_close(x->r);
    tr_free(&x->t);
}

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

static void unknown_stays_unknown(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    /* No in or out; one call that never ends; one without a return at all. */
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

/* What was open when another thread lost events may have ended there: it has no end, and
 * what is called later is not in it. */
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

/* A process that goes on elsewhere although its `out` is missing. */
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

/* Two clients ask a server, which handles one after the other. */
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

/* ---- why ---- */

/* The time of PID(1) from START to START + ns. */
static void explain_first(struct scene *x, int64_t ns, struct kymo_why_answer *answer)
{
    struct kymo_why *w = NULL;
    struct kymo_analysis_options o = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    char err[256] = "";
    open_recording(x);
    w = kymo_why_new(x->r);
    assert_non_null(w);
    struct kymo_analysis_sink sinks[2] = {sink_of(x), kymo_why_sink(w)};
    assert_int_equal(kymo_analyse(x->r, &o, sinks, 2, &x->res, err, sizeof err), 0);
    assert_int_equal(kymo_why_explain(w, PID(1), START, START + ns, answer), 0);
    assert_int_equal(answer->ns, ns);
    kymo_why_free(w);
}

static void explain(struct scene *x, struct kymo_why_answer *answer)
{
    explain_first(x, 1000000, answer);
}

static const struct kymo_why_part *part(const struct kymo_why_answer *answer, uint8_t cause, uint64_t process)
{
    for (size_t i = 0; i < answer->n; i++) {
        if (answer->part[i].cause == cause && answer->part[i].process == process)
            return &answer->part[i];
    }
    return NULL;
}

static void waits_for_a_server(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = malloc(sizeof *answer);
    assert_non_null(answer);
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

static void waits_in_a_mailbox(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = malloc(sizeof *answer);
    assert_non_null(answer);
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
    close_scene(&x);
    free(answer);
}

/* A server that waits for another one is busy, although its scheduler is not: the request
 * that comes then is there before the reply that wakes it. */
static void waits_for_a_waiting_server(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = malloc(sizeof *answer);
    assert_non_null(answer);
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
    close_scene(&x);
    free(answer);
}

/* A receive that has waited in vain. */
static void timeout(struct scene *x, uint32_t slot, uint64_t at, uint64_t who)
{
    message(x, slot, at, KYMO_E_RECEIVE, who, KYMO_IDENT_NONE, KYMO_MSG_TIMEOUT, 0);
}

/* PID(1) calls PID(9), which begins to handle it and waits from 40000 on. */
static void calls_a_waiting_server(struct scene *x)
{
    open_scene(x);
    wm(x, 0, 0, KYMO_E_IN, PID(1), x->a);
    message(x, 0, 10000, KYMO_E_SEND, PID(1), PID(9), KYMO_MSG_CALL, 77);
    wm(x, 0, 11000, KYMO_E_OUT, PID(1), x->a);
    wm(x, 0, 20000, KYMO_E_IN, PID(9), x->a);
    message(x, 0, 21000, KYMO_E_RECEIVE, PID(9), PID(1), KYMO_MSG_CALL, 77);
    wm(x, 0, 22000, KYMO_E_CALL, PID(9), x->handle_call);
    message(x, 0, 30000, KYMO_E_SEND, PID(9), PID(7), KYMO_MSG_PLAIN, 0);
    wm(x, 0, 40000, KYMO_E_OUT, PID(9), x->b);
}

/* The server goes on at `at` and replies, until at + 200000. */
static void server_replies(struct scene *x, uint64_t at)
{
    wm(x, 0, at, KYMO_E_RETURN_FROM, PID(9), x->handle_call);
    message(x, 0, at + 10000, KYMO_E_SEND, PID(9), PID(1), KYMO_MSG_REPLY, 77);
    wm(x, 0, at + 20000, KYMO_E_CALL, PID(9), x->handle_call);
    wm(x, 0, at + 30000, KYMO_E_RETURN_FROM, PID(9), x->handle_call);
    message(x, 0, at + 40000, KYMO_E_SEND, PID(9), PID(5), KYMO_MSG_REPLY, 55);
    wm(x, 0, at + 50000, KYMO_E_OUT, PID(9), x->a);
    wm(x, 0, at + 100000, KYMO_E_IN, PID(1), x->a);
    message(x, 0, at + 110000, KYMO_E_RECEIVE, PID(1), PID(9), KYMO_MSG_REPLY, 77);
    wm(x, 0, at + 200000, KYMO_E_OUT, PID(1), x->a);
}

/* PID(5) sends requests to the server that waits, of which it has a look at each. */
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

/* Others that send to a server that waits for one message are not what it waits for. */
static void bystanders_and_an_answer(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = malloc(sizeof *answer);
    assert_non_null(answer);
    calls_a_waiting_server(&x);
    wm(&x, 1, 35000, KYMO_E_IN, PID(7), x.b);
    disturb(&x, 200000, 55);
    disturb(&x, 400000, 56);
    /* One comes right after another. */
    wm(&x, 0, 406000, KYMO_E_IN, PID(9), x.b);
    message(&x, 0, 406100, KYMO_E_RECEIVE, PID(9), PID(5), KYMO_MSG_CALL, 58);
    wm(&x, 0, 408500, KYMO_E_OUT, PID(9), x.b);
    /* The last of them is there before the answer, and both are fetched together. */
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
    struct kymo_why_answer *answer = malloc(sizeof *answer);
    assert_non_null(answer);
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

/* A timeout ends a receive: what arrives after it is another wait. */
static void message_after_a_timeout(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = malloc(sizeof *answer);
    assert_non_null(answer);
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

/* A process that was scheduled out and in without a message waited for no timer. */
static void preempted_waits_for_no_timer(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = malloc(sizeof *answer);
    assert_non_null(answer);
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

/* Nor did one that looked for a message without waiting, and so had a timeout of 0. */
static void polling_waits_for_no_timer(void **state)
{
    (void)state;
    struct scene x;
    struct kymo_why_answer *answer = malloc(sizeof *answer);
    assert_non_null(answer);
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

/* Facts outside the windows are not kept, and are not needed for what is inside. */
static void windows(void **state)
{
    (void)state;
    enum { APART = 100000000 };
    struct scene x;
    struct kymo_analysis_options o = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    struct kymo_why_answer *answer = malloc(sizeof *answer);
    char err[256] = "";
    assert_non_null(answer);
    open_scene(&x);
    for (uint64_t at = 0; at <= 2 * APART; at += APART) {
        wm(&x, 0, at, KYMO_E_IN, PID(1), x.b);
        wm(&x, 0, at + 1000000, KYMO_E_OUT, PID(1), x.b);
    }
    open_recording(&x);
    struct kymo_why *w = kymo_why_new(x.r);
    assert_non_null(w);
    assert_true(kymo_why_window(w, START + 2 * APART, START + 2 * APART + 500000));
    assert_true(kymo_why_window(w, START, START + 1000000));
    struct kymo_analysis_sink sink = kymo_why_sink(w);
    assert_int_equal(kymo_analyse(x.r, &o, &sink, 1, &x.res, err, sizeof err), 0);
    assert_false(kymo_why_is_cut(w));
    for (uint64_t at = 0; at <= 2 * APART; at += APART) {
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
    struct kymo_why_answer *answer = malloc(sizeof *answer);
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

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        T(calls_nest),
        T(unknown_stays_unknown),
        T(lost_out),
        T(loss_ends_what_is_open),
        T(requests_are_paired),
        T(order_of_replies),
        T(open_and_dead),
        T(waits_for_a_server),
        T(waits_in_a_mailbox),
        T(waits_for_a_waiting_server),
        T(bystanders_and_an_answer),
        T(bystanders_and_a_timeout),
        T(message_after_a_timeout),
        T(preempted_waits_for_no_timer),
        T(polling_waits_for_no_timer),
        T(windows),
        T(explains_a_cast),
        T(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
