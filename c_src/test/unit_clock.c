/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of a counter that restarts or advances while CLOCK_MONOTONIC does not, as after a machine
 * was suspended or a virtual machine was migrated. The tests change the offset from the counter to
 * ticks, which has the same effect on the recorder.
 */
#include <sched.h>
#include <semaphore.h>

#include "rec_check.h"

/* Checks that it lies between two readings of CLOCK_MONOTONIC, within the tolerance of a
 * correction. */
#define SLACK_NS 15000000

static struct kymo_recorder *open_with_counter(struct kymo_options *o, const char *name)
{
    struct kymo_recorder *r;

    *o = rc_options(rc_path(name), KYMO_OVERWRITE);
    rc_pool(o, 2, 64);
    r = rc_open(o);
    if (r->clock == KYMO_CLOCK_COUNTER)
        return r;
    kymo_recorder_close(r);
    fprintf(stderr, "%s: skipped, this machine's counter is not reliable\n", name);
    skip();
    return NULL;
}

/* As if the counter of all threads had jumped. */
static void jump(struct kymo_recorder *r, int64_t by)
{
    pthread_mutex_lock(&r->ctl); /* not while the worker checks the clock */
    kymo_set(&r->offset, r->offset + (uint64_t)by);
    for (uint32_t i = 0; i < r->opt.n_slots; i++)
        kymo_set(&r->writers[i].offset, r->offset);
    pthread_mutex_unlock(&r->ctl);
}

struct moment {
    int64_t before, after;
};

#define CALLS 100u

/* Each at a different tick: an emulated counter advances once per microsecond. */
static void record_some(struct kymo_recorder *r, struct moment *m)
{
    for (unsigned i = 0; i < CALLS; i++) {
        uint64_t tick = kymo_counter();

        while (kymo_counter() == tick)
            continue;
        m[i].before = (int64_t)kymo_clock_mono();
        assert_true(rc_call(r, i));
        m[i].after = (int64_t)kymo_clock_mono();
    }
}

static void *record_in_thread(void *arg)
{
    void **args = arg;

    record_some(args[0], args[1]);
    return NULL;
}

/* Each event has the right time, and few have the time of the previous one. */
static void check(const struct rc_rec *rec, const struct kymo_recorder *r, uint64_t instance, size_t skipped,
                  const struct moment *m)
{
    uint64_t before = 0;
    size_t n = 0, same = 0;

    for (size_t i = 0; i < rec->n_events; i++) {
        const struct rc_event *e = &rec->events[i];
        int64_t ns = kymo_clock_ns_of(r, e->ticks);

        if (e->instance != instance || e->id != KYMO_E_CALL || n++ < skipped)
            continue;
        assert_true(ns >= m[n - 1 - skipped].before - SLACK_NS);
        assert_true(ns <= m[n - 1 - skipped].after + SLACK_NS);
        assert_true(e->ticks >= before);
        same += e->ticks == before;
        before = e->ticks;
    }
    assert_in_range(same, 0, 1);
    assert_int_equal(n, skipped + CALLS);
}

/* Stops the recorder, and checks that the events after the first `skipped` have the times in m. */
static void stop_and_check(const struct kymo_options *o, struct kymo_recorder *r, size_t skipped,
                           const struct moment *m)
{
    struct rc_rec rec;

    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    rc_load(o->dir, &rec);
    check(&rec, r, 0, skipped, m);
    rc_free(&rec);
}

static void jumps(const char *name, int64_t by)
{
    struct kymo_options o;
    struct kymo_recorder *r = open_with_counter(&o, name);
    static struct moment first[CALLS], here[CALLS], there[CALLS];
    void *args[] = {r, there};
    struct rc_rec rec;
    pthread_t t;

    record_some(r, first);
    jump(r, by);
    record_some(r, here);
    assert_int_equal(rc_info(r).epochs, 1);
    assert_int_equal(pthread_create(&t, NULL, record_in_thread, args), 0);
    pthread_join(t, NULL);
    assert_int_equal(rc_info(r).epochs, 1); /* one correction applies to all threads */
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.meta.epochs, 1);
    check(&rec, r, 0, CALLS, here);
    check(&rec, r, 1, 0, there);
    /* The event after the jump is in a new segment with its own epoch. */
    assert_int_equal(rec.segs[0].head.epoch, 0);
    assert_int_equal(rec.segs[1].head.epoch, 1);
    for (size_t i = 0; i < rec.n_segs; i++) {
        int64_t off = kymo_clock_ns_of(r, rec.segs[i].head.ts_begin) - rec.segs[i].head.mono_ns;

        assert_in_range(off + SLACK_NS, 0, 2 * SLACK_NS);
    }
    rc_free(&rec);
    kymo_recorder_close(r);
}

