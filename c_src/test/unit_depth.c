/* SPDX-License-Identifier: Apache-2.0
 *
 * Call trees from events with the depth of the stack. A random program, which knows its stack, is
 * compared with the shadow stack after each event; handmade recordings are compared with the spans of
 * the analysis.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kymo_stack.h"
#include "scene.h"

/* ---- a program that knows its stack ---- */

enum { POSITIONS = 40, CHAIN = 64, FUNCTIONS = 12, FIRST = 100 };

/* A place on the stack: the traced calls that were made there, each by a tail call of the one before. */
struct position {
    uint32_t words;      /* when the function began */
    uint32_t mfa[CHAIN]; /* traced calls that are open */
    bool expects[CHAIN]; /* its return_from is still to come */
    uint32_t n;
    bool to; /* a return_to follows the return */
};

struct program {
    uint64_t rng;
    struct position at[POSITIONS];
    uint32_t n;
    bool return_to; /* the process has this trace flag */
    struct kymo_stack st;
    struct kymo_facts facts;
    uint64_t events, tails, exceptions;
};

static uint32_t below(struct program *p, uint32_t n)
{
    p->rng = p->rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(p->rng >> 33) % n;
}

/* Every third function is not traced; of the others, the returns of every second are recorded. */
static bool is_traced(uint32_t f)
{
    return f % 3 != 0;
}

static bool has_returns(uint32_t f)
{
    return is_traced(f) && f % 2 == 0;
}

/* Without return_to only calls open frames whose own returns are recorded. */
static bool is_shown(const struct program *p, uint32_t f)
{
    return is_traced(f) && (p->return_to || has_returns(f));
}

/* The open calls of the shadow stack are those of the program. */
static void compare(const struct program *p)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        for (uint32_t j = 0; j < p->at[i].n; j++, k++) {
            assert_true(k < p->st.n);
            assert_int_equal(p->st.f[k].mfa, FIRST + p->at[i].mfa[j]);
            assert_int_equal(p->st.f[k].words, p->at[i].words);
            assert_int_equal(p->st.f[k].kind, KYMO_FRAME_CALL);
        }
    }
    assert_int_equal(k, p->st.n);
}

/* What is called here: a tail call if the position has a function already. */
static void begin(struct program *p, struct position *at, uint32_t f)
{
    if (!is_traced(f))
        return; /* no event: the traced call before seems to go on */
    while (at->n > 0 && !at->expects[at->n - 1])
        at->n--;
    if (is_shown(p, f)) {
        at->mfa[at->n] = f;
        at->expects[at->n++] = has_returns(f);
    }
    at->to = at->to || p->return_to;
    (void)kymo_stack_call(&p->st, &p->facts, FIRST + f, at->words, NULL, NULL);
    p->events++;
}

static void call(struct program *p, uint32_t f)
{
    struct position *at = &p->at[p->n];
    memset(at, 0, sizeof *at);
    at->words = (p->n > 0 ? at[-1].words : 1) + 1 + below(p, 9);
    p->n++;
    begin(p, at, f);
}

/* The events of the frames that tracing has put at this position, which is left. */
static void leave(struct program *p, uint32_t *to)
{
    struct position *at = &p->at[p->n - 1];
    while (at->n > 0) {
        bool reported = at->expects[at->n - 1];
        uint32_t f = at->mfa[--at->n];
        if (reported) {
            (void)kymo_stack_return_from(&p->st, &p->facts, FIRST + f, at->words, NULL, NULL);
            p->events++;
            while (at->n > 0 && !at->expects[at->n - 1])
                at->n--;
            compare(p);
        }
    }
    p->n--;
    if (at->to)
        *to = at->words;
}

