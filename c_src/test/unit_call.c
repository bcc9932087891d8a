/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of kymo_record_call: it writes the same as the separate steps, or nothing at all.
 */
#include "rec_check.h"

#define MODULE (11u << 6 | 0xb)
#define FUNCTION (12u << 6 | 0xb)

/* Defines the function in the calling thread, as its first call does. */
static uint32_t define(struct kymo_recorder *r)
{
    struct kymo_writer *w = kymo_writer_get(r);
    uint32_t id;

    assert_non_null(w);
    id = kymo_dict_mfa_add(w, MODULE, FUNCTION, 2, kymo_dict_atom_add(w, MODULE, "m", 1),
                           kymo_dict_atom_add(w, FUNCTION, "f", 1));
    kymo_writer_put(w);
    assert_int_not_equal(id, 0);
    return id;
}

static bool record(struct kymo_recorder *r, uint64_t who)
{
    return kymo_record_call(r, who, MODULE, FUNCTION, 2);
}

static void steps(struct kymo_recorder *r, uint64_t who, uint32_t mfa)
{
    struct kymo_writer *w = kymo_writer_get(r);

    assert_non_null(w);
    kymo_commit(w, kymo_put32(kymo_put64(kymo_reserve(w, KYMO_E_CALL, 12), who), mfa));
    kymo_writer_put(w);
}

/* The state that a refusal must not change. */
static void refuses(struct kymo_recorder *r)
{
    struct kymo_info before = rc_info(r), after;

    assert_false(record(r, 0));
    after = rc_info(r);
    assert_int_equal(after.events, before.events);
    if (before.state < KYMO_STOPPING) /* the worker writes a note at the end */
        assert_int_equal(after.bytes, before.bytes);
    assert_int_equal(after.sampled_out, before.sampled_out);
    assert_int_equal(rc_lost(&after), rc_lost(&before));
}

/* Alternates between both functions, over many segments and the end of the ring. */
static void is_the_same_as_steps(void **state)
{
    const uint64_t n = 20000;
    struct kymo_options o = rc_options(rc_path("same"), KYMO_OVERWRITE);
    struct kymo_recorder *r;
    struct rc_rec rec;
    uint64_t refused = 0;
    uint32_t mfa;

    (void)state;
    rc_pool(&o, 1, 256);
    r = rc_open(&o);
    mfa = define(r);
    for (uint64_t i = 0; i < n; i++) {
        if (i % 4 == 0) { /* not a divisor of the records per segment */
            steps(r, i, mfa);
        } else if (!record(r, i)) {
            refused++;
            steps(r, i, mfa);
        }
    }
    assert_int_equal(rc_info(r).events, n);
    assert_int_equal(rc_info(r).bytes, n * RC_CALL_BYTES);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, n);
    for (uint64_t i = 0; i < n; i++) {
        assert_int_equal(rec.events[i].id, KYMO_E_CALL);
        assert_int_equal(rec.events[i].who, i);
        assert_int_equal(rec.events[i].mfa, mfa);
        assert_true(i == 0 || rec.events[i].ticks >= rec.events[i - 1].ticks);
    }
    /* At most once per segment, and the first segment is opened by a single step. */
    assert_in_range(refused, 1, n * RC_CALL_BYTES / (o.segment_bytes - KYMO_SEG_HEADER - RC_CALL_BYTES) + 1);
    rc_free(&rec);
}

