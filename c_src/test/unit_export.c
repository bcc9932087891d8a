/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the exporters with handmade recordings whose correct output is known.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "export_util.h"
#include "pf_check.h"
#include "testrec.h"

#define PID(n) KYMO_IDENT(KYMO_I_PID, n)

/* The records of one thread in the order written, and a folder for files. */
struct bench {
    char dir[64], rec[96], out[96];
    struct testrec t;
    struct testseg s;
    uint64_t now;
    uint32_t a, b, c, name, reason;
    char err[256];
    struct kymo_export_result res;
    char *text; /* contents of the output */
    size_t len;
};

static int setup(void **state)
{
    struct bench *x = calloc(1, sizeof *x);
    if (x == NULL)
        return -1;
    snprintf(x->dir, sizeof x->dir, "/tmp/kymo-export-XXXXXX");
    if (mkdtemp(x->dir) == NULL) {
        free(x);
        return -1;
    }
    snprintf(x->rec, sizeof x->rec, "%s/rec", x->dir);
    snprintf(x->out, sizeof x->out, "%s/out", x->dir);
    tr_init(&x->t);
    uint32_t m = tr_atom(&x->t, "m");
    x->a = tr_mfa(&x->t, m, tr_atom(&x->t, "a"), 0);
    x->b = tr_mfa(&x->t, m, tr_atom(&x->t, "b"), 1);
    x->c = tr_mfa(&x->t, m, tr_atom(&x->t, "c"), 2);
    x->name = tr_atom(&x->t, "boss");
    x->reason = tr_atom(&x->t, "normal");
    for (unsigned i = 0; i < 2; i++) {
        x->t.slots[i].used = 1;
        x->t.slots[i].thread_kind = KYMO_T_SCHEDULER;
        x->t.slots[i].thread_no = i + 1;
    }
    x->now = 2000000;
    ts_open(&x->s, &x->t, 0, 1, x->now);
    *state = x;
    return 0;
}

static int teardown(void **state)
{
    struct bench *x = *state;
    tr_free(&x->t);
    free(x->text);
    tr_remove(x->rec);
    unlink(x->out);
    int rc = rmdir(x->dir); /* fails if an exporter has left a file behind */
    free(x);
    return rc;
}

/* ---- records ---- */

static void at(struct bench *x, uint64_t dt)
{
    x->now += dt;
}

static void wm(struct bench *x, unsigned id, uint64_t who, uint32_t mfa)
{
    at(x, 10);
    ts_wm(&x->s, x->now, id, who, mfa);
}

static void msg(struct bench *x, unsigned id, uint64_t who, uint64_t peer, uint32_t size)
{
    at(x, 10);
    ts_send(&x->s, x->now, id, who, peer, size);
}

static void gc(struct bench *x, unsigned id, uint64_t who)
{
    uint8_t body[9];
    memcpy(body, &who, 8);
    body[8] = 0;
    at(x, 10);
    ts_record(&x->s, x->now, id, body, sizeof body, false);
}

static void lost(struct bench *x, uint64_t n)
{
    uint8_t body[9] = {KYMO_LOST_RING_FULL};
    memcpy(body + 1, &n, 8);
    at(x, 10);
    ts_record(&x->s, x->now, KYMO_E_LOST, body, sizeof body, false);
}

/* ---- export ---- */

typedef int export_fn(struct kymo_reader *, const struct kymo_export_options *, struct kymo_export_result *,
                      char *, size_t);

static int export_to(struct bench *x, export_fn *f, const char *out, bool wall)
{
    struct kymo_export_options o = {.out = out, .from_ns = INT64_MIN, .to_ns = INT64_MAX, .wall = wall};
    struct kymo_reader *r;
    x->err[0] = 0;
    assert_int_equal(kymo_reader_open(x->rec, &r, x->err, sizeof x->err), 0);
    int rc = f(r, &o, &x->res, x->err, sizeof x->err);
    kymo_reader_close(r);
    return rc;
}

