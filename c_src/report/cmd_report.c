/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo report: writes one HTML file that shows a recording to people without kymo. Reads the
 * recording once for all sums, and once more for the answers.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "outfile.h"
#include "page.h"

struct report {
    struct cli_analysis a;
    const char *dir;
};

/* ---- output ---- */

/* In JSON a < occurs only in strings, where it may be written as \u003c. So no name can end the HTML
 * element that contains the data. */
static void write_without_tags(struct kymo_out *out, const char *json, size_t n)
{
    for (size_t i = 0; i < n;) {
        const char *tag = memchr(json + i, '<', n - i);
        size_t until = tag != NULL ? (size_t)(tag - json) : n;
        kymo_out_write(out, json + i, until - i);
        if (tag != NULL)
            kymo_out_write(out, "\\u003c", 6);
        i = until + (tag != NULL);
    }
}

static int write_page(const char *path, const char *json, size_t n, uint64_t *bytes)
{
    struct kymo_out out;
    char err[512] = "";
    int rc = kymo_out_open(&out, path, err, sizeof err);
    if (rc == 0) {
        kymo_out_write(&out, report_page_head, report_page_head_size);
        write_without_tags(&out, json, n);
        kymo_out_write(&out, report_page_tail, report_page_tail_size);
        *bytes = kymo_out_bytes(&out);
        rc = kymo_out_finish(&out, err, sizeof err);
    }
    if (rc == 0 || rc == -EPIPE) /* the reading end of the pipe was closed */
        return KYMO_EXIT_OK;
    return cli_fail(rc == -ENOMEM ? KYMO_EXIT_MEMORY : KYMO_EXIT_WRITE, "%s", err);
}

static int write_report(struct report *x, const char *path)
{
    char *json = NULL, size[32], events[32];
    size_t n = 0;
    uint64_t bytes = 0;
    FILE *f = open_memstream(&json, &n);
    if (f == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    int status = report_data_write(&x->a, x->dir, NULL, f);
    if (fclose(f) != 0 && status == KYMO_EXIT_OK)
        status = cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    if (status == KYMO_EXIT_OK)
        status = write_page(path, json, n, &bytes);
    free(json);
    if (status == KYMO_EXIT_OK && !x->a.quiet && strcmp(path, "-") != 0)
        fprintf(stderr, "%s: %s events, %s\n", path,
                cli_format_count(x->a.result.events, events, sizeof events),
                cli_format_bytes(bytes, size, sizeof size));
    return status;
}

/* ---- the command ---- */

static int check(const char *out, int n, char **args)
{
    int status = cli_check_output("report", out, n, args);
    if (status != KYMO_EXIT_OK)
        return status;
    return *out == '\0' ? cli_usage("report", "the output is missing: add -o OUT.html") : KYMO_EXIT_OK;
}

int cli_report(int argc, char **argv)
{
    static const struct option options[] = {
        {"from", required_argument, NULL, CLI_OPT_FROM}, {"to", required_argument, NULL, CLI_OPT_TO},
        {"output", required_argument, NULL, 'o'},        {"quiet", no_argument, NULL, CLI_OPT_QUIET},
        {"strict", no_argument, NULL, CLI_OPT_STRICT},   {NULL, 0, NULL, 0}};
    struct report *x = calloc(1, sizeof *x);
    const char *out = "";
    int status = KYMO_EXIT_OK;
    if (x == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    cli_analysis_init(&x->a, "report", 0);
    for (int o; status == KYMO_EXIT_OK && (o = getopt_long(argc, argv, "o:q", options, NULL)) != -1;) {
        if (o == 'o')
            out = optarg;
        else
            status = cli_analysis_option(&x->a, o, optarg);
    }
    if (status == KYMO_EXIT_OK)
        status = check(out, argc - optind, argv + optind);
    x->dir = optind < argc ? argv[optind] : "";
    if (status == KYMO_EXIT_OK)
        status = cli_analysis_open_timeline(&x->a, argc - optind, argv + optind);
    if (status == KYMO_EXIT_OK)
        status = write_report(x, out);
    status = cli_analysis_close(&x->a, status);
    free(x);
    return status;
}
