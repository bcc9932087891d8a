/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of rings: the layout of records, both policies, losses, sampling.
 */
#include "rec_check.h"

/* ---- records ------------------------------------------------------------------------ */

static void records_are_as_described(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = rc_fresh(&o, "records", KYMO_OVERWRITE);
    struct kymo_writer *w = kymo_writer_get(r);
    const uint8_t body[] = {0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01,
                            0x0d, 0xf0, 0xad, 0xde, 0x5a, 0x34, 0x12};
    uint8_t *p;
    size_t len;

    (void)state;
    assert_non_null(w);
    p = kymo_reserve(w, KYMO_E_CALL | KYMO_HAS_CONTENT, 200);
    p = kymo_put32(kymo_put64(p, 0x0123456789abcdefu), 0xdeadf00du);
    /* Not a valid content: three bytes that test the other two stores. */
    p = kymo_put16(kymo_put8(p, 0x5a), 0x1234);
    kymo_commit(w, p);
    kymo_writer_put(w);
    assert_int_equal(rc_info(r).bytes, KYMO_HDR_COMPACT + sizeof body);
    assert_int_equal(rc_info(r).events, 1);

    uint8_t *ring = rc_slurp(o.dir, "ring", &len);
    const struct kymo_segment *s = (const struct kymo_segment *)(void *)ring;
    assert_non_null(ring);
    assert_int_equal(len, 4 * 4096);
    assert_int_equal(s->commit, KYMO_SEG_HEADER + KYMO_HDR_COMPACT + sizeof body);
    assert_int_equal(s->content_bits, 0); /* open */
    assert_int_equal(s->packet_bits, 4096 * 8);
    assert_int_equal(s->seq, 1);
    assert_int_equal(ring[KYMO_SEG_HEADER], KYMO_E_CALL | KYMO_HAS_CONTENT);
    assert_int_equal(rc_num(ring + KYMO_SEG_HEADER + 1, 4), (uint32_t)s->ts_begin);
    assert_memory_equal(ring + KYMO_SEG_HEADER + KYMO_HDR_COMPACT, body, sizeof body);
    free(ring);
    kymo_recorder_close(r);
}

/* A record that is reserved and not committed is never seen. */
static void an_abandoned_record_leaves_nothing(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = rc_fresh(&o, "abandoned", KYMO_OVERWRITE);
    struct kymo_writer *w = kymo_writer_get(r);
    struct rc_rec rec;

    (void)state;
    assert_non_null(kymo_reserve(w, KYMO_E_CALL, 12));
    kymo_lose(w, KYMO_LOST_BAD_TERM);
    kymo_writer_put(w);
    assert_true(rc_call(r, 5));
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.n_events, 3);
    assert_int_equal(rec.events[0].id, KYMO_E_LOST); /* the loss is noted before the next event */
    assert_int_equal(rec.events[0].kind, KYMO_LOST_BAD_TERM);
    assert_int_equal(rec.events[0].value, 1);
    assert_int_equal(rec.events[1].who, 5);
    assert_int_equal(rec.segs[0].head.discarded, 1);
    rc_free(&rec);
}

/* The test moves the writer's clock instead of waiting. */
static void long_gaps_and_backward_clocks(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = rc_fresh(&o, "gaps", KYMO_OVERWRITE);
    struct kymo_writer *w;
    struct rc_rec rec;

    (void)state;
    assert_true(rc_call(r, 0));
    w = kymo_writer_get(r);
    /* As if the first record were 2^33 ticks older. */
    w->last -= 1ull << 33;
    w->seg->ts_begin = w->last;
    kymo_writer_put(w);
    assert_true(rc_call(r, 1));
    assert_true(rc_call(r, 2));
    /* As if the clock had gone back by 2^33 ticks. */
    w = kymo_writer_get(r);
    w->last += 1ull << 33;
    kymo_writer_put(w);
    assert_true(rc_call(r, 3));
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, 4);
    assert_false(rec.events[0].extended);
    assert_true(rec.events[1].extended);
    assert_in_range(rec.events[1].ticks - rec.events[0].ticks, 1ull << 33, (1ull << 33) + (1ull << 40));
    assert_false(rec.events[2].extended);
    assert_int_equal(rec.events[3].ticks, rec.events[2].ticks); /* time never decreases */
    rc_free(&rec);
}

