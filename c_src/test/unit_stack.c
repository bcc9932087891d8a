/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the shadow stack: each test is a line of events and the expected line of frames. Functions
 * are single letters.
 *
 *   fF  call F        rF  return_from F     tF  return_to F   t0  to undefined
 *   fF5 call F when the stack has 5 words, and so on
 *   m/M start/end of a minor collection     g/G of a major one
 *   x   exit          l   lost events      X   kymo_stack_learn_end
 *
 * The output is "F(" when a frame opens, and for each frame that ends ")", its name, and a letter for
 * the reason: r return_from, t return_to, T tail call, R tail call by the depths, l lost, e end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kymo_stack.h"

struct play {
    struct kymo_stack st;
    struct kymo_facts facts;
    char out[8192];
    size_t n;
    int open; /* opened and not ended: must never be negative, 0 at the end */
};

static void put(struct play *p, const char *s)
{
    size_t len = strlen(s);
    if (p->n + len + 1 < sizeof p->out) {
        memcpy(p->out + p->n, s, len + 1);
        p->n += len;
    }
}

static char frame_name(const struct kymo_frame *f)
{
    return f->kind == KYMO_FRAME_GC_MINOR ? 'm' : f->kind == KYMO_FRAME_GC_MAJOR ? 'g' : (char)f->mfa;
}

static void on_leave(void *arg, const struct kymo_frame *f, enum kymo_leave why)
{
    struct play *p = arg;
    char s[4] = {')', frame_name(f), "rtTlheR"[why], 0};
    put(p, s);
    p->open--;
    assert_true(p->open >= 0);
    assert_int_not_equal(f->kind, KYMO_FRAME_INFERRED);
    assert_int_equal((int)f->depth, p->open);
}

static void on_open(struct play *p, const struct kymo_frame *f)
{
    if (f != NULL) {
        char s[3] = {frame_name(f), '(', 0};
        put(p, s);
        assert_int_equal((int)f->depth, p->open);
        p->open++;
    }
}

static void play_init(struct play *p)
{
    memset(p, 0, sizeof *p);
    kymo_facts_init(&p->facts);
}

static void play_free(struct play *p)
{
    kymo_stack_clear(&p->st, NULL, NULL);
    kymo_facts_free(&p->facts);
}

/* The number after the letter at *e, if there is one; moves *e to its last digit. */
static uint32_t depth_at(const char **e)
{
    if ((*e)[1] < '0' || (*e)[1] > '9')
        return KYMO_DEPTH_UNKNOWN;
    char *end;
    unsigned long depth = strtoul(*e + 1, &end, 10);
    *e = end - 1;
    return (uint32_t)depth;
}

/* Plays the events; their output is in p->out. */
static void play(struct play *p, const char *events)
{
    struct kymo_stack *st = &p->st;
    p->n = 0;
    p->out[0] = 0;
    for (const char *e = events; *e != 0; e++) {
        char op = *e;
        uint32_t f = 0, depth = KYMO_DEPTH_UNKNOWN;
        if (op == 'f' || op == 'r' || op == 't') {
            f = *++e == '0' ? 0u : (uint32_t)*e;
            depth = depth_at(&e);
        }
        switch (op) {
        case ' ': break;
        case 'f': on_open(p, kymo_stack_call(st, &p->facts, f, depth, on_leave, p)); break;
        case 'r': kymo_stack_return_from(st, &p->facts, f, depth, on_leave, p); break;
        case 't': kymo_stack_return_to(st, &p->facts, f, depth, on_leave, p); break;
        case 'm': on_open(p, kymo_stack_gc_start(st, KYMO_FRAME_GC_MINOR, on_leave, p)); break;
        case 'g': on_open(p, kymo_stack_gc_start(st, KYMO_FRAME_GC_MAJOR, on_leave, p)); break;
        case 'M': kymo_stack_gc_end(st, KYMO_FRAME_GC_MINOR, on_leave, p); break;
        case 'G': kymo_stack_gc_end(st, KYMO_FRAME_GC_MAJOR, on_leave, p); break;
        case 'X': kymo_stack_learn_end(st, &p->facts); break;
        case 'h': kymo_stack_hibernate(st, on_leave, p); break;
        case 'x': kymo_stack_clear(st, on_leave, p); break;
        case 'l': kymo_stack_lost(st, st->loss_epoch + 1); break;
        default: fail_msg("bad event %c", *e);
        }
    }
}

