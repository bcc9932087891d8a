/* SPDX-License-Identifier: Apache-2.0
 *
 * Races between control functions and producers: a stop at every place where a producer may be; stops,
 * pauses and snapshots under load; definitions by many threads.
 */
#include "rec_check.h"

#define PRODUCERS 4u

struct producer {
    struct kymo_recorder *r;
    pthread_t thread;
    uint64_t recorded, refused;
    bool quit; /* atomic */
};

/* Increases the counter only for events that were recorded, so that a recorder without losses has
 * no gaps. */
static void *produce(void *arg)
{
    struct producer *p = arg;
    struct kymo_writer *w = kymo_writer_get(p->r);

    /* Defines the function, which kymo_record_call requires. */
    if (w != NULL) {
        (void)kymo_dict_mfa_add(w, 0x4b, 0x8b, 0, 0, 0);
        kymo_writer_put(w);
    }
    while (!kymo_recorder_ended(p->r) && !kymo_get(&p->quit)) {
        if ((p->recorded % 2 == 0 && kymo_record_call(p->r, p->recorded, 0x4b, 0x8b, 0)) ||
            rc_call(p->r, p->recorded))
            p->recorded++;
        else
            p->refused++;
    }
    return NULL;
}

static void start(struct producer *p, struct kymo_recorder *r)
{
    for (unsigned i = 0; i < PRODUCERS; i++) {
        p[i] = (struct producer){.r = r};
        assert_int_equal(pthread_create(&p[i].thread, NULL, produce, &p[i]), 0);
    }
}

static uint64_t finish(struct producer *p)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < PRODUCERS; i++) {
        kymo_set(&p[i].quit, true);
        pthread_join(p[i].thread, NULL);
        sum += p[i].recorded;
    }
    return sum;
}

static void await_events(struct kymo_recorder *r, uint64_t n)
{
    rc_await(rc_info(r).events >= n);
}

/* Checks that the remaining calls of each producer have no gaps. */
static void check_rings(const struct rc_rec *rec)
{
    for (uint32_t i = 0; i < rec->meta.n_slots; i++) {
        uint64_t first = 0, last = 0;

        (void)rc_consecutive(rec, i, &first, &last);
    }
}

static void stop_under_load(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        enum kymo_policy policy = round % 2 ? KYMO_DISCARD : KYMO_OVERWRITE;
        struct kymo_options o = rc_options(rc_path("load"), policy);
        struct kymo_recorder *r;
        struct producer p[PRODUCERS];
        struct kymo_info at_stop, later;
        struct rc_rec rec;
        uint64_t sum;

        rc_pool(&o, PRODUCERS + 1, 16);
        r = rc_open(&o);
        if (round % 4 >= 2)
            r->head.fenced = 1; /* as if membarrier(2) were not available */
        start(p, r);
        await_events(r, 1000 * (round + 1));
        assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
        at_stop = rc_info(r);
        sum = finish(p);
        later = rc_info(r);
        assert_int_equal(at_stop.events, later.events); /* nothing after stop returned */
        assert_int_equal(rc_lost(&at_stop), rc_lost(&later));
        assert_int_equal(at_stop.events, sum);
        kymo_recorder_close(r);
        rc_load(o.dir, &rec);
        assert_int_equal(rec.real + at_stop.overwritten, sum);
        assert_int_equal(rec.noted[KYMO_LOST_RING_FULL], at_stop.lost[KYMO_LOST_RING_FULL]);
        if (policy == KYMO_OVERWRITE)
            assert_int_equal(rc_lost(&at_stop), 0);
        check_rings(&rec);
        rc_free(&rec);
        rc_remove(o.dir);
    }
}

/* ---- a stopped producer ------------------------------------------------------------ */

enum place { IN_GET, IN_RESERVED, IN_RESET, IN_OPEN, IN_CLAIM, IN_DICT };

struct standing {
    struct kymo_recorder *r;
    enum place place;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool there, go;
    bool recorded;
};

