/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of what the recorder provides for budgets: samples of the newest records, which are compared
 * with the written ones, and notes of what was shed.
 */
#include "kymo_budget.h"
#include "rec_check.h"

#define WORD(n) ((uint64_t)(n) << 6 | 0xb)
#define WHO KYMO_IDENT(KYMO_I_PID, 7)

/* Records this event without contents: the fields W and M, or W followed by zeros. */
static void put(struct kymo_recorder *r, unsigned id, uint64_t who, uint32_t mfa, size_t more)
{
    struct kymo_writer *w = kymo_writer_get(r);
    uint8_t *p = kymo_reserve(w, id, 12 + more);

    p = kymo_put32(kymo_put64(p, who), mfa);
    memset(p, 0, more);
    kymo_commit(w, p + more);
    kymo_writer_put(w);
}

static uint32_t function(struct kymo_recorder *r, unsigned n)
{
    struct kymo_writer *w = kymo_writer_get(r);
    uint32_t m = kymo_dict_atom_add(w, WORD(1), "m", 1), f = kymo_dict_atom_add(w, WORD(100 + n), "f", 1);
    uint32_t id = kymo_dict_mfa_add(w, WORD(1), WORD(100 + n), n % 5, m, f);

    kymo_writer_put(w);
    return id;
}

static void counts_kinds_and_functions(void **state)
{
    struct kymo_options o = rc_options(rc_path("sample"), KYMO_OVERWRITE);
    struct kymo_recorder *r;
    struct kymo_loud loud[4];
    struct kymo_sample s = {.functions = loud, .n_functions = 4};
    uint32_t f[6];
    uint64_t since, offered = 0;

    (void)state;
    rc_pool(&o, 1, 40);
    r = rc_open(&o);
    assert_false(kymo_recorder_offered(r, 0, &offered));
    for (unsigned i = 0; i < 6; i++)
        f[i] = function(r, i);
    put(r, KYMO_E_CALL, WHO, f[5], 0); /* older than requested */
    since = kymo_recorder_ticks(r) + 1;
    rc_await(kymo_recorder_ticks(r) > since);
    for (unsigned i = 0; i < 6; i++) {
        for (unsigned n = 0; n < 100 * (i + 1); n++)
            put(r, KYMO_E_CALL, WHO, f[i], 0);
    }
    put(r, KYMO_E_RETURN_FROM, WHO, f[5], 0);
    put(r, KYMO_E_RETURN_TO, WHO, f[0], 0);
    put(r, KYMO_E_CALL, WHO, 0, 0); /* a function without a name */
    put(r, KYMO_E_SEND, WHO, 0, 8); /* W P S */
    put(r, KYMO_E_IN, WHO, f[0], 0);
    put(r, KYMO_E_PORT_OUT, WHO, 0, 0);
    put(r, KYMO_E_LINK, WHO, 0, 4);
    put(r, KYMO_E_LINK, KYMO_IDENT(KYMO_I_PORT, 1), 0, 4);
    assert_int_equal(kymo_recorder_sample(r, since, &s), 0);
    assert_int_equal(s.kinds[KYMO_KIND_CALLS], 2100 + 2);
    assert_int_equal(s.return_to, 1);
    assert_int_equal(s.kinds[KYMO_KIND_MESSAGES], 1);
    assert_int_equal(s.kinds[KYMO_KIND_RUNNING], 2);
    assert_int_equal(s.kinds[KYMO_KIND_PROCS], 1);
    assert_int_equal(s.kinds[KYMO_KIND_PORTS], 1);
    assert_int_equal(s.kinds[KYMO_KIND_GC], 0);
    assert_int_equal(s.other, 0);
    assert_int_equal(s.n_functions, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(loud[i].id, f[5 - i]);
        assert_int_equal(loud[i].events, 100 * (6 - i) + (i == 0));
        assert_true(loud[i].module == WORD(1) && loud[i].function == WORD(105 - i));
        assert_int_equal(loud[i].arity, (5 - i) % 5);
    }
    assert_true(kymo_recorder_offered(r, 0, &offered));
    assert_int_equal(offered, rc_info(r).events);
    assert_int_equal(kymo_recorder_stop(r, KYMO_R_STOP), 0);
    assert_int_equal(kymo_recorder_sample(r, since, &s), -ESHUTDOWN);
    kymo_recorder_close(r);
}

