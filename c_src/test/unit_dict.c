/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of writing the dictionary and finding entries in it.
 */
#include "rec_check.h"

#define WORD(n) ((uint64_t)(n) << 6 | 0xb)

static void defines_and_finds(void **state)
{
    struct kymo_options o = rc_options(rc_path("dict"), KYMO_OVERWRITE);
    struct kymo_recorder *r = rc_open(&o);
    struct kymo_writer *w = kymo_writer_get(r);
    const uint8_t etf[] = {100, 0, 1, 'x'}, other[] = {100, 0, 1, 'y'};
    const uint64_t ident = KYMO_IDENT(KYMO_I_PID, 42);
    const struct kymo_dict_entry *e;
    uint32_t m, f, mfa, t1, t2;
    uint64_t payload[5];
    struct rc_rec rec;
    size_t at = 0;

    (void)state;
    assert_int_equal(kymo_dict_atom(w, WORD(1)), 0);
    assert_int_equal(kymo_dict_mfa(w, WORD(1), WORD(2), 3), 0);
    assert_true(kymo_dict_has_room(w));
    m = kymo_dict_atom_add(w, WORD(1), "lists", 5);
    f = kymo_dict_atom_add(w, WORD(2), "m\xc3\xa4p", 4);
    assert_int_equal(m, 1);
    assert_int_equal(f, 2);
    assert_int_equal(kymo_dict_atom(w, WORD(1)), m);
    assert_int_equal(kymo_dict_atom_add(w, WORD(1), "lists", 5), m); /* only once in the table */
    assert_int_equal(kymo_dict_mfa(w, WORD(1), WORD(2), 3), 0);
    mfa = kymo_dict_mfa_add(w, WORD(1), WORD(2), 3, m, f);
    assert_int_equal(kymo_dict_mfa(w, WORD(1), WORD(2), 3), mfa);
    assert_int_equal(kymo_dict_mfa(w, WORD(1), WORD(2), 2), 0);
    assert_int_equal(kymo_dict_mfa(w, WORD(2), WORD(1), 3), 0);
    /* Every value of a word is a valid key. */
    assert_int_equal(kymo_dict_atom(w, 0), 0);
    assert_int_not_equal(kymo_dict_atom_add(w, 0, "", 0), 0);
    assert_int_not_equal(kymo_dict_atom(w, 0), 0);
    assert_int_equal(kymo_dict_atom(w, UINT64_MAX), 0);
    /* Terms with equal hashes are distinguished. */
    t1 = kymo_dict_term(w, 7, etf, sizeof etf);
    t2 = kymo_dict_term(w, 7, other, sizeof other);
    assert_true(t1 != 0 && t2 != 0 && t1 != t2);
    assert_int_equal(kymo_dict_term(w, 7, etf, sizeof etf), t1);
    assert_int_equal(kymo_dict_term(w, 7, other, sizeof other), t2);
    struct kymo_described process = {
        .ident = ident, .name = m, .mfa = mfa, .parent = 17, .caller = KYMO_IDENT_NONE};
    assert_true(kymo_dict_process(w, &process));
    process.name = 0;
    assert_true(kymo_dict_process(w, &process));
    kymo_writer_put(w);
    assert_int_equal(rc_info(r).dict_full, 0);
    kymo_recorder_close(r);

    rc_load(o.dir, &rec);
    e = rc_entry(&rec, &at);
    assert_int_equal(e->id, m);
    assert_int_equal(e->kind, KYMO_DICT_ATOM);
    assert_int_equal(e->len, 5);
    assert_memory_equal(e + 1, "lists\0\0\0", 8);
    e = rc_entry(&rec, &at);
    assert_int_equal(e->id, f);
    assert_memory_equal(e + 1, "m\xc3\xa4p\0\0\0\0", 8);
    e = rc_entry(&rec, &at); /* defined by the second add, never used */
    assert_int_equal(e->kind, KYMO_DICT_ATOM);
    e = rc_entry(&rec, &at);
    assert_int_equal(e->id, mfa);
    assert_int_equal(e->kind, KYMO_DICT_MFA);
    assert_int_equal(e->len, 12);
    assert_memory_equal(e + 1, ((uint32_t[]){m, f, 3, 0}), 16);
    e = rc_entry(&rec, &at);
    assert_int_equal(e->len, 0);
    e = rc_entry(&rec, &at);
    assert_int_equal(e->kind, KYMO_DICT_TERM);
    assert_int_equal(e->id, t1);
    assert_memory_equal(e + 1, etf, sizeof etf);
    e = rc_entry(&rec, &at);
    assert_memory_equal(e + 1, other, sizeof other);
    e = rc_entry(&rec, &at);
    assert_int_equal(e->kind, KYMO_DICT_PROC);
    assert_int_equal(e->len, sizeof payload);
    memcpy(payload, e + 1, sizeof payload);
    assert_int_equal(payload[0], ident);
    assert_true(payload[1] >= rec.meta.t0_ticks);
    assert_int_equal(payload[2], (uint64_t)mfa << 32 | m);
    assert_int_equal(payload[3], 17);
    assert_true(payload[4] == KYMO_IDENT_NONE);
    assert_non_null(rc_entry(&rec, &at));
    assert_null(rc_entry(&rec, &at));
    rc_free(&rec);
}