static void a_counter_that_began_anew(void **state)
{
    (void)state;
    jumps("anew", -((int64_t)1 << 44));
}

static void a_counter_that_ran_on(void **state)
{
    (void)state;
    jumps("ran-on", (int64_t)1 << 44);
}

/* Without events, the worker notices the jump. */
static void the_worker_notices(void **state)
{
    static const int64_t by[] = {-((int64_t)1 << 40), (int64_t)1 << 40, -((int64_t)1 << 31)};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct kymo_options o;
        struct kymo_recorder *r = open_with_counter(&o, "worker");
        static struct moment m[CALLS];
        uint32_t points;

        points = kymo_get(&r->meta->n_calib);
        jump(r, by[i]);
        pthread_mutex_lock(&r->ctl);
        kymo_calibrate(r, KYMO_CALIB_LOOK);
        assert_int_equal(kymo_get(&r->meta->epochs), 1);
        assert_int_equal(kymo_get(&r->meta->n_calib), points + 1);
        kymo_calibrate(r, KYMO_CALIB_LOOK); /* it is back on its line */
        assert_int_equal(kymo_get(&r->meta->epochs), 1);
        pthread_mutex_unlock(&r->ctl);
        record_some(r, m);
        stop_and_check(&o, r, 0, m);
        kymo_recorder_close(r);
        rc_remove(o.dir);
    }
}

/* A small jump ahead cannot be undone without stopping time: points are added before and after it,
 * and the rate is not affected. */
static void a_small_leap_is_a_point(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = open_with_counter(&o, "leap");
    uint64_t rate = kymo_get(&r->meta->ticks_per_sec);
    uint32_t points = kymo_get(&r->meta->n_calib);
    static struct moment m[CALLS];

    (void)state;
    jump(r, (int64_t)1 << 31);
    pthread_mutex_lock(&r->ctl);
    kymo_calibrate(r, KYMO_CALIB_LOOK);
    assert_int_equal(kymo_get(&r->meta->epochs), 0);
    assert_int_equal(kymo_get(&r->meta->n_calib), points + 1);
    assert_in_range(kymo_get(&r->meta->ticks_per_sec), rate - rate / 100, rate + rate / 100);
    kymo_calibrate(r, KYMO_CALIB_LOOK);
    assert_int_equal(kymo_get(&r->meta->n_calib), points + 1);
    pthread_mutex_unlock(&r->ctl);
    record_some(r, m);
    assert_int_equal(rc_info(r).epochs, 0);
    kymo_recorder_close(r);
}

struct second {
    struct kymo_recorder *r;
    sem_t recorded, jumped;
};

static void *records_before_and_after(void *arg)
{
    struct second *s = arg;

    assert_true(rc_call(s->r, 0));
    sem_post(&s->recorded);
    sem_wait(&s->jumped);
    assert_true(rc_call(s->r, 1));
    return NULL;
}

/* Two threads notice the same jump, and one has corrected it before the other one tries to. */
static void one_jump_is_corrected_once(void **state)
{
    struct kymo_options o;
    struct second s = {.r = open_with_counter(&o, "once")};
    static struct moment m[CALLS];
    pthread_t t;

    (void)state;
    sem_init(&s.recorded, 0, 0);
    sem_init(&s.jumped, 0, 0);
    assert_true(rc_call(s.r, 0));
    assert_int_equal(pthread_create(&t, NULL, records_before_and_after, &s), 0);
    sem_wait(&s.recorded);
    jump(s.r, -((int64_t)1 << 31));
    rc_arm(KYMO_AT_CLOCK);
    sem_post(&s.jumped);
    rc_await_gate(KYMO_AT_CLOCK);
    assert_true(rc_call(s.r, 1));
    rc_release(KYMO_AT_CLOCK);
    pthread_join(t, NULL);
    assert_int_equal(rc_info(s.r).epochs, 1);
    record_some(s.r, m);
    assert_int_equal(rc_info(s.r).epochs, 1);
    stop_and_check(&o, s.r, 2, m);
    kymo_recorder_close(s.r);
}

