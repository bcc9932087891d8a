/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that each event is either delivered by the reader or counted as lost, never both and never
 * neither, also on full disks and whenever and however the recorder ends. All counters of the reader
 * are compared.
 */
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "rec_check.h"

#include "kymo_reader.h"

#define PER_SEGMENT ((4096 - KYMO_SEG_HEADER) / RC_CALL_BYTES)

/* ---- counters of the reader ---- */

struct seen {
    uint64_t shown, lost, removed, noted;
    bool ring;
};

static struct seen look(const char *dir)
{
    static const struct kymo_damage none;
    struct seen s = {.shown = 0};
    struct kymo_reader *r = NULL;
    const struct kymo_slot *slots;
    struct kymo_event ev;
    char err[256] = "", path[600];
    uint32_t n;

    if (kymo_reader_open(dir, &r, err, sizeof err) != 0)
        fail_msg("%s", err);
    kymo_reader_show_all(r, true); /* also segments that outlived newer ones */
    while (kymo_reader_next(r, &ev) == 1) {
        if (ev.id < KYMO_E_FIRST_NOTE)
            s.shown++;
        else if (ev.id == KYMO_E_LOST)
            s.noted += ev.value;
    }
    assert_memory_equal(kymo_reader_damage(r), &none, sizeof none);
    slots = kymo_reader_slots(r, &n);
    for (uint32_t i = 0; i < n; i++) {
        for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++)
            s.lost += slots[i].lost[c];
        s.lost += slots[i].io_lost;
    }
    s.removed = kymo_reader_meta(r)->events_removed;
    kymo_reader_close(r);
    (void)snprintf(path, sizeof path, "%s/ring", dir);
    s.ring = access(path, F_OK) == 0;
    return s;
}

static struct seen expect_exact(const char *dir, uint64_t produced)
{
    struct seen s = look(dir);

    if (s.shown + s.lost + s.removed != produced)
        fail_msg("%llu shown, %llu lost, %llu removed of %llu", (unsigned long long)s.shown,
                 (unsigned long long)s.lost, (unsigned long long)s.removed, (unsigned long long)produced);
    return s;
}

/* ---- disks that fail ------------------------------------------------------------- */

