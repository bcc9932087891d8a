/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of exports of recordings that are complete only from the horizon on: calls, runs and messages
 * that were open then have no duration and no arrow. Thread 0 has all its segments; thread 1 has lost
 * the events that it recorded before the horizon.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "kymo_export.h"
#include "pf_check.h"
#include "testrec.h"

#define PID(n) KYMO_IDENT(KYMO_I_PID, n)

enum { THREADS = 3, MS = 1000000 };

static const uint64_t HORIZON = 10 * MS;

struct story {
    char dir[64], rec[96], out[96];
    struct testrec t;
    struct testseg s[THREADS];
    uint32_t m, f, g, name, reason;
    char *text; /* of the output */
    size_t len;
};

static int setup(void **state)
{
    struct story *x = calloc(1, sizeof *x);
    if (x == NULL)
        return -1;
    snprintf(x->dir, sizeof x->dir, "/tmp/kymo-horizon-XXXXXX");
    if (mkdtemp(x->dir) == NULL) {
        free(x);
        return -1;
    }
    snprintf(x->rec, sizeof x->rec, "%s/rec", x->dir);
    snprintf(x->out, sizeof x->out, "%s/out", x->dir);
    tr_init(&x->t);
    x->m = tr_atom(&x->t, "m");
    x->f = tr_mfa(&x->t, x->m, tr_atom(&x->t, "f"), 0);
    x->g = tr_mfa(&x->t, x->m, tr_atom(&x->t, "g"), 0);
    x->name = tr_atom(&x->t, "boss");
    x->reason = tr_atom(&x->t, "normal");
    ts_open(&x->s[0], &x->t, 0, 1, 2 * MS);
    ts_open(&x->s[1], &x->t, 1, 7, HORIZON);
    ts_after(&x->s[1], HORIZON, 1234);
    ts_open(&x->s[2], &x->t, 2, 1, 2 * MS);
    for (unsigned i = 0; i < THREADS; i++) {
        x->t.slots[i].used = 1;
        x->t.slots[i].thread_kind = KYMO_T_SCHEDULER;
        x->t.slots[i].thread_no = i + 1;
    }
    *state = x;
    return 0;
}

static int teardown(void **state)
{
    struct story *x = *state;
    tr_free(&x->t);
    free(x->text);
    tr_remove(x->rec);
    unlink(x->out);
    int rc = rmdir(x->dir);
    free(x);
    return rc;
}

/* ---- events, with times in microseconds ---- */

static void wm(struct story *x, unsigned thread, uint64_t us, unsigned id, unsigned who, uint32_t mfa)
{
    ts_wm(&x->s[thread], us * 1000, id, PID(who), mfa);
}

static void msg(struct story *x, unsigned thread, uint64_t us, unsigned id, unsigned who, unsigned peer)
{
    ts_send(&x->s[thread], us * 1000, id, PID(who), PID(peer), 3);
}

/* ---- export ---- */

typedef int export_fn(struct kymo_reader *, const struct kymo_export_options *, struct kymo_export_result *,
                      char *, size_t);

static struct kymo_export_result export_as(struct story *x, export_fn *f, bool all)
{
    struct kymo_export_options o = {.out = x->out, .from_ns = INT64_MIN, .to_ns = INT64_MAX, .all = all};
    struct kymo_export_result res;
    struct kymo_reader *r;
    struct stat st;
    char err[256] = "";
    if (kymo_reader_open(x->rec, &r, err, sizeof err) != 0 || f(r, &o, &res, err, sizeof err) != 0)
        fail_msg("%s", err);
    kymo_reader_close(r);
    if (stat(x->out, &st) != 0 || S_ISDIR(st.st_mode))
        return res;
    FILE *in = fopen(x->out, "rb");
    assert_non_null(in);
    free(x->text);
    x->len = (size_t)st.st_size;
    x->text = calloc(x->len + 1, 1);
    assert_int_equal(fread(x->text, 1, x->len, in), x->len);
    fclose(in);
    return res;
}

static void write_story(struct story *x)
{
    for (unsigned i = 0; i < THREADS; i++)
        tr_to_place(&x->t, &x->s[i], i);
    tr_write(&x->t, x->rec);
}