static void expect_after(const char *lesson, const char *events, const char *out)
{
    struct play p;
    play_init(&p);
    play(&p, lesson);
    play(&p, "x");
    play(&p, events);
    assert_string_equal(p.out, out);
    play_free(&p);
}

static void expect(const char *events, const char *out)
{
    expect_after("", events, out);
}

/* Only return_to is known to be traced. */
static void expect_to(const char *events, const char *out)
{
    expect_after("tZ", events, out);
}

static void test_no_returns_no_frames(void **state)
{
    (void)state;
    expect("fAfBfC x", "");
}

static void test_return_from(void **state)
{
    (void)state;
    expect_after("rArB", "fA fB rB fB rB rA", "A(B()BrB()Br)Ar");
    /* Only functions known to return open frames. */
    expect_after("rA", "fA fB rA", "A()Ar");
    /* B's return is missing: it ends with A. */
    expect_after("rArB", "fA fB rA", "A(B()Bt)Ar");
    /* Recursion ends the innermost. */
    expect_after("rA", "fA fA fA rA rA rA", "A(A(A()Ar)Ar)Ar");
    /* A tail call under return_from keeps its caller open, as ERTS does. */
    expect_after("rArB", "fA fB fA fB rB rA rB rA", "A(B(A(B()Br)Ar)Br)Ar");
}

static void test_return_to(void **state)
{
    (void)state;
    expect_to("fA fB tA fB tA tX", "A(B()BtB()Bt)At");
    expect_to("fA fA fA tA tA tX", "A(A(A()At)At)At");
    /* A return to the bottom of the stack. */
    expect_to("fA fB t0", "A(B()Bt)At");
}

static void test_tail_call_ends_with_its_callee(void **state)
{
    (void)state;
    /* A calls B, B ends by a tail call of C, C returns to A. */
    expect_to("fA fB fC tA tX", "A(B(C()Ct)Bt)At");
    /* A tail-calls B, and an untraced function called A: as nothing is known, A has ended. */
    expect_to("fA fB tX", "A(B()Bt)At");
    expect_to("fA fB tX fA fB tX", "A(B()Bt)AtA(B()Bt)At");
}

static void test_tail_loop_does_not_nest(void **state)
{
    (void)state;
    /* Once known to be a loop of tail calls, each round ends the previous one. */
    expect_after("tZ fP fL fL fL tP", "fP fL fL fL tP", "P(L()LTL()LTL()Lt");
    expect_after("tZ fP fA fB fA fB tP", "fP fA fB fA fB fA tP", "P(A(B()BT)ATA(B()BT)ATA()At");
    /* Body recursion is not a loop. */
    expect_after("tZ fP fL fL fL tL tL tP", "fP fL fL fL tL tL tP", "P(L(L(L()Lt)Lt)Lt");
}

static void test_loop_that_never_returns(void **state)
{
    (void)state;
    /* A server: its loop is known by the calls that are open at the end. */
    expect_after("tZ fS fH tS fS fH tS fS fH tS fS X", "fS fH tS fS fH tS fS", "S(H()Ht)STS(H()Ht)STS(");
    /* ... or by a return to the bottom. */
    expect_after("tZ fS fH tS fS fH tS fS t0", "fS fH tS fS fH tS fS", "S(H()Ht)STS(H()Ht)STS(");
    /* Two functions that alternate. */
    expect_after("tZ fA fB fA fB fA X", "fA fB fA fB", "A(B()BT)ATA(B(");
    /* Recursion that is known to return to itself is not a loop. */
    expect_after("tZ fP fR fR fR tR tR tP fR fR fR fR X", "fR fR fR", "R(R(R(");
    /* Different functions are not a loop. */
    expect_after("tZ fA fB fC fD X", "fA fB fC fD", "A(B(C(D(");
}

