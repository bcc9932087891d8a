/* SPDX-License-Identifier: Apache-2.0
 *
 * OTLP over HTTP. libcurl is loaded when it is needed, so that the command runs without it
 * for everything else.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kymo_otlp.h"

/* A program without shared libraries can load none. */
#if __has_include(<curl/curl.h>) && !defined KYMO_STATIC

#include <curl/curl.h>
#include <dlfcn.h>

enum { ANSWER_MAX = 1 << 16, CONNECT_SECONDS = 10, POST_SECONDS = 60 };

/* Those of its functions that are used. */
struct curl_calls {
    void *library;
    __typeof__(curl_global_init) *global_init;
    __typeof__(curl_easy_init) *init;
    __typeof__(curl_easy_cleanup) *cleanup;
    CURLcode (*setopt)(CURL *, CURLoption, ...);
    CURLcode (*getinfo)(CURL *, CURLINFO, ...);
    __typeof__(curl_easy_perform) *perform;
    __typeof__(curl_easy_strerror) *strerror;
    __typeof__(curl_slist_append) *append;
    __typeof__(curl_slist_free_all) *free_all;
};

struct kymo_otlp_http {
    struct curl_calls c;
    CURL *curl;
    char *urls[2];                /* by signal */
    char *shown[2];               /* the same without secrets, for messages */
    enum kymo_otlp_signal signal; /* of the newest post */
    struct curl_slist *headers;
    char problem[CURL_ERROR_SIZE];
    char answer[ANSWER_MAX]; /* its beginning, NUL terminated */
    size_t answered;
    char why[256];        /* the collector's newest complaint */
    uint64_t rejected[2]; /* by signal */
    uint64_t no_metrics, bytes;
    bool accepted[2]; /* it has answered 200 before, by signal */
};

/* ---- the library ---- */

static int load(struct curl_calls *c, char *err, size_t err_size)
{
    static const char *const names[] = {"curl_global_init",   "curl_easy_init",    "curl_easy_cleanup",
                                        "curl_easy_setopt",   "curl_easy_getinfo", "curl_easy_perform",
                                        "curl_easy_strerror", "curl_slist_append", "curl_slist_free_all"};
    void **places[] = {(void **)&c->global_init, (void **)&c->init,    (void **)&c->cleanup,
                       (void **)&c->setopt,      (void **)&c->getinfo, (void **)&c->perform,
                       (void **)&c->strerror,    (void **)&c->append,  (void **)&c->free_all};
    c->library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    bool ok = c->library != NULL;
    for (size_t i = 0; ok && i < sizeof names / sizeof *names; i++) {
        *places[i] = dlsym(c->library, names[i]);
        ok = *places[i] != NULL;
    }
    if (ok)
        return 0;
    snprintf(err, err_size, "posting to a collector needs libcurl (Debian: libcurl4): %s", dlerror());
    if (c->library != NULL)
        dlclose(c->library);
    return -ENOSYS;
}

/* ---- open and close ---- */

static const char *const paths[] = {[KYMO_OTLP_SPANS] = "/v1/traces", [KYMO_OTLP_METRICS] = "/v1/metrics"};

static char *url_of(const char *url, enum kymo_otlp_signal signal)
{
    size_t n = strlen(url);
    while (n > 0 && url[n - 1] == '/')
        n--;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        size_t len = strlen(paths[i]);
        if (n >= len && memcmp(url + n - len, paths[i], len) == 0) {
            n -= len;
            break;
        }
    }
    char *whole = NULL;
    return asprintf(&whole, "%.*s%s", (int)n, url, paths[signal]) >= 0 ? whole : NULL;
}

static char *shown_url(const char *url)
{
    char *text = url != NULL ? strdup(url) : NULL;
    if (text != NULL)
        kymo_hide_secrets(text, false);
    return text;
}

