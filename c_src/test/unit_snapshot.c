/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of snapshots: what they contain, what they leave out, and what a failed one leaves behind.
 */
#include <sys/resource.h>

#include "rec_check.h"

#define PER_SEGMENT ((4096 - KYMO_SEG_HEADER) / RC_CALL_BYTES)

static void load(const char *dir, struct rc_rec *rec)
{
    rc_load(dir, rec);
    assert_int_equal(rec->meta.snapshot, 1);
    assert_int_equal(rec->meta.files, 1);
    assert_int_equal(rec->meta.dict_bytes, rec->dict_len);
    assert_true(rec->meta.end_ticks > 0);
}

static void copies_open_and_closed_segments(void **state)
{
    struct kymo_options o = rc_options(rc_path("rec"), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);
    uint64_t n = 9 * PER_SEGMENT + 7, segments = 0, events = 0, first = 0, last = 0;
    const char *dir = rc_path("snapshot");
    struct kymo_writer *w;
    struct rc_rec rec;
    struct stat st;
    uint8_t *p;
    size_t at = 0;

    (void)state;
    assert_int_equal(rc_calls(r, 0, n), n);
    w = kymo_writer_get(r);
    (void)kymo_dict_atom_add(w, 11, "atom", 4);
    kymo_lose(w, KYMO_LOST_BAD_TERM);
    kymo_writer_put(w);
    assert_true(rc_call(r, n++));
    /* A record with each part of variable length. */
    w = kymo_writer_get(r);
    p = kymo_reserve(w, KYMO_E_GC_MAJOR_END | KYMO_HAS_CONTENT | KYMO_HAS_OPTS, 200);
    p = kymo_put8(kymo_put64(p, 1), KYMO_GC_SIZES);
    for (unsigned i = 0; i < KYMO_GC_SIZES; i++)
        p = kymo_put64(p, 8);
    p = kymo_put16(kymo_put16(kymo_put8(p, 0), 2), 0);
    memset(p, 0, KYMO_OPTS_HDR);
    p = kymo_put16(p + KYMO_OPTS_HDR - 2, 3);
    kymo_commit(w, p + 3);
    kymo_writer_put(w);

    assert_int_equal(kymo_recorder_snapshot(r, dir, &segments, &events), 0);
    assert_true(rc_call(r, n)); /* after the cut, so not in the snapshot */
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(rc_entries(dir), 3);
    load(dir, &rec);
    assert_int_equal(segments, 4);
    assert_int_equal(rec.n_segs, 4);
    assert_int_equal(rec.real, events);
    assert_int_equal(rc_consecutive(&rec, 0, &first, &last), events - 1);
    assert_int_equal(last, n - 1);
    assert_int_equal(rec.noted[KYMO_LOST_BAD_TERM], 1);
    assert_int_equal(rec.segs[3].head.discarded, 1);
    assert_int_equal(rec.slots[0].events, n + 1);
    assert_int_equal(rec.slots[0].overwritten, n + 1 - events);
    assert_int_equal(rec.slots[0].lost[KYMO_LOST_BAD_TERM], 1);
    assert_memory_equal(rc_entry(&rec, &at) + 1, "atom", 4);
    rc_free(&rec);
    assert_int_equal(kymo_recorder_snapshot(r, dir, NULL, NULL), -EEXIST);
    assert_int_equal(kymo_recorder_snapshot(r, o.dir, NULL, NULL), -EEXIST);
    /* While paused, and after the end. */
    assert_int_equal(kymo_recorder_pause(r), 0);
    assert_int_equal(kymo_recorder_snapshot(r, rc_path("paused"), NULL, &events), 0);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    assert_int_equal(kymo_recorder_snapshot(r, rc_path("stopped"), NULL, &segments), 0);
    assert_int_equal(events, segments);
    kymo_recorder_close(r);
    load(rc_path("stopped"), &rec);
    assert_int_equal(rec.real, events);
    assert_int_equal(rec.slots[0].events, n + 2);
    rc_free(&rec);
}