static void load(struct bench *x)
{
    FILE *f = fopen(x->out, "rb");
    if (f == NULL)
        fail_msg("%s", x->out);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long len = ftell(f);
    if (len < 0 || fseek(f, 0, SEEK_SET) != 0)
        fail_msg("%s", x->out);
    x->len = (size_t)len;
    free(x->text);
    x->text = calloc(x->len + 1, 1);
    assert_int_equal(fread(x->text, 1, x->len, f), x->len);
    fclose(f);
}

static void write_recording(struct bench *x)
{
    ts_close(&x->s, true);
    tr_to_data(&x->t, 1, &x->s, true);
    tr_write(&x->t, x->rec);
}

static void export(struct bench *x, export_fn *f, bool wall)
{
    write_recording(x);
    assert_int_equal(export_to(x, f, x->out, wall), 0);
    load(x);
    assert_int_equal(x->len, x->res.bytes);
}

/* The contents of a Perfetto trace as text: one word per event. */
struct story {
    char text[4096];
    size_t n;
};

static void tell(void *arg, const struct pf_check *c, const struct pf_track *t, const struct pf_event *e)
{
    struct story *s = arg;
    (void)c;
    (void)t;
    if (strcmp(e->name, "alive") != 0 && s->n < sizeof s->text)
        s->n +=
            (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, "%s%s%s%s%s",
                             e->type == 2 ? ")" : e->name, e->type == 1 ? "(" : "", e->flow != 0 ? ">" : "",
                             e->ends_flow != 0 ? "<" : "", e->type == 2 ? "" : " ");
}

static void expect_story(struct bench *x, const char *story, uint64_t flows)
{
    struct story s = {.n = 0};
    struct pf_check c = {.seen = tell, .arg = &s};
    export(x, kymo_export_perfetto, false);
    pf_check(&c, (const uint8_t *)x->text, x->len);
    if (c.error != NULL)
        fail_msg("%s", c.error);
    assert_string_equal(s.text, story);
    assert_int_equal(c.flows, flows);
    assert_int_equal(x->res.written, c.begins + c.instants);
    pf_check_free(&c);
}

/* ---- perfetto ---- */

static void test_perfetto_calls(void **state)
{
    struct bench *x = *state;
    wm(x, KYMO_E_RETURN_TO, PID(9), x->a);
    wm(x, KYMO_E_CALL, PID(1), x->a);
    wm(x, KYMO_E_CALL, PID(1), x->b);
    gc(x, KYMO_E_GC_MINOR_START, PID(1));
    gc(x, KYMO_E_GC_MINOR_END, PID(1));
    wm(x, KYMO_E_RETURN_TO, PID(1), x->a);
    gc(x, KYMO_E_GC_MAJOR_END, PID(1)); /* its start was lost */
    wm(x, KYMO_E_CALL, PID(1), x->c);   /* never returns */
    expect_story(x, "m:a/0( m:b/1( minor gc( ))m:c/2( ))", 0);
}

/* The duration of the newest slice that has ended. */
struct slice {
    int64_t begun, lasted;
};

static void tell_slice(void *arg, const struct pf_check *c, const struct pf_track *t,
                       const struct pf_event *e)
{
    struct slice *s = arg;
    (void)c;
    (void)t;
    if (strncmp(e->name, "<0.1.0>", 7) != 0)
        return;
    if (e->type == 1)
        s->begun = e->ts;
    else if (e->type == 2)
        s->lasted = e->ts - s->begun;
}

static void expect_last_run(struct bench *x, int64_t ns)
{
    struct slice s = {0, -1};
    struct pf_check c = {.seen = tell_slice, .arg = &s};
    export(x, kymo_export_perfetto, false);
    pf_check(&c, (const uint8_t *)x->text, x->len);
    assert_null(c.error);
    assert_int_equal(s.lasted, ns);
    pf_check_free(&c);
}

