/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of timelines, which combine the recordings of several nodes. The recordings are handmade:
 * the time shown by each clock is computed from a true time, which the tests know.
 */
#include "bridge.h"
#include "kymo_analysis.h"
#include "kymo_timeline.h"
#include "reader_fixture.h"
#include "shed_spans.h"

#include <math.h>

#define PID(n) KYMO_IDENT(KYMO_I_PID, n)
#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)

/* BEFORE_NS: the time from a thread's previous event to its send. */
enum { CREATION_A = 0x10001, CREATION_B = 0x20002, REQUESTS = 400, BEFORE_NS = 2000 };

/* ---- two clocks ---- */

static uint64_t seed;

/* A number from 0 to n - 1. */
static int64_t any(int64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((seed >> 12) % (uint64_t)n);
}

/* The time that the other clock shows at a time of the base; its drift changes by `bend` every
 * second. */
struct truth {
    int64_t offset;
    double drift, bend;
};

static int64_t other_at(const struct truth *t, int64_t base)
{
    double s = (double)base;
    return base + t->offset + (int64_t)(t->drift * s + t->bend * s * s / 2e9);
}

/* n messages in both directions within `span`, each in transit for 20 to 220 us. */
static void exchange(const struct truth *t, struct kymo_bridge_message *m, size_t n, int64_t span)
{
    for (size_t i = 0; i < n; i++) {
        int64_t sent = any(span), received = sent + 20000 + any(200000);
        bool to_other = any(2) == 0;
        m[i] = (struct kymo_bridge_message){.other = other_at(t, to_other ? received : sent),
                                            .base = to_other ? sent : received,
                                            .to_other = to_other};
    }
}

static void assert_no_receive_before_send(struct kymo_bridge *b, const struct kymo_bridge_message *m,
                                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t here = kymo_bridge_convert(b, m[i].other);
        assert_true(m[i].to_other ? here >= m[i].base : here <= m[i].base);
    }
}

static void check_bridge(const struct truth *t, size_t n, int64_t span, int64_t near)
{
    struct kymo_bridge b;
    struct kymo_bridge_message *m = calloc(n, sizeof *m);
    assert_non_null(m);
    exchange(t, m, n, span);
    assert_int_equal(kymo_bridge_fit(&b, m, n), 0);
    assert_no_receive_before_send(&b, m, n);
    assert_true(b.uncertainty > 0 && b.uncertainty <= near);
    int64_t last = INT64_MIN;
    for (int64_t at = span / 20; at < span - span / 20; at += span / 500) {
        int64_t error = kymo_bridge_convert(&b, other_at(t, at)) - at;
        assert_true(error <= near && error >= -near);
        assert_true(at + error >= last);
        last = at + error;
    }
    kymo_bridge_free(&b);
    free(m);
}

/* Clocks of machines that were booted days apart. */
static void known_offset_and_drift(void **state)
{
    (void)state;
    for (seed = 1; seed < 40; seed++) {
        struct truth t = {.offset = (any(2) == 0 ? -1 : 1) * any(400000 * SECOND),
                          .drift = (double)(any(400) - 200) * 1e-6};
        check_bridge(&t, 2000, 20 * SECOND, 150000);
    }
}

/* The rate of one clock changes by 20 ppm in 20 minutes, so no straight line fits. */
static void drift_that_changes(void **state)
{
    (void)state;
    for (seed = 1; seed < 10; seed++) {
        struct truth t = {.offset = 77 * SECOND, .drift = 30e-6, .bend = 20e-6 / 1200};
        check_bridge(&t, 60000, 1200 * SECOND, 400000);
    }
}

/* Two messages at about the same time allow any drift: none is assumed. */
static void few_messages(void **state)
{
    (void)state;
    struct kymo_bridge b;
    struct kymo_bridge_message m[2] = {{.other = 5 * SECOND + 100000, .base = SECOND, .to_other = true},
                                       {.other = 5 * SECOND + 150000, .base = SECOND + 250000}};
    assert_int_equal(kymo_bridge_fit(&b, m, 2), 0);
    assert_no_receive_before_send(&b, m, 2);
    int64_t later = kymo_bridge_convert(&b, 1005 * SECOND) - 1001 * SECOND;
    assert_true(later >= -MS && later <= MS);
    kymo_bridge_free(&b);
}