/* Returns, or raises an exception that is caught `levels` further down. */
static void leave_to(struct program *p, uint32_t levels)
{
    uint32_t top = 0, to = 0;
    for (uint32_t i = 0; i < levels; i++) {
        leave(p, &to);
        top = to != 0 ? to : top;
    }
    if (top == 0)
        return;
    /* Between the beginning of the function that goes on and that of the last one left with a
     * return_to; functions without one may be in between. */
    uint32_t least = p->n > 0 ? p->at[p->n - 1].words : 0, most = p->at[p->n].words;
    (void)kymo_stack_return_to(&p->st, &p->facts, 0, least + below(p, most - least), NULL, NULL);
    p->events++;
}

static void step(struct program *p)
{
    uint32_t what = below(p, 10), f = below(p, FUNCTIONS);
    if (p->n == 0 || (what < 4 && p->n < POSITIONS)) {
        call(p, f);
    } else if (what < 7 && p->at[p->n - 1].n < CHAIN - 1) {
        begin(p, &p->at[p->n - 1], f);
        p->tails++;
    } else if (what < 9) {
        leave_to(p, 1);
    } else {
        leave_to(p, 1 + below(p, p->n));
        p->exceptions++;
    }
}

static void run_program(uint64_t seed, bool return_to)
{
    static struct program p;
    memset(&p, 0, sizeof p);
    p.rng = seed;
    p.return_to = return_to;
    kymo_facts_init(&p.facts);
    p.facts.return_to_seen = return_to;
    for (uint32_t f = 0; f < FUNCTIONS; f++) {
        if (has_returns(f))
            kymo_facts_returns(&p.facts, FIRST + f);
    }
    for (int i = 0; i < 20000; i++) {
        step(&p);
        compare(&p);
    }
    assert_true(p.events > 10000 && p.tails > 1000 && p.exceptions > 500);
    assert_int_equal(p.facts.pairs.count, 0);
    kymo_stack_free(&p.st);
    kymo_facts_free(&p.facts);
}

static void programs_with_return_to(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        run_program(seed, true);
}

static void programs_with_return_from(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        run_program(seed, false);
}

/* ---- recordings ---- */

/* A call or return of PID(1), at START + at, in thread `slot`. */
static void deep(struct scene *x, uint32_t slot, uint64_t at, unsigned id, uint32_t mfa, uint32_t depth)
{
    ts_deep(&x->s[slot], START + at, id, PID(1), mfa, depth);
}

static void calls(struct scene *x, uint64_t at, uint32_t mfa, uint32_t depth)
{
    deep(x, 0, at, KYMO_E_CALL_DEPTH, mfa, depth);
}

static void returns_to(struct scene *x, uint64_t at, uint32_t mfa, uint32_t depth)
{
    deep(x, 0, at, KYMO_E_RETURN_TO_DEPTH, mfa, depth);
}

static void expect_span(const struct kymo_span *s, uint32_t mfa, uint32_t caller, uint32_t depth,
                        uint8_t ended, int64_t total, int64_t self)
{
    assert_int_equal(s->mfa, mfa);
    assert_int_equal(s->caller, caller);
    assert_int_equal(s->depth, depth);
    assert_int_equal(s->ended, ended);
    assert_int_equal(kymo_since(s->start, s->end), total);
    assert_int_equal(s->self, self);
}

static void depths_are_read(void **state)
{
    static const uint32_t depths[] = {0, 1, 127, 128, 129, 65535, 65536, KYMO_DEPTH_MAX};
    static const unsigned ids[] = {KYMO_E_CALL_DEPTH, KYMO_E_RETURN_TO_DEPTH, KYMO_E_RETURN_FROM_DEPTH,
                                   KYMO_E_EXCEPTION_FROM_DEPTH};
    struct scene x;
    struct kymo_event ev;
    (void)state;
    open_scene(&x);
    for (size_t i = 0; i < 8; i++) {
        for (size_t k = 0; k < 4; k++)
            deep(&x, 0, 10 * i + k, ids[k], x.a, depths[i]);
    }
    wm(&x, 0, 1000, KYMO_E_CALL, PID(1), x.a);
    open_recording(&x);
    assert_int_equal(kymo_reader_rewind(x.r), 0);
    for (size_t i = 0; i < 8; i++) {
        for (size_t k = 0; k < 4; k++) {
            assert_int_equal(kymo_reader_next(x.r, &ev), 1);
            assert_int_equal(ev.id, KYMO_E_CALL + k);
            assert_int_equal(ev.mfa, x.a);
            assert_int_equal(ev.depth, depths[i]);
        }
    }
    assert_int_equal(kymo_reader_next(x.r, &ev), 1);
    assert_int_equal(ev.depth, KYMO_DEPTH_UNKNOWN);
    close_scene(&x);
}

