/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses HTTP/1.x requests as far as kymo live needs them: method, path, host and origin. Strict:
 * anything that is not clearly correct is refused. Pure functions, for any thread.
 */
#ifndef KYMO_REPORT_HTTP_REQUEST_H
#define KYMO_REPORT_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

/* Maximum size of a request line with all headers. */
#define HTTP_REQUEST_MAX 8192u

/* Points into the bytes that were parsed; not terminated. */
struct http_text {
    const char *s; /* NULL: none */
    size_t n;
};

struct http_request {
    bool head;               /* HEAD, else GET */
    struct http_text target; /* "/path?query" */
    struct http_text host, origin;
};

enum http_parsed {
    HTTP_MORE = 0,        /* valid so far, but incomplete */
    HTTP_DONE = 200,      /* *out is filled in */
    HTTP_BAD = 400,       /* not a request, or not exactly one host */
    HTTP_METHOD = 405,    /* neither GET nor HEAD */
    HTTP_TOO_LARGE = 431, /* longer than HTTP_REQUEST_MAX */
    HTTP_VERSION = 505    /* not HTTP/1.x */
};

/* Parses the n bytes received so far. */
enum http_parsed http_parse(const char *bytes, size_t n, struct http_request *out);
bool http_text_is(struct http_text t, const char *text);
/* Whether the request is for this server on 127.0.0.1 and was not made by a page of another origin.
 * This also refuses DNS rebinding, because the host is then the attacker's name. */
bool http_is_ours(const struct http_request *r, unsigned port);

#endif
