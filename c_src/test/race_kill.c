/* SPDX-License-Identifier: Apache-2.0
 *
 * Kills a recorder at every instruction. A child records and stops at a mark. This process then
 * single-steps one of its threads with ptrace, and checks that the files contain exactly the committed
 * records.
 *
 * The child is killed with SIGKILL after k steps, with k = 1, 2, ... up to the end of its operation.
 * A step is a system call (before and after it), or, for recording and changing segments, an
 * instruction. The time for this grows with the square of the number of instructions. So operations
 * of thousands of instructions are also stepped once from beginning to end: after each instruction
 * that changes a file, the files are copied and the copy is read. The copy is what a SIGKILL at this
 * place would have left, because only the contents of mapped files survive a process.
 */
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "kymo_reader.h"

/* The gates of rec_check.h are not used: threads stop for their tracer. */
#define kymo_test_point rc_gate
#include "rec_check.h"
#undef kymo_test_point
void kymo_test_point(enum kymo_point at);

/* Replaces the function of the vDSO, which reads the time again if the kernel has updated it
 * meanwhile. Where the recorder uses this clock, a thread that is stepped would never leave it. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
    return (int)syscall(SYS_clock_gettime, id, ts);
}

/* Shared with the child. */
static struct {
    uint64_t committed; /* events 0 .. committed-1; atomic */
    uint64_t begun;     /* atomic */
    uint32_t mark;      /* atomic */
} * knows;
enum { MARK_NONE, MARK_BEGIN, MARK_END };

/* ---- in the child -------------------------------------------------------------------- */

/* The calling thread stops here for its tracer. */
static void mark(uint32_t m)
{
    kymo_set_release(&knows->mark, m);
    (void)raise(SIGSTOP);
}

/* Records one event; each tenth defines a name of its own. */
static bool say(struct kymo_recorder *r)
{
    struct kymo_writer *w = kymo_writer_get(r);
    uint64_t n = knows->begun;
    uint32_t id = 0;
    uint8_t *p;

    if (w == NULL)
        return false;
    if (n % 10 == 0)
        id = kymo_dict_atom_add(w, n + 1, "a_name", 6);
    kymo_set_release(&knows->begun, n + 1);
    p = kymo_reserve(w, KYMO_E_CALL, 12);
    if (p != NULL) {
        kymo_commit(w, kymo_put32(kymo_put64(p, n), id));
        kymo_set_release(&knows->committed, n + 1);
    } else {
        kymo_set_release(&knows->begun, n);
    }
    kymo_writer_put(w);
    return p != NULL;
}

/* Records until the next event needs a new segment. */
static void fill_segment(struct kymo_recorder *r)
{
    ptrdiff_t room;

    do {
        struct kymo_writer *w;

        (void)say(r);
        w = kymo_writer_get(r);
        room = w == NULL || w->seg == NULL ? 0 : w->seg_end - w->cur;
        if (w != NULL)
            kymo_writer_put(w);
    } while (room >= (ptrdiff_t)RC_CALL_BYTES);
}

static void fill_pool(struct kymo_recorder *r)
{
    struct kymo_info i;

    do {
        fill_segment(r);
        kymo_recorder_info(r, &i);
    } while (i.overwritten == 0);
}

static void fill_three(struct kymo_recorder *r)
{
    for (unsigned i = 0; i < 3; i++)
        fill_segment(r);
}

static void some(struct kymo_recorder *r)
{
    for (unsigned i = 0; i < 15; i++)
        (void)say(r);
}

static void nothing(struct kymo_recorder *r)
{
    (void)r;
}

static void one_event(struct kymo_recorder *r)
{
    (void)say(r);
}

static void next_name(struct kymo_recorder *r)
{
    while (knows->begun % 10 != 0)
        (void)say(r);
}

static void snapshot(struct kymo_recorder *r)
{
    (void)kymo_recorder_snapshot(r, rc_path("snapshot"), NULL, NULL);
}

static void stop(struct kymo_recorder *r)
{
    (void)kymo_recorder_stop(r, KYMO_R_STOP);
}

/* For stepping the worker: it drains while the producer waits. */
static void let_drain(struct kymo_recorder *r)
{
    (void)say(r);
    for (;;)
        pause();
}

struct scenario {
    const char *name;
    void (*prepare)(struct kymo_recorder *r);
    void (*act)(struct kymo_recorder *r);
    enum kymo_policy policy;
    /* The worker is stepped from the nth time that it passes this point until it is idle;
     * KYMO_AT_IDLE: the acting thread is stepped instead. */
    enum kymo_point from;
    unsigned nth;
    bool kill_everywhere; /* else copies are read instead of most kills */
};

