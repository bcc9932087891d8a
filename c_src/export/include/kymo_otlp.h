/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests as spans of OpenTelemetry, in the JSON encoding of OTLP. doc/exports.md says
 * what becomes of what. A recording, or a timeline of several, is read twice; each node is
 * a resource.
 *
 * Single threaded, as the reader. Memory: KYMO_OTLP_REQUESTS requests, some 250 bytes each,
 * and two lines of each node; it does not grow with the number of other events.
 */
#ifndef KYMO_OTLP_H
#define KYMO_OTLP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kymo_reader.h"

/* Requests that are exported; those beyond are counted. */
#define KYMO_OTLP_REQUESTS 2000000u
/* A line has no more spans, and fewer bytes than the readers of such files take. */
#define KYMO_OTLP_LINE_SPANS 512u
#define KYMO_OTLP_LINE_BYTES (512u << 10)

/* Where the lines go: each one ExportTraceServiceRequest in JSON, without the newline.
 * `put` returns 0, or a negative errno with a sentence in err, which ends the export. */
struct kymo_otlp_target {
    void *arg;
    int (*put)(void *arg, const char *line, size_t n, size_t spans, char *err, size_t err_size);
};

struct kymo_otlp_options {
    /* Window, in ns since the start of the recording; INT64_MIN and INT64_MAX = no bound. */
    int64_t from_ns, to_ns;
    const char *version; /* of kymo */
    /* Called now and then with the work done so far, once through for each reading; may be
     * NULL. */
    void (*progress)(void *arg, uint64_t done, uint64_t total);
    void *progress_arg;
};

struct kymo_otlp_result {
    uint64_t events; /* read, within the window */
    uint64_t requests, spans, traces;
    uint64_t left_out; /* requests beyond KYMO_OTLP_REQUESTS */
};

/* 0, what `put` returned, or another negative errno with a sentence in err. */
int kymo_export_otlp(struct kymo_reader *r, const struct kymo_otlp_options *o,
                     const struct kymo_otlp_target *target, struct kymo_otlp_result *res, char *err,
                     size_t err_size);

/* ---- targets ---- */

struct kymo_otlp_file;
/* The file `path`, or "-": as the other exporters write theirs. 0, or a negative errno with
 * a sentence in err. */
int kymo_otlp_file_open(const char *path, struct kymo_otlp_file **out, char *err, size_t err_size);
struct kymo_otlp_target kymo_otlp_file_target(struct kymo_otlp_file *f);
/* Completes the file, with its size in *bytes, or removes it when `whole` is false. Frees.
 * 0, or a negative errno with a sentence in err. */
int kymo_otlp_file_close(struct kymo_otlp_file *f, bool whole, uint64_t *bytes, char *err, size_t err_size);

struct kymo_otlp_http;
/* Where the collector is. */
struct kymo_otlp_collector {
    const char *url;            /* http or https; /v1/traces is appended unless it ends with it */
    const char *const *headers; /* n_headers of "Name: value" */
    size_t n_headers;
    const char *cacert;  /* file of the certificates to trust, NULL = those of the system */
    const char *version; /* of kymo */
};
/* Lines are posted one after the other. An answer of 429, 502, 503 or 504 is waited for, as
 * long as Retry-After says, and the line is posted again, KYMO_OTLP_TRIES times in all; so
 * it is after a failure of the connection, unless it is the first.
 * 0, or a negative errno with a sentence in err (-ENOSYS: there is no libcurl here; -EINVAL:
 * no such URL; -ENOMEM). put gives -ECOMM when the collector does not take a line. */
#define KYMO_OTLP_TRIES 5
#define KYMO_OTLP_WAIT_SECONDS 60 /* most that one Retry-After may ask for */
int kymo_otlp_http_open(const struct kymo_otlp_collector *c, struct kymo_otlp_http **out, char *err,
                        size_t err_size);
struct kymo_otlp_target kymo_otlp_http_target(struct kymo_otlp_http *h);
/* Spans that the collector said it rejected, and why, as far as it says: text lives until
 * close. */
uint64_t kymo_otlp_http_rejected(const struct kymo_otlp_http *h, const char **why);
uint64_t kymo_otlp_http_bytes(const struct kymo_otlp_http *h);
void kymo_otlp_http_close(struct kymo_otlp_http *h);

#endif