static void *records_one(void *arg)
{
    assert_true(rc_call(arg, 1));
    return NULL;
}

#define AWAY_NS 60000000

/* Preempted between the two readings of the clocks. */
static void record_one_stopped_at(struct kymo_recorder *r, enum kymo_point at)
{
    pthread_t t;

    rc_arm(at);
    assert_int_equal(pthread_create(&t, NULL, records_one, r), 0);
    rc_await_gate(at);
    usleep(AWAY_NS / 1000);
    rc_release(at);
    pthread_join(t, NULL);
}

static void a_stopped_thread_is_no_jump(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = open_with_counter(&o, "stopped");
    struct rc_rec rec;

    (void)state;
    record_one_stopped_at(r, KYMO_AT_TICKET);
    r->writers[0].last /= 2; /* idle for half of the counter's age; then another thread takes its slot */
    record_one_stopped_at(r, KYMO_AT_CLOCK);
    assert_int_equal(rc_info(r).epochs, 0);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    rc_load(o.dir, &rec);
    for (size_t i = 0; i < rec.n_segs; i++) {
        int64_t off = kymo_clock_ns_of(r, rec.segs[i].head.ts_begin) - rec.segs[i].head.mono_ns;

        assert_in_range(off + SLACK_NS, 0, 2 * SLACK_NS);
    }
    assert_int_equal(rec.n_segs, 2);
    rc_free(&rec);
    kymo_recorder_close(r);
}

/* The first event of a thread has no previous one to compare with. */
static void a_new_thread_notices(void **state)
{
    static const int64_t by[] = {(int64_t)1 << 44, -((int64_t)1 << 44)};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct kymo_options o;
        struct kymo_recorder *r = open_with_counter(&o, "new");
        static struct moment m[CALLS];

        jump(r, by[i]);
        record_some(r, m);
        assert_int_equal(rc_info(r).epochs, 1);
        stop_and_check(&o, r, 0, m);
        kymo_recorder_close(r);
        rc_remove(o.dir);
    }
}

/* While the line changes, the right time is unknown: the event gets the time of the previous one,
 * and the next event gets its own time. */
static void a_jump_while_the_line_changes(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = open_with_counter(&o, "changes");
    static struct moment m[CALLS];

    (void)state;
    assert_true(rc_call(r, 0));
    pthread_mutex_lock(&r->ctl);
    kymo_set(&r->offset, r->offset + (1ull << 44));
    for (uint32_t i = 0; i < r->opt.n_slots; i++)
        kymo_set(&r->writers[i].offset, r->offset);
    kymo_set(&r->line.version, r->line.version + 1);
    assert_true(rc_call(r, 1));
    kymo_set(&r->line.version, r->line.version + 1);
    pthread_mutex_unlock(&r->ctl);
    record_some(r, m);
    assert_int_equal(rc_info(r).epochs, 1);
    stop_and_check(&o, r, 2, m);
    kymo_recorder_close(r);
}

/* A thread that was only idle for a long time causes no correction. */
static void an_idle_thread_is_no_jump(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = open_with_counter(&o, "idle");
    struct kymo_writer *w;

    (void)state;
    assert_true(rc_call(r, 0));
    w = kymo_writer_get(r);
    w->last /= 2; /* of the counter's age, which may be small */
    w->seg->ts_begin = w->last;
    kymo_writer_put(w);
    assert_true(rc_call(r, 1));
    assert_int_equal(rc_info(r).epochs, 0);
    kymo_recorder_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counter_that_began_anew),  cmocka_unit_test(a_counter_that_ran_on),
        cmocka_unit_test(the_worker_notices),         cmocka_unit_test(a_small_leap_is_a_point),
        cmocka_unit_test(one_jump_is_corrected_once), cmocka_unit_test(a_stopped_thread_is_no_jump),
        cmocka_unit_test(a_new_thread_notices),       cmocka_unit_test(a_jump_while_the_line_changes),
        cmocka_unit_test(an_idle_thread_is_no_jump),
    };

    return cmocka_run_group_tests_name("clock", tests, rc_setup, rc_teardown);
}
