/* SPDX-License-Identifier: Apache-2.0
 *
 * The export to OpenTelemetry: two readings, and the target that is a file. The first
 * reading finds out which request was made for which other one, the second one writes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_otlp.h"
#include "kymo_timeline.h"
#include "otlp_metrics.h"
#include "otlp_spans.h"
#include "outfile.h"
#include "shed_spans.h"

/* ---- what the spans come from ---- */

static void put_node(struct kymo_otlp_writer *w, const struct kymo_meta *m)
{
    char node[sizeof m->node + 1], service[sizeof node];
    snprintf(node, sizeof node, "%.*s", (int)(m->node_len <= sizeof m->node ? m->node_len : 0),
             (const char *)m->node);
    const char *at = strchr(node, '@');
    if (at == NULL || strcmp(node, "nonode@nohost") == 0) {
        kymo_otlp_text(w, "service.name", "unknown_service:beam.smp");
    } else {
        snprintf(service, sizeof service, "%.*s", (int)(at - node), node);
        kymo_otlp_text(w, "service.name", service);
        kymo_otlp_text(w, "service.instance.id", node);
        kymo_otlp_text(w, "host.name", at + 1);
    }
}

static void put_resource(struct kymo_otlp_writer *w, const struct kymo_meta *m)
{
    char text[2 * sizeof m->uuid + 1];
    put_node(w, m);
    kymo_otlp_int(w, "process.pid", (int64_t)m->os_pid);
    kymo_otlp_text(w, "process.runtime.name", "BEAM");
    snprintf(text, sizeof text, "%.*s", (int)sizeof m->erts_version, m->erts_version);
    kymo_otlp_text(w, "process.runtime.version", text);
    snprintf(text, sizeof text, "%.*s", (int)sizeof m->otp_release, m->otp_release);
    kymo_otlp_text(w, "erlang.otp_release", text);
    for (size_t i = 0; i < sizeof m->uuid; i++)
        snprintf(text + 2 * i, 3, "%02x", m->uuid[i]);
    kymo_otlp_text(w, "kymo.recording.id", text);
}

/* What is missing from the spans of this node. */
static void put_shed(struct kymo_otlp_writer *w, const struct kymo_reader *r, uint32_t i)
{
    const struct kymo_meta *m = kymo_timeline_meta(r, i);
    char text[1024];
    if (m->budget_ppm != 0)
        kymo_otlp_int(w, "kymo.budget.cpu_ppm", (int64_t)m->budget_ppm);
    if (m->budget_events != 0)
        kymo_otlp_int(w, "kymo.budget.events", (int64_t)m->budget_events);
    if (kymo_shed_text(r, i, text, sizeof text) > 0)
        kymo_otlp_text(w, "kymo.shed", text);
}

/* ---- the readings ---- */

struct export
{
    struct kymo_reader *r;
    const struct kymo_otlp_options *o;
    struct kymo_otlp_chains chains;
    struct kymo_naming *naming;
    struct kymo_otlp_writer *writers; /* of spans by node, then of metrics by node */
    uint32_t n;                       /* nodes */
};

enum { SINKS_MAX = 3 };

static int read_all(struct export *x, const struct kymo_analysis_sink *sink, size_t n_sinks,
                    struct kymo_analysis_result *found, char *err, size_t err_size)
{
    struct kymo_analysis_options options = {.from_ns = x->o->from_ns,
                                            .to_ns = x->o->to_ns,
                                            .progress = x->o->progress,
                                            .progress_arg = x->o->progress_arg};
    struct kymo_analysis_sink sinks[SINKS_MAX] = {{.arg = x->naming, .event = kymo_naming_event}};
    for (size_t i = 0; i < n_sinks; i++)
        sinks[i + 1] = sink[i];
    return kymo_analyse(x->r, &options, sinks, n_sinks + 1, found, err, err_size);
}

static int no_memory(char *err, size_t err_size)
{
    snprintf(err, err_size, "not enough memory");
    return -ENOMEM;
}

static int read_chains(struct export *x, struct kymo_otlp_result *res, char *err, size_t err_size)
{
    struct kymo_analysis_result found;
    struct kymo_analysis_sink sink = kymo_otlp_chains_sink(&x->chains);
    x->naming = kymo_naming_new(x->r);
    if (x->naming == NULL)
        return no_memory(err, err_size);
    int rc = read_all(x, &sink, 1, &found, err, err_size);
    if (rc != 0)
        return rc;
    res->events = found.events;
    res->left_out = x->chains.left_out;
    return kymo_otlp_chains_link(&x->chains) == 0 ? 0 : no_memory(err, err_size);
}

