/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that the table of fields and that of records agree: what a record has is a field, and each field
 * is in a record. kymo_fields_SUITE tests names and values.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kymo_fields.h"

#define HAS(sym) KYMO_FIELD(sym)

/* The fields that a letter of a record can be. */
static uint64_t of_letter(char letter)
{
    switch (letter) {
    case 'W': return HAS(PROCESS);
    case 'P': return HAS(PEER);
    case 'M': return HAS(FUNCTION) | HAS(OUT);
    case 'A': return HAS(ATOM);
    case 'S': return HAS(WORDS);
    case 'K': return HAS(KIND) | HAS(RUNNABLE_BY) | HAS(OUT_REASON) | HAS(STATE) | HAS(CAUSE);
    case 'Q': return HAS(LABEL) | HAS(DURATION) | HAS(WAITED) | HAS(VALUE) | HAS(COUNT);
    case 'U': return HAS(SERIAL);
    case 'R': return HAS(MESSAGE) | HAS(REFERENCE);
    case 'N': return HAS(NUMBER);
    case 'D': return HAS(STACK_WORDS);
    case 'L': return HAS(PASSED);
    case 'B': return HAS(BEGAN);
    case 'O': return HAS(OMITTED);
    case 'I': return HAS(INITIAL_CALL);
    case 'J': return HAS(IN);
    case 'G': return HAS(GC);
    case 'C': return HAS(COUNTERS);
    default: fail_msg("no field for the letter %c", letter); return 0;
    }
}

/* The event as which records with this id are decoded: another form of an event has its name, and no
 * fields of its own. */
static uint8_t event_of(unsigned id)
{
    unsigned event = id;
    if (kymo_fields_of((uint8_t)id) == 0) {
        for (event = 1; event < id; event++) {
            if (kymo_event_name(event) != NULL && strcmp(kymo_event_name(event), kymo_event_name(id)) == 0)
                break;
        }
    }
    return (uint8_t)event;
}

static void tables_agree(void **state)
{
    (void)state;
    uint64_t found[KYMO_E_COUNT] = {0};
    for (unsigned id = 1; id < KYMO_E_COUNT; id++) {
        if (kymo_event_name(id) == NULL)
            continue;
        uint8_t event = event_of(id);
        for (const char *l = kymo_event_fields(id); *l != '\0'; l++) {
            uint64_t own = kymo_fields_of(event) & of_letter(*l);
            if (own == 0)
                fail_msg("%s (%u) has the letter %c, and no field for it", kymo_event_name(id), id, *l);
            found[event] |= own;
        }
    }
    uint64_t optional = HAS(CONTENT) | HAS(EXTRA) | HAS(SCHEDULER) | HAS(STAMP) | HAS(RESULT);
    for (unsigned id = 0; id < KYMO_E_COUNT; id++)
        assert_true(kymo_fields_of((uint8_t)id) == (found[id] != 0 ? found[id] | optional : 0));
    assert_true(kymo_fields_of(UINT8_MAX) == 0);
}

/* Fields are found one by one as all together, in order and once; those of collections have a name each. */
static void one_by_one(void **state)
{
    (void)state;
    for (unsigned id = 1; id < KYMO_E_COUNT; id++) {
        struct kymo_event ev = {.id = (uint8_t)id,
                                .who = 1,
                                .peer = 2,
                                .mfa = 3,
                                .atom = 4,
                                .kind = 1,
                                .message = 1,
                                .ref = 5,
                                .number = 6,
                                .initial = 7,
                                .in_mfa = 8,
                                .n_counters = 1,
                                .n_gc = KYMO_GC_SIZES,
                                .has_opts = true,
                                .opt_flags = KYMO_O_SCHED | KYMO_O_TS | KYMO_O_MSR,
                                .opt_ts = 1};
        struct kymo_field f, same;
        if ((kymo_fields_of((uint8_t)id) & HAS(COUNTERS)) != 0)
            continue;
        uint64_t seen = 0;
        uint32_t sizes = 0;
        for (struct kymo_fields all = kymo_fields(&ev); kymo_fields_next(&all, &f);) {
            assert_true(seen < KYMO_F_BIT(f.id) || f.id == KYMO_F_GC);
            seen |= KYMO_F_BIT(f.id);
            if (f.id == KYMO_F_GC)
                assert_string_equal(f.name, kymo_gc_name(sizes++));
            assert_true(kymo_field(&ev, f.id, &same));
            assert_true(f.type == same.type && (f.id == KYMO_F_GC || f.name == same.name));
        }
        assert_int_equal(sizes, (kymo_fields_of((uint8_t)id) & HAS(GC)) != 0 ? KYMO_GC_SIZES : 0);
        for (unsigned field = 0; field < KYMO_FIELD_IDS; field++)
            assert_int_equal(kymo_field(&ev, field, &f), (seen & KYMO_F_BIT(field)) != 0);
    }
}

/* The process of a counter is not a counter; unknown counters have their number as name; names are not cut. */
static void counters(void **state)
{
    (void)state;
    static const struct kymo_counter_value values[] = {
        {KYMO_N_ATOMS, 0, 1}, {KYMO_N_BUSY_PROCESS, 65535, 77}, {KYMO_N_HEAP, 65535, UINT64_MAX},
        {60000, 0, 3},        {KYMO_N_SCHEDULERS, 65535, 4},    {KYMO_N_BUSY_PROCESS, 1, 5}};
    static const struct {
        const char *name;
        uint64_t value, process;
    } expected[] = {{"atom_count", 1, KYMO_IDENT_NONE},
                    {"heap_size[65535]", UINT64_MAX, 77},
                    {"60000", 3, KYMO_IDENT_NONE},
                    {"schedulers_utilization[65535]", 4, KYMO_IDENT_NONE}};
    enum { VALUES = sizeof values / sizeof *values, EXPECTED = sizeof expected / sizeof *expected };
    uint8_t bytes[VALUES * KYMO_COUNTER_BYTES];
    for (size_t i = 0; i < VALUES; i++) {
        memcpy(bytes + i * KYMO_COUNTER_BYTES, &values[i].counter, 2);
        memcpy(bytes + i * KYMO_COUNTER_BYTES + 2, &values[i].index, 2);
        memcpy(bytes + i * KYMO_COUNTER_BYTES + 4, &values[i].value, 8);
    }
    struct kymo_event ev = {.id = KYMO_E_COUNTERS, .n_counters = VALUES, .counters = bytes};
    struct kymo_fields all = kymo_fields(&ev);
    struct kymo_field f;
    for (size_t i = 0; i < EXPECTED; i++) {
        assert_true(kymo_fields_next(&all, &f));
        assert_string_equal(f.name, expected[i].name);
        assert_true(f.n == expected[i].value && f.second == expected[i].process);
    }
    assert_false(kymo_fields_next(&all, &f));
    for (unsigned counter = 0; counter < KYMO_N_COUNT; counter++) {
        const char *name = kymo_counter_name(counter);
        assert_true(name == NULL || strlen(name) + sizeof "[65535]" <= sizeof all.name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables_agree), cmocka_unit_test(one_by_one),
                                       cmocka_unit_test(counters)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
