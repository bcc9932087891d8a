/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of external terms: the writer produces the same bytes as term_to_binary/1, and the check
 * accepts the terms that binary_to_term/1 accepts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "etf_write.h"

/* term_to_binary/1 of OTP 25, without the 131, of a tuple with one of each kind:
 * atoms in ASCII, Latin-1 and beyond, an improper list of integers of all sizes,
 * a map, a binary, a bit string, a float, a string, a pid, a port, a reference,
 * an external fun, the empty list and tuple. */
static const uint8_t by_otp[] = {
    0x68, 0x0f, 0x64, 0x00, 0x01, 0x61, 0x6c, 0x00, 0x00, 0x00, 0x06, 0x61, 0x01, 0x62, 0xff, 0xff,
    0xff, 0xff, 0x62, 0x00, 0x00, 0x01, 0x2c, 0x62, 0x00, 0x01, 0x11, 0x70, 0x6e, 0x09, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x40, 0x6e, 0x09, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x40, 0x64, 0x00, 0x04, 0x74, 0x61, 0x69, 0x6c, 0x74, 0x00, 0x00, 0x00, 0x02,
    0x61, 0x01, 0x6a, 0x64, 0x00, 0x01, 0x6b, 0x64, 0x00, 0x01, 0x76, 0x6d, 0x00, 0x00, 0x00, 0x03,
    0x62, 0x69, 0x6e, 0x4d, 0x00, 0x00, 0x00, 0x01, 0x03, 0xa0, 0x46, 0x3f, 0xf8, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x6b, 0x00, 0x03, 0x73, 0x74, 0x72, 0x6a, 0x64, 0x00, 0x01, 0xe9, 0x77, 0x03,
    0xe4, 0xb8, 0x80, 0x58, 0x64, 0x00, 0x0d, 0x6e, 0x6f, 0x6e, 0x6f, 0x64, 0x65, 0x40, 0x6e, 0x6f,
    0x68, 0x6f, 0x73, 0x74, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x59, 0x64, 0x00, 0x0d, 0x6e, 0x6f, 0x6e, 0x6f, 0x64, 0x65, 0x40, 0x6e, 0x6f, 0x68, 0x6f, 0x73,
    0x74, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x5a, 0x00, 0x03, 0x64, 0x00, 0x0d, 0x6e,
    0x6f, 0x6e, 0x6f, 0x64, 0x65, 0x40, 0x6e, 0x6f, 0x68, 0x6f, 0x73, 0x74, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x03, 0xd2, 0xa8, 0xcc, 0x30, 0x00, 0x02, 0x98, 0xa7, 0xf0, 0x9e, 0x71, 0x64, 0x00, 0x05,
    0x6c, 0x69, 0x73, 0x74, 0x73, 0x64, 0x00, 0x03, 0x6d, 0x61, 0x70, 0x61, 0x02, 0x68, 0x00,
};

static void test_length_of_otp_terms(void **state)
{
    (void)state;
    assert_int_equal(kymo_etf_length(by_otp, sizeof by_otp), sizeof by_otp);
    /* Following bytes are ignored; missing bytes are an error. */
    uint8_t longer[sizeof by_otp + 3] = {0};
    memcpy(longer, by_otp, sizeof by_otp);
    assert_int_equal(kymo_etf_length(longer, sizeof longer), sizeof by_otp);
    for (size_t n = 0; n < sizeof by_otp; n++)
        assert_int_equal(kymo_etf_length(by_otp, n), 0);
}

#define LENGTH(...) kymo_etf_length((const uint8_t[]){__VA_ARGS__}, sizeof(const uint8_t[]){__VA_ARGS__})

