/* SPDX-License-Identifier: Apache-2.0 */
#include "http_request.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- pieces ---- */

/* Characters of methods and names of headers. */
static bool is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static size_t token(struct http_text line)
{
    size_t n = 0;
    while (n < line.n && is_token(line.s[n]))
        n++;
    return n;
}

bool http_text_is(struct http_text t, const char *text)
{
    return t.s != NULL && t.n == strlen(text) && memcmp(t.s, text, t.n) == 0;
}

static bool is_header(struct http_text name, const char *text)
{
    return name.n == strlen(text) && strncasecmp(name.s, text, name.n) == 0;
}

/* Removes the next line, which ends with CR LF, from *rest. Returns false if its end is missing. */
static bool take_line(struct http_text *rest, struct http_text *line)
{
    const char *end = memchr(rest->s, '\n', rest->n);
    if (end == NULL)
        return false;
    *line = (struct http_text){rest->s, (size_t)(end - rest->s)};
    rest->n -= line->n + 1;
    rest->s = end + 1;
    return true;
}

/* Removes the CR at the end of the line, which must be its only one. */
static bool cut_cr(struct http_text *line)
{
    if (line->n == 0 || line->s[line->n - 1] != '\r')
        return false;
    line->n--;
    return memchr(line->s, '\r', line->n) == NULL && memchr(line->s, '\0', line->n) == NULL;
}

/* ---- lines ---- */

static enum http_parsed request_line(struct http_text line, struct http_request *out)
{
    size_t method = token(line);
    if (method == 0 || method == line.n || line.s[method] != ' ')
        return HTTP_BAD;
    struct http_text name = {line.s, method}, rest = {line.s + method + 1, line.n - method - 1};
    const char *space = memchr(rest.s, ' ', rest.n);
    if (space == NULL || space == rest.s || *rest.s != '/')
        return HTTP_BAD;
    out->target = (struct http_text){rest.s, (size_t)(space - rest.s)};
    for (size_t i = 0; i < out->target.n; i++) {
        if (rest.s[i] <= 32 || rest.s[i] >= 127)
            return HTTP_BAD;
    }
    struct http_text version = {space + 1, rest.n - out->target.n - 1};
    if (version.n < 5 || memcmp(version.s, "HTTP/", 5) != 0)
        return HTTP_BAD;
    if (!http_text_is(version, "HTTP/1.1") && !http_text_is(version, "HTTP/1.0"))
        return HTTP_VERSION;
    out->head = http_text_is(name, "HEAD");
    return out->head || http_text_is(name, "GET") ? HTTP_DONE : HTTP_METHOD;
}

/* Stores the value of a header, which may occur only once. */
static bool keep(struct http_text *where, struct http_text value)
{
    if (where->s != NULL)
        return false;
    *where = value;
    return true;
}

static bool header_line(struct http_text line, struct http_request *out)
{
    size_t n = token(line);
    if (n == 0 || n == line.n || line.s[n] != ':')
        return false;
    struct http_text name = {line.s, n}, value = {line.s + n + 1, line.n - n - 1};
    while (value.n > 0 && (*value.s == ' ' || *value.s == '\t')) {
        value.s++;
        value.n--;
    }
    while (value.n > 0 && (value.s[value.n - 1] == ' ' || value.s[value.n - 1] == '\t'))
        value.n--;
    if (is_header(name, "Host"))
        return keep(&out->host, value);
    if (is_header(name, "Origin"))
        return keep(&out->origin, value);
    return true;
}

enum http_parsed http_parse(const char *bytes, size_t n, struct http_request *out)
{
    struct http_text rest = {bytes, n < HTTP_REQUEST_MAX ? n : HTTP_REQUEST_MAX}, line;
    enum http_parsed unfinished = n < HTTP_REQUEST_MAX ? HTTP_MORE : HTTP_TOO_LARGE;
    memset(out, 0, sizeof *out);
    if (!take_line(&rest, &line))
        return unfinished;
    if (!cut_cr(&line))
        return HTTP_BAD;
    enum http_parsed rc = request_line(line, out);
    if (rc != HTTP_DONE)
        return rc;
    for (;;) {
        if (!take_line(&rest, &line))
            return unfinished;
        if (!cut_cr(&line))
            return HTTP_BAD;
        if (line.n == 0)
            return out->host.s != NULL ? HTTP_DONE : HTTP_BAD;
        if (!header_line(line, out))
            return HTTP_BAD;
    }
}

/* ---- origin of the request ---- */

static bool is_of(const struct http_request *r, const char *host)
{
    char origin[48];
    snprintf(origin, sizeof origin, "http://%s", host);
    return http_text_is(r->host, host) && (r->origin.s == NULL || http_text_is(r->origin, origin));
}

bool http_is_ours(const struct http_request *r, unsigned port)
{
    enum { PORT_OF_HTTP = 80 }; /* browsers omit this port */
    static const char *const names[] = {"127.0.0.1", "localhost"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char host[32];
        snprintf(host, sizeof host, "%s:%u", names[i], port);
        if (is_of(r, host) || (port == PORT_OF_HTTP && is_of(r, names[i])))
            return true;
    }
    return false;
}