static void limit_file_size(rlim_t bytes)
{
    struct rlimit l;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

static bool have_disk;

/* A file system for this process alone, if mounting is allowed. */
static int setup(void **state)
{
    if (rc_setup(state) != 0)
        return -1;
    have_disk = mkdir(rc_path("disk"), 0700) == 0 && unshare(CLONE_NEWNS) == 0 &&
                mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                mount("tmpfs", rc_path("disk"), "tmpfs", 0, "size=1m") == 0;
    if (!have_disk)
        fprintf(stderr, "full disks are skipped: they need the right to mount a tmpfs\n");
    return 0;
}

static int teardown(void **state)
{
    if (have_disk)
        (void)umount2(rc_path("disk"), MNT_DETACH);
    return rc_teardown(state);
}

/* Fills the disk. */
static void fill_disk(void)
{
    static const char zeros[4096];
    int fd = open(rc_path("disk/ballast"), O_CREAT | O_WRONLY, 0600);

    assert_true(fd >= 0);
    while (write(fd, zeros, sizeof zeros) > 0)
        ;
    close(fd);
}

static void clear_disk(const char *dir)
{
    rc_remove(dir);
    unlink(rc_path("disk/ballast"));
}

/* Records calls on a full disk until n were lost. Returns how many were made. */
static uint64_t produce_until_lost(struct kymo_recorder *r, uint64_t n)
{
    uint64_t made = rc_calls(r, 0, PER_SEGMENT + 1);
    struct kymo_info info = rc_info(r);

    rc_await(kymo_get(&r->io_failing) != 0);
    while (info.lost[KYMO_LOST_IO] < n) {
        (void)rc_call(r, made++);
        info = rc_info(r);
    }
    return made;
}

/* ---- files can't be written -------------------------------------------------------- */

/* Checked during the failure, and after it has ended before the recording does. */
static void undrained_segments_are_shown(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r;
    uint64_t made;
    struct seen s;

    (void)state;
    if (rc_emulated("undrained_segments_are_shown")) /* it writes a file when /proc is read */
        skip();
    r = rc_fresh(&o, "undrained", KYMO_DISCARD);
    limit_file_size(100);
    made = produce_until_lost(r, 700);
    s = expect_exact(o.dir, made);
    assert_int_equal(s.shown, 4 * PER_SEGMENT);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    limit_file_size(RLIM_INFINITY);
    assert_int_equal(rc_info(r).lost[KYMO_LOST_IO], 700);
    s = expect_exact(o.dir, made);
    assert_int_equal(s.lost, 700);
    assert_true(s.ring);
    kymo_recorder_close(r);
    (void)expect_exact(o.dir, made);
}

static void written_when_the_disk_is_back(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = rc_fresh(&o, "back", KYMO_DISCARD);
    uint64_t made;
    struct seen s;

    (void)state;
    limit_file_size(100);
    made = produce_until_lost(r, 10);
    limit_file_size(RLIM_INFINITY);
    kymo_recorder_close(r);
    s = expect_exact(o.dir, made);
    assert_int_equal(s.lost, 10);
    assert_int_equal(s.noted, 10);
    assert_false(s.ring);
}

/* Then no process can read them. */
static void lost_with_a_removed_ring(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = rc_fresh(&o, "removed", KYMO_DISCARD);
    uint64_t made;
    struct seen s;

    (void)state;
    limit_file_size(100);
    made = produce_until_lost(r, 10);
    assert_int_equal(unlink(rc_path("removed/ring")), 0);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    limit_file_size(RLIM_INFINITY);
    assert_int_equal(rc_info(r).lost[KYMO_LOST_IO], made); /* now these too */
    kymo_recorder_close(r);
    s = expect_exact(o.dir, made);
    assert_int_equal(s.shown, 0);
}

/* ---- the disk is full ---------------------------------------------------------------- */

/* The unused part of the ring has room for the segments in use. */
static void the_rings_make_room(void **state)
{
    struct kymo_options o = rc_options(rc_path("disk/room"), KYMO_DISCARD);
    struct kymo_recorder *r;
    struct kymo_info info;
    uint64_t made;
    struct seen s;

    (void)state;
    if (!have_disk)
        skip();
    rc_pool(&o, 4, 12); /* including segments reserved for other threads */
    r = rc_open(&o);
    fill_disk();
    made = produce_until_lost(r, 700);
    (void)expect_exact(o.dir, made);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    info = rc_info(r);
    assert_int_equal(info.lost[KYMO_LOST_IO], 700);
    assert_int_equal(info.io_errno, ENOSPC);
    kymo_recorder_close(r);
    s = expect_exact(o.dir, made);
    assert_false(s.ring);
    assert_int_equal(s.noted, 700);
    clear_disk(o.dir);
}

/* There is no space to free: the ring remains, and its events are shown. */
static void the_ring_stays(void **state)
{
    struct kymo_options o = rc_options(rc_path("disk/stays"), KYMO_DISCARD);
    struct kymo_recorder *r;
    struct rc_rec rec;
    uint64_t made;
    struct seen s;

    (void)state;
    if (!have_disk)
        skip();
    r = rc_open(&o);
    fill_disk();
    made = produce_until_lost(r, 700);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    assert_int_equal(rc_info(r).lost[KYMO_LOST_IO], 700);
    kymo_recorder_close(r);
    s = expect_exact(o.dir, made);
    assert_true(s.ring);
    assert_int_equal(s.shown, 4 * PER_SEGMENT);
    /* There was no room for a note: the last segment has the count. */
    rc_load(o.dir, &rec);
    assert_int_equal(rec.segs[rec.n_segs - 1].head.discarded, 700);
    rc_free(&rec);
    clear_disk(o.dir);
}

/* A snapshot does not access places whose space was freed: on a full tmpfs even a load would fail. */
static void snapshot_of_what_stayed(void **state)
{
    struct kymo_options o = rc_options(rc_path("disk/kept"), KYMO_DISCARD);
    uint64_t made, segments = 0, events = 0;
    struct kymo_recorder *r;
    struct seen s;

    (void)state;
    if (!have_disk)
        skip();
    r = rc_open(&o);
    made = rc_calls(r, 0, 2 * PER_SEGMENT + 1);
    rc_await(kymo_get_acquire(&r->slots[0].drained_seq) == 2);
    limit_file_size(100);
    made += rc_calls(r, made, PER_SEGMENT);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    limit_file_size(RLIM_INFINITY);
    fill_disk();
    assert_int_equal(kymo_recorder_snapshot(r, rc_path("of-kept"), &segments, &events), 0);
    kymo_recorder_close(r);
    assert_int_equal(segments, 2);
    assert_int_equal(events, PER_SEGMENT + 1);
    assert_int_equal(look(rc_path("of-kept")).shown, events);
    s = expect_exact(o.dir, made);
    assert_true(s.ring);
    assert_int_equal(s.lost, 0);
    clear_disk(o.dir);
}

/* If files cannot have holes, no space is freed, and nothing else changes. */
static void a_disk_without_holes(void **state)
{
    (void)state;
    if (!have_disk || mkdir(rc_path("ram"), 0700) != 0 ||
        mount("ramfs", rc_path("ram"), "ramfs", 0, NULL) != 0)
        skip();
    for (unsigned policy = KYMO_OVERWRITE; policy <= KYMO_DISCARD; policy++) {
        struct kymo_options o = rc_options(rc_path(policy == KYMO_DISCARD ? "ram/d" : "ram/o"), policy);
        struct kymo_recorder *r = rc_open(&o);
        uint64_t made = rc_calls(r, 0, PER_SEGMENT + 1);
        struct seen s;

        assert_int_equal(fallocate(r->ring_map.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096),
                         -1);
        limit_file_size(policy == KYMO_DISCARD ? 100 : RLIM_INFINITY);
        made += rc_calls(r, made, PER_SEGMENT);
        assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
        limit_file_size(RLIM_INFINITY);
        assert_int_equal(rc_info(r).io_errno, policy == KYMO_DISCARD ? EFBIG : 0);
        kymo_recorder_close(r);
        s = expect_exact(o.dir, made);
        assert_int_equal(s.shown, made);
    }
    assert_int_equal(umount2(rc_path("ram"), MNT_DETACH), 0);
}

/* ---- the node is killed ---- */

/* Forks a child that runs work and is killed. Returns the number of events that work made, or 0. */
static uint64_t killed_after(uint64_t (*work)(const struct kymo_options *o), const struct kymo_options *o)
{
    uint64_t made = 0;
    int fds[2], status;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        made = work(o);
        if (write(fds[1], &made, sizeof made) != sizeof made)
            _exit(1);
        for (;;)
            pause();
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &made, sizeof made), sizeof made);
    close(fds[0]);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(made > 0);
    return made;
}

