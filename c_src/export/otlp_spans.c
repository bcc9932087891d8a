/* SPDX-License-Identifier: Apache-2.0
 *
 * A request becomes a span of its client with child spans: the time in the mailbox, its handling in
 * the server, and the transfer of the reply. Calls and collections become spans if they are part of
 * the handling of a request. A part whose beginning or end is unknown is left out. A request or call
 * without a recorded end becomes a span up to the time at which it was last seen, and is marked as
 * incomplete. A call that the runtime has reported as slow becomes a span if calls of its function are
 * not recorded: below the request in whose handling it began, or else in a trace of its own.
 */
#include "otlp_spans.h"

#include <stdio.h>
#include <string.h>

#include "kymo_lesson.h"
#include "kymo_timeline.h"

enum { LINKS_MAX = 8 };

/* Parts of a request, from which span ids are derived. Calls and collections are numbered from
 * PART_INNER on. */
enum { PART_QUEUED = 1, PART_HANDLED = 2, PART_REPLY = 3, PART_INNER = 16 };

/* An open call in the handling of a request. */
struct kymo_otlp_open {
    uint64_t span, parent; /* ids in the export */
    uint32_t request;      /* index */
    bool handler;          /* it is the call that handles the request, and has no span of its own */
    int64_t latest;        /* latest end of a call or collection in it */
};

static uint64_t handling_id(const struct kymo_otlp_request *r)
{
    return kymo_otlp_part_id(r->key, PART_HANDLED);
}

static uint64_t next_inner_id(struct kymo_otlp_request *r)
{
    return kymo_otlp_part_id(r->key, PART_INNER + r->inner++);
}

static int64_t wall(const struct kymo_otlp_spans *x, int64_t ns)
{
    return kymo_reader_wall_ns(x->r, ns);
}

/* The end of something that began at `since` and is still open: it has lasted at least until now. */
static int64_t until_now(const struct kymo_otlp_spans *x, int64_t since)
{
    return x->newest > since ? x->newest : since;
}

/* Begins a span of the node of `process`. */
static void begin(struct kymo_otlp_spans *x, uint64_t process, const struct kymo_otlp_span *span)
{
    x->w = &x->writers[kymo_timeline_of(x->r, process)];
    kymo_otlp_span_begin(x->w, span);
}

/* ---- attributes ---- */

static void put_process(struct kymo_otlp_spans *x, const char *pid_key, const char *name_key, uint64_t ident)
{
    char pid[1100], name[1100];
    if (ident == KYMO_IDENT_NONE)
        return;
    kymo_format_ident(x->r, ident, pid, sizeof pid);
    kymo_name_short(x->naming, ident, name, sizeof name);
    kymo_otlp_text(x->w, pid_key, pid);
    if (strcmp(pid, name) != 0)
        kymo_otlp_text(x->w, name_key, name);
}

static void put_own(struct kymo_otlp_spans *x, uint64_t ident)
{
    put_process(x, "erlang.process.pid", "erlang.process.name", ident);
}

static void put_peer(struct kymo_otlp_spans *x, uint64_t ident)
{
    put_process(x, "erlang.peer.pid", "erlang.peer.name", ident);
}

static void put_function(struct kymo_otlp_spans *x, uint32_t mfa)
{
    char text[2300];
    if (mfa == 0)
        return;
    kymo_name_function(x->naming, mfa, text, sizeof text);
    kymo_otlp_text(x->w, "code.function.name", text);
}

/* Writes the attributes that tell why the end is unknown, and how it failed. */
static void put_end(struct kymo_otlp_spans *x, const char *incomplete, const char *error_type)
{
    if (incomplete != NULL)
        kymo_otlp_text(x->w, "kymo.incomplete", incomplete);
    if (error_type != NULL)
        kymo_otlp_text(x->w, "error.type", error_type);
}

/* ---- calls and collections ---- */

