/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the pool: which segments of each thread are kept, and from when on the recording is
 * complete.
 *
 * Threads take turns, so the tests do not depend on their speed.
 */
#include "rec_check.h"

#define PER_SEGMENT ((4096 - KYMO_SEG_HEADER) / RC_CALL_BYTES)
#define SEGMENTS 64u

/* ---- threads that record on request ---- */

struct turn {
    struct kymo_recorder *r;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint64_t ordered, done, counter, recorded;
    bool quit;
};

static void *obeys(void *arg)
{
    struct turn *t = arg;

    pthread_mutex_lock(&t->mutex);
    for (;;) {
        while (t->done == t->ordered && !t->quit)
            pthread_cond_wait(&t->cond, &t->mutex);
        if (t->done == t->ordered)
            break;
        for (; t->done < t->ordered; t->done++)
            t->recorded += rc_call(t->r, t->counter++);
        pthread_cond_broadcast(&t->cond);
    }
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

static void begin(struct turn *t, struct kymo_recorder *r)
{
    memset(t, 0, sizeof *t);
    t->r = r;
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->cond, NULL);
    assert_int_equal(pthread_create(&t->thread, NULL, obeys, t), 0);
}

/* Returns when the thread has recorded n more calls. */
static void order(struct turn *t, uint64_t n)
{
    pthread_mutex_lock(&t->mutex);
    t->ordered += n;
    pthread_cond_broadcast(&t->cond);
    while (t->done < t->ordered)
        pthread_cond_wait(&t->cond, &t->mutex);
    pthread_mutex_unlock(&t->mutex);
}

static void end(struct turn *t)
{
    pthread_mutex_lock(&t->mutex);
    t->quit = true;
    pthread_cond_broadcast(&t->cond);
    pthread_mutex_unlock(&t->mutex);
    pthread_join(t->thread, NULL);
}

static uint64_t oldest_kept(const struct rc_rec *rec, uint64_t instance)
{
    for (size_t i = 0; i < rec->n_segs; i++) {
        if (rec->segs[i].head.instance == instance && rec->segs[i].events > 0)
            return rec->events[rec->segs[i].first].ticks;
    }
    return UINT64_MAX;
}

static uint64_t horizon(const struct rc_rec *rec)
{
    uint64_t h = 0;

    for (uint32_t i = 0; i < rec->meta.n_slots; i++)
        h = rec->slots[i].gone_until > h ? rec->slots[i].gone_until : h;
    return h;
}

/* ---- overwrite ------------------------------------------------------------------------ */

/* One thread records at a high rate, one fills a segment in many laps, one in a single lap: the
 * events kept of each reach equally far back. */
static void reaches_back_equally_far(void **state)
{
    static const uint64_t slow_events[] = {1,
                                           3,
                                           PER_SEGMENT / 2,
                                           PER_SEGMENT - 20,
                                           PER_SEGMENT,
                                           PER_SEGMENT + 1,
                                           PER_SEGMENT + 20,
                                           3 * PER_SEGMENT};

    (void)state;
    for (unsigned k = 0; k < sizeof slow_events / sizeof *slow_events; k++) {
        struct kymo_options o = rc_options(rc_path("equal"), KYMO_OVERWRITE);
        struct turn fast, slow;
        struct kymo_recorder *r;
        struct rc_rec rec;
        uint64_t h, oldest_slow, stamps[5 * 16];

        rc_pool(&o, 2, SEGMENTS);
        r = rc_open(&o);
        begin(&fast, r);
        begin(&slow, r);
        /* The slow thread records a sixteenth of its events in each sixteenth of a lap. */
        for (unsigned lap = 0; lap < 5 * 16; lap++) {
            order(&fast, SEGMENTS * PER_SEGMENT / 16);
            if (slow_events[k] * (lap + 1) / 16 > slow_events[k] * lap / 16)
                order(&slow, slow_events[k] * (lap + 1) / 16 - slow_events[k] * lap / 16);
            stamps[lap] = kymo_clock_now(r);
            /* Events younger than half a lap are never overwritten. */
            for (uint32_t i = 0; i < 2 && lap >= 8; i++)
                assert_true(kymo_get(&r->slots[i].gone_until) < stamps[lap - 8]);
        }
        end(&fast);
        end(&slow);
        kymo_recorder_close(r);
        rc_load(o.dir, &rec);
        h = horizon(&rec);
        oldest_slow = oldest_kept(&rec, 1);
        assert_true(h > 0);
        /* After the horizon nothing is missing. */
        for (uint64_t i = 0; i < 2; i++) {
            uint64_t expected = 0, kept = 0;

            for (size_t e = 0; e < rec.n_events; e++) {
                if (rec.events[e].instance != i || rec.events[e].id != KYMO_E_CALL ||
                    rec.events[e].ticks <= h)
                    continue;
                if (kept++ > 0)
                    assert_int_equal(rec.events[e].who, expected);
                expected = rec.events[e].who + 1;
            }
            assert_true(i != 0 || kept > 0);
            if (kept > 0)
                assert_int_equal(expected, (i == 0 ? fast : slow).counter);
        }
        /* The slow thread's last lap is still there. */
        if (slow_events[k] >= 16)
            assert_true(oldest_slow < stamps[5 * 16 - 8]);
        rc_free(&rec);
        rc_remove(o.dir);
    }
}

