/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of how the reader detects whether the recorder is still alive: by its lock, from any PID
 * namespace, and by its process if it has no lock.
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "reader_fixture.h"

/* Without a lock: by the process id. */
static void by_its_process(void **state)
{
    (void)state;
    struct testrec t;
    char path[128];
    tr_init(&t);
    t.meta.state = KYMO_CLOSED;
    t.meta.os_pid = 0;
    struct kymo_reader *r = open_it(&t);
    assert_false(kymo_reader_crashed(r));
    kymo_reader_close(r);
    t.meta.state = KYMO_ACTIVE;
    r = open_it(&t);
    assert_true(kymo_reader_crashed(r));
    kymo_reader_close(r);

    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    t.meta.os_pid = (uint64_t)child; /* gone for sure */
    r = open_it(&t);
    assert_true(kymo_reader_crashed(r));
    kymo_reader_close(r);

    t.meta.os_pid = (uint64_t)getpid(); /* is alive but has not mapped the file: the process id was reused */
    r = open_it(&t);
    assert_true(kymo_reader_crashed(r));
    kymo_reader_close(r);

    snprintf(path, sizeof path, "%s/meta", dir);
    int fd = open(path, O_RDONLY);
    void *map = mmap(NULL, KYMO_META_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    r = open_written();
    assert_false(kymo_reader_crashed(r));
    kymo_reader_close(r);
    munmap(map, KYMO_META_BYTES);
    close(fd);

    t.meta.snapshot = 1; /* will not be written to again */
    t.meta.os_pid = 0;
    r = open_it(&t);
    assert_false(kymo_reader_crashed(r));
    kymo_reader_close(r);
    tr_free(&t);
}

/* Takes the same lock on meta as the recorder. Returns the file, or -1. */
static int take_lock(void)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    char path[128];
    snprintf(path, sizeof path, "%s/meta", dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && fcntl(fd, F_OFD_SETLK, &l) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* A recording whose newest data file is being written: its last segment is incomplete. */
static void growing(struct testrec *t)
{
    struct testseg s;
    tr_init(t);
    t->meta.state = KYMO_ACTIVE;
    t->meta.policy = KYMO_DISCARD;
    t->meta.locked = 1;
    for (uint64_t seq = 1; seq <= 3; seq++) {
        ts_open(&s, t, 0, seq, 1000000 * seq);
        for (uint64_t i = 0; i < 20; i++)
            ts_wm(&s, 1000000 * seq + i, KYMO_E_CALL, seq, 0);
        ts_close(&s, true);
        tr_to_data(t, 1, &s, true);
        if (seq == 3) /* its copy is still in the pool */
            tr_to_ring(t, &s);
    }
    t->data[1].n -= 100;
    tr_write(t, dir);
}

/* 0: it is alive, complete and not damaged. 1: it has crashed or is damaged. */
static int looks_dead(void)
{
    static const struct kymo_damage none;
    struct kymo_reader *r;
    struct kymo_event ev;
    char err[256];
    unsigned n = 0;
    if (kymo_reader_open(dir, &r, err, sizeof err) != 0)
        return 2;
    while (kymo_reader_next(r, &ev) == 1)
        n++;
    int dead = kymo_reader_crashed(r) || memcmp(kymo_reader_damage(r), &none, sizeof none) != 0 || n != 60;
    kymo_reader_close(r);
    return dead;
}

static void by_its_lock(void **state)
{
    (void)state;
    struct testrec t;
    growing(&t);
    int fd = take_lock();
    if (fd < 0)
        skip();
    assert_int_equal(looks_dead(), 0);
    assert_int_equal(looks_dead(), 0); /* asking does not release the lock */
    close(fd);
    assert_int_equal(looks_dead(), 1); /* although a process has that number */
    tr_free(&t);
}

/* The recorder's process has no id in this namespace. */
static void from_another_pid_namespace(void **state)
{
    (void)state;
    enum { NOT_ALLOWED = 77 };
    struct testrec t;
    int status = 0;
    growing(&t);
    for (unsigned locked = 0; locked < 2; locked++) {
        int fd = locked == 1 ? take_lock() : -1;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (fd >= 0)
                close(fd);
            pid_t inner = unshare(CLONE_NEWPID) != 0 ? -1 : fork();
            if (inner < 0)
                _exit(NOT_ALLOWED);
            if (inner == 0)
                _exit(looks_dead());
            waitpid(inner, &status, 0);
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (fd >= 0)
            close(fd);
        if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_ALLOWED) {
            fprintf(stderr, "another PID namespace is skipped: it needs the right to make one\n");
            tr_free(&t);
            skip();
        }
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), locked == 1 ? 0 : 1);
    }
    tr_free(&t);
}

