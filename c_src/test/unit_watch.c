/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of triggers with handmade recordings: thousands of causes of known size, half of them just
 * beyond the limit and half exactly at it. Each of the former must fire once and name its cause; none
 * of the latter may fire.
 */
#include "film.h"

enum { CAUSES = 20000, LIMIT = 5000 };

static int by_start(const void *a, const void *b)
{
    const struct kymo_firing *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Cause i of an odd number exceeds the limit, by i ns. */
static uint64_t size_of(unsigned i)
{
    return i % 2 == 1 ? LIMIT + i : LIMIT;
}

/* Checks that each odd cause has fired once, and that nothing else has fired. */
static void check(struct film *x, const uint64_t *starts, bool server)
{
    assert_int_equal(x->n, CAUSES / 2);
    qsort(x->fired, x->n, sizeof *x->fired, by_start);
    for (unsigned i = 1, n = 0; i < CAUSES; i += 2, n++) {
        const struct kymo_firing *f = &x->fired[n];
        assert_int_equal(f->start, starts[i]);
        assert_int_equal(f->value, size_of(i));
        assert_int_equal(f->end - f->start, size_of(i));
        assert_false(f->open);
        assert_true((server ? f->server : f->process) == PID(i % 7 + 1));
    }
}

/* Gives all that was filmed to the triggers, and checks what fired. */
static struct kymo_reader *judged(struct film *x, const uint64_t *starts, bool server)
{
    struct kymo_reader *r = developed(x);
    give(x, r, 0, UINT64_MAX);
    check(x, starts, server);
    return r;
}

static void calls(void **state)
{
    (void)state;
    struct film x;
    uint64_t *starts = calloc(CAUSES, sizeof *starts);
    open_film(&x);
    add(&x, "call,m:f/_,5us");
    for (unsigned i = 0; i < CAUSES; i++) {
        wm(&x, 100, KYMO_E_CALL, PID(i % 7 + 1), x.f);
        starts[i] = x.now;
        wm(&x, 10, KYMO_E_CALL, PID(i % 7 + 1), x.g); /* slow, but not selected */
        wm(&x, size_of(i) - 10, KYMO_E_RETURN_FROM, PID(i % 7 + 1), x.f);
    }
    struct kymo_reader *r = judged(&x, starts, false);
    assert_int_equal(x.fired[0].mfa, x.f);
    close_film(&x, r);
    free(starts);
}

/* The runtime reports the calls with their durations. */
static void slow_calls(void **state)
{
    (void)state;
    struct film x;
    uint64_t *starts = calloc(CAUSES, sizeof *starts);
    open_film(&x);
    add(&x, "call,m:f/_,5us");
    for (unsigned i = 0; i < CAUSES; i++) {
        starts[i] = x.now + 100;
        slow(&x, 100 + size_of(i), PID(i % 7 + 1), x.f, size_of(i));
        slow(&x, 10, PID(i % 7 + 1), x.g, 2 * LIMIT); /* not selected */
    }
    slow(&x, 10, PID(1), x.f, UINT64_MAX); /* damaged */
    struct kymo_reader *r = judged(&x, starts, false);
    assert_int_equal(x.fired[0].mfa, x.f);
    close_film(&x, r);
    free(starts);
}

/* Plants CAUSES slow calls with `plant', which returns when the call began; each fires once. */
static void each_fires(uint64_t (*plant)(struct film *x, unsigned i))
{
    struct film x;
    uint64_t *starts = calloc(CAUSES, sizeof *starts);
    open_film(&x);
    add(&x, "call,m:f/_,5us");
    for (unsigned i = 0; i < CAUSES; i++)
        starts[i] = plant(&x, i);
    struct kymo_reader *r = judged(&x, starts, false);
    close_film(&x, r);
    free(starts);
}

static uint64_t report_after_return(struct film *x, unsigned i)
{
    wm(x, 100, KYMO_E_CALL, PID(i % 7 + 1), x->f);
    uint64_t start = x->now;
    wm(x, size_of(i), KYMO_E_RETURN_FROM, PID(i % 7 + 1), x->f);
    slow(x, 1, PID(i % 7 + 1), x->f, size_of(i));
    return start;
}

/* A call whose return is recorded too fires once. */
static void slow_calls_with_returns(void **state)
{
    (void)state;
    each_fires(report_after_return);
}

static uint64_t report_before_return(struct film *x, unsigned i)
{
    wm(x, 100, KYMO_E_CALL, PID(i % 7 + 1), x->f);
    uint64_t start = x->now;
    slow(x, size_of(i), PID(i % 7 + 1), x->f, size_of(i));
    wm(x, 0, KYMO_E_RETURN_FROM, PID(i % 7 + 1), x->f);
    return start;
}

/* The runtime may report a call before its return. */
static void slow_calls_before_returns(void **state)
{
    (void)state;
    each_fires(report_before_return);
}

static uint64_t report_beside_return_to(struct film *x, unsigned i)
{
    wm(x, 50, KYMO_E_CALL, PID(100), x->g);
    wm(x, 50, KYMO_E_RETURN_TO, PID(100), x->f);
    uint64_t start = x->now;
    slow(x, size_of(i), PID(i % 7 + 1), x->f, size_of(i));
    return start;
}

/* The calls of another function end with return_to; those of this one are only reported. */
static void slow_calls_beside_return_to(void **state)
{
    (void)state;
    each_fires(report_beside_return_to);
}

static void requests(void **state)
{
    (void)state;
    struct film x;
    uint64_t *starts = calloc(CAUSES, sizeof *starts);
    open_film(&x);
    for (unsigned i = 1; i <= 7; i++)
        tr_process(&x.t, PID(i), x.shop, 0);
    add(&x, "request,shop,5us");
    add(&x, "request,nobody,5us");
    for (unsigned i = 0; i < CAUSES; i++) {
        uint64_t client = PID(100 + i % 5), server = PID(i % 7 + 1), ref = 1000 + i;
        message(&x, 100, KYMO_E_SEND, client, server, KYMO_MSG_CALL, ref);
        starts[i] = x.now;
        message(&x, 10, KYMO_E_RECEIVE, server, client, KYMO_MSG_CALL, ref);
        message(&x, size_of(i) - 20, KYMO_E_SEND, server, client, KYMO_MSG_REPLY, ref);
        message(&x, 10, KYMO_E_RECEIVE, client, server, KYMO_MSG_REPLY, ref);
    }
    struct kymo_reader *r = judged(&x, starts, true);
    close_film(&x, r);
    free(starts);
}

static void collections(void **state)
{
    (void)state;
    struct film x;
    uint64_t *starts = calloc(CAUSES, sizeof *starts);
    open_film(&x);
    add(&x, "collection,5us");
    for (unsigned i = 0; i < CAUSES; i++) {
        bool major = i % 3 == 0;
        gc(&x, 100, major ? KYMO_E_GC_MAJOR_START : KYMO_E_GC_MINOR_START, PID(i % 7 + 1));
        starts[i] = x.now;
        gc(&x, size_of(i), major ? KYMO_E_GC_MAJOR_END : KYMO_E_GC_MINOR_END, PID(i % 7 + 1));
    }
    struct kymo_reader *r = judged(&x, starts, false);
    close_film(&x, r);
    free(starts);
}

static void schedules(void **state)
{
    (void)state;
    struct film x;
    uint64_t *starts = calloc(CAUSES, sizeof *starts);
    open_film(&x);
    add(&x, "schedule,5us");
    for (unsigned i = 0; i < CAUSES; i++) {
        wm(&x, 100, KYMO_E_IN, PID(i % 7 + 1), x.f);
        starts[i] = x.now;
        wm(&x, size_of(i), KYMO_E_OUT, PID(i % 7 + 1), x.f);
    }
    struct kymo_reader *r = judged(&x, starts, false);
    close_film(&x, r);
    free(starts);
}

/* A long run on a dirty scheduler is what these are for. */
static void dirty(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    x.t.slots[0].thread_kind = KYMO_T_DIRTY_CPU;
    add(&x, "schedule,5us");
    wm(&x, 100, KYMO_E_IN, PID(1), x.f);
    wm(&x, 10 * LIMIT, KYMO_E_OUT, PID(1), x.f);
    wm(&x, 100, KYMO_E_IN, PID(1), x.f);
    wm(&x, 10 * LIMIT, KYMO_E_CALL, PID(1), x.f);
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, 0);
    close_film(&x, r);
}