/* Whether this process has mapped or opened a file whose path contains the text. */
static bool holds(const char *text)
{
    char line[4096], link[64];
    bool found = false;
    FILE *f = fopen("/proc/self/maps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL)
        found = found || strstr(line, text) != NULL;
    fclose(f);
    for (int fd = 0; fd < 256; fd++) {
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, line, sizeof line - 1);
        line[n > 0 ? n : 0] = '\0';
        found = found || strstr(line, text) != NULL;
    }
    return found;
}

/* A recorder that is kept after its end holds no file, counts as before, and still refuses events. */
static void let_go(void **state)
{
    struct kymo_options o = rc_options(rc_path("let-go"), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);
    struct kymo_info before, after;
    struct kymo_slot slot[2];
    struct rc_rec rec;

    (void)state;
    for (uint64_t i = 0; i < 100; i++)
        assert_true(rc_call(r, i));
    assert_int_equal(kymo_recorder_let_go(r), -EBUSY);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    assert_true(holds("/let-go"));
    kymo_recorder_info(r, &before);
    assert_int_equal(kymo_recorder_slot(r, 0, &slot[0]), 0);
    assert_int_equal(kymo_recorder_let_go(r), 0);
    assert_int_equal(kymo_recorder_let_go(r), 0);
    assert_false(holds("/let-go"));
    kymo_recorder_info(r, &after);
    assert_int_equal(kymo_recorder_slot(r, 0, &slot[1]), 0);
    assert_int_equal(after.state, KYMO_CLOSED);
    assert_int_equal(after.events, before.events);
    assert_int_equal(after.dict_used, before.dict_used);
    assert_memory_equal(&slot[0], &slot[1], sizeof slot[0]);
    assert_false(rc_call(r, 100));
    assert_int_equal(kymo_recorder_snapshot(r, rc_path("too-late"), NULL, NULL), -ESHUTDOWN);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, before.events);
    rc_free(&rec);
    kymo_recorder_close(r);
}

static void of_nothing(void **state)
{
    struct kymo_options o = rc_options(rc_path("empty"), KYMO_DISCARD);
    struct kymo_recorder *r = rc_open(&o);
    uint64_t segments = 9, events = 9;
    struct rc_rec rec;

    (void)state;
    assert_int_equal(kymo_recorder_snapshot(r, rc_path("empty-snapshot"), &segments, &events), 0);
    assert_int_equal(segments, 0);
    assert_int_equal(events, 0);
    load(rc_path("empty-snapshot"), &rec);
    assert_int_equal(rec.n_segs, 0);
    rc_free(&rec);
    kymo_recorder_close(r);
}

/* Policy discard: all segments still in the ring, written to files or not. */
static void of_a_discard_recorder(void **state)
{
    struct kymo_options o = rc_options(rc_path("discard"), KYMO_DISCARD);
    struct kymo_recorder *r = rc_open(&o);
    uint64_t events = 0, first = 0, last = 0;
    struct rc_rec rec;

    (void)state;
    assert_int_equal(rc_calls(r, 0, 3 * PER_SEGMENT + 5), 3 * PER_SEGMENT + 5);
    assert_int_equal(kymo_recorder_snapshot(r, rc_path("discard-snapshot"), NULL, &events), 0);
    assert_int_equal(events, 3 * PER_SEGMENT + 5);
    kymo_recorder_close(r);
    load(rc_path("discard-snapshot"), &rec);
    assert_int_equal(rc_consecutive(&rec, 0, &first, &last), events);
    rc_free(&rec);
}

struct copy {
    struct kymo_recorder *r;
    const char *dir;
    int rc;
    uint64_t segments, events;
};

static void *copies(void *arg)
{
    struct copy *c = arg;

    c->rc = kymo_recorder_snapshot(c->r, c->dir, &c->segments, &c->events);
    return NULL;
}

