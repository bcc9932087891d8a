/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of tables: their definition, cells of rows whose values are known, losses, cursors, and the
 * store, which spills to a file.
 */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "cells.h"
#include "kymo_view.h"
#include "reader_fixture.h"
#include "store.h"

#define PID(n) KYMO_IDENT(KYMO_I_PID, n)
#define START 2000000u /* of the segments: 1,000,000 ns after that of the recording */

static const struct kymo_rows_choice everything = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};

/* Stands for NULL. */
enum { NOTHING = -999 };

static unsigned column_of(enum kymo_table_id table, const char *name)
{
    unsigned i = 0;
    while (i < kymo_tables[table].n_columns && strcmp(kymo_tables[table].columns[i].name, name) != 0)
        i++;
    assert_true(i < kymo_tables[table].n_columns);
    return i;
}

/* ---- a recording ---- */

/* Process 1 calls a, which calls b; a second call of b does not end. Process 2 sends a message. The
 * second thread has lost events, and a third one found no slot. */
static void write_recording(void)
{
    struct testrec t;
    struct testseg s;
    uint8_t note[9] = {KYMO_LOST_RING_FULL, 5};
    tr_init(&t);
    uint32_t m = tr_atom(&t, "m");
    uint32_t a = tr_mfa(&t, m, tr_atom(&t, "a"), 0), b = tr_mfa(&t, m, tr_atom(&t, "b"), 1);
    for (uint32_t i = 0; i < 2; i++) {
        t.slots[i].used = 1;
        t.slots[i].thread_kind = KYMO_T_SCHEDULER;
        t.slots[i].thread_no = i + 1;
    }
    t.slots[1].lost[KYMO_LOST_RING_FULL] = 5;
    t.slots[1].lost[KYMO_LOST_IO] = 2;
    t.slots[1].io_lost = 1;
    t.meta.no_slot = 7;
    t.meta.no_slot_first = START + 700;
    t.meta.no_slot_last = START + 800;
    ts_open(&s, &t, 0, 1, START);
    ts_wm(&s, START + 100, KYMO_E_CALL, PID(1), a);
    ts_wm(&s, START + 200, KYMO_E_CALL, PID(1), b);
    ts_wm(&s, START + 350, KYMO_E_RETURN_FROM, PID(1), b);
    ts_wm(&s, START + 400, KYMO_E_RETURN_FROM, PID(1), a);
    ts_wm(&s, START + 500, KYMO_E_CALL, PID(1), b);
    ts_send(&s, START + 600, KYMO_E_SEND, PID(2), PID(1), 5 | KYMO_SIZE_MORE);
    ts_close(&s, true);
    tr_to_ring(&t, &s);
    ts_open(&s, &t, 1, 1, START);
    ts_record(&s, START + 700, KYMO_E_LOST, note, sizeof note, false);
    ts_close(&s, true);
    tr_to_ring(&t, &s);
    tr_write(&t, dir);
    tr_free(&t);
}

/* Process 1 calls a, and a slow call of b ends, in which c was slow. */
static void write_slow_calls(void)
{
    struct testrec t;
    struct testseg s;
    tr_init(&t);
    uint32_t m = tr_atom(&t, "m");
    uint32_t a = tr_mfa(&t, m, tr_atom(&t, "a"), 0), b = tr_mfa(&t, m, tr_atom(&t, "b"), 1);
    uint32_t c = tr_mfa(&t, m, tr_atom(&t, "c"), 2);
    ts_open(&s, &t, 0, 1, START);
    ts_wm(&s, START + 100, KYMO_E_CALL, PID(1), a);
    ts_slow(&s, START + 900, PID(1), c, 50, 30);
    ts_slow(&s, START + 1000, PID(1), b, 800, UINT32_MAX);
    ts_close(&s, true);
    tr_to_ring(&t, &s);
    tr_write(&t, dir);
    tr_free(&t);
}

static struct kymo_view *open_written_view(void)
{
    struct kymo_view *v = NULL;
    char err[256] = "";
    assert_int_equal(kymo_view_open(dir, &v, err, sizeof err), 0);
    return v;
}

static struct kymo_view *open_view(void)
{
    write_recording();
    return open_written_view();
}

static struct kymo_rows *rows_of(struct kymo_view *v, enum kymo_table_id table,
                                 const struct kymo_rows_choice *choice)
{
    struct kymo_rows *rows;
    char err[256] = "";
    assert_int_equal(kymo_rows_open(v, table, &rows), 0);
    assert_int_equal(kymo_rows_start(rows, choice, err, sizeof err), 0);
    return rows;
}