static void test_endless_loop_stays_bounded(void **state)
{
    (void)state;
    struct play p;
    play_init(&p);
    play(&p, "tZ");
    for (int i = 0; i < 100000; i++) {
        play(&p, i % 2 == 0 ? "fA" : "fB");
        assert_true(p.st.calls <= KYMO_STACK_LOOP);
        assert_true(p.st.n <= KYMO_STACK_LOOP + 40);
    }
    play(&p, "x");
    assert_int_equal(p.open, 0);
    play_free(&p);
}

static void test_deep_recursion(void **state)
{
    (void)state;
    struct play p;
    play_init(&p);
    play(&p, "tZ fP fR fR fR tR tR tP tX");
    const unsigned deep = KYMO_STACK_MAX + 1000;
    play(&p, "fP");
    for (unsigned i = 0; i < deep; i++)
        play(&p, "fR");
    assert_int_equal(p.st.calls, KYMO_STACK_MAX);
    assert_int_equal(p.st.beyond, deep + 1 - KYMO_STACK_MAX);
    for (unsigned i = 0; i + 1 < deep; i++)
        play(&p, "tR");
    play(&p, "tP");
    assert_int_equal(p.open, 1);
    play(&p, "tX");
    assert_int_equal(p.open, 0);
    play_free(&p);
}

static void test_untraced_caller_stays(void **state)
{
    (void)state;
    /* A calls the untraced X (such as lists:map), which calls B again and again. A's own return
     * shows that A was still open; from then on this is known. */
    const char *lesson = "tZ fA fB tX fB tX tY";
    expect_after(lesson, "fA fB tX fB tX fB tX tY", "A(B()BtB()BtB()Bt)At");
    /* ... with an outer traced function too. */
    expect_after("tZ fO fA fB tX fB tX tO tY  fO fA fB tX fB tX tO tY  fO fA fB tX fB tX tO tY",
                 "fO fA fB tX fB tX tO fC tO tY", "O(A(B()BtB()Bt)AtC()Ct)Ot");
    /* ... whose call stays open when A is closed because nothing is known. */
    expect_after("tZ fO fA tO tY", "fO fA fB tX tO fC tO tY  fO fA fB tX tO tY",
                 "O(A(B()Bt)AtC()Ct)OtO(A(B()Bt)At)Ot");
    /* ... and through two functions that alternate, each with a tail call above. */
    expect_after("tZ fO fA fB fC tX fB fC tY fB fC tY tO tW", "fO fA fB fC tX fB fC tY fB fC tY tO tW",
                 "O(A(B(C()Ct)BtB(C()Ct)BtB(C()Ct)Bt)At)Ot");
    /* ... and with a tail call above: A calls X, X calls B, B ends with a tail call of C. */
    expect_after("tZ fO fA fB fC tX fB fC tX tO tY", "fO fA fB fC tX fB fC tX tO tY",
                 "O(A(B(C()Ct)BtB(C()Ct)Bt)At)Ot");
    /* What is known about A and B does not apply to A and C. */
    expect_after(lesson, "fA fC tX", "A(C()Ct)At");
}

static void test_tail_knowledge_wins_at_the_bottom(void **state)
{
    (void)state;
    /* H body-calls F and tail-calls B. The first round in a new process returns to a function
     * without a recorded call. */
    const char *lesson = "tZ fH fF tH fB tX fH fF tH fB tX fH fF tH fB tX";
    expect_after(lesson, "fH fF tH fB tX fH fF tH fB tX", "H(F()FtB()Bt)HtH(F()FtB()Bt)Ht");
}

static void test_return_to_unknown(void **state)
{
    (void)state;
    expect_to("tQ tR tQ fA tQ tR", "A()At");
    expect_to("fA t0 t0 t0", "A()At");
    /* Many different functions do not make the stack grow. */
    struct play p;
    play_init(&p);
    for (uint32_t i = 1; i < 10000; i++)
        kymo_stack_return_to(&p.st, &p.facts, 1000 + i, KYMO_DEPTH_UNKNOWN, NULL, NULL);
    assert_true(p.st.n <= 64);
    play_free(&p);
}