static void refused_messages(void **state)
{
    (void)state;
    struct kymo_bridge b;
    struct kymo_bridge_message one[2] = {{.other = 10, .base = 5, .to_other = true},
                                         {.other = 20, .base = 9, .to_other = true}};
    assert_int_equal(kymo_bridge_fit(&b, one, 0), -ENODATA);
    assert_int_equal(kymo_bridge_fit(&b, one, 2), -ENODATA);
    /* With messages in one direction only, the difference is that of the wall clocks, reduced as
     * far as the messages require. */
    kymo_bridge_constant(&b, 4, one, 2);
    assert_int_equal(kymo_bridge_convert(&b, 20), 16);
    kymo_bridge_constant(&b, 100, one, 2);
    assert_int_equal(kymo_bridge_convert(&b, 20), 15);
    /* The other clock was set back by a second between them. */
    struct kymo_bridge_message jump[4] = {{.other = 100 * MS, .base = 99 * MS, .to_other = true},
                                          {.other = 101 * MS, .base = 102 * MS},
                                          {.other = 102 * MS, .base = 1103 * MS, .to_other = true},
                                          {.other = 103 * MS, .base = 1105 * MS}};
    assert_int_equal(kymo_bridge_fit(&b, jump, 4), -ERANGE);
}

/* Times that only a damaged recording has are converted to some time, without a trap. */
static void impossible_times(void **state)
{
    (void)state;
    static const int64_t times[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    enum { N = sizeof times / sizeof *times };
    for (seed = 1; seed < 2000; seed++) {
        struct kymo_bridge b;
        struct kymo_bridge_message m[6];
        for (size_t i = 0; i < 6; i++)
            m[i] = (struct kymo_bridge_message){
                .other = times[any(N)], .base = times[any(N)], .to_other = any(2) == 0};
        int rc = kymo_bridge_fit(&b, m, 6);
        assert_true(rc == 0 || rc == -ENODATA || rc == -ERANGE);
        for (size_t i = 0; i < N && rc == 0; i++)
            (void)kymo_bridge_convert(&b, times[i]);
        kymo_bridge_free(&b);
    }
}

/* ---- two nodes ---- */

struct nodes {
    struct testrec t[2];
    struct testseg s[2];
    uint64_t seq[2];
    char dir[2][64];
    uint32_t name;                                         /* the id of the server's name in recording 1 */
    uint64_t server_by_name, server_by_pid, client_by_pid; /* idents of the other node, as terms */
    uint64_t delay;                                        /* of the records of sends */
    struct truth truth;                                    /* of the clock of node 1 */
};

static size_t put_atom(uint8_t *p, const char *s)
{
    p[0] = 119;
    p[1] = (uint8_t)strlen(s);
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): its length is before it */
    memcpy(p + 2, s, strlen(s));
    return 2 + strlen(s);
}

