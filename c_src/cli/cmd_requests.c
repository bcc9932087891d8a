/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo requests: requests between processes, the slowest first, and with --tree the requests that
 * their servers made while handling them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "kymo_timeline.h"
#include "requests.h"

/* Limits: requests kept for the trees, servers with sums, the depth of a tree, the number of
 * requests in a tree, and --top. */
enum { KEPT_MAX = 1000000, SERVERS_MAX = 65536, DEPTH_MAX = 16, INNER_MAX = 1000, TOP_MAX = 100000 };

struct server {
    uint64_t role, ident;
    uint64_t requests, replied, open, down, timeouts, casts;
    int64_t total, max, queued, handling;
    uint64_t with_queued, with_handling;
    struct kymo_histogram times;
};

/* ---- the first pass: sums, and the slowest requests ---- */

static bool wanted(struct cli_requests *c, const struct kymo_request *q)
{
    if (!cli_wants_request(c->a, q))
        return false;
    if (c->a->filter.n_modules == 0 && c->a->n_functions == 0)
        return true;
    return cli_wants_function(c->a, q->handler_mfa) || cli_wants_function(c->a, q->waiter_mfa);
}

static void add_to_server(struct cli_requests *c, const struct kymo_request *q, int64_t total)
{
    uint64_t role = kymo_naming_role(c->a->naming, q->server);
    if (c->servers.count >= SERVERS_MAX && kymo_map_get(&c->servers, role) == NULL)
        return;
    struct server *s = kymo_map_put(&c->servers, role, NULL);
    if (s == NULL) {
        c->failed = true;
        return;
    }
    s->role = role;
    s->ident = q->server;
    s->requests++;
    s->open += q->ended == KYMO_REQ_OPEN || q->ended == KYMO_REQ_GONE;
    s->down += q->ended == KYMO_REQ_DOWN;
    s->timeouts += q->ended == KYMO_REQ_TIMEOUT;
    s->casts += q->kind == KYMO_REQ_CAST;
    int64_t queued = kymo_request_queued(q), handling = kymo_request_handling(q);
    if (queued != KYMO_NO_TIME) {
        s->queued += queued;
        s->with_queued++;
    }
    if (handling != KYMO_NO_TIME) {
        s->handling += handling;
        s->with_handling++;
    }
    if (total == KYMO_NO_TIME)
        return;
    s->replied++;
    s->total += total;
    if (total > s->max)
        s->max = total;
    if (!kymo_histogram_add(&s->times, total))
        c->failed = true;
}

static void on_request(void *arg, const struct kymo_request *q)
{
    struct cli_requests *c = arg;
    if (!wanted(c, q) || (q->kind == KYMO_REQ_CAST && !c->casts))
        return;
    int64_t total = kymo_request_total(q);
    c->requests++;
    c->open += q->ended == KYMO_REQ_OPEN;
    add_to_server(c, q, total);
    if (total != KYMO_NO_TIME)
        cli_slowest_add(&c->slowest, q, total);
}

/* ---- the second pass: requests made while handling one ---- */

static void on_other_request(void *arg, const struct kymo_request *q)
{
    struct cli_requests *c = arg;
    if (q->kind == KYMO_REQ_CAST || q->sent < c->kept_from || q->sent > c->kept_to)
        return;
    cli_request_list_add(&c->kept, q);
}