/* The writer records `more` events between the cut and the copy: segments that it overwrites are
 * left out and counted; the rest has no gaps and ends at the cut. */
static void overtaken(const char *name, uint64_t more, uint64_t least, uint64_t most)
{
    char dir[64];
    struct kymo_options o = rc_options(rc_path(name), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);
    uint64_t n = 20 * PER_SEGMENT, first = 0, last = 0;
    struct copy c = {.r = r};
    struct rc_rec rec;
    pthread_t t;

    (void)snprintf(dir, sizeof dir, "%s-snapshot", name);
    c.dir = rc_path(dir);
    assert_int_equal(rc_calls(r, 0, n), n);
    rc_arm(KYMO_AT_CUT);
    assert_int_equal(pthread_create(&t, NULL, copies, &c), 0);
    rc_await_gate(KYMO_AT_CUT);
    assert_int_equal(rc_calls(r, n, more), more);
    rc_release(KYMO_AT_CUT);
    pthread_join(t, NULL);
    assert_int_equal(c.rc, 0);
    load(c.dir, &rec);
    assert_in_range(c.segments, least, most);
    assert_int_equal(rec.n_segs, c.segments);
    assert_int_equal(rec.real, c.events);
    assert_int_equal(rec.slots[0].events, n);
    assert_int_equal(rec.slots[0].events - rec.slots[0].overwritten, c.events);
    assert_int_equal(rc_consecutive(&rec, 0, &first, &last), c.events);
    if (c.events > 0)
        assert_int_equal(last, n - 1);
    rc_free(&rec);
    kymo_recorder_close(r);
}

static void overwritten_segments_are_left_out(void **state)
{
    (void)state;
    overtaken("overtaken0", 1, 3, 3); /* the open one was full, so one is reused */
    overtaken("overtaken1", PER_SEGMENT + 1, 2, 2);
    overtaken("overtaken2", 3 * PER_SEGMENT + 1, 0, 0);
    overtaken("overtaken3", 100 * PER_SEGMENT, 0, 0);
}

/* The segment is overwritten after it was copied and before the copy is checked. */
static void a_torn_copy_is_left_out(void **state)
{
    struct kymo_options o = rc_options(rc_path("torn"), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);
    struct copy c = {.r = r, .dir = rc_path("torn-snapshot")};
    struct rc_rec rec;
    pthread_t t;

    (void)state;
    assert_int_equal(rc_calls(r, 0, 8 * PER_SEGMENT), 8 * PER_SEGMENT);
    rc_arm(KYMO_AT_COPY);
    assert_int_equal(pthread_create(&t, NULL, copies, &c), 0);
    rc_await_gate(KYMO_AT_COPY);
    assert_int_equal(rc_calls(r, 0, 4 * PER_SEGMENT), 4 * PER_SEGMENT);
    rc_release(KYMO_AT_COPY);
    pthread_join(t, NULL);
    assert_int_equal(c.rc, 0);
    assert_int_equal(c.segments, 0);
    load(c.dir, &rec);
    assert_int_equal(rec.slots[0].overwritten, 8 * PER_SEGMENT);
    rc_free(&rec);
    kymo_recorder_close(r);
}

/* A thread that takes its slot after the cut is not in the snapshot at all. */
static void a_late_thread_is_left_out(void **state)
{
    struct kymo_options o = rc_options(rc_path("late"), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);
    struct copy c = {.r = r, .dir = rc_path("late-snapshot")};
    struct kymo_slot none = {.used = 0};
    struct rc_rec rec;
    pthread_t t;

    (void)state;
    rc_arm(KYMO_AT_CUT);
    assert_int_equal(pthread_create(&t, NULL, copies, &c), 0);
    rc_await_gate(KYMO_AT_CUT);
    assert_int_equal(rc_calls(r, 0, 100), 100);
    rc_release(KYMO_AT_CUT);
    pthread_join(t, NULL);
    assert_int_equal(c.rc, 0);
    assert_int_equal(c.segments, 0);
    load(c.dir, &rec);
    assert_int_equal(rec.meta.slots_used, 0);
    assert_memory_equal(&rec.slots[0], &none, sizeof none);
    rc_free(&rec);
    kymo_recorder_close(r);
}