static bool next(struct kymo_rows *rows)
{
    char err[256] = "";
    int rc = kymo_rows_next(rows, err, sizeof err);
    assert_true(rc == 0 || rc == 1);
    return rc == 1;
}

static unsigned count(struct kymo_rows *rows)
{
    unsigned n = 0;
    while (next(rows))
        n++;
    return n;
}

static int64_t number(const struct kymo_rows *rows, enum kymo_table_id table, const char *column)
{
    struct kymo_cell c = {.kind = KYMO_CELL_NULL};
    assert_int_equal(kymo_rows_cell(rows, column_of(table, column), &c), 0);
    assert_true(c.kind != KYMO_CELL_TEXT);
    int64_t n = c.kind == KYMO_CELL_NULL ? NOTHING : c.integer;
    kymo_cell_free(&c);
    return n;
}

/* "-" for NULL. */
static void expect_text(const struct kymo_rows *rows, enum kymo_table_id table, const char *column,
                        const char *expected)
{
    struct kymo_cell c = {.kind = KYMO_CELL_NULL};
    assert_int_equal(kymo_rows_cell(rows, column_of(table, column), &c), 0);
    assert_true(c.kind == KYMO_CELL_TEXT || c.kind == KYMO_CELL_NULL);
    assert_string_equal(c.kind == KYMO_CELL_NULL ? "-" : c.text, expected);
    assert_true(c.kind == KYMO_CELL_NULL || strlen(c.text) == c.len);
    kymo_cell_free(&c);
}

/* ---- definition ---- */

static void names_and_types(void **state)
{
    (void)state;
    for (unsigned t = 0; t < KYMO_TABLES; t++) {
        const struct kymo_table *table = &kymo_tables[t];
        assert_true(table->n_columns > 0);
        for (unsigned i = 0; i < table->n_columns; i++) {
            const struct kymo_column *c = &table->columns[i];
            for (const char *p = c->name; *p != '\0'; p++)
                assert_true(islower((unsigned char)*p) || isdigit((unsigned char)*p) || *p == '_');
            for (unsigned k = 0; k < i; k++)
                assert_string_not_equal(c->name, table->columns[k].name);
            size_t n = strlen(c->name);
            if (n > 3 && strcmp(c->name + n - 3, "_ns") == 0)
                assert_int_equal(c->type, KYMO_INTEGER);
            assert_true(strlen(c->says) > 2 && strchr(c->says, '|') == NULL);
        }
        if (table->id_column >= 0)
            assert_string_equal(table->columns[table->id_column].name, "id");
        if (table->time_column >= 0)
            assert_int_equal(table->columns[table->time_column].type, KYMO_INTEGER);
    }
}

/* ---- cells ---- */

static void known_and_unknown(void **state)
{
    (void)state;
    const enum kymo_table_id spans = KYMO_TABLE_SPANS;
    struct kymo_view *v = open_view();
    struct kymo_rows *rows = rows_of(v, spans, &everything);
    assert_true(next(rows)); /* b, which ends first */
    assert_int_equal(number(rows, spans, "id"), 2);
    assert_int_equal(number(rows, spans, "parent_id"), 1);
    expect_text(rows, spans, "function", "m:b/1");
    expect_text(rows, spans, "module", "m");
    expect_text(rows, spans, "caller", "m:a/0");
    expect_text(rows, spans, "pid", "<0.1.0>");
    expect_text(rows, spans, "thread", "s1");
    expect_text(rows, spans, "ended", "return");
    assert_int_equal(number(rows, spans, "start_ns"), 1000200);
    assert_int_equal(number(rows, spans, "duration_ns"), 150);
    /* No in and out events, no collections. */
    assert_int_equal(number(rows, spans, "running_ns"), NOTHING);
    assert_int_equal(number(rows, spans, "gc_ns"), NOTHING);
    assert_int_equal(number(rows, spans, "recursive"), 0);
    /* t0_wall_ns and 1,000,200 ns. */
    expect_text(rows, spans, "start_time", "2023-11-14T22:13:20.001000Z");
    assert_true(next(rows));
    assert_int_equal(number(rows, spans, "id"), 1);
    assert_int_equal(number(rows, spans, "parent_id"), NOTHING);
    expect_text(rows, spans, "caller", "-");
    assert_int_equal(number(rows, spans, "self_ns"), 150);
    assert_true(next(rows));
    assert_int_equal(number(rows, spans, "end_ns"), NOTHING);
    assert_int_equal(number(rows, spans, "duration_ns"), NOTHING);
    expect_text(rows, spans, "ended", "open");
    assert_false(next(rows));
    assert_false(next(rows));
    kymo_rows_close(rows);
    kymo_view_close(v);
}