static void test_perfetto_open_at_the_end(void **state)
{
    struct bench *x = *state;
    wm(x, KYMO_E_IN, PID(1), 0);
    wm(x, KYMO_E_OUT, PID(1), 0);
    wm(x, KYMO_E_IN, PID(1), 0);
    at(x, 500);
    wm(x, KYMO_E_EXIT, PID(3), x->reason);
    expect_last_run(x, 510);
}

static void test_perfetto_calls_without_returns_are_instants(void **state)
{
    struct bench *x = *state;
    wm(x, KYMO_E_CALL, PID(1), x->a);
    wm(x, KYMO_E_CALL, PID(1), x->b);
    expect_story(x, "m:a/0 m:b/1 ", 0);
}

/* The slices of slow calls: the place of the track, name and time. */
static void tell_slow(void *arg, const struct pf_check *c, const struct pf_track *t, const struct pf_event *e)
{
    struct story *s = arg;
    if (strcmp(t->name, "slow calls") == 0 && s->n < sizeof s->text)
        s->n += (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, "%d%s%s%lld ", (int)(t - c->tracks),
                                 e->type == 1 ? e->name : "", e->type == 2 ? ")" : "(",
                                 (long long)e->ts - 2000000);
}

static void test_perfetto_slow_calls(void **state)
{
    struct bench *x = *state;
    struct story s = {.n = 0};
    struct pf_check c = {.seen = tell_slow, .arg = &s};
    ts_slow(&x->s, x->now + 200, PID(1), x->a, 100, 30);
    ts_slow(&x->s, x->now + 300, PID(1), x->a, 100, 30);
    ts_slow(&x->s, x->now + 400, PID(1), x->b, 299, 20); /* contains both, and seems to begin in the first */
    ts_slow(&x->s, x->now + 450, PID(2), x->c, 10, UINT32_MAX);
    ts_slow(&x->s, x->now + 500, PID(1), x->a, 50, 30);         /* after them */
    ts_slow(&x->s, x->now + 600, PID(1), x->c, UINT64_MAX, 10); /* damaged: began before any clock */
    export(x, kymo_export_perfetto, false);
    pf_check(&c, (const uint8_t *)x->text, x->len);
    if (c.error != NULL)
        fail_msg("%s", c.error);
    assert_string_equal(s.text, "2m:a/0(100 2)200 2m:a/0(200 2)300 3m:b/1(101 3)400 5m:c/2(440 5)450 "
                                "2m:a/0(450 2)500 6m:c/2(-2000000 6)600 ");
    assert_int_equal(x->res.written, c.begins + c.instants);
    pf_check_free(&c);
}

/* Calls that nest deeper than there are tracks are instants. */
static void test_perfetto_slow_calls_are_bounded(void **state)
{
    enum { CALLS = 100, TRACKS = 64 };
    struct bench *x = *state;
    struct pf_check c = {.error = NULL};
    for (uint64_t i = 0; i < CALLS; i++)
        ts_slow(&x->s, x->now + 1000 + i, PID(1), x->a, 10 + 2 * i, UINT32_MAX);
    export(x, kymo_export_perfetto, false);
    pf_check(&c, (const uint8_t *)x->text, x->len);
    if (c.error != NULL)
        fail_msg("%s", c.error);
    assert_int_equal(c.begins, TRACKS + 1); /* and its life */
    assert_int_equal(c.instants, CALLS - TRACKS);
    pf_check_free(&c);
}

static void test_perfetto_schedulers(void **state)
{
    struct bench *x = *state;
    wm(x, KYMO_E_OUT, PID(1), x->a); /* began before the recording */
    wm(x, KYMO_E_IN, PID(1), x->a);
    wm(x, KYMO_E_OUT, PID(1), x->b);
    wm(x, KYMO_E_IN, PID(1), x->b); /* its out is lost */
    wm(x, KYMO_E_IN, PID(2), x->b);
    wm(x, KYMO_E_OUT, PID(1), x->b);
    expect_story(x, "<0.1.0>( )<0.1.0>( )<0.2.0>( )", 0);
}

