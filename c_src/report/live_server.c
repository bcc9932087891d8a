/* SPDX-License-Identifier: Apache-2.0
 *
 * Each connection goes through these states in this order; WAITING may be skipped:
 *   READING    the request is being received
 *   WAITING    the request is for a report that does not exist yet
 *   WRITING    the response is being sent
 *   DRAINING   the response has been sent. Data that the client still sends is discarded for a short
 *              time, because closing the socket with unread data could reset the connection before
 *              the client has read the response.
 */
#include "live_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "http_request.h"
#include "kymo_cli.h"
#include "page.h"

/* WANT_MS: how often live_data_want is called while connections wait; less than the time for which a
 * call is valid. */
enum { SECOND_MS = 1000, WANT_MS = 5 * SECOND_MS, REST_MS = 200, TOKEN = 32, PIECES = 4, HEADERS = 1024 };
enum state { FREE = 0, READING, WAITING, WRITING, DRAINING };

struct connection {
    enum state state;
    int fd;
    int64_t begun, deadline; /* ms */
    char in[HTTP_REQUEST_MAX];
    size_t n_in;
    char headers[HEADERS];
    struct iovec out[PIECES]; /* the unsent rest of the response */
    bool head;                /* only the headers are wanted */
    uint64_t newer;           /* WAITING: for a report with a number above this */
    struct live_report *report;
};

struct live_server {
    int fd, signals, wake;
    int64_t accept_at; /* ms: no connection is accepted before */
    unsigned port;
    char token[TOKEN + 1], url[96];
    unsigned char *page; /* the head of the page, which may connect to this server */
    struct live_data *data;
    struct connection connections[LIVE_CONNECTIONS];
};

static int64_t clock_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * SECOND_MS + t.tv_nsec / 1000000;
}

/* ---- responses ---- */

static void go_on(struct connection *c, enum state state, int64_t ms)
{
    c->state = state;
    c->deadline = clock_ms() + ms;
}

static void answer(struct connection *c, const char *status, const char *type, const struct iovec *body,
                   size_t n_body, const char *more)
{
    size_t length = 0;
    for (size_t i = 0; i < n_body; i++)
        length += body[i].iov_len;
    int n = snprintf(c->headers, sizeof c->headers,
                     "HTTP/1.1 %s\r\n"
                     "Content-Type: %s; charset=utf-8\r\n"
                     "Content-Length: %zu\r\n"
                     "Connection: close\r\n"
                     "Cache-Control: no-store\r\n"
                     "Referrer-Policy: no-referrer\r\n"
                     "X-Content-Type-Options: nosniff\r\n"
                     "X-Frame-Options: DENY\r\n"
                     "Cross-Origin-Resource-Policy: same-origin\r\n"
                     "Cross-Origin-Opener-Policy: same-origin\r\n"
                     "%s\r\n",
                     status, type, length, more);
    c->out[0] = (struct iovec){c->headers, (size_t)n};
    for (size_t i = 1; i < PIECES; i++)
        c->out[i] = !c->head && i <= n_body ? body[i - 1] : (struct iovec){NULL, 0};
    go_on(c, WRITING, 30 * SECOND_MS);
}

static void refuse(struct connection *c, enum http_parsed why)
{
    static const struct {
        enum http_parsed why;
        const char *status, *more;
    } table[] = {{HTTP_METHOD, "405 Method Not Allowed", "Allow: GET, HEAD\r\n"},
                 {HTTP_TOO_LARGE, "431 Request Header Fields Too Large", ""},
                 {HTTP_VERSION, "505 HTTP Version Not Supported", ""},
                 {HTTP_BAD, "400 Bad Request", ""}};
    size_t i = 0;
    while (table[i].why != why && table[i].why != HTTP_BAD)
        i++;
    c->head = true;
    const struct iovec nothing = {NULL, 0};
    answer(c, table[i].status, "text/plain", &nothing, 1, table[i].more);
}

static void say(struct connection *c, const char *status, const char *text)
{
    const struct iovec body = {(void *)text, strlen(text)};
    answer(c, status, "text/plain", &body, 1, "");
}