static void test_both_returns_for_one_frame(void **state)
{
    (void)state;
    const char *lesson = "tZ rArB";
    expect_after(lesson, "fA fB rB tA fB rB tA rA tX", "A(B()BrB()Br)Ar");
    /* The other order. */
    expect_after(lesson, "fA fB tA rB fB tA rB tX rA", "A(B()BtB()Bt)At");
    /* Recursion: the return_to must not end one frame more. */
    expect_after(lesson, "fA fA fA rA tA rA tA rA tX", "A(A(A()Ar)Ar)Ar");
    expect_after(lesson, "fA fA tA rA tX rA", "A(A()At)At");
    /* C has no return_from and ends with a tail call of B. */
    expect_after("tZ rB", "fA fC fB rB tA tX", "A(C(B()Br)Ct)At");
}

static void test_exception(void **state)
{
    (void)state;
    /* exception_from of each frame on the way, then return_to the catcher. */
    expect_after("tZ rArBrC", "fA fB fC rC rB tA rA tX", "A(B(C()Cr)Br)Ar");
    /* No exception_from at all: the catcher's return_to ends all of them. */
    expect_to("fA fB fC fD tA tX", "A(B(C(D()Dt)Ct)Bt)At");
    /* Neither exception_from nor return_to: the next return of an outer frame ends them. */
    expect_after("rArBrC", "fA fB fC rA", "A(B(C()Ct)Bt)Ar");
}

static void test_exit_with_open_frames(void **state)
{
    (void)state;
    expect_to("fA fB m x", "A(B(m()me)Be)Ae");
    expect_to("x x", "");
}

static void test_start_in_the_middle(void **state)
{
    (void)state;
    /* Returns of calls made before the recording. */
    expect_after("rArB", "rB rA fA rA rB", "A()Ar");
    expect_to("tB fC tB tA fC tA tX", "C()CtC()Ct");
    expect("M G", "");
}

static void test_lost_events(void **state)
{
    (void)state;
    /* The returns of C and B are lost. */
    expect_to("fA fB fC l tA fB tA tX", "A(B(C()Ct)BtB()Bt)At");
    /* The calls of C and B are lost. */
    expect_to("fA l tB tA tA fC tA tX", "A()AtC()Ct");
    /* Nothing is learnt from a stack with gaps: B still looks like a tail call. */
    expect_after("tZ fA fB l tX fB tX tY", "fA fB tX fB tX", "A(B()Bt)AtB()Bt");
    /* The end of a collection is lost. */
    expect_to("fA m fB M tA tX", "A(m()mlB()Bt)At");
}

static void test_gc(void **state)
{
    (void)state;
    expect_to("fA m M g G tX", "A(m()mrg()gr)At");
    expect_to("m g G M", "m()mlg()gr");
    expect_to("m G M", "m()mr");
}

/* Events in any order: frames are closed from the top, each once, and memory is bounded. */
static void test_random(void **state)
{
    (void)state;
    struct play p;
    play_init(&p);
    uint32_t seed = 12345;
    for (int i = 0; i < 300000; i++) {
        seed = seed * 1664525u + 1013904223u;
        char op[3] = {"fffrttmMgGlx"[(seed >> 16) % 12], (char)('A' + (seed >> 24) % 6), 0};
        if (strchr("frt", op[0]) == NULL)
            op[1] = 0;
        if (op[0] == 'x' && (seed >> 8) % 32 != 0)
            continue;
        play(&p, op);
        assert_true(p.st.calls <= KYMO_STACK_MAX);
        assert_int_equal(p.st.shown, (uint32_t)p.open);
    }
    play(&p, "x");
    assert_int_equal(p.open, 0);
    play_free(&p);
}

/* A process that hibernates has no stack: later calls have no caller, and do not return to earlier
 * ones. */
static void test_hibernation(void **state)
{
    (void)state;
    expect_after("t0", "fA fB tA h fC x", "A(B()Bt)AhC()Ce");
}

/* ---- events with the depth of the stack ---- */

static void test_depth_nests(void **state)
{
    (void)state;
    expect_to("fA3 fB7 tA4 fB7 tA4 tX1", "A(B()BtB()Bt)At");
    expect_to("fA3 fA7 fA11 tA9 tA5 tX1", "A(A(A()At)At)At");
    expect_to("fA3 fB7 t00", "A(B()Bt)At");
}