static const struct scenario *now_playing;
static unsigned comes_by;

void kymo_test_point(enum kymo_point at)
{
    if (now_playing == NULL || now_playing->from == KYMO_AT_IDLE)
        return;
    if (at == now_playing->from && ++comes_by == now_playing->nth)
        mark(MARK_BEGIN);
    else if (at == KYMO_AT_IDLE && comes_by >= now_playing->nth)
        mark(MARK_END);
}

/* All options are set here. */
static struct kymo_options options(enum kymo_policy policy)
{
    struct kymo_options o = rc_options(rc_path("killed"), policy);

    if (policy == KYMO_DISCARD)
        o.file_bytes = 2 * 4096;
    return o;
}

static void play(const struct scenario *s)
{
    struct kymo_options o = options(s->policy);
    struct kymo_recorder *r;

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(77);
    (void)raise(SIGSTOP);
    now_playing = s;
    if (kymo_recorder_open(&o, &r, NULL) != 0)
        _exit(1);
    s->prepare(r);
    if (s->from == KYMO_AT_IDLE)
        mark(MARK_BEGIN);
    s->act(r);
    if (s->from == KYMO_AT_IDLE)
        mark(MARK_END);
    _exit(0);
}

/* ---- copies of a folder ------------------------------------------------------------- */

/* A folder without subfolders, and the copy of it. */
struct copy {
    const char *from, *to;
    struct copied {
        char name[64];
        uint8_t *bytes; /* as they were when it was copied */
        size_t len;
        bool seen;
    } file[16];
    unsigned n;
};

/* Copies the file if it has changed since it was last copied; returns whether it was unchanged. */
static bool copy_file(struct copy *c, const char *name)
{
    struct copied *f = c->file;
    size_t len;
    uint8_t *bytes = rc_slurp(c->from, name, &len);
    char path[600];
    FILE *out;

    assert_non_null(bytes);
    while (f < c->file + c->n && strcmp(f->name, name) != 0)
        f++;
    f->seen = true;
    if (f < c->file + c->n && f->len == len && memcmp(f->bytes, bytes, len) == 0) {
        free(bytes);
        return true;
    }
    if (f == c->file + c->n) {
        assert_true(c->n++ < sizeof c->file / sizeof *c->file);
        (void)snprintf(f->name, sizeof f->name, "%s", name);
    }
    free(f->bytes);
    f->bytes = bytes;
    f->len = len;
    (void)snprintf(path, sizeof path, "%s/%s", c->to, name);
    out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
    return false;
}

