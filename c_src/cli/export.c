/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo export: options, and then one of the exporters of kymo_export.h, or export_otlp.c.
 */
#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "export.h"
#include "kymo_export.h"

typedef int export_fun(struct kymo_reader *, const struct kymo_export_options *, struct kymo_export_result *,
                       char *, size_t);

static const struct {
    const char *name;
    export_fun *run;
    const char *written; /* what kymo_export_result.written counts; NULL: also events */
    bool stream;         /* "-" is allowed */
    bool timeline;       /* so are several recordings */
} kinds[] = {{"perfetto", kymo_export_perfetto, "slices", true, true},
             {"ctf", kymo_export_ctf, NULL, false, false},
             {"folded", kymo_export_folded, "stacks", true, false},
             {"speedscope", kymo_export_speedscope, "stacks", true, false},
             {"dbg", kymo_export_dbg, "terms", true, false},
             {"ndjson", kymo_export_ndjson, "rows", false, false}};

static int find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) == 0)
            return (int)i;
    }
    return -1;
}

static int status_of(int rc)
{
    switch (rc) {
    case 0:
    case -EPIPE: /* the reader of the output has closed it */ return KYMO_EXIT_OK;
    case -ENOMEM: return KYMO_EXIT_MEMORY;
    case -EBADMSG: return KYMO_EXIT_READ;
    default: return KYMO_EXIT_WRITE;
    }
}

static bool is_stacks(int kind)
{
    return kinds[kind].run == kymo_export_folded || kinds[kind].run == kymo_export_speedscope;
}

static int run(struct kymo_reader *r, int kind, const struct kymo_export_options *base, bool quiet)
{
    struct kymo_export_options o = *base;
    struct kymo_export_result result = {0};
    struct cli_progress progress;
    char err[512] = "";
    cli_progress_start(&progress, "exporting", quiet);
    o.progress = cli_progress_show;
    o.progress_arg = &progress;
    int rc = kinds[kind].run(r, &o, &result, err, sizeof err);
    cli_progress_end(&progress);
    int status = status_of(rc);
    if (status != KYMO_EXIT_OK)
        return cli_fail(status, "%s", err[0] != '\0' ? err : strerror(-rc));
    if (!quiet && result.events == 0)
        cli_warn_empty(r, o.keep != NULL || o.from_ns != INT64_MIN || o.to_ns != INT64_MAX);
    else if (!quiet && result.written == 0 && is_stacks(kind))
        cli_warn("no stacks: they need calls with their returns, or return_to; slow calls alone are shown by "
                 "kymo print --tree");
    if (!quiet && strcmp(o.out, "-") != 0) {
        char text[32];
        fprintf(stderr, "%s: %s events", o.out, cli_format_count(result.events, text, sizeof text));
        if (kinds[kind].written != NULL)
            fprintf(stderr, ", %s %s", cli_format_count(result.written, text, sizeof text),
                    kinds[kind].written);
        fprintf(stderr, ", %s\n", cli_format_bytes(result.bytes, text, sizeof text));
    }
    return KYMO_EXIT_OK;
}

/* Checks the arguments after the options: a format and recordings. */
static int check(int n, char **args, const struct kymo_export_options *o, const struct cli_filter *filter,
                 int *kind)
{
    if (n < 2)
        return cli_usage("export", "export needs a format and a recording");
    *kind = find_kind(args[0]);
    if (*kind < 0)
        return cli_usage("export", "there is no format '%s'", args[0]);
    if (n > 2 && !kinds[*kind].timeline)
        return cli_usage("export", "%s takes one recording, there are %d", args[0], n - 1);
    if (o->out == NULL)
        return cli_usage("export", "the output is missing: add -o OUT");
    if (*o->out == '\0')
        return cli_usage("export", "-o: the name is empty");
    if (strcmp(o->out, "-") == 0 && !kinds[*kind].stream)
        return cli_usage("export", "%s is written to a folder, so -o cannot be -", kinds[*kind].name);
    if (o->wall && !is_stacks(*kind))
        return cli_usage("export", "--wall works only with folded and speedscope");
    bool filtered = filter->events != 0 || filter->n_pids != 0 || filter->n_modules != 0;
    if (strcmp(kinds[*kind].name, "ndjson") == 0 && (filtered || o->all))
        return cli_usage("export", "ndjson takes only --from and --to of these options");
    if (o->all && is_stacks(*kind))
        return cli_usage("export", "%s shows durations, which are unknown before the horizon: remove --all",
                         kinds[*kind].name);
    return KYMO_EXIT_OK;
}