/* Slices as "name FROM+LENGTH", arrows as "> FROM+LENGTH", instants as "name@AT", all in
 * microseconds, in order of their ends. */
struct drawing {
    char text[8192];
    size_t n;
    int64_t begins[PF_TRACKS][16];
    unsigned depth[PF_TRACKS];
    bool alive; /* also the slices of process lifetimes */
};

static void say(struct drawing *d, const char *format, const char *name, int64_t a, int64_t b)
{
    if (d->n < sizeof d->text)
        d->n += (size_t)snprintf(d->text + d->n, sizeof d->text - d->n, format, name, a / 1000, b / 1000);
}

static void draw(void *arg, const struct pf_check *c, const struct pf_track *t, const struct pf_event *e)
{
    struct drawing *d = arg;
    size_t track = (size_t)(t - c->tracks);
    if (e->type == 1) {
        d->begins[track][d->depth[track]++] = e->ts;
    } else if (e->type == 2) {
        int64_t begin = d->begins[track][--d->depth[track]];
        if (d->alive || strcmp(e->name, "alive") != 0)
            say(d, "%s %ld+%ld, ", e->name, begin, e->ts - begin);
    } else if (strcmp(e->name, "send") != 0 && strcmp(e->name, "receive") != 0) {
        say(d, "%s@%ld, ", e->name, e->ts, 0);
    }
    for (unsigned i = 0; e->ends_flow != 0 && i < c->n_flows; i++) {
        if (c->open_flows[i].id == e->ends_flow)
            say(d, "%s %ld+%ld, ", ">", c->open_flows[i].ts, e->ts - c->open_flows[i].ts);
    }
}

static void expect_drawing(struct story *x, bool all, bool alive, const char *expected)
{
    struct drawing *d = calloc(1, sizeof *d);
    struct pf_check c = {.seen = draw, .arg = d};
    assert_non_null(d);
    d->alive = alive;
    export_as(x, kymo_export_perfetto, all);
    pf_check(&c, (const uint8_t *)x->text, x->len);
    if (c.error != NULL)
        fail_msg("%s", c.error);
    assert_string_equal(d->text, expected);
    pf_check_free(&c);
    free(d);
}

/* ---- calls ---- */

/* A process calls f, which returns and is called again on thread 1, and that call returns on thread
 * 0 after the horizon. It is not one call of seven milliseconds. */
static void a_call_that_moved(void **state)
{
    struct story *x = *state;
    wm(x, 0, 4000, KYMO_E_CALL, 1, x->f);
    wm(x, 0, 11000, KYMO_E_RETURN_FROM, 1, x->f);
    wm(x, 1, 12000, KYMO_E_CALL, 1, x->f);
    wm(x, 0, 12111, KYMO_E_RETURN_FROM, 1, x->f);
    write_story(x);
    expect_drawing(x, false, false, "m:f/0 12000+111, ");
    /* Older events are shown as instants, and change nothing else. */
    expect_drawing(x, true, false, "m:f/0@4000, m:f/0 12000+111, ");
    export_as(x, kymo_export_folded, false);
    assert_string_equal(x->text, "<0.1.0> 1000000\n<0.1.0>;m:f/0 111000\n");
}

/* With return_to, which has less information. */
static void a_stack_that_was_open(void **state)
{
    struct story *x = *state;
    wm(x, 0, 4000, KYMO_E_CALL, 1, x->f);
    wm(x, 0, 5000, KYMO_E_CALL, 1, x->g);
    wm(x, 1, 11000, KYMO_E_RETURN_TO, 1, x->f);
    wm(x, 0, 12000, KYMO_E_CALL, 1, x->g);
    wm(x, 1, 12010, KYMO_E_RETURN_TO, 1, x->f);
    wm(x, 0, 13000, KYMO_E_RETURN_TO, 1, 0);
    write_story(x);
    expect_drawing(x, false, false, "m:g/0 12000+10, ");
    expect_drawing(x, true, false, "m:f/0@4000, m:g/0@5000, m:g/0 12000+10, ");
}

/* Nothing is learnt from events before the horizon. Only there is a return_from of f, and without
 * one it is unknown when a call ends. */