static void test_perfetto_messages(void **state)
{
    struct bench *x = *state;
    tr_process(&x->t, PID(3), x->name, 0);
    msg(x, KYMO_E_SEND, PID(1), PID(2), 3);
    msg(x, KYMO_E_SEND, PID(1), PID(2), 5);
    msg(x, KYMO_E_RECEIVE, PID(2), PID(1), 3);
    msg(x, KYMO_E_RECEIVE, PID(2), PID(1), 5);
    /* To a registered name, before any event of its process. */
    msg(x, KYMO_E_SEND, PID(1), KYMO_IDENT(KYMO_I_ATOM, x->name), 7);
    msg(x, KYMO_E_RECEIVE, PID(3), PID(1), 7);
    /* To an alias. */
    msg(x, KYMO_E_SEND, PID(2), KYMO_IDENT(KYMO_I_REF, 4711), 9);
    msg(x, KYMO_E_RECEIVE, PID(1), PID(2), 9);
    /* The sender is not recorded, but only this one is possible. */
    msg(x, KYMO_E_SEND, PID(1), PID(2), 11);
    msg(x, KYMO_E_RECEIVE, PID(2), KYMO_IDENT_NONE, 11);
    expect_story(x, "send> send> receive< receive< send> receive< send> receive< send> receive< ", 5);
}

static void test_perfetto_no_doubtful_arrow(void **state)
{
    struct bench *x = *state;
    /* Both senders are possible: no arrow, and the next message has the right one again. */
    msg(x, KYMO_E_SEND, PID(1), PID(3), 3);
    msg(x, KYMO_E_SEND, PID(2), PID(3), 3);
    msg(x, KYMO_E_RECEIVE, PID(3), KYMO_IDENT_NONE, 3);
    msg(x, KYMO_E_RECEIVE, PID(3), KYMO_IDENT_NONE, 3);
    /* A receive without a recorded send. */
    msg(x, KYMO_E_SEND, PID(1), PID(3), 4);
    msg(x, KYMO_E_RECEIVE, PID(3), PID(1), 8);
    msg(x, KYMO_E_RECEIVE, PID(3), PID(1), 4);
    /* The receive of 5 is lost: 6 still gets its send. */
    msg(x, KYMO_E_SEND, PID(1), PID(3), 5);
    msg(x, KYMO_E_SEND, PID(1), PID(3), 6);
    msg(x, KYMO_E_RECEIVE, PID(3), PID(1), 6);
    /* After a loss, earlier sends are not matched. */
    msg(x, KYMO_E_SEND, PID(1), PID(3), 2);
    lost(x, 17);
    msg(x, KYMO_E_RECEIVE, PID(3), PID(1), 2);
    at(x, 100000);
    gc(x, KYMO_E_GC_MINOR_END, PID(1)); /* releases the held records */
    expect_story(x,
                 "send> send> receive< send> receive< send> send> receive< send> events lost "
                 "receive receive receive ",
                 3);
}

static void test_perfetto_early_receive_is_clamped(void **state)
{
    struct bench *x = *state;
    msg(x, KYMO_E_RECEIVE, PID(2), PID(1), 3);
    msg(x, KYMO_E_SEND, PID(1), PID(2), 3); /* stamped 10 ns later */
    /* Too late to be the same message. */
    msg(x, KYMO_E_RECEIVE, PID(2), PID(1), 4);
    at(x, 1000000);
    msg(x, KYMO_E_SEND, PID(1), PID(2), 4);
    expect_story(x, "send> receive< receive send> ", 1);
}

