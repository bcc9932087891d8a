/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of HTTP/1.x as kymo live needs them: a method, a path, and who asks. Strict: what
 * is not plainly right is refused. Pure functions, any thread.
 */
#ifndef KYMO_REPORT_HTTP_REQUEST_H
#define KYMO_REPORT_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of a request line with all headers. */
#define HTTP_REQUEST_MAX 8192u

/* Points into the bytes that were parsed; not terminated. */
struct http_text {
    const char *s; /* NULL: there is none */
    size_t n;
};

struct http_request {
    bool head;               /* HEAD, else GET */
    struct http_text target; /* "/path?query" */
    struct http_text host, origin;
};

enum http_parsed {
    HTTP_MORE = 0,        /* so far it is good: the end is missing */
    HTTP_DONE = 200,      /* *out is filled in */
    HTTP_BAD = 400,       /* not a request, or one with two hosts or none */
    HTTP_METHOD = 405,    /* neither GET nor HEAD */
    HTTP_TOO_LARGE = 431, /* longer than HTTP_REQUEST_MAX */
    HTTP_VERSION = 505    /* not HTTP/1.x */
};

/* The n bytes that have come so far. */
enum http_parsed http_parse(const char *bytes, size_t n, struct http_request *out);
bool http_text_is(struct http_text t, const char *text);
/* Whether the request is for this server, on 127.0.0.1, and no page of another origin has
 * made it. A name that an attacker's DNS has pointed here is another host. */
bool http_is_ours(const struct http_request *r, unsigned port);

#endif
