/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings: what a record looks like, both policies, losses, sampling, slots.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "rec_check.h"

static struct kymo_recorder *fresh(struct kymo_options *o, const char *name, enum kymo_policy policy)
{
    *o = rc_options(rc_path(name), policy);
    return rc_open(o);
}

/* ---- records ------------------------------------------------------------------------ */

static void records_are_as_described(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = fresh(&o, "records", KYMO_OVERWRITE);
    struct kymo_writer *w = kymo_writer_get(r);
    const uint8_t body[] = {0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01,
                            0x0d, 0xf0, 0xad, 0xde, 0x5a, 0x34, 0x12};
    uint8_t *p;
    size_t len;

    (void)state;
    assert_non_null(w);
    p = kymo_reserve(w, KYMO_E_CALL | KYMO_HAS_CONTENT, 200);
    p = kymo_put32(kymo_put64(p, 0x0123456789abcdefu), 0xdeadf00du);
    /* Not a content, but three bytes that show the other two stores. */
    p = kymo_put16(kymo_put8(p, 0x5a), 0x1234);
    kymo_commit(w, p);
    kymo_writer_put(w);
    assert_int_equal(rc_info(r).bytes, KYMO_HDR_COMPACT + sizeof body);
    assert_int_equal(rc_info(r).events, 1);

    uint8_t *ring = rc_slurp(o.dir, "ring", &len);
    const struct kymo_segment *s = (const struct kymo_segment *)(void *)ring;
    assert_non_null(ring);
    assert_int_equal(len, 8 * 4 * 4096);
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

/* What a caller reserves and does not commit never was. */
static void an_abandoned_record_leaves_nothing(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = fresh(&o, "abandoned", KYMO_OVERWRITE);
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
    assert_int_equal(rec.events[0].id, KYMO_E_LOST); /* the loss is told before the next event */
    assert_int_equal(rec.events[0].kind, KYMO_LOST_BAD_TERM);
    assert_int_equal(rec.events[0].value, 1);
    assert_int_equal(rec.events[1].who, 5);
    assert_int_equal(rec.segs[0].head.discarded, 1);
    rc_free(&rec);
}

/* The clock of the writer is moved, not waited for. */
static void long_gaps_and_backward_clocks(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = fresh(&o, "gaps", KYMO_OVERWRITE);
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
    assert_int_equal(rec.events[3].ticks, rec.events[2].ticks); /* time stands still */
    rc_free(&rec);
}

static void too_big_is_counted(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = fresh(&o, "big", KYMO_OVERWRITE);
    const size_t most = 4096 - KYMO_SEG_HEADER - KYMO_HDR_COMPACT;
    struct kymo_writer *w = kymo_writer_get(r);
    struct rc_rec rec;
    uint8_t *p;

    (void)state;
    assert_null(kymo_reserve(w, KYMO_E_CALL, most + 1));
    assert_null(kymo_reserve(w, KYMO_E_CALL, 1u << 20));
    assert_null(kymo_reserve(w, KYMO_E_CALL, SIZE_MAX / 4));
    kymo_lose(w, (enum kymo_loss)99);
    /* The largest record fills a segment; the losses before it get one of their own. */
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
    struct kymo_recorder *r = fresh(&o, "reentry", KYMO_OVERWRITE);
    struct kymo_writer *w;
    struct rc_rec rec;
    uint8_t *p;

    (void)state;
    assert_true(rc_call(r, 0));
    w = kymo_writer_get(r);
    p = kymo_reserve(w, KYMO_E_CALL, 12);
    assert_non_null(p);
    assert_false(rc_call(r, 77)); /* as a tracer called from within the tracer */
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
    o.segs_per_ring = 512;
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
    assert_in_range(odd, info.events * 4 / 10, info.events * 6 / 10); /* no beat with a pattern of two */
    rc_free(&rec);
    /* By process is the caller's business. */
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
        struct kymo_recorder *r = fresh(&o, "overwrite", KYMO_OVERWRITE);
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

/* Two times: the worker is held before it writes, the ring fills, and events are
 * lost; nothing is lost while it runs. All counters have to agree. */
static void discard_counts_each_loss(void **state)
{
    const uint64_t per_segment = (4096 - KYMO_SEG_HEADER) / RC_CALL_BYTES;
    struct kymo_options o;
    struct kymo_recorder *r = fresh(&o, "discard", KYMO_DISCARD);
    uint64_t produced = 0, recorded = 0;
    struct kymo_info info;
    struct kymo_slot slot;
    struct rc_rec rec;

    (void)state;
    for (unsigned round = 1; round <= 2; round++) {
        uint64_t lost_before = rc_info(r).lost[KYMO_LOST_RING_FULL], n;

        rc_arm(KYMO_AT_DRAIN);
        n = rc_calls(r, produced, 20 * per_segment);
        produced += 20 * per_segment;
        recorded += n;
        rc_await_gate(KYMO_AT_DRAIN);
        assert_true(n < 20 * per_segment);
        assert_int_equal(rc_info(r).lost[KYMO_LOST_RING_FULL] - lost_before, 20 * per_segment - n);
        if (round == 1)
            assert_int_equal(n, 4 * per_segment); /* not one less than there is room for */
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
    /* The note stands exactly where the events are missing. */
    for (size_t i = 1; i + 1 < rec.n_events; i++) {
        if (rec.events[i].id == KYMO_E_LOST)
            assert_int_equal(rec.events[i + 1].who, rec.events[i - 1].who + rec.events[i].value + 1);
    }
    /* The ring is not needed any more. */
    assert_int_equal(rc_entries(o.dir), 3);
    rc_free(&rec);
}

/* Losses that no later event could tell are told at the end. */
static void losses_at_the_end_are_told(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = fresh(&o, "last-loss", KYMO_DISCARD);
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

/* ---- slots ---------------------------------------------------------------------------------- */

struct client {
    struct kymo_recorder *r;
    uint64_t from, n, done;
};

static void *client(void *arg)
{
    struct client *c = arg;

    c->done = rc_calls(c->r, c->from, c->n);
    return NULL;
}

static uint64_t in_thread(struct kymo_recorder *r, uint64_t from, uint64_t n)
{
    struct client c = {r, from, n, 0};
    pthread_t t;

    assert_int_equal(pthread_create(&t, NULL, client, &c), 0);
    pthread_join(t, NULL);
    return c.done;
}

static uint32_t next_no;

static void identify(enum kymo_thread *kind, uint32_t *no)
{
    *kind = KYMO_T_DIRTY_IO;
    *no = ++next_no;
}

static void threads_come_and_go(void **state)
{
    struct kymo_options o = rc_options(rc_path("churn"), KYMO_OVERWRITE);
    uint64_t first = 0, last = 0;
    struct kymo_recorder *r;
    struct rc_rec rec;

    (void)state;
    o.n_slots = 1;
    o.segs_per_ring = 256;
    o.identify = identify;
    next_no = 0;
    r = rc_open(&o);
    for (uint64_t i = 0; i < 200; i++)
        assert_int_equal(in_thread(r, i * 10, 10), 10);
    assert_int_equal(rc_info(r).slots_used, 1);
    assert_int_equal(rc_info(r).events, 2000);
    assert_int_equal(rc_info(r).lost[KYMO_LOST_NO_SLOT], 0);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.n_segs, 200); /* each thread has segments of its own */
    assert_int_equal(rc_consecutive(&rec, 0, &first, &last), 2000);
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(rec.segs[i].head.seq, i + 1);
        assert_int_equal(rec.segs[i].head.thread_kind, KYMO_T_DIRTY_IO);
        assert_int_equal(rec.segs[i].head.thread_no, i + 1);
    }
    assert_int_equal(rec.slots[0].retired, 1);
    assert_int_equal(rec.slots[0].used, 1);
    assert_int_equal(rec.slots[0].thread_no, 200);
    rc_free(&rec);
}

static void no_slot_is_counted(void **state)
{
    struct kymo_options o = rc_options(rc_path("no-slot"), KYMO_OVERWRITE);
    struct kymo_recorder *r;
    struct kymo_slot slot;
    struct rc_rec rec;

    (void)state;
    o.n_slots = 1;
    r = rc_open(&o);
    assert_int_equal(kymo_recorder_slot(r, 0, &slot), -ERANGE);
    assert_int_equal(in_thread(r, 0, 3), 3);
    assert_int_equal(rc_calls(r, 0, 5), 5); /* the slot of the thread that is gone */
    assert_int_equal(in_thread(r, 0, 7), 0);
    assert_int_equal(rc_info(r).lost[KYMO_LOST_NO_SLOT], 7);
    assert_int_equal(rc_info(r).slots_used, 1);
    assert_int_equal(kymo_recorder_slot(r, 0, &slot), 0);
    assert_int_equal(slot.events, 8);
    assert_int_equal(slot.retired, 0);
    assert_int_equal(kymo_recorder_slot(r, 1, &slot), -ERANGE);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.meta.no_slot, 7);
    rc_free(&rec);
}

struct waiting {
    struct kymo_recorder *r;
    pthread_barrier_t *b;
    bool before, after;
};

static void *refused_then_taken(void *arg)
{
    struct waiting *x = arg;

    x->before = rc_call(x->r, 0);
    pthread_barrier_wait(x->b); /* now the other thread leaves */
    pthread_barrier_wait(x->b);
    x->after = rc_call(x->r, 0);
    return NULL;
}

static void *takes_and_leaves(void *arg)
{
    struct waiting *x = arg;

    x->before = rc_call(x->r, 0);
    return NULL;
}

/* A thread that found no slot takes one when it becomes free. */
static void a_refused_thread_gets_its_slot(void **state)
{
    struct kymo_options o = rc_options(rc_path("refused"), KYMO_OVERWRITE);
    struct waiting holder, x = {.b = NULL};
    pthread_barrier_t b;
    pthread_t th, tx;

    (void)state;
    o.n_slots = 1;
    x.r = rc_open(&o);
    x.b = &b;
    holder = x;
    pthread_barrier_init(&b, NULL, 2);
    rc_arm(KYMO_AT_CLAIM);
    assert_int_equal(pthread_create(&th, NULL, takes_and_leaves, &holder), 0);
    rc_await_gate(KYMO_AT_CLAIM); /* it has claimed the only slot */
    assert_int_equal(pthread_create(&tx, NULL, refused_then_taken, &x), 0);
    pthread_barrier_wait(&b);
    rc_release(KYMO_AT_CLAIM);
    pthread_join(th, NULL);
    pthread_barrier_wait(&b);
    pthread_join(tx, NULL);
    assert_true(holder.before);
    assert_false(x.before);
    assert_true(x.after);
    assert_int_equal(rc_info(x.r).lost[KYMO_LOST_NO_SLOT], 1);
    kymo_recorder_close(x.r);
    pthread_barrier_destroy(&b);
}

static void *dies_inside(void *arg)
{
    struct kymo_recorder *r = arg;
    struct kymo_writer *w = kymo_writer_get(r);

    (void)kymo_reserve(w, KYMO_E_CALL, 12);
    pthread_exit(NULL);
}

/* A thread that ends between get and put keeps nobody waiting. */
static void a_thread_dies_inside(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = fresh(&o, "dies", KYMO_OVERWRITE);
    pthread_t t;

    (void)state;
    assert_int_equal(pthread_create(&t, NULL, dies_inside, r), 0);
    pthread_join(t, NULL);
    assert_int_equal(in_thread(r, 0, 5), 5);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    assert_int_equal(rc_info(r).events, 5);
    assert_int_equal(rc_info(r).slots_used, 1);
    kymo_recorder_close(r);
}

/* A thread leaves while the recorder is paused: whoever comes next goes on. */
static void a_thread_leaves_in_a_pause(void **state)
{
    struct kymo_options o = rc_options(rc_path("leaves"), KYMO_OVERWRITE);
    struct kymo_recorder *r;
    uint64_t first = 0, last = 0;
    struct waiting x = {.b = NULL};
    pthread_barrier_t b;
    struct rc_rec rec;
    pthread_t t;

    (void)state;
    o.n_slots = 1;
    o.limit_events = 10000;
    r = rc_open(&o);
    x.r = r;
    x.b = &b;
    pthread_barrier_init(&b, NULL, 2);
    assert_int_equal(pthread_create(&t, NULL, refused_then_taken, &x), 0);
    pthread_barrier_wait(&b);
    assert_int_equal(kymo_recorder_pause(r), 0);
    pthread_barrier_wait(&b);
    pthread_join(t, NULL);
    assert_true(x.before);
    assert_false(x.after);
    assert_false(rc_call(r, 1));
    assert_int_equal(kymo_recorder_resume(r), 0);
    assert_int_equal(rc_calls(r, 1, 9999), 9999); /* and the lease came back */
    assert_true(kymo_recorder_ended(r));
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rc_consecutive(&rec, 0, &first, &last) + rec.slots[0].overwritten, 10000);
    rc_free(&rec);
    pthread_barrier_destroy(&b);
}

