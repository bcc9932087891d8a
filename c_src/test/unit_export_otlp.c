/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the OpenTelemetry export with handmade recordings: the relations between requests, and
 * their ids.
 */
#include <errno.h>
#include <stdio.h>

#include "kymo_otlp.h"
#include "otlp_chains.h"
#include "reader_fixture.h"

#define PID(n) KYMO_IDENT(KYMO_I_PID, n)
#define START 2000000u /* of the segment */

struct scene {
    struct testrec t;
    struct testseg s;
    uint32_t handle_call;
    struct kymo_reader *r;
    struct kymo_otlp_chains chains;
};

static void open_scene(struct scene *x)
{
    memset(x, 0, sizeof *x);
    tr_init(&x->t);
    x->handle_call = tr_mfa(&x->t, tr_atom(&x->t, "m"), tr_atom(&x->t, "handle_call"), 3);
    x->t.slots[0].used = 1;
    ts_open(&x->s, &x->t, 0, 1, START);
}

static void call(struct scene *x, uint64_t at, unsigned id, unsigned pid)
{
    ts_wm(&x->s, START + at, id, PID(pid), x->handle_call);
}

static void sent(struct scene *x, uint64_t at, unsigned from, unsigned to, uint8_t kind, uint64_t ref)
{
    ts_message(&x->s, START + at, KYMO_E_SEND, PID(from), PID(to), kind, ref);
}

static void received(struct scene *x, uint64_t at, unsigned to, unsigned from, uint8_t kind, uint64_t ref)
{
    ts_message(&x->s, START + at, KYMO_E_RECEIVE, PID(to), PID(from), kind, ref);
}

/* A request and its reply, without callbacks. */
static void asked(struct scene *x, uint64_t at, unsigned client, unsigned server, uint64_t ref)
{
    sent(x, at, client, server, KYMO_MSG_CALL, ref);
    received(x, at + 10, server, client, KYMO_MSG_CALL, ref);
    sent(x, at + 20, server, client, KYMO_MSG_REPLY, ref);
    received(x, at + 30, client, server, KYMO_MSG_REPLY, ref);
}

static void write_scene(struct scene *x)
{
    ts_close(&x->s, true);
    tr_to_ring(&x->t, &x->s);
    x->r = open_it(&x->t);
}

static void find_chains(struct scene *x, int64_t from, int64_t to)
{
    struct kymo_analysis_options o = {.from_ns = from, .to_ns = to};
    struct kymo_analysis_result res;
    char err[256] = "";
    kymo_otlp_chains_init(&x->chains, x->r);
    struct kymo_analysis_sink sink = kymo_otlp_chains_sink(&x->chains);
    assert_int_equal(kymo_analyse(x->r, &o, &sink, 1, &res, err, sizeof err), 0);
    assert_int_equal(kymo_otlp_chains_link(&x->chains), 0);
}

static void analyse(struct scene *x)
{
    write_scene(x);
    find_chains(x, INT64_MIN, INT64_MAX);
}

static void close_scene(struct scene *x)
{
    kymo_otlp_chains_free(&x->chains);
    kymo_reader_close(x->r);
    tr_free(&x->t);
}

/* The request that this client sent at that time. */
static const struct kymo_otlp_request *request(const struct scene *x, unsigned client, uint64_t at)
{
    const struct kymo_otlp_request *found = NULL;
    int64_t ns = kymo_reader_ns(x->r, START + at);
    for (uint32_t i = 0; i < x->chains.n; i++) {
        if (x->chains.q[i].client == PID(client) && x->chains.q[i].sent == ns) {
            assert_null(found);
            found = &x->chains.q[i];
        }
    }
    assert_non_null(found);
    return found;
}

static const struct kymo_otlp_request *parent(const struct scene *x, const struct kymo_otlp_request *q)
{
    return q->parent != 0 ? &x->chains.q[q->parent - 1] : NULL;
}

/* ---- chains ---- */

/* 1 calls 2, which calls 3 in its callback, which calls 4 without one; then 2 makes a call of its
 * own. */