static void send_page(const struct live_server *s, struct connection *c)
{
    static char comes_later[] = "{\"live\":null}";
    const struct iovec body[] = {{s->page, report_page_head_size},
                                 {comes_later, sizeof comes_later - 1},
                                 {(void *)report_page_tail, report_page_tail_size}};
    answer(c, "200 OK", "text/html", body, 3, "");
}

static void send_report(struct connection *c)
{
    const struct iovec body = {c->report->json, c->report->n};
    char number[64];
    snprintf(number, sizeof number, "Kymo-Report: %" PRIu64 "\r\n", c->report->number);
    answer(c, "200 OK", "application/json", &body, 1, number);
}

static void send_nothing_new(struct connection *c)
{
    static char none[] = "null";
    const struct iovec body = {none, sizeof none - 1};
    answer(c, "200 OK", "application/json", &body, 1, "");
}

/* Answers with the newest report if the client does not have it yet. */
static void try_report(struct live_server *s, struct connection *c)
{
    struct live_report *r = live_data_get(s->data);
    if (r != NULL && (r->number > c->newer || r->over)) {
        c->report = r;
        send_report(c);
        return;
    }
    if (r != NULL)
        live_data_release(s->data, r);
}

/* Compares in constant time, so that timing does not reveal how much of a token is correct. */
static bool is_token(const struct live_server *s, struct http_text t)
{
    unsigned different = 0;
    if (t.n < TOKEN + 2 || t.s[0] != '/' || t.s[TOKEN + 1] != '/')
        return false;
    for (size_t i = 0; i < TOKEN; i++)
        different |= (unsigned)(unsigned char)(t.s[i + 1] ^ s->token[i]);
    return different == 0;
}

/* "data" or "data?NUMBER" */
static bool is_data(struct http_text path, uint64_t *newer)
{
    char text[32];
    *newer = 0;
    if (path.n < 4 || memcmp(path.s, "data", 4) != 0 || path.n >= sizeof text)
        return false;
    if (path.n == 4)
        return true;
    memcpy(text, path.s + 5, path.n - 5);
    text[path.n - 5] = '\0';
    return path.s[4] == '?' && cli_parse_number(text, newer);
}

static void handle(struct live_server *s, struct connection *c, const struct http_request *r)
{
    c->head = r->head;
    if (!http_is_ours(r, s->port)) {
        say(c, "403 Forbidden",
            "This server answers its own page only, at the address that kymo live printed.\n");
        return;
    }
    struct http_text path = r->target;
    bool known = is_token(s, path);
    if (known) {
        path.s += TOKEN + 2;
        path.n -= TOKEN + 2;
    }
    if (known && path.n == 0) {
        live_data_want(s->data);
        send_page(s, c);
    } else if (known && is_data(path, &c->newer)) {
        live_data_want(s->data);
        go_on(c, WAITING, 30 * SECOND_MS);
        try_report(s, c);
    } else {
        say(c, "404 Not Found", "Nothing is here: use the address that kymo live printed.\n");
    }
}

/* ---- connections ---- */

static void drop(struct live_server *s, struct connection *c)
{
    if (c->report != NULL)
        live_data_release(s->data, c->report);
    close(c->fd);
    memset(c, 0, offsetof(struct connection, in));
    c->n_in = 0;
    c->report = NULL;
}

static void read_request(struct live_server *s, struct connection *c)
{
    struct http_request r;
    ssize_t n = recv(c->fd, c->in + c->n_in, sizeof c->in - c->n_in, 0);
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            drop(s, c);
        return;
    }
    c->n_in += (size_t)n;
    enum http_parsed parsed = http_parse(c->in, c->n_in, &r);
    if (parsed == HTTP_DONE)
        handle(s, c, &r);
    else if (parsed != HTTP_MORE)
        refuse(c, parsed);
}

