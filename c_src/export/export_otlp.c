/* SPDX-License-Identifier: Apache-2.0
 *
 * The export to OpenTelemetry: two readings of each recording, and the target that is a
 * file. The first readings find out which request was made for which other one, the second
 * ones write.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_otlp.h"
#include "otlp_spans.h"
#include "outfile.h"

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

static void put_resource(struct kymo_otlp_writer *w, const struct kymo_reader *r)
{
    const struct kymo_meta *m = kymo_reader_meta(r);
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

/* ---- the readings ---- */

struct recording {
    struct kymo_reader *r;
    struct kymo_otlp_chains chains;
    struct kymo_naming *naming;
};

static int read_all(struct recording *rec, const struct kymo_otlp_options *o, size_t i,
                    const struct kymo_analysis_sink *sink, struct kymo_analysis_result *found, char *err,
                    size_t err_size)
{
    struct kymo_analysis_options options = {.from_ns = o->from_ns[i],
                                            .to_ns = o->to_ns[i],
                                            .progress = o->progress,
                                            .progress_arg = o->progress_arg};
    struct kymo_analysis_sink sinks[2] = {{.arg = rec->naming, .event = kymo_naming_event}, *sink};
    return kymo_analyse(rec->r, &options, sinks, 2, found, err, err_size);
}

static int no_memory(char *err, size_t err_size)
{
    snprintf(err, err_size, "not enough memory");
    return -ENOMEM;
}

static int read_chains(struct recording *rec, const struct kymo_otlp_options *o, size_t i,
                       struct kymo_otlp_result *res, char *err, size_t err_size)
{
    struct kymo_analysis_result found;
    struct kymo_analysis_sink sink = kymo_otlp_chains_sink(&rec->chains);
    rec->naming = kymo_naming_new(rec->r);
    if (rec->naming == NULL)
        return no_memory(err, err_size);
    int rc = read_all(rec, o, i, &sink, &found, err, err_size);
    if (rc != 0)
        return rc;
    res->events += found.events;
    res->left_out += rec->chains.left_out;
    return kymo_otlp_chains_link(&rec->chains) == 0 ? 0 : no_memory(err, err_size);
}

static int write_spans(struct recording *rec, const struct kymo_otlp_options *o, size_t i,
                       const struct kymo_otlp_target *target, struct kymo_otlp_result *res, char *err,
                       size_t err_size)
{
    struct kymo_otlp_writer w;
    struct kymo_otlp_spans x;
    struct kymo_analysis_result found;
    kymo_otlp_writer_init(&w, target, err, err_size);
    put_resource(&w, rec->r);
    kymo_otlp_scope(&w, o->version);
    kymo_otlp_spans_init(&x, rec->r, &rec->chains, rec->naming, &w);
    struct kymo_analysis_sink sink = kymo_otlp_spans_sink(&x);
    char read_err[256] = "";
    int rc = read_all(rec, o, i, &sink, &found, read_err, sizeof read_err);
    if (w.error != 0) /* err says it */
        rc = w.error;
    else if (rc != 0)
        snprintf(err, err_size, "%s", read_err);
    else if (x.failed)
        rc = no_memory(err, err_size);
    else
        rc = kymo_otlp_writer_finish(&w);
    res->requests += x.requests;
    res->traces += x.traces;
    res->spans += w.written;
    kymo_otlp_spans_free(&x);
    kymo_otlp_writer_free(&w);
    return rc;
}

int kymo_export_otlp(struct kymo_reader *const *r, size_t n, const struct kymo_otlp_options *o,
                     const struct kymo_otlp_target *target, struct kymo_otlp_result *res, char *err,
                     size_t err_size)
{
    int rc = 0;
    memset(res, 0, sizeof *res);
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct recording rec = {.r = r[i]};
        kymo_otlp_chains_init(&rec.chains, r[i]);
        rc = read_chains(&rec, o, i, res, err, err_size);
        if (rc == 0)
            rc = write_spans(&rec, o, i, target, res, err, err_size);
        kymo_naming_free(rec.naming);
        kymo_otlp_chains_free(&rec.chains);
    }
    return rc;
}

/* ---- the file ---- */

struct kymo_otlp_file {
    struct kymo_out out;
};

static int put_line(void *arg, const char *line, size_t n, size_t spans, char *err, size_t err_size)
{
    struct kymo_otlp_file *f = arg;
    (void)spans;
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