/* With the depth of the stack, in both forms, in every place of a segment. */
static void with_depths(void **state)
{
    static const uint64_t depths[] = {0, 1, 127, 128, 70000, KYMO_DEPTH_MAX};
    const uint64_t n = 20000;
    struct kymo_options o = rc_options(rc_path("depths"), KYMO_OVERWRITE);
    struct kymo_recorder *r;
    struct rc_rec rec;
    uint64_t refused = 0, bytes = 0;
    uint32_t mfa;

    (void)state;
    rc_pool(&o, 1, 256);
    r = rc_open(&o);
    mfa = define(r);
    for (uint64_t i = 0; i < n; i++) {
        if (kymo_record_call_at(r, i, MODULE, FUNCTION, 2, depths[i % 6])) {
            bytes += RC_CALL_BYTES + (i % 6 < 3 ? 1 : KYMO_DEPTH_BYTES);
        } else {
            refused++;
            steps(r, i, mfa);
            bytes += RC_CALL_BYTES;
        }
    }
    assert_false(kymo_record_call_at(r, n, MODULE, FUNCTION, 2, KYMO_DEPTH_MAX + 1ull));
    assert_int_equal(rc_info(r).events, n);
    assert_int_equal(rc_info(r).bytes, bytes);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, n);
    for (uint64_t i = 0; i < n; i++) {
        assert_int_equal(rec.events[i].who, i);
        assert_int_equal(rec.events[i].mfa, mfa);
        if (rec.events[i].id == KYMO_E_CALL_DEPTH)
            assert_int_equal(rec.events[i].depth, depths[i % 6]);
        else
            refused--;
    }
    assert_int_equal(refused, 0);
    rc_free(&rec);
}

static void *in_another_thread(void *arg)
{
    struct kymo_recorder *r = arg;

    refuses(r); /* no writer */
    assert_true(rc_call(r, 1));
    refuses(r); /* a function that the thread has not used */
    return NULL;
}

static void refuses_what_is_rare(void **state)
{
    struct kymo_options o = rc_options(rc_path("rare"), KYMO_OVERWRITE);
    struct kymo_recorder *r;
    struct kymo_writer *w;
    pthread_t thread;
    uint32_t mfa;

    (void)state;
    rc_pool(&o, 2, 8);
    r = rc_open(&o);
    refuses(r);
    mfa = define(r);
    refuses(r); /* no segment is open */
    steps(r, 0, mfa);
    assert_true(record(r, 1));
    assert_int_equal(pthread_create(&thread, NULL, in_another_thread, r), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(kymo_record_call(r, 2, MODULE, FUNCTION, 3));
    assert_false(kymo_record_call(r, 2, FUNCTION, MODULE, 2));

    w = kymo_writer_get(r);
    refuses(r); /* between get and put: counted as a loss by the steps only */
    kymo_writer_put(w);
    assert_true(record(r, 2));

    assert_int_equal(kymo_recorder_pause(r), 0);
    refuses(r);
    assert_int_equal(kymo_recorder_resume(r), 0);
    steps(r, 3, mfa);
    assert_true(record(r, 4));
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    refuses(r);
    assert_int_equal(rc_info(r).events, 6);
    kymo_recorder_close(r);
}

static void refuses_to_sample(void **state)
{
    struct kymo_options o = rc_options(rc_path("sampled"), KYMO_OVERWRITE);
    struct kymo_recorder *r;

    (void)state;
    o.sample = 2;
    r = rc_open(&o);
    steps(r, 0, define(r));
    refuses(r);
    kymo_recorder_close(r);
}

/* The event that uses up a lease is left to the steps. */
static void keeps_limits(void **state)
{
    static const uint64_t limits[] = {1, 2, 255, 256, 257, 10000};

    (void)state;
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct kymo_options o = rc_options(rc_path("limit"), KYMO_OVERWRITE);
        struct kymo_recorder *r;
        uint32_t mfa;

        o.limit_events = limits[i];
        r = rc_open(&o);
        mfa = define(r);
        for (uint64_t n = 0; n < limits[i]; n++) {
            assert_true(kymo_recorder_active(r));
            if (!record(r, n))
                steps(r, n, mfa);
        }
        assert_true(kymo_recorder_ended(r));
        refuses(r);
        assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
        assert_int_equal(rc_info(r).reason, KYMO_R_EVENTS);
        assert_int_equal(rc_info(r).events, limits[i]);
        kymo_recorder_close(r);
        rc_remove(o.dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_same_as_steps), cmocka_unit_test(with_depths),
        cmocka_unit_test(refuses_what_is_rare), cmocka_unit_test(refuses_to_sample),
        cmocka_unit_test(keeps_limits),
    };

    return cmocka_run_group_tests(tests, rc_setup, rc_teardown);
}
