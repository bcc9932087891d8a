/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of opening a recorder: options, folders, disks, permissions, several recorders, forked
 * children.
 */
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "rec_check.h"

/* Replaces the function of the C library: records the largest request. */
static off_t reserved_most;

int fallocate(int fd, int mode, off_t offset, off_t len)
{
    reserved_most = len > reserved_most ? len : reserved_most;
    return (int)syscall(SYS_fallocate, fd, mode, offset, len);
}

/* ---- open ------------------------------------------------------------------------- */

static void opens_with_defaults(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r;
    struct kymo_info info;
    struct stat st;

    (void)state;
    kymo_options_init(&o);
    o.dir = rc_path("defaults");
    o.n_slots = 3;
    o.node = "n\xc3\xb6"
             "de@host";
    o.otp_release = "27";
    o.erts_version = "15.2";
    o.erl_mono_ns = -5;
    o.erl_offset_ns = 77;
    o.creation = 9;
    r = rc_open(&o);
    info = rc_info(r);
    assert_int_equal(info.state, KYMO_ACTIVE);
    assert_int_equal(info.reason, KYMO_R_NONE);
    assert_int_equal(info.memory, kymo_options_memory(&o));
    assert_int_equal(info.n_slots, 3);
    assert_int_equal(info.events, 0);
    assert_true(kymo_recorder_active(r));
    assert_false(kymo_recorder_ended(r));
    assert_int_equal(stat(o.dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(rc_entries(o.dir), 3);
    for (unsigned i = 0; i < 3; i++) {
        static const char *const names[] = {"meta", "dict", "ring"};
        char path[600];

        (void)snprintf(path, sizeof path, "%s/%s", o.dir, names[i]);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_true((uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size); /* the space is reserved */
    }
    assert_true(rc_call(r, 1));
    kymo_recorder_close(r);

    struct rc_rec rec;
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, 1);
    assert_int_equal(rec.meta.policy, KYMO_OVERWRITE);
    assert_int_equal(rec.meta.state, KYMO_CLOSED);
    assert_int_equal(rec.meta.reason, KYMO_R_COLLECTED);
    assert_int_equal(rec.meta.segment_bytes, 65536);
    assert_int_equal(rec.meta.os_pid, getpid());
    assert_int_equal(rec.meta.t0_erl_ns, -5);
    assert_int_equal(rec.meta.erl_offset_ns, 77);
    assert_int_equal(rec.meta.creation, 9);
    assert_int_equal(rec.meta.node_len, strlen(o.node));
    assert_string_equal((char *)rec.meta.node, o.node);
    assert_string_equal(rec.meta.otp_release, "27");
    assert_string_equal(rec.meta.erts_version, "15.2");
    assert_true(rec.meta.end_ticks > (int64_t)rec.meta.t0_ticks);
    rc_free(&rec);
}

static void refuses_bad_options(void **state)
{
    struct kymo_options good = rc_options(rc_path("bad"), KYMO_OVERWRITE);
    char long_name[300];

    (void)state;
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
#define REFUSED(name, field, value) \
    do { \
        struct kymo_options o = good; \
        struct kymo_recorder *r = (struct kymo_recorder *)&o; \
        struct kymo_open_error why; \
        o.field = value; \
        assert_int_equal(kymo_recorder_open(&o, &r, &why), -EINVAL); \
        assert_null(r); \
        assert_string_equal(why.option, name); \
        assert_int_equal(kymo_recorder_open(&o, &r, NULL), -EINVAL); \
        assert_int_not_equal(access(good.dir, F_OK), 0); \
    } while (0)
    REFUSED("dir", dir, NULL);
    REFUSED("dir", dir, "");
    REFUSED("policy", policy, (enum kymo_policy)2);
    REFUSED("clock", clock, (enum kymo_clock)2);
    REFUSED("segment_bytes", segment_bytes, 2048);
    REFUSED("segment_bytes", segment_bytes, 5000);
    REFUSED("segment_bytes", segment_bytes, 2u << 20);
    REFUSED("memory", memory, 0);
    REFUSED("memory", memory, kymo_options_least(&good) / 2);
    REFUSED("n_slots", n_slots, 0);
    REFUSED("n_slots", n_slots, 4097);
    REFUSED("dict_bytes", dict_bytes, 4095);
    REFUSED("dict_bytes", dict_bytes, (1ull << 30) + 1);
    REFUSED("detail", detail, 0x80);
    REFUSED("content_max", content_max, 1025);
    REFUSED("sample", sample, 0);
    REFUSED("sample_kind", sample_kind, 2);
    REFUSED("limit_bytes", limit_bytes, 4095);
    REFUSED("file_bytes", file_bytes, 4095);
    REFUSED("node", node, long_name);
    REFUSED("otp_release", otp_release, "0123456789abcdef");
    REFUSED("erts_version", erts_version, "0123456789abcdef");
    good.segment_bytes = 1u << 20;
    REFUSED("content_max", content_max, 16385);
#undef REFUSED
}

static void fails(const struct kymo_options *o, int error)
{
    struct kymo_recorder *r = NULL;
    struct kymo_open_error why;

    assert_int_equal(kymo_recorder_open(o, &r, &why), -error);
    assert_null(r);
    assert_null(why.option);
    assert_int_equal(why.needed != 0, error == ENOSPC);
}

static void refuses_bad_folders(void **state)
{
    static const char *const names[] = {"meta", "dict", "ring", "data.000007"};
    struct kymo_options o = rc_options(rc_path("no/such"), KYMO_OVERWRITE);
    char path[600];
    int fd;

    (void)state;
    fails(&o, ENOENT);
    o.dir = rc_path("file");
    fd = open(o.dir, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    fails(&o, ENOTDIR);
    (void)snprintf(path, sizeof path, "%s/x", o.dir);
    o.dir = path;
    fails(&o, ENOTDIR);
    o.dir = rc_path("held");
    assert_int_equal(mkdir(o.dir, 0700), 0);
    for (unsigned i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", o.dir, names[i]);
        fd = open(path, O_CREAT | O_WRONLY, 0600);
        assert_true(fd >= 0);
        close(fd);
        fails(&o, EEXIST);
        assert_int_equal(rc_entries(o.dir), 1);
        unlink(path);
    }
    /* A folder with other contents can be used, and they are not changed. */
    (void)snprintf(path, sizeof path, "%s/notes.txt", o.dir);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    kymo_recorder_close(rc_open(&o));
    assert_int_equal(rc_entries(o.dir), 4);
    fails(&o, EEXIST); /* its own recording */
    assert_int_equal(rc_entries(o.dir), 4);
}

/* Runs f in a child process, whose limits and privileges it may change. */
static void in_child(int (*f)(void))
{
    int status = 0;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(f());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define CHECK(x) \
    do { \
        if (!(x)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
            return 1; \
        } \
    } while (0)

/* Opening fails with this error and leaves nothing behind in the parent folder. */
static int child_fails(struct kymo_options *o, const char *parent, int error)
{
    unsigned before = rc_entries(parent);
    struct kymo_recorder *r = NULL;

    CHECK(kymo_recorder_open(o, &r, NULL) == -error);
    CHECK(r == NULL);
    CHECK(rc_entries(parent) == before);
    return 0;
}

static int file_size_limit(void)
{
    struct rlimit l = {256 * 1024, 256 * 1024};
    struct kymo_options o = rc_options(rc_path("limited"), KYMO_OVERWRITE);
    sigset_t pending;

    o.dict_bytes = 8192;
    rc_pool(&o, 8, 512); /* of 2 MiB */
    CHECK(setrlimit(RLIMIT_FSIZE, &l) == 0);
    CHECK(child_fails(&o, rc_root, EFBIG) == 0); /* SIGXFSZ would have ended this process */
    sigpending(&pending);
    CHECK(!sigismember(&pending, SIGXFSZ));
    return 0;
}

static int full_disk(void)
{
    struct kymo_options o = rc_options(rc_path("tiny/rec"), KYMO_OVERWRITE);
    const char *tiny = rc_path("tiny");
    struct kymo_recorder *r;

    CHECK(mkdir(tiny, 0700) == 0);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", tiny, "tmpfs", 0, "size=1m") != 0) {
        fprintf(stderr, "full_disk: skipped, it needs the right to mount a tmpfs\n");
        return 77;
    }
    rc_pool(&o, 8, 512);
    reserved_most = 0;
    CHECK(child_fails(&o, tiny, ENOSPC) == 0);
    CHECK(reserved_most <= 1 << 20); /* more than the file system has is not requested */
    rc_pool(&o, 2, 8);
    CHECK(kymo_recorder_open(&o, &r, NULL) == 0);
    CHECK(reserved_most > 0);
    kymo_recorder_close(r);
    CHECK(mount(NULL, tiny, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    o.dir = rc_path("tiny/other");
    CHECK(child_fails(&o, tiny, EROFS) == 0);
    return 0;
}

/* ramfs does not support fallocate: zeros are written. */
static int no_fallocate(void)
{
    struct kymo_options o = rc_options(rc_path("ramfs/rec"), KYMO_OVERWRITE);
    const char *dir = rc_path("ramfs");
    struct kymo_recorder *r;
    int fd;

    CHECK(mkdir(dir, 0700) == 0);
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("ramfs", dir, "ramfs", 0, NULL) != 0) {
        fprintf(stderr, "no_fallocate: skipped, it needs the right to mount a ramfs\n");
        return 77;
    }
    fd = open(rc_path("ramfs/probe"), O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0 && fallocate(fd, 0, 0, 4096) != 0 && errno == EOPNOTSUPP);
    close(fd);
    CHECK(kymo_recorder_open(&o, &r, NULL) == 0);
    CHECK(rc_calls(r, 0, 10000) == 10000);
    kymo_recorder_close(r);
    return 0;
}

static int without_rights(void)
{
    struct kymo_options o = rc_options(rc_path("locked/rec"), KYMO_OVERWRITE);
    const char *locked = rc_path("locked");
    struct rlimit none = {0, 0};

    CHECK(mkdir(locked, 0755) == 0);
    CHECK(chmod(rc_root, 0755) == 0);
    if (geteuid() == 0) {
        CHECK(mkdir(rc_path("open"), 0777) == 0 && chmod(rc_path("open"), 0777) == 0);
        CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    } else {
        CHECK(mkdir(rc_path("open"), 0700) == 0 && chmod(locked, 0500) == 0);
    }
    CHECK(child_fails(&o, locked, EACCES) == 0);
    o.dir = rc_path("open/rec");
    CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);
    CHECK(child_fails(&o, rc_path("open"), EAGAIN) == 0); /* the worker can't be started */
    return 0;
}

static int without_memory(void)
{
    struct kymo_options o = rc_options(rc_path("vast"), KYMO_OVERWRITE);
    struct rlimit l = {256u << 20, 256u << 20};

    if (RC_SANITIZED) {
        fprintf(stderr, "without_memory: skipped, sanitizers need the address space\n");
        return 77;
    }
    if (rc_emulated("without_memory"))
        return 77;
    o.segment_bytes = 1u << 20;
    rc_pool(&o, 1, 300);
    CHECK(setrlimit(RLIMIT_AS, &l) == 0);
    CHECK(child_fails(&o, rc_root, ENOMEM) == 0);
    return 0;
}

static void survives_file_size_limit(void **state)
{
    (void)state;
    in_child(file_size_limit);
}

static void reports_a_full_disk(void **state)
{
    (void)state;
    in_child(full_disk);
}

static void opens_without_fallocate(void **state)
{
    (void)state;
    in_child(no_fallocate);
}

static void reports_missing_rights(void **state)
{
    (void)state;
    in_child(without_rights);
}

static void reports_missing_memory(void **state)
{
    (void)state;
    in_child(without_memory);
}

/* ---- several ------------------------------------------------------------------------ */

static void many_at_once(void **state)
{
    struct kymo_recorder *all[KYMO_MAX_RECORDERS];
    struct kymo_options o;
    char names[KYMO_MAX_RECORDERS][16];

    (void)state;
    for (unsigned i = 0; i < KYMO_MAX_RECORDERS; i++) {
        (void)snprintf(names[i], sizeof names[i], "many%u", i);
        o = rc_options(rc_path(names[i]), i % 2 ? KYMO_DISCARD : KYMO_OVERWRITE);
        all[i] = rc_open(&o);
    }
    o.dir = rc_path("one-more");
    fails(&o, ENFILE);
    assert_int_not_equal(access(o.dir, F_OK), 0);
    for (unsigned i = 0; i < KYMO_MAX_RECORDERS; i++)
        assert_int_equal(rc_calls(all[i], 1000 * i, i + 1), i + 1);
    /* An index that becomes free is reused, without the events of its previous recorder. */
    kymo_recorder_close(all[5]);
    o.dir = rc_path("again");
    all[5] = rc_open(&o);
    assert_int_equal(rc_calls(all[5], 9, 2), 2);
    assert_int_equal(rc_info(all[5]).events, 2);
    for (unsigned i = 0; i < KYMO_MAX_RECORDERS; i++) {
        uint64_t first = 0, last = 0;
        struct rc_rec rec;

        if (i == 7)
            kymo_recorder_stop_all();
        kymo_recorder_close(all[i]);
        rc_load(rc_path(i == 5 ? "again" : names[i]), &rec);
        assert_int_equal(rec.meta.reason, i < 7 ? KYMO_R_COLLECTED : KYMO_R_UNLOAD);
        assert_int_equal(rec.real, i == 5 ? 2 : i + 1);
        assert_int_equal(rc_consecutive(&rec, 0, &first, &last), rec.real);
        assert_int_equal(first, i == 5 ? 9 : 1000 * i);
        rc_free(&rec);
    }
}

/* The worker does not receive the node's signals. */
static void the_worker_blocks_signals(void **state)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGXFSZ, SIGPIPE, SIGALRM};
    struct kymo_options o = rc_options(rc_path("signals"), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);
    DIR *d = opendir("/proc/self/task");
    unsigned workers = 0;
    struct dirent *e;

    (void)state;
    if (d == NULL) {
        fail_msg("no /proc");
        return;
    }
    while ((e = readdir(d)) != NULL) {
        unsigned long long blocked = 0;
        char path[300], line[200];
        bool worker = false;
        FILE *f;

        (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        f = e->d_name[0] == '.' ? NULL : fopen(path, "r");
        while (f != NULL && fgets(line, sizeof line, f) != NULL) {
            worker = worker || strcmp(line, "Name:\tkymo_worker\n") == 0;
            if (strncmp(line, "SigBlk:", 7) == 0)
                blocked = strtoull(line + 7, NULL, 16);
        }
        if (f != NULL)
            fclose(f);
        for (unsigned i = 0; worker && i < sizeof signals / sizeof *signals; i++)
            assert_true(blocked >> (signals[i] - 1) & 1);
        workers += worker;
    }
    closedir(d);
    assert_int_equal(workers, 1);
    kymo_recorder_close(r);
}

static void a_child_leaves_it_alone(void **state)
{
    struct kymo_options o = rc_options(rc_path("forked"), KYMO_DISCARD);
    struct kymo_recorder *r = rc_open(&o);
    int status = 0;
    pid_t pid;

    (void)state;
    assert_true(rc_call(r, 0));
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool good = kymo_recorder_stop(r, KYMO_R_STOP) == -ECHILD && kymo_recorder_pause(r) == -ECHILD &&
                    kymo_recorder_resume(r) == -ECHILD &&
                    kymo_recorder_snapshot(r, rc_path("child"), NULL, NULL) == -ECHILD;

        kymo_recorder_close(r);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(rc_call(r, 1));
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    assert_int_equal(rc_info(r).events, 2);
    kymo_recorder_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* first: they need a process with one thread */
        cmocka_unit_test(survives_file_size_limit),
        cmocka_unit_test(reports_a_full_disk),
        cmocka_unit_test(opens_without_fallocate),
        cmocka_unit_test(reports_missing_rights),
        cmocka_unit_test(reports_missing_memory),
        cmocka_unit_test(opens_with_defaults),
        cmocka_unit_test(refuses_bad_options),
        cmocka_unit_test(refuses_bad_folders),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(the_worker_blocks_signals),
        cmocka_unit_test(a_child_leaves_it_alone),
    };

    return cmocka_run_group_tests_name("open", tests, rc_setup, rc_teardown);
}