static void too_big_is_counted(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = rc_fresh(&o, "big", KYMO_OVERWRITE);
    const size_t most = 4096 - KYMO_SEG_HEADER - KYMO_HDR_COMPACT;
    struct kymo_writer *w = kymo_writer_get(r);
    struct rc_rec rec;
    uint8_t *p;

    (void)state;
    assert_null(kymo_reserve(w, KYMO_E_CALL, most + 1));
    assert_null(kymo_reserve(w, KYMO_E_CALL, 1u << 20));
    assert_null(kymo_reserve(w, KYMO_E_CALL, SIZE_MAX / 4));
    kymo_lose(w, (enum kymo_loss)99);
    /* The largest record fills a segment; the losses before it are noted in a separate one. */
    p = kymo_reserve(w, KYMO_E_CALL | KYMO_HAS_CONTENT, most);
    assert_non_null(p);
    p = kymo_put32(kymo_put64(p, 1), 0);
    p = kymo_put16(kymo_put8(p, 0), (uint16_t)(most - 15));
    memset(p, 'x', most - 15);
    kymo_commit(w, p + most - 15);
    kymo_writer_put(w);
    assert_int_equal(rc_info(r).lost[KYMO_LOST_TOO_BIG], 3);
    assert_int_equal(rc_info(r).lost[KYMO_LOST_BAD_TERM], 1);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, 1);
    assert_int_equal(rec.noted[KYMO_LOST_TOO_BIG], 3);
    assert_int_equal(rec.noted[KYMO_LOST_BAD_TERM], 1);
    assert_int_equal(rec.segs[rec.n_segs - 1].head.commit, 4096);
    rc_free(&rec);
}

static void reentry_is_counted(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = rc_fresh(&o, "reentry", KYMO_OVERWRITE);
    struct kymo_writer *w;
    struct rc_rec rec;
    uint8_t *p;

    (void)state;
    assert_true(rc_call(r, 0));
    w = kymo_writer_get(r);
    p = kymo_reserve(w, KYMO_E_CALL, 12);
    assert_non_null(p);
    assert_false(rc_call(r, 77)); /* like a tracer called from within the tracer */
    assert_null(kymo_writer_get(r));
    kymo_commit(w, kymo_put32(kymo_put64(p, 1), 0));
    kymo_writer_put(w);
    assert_true(rc_call(r, 2));
    assert_int_equal(rc_info(r).lost[KYMO_LOST_REENTRY], 2);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, 3);
    assert_int_equal(rec.noted[KYMO_LOST_REENTRY], 2);
    rc_free(&rec);
}

static void samples(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r;
    struct kymo_info info;
    struct rc_rec rec;
    uint64_t odd = 0;

    (void)state;
    o = rc_options(rc_path("sample"), KYMO_OVERWRITE);
    o.sample = 10;
    rc_pool(&o, 1, 512);
    r = rc_open(&o);
    for (uint64_t i = 0; i < 100000; i++) {
        struct kymo_writer *w = kymo_writer_get(r);

        if (kymo_sample(w))
            kymo_commit(w, kymo_put32(kymo_put64(kymo_reserve(w, KYMO_E_CALL, 12), i), 0));
        kymo_writer_put(w);
    }
    info = rc_info(r);
    assert_int_equal(info.events + info.sampled_out, 100000);
    assert_in_range(info.events, 9000, 11000);
    assert_int_equal(rc_lost(&info), 0);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, info.events);
    for (size_t i = 0; i < rec.n_events; i++)
        odd += rec.events[i].who & 1;
    assert_in_range(odd, info.events * 4 / 10, info.events * 6 / 10); /* no bias for a pattern of two */
    rc_free(&rec);
    /* Sampling by process is left to the caller. */
    o.dir = rc_path("sample2");
    o.sample_kind = 1;
    r = rc_open(&o);
    for (unsigned i = 0; i < 100; i++) {
        struct kymo_writer *w = kymo_writer_get(r);

        assert_true(kymo_sample(w));
        kymo_writer_put(w);
    }
    kymo_recorder_close(r);
}

/* ---- overwrite -------------------------------------------------------------------------- */