static void test_terms_that_erlang_refuses(void **state)
{
    (void)state;
    assert_int_equal(LENGTH(131, 97, 1), 0);                                    /* a version inside */
    assert_int_equal(LENGTH(80, 0, 0, 0, 9, 0x78, 0x9c), 0);                    /* compressed */
    assert_int_equal(LENGTH(70, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0), 0);              /* infinity */
    assert_int_equal(LENGTH(119, 2, 0xc3, 0x28), 0);                            /* not UTF-8 */
    assert_int_equal(LENGTH(119, 3, 0xed, 0xa0, 0x80), 0);                      /* a surrogate */
    assert_int_equal(LENGTH(119, 2, 0xc0, 0x80), 0);                            /* overlong */
    assert_int_equal(LENGTH(77, 0, 0, 0, 1, 9, 0), 0);                          /* nine bits in a byte */
    assert_int_equal(LENGTH(88, 97, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1), 0); /* a node that is no atom */
    assert_int_equal(LENGTH(105, 0xff, 0xff, 0xff, 0xff, 106), 0);              /* more elements than bytes */
    assert_int_equal(LENGTH(116, 0xff, 0xff, 0xff, 0xff, 106), 0);
    assert_int_equal(LENGTH(105, 0, 0, 0, 2, 106, 106), 7);
    assert_int_equal(LENGTH(108, 0, 0, 0, 0, 106), 6);
    /* Nested too deep for a recursive reader. */
    static uint8_t deep[4096];
    for (size_t i = 0; i + 2 < sizeof deep; i += 2) {
        deep[i] = 104;
        deep[i + 1] = 1;
    }
    deep[sizeof deep - 2] = 97;
    assert_int_equal(kymo_etf_length(deep, sizeof deep), 0);
    assert_int_equal(kymo_etf_length(deep + sizeof deep - 202, 202), 202);
}

static void expect(struct kymo_pb *b, const char *bytes, size_t n)
{
    assert_int_equal(b->n, n);
    assert_memory_equal(b->p, bytes, n);
    assert_int_equal(kymo_etf_length(b->p, b->n), n);
    kymo_pb_clear(b);
}

static void test_numbers(void **state)
{
    (void)state;
    struct kymo_pb b = {0};
    kymo_etf_int(&b, 0);
    expect(&b, "a\0", 2);
    kymo_etf_int(&b, 255);
    expect(&b, "a\377", 2);
    kymo_etf_int(&b, -1);
    expect(&b, "b\377\377\377\377", 5);
    kymo_etf_int(&b, INT32_MAX);
    expect(&b, "b\177\377\377\377", 5);
    kymo_etf_int(&b, INT64_C(2147483648));
    expect(&b, "n\4\0\0\0\0\200", 7);
    kymo_etf_int(&b, INT64_MIN);
    expect(&b, "n\10\1\0\0\0\0\0\0\0\200", 11);
    kymo_etf_uint(&b, UINT64_MAX);
    expect(&b, "n\10\0\377\377\377\377\377\377\377\377", 11);
    kymo_pb_free(&b);
}

static void test_atoms(void **state)
{
    (void)state;
    struct kymo_pb b = {0};
    static const uint8_t face[] = {0xf0, 0x9f, 0x98, 0x80};
    char text[1100];
    memset(text, 'x', sizeof text);
    kymo_etf_atom(&b, text, 255);
    assert_int_equal(b.n, 257);
    kymo_pb_clear(&b);
    /* An atom may have 255 characters of four bytes, but not 256 of one byte. */
    for (size_t i = 0; i < 255; i++)
        memcpy(text + 4 * i, face, sizeof face);
    kymo_etf_atom(&b, text, 1020);
    assert_int_equal(b.n, 1023);
    assert_int_equal(kymo_etf_length(b.p, b.n), 1023);
    kymo_pb_clear(&b);
    memset(text, 'x', sizeof text);
    kymo_etf_atom(&b, text, 256);
    expect(&b, "w\1?", 3);
    kymo_etf_atom(&b, "\377", 1);
    expect(&b, "w\1?", 3);
    kymo_etf_atom(&b, "", 0);
    expect(&b, "w\0", 2);
    kymo_pb_free(&b);
}