static void asked_while_handling(void **state)
{
    (void)state;
    struct scene x;
    uint64_t first[2], other[2];
    open_scene(&x);
    sent(&x, 100, 1, 2, KYMO_MSG_CALL, 7);
    received(&x, 150, 2, 1, KYMO_MSG_CALL, 7);
    call(&x, 200, KYMO_E_CALL, 2);
    sent(&x, 300, 2, 3, KYMO_MSG_CALL, 8);
    received(&x, 310, 3, 2, KYMO_MSG_CALL, 8);
    asked(&x, 320, 3, 4, 9);
    sent(&x, 400, 3, 2, KYMO_MSG_REPLY, 8);
    received(&x, 450, 2, 3, KYMO_MSG_REPLY, 8);
    call(&x, 500, KYMO_E_RETURN_FROM, 2);
    sent(&x, 510, 2, 1, KYMO_MSG_REPLY, 7);
    asked(&x, 520, 2, 3, 10); /* before the reply has arrived, but not part of the request */
    received(&x, 600, 1, 2, KYMO_MSG_REPLY, 7);
    analyse(&x);
    assert_int_equal(x.chains.n, 4);
    const struct kymo_otlp_request *a = request(&x, 1, 100), *b = request(&x, 2, 300),
                                   *c = request(&x, 3, 320), *own = request(&x, 2, 520);
    assert_null(parent(&x, a));
    assert_ptr_equal(parent(&x, b), a);
    assert_ptr_equal(parent(&x, c), b);
    assert_null(parent(&x, own));
    kymo_otlp_trace_id(&x.chains, a, first);
    kymo_otlp_trace_id(&x.chains, c, other);
    assert_memory_equal(first, other, sizeof first);
    kymo_otlp_trace_id(&x.chains, own, other);
    assert_memory_not_equal(first, other, sizeof first);
    close_scene(&x);
}

/* A callback that continues after it has sent its reply: its later calls do not belong to the
 * request. One that replies after its callback has returned: what the server does in between does
 * not belong to it either. */
static void replies_early_and_late(void **state)
{
    (void)state;
    struct scene x;
    open_scene(&x);
    sent(&x, 100, 1, 2, KYMO_MSG_CALL, 7);
    received(&x, 110, 2, 1, KYMO_MSG_CALL, 7);
    call(&x, 120, KYMO_E_CALL, 2);
    sent(&x, 130, 2, 1, KYMO_MSG_REPLY, 7);
    received(&x, 140, 1, 2, KYMO_MSG_REPLY, 7);
    asked(&x, 200, 2, 3, 8);
    call(&x, 300, KYMO_E_RETURN_FROM, 2);
    sent(&x, 400, 1, 2, KYMO_MSG_CALL, 9);
    received(&x, 410, 2, 1, KYMO_MSG_CALL, 9);
    call(&x, 420, KYMO_E_CALL, 2);
    call(&x, 430, KYMO_E_RETURN_FROM, 2);
    asked(&x, 500, 2, 3, 10);
    sent(&x, 600, 2, 1, KYMO_MSG_REPLY, 9);
    received(&x, 610, 1, 2, KYMO_MSG_REPLY, 9);
    analyse(&x);
    assert_ptr_equal(parent(&x, request(&x, 2, 200)), request(&x, 1, 100));
    assert_null(parent(&x, request(&x, 2, 500)));
    close_scene(&x);
}

/* The requests that the server handled while another one waited, newest first; not those handled
 * before, and not those that came later. */
static void waited_behind(void **state)
{
    (void)state;
    struct scene x;
    const struct kymo_otlp_request *ahead[2];
    open_scene(&x);
    sent(&x, 10, 11, 2, KYMO_MSG_CALL, 20);
    received(&x, 11, 2, 11, KYMO_MSG_CALL, 20);
    call(&x, 20, KYMO_E_CALL, 2);
    call(&x, 30, KYMO_E_RETURN_FROM, 2);
    sent(&x, 31, 2, 11, KYMO_MSG_REPLY, 20);
    received(&x, 40, 11, 2, KYMO_MSG_REPLY, 20);
    for (unsigned i = 1; i < 4; i++)
        sent(&x, 100 + i, 11 + i, 2, KYMO_MSG_CALL, 20 + i);
    for (unsigned i = 1; i < 4; i++)
        received(&x, 110 + i, 2, 11 + i, KYMO_MSG_CALL, 20 + i);
    for (unsigned i = 1; i < 4; i++) {
        call(&x, 200 + 100 * i, KYMO_E_CALL, 2);
        call(&x, 250 + 100 * i, KYMO_E_RETURN_FROM, 2);
        sent(&x, 251 + 100 * i, 2, 11 + i, KYMO_MSG_REPLY, 20 + i);
        received(&x, 260 + 100 * i, 11 + i, 2, KYMO_MSG_REPLY, 20 + i);
    }
    analyse(&x);
    assert_int_equal(kymo_otlp_ahead(&x.chains, request(&x, 14, 103), ahead, 2), 2);
    assert_ptr_equal(ahead[0], request(&x, 13, 102));
    assert_ptr_equal(ahead[1], request(&x, 12, 101));
    assert_int_equal(kymo_otlp_ahead(&x.chains, request(&x, 14, 103), ahead, 1), 2);
    assert_int_equal(kymo_otlp_ahead(&x.chains, request(&x, 12, 101), ahead, 2), 0);
    close_scene(&x);
}

