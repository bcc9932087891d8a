/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the data files of policy discard: rotation, retention, and failing disks.
 */
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "rec_check.h"

#define PER_SEGMENT ((4096 - KYMO_SEG_HEADER) / RC_CALL_BYTES)

static void await_drained(struct kymo_recorder *r, uint64_t seq)
{
    struct kymo_slot slot;

    rc_await(kymo_recorder_slot(r, 0, &slot) == 0 && slot.drained_seq >= seq);
}

/* Records calls that fill n segments, without loss. */
static void fill(struct kymo_recorder *r, uint64_t *counter, unsigned segments)
{
    for (unsigned i = 0; i < segments; i++) {
        struct kymo_slot slot = {.seq = 0};

        rc_await(kymo_recorder_slot(r, 0, &slot) != 0 || slot.seq - slot.drained_seq < 3);
        assert_int_equal(rc_calls(r, *counter, PER_SEGMENT), PER_SEGMENT);
        *counter += PER_SEGMENT;
    }
}

static uint64_t file_size(const char *dir, unsigned number)
{
    char path[600];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/data.%06u", dir, number);
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static void rotates_by_size(void **state)
{
    struct kymo_options o = rc_options(rc_path("size"), KYMO_DISCARD);
    uint64_t counter = 0, first = 0, last = 0;
    struct kymo_recorder *r;
    struct rc_rec rec;

    (void)state;
    o.file_bytes = 3 * 4096;
    r = rc_open(&o);
    fill(r, &counter, 10);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.meta.files, 4);
    assert_int_equal(rec.files, 4);
    for (unsigned i = 1; i <= 4; i++)
        assert_in_range(file_size(o.dir, i), 1, o.file_bytes);
    assert_int_equal(rc_consecutive(&rec, 0, &first, &last), counter);
    assert_int_equal(first, 0);
    rc_free(&rec);
}

static void keeps_the_newest_files(void **state)
{
    struct kymo_options o = rc_options(rc_path("newest"), KYMO_DISCARD);
    uint64_t counter = 0, first = 0, last = 0;
    struct kymo_recorder *r;
    struct rc_rec rec;

    (void)state;
    o.file_bytes = 2 * 4096;
    o.max_files = 3;
    r = rc_open(&o);
    fill(r, &counter, 21);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.meta.files, 11);
    assert_int_equal(rec.meta.files_removed, 8);
    assert_int_equal(rec.files, 3);
    assert_int_equal(rec.meta.events_removed, 16 * PER_SEGMENT);
    assert_int_equal(rec.real + rec.meta.events_removed, counter);
    assert_int_equal(rc_consecutive(&rec, 0, &first, &last), rec.real);
    assert_int_equal(last, counter - 1);
    rc_free(&rec);
}

/* A packet with length 0 is the last one that is read. */
static void removes_a_damaged_file(void **state)
{
    struct kymo_options o = rc_options(rc_path("damaged"), KYMO_DISCARD);
    const uint64_t bits = 1;
    uint64_t counter = 0;
    struct kymo_recorder *r;
    char path[600];
    int fd;

    (void)state;
    o.file_bytes = 2 * 4096;
    o.max_files = 2;
    r = rc_open(&o);
    fill(r, &counter, 5);
    (void)snprintf(path, sizeof path, "%s/data.%06u", o.dir, 1u);
    fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &bits, sizeof bits, offsetof(struct kymo_segment, packet_bits)), sizeof bits);
    close(fd);
    fill(r, &counter, 5);
    assert_int_equal(file_size(o.dir, 1), 0);
    kymo_recorder_close(r);
}

static void rotates_by_age(void **state)
{
    struct kymo_options o = rc_options(rc_path("age"), KYMO_DISCARD);
    uint64_t counter = 0;
    struct kymo_recorder *r;
    struct rc_rec rec;

    (void)state;
    o.file_ns = 1;
    r = rc_open(&o);
    for (unsigned i = 1; i <= 3; i++) {
        unsigned passed;

        assert_int_equal(rc_calls(r, counter, PER_SEGMENT + 1), PER_SEGMENT + 1);
        counter += PER_SEGMENT + 1;
        await_drained(r, i);
        /* The worker checks the age each time before it sleeps. */
        passed = rc_passed(KYMO_AT_IDLE);
        rc_await_passed(KYMO_AT_IDLE, passed + 2);
    }
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_true(rec.meta.files >= 3);
    assert_int_equal(rec.real, counter);
    rc_free(&rec);
}