static size_t put_be32(uint8_t *p, uint32_t v)
{
    for (unsigned i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
    return 4;
}

static uint64_t pid_term(struct testrec *t, const char *node, uint32_t number, uint32_t creation)
{
    uint8_t b[64] = {88};
    size_t n = 1;
    n += put_atom(b + n, node);
    n += put_be32(b + n, number);
    n += put_be32(b + n, 0);
    n += put_be32(b + n, creation);
    return KYMO_IDENT(KYMO_I_TERM, tr_define(t, KYMO_DICT_TERM, b, n));
}

static uint64_t name_term(struct testrec *t, const char *name, const char *node)
{
    uint8_t b[64] = {104, 2};
    size_t n = 2;
    n += put_atom(b + n, name);
    n += put_atom(b + n, node);
    return KYMO_IDENT(KYMO_I_TERM, tr_define(t, KYMO_DICT_TERM, b, n));
}

static void set_node(struct testrec *t, const char *node, uint32_t creation, uint8_t machine)
{
    tr_init(t);
    t->meta.node_len = (uint32_t)strlen(node);
    memcpy(t->meta.node, node, strlen(node));
    t->meta.creation = creation;
    t->meta.uuid[0] = (uint8_t)creation;
    memset(t->meta.boot_id, machine, sizeof t->meta.boot_id);
    t->slots[0].used = 1;
}

static void open_nodes(struct nodes *x, uint8_t machine_a, uint8_t machine_b)
{
    memset(x, 0, sizeof *x);
    set_node(&x->t[0], "a@h", CREATION_A, machine_a);
    set_node(&x->t[1], "b@h", CREATION_B, machine_b);
    x->server_by_name = name_term(&x->t[0], "srv", "b@h");
    x->server_by_pid = pid_term(&x->t[0], "b@h", 7, CREATION_B);
    x->name = tr_atom(&x->t[1], "srv");
    tr_process(&x->t[1], PID(7), x->name, 0);
    x->client_by_pid = pid_term(&x->t[1], "a@h", 5, CREATION_A);
}

/* Returns the node's segment; opens one if there is none, and closes it when it is full. */
static void close_segment(struct nodes *x, unsigned i)
{
    if (x->s[i].len == 0)
        return;
    ts_close(&x->s[i], true);
    tr_to_data(&x->t[i], 1, &x->s[i], true);
    memset(&x->s[i], 0, sizeof x->s[i]);
}

static void put_message(struct nodes *x, unsigned i, int64_t at, unsigned id, uint64_t who, uint64_t peer,
                        uint8_t kind, uint64_t ref)
{
    uint64_t last = x->s[i].last, events = x->s[i].events;
    if (x->s[i].len > TR_SEGMENT - 64)
        close_segment(x, i);
    if (x->s[i].len == 0) {
        ts_open(&x->s[i], &x->t[i], 0, ++x->seq[i], (uint64_t)at - BEFORE_NS);
        if (x->seq[i] > 1)
            ts_after(&x->s[i], last, (x->seq[i] - 1) * events);
    }
    /* An event of the thread right before, which the runtime records in time. */
    if (id == KYMO_E_SEND)
        ts_wm(&x->s[i], (uint64_t)at - BEFORE_NS, KYMO_E_CALL, who, 0);
    ts_message(&x->s[i], (uint64_t)at + (id == KYMO_E_SEND ? x->delay : 0), id, who, peer, kind, ref);
}

/* A request of process 5 of node a, at a true time, to process 7 of node b, which replies to the
 * alias. Returns the time of the reply on the clock of a. */
static int64_t request(struct nodes *x, int64_t at, uint64_t ref, uint64_t to, int64_t there,
                       int64_t handling, int64_t back)
{
    uint64_t alias = KYMO_IDENT(KYMO_I_REF, ref);
    put_message(x, 0, at, KYMO_E_SEND, PID(5), to, KYMO_MSG_CALL, ref);
    at += there;
    put_message(x, 1, other_at(&x->truth, at), KYMO_E_RECEIVE, PID(7), KYMO_IDENT_NONE, KYMO_MSG_CALL, ref);
    at += handling;
    put_message(x, 1, other_at(&x->truth, at), KYMO_E_SEND, PID(7), alias, KYMO_MSG_REPLY, ref);
    at += back;
    put_message(x, 0, at, KYMO_E_RECEIVE, PID(5), KYMO_IDENT_NONE, KYMO_MSG_REPLY, ref);
    return at;
}

static struct kymo_reader *open_both(struct nodes *x)
{
    const char *dirs[2];
    char err[512] = "";
    struct kymo_reader *r;
    for (unsigned i = 0; i < 2; i++) {
        snprintf(x->dir[i], sizeof x->dir[i], "/tmp/kymo_timeline_%d_%u", (int)getpid(), i);
        close_segment(x, i);
        tr_write(&x->t[i], x->dir[i]);
        dirs[i] = x->dir[i];
    }
    if (kymo_timeline_open(dirs, 2, &r, err, sizeof err) != 0)
        fail_msg("%s", err);
    return r;
}

static void close_nodes(struct nodes *x)
{
    for (unsigned i = 0; i < 2; i++) {
        tr_free(&x->t[i]);
        if (x->dir[i][0] != '\0')
            tr_remove(x->dir[i]);
    }
}

static struct kymo_request requests[REQUESTS + 1];
static size_t n_requests;

static void on_request(void *arg, const struct kymo_request *q)
{
    (void)arg;
    assert_true(n_requests < REQUESTS);
    requests[n_requests++] = *q;
}

static uint64_t mails_matched, mails_sent;
static int64_t travel_least, travel_most; /* of the matched ones */

static void on_mail(void *arg, const struct kymo_mail *m)
{
    (void)arg;
    mails_sent += m->sent != KYMO_NO_TIME;
    if (m->sent == KYMO_NO_TIME || m->fetched == KYMO_NO_TIME)
        return;
    int64_t travel = m->fetched - m->sent;
    travel_least = mails_matched == 0 || travel < travel_least ? travel : travel_least;
    travel_most = mails_matched == 0 || travel > travel_most ? travel : travel_most;
    mails_matched++;
}

static void analyse(struct kymo_reader *r)
{
    struct kymo_analysis_options o = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    struct kymo_analysis_sink sink = {.mail = on_mail, .request = on_request};
    struct kymo_analysis_result res;
    char err[256] = "";
    n_requests = 0;
    mails_matched = mails_sent = 0;
    assert_int_equal(kymo_analyse(r, &o, &sink, 1, &res, err, sizeof err), 0);
}

/* Every request is found, with its true times, of processes of both nodes. */
static void check_requests(struct nodes *x, struct kymo_reader *r, size_t n, int64_t near)
{
    (void)x;
    analyse(r);
    assert_int_equal(n_requests, n);
    assert_int_equal(mails_matched, 2 * n);
    for (size_t i = 0; i < n; i++) {
        const struct kymo_request *q = &requests[i];
        assert_int_equal(q->ended, KYMO_REQ_REPLIED);
        assert_int_equal(q->client, PID(5));
        assert_int_equal(q->server, kymo_timeline_ident(r, PID(7), 1));
        assert_true(kymo_timeline_apart(r, q->client, q->server));
        assert_true(q->sent <= q->fetched && q->fetched <= q->replied && q->replied <= q->received);
        int64_t there = q->fetched - q->sent, truth = 30000 + (int64_t)(q->ref % 7) * 10000;
        assert_true(there - truth <= near && truth - there <= near);
    }
}

static void two_machines(void **state)
{
    (void)state;
    struct nodes x;
    open_nodes(&x, 1, 2);
    x.truth = (struct truth){.offset = 3333 * SECOND, .drift = 80e-6};
    x.t[1].meta.t0_mono_ns += x.truth.offset;
    x.t[1].meta.t0_ticks += (uint64_t)x.truth.offset;
    int64_t at = 10 * MS;
    for (uint64_t i = 1; i <= REQUESTS; i++) {
        uint64_t to = i % 2 == 0 ? x.server_by_name : x.server_by_pid;
        at = request(&x, at, i, to, 30000 + (int64_t)(i % 7) * 10000, MS, 30000 + (int64_t)(i % 5) * 10000);
        at += 20 * MS;
    }
    struct kymo_reader *r = open_both(&x);
    struct kymo_relation to = kymo_timeline_relation(r, 1);
    assert_int_equal(kymo_timeline_size(r), 2);
    assert_int_equal(kymo_timeline_relation(r, 0).kind, KYMO_RELATION_SELF);
    assert_int_equal(to.kind, KYMO_RELATION_MESSAGES);
    assert_int_equal(to.sent, REQUESTS);
    assert_int_equal(to.received, REQUESTS);
    assert_true(to.uncertainty > 0 && to.uncertainty <= 40000);
    check_requests(&x, r, REQUESTS, to.uncertainty + 10);
    kymo_reader_close(r);
    close_nodes(&x);
}

/* Sends are recorded up to 5 ms after the messages have left, later than their receipt: requests
 * are complete nevertheless, and the clocks are related by what is certain. */
static void late_records(void **state)
{
    (void)state;
    for (uint8_t machine = 1; machine <= 2; machine++) {
        struct nodes x;
        open_nodes(&x, 1, machine);
        int64_t at = 10 * MS;
        for (uint64_t i = 1; i <= 50; i++) {
            x.delay = i % 5 * (uint64_t)MS;
            at = 20 * MS +
                 request(&x, at, i, x.server_by_pid, 30000 + (int64_t)(i % 7) * 10000, 10 * MS, 30000);
        }
        struct kymo_reader *r = open_both(&x);
        assert_int_equal(kymo_timeline_relation(r, 1).kind,
                         machine == 1 ? KYMO_RELATION_CLOCK : KYMO_RELATION_MESSAGES);
        analyse(r);
        assert_int_equal(n_requests, 50);
        for (size_t i = 0; i < n_requests; i++) {
            const struct kymo_request *q = &requests[i];
            assert_int_equal(q->ended, KYMO_REQ_REPLIED);
            assert_int_equal(q->client, PID(5));
            assert_int_equal(q->server, kymo_timeline_ident(r, PID(7), 1));
            assert_true(q->sent <= q->fetched && q->fetched < q->replied && q->replied <= q->received);
        }
        kymo_reader_close(r);
        close_nodes(&x);
    }
}

/* A request that passed through both nodes twice with the same reference proves nothing, and does
 * no harm. */
static void forwarded_requests(void **state)
{
    (void)state;
    struct nodes x;
    open_nodes(&x, 1, 2);
    x.truth.offset = -500 * MS;
    x.t[1].meta.t0_mono_ns = 1;
    x.t[1].meta.t0_ticks = 1;
    int64_t at = SECOND;
    for (uint64_t i = 1; i <= 50; i++)
        at = 20 * MS + request(&x, at, i, x.server_by_pid, 30000 + (int64_t)(i % 7) * 10000, MS, 30000);
    for (uint64_t i = 51; i <= 60; i++, at += 20 * MS) {
        put_message(&x, 1, other_at(&x.truth, at), KYMO_E_RECEIVE, PID(7), KYMO_IDENT_NONE, KYMO_MSG_CALL, i);
        put_message(&x, 0, at + 5 * MS, KYMO_E_SEND, PID(5), x.server_by_pid, KYMO_MSG_CALL, i);
        put_message(&x, 1, other_at(&x.truth, at + 6 * MS), KYMO_E_RECEIVE, PID(7), KYMO_IDENT_NONE,
                    KYMO_MSG_CALL, i);
    }
    struct kymo_reader *r = open_both(&x);
    assert_int_equal(kymo_timeline_relation(r, 1).kind, KYMO_RELATION_MESSAGES);
    assert_int_equal(kymo_timeline_relation(r, 1).sent, 50);
    assert_int_equal(kymo_timeline_relation(r, 1).received, 50);
    kymo_reader_close(r);
    close_nodes(&x);
}

/* Both recordings use the same counter, and convert it to CLOCK_MONOTONIC with different errors:
 * the counter is used directly. */
static void one_machine(void **state)
{
    (void)state;
    for (unsigned counter = 0; counter < 2; counter++) {
        struct nodes x;
        open_nodes(&x, 9, 9);
        for (unsigned i = 0; i < 2 && counter == 1; i++) {
            x.t[i].meta.clock = KYMO_CLOCK_COUNTER;
            x.t[i].meta.t0_mono_ns += i * 3 * MS;
        }
        int64_t at = 10 * MS;
        for (uint64_t i = 1; i <= 50; i++)
            at = MS + request(&x, at, i, x.server_by_pid, 30000 + (int64_t)(i % 7) * 10000, MS, 30000);
        struct kymo_reader *r = open_both(&x);
        assert_int_equal(kymo_timeline_relation(r, 1).kind,
                         counter == 1 ? KYMO_RELATION_COUNTER : KYMO_RELATION_CLOCK);
        check_requests(&x, r, 50, 10);
        kymo_reader_close(r);
        close_nodes(&x);
    }
}

enum { CASTS = 300, TRAVEL_NS = 250000 };

/* Casts of process 5 of node a to process 7 of node b every `every` ns, with three different
 * contents: each `late`th is recorded after its receipt, the first `unseen` are received before
 * node b records, and after each `foreign`th an equal one comes from a node without a recording.
 * All matches are correct. Returns the number of matches. */
static uint64_t cast(int64_t every, unsigned late, unsigned unseen, unsigned foreign)
{
    struct nodes x;
    open_nodes(&x, 9, 9);
    for (unsigned i = 0; i < CASTS; i++) {
        int64_t at = 10 * MS + i * every;
        x.delay = late > 0 && i % late == 0 ? 400000 : 0;
        put_message(&x, 0, at, KYMO_E_SEND, PID(5), i % 2 == 0 ? x.server_by_name : x.server_by_pid,
                    KYMO_MSG_CAST, 100 + i % 3);
    }
    for (unsigned i = unseen; i < CASTS; i++) {
        int64_t at = 10 * MS + i * every + TRAVEL_NS;
        put_message(&x, 1, at, KYMO_E_RECEIVE, PID(7), KYMO_IDENT_NONE, KYMO_MSG_CAST, 100 + i % 3);
        if (foreign > 0 && i % foreign == 0)
            put_message(&x, 1, at + 300000, KYMO_E_RECEIVE, PID(7), KYMO_IDENT_NONE, KYMO_MSG_CAST,
                        100 + (i + 1) % 3);
    }
    struct kymo_reader *r = open_both(&x);
    analyse(r);
    assert_int_equal(mails_sent, CASTS);
    assert_true(mails_matched > 0);
    assert_int_equal(travel_least, TRAVEL_NS);
    assert_int_equal(travel_most, TRAVEL_NS);
    kymo_reader_close(r);
    close_nodes(&x);
    return mails_matched;
}

/* No reference and no sender: matches only what is known. */
static void casts(void **state)
{
    (void)state;
    /* Casts sent before the first event of node b may have been received unrecorded. */
    assert_int_equal(cast(MS, 0, 0, 0), CASTS - 1);
    assert_int_equal(cast(100000, 0, 0, 0), CASTS - 3);
    assert_int_equal(cast(MS, 4, 0, 0), CASTS - CASTS / 4);
    assert_int_equal(cast(MS, 0, 10, 0), CASTS - 11);
    assert_int_equal(cast(MS, 0, 0, 5), CASTS - 1);
    assert_true(cast(MS, 7, 20, 3) >= CASTS / 2);
}

static void put_note(struct testrec *t, uint64_t ticks, uint32_t what, uint32_t mfa)
{
    struct {
        uint64_t ticks;
        uint32_t what, kinds, mfa;
    } payload = {ticks, what, 1u << KYMO_KIND_MESSAGES, mfa};
    tr_define(t, KYMO_DICT_SHED, &payload, KYMO_DICT_SHED_HDR + sizeof mfa);
    t->meta.shed++;
}

/* Events left out by the budgets of both nodes. */
static void left_out(void **state)
{
    (void)state;
    struct nodes x;
    char text[256];
    size_t n;
    open_nodes(&x, 9, 9);
    int64_t at = 10 * MS;
    for (uint64_t i = 1; i <= 5; i++)
        at = MS + request(&x, at, i, x.server_by_pid, 30000, MS, 30000);
    for (unsigned i = 0; i < 2; i++) {
        uint32_t m = tr_atom(&x.t[i], "m"), f = tr_atom(&x.t[i], i == 0 ? "here" : "there");
        put_note(&x.t[i], (uint64_t)(11 + i) * 1000000, KYMO_SHED, tr_mfa(&x.t[i], m, f, 1));
    }
    struct kymo_reader *r = open_both(&x);
    const struct kymo_shed *s = kymo_reader_shed(r, &n);
    assert_int_equal(n, 4);
    assert_int_equal(kymo_reader_meta(r)->shed, 2);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(s[i].recording, i / 2);
        assert_int_equal(s[i].to, INT64_MAX);
    }
    assert_int_equal(s[2].from - s[0].from, MS);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(kymo_shed_text(r, i, text, sizeof text), 2);
        assert_string_equal(text, i == 0 ? "m:here/1, messages" : "m:there/1, messages");
    }
    assert_int_equal(kymo_shed_text(r, 2, text, sizeof text), 0);
    assert_string_equal(text, "");
    kymo_reader_close(r);
    close_nodes(&x);
}