/* A thread that has exited has no open segment: its last events are overwritten like all others,
 * and then the horizon is after them. */
static void threads_that_ended(void **state)
{
    struct kymo_options o = rc_options(rc_path("ended"), KYMO_OVERWRITE);
    struct turn first, second;
    struct kymo_recorder *r;
    struct rc_rec rec;
    uint64_t copied;

    (void)state;
    rc_pool(&o, 3, SEGMENTS);
    r = rc_open(&o);
    begin(&first, r);
    begin(&second, r);
    order(&first, 10);
    order(&second, 1);
    end(&first);
    order(&second, 3 * SEGMENTS * PER_SEGMENT);
    assert_int_equal(kymo_recorder_snapshot(r, rc_path("ended-copy"), NULL, &copied), 0);
    end(&second);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(oldest_kept(&rec, 0), UINT64_MAX);
    assert_int_equal(rec.slots[0].overwritten, 10);
    assert_true(rec.slots[0].gone_until != 0 && rec.slots[0].gone_until <= horizon(&rec));
    assert_int_equal(rec.real + rec.slots[0].overwritten + rec.slots[1].overwritten,
                     11 + 3 * SEGMENTS * PER_SEGMENT);
    rc_free(&rec);
    rc_load(rc_path("ended-copy"), &rec);
    assert_int_equal(rec.slots[0].overwritten, 10);
    assert_true(rec.slots[0].gone_until != 0);
    assert_true(rec.slots[1].gone_until > rec.slots[0].gone_until);
    assert_int_equal(rec.real, copied);
    rc_free(&rec);
}

/* The counters of a live recorder agree with what is kept. */
static void info_tells_the_horizon(void **state)
{
    struct kymo_options o = rc_options(rc_path("info"), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);
    struct kymo_info before = rc_info(r), after;

    (void)state;
    assert_int_equal(before.complete_from_ns, r->t0_ns);
    assert_true(before.until_ns >= before.complete_from_ns);
    assert_true(rc_calls(r, 0, 3 * PER_SEGMENT) == 3 * PER_SEGMENT);
    assert_int_equal(rc_info(r).complete_from_ns, r->t0_ns);
    assert_int_equal(rc_info(r).used, 3 * 4096);
    assert_true(rc_calls(r, 0, 10 * PER_SEGMENT) == 10 * PER_SEGMENT);
    after = rc_info(r);
    assert_int_equal(after.used, 4 * 4096);
    assert_true(after.complete_from_ns > before.complete_from_ns);
    assert_true(after.complete_from_ns < after.until_ns);
    assert_int_equal(after.memory, kymo_options_memory(&o));
    kymo_recorder_close(r);
}

/* A thread is held after it has drawn a ticket, while others use the whole pool: it must not take a
 * place that was used since. */
static void a_late_ticket_takes_nothing_new(void **state)
{
    struct kymo_options o = rc_options(rc_path("late"), KYMO_OVERWRITE);
    struct turn late, other;
    struct kymo_recorder *r;
    struct rc_rec rec;
    uint64_t h, older = 0;

    (void)state;
    rc_pool(&o, 2, SEGMENTS);
    r = rc_open(&o);
    begin(&late, r);
    begin(&other, r);
    order(&late, PER_SEGMENT);
    order(&other, 1);
    rc_arm(KYMO_AT_TICKET);
    pthread_mutex_lock(&late.mutex);
    late.ordered++;
    pthread_cond_broadcast(&late.cond);
    pthread_mutex_unlock(&late.mutex);
    rc_await_gate(KYMO_AT_TICKET);
    order(&other, (SEGMENTS + SEGMENTS / 2) * PER_SEGMENT);
    rc_release(KYMO_AT_TICKET);
    order(&late, 0); /* returns when the event is recorded */
    end(&late);
    end(&other);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    h = horizon(&rec);
    /* The segment at its ticket's place is of the last lap, and still there. */
    for (size_t i = 0; i < rec.n_segs; i++)
        older += rec.segs[i].head.instance != 0 && rec.segs[i].head.ts_end <= h;
    assert_in_range(older, 0, 1);
    assert_true(rec.n_segs >= SEGMENTS - 1);
    rc_free(&rec);
}

/* Under overwrite, closed segments get their CRCs while others are written, and at the end all have
 * one. A segment that is reused during this makes no thread wait, and does not get the CRC of its
 * old contents. */
