/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the tests of triggers: handmade recordings of one thread, and the triggers that have
 * fired for them. For test files only. Single-threaded.
 */
#ifndef FILM_H
#define FILM_H

#include "kymo_triggers.h"
#include "reader_fixture.h"

#define PID(n) KYMO_IDENT(KYMO_I_PID, n)

enum { MS = 1000000 };

/* A recording of one thread that grows, and what fired. */
struct film {
    struct testrec t;
    struct testseg s;
    uint64_t now, seq;
    uint32_t f, g, handle_call, boom, normal, shutdown, shop;
    struct kymo_firing *fired;
    size_t n, room;
    struct kymo_triggers *triggers;
};

static inline void on_fired(void *arg, const struct kymo_firing *f)
{
    struct film *x = arg;
    if (x->n == x->room) {
        x->room = x->room == 0 ? 64 : x->room * 2;
        x->fired = realloc(x->fired, x->room * sizeof *x->fired);
        assert_non_null(x->fired);
    }
    x->fired[x->n++] = *f;
}

static inline void open_film(struct film *x)
{
    memset(x, 0, sizeof *x);
    tr_init(&x->t);
    uint32_t m = tr_atom(&x->t, "m");
    x->f = tr_mfa(&x->t, m, tr_atom(&x->t, "f"), 1);
    x->g = tr_mfa(&x->t, m, tr_atom(&x->t, "g"), 0);
    x->handle_call = tr_mfa(&x->t, m, tr_atom(&x->t, "handle_call"), 3);
    x->boom = tr_atom(&x->t, "boom");
    x->normal = tr_atom(&x->t, "normal");
    x->shutdown = tr_atom(&x->t, "shutdown");
    x->shop = tr_atom(&x->t, "shop");
    x->now = 2000000;
    x->t.slots[0].used = 1;
    x->t.slots[0].thread_kind = KYMO_T_SCHEDULER;
    x->t.slots[0].thread_no = 1;
    ts_open(&x->s, &x->t, 0, x->seq = 1, x->now);
    x->triggers = kymo_triggers_new(on_fired, x);
    assert_non_null(x->triggers);
}

static inline void end_segment(struct film *x)
{
    ts_close(&x->s, true);
    tr_to_data(&x->t, 1, &x->s, true);
}

/* Makes room for another record, and advances the time by ns. */
static inline uint64_t after(struct film *x, uint64_t ns)
{
    x->now += ns;
    if (x->s.len > TR_SEGMENT - 200) {
        end_segment(x);
        ts_open(&x->s, &x->t, 0, ++x->seq, x->now);
    }
    return x->now;
}

static inline void wm(struct film *x, uint64_t ns, unsigned id, uint64_t who, uint32_t mfa)
{
    uint64_t at = after(x, ns);
    ts_wm(&x->s, at, id, who, mfa);
}

static inline void slow(struct film *x, uint64_t ns, uint64_t who, uint32_t mfa, uint64_t took)
{
    uint64_t at = after(x, ns);
    ts_slow(&x->s, at, who, mfa, took, UINT32_MAX);
}

static inline void message(struct film *x, uint64_t ns, unsigned id, uint64_t who, uint64_t peer,
                           uint8_t kind, uint64_t ref)
{
    uint64_t at = after(x, ns);
    ts_message(&x->s, at, id, who, peer, kind, ref);
}

static inline void gc(struct film *x, uint64_t ns, unsigned id, uint64_t who)
{
    uint8_t body[9] = {0};
    uint64_t at = after(x, ns);
    memcpy(body, &who, 8);
    ts_record(&x->s, at, id, body, sizeof body, false);
}

static inline void add(struct film *x, const char *text)
{
    char err[512] = "";
    if (kymo_triggers_add(x->triggers, text, err, sizeof err) != 0)
        fail_msg("%s", err);
}

/* Passes at most `until` events, of which those from index `from` on are new. Returns how many were
 * passed. */
static inline uint64_t give(struct film *x, struct kymo_reader *r, uint64_t from, uint64_t until)
{
    struct kymo_event ev;
    uint64_t n = 0;
    assert_int_equal(kymo_triggers_reader(x->triggers, r), 0);
    for (; n < until && kymo_reader_next(r, &ev) == 1; n++)
        assert_true(kymo_triggers_event(x->triggers, &ev, n >= from));
    assert_true(kymo_triggers_round(x->triggers, (int64_t)x->now));
    return n;
}

static inline struct kymo_reader *developed(struct film *x)
{
    end_segment(x);
    return open_it(&x->t);
}

static inline void close_film(struct film *x, struct kymo_reader *r)
{
    kymo_reader_close(r);
    kymo_triggers_free(x->triggers);
    tr_free(&x->t);
    free(x->fired);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_dir, drop_dir)

#endif