static void overwrite_keeps_the_newest(void **state)
{
    const uint64_t per_segment = (4096 - KYMO_SEG_HEADER) / RC_CALL_BYTES;
    const uint64_t numbers[] = {1,     per_segment, per_segment + 1, 4 * per_segment, 4 * per_segment + 1,
                                100000};

    (void)state;
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct kymo_options o;
        struct kymo_recorder *r = rc_fresh(&o, "overwrite", KYMO_OVERWRITE);
        uint64_t n = numbers[i], first = 0, last = 0;
        struct kymo_info info;
        struct rc_rec rec;

        assert_int_equal(rc_calls(r, 0, n), n);
        info = rc_info(r);
        kymo_recorder_close(r);
        rc_load(o.dir, &rec);
        assert_int_equal(info.events, n);
        assert_int_equal(info.bytes, n * RC_CALL_BYTES);
        assert_int_equal(rc_consecutive(&rec, 0, &first, &last), rec.real);
        assert_int_equal(last, n - 1);
        assert_int_equal(rec.real + info.overwritten, n);
        assert_int_equal(rec.slots[0].overwritten, info.overwritten);
        assert_int_equal(rec.segs[0].head.events_before, info.overwritten);
        assert_true(n > 4 * per_segment || info.overwritten == 0);
        assert_true(n <= 4 * per_segment || rec.n_segs == 4);
        rc_free(&rec);
        rc_remove(o.dir);
    }
}

/* ---- discard ------------------------------------------------------------------------------ */

/* Twice, the worker is held before it writes, the ring fills, and events are lost; nothing is lost
 * while it runs. All counters must agree. */
static void discard_counts_each_loss(void **state)
{
    const uint64_t per_segment = (4096 - KYMO_SEG_HEADER) / RC_CALL_BYTES;
    struct kymo_options o;
    struct kymo_recorder *r = rc_fresh(&o, "discard", KYMO_DISCARD);
    uint64_t produced = 0, recorded = 0, gaps = 0;
    struct kymo_info info;
    struct kymo_slot slot;
    struct rc_rec rec;

    (void)state;
    for (unsigned round = 1; round <= 2; round++) {
        uint64_t lost_before = rc_info(r).lost[KYMO_LOST_RING_FULL], begun = kymo_clock_now(r), n;

        rc_arm(KYMO_AT_DRAIN);
        n = rc_calls(r, produced, 20 * per_segment);
        produced += 20 * per_segment;
        recorded += n;
        rc_await_gate(KYMO_AT_DRAIN);
        assert_true(n < 20 * per_segment);
        assert_int_equal(rc_info(r).lost[KYMO_LOST_RING_FULL] - lost_before, 20 * per_segment - n);
        assert_int_equal(kymo_recorder_slot(r, 0, &slot), 0);
        assert_in_range(slot.lost_last, begun, kymo_clock_now(r));
        if (round == 1)
            assert_int_equal(n, 4 * per_segment); /* as many as there is room for */
        rc_release(KYMO_AT_DRAIN);
        rc_await(kymo_recorder_slot(r, 0, &slot) == 0 && slot.drained_seq == slot.seq);
        n = rc_calls(r, produced, per_segment);
        assert_int_equal(n, per_segment);
        produced += n;
        recorded += n;
    }
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    info = rc_info(r);
    kymo_recorder_close(r);
    assert_int_equal(info.events, recorded);
    assert_int_equal(info.events + info.lost[KYMO_LOST_RING_FULL], produced);
    assert_int_equal(rc_lost(&info), info.lost[KYMO_LOST_RING_FULL]);
    assert_int_equal(info.io_errno, 0);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, recorded);
    assert_int_equal(rec.noted[KYMO_LOST_RING_FULL], produced - recorded);
    assert_int_equal(rec.segs[rec.n_segs - 1].head.discarded, produced - recorded);
    assert_int_equal(rec.slots[0].drained_seq, rec.slots[0].seq);
    assert_int_equal(rec.files, 1);
    /* The notes are exactly where events are missing: one for the first of them, one for the last. */
    for (size_t i = 1; i + 2 < rec.n_events; i++) {
        const struct rc_event *e = &rec.events[i];

        if (e[-1].id == KYMO_E_LOST || e[0].id != KYMO_E_LOST)
            continue;
        assert_int_equal(e[0].value, 1);
        assert_int_equal(e[1].id, KYMO_E_LOST);
        assert_true(e[0].ticks < e[1].ticks && e[1].ticks < e[2].ticks);
        assert_int_equal(e[2].who, e[-1].who + e[0].value + e[1].value + 1);
        gaps++;
    }
    assert_true(gaps > 0);
    /* The ring is no longer needed. */
    assert_int_equal(rc_entries(o.dir), 3);
    rc_free(&rec);
}

/* Losses that are not followed by an event are noted at the end. */
static void losses_at_the_end_are_told(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = rc_fresh(&o, "last-loss", KYMO_DISCARD);
    struct kymo_info info;
    struct rc_rec rec;

    (void)state;
    rc_arm(KYMO_AT_DRAIN);
    (void)rc_calls(r, 0, 10000);
    rc_await_gate(KYMO_AT_DRAIN);
    kymo_recorder_stop_async(r, KYMO_R_STOP);
    rc_release(KYMO_AT_DRAIN);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    info = rc_info(r);
    kymo_recorder_close(r);
    assert_true(info.lost[KYMO_LOST_RING_FULL] > 0);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, info.events);
    assert_int_equal(rec.real + rec.noted[KYMO_LOST_RING_FULL], 10000);
    rc_free(&rec);
}

