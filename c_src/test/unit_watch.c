/* SPDX-License-Identifier: Apache-2.0
 *
 * Triggers over recordings made by hand: thousands of causes of known size, half of them
 * just beyond the limit and half just at it. Each of the former fires once and names its
 * cause, none of the latter does.
 */
#include "kymo_triggers.h"
#include "reader_fixture.h"

#define PID(n) KYMO_IDENT(KYMO_I_PID, n)

enum { CAUSES = 20000, LIMIT = 5000, MS = 1000000 };

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

static void on_fired(void *arg, const struct kymo_firing *f)
{
    struct film *x = arg;
    if (x->n == x->room) {
        x->room = x->room == 0 ? 64 : x->room * 2;
        x->fired = realloc(x->fired, x->room * sizeof *x->fired);
        assert_non_null(x->fired);
    }
    x->fired[x->n++] = *f;
}

static void open_film(struct film *x)
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

static void end_segment(struct film *x)
{
    ts_close(&x->s, true);
    tr_to_data(&x->t, 1, &x->s, true);
}

/* Room for another record, after so much time. */
static uint64_t after(struct film *x, uint64_t ns)
{
    x->now += ns;
    if (x->s.len > TR_SEGMENT - 200) {
        end_segment(x);
        ts_open(&x->s, &x->t, 0, ++x->seq, x->now);
    }
    return x->now;
}

static void wm(struct film *x, uint64_t ns, unsigned id, uint64_t who, uint32_t mfa)
{
    uint64_t at = after(x, ns);
    ts_wm(&x->s, at, id, who, mfa);
}

static void message(struct film *x, uint64_t ns, unsigned id, uint64_t who, uint64_t peer, uint8_t kind,
                    uint64_t ref)
{
    uint64_t at = after(x, ns);
    ts_message(&x->s, at, id, who, peer, kind, ref);
}

static void gc(struct film *x, uint64_t ns, unsigned id, uint64_t who)
{
    uint8_t body[9] = {0};
    uint64_t at = after(x, ns);
    memcpy(body, &who, 8);
    ts_record(&x->s, at, id, body, sizeof body, false);
}

static void add(struct film *x, const char *text)
{
    char err[512] = "";
    if (kymo_triggers_add(x->triggers, text, err, sizeof err) != 0)
        fail_msg("%s", err);
}

/* Gives all events; those from `from` on are new, `until` stops. How many were given. */
static uint64_t give(struct film *x, struct kymo_reader *r, uint64_t from, uint64_t until)
{
    struct kymo_event ev;
    uint64_t n = 0;
    assert_int_equal(kymo_triggers_reader(x->triggers, r), 0);
    for (; n < until && kymo_reader_next(r, &ev) == 1; n++)
        assert_true(kymo_triggers_event(x->triggers, &ev, n >= from));
    assert_true(kymo_triggers_round(x->triggers, (int64_t)x->now));
    return n;
}

static struct kymo_reader *developed(struct film *x)
{
    end_segment(x);
    return open_it(&x->t);
}

static void close_film(struct film *x, struct kymo_reader *r)
{
    kymo_reader_close(r);
    kymo_triggers_free(x->triggers);
    tr_free(&x->t);
    free(x->fired);
}

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

/* Each odd cause has fired, once, and nothing else. */
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

/* ---- each kind ---- */

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
        wm(&x, 10, KYMO_E_CALL, PID(i % 7 + 1), x.g); /* slow, and not asked for */
        wm(&x, size_of(i) - 10, KYMO_E_RETURN_FROM, PID(i % 7 + 1), x.f);
    }
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    check(&x, starts, false);
    assert_int_equal(x.fired[0].mfa, x.f);
    close_film(&x, r);
    free(starts);
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
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    check(&x, starts, true);
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
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    check(&x, starts, false);
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
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    check(&x, starts, false);
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

/* The dictionary was full: the reason may have been any. */
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

/* ---- while it lasts ---- */

