/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of triggers for the node as a whole: late samples of its counters, and reports of its system
 * monitor.
 */
#include "film.h"

/* A sample of the counters, in as many records as it takes. */
static void sample(struct film *x, uint64_t ns, unsigned records)
{
    uint8_t body[2 + KYMO_COUNTER_BYTES] = {1, 0, KYMO_N_PROCESSES};
    for (unsigned i = 0; i < records; i++) {
        uint64_t at = after(x, i == 0 ? ns : 1000);
        ts_record(&x->s, at, KYMO_E_COUNTERS, body, sizeof body, false);
    }
}

/* Fires if a sample is later than TIME and much later than usual, but not after a gap. */
static void stops(void **state)
{
    (void)state;
    enum { INTERVAL = 10000000, N = 200 };
    struct film x;
    uint64_t starts[N], n = 0;
    open_film(&x);
    add(&x, "stopped,15ms");
    add(&x, "stopped,30ms");
    add(&x, "stopped,1us"); /* no finer than the interval */
    for (unsigned i = 0; i < N; i++) {
        bool late = i > 20 && i % 10 == 0;
        if (late)
            starts[n++] = x.now;
        sample(&x, late ? 5 * INTERVAL : i % 2 == 0 ? INTERVAL - 1000000 : INTERVAL, 1 + i % 3);
    }
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, 3 * n);
    for (size_t i = 0; i < x.n; i++) {
        /* From the first record of the sample before. */
        assert_in_range((uint64_t)x.fired[i].start, starts[i / 3] - 3000, starts[i / 3]);
        assert_in_range((uint64_t)x.fired[i].value, 5 * INTERVAL, 5 * INTERVAL + 3000);
        assert_true(x.fired[i].end == x.fired[i].start + x.fired[i].value);
        assert_int_equal(x.fired[i].number, i % 3);
    }
    close_film(&x, r);
}

/* Samples are missing in between. */
static void stops_at_gap(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "stopped,15ms");
    for (unsigned i = 0; i < 10; i++)
        sample(&x, 10 * MS, 1);
    sample(&x, 100 * MS, 1);
    sample(&x, 100 * MS, 1);
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, 10);
    kymo_triggers_gap(x.triggers);
    struct kymo_reader *later = open_written();
    give(&x, later, 10, UINT64_MAX);
    kymo_reader_close(r);
    assert_int_equal(x.n, 1);
    assert_int_equal(x.fired[0].end, x.now);
    close_film(&x, later);
}

static void monitored(struct film *x, uint64_t ns, uint8_t kind, uint64_t who, uint64_t value)
{
    uint8_t body[33] = {0};
    uint64_t at = after(x, ns), none = KYMO_IDENT_NONE;
    memcpy(body, &who, 8);
    memcpy(body + 8, &none, 8);
    body[16] = kind;
    memcpy(body + 17, &value, 8);
    memcpy(body + 25, &x->f, 4);
    memcpy(body + 29, &x->g, 4);
    ts_record(&x->s, at, KYMO_E_MONITOR, body, sizeof body, false);
}

/* Reports of the system monitor fire, notes about it do not. */
static void reports(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "reported,_");
    add(&x, "reported,long_*");
    add(&x, "reported,large_heap");
    monitored(&x, 100, KYMO_M_SET, PID(1), 0);
    monitored(&x, 900000000, KYMO_M_LONG_GC, PID(2), 150);
    uint64_t at = x.now;
    monitored(&x, 100, KYMO_M_LARGE_HEAP, PID(3), 77);
    monitored(&x, 100, KYMO_M_LONG_QUEUE, PID(4), 0);
    monitored(&x, 100, KYMO_M_LONG_QUEUE, PID(5), 1);
    monitored(&x, 100, KYMO_M_TOO_MANY, PID(6), 5);
    monitored(&x, 100, KYMO_M_COUNT, PID(7), 5);
    monitored(&x, 100, KYMO_M_LONG_SCHEDULE, PID(8), UINT64_MAX); /* as in a damaged recording */
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    static const struct {
        unsigned number, pid;
        const char *reported;
    } expected[] = {{0, 2, "long_gc"},
                    {1, 2, "long_gc"},
                    {0, 3, "large_heap"},
                    {2, 3, "large_heap"},
                    {0, 5, "long_message_queue"},
                    {1, 5, "long_message_queue"},
                    {0, 8, "long_schedule"},
                    {1, 8, "long_schedule"}};
    assert_int_equal(x.n, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < x.n; i++) {
        assert_int_equal(x.fired[i].number, expected[i].number);
        assert_true(x.fired[i].process == PID(expected[i].pid));
        assert_string_equal(x.fired[i].reported, expected[i].reported);
    }
    assert_int_equal(x.fired[0].value, 150000000);
    assert_true(x.fired[0].end == (int64_t)at && x.fired[0].start == (int64_t)at - 150000000);
    assert_true(x.fired[0].mfa == x.f || x.fired[0].mfa == x.g);
    assert_int_equal(x.fired[2].value, 77);
    close_film(&x, r);
}