static void nothing_is_learnt_from_before(void **state)
{
    struct story *x = *state;
    wm(x, 0, 4000, KYMO_E_CALL, 1, x->f);
    wm(x, 0, 5000, KYMO_E_RETURN_FROM, 1, x->f);
    wm(x, 0, 12000, KYMO_E_CALL, 1, x->f);
    write_story(x);
    expect_drawing(x, true, false, "m:f/0@4000, return_from@5000, m:f/0@12000, ");
}

/* ---- messages ---- */

/* A and B send each other one message. B's events up to the horizon are gone. */
static void ping_pong(void **state)
{
    struct story *x = *state;
    char expected[4096];
    size_t n = 0;
    for (unsigned us = 3000; us < 3000 + 60 * 288; us += 288) {
        msg(x, 0, us, KYMO_E_SEND, 1, 2);
        if (us + 100 > 10000)
            msg(x, 1, us + 100, KYMO_E_RECEIVE, 2, 1);
        if (us + 144 > 10000)
            msg(x, 1, us + 144, KYMO_E_SEND, 2, 1);
        msg(x, 0, us + 244, KYMO_E_RECEIVE, 1, 2);
        /* The first message that A receives after the horizon might have been sent before it. */
        if (us > 10000)
            n += (size_t)snprintf(expected + n, sizeof expected - n, "> %u+100, ", us);
        if (us + 144 > 10000 + 288)
            n += (size_t)snprintf(expected + n, sizeof expected - n, "> %u+100, ", us + 144);
    }
    write_story(x);
    expect_drawing(x, false, false, expected);
}

/* A sends fast and B is busy: half of the messages that B then receives were sent before the
 * horizon. */
static void under_way_at_the_horizon(void **state)
{
    struct story *x = *state;
    for (unsigned i = 0; i < 6; i++) /* three of them before the horizon */
        msg(x, 0, 9700 + i * 101, KYMO_E_SEND, 1, 2);
    for (unsigned i = 0; i < 6; i++)
        msg(x, 1, 12000 + i, KYMO_E_RECEIVE, 2, 1);
    wm(x, 1, 12010, KYMO_E_OUT, 2, x->f);
    msg(x, 0, 13000, KYMO_E_SEND, 1, 2);
    msg(x, 1, 13005, KYMO_E_RECEIVE, 2, 1);
    write_story(x);
    expect_drawing(x, false, false, "> 13000+5, ");
}

/* No earlier message can have been on its way to a process that is younger than the horizon. */
static void the_young_have_all_arrows(void **state)
{
    struct story *x = *state;
    uint64_t child = PID(3), parent = PID(1);
    uint8_t body[20];
    memcpy(body, &child, 8);
    memcpy(body + 8, &parent, 8);
    memcpy(body + 16, &x->f, 4);
    wm(x, 0, 11000, KYMO_E_RETURN_TO, 1, x->f);
    ts_record(&x->s[0], 12000 * 1000, KYMO_E_SPAWNED, body, sizeof body, false);
    msg(x, 0, 12001, KYMO_E_SEND, 1, 3);
    msg(x, 1, 12050, KYMO_E_RECEIVE, 3, 1);
    write_story(x);
    expect_drawing(x, false, false, "> 12001+49, ");
}

/* ---- lives ---- */

static void lives_begin_at_the_horizon(void **state)
{
    struct story *x = *state;
    uint64_t gone = PID(4);
    uint8_t exit_of[12];
    memcpy(exit_of, &gone, 8);
    memcpy(exit_of + 8, &x->reason, 4);
    wm(x, 0, 4000, KYMO_E_IN, 1, x->f); /* has earlier events, and is running */
    wm(x, 0, 5000, KYMO_E_CALL, 4, x->f);
    ts_record(&x->s[0], 6000 * 1000, KYMO_E_EXIT, exit_of, sizeof exit_of, false);
    wm(x, 0, 11000, KYMO_E_OUT, 1, x->f);
    wm(x, 0, 12000, KYMO_E_IN, 2, x->f); /* has no earlier events */
    wm(x, 0, 13000, KYMO_E_OUT, 2, x->f);
    write_story(x);
    expect_drawing(x, false, true, "<0.2.0> 12000+1000, alive 12000+1000, alive 10000+3000, ");
    assert_non_null(memmem(x->text, x->len, "before the horizon", 18));
    assert_non_null(memmem(x->text, x->len, "before its first event", 22));
    assert_null(memmem(x->text, x->len, "<0.4.0>", 7));
    expect_drawing(x, true, true,
                   "in@4000, m:f/0@5000, exit@6000, <0.2.0> 12000+1000, alive 12000+1000, "
                   "alive 10000+3000, ");
    assert_non_null(memmem(x->text, x->len, "<0.4.0>", 7));
}