/* What is open fires once, and not again at its end. */
static void film_open_ones(bool exits)
{
    struct film x;
    open_film(&x);
    add(&x, "call,m:f,1ms");
    add(&x, "request,_,1ms");
    add(&x, "schedule,1ms");
    add(&x, "schedule,3ms");
    if (exits)
        wm(&x, 10, KYMO_E_EXIT, PID(8), x.normal);
    wm(&x, 10, KYMO_E_CALL, PID(9), x.f); /* so it is known that its ends are recorded */
    wm(&x, 10, KYMO_E_RETURN_FROM, PID(9), x.f);
    wm(&x, 10, KYMO_E_IN, PID(1), x.f); /* and those of its runs */
    wm(&x, 10, KYMO_E_OUT, PID(1), x.f);
    wm(&x, 10, KYMO_E_IN, PID(1), x.f);
    wm(&x, 10, KYMO_E_CALL, PID(1), x.f);
    message(&x, 10, KYMO_E_SEND, PID(1), PID(2), KYMO_MSG_CALL, 77);
    uint64_t sent = x.now;
    wm(&x, 2 * MS, KYMO_E_CALL, PID(3), x.g);
    uint64_t first = x.now;
    message(&x, 10, KYMO_E_SEND, PID(2), PID(1), KYMO_MSG_REPLY, 77);
    message(&x, 10, KYMO_E_RECEIVE, PID(1), PID(2), KYMO_MSG_REPLY, 77);
    wm(&x, 10, KYMO_E_RETURN_FROM, PID(1), x.f);
    wm(&x, 2 * MS, KYMO_E_OUT, PID(1), x.f);
    struct kymo_reader *r = developed(&x);
    uint64_t all = x.now;
    x.now = first;
    uint64_t given = give(&x, r, 0, exits ? 9 : 8);
    assert_int_equal(x.n, exits ? 3 : 0);
    for (size_t i = 0; i < x.n; i++) {
        assert_true(x.fired[i].open && x.fired[i].process == PID(1));
        assert_int_equal(x.fired[i].number, i);
        assert_int_equal(x.fired[i].end, first);
    }
    if (exits) {
        assert_int_equal(x.fired[1].start, sent);
        assert_true(x.fired[1].server == PID(2));
    }
    /* The same recording opened again: what was given is not new. */
    struct kymo_reader *later = open_written();
    x.now = all;
    give(&x, later, given, UINT64_MAX);
    kymo_reader_close(r);
    assert_int_equal(x.n, 4);
    size_t at_end = 0;
    for (size_t i = 0; i < x.n; i++)
        at_end += !x.fired[i].open;
    assert_int_equal(at_end, exits ? 1 : 4); /* the run has exceeded the other limit by its end */
    close_film(&x, later);
}

static void open_ones(void **state)
{
    (void)state;
    film_open_ones(true);
}

/* A process may have exited unseen: what it did fires at its end. */
static void without_exits(void **state)
{
    (void)state;
    film_open_ones(false);
}

/* Nothing says that the call ends: it may have ended long ago. */
static void without_ends(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "call,_,1us");
    for (unsigned i = 0; i < 5000; i++)
        wm(&x, 1000 * MS, KYMO_E_CALL, PID(1), i % 2 == 0 ? x.f : x.g);
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, 0);
    close_film(&x, r);
}

/* A process that has become sensitive: it is seen to begin to run, and no more. */
static void sensitive(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "schedule,1us");
    wm(&x, 10, KYMO_E_EXIT, PID(8), x.normal);
    wm(&x, 10, KYMO_E_IN, PID(1), x.f);
    x.now += 1000 * MS;
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, 0);
    close_film(&x, r);
}

static void note_state(struct film *x, uint64_t ns, uint8_t state)
{
    uint64_t at = after(x, ns);
    ts_record(&x->s, at, KYMO_E_STATE, &state, 1, false);
}

/* Calls that end while the recorder is paused are not open, and not over either. */
static void paused(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "call,m:f,1ms");
    add(&x, "request,_,1ms");
    wm(&x, 10, KYMO_E_EXIT, PID(8), x.normal);
    wm(&x, 10, KYMO_E_CALL, PID(1), x.f);
    wm(&x, 10, KYMO_E_RETURN_FROM, PID(1), x.f);
    wm(&x, 10, KYMO_E_CALL, PID(1), x.f);
    wm(&x, 10, KYMO_E_CALL, PID(2), x.f); /* of which nothing more is heard */
    message(&x, 10, KYMO_E_SEND, PID(1), PID(2), KYMO_MSG_CALL, 77);
    note_state(&x, 10, KYMO_PAUSED);
    struct kymo_reader *r = developed(&x);
    x.now += 10 * MS;
    uint64_t given = give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, 0);
    ts_open(&x.s, &x.t, 0, ++x.seq, x.now);
    note_state(&x, 10, KYMO_ACTIVE);
    wm(&x, 10 * MS, KYMO_E_RETURN_FROM, PID(1), x.f); /* of another call */
    wm(&x, 10, KYMO_E_CALL, PID(1), x.f);
    wm(&x, 2 * MS, KYMO_E_RETURN_FROM, PID(1), x.f);
    struct kymo_reader *later = developed(&x);
    give(&x, later, given, UINT64_MAX);
    kymo_reader_close(r);
    assert_int_equal(x.n, 1);
    assert_int_equal(x.fired[0].value, 2 * MS);
    close_film(&x, later);
}