static void test_perfetto_lives(void **state)
{
    struct bench *x = *state;
    uint8_t spawned[20], gone[12];
    uint64_t child = PID(2), parent = PID(1);
    memcpy(spawned, &child, 8);
    memcpy(spawned + 8, &parent, 8);
    memcpy(spawned + 16, &x->a, 4);
    memcpy(gone, &child, 8);
    memcpy(gone + 8, &x->reason, 4);
    wm(x, KYMO_E_RETURN_TO, PID(1), x->c);
    for (int i = 0; i < 2; i++) { /* the pid is used again */
        at(x, 10);
        ts_record(&x->s, x->now, KYMO_E_SPAWNED, spawned, sizeof spawned, false);
        wm(x, KYMO_E_CALL, child, x->a);
        wm(x, KYMO_E_CALL, child, x->b);
        at(x, 10);
        ts_record(&x->s, x->now, KYMO_E_EXIT, gone, sizeof gone, false);
        wm(x, KYMO_E_OUT_EXITED, child, 0); /* a late message of the exited process */
        wm(x, KYMO_E_CALL, child, x->c);    /* ... and one that is too late */
    }
    expect_story(x, "m:a/0( m:b/1( ))m:c/2( )m:a/0( m:b/1( ))m:c/2( )", 0);
}

/* A content after the base fields of a record. */
static void content(struct bench *x, unsigned id, const void *base, size_t n, unsigned flags, const char *etf,
                    size_t len)
{
    uint8_t body[256];
    memcpy(body, base, n);
    body[n] = (uint8_t)flags;
    body[n + 1] = (uint8_t)len;
    body[n + 2] = 0;
    memcpy(body + n + KYMO_CONTENT_HDR, etf, len);
    at(x, 10);
    ts_record(&x->s, x->now, id | KYMO_HAS_CONTENT, body, n + KYMO_CONTENT_HDR + len, false);
}

/* Each argument is a term; the list of arguments is not one. */
static void test_perfetto_arguments(void **state)
{
    struct bench *x = *state;
    uint64_t who = PID(1);
    uint8_t call[12], other[12];
    memcpy(call, &who, 8);
    memcpy(other, &who, 8);
    memcpy(other + 8, &x->name, 4);
    memcpy(call + 8, &x->b, 4);
    content(x, KYMO_E_CALL, call, 12, 0, "k\0\1\n", 4);
    memcpy(call + 8, &x->c, 4);
    content(x, KYMO_E_CALL, call, 12, 0, "l\0\0\0\2k\0\1!a\x21j", 12);
    content(x, KYMO_E_CALL, call, 12, KYMO_C_CUT, "l\0\0\0\1a\7w\3...", 12);
    content(x, KYMO_E_CALL, call, 12, KYMO_C_CUT, "w\3...", 5);
    content(x, KYMO_E_OTHER, other, 12, 0, "l\0\0\0\1a\x23j", 8);
    content(x, KYMO_E_OTHER, other, 12, 0, "l\0\0\0\1a\x24k\0\1%", 11);
    expect_story(x, "m:b/1 m:c/2 m:c/2 m:c/2 other other ", 0);
    static const char *const texts[] = {"(10)",
                                        "(\"!\", 33)",
                                        "(7, '...') (cut)",
                                        "'...' (cut)",
                                        "\x02"
                                        "35",
                                        "\x02"
                                        "36",
                                        "\x03\"%\""};
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (memmem(x->text, x->len, texts[i], strlen(texts[i])) == NULL)
            fail_msg("no %s", texts[i]);
    }
    assert_null(memmem(x->text, x->len, "\\n", 2));
    assert_null(memmem(x->text, x->len, "\"#\"", 3));
}

/* ---- folded ---- */

