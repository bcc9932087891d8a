/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo mailboxes: messages by receiver, their senders, and how long they wait.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "mailboxes.h"
#include "request_list.h"

enum { ROWS_MAX = 65536, PAIRS_MAX = 262144, SENDERS = 3 };

struct sender {
    uint64_t ident, n;
};

struct row {
    uint64_t key, ident;
    uint64_t received, unreceived, words, from_nobody, senders, processes;
    uint32_t pending_max;
    int64_t waited_max, waited_max_at;
    uint64_t longest;             /* length of the mailbox in the samples of the counters */
    uint64_t taken;               /* of the waits, those that end when the message was taken */
    struct kymo_histogram waits;  /* until taken, or fetched if that is all that is known */
    struct kymo_histogram queued; /* of requests, until handled */
    struct sender top[SENDERS];   /* filled in at the end */
};

struct pair {
    uint64_t to, from, ident, n;
};

static uint64_t key_of(const struct cli_mailboxes *x, uint64_t ident)
{
    return x->by_role ? kymo_naming_role(x->a->naming, ident) : ident;
}

static struct row *row_of(struct cli_mailboxes *x, uint64_t ident)
{
    uint64_t key = key_of(x, ident);
    struct row *row = kymo_map_get(&x->rows, key);
    if (row == NULL && x->rows.count < ROWS_MAX && (row = kymo_map_put(&x->rows, key, NULL)) == NULL)
        x->failed = true;
    if (row != NULL) {
        row->key = key;
        row->ident = ident;
    }
    return row;
}

static void count_sender(struct cli_mailboxes *x, struct row *row, uint64_t from)
{
    uint64_t key = key_of(x, from), mixed = (row->key * 0x9e3779b97f4a7c15ull) ^ key;
    struct pair *p = kymo_map_get(&x->pairs, mixed);
    if (p == NULL && x->pairs.count >= PAIRS_MAX) {
        x->left_out++;
        return;
    }
    if (p == NULL && (p = kymo_map_put(&x->pairs, mixed, NULL)) == NULL) {
        x->failed = true;
        return;
    }
    row->senders += p->n == 0;
    p->to = row->key;
    p->from = key;
    p->ident = from;
    p->n++;
}

static void on_mail(void *arg, const struct kymo_mail *m)
{
    struct cli_mailboxes *x = arg;
    unsigned kind = KYMO_IDENT_KIND(m->to);
    if ((kind != KYMO_I_PID && kind != KYMO_I_PORT) || m->to_nobody || m->kind == KYMO_MSG_TIMEOUT ||
        !cli_wants_process(x->a, m->to) || (x->a->filter.n_pids == 0 && !cli_wants_process(x->a, m->from)))
        return;
    struct row *row = row_of(x, m->to);
    if (row == NULL)
        return;
    if (m->fetched == KYMO_NO_TIME) {
        row->unreceived += kind == KYMO_I_PID;
        row->received += kind == KYMO_I_PORT;
    } else {
        row->received++;
    }
    if (m->size != KYMO_SIZE_UNKNOWN)
        row->words += m->size & ~KYMO_SIZE_MORE;
    if (m->from == KYMO_IDENT_NONE)
        row->from_nobody++;
    else
        count_sender(x, row, m->from);
    int64_t waited = kymo_mail_waited(m);
    if (waited == KYMO_NO_TIME)
        return;
    row->taken += m->taken != KYMO_NO_TIME;
    if (waited > row->waited_max) {
        row->waited_max = waited;
        row->waited_max_at = m->sent;
    }
    if (!kymo_histogram_add(&row->waits, waited))
        x->failed = true;
}

static void on_request(void *arg, const struct kymo_request *q)
{
    struct cli_mailboxes *x = arg;
    int64_t queued = kymo_request_queued(q);
    if (queued == KYMO_NO_TIME || KYMO_IDENT_KIND(q->server) != KYMO_I_PID ||
        !cli_wants_process(x->a, q->server))
        return;
    struct row *row = row_of(x, q->server);
    if (row != NULL && !kymo_histogram_add(&row->queued, queued))
        x->failed = true;
}

static void on_life(void *arg, const struct kymo_life *life)
{
    struct cli_mailboxes *x = arg;
    struct row *row =
        cli_wants_process(x->a, life->process) ? kymo_map_get(&x->rows, key_of(x, life->process)) : NULL;
    if (row == NULL)
        return;
    row->processes++;
    if (life->mailbox_max > row->pending_max)
        row->pending_max = life->mailbox_max;
}

/* The lengths in the counters include messages that were fetched, and those from before the
 * recording. */
static void on_event(void *arg, const struct kymo_event *ev)
{
    struct cli_mailboxes *x = arg;
    for (uint32_t i = 0; i < ev->n_counters; i++) {
        struct kymo_counter_value v = kymo_counter_at(ev, i);
        uint64_t process = kymo_counter_process(ev, i);
        if (v.counter != KYMO_N_MAILBOX || v.value == 0 || process == KYMO_IDENT_NONE ||
            !cli_wants_process(x->a, process))
            continue;
        struct row *row = row_of(x, process);
        if (row != NULL && v.value > row->longest)
            row->longest = v.value;
    }
}