/* a calls b, which ends by a tail call of handle_call. */
static void tail_call(void **state)
{
    struct scene x;
    (void)state;
    open_scene(&x);
    calls(&x, 100, x.a, 3);
    calls(&x, 120, x.b, 7);
    calls(&x, 130, x.handle_call, 7);
    returns_to(&x, 180, x.a, 4);
    returns_to(&x, 200, 0, 1);
    analyse(&x);
    assert_true(x.res.has_depths);
    assert_int_equal(x.spans, 3);
    expect_span(&x.span[0], x.b, x.a, 1, KYMO_SPAN_TAIL, 10, 10);
    expect_span(&x.span[1], x.handle_call, x.a, 1, KYMO_SPAN_RETURN, 50, 50);
    expect_span(&x.span[2], x.a, 0, 0, KYMO_SPAN_RETURN, 100, 40);
    close_scene(&x);
}

/* a and b call each other: with tail calls first, then without. */
static void mutual_recursion(void **state)
{
    struct scene x;
    (void)state;
    open_scene(&x);
    for (uint32_t i = 0; i < 4; i++)
        calls(&x, 100 + 10 * i, i % 2 == 0 ? x.a : x.b, 3);
    returns_to(&x, 140, 0, 1);
    for (uint32_t i = 0; i < 4; i++)
        calls(&x, 200 + 10 * i, i % 2 == 0 ? x.a : x.b, 3 + 300 * i);
    for (uint32_t i = 3; i > 0; i--)
        returns_to(&x, 270 - 10 * i, i % 2 == 0 ? x.b : x.a, 3 + 300 * i - 200);
    returns_to(&x, 300, 0, 1);
    analyse(&x);
    assert_int_equal(x.spans, 8);
    for (size_t i = 0; i < 4; i++)
        expect_span(&x.span[i], i % 2 == 0 ? x.a : x.b, 0, 0, i < 3 ? KYMO_SPAN_TAIL : KYMO_SPAN_RETURN, 10,
                    10);
    expect_span(&x.span[4], x.b, x.a, 3, KYMO_SPAN_RETURN, 10, 10);
    expect_span(&x.span[5], x.a, x.b, 2, KYMO_SPAN_RETURN, 30, 20);
    expect_span(&x.span[6], x.b, x.a, 1, KYMO_SPAN_RETURN, 50, 20);
    expect_span(&x.span[7], x.a, 0, 0, KYMO_SPAN_RETURN, 100, 50);
    assert_true(x.span[4].recursive && x.span[5].recursive);
    close_scene(&x);
}

/* An exception leaves b and handle_call, and an untraced function catches it, which has no return_to
 * that names an open call. */
static void exception_through_untraced(void **state)
{
    struct scene x;
    (void)state;
    open_scene(&x);
    calls(&x, 100, x.a, 3);
    calls(&x, 110, x.b, 20);
    calls(&x, 120, x.handle_call, 24);
    returns_to(&x, 150, 0, 12);
    calls(&x, 160, x.b, 20);
    returns_to(&x, 170, 0, 12);
    returns_to(&x, 200, 0, 1);
    analyse(&x);
    assert_int_equal(x.spans, 4);
    expect_span(&x.span[0], x.handle_call, x.b, 2, KYMO_SPAN_RETURN, 30, 30);
    expect_span(&x.span[1], x.b, x.a, 1, KYMO_SPAN_RETURN, 40, 10);
    expect_span(&x.span[2], x.b, x.a, 1, KYMO_SPAN_RETURN, 10, 10);
    expect_span(&x.span[3], x.a, 0, 0, KYMO_SPAN_RETURN, 100, 50);
    close_scene(&x);
}

