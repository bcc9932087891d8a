/* SPDX-License-Identifier: Apache-2.0 */
#include "export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_otlp.h"

/* The recordings as one timeline, and the window in it. */
struct input {
    struct kymo_reader *r;
    int64_t from_ns, to_ns;
};

/* The lines of a file, as an exit status. */
static int each_line(struct cli_otlp *o, const char *file, const char *option,
                     int (*take)(struct cli_otlp *o, const char *text))
{
    FILE *f = fopen(file, "re");
    char *line = NULL;
    size_t room = 0;
    int status = KYMO_EXIT_OK;
    if (f == NULL)
        return cli_fail(KYMO_EXIT_USAGE, "--%s: %s: %s", option, file, strerror(errno));
    while (status == KYMO_EXIT_OK && getline(&line, &room, f) > 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] != '\0')
            status = take(o, line);
    }
    if (status == KYMO_EXIT_OK && ferror(f))
        status = cli_fail(KYMO_EXIT_USAGE, "--%s: %s can't be read", option, file);
    free(line);
    (void)fclose(f);
    return status;
}

static int take_endpoint(struct cli_otlp *o, const char *text)
{
    free(o->endpoint);
    o->endpoint = strdup(text);
    return o->endpoint != NULL ? KYMO_EXIT_OK : cli_fail(KYMO_EXIT_MEMORY, "out of memory");
}

int cli_otlp_endpoint(struct cli_otlp *o, char *value)
{
    if (value[0] == '@') {
        int status = each_line(o, value + 1, "endpoint", take_endpoint);
        if (status == KYMO_EXIT_OK && o->endpoint == NULL)
            status = cli_usage("export", "--endpoint: the file %s has no address", value + 1);
        return status;
    }
    int status = take_endpoint(o, value);
    size_t n = strlen(value);
    kymo_hide_secrets(value, false);
    memset(value + strlen(value), '\0', n - strlen(value));
    return status;
}

static int take_header(struct cli_otlp *o, const char *text)
{
    const char *colon = strchr(text, ':');
    if (colon == NULL || colon == text || strpbrk(text, "\r\n") != NULL)
        return cli_usage("export", "--header takes 'Name: value', or @ and the name of a file");
    char **more = realloc(o->headers, (o->n_headers + 1) * sizeof *more);
    char *copy = strdup(text);
    if (more != NULL)
        o->headers = more;
    if (more == NULL || copy == NULL) {
        free(copy);
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    }
    more[o->n_headers++] = copy;
    return KYMO_EXIT_OK;
}

int cli_otlp_header(struct cli_otlp *o, char *value)
{
    if (value[0] == '@')
        return each_line(o, value + 1, "header", take_header);
    int status = take_header(o, value);
    size_t name = strcspn(value, ":");
    memset(value + name, '*', strlen(value) - name);
    return status;
}

void cli_otlp_free(struct cli_otlp *o)
{
    for (size_t i = 0; i < o->n_headers; i++)
        free(o->headers[i]);
    free(o->headers);
    free(o->endpoint);
}

static int status_of(int rc)
{
    switch (rc) {
    case 0:
    case -EPIPE: /* the reader of the output has closed it */ return KYMO_EXIT_OK;
    case -ENOMEM: return KYMO_EXIT_MEMORY;
    case -EINVAL: return KYMO_EXIT_USAGE;
    case -ECOMM: return KYMO_EXIT_INCOMPLETE;
    default: return KYMO_EXIT_WRITE;
    }
}

static int say_failed(int rc, const char *err)
{
    int status = status_of(rc);
    return status == KYMO_EXIT_OK ? status : cli_fail(status, "%s", err[0] != '\0' ? err : strerror(-rc));
}

/* ---- output ---- */

static int export_to(const struct input *in, const struct kymo_otlp_target *target, bool quiet,
                     struct kymo_otlp_result *res, char *err, size_t err_size)
{
    struct cli_progress progress;
    struct kymo_otlp_options o = {.from_ns = in->from_ns,
                                  .to_ns = in->to_ns,
                                  .version = cli_version(),
                                  .progress = cli_progress_show,
                                  .progress_arg = &progress};
    cli_progress_start(&progress, "exporting", quiet);
    int rc = kymo_export_otlp(in->r, &o, target, res, err, err_size);
    cli_progress_end(&progress);
    return rc;
}

static void say_done(const char *out, const struct kymo_otlp_result *res, uint64_t bytes)
{
    char events[32], requests[32], spans[32], points[32], size[32];
    fprintf(stderr, "%s: %s events, %s requests, %s spans, %s values of metrics, %s\n", out,
            cli_format_count(res->events, events, sizeof events),
            cli_format_count(res->requests, requests, sizeof requests),
            cli_format_count(res->spans, spans, sizeof spans),
            cli_format_count(res->points, points, sizeof points), cli_format_bytes(bytes, size, sizeof size));
}