static uint64_t fail_to_write(const struct kymo_options *o)
{
    struct rlimit l = {.rlim_cur = 100, .rlim_max = RLIM_INFINITY};
    struct kymo_recorder *r;

    if (kymo_recorder_open(o, &r, NULL) != 0 || setrlimit(RLIMIT_FSIZE, &l) != 0)
        return 0;
    return produce_until_lost(r, 300);
}

static void killed_while_it_can_not_write(void **state)
{
    struct kymo_options o = rc_options(rc_path("killed"), KYMO_DISCARD);
    uint64_t made = killed_after(fail_to_write, &o);
    struct seen s = expect_exact(o.dir, made);

    (void)state;
    assert_int_equal(s.lost, 300);
    assert_true(s.ring);
}

/* Like fail_to_write, then stops; the worker is held in its last attempt. */
static uint64_t fail_to_finish(const struct kymo_options *o)
{
    struct rlimit l = {.rlim_cur = 100, .rlim_max = RLIM_INFINITY};
    struct kymo_recorder *r;
    uint64_t made;

    if (kymo_recorder_open(o, &r, NULL) != 0)
        return 0;
    made = rc_calls(r, 0, 2 * PER_SEGMENT + 1);
    rc_await(kymo_get_acquire(&r->slots[0].drained_seq) == 2);
    if (setrlimit(RLIMIT_FSIZE, &l) != 0)
        return 0;
    made += rc_calls(r, made, PER_SEGMENT);
    rc_await(kymo_get(&r->io_failing) != 0);
    rc_arm_nth(KYMO_AT_QUIESCE, 1);
    kymo_recorder_stop_async(r, KYMO_R_STOP);
    rc_await_gate(KYMO_AT_QUIESCE);
    /* The first attempt fails, space is freed, and the worker stops there. */
    rc_arm_nth(KYMO_AT_DRAIN, 2);
    rc_release(KYMO_AT_QUIESCE);
    rc_await_gate(KYMO_AT_DRAIN);
    for (uint64_t place = 0; place < r->pool.n; place++) {
        if (kymo_pool_is_retired(r, place))
            return made;
    }
    return 0;
}

static void killed_in_its_last_attempt(void **state)
{
    struct kymo_options o = rc_options(rc_path("last"), KYMO_DISCARD);
    uint64_t made = killed_after(fail_to_finish, &o);
    struct seen s = expect_exact(o.dir, made);

    (void)state;
    assert_int_equal(s.shown, made);
}

/* Old files are removed; the ring has events that the remaining files do not have. */
static uint64_t rotate(const struct kymo_options *o)
{
    struct kymo_recorder *r;
    uint64_t made = 0;

    if (kymo_recorder_open(o, &r, NULL) != 0)
        return 0;
    for (uint64_t seq = 1; seq <= 9; seq++) {
        made += rc_calls(r, made, PER_SEGMENT + (seq == 1));
        rc_await(kymo_get_acquire(&r->slots[0].drained_seq) >= seq);
    }
    rc_await(kymo_get(&r->meta->files_removed) == 8);
    return made;
}

static void removed_but_in_the_ring(void **state)
{
    struct kymo_options o = rc_options(rc_path("rotated"), KYMO_DISCARD);
    uint64_t made;
    struct seen s;

    (void)state;
    o.file_bytes = 4096;
    o.max_files = 1;
    made = killed_after(rotate, &o);
    s = expect_exact(o.dir, made);
    /* One file, three more segments, and the open one. */
    assert_int_equal(s.shown, 3 * PER_SEGMENT + 1);
    assert_int_equal(s.removed, 6 * PER_SEGMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undrained_segments_are_shown),
        cmocka_unit_test(written_when_the_disk_is_back),
        cmocka_unit_test(lost_with_a_removed_ring),
        cmocka_unit_test(the_rings_make_room),
        cmocka_unit_test(the_ring_stays),
        cmocka_unit_test(snapshot_of_what_stayed),
        cmocka_unit_test(a_disk_without_holes),
        cmocka_unit_test(killed_while_it_can_not_write),
        cmocka_unit_test(killed_in_its_last_attempt),
        cmocka_unit_test(removed_but_in_the_ring),
    };

    return cmocka_run_group_tests_name("exact", tests, setup, teardown);
}