/* ---- output ---- */

static void find_senders(struct cli_mailboxes *x)
{
    size_t it = 0;
    for (const struct pair *p; (p = kymo_map_next(&x->pairs, &it, NULL)) != NULL;) {
        struct row *row = kymo_map_get(&x->rows, p->to);
        if (row == NULL)
            continue;
        for (unsigned i = 0; i < SENDERS; i++) {
            bool more = p->n > row->top[i].n || (p->n == row->top[i].n && p->ident < row->top[i].ident);
            if (!more)
                continue;
            memmove(&row->top[i + 1], &row->top[i], (SENDERS - 1 - i) * sizeof *row->top);
            row->top[i] = (struct sender){p->ident, p->n};
            break;
        }
    }
}

static void name_of(const struct cli_mailboxes *x, uint64_t ident, char *buf, size_t size)
{
    if (x->by_role)
        kymo_name_role(x->a->naming, ident, buf, size);
    else
        kymo_name_process(x->a->naming, ident, buf, size);
}

#define QUANTILE(h, q) CLI_DURATION(kymo_histogram_quantile(&(h), q))

static void text_row(const struct cli_mailboxes *x, const struct row *r)
{
    char name[1200], from[1200] = "";
    name_of(x, r->ident, name, sizeof name);
    if (r->top[0].n > 0)
        name_of(x, r->top[0].ident, from, sizeof from);
    printf("%10s %9s %9s %9s %9s %9s %9s %8" PRIu32 " %8s  %s", CLI_COUNT(r->received),
           QUANTILE(r->waits, 0.5), QUANTILE(r->waits, 0.99), QUANTILE(r->waits, 1.0),
           QUANTILE(r->queued, 0.99), CLI_COUNT(r->unreceived), r->longest != 0 ? CLI_COUNT(r->longest) : "-",
           r->pending_max, CLI_COUNT(r->senders), name);
    if (from[0] != '\0')
        printf(" <- %s (%.0f %%)", from,
               100.0 * (double)r->top[0].n /
                   (double)(r->received + r->unreceived > 0 ? r->received + r->unreceived : 1));
    putchar('\n');
}

static void json_row(const struct cli_mailboxes *x, const struct row *r)
{
    char name[1200];
    name_of(x, r->ident, name, sizeof name);
    cli_json_open(NULL, '{');
    cli_json_text(x->by_role ? "role" : "process", name);
    cli_json_uint("processes", r->processes);
    cli_json_uint("received", r->received);
    cli_json_uint("unreceived", r->unreceived);
    cli_json_uint("words", r->words);
    cli_json_uint("waits", r->waits.total);
    cli_json_uint("waits_until_taken", r->taken);
    cli_json_ns("p50_ns", kymo_histogram_quantile(&r->waits, 0.5));
    cli_json_ns("p99_ns", kymo_histogram_quantile(&r->waits, 0.99));
    cli_json_ns("max_ns", kymo_histogram_quantile(&r->waits, 1.0));
    cli_json_since(x->a, "max_at_ns", r->waits.total > 0 ? r->waited_max_at : KYMO_NO_TIME);
    cli_json_ns("queued_p99_ns", kymo_histogram_quantile(&r->queued, 0.99));
    if (r->longest != 0)
        cli_json_uint("longest", r->longest);
    else
        cli_json_null("longest");
    cli_json_uint("pending_max", r->pending_max);
    if (x->a->histograms)
        cli_json_histogram("histogram", &r->waits);
    cli_json_uint("senders", r->senders);
    cli_json_uint("from_unknown", r->from_nobody);
    cli_json_open("top_senders", '[');
    for (unsigned i = 0; i < SENDERS && r->top[i].n > 0; i++) {
        name_of(x, r->top[i].ident, name, sizeof name);
        cli_json_open(NULL, '{');
        cli_json_text("sender", name);
        cli_json_uint("messages", r->top[i].n);
        cli_json_close('}');
    }
    cli_json_close(']');
    cli_json_close('}');
}

static int most_first(const void *a, const void *b)
{
    const struct row *x = *(const struct row *const *)a, *y = *(const struct row *const *)b;
    uint64_t n = x->received + x->unreceived, m = y->received + y->unreceived;
    if (n != m)
        return n > m ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key;
}

static int longest_first(const void *a, const void *b)
{
    const struct row *x = *(const struct row *const *)a, *y = *(const struct row *const *)b;
    if (x->waits.max != y->waits.max)
        return x->waits.max > y->waits.max ? -1 : 1;
    return most_first(a, b);
}