static void stand(struct standing *s)
{
    pthread_mutex_lock(&s->mutex);
    s->there = true;
    pthread_cond_broadcast(&s->cond);
    while (!s->go)
        pthread_cond_wait(&s->cond, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
}

static void *stands(void *arg)
{
    struct standing *s = arg;
    struct kymo_writer *w = kymo_writer_get(s->r);
    uint8_t *p;

    if (w == NULL)
        return NULL;
    if (s->place == IN_GET)
        stand(s);
    if (s->place == IN_DICT)
        (void)kymo_dict_atom_add(w, 1, "x", 1);
    p = kymo_reserve(w, KYMO_E_CALL, 12);
    if (s->place == IN_RESERVED)
        stand(s);
    if (p != NULL)
        kymo_commit(w, kymo_put32(kymo_put64(p, 0), 0));
    s->recorded = p != NULL;
    kymo_writer_put(w);
    return NULL;
}

struct stopping {
    struct kymo_recorder *r;
    bool pause;
    int rc;
    bool done; /* atomic */
};

static void *stops(void *arg)
{
    struct stopping *s = arg;

    s->rc = s->pause ? kymo_recorder_pause(s->r) : kymo_recorder_stop(s->r, KYMO_R_STOP);
    kymo_set_release(&s->done, true);
    return NULL;
}

/* Stop and pause wait for a producer in the critical section, wherever it is, and its event is
 * recorded. A producer that has not entered yet is refused. */
static void waits_for_a_standing_producer(void **state)
{
    static const enum kymo_point gates[] = {[IN_RESET] = KYMO_AT_SEGMENT_RESET,
                                            [IN_OPEN] = KYMO_AT_SEGMENT_OPEN,
                                            [IN_CLAIM] = KYMO_AT_CLAIM,
                                            [IN_DICT] = KYMO_AT_DICT_RESERVED};

    (void)state;
    for (unsigned round = 0; round < 2 * (IN_DICT + 1); round++) {
        struct kymo_options o = rc_options(rc_path("standing"), KYMO_OVERWRITE);
        struct standing s = {.place = (enum place)(round / 2)};
        struct stopping stop = {.pause = round % 2 == 1};
        bool gate = s.place >= IN_RESET;
        unsigned quiesced = rc_passed(KYMO_AT_QUIESCE);
        struct rc_rec rec;
        pthread_t t, ts;

        pthread_mutex_init(&s.mutex, NULL);
        pthread_cond_init(&s.cond, NULL);
        s.r = stop.r = rc_open(&o);
        if (gate)
            rc_arm(gates[s.place]);
        assert_int_equal(pthread_create(&t, NULL, stands, &s), 0);
        if (gate) {
            rc_await_gate(gates[s.place]);
        } else {
            pthread_mutex_lock(&s.mutex);
            while (!s.there)
                pthread_cond_wait(&s.cond, &s.mutex);
            pthread_mutex_unlock(&s.mutex);
        }
        assert_int_equal(pthread_create(&ts, NULL, stops, &stop), 0);
        if (s.place == IN_CLAIM) {
            pthread_join(ts, NULL); /* no producer is in the critical section: it does not wait */
            rc_release(gates[s.place]);
        } else {
            rc_await_passed(KYMO_AT_QUIESCE, quiesced + 1);
            assert_false(kymo_get_acquire(&stop.done));
            if (gate) {
                rc_release(gates[s.place]);
            } else {
                pthread_mutex_lock(&s.mutex);
                s.go = true;
                pthread_cond_broadcast(&s.cond);
                pthread_mutex_unlock(&s.mutex);
            }
            pthread_join(ts, NULL);
        }
        pthread_join(t, NULL);
        assert_int_equal(stop.rc, 0);
        assert_int_equal(s.recorded, s.place != IN_CLAIM);
        assert_int_equal(rc_info(s.r).events, s.recorded);
        assert_int_equal(rc_info(s.r).slots_used, s.recorded);
        kymo_recorder_close(s.r);
        rc_load(o.dir, &rec);
        assert_int_equal(rec.real, s.recorded);
        rc_free(&rec);
        rc_remove(o.dir);
        pthread_mutex_destroy(&s.mutex);
        pthread_cond_destroy(&s.cond);
    }
}

/* ---- pause, snapshot, churn under load ------------------------------------------------ */

static void pause_under_load(void **state)
{
    struct kymo_options o = rc_options(rc_path("pauses"), KYMO_OVERWRITE);
    struct kymo_recorder *r;
    struct producer p[PRODUCERS];
    uint64_t sum;
    struct rc_rec rec;

    (void)state;
    rc_pool(&o, PRODUCERS, 16);
    r = rc_open(&o);
    start(p, r);
    for (unsigned i = 0; i < 50; i++) {
        uint64_t n;

        await_events(r, rc_info(r).events + 100);
        assert_int_equal(kymo_recorder_pause(r), 0);
        n = rc_info(r).events;
        for (unsigned k = 0; k < 100; k++)
            assert_int_equal(rc_info(r).events, n); /* nothing while paused */
        assert_int_equal(kymo_recorder_resume(r), 0);
    }
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    sum = finish(p);
    assert_int_equal(rc_info(r).events, sum);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    check_rings(&rec);
    rc_free(&rec);
}

static void snapshots_under_load(void **state)
{
    (void)state;
    for (unsigned policy = KYMO_OVERWRITE; policy <= KYMO_DISCARD; policy++) {
        struct kymo_options o = rc_options(rc_path(policy ? "snap-d" : "snap-o"), (enum kymo_policy)policy);
        struct producer p[PRODUCERS];
        struct kymo_recorder *r;
        uint64_t segments, events, total = 0;

        rc_pool(&o, 8, 128);
        r = rc_open(&o);
        start(p, r);
        await_events(r, 20000);
        for (unsigned i = 0; i < 40; i++) {
            struct rc_rec rec;
            uint64_t sum = 0;

            assert_int_equal(kymo_recorder_snapshot(r, rc_path("snapshot"), &segments, &events), 0);
            rc_load(rc_path("snapshot"), &rec);
            assert_int_equal(rec.n_segs, segments);
            assert_int_equal(rec.real, events);
            for (uint32_t k = 0; k < rec.meta.n_slots; k++) {
                uint64_t first = 0, last = 0, n = rc_consecutive(&rec, k, &first, &last);

                assert_int_equal(rec.slots[k].events - rec.slots[k].overwritten, n);
                if (n > 0)
                    assert_int_equal(last + 1, rec.slots[k].events); /* it ends at the cut */
                sum += n;
            }
            assert_int_equal(sum, events);
            for (size_t k = 1; k < rec.n_segs; k++) {
                if (rec.segs[k].head.instance == rec.segs[k - 1].head.instance)
                    assert_int_equal(rec.segs[k].head.seq, rec.segs[k - 1].head.seq + 1);
            }
            total += events;
            rc_free(&rec);
            rc_remove(rc_path("snapshot"));
        }
        assert_true(total > 0);
        assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
        assert_int_equal(finish(p), rc_info(r).events);
        kymo_recorder_close(r);
    }
}

struct churn {
    struct kymo_recorder *r;
    uint64_t recorded;
    bool quit; /* atomic */
};

static void *short_life(void *arg)
{
    struct churn *c = arg;

    kymo_add(&c->recorded, rc_calls(c->r, 0, 37));
    return NULL;
}

static void *churns(void *arg)
{
    struct churn *c = arg;

    while (!kymo_get(&c->quit)) {
        pthread_t t[3];

        for (unsigned i = 0; i < 3; i++) {
            if (pthread_create(&t[i], NULL, short_life, c) != 0)
                abort();
        }
        for (unsigned i = 0; i < 3; i++)
            pthread_join(t[i], NULL);
    }
    return NULL;
}

/* Threads start and exit while the recorder is paused, stopped, closed and replaced by another. */
static void churn_under_control(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 15; round++) {
        struct kymo_options o = rc_options(rc_path("churn"), KYMO_OVERWRITE);
        struct churn c[2];
        pthread_t t[2];
        uint64_t sum = 0;
        struct rc_rec rec;

        rc_pool(&o, 4, 16); /* sometimes fewer than there are threads */
        c[0] = (struct churn){.r = rc_open(&o)};
        c[1] = c[0];
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&t[i], NULL, churns, &c[i]), 0);
        await_events(c[0].r, 2000);
        assert_int_equal(kymo_recorder_pause(c[0].r), 0);
        assert_int_equal(kymo_recorder_resume(c[0].r), 0);
        await_events(c[0].r, 4000);
        assert_int_equal(kymo_recorder_stop(c[0].r, KYMO_R_STOP), 0);
        for (unsigned i = 0; i < 2; i++) {
            kymo_set(&c[i].quit, true);
            pthread_join(t[i], NULL);
            sum += c[i].recorded;
        }
        assert_int_equal(rc_info(c[0].r).events, sum);
        assert_true(rc_info(c[0].r).slots_used <= 4);
        kymo_recorder_close(c[0].r);
        rc_load(o.dir, &rec);
        assert_int_equal(rec.real + rec.slots[0].overwritten + rec.slots[1].overwritten +
                             rec.slots[2].overwritten + rec.slots[3].overwritten,
                         sum);
        rc_free(&rec);
        rc_remove(o.dir);
    }
}

