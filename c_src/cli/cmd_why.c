/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo why: the critical path of slow requests or calls. Two passes over the recording:
 * the first finds the requests to explain or, without any, the calls; the second collects
 * the facts of their time. If these are too many for one pass, each half of the answers gets
 * a pass of its own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "firing.h"
#include "json.h"
#include "kymo_timeline.h"
#include "request_list.h"
#include "why.h"
#include "why_all.h"

enum { TOP_MAX = 1000 };

/* How long a request has been open at least to be reported. */
enum { OPEN_LONG_NS = 100000000 };

/* The maximum delay between passing a message to another node and recording the send event: the
 * thread may be preempted in between. */
enum { LATE_NS = 1000000000 };

struct why {
    struct cli_analysis a;
    struct cli_why_target *targets; /* the longest first */
    size_t n, room;
    bool requests; /* the targets are requests, not calls */
    const char *at_text;
    int64_t at; /* CLOCK_MONOTONIC, with at_text */
    bool path, casts;
    int64_t slowest_cast;       /* duration of the slowest cast if casts are excluded; KYMO_NO_TIME = none */
    int64_t slowest_call;       /* duration of the slowest call that has returned; KYMO_NO_TIME = none */
    uint32_t slowest_function;  /* the function of that call */
    uint64_t open;              /* requests without a reply until the end of the recording */
    struct kymo_request oldest; /* of them */
    uint64_t answered;
    bool has_firing;
    struct cli_firing firing; /* the firing for which this snapshot was taken */
};

/* ---- what to explain ---- */

/* True if --at selects this time span. */
static bool is_then(const struct why *w, int64_t start, int64_t end)
{
    return w->at_text == NULL || (start <= w->at && end >= w->at);
}

static void add_target(struct why *w, const struct cli_why_target *t)
{
    int64_t value = t->end - t->start;
    if (!is_then(w, t->start, t->end))
        return;
    if (w->room == 0 || (w->n == w->room && value <= w->targets[w->n - 1].end - w->targets[w->n - 1].start))
        return;
    size_t i = w->n < w->room ? w->n++ : w->n - 1;
    for (; i > 0 && w->targets[i - 1].end - w->targets[i - 1].start < value; i--)
        w->targets[i] = w->targets[i - 1];
    w->targets[i] = *t;
}

static void keep_oldest(struct why *w, const struct kymo_request *q)
{
    bool asks = q->kind == KYMO_REQ_CALL || q->kind == KYMO_REQ_IO;
    if (!asks || q->ended != KYMO_REQ_OPEN || q->sent == KYMO_NO_TIME || w->at_text != NULL)
        return;
    if (w->open++ == 0 || q->sent < w->oldest.sent)
        w->oldest = *q;
}

static void on_request(void *arg, const struct kymo_request *q)
{
    struct why *w = arg;
    bool cast = q->kind == KYMO_REQ_CAST;
    int64_t total = kymo_request_total(q);
    if (q->passed_on)
        return;
    if (!cli_wants_request(&w->a, q))
        return;
    if (total == KYMO_NO_TIME) {
        keep_oldest(w, q);
        return;
    }
    if (cast && !w->casts) {
        if (is_then(w, q->sent, q->handled_end) && total > w->slowest_cast)
            w->slowest_cast = total;
        return;
    }
    struct cli_why_target t = {.process = q->client,
                               .server = q->server,
                               .mfa = q->handler_mfa,
                               .ahead = q->ahead,
                               .start = q->sent,
                               .end = cast ? q->handled_end : q->received,
                               .request = *q,
                               .cast = cast};
    if (!w->requests && is_then(w, t.start, t.end)) {
        w->requests = true;
        w->n = 0; /* discards calls that were found before the first request */
    }
    add_target(w, &t);
}