/* Two writers for each node: its spans and metrics are in lines of their own. */
static int make_writers(struct export *x, const struct kymo_otlp_target *target, char *err, size_t err_size)
{
    x->n = kymo_timeline_size(x->r);
    x->writers = calloc(2 * (size_t)x->n, sizeof *x->writers);
    if (x->writers == NULL) {
        x->n = 0;
        return no_memory(err, err_size);
    }
    for (uint32_t node = 0; node < x->n; node++) {
        struct kymo_otlp_writer *const both[] = {&x->writers[node], &x->writers[x->n + node]};
        kymo_otlp_writer_init(both[0], target, KYMO_OTLP_SPANS, err, err_size);
        kymo_otlp_writer_init(both[1], target, KYMO_OTLP_METRICS, err, err_size);
        for (size_t i = 0; i < 2; i++) {
            put_resource(both[i], kymo_timeline_meta(x->r, node));
            put_shed(both[i], x->r, node);
            kymo_otlp_scope(both[i], x->o->version);
        }
    }
    return 0;
}

/* The first error of a writer, or 0. */
static int writer_error(const struct export *x)
{
    for (uint32_t i = 0; i < 2 * x->n; i++) {
        if (x->writers[i].error != 0)
            return x->writers[i].error;
    }
    return 0;
}

/* What is left in the writers; counts what they have handed over. */
static int finish(struct export *x, int rc, struct kymo_otlp_result *res)
{
    for (uint32_t i = 0; i < 2 * x->n; i++) {
        if (rc == 0)
            rc = kymo_otlp_writer_finish(&x->writers[i]);
        *(i < x->n ? &res->spans : &res->points) += x->writers[i].written;
    }
    return rc;
}

static int write_all(struct export *x, const struct kymo_otlp_target *target, struct kymo_otlp_result *res,
                     char *err, size_t err_size)
{
    struct kymo_otlp_spans spans;
    struct kymo_otlp_metrics metrics;
    struct kymo_analysis_result found;
    char read_err[256] = "";
    int rc = make_writers(x, target, err, err_size);
    if (rc != 0)
        return rc;
    kymo_otlp_spans_init(&spans, x->r, &x->chains, x->naming, x->writers);
    rc = kymo_otlp_metrics_init(&metrics, x->r, x->writers + x->n, x->n);
    if (rc == 0) {
        const struct kymo_analysis_sink sinks[] = {kymo_otlp_spans_sink(&spans),
                                                   kymo_otlp_metrics_sink(&metrics)};
        rc = read_all(x, sinks, 2, &found, read_err, sizeof read_err);
        kymo_otlp_metrics_finish(&metrics);
    }
    if (writer_error(x) != 0) /* err says it */
        rc = writer_error(x);
    else if (spans.failed || metrics.failed || rc == -ENOMEM)
        rc = no_memory(err, err_size);
    else if (rc != 0)
        snprintf(err, err_size, "%s", read_err);
    rc = finish(x, rc, res);
    res->requests = spans.requests;
    res->traces = spans.traces;
    kymo_otlp_metrics_free(&metrics);
    kymo_otlp_spans_free(&spans);
    return rc;
}

int kymo_export_otlp(struct kymo_reader *r, const struct kymo_otlp_options *o,
                     const struct kymo_otlp_target *target, struct kymo_otlp_result *res, char *err,
                     size_t err_size)
{
    struct export x = {.r = r, .o = o};
    memset(res, 0, sizeof *res);
    kymo_otlp_chains_init(&x.chains, r);
    int rc = read_chains(&x, res, err, err_size);
    if (rc == 0)
        rc = write_all(&x, target, res, err, err_size);
    for (uint32_t i = 0; i < 2 * x.n; i++)
        kymo_otlp_writer_free(&x.writers[i]);
    free(x.writers);
    kymo_naming_free(x.naming);
    kymo_otlp_chains_free(&x.chains);
    return rc;
}

/* ---- the file ---- */

struct kymo_otlp_file {
    struct kymo_out out;
};

static int put_line(void *arg, enum kymo_otlp_signal signal, const char *line, size_t n, size_t items,
                    char *err, size_t err_size)
{
    struct kymo_otlp_file *f = arg;
    (void)signal;
    (void)items;
    kymo_out_write(&f->out, line, n);
    kymo_out_write(&f->out, "\n", 1);
    if (f->out.error != 0)
        snprintf(err, err_size, "cannot write %s: %s", f->out.path, strerror(-f->out.error));
    return f->out.error;
}

int kymo_otlp_file_open(const char *path, struct kymo_otlp_file **out, char *err, size_t err_size)
{
    struct kymo_otlp_file *f = calloc(1, sizeof *f);
    int rc = f != NULL ? kymo_out_open(&f->out, path, err, err_size) : no_memory(err, err_size);
    if (rc != 0) {
        free(f);
        f = NULL;
    }
    *out = f;
    return rc;
}

struct kymo_otlp_target kymo_otlp_file_target(struct kymo_otlp_file *f)
{
    return (struct kymo_otlp_target){.arg = f, .put = put_line};
}

int kymo_otlp_file_close(struct kymo_otlp_file *f, bool whole, uint64_t *bytes, char *err, size_t err_size)
{
    int rc = 0;
    if (f == NULL)
        return 0;
    *bytes = kymo_out_bytes(&f->out);
    if (whole)
        rc = kymo_out_finish(&f->out, err, err_size);
    kymo_out_abort(&f->out);
    free(f);
    return rc;
}