/* Whether binary_to_term/1 of these runtimes accepts it from its own node. */
static void test_readable(void **state)
{
    (void)state;
    static struct kymo_meta old = {.otp_release = "25", .node_len = 3, .node = "n@h"};
    static struct kymo_meta recent = {.otp_release = "27", .node_len = 3, .node = "n@h"};
#define READABLE(meta, ...) \
    kymo_etf_readable(&(meta), (const uint8_t[]){__VA_ARGS__}, sizeof(const uint8_t[]){__VA_ARGS__})
#define N_AT_H 119, 3, 'n', '@', 'h'
#define M_AT_H 119, 3, 'm', '@', 'h'
    assert_true(kymo_etf_readable(&recent, by_otp, sizeof by_otp));
    assert_false(kymo_etf_readable(&recent, by_otp, sizeof by_otp - 1));
    assert_false(READABLE(recent, 97, 1, 97));
    assert_false(READABLE(recent, 97));
    assert_false(kymo_etf_readable(&recent, by_otp, 0));
    /* Pids: 15 and 13 bits, then 28 and 32. */
    assert_true(READABLE(old, 88, N_AT_H, 0, 0, 0x7f, 0xff, 0, 0, 0x1f, 0xff, 0, 0, 0, 0));
    assert_false(READABLE(old, 88, N_AT_H, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    assert_false(READABLE(old, 88, N_AT_H, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0));
    assert_true(READABLE(old, 88, M_AT_H, 0, 0, 0x80, 0, 0, 0, 0x20, 0, 0, 0, 0, 0));
    assert_true(READABLE(recent, 88, N_AT_H, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0));
    assert_false(READABLE(recent, 88, N_AT_H, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    assert_true(READABLE(recent, 88, M_AT_H, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    assert_true(READABLE(recent, 88, 119, 4, 'n', 'n', '@', 'h', 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    assert_false(
        READABLE(recent, 104, 1, 88, 100, 0, 3, 'n', '@', 'h', 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    /* Ports: 28 bits, then 60. */
    assert_true(READABLE(old, 89, N_AT_H, 0x0f, 0xff, 0xff, 0xff, 0, 0, 0, 0));
    assert_false(READABLE(old, 89, N_AT_H, 0x10, 0, 0, 0, 0, 0, 0, 0));
    assert_true(READABLE(recent, 120, N_AT_H, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0));
    assert_false(READABLE(recent, 120, N_AT_H, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    /* References: 18 bits of the first word. */
    assert_true(READABLE(old, 90, 0, 1, N_AT_H, 0, 0, 0, 0, 0, 3, 0xff, 0xff));
    assert_false(READABLE(old, 90, 0, 1, N_AT_H, 0, 0, 0, 0, 0, 4, 0, 0));
    assert_true(READABLE(old, 90, 0, 1, M_AT_H, 0, 0, 0, 0, 0, 4, 0, 0));
    assert_false(READABLE(old, 90, 0, 4, N_AT_H, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    assert_true(
        READABLE(recent, 90, 0, 4, N_AT_H, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    /* Maps: #{1 => 1, 2 => 1}, #{1 => 1, 1 => 2}, and one inside a value. */
    assert_true(READABLE(recent, 116, 0, 0, 0, 2, 97, 1, 97, 1, 97, 2, 97, 1));
    assert_false(READABLE(recent, 116, 0, 0, 0, 2, 97, 1, 97, 1, 97, 1, 97, 2));
    assert_false(READABLE(recent, 116, 0, 0, 0, 1, 97, 1, 116, 0, 0, 0, 2, 106, 106, 106, 106));
    assert_true(READABLE(recent, 116, 0, 0, 0, 2, 106, 106, 104, 1, 106, 106));
    assert_false(READABLE(recent, 116, 0, 0, 0, 2, 106, 106, 97));
    /* Nested maps: the check terminates. */
    static uint8_t deep[400 * 9 + 1];
    size_t n = 0;
    for (unsigned i = 0; i < 400; i++) {
        static const uint8_t level[] = {116, 0, 0, 0, 2, 106, 106, 97, 1};
        memcpy(deep + n, level, sizeof level);
        n += sizeof level;
    }
    deep[n++] = 106;
    assert_int_equal(kymo_etf_length(deep, n), n);
    assert_false(kymo_etf_readable(&recent, deep, n));                    /* more than the recorder writes */
    assert_true(kymo_etf_readable(&recent, deep + 320 * 9, n - 320 * 9)); /* 80 of them */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_length_of_otp_terms),
        cmocka_unit_test(test_terms_that_erlang_refuses),
        cmocka_unit_test(test_readable),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_atoms),
    };
    return cmocka_run_group_tests_name("etf_write", tests, NULL, NULL);
}
