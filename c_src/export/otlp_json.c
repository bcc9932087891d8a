/* SPDX-License-Identifier: Apache-2.0 */
#include "otlp_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_text.h"

/* The version of the semantic conventions that define the names of attributes. */
#define SCHEMA "\"schemaUrl\":\"https://opentelemetry.io/schemas/1.30.0\""

/* ---- text ---- */

static void put(void *writer, const void *bytes, size_t n)
{
    struct kymo_otlp_writer *w = writer;
    if (w->error != 0)
        return;
    if (w->n + n > w->room) {
        size_t room = w->room == 0 ? 4096 : w->room;
        while (room < w->n + n)
            room *= 2;
        char *more = realloc(w->buf, room);
        if (more == NULL) {
            w->error = -ENOMEM;
            snprintf(w->err, w->err_size, "not enough memory");
            return;
        }
        w->buf = more;
        w->room = room;
    }
    memcpy(w->buf + w->n, bytes, n);
    w->n += n;
}

static void say(struct kymo_otlp_writer *w, const char *text)
{
    put(w, text, strlen(text));
}

static void __attribute__((format(printf, 2, 3)))
say_formatted(struct kymo_otlp_writer *w, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    put(w, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

/* ---- lines ---- */

void kymo_otlp_writer_init(struct kymo_otlp_writer *w, const struct kymo_otlp_target *target,
                           enum kymo_otlp_signal signal, char *err, size_t err_size)
{
    memset(w, 0, sizeof *w);
    w->target = target;
    w->signal = signal;
    w->err = err;
    w->err_size = err_size;
    w->section = 'a';
    w->first = true;
    say_formatted(w, "{\"resource%s\":[{\"resource\":{\"attributes\":[",
                  signal == KYMO_OTLP_SPANS ? "Spans" : "Metrics");
}

void kymo_otlp_scope(struct kymo_otlp_writer *w, const char *version)
{
    say_formatted(w, "]},\"scope%s\":[{\"scope\":{\"name\":\"kymo\",\"version\":",
                  w->signal == KYMO_OTLP_SPANS ? "Spans" : "Metrics");
    kymo_json_string(put, w, version, strlen(version));
    say_formatted(w, "},\"%s\":[", w->signal == KYMO_OTLP_SPANS ? "spans" : "metrics");
    w->head = w->n;
    w->first = true;
}

static void hand_over(struct kymo_otlp_writer *w)
{
    say(w, "]," SCHEMA "}]," SCHEMA "}]}");
    if (w->error == 0)
        w->error = w->target->put(w->target->arg, w->signal, w->buf, w->n, w->items, w->err, w->err_size);
    w->written += w->error == 0 ? w->items : 0;
    w->n = w->head;
    w->items = 0;
    w->first = true;
}

int kymo_otlp_writer_finish(struct kymo_otlp_writer *w)
{
    if (w->items > 0)
        hand_over(w);
    return w->error;
}

void kymo_otlp_writer_free(struct kymo_otlp_writer *w)
{
    free(w->buf);
    w->buf = NULL;
}

/* ---- spans ---- */

static uint64_t unix_time(int64_t ns)
{
    return ns > 0 ? (uint64_t)ns : 0; /* negative in damaged recordings only */
}

void kymo_otlp_span_begin(struct kymo_otlp_writer *w, const struct kymo_otlp_span *s)
{
    if (w->items > 0)
        say(w, ",");
    say_formatted(w, "{\"traceId\":\"%016" PRIx64 "%016" PRIx64 "\",\"spanId\":\"%016" PRIx64 "\"",
                  s->trace[0], s->trace[1], s->id);
    if (s->parent != 0)
        say_formatted(w, ",\"parentSpanId\":\"%016" PRIx64 "\"", s->parent);
    say(w, ",\"name\":");
    kymo_json_string(put, w, s->name, strlen(s->name));
    uint64_t start = unix_time(s->start), end = unix_time(s->end);
    say_formatted(w,
                  ",\"kind\":%d,\"startTimeUnixNano\":\"%" PRIu64 "\",\"endTimeUnixNano\":\"%" PRIu64
                  "\",\"attributes\":[",
                  (int)s->kind, start, end > start ? end : start);
    w->section = 'a';
    w->first = true;
}

static void next_element(struct kymo_otlp_writer *w, char section, const char *name)
{
    if (w->section != section) {
        say_formatted(w, "],\"%s\":[", name);
        w->section = section;
    } else if (!w->first) {
        say(w, ",");
    }
    w->first = false;
}

static void key(struct kymo_otlp_writer *w, const char *name)
{
    next_element(w, 'a', "attributes");
    say_formatted(w, "{\"key\":\"%s\",\"value\":{", name);
}

void kymo_otlp_text(struct kymo_otlp_writer *w, const char *name, const char *text)
{
    key(w, name);
    say(w, "\"stringValue\":");
    kymo_json_string(put, w, text, strlen(text));
    say(w, "}}");
}

void kymo_otlp_int(struct kymo_otlp_writer *w, const char *name, int64_t n)
{
    key(w, name);
    say_formatted(w, "\"intValue\":\"%" PRId64 "\"}}", n);
}

void kymo_otlp_bool(struct kymo_otlp_writer *w, const char *name, bool b)
{
    key(w, name);
    say_formatted(w, "\"boolValue\":%s}}", b ? "true" : "false");
}

void kymo_otlp_event(struct kymo_otlp_writer *w, int64_t unix_ns, const char *name)
{
    next_element(w, 'e', "events");
    say_formatted(w, "{\"timeUnixNano\":\"%" PRIu64 "\",\"name\":\"%s\"}", unix_time(unix_ns), name);
}

void kymo_otlp_link(struct kymo_otlp_writer *w, const uint64_t trace[2], uint64_t id, const char *why)
{
    next_element(w, 'l', "links");
    say_formatted(w, "{\"traceId\":\"%016" PRIx64 "%016" PRIx64 "\",\"spanId\":\"%016" PRIx64 "\"", trace[0],
                  trace[1], id);
    say_formatted(w, ",\"attributes\":[{\"key\":\"kymo.link\",\"value\":{\"stringValue\":\"%s\"}}]}", why);
}

void kymo_otlp_span_end(struct kymo_otlp_writer *w, const struct kymo_otlp_span *s, size_t dropped)
{
    say(w, "]");
    if (dropped > 0)
        say_formatted(w, ",\"droppedLinksCount\":%zu", dropped);
    say(w, ",\"status\":{");
    if (s->error != NULL) {
        say(w, "\"message\":");
        kymo_json_string(put, w, s->error, strlen(s->error));
        say(w, ",\"code\":2");
    }
    say(w, "}}");
    w->items++;
    if (w->items >= KYMO_OTLP_LINE_SPANS || w->n >= KYMO_OTLP_LINE_BYTES)
        hand_over(w);
}

/* ---- metrics ---- */

static void comma(struct kymo_otlp_writer *w)
{
    if (!w->first)
        say(w, ",");
    w->first = false;
}

void kymo_otlp_metric_begin(struct kymo_otlp_writer *w, const char *name, const char *unit, bool sum)
{
    comma(w);
    say_formatted(w, "{\"name\":\"%s\",\"unit\":\"%s\",\"%s\":{\"dataPoints\":[", name, unit,
                  sum ? "sum" : "gauge");
    w->first = true;
}

void kymo_otlp_point(struct kymo_otlp_writer *w, const struct kymo_otlp_point *p)
{
    comma(w);
    say(w, "{");
    if (p->key != NULL && p->text != NULL)
        say_formatted(w, "\"attributes\":[{\"key\":\"%s\",\"value\":{\"stringValue\":\"%s\"}}],", p->key,
                      p->text);
    else if (p->key != NULL)
        say_formatted(w, "\"attributes\":[{\"key\":\"%s\",\"value\":{\"intValue\":\"%" PRId64 "\"}}],",
                      p->key, p->number);
    uint64_t time = unix_time(p->time), start = unix_time(p->start);
    if (p->has_start)
        say_formatted(w, "\"startTimeUnixNano\":\"%" PRIu64 "\",", start < time ? start : time);
    say_formatted(w, "\"timeUnixNano\":\"%" PRIu64 "\",", time);
    if (p->divisor != 0)
        say_formatted(w, "\"asDouble\":%.15g}", (double)p->n / p->divisor);
    else
        say_formatted(w, "\"asInt\":\"%" PRIu64 "\"}", p->n < INT64_MAX ? p->n : (uint64_t)INT64_MAX);
    w->items++;
}

void kymo_otlp_metric_end(struct kymo_otlp_writer *w, bool sum)
{
    /* 2: cumulative */
    say(w, sum ? "],\"aggregationTemporality\":2,\"isMonotonic\":true}}" : "]}}");
    w->first = false;
}

void kymo_otlp_metrics_line(struct kymo_otlp_writer *w)
{
    hand_over(w);
}