static void exits(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "exit,_");
    add(&x, "exit,bo*");
    add(&x, "exit,normal");
    for (unsigned i = 0; i < CAUSES; i++) {
        const uint32_t reasons[] = {x.normal, x.boom, x.shutdown, 0};
        wm(&x, 100, KYMO_E_EXIT, PID(1000 + i), reasons[i % 4]);
    }
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    size_t any = 0, boom = 0;
    for (size_t i = 0; i < x.n; i++) {
        unsigned cause = (unsigned)((uint64_t)x.fired[i].start - 2000000) / 100 - 1;
        assert_true(x.fired[i].process == PID(1000 + cause));
        assert_int_equal(x.fired[i].atom, cause % 4 == 1 ? x.boom : 0);
        assert_true(cause % 4 == 1 || cause % 4 == 3);
        any += x.fired[i].number == 0;
        boom += x.fired[i].number == 1;
        assert_true(x.fired[i].number < 2);
    }
    assert_int_equal(any, CAUSES / 2);
    assert_int_equal(boom, CAUSES / 4);
    close_film(&x, r);
}

/* The dictionary was full, so the reason is unknown. */
static void unknown_reason(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    x.t.meta.dict_full = 1;
    add(&x, "exit,_");
    wm(&x, 100, KYMO_E_EXIT, PID(1), 0);
    wm(&x, 100, KYMO_E_EXIT, PID(2), x.boom);
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, 1);
    assert_true(x.fired[0].process == PID(2));
    close_film(&x, r);
}