/* Makes the copy what the folder is; whether anything was different. */
static bool copy_update(struct copy *c)
{
    DIR *d = opendir(c->from);
    struct dirent *e;
    bool changed = false;

    for (unsigned i = 0; i < c->n; i++)
        c->file[i].seen = false;
    if (d != NULL && mkdir(c->to, 0700) == 0)
        changed = true;
    while (d != NULL && (e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            changed = !copy_file(c, e->d_name) || changed;
    }
    if (d != NULL)
        closedir(d);
    for (unsigned i = 0; i < c->n;) {
        char path[600];

        if (c->file[i].seen) {
            i++;
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s", c->to, c->file[i].name);
        assert_int_equal(unlink(path), 0);
        free(c->file[i].bytes);
        c->file[i] = c->file[--c->n];
        c->file[c->n] = (struct copied){0};
        changed = true;
    }
    if (d == NULL && rmdir(c->to) == 0)
        changed = true;
    return changed;
}

static void copy_free(struct copy *c)
{
    for (unsigned i = 0; i < c->n; i++)
        free(c->file[i].bytes);
    rc_remove(c->to);
}

/* ---- in the tracer ------------------------------------------------------------------- */

static bool stopped_by(int status, int sig)
{
    return WIFSTOPPED(status) && status >> 8 == sig;
}

static pid_t child; /* 0: no live child */

/* Lets the child run until one of its threads is at MARK_BEGIN, and returns that thread; 0 if the
 * child may not be traced. */
static pid_t run_to_mark(void)
{
    pid_t known[8] = {child}, tid;
    unsigned n = 1;
    int status;

    assert_int_equal(waitpid(child, &status, __WALL), child);
    if (WIFEXITED(status))
        return 0;
    assert_true(stopped_by(status, SIGSTOP));
    assert_int_equal(ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL), 0);
    assert_int_equal(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
    for (;;) {
        bool is_known = false;
        int sig = 0;

        tid = waitpid(-1, &status, __WALL);
        assert_true(tid > 0);
        if (!WIFSTOPPED(status)) { /* exited before the mark */
            assert_int_not_equal(tid, child);
            continue;
        }
        for (unsigned i = 0; i < n; i++)
            is_known = is_known || known[i] == tid;
        if (!is_known) { /* each thread starts stopped */
            assert_true(n < 8);
            known[n++] = tid;
        } else if (stopped_by(status, SIGSTOP) && kymo_get_acquire(&knows->mark) == MARK_BEGIN) {
            return tid;
        } else if (status >> 16 == 0) {
            sig = WSTOPSIG(status);
        }
        assert_int_equal(ptrace(PTRACE_CONT, tid, NULL, sig), 0);
    }
}

/* Steps the thread k times, or fewer if it reached the end; returns the number of steps. */
static uint64_t step(pid_t tid, enum __ptrace_request how, uint64_t k)
{
    uint64_t n = 0;
    int status;

    while (n < k) {
        assert_int_equal(ptrace(how, tid, NULL, NULL), 0);
        assert_int_equal(waitpid(tid, &status, __WALL), tid);
        if (!WIFSTOPPED(status) || kymo_get_acquire(&knows->mark) == MARK_END)
            break;
        assert_true(stopped_by(status, SIGTRAP));
        n++;
    }
    return n;
}

/* The events of the recording are first .. first + n - 1, in this order. */
static void read_all(const char *dir, bool snapshot_dir, uint64_t *first, uint64_t *n)
{
    struct kymo_reader *r = NULL;
    struct kymo_event ev;
    char err[200] = "";
    int rc = kymo_reader_open(dir, &r, err, sizeof err);

    *first = *n = 0;
    if (snapshot_dir && rc != 0)
        return; /* not a recording yet */
    if (rc != 0)
        fail_msg("%s", err);
    if (!snapshot_dir)
        assert_true(kymo_reader_crashed(r) || kymo_reader_meta(r)->state == KYMO_CLOSED);
    while ((rc = kymo_reader_next(r, &ev)) == 1) {
        if (ev.id != KYMO_E_CALL)
            continue;
        if (*n == 0)
            *first = ev.who;
        assert_int_equal(ev.who, *first + *n);
        /* Its name is in the dictionary. */
        if (ev.who % 10 == 0)
            assert_int_equal(kymo_reader_atom(r, ev.mfa).len, 6);
        ++*n;
    }
    assert_int_equal(rc, 0);
    assert_int_equal(kymo_reader_damage(r)->segments_bad, 0);
    kymo_reader_close(r);
}

/* Checks what is left in the folder and, if one was made, in the snapshot. */
static void check(const struct scenario *s, const char *dir, const char *snapshot_dir)
{
    uint64_t committed = kymo_get_acquire(&knows->committed), begun = kymo_get_acquire(&knows->begun);
    uint64_t first, n;

    read_all(dir, false, &first, &n);
    assert_in_range(first + n, committed, begun);
    if (s->policy == KYMO_DISCARD)
        assert_int_equal(first, 0);
    else if (first > 0) /* the pool without the segment being reused and the open one */
        assert_true(n >= 2 * ((4096 - KYMO_SEG_HEADER) / RC_CALL_BYTES));
    if (s->act != snapshot || access(snapshot_dir, F_OK) != 0)
        return;
    read_all(snapshot_dir, true, &first, &n);
    assert_true(first + n <= committed);
}

/* Starts a child; returns its thread that is at the mark, 0 if the child may not be traced. */
static pid_t start(const struct scenario *s)
{
    rc_remove(rc_path("killed"));
    rc_remove(rc_path("snapshot"));
    memset(knows, 0, sizeof *knows);
    fflush(stdout);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        play(s);
    return run_to_mark();
}

static void end(void)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    while (waitpid(-1, NULL, __WALL) > 0 || errno == EINTR)
        ;
    child = 0;
}

/* Ends the child that a failed scenario has left running. */
static int end_child(void **state)
{
    (void)state;
    if (child > 0)
        end();
    return 0;
}

/* Kills the child k steps after its mark; returns the number of steps that it took. */
static uint64_t kill_after(const struct scenario *s, enum __ptrace_request how, uint64_t k)
{
    pid_t tid = start(s);
    uint64_t n;

    if (tid == 0) {
        child = 0;
        return UINT64_MAX;
    }
    n = step(tid, how, k);
    end();
    check(s, rc_path("killed"), rc_path("snapshot"));
    return n;
}

/* Reads a copy of the files after each instruction that changes them; returns the number of
 * instructions. */
static uint64_t copy_after_each(const struct scenario *s, uint64_t *copies)
{
    struct copy recording = {.from = rc_path("killed"), .to = rc_path("copy")};
    struct copy shot = {.from = rc_path("snapshot"), .to = rc_path("copy.snapshot")};
    uint64_t n = 0, committed = UINT64_MAX, begun = UINT64_MAX;
    pid_t tid = start(s);

    assert_int_not_equal(tid, 0);
    do {
        bool changed = copy_update(&recording);

        changed = copy_update(&shot) || changed;
        if (changed || committed != knows->committed || begun != knows->begun) {
            committed = knows->committed;
            begun = knows->begun;
            check(s, recording.to, shot.to);
            ++*copies;
        }
        n++;
    } while (step(tid, PTRACE_SINGLESTEP, 1) == 1);
    end();
    copy_free(&recording);
    copy_free(&shot);
    return n;
}

static void scenario(void **state)
{
    const struct scenario *s = *state;
    uint64_t calls, n, copies = 0;

    if (rc_emulated(s->name))
        skip();
    if (RC_SANITIZED) {
        fprintf(stderr, "%s: skipped, with sanitizers the instructions are others\n", s->name);
        skip();
    }
    calls = kill_after(s, PTRACE_SYSCALL, UINT64_MAX);
    if (calls == UINT64_MAX) {
        fprintf(stderr, "%s: skipped, no process may be traced here\n", s->name);
        skip();
    }
    for (uint64_t k = 1; k < calls; k++)
        (void)kill_after(s, PTRACE_SYSCALL, k);
    printf("%s: killed at %llu system calls", s->name, (unsigned long long)calls / 2);
    if (s->kill_everywhere) {
        n = kill_after(s, PTRACE_SINGLESTEP, UINT64_MAX);
        for (uint64_t k = 0; k < n; k++)
            (void)kill_after(s, PTRACE_SINGLESTEP, k);
        printf(" and %llu instructions", (unsigned long long)n);
    }
    n = copy_after_each(s, &copies);
    assert_true(n > 20 && copies > 3);
    printf(", copied after %llu of %llu instructions\n", (unsigned long long)copies, (unsigned long long)n);
}

static int setup(void **state)
{
    knows = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return knows == MAP_FAILED || rc_setup(state);
}

/* Stays on one processor, because each step switches between two processes. */
static void stay_here(void)
{
    cpu_set_t here;

    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    (void)sched_setaffinity(0, sizeof here, &here);
}

int main(void)
{
    static const struct scenario all[] = {
        {"first event", nothing, one_event, KYMO_OVERWRITE, KYMO_AT_IDLE, 0, false},
        {"event", some, one_event, KYMO_OVERWRITE, KYMO_AT_IDLE, 0, true},
        {"event with a new name", next_name, one_event, KYMO_OVERWRITE, KYMO_AT_IDLE, 0, false},
        {"next segment", fill_segment, one_event, KYMO_OVERWRITE, KYMO_AT_IDLE, 0, true},
        {"reused segment", fill_pool, one_event, KYMO_OVERWRITE, KYMO_AT_IDLE, 0, true},
        {"next segment, discard", fill_segment, one_event, KYMO_DISCARD, KYMO_AT_IDLE, 0, true},
        {"drain", fill_segment, let_drain, KYMO_DISCARD, KYMO_AT_DRAIN, 1, false},
        {"drain into the next file", fill_three, let_drain, KYMO_DISCARD, KYMO_AT_DRAIN, 3, false},
        {"snapshot", fill_pool, snapshot, KYMO_OVERWRITE, KYMO_AT_IDLE, 0, false},
        {"stop", fill_pool, stop, KYMO_OVERWRITE, KYMO_AT_QUIESCE, 1, false},
        {"stop, discard", some, stop, KYMO_DISCARD, KYMO_AT_QUIESCE, 1, false},
    };
    enum { SCENARIOS = sizeof all / sizeof *all };
    struct CMUnitTest tests[SCENARIOS];

    stay_here();
    for (unsigned i = 0; i < SCENARIOS; i++)
        tests[i] = (struct CMUnitTest){all[i].name, scenario, NULL, end_child, (void *)(uintptr_t)&all[i]};
    return cmocka_run_group_tests_name("kill", tests, setup, rc_teardown);
}