static size_t on_answer(char *bytes, size_t size, size_t n, void *arg)
{
    struct kymo_otlp_http *h = arg;
    size_t room = sizeof h->answer - 1 - h->answered, take = size * n < room ? size * n : room;
    memcpy(h->answer + h->answered, bytes, take);
    h->answered += take;
    h->answer[h->answered] = '\0';
    return size * n;
}

static bool add_header(struct kymo_otlp_http *h, const char *text)
{
    struct curl_slist *more = h->c.append(h->headers, text);
    if (more == NULL)
        return false;
    h->headers = more;
    return true;
}

static int set_options(struct kymo_otlp_http *h, const struct kymo_otlp_collector *c)
{
    char agent[64];
    snprintf(agent, sizeof agent, "kymo/%s", c->version);
    CURLcode rc = h->c.setopt(h->curl, CURLOPT_URL, h->urls[KYMO_OTLP_SPANS]);
    rc = rc == CURLE_OK ? h->c.setopt(h->curl, CURLOPT_HTTPHEADER, h->headers) : rc;
    rc = rc == CURLE_OK ? h->c.setopt(h->curl, CURLOPT_USERAGENT, agent) : rc;
    rc = rc == CURLE_OK ? h->c.setopt(h->curl, CURLOPT_ERRORBUFFER, h->problem) : rc;
    rc = rc == CURLE_OK ? h->c.setopt(h->curl, CURLOPT_WRITEFUNCTION, on_answer) : rc;
    rc = rc == CURLE_OK ? h->c.setopt(h->curl, CURLOPT_WRITEDATA, h) : rc;
    rc = rc == CURLE_OK ? h->c.setopt(h->curl, CURLOPT_NOSIGNAL, 1L) : rc;
    rc = rc == CURLE_OK ? h->c.setopt(h->curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS) : rc;
    rc = rc == CURLE_OK ? h->c.setopt(h->curl, CURLOPT_TIMEOUT, (long)POST_SECONDS) : rc;
    if (c->cacert != NULL && rc == CURLE_OK)
        rc = h->c.setopt(h->curl, CURLOPT_CAINFO, c->cacert);
    return rc == CURLE_OK ? 0 : rc == CURLE_OUT_OF_MEMORY ? -ENOMEM : -EINVAL;
}

static int set_up(struct kymo_otlp_http *h, const struct kymo_otlp_collector *c)
{
    CURLcode rc = h->c.global_init(CURL_GLOBAL_DEFAULT);
    for (int i = 0; i < 2; i++) {
        h->urls[i] = url_of(c->url, (enum kymo_otlp_signal)i);
        h->shown[i] = shown_url(h->urls[i]);
    }
    h->curl = rc == CURLE_OK ? h->c.init() : NULL;
    /* Without Expect a line goes out at once. */
    bool ok = h->curl != NULL && h->shown[0] != NULL && h->shown[1] != NULL &&
              add_header(h, "Content-Type: application/json") && add_header(h, "Expect:");
    for (size_t i = 0; ok && i < c->n_headers; i++)
        ok = add_header(h, c->headers[i]);
    return ok ? set_options(h, c) : -ENOMEM;
}

int kymo_otlp_http_open(const struct kymo_otlp_collector *c, struct kymo_otlp_http **out, char *err,
                        size_t err_size)
{
    *out = NULL;
    if (strncmp(c->url, "http://", 7) != 0 && strncmp(c->url, "https://", 8) != 0) {
        /* Without a scheme it can't be told what is secret. */
        snprintf(err, err_size, "--endpoint: a collector's address begins with http:// or https://");
        return -EINVAL;
    }
    /* Such a password would be looked up as the name of a host. */
    const char *at = strrchr(c->url, '@'), *authority = strstr(c->url, "://") + 3;
    if (at != NULL && at > authority + strcspn(authority, "/?#")) {
        snprintf(err, err_size,
                 "--endpoint: in an address, / ? # and @ are separators: in a password, write them as "
                 "%%2F %%3F %%23 %%40, and @ in a path as %%40");
        return -EINVAL;
    }
    struct kymo_otlp_http *h = calloc(1, sizeof *h);
    int rc = h != NULL ? load(&h->c, err, err_size) : -ENOMEM;
    if (rc == 0 && (rc = set_up(h, c)) == -EINVAL)
        snprintf(err, err_size, "%s: libcurl rejects this address", h->shown[KYMO_OTLP_SPANS]);
    if (rc == -ENOMEM)
        snprintf(err, err_size, "not enough memory");
    if (rc != 0)
        kymo_otlp_http_close(h);
    else
        *out = h;
    return rc;
}