struct mute {
    struct kymo_recorder *r[2];
    uint64_t recorded, refused;
    bool done;
};

/* From here on the kernel ends the process at any system call of this thread but
 * its exit. */
static bool forbid_system_calls(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog prog = {.len = sizeof code / sizeof *code, .filter = code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0;
}

static void *is_mute(void *arg)
{
    struct mute *m = arg;

    (void)rc_call(m->r[0], 0);
    (void)rc_call(m->r[1], 0);
    if (!forbid_system_calls())
        return NULL;
    for (uint64_t i = 1; i < 200000; i++) {
        struct kymo_writer *w = kymo_writer_get(m->r[0]);

        if (i % 50 == 0)
            (void)kymo_dict_atom_add(w, i, "some_atom", 9);
        if (i % 1000 == 0)
            kymo_lose(w, KYMO_LOST_BAD_TERM);
        kymo_writer_put(w);
        m->recorded += rc_call(m->r[0], i);
        if (!rc_call(m->r[1], i))
            m->refused++;
    }
    kymo_set_release(&m->done, true);
    syscall(SYS_exit, 0);
    return NULL;
}

static int mute_process(void)
{
    struct kymo_options o = rc_options(rc_path("mute-o"), KYMO_OVERWRITE);
    struct mute m = {.done = false};
    pthread_t t;

    for (unsigned i = 0; i < 2; i++) {
        o.clock = i == 0 ? KYMO_CLOCK_TSC : KYMO_CLOCK_MONOTONIC;
        m.r[i] = rc_open(&o);
        o = rc_options(rc_path("mute-d"), KYMO_DISCARD);
    }
    rc_gates_off = true;
    if (pthread_create(&t, NULL, is_mute, &m) != 0)
        return 1;
    pthread_join(t, NULL);
    if (!kymo_get_acquire(&m.done))
        return 2; /* the filter was refused */
    return m.recorded == 199999 && m.refused > 0 && !kymo_dict_has_room(&m.r[0]->writers[0]) ? 0 : 3;
}

/* Segments are opened and reused, losses told, definitions made and refused, the
 * ring of the discard recorder fills: all without the kernel. */
static void producers_stay_out_of_the_kernel(void **state)
{
    int status = 0;
    pid_t pid;

    (void)state;
    if (RC_SANITIZED) {
        fprintf(stderr, "producers_stay_out_of_the_kernel: skipped, sanitizers make system calls\n");
        skip();
    }
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(mute_process());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status)); /* not ended by SIGSYS */
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* The library is set down and taken up again, under a thread that stays. */
static void unload_and_load(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = fresh(&o, "unload1", KYMO_DISCARD);

    (void)state;
    assert_true(rc_call(r, 0));
    kymo_recorder_library_unload();
    assert_int_equal(rc_info(r).state, KYMO_CLOSED);
    assert_int_equal(rc_info(r).reason, KYMO_R_UNLOAD);
    kymo_recorder_library_unload();
    kymo_recorder_close(r);
    o.dir = rc_path("unload2");
    o.policy = KYMO_OVERWRITE;
    o.n_slots = 2;
    r = rc_open(&o);
    assert_true(rc_call(r, 1));
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(in_thread(r, 0, 2), 2); /* their exits free their slot again */
    assert_int_equal(rc_info(r).events, 21);
    kymo_recorder_close(r);
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
        cmocka_unit_test(threads_come_and_go),
        cmocka_unit_test(no_slot_is_counted),
        cmocka_unit_test(a_refused_thread_gets_its_slot),
        cmocka_unit_test(a_thread_dies_inside),
        cmocka_unit_test(a_thread_leaves_in_a_pause),
        cmocka_unit_test(producers_stay_out_of_the_kernel),
        cmocka_unit_test(unload_and_load),
    };

    return cmocka_run_group_tests_name("rings", tests, rc_setup, rc_teardown);
}
