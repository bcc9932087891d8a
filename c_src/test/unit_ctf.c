/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the CTF export: babeltrace2 reads the same events from it as the reader from the
 * recording, with times equal to the nanosecond. Without babeltrace2 only the packets are counted.
 */
#include <dirent.h>

#include "reader_fixture.h"

#include "kymo_export.h"

#define PID(n) KYMO_IDENT(KYMO_I_PID, n)

/* Depths of the stack from DEPTH on have both forms. */
enum { MS = 1000000, THREADS = 3, PER_SEGMENT = 100, SEGMENTS = 6, DEPTH = 100 };

static char out[80];

static void remove_ctf(void)
{
    DIR *d = opendir(out);
    int at = d == NULL ? -1 : dirfd(d);
    if (at < 0)
        return;
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        unlinkat(at, e->d_name, 0);
    closedir(d);
    assert_int_equal(rmdir(out), 0);
}

/* A clock with three ticks per nanosecond, which according to the calibration runs slightly fast.
 * Thread 1 has lost its first two segments, thread 2 has no events for seconds. */
static void make(struct testrec *t)
{
    struct testseg s;
    tr_init(t);
    t->meta.clock = KYMO_CLOCK_COUNTER;
    t->meta.ticks_per_sec = 3000000000;
    t->meta.n_calib = 2;
    t->calib[0] = (struct kymo_calib){t->meta.t0_ticks, t->meta.t0_mono_ns};
    t->calib[1] = (struct kymo_calib){t->meta.t0_ticks + 30030000000, t->meta.t0_mono_ns + 10000000000};
    uint32_t m = tr_atom(t, "m"), f = tr_mfa(t, m, m, 0), g = tr_mfa(t, tr_atom(t, "other"), m, 0);
    tr_process(t, PID(1), m, f);
    for (uint32_t slot = 0; slot < THREADS; slot++) {
        uint64_t ticks = t->meta.t0_ticks + 1000 + slot, last = 0;
        t->slots[slot].used = 1;
        t->slots[slot].thread_kind = KYMO_T_SCHEDULER;
        t->slots[slot].thread_no = slot + 1;
        for (uint64_t seq = 1; seq <= SEGMENTS; seq++) {
            ts_open(&s, t, slot, seq, ticks);
            ts_after(&s, last, (seq - 1) * PER_SEGMENT);
            for (unsigned i = 0; i < PER_SEGMENT; i++) {
                ticks += slot == 2 && i == 50 ? 5000000000 : 12345 + i; /* 1.6 s */
                if (i % 5 == 0)
                    ts_deep(&s, ticks, KYMO_E_CALL_DEPTH, PID(i % 4), f, DEPTH + i);
                else
                    ts_wm(&s, ticks, i % 2 == 0 ? KYMO_E_CALL : KYMO_E_RETURN_TO, PID(i % 4),
                          i % 3 == 0 ? f : g);
            }
            last = s.last;
            if (seq < SEGMENTS)
                ts_close(&s, true);
            if (slot != 1 || seq > 2)
                tr_to_data(t, 1, &s, true);
            ticks += 1000;
        }
    }
}

/* ---- events from the reader ---- */

struct times {
    int64_t *ns;
    size_t n;
    uint64_t depths; /* sum of the depths of the stack */
};

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void expected_times(struct times *t, const struct kymo_export_options *o)
{
    struct kymo_reader *r = open_written();
    struct kymo_event ev;
    t->n = t->depths = 0;
    t->ns = calloc(THREADS * SEGMENTS * PER_SEGMENT, sizeof *t->ns);
    assert_non_null(t->ns);
    kymo_reader_show_all(r, o->all);
    assert_int_equal(kymo_reader_rewind(r), 0);
    while (kymo_reader_next(r, &ev) == 1) {
        int64_t since = ev.ns - kymo_reader_meta(r)->t0_mono_ns;
        if (since < o->from_ns || since > o->to_ns || (o->keep != NULL && !o->keep(o->keep_arg, r, &ev)))
            continue;
        t->ns[t->n++] = kymo_reader_wall_ns(r, ev.ns);
        t->depths += ev.depth != KYMO_DEPTH_UNKNOWN ? ev.depth : 0;
    }
    qsort(t->ns, t->n, sizeof *t->ns, by_time);
    kymo_reader_close(r);
}

/* ---- events from babeltrace2 ---- */

static bool have_babeltrace(void)
{
    return system("command -v babeltrace2 >/dev/null 2>&1") == 0;
}

