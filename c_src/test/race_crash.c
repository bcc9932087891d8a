/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that a crash loses no committed record: a process with producers under load is killed with
 * SIGKILL at an arbitrary place, and all records that the producers had committed must be in the files.
 */
#include <sys/mman.h>

#include "rec_check.h"

#define PRODUCERS 3u
#define PER_SEGMENT ((4096 - KYMO_SEG_HEADER) / RC_CALL_BYTES)

/* Survives the child: what each producer knows to be committed. */
struct knows {
    uint64_t committed; /* atomic */
    uint64_t lost;
};
static struct knows *knows;

struct producer {
    struct kymo_recorder *r;
    unsigned no;
};

/* Each 20th event defines a name of its own. */
static uint32_t name_of(struct kymo_writer *w, unsigned no, uint64_t counter)
{
    uint64_t word = (uint64_t)(no + 1) << 48 | counter / 20 % 500;
    uint32_t id = kymo_dict_atom(w, word);
    char name[32];

    if (id == 0) {
        (void)snprintf(name, sizeof name, "%u/%llu", no, (unsigned long long)(counter / 20 % 500));
        id = kymo_dict_atom_add(w, word, name, strlen(name));
    }
    return id;
}

static void *produce(void *arg)
{
    struct producer *p = arg;
    struct knows *k = &knows[p->no];

    for (;;) {
        struct kymo_writer *w = kymo_writer_get(p->r);
        uint64_t n = k->committed;
        uint32_t id;
        uint8_t *q;

        if (w == NULL)
            return NULL;
        id = name_of(w, p->no, n);
        q = kymo_reserve(w, KYMO_E_CALL, 12);
        if (q != NULL) {
            kymo_commit(w, kymo_put32(kymo_put64(q, (uint64_t)p->no << 48 | n), id));
            kymo_set_release(&k->committed, n + 1);
        } else {
            k->lost++;
        }
        kymo_writer_put(w);
    }
}

/* Runs in the child and never returns. Signals through the pipe that the child may be killed: when a
 * producer has recorded `after` events, or, at a gate, when a thread passes it for the `after`th
 * time. */
static void run(const struct kymo_options *o, enum kymo_point at, uint64_t after, int ready)
{
    static struct producer p[PRODUCERS];
    struct kymo_recorder *r;
    pthread_t t;

    if (kymo_recorder_open(o, &r, NULL) != 0)
        _exit(1);
    if (at != KYMO_AT_IDLE)
        rc_arm_nth(at, at == KYMO_AT_QUIESCE ? 1 : (unsigned)after);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        p[i] = (struct producer){r, i};
        if (pthread_create(&t, NULL, produce, &p[i]) != 0)
            _exit(1);
    }
    while ((at == KYMO_AT_IDLE || at == KYMO_AT_QUIESCE) && kymo_get(&knows[0].committed) < after)
        sched_yield();
    if (at == KYMO_AT_QUIESCE)
        kymo_recorder_stop_async(r, KYMO_R_STOP);
    if (at != KYMO_AT_IDLE)
        rc_await_gate(at);
    if (write(ready, "x", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

/* The name that the event carries is in the dictionary. */
static void check_names(const struct rc_rec *rec)
{
    const struct kymo_dict_entry *e;
    const char **names = calloc(rec->dict_len / 16 + 2, sizeof *names);
    size_t at = 0;

    assert_non_null(names);
    while ((e = rc_entry(rec, &at)) != NULL)
        names[e->id] = (const char *)(e + 1);
    for (size_t i = 0; i < rec->n_events; i++) {
        const struct rc_event *ev = &rec->events[i];
        char name[32];

        if (ev->id != KYMO_E_CALL)
            continue;
        (void)snprintf(name, sizeof name, "%u/%llu", (unsigned)(ev->who >> 48),
                       (unsigned long long)((ev->who & 0xffffffffffffu) / 20 % 500));
        assert_non_null(names[ev->mfa]);
        assert_string_equal(names[ev->mfa], name);
    }
    free(names);
}

static void crash(enum kymo_policy policy, enum kymo_point at, uint64_t after)
{
    struct kymo_options o = rc_options(rc_path("crash"), policy);
    struct rc_rec rec;
    int fds[2], status;
    char byte;
    pid_t pid;

    rc_pool(&o, PRODUCERS + 1, 16);
    memset(knows, 0, PRODUCERS * sizeof *knows);
    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        run(&o, at, after, fds[1]);
    close(fds[1]);
    assert_int_equal(read(fds[0], &byte, 1), 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    close(fds[0]);

    rc_load(o.dir, &rec);
    assert_int_equal(rec.meta.end_ticks, 0);
    assert_int_equal(rec.meta.os_pid, pid);
    for (uint32_t i = 0; i < rec.meta.slots_used; i++) {
        uint64_t first = 0, last = 0, n = rc_consecutive(&rec, i, &first, &last);
        const struct knows *k = &knows[last >> 48];
        const struct kymo_slot *slot = &rec.slots[i];

        if (n == 0)
            continue;
        last &= 0xffffffffffffu;
        first &= 0xffffffffffffu;
        assert_in_range(slot->events, k->committed - 1, k->committed + 1);
        if (policy == KYMO_DISCARD) {
            /* Files and pool together have all events up to the last that the producer knew of, and
             * at most the next one. */
            assert_int_equal(first, 0);
            assert_in_range(last + 1, k->committed, k->committed + 1);
        } else {
            /* Missing events are counted. Events of segments that were about to be reused are both
             * present and counted. */
            assert_in_range(n + slot->overwritten, k->committed, k->committed + 1 + PRODUCERS * PER_SEGMENT);
            assert_true(last + 1 >= k->committed || slot->gone_until != 0);
        }
    }
    /* The pool, except for one segment of each thread that has not been started. */
    if (rec.slots[0].overwritten > 0)
        assert_true(rec.real > (16 - PRODUCERS - 4) * PER_SEGMENT);
    check_names(&rec);
    rc_free(&rec);
    rc_remove(o.dir);
}

static void at_any_moment(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 30; i++)
        crash(i % 2 ? KYMO_DISCARD : KYMO_OVERWRITE, KYMO_AT_IDLE, 1 + i * i * 150);
}

static void at_the_worst_moments(void **state)
{
    static const struct {
        enum kymo_point at;
        uint64_t nth;
    } points[] = {{KYMO_AT_SEGMENT_RESET, 40},
                  {KYMO_AT_SEGMENT_OPEN, 41},
                  {KYMO_AT_DICT_RESERVED, 700},
                  {KYMO_AT_QUIESCE, 3000}};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        crash(KYMO_OVERWRITE, points[i].at, points[i].nth);
        crash(KYMO_DISCARD, points[i].at, points[i].nth);
    }
    crash(KYMO_DISCARD, KYMO_AT_DRAIN, 10);
}

static int setup(void **state)
{
    rc_crashed = true;
    knows = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return knows == MAP_FAILED || rc_setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_any_moment),
        cmocka_unit_test(at_the_worst_moments),
    };

    return cmocka_run_group_tests_name("crash", tests, setup, rc_teardown);
}
