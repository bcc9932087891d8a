/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports requests as OpenTelemetry spans and the node's counters as OpenTelemetry metrics, in the
 * JSON encoding of OTLP. doc/exports.md describes the mapping. A recording, or a timeline of
 * several, is read twice; each node is a resource.
 *
 * Single-threaded, like the reader. Memory: KYMO_OTLP_REQUESTS requests of some 250 bytes each, and
 * two lines per node; it does not grow with the number of other events.
 */
#ifndef KYMO_OTLP_H
#define KYMO_OTLP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kymo_reader.h"

/* Maximum number of exported requests; further ones are only counted. */
#define KYMO_OTLP_REQUESTS 2000000u
/* Maximum number of spans in a line, and size of a line, which is below the limit of the programs
 * that read such files. */
#define KYMO_OTLP_LINE_SPANS 512u
#define KYMO_OTLP_LINE_BYTES (512u << 10)

/* Maximum number of metric values in a line, and in memory per node. */
#define KYMO_OTLP_POINTS 1024u

enum kymo_otlp_signal { KYMO_OTLP_SPANS, KYMO_OTLP_METRICS };

/* Receives the lines. Each line is one ExportTraceServiceRequest or ExportMetricsServiceRequest in
 * JSON, without the newline, and contains `items` spans or values. `put` returns 0, or a negative
 * errno with a message in err, which ends the export. */
struct kymo_otlp_target {
    void *arg;
    int (*put)(void *arg, enum kymo_otlp_signal signal, const char *line, size_t n, size_t items, char *err,
               size_t err_size);
};

struct kymo_otlp_options {
    /* Window, in ns since the start of the recording; INT64_MIN and INT64_MAX = no bound. */
    int64_t from_ns, to_ns;
    const char *version; /* of kymo */
    /* Called repeatedly with the work done so far, from 0 to the total once per pass; may be NULL. */
    void (*progress)(void *arg, uint64_t done, uint64_t total);
    void *progress_arg;
};

struct kymo_otlp_result {
    uint64_t events; /* read, within the window */
    uint64_t requests, spans, traces;
    uint64_t points;   /* values of metrics */
    uint64_t left_out; /* requests beyond KYMO_OTLP_REQUESTS */
};

/* Returns 0, the error of `put`, or another negative errno with a message in err. */
int kymo_export_otlp(struct kymo_reader *r, const struct kymo_otlp_options *o,
                     const struct kymo_otlp_target *target, struct kymo_otlp_result *res, char *err,
                     size_t err_size);

/* Replaces what may be secret in the first URL in a text by asterisks: user and password, and the query. If the
 * text was cut, what may be the beginning of a password, too. The text does not get longer. */
void kymo_hide_secrets(char *text, bool cut);

/* ---- targets ---- */

struct kymo_otlp_file;
/* Opens the file `path`, or "-", in the same way as the other exporters. Returns 0, or a negative
 * errno with a message in err. */
int kymo_otlp_file_open(const char *path, struct kymo_otlp_file **out, char *err, size_t err_size);
struct kymo_otlp_target kymo_otlp_file_target(struct kymo_otlp_file *f);
/* Completes the file and stores its size in *bytes, or removes it if `whole` is false. Frees f.
 * Returns 0, or a negative errno with a message in err. */
int kymo_otlp_file_close(struct kymo_otlp_file *f, bool whole, uint64_t *bytes, char *err, size_t err_size);

struct kymo_otlp_http;
/* The address of the collector. */
struct kymo_otlp_collector {
    const char *url;            /* http or https; /v1/traces and /v1/metrics are appended, or
                                   replace each other at its end */
    const char *const *headers; /* n_headers of "Name: value" */
    size_t n_headers;
    const char *cacert;  /* file with the trusted certificates, NULL = those of the system */
    const char *version; /* of kymo */
};
/* Lines are posted one after the other. After a response of 429, 502, 503 or 504 the line is posted
 * again once the time of Retry-After has passed. After a connection failure it is posted again if
 * the collector has accepted a line before. Each line is posted at most KYMO_OTLP_TRIES times.
 * kymo_otlp_http_open returns 0, or a negative errno with a message in err (-ENOSYS: libcurl is
 * not available; -EINVAL: invalid URL; -ENOMEM). `put` returns -ECOMM if the collector does not
 * accept a line. */
#define KYMO_OTLP_TRIES 5
#define KYMO_OTLP_WAIT_SECONDS 60 /* the longest accepted Retry-After */
int kymo_otlp_http_open(const struct kymo_otlp_collector *c, struct kymo_otlp_http **out, char *err,
                        size_t err_size);
struct kymo_otlp_target kymo_otlp_http_target(struct kymo_otlp_http *h);
/* The number of items of this signal that the collector reported as rejected, and the last reason
 * that it gave, if any, in *why; the text is valid until close. */
uint64_t kymo_otlp_http_rejected(const struct kymo_otlp_http *h, enum kymo_otlp_signal signal,
                                 const char **why);
/* The number of metric values that were not posted because the collector does not accept metrics:
 * it answered the first ones with 404, 405 or 501. */
uint64_t kymo_otlp_http_no_metrics(const struct kymo_otlp_http *h);
uint64_t kymo_otlp_http_bytes(const struct kymo_otlp_http *h);
void kymo_otlp_http_close(struct kymo_otlp_http *h);

#endif