/* Many more definitions than a thread's caches hold: each is made once, and a second thread finds
 * those of the first. */
static void *looks_up(void *arg)
{
    struct kymo_writer *w = kymo_writer_get(arg);
    uintptr_t found = 0;

    for (unsigned i = 0; i < 20000; i++)
        found += kymo_dict_mfa(w, WORD(i % 1000), WORD(i), i % 7) != 0;
    kymo_writer_put(w);
    return (void *)found;
}

static void many_definitions(void **state)
{
    struct kymo_options o = rc_options(rc_path("many"), KYMO_OVERWRITE);
    struct kymo_recorder *r;
    struct kymo_writer *w;
    struct rc_rec rec;
    char name[24];
    void *found;
    pthread_t t;
    size_t at = 0, atoms = 0, mfas = 0;
    const struct kymo_dict_entry *e;

    (void)state;
    o.dict_bytes = 4u << 20;
    rc_pool(&o, 2, 8);
    r = rc_open(&o);
    w = kymo_writer_get(r);
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned i = 0; i < 20000; i++) {
            uint32_t m = kymo_dict_atom(w, WORD(i % 1000)), f = kymo_dict_atom(w, WORD(i));

            (void)snprintf(name, sizeof name, "name_%u", i);
            if (f == 0)
                f = kymo_dict_atom_add(w, WORD(i), name, strlen(name));
            m = m == 0 ? f : m;
            if (kymo_dict_mfa(w, WORD(i % 1000), WORD(i), i % 7) == 0)
                assert_int_not_equal(kymo_dict_mfa_add(w, WORD(i % 1000), WORD(i), i % 7, m, f), 0);
        }
    }
    kymo_writer_put(w);
    assert_int_equal(pthread_create(&t, NULL, looks_up, r), 0);
    pthread_join(t, &found);
    assert_int_equal((uintptr_t)found, 20000);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    while ((e = rc_entry(&rec, &at)) != NULL) {
        const uint32_t *p = (const uint32_t *)(const void *)(e + 1);

        atoms += e->kind == KYMO_DICT_ATOM;
        mfas += e->kind == KYMO_DICT_MFA;
        if (e->kind == KYMO_DICT_MFA)
            assert_true(p[0] < e->id && p[1] < e->id); /* only those before it */
    }
    assert_int_equal(atoms, 20000);
    assert_int_equal(mfas, 20000);
    rc_free(&rec);
}

static void a_full_dictionary_is_counted(void **state)
{
    struct kymo_options o = rc_options(rc_path("full"), KYMO_OVERWRITE);
    static uint8_t large[70000];
    struct kymo_recorder *r;
    struct kymo_writer *w;
    uint32_t id = 1, n = 0;
    struct rc_rec rec;
    size_t at = 0, found = 0;
    uint64_t refused;

    (void)state;
    o.dict_bytes = 8192;
    r = rc_open(&o);
    w = kymo_writer_get(r);
    /* A definition that cannot fit is refused; small ones still fit. */
    assert_int_equal(kymo_dict_term(w, 1, large, sizeof large), 0);
    assert_int_equal(kymo_dict_term(w, 2, large, 9000), 0);
    assert_int_equal(kymo_dict_mfa_add(w, WORD(1), WORD(2), 3, 0, 5), 0);
    assert_int_equal(kymo_dict_mfa_add(w, WORD(1), WORD(2), 70000, 5, 5), 0);
    assert_int_equal(kymo_dict_mfa(w, WORD(1), WORD(2), 70000), 0);
    assert_true(kymo_dict_has_room(w));
    refused = rc_info(r).dict_full;
    assert_int_equal(refused, 4);
    while (id != 0) {
        id = kymo_dict_atom_add(w, WORD(100 + n), "an_atom_whose_name_has_32_bytes_", 32);
        n += id != 0;
    }
    assert_int_equal(n, 8192 / 48);
    assert_false(kymo_dict_has_room(w));
    assert_int_equal(kymo_dict_atom_add(w, WORD(1), "x", 1), 0);
    assert_int_equal(kymo_dict_term(w, 3, large, 8), 0);
    assert_false(kymo_dict_process(w, &(struct kymo_described){.ident = 1}));
    assert_int_equal(rc_info(r).dict_full, refused + 4);
    /* Existing definitions are still found, and events are recorded without names. */
    for (unsigned i = 0; i < n; i++)
        assert_int_not_equal(kymo_dict_atom(w, WORD(100 + i)), 0);
    kymo_writer_put(w);
    assert_true(rc_call(r, 1));
    assert_int_equal(rc_info(r).dict_used, 8192 / 48 * 48);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.real, 1);
    while (rc_entry(&rec, &at) != NULL)
        found++;
    assert_int_equal(found, n);
    rc_free(&rec);
}