static int by_client(const void *a, const void *b)
{
    const struct kymo_request *x = a, *y = b;
    if (x->client != y->client)
        return x->client < y->client ? -1 : 1;
    if (x->sent != y->sent)
        return x->sent < y->sent ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int look_again(struct cli_requests *c)
{
    struct kymo_analysis_sink sink = {.arg = c, .request = on_other_request};
    c->kept_from = INT64_MAX;
    c->kept_to = INT64_MIN;
    for (size_t i = 0; i < c->slowest.n; i++) {
        const struct kymo_request *q = &c->slowest.q[i];
        int64_t end = q->sent + kymo_request_total(q);
        c->kept_from = q->sent < c->kept_from ? q->sent : c->kept_from;
        c->kept_to = end > c->kept_to ? end : c->kept_to;
    }
    int status = cli_analysis_run(c->a, &sink, 1);
    if (c->kept.n > 1)
        qsort(c->kept.q, c->kept.n, sizeof *c->kept.q, by_client);
    return status;
}

/* The index of the first request that this client made at this time or later. */
static size_t first_of(const struct cli_requests *c, uint64_t client, int64_t sent)
{
    size_t low = 0, high = c->kept.n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct kymo_request *q = &c->kept.q[mid];
        if (q->client < client || (q->client == client && q->sent < sent))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The next request, from index *i on, that the server of q made while handling q; NULL if there
 * is none. Start with *i = 0. */
static const struct kymo_request *next_inner(struct cli_requests *c, const struct kymo_request *q,
                                             unsigned depth, size_t *i)
{
    int64_t begin = q->handled, end = q->kind == KYMO_REQ_CAST ? q->handled_end : q->replied;
    if (!c->tree || depth >= DEPTH_MAX || begin == KYMO_NO_TIME || end == KYMO_NO_TIME)
        return NULL;
    for (*i = *i == 0 ? first_of(c, q->server, begin) : *i; *i < c->kept.n && c->inner < INNER_MAX; ++*i) {
        const struct kymo_request *inner = &c->kept.q[*i];
        if (inner->client != q->server || inner->sent > end)
            return NULL;
        if (inner->id != q->id) {
            ++*i;
            c->inner++;
            c->failed |= kymo_map_put(&c->shown, inner->id, NULL) == NULL;
            return inner;
        }
    }
    return NULL;
}

/* ---- text ---- */

static void text_request(const struct cli_requests *c, const struct kymo_request *q, unsigned depth)
{
    char client[1100], server[1100], function[2300] = "";
    kymo_name_process(c->a->naming, q->client, client, sizeof client);
    kymo_name_process(c->a->naming, q->server, server, sizeof server);
    if (q->handler_mfa != 0)
        kymo_name_function(c->a->naming, q->handler_mfa, function, sizeof function);
    printf("%13s %9s %s%8s %9s %9s %6" PRIu32 "  %*s%s -> %s%s%s%s\n", CLI_SINCE(c->a, q->sent),
           CLI_DURATION(kymo_request_total(q)), q->inferred ? "~" : " ", CLI_DURATION(kymo_request_queued(q)),
           CLI_DURATION(kymo_request_handling(q)), CLI_DURATION(kymo_request_reply(q)), q->ahead,
           (int)depth * 2, "", client, server, function[0] != '\0' ? " " : "", function,
           q->ended == KYMO_REQ_DOWN      ? " (server died)"
           : q->ended == KYMO_REQ_TIMEOUT ? " (timeout)"
           : q->passed_on                 ? " (passed on)"
           : q->kind == KYMO_REQ_CAST     ? " (cast)"
                                          : "");
}

static void text_tree(struct cli_requests *c, const struct kymo_request *q, unsigned depth)
{
    size_t i = 0;
    text_request(c, q, depth);
    for (const struct kymo_request *r; !cli_output_lost() && (r = next_inner(c, q, depth, &i)) != NULL;)
        text_tree(c, r, depth + 1);
}

/* The node of a server on a timeline, where servers of several nodes may have the same name.
 * NULL if there is only one node, or the server's node has no recording. */
static const char *node_of(const struct cli_requests *c, const struct server *s)
{
    unsigned kind = KYMO_IDENT_KIND(s->ident);
    if ((kind != KYMO_I_PID && kind != KYMO_I_ATOM) || !kymo_role_is_known(s->role))
        return NULL;
    return kymo_timeline_size(c->a->r) > 1 ? kymo_timeline_name(c->a->r, kymo_timeline_of(c->a->r, s->ident))
                                           : NULL;
}

static void text_server(const struct cli_requests *c, const struct server *s)
{
    char name[1100];
    const char *node = node_of(c, s);
    kymo_name_role(c->a->naming, s->ident, name, sizeof name);
    int64_t queued = s->with_queued > 0 ? s->queued / (int64_t)s->with_queued : KYMO_NO_TIME;
    int64_t handling = s->with_handling > 0 ? s->handling / (int64_t)s->with_handling : KYMO_NO_TIME;
    printf("%9s %7s %9s %9s %9s %9s %9s  %s%s%s\n", CLI_COUNT(s->requests), CLI_COUNT(s->open),
           CLI_DURATION(kymo_histogram_quantile(&s->times, 0.5)),
           CLI_DURATION(kymo_histogram_quantile(&s->times, 0.99)),
           CLI_DURATION(s->replied > 0 ? s->max : KYMO_NO_TIME), CLI_DURATION(queued), CLI_DURATION(handling),
           name, node != NULL ? " on " : "", node != NULL ? node : "");
}

/* ---- JSON ---- */

static void json_tree(struct cli_requests *c, const struct kymo_request *q, unsigned depth)
{
    cli_json_open(NULL, '{');
    cli_json_text("kind", kymo_request_kind_name(q->kind));
    cli_json_text("ended", kymo_request_end_name(q->ended));
    cli_json_process(c->a, "client", q->client);
    cli_json_process(c->a, "server", q->server);
    cli_json_function(c->a, "function", q->handler_mfa);
    cli_json_function(c->a, "client_function", q->waiter_mfa);
    cli_json_since(c->a, "sent_ns", q->sent);
    cli_json_ns("total_ns", kymo_request_total(q));
    cli_json_ns("queued_ns", kymo_request_queued(q));
    cli_json_ns("handling_ns", kymo_request_handling(q));
    cli_json_ns("reply_ns", kymo_request_reply(q));
    cli_json_bool("passed_on", q->passed_on);
    cli_json_bool("inferred", q->inferred);
    cli_json_uint("ahead", q->ahead);
    if (c->tree) {
        cli_json_open("requests", '[');
        size_t i = 0;
        for (const struct kymo_request *r; !cli_output_lost() && (r = next_inner(c, q, depth, &i)) != NULL;)
            json_tree(c, r, depth + 1);
        cli_json_close(']');
    }
    cli_json_close('}');
}

static void json_server(const struct cli_requests *c, const struct server *s)
{
    char name[1100];
    kymo_name_role(c->a->naming, s->ident, name, sizeof name);
    cli_json_open(NULL, '{');
    cli_json_text("server", name);
    if (node_of(c, s) != NULL)
        cli_json_text("node", node_of(c, s));
    else
        cli_json_null("node");
    cli_json_uint("requests", s->requests);
    cli_json_uint("open", s->open);
    cli_json_uint("down", s->down);
    cli_json_uint("timeouts", s->timeouts);
    cli_json_uint("casts", s->casts);
    cli_json_ns("total_ns", s->replied > 0 ? s->total : KYMO_NO_TIME);
    cli_json_ns("p50_ns", kymo_histogram_quantile(&s->times, 0.5));
    cli_json_ns("p99_ns", kymo_histogram_quantile(&s->times, 0.99));
    cli_json_ns("max_ns", s->replied > 0 ? s->max : KYMO_NO_TIME);
    cli_json_ns("queued_ns", s->with_queued > 0 ? s->queued : KYMO_NO_TIME);
    cli_json_uint("with_queued", s->with_queued);
    cli_json_ns("handling_ns", s->with_handling > 0 ? s->handling : KYMO_NO_TIME);
    cli_json_uint("with_handling", s->with_handling);
    if (c->a->histograms)
        cli_json_histogram("histogram", &s->times);
    cli_json_close('}');
}

/* ---- the command ---- */

static int by_total(const void *x, const void *y)
{
    const struct server *a = *(const struct server *const *)x, *b = *(const struct server *const *)y;
    if (a->total != b->total)
        return a->total > b->total ? -1 : 1;
    return a->role < b->role ? -1 : a->role > b->role;
}

static void show_servers(const struct cli_requests *c, const struct server **servers, size_t n)
{
    if (c->a->json)
        cli_json_open("servers", '[');
    else
        printf("%9s %7s %9s %9s %9s %9s %9s  %s\n", "requests", "open", "p50", "p99", "max", "queued",
               "handling", "server (queued and handling: mean)");
    for (size_t i = 0; i < n && i < c->a->top && !cli_output_lost(); i++) {
        if (c->a->json)
            json_server(c, servers[i]);
        else
            text_server(c, servers[i]);
    }
    if (c->a->json)
        cli_json_close(']');
    else if (n > c->a->top)
        printf("%s more servers; -n shows more of them\n", CLI_COUNT(n - c->a->top));
}

static void show_slowest(struct cli_requests *c)
{
    if (c->a->json)
        cli_json_open("slowest", '[');
    else
        printf("\n%13s %9s %9s %9s %9s %6s  %s\n", "sent", "total", "queued", "handling", "reply", "ahead",
               "client -> server");
    for (size_t i = 0; i < c->slowest.n && !cli_output_lost(); i++) {
        if (kymo_map_get(&c->shown, c->slowest.q[i].id) != NULL)
            continue;
        c->inner = 0;
        if (c->a->json)
            json_tree(c, &c->slowest.q[i], 0);
        else
            text_tree(c, &c->slowest.q[i], 0);
    }
    if (c->a->json)
        cli_json_close(']');
}

int cli_requests_show(struct cli_requests *c)
{
    const struct server **servers = calloc(c->servers.count + 1, sizeof(const struct server *));
    size_t n = 0, it = 0;
    if (servers == NULL || c->failed || c->kept.failed) {
        free(servers);
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    }
    for (const struct server *s; (s = kymo_map_next(&c->servers, &it, NULL)) != NULL;)
        servers[n++] = s;
    qsort(servers, n, sizeof(const struct server *), by_total);
    if (c->a->json) {
        cli_json_open(NULL, '{');
        cli_json_analysis(c->a);
        cli_json_uint("requests", c->requests);
        cli_json_uint("open", c->open);
    }
    if (c->requests > 0 || c->a->json) {
        show_servers(c, servers, n);
        show_slowest(c);
    }
    if (c->a->json)
        cli_json_close('}');
    free(servers);
    return c->failed ? cli_fail(KYMO_EXIT_MEMORY, "out of memory") : KYMO_EXIT_OK;
}

static void say_what_lacks(const struct cli_requests *c)
{
    const struct kymo_analysis_result *res = &c->a->result;
    cli_lacks(c->a, res->has_messages, "messages", "requests cannot be shown");
    if (res->has_messages)
        cli_lacks(c->a, res->has_refs, "references in its messages",
                  "requests cannot be paired with their replies");
    if (c->casts)
        cli_casts_unplaced(c->a);
    if (c->kept.left_out > 0)
        cli_warn("%s request%s left out of the tree", CLI_COUNT(c->kept.left_out),
                 c->kept.left_out == 1 ? " is" : "s are");
}

int cli_requests_init(struct cli_requests *c, struct cli_analysis *a)
{
    *c = (struct cli_requests){.a = a, .kept.most = KEPT_MAX};
    kymo_map_init(&c->servers, sizeof(struct server));
    kymo_map_init(&c->shown, 0);
    c->slowest.room = a->top < TOP_MAX ? a->top : TOP_MAX;
    c->slowest.q = calloc(c->slowest.room + 1, sizeof *c->slowest.q);
    return c->slowest.q != NULL ? KYMO_EXIT_OK : cli_fail(KYMO_EXIT_MEMORY, "out of memory");
}

void cli_requests_free(struct cli_requests *c)
{
    size_t it = 0;
    for (struct server *s; (s = kymo_map_next(&c->servers, &it, NULL)) != NULL;)
        kymo_histogram_free(&s->times);
    kymo_map_free(&c->servers);
    kymo_map_free(&c->shown);
    cli_request_list_free(&c->kept);
    free(c->slowest.q);
}

struct kymo_analysis_sink cli_requests_sink(struct cli_requests *c)
{
    return (struct kymo_analysis_sink){.arg = c, .request = on_request};
}

static int run(struct cli_requests *c)
{
    struct kymo_analysis_sink sink = cli_requests_sink(c);
    int status = cli_analysis_run(c->a, &sink, 1);
    if (status == KYMO_EXIT_OK && c->tree && c->slowest.n > 0)
        status = look_again(c);
    if (status != KYMO_EXIT_OK)
        return status;
    say_what_lacks(c);
    status = cli_requests_show(c);
    if (c->a->json && status == KYMO_EXIT_OK)
        cli_json_end();
    return status;
}

int cli_requests(int argc, char **argv)
{
    enum { OPT_CASTS = 1, OPT_TREE };
    static const struct option options[] = {CLI_ANALYSIS_OPTIONS,
                                            {"casts", no_argument, NULL, OPT_CASTS},
                                            {"tree", no_argument, NULL, OPT_TREE},
                                            {NULL, 0, NULL, 0}};
    struct cli_analysis a;
    struct cli_requests c = {.a = &a};
    bool casts = false, tree = false;
    int status = KYMO_EXIT_OK;
    cli_analysis_init(&a, "requests", 10);
    for (int o;
         status == KYMO_EXIT_OK && (o = getopt_long(argc, argv, CLI_ANALYSIS_SHORT, options, NULL)) != -1;) {
        switch (o) {
        case OPT_CASTS: casts = true; break;
        case OPT_TREE: tree = true; break;
        default: status = cli_analysis_option(&a, o, optarg);
        }
    }
    if (status == KYMO_EXIT_OK)
        status = cli_analysis_open_timeline(&a, argc - optind, argv + optind);
    if (status == KYMO_EXIT_OK)
        status = cli_requests_init(&c, &a);
    c.casts = casts;
    c.tree = tree;
    if (status == KYMO_EXIT_OK)
        status = run(&c);
    cli_requests_free(&c);
    return cli_analysis_close(&a, status);
}