/* ---- clocks ---- */

/* The clock of thread 2 had run ahead by 1.5 ms before the recorder noticed. No slice ends before
 * it begins, and no arrow goes backwards. */
static void between_clocks_that_differ(void **state)
{
    struct story *x = *state;
    x->t.meta.clock = KYMO_CLOCK_COUNTER;
    ts_open(&x->s[1], &x->t, 1, 1, 2 * MS);
    int64_t mono = MS / 2;
    memcpy(x->s[2].b + offsetof(struct kymo_segment, mono_ns), &mono, sizeof mono);
    wm(x, 0, 12000, KYMO_E_CALL, 1, x->f);
    wm(x, 2, 12050, KYMO_E_CALL, 1, x->g);
    wm(x, 2, 12080, KYMO_E_RETURN_FROM, 1, x->g);
    wm(x, 2, 12100, KYMO_E_RETURN_FROM, 1, x->f);
    msg(x, 0, 13000, KYMO_E_SEND, 1, 2);
    msg(x, 2, 13050, KYMO_E_RECEIVE, 2, 1);
    msg(x, 2, 14000, KYMO_E_SEND, 2, 1);
    msg(x, 0, 14050, KYMO_E_RECEIVE, 1, 2);
    write_story(x);
    expect_drawing(x, false, false, "m:g/0 12000+0, m:f/0 12000+0, > 12500+1550, ");
}

/* ---- losses ---- */

/* Thread 2 may have lost the end of the call and the receive of the message: the process may have
 * run there and moved back. */
static void lost_in_another_thread(void **state)
{
    struct story *x = *state;
    uint8_t body[9] = {KYMO_LOST_RING_FULL, 1};
    wm(x, 2, 11000, KYMO_E_CALL, 3, x->g);
    wm(x, 0, 12000, KYMO_E_CALL, 1, x->f);
    msg(x, 0, 13000, KYMO_E_SEND, 1, 2);
    msg(x, 0, 14000, KYMO_E_RECEIVE, 2, 1);
    wm(x, 0, 15000, KYMO_E_RETURN_FROM, 1, x->f);
    ts_record(&x->s[2], 13500 * 1000, KYMO_E_LOST, body, sizeof body, false);
    ts_record(&x->s[2], 20 * MS, KYMO_E_LOST, body, sizeof body, false);
    msg(x, 0, 21000, KYMO_E_SEND, 1, 2);
    msg(x, 0, 22000, KYMO_E_RECEIVE, 2, 1);
    write_story(x);
    expect_drawing(x, false, false,
                   "m:g/0@11000, events lost@13500, m:f/0 12000+3000, events lost@20000, > 21000+1000, ");
}

/* ---- the other formats ---- */

static void others_begin_there_too(void **state)
{
    struct story *x = *state;
    for (unsigned i = 0; i < 20; i++)
        wm(x, i % 2 == 0 ? 0 : 2, 1000 * (i + 2), KYMO_E_CALL, 1, x->f);
    write_story(x);
    assert_int_equal(export_as(x, kymo_export_dbg, false).written, 11);
    assert_int_equal(export_as(x, kymo_export_dbg, true).written, 20);
    export_as(x, kymo_export_folded, false);
    assert_string_equal(x->text, "<0.1.0> 10000000\n");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_call_that_moved),
        TEST(a_stack_that_was_open),
        TEST(nothing_is_learnt_from_before),
        TEST(ping_pong),
        TEST(under_way_at_the_horizon),
        TEST(the_young_have_all_arrows),
        TEST(lives_begin_at_the_horizon),
        TEST(between_clocks_that_differ),
        TEST(lost_in_another_thread),
        TEST(others_begin_there_too),
    };
    return cmocka_run_group_tests_name("horizon", tests, NULL, NULL);
}