static void write_slow(struct kymo_otlp_spans *x, const struct kymo_event *ev, uint32_t mfa)
{
    char name[2300];
    int64_t start;
    if (!kymo_slow_calls_shows(&x->slow, ev, mfa, &start))
        return;
    struct kymo_otlp_request *r = kymo_otlp_handled_at(x->chains, ev->who, start, KYMO_NO_TIME, 0);
    struct kymo_otlp_span span = {
        .name = name, .kind = KYMO_OTLP_INTERNAL, .start = wall(x, start), .end = wall(x, ev->ns)};
    if (r != NULL) {
        span.id = next_inner_id(r);
        span.parent = handling_id(r);
        kymo_otlp_trace_id(x->chains, r, span.trace);
    } else {
        kymo_otlp_slow_trace(x->chains, ev->who, mfa, start, span.trace);
        span.id = kymo_otlp_part_id(span.trace[0], span.trace[1]);
        x->traces++;
    }
    kymo_name_function(x->naming, mfa, name, sizeof name);
    begin(x, ev->who, &span);
    put_function(x, mfa);
    put_own(x, ev->who);
    kymo_otlp_text(x->w, "kymo.call.ended", "slow");
    kymo_otlp_span_end(x->w, &span, 0);
}

static void on_event(void *arg, const struct kymo_event *ev)
{
    struct kymo_otlp_spans *x = arg;
    x->newest = ev->ns > x->newest ? ev->ns : x->newest;
    if (ev->id != KYMO_E_CALL && ev->id != KYMO_E_SLOW)
        return;
    uint32_t mfa = kymo_canonical(x->r, ev->mfa);
    if (ev->id == KYMO_E_SLOW)
        write_slow(x, ev, mfa);
    else if (!kymo_slow_calls_called(&x->slow, mfa))
        x->failed = true;
}

static void on_span_open(void *arg, const struct kymo_span *s)
{
    struct kymo_otlp_spans *x = arg;
    const uint32_t *handled = kymo_map_get(&x->chains->handlers, s->id);
    const struct kymo_otlp_open *in = kymo_map_get(&x->open, s->parent);
    struct kymo_otlp_open o = {.latest = s->start};
    if (handled != NULL) {
        o.request = *handled - 1;
        o.handler = true;
        o.span = handling_id(&x->chains->q[o.request]);
    } else if (in != NULL) {
        o.request = in->request;
        o.parent = in->span;
        o.span = next_inner_id(&x->chains->q[o.request]);
    } else {
        return;
    }
    struct kymo_otlp_waiter *waiter = kymo_map_get(&x->chains->waiters, s->id);
    if (waiter != NULL)
        *waiter = (struct kymo_otlp_waiter){.span = o.span, .request = o.request + 1};
    struct kymo_otlp_open *place = kymo_map_put(&x->open, s->id, NULL);
    if (place != NULL)
        *place = o;
    else
        x->failed = true;
}

static void write_call(struct kymo_otlp_spans *x, const struct kymo_otlp_open *o, const struct kymo_span *s,
                       int64_t end)
{
    static const char *const ended[] = {"return", "exception", "tail_call", "hibernate",
                                        "exit",   "lost",      "open"};
    char name[2300];
    bool incomplete = s->end == KYMO_NO_TIME, exception = s->ended == KYMO_SPAN_EXCEPTION;
    struct kymo_otlp_span span = {.id = o->span,
                                  .parent = o->parent,
                                  .name = name,
                                  .kind = KYMO_OTLP_INTERNAL,
                                  .start = wall(x, s->start),
                                  .end = wall(x, end),
                                  .error = exception ? "it ended with an exception" : NULL};
    kymo_otlp_trace_id(x->chains, &x->chains->q[o->request], span.trace);
    kymo_name_function(x->naming, s->mfa, name, sizeof name);
    begin(x, s->process, &span);
    put_function(x, s->mfa);
    put_own(x, s->process);
    if (s->ended < sizeof ended / sizeof *ended)
        kymo_otlp_text(x->w, "kymo.call.ended", ended[s->ended]);
    if (s->running != KYMO_NO_TIME)
        kymo_otlp_int(x->w, "kymo.running_ns", s->running);
    if (s->gc != KYMO_NO_TIME && s->gc > 0)
        kymo_otlp_int(x->w, "kymo.gc_ns", s->gc);
    put_end(x, incomplete ? ended[s->ended] : NULL, exception ? "exception" : NULL);
    kymo_otlp_span_end(x->w, &span, 0);
}