/* Ten messages are at the limit, eleven beyond it. */
static void mailboxes(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "mailbox,10");
    uint64_t *starts = calloc(CAUSES, sizeof *starts);
    for (unsigned i = 0; i < CAUSES; i++) {
        unsigned n = i % 2 == 1 ? 13 : 10;
        uint64_t to = PID(i % 7 + 1);
        for (unsigned k = 0; k < n; k++) {
            message(&x, 10, KYMO_E_SEND, PID(100 + k), to, KYMO_MSG_PLAIN, 0);
            starts[i] = k == 0 ? x.now : starts[i];
        }
        for (unsigned k = 0; k < n; k++)
            message(&x, 10, KYMO_E_RECEIVE, to, PID(100 + k), KYMO_MSG_PLAIN, 0);
    }
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, CAUSES / 2);
    for (unsigned i = 1, n = 0; i < CAUSES; i += 2, n++) {
        assert_int_equal(x.fired[n].value, 11);
        assert_int_equal(x.fired[n].start, starts[i]);
        assert_true(x.fired[n].process == PID(i % 7 + 1));
    }
    close_film(&x, r);
    free(starts);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {{"", "is not a trigger; allowed: call,FUNCTIONS,TIME"},
               {"calls,m:f,1ms", "is not a trigger"},
               {"call", "has no time; allowed: call,FUNCTIONS,TIME"},
               {"call,m:f/1", "has no time"},
               {"call,,1ms", "the pattern is empty"},
               {"call,m:f/1,fast", "'fast' is not a time"},
               {"call,m:f/1,0ms", "'0ms' is not a time"},
               {"call,m:f/1,5", "'5' is not a time"},
               {"call,m:f/1,1e30s", "is not a time"},
               {"request,1ms", "has no time"},
               {"mailbox,many", "'many' is not a number of messages"},
               {"mailbox,-1", "'-1' is not a number"},
               {"mailbox,4294967296", "is not a number"},
               {"exit", "the pattern is empty"},
               {"collection,", "'' is not a time"},
               {"schedule,-1s", "'-1s' is not a time"},
               {"stopped", "'' is not a time"},
               {"reported", "the pattern is empty"},
               {"reported,long", "the system monitor reports long_gc, long_schedule"}};
    struct kymo_triggers *t = kymo_triggers_new(on_fired, NULL);
    char err[512];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(kymo_triggers_add(t, bad[i].text, err, sizeof err), -EINVAL);
        if (strstr(err, bad[i].says) == NULL)
            fail_msg("'%s': %s", bad[i].text, err);
    }
    for (unsigned i = 0; i < KYMO_TRIGGERS_MAX; i++)
        assert_int_equal(kymo_triggers_add(t, "call,'a,b':_/_,1.5s", err, sizeof err), 0);
    assert_int_equal(kymo_triggers_add(t, "mailbox,1", err, sizeof err), -EINVAL);
    assert_non_null(strstr(err, "more than 64"));
    kymo_triggers_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {IN_FOLDER(slow_calls),
                                       IN_FOLDER(slow_calls_with_returns),
                                       IN_FOLDER(slow_calls_before_returns),
                                       IN_FOLDER(slow_calls_beside_return_to),
                                       IN_FOLDER(calls),
                                       IN_FOLDER(requests),
                                       IN_FOLDER(collections),
                                       IN_FOLDER(schedules),
                                       IN_FOLDER(dirty),
                                       IN_FOLDER(exits),
                                       IN_FOLDER(unknown_reason),
                                       IN_FOLDER(mailboxes),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
