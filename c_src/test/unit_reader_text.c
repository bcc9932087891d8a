/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of text (atoms, terms, cutting to size) and of the map. kymo_cli_SUITE tests that terms are
 * formatted as in the Erlang shell.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kymo_map.h"
#include "kymo_reader.h"
#include "kymo_sink.h"

#define ATOM(text) atom(text, sizeof(text) - 1)
#define TERM(bytes) term(bytes, sizeof(bytes) - 1)

static char out[4096];

static const char *atom(const char *text, size_t n)
{
    kymo_format_atom((struct kymo_text){text, (uint32_t)n}, out, sizeof out);
    return out;
}

static const char *term(const char *bytes, size_t n)
{
    /* An exact copy, so that a sanitizer detects reads beyond the end. */
    uint8_t *copy = malloc(n + 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    uint8_t *exact = realloc(copy, n == 0 ? 1 : n);
    assert_non_null(exact);
    kymo_format_term(exact, n, out, sizeof out);
    free(exact);
    return out;
}

static void atoms(void **state)
{
    (void)state;
    assert_string_equal(ATOM("ok"), "ok");
    assert_string_equal(ATOM("a@b_C9"), "a@b_C9");
    assert_string_equal(ATOM("Ok"), "'Ok'");
    assert_string_equal(ATOM("_x"), "'_x'");
    assert_string_equal(ATOM(""), "''");
    assert_string_equal(ATOM("two words"), "'two words'");
    assert_string_equal(ATOM("end"), "'end'");
    assert_string_equal(ATOM("ends"), "ends");
    assert_string_equal(ATOM("it's"), "'it\\'s'");
    assert_string_equal(ATOM("a\\b"), "'a\\\\b'");
    assert_string_equal(ATOM("\n\t\x1b[0m\x7f"), "'\\n\\t\\e[0m\\d'");
    assert_string_equal(ATOM("\x01"), "'\\001'");
    assert_string_equal(ATOM("n\xc3\xa5ja"), "n\xc3\xa5ja");
    assert_string_equal(ATOM("\xd0\xb6"), "'\xd0\xb6'"); /* a letter, but not for Erlang */
    assert_string_equal(ATOM("\xc2\x85"), "'\\205'");    /* a control character of Latin-1 */
    assert_string_equal(ATOM("x\xff\xfe"), "'x\\x{FF}\\x{FE}'");
    assert_string_equal(ATOM("Elixir.Enum"), "'Elixir.Enum'");
}

static void cut_to_size(void **state)
{
    (void)state;
    char small[8];
    struct kymo_text t = {"\xd0\xb6\xd0\xb6\xd0\xb6\xd0\xb6", 8};
    for (size_t size = 0; size <= sizeof small; size++) {
        memset(small, 'x', sizeof small);
        assert_int_equal(kymo_format_atom(t, size == 0 ? NULL : small, size), 10);
        for (size_t i = size; i < sizeof small; i++)
            assert_int_equal(small[i], 'x');
        if (size > 0) { /* whole characters only */
            size_t len = strlen(small);
            assert_true(len < size && len + 2 >= size);
            assert_true(len == 0 || len % 2 == 1);
        }
    }
}

static void terms(void **state)
{
    (void)state;
    assert_string_equal(TERM("\x61\xff"), "255");
    assert_string_equal(TERM("\x62\xff\xff\xff\xfe"), "-2");
    assert_string_equal(TERM("\x6e\x08\x00\x00\x00\x00\x00\x00\x00\x00\x80"), "9223372036854775808");
    assert_string_equal(TERM("\x6e\x05\x01\x00\xca\x9a\x3b\x00"), "-1000000000");
    assert_string_equal(TERM("\x6e\x00\x00"), "0");
    assert_string_equal(TERM("\x46\x3f\xf8\0\0\0\0\0\0"), "1.5");
    assert_string_equal(TERM("\x68\x02\x77\x02ok\x6a"), "{ok,[]}");
    assert_string_equal(TERM("\x68\x00"), "{}");
    assert_string_equal(TERM("\x6c\0\0\0\x01\x61\x01\x61\x02"), "[1|2]");
    assert_string_equal(TERM("\x6c\0\0\0\x02\x61\x68\x61\x69\x6a"), "\"hi\"");
    assert_string_equal(TERM("\x6c\0\0\0\x01\x61\x01\x6c\0\0\0\x01\x61\x02\x6a"), "[1,2]");
    assert_string_equal(TERM("\x6b\0\x02hi"), "\"hi\"");
    assert_string_equal(TERM("\x6b\0\x02\x01\x02"), "[1,2]");
    assert_string_equal(TERM("\x6b\0\x03\"\\\n"), "\"\\\"\\\\\\n\"");
    assert_string_equal(TERM("\x6d\0\0\0\0"), "<<>>");
    assert_string_equal(TERM("\x6d\0\0\0\x02hi"), "<<\"hi\">>");
    assert_string_equal(TERM("\x6d\0\0\0\x02\xc3\xa9"), "<<\"\xc3\xa9\"/utf8>>");
    assert_string_equal(TERM("\x6d\0\0\0\x01\xe9"), "<<\"\xc3\xa9\">>"); /* Latin-1 */
    assert_string_equal(TERM("\x6d\0\0\0\x02\0\xff"), "<<0,255>>");
    assert_string_equal(TERM("\x4d\0\0\0\x02\x03\x01\xa0"), "<<1,5:3>>");
    assert_string_equal(TERM("\x74\0\0\0\x01\x61\x01\x61\x02"), "#{1 => 2}");
    assert_string_equal(TERM("\x58\x77\x01n\0\0\0\x01\0\0\0\x02\0\0\0\x03"), "<n.1.2>");
    assert_string_equal(TERM("\x59\x77\x01n\0\0\0\x05\0\0\0\x01"), "#Port<n.5>");
    assert_string_equal(TERM("\x78\x77\x01n\0\0\0\0\0\0\0\x06\0\0\0\x01"), "#Port<n.6>");
    assert_string_equal(TERM("\x5a\0\x02\x77\x01n\0\0\0\x01\0\0\0\x07\0\0\0\x08"), "#Ref<n.8.7>");
    assert_string_equal(TERM("\x71\x77\x01m\x77\x01"
                             "f\x61\x02"),
                        "fun m:f/2");
    assert_string_equal(TERM("\x73\x01\xe5"), "\xc3\xa5");
}

static void damaged_terms(void **state)
{
    (void)state;
    assert_string_equal(TERM(""), "'...'");
    assert_string_equal(TERM("\xff"), "'...'");
    assert_string_equal(TERM("\x50\x01"), "'...'"); /* compressed: never recorded */
    assert_string_equal(TERM("\x62\x01"), "'...'");
    assert_string_equal(TERM("\x68\x03\x61\x01"), "{1,'...'}");
    assert_string_equal(TERM("\x68\x03\x61\x01\x00\x61\x02"), "{1,'...'}");
    assert_string_equal(TERM("\x69\xff\xff\xff\xff\x61\x01"), "{1,'...'}");
    assert_string_equal(TERM("\x6c\xff\xff\xff\xff"), "['...']");
    assert_string_equal(TERM("\x6c\0\0\0\x01\x61\x01"), "[1|'...']");
    assert_string_equal(TERM("\x6c\0\0\0\x01\x61\x01\x6c\0\0"), "[1,'...']");
    assert_string_equal(TERM("\x6d\xff\xff\xff\xff"), "'...'");
    assert_string_equal(TERM("\x6f\xff\xff\xff\xff\x00"), "'...'");
    assert_string_equal(TERM("\x74\0\0\0\x02\x61\x01"), "#{1 => '...'}");
    assert_string_equal(TERM("\x46\x7f\xf0\0\0\0\0\0\0"), "'...'"); /* infinity */
    assert_string_equal(TERM("\x70\xff\xff\xff\xff"), "'...'");
    /* Too deep for recursion. */
    enum { DEEP = 100000 };
    uint8_t *deep = malloc(2 * DEEP);
    assert_non_null(deep);
    for (size_t i = 0; i < DEEP; i++) {
        deep[2 * i] = 104;
        deep[2 * i + 1] = 1;
    }
    size_t len = kymo_format_term(deep, 2 * DEEP, out, sizeof out);
    free(deep);
    assert_true(len < sizeof out);
    assert_non_null(strstr(out, "{{'...'}}"));
    assert_int_equal(out[len - 1], '}');
}

static const char *arguments(const char *bytes, size_t n)
{
    size_t size = n == 0 ? 1 : n;
    uint8_t *exact = malloc(size);
    assert_non_null(exact);
    memcpy(exact, bytes, n);
    size_t len = kymo_format_arguments(NULL, 0, exact, n, out, sizeof out);
    assert_int_equal(len == 0, kymo_format_call(NULL, 0, exact, n, NULL, 0) == 0);
    if (len > 0) {
        char with_name[sizeof out];
        assert_int_equal(kymo_format_call(NULL, 0, exact, n, with_name, sizeof with_name), len + 1);
        assert_int_equal(with_name[0], '?');
        assert_string_equal(with_name + 1, out);
        assert_int_equal(len, strlen(out));
    }
    free(exact);
    return len > 0 ? out : "no list";
}
#define ARGUMENTS(bytes) arguments(bytes, sizeof(bytes) - 1)

/* The list is never written as a string, however it is encoded; its elements may be. */
static void argument_lists(void **state)
{
    (void)state;
    assert_string_equal(ARGUMENTS("\x6a"), "()");
    assert_string_equal(ARGUMENTS("\x6b\0\x01\n"), "(10)");
    assert_string_equal(ARGUMENTS("\x6b\0\x03"
                                  "abc"),
                        "(97, 98, 99)");
    assert_string_equal(ARGUMENTS("\x6c\0\0\0\x02\x61\x68\x61\x69\x6a"), "(104, 105)");
    assert_string_equal(ARGUMENTS("\x6c\0\0\0\x01\x61\x01\x6c\0\0\0\x01\x61\x02\x6a"), "(1, 2)");
    assert_string_equal(ARGUMENTS("\x6c\0\0\0\x02\x61\x0a\x77\x03"
                                  "foo\x6a"),
                        "(10, foo)");
    assert_string_equal(ARGUMENTS("\x6c\0\0\0\x02\x6b\0\x01\n\x6b\0\x02\0\1\x6a"), "(\"\\n\", [0,1])");
    /* Cut, or damaged. */
    assert_string_equal(ARGUMENTS("\x6c\0\0\0\x01\x61\x01\x77\x03..."), "(1, '...')");
    assert_string_equal(ARGUMENTS("\x6c\0\0\0\x02\x61\x01\x77\x03...\x6a"), "(1, '...')");
    assert_string_equal(ARGUMENTS("\x6c\0\0\0\x01\x61\x01\x61\x02"), "(1 | 2)");
    assert_string_equal(ARGUMENTS("\x6c\0\0\0\x01\x61\x01"), "(1, '...')");
    assert_string_equal(ARGUMENTS("\x6c\xff\xff\xff\xff\x61\x01"), "(1, '...')");
    assert_string_equal(ARGUMENTS("\x6c\xff\xff"), "('...')");
    assert_string_equal(ARGUMENTS("\x6b\0\x03"
                                  "a"),
                        "(97, '...')");
    assert_string_equal(ARGUMENTS("\x6b"), "('...')");
    assert_string_equal(ARGUMENTS("\x77\x03..."), "no list");
    assert_string_equal(ARGUMENTS("\x61\x01"), "no list");
    assert_string_equal(ARGUMENTS(""), "no list");
}

static bool cell(const char *bytes, size_t n, size_t *head)
{
    uint8_t exact[64];
    assert_true(n <= sizeof exact);
    memcpy(exact, bytes, n);
    return kymo_term_cell(exact, n, head);
}
#define CELL(bytes, head) cell(bytes, sizeof(bytes) - 1, head)

static void cells(void **state)
{
    (void)state;
    size_t head = 0;
    assert_true(CELL("\x6c\0\0\0\x01\x61\x0a\x6a", &head));
    assert_int_equal(head, 2);
    assert_true(CELL("\x6c\0\0\0\x01\x6a\x6c\0\0\0\x01\x61\x01\x6a", &head));
    assert_int_equal(head, 1);
    assert_false(CELL("", &head));
    assert_false(CELL("\x6a", &head));
    assert_false(CELL("\x6b\0\x01\n", &head));
    assert_false(CELL("\x6c\0\0\0\x02\x6a\x6a\x6a", &head));
    assert_false(CELL("\x6c\0\0\0\x01\x61\x0a\x6a\x6a", &head));
    assert_false(CELL("\x6c\0\0\0\x01\x61\x0a", &head));
    assert_false(CELL("\x6c\0\0\0\x01\x6a\x62\0", &head));
}

static void large_integers(void **state)
{
    (void)state;
    uint8_t b[5 + 1000] = {111, 0, 0, 1, 0, 0};
    memset(b + 6, 0xff, 256);
    size_t len = kymo_format_term(b, 6 + 256, out, sizeof out);
    assert_int_equal(len, 617); /* 2^2048 - 1 has 617 digits */
    assert_memory_equal(out, "3231700607131100730", 19);
    assert_string_equal(out + len - 9, "596230655");
    b[4] = 1; /* 257 bytes: base 16 */
    b[6 + 256] = 1;
    len = kymo_format_term(b, 6 + 257, out, sizeof out);
    assert_int_equal(len, 3 + 1 + 512);
    assert_memory_equal(out, "16#1FFFF", 8);
}

/* Number 1 has the key that the map stores separately (kymo_map.c). */
enum { ODD = 1 };
#define ODD_KEY 0xb5ad4eceda1ce2a9ull

static uint64_t key_of(uint64_t k)
{
    return k == ODD ? ODD_KEY : k << 32 | (k % 3 == 0 ? 0 : k);
}

static void map_against_a_table(void **state)
{
    (void)state;
    enum { KEYS = 3000, STEPS = 200000 };
    struct kymo_map m;
    static uint64_t table[KEYS]; /* 0 = not found */
    uint64_t rng = 99;
    size_t there = 0;
    kymo_map_init(&m, sizeof(uint64_t));
    for (uint64_t k = 0; k <= ODD; k++) {
        assert_null(kymo_map_get(&m, key_of(k)));
        assert_false(kymo_map_remove(&m, key_of(k)));
    }
    for (unsigned i = 0; i < STEPS; i++) {
        rng = rng * 6364136223846793005ull + 1442695040888963407ull;
        uint64_t k = (rng >> 33) % KEYS, key = key_of(k);
        if ((rng >> 20) % 3 == 0) {
            assert_int_equal(kymo_map_remove(&m, key), table[k] != 0);
            there -= table[k] != 0;
            table[k] = 0;
        } else {
            bool added;
            uint64_t *v = kymo_map_put(&m, key, &added);
            assert_non_null(v);
            assert_int_equal(added, table[k] == 0);
            assert_int_equal(*v, table[k]);
            there += added;
            *v = table[k] = i + 1;
        }
        assert_int_equal(m.count, there);
    }
    size_t it = 0, seen = 0;
    uint64_t key;
    for (const uint64_t *v; (v = kymo_map_next(&m, &it, &key)) != NULL; seen++)
        assert_int_equal(*v, table[key == ODD_KEY ? ODD : key >> 32]);
    assert_int_equal(seen, there);
    for (uint64_t k = 0; k < KEYS; k++) {
        const uint64_t *v = kymo_map_get(&m, key_of(k));
        assert_int_equal(v == NULL ? 0 : *v, table[k]);
    }
    kymo_map_free(&m);
    kymo_map_init(&m, 0); /* a set */
    for (uint64_t k = 0; k < 1000; k++)
        assert_non_null(kymo_map_put(&m, k, NULL));
    assert_int_equal(m.count, 1000);
    assert_non_null(kymo_map_get(&m, 999));
    assert_null(kymo_map_get(&m, 1000));
    assert_null(kymo_map_get(&m, ODD_KEY));
    assert_non_null(kymo_map_put(&m, ODD_KEY, NULL));
    assert_non_null(kymo_map_get(&m, ODD_KEY));
    kymo_map_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(atoms),          cmocka_unit_test(cut_to_size),         cmocka_unit_test(terms),
        cmocka_unit_test(damaged_terms),  cmocka_unit_test(argument_lists),      cmocka_unit_test(cells),
        cmocka_unit_test(large_integers), cmocka_unit_test(map_against_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