/* A sample with the length of one mailbox. */
static void mailbox(struct film *x, uint64_t who, uint64_t n)
{
    uint8_t body[2 + 2 * KYMO_COUNTER_BYTES] = {2, 0, KYMO_N_BUSY_PROCESS, 0, 1};
    body[2 + KYMO_COUNTER_BYTES] = KYMO_N_MAILBOX;
    body[4 + KYMO_COUNTER_BYTES] = 1;
    memcpy(body + 6, &who, 8);
    memcpy(body + 6 + KYMO_COUNTER_BYTES, &n, 8);
    uint64_t at = after(x, 100 * MS);
    ts_record(&x->s, at, KYMO_E_COUNTERS, body, sizeof body, false);
}

/* A mailbox that was long before the recording began is known from the counters only. It fires once,
 * again after it was half as long, and not for both sources. */
static void long_mailboxes(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {10, 11, 5000, 7, 12, 6, 11};
    struct film x;
    open_film(&x);
    add(&x, "mailbox,10");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        mailbox(&x, PID(7), lengths[i]);
        message(&x, 10, KYMO_E_SEND, PID(1), PID(7), KYMO_MSG_PLAIN, 0);
        message(&x, 10, KYMO_E_RECEIVE, PID(7), KYMO_IDENT_NONE, KYMO_MSG_PLAIN, 0);
    }
    for (unsigned i = 0; i < 20; i++)
        message(&x, 10, KYMO_E_SEND, PID(1), PID(7), KYMO_MSG_PLAIN, 0);
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, 2);
    for (size_t i = 0; i < x.n; i++) {
        assert_int_equal(x.fired[i].value, 11);
        assert_true(x.fired[i].process == PID(7));
    }
    close_film(&x, r);
}

/* A sample in which no mailbox has messages: its ranks have no process. */
static void no_mailbox(struct film *x)
{
    uint8_t body[2 + KYMO_COUNTER_BYTES] = {1, 0, KYMO_N_MAILBOX, 0, 1};
    ts_record(&x->s, after(x, 100 * MS), KYMO_E_COUNTERS, body, sizeof body, false);
}

/* A mailbox that became short is not in the samples any more; it fires when it is long again. */
static void long_again(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "mailbox,10");
    mailbox(&x, PID(7), 20);
    mailbox(&x, PID(8), 3);
    mailbox(&x, PID(7), 5000);
    no_mailbox(&x);
    for (unsigned i = 0; i < 20; i++)
        message(&x, 10, KYMO_E_SEND, PID(1), PID(7), KYMO_MSG_PLAIN, 0);
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, 3);
    close_film(&x, r);
}

/* A slow request that the server passes on is one. */
static void passed_on(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "request,_,5ms");
    message(&x, 10, KYMO_E_SEND, PID(1), PID(8), KYMO_MSG_CALL, 77);
    message(&x, 10, KYMO_E_RECEIVE, PID(8), PID(1), KYMO_MSG_CALL, 77);
    message(&x, 10, KYMO_E_SEND, PID(8), PID(9), KYMO_MSG_CALL, 77);
    message(&x, 10, KYMO_E_RECEIVE, PID(9), PID(8), KYMO_MSG_CALL, 77);
    message(&x, 10 * MS, KYMO_E_SEND, PID(9), PID(1), KYMO_MSG_REPLY, 77);
    message(&x, 10, KYMO_E_RECEIVE, PID(1), PID(9), KYMO_MSG_REPLY, 77);
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, 1);
    assert_true(x.fired[0].server == PID(8));
    close_film(&x, r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {IN_FOLDER(stops),      IN_FOLDER(stops_at_gap),
                                       IN_FOLDER(reports),    IN_FOLDER(long_mailboxes),
                                       IN_FOLDER(long_again), IN_FOLDER(passed_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