/* ---- definitions -------------------------------------------------------------------------- */

#define WORDS 2000u

struct definer {
    struct kymo_recorder *r;
    pthread_barrier_t *b;
    unsigned no;
    pthread_t thread;
    uint32_t ids[WORDS];
};

static void *defines(void *arg)
{
    struct definer *d = arg;

    pthread_barrier_wait(d->b);
    for (unsigned i = 0; i < WORDS; i++) {
        unsigned k = (i + d->no * 7) % WORDS; /* nearly the same order */
        struct kymo_writer *w = kymo_writer_get(d->r);
        char name[16];
        uint8_t *p;

        if (w == NULL)
            abort();
        (void)snprintf(name, sizeof name, "%u", k);
        d->ids[k] = kymo_dict_atom(w, k + 1);
        if (d->ids[k] == 0)
            d->ids[k] = kymo_dict_atom_add(w, k + 1, name, strlen(name));
        p = kymo_reserve(w, KYMO_E_CALL, 12);
        if (p != NULL)
            kymo_commit(w, kymo_put32(kymo_put64(p, k), d->ids[k]));
        kymo_writer_put(w);
    }
    return NULL;
}

/* Each id in an event has the right name, whichever thread defined it. */
static void definitions_by_many(void **state)
{
    struct kymo_options o = rc_options(rc_path("definitions"), KYMO_OVERWRITE);
    struct definer *d = calloc(PRODUCERS, sizeof *d);
    const char **names = calloc(PRODUCERS * WORDS + 1, sizeof *names);
    const struct kymo_dict_entry *e;
    struct kymo_recorder *r;
    pthread_barrier_t b;
    struct rc_rec rec;
    size_t at = 0;

    (void)state;
    assert_non_null(d);
    assert_non_null(names);
    o.dict_bytes = 1u << 20;
    rc_pool(&o, 8, 512);
    r = rc_open(&o);
    pthread_barrier_init(&b, NULL, PRODUCERS);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        d[i].r = r;
        d[i].b = &b;
        d[i].no = i;
        assert_int_equal(pthread_create(&d[i].thread, NULL, defines, &d[i]), 0);
    }
    for (unsigned i = 0; i < PRODUCERS; i++)
        pthread_join(d[i].thread, NULL);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    while ((e = rc_entry(&rec, &at)) != NULL) {
        assert_in_range(e->id, 1, PRODUCERS * WORDS);
        assert_null(names[e->id]); /* no id twice */
        names[e->id] = (const char *)(e + 1);
    }
    assert_int_equal(rec.real, PRODUCERS * WORDS);
    for (size_t i = 0; i < rec.n_events; i++) {
        const struct rc_event *ev = &rec.events[i];

        if (ev->id == KYMO_E_CALL) {
            assert_non_null(names[ev->mfa]);
            assert_int_equal(strtoul(names[ev->mfa], NULL, 10), ev->who);
        }
    }
    rc_free(&rec);
    pthread_barrier_destroy(&b);
    free(names);
    free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop_under_load),     cmocka_unit_test(waits_for_a_standing_producer),
        cmocka_unit_test(pause_under_load),    cmocka_unit_test(snapshots_under_load),
        cmocka_unit_test(churn_under_control), cmocka_unit_test(definitions_by_many),
    };

    return cmocka_run_group_tests_name("races", tests, rc_setup, rc_teardown);
}