static void test_folded_scheduled(void **state)
{
    struct bench *x = *state;
    tr_process(&x->t, PID(1), x->name, 0);
    wm(x, KYMO_E_IN, PID(1), x->a);
    wm(x, KYMO_E_CALL, PID(1), x->a); /* boss 10 */
    wm(x, KYMO_E_CALL, PID(1), x->b); /* a 10 */
    wm(x, KYMO_E_OUT, PID(1), x->b);  /* b 10 */
    at(x, 1000);
    wm(x, KYMO_E_IN, PID(1), x->b);
    gc(x, KYMO_E_GC_MINOR_START, PID(1));  /* b 10 */
    gc(x, KYMO_E_GC_MINOR_END, PID(1));    /* gc 10 */
    wm(x, KYMO_E_RETURN_TO, PID(1), x->a); /* b 10 */
    wm(x, KYMO_E_OUT, PID(1), x->a);       /* a 10 */
    export(x, kymo_export_folded, false);
    assert_string_equal(x->text,
                        "boss 10\nboss;m:a/0 20\nboss;m:a/0;m:b/1 30\nboss;m:a/0;m:b/1;(minor gc) 10\n");
    assert_int_equal(x->res.written, 4);
    assert_int_equal(export_to(x, kymo_export_folded, x->out, true), 0);
    load(x);
    assert_string_equal(x->text,
                        "boss 10\nboss;m:a/0 20\nboss;m:a/0;m:b/1 1040\nboss;m:a/0;m:b/1;(minor gc) 10\n");
}

static void test_folded_by_wall_without_running(void **state)
{
    struct bench *x = *state;
    wm(x, KYMO_E_CALL, PID(7), x->a);
    wm(x, KYMO_E_CALL, PID(7), x->b);
    wm(x, KYMO_E_RETURN_TO, PID(7), x->a);
    wm(x, KYMO_E_RETURN_TO, PID(7), x->c);
    export(x, kymo_export_folded, false);
    assert_string_equal(x->text, "<0.7.0>;m:a/0 20\n<0.7.0>;m:a/0;m:b/1 10\n");
}

static void test_folded_lost_out(void **state)
{
    struct bench *x = *state;
    /* Process 2 runs on the thread, so 1 does not, although its `out` event is missing. */
    wm(x, KYMO_E_IN, PID(1), 0);
    wm(x, KYMO_E_IN, PID(2), 0);
    at(x, 500);
    wm(x, KYMO_E_OUT, PID(2), 0);
    export(x, kymo_export_folded, false);
    assert_string_equal(x->text, "<0.2.0> 510\n");
}

/* A process that is still running at the end counts if it has been scheduled out before. */
static void test_folded_open_at_the_end(void **state)
{
    struct bench *x = *state;
    wm(x, KYMO_E_IN, PID(1), 0);
    wm(x, KYMO_E_OUT, PID(1), 0);
    wm(x, KYMO_E_IN, PID(1), 0);
    at(x, 500);
    wm(x, KYMO_E_EXIT, PID(3), x->reason);
    export(x, kymo_export_folded, false);
    assert_string_equal(x->text, "<0.1.0> 520\n");
}

static void test_folded_newborn_at_the_end(void **state)
{
    struct bench *x = *state;
    wm(x, KYMO_E_IN, PID(2), 0);
    wm(x, KYMO_E_CALL, PID(2), x->a); /* <0.2.0> 10 */
    msg(x, KYMO_E_SEND, PID(2), PID(3), 1);
    at(x, 500);
    wm(x, KYMO_E_EXIT, PID(3), x->reason);
    export(x, kymo_export_folded, false);
    assert_string_equal(x->text, "<0.2.0> 10\n");
}

/* ---- dbg ---- */

static void test_dbg_bytes(void **state)
{
    struct bench *x = *state;
    x->t.meta.creation = 3;
    wm(x, KYMO_E_CALL, PID(5), x->b);
    lost(x, UINT64_C(0x100000001));
    export(x, kymo_export_dbg, false);
    static const char expected[] = "\0\0\0\0\x36\x83h\4w\5trace"
                                   "Xw\15nonode@nohost\0\0\0\5\0\0\0\0\0\0\0\3"
                                   "w\4call"
                                   "h\3w\1mw\1ba\1"
                                   "\1\xff\xff\xff\xff\1\0\0\0\2";
    assert_int_equal(x->len, sizeof expected - 1);
    assert_memory_equal(x->text, expected, sizeof expected - 1);
}