/* ---- disk space ------------------------------------------------------------------------ */

static uint64_t on_disk(const char *dir, uint64_t *size)
{
    char path[600];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/ring", dir);
    assert_int_equal(stat(path, &st), 0);
    *size = (uint64_t)st.st_size;
    return (uint64_t)st.st_blocks * 512;
}

static bool holes_work(void)
{
    int fd = open(rc_path("holes"), O_CREAT | O_RDWR, 0600), rc;

    assert_true(fd >= 0);
    rc = posix_fallocate(fd, 0, 65536);
    if (rc == 0)
        rc = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 65536);
    close(fd);
    return rc == 0;
}

/* While it records, the whole ring is reserved; afterwards the space of places without a segment is
 * free again. */
static void a_stopped_ring_gives_space_back(void **state)
{
    enum { PER_SEGMENT = (65536 - KYMO_SEG_HEADER) / RC_CALL_BYTES, ROOM_FOR_THE_FILE_SYSTEM = 65536 };
    struct kymo_options o = rc_options(rc_path("space"), KYMO_OVERWRITE);
    uint64_t size, again, segments = 0, events = 0, first = 0, last = 0;
    struct kymo_recorder *r;
    struct rc_rec rec;

    (void)state;
    if (!holes_work()) {
        fprintf(stderr, "a_stopped_ring_gives_space_back: skipped, the file system has no holes\n");
        skip();
    }
    o.segment_bytes = 65536;
    rc_pool(&o, 1, 16);
    r = rc_open(&o);
    assert_true(on_disk(o.dir, &size) >= size);
    assert_int_equal(size, 16 * 65536);
    assert_int_equal(rc_calls(r, 0, PER_SEGMENT + 1), PER_SEGMENT + 1); /* two segments */
    assert_int_equal(kymo_recorder_pause(r), 0);
    assert_int_equal(kymo_recorder_resume(r), 0);
    assert_int_equal(kymo_recorder_snapshot(r, rc_path("space-before"), NULL, NULL), 0);
    assert_true(on_disk(o.dir, &size) >= size);

    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    assert_in_range(on_disk(o.dir, &again), 2 * 65536, 2 * 65536 + ROOM_FOR_THE_FILE_SYSTEM);
    assert_int_equal(again, size);
    assert_false(rc_call(r, 0));
    assert_int_equal(kymo_recorder_snapshot(r, rc_path("space-after"), &segments, &events), 0);
    assert_int_equal(segments, 2);
    assert_int_equal(events, PER_SEGMENT + 1);
    assert_int_equal(rc_info(r).memory, kymo_options_memory(&o));
    kymo_recorder_close(r);
    assert_in_range(on_disk(o.dir, &again), 2 * 65536, 2 * 65536 + ROOM_FOR_THE_FILE_SYSTEM);
    rc_load(o.dir, &rec);
    assert_int_equal(rc_consecutive(&rec, 0, &first, &last), PER_SEGMENT + 1);
    rc_free(&rec);
}

/* If all places were used, all of the ring is kept. */
static void a_used_ring_keeps_its_space(void **state)
{
    struct kymo_options o = rc_options(rc_path("round"), KYMO_OVERWRITE);
    uint64_t size, disk;
    struct kymo_recorder *r;
    struct rc_rec rec;

    (void)state;
    r = rc_open(&o);
    (void)rc_calls(r, 0, 5000);
    kymo_recorder_close(r);
    disk = on_disk(o.dir, &size);
    assert_true(disk >= size);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.n_segs, 4);
    rc_free(&rec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_as_described),
        cmocka_unit_test(an_abandoned_record_leaves_nothing),
        cmocka_unit_test(long_gaps_and_backward_clocks),
        cmocka_unit_test(too_big_is_counted),
        cmocka_unit_test(reentry_is_counted),
        cmocka_unit_test(samples),
        cmocka_unit_test(overwrite_keeps_the_newest),
        cmocka_unit_test(discard_counts_each_loss),
        cmocka_unit_test(losses_at_the_end_are_told),
        cmocka_unit_test(a_stopped_ring_gives_space_back),
        cmocka_unit_test(a_used_ring_keeps_its_space),
    };

    return cmocka_run_group_tests_name("rings", tests, rc_setup, rc_teardown);
}