static void on_span(void *arg, const struct kymo_span *s)
{
    struct kymo_otlp_spans *x = arg;
    const struct kymo_otlp_open *known = kymo_map_get(&x->open, s->id);
    if (known == NULL)
        return;
    struct kymo_otlp_open o = *known;
    int64_t end = s->end != KYMO_NO_TIME       ? s->end
                  : s->ended == KYMO_SPAN_OPEN ? until_now(x, o.latest)
                                               : o.latest;
    kymo_map_remove(&x->open, s->id);
    if (!o.handler)
        write_call(x, &o, s, end);
    struct kymo_otlp_open *in = kymo_map_get(&x->open, s->parent);
    if (in != NULL && in->latest < end)
        in->latest = end;
}

static void on_collection(void *arg, const struct kymo_collection *c)
{
    struct kymo_otlp_spans *x = arg;
    struct kymo_otlp_open *in = c->span != 0 ? kymo_map_get(&x->open, c->span) : NULL;
    struct kymo_otlp_request *r = NULL;
    if (c->start == KYMO_NO_TIME || c->end == KYMO_NO_TIME)
        return;
    if (in != NULL) {
        r = &x->chains->q[in->request];
        in->latest = in->latest < c->end ? c->end : in->latest;
    } else {
        /* If the callbacks are not traced, the request is found by time. */
        r = kymo_otlp_handled_at(x->chains, c->process, c->start, KYMO_NO_TIME, 0);
        if (r == NULL || r->handler != 0)
            return;
    }
    struct kymo_otlp_span span = {.id = next_inner_id(r),
                                  .parent = in != NULL ? in->span : handling_id(r),
                                  .name = c->major ? "major gc" : "minor gc",
                                  .kind = KYMO_OTLP_INTERNAL,
                                  .start = wall(x, c->start),
                                  .end = wall(x, c->end)};
    kymo_otlp_trace_id(x->chains, r, span.trace);
    begin(x, c->process, &span);
    put_own(x, c->process);
    kymo_otlp_text(x->w, "erlang.gc.kind", c->major ? "major" : "minor");
    if (c->before.known)
        kymo_otlp_int(x->w, "erlang.gc.heap_before_words", (int64_t)c->before.heap);
    if (c->after.known)
        kymo_otlp_int(x->w, "erlang.gc.heap_after_words", (int64_t)c->after.heap);
    kymo_otlp_span_end(x->w, &span, 0);
}

/* ---- requests ---- */

static const char *kind_name(uint8_t kind)
{
    static const char *const names[] = {"?", "call", "cast", "io", "spawn"};
    return names[kind <= KYMO_REQ_SPAWN ? kind : 0];
}

/* How a request ended: names for programs, and a description if it failed. */
static const struct outcome {
    const char *name, *incomplete, *error_type, *error;
} outcomes[] = {{"replied", NULL, NULL, NULL},
                {"down", NULL, "down", "the server was gone before it replied"},
                {"open", "open", "no_reply", "there was no reply until the end of the recording"},
                {"no_reply", NULL, NULL, NULL},
                {"gone", NULL, "gone", "the process that waited or was asked has exited"},
                {"timeout", NULL, "timeout", "the client stopped waiting for the reply"}};

/* Nothing was missing for the sender. */
static const struct outcome open_cast = {"open", NULL, NULL, NULL};

static const struct outcome *outcome_of(const struct kymo_request *q)
{
    if (q->kind == KYMO_REQ_CAST && q->ended == KYMO_REQ_OPEN)
        return &open_cast;
    return &outcomes[q->ended <= KYMO_REQ_TIMEOUT ? q->ended : KYMO_REQ_OPEN];
}