int cli_mailboxes_show(struct cli_mailboxes *x, bool by_wait)
{
    const struct row **rows = calloc(x->rows.count + 1, sizeof(const struct row *));
    size_t n = 0, it = 0;
    if (rows == NULL || x->failed) {
        free(rows);
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    }
    find_senders(x);
    for (const struct row *r; (r = kymo_map_next(&x->rows, &it, NULL)) != NULL;)
        rows[n++] = r;
    qsort(rows, n, sizeof(const struct row *), by_wait ? longest_first : most_first);
    if (x->a->json) {
        cli_json_open(NULL, '{');
        cli_json_analysis(x->a);
        cli_json_text("by", x->by_role ? "role" : "process");
        cli_json_uint("rows_in_all", n);
        cli_json_open("rows", '[');
    } else if (n > 0) {
        bool taken = x->a->result.has_taken; /* else waits are known only until messages are fetched */
        cli_say_exact(x->a);
        printf("%10s %9s %9s %9s %9s %9s %9s %8s %8s  %s\n", "received", taken ? "p50 wait" : "p50 fetch",
               taken ? "p99 wait" : "p99 fetch", taken ? "max wait" : "max fetch", "p99 queue", "unfetched",
               "longest", "backlog", "senders", "receiver <- most frequent sender");
    }
    for (size_t i = 0; i < n && i < x->a->top && !cli_output_lost(); i++) {
        if (x->a->json)
            json_row(x, rows[i]);
        else
            text_row(x, rows[i]);
    }
    if (x->a->json) {
        cli_json_close(']');
        cli_json_close('}');
    } else if (n > x->a->top) {
        printf("%s more; -n shows more of them\n", CLI_COUNT(n - x->a->top));
    }
    free(rows);
    return KYMO_EXIT_OK;
}

/* ---- the command ---- */

static int read_choice(const char *option, const char *value, const char *no, const char *yes, bool *answer)
{
    *answer = strcmp(value, yes) == 0;
    if (*answer || strcmp(value, no) == 0)
        return KYMO_EXIT_OK;
    return cli_usage("mailboxes", "--%s: '%s' is neither %s nor %s", option, value, no, yes);
}

void cli_mailboxes_init(struct cli_mailboxes *x, struct cli_analysis *a)
{
    *x = (struct cli_mailboxes){.a = a};
    kymo_map_init(&x->rows, sizeof(struct row));
    kymo_map_init(&x->pairs, sizeof(struct pair));
}

void cli_mailboxes_free(struct cli_mailboxes *x)
{
    size_t it = 0;
    for (struct row *r; (r = kymo_map_next(&x->rows, &it, NULL)) != NULL;) {
        kymo_histogram_free(&r->waits);
        kymo_histogram_free(&r->queued);
    }
    kymo_map_free(&x->rows);
    kymo_map_free(&x->pairs);
}

struct kymo_analysis_sink cli_mailboxes_sink(struct cli_mailboxes *x)
{
    return (struct kymo_analysis_sink){
        .arg = x, .event = on_event, .mail = on_mail, .request = on_request, .life = on_life};
}

int cli_mailboxes(int argc, char **argv)
{
    enum { OPT_BY = 1, OPT_SORT };
    static const struct option options[] = {CLI_ANALYSIS_OPTIONS,
                                            {"by", required_argument, NULL, OPT_BY},
                                            {"sort", required_argument, NULL, OPT_SORT},
                                            {NULL, 0, NULL, 0}};
    struct cli_analysis a;
    struct cli_mailboxes x;
    bool by_wait = false;
    int status = KYMO_EXIT_OK;
    cli_analysis_init(&a, "mailboxes", 20);
    cli_mailboxes_init(&x, &a);
    for (int o;
         status == KYMO_EXIT_OK && (o = getopt_long(argc, argv, CLI_ANALYSIS_SHORT, options, NULL)) != -1;) {
        switch (o) {
        case OPT_BY: status = read_choice("by", optarg, "process", "role", &x.by_role); break;
        case OPT_SORT: status = read_choice("sort", optarg, "received", "wait", &by_wait); break;
        case CLI_OPT_MODULE:
        case CLI_OPT_FUNCTION:
            status = cli_usage("mailboxes", "--module and --function do not apply to messages");
            break;
        default: status = cli_analysis_option(&a, o, optarg);
        }
    }
    if (status == KYMO_EXIT_OK)
        status = cli_one_recording("mailboxes", argc - optind, argv + optind);
    if (status == KYMO_EXIT_OK)
        status = cli_analysis_open(&a, argv[optind]);
    if (status == KYMO_EXIT_OK) {
        struct kymo_analysis_sink sink = cli_mailboxes_sink(&x);
        status = cli_analysis_run(&a, &sink, 1);
    }
    if (status == KYMO_EXIT_OK) {
        cli_lacks(&a, a.result.has_messages, "messages", "mailboxes cannot be shown");
        if (x.left_out > 0)
            cli_warn("the senders of %s message%s are left out", CLI_COUNT(x.left_out), CLI_S(x.left_out));
        status = cli_mailboxes_show(&x, by_wait);
        if (a.json && status == KYMO_EXIT_OK)
            cli_json_end();
    }
    cli_mailboxes_free(&x);
    return cli_analysis_close(&a, status);
}