static void write_answer(struct live_server *s, struct connection *c)
{
    struct msghdr m = {.msg_iov = c->out, .msg_iovlen = PIECES};
    ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            drop(s, c);
        return;
    }
    size_t left = 0;
    for (size_t i = 0; i < PIECES; i++) {
        size_t done = (size_t)n < c->out[i].iov_len ? (size_t)n : c->out[i].iov_len;
        c->out[i].iov_base = done > 0 ? (char *)c->out[i].iov_base + done : c->out[i].iov_base;
        c->out[i].iov_len -= done;
        n -= (ssize_t)done;
        left += c->out[i].iov_len;
    }
    if (left > 0)
        return;
    (void)shutdown(c->fd, SHUT_WR);
    go_on(c, DRAINING, SECOND_MS);
}

static void drain(struct live_server *s, struct connection *c)
{
    char scrap[4096];
    ssize_t n = recv(c->fd, scrap, sizeof scrap, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        drop(s, c);
}

/* A place for a new connection; closes the oldest connection if there is none. */
static struct connection *place(struct live_server *s)
{
    struct connection *oldest = &s->connections[0];
    for (int i = 0; i < LIVE_CONNECTIONS; i++) {
        struct connection *c = &s->connections[i];
        if (c->state == FREE)
            return c;
        if (c->begun < oldest->begun)
            oldest = c;
    }
    drop(s, oldest);
    return oldest;
}

static void take_newcomer(struct live_server *s)
{
    int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        /* If descriptors or memory are exhausted, the connection stays in the queue, and poll would
         * return immediately. */
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            s->accept_at = clock_ms() + REST_MS;
        return;
    }
    struct connection *c = place(s);
    c->fd = fd;
    c->begun = clock_ms();
    go_on(c, READING, 5 * SECOND_MS);
}

static void serve(struct live_server *s, struct connection *c)
{
    switch (c->state) {
    case READING: read_request(s, c); break;
    case WRITING: write_answer(s, c); break;
    case WAITING: /* it has closed the connection, or sends unexpected data */
    case DRAINING: drain(s, c); break;
    default: break;
    }
}

/* ---- the loop ---- */

/* Ends connections that have reached their deadline. Returns the ms until the next deadline, or -1. */
static int end_late(struct live_server *s)
{
    int64_t now = clock_ms(), next = -1;
    for (int i = 0; i < LIVE_CONNECTIONS; i++) {
        struct connection *c = &s->connections[i];
        if (c->state != FREE && c->deadline <= now) {
            if (c->state == WAITING)
                send_nothing_new(c);
            else
                drop(s, c);
        }
        int64_t left = c->deadline - now;
        if (c->state == WAITING) {
            live_data_want(s->data);
            left = left < WANT_MS ? left : WANT_MS;
        }
        if (c->state != FREE && (next < 0 || left < next))
            next = left;
    }
    return (int)next;
}

/* The poll entries: signals, reports, new connections, and open connections. Only used entries are
 * passed, because poll fails with more entries than the limit of descriptors. */
struct waiting {
    struct pollfd p[3 + LIVE_CONNECTIONS];
    struct connection *of[3 + LIVE_CONNECTIONS];
    nfds_t n;
};

static void add(struct waiting *w, int fd, short events, struct connection *c)
{
    w->of[w->n] = c;
    w->p[w->n++] = (struct pollfd){.fd = fd, .events = events};
}

/* poll(2) has failed. With fewer descriptors or more memory it may succeed later; until then a signal still
 * ends the server. Returns 0, or -errno if it will never succeed, as under a filter of system calls. */
static int rest(struct live_server *s, struct waiting *w)
{
    struct signalfd_siginfo sig;
    int rc = errno;
    for (nfds_t i = 0; i < w->n; i++)
        w->p[i].revents = 0;
    if (rc == EINTR)
        return 0;
    if (rc != EINVAL && rc != ENOMEM && rc != EAGAIN)
        return -rc;
    if (read(s->signals, &sig, sizeof sig) == (ssize_t)sizeof sig)
        w->p[0].revents = POLLIN;
    (void)nanosleep(&(struct timespec){.tv_nsec = REST_MS * 1000000L}, NULL);
    return 0;
}