/* {Start, Duration}: 1,000,705 and 300. */
static void test_dbg_slow(void **state)
{
    struct bench *x = *state;
    x->t.meta.creation = 3;
    x->t.meta.t0_erl_ns = 5;
    at(x, 1000);
    ts_slow(&x->s, x->now, PID(5), x->b, 300, 7);
    export(x, kymo_export_dbg, false);
    static const char expected[] = "\0\0\0\0\x42\x83h\5w\5trace"
                                   "Xw\15nonode@nohost\0\0\0\5\0\0\0\0\0\0\0\3"
                                   "w\4slow"
                                   "h\3w\1mw\1ba\1"
                                   "h\2b\0\x0f\x45\1b\0\0\1\x2c";
    assert_int_equal(x->len, sizeof expected - 1);
    assert_memory_equal(x->text, expected, sizeof expected - 1);
}

/* A damaged count does not make the output fill the disk. */
static void test_dbg_bounds_drops(void **state)
{
    struct bench *x = *state;
    lost(x, UINT64_MAX);
    lost(x, 1);
    export(x, kymo_export_dbg, false);
    assert_int_equal(x->len, 5 * 65537);
    assert_memory_equal(x->text + x->len - 10, "\1\xff\xff\xff\xff\1\0\0\0\1", 10);
}

/* ---- ctf ---- */

static void remove_ctf(const char *dir)
{
    static const char *const names[] = {"metadata", "dictionary", "thread_0000", "thread_0001"};
    char path[512];
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(dir), 0);
}

static void test_ctf_files(void **state)
{
    struct bench *x = *state;
    wm(x, KYMO_E_CALL, PID(5), x->b);
    write_recording(x);
    assert_int_equal(export_to(x, kymo_export_ctf, x->out, false), 0);
    assert_int_equal(x->res.events, 1);
    /* The segment is copied unchanged except for its header. */
    char path[128];
    snprintf(path, sizeof path, "%s/thread_0000", x->out);
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        fail_msg("%s", path);
    uint8_t bytes[TR_SEGMENT];
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_int_equal(n, x->s.len);
    assert_memory_equal(bytes + KYMO_SEG_HEADER, x->s.b + KYMO_SEG_HEADER, n - KYMO_SEG_HEADER);
    /* A folder that is not empty is never changed. */
    assert_int_equal(export_to(x, kymo_export_ctf, x->out, false), -EEXIST);
    remove_ctf(x->out);
    /* An empty folder is used. */
    assert_int_equal(mkdir(x->out, 0700), 0);
    assert_int_equal(export_to(x, kymo_export_ctf, x->out, false), 0);
    remove_ctf(x->out);
}

/* ---- window, filter, errors ---- */

static bool keep_pid_1(void *arg, const struct kymo_reader *r, const struct kymo_event *ev)
{
    (void)r;
    ++*(int *)arg;
    return ev->who == PID(1);
}

static void test_window_and_filter(void **state)
{
    struct bench *x = *state;
    for (unsigned i = 0; i < 10; i++)
        wm(x, KYMO_E_IN, PID(i % 2), 0);
    write_recording(x);
    /* The recording starts at 1,000,000; the records have the times 2,000,010 and later. */
    int asked = 0;
    struct kymo_export_options o = {
        .out = x->out, .from_ns = 1000020, .to_ns = 1000070, .keep = keep_pid_1, .keep_arg = &asked};
    struct kymo_reader *r;
    assert_int_equal(kymo_reader_open(x->rec, &r, x->err, sizeof x->err), 0);
    assert_int_equal(kymo_export_dbg(r, &o, &x->res, x->err, sizeof x->err), 0);
    kymo_reader_close(r);
    assert_int_equal(asked, 6);
    assert_int_equal(x->res.events, 3);
    assert_int_equal(x->res.written, 3);
}

static export_fn *const streams[] = {kymo_export_perfetto, kymo_export_folded, kymo_export_dbg};