/* A tail call ends the call that it replaces, whatever is known about the two. */
static void test_depth_tail_call(void **state)
{
    (void)state;
    expect_to("fA3 fB7 fC7 tA4 tX1", "A(B()BRC()Ct)At");
    /* As return_to_undefined and untraced functions show nothing else. */
    expect_to("fA3 fB3 tX1 fA3 fB7 tA4 tX1", "A()ARB()BtA(B()Bt)At");
    /* The first call may be deeper than that which replaces it. */
    expect_to("fA3 fB9 fC7 tA4", "A(B()BtC()Ct");
    /* The same caller and callee in both ways, from the start. */
    expect_to("fA3 fB6 tA4 fB3 tX1", "A(B()Bt)ARB()Bt");
}

static void test_depth_loops(void **state)
{
    (void)state;
    expect_to("fP3 fL7 fL7 fL7 tP4", "P(L()LRL()LRL()Lt");
    /* Mutual recursion with tail calls, and without. */
    expect_to("fE3 fO3 fE3 fO3 tX1", "E()ERO()ORE()ERO()Ot");
    expect_to("fE3 fO6 fE9 fO12 tE10 tO7 tE4 tX1", "E(O(E(O()Ot)Et)Ot)Et");
    struct play p;
    play_init(&p);
    play(&p, "tZ1");
    for (int i = 0; i < 100000; i++) {
        play(&p, i % 2 == 0 ? "fA3" : "fB3");
        assert_int_equal(p.st.n, 1);
    }
    play_free(&p);
}

/* Without the depth, each of these is a guess. */
static void test_depth_through_untraced(void **state)
{
    (void)state;
    /* A calls an untraced X, which calls B again and again; A's callers are unknown. */
    expect_to("fA3 fB12 tX9 fB12 tX9 tY1", "A(B()BtB()Bt)At");
    /* A catches what an untraced function above it has caught from B and C. */
    expect_to("fA3 fB12 fC15 tX9 fD12 tX9 tA4 tY1", "A(B(C()Ct)BtD()Dt)At");
    /* The caller of A is older than the recording, and runs on. */
    expect_to("tQ7 tR5 fA9 tR5 fB9 fC12 tB10 tR5", "A()AtB(C()Ct)Bt");
}

static void test_depth_exceptions(void **state)
{
    (void)state;
    /* return_to the one that catches. */
    expect_to("fA3 fB7 fC11 fD15 tA4 fE7 tA4", "A(B(C(D()Dt)Ct)BtE()Et");
    /* exception_from of each. */
    expect_after("tZ1 rA1rB1rC1", "fA3 fB7 fC11 rC11 rB7 tA4 rA3 tX1", "A(B(C()Cr)Br)Ar");
    /* No event at all but the next call. */
    expect_after("rA1rC1", "fA3 fC7 fC11 fA5 rA5 rA3", "A(C(C()Ct)CtA()Ar)Ar");
    expect_to("fA3 fB7 fC11 fE5 tA4", "A(B(C()Ct)BtE()Et");
}

/* A call whose return is recorded stays open until then: the frame for its return stays on the
 * stack of the process. */
static void test_depth_return_from(void **state)
{
    (void)state;
    expect_after("rA1rB1", "fA3 fB7 rB7 fB7 rB7 rA3", "A(B()BrB()Br)Ar");
    expect_after("rA1rB1", "fA3 fB3 fA3 rA3 rB3 rA3", "A(B(A()Ar)Br)Ar");
    /* Only A's return is recorded. */
    expect_after("tZ1 rA1", "fA3 fB3 fC3 rA3 tX1", "A(B()BRC()Ct)Ar");
    /* Recursion ends the call at its depth. */
    expect_after("rA1", "fA3 fA6 fA9 rA6 rA3", "A(A(A()At)Ar)Ar");
    /* A call that is older than the recording. */
    expect_after("rA1rB1", "rA3 fB5 rA3 fB5 rB5", "B()BtB()Br");
    expect_after("tZ1 rA1", "fC3 rA3 fC3 tX1", "C()CtC()Ct");
    /* No frames for functions without returns. */
    expect_after("rA1", "fA3 fB5 fB5 rA3", "A()Ar");
    expect("fA3 fB7 fC11 x", "");
}