static void closed_segments_get_sums(void **state)
{
    struct kymo_options o = rc_options(rc_path("sums"), KYMO_OVERWRITE);
    struct kymo_recorder *r;
    struct rc_rec rec;

    (void)state;
    rc_pool(&o, 1, SEGMENTS);
    r = rc_open(&o);
    for (uint64_t n = 0; n < 20; n++) {
        rc_arm(KYMO_AT_SUM);
        rc_calls(r, 100 * n * PER_SEGMENT, 3 * PER_SEGMENT);
        rc_await_gate(KYMO_AT_SUM); /* the worker has computed the CRC of a segment */
        rc_calls(r, (100 * n + 3) * PER_SEGMENT, (SEGMENTS + n) * PER_SEGMENT);
        rc_release(KYMO_AT_SUM);
        rc_arm(KYMO_AT_SUM);
        rc_calls(r, (100 * n + 80) * PER_SEGMENT, 2 * PER_SEGMENT);
        rc_await_gate(KYMO_AT_SUM); /* it has finished the previous one */
        rc_load(o.dir, &rec);       /* checks the CRCs of segments that have one */
        assert_int_equal(rec.n_segs, SEGMENTS);
        for (size_t i = 1; i < rec.n_segs; i++)
            assert_int_equal(rec.segs[i].head.seq, rec.segs[i - 1].head.seq + 1);
        rc_free(&rec);
        rc_release(KYMO_AT_SUM);
    }
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    for (size_t i = 0; i < rec.n_segs; i++)
        assert_true(rec.segs[i].head.flags & KYMO_SEG_CRC);
    assert_int_equal(rec.n_segs, SEGMENTS);
    rc_free(&rec);
}

/* ---- discard -------------------------------------------------------------------------- */

/* The worker is stopped and one thread records at a high rate: a thread that records little loses
 * nothing. */
static void a_flood_loses_its_own(void **state)
{
    struct kymo_options o = rc_options(rc_path("flood"), KYMO_DISCARD);
    struct turn flood, little;
    struct kymo_recorder *r;
    struct kymo_slot slot;
    struct rc_rec rec;

    (void)state;
    rc_pool(&o, 2, 16);
    r = rc_open(&o);
    begin(&flood, r);
    begin(&little, r);
    order(&flood, 1);
    order(&little, 1);
    rc_arm(KYMO_AT_DRAIN);
    order(&flood, 100 * PER_SEGMENT);
    rc_await_gate(KYMO_AT_DRAIN);
    order(&flood, 100 * PER_SEGMENT);
    order(&little, 2 * PER_SEGMENT - 1); /* all of its two segments */
    assert_true(flood.recorded < flood.done);
    assert_int_equal(little.recorded, 2 * PER_SEGMENT);
    order(&little, 1);
    assert_int_equal(little.recorded, 2 * PER_SEGMENT); /* then it exceeds its share, too */
    rc_release(KYMO_AT_DRAIN);
    end(&flood);
    end(&little);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    assert_int_equal(kymo_recorder_slot(r, 1, &slot), 0);
    assert_int_equal(slot.lost[KYMO_LOST_RING_FULL], 1);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, flood.recorded + little.recorded);
    assert_int_equal(rec.noted[KYMO_LOST_RING_FULL], flood.done - flood.recorded + 1);
    rc_free(&rec);
}

/* ---- sizes ----------------------------------------------------------------------------- */

/* For any number of threads, the memory is as requested, and has enough segments for all. */
static void one_memory_for_all_threads(void **state)
{
    static const uint32_t threads[] = {1, 18, 64, 300, 2000};
    struct kymo_options o;

    (void)state;
    kymo_options_init(&o);
    o.dir = rc_path("sizes");
    for (unsigned i = 0; i < sizeof threads / sizeof *threads; i++) {
        struct kymo_open_error why;
        struct kymo_layout l;

        o.n_slots = threads[i];
        assert_null(kymo_options_check(&o, &l, &why));
        assert_in_range(kymo_options_memory(&o), o.memory - l.segment_bytes - 8 * 4096, o.memory);
        assert_true(l.n_segments >= 2 * threads[i] + 2);
        assert_true(threads[i] > 18 || l.segment_bytes == 65536);
        /* Nearly all memory is for events: five times the 8 MiB that two busy threads would have if
         * each had 4 MiB of its own. */
        assert_true(threads[i] > 64 || l.ring > 41u << 20);
    }
    o.n_slots = 300;
    o.memory = kymo_options_least(&o) - 4096 * 16;
    assert_int_equal(kymo_options_memory(&o), 0);
    o.memory = kymo_options_least(&o);
    assert_in_range(kymo_options_memory(&o), 1, o.memory);
    o.content_max = KYMO_CONTENT_MAX;
    o.memory = 48u << 20;
    o.n_slots = 18;
    assert_int_equal(kymo_options_memory(&o) <= o.memory, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reaches_back_equally_far),   cmocka_unit_test(threads_that_ended),
        cmocka_unit_test(info_tells_the_horizon),     cmocka_unit_test(a_late_ticket_takes_nothing_new),
        cmocka_unit_test(closed_segments_get_sums),   cmocka_unit_test(a_flood_loses_its_own),
        cmocka_unit_test(one_memory_for_all_threads),
    };

    return cmocka_run_group_tests_name("pool", tests, rc_setup, rc_teardown);
}
