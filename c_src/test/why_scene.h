/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the tests of kymo_why.h: explains handmade recordings. For test files only.
 * Single-threaded.
 */
#ifndef WHY_SCENE_H
#define WHY_SCENE_H

#include "kymo_why.h"
#include "scene.h"

/* An answer is too large for the stack. To be freed with free(). */
static inline struct kymo_why_answer *new_answer(void)
{
    struct kymo_why_answer *answer = malloc(sizeof *answer);
    assert_non_null(answer);
    return answer;
}

/* Explains the time of PID(1) from START + at to START + at + ns, from the facts of that window or, without one,
 * from all facts. */
static inline void explain_from(struct scene *x, int64_t at, int64_t ns, bool window,
                                struct kymo_why_answer *answer)
{
    int64_t start = START + at;
    struct kymo_analysis_options o = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    char err[256] = "";
    struct kymo_why *w = kymo_why_new(x->r);
    assert_non_null(w);
    if (window)
        assert_true(kymo_why_window(w, start, start + ns));
    struct kymo_analysis_sink sinks[2] = {kymo_why_sink(w), sink_of(x)};
    assert_int_equal(kymo_analyse(x->r, &o, sinks, window ? 1 : 2, &x->res, err, sizeof err), 0);
    assert_int_equal(kymo_why_explain(w, PID(1), start, start + ns, answer), 0);
    assert_int_equal(answer->ns, ns);
    kymo_why_free(w);
}

/* The same. What lies outside makes no difference. */
static inline void explain_later(struct scene *x, int64_t at, int64_t ns, struct kymo_why_answer *answer)
{
    struct kymo_why_answer *alone = new_answer();
    open_recording(x);
    explain_from(x, at, ns, false, answer);
    explain_from(x, at, ns, true, alone);
    assert_int_equal(alone->n, answer->n);
    for (size_t i = 0; i < answer->n; i++) {
        const struct kymo_why_part *p = &alone->part[i], *q = &answer->part[i];
        assert_int_equal(p->cause, q->cause);
        assert_int_equal(p->process, q->process);
        assert_int_equal(p->ns, q->ns);
        assert_int_equal(p->mfa, q->mfa);
        assert_int_equal(p->blame, q->blame);
    }
    free(alone);
}

static inline void explain_first(struct scene *x, int64_t ns, struct kymo_why_answer *answer)
{
    explain_later(x, 0, ns, answer);
}

static inline void explain(struct scene *x, struct kymo_why_answer *answer)
{
    explain_first(x, 1000000, answer);
}

static inline const struct kymo_why_part *part(const struct kymo_why_answer *answer, uint8_t cause,
                                               uint64_t process)
{
    for (size_t i = 0; i < answer->n; i++) {
        if (answer->part[i].cause == cause && answer->part[i].process == process)
            return &answer->part[i];
    }
    return NULL;
}

/* A receive that timed out. */
static inline void timeout(struct scene *x, uint32_t slot, uint64_t at, uint64_t who)
{
    message(x, slot, at, KYMO_E_RECEIVE, who, KYMO_IDENT_NONE, KYMO_MSG_TIMEOUT, 0);
}

/* PID(1) calls PID(9), which begins to handle it and waits from 40000 on. */
static inline void calls_a_waiting_server(struct scene *x)
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
static inline void server_replies(struct scene *x, uint64_t at)
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

#endif
