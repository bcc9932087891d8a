/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of threads and their slots: threads that start and exit, too many threads, and recording
 * without system calls.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "rec_check.h"

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
    rc_pool(&o, 1, 256);
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

static void *borrows(void *arg)
{
    struct kymo_writer *w = kymo_writer_borrow(arg);

    if (w != NULL)
        kymo_writer_put(w);
    return w;
}

/* A thread that only defines something loses no event, whether or not there is a free slot. */
static void borrowing_loses_nothing(void **state)
{
    struct kymo_options o = rc_options(rc_path("borrow"), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);
    struct kymo_writer *w;
    struct kymo_info info;
    pthread_t t;
    void *got;

    (void)state;
    assert_true(rc_call(r, 0));
    assert_int_equal(pthread_create(&t, NULL, borrows, r), 0);
    pthread_join(t, &got);
    assert_null(got); /* the one slot is taken */
    w = kymo_writer_borrow(r);
    assert_non_null(w);
    assert_null(kymo_writer_borrow(r)); /* between get and put */
    kymo_writer_put(w);
    assert_int_equal(kymo_recorder_pause(r), 0);
    assert_null(kymo_writer_borrow(r));
    info = rc_info(r);
    assert_int_equal(rc_lost(&info), 0);
    assert_int_equal(info.events, 1);
    kymo_recorder_close(r);
}

static void no_slot_is_counted(void **state)
{
    struct kymo_options o = rc_options(rc_path("no-slot"), KYMO_OVERWRITE);
    struct kymo_recorder *r;
    struct kymo_slot slot;
    struct rc_rec rec;

    (void)state;
    r = rc_open(&o);
    assert_int_equal(kymo_recorder_slot(r, 0, &slot), -ERANGE);
    assert_int_equal(in_thread(r, 0, 3), 3);
    assert_int_equal(rc_calls(r, 0, 5), 5); /* the slot of the exited thread */
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
    assert_true(rec.meta.no_slot_first > rec.meta.t0_ticks);
    assert_true(rec.meta.no_slot_last > rec.meta.no_slot_first);
    assert_true(rec.meta.no_slot_last < (uint64_t)rec.meta.end_ticks);
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

/* A thread that exits between get and put makes no other thread wait. */
static void a_thread_dies_inside(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = rc_fresh(&o, "dies", KYMO_OVERWRITE);
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

/* A thread exits while the recorder is paused: other threads can record after it is resumed. */
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

/* From here on the kernel kills the process at any system call of this thread except its exit. */
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
        o.clock = i == 0 ? KYMO_CLOCK_COUNTER : KYMO_CLOCK_MONOTONIC;
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

/* Segments are opened and reused, losses reported, definitions made and refused, and the ring of the
 * discard recorder fills up, all without system calls. */
static void producers_stay_out_of_the_kernel(void **state)
{
    int status = 0;
    pid_t pid;

    (void)state;
    if (RC_SANITIZED) {
        fprintf(stderr, "producers_stay_out_of_the_kernel: skipped, sanitizers make system calls\n");
        skip();
    }
    if (rc_emulated("producers_stay_out_of_the_kernel"))
        skip();
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(mute_process());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status)); /* not ended by SIGSYS */
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* The library is unloaded and loaded again while a thread lives on. */
static void unload_and_load(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = rc_fresh(&o, "unload1", KYMO_DISCARD);

    (void)state;
    assert_true(rc_call(r, 0));
    kymo_recorder_library_unload();
    assert_int_equal(rc_info(r).state, KYMO_CLOSED);
    assert_int_equal(rc_info(r).reason, KYMO_R_UNLOAD);
    kymo_recorder_library_unload();
    kymo_recorder_close(r);
    o.dir = rc_path("unload2");
    o.policy = KYMO_OVERWRITE;
    rc_pool(&o, 2, 8);
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
        cmocka_unit_test(threads_come_and_go),
        cmocka_unit_test(borrowing_loses_nothing),
        cmocka_unit_test(no_slot_is_counted),
        cmocka_unit_test(a_refused_thread_gets_its_slot),
        cmocka_unit_test(a_thread_dies_inside),
        cmocka_unit_test(a_thread_leaves_in_a_pause),
        cmocka_unit_test(producers_stay_out_of_the_kernel),
        cmocka_unit_test(unload_and_load),
    };

    return cmocka_run_group_tests_name("slots", tests, rc_setup, rc_teardown);
}