static void put_rpc(struct kymo_otlp_spans *x, const struct kymo_request *q, const char *service)
{
    kymo_otlp_text(x->w, "rpc.system", "erlang");
    kymo_otlp_text(x->w, "rpc.service", service);
    kymo_otlp_text(x->w, "rpc.method", kind_name(q->kind));
}

/* Writes the span of the client. Its parent is the call in which the request was made, or else the
 * handling of the request on whose behalf it was made. */
static void write_client(struct kymo_otlp_spans *x, const struct kymo_otlp_request *r,
                         const struct kymo_request *q, struct kymo_otlp_span span, const char *service)
{
    const struct outcome *o = outcome_of(q);
    const struct kymo_otlp_waiter *w = q->waiter != 0 ? kymo_map_get(&x->chains->waiters, q->waiter) : NULL;
    bool cast = q->kind == KYMO_REQ_CAST;
    char name[1200];
    snprintf(name, sizeof name, "%s %s", kind_name(q->kind), service);
    span.id = r->key;
    span.name = name;
    span.kind = cast ? KYMO_OTLP_PRODUCER : KYMO_OTLP_CLIENT;
    span.start = wall(x, q->sent);
    span.end = wall(x, cast ? q->sent : q->received != KYMO_NO_TIME ? q->received : until_now(x, q->sent));
    span.error = o->error;
    if (r->parent != 0)
        span.parent = w != NULL && w->span != 0 && w->request == r->parent
                          ? w->span
                          : handling_id(&x->chains->q[r->parent - 1]);
    begin(x, q->client, &span);
    put_rpc(x, q, service);
    put_function(x, q->waiter_mfa);
    put_own(x, q->client);
    put_peer(x, q->server);
    kymo_otlp_text(x->w, "kymo.request.outcome", o->name);
    if (q->kind == KYMO_REQ_CALL)
        kymo_otlp_int(x->w, "kymo.request.ahead", q->ahead);
    put_end(x, o->incomplete, o->error_type);
    if (cast && q->fetched != KYMO_NO_TIME)
        kymo_otlp_event(x->w, wall(x, q->fetched), "in mailbox");
    kymo_otlp_span_end(x->w, &span, 0);
}

/* Writes the wait in the mailbox, with links to the requests that the server handled meanwhile. */
static void write_queued(struct kymo_otlp_spans *x, const struct kymo_otlp_request *r,
                         const struct kymo_request *q, struct kymo_otlp_span span)
{
    const struct kymo_otlp_request *ahead[LINKS_MAX];
    if (q->kind == KYMO_REQ_SPAWN || q->handled == KYMO_NO_TIME)
        return;
    size_t n = kymo_otlp_ahead(x->chains, r, ahead, LINKS_MAX);
    span.id = kymo_otlp_part_id(r->key, PART_QUEUED);
    span.name = "queued";
    span.kind = KYMO_OTLP_INTERNAL;
    span.start = wall(x, q->sent);
    span.end = wall(x, q->handled);
    begin(x, q->server, &span);
    put_own(x, q->server);
    if (q->inferred)
        kymo_otlp_bool(x->w, "kymo.inferred", true);
    if (q->fetched != KYMO_NO_TIME)
        kymo_otlp_event(x->w, wall(x, q->fetched), "in mailbox");
    for (size_t i = 0; i < n && i < LINKS_MAX; i++) {
        uint64_t trace[2];
        kymo_otlp_trace_id(x->chains, ahead[i], trace);
        kymo_otlp_link(x->w, trace, handling_id(ahead[i]), "queued_behind");
    }
    kymo_otlp_span_end(x->w, &span, n > LINKS_MAX ? n - LINKS_MAX : 0);
}