/* Short names fill the table before the file. That is counted as lack of room, and searches still
 * end. */
static void a_full_table_is_counted(void **state)
{
    struct kymo_options o = rc_options(rc_path("short"), KYMO_OVERWRITE);
    struct kymo_recorder *r;
    struct kymo_writer *w;
    uint32_t n = 0;

    (void)state;
    o.dict_bytes = 8192;
    rc_pool(&o, 1, 4);
    r = rc_open(&o);
    w = kymo_writer_get(r);
    while (kymo_dict_atom_add(w, WORD(n), "a", 1) != 0)
        n++;
    assert_int_equal(n, 256 * 7 / 8);
    assert_false(kymo_dict_has_room(w));
    assert_int_equal(rc_info(r).dict_full, 1);
    assert_true(rc_info(r).dict_used < o.dict_bytes);
    assert_int_equal(kymo_dict_atom(w, WORD(n)), 0);
    assert_int_not_equal(kymo_dict_atom(w, WORD(n - 1)), 0);
    kymo_writer_put(w);
    kymo_recorder_close(r);
}

static void *defines_one(void *arg)
{
    struct kymo_writer *w = kymo_writer_get(arg);
    uint32_t id = kymo_dict_atom_add(w, WORD(1), "slow", 4);

    kymo_writer_put(w);
    return (void *)(uintptr_t)id;
}

/* One thread stops between reserving room and writing: others can define and find, and the file can
 * be read around the hole. */
static void a_hole_stops_nobody(void **state)
{
    struct kymo_options o = rc_options(rc_path("hole"), KYMO_OVERWRITE);
    struct kymo_recorder *r;
    struct kymo_writer *w;
    uint32_t after;
    struct rc_rec rec;
    pthread_t t;
    void *id;
    size_t at = 0;

    (void)state;
    rc_pool(&o, 2, 8);
    r = rc_open(&o);
    rc_arm(KYMO_AT_DICT_RESERVED);
    assert_int_equal(pthread_create(&t, NULL, defines_one, r), 0);
    rc_await_gate(KYMO_AT_DICT_RESERVED);
    w = kymo_writer_get(r);
    assert_int_equal(kymo_dict_atom(w, WORD(1)), 0);
    after = kymo_dict_atom_add(w, WORD(2), "fast", 4);
    assert_int_equal(kymo_dict_atom(w, WORD(2)), after);
    kymo_writer_put(w);
    assert_int_equal(kymo_recorder_snapshot(r, rc_path("hole-snapshot"), NULL, NULL), 0);
    rc_load(rc_path("hole-snapshot"), &rec);
    assert_int_equal(rec.dict_len, 48);
    assert_int_equal(rc_entry(&rec, &at)->id, after);
    assert_null(rc_entry(&rec, &at));
    rc_free(&rec);
    rc_release(KYMO_AT_DICT_RESERVED);
    pthread_join(t, &id);
    w = kymo_writer_get(r);
    assert_int_equal(kymo_dict_atom(w, WORD(1)), (uintptr_t)id);
    kymo_writer_put(w);
    kymo_recorder_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defines_and_finds),
        cmocka_unit_test(many_definitions),
        cmocka_unit_test(a_full_dictionary_is_counted),
        cmocka_unit_test(a_full_table_is_counted),
        cmocka_unit_test(a_hole_stops_nobody),
    };

    return cmocka_run_group_tests_name("dict", tests, rc_setup, rc_teardown);
}