/* By then the pool has other events: the newest megabytes are counted. */
static void newest_of_a_full_pool(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = rc_fresh(&o, "full", KYMO_OVERWRITE);
    struct kymo_loud loud[2];
    struct kymo_sample s = {.functions = loud, .n_functions = 2};
    uint32_t old = function(r, 1), young = function(r, 2);

    (void)state;
    while (rc_info(r).overwritten == 0)
        put(r, KYMO_E_CALL, WHO, old, 0);
    for (unsigned n = 0; n < 50; n++)
        put(r, KYMO_E_CALL, WHO, young, 0);
    assert_int_equal(kymo_recorder_sample(r, 0, &s), 0);
    assert_int_equal(s.n_functions, 2);
    assert_int_equal(loud[1].id, young);
    assert_int_equal(loud[1].events, 50);
    assert_true(loud[0].id == old && loud[0].events > 50);
    assert_int_equal(s.kinds[KYMO_KIND_CALLS], loud[0].events + loud[1].events);
    kymo_recorder_close(r);
}

static void notes_survive(void **state)
{
    struct kymo_options o;
    struct kymo_recorder *r = rc_fresh(&o, "notes", KYMO_OVERWRITE);
    struct kymo_writer *w;
    struct rc_rec rec;
    uint32_t ids[1201];
    size_t at = 0, notes = 0, named = 0;
    const struct kymo_dict_entry *e;

    (void)state;
    for (uint32_t i = 0; i < 1201; i++)
        ids[i] = i;
    kymo_recorder_budget(r, 50000, 7);
    w = kymo_writer_get(r);
    kymo_note_shed(w, KYMO_SHED, 1u << KYMO_KIND_GC | 1u << KYMO_KIND_PROCS, ids, 1201);
    kymo_note_shed(w, KYMO_GIVEN_BACK, 1u << KYMO_KIND_GC, NULL, 0);
    kymo_writer_put(w);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.meta.shed, 1203);
    assert_int_equal(rec.meta.shed_unnamed, 0);
    assert_int_equal(rec.meta.budget_ppm, 50000);
    assert_int_equal(rec.meta.budget_events, 7);
    while ((e = rc_entry(&rec, &at)) != NULL) {
        uint32_t payload[4];

        assert_int_equal(e->kind, KYMO_DICT_SHED);
        memcpy(payload, e + 1, sizeof payload);
        assert_int_equal(payload[2], notes < 3 ? KYMO_SHED : KYMO_GIVEN_BACK);
        if (notes == 0)
            assert_int_equal(payload[3], 1u << KYMO_KIND_GC | 1u << KYMO_KIND_PROCS);
        else
            assert_int_equal(payload[3], notes == 3 ? 1u << KYMO_KIND_GC : 0u);
        named += (e->len - KYMO_DICT_SHED_HDR) / 4;
        notes++;
    }
    assert_int_equal(notes, 4);
    assert_int_equal(named, 1201);
    rc_free(&rec);
}

/* Without room for notes, the numbers are still there. */
static void no_room_is_counted(void **state)
{
    struct kymo_options o = rc_options(rc_path("room"), KYMO_OVERWRITE);
    const uint32_t ids[] = {1, 2, 3};
    struct kymo_recorder *r;
    struct kymo_writer *w;
    struct rc_rec rec;

    (void)state;
    o.dict_bytes = 4096;
    r = rc_open(&o);
    w = kymo_writer_get(r);
    for (uint64_t i = 0; kymo_dict_has_room(w); i++)
        (void)kymo_dict_atom_add(w, WORD(i), "an atom", 7);
    kymo_note_shed(w, KYMO_SHED, 1u << KYMO_KIND_MESSAGES, ids, 3);
    kymo_writer_put(w);
    kymo_recorder_close(r);
    rc_load(o.dir, &rec);
    assert_int_equal(rec.meta.shed, 4);
    assert_int_equal(rec.meta.shed_unnamed, 4);
    rc_free(&rec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_kinds_and_functions),
        cmocka_unit_test(newest_of_a_full_pool),
        cmocka_unit_test(notes_survive),
        cmocka_unit_test(no_room_is_counted),
    };

    return cmocka_run_group_tests_name("shed", tests, rc_setup, rc_teardown);
}
