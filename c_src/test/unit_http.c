/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of requests to kymo live: which are accepted and which are refused, however a request is split
 * into pieces.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http_request.h"

static enum http_parsed parse(const char *text, struct http_request *r)
{
    return http_parse(text, strlen(text), r);
}

static void taken(void **state)
{
    (void)state;
    struct http_request r;
    assert_int_equal(parse("GET /a/b?c HTTP/1.1\r\nHost: 127.0.0.1:80\r\nX-Y:\t z \r\n\r\n", &r), HTTP_DONE);
    assert_false(r.head);
    assert_true(http_text_is(r.target, "/a/b?c"));
    assert_true(http_text_is(r.host, "127.0.0.1:80"));
    assert_null(r.origin.s);
    assert_int_equal(parse("HEAD / HTTP/1.0\r\nhOST:x\r\nORIGIN: http://y \r\n\r\nrest", &r), HTTP_DONE);
    assert_true(r.head);
    assert_true(http_text_is(r.host, "x"));
    assert_true(http_text_is(r.origin, "http://y"));
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum http_parsed why;
    } cases[] = {
        {"\r\n", HTTP_BAD},
        {"GET\r\n", HTTP_BAD},
        {"GET / \r\n", HTTP_BAD},
        {"GET  / HTTP/1.1\r\n", HTTP_BAD},
        {"GET / HTTP/1.1\n", HTTP_BAD},
        {"GET http://127.0.0.1/ HTTP/1.1\r\n", HTTP_BAD},
        {"GET /\x80 HTTP/1.1\r\n", HTTP_BAD},
        {"GET /\t HTTP/1.1\r\n", HTTP_BAD},
        {"GET / HTTP/2.0\r\n", HTTP_VERSION},
        {"GET / HTTP/1.1 \r\n", HTTP_VERSION},
        {"GET / SSH\r\n", HTTP_BAD},
        {"POST / HTTP/1.1\r\n", HTTP_METHOD},
        {"get / HTTP/1.1\r\n", HTTP_METHOD},
        {"GET / HTTP/1.1\r\n\r\n", HTTP_BAD},
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", HTTP_BAD},
        {"GET / HTTP/1.1\r\nHost: a\r\nOrigin: b\r\norigin: b\r\n\r\n", HTTP_BAD},
        {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", HTTP_BAD},
        {"GET / HTTP/1.1\r\nHost\r\n\r\n", HTTP_BAD},
        {"GET / HTTP/1.1\r\n: a\r\n\r\n", HTTP_BAD},
        {"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", HTTP_BAD},
        {"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", HTTP_BAD},
        {"GET / HTTP/1.1\r\nHost: a\n\r\n", HTTP_BAD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct http_request r;
        assert_int_equal(parse(cases[i].text, &r), cases[i].why);
    }
    struct http_request r;
    static const char nul[] = "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n";
    assert_int_equal(http_parse(nul, sizeof nul - 1, &r), HTTP_BAD);
}

static void too_large(void **state)
{
    (void)state;
    struct http_request r;
    char *text = malloc(HTTP_REQUEST_MAX + 1000);
    assert_non_null(text);
    memset(text, 'a', HTTP_REQUEST_MAX + 1000);
    assert_int_equal(http_parse(text, HTTP_REQUEST_MAX - 1, &r), HTTP_MORE);
    assert_int_equal(http_parse(text, HTTP_REQUEST_MAX, &r), HTTP_TOO_LARGE);
    /* The rest of the text goes on with the value. NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
    memcpy(text, "GET / HTTP/1.1\r\nHost: a\r\nX: ", 28);
    assert_int_equal(http_parse(text, HTTP_REQUEST_MAX - 1, &r), HTTP_MORE);
    assert_int_equal(http_parse(text, HTTP_REQUEST_MAX + 1000, &r), HTTP_TOO_LARGE);
    free(text);
}

/* Each prefix of a valid request needs more bytes, and what follows the request does not change the
 * result. */
static void in_pieces(void **state)
{
    (void)state;
    static const char text[] = "GET /x HTTP/1.1\r\nHost: 127.0.0.1:1\r\nOrigin: http://127.0.0.1:1\r\n\r\n";
    struct http_request r;
    for (size_t n = 0; n < sizeof text - 1; n++)
        assert_int_equal(http_parse(text, n, &r), HTTP_MORE);
    assert_int_equal(http_parse(text, sizeof text - 1, &r), HTTP_DONE);
}

static void ours(void **state)
{
    (void)state;
    static const struct {
        const char *headers;
        bool ours;
    } cases[] = {
        {"Host: 127.0.0.1:8080", true},
        {"Host: localhost:8080", true},
        {"Host: 127.0.0.1:8080\r\nOrigin: http://127.0.0.1:8080", true},
        {"Host: 127.0.0.1", false},
        {"Host: 127.0.0.1:80800", false},
        {"Host: 127.0.0.1:808", false},
        {"Host: ", false},
        {"Host: evil.example:8080", false},
        {"Host: 127.0.0.1:8080.evil.example", false},
        {"Host: 127.0.0.1:8080\r\nOrigin: http://evil.example", false},
        {"Host: 127.0.0.1:8080\r\nOrigin: http://localhost:8080", false},
        {"Host: 127.0.0.1:8080\r\nOrigin: https://127.0.0.1:8080", false},
        {"Host: 127.0.0.1:8080\r\nOrigin: null", false},
        {"Host: 127.0.0.1:8080\r\nOrigin:", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        struct http_request r;
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\n%s\r\n\r\n", cases[i].headers);
        assert_int_equal(parse(text, &r), HTTP_DONE);
        assert_int_equal(http_is_ours(&r, 8080), cases[i].ours);
    }
}

/* Browsers omit the default port of HTTP. */
static void port_of_http(void **state)
{
    (void)state;
    static const char *const good[] = {"Host: 127.0.0.1", "Host: localhost", "Host: 127.0.0.1:80",
                                       "Host: 127.0.0.1\r\nOrigin: http://127.0.0.1"};
    static const char *const bad[] = {"Host: 127.0.0.1:8080", "Host: evil.example",
                                      "Host: 127.0.0.1:", "Host: 127.0.0.1\r\nOrigin: http://localhost",
                                      "Host: 127.0.0.1\r\nOrigin: https://127.0.0.1"};
    for (size_t i = 0; i < sizeof good / sizeof *good + sizeof bad / sizeof *bad; i++) {
        bool is_good = i < sizeof good / sizeof *good;
        char text[256];
        struct http_request r;
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\n%s\r\n\r\n",
                 is_good ? good[i] : bad[i - sizeof good / sizeof *good]);
        assert_int_equal(parse(text, &r), HTTP_DONE);
        assert_int_equal(http_is_ours(&r, 80), is_good);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(taken),     cmocka_unit_test(refused),
                                       cmocka_unit_test(too_large), cmocka_unit_test(in_pieces),
                                       cmocka_unit_test(ours),      cmocka_unit_test(port_of_http)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