/* They have a duration among the events, and are no spans: these are calls whose beginning is recorded. */
static void slow_calls(void **state)
{
    (void)state;
    const enum kymo_table_id events = KYMO_TABLE_EVENTS, spans = KYMO_TABLE_SPANS;
    write_slow_calls();
    struct kymo_view *v = open_written_view();
    struct kymo_rows *rows = rows_of(v, events, &everything);
    assert_true(next(rows));
    expect_text(rows, events, "event", "call");
    assert_int_equal(number(rows, events, "duration_ns"), NOTHING);
    assert_true(next(rows));
    expect_text(rows, events, "event", "slow");
    expect_text(rows, events, "function", "m:c/2");
    assert_int_equal(number(rows, events, "duration_ns"), 50);
    assert_true(next(rows));
    expect_text(rows, events, "function", "m:b/1");
    assert_int_equal(number(rows, events, "duration_ns"), 800);
    assert_int_equal(number(rows, events, "time_ns"), 1001000);
    assert_false(next(rows));
    kymo_rows_close(rows);
    rows = rows_of(v, spans, &everything);
    assert_true(next(rows));
    expect_text(rows, spans, "function", "m:a/0");
    assert_false(next(rows));
    kymo_rows_close(rows);
    kymo_view_close(v);
}

static void events_and_messages(void **state)
{
    (void)state;
    const enum kymo_table_id events = KYMO_TABLE_EVENTS, messages = KYMO_TABLE_MESSAGES;
    struct kymo_view *v = open_view();
    struct kymo_rows *rows = rows_of(v, events, &everything);
    for (int i = 1; i <= 6; i++) {
        assert_true(next(rows));
        assert_int_equal(number(rows, events, "id"), i);
        assert_int_equal(kymo_rows_number(rows), i);
    }
    expect_text(rows, events, "event", "send");
    expect_text(rows, events, "peer_pid", "<0.1.0>");
    expect_text(rows, events, "function", "-");
    expect_text(rows, events, "content", "-");
    assert_int_equal(number(rows, events, "content_cut"), NOTHING);
    assert_int_equal(number(rows, events, "words"), 5);
    assert_false(next(rows)); /* notes of the recorder are not events */
    kymo_rows_close(rows);
    rows = rows_of(v, messages, &everything);
    assert_true(next(rows));
    expect_text(rows, messages, "sender_pid", "<0.2.0>");
    assert_int_equal(number(rows, messages, "fetched_ns"), NOTHING);
    assert_int_equal(number(rows, messages, "wait_ns"), NOTHING);
    assert_int_equal(number(rows, messages, "words"), NOTHING); /* at least 5 */
    assert_false(next(rows));
    kymo_rows_close(rows);
    kymo_view_close(v);
}

static void sums_of_functions(void **state)
{
    (void)state;
    const enum kymo_table_id functions = KYMO_TABLE_FUNCTIONS;
    struct kymo_view *v = open_view();
    struct kymo_rows *rows = rows_of(v, functions, &everything);
    int64_t calls[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        assert_true(next(rows));
        calls[i] = number(rows, functions, "calls");
        assert_int_equal(number(rows, functions, "calls_with_end"), 1);
        assert_int_equal(number(rows, functions, "total_ns"), calls[i] == 2 ? 150 : 300);
        assert_int_equal(number(rows, functions, "self_ns"), 150);
        assert_int_equal(number(rows, functions, "running_ns"), NOTHING);
        assert_int_equal(number(rows, functions, "max_at_ns"), calls[i] == 2 ? 1000200 : 1000100);
    }
    assert_int_equal(calls[0] + calls[1], 3);
    assert_false(next(rows));
    kymo_rows_close(rows);
    kymo_view_close(v);
}