static void exception_from(void **state)
{
    struct scene x;
    (void)state;
    open_scene(&x);
    calls(&x, 100, x.a, 3);
    calls(&x, 110, x.b, 20);
    deep(&x, 0, 120, KYMO_E_EXCEPTION_FROM_DEPTH, x.b, 20);
    deep(&x, 0, 130, KYMO_E_RETURN_FROM_DEPTH, x.a, 3);
    analyse(&x);
    assert_int_equal(x.spans, 2);
    expect_span(&x.span[0], x.b, x.a, 1, KYMO_SPAN_EXCEPTION, 10, 10);
    expect_span(&x.span[1], x.a, 0, 0, KYMO_SPAN_RETURN, 30, 20);
    close_scene(&x);
}

/* What was open at a loss has no end; what is called after it has exact times at once. */
static void loss(void **state)
{
    static const uint8_t lost[9] = {KYMO_LOST_RING_FULL, 5};
    struct scene x;
    (void)state;
    open_scene(&x);
    calls(&x, 100, x.a, 3);
    calls(&x, 110, x.b, 7);
    x.t.slots[0].lost[KYMO_LOST_RING_FULL] = 5;
    ts_record(&x.s[0], START + 120, KYMO_E_LOST, lost, sizeof lost, false);
    calls(&x, 130, x.b, 7);
    calls(&x, 140, x.handle_call, 7);
    calls(&x, 150, x.a, 9);
    returns_to(&x, 160, x.handle_call, 8);
    returns_to(&x, 180, x.a, 4);
    analyse(&x);
    assert_int_equal(x.spans, 5);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(x.span[i].end, KYMO_NO_TIME);
    expect_span(&x.span[2], x.b, 0, 0, KYMO_SPAN_TAIL, 10, 10);
    expect_span(&x.span[3], x.a, x.handle_call, 1, KYMO_SPAN_RETURN, 10, 10);
    expect_span(&x.span[4], x.handle_call, 0, 0, KYMO_SPAN_RETURN, 40, 30);
    close_scene(&x);
}

/* A callback that ends by a tail call: the request is handled until that call ends. */
static void request_handled_by_a_tail_call(void **state)
{
    struct scene x;
    (void)state;
    open_scene(&x);
    message(&x, 1, 10, KYMO_E_SEND, PID(2), PID(1), KYMO_MSG_CALL, 77);
    message(&x, 0, 20, KYMO_E_RECEIVE, PID(1), PID(2), KYMO_MSG_CALL, 77);
    calls(&x, 100, x.handle_call, 20);
    calls(&x, 110, x.a, 20);
    calls(&x, 120, x.b, 20);
    returns_to(&x, 190, 0, 9);
    message(&x, 0, 200, KYMO_E_SEND, PID(1), PID(2), KYMO_MSG_REPLY, 77);
    message(&x, 1, 210, KYMO_E_RECEIVE, PID(2), PID(1), KYMO_MSG_REPLY, 77);
    analyse(&x);
    assert_int_equal(x.spans, 3);
    assert_int_equal(x.requests, 1);
    assert_int_equal(x.request[0].handler, x.span[0].id);
    assert_int_equal(x.request[0].handler_mfa, x.handle_call);
    assert_int_equal(x.request[0].handled, (int64_t)START + 100);
    assert_int_equal(x.request[0].handled_end, (int64_t)START + 190);
    close_scene(&x);
}

#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_with_return_to),
        cmocka_unit_test(programs_with_return_from),
        T(depths_are_read),
        T(tail_call),
        T(mutual_recursion),
        T(exception_through_untraced),
        T(exception_from),
        T(loss),
        T(request_handled_by_a_tail_call),
    };
    return cmocka_run_group_tests_name("depth", tests, NULL, NULL);
}