static void *writes_segment(void *arg)
{
    struct copy *c = arg;

    c->events = rc_calls(c->r, 4 * PER_SEGMENT, 1);
    return NULL;
}

/* The producer is stopped while it takes a segment into use. */
static void a_segment_being_opened_is_left_out(void **state)
{
    static const enum kymo_point points[] = {KYMO_AT_SEGMENT_RESET, KYMO_AT_SEGMENT_OPEN};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        char name[32], copy[32];
        struct copy c;
        struct kymo_options o;
        struct rc_rec rec;
        uint64_t segments, events;
        pthread_t t;

        (void)snprintf(name, sizeof name, "opening%u", i);
        (void)snprintf(copy, sizeof copy, "opening%u-snapshot", i);
        o = rc_options(rc_path(name), KYMO_OVERWRITE);
        c.r = rc_open(&o);
        /* A thread that has exited has filled the ring; the next thread has its slot. */
        struct copy fill = {.r = c.r};
        assert_int_equal(pthread_create(&t, NULL, writes_segment, &fill), 0);
        pthread_join(t, NULL);
        for (uint64_t k = 0; k < 4; k++) {
            assert_int_equal(pthread_create(&t, NULL, writes_segment, &fill), 0);
            pthread_join(t, NULL);
        }
        rc_arm(points[i]);
        assert_int_equal(pthread_create(&t, NULL, writes_segment, &c), 0);
        rc_await_gate(points[i]);
        assert_int_equal(kymo_recorder_snapshot(c.r, rc_path(copy), &segments, &events), 0);
        assert_int_equal(segments, 3);
        assert_int_equal(events, 3);
        rc_release(points[i]);
        pthread_join(t, NULL);
        kymo_recorder_close(c.r);
        load(rc_path(copy), &rec);
        assert_int_equal(rec.segs[0].head.seq, 3);
        rc_free(&rec);
    }
}

/* It is the thread's newest segment, and the slot is only partly updated: the previous segment is
 * closed and belongs to the snapshot. */
static void a_segment_that_has_just_been_opened(void **state)
{
    struct kymo_options o = rc_options(rc_path("place"), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);
    struct copy c = {.r = r};
    uint64_t segments, events;
    struct rc_rec rec;
    pthread_t t;

    (void)state;
    assert_int_equal(pthread_create(&t, NULL, writes_segment, &c), 0);
    pthread_join(t, NULL);
    rc_arm(KYMO_AT_PLACE);
    assert_int_equal(pthread_create(&t, NULL, writes_segment, &c), 0);
    rc_await_gate(KYMO_AT_PLACE);
    assert_int_equal(kymo_recorder_snapshot(r, rc_path("place-snapshot"), &segments, &events), 0);
    rc_release(KYMO_AT_PLACE);
    pthread_join(t, NULL);
    kymo_recorder_close(r);
    assert_int_equal(segments, 1);
    assert_int_equal(events, 1);
    load(rc_path("place-snapshot"), &rec);
    assert_int_equal(rec.slots[0].overwritten, 0);
    rc_free(&rec);
}

/* Policy discard: the segments of a thread that has ended are in data files only, and
 * the snapshot is not complete before its last event. */