/* An existing file that has the next name is not changed. */
static void passes_over_foreign_files(void **state)
{
    struct kymo_options o = rc_options(rc_path("foreign"), KYMO_DISCARD);
    uint64_t counter = 0;
    struct kymo_recorder *r;
    struct rc_rec rec;
    char path[600];
    int fd;

    (void)state;
    r = rc_open(&o);
    (void)snprintf(path, sizeof path, "%s/data.000001", o.dir);
    fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    fill(r, &counter, 2);
    kymo_recorder_close(r);
    assert_int_equal(file_size(o.dir, 1), 0);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.meta.files, 2);
    assert_int_equal(rec.real, counter);
    rc_free(&rec);
}

static void limit_file_size(rlim_t bytes)
{
    struct rlimit l;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

/* The process's limit on file sizes is below the requested size: more files are made. */
static void a_file_size_limit_makes_more_files(void **state)
{
    struct kymo_options o = rc_options(rc_path("fsize"), KYMO_DISCARD);
    uint64_t counter = 0;
    struct kymo_recorder *r;
    struct rc_rec rec;

    (void)state;
    r = rc_open(&o);
    limit_file_size(6000);
    fill(r, &counter, 5);
    await_drained(r, 4);
    limit_file_size(RLIM_INFINITY);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec); /* no file ends within a packet */
    assert_true(rec.meta.files >= 4);
    assert_int_equal(rec.real, counter);
    rc_free(&rec);
}

/* For a while, nothing can be written: events that the ring cannot hold are lost, with that cause,
 * and the rest is written when the disk is available again. */
static void goes_on_after_errors(void **state)
{
    struct kymo_options o = rc_options(rc_path("errors"), KYMO_DISCARD);
    struct kymo_recorder *r;
    struct kymo_info info;
    struct rc_rec rec;
    uint64_t n, more;

    (void)state;
    r = rc_open(&o);
    limit_file_size(100);
    n = rc_calls(r, 0, 2 * PER_SEGMENT); /* closes a segment */
    assert_int_equal(n, 2 * PER_SEGMENT);
    rc_await(rc_info(r).io_errno != 0);
    assert_int_equal(rc_info(r).io_errno, EFBIG);
    rc_await(kymo_get(&r->io_failing) != 0);
    n += rc_calls(r, n, 10 * PER_SEGMENT);
    info = rc_info(r);
    assert_int_equal(n, 4 * PER_SEGMENT);
    assert_int_equal(info.lost[KYMO_LOST_IO], 8 * PER_SEGMENT);
    assert_int_equal(info.lost[KYMO_LOST_RING_FULL], 0);
    limit_file_size(RLIM_INFINITY);
    await_drained(r, 4);
    more = rc_calls(r, 12 * PER_SEGMENT, PER_SEGMENT);
    assert_int_equal(more, PER_SEGMENT);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    info = rc_info(r);
    kymo_recorder_close(r);
    assert_int_equal(info.io_errno, EFBIG); /* the last error is reported */
    assert_int_equal(info.events + info.lost[KYMO_LOST_IO], 13 * PER_SEGMENT);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, 5 * PER_SEGMENT);
    assert_int_equal(rec.noted[KYMO_LOST_IO], 8 * PER_SEGMENT);
    assert_int_equal(rec.slots[0].io_lost, 0);
    rc_free(&rec);
}