void kymo_otlp_http_close(struct kymo_otlp_http *h)
{
    if (h == NULL)
        return;
    if (h->curl != NULL)
        h->c.cleanup(h->curl);
    if (h->headers != NULL)
        h->c.free_all(h->headers);
    /* The library stays: it has global state of its own. */
    for (int i = 0; i < 2; i++) {
        free(h->urls[i]);
        free(h->shown[i]);
    }
    free(h);
}

/* ---- answers ---- */

/* The text behind "name": of a JSON object, without the quotes of a string; NULL: it has
 * no such member. Good enough for the two members of a small answer. */
static const char *member(const char *json, const char *name)
{
    const char *at = strstr(json, name);
    if (at == NULL)
        return NULL;
    at += strlen(name);
    at += strspn(at, " \t\r\n");
    if (*at != ':')
        return NULL;
    at++;
    at += strspn(at, " \t\r\n");
    return *at == '"' ? at + 1 : at;
}

/* What the collector says, on one line, safe on a terminal. */
static void note_words(struct kymo_otlp_http *h, const char *words, char end)
{
    size_t n = 0;
    for (; *words != '\0' && *words != end && n + 1 < sizeof h->why; words++) {
        if (*words == '\\' && words[1] != '\0')
            words++;
        h->why[n++] = (unsigned char)*words < 32 || *words == 127 ? ' ' : *words;
    }
    h->why[n] = '\0';
}

static void look_for_rejected(struct kymo_otlp_http *h, enum kymo_otlp_signal signal)
{
    const char *count =
        member(h->answer, signal == KYMO_OTLP_SPANS ? "\"rejectedSpans\"" : "\"rejectedDataPoints\"");
    const char *message = member(h->answer, "\"errorMessage\"");
    uint64_t rejected = count != NULL ? strtoull(count, NULL, 10) : 0;
    if (rejected == 0)
        return;
    h->rejected[signal] += rejected;
    if (message != NULL)
        note_words(h, message, '"');
}

/* A receiver of spans only has no such address. */
static bool takes_none(long status)
{
    return status == 404 || status == 405 || status == 501;
}