static void write_handled(struct kymo_otlp_spans *x, const struct kymo_otlp_request *r,
                          const struct kymo_request *q, struct kymo_otlp_span span, const char *service)
{
    const struct kymo_otlp_open *open = q->handler != 0 ? kymo_map_get(&x->open, q->handler) : NULL;
    const struct outcome *o = outcome_of(q);
    bool cast = q->kind == KYMO_REQ_CAST;
    int64_t end = !cast && q->replied != KYMO_NO_TIME ? q->replied : q->handled_end;
    bool goes_on = end == KYMO_NO_TIME && open != NULL;
    if (q->handled == KYMO_NO_TIME || (end == KYMO_NO_TIME && !goes_on))
        return;
    char name[2300];
    if (q->handler_mfa != 0)
        kymo_name_function(x->naming, q->handler_mfa, name, sizeof name);
    else
        snprintf(name, sizeof name, "handle %s %s", kind_name(q->kind), service);
    span.id = handling_id(r);
    span.name = name;
    span.kind = cast ? KYMO_OTLP_CONSUMER : KYMO_OTLP_SERVER;
    span.start = wall(x, q->handled);
    span.end = wall(x, goes_on ? until_now(x, q->handled) : end);
    span.error = o->error;
    begin(x, q->server, &span);
    put_rpc(x, q, service);
    put_function(x, q->handler_mfa);
    put_own(x, q->server);
    put_peer(x, q->client);
    if (q->inferred)
        kymo_otlp_bool(x->w, "kymo.inferred", true);
    put_end(x, goes_on ? "open" : NULL, o->error_type);
    kymo_otlp_span_end(x->w, &span, 0);
}

static void write_reply(struct kymo_otlp_spans *x, const struct kymo_otlp_request *r,
                        const struct kymo_request *q, struct kymo_otlp_span span)
{
    if (q->kind == KYMO_REQ_CAST || q->passed_on || q->ended != KYMO_REQ_REPLIED ||
        q->replied == KYMO_NO_TIME || q->received == KYMO_NO_TIME)
        return;
    span.id = kymo_otlp_part_id(r->key, PART_REPLY);
    span.name = "reply";
    span.kind = KYMO_OTLP_INTERNAL;
    span.start = wall(x, q->replied);
    span.end = wall(x, q->received);
    begin(x, q->client, &span);
    put_own(x, q->client);
    kymo_otlp_span_end(x->w, &span, 0);
}

static void on_request(void *arg, const struct kymo_request *q)
{
    struct kymo_otlp_spans *x = arg;
    const struct kymo_otlp_request *r = kymo_otlp_find(x->chains, q->id);
    char service[1100];
    if (r == NULL) /* it was left out and counted in the first pass */
        return;
    struct kymo_otlp_span part = {.parent = r->key};
    kymo_otlp_trace_id(x->chains, r, part.trace);
    kymo_name_role(x->naming, q->server, service, sizeof service);
    struct kymo_otlp_span client = part;
    client.parent = 0;
    write_client(x, r, q, client, service);
    write_queued(x, r, q, part);
    write_handled(x, r, q, part, service);
    write_reply(x, r, q, part);
    x->requests++;
    x->traces += r->parent == 0;
}

void kymo_otlp_spans_init(struct kymo_otlp_spans *x, struct kymo_reader *r, struct kymo_otlp_chains *chains,
                          struct kymo_naming *naming, struct kymo_otlp_writer *writers)
{
    *x = (struct kymo_otlp_spans){
        .r = r, .chains = chains, .naming = naming, .writers = writers, .w = writers, .newest = INT64_MIN};
    kymo_map_init(&x->open, sizeof(struct kymo_otlp_open));
    kymo_slow_calls_init(&x->slow);
}

void kymo_otlp_spans_free(struct kymo_otlp_spans *x)
{
    kymo_map_free(&x->open);
    kymo_slow_calls_free(&x->slow);
}

struct kymo_analysis_sink kymo_otlp_spans_sink(struct kymo_otlp_spans *x)
{
    return (struct kymo_analysis_sink){.arg = x,
                                       .event = on_event,
                                       .span_open = on_span_open,
                                       .span = on_span,
                                       .request = on_request,
                                       .collection = on_collection};
}