static void test_errors_leave_nothing(void **state)
{
    struct bench *x = *state;
    wm(x, KYMO_E_IN, PID(1), 0);
    wm(x, KYMO_E_OUT, PID(1), 0);
    write_recording(x);
    char missing[128];
    snprintf(missing, sizeof missing, "%s/none/out", x->dir);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(export_to(x, streams[i], missing, false), -ENOENT);
        assert_non_null(strstr(x->err, missing));
        assert_int_equal(export_to(x, streams[i], x->dir, false), -EISDIR);
        assert_int_equal(export_to(x, streams[i], "/dev/full", false), -ENOSPC);
        assert_non_null(strstr(x->err, "/dev/full"));
        assert_int_equal(export_to(x, streams[i], "/dev/null", false), 0);
    }
    assert_int_equal(export_to(x, kymo_export_ctf, missing, false), -ENOENT);
    assert_int_equal(export_to(x, kymo_export_ctf, "/dev/full", false), -EEXIST);
    /* teardown fails when a temporary file is left in x->dir */
}

static void test_output_is_private_and_replaces(void **state)
{
    struct bench *x = *state;
    struct stat st;
    wm(x, KYMO_E_IN, PID(1), 0);
    write_recording(x);
    tr_file(x->dir, "out", "old", 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(export_to(x, streams[i], x->out, false), 0);
        assert_int_equal(stat(x->out, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
}

static void test_empty_recording(void **state)
{
    struct bench *x = *state;
    tr_write(&x->t, x->rec);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(export_to(x, streams[i], x->out, false), 0);
        assert_int_equal(x->res.events, 0);
    }
    assert_int_equal(unlink(x->out), 0);
    assert_int_equal(export_to(x, kymo_export_ctf, x->out, false), 0);
    remove_ctf(x->out);
}

static void test_residents_are_bounded(void **state)
{
    (void)state;
    struct kymo_residents r;
    uint64_t evicted;
    assert_int_equal(kymo_residents_init(&r), 0);
    for (uint32_t i = 0; i < KYMO_RESIDENTS; i++) {
        assert_int_equal(kymo_residents_add(&r, i, &evicted), i);
        assert_int_equal(evicted, KYMO_IDENT_NONE);
    }
    /* All are equally new: the first one is dropped. After that, one that has had no more events. */
    assert_int_equal(kymo_residents_add(&r, 1000001, &evicted), 0);
    assert_int_equal(evicted, 0);
    kymo_residents_heard(&r, 1);
    assert_int_equal(kymo_residents_add(&r, 1000002, &evicted), 2);
    assert_int_equal(evicted, 2);
    /* If there is a free place, nothing is dropped. */
    kymo_residents_remove(&r, 3);
    assert_int_equal(kymo_residents_add(&r, 1000003, &evicted), 3);
    assert_int_equal(evicted, KYMO_IDENT_NONE);
    kymo_residents_free(&r);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_perfetto_calls),
        TEST(test_perfetto_calls_without_returns_are_instants),
        TEST(test_perfetto_open_at_the_end),
        TEST(test_perfetto_slow_calls),
        TEST(test_perfetto_slow_calls_are_bounded),
        TEST(test_perfetto_schedulers),
        TEST(test_perfetto_messages),
        TEST(test_perfetto_no_doubtful_arrow),
        TEST(test_perfetto_early_receive_is_clamped),
        TEST(test_perfetto_lives),
        TEST(test_perfetto_arguments),
        TEST(test_folded_scheduled),
        TEST(test_folded_by_wall_without_running),
        TEST(test_folded_lost_out),
        TEST(test_folded_open_at_the_end),
        TEST(test_folded_newborn_at_the_end),
        TEST(test_dbg_bytes),
        TEST(test_dbg_slow),
        TEST(test_dbg_bounds_drops),
        TEST(test_ctf_files),
        TEST(test_window_and_filter),
        TEST(test_errors_leave_nothing),
        TEST(test_output_is_private_and_replaces),
        TEST(test_empty_recording),
        cmocka_unit_test(test_residents_are_bounded),
    };
    return cmocka_run_group_tests_name("export", tests, NULL, NULL);
}