static bool is_transient(long status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

/* ---- posting ---- */

/* One try. The HTTP status, or 0 with a reason in h->problem. */
static long post(struct kymo_otlp_http *h, const char *line, size_t n)
{
    long status = 0;
    h->answered = 0;
    h->answer[0] = h->problem[0] = '\0';
    CURLcode rc = h->c.setopt(h->curl, CURLOPT_URL, h->urls[h->signal]);
    if (rc == CURLE_OK)
        rc = h->c.setopt(h->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
    if (rc == CURLE_OK)
        rc = h->c.setopt(h->curl, CURLOPT_POSTFIELDS, line);
    if (rc == CURLE_OK)
        rc = h->c.perform(h->curl);
    if (rc == CURLE_OK)
        rc = h->c.getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
    if (rc != CURLE_OK && h->problem[0] == '\0')
        snprintf(h->problem, sizeof h->problem, "%s", h->c.strerror(rc));
    return rc == CURLE_OK ? status : 0;
}

/* Seconds until the next try, by what the collector asks for, or doubled each time. */
static int64_t wait_for(const struct kymo_otlp_http *h, long status, int tries)
{
    curl_off_t asked = 0;
    if (status != 0 && h->c.getinfo(h->curl, CURLINFO_RETRY_AFTER, &asked) == CURLE_OK && asked > 0)
        return asked;
    return INT64_C(1) << (tries - 1);
}

static int refused(struct kymo_otlp_http *h, long status, int tries, char *err, size_t err_size)
{
    if (status == 0) {
        snprintf(err, err_size, "%s: %s", h->shown[h->signal], h->problem);
    } else {
        const char *message = member(h->answer, "\"message\"");
        note_words(h, message != NULL ? message : h->answer, message != NULL ? '"' : '\n');
        char times[32] = "";
        if (tries > 1)
            snprintf(times, sizeof times, " (%d tries)", tries);
        snprintf(err, err_size, "%s: the collector answered %ld%s%s%s", h->shown[h->signal], status, times,
                 h->why[0] != '\0' ? ": " : "", h->why);
    }
    return -ECOMM;
}

static int put_line(void *arg, enum kymo_otlp_signal signal, const char *line, size_t n, size_t items,
                    char *err, size_t err_size)
{
    struct kymo_otlp_http *h = arg;
    bool metrics = signal == KYMO_OTLP_METRICS;
    if (metrics && h->no_metrics > 0) {
        h->no_metrics += items;
        return 0;
    }
    h->signal = signal;
    for (int tries = 1;; tries++) {
        long status = post(h, line, n);
        if (status >= 200 && status < 300) {
            h->accepted[signal] = true;
            h->bytes += n;
            look_for_rejected(h, signal);
            return 0;
        }
        if (metrics && takes_none(status) && !h->accepted[signal]) {
            h->no_metrics = items;
            return 0;
        }
        bool accepted = h->accepted[KYMO_OTLP_SPANS] || h->accepted[KYMO_OTLP_METRICS];
        bool again = is_transient(status) || (status == 0 && accepted);
        int64_t seconds = wait_for(h, status, tries);
        if (!again || tries == KYMO_OTLP_TRIES || seconds > KYMO_OTLP_WAIT_SECONDS)
            return refused(h, status, tries, err, err_size);
        struct timespec left = {.tv_sec = seconds};
        while (nanosleep(&left, &left) != 0 && errno == EINTR)
            ;
    }
}

struct kymo_otlp_target kymo_otlp_http_target(struct kymo_otlp_http *h)
{
    return (struct kymo_otlp_target){.arg = h, .put = put_line};
}

uint64_t kymo_otlp_http_rejected(const struct kymo_otlp_http *h, enum kymo_otlp_signal signal,
                                 const char **why)
{
    *why = h->why;
    return h->rejected[signal];
}

uint64_t kymo_otlp_http_no_metrics(const struct kymo_otlp_http *h)
{
    return h->no_metrics;
}

uint64_t kymo_otlp_http_bytes(const struct kymo_otlp_http *h)
{
    return h->bytes;
}

#else

int kymo_otlp_http_open(const struct kymo_otlp_collector *c, struct kymo_otlp_http **out, char *err,
                        size_t err_size)
{
    (void)c;
    *out = NULL;
    snprintf(
        err, err_size,
        "--endpoint: this kymo was built without libcurl: write a file with -o and post that, or build kymo "
        "with libcurl's headers (Debian: libcurl4-openssl-dev)");
    return -ENOSYS;
}

struct kymo_otlp_target kymo_otlp_http_target(struct kymo_otlp_http *h)
{
    return (struct kymo_otlp_target){.arg = h};
}

uint64_t kymo_otlp_http_rejected(const struct kymo_otlp_http *h, enum kymo_otlp_signal signal,
                                 const char **why)
{
    (void)h;
    (void)signal;
    *why = "";
    return 0;
}

uint64_t kymo_otlp_http_no_metrics(const struct kymo_otlp_http *h)
{
    (void)h;
    return 0;
}

uint64_t kymo_otlp_http_bytes(const struct kymo_otlp_http *h)
{
    (void)h;
    return 0;
}

void kymo_otlp_http_close(struct kymo_otlp_http *h)
{
    (void)h;
}

#endif