/* A live pool of one thread with three segments of 20 events. */
static void living_pool(struct testrec *t)
{
    struct testseg s;
    tr_init(t);
    t->meta.state = KYMO_ACTIVE;
    t->meta.policy = KYMO_OVERWRITE;
    t->meta.locked = 1;
    for (uint64_t seq = 1; seq <= 3; seq++) {
        ts_open(&s, t, 0, seq, 1000000 * seq);
        for (uint64_t i = 0; i < 20; i++)
            ts_wm(&s, 1000000 * seq + i, KYMO_E_CALL, seq, 0);
        ts_close(&s, true);
        tr_to_ring(t, &s);
    }
    tr_write(t, dir);
}

/* Returns the number of events delivered; the first is at *first. */
static unsigned count_events(struct kymo_reader *r, uint64_t *first)
{
    struct kymo_event ev;
    unsigned n = 0;
    while (kymo_reader_next(r, &ev) == 1) {
        if (n++ == 0)
            *first = ev.ticks;
    }
    return n;
}

/* A recording opened again to continue has all remaining events. Its pool is held in memory, so
 * changes by the recorder do not matter. */
static void opened_again(void **state)
{
    (void)state;
    struct testrec t;
    struct kymo_reader *r;
    char err[256] = "", path[128];
    const uint64_t before = 2000010;
    uint64_t first = 0;
    living_pool(&t);
    int fd = take_lock();
    if (fd < 0)
        skip();
    assert_int_equal(kymo_reader_reopen(dir, &before, 1, &r, err, sizeof err), 0);
    snprintf(path, sizeof path, "%s/ring", dir);
    int ring = open(path, O_RDWR | O_TRUNC);
    assert_true(ring >= 0);
    kymo_reader_skip(r, &before, 1);
    assert_int_equal(count_events(r, &first), 40);
    assert_int_equal(first, 2000000);
    close(ring);
    kymo_reader_close(r);
    close(fd);
    tr_free(&t);
}

/* A recording read from a given time on behaves as if it were cut there. */
static void begun_later(void **state)
{
    (void)state;
    struct testrec t;
    uint64_t first = 0, ticks, done, total;
    int64_t ns, last;
    living_pool(&t);
    struct kymo_reader *r = open_written();
    kymo_reader_begin_at(r, kymo_reader_ns(r, 2000005));
    for (int twice = 0; twice < 2; twice++) {
        assert_int_equal(count_events(r, &first), 35);
        assert_int_equal(first, 2000005);
        assert_true(kymo_reader_horizon(r, &ticks, &ns));
        assert_int_equal(ticks, 2000004);
        kymo_reader_progress(r, &done, &total);
        assert_true(done < total); /* the first segment was not read */
        assert_int_equal(kymo_reader_span(r, &ns, &last), 0);
        assert_true(ns <= kymo_reader_ns(r, 2000005) && ns >= kymo_reader_ns(r, 2000004));
        assert_int_equal(kymo_reader_rewind(r), 0);
    }
    kymo_reader_close(r);
    r = open_written();
    kymo_reader_begin_at(r, INT64_MIN); /* before its start: nothing changes */
    assert_int_equal(count_events(r, &first), 60);
    assert_false(kymo_reader_horizon(r, &ticks, &ns));
    kymo_reader_close(r);
    tr_free(&t);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        TEST(by_its_process), TEST(by_its_lock), TEST(from_another_pid_namespace),
        TEST(opened_again),   TEST(begun_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