static void a_drained_thread_moves_the_horizon(void **state)
{
    struct kymo_options o = rc_options(rc_path("drained"), KYMO_DISCARD);
    struct kymo_recorder *r;
    struct copy c;
    struct rc_rec rec;
    uint64_t last = 0;
    pthread_t t;

    (void)state;
    rc_pool(&o, 2, 8);
    c.r = r = rc_open(&o);
    assert_true(rc_call(r, 0)); /* has slot 0 */
    assert_int_equal(pthread_create(&t, NULL, writes_segment, &c), 0);
    pthread_join(t, NULL);
    for (unsigned i = 0; i < 40; i++) {
        uint64_t seq = kymo_get(&r->slots[0].seq);

        (void)rc_calls(r, 0, PER_SEGMENT);
        while (seq > 1 && kymo_get_acquire(&r->slots[0].drained_seq) + 1 < seq)
            usleep(1000);
    }
    assert_int_equal(kymo_recorder_snapshot(r, rc_path("drained-snapshot"), NULL, NULL), 0);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    rc_load(o.dir, &rec);
    for (size_t i = 0; i < rec.n_events; i++) {
        if (rec.events[i].instance == 1)
            last = rec.events[i].ticks;
    }
    rc_free(&rec);
    load(rc_path("drained-snapshot"), &rec);
    assert_int_equal(rec.slots[1].overwritten, 1);
    assert_true(last != 0 && rec.slots[1].gone_until >= last);
    rc_free(&rec);
    kymo_recorder_close(r);
}

static void errors_leave_nothing(void **state)
{
    struct kymo_options o = rc_options(rc_path("errors"), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);
    uint64_t segments = 9, events = 9;
    char there[400];
    struct rlimit l;
    int fd;

    (void)state;
    (void)snprintf(there, sizeof there, "%s", rc_path("there"));
    assert_int_equal(rc_calls(r, 0, 1000), 1000);
    assert_int_equal(kymo_recorder_snapshot(r, NULL, NULL, NULL), -EINVAL);
    assert_int_equal(kymo_recorder_snapshot(r, "", NULL, NULL), -EINVAL);
    assert_int_equal(kymo_recorder_snapshot(r, rc_path("no/such"), NULL, NULL), -ENOENT);
    fd = open(rc_path("plain"), O_CREAT | O_WRONLY, 0600);
    close(fd);
    assert_int_equal(kymo_recorder_snapshot(r, rc_path("plain"), NULL, NULL), -ENOTDIR);
    /* Too little for meta (12 KiB), then for the data (16 KiB), then enough. */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    assert_int_equal(mkdir(there, 0700), 0);
    for (rlim_t bytes = 0; bytes < 18000; bytes += 1000) {
        int rc, rc_there;

        l.rlim_cur = bytes;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
        rc = kymo_recorder_snapshot(r, rc_path("limited"), &segments, &events);
        rc_there = rc != 0 ? kymo_recorder_snapshot(r, there, NULL, NULL) : 0;
        l.rlim_cur = RLIM_INFINITY;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
        if (rc == 0)
            break;
        assert_int_equal(rc, -EFBIG);
        assert_int_equal(rc_there, -EFBIG);
        assert_int_equal(segments, 0);
        assert_int_equal(events, 0);
        assert_int_not_equal(access(rc_path("limited"), F_OK), 0);
        assert_int_equal(rc_entries(there), 0); /* a folder that existed is not removed */
    }
    rc_remove(rc_path("limited"));
    assert_int_equal(kymo_recorder_snapshot(r, there, &segments, &events), 0);
    assert_int_equal(events, rc_info(r).events - rc_info(r).overwritten);
    kymo_recorder_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_open_and_closed_segments),
        cmocka_unit_test(let_go),
        cmocka_unit_test(of_nothing),
        cmocka_unit_test(of_a_discard_recorder),
        cmocka_unit_test(overwritten_segments_are_left_out),
        cmocka_unit_test(a_torn_copy_is_left_out),
        cmocka_unit_test(a_late_thread_is_left_out),
        cmocka_unit_test(a_segment_being_opened_is_left_out),
        cmocka_unit_test(a_segment_that_has_just_been_opened),
        cmocka_unit_test(a_drained_thread_moves_the_horizon),
        cmocka_unit_test(errors_leave_nothing),
    };

    return cmocka_run_group_tests_name("snapshot", tests, rc_setup, rc_teardown);
}