static void on_span(void *arg, const struct kymo_span *s)
{
    struct why *w = arg;
    if (s->start == KYMO_NO_TIME || s->end == KYMO_NO_TIME || s->ended == KYMO_SPAN_MOMENT ||
        !cli_wants_process(&w->a, s->process) || !cli_wants_function(&w->a, s->mfa))
        return;
    /* A call that was replaced may have been the loop of a process, which waits for messages. */
    bool returned = s->ended == KYMO_SPAN_RETURN || s->ended == KYMO_SPAN_EXCEPTION;
    if (returned && s->end - s->start > w->slowest_call && is_then(w, s->start, s->end)) {
        w->slowest_call = s->end - s->start;
        w->slowest_function = s->mfa;
    }
    if (w->requests)
        return;
    struct cli_why_target t = {
        .process = s->process, .server = KYMO_IDENT_NONE, .mfa = s->mfa, .start = s->start, .end = s->end};
    add_target(w, &t);
}

static int find_targets(struct why *w)
{
    struct kymo_analysis_sink sink = {.arg = w};
    bool by_function = w->a.n_functions != 0 || w->a.filter.n_modules != 0;
    w->room = w->a.top;
    w->targets = calloc(w->room, sizeof *w->targets);
    if (w->targets == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    sink.span = on_span;
    if (!by_function)
        sink.request = on_request;
    return cli_analysis_run(&w->a, &sink, 1);
}

/* ---- text ---- */

static const char *process(const struct why *w, uint64_t ident, char *buf, size_t size)
{
    kymo_name_process(w->a.naming, ident, buf, size);
    return buf;
}
#define PROCESS(w, ident) process((w), (ident), (char[1200]){0}, 1200)

static const char *function(const struct why *w, uint32_t mfa, char *buf, size_t size)
{
    kymo_name_function(w->a.naming, mfa, buf, size);
    return buf;
}
#define FUNCTION(w, mfa) function((w), (mfa), (char[2300]){0}, 2300)

static void text_blame(const struct why *w, const struct kymo_why_part *p)
{
    if (p->blame != KYMO_IDENT_NONE && p->blame_ns > 0)
        printf("; %s ran instead, for %s", PROCESS(w, p->blame), CLI_DURATION(p->blame_ns));
}

static struct kymo_why_part part_of(const struct kymo_why_held_up *h)
{
    return (struct kymo_why_part){.cause = h->cause,
                                  .process = h->process,
                                  .blame = h->blame,
                                  .ns = h->ns,
                                  .blame_ns = h->blame_ns,
                                  .mfa = h->mfa,
                                  .mfa_ns = h->mfa_ns,
                                  .to_collect = h->to_collect,
                                  .times = h->times,
                                  .held_up = {.process = KYMO_IDENT_NONE}};
}

static void text_cause(const struct why *w, const struct kymo_why_part *p)
{
    const char *who = PROCESS(w, p->process);
    switch (p->cause) {
    case KYMO_WHY_RUNNING:
    case KYMO_WHY_DIRTY:
    case KYMO_WHY_ACTIVE:
        printf("%s%s%s", who, p->mfa != 0 ? ", mostly in " : "", p->mfa != 0 ? FUNCTION(w, p->mfa) : "");
        if (p->mfa_ns > 0)
            printf(" (%s)", CLI_DURATION(p->mfa_ns));
        if (p->cause == KYMO_WHY_ACTIVE)
            printf("; whether it ran or waited was not recorded");
        break;
    case KYMO_WHY_GC:
        printf("%s collected garbage, %" PRIu32 " stretch%s", who, p->times, p->times == 1 ? "" : "es");
        break;
    case KYMO_WHY_QUEUE:
        printf("in the mailbox of %s, behind %" PRIu32 " other request%s", who, p->requests,
               p->requests == 1 ? "" : "s");
        break;
    case KYMO_WHY_SCHEDULER:
        printf("%s could run and waited for a scheduler", who);
        text_blame(w, p);
        break;
    case KYMO_WHY_DIRTY_QUEUE:
        printf("%s waited for a dirty scheduler%s%s", who,
               p->to_collect ? " to collect garbage"
               : p->mfa != 0 ? " to run "
                             : "",
               !p->to_collect && p->mfa != 0 ? FUNCTION(w, p->mfa) : "");
        text_blame(w, p);
        break;
    case KYMO_WHY_PORT:
        printf("%s waited for %s", who, p->blame != KYMO_IDENT_NONE ? PROCESS(w, p->blame) : "a port");
        break;
    case KYMO_WHY_TIMER:
        printf("%s waited for a time to pass%s%s", who, p->mfa != 0 ? ", in " : "",
               p->mfa != 0 ? FUNCTION(w, p->mfa) : "");
        break;
    case KYMO_WHY_SUSPENDED: printf("%s was suspended by %s", who, PROCESS(w, p->blame)); break;
    case KYMO_WHY_NETWORK:
        printf("messages to %s were on their way from another node, or it waited for a scheduler", who);
        break;
    case KYMO_WHY_NODE: printf("%s could run, but no process of the node ran", who); break;
    case KYMO_WHY_STOPPED:
        printf("%s could run while all schedulers were stopped: %s", who, PROCESS(w, p->blame));
        break;
    default: printf("nothing in the recording says what %s waited for", who);
    }
}

static void text_part(const struct why *w, const struct kymo_why_part *p, int64_t total)
{
    printf("%9s %6.1f %%  %-13s ", CLI_DURATION(p->ns),
           total > 0 ? 100.0 * (double)p->ns / (double)total : 0.0, kymo_why_cause_name(p->cause));
    text_cause(w, p);
    if (p->cause == KYMO_WHY_QUEUE && p->held_up.process != KYMO_IDENT_NONE) {
        struct kymo_why_part by = part_of(&p->held_up);
        printf("; %s of it %s: ", CLI_DURATION(by.ns), kymo_why_cause_name(by.cause));
        text_cause(w, &by);
    }
    putchar('\n');
}

static const char *how_it_failed(const struct kymo_request *q)
{
    return q->ended == KYMO_REQ_TIMEOUT ? " (timeout)" : q->ended == KYMO_REQ_DOWN ? " (server died)" : "";
}

static void text_head(const struct why *w, const struct cli_why_target *t)
{
    printf("%s", PROCESS(w, t->process));
    if (t->server != KYMO_IDENT_NONE)
        printf(" -> %s", PROCESS(w, t->server));
    if (t->mfa != 0)
        printf(" %s", FUNCTION(w, t->mfa));
    printf("%s: %s from %s s on\n", t->cast ? " (cast)" : how_it_failed(&t->request),
           CLI_DURATION(t->end - t->start), CLI_SINCE(&w->a, t->start));
}

static void text_path(const struct why *w, const struct kymo_why_answer *answer)
{
    printf("\n%13s %9s  path%s\n", "from", "time", answer->path_cut ? ", without its beginning" : "");
    for (size_t i = 0; i < answer->n_steps && !cli_output_lost(); i++) {
        const struct kymo_why_step *s = &answer->step[i];
        printf("%13s %9s  %-13s %s\n", CLI_SINCE(&w->a, s->start), CLI_DURATION(s->end - s->start),
               kymo_why_cause_name(s->cause), PROCESS(w, s->process));
    }
}

/* The number of parts to print. They are in descending order; those at the end that together are
 * below half a percent are printed as one sum. */
static size_t worth_showing(const struct kymo_why_answer *answer)
{
    enum { AT_LEAST = 5, AT_LEAST_LEFT_OUT = 3 };
    int64_t rest = 0;
    size_t n = answer->n;
    while (n > AT_LEAST && (rest += answer->part[n - 1].ns) < answer->ns / 200)
        n--;
    return answer->n - n >= AT_LEAST_LEFT_OUT ? n : answer->n;
}

static void text_answer(const struct why *w, const struct cli_why_target *t,
                        const struct kymo_why_answer *answer)
{
    size_t shown = w->path ? answer->n : worth_showing(answer);
    int64_t rest = 0;
    text_head(w, t);
    for (size_t i = 0; i < shown; i++)
        text_part(w, &answer->part[i], answer->ns);
    for (size_t i = shown; i < answer->n; i++)
        rest += answer->part[i].ns;
    if (shown < answer->n)
        printf("%9s %6.1f %%  %zu smaller parts (--path shows them)\n", CLI_DURATION(rest),
               answer->ns > 0 ? 100.0 * (double)rest / (double)answer->ns : 0.0, answer->n - shown);
    if (w->path)
        text_path(w, answer);
}

/* ---- JSON ---- */

static void json_part(const struct cli_analysis *a, const char *key, const struct kymo_why_part *p)
{
    cli_json_open(key, '{');
    cli_json_text("cause", kymo_why_cause_name(p->cause));
    cli_json_int("ns", p->ns);
    cli_json_process(a, "process", p->process);
    cli_json_process(a, "blame", p->blame);
    cli_json_int("blame_ns", p->blame_ns);
    cli_json_function(a, "function", p->mfa);
    cli_json_int("function_ns", p->mfa_ns);
    cli_json_bool("to_collect", p->to_collect);
    cli_json_uint("stretches", p->times);
    cli_json_uint("requests", p->requests);
    if (p->cause == KYMO_WHY_QUEUE && p->held_up.process != KYMO_IDENT_NONE) {
        struct kymo_why_part by = part_of(&p->held_up);
        json_part(a, "held_up", &by);
    }
    cli_json_close('}');
}

void cli_why_json(const struct cli_analysis *a, const struct cli_why_target *t,
                  const struct kymo_why_answer *answer)
{
    cli_json_open(NULL, '{');
    cli_json_text("kind", t->cast ? "cast" : t->server != KYMO_IDENT_NONE ? "request" : "call");
    cli_json_process(a, "process", t->process);
    cli_json_process(a, "server", t->server);
    cli_json_function(a, "function", t->mfa);
    cli_json_since(a, "start_ns", t->start);
    cli_json_int("total_ns", t->end - t->start);
    cli_json_uint("ahead", t->ahead);
    cli_json_bool("cut", answer->cut);
    cli_json_bool("path_cut", answer->path_cut);
    cli_json_open("parts", '[');
    for (size_t i = 0; i < answer->n; i++) {
        json_part(a, NULL, &answer->part[i]);
    }
    cli_json_close(']');
    cli_json_open("path", '[');
    for (size_t i = 0; i < answer->n_steps && !cli_output_lost(); i++) {
        const struct kymo_why_step *s = &answer->step[i];
        cli_json_open(NULL, '{');
        cli_json_text("cause", kymo_why_cause_name(s->cause));
        cli_json_process(a, "process", s->process);
        cli_json_since(a, "start_ns", s->start);
        cli_json_int("ns", s->end - s->start);
        cli_json_close('}');
    }
    cli_json_close(']');
    cli_json_close('}');
}

/* ---- explaining ---- */

/* Up to when facts are needed. What a server waited for when its client gave up may have come later. */
static int64_t until(const struct cli_why_target *t)
{
    bool later = t->request.ended == KYMO_REQ_TIMEOUT && t->request.replied != KYMO_NO_TIME;
    return later && t->request.replied > t->end ? t->request.replied : t->end;
}

/* Reads the facts that n targets need. Facts before their windows are passed to `facts` as well,
 * which selects what it needs. */
static int collect(struct cli_analysis *a, const struct cli_why_target *targets, size_t n,
                   struct kymo_why *facts)
{
    int64_t to = INT64_MIN;
    struct kymo_analysis_sink sink = kymo_why_sink(facts);
    for (size_t i = 0; i < n; i++) {
        int64_t end = until(&targets[i]);
        if (!kymo_why_window(facts, targets[i].start, end))
            return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
        to = end > to ? end : to;
    }
    if (kymo_timeline_size(a->r) > 1 && to < INT64_MAX - LATE_NS)
        to += LATE_NS;
    return cli_analysis_run_window(a, &sink, 1, INT64_MIN, to - a->t0);
}

static int answer_one(const struct cli_why_target *t, struct kymo_why *facts, struct kymo_why_answer *answer)
{
    int rc = t->cast ? kymo_why_explain_cast(facts, &t->request, answer)
                     : kymo_why_explain(facts, t->process, t->start, t->end, answer);
    return rc == 0 ? KYMO_EXIT_OK : cli_fail(KYMO_EXIT_MEMORY, "out of memory");
}

/* Explains n targets with one pass. If their facts are too many, sets *halve and explains
 * nothing. */
static int explain_together(struct cli_analysis *a, const struct cli_why_target *targets, size_t n,
                            cli_why_answered answered, void *arg, bool *halve)
{
    struct kymo_why *facts = kymo_why_new(a->r);
    struct kymo_why_answer *answer = malloc(sizeof *answer);
    *halve = false;
    if (facts == NULL || answer == NULL) {
        free(answer);
        kymo_why_free(facts);
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    }
    int status = collect(a, targets, n, facts);
    *halve = status == KYMO_EXIT_OK && n > 1 && kymo_why_is_cut(facts);
    for (size_t i = 0; i < n && status == KYMO_EXIT_OK && !*halve; i++) {
        status = answer_one(&targets[i], facts, answer);
        if (status == KYMO_EXIT_OK)
            answered(arg, &targets[i], answer);
    }
    free(answer);
    kymo_why_free(facts);
    return status;
}

int cli_why_explain(struct cli_analysis *a, const struct cli_why_target *targets, size_t n,
                    cli_why_answered answered, void *arg)
{
    bool halve;
    if (n == 0)
        return KYMO_EXIT_OK;
    int status = explain_together(a, targets, n, answered, arg, &halve);
    if (!halve)
        return status;
    status = cli_why_explain(a, targets, n / 2, answered, arg);
    return status == KYMO_EXIT_OK ? cli_why_explain(a, targets + n / 2, n - n / 2, answered, arg) : status;
}

static void show_one(void *arg, const struct cli_why_target *t, const struct kymo_why_answer *answer)
{
    struct why *w = arg;
    if (w->a.json) {
        cli_why_json(&w->a, t, answer);
        return;
    }
    if (w->answered++ > 0)
        putchar('\n');
    text_answer(w, t, answer);
    if (answer->cut && !w->a.quiet)
        cli_warn("there are too many events in this time: parts of the explanation are left out");
}

/* ---- the command ---- */

static bool has_only_slow(const struct kymo_analysis_result *res)
{
    return res->has_slow && !res->has_calls && !res->has_messages;
}

/* Reports that nothing was found, and whether that is because of --at. */
static void say_nothing_found(const struct why *w)
{
    const struct kymo_analysis_result *res = &w->a.result;
    if (w->at_text != NULL && res->first != KYMO_NO_TIME && (w->at < res->first || w->at > res->last))
        cli_warn("--at %s: the recording has events from %s s to %s s only", w->at_text,
                 CLI_SINCE(&w->a, res->first), CLI_SINCE(&w->a, res->last));
    else if (has_only_slow(res))
        cli_warn("nothing to explain: the recording has slow calls only, which kymo print --tree shows; "
                 "record messages too, or calls with returns");
    else
        cli_warn("nothing to explain: no request with a reply and no finished call matches the options; %s",
                 kymo_reader_damage(w->a.r)->events_missing != 0 ? "what is left of the recording has none"
                 : res->has_messages                             ? "give fewer options, or record for longer"
                                                                 : "record messages, or calls with returns");
}

/* How long the oldest request without a reply had been open at the end. */
static int64_t oldest_age(const struct why *w)
{
    return w->open > 0 ? w->a.result.last - w->oldest.sent : KYMO_NO_TIME;
}

/* Requests that were open at the end, for longer than any other took. The call that stopped the recorder
 * is open in each recording. */
static void say_what_is_open(const struct why *w)
{
    int64_t age = oldest_age(w), longest = w->n > 0 ? w->targets[0].end - w->targets[0].start : 0;
    if (w->a.quiet || w->a.json || age < OPEN_LONG_NS || age <= longest)
        return;
    cli_warn("%" PRIu64 " request%s had no reply, the oldest for %s: %s -> %s", w->open,
             w->open == 1 ? "" : "s", CLI_DURATION(age), PROCESS(w, w->oldest.client),
             PROCESS(w, w->oldest.server));
}

/* A call that took longer than the slowest request, and not only because it made that request. */
static void say_slower_call(const struct why *w)
{
    enum { TIMES = 2 };
    if (w->a.quiet || w->a.json || !w->requests || w->n == 0 ||
        w->slowest_call / TIMES < w->targets[0].end - w->targets[0].start)
        return;
    cli_warn("a call took longer: %s, %s; --function explains it", CLI_DURATION(w->slowest_call),
             FUNCTION(w, w->slowest_function));
}

static void say_what_lacks(const struct why *w)
{
    const struct kymo_analysis_result *res = &w->a.result;
    if (w->n == 0 && !w->a.quiet)
        say_nothing_found(w);
    if (!w->a.quiet && w->slowest_cast != KYMO_NO_TIME &&
        (w->n == 0 || w->slowest_cast > w->targets[0].end - w->targets[0].start))
        cli_warn("a cast took longer: %s until it was handled; --casts explains casts, too",
                 CLI_DURATION(w->slowest_cast));
    say_slower_call(w);
    say_what_is_open(w);
    if (w->casts)
        cli_casts_unplaced(&w->a);
    if (has_only_slow(res))
        return;
    cli_lacks(&w->a, res->has_running, "running events", "running and waiting cannot be distinguished");
    cli_lacks(&w->a, res->has_messages, "messages", "it is unknown which process waited for which");
}

/* Compares with a tolerance: when the trigger fired, times after the newest calibration point
 * were estimates. */
static bool is_same(const struct cli_why_target *a, const struct cli_why_target *b)
{
    return a->process == b->process && llabs(a->start - b->start) < 10000;
}

/* Puts the cause of the trigger first, if the snapshot has all of it and the user has not
 * selected anything else. A request that was still open when the trigger fired is found only
 * this way. */
static void put_firing_first(struct why *w)
{
    const struct cli_firing *f = &w->firing;
    struct cli_why_target t = {.server = KYMO_IDENT_NONE};
    if (!w->has_firing || f->end_ns <= f->start_ns || !cli_firing_is_held(f, w->a.r) ||
        !cli_parse_ident(f->process_pid, &t.process))
        return;
    t.start = w->a.t0 + f->start_ns;
    t.end = w->a.t0 + f->end_ns;
    if (!cli_parse_ident(f->server_pid, &t.server))
        t.server = KYMO_IDENT_NONE;
    size_t same = 0;
    while (same < w->n && !is_same(&w->targets[same], &t))
        same++;
    if (same < w->n)
        t = w->targets[same]; /* which has the function and the full duration */
    if (same == w->n && w->n < w->room)
        w->n++;
    size_t behind = same < w->n ? same : w->n - 1;
    memmove(w->targets + 1, w->targets, behind * sizeof *w->targets);
    w->targets[0] = t;
}

static int run(struct why *w)
{
    int status = find_targets(w);
    if (status != KYMO_EXIT_OK)
        return status;
    put_firing_first(w);
    say_what_lacks(w);
    if (w->has_firing && !w->a.json)
        cli_firing_text(&w->firing, w->a.r);
    if (!w->a.json && w->n > 0)
        cli_say_exact(&w->a);
    if (w->a.json) {
        cli_json_open(NULL, '{');
        cli_json_analysis(&w->a);
        cli_json_ns("slowest_cast_ns", w->slowest_cast);
        cli_json_ns("slowest_call_ns", w->slowest_call);
        cli_json_function(&w->a, "slowest_call", w->slowest_function);
        cli_json_uint("open", w->open);
        cli_json_ns("oldest_open_ns", oldest_age(w));
        cli_json_open("answers", '[');
    }
    status = cli_why_explain(&w->a, w->targets, w->n, show_one, w);
    if (w->a.json) {
        cli_json_close(']');
        cli_json_close('}');
        cli_json_end();
    }
    return status;
}

/* True if an option selects something other than the cause of the trigger. */
static bool is_narrowed(const struct cli_analysis *a)
{
    const struct cli_filter *f = &a->filter;
    return a->n_functions != 0 || f->n_modules != 0 || f->n_pids != 0 || f->from_text != NULL ||
           f->to_text != NULL;
}

static bool excludes_all(const struct why *w)
{
    return w->at_text != NULL || w->path || w->casts || w->a.n_functions != 0 || w->a.filter.n_modules != 0;
}

int cli_why(int argc, char **argv)
{
    enum { OPT_AT = 1, OPT_PATH, OPT_CASTS, OPT_ALL, KINDS = 3 };
    const uint64_t not_given = UINT64_MAX;
    static const struct option options[] = {CLI_ANALYSIS_OPTIONS,
                                            {"at", required_argument, NULL, OPT_AT},
                                            {"path", no_argument, NULL, OPT_PATH},
                                            {"casts", no_argument, NULL, OPT_CASTS},
                                            {"all", no_argument, NULL, OPT_ALL},
                                            {NULL, 0, NULL, 0}};
    struct why w = {.slowest_cast = KYMO_NO_TIME, .slowest_call = KYMO_NO_TIME};
    int status = KYMO_EXIT_OK;
    int64_t at;
    bool all = false;
    cli_analysis_init(&w.a, "why", not_given);
    for (int o;
         status == KYMO_EXIT_OK && (o = getopt_long(argc, argv, CLI_ANALYSIS_SHORT, options, NULL)) != -1;) {
        switch (o) {
        case OPT_AT: w.at_text = optarg; break;
        case OPT_PATH: w.path = true; break;
        case OPT_CASTS: w.casts = true; break;
        case OPT_ALL: all = true; break;
        default: status = cli_analysis_option(&w.a, o, optarg);
        }
    }
    if (status == KYMO_EXIT_OK && w.at_text != NULL && !cli_parse_time(w.at_text, NULL, &at))
        status = cli_usage("why", "--at: '%s' is not a time", w.at_text);
    if (w.a.top == not_given)
        w.a.top = all ? KINDS : 1;
    if (status == KYMO_EXIT_OK && all && excludes_all(&w))
        status = cli_usage("why", "--all explains requests of any time: it excludes --at, --path, --casts, "
                                  "--function and --module");
    if (status == KYMO_EXIT_OK && (w.a.top == 0 || w.a.top > TOP_MAX))
        status = cli_usage("why", "--top: %" PRIu64 " is not a number from 1 to %d", w.a.top, TOP_MAX);
    if (status == KYMO_EXIT_OK)
        status = cli_analysis_open_timeline(&w.a, argc - optind, argv + optind);
    if (status == KYMO_EXIT_OK && w.at_text != NULL) {
        (void)cli_parse_time(w.at_text, w.a.r, &at);
        w.at = (int64_t)((uint64_t)w.a.t0 + (uint64_t)at);
    }
    if (status == KYMO_EXIT_OK && w.at_text == NULL && !all && !is_narrowed(&w.a))
        w.has_firing = cli_firing_read(argv[optind], &w.firing);
    if (status == KYMO_EXIT_OK)
        status = all ? cli_why_all(&w.a) : run(&w);
    free(w.targets);
    return cli_analysis_close(&w.a, status);
}