static bool is_inside(const char *out, const char *recording)
{
    char folder[PATH_MAX];
    struct stat a, b;
    if (out == NULL || strcmp(out, "-") == 0 ||
        (size_t)snprintf(folder, sizeof folder, "%s", out) >= sizeof folder)
        return false;
    return stat(dirname(folder), &a) == 0 && stat(recording, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

int cli_check_output(const char *command, const char *out, int n, char **recordings)
{
    for (int i = 0; i < n; i++) {
        int status = cli_one_recording(command, 1, recordings + i);
        if (status != KYMO_EXIT_OK)
            return status;
        if (is_inside(out, recordings[i]))
            return cli_usage(command, "-o: %s is inside the recording: choose another folder", out);
    }
    return KYMO_EXIT_OK;
}

/* Runs the export to otlp, with the arguments after the options as recordings. */
static int run_otlp(struct cli_otlp *otlp, struct cli_filter *filter, const struct kymo_export_options *o,
                    int n, char **recordings)
{
    if (o->all || o->wall || filter->events != 0 || filter->n_pids != 0 || filter->n_modules != 0)
        return cli_usage("export", "otlp exports whole chains of requests: it takes only --from and --to");
    if (n < 1)
        return cli_usage("export", "otlp needs a recording");
    if ((otlp->out == NULL) == (otlp->endpoint == NULL))
        return cli_usage("export", "the output is missing: add either -o OUT or --endpoint URL");
    if (otlp->out != NULL && *otlp->out == '\0')
        return cli_usage("export", "-o: the name is empty");
    int status = cli_check_output("export", otlp->out, n, recordings);
    return status == KYMO_EXIT_OK ? cli_export_otlp(otlp, filter, n, recordings) : status;
}

int cli_export(int argc, char **argv)
{
    enum { OPT_WALL = 1, OPT_OUTPUT, OPT_ALL, OPT_QUIET, OPT_STRICT, OPT_ENDPOINT, OPT_HEADER, OPT_CACERT };
    static const struct option options[] = {CLI_FILTER_OPTIONS,
                                            {"output", required_argument, NULL, OPT_OUTPUT},
                                            {"wall", no_argument, NULL, OPT_WALL},
                                            {"all", no_argument, NULL, OPT_ALL},
                                            {"quiet", no_argument, NULL, OPT_QUIET},
                                            {"strict", no_argument, NULL, OPT_STRICT},
                                            {"endpoint", required_argument, NULL, OPT_ENDPOINT},
                                            {"header", required_argument, NULL, OPT_HEADER},
                                            {"cacert", required_argument, NULL, OPT_CACERT},
                                            {NULL, 0, NULL, 0}};
    struct kymo_export_options o = {.keep = NULL};
    struct cli_otlp otlp = {.out = NULL};
    struct cli_filter filter;
    struct kymo_reader *r = NULL;
    bool quiet = false, strict = false;
    int status = KYMO_EXIT_OK, kind = -1;
    cli_filter_init(&filter);
    filter.notes_too = true;
    for (int opt; status == KYMO_EXIT_OK && (opt = getopt_long(argc, argv, "o:q", options, NULL)) != -1;) {
        switch (opt) {
        case 'o':
        case OPT_OUTPUT: o.out = optarg; break;
        case OPT_WALL: o.wall = true; break;
        case OPT_ALL: o.all = filter.all = true; break;
        case 'q':
        case OPT_QUIET: quiet = true; break;
        case OPT_STRICT: strict = true; break;
        case OPT_ENDPOINT: status = cli_otlp_endpoint(&otlp, optarg); break;
        case OPT_CACERT: otlp.cacert = optarg; break;
        case OPT_HEADER: status = cli_otlp_header(&otlp, optarg); break;
        case '?': status = cli_bad_option("export"); break;
        default: status = cli_filter_option(&filter, "export", opt, optarg);
        }
    }
    if (status == KYMO_EXIT_OK && optind < argc && strcmp(argv[optind], "otlp") == 0) {
        otlp.out = o.out;
        otlp.quiet = quiet;
        otlp.strict = strict;
        status = run_otlp(&otlp, &filter, &o, argc - optind - 1, argv + optind + 1);
        cli_otlp_free(&otlp);
        cli_filter_free(&filter);
        return status;
    }
    if (status == KYMO_EXIT_OK && (otlp.endpoint != NULL || otlp.n_headers > 0 || otlp.cacert != NULL))
        status = cli_usage("export", "--endpoint, --header and --cacert work only with otlp");
    cli_otlp_free(&otlp);
    if (status == KYMO_EXIT_OK)
        status = check(argc - optind, argv + optind, &o, &filter, &kind);
    if (status == KYMO_EXIT_OK)
        status = cli_check_output("export", o.out, argc - optind - 1, argv + optind + 1);
    if (status == KYMO_EXIT_OK)
        status = kinds[kind].timeline
                     ? cli_open_timeline("export", argc - optind - 1, argv + optind + 1, quiet, &r)
                     : cli_open(argv[optind + 1], &r);
    if (status == KYMO_EXIT_OK) {
        kymo_reader_show_all(r, o.all);
        status = cli_filter_resolve(&filter, "export", r);
    }
    if (status == KYMO_EXIT_OK) {
        o.from_ns = filter.from;
        o.to_ns = filter.to;
        if (filter.events != 0 || filter.n_pids != 0 || filter.n_modules != 0) {
            o.keep = cli_filter_keep;
            o.keep_arg = &filter;
        }
        status = run(r, kind, &o, quiet);
    }
    if (status == KYMO_EXIT_OK && (strict || !quiet))
        status = cli_say_incomplete(r, strict);
    kymo_reader_close(r);
    cli_filter_free(&filter);
    return status;
}