static void found_times(struct times *t)
{
    char command[256], line[4096];
    snprintf(command, sizeof command, "exec 2>&1; babeltrace2 --clock-seconds --no-delta %s", out);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    t->n = t->depths = 0;
    t->ns = calloc(2 * THREADS * SEGMENTS * PER_SEGMENT, sizeof *t->ns);
    assert_non_null(t->ns);
    while (fgets(line, sizeof line, f) != NULL) {
        long long seconds, ns;
        if (strstr(line, " kymo_") != NULL) /* the dictionary */
            continue;
        const char *words = strstr(line, "words = { ");
        if (words != NULL) /* of the depth */
            t->depths += strtoul(words + strlen("words = { "), NULL, 10);
        if (sscanf(line, "[%lld.%lld]", &seconds, &ns) != 2)
            fail_msg("%s", line);
        assert_true(t->n < 2 * THREADS * SEGMENTS * PER_SEGMENT);
        t->ns[t->n++] = seconds * 1000000000 + ns;
    }
    assert_int_equal(pclose(f), 0);
    qsort(t->ns, t->n, sizeof *t->ns, by_time);
}

static void export_and_compare(const struct kymo_export_options *o, size_t at_least, size_t at_most)
{
    struct times expected, found;
    struct kymo_export_result res;
    struct kymo_reader *r = open_written();
    char err[256] = "";
    if (kymo_export_ctf(r, o, &res, err, sizeof err) != 0)
        fail_msg("%s", err);
    kymo_reader_close(r);
    expected_times(&expected, o);
    assert_in_range(expected.n, at_least, at_most);
    assert_int_equal(res.events, expected.n);
    if (have_babeltrace()) {
        found_times(&found);
        assert_int_equal(found.n, expected.n);
        assert_int_equal(found.depths, expected.depths);
        assert_memory_equal(found.ns, expected.ns, expected.n * sizeof *expected.ns);
        free(found.ns);
    }
    free(expected.ns);
    remove_ctf();
}

static bool of_process_1(void *arg, const struct kymo_reader *r, const struct kymo_event *ev)
{
    (void)arg;
    (void)r;
    return ev->who == PID(1);
}

static void as_the_reader_says(void **state)
{
    (void)state;
    enum { ALL = THREADS * SEGMENTS * PER_SEGMENT, KEPT = ALL - 2 * PER_SEGMENT };
    struct testrec t;
    struct kymo_export_options whole = {.out = out, .from_ns = INT64_MIN, .to_ns = INT64_MAX}, o;
    if (!have_babeltrace())
        fprintf(stderr, "babeltrace2 is not there: events are counted only\n");
    snprintf(out, sizeof out, "%s.ctf", dir);
    make(&t);
    tr_write(&t, dir);
    /* From the horizon on: some events of threads 0 and 2 are older. */
    export_and_compare(&whole, KEPT / 2, KEPT - 1);
    o = whole;
    o.all = true;
    export_and_compare(&o, KEPT, KEPT);
    o = whole;
    o.from_ns = 2 * (int64_t)MS;
    export_and_compare(&o, KEPT / 4, KEPT - 1);
    o.to_ns = 3 * (int64_t)MS; /* and no events of some threads */
    export_and_compare(&o, 1, KEPT / 2);
    o = whole;
    o.keep = of_process_1;
    export_and_compare(&o, KEPT / 16, KEPT / 4);
    o.all = true;
    o.from_ns = -5;
    export_and_compare(&o, KEPT / 4, KEPT / 4);
    o.from_ns = 1000 * (int64_t)1000 * MS; /* nothing at all */
    export_and_compare(&o, 0, 0);
    tr_free(&t);
}

/* Only losses between two packets are reported, not those before the first one. */
static void losses_are_told(void **state)
{
    (void)state;
    static const uint64_t lost[] = {3, 3, 20, 21};
    struct kymo_export_options o = {.out = out, .from_ns = INT64_MIN, .to_ns = INT64_MAX};
    struct kymo_export_result res;
    struct testrec t;
    struct testseg s;
    char err[256] = "", command[256], line[4096];
    unsigned long long sum = 0, n;
    if (!have_babeltrace())
        skip();
    snprintf(out, sizeof out, "%s.ctf", dir);
    tr_init(&t);
    for (uint64_t seq = 1; seq <= 4; seq++) {
        ts_open(&s, &t, 0, seq, seq * MS);
        if (seq > 1)
            memcpy(s.b + offsetof(struct kymo_segment, lost_before), &lost[seq - 2], 8);
        memcpy(s.b + offsetof(struct kymo_segment, discarded), &lost[seq - 1], 8);
        ts_wm(&s, seq * MS + 5, KYMO_E_CALL, PID(1), 0);
        ts_close(&s, true);
        tr_to_data(&t, 1, &s, true);
    }
    struct kymo_reader *r = open_it(&t);
    if (kymo_export_ctf(r, &o, &res, err, sizeof err) != 0)
        fail_msg("%s", err);
    kymo_reader_close(r);
    snprintf(command, sizeof command, "babeltrace2 %s 2>&1 >/dev/null", out);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        const char *at = strstr(line, "discarded ");
        if (at != NULL && sscanf(at, "discarded %llu event", &n) == 1)
            sum += n;
    }
    assert_int_equal(pclose(f), 0);
    assert_int_equal(sum, 18);
    remove_ctf();
    tr_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_the_reader_says, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(losses_are_told, make_dir, drop_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