static void test_depth_both_returns(void **state)
{
    (void)state;
    const char *lesson = "tZ1 rA1rB1";
    expect_after(lesson, "fA3 fB7 rB7 tA4 fB7 rB7 tA4 rA3 tX1", "A(B()BrB()Br)Ar");
    expect_after(lesson, "fA3 fB7 tA4 rB7 fB7 tA4 rB7 tX1 rA3", "A(B()BtB()Bt)At");
}

static void test_depth_collections(void **state)
{
    (void)state;
    expect_to("fA3 mM fB7 mM fC7 gG tA4 mM tX1", "A(m()mrB(m()mr)BRC(g()gr)Ctm()mr)At");
    /* The end of the collection was lost. */
    expect_to("fA3 m fB7 tA4", "A(m()mlB()Bt");
}

/* After a loss, calls nest right at once, and a missing return ends with the next event at its depth. */
static void test_depth_losses(void **state)
{
    (void)state;
    expect_to("fA3 fB7 l fC7 tA4 fD7 tA4 tX1", "A(B()BRC()CtD()Dt)At");
    expect_to("fA3 fB7 l fC3 fD7 tC4 tX1", "A(B()Bt)ARC(D()Dt)Ct");
    expect_to("fA3 h fB3 fC5 tB4 t00", "A()AhB(C()Ct)Bt");
}

/* Calls without a depth, as from an older recorder in the same timeline, end with the next event
 * that has one. */
static void test_depth_mixed(void **state)
{
    (void)state;
    expect_to("fA3 fB fC5 tA4 tX1", "A(B()BtC()Ct)At");
}

static void test_depth_is_bounded(void **state)
{
    (void)state;
    struct play p;
    char call[32];
    play_init(&p);
    play(&p, "tZ1");
    for (unsigned i = 0; i < KYMO_STACK_MAX + 1000; i++) {
        snprintf(call, sizeof call, "fR%u", 3 + 2 * i);
        play(&p, call);
    }
    assert_int_equal(p.st.calls, KYMO_STACK_MAX);
    /* What was not kept needs no return. */
    play(&p, "tR100");
    assert_int_equal(p.open, 49);
    play(&p, "tX1");
    assert_int_equal(p.open, 0);
    play_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hibernation),
        cmocka_unit_test(test_no_returns_no_frames),
        cmocka_unit_test(test_return_from),
        cmocka_unit_test(test_return_to),
        cmocka_unit_test(test_tail_call_ends_with_its_callee),
        cmocka_unit_test(test_tail_loop_does_not_nest),
        cmocka_unit_test(test_loop_that_never_returns),
        cmocka_unit_test(test_endless_loop_stays_bounded),
        cmocka_unit_test(test_deep_recursion),
        cmocka_unit_test(test_untraced_caller_stays),
        cmocka_unit_test(test_tail_knowledge_wins_at_the_bottom),
        cmocka_unit_test(test_return_to_unknown),
        cmocka_unit_test(test_both_returns_for_one_frame),
        cmocka_unit_test(test_exception),
        cmocka_unit_test(test_exit_with_open_frames),
        cmocka_unit_test(test_start_in_the_middle),
        cmocka_unit_test(test_lost_events),
        cmocka_unit_test(test_gc),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_depth_nests),
        cmocka_unit_test(test_depth_tail_call),
        cmocka_unit_test(test_depth_loops),
        cmocka_unit_test(test_depth_through_untraced),
        cmocka_unit_test(test_depth_exceptions),
        cmocka_unit_test(test_depth_return_from),
        cmocka_unit_test(test_depth_both_returns),
        cmocka_unit_test(test_depth_collections),
        cmocka_unit_test(test_depth_losses),
        cmocka_unit_test(test_depth_mixed),
        cmocka_unit_test(test_depth_is_bounded),
    };
    return cmocka_run_group_tests_name("stack", tests, NULL, NULL);
}