/* All losses, by thread and cause, with the times of the notes. */
static void losses_by_thread(void **state)
{
    (void)state;
    const enum kymo_table_id losses = KYMO_TABLE_LOSSES;
    struct kymo_view *v = open_view();
    struct kymo_rows *rows = rows_of(v, losses, &everything);
    assert_true(next(rows));
    expect_text(rows, losses, "thread", "s2");
    expect_text(rows, losses, "cause", "ring_full");
    assert_int_equal(number(rows, losses, "events"), 5);
    assert_int_equal(number(rows, losses, "first_ns"), 1000700);
    assert_int_equal(number(rows, losses, "last_ns"), 1000700);
    assert_true(next(rows));
    expect_text(rows, losses, "cause", "io");
    assert_int_equal(number(rows, losses, "events"), 3);
    assert_int_equal(number(rows, losses, "first_ns"), NOTHING);
    assert_true(next(rows));
    expect_text(rows, losses, "thread", "-");
    expect_text(rows, losses, "cause", "no_slot");
    assert_int_equal(number(rows, losses, "events"), 7);
    assert_int_equal(number(rows, losses, "first_ns"), 1000700);
    assert_int_equal(number(rows, losses, "last_ns"), 1000800);
    assert_false(next(rows));
    kymo_rows_close(rows);
    kymo_view_close(v);
}

/* Old recorders did not record when threads found no slot. */
static void loss_without_times(void **state)
{
    (void)state;
    const enum kymo_table_id losses = KYMO_TABLE_LOSSES;
    const uint64_t none[2] = {0, 0};
    char path[128];
    write_recording();
    snprintf(path, sizeof path, "%s/%s", dir, KYMO_META_NAME);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, none, sizeof none, offsetof(struct kymo_meta, no_slot_first)), sizeof none);
    assert_int_equal(close(fd), 0);
    struct kymo_view *v = open_written_view();
    struct kymo_rows *rows = rows_of(v, losses, &everything);
    for (unsigned i = 0; i < 3; i++)
        assert_true(next(rows));
    expect_text(rows, losses, "cause", "no_slot");
    assert_int_equal(number(rows, losses, "events"), 7);
    assert_int_equal(number(rows, losses, "first_ns"), NOTHING);
    assert_int_equal(number(rows, losses, "last_ns"), NOTHING);
    kymo_rows_close(rows);
    kymo_view_close(v);
}

/* Values that do not fit an integer or a date are unknown. */
static void beyond_bounds(void **state)
{
    (void)state;
    struct kymo_cell c = {.kind = KYMO_CELL_NULL};
    write_recording();
    struct kymo_table_source s = {.r = open_written()};
    assert_int_equal(kymo_cell_count(&c, INT64_MAX), 0);
    assert_true(c.kind == KYMO_CELL_INTEGER && c.integer == INT64_MAX);
    assert_int_equal(kymo_cell_count(&c, (uint64_t)INT64_MAX + 1), 0);
    assert_int_equal(c.kind, KYMO_CELL_NULL);
    assert_int_equal(kymo_cell_moment(&c, &s, INT64_MAX), 0);
    assert_true(c.kind == KYMO_CELL_INTEGER && c.integer == INT64_MAX - 1000000);
    assert_int_equal(kymo_cell_date(&c, &s, KYMO_NO_TIME), 0);
    assert_int_equal(c.kind, KYMO_CELL_NULL);
    assert_int_equal(kymo_cell_thread(&c, &s, TR_SLOTS), 0);
    assert_int_equal(c.kind, KYMO_CELL_NULL);
    kymo_cell_free(&c);
    kymo_reader_close(s.r);
}

/* ---- cursors ---- */

static void by_id(void **state)
{
    (void)state;
    const enum kymo_table_id spans = KYMO_TABLE_SPANS;
    const int64_t absent[] = {0, -1, 4, INT64_MAX, INT64_MIN};
    struct kymo_view *v = open_view();
    struct kymo_rows_choice choice = everything;
    char err[256] = "";
    choice.by_id = true;
    struct kymo_rows *rows = rows_of(v, spans, &choice);
    for (int64_t id = 3; id >= 1; id--) { /* the same cursor, as in a join */
        choice.id = id;
        assert_int_equal(kymo_rows_start(rows, &choice, err, sizeof err), 0);
        assert_true(next(rows));
        assert_int_equal(number(rows, spans, "id"), id);
        assert_false(next(rows));
    }
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        choice.id = absent[i];
        assert_int_equal(kymo_rows_start(rows, &choice, err, sizeof err), 0);
        assert_false(next(rows));
    }
    choice.id = 1;
    choice.from_ns = 1000101; /* it began before */
    assert_int_equal(kymo_rows_start(rows, &choice, err, sizeof err), 0);
    assert_false(next(rows));
    kymo_rows_close(rows);
    kymo_view_close(v);
}