/* Returns 0, with nothing ready if poll was interrupted, or -errno. */
static int wait_for_any(struct live_server *s, struct waiting *w)
{
    int timeout = end_late(s);
    int64_t resting = s->accept_at - clock_ms();
    if (resting > 0 && (timeout < 0 || timeout > resting))
        timeout = (int)resting;
    w->n = 0;
    add(w, s->signals, POLLIN, NULL);
    add(w, s->wake, POLLIN, NULL);
    add(w, resting > 0 ? -1 : s->fd, POLLIN, NULL);
    for (int i = 0; i < LIVE_CONNECTIONS; i++) {
        struct connection *c = &s->connections[i];
        if (c->state != FREE)
            add(w, c->fd, c->state == WRITING ? POLLOUT : POLLIN, c);
    }
    return poll(w->p, w->n, timeout) >= 0 ? 0 : rest(s, w);
}

int live_server_run(struct live_server *s, struct live_data *data)
{
    struct waiting w;
    s->data = data;
    int rc;
    while ((rc = wait_for_any(s, &w)) == 0) {
        if (w.p[0].revents != 0)
            break;
        for (nfds_t i = 3; i < w.n; i++) {
            if (w.p[i].revents != 0)
                serve(s, w.of[i]);
        }
        if (w.p[1].revents != 0) {
            uint64_t n;
            (void)!read(s->wake, &n, sizeof n);
            for (int i = 0; i < LIVE_CONNECTIONS; i++) {
                if (s->connections[i].state == WAITING)
                    try_report(s, &s->connections[i]);
            }
        }
        if (w.p[2].revents != 0)
            take_newcomer(s);
    }
    for (int i = 0; i < LIVE_CONNECTIONS; i++) {
        if (s->connections[i].state != FREE)
            drop(s, &s->connections[i]);
    }
    return rc == 0 ? KYMO_EXIT_OK
                   : cli_fail(KYMO_EXIT_WRITE,
                              "the system call poll is refused (%s), probably by a filter of system "
                              "calls (seccomp): allow it, or run this command elsewhere",
                              strerror(-rc));
}

/* ---- open, close ---- */

static int make_token(char *token)
{
    unsigned char bytes[TOKEN / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return -errno;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static int listen_on(unsigned port, unsigned *chosen)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) != 0) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    *chosen = ntohs(at.sin_port);
    return fd;
}

/* A report page may not connect anywhere; the live page may connect to its own origin. The two words
 * in the policy have the same length. */
static unsigned char *live_page(void)
{
    static const char none[] = "connect-src 'none'", self[] = "connect-src 'self'";
    unsigned char *page = malloc(report_page_head_size);
    if (page == NULL)
        return NULL;
    memcpy(page, report_page_head, report_page_head_size);
    char *policy = memmem(page, report_page_head_size, none, sizeof none - 1);
    if (policy != NULL)
        memcpy(policy, self, sizeof self - 1);
    return page;
}

int live_server_open(struct live_server **out, unsigned port)
{
    sigset_t set;
    struct live_server *s = calloc(1, sizeof *s);
    *out = NULL;
    if (s == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    s->fd = s->wake = s->signals = -1;
    s->page = live_page();
    int rc = s->page != NULL ? make_token(s->token) : -ENOMEM;
    if (rc == 0) {
        s->fd = listen_on(port, &s->port);
        rc = s->fd < 0 ? s->fd : 0;
    }
    if (rc == 0) {
        s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        rc = s->wake < 0 || s->signals < 0 ? -errno : 0;
    }
    if (rc != 0) {
        live_server_close(s);
        return cli_fail(rc == -ENOMEM ? KYMO_EXIT_MEMORY : KYMO_EXIT_WRITE, "port %u of 127.0.0.1: %s", port,
                        strerror(-rc));
    }
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%u/%s/", s->port, s->token);
    *out = s;
    return KYMO_EXIT_OK;
}

const char *live_server_url(const struct live_server *s)
{
    return s->url;
}

int live_server_wake(const struct live_server *s)
{
    return s->wake;
}

void live_server_close(struct live_server *s)
{
    if (s == NULL)
        return;
    for (int i = 0; i < 3; i++) {
        int fd = i == 0 ? s->fd : i == 1 ? s->wake : s->signals;
        if (fd >= 0)
            close(fd);
    }
    free(s->page);
    free(s);
}