/* The next send or receive. */
static int next_message(struct kymo_reader *r, struct kymo_event *ev)
{
    int rc = kymo_reader_next(r, ev);
    while (rc == 1 && ev->id == KYMO_E_CALL)
        rc = kymo_reader_next(r, ev);
    return rc;
}

/* Only the wall clocks, according to which node b started a second later; its requests alone give
 * one limit. */
static void wall_clocks(void **state)
{
    (void)state;
    for (unsigned one_way = 0; one_way < 2; one_way++) {
        struct nodes x;
        struct kymo_event ev;
        open_nodes(&x, 1, 2);
        x.truth.offset = 50 * SECOND;
        x.t[1].meta.t0_mono_ns += 51 * SECOND;
        x.t[1].meta.t0_ticks += 51 * (uint64_t)SECOND;
        x.t[1].meta.t0_wall_ns += SECOND;
        put_message(&x, 0, 2 * SECOND, KYMO_E_SEND, PID(5), x.server_by_pid, KYMO_MSG_CALL, 1);
        if (one_way == 1) /* the wall clock of b is half a second slow */
            put_message(&x, 1, 51 * SECOND + 500 * MS, KYMO_E_RECEIVE, PID(7), KYMO_IDENT_NONE, KYMO_MSG_CALL,
                        1);
        put_message(&x, 1, 53 * SECOND, KYMO_E_SEND, PID(7), PID(8), KYMO_MSG_PLAIN, 0);
        struct kymo_reader *r = open_both(&x);
        assert_int_equal(kymo_timeline_relation(r, 1).kind, KYMO_RELATION_WALL);
        assert_false(kymo_timeline_relation(r, 1).contradicted);
        assert_int_equal(kymo_timeline_relation(r, 1).received, one_way);
        if (one_way == 1) { /* as late as the event before the send allows */
            assert_int_equal(next_message(r, &ev), 1);
            assert_int_equal(ev.who, kymo_timeline_ident(r, PID(7), 1));
            assert_int_equal(ev.ns, 2 * SECOND - BEFORE_NS);
        }
        assert_int_equal(next_message(r, &ev), 1);
        assert_int_equal(ev.who, PID(5));
        assert_int_equal(next_message(r, &ev), 1);
        assert_int_equal(ev.who, kymo_timeline_ident(r, PID(7), 1));
        assert_int_equal(ev.peer, kymo_timeline_ident(r, PID(8), 1));
        assert_int_equal(ev.ns, one_way == 1 ? 3 * SECOND + 500 * MS - BEFORE_NS : 3 * SECOND);
        assert_int_equal(next_message(r, &ev), 0);
        kymo_reader_close(r);
        close_nodes(&x);
    }
}