/* The first call of its function, whose end is in a later state. */
static void first_call(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "call,m:f/1,1ms");
    wm(&x, 10, KYMO_E_CALL, PID(1), x.f);
    struct kymo_reader *r = developed(&x);
    x.now += 5 * MS;
    assert_int_equal(give(&x, r, 0, UINT64_MAX), 1);
    assert_int_equal(x.n, 0); /* nothing has said yet that its ends are recorded */
    ts_open(&x.s, &x.t, 0, ++x.seq, x.now);
    wm(&x, 10, KYMO_E_RETURN_FROM, PID(1), x.f);
    struct kymo_reader *later = developed(&x);
    give(&x, later, 1, UINT64_MAX);
    kymo_reader_close(r);
    assert_int_equal(x.n, 1);
    assert_int_equal(x.fired[0].value, 5 * MS + 10);
    close_film(&x, later);
}

/* Events are missing in between: what looks like the end may be that of another call. */
static void gap(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "call,m:f/1,1ms");
    wm(&x, 10, KYMO_E_CALL, PID(1), x.f);
    wm(&x, 5 * MS, KYMO_E_RETURN_FROM, PID(1), x.f);
    wm(&x, 10, KYMO_E_CALL, PID(1), x.f);
    wm(&x, 5 * MS, KYMO_E_RETURN_FROM, PID(1), x.f);
    struct kymo_reader *r = developed(&x);
    uint64_t end = x.now;
    x.now = 2000000;
    give(&x, r, 0, 1);
    kymo_triggers_gap(x.triggers);
    struct kymo_reader *later = open_written();
    x.now = end;
    give(&x, later, 1, UINT64_MAX);
    kymo_reader_close(r);
    assert_int_equal(x.n, 1);
    assert_int_equal(x.fired[0].end, end);
    close_film(&x, later);
}

static void from_a_time(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "collection,1us");
    for (unsigned i = 0; i < 10; i++) {
        gc(&x, 1000, KYMO_E_GC_MINOR_START, PID(1));
        gc(&x, 2000, KYMO_E_GC_MINOR_END, PID(1));
        if (i == 6)
            kymo_triggers_from(x.triggers, (int64_t)x.now);
    }
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, 4);
    close_film(&x, r);
}

/* A cause at 0, 2, 4 ... us of which each takes 1 us. */
static void cooldown(void **state)
{
    (void)state;
    struct film x;
    open_film(&x);
    add(&x, "collection,500ns");
    add(&x, "collection,600ns");
    kymo_triggers_cooldown(x.triggers, 10000);
    for (unsigned i = 0; i < 1000; i++) {
        gc(&x, 1000, KYMO_E_GC_MINOR_START, PID(1));
        gc(&x, 1000, KYMO_E_GC_MINOR_END, PID(1));
    }
    struct kymo_reader *r = developed(&x);
    give(&x, r, 0, UINT64_MAX);
    assert_int_equal(x.n, 2 * 200);
    assert_int_equal(kymo_triggers_suppressed(x.triggers), 2 * 800);
    for (size_t i = 2; i < x.n; i++)
        assert_int_equal(x.fired[i].end - x.fired[i - 2].end, 10000);
    close_film(&x, r);
}

/* ---- what is refused ---- */

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {{"", "no kind of trigger; allowed: call,FUNCTIONS,TIME"},
               {"calls,m:f,1ms", "no kind of trigger"},
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
               {"schedule,-1s", "'-1s' is not a time"}};
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
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(calls),         IN_FOLDER(requests),     IN_FOLDER(collections),
        IN_FOLDER(schedules),     IN_FOLDER(dirty),        IN_FOLDER(exits),
        IN_FOLDER(mailboxes),     IN_FOLDER(open_ones),    IN_FOLDER(unknown_reason),
        IN_FOLDER(gap),           IN_FOLDER(without_ends), IN_FOLDER(first_call),
        IN_FOLDER(from_a_time),   IN_FOLDER(cooldown),     IN_FOLDER(sensitive),
        IN_FOLDER(without_exits), IN_FOLDER(paused),       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