/* The disk is still not available at the end. */
static void keeps_what_stays_behind(void **state)
{
    struct kymo_options o = rc_options(rc_path("behind"), KYMO_DISCARD);
    uint64_t counter = 0, first = 0, last = 0;
    struct kymo_recorder *r;
    struct kymo_info info;
    struct rc_rec rec;

    (void)state;
    r = rc_open(&o);
    fill(r, &counter, 3);
    assert_int_equal(rc_calls(r, counter, 1), 1); /* closes the third segment */
    await_drained(r, 3);
    limit_file_size(100);
    assert_int_equal(rc_calls(r, counter + 1, 2 * PER_SEGMENT), 2 * PER_SEGMENT);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    limit_file_size(RLIM_INFINITY);
    info = rc_info(r);
    kymo_recorder_close(r);
    assert_int_equal(info.state, KYMO_CLOSED);
    assert_int_equal(info.io_errno, EFBIG);
    assert_int_equal(info.events, counter + 1 + 2 * PER_SEGMENT);
    /* Nothing is lost: events that were not written are in the ring. */
    assert_int_equal(info.lost[KYMO_LOST_IO], 0);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.slots[0].io_lost, 0);
    assert_int_equal(rc_consecutive(&rec, 0, &first, &last), info.events);
    rc_free(&rec);
}

static int full_disk(void)
{
    struct kymo_options o = rc_options(rc_path("tiny/rec"), KYMO_DISCARD);
    const char *tiny = rc_path("tiny");
    uint64_t produced = 0, n;
    struct kymo_recorder *r;
    struct kymo_info info;
    struct rc_rec rec;
    int fd;

    if (mkdir(tiny, 0700) != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", tiny, "tmpfs", 0, "size=1m") != 0) {
        fprintf(stderr, "full_disk: skipped, it needs the right to mount a tmpfs\n");
        return 77;
    }
    r = rc_open(&o);
    fd = open(rc_path("tiny/ballast"), O_CREAT | O_WRONLY, 0600);
    assert_int_equal(posix_fallocate(fd, 0, 512 * 1024), 0);
    close(fd);
    while (rc_info(r).lost[KYMO_LOST_IO] == 0) {
        (void)rc_calls(r, produced, PER_SEGMENT);
        produced += PER_SEGMENT;
        (void)sched_yield();
    }
    assert_int_equal(rc_info(r).io_errno, ENOSPC);
    unlink(rc_path("tiny/ballast"));
    do {
        n = rc_calls(r, produced, 1);
        produced++;
    } while (n == 0);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    info = rc_info(r);
    kymo_recorder_close(r);
    assert_int_equal(info.events + rc_lost(&info), produced);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, info.events);
    assert_int_equal(rec.noted[KYMO_LOST_IO] + rec.noted[KYMO_LOST_RING_FULL], produced - rec.real);
    rc_free(&rec);
    return 0;
}

static void survives_a_full_disk(void **state)
{
    int status = 0;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(full_disk());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* The folder is moved and its permissions are removed while the recorder runs. */
static void goes_on_in_a_moved_folder(void **state)
{
    struct kymo_options o = rc_options(rc_path("moved"), KYMO_DISCARD);
    uint64_t counter = 0;
    struct kymo_recorder *r;
    struct rc_rec rec;

    (void)state;
    o.file_bytes = 4096;
    r = rc_open(&o);
    fill(r, &counter, 2);
    assert_int_equal(rename(o.dir, rc_path("moved-away")), 0);
    fill(r, &counter, 3);
    kymo_recorder_close(r);
    rc_load(rc_path("moved-away"), &rec);
    assert_int_equal(rec.real, counter);
    rc_free(&rec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survives_a_full_disk), /* first: it forks */
        cmocka_unit_test(rotates_by_size),           cmocka_unit_test(keeps_the_newest_files),
        cmocka_unit_test(removes_a_damaged_file),    cmocka_unit_test(rotates_by_age),
        cmocka_unit_test(passes_over_foreign_files), cmocka_unit_test(a_file_size_limit_makes_more_files),
        cmocka_unit_test(goes_on_after_errors),      cmocka_unit_test(keeps_what_stays_behind),
        cmocka_unit_test(goes_on_in_a_moved_folder),
    };

    return cmocka_run_group_tests_name("datafiles", tests, rc_setup, rc_teardown);
}