/* Names, idents and text of both nodes, and of processes on nodes without a recording. */
static void names(void **state)
{
    (void)state;
    struct nodes x;
    struct kymo_event ev;
    char text[64];
    uint32_t name, mfa;
    open_nodes(&x, 9, 9);
    uint64_t stranger = pid_term(&x.t[0], "c@h", 3, 1);
    uint64_t restarted = pid_term(&x.t[0], "b@h", 3, CREATION_B + 1);
    put_message(&x, 0, 2 * MS, KYMO_E_SEND, PID(5), x.server_by_name, KYMO_MSG_PLAIN, 0);
    put_message(&x, 0, 3 * MS, KYMO_E_SEND, PID(5), stranger, KYMO_MSG_PLAIN, 0);
    put_message(&x, 0, 4 * MS, KYMO_E_SEND, PID(5), restarted, KYMO_MSG_PLAIN, 0);
    put_message(&x, 1, 5 * MS, KYMO_E_SEND, PID(7), x.client_by_pid, KYMO_MSG_PLAIN, 0);
    struct kymo_reader *r = open_both(&x);
    assert_int_equal(next_message(r, &ev), 1);
    assert_int_equal(KYMO_IDENT_KIND(ev.peer), KYMO_I_ATOM);
    assert_int_equal(kymo_timeline_of(r, ev.peer), 1);
    kymo_format_ident(r, ev.who, text, sizeof text);
    assert_string_equal(text, "<a@h.5.0>");
    assert_int_equal(next_message(r, &ev), 1);
    kymo_format_ident(r, ev.peer, text, sizeof text);
    assert_string_equal(text, "<c@h.3.0>");
    assert_int_equal(next_message(r, &ev), 1);
    assert_int_equal(KYMO_IDENT_KIND(ev.peer), KYMO_I_TERM);
    assert_int_equal(next_message(r, &ev), 1);
    assert_int_equal(ev.peer, PID(5));
    assert_int_equal(kymo_timeline_of_slot(r, ev.slot), 1);
    assert_true(kymo_reader_process(r, ev.who, &name, &mfa));
    struct kymo_text t = kymo_reader_atom(r, name);
    assert_int_equal(t.len, 3);
    assert_memory_equal(t.s, "srv", 3);
    kymo_format_ident(r, ev.who, text, sizeof text);
    assert_string_equal(text, "<b@h.7.0>");
    assert_int_equal(next_message(r, &ev), 0);
    kymo_reader_rewind(r);
    assert_int_equal(next_message(r, &ev), 1);
    assert_int_equal(ev.ns, 2 * MS);
    kymo_reader_close(r);
    close_nodes(&x);
}