static void by_time(void **state)
{
    (void)state;
    static const struct {
        int64_t from, to;
        unsigned events, spans;
    } cases[] = {{INT64_MIN, INT64_MAX, 6, 3}, {1000100, 1000600, 6, 3},   {1000101, 1000599, 4, 2},
                 {1000200, 1000200, 1, 1},     {1000601, INT64_MAX, 0, 0}, {INT64_MIN, 1000099, 0, 0},
                 {1000600, 1000100, 0, 0}};
    struct kymo_view *v = open_view();
    char err[256] = "";
    struct kymo_rows *events = rows_of(v, KYMO_TABLE_EVENTS, &everything);
    struct kymo_rows *spans = rows_of(v, KYMO_TABLE_SPANS, &everything);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kymo_rows_choice choice = {.from_ns = cases[i].from, .to_ns = cases[i].to};
        assert_int_equal(kymo_rows_start(events, &choice, err, sizeof err), 0);
        assert_int_equal(kymo_rows_start(spans, &choice, err, sizeof err), 0);
        assert_int_equal(count(events), cases[i].events);
        assert_int_equal(count(spans), cases[i].spans);
    }
    kymo_rows_close(events);
    kymo_rows_close(spans);
    kymo_view_close(v);
}

/* A cursor that was not started has no rows; two cursors of one table are independent. */
static void cursors_are_independent(void **state)
{
    (void)state;
    struct kymo_view *v = open_view();
    struct kymo_rows *a, *b = rows_of(v, KYMO_TABLE_EVENTS, &everything);
    assert_int_equal(kymo_rows_open(v, KYMO_TABLE_EVENTS, &a), 0);
    assert_false(next(a));
    kymo_rows_close(a);
    assert_true(next(b));
    a = rows_of(v, KYMO_TABLE_EVENTS, &everything);
    assert_int_equal(count(a), 6);
    assert_int_equal(count(b), 5);
    kymo_rows_close(a);
    kymo_rows_close(b);
    kymo_view_close(v);
}

static void not_a_recording(void **state)
{
    (void)state;
    struct kymo_view *v;
    char err[256] = "";
    assert_true(kymo_view_open(dir, &v, err, sizeof err) < 0);
    assert_null(v);
    assert_non_null(strstr(err, "not a recording"));
}

/* ---- the store ---- */

static uint64_t mixed(uint64_t i, unsigned word)
{
    return (i + 1) * 0x9e3779b97f4a7c15u + word;
}

/* Rows whose size does not divide the memory, up to its end and beyond. */
static void store_of(uint64_t rows, bool spills)
{
    struct kymo_store s;
    uint64_t row[3];
    kymo_store_init(&s, sizeof row);
    for (uint64_t i = 0; i < rows; i++) {
        for (unsigned w = 0; w < 3; w++)
            row[w] = mixed(i, w);
        assert_int_equal(kymo_store_append(&s, row), 0);
    }
    assert_int_equal(kymo_store_finish(&s), 0);
    assert_int_equal(s.fd >= 0, spills);
    assert_int_equal(s.rows, rows);
    for (uint64_t i = rows; i-- > 0;) {
        memcpy(row, kymo_store_row(&s, i), sizeof row);
        for (unsigned w = 0; w < 3; w++)
            assert_true(row[w] == mixed(i, w));
    }
    kymo_store_free(&s);
    kymo_store_free(&s);
}

static void store_spills(void **state)
{
    (void)state;
    const uint64_t fit = KYMO_STORE_MEMORY / 24;
    store_of(0, false);
    store_of(1, false);
    store_of(fit, false);
    store_of(fit + 1, true);
    store_of(3 * fit + 5, true);
}

/* The requested location of the temporary file may not be a folder: the next one is used. */
static void store_finds_a_folder(void **state)
{
    (void)state;
    assert_int_equal(setenv("SQLITE_TMPDIR", "/dev/null", 1), 0);
    store_of(KYMO_STORE_MEMORY / 24 + 1, true);
    assert_int_equal(unsetenv("SQLITE_TMPDIR"), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_types),
        T(known_and_unknown),
        T(events_and_messages),
        T(slow_calls),
        T(sums_of_functions),
        T(losses_by_thread),
        T(loss_without_times),
        T(beyond_bounds),
        T(by_id),
        T(by_time),
        T(cursors_are_independent),
        T(not_a_recording),
        cmocka_unit_test(store_spills),
        cmocka_unit_test(store_finds_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