static int to_file(const struct cli_otlp *o, const struct input *in, struct kymo_otlp_result *res)
{
    char err[512] = "";
    struct kymo_otlp_file *file;
    uint64_t bytes = 0;
    int rc = kymo_otlp_file_open(o->out, &file, err, sizeof err);
    if (rc == 0) {
        struct kymo_otlp_target target = kymo_otlp_file_target(file);
        rc = export_to(in, &target, o->quiet, res, err, sizeof err);
        int end = kymo_otlp_file_close(file, rc == 0, &bytes, err, sizeof err);
        rc = rc != 0 ? rc : end;
    }
    if (rc == 0 && !o->quiet && strcmp(o->out, "-") != 0)
        say_done(o->out, res, bytes);
    return say_failed(rc, err);
}

/* What the collector took, but not all of it. KYMO_EXIT_OK: it has taken everything. */
static int say_rejected(const struct cli_otlp *o, const struct kymo_otlp_result *res,
                        const struct kymo_otlp_http *http)
{
    static const char *const items[] = {
        [KYMO_OTLP_SPANS] = "spans", [KYMO_OTLP_METRICS] = "values of metrics"};
    int status = KYMO_EXIT_OK;
    const char *why;
    char all[32];
    for (int i = 0; i < 2; i++) {
        uint64_t rejected = kymo_otlp_http_rejected(http, (enum kymo_otlp_signal)i, &why);
        if (rejected > 0)
            status = cli_fail(KYMO_EXIT_INCOMPLETE, "the collector rejected %s %s%s%s",
                              cli_format_count(rejected, all, sizeof all), items[i],
                              why[0] != '\0' ? ": " : "", why);
    }
    uint64_t none = kymo_otlp_http_no_metrics(http);
    if (none > 0 && (o->strict || res->spans == 0))
        status = cli_fail(KYMO_EXIT_INCOMPLETE, "the collector takes no metrics: %s values were not posted",
                          cli_format_count(none, all, sizeof all));
    else if (none > 0 && !o->quiet)
        cli_warn("the collector takes no metrics: %s values were not posted",
                 cli_format_count(none, all, sizeof all));
    return status;
}

static void say_posted(const char *url, const struct kymo_otlp_result *res, uint64_t bytes)
{
    char *shown = strdup(url);
    if (shown != NULL)
        kymo_hide_secrets(shown, false);
    say_done(shown != NULL ? shown : "the collector", res, bytes);
    free(shown);
}

static int to_collector(const struct cli_otlp *o, const struct input *in, struct kymo_otlp_result *res)
{
    char err[1024] = "", all[32];
    struct kymo_otlp_http *http;
    struct kymo_otlp_collector collector = {.url = o->endpoint,
                                            .headers = (const char *const *)o->headers,
                                            .n_headers = o->n_headers,
                                            .cacert = o->cacert,
                                            .version = cli_version()};
    int rc = kymo_otlp_http_open(&collector, &http, err, sizeof err);
    if (rc != 0)
        return say_failed(rc, err);
    struct kymo_otlp_target target = kymo_otlp_http_target(http);
    rc = export_to(in, &target, o->quiet, res, err, sizeof err);
    res->points -= kymo_otlp_http_no_metrics(http);
    int status = say_failed(rc, err);
    if (rc != 0 && res->spans > 0)
        cli_warn("%s spans were posted before this", cli_format_count(res->spans, all, sizeof all));
    if (rc == 0 && !o->quiet)
        say_posted(o->endpoint, res, kymo_otlp_http_bytes(http));
    if (rc == 0)
        status = say_rejected(o, res, http);
    kymo_otlp_http_close(http);
    return status;
}

/* ---- both ---- */

static int say_what_lacks(const struct cli_otlp *o, const struct input *in,
                          const struct kymo_otlp_result *res)
{
    int status = KYMO_EXIT_OK;
    if (!o->quiet && res->requests == 0)
        cli_warn("%s: no request could be paired with its reply; record messages",
                 res->points > 0 ? "no spans" : "nothing to show");
    if (res->left_out > 0) {
        cli_warn("%" PRIu64
                 " requests are left out because there are more than %u: choose a part with --from "
                 "and --to",
                 res->left_out, KYMO_OTLP_REQUESTS);
        status = o->strict ? KYMO_EXIT_INCOMPLETE : KYMO_EXIT_OK;
    }
    if ((o->strict || !o->quiet) && cli_say_incomplete(in->r, o->strict) != KYMO_EXIT_OK)
        status = KYMO_EXIT_INCOMPLETE;
    return status;
}

int cli_export_otlp(struct cli_otlp *o, struct cli_filter *filter, int n, char **recordings)
{
    struct input in = {.r = NULL};
    struct kymo_otlp_result res = {0};
    int status = cli_open_timeline("export", n, recordings, o->quiet, &in.r);
    if (status == KYMO_EXIT_OK)
        status = cli_filter_resolve(filter, "export", in.r);
    in.from_ns = filter->from;
    in.to_ns = filter->to;
    if (status == KYMO_EXIT_OK)
        status = o->endpoint != NULL ? to_collector(o, &in, &res) : to_file(o, &in, &res);
    if (status == KYMO_EXIT_OK)
        status = say_what_lacks(o, &in, &res);
    kymo_reader_close(in.r);
    return status;
}