/* ---- ids ---- */

/* Casts that look alike have different ids; a window does not change them. */
static void ids(void **state)
{
    (void)state;
    struct scene x;
    uint64_t key[4];
    open_scene(&x);
    asked(&x, 50, 3, 2, 6);
    for (unsigned i = 0; i < 3; i++)
        sent(&x, 100, 1, 2, KYMO_MSG_CAST, 0);
    analyse(&x);
    assert_int_equal(x.chains.n, 4);
    for (uint32_t i = 0; i < 4; i++) {
        key[i] = x.chains.q[i].key;
        assert_int_not_equal(key[i], 0);
        for (uint32_t j = 0; j < i; j++)
            assert_int_not_equal(key[i], key[j]);
    }
    kymo_otlp_chains_free(&x.chains);
    find_chains(&x, (int64_t)(START + 90) - (int64_t)kymo_reader_meta(x.r)->t0_ticks, INT64_MAX);
    assert_int_equal(x.chains.n, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(x.chains.q[i].key, key[i + 1]);
    close_scene(&x);
}

/* ---- the export ---- */

struct lines {
    size_t lines, spans;
    int fails_after;
};

static int take(void *arg, enum kymo_otlp_signal signal, const char *line, size_t n, size_t spans, char *err,
                size_t err_size)
{
    struct lines *l = arg;
    assert_int_equal(signal, KYMO_OTLP_SPANS);
    assert_true(n < KYMO_OTLP_LINE_BYTES + 65536 && spans <= KYMO_OTLP_LINE_SPANS && spans > 0);
    assert_true(line[0] == '{' && line[n - 1] == '}' && memchr(line, '\n', n) == NULL);
    if (l->fails_after == 0) {
        snprintf(err, err_size, "planted");
        return -ENOSPC;
    }
    l->fails_after--;
    l->lines++;
    l->spans += spans;
    return 0;
}

static int export(struct scene *x, struct lines *l, struct kymo_otlp_result *res, char *err, size_t err_size)
{
    struct kymo_otlp_options o = {.from_ns = INT64_MIN, .to_ns = INT64_MAX, .version = "1"};
    struct kymo_otlp_target target = {.arg = l, .put = take};
    return kymo_export_otlp(x->r, &o, &target, res, err, err_size);
}

/* Many requests make many lines. An error of the target ends the export and is reported in the
 * target's words. */
static void lines_and_failures(void **state)
{
    (void)state;
    enum { REQUESTS = 300, IN_SEGMENT = 20 };
    struct scene x;
    struct kymo_otlp_result res;
    char err[256] = "";
    open_scene(&x);
    x.t.meta.policy = KYMO_DISCARD;
    for (unsigned i = 0; i < REQUESTS; i++) {
        if (i > 0 && i % IN_SEGMENT == 0) {
            ts_close(&x.s, true);
            tr_to_data(&x.t, 1, &x.s, true);
            ts_open(&x.s, &x.t, 0, 1 + i / IN_SEGMENT, START + 100 + 100 * i);
        }
        asked(&x, 100 + 100 * i, 1, 2, 7 + i);
    }
    write_scene(&x);
    struct lines l = {.fails_after = 100};
    assert_int_equal(export(&x, &l, &res, err, sizeof err), 0);
    assert_int_equal(res.requests, REQUESTS);
    assert_int_equal(res.traces, REQUESTS);
    assert_int_equal(res.spans, 4 * REQUESTS); /* with queued, handled and reply */
    assert_int_equal(l.spans, res.spans);
    assert_true(l.lines > 2);
    l = (struct lines){.fails_after = 1};
    assert_int_equal(export(&x, &l, &res, err, sizeof err), -ENOSPC);
    assert_string_equal(err, "planted");
    assert_int_equal(res.spans, l.spans);
    close_scene(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(asked_while_handling, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(replies_early_and_late, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(waited_behind, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(ids, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(lines_and_failures, make_dir, drop_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