static void refused_recordings(void **state)
{
    (void)state;
    struct nodes x;
    struct kymo_reader *r;
    char err[512] = "";
    open_nodes(&x, 9, 9);
    kymo_reader_close(open_both(&x));
    const char *twice[] = {x.dir[0], x.dir[1], x.dir[0]}, *missing[] = {x.dir[0], "/proc/self/nonexistent"};
    assert_int_equal(kymo_timeline_open(twice, 3, &r, err, sizeof err), -EINVAL);
    assert_non_null(strstr(err, "the same recording"));
    assert_int_equal(kymo_timeline_open(missing, 2, &r, err, sizeof err), -ENOENT);
    assert_int_equal(kymo_timeline_open(twice, 0, &r, err, sizeof err), -EINVAL);
    /* Another recorder of the same node. */
    struct testrec t = x.t[0];
    t.meta.uuid[0]++;
    tr_write(&t, x.dir[1]);
    assert_int_equal(kymo_timeline_open(twice, 2, &r, err, sizeof err), -EINVAL);
    assert_non_null(strstr(err, "recordings of the same node"));
    /* A restarted node counts as another node. */
    t.meta.creation++;
    t.meta.os_pid++;
    tr_write(&t, x.dir[1]);
    assert_int_equal(kymo_timeline_open(twice, 2, &r, err, sizeof err), 0);
    assert_string_equal(kymo_timeline_name(r, 0), "a@h");
    assert_string_equal(kymo_timeline_name(r, 1), "a@h#2");
    kymo_reader_close(r);
    close_nodes(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_offset_and_drift),
                                       cmocka_unit_test(drift_that_changes),
                                       cmocka_unit_test(few_messages),
                                       cmocka_unit_test(refused_messages),
                                       cmocka_unit_test(impossible_times),
                                       cmocka_unit_test(two_machines),
                                       cmocka_unit_test(late_records),
                                       cmocka_unit_test(forwarded_requests),
                                       cmocka_unit_test(one_machine),
                                       cmocka_unit_test(casts),
                                       cmocka_unit_test(left_out),
                                       cmocka_unit_test(wall_clocks),
                                       cmocka_unit_test(names),
                                       cmocka_unit_test(refused_recordings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
