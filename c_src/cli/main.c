/* SPDX-License-Identifier: Apache-2.0
 *
 * The main program: runs the subcommand. Also messages and other parts that subcommands share.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kymo_cli.h"
#include "kymo_otlp.h"
#include "measures.h"
#include "shed.h"

#ifndef KYMO_VERSION /* the Makefile takes it from kymo.app.src */
#define KYMO_VERSION "unknown"
#endif

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"info", cli_info},         {"print", cli_print}, {"export", cli_export},       {"stats", cli_stats},
    {"requests", cli_requests}, {"why", cli_why},     {"mailboxes", cli_mailboxes}, {"diff", cli_diff},
    {"check", cli_check},       {"sql", cli_sql},     {"report", cli_report},       {"attach", cli_attach},
    {"watch", cli_watch},       {"top", cli_top},     {"live", cli_live},           {"claim", cli_claim}};

const char *cli_version(void)
{
    return KYMO_VERSION;
}

static char **arguments; /* of the subcommand */

/* A URL may have been given where a file is expected, so no message shows a password. */
static void say(const char *fmt, va_list ap)
{
    char text[CLI_NAME_BYTES / 2], printable[CLI_NAME_BYTES];
    int n = vsnprintf(text, sizeof text, fmt, ap);
    kymo_hide_secrets(text, n >= (int)sizeof text);
    fprintf(stderr, "kymo: %s\n", cli_printable(text, printable, sizeof printable));
}

int cli_fail(int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
    return status;
}

void cli_warn(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
}

static int see_help(const char *command)
{
    fprintf(stderr, "Try 'kymo help%s%s'.\n", command != NULL ? " " : "", command != NULL ? command : "");
    return KYMO_EXIT_USAGE;
}

/* getopt itself would print the whole argument, which may contain a password. */
int cli_bad_option(const char *command)
{
    const char *arg = arguments != NULL && optind > 0 ? arguments[optind - 1] : "";
    int name = (int)strcspn(arg, "=");
    if (strncmp(arg, "--", 2) != 0)
        cli_warn("the option '-%c' is unknown, or needs a value", optopt);
    else if (optopt == 0)
        cli_warn("there is no option '%.*s', or it is not complete", name, arg);
    else
        cli_warn(arg[name] == '=' ? "the option '%.*s' takes no value" : "the option '%.*s' needs a value",
                 name, arg);
    return see_help(command);
}

int cli_usage(const char *command, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
    return see_help(command);
}

int cli_one_recording(const char *command, int n, char **args)
{
    if (n != 1)
        return cli_usage(command, "name one recording, not %d", n);
    return args[0][0] == '\0' ? cli_usage(command, "the name of the recording is empty") : KYMO_EXIT_OK;
}

int cli_read_status(int error)
{
    return error == -ENOMEM ? KYMO_EXIT_MEMORY : KYMO_EXIT_READ;
}

int cli_not_opened(int error, const char *text)
{
    if (error == -ENOENT && text[strcspn(text, "@/:")] == '@')
        return cli_fail(KYMO_EXIT_READ, "%s; to record a node of this name, use 'kymo attach %.*s'", text,
                        (int)strcspn(text, ":"), text);
    return cli_fail(cli_read_status(error), "%s", text);
}

int cli_open(const char *dir, struct kymo_reader **out)
{
    char err[512] = "";
    int rc = kymo_reader_open(dir, out, err, sizeof err);
    if (rc == -EBADMSG && cli_say_inner(dir))
        return KYMO_EXIT_READ;
    return rc == 0 ? KYMO_EXIT_OK : cli_not_opened(rc, err);
}

static int output_errno; /* of the first write that failed */

bool cli_output_lost(void)
{
    if (!ferror(stdout))
        return false;
    if (output_errno == 0)
        output_errno = errno != 0 ? errno : EIO;
    return true;
}

int cli_flush(int status)
{
    errno = 0;
    fflush(stdout);
    if (!cli_output_lost() || output_errno == EPIPE)
        return status; /* the reader of the pipe has closed it, which is no error */
    return cli_fail(KYMO_EXIT_WRITE, "standard output: %s", strerror(output_errno));
}

bool cli_incomplete(const struct kymo_reader *r)
{
    const struct kymo_damage *d = kymo_reader_damage(r);
    const struct kymo_meta *m = kymo_reader_meta(r);
    return kymo_reader_lost(r) != 0 ||
           (d->segments_bad | d->records_bad | d->bytes_cut | d->segments_moved | d->dict_bad | d->seq_gaps |
            d->events_missing | m->dict_full | m->taken) != 0 ||
           cli_shed_any(r);
}

bool cli_missing_phrase(const struct kymo_reader *r, char *buf, size_t size)
{
    uint64_t n = kymo_reader_damage(r)->events_missing;
    char file[64], events[32];
    if (n == 0)
        return false;
    size_t used = (size_t)snprintf(buf, size, "%s recorded events are missing because ",
                                   cli_format_count(n, events, sizeof events));
    if (kymo_reader_missing_file(r, file, sizeof file))
        snprintf(buf + used, size - used, "the file '%s' is missing (copy the recording again)", file);
    else
        snprintf(buf + used, size - used, "a file was cut or damaged (copy the recording again)");
    return true;
}

int cli_say_incomplete(const struct kymo_reader *r, bool strict)
{
    const struct kymo_damage *d = kymo_reader_damage(r);
    const struct kymo_meta *m = kymo_reader_meta(r);
    char measures[600];
    if (cli_measures_phrase(m, measures, sizeof measures))
        cli_warn("%s", measures);
    if (!cli_incomplete(r))
        return KYMO_EXIT_OK;
    uint64_t dict_cut = d->dict_missing != 0 ? 0 : d->dict_bad;
    bool damaged = (d->segments_bad | d->records_bad | d->bytes_cut | dict_cut | d->seq_gaps) != 0;
    char shed[512] = "", left_out[400], missing[160];
    if (cli_shed_any(r)) {
        cli_shed_phrase(r, left_out, sizeof left_out);
        snprintf(shed, sizeof shed, "the recorder left out %s, to keep its budget (see kymo info)", left_out);
    }
    const char *reasons[] = {
        kymo_reader_lost(r) != 0 ? "events were lost" : NULL,
        damaged ? "the recording is damaged" : NULL,
        d->dict_missing != 0 ? "names are missing because the file '" KYMO_DICT_NAME
                               "' is missing (copy the recording again)"
                             : NULL,
        cli_missing_phrase(r, missing, sizeof missing) ? missing : NULL,
        d->segments_moved != 0
            ? "segments were overwritten or removed while being read (take a snapshot first)"
            : NULL,
        m->dict_full != 0 ? "the dictionary was full, so names are missing" : NULL,
        m->taken != 0 ? "another tracer removed trace flags or patterns of the recorder" : NULL,
        shed[0] != '\0' ? shed : NULL};
    char text[1024] = "";
    for (size_t i = 0, n = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (reasons[i] != NULL)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n > 0 ? ", " : "", reasons[i]);
    }
    cli_warn("incomplete: %s", text);
    return strict ? KYMO_EXIT_INCOMPLETE : KYMO_EXIT_OK;
}

void cli_warn_empty(const struct kymo_reader *r, bool filtered)
{
    uint64_t ticks;
    int64_t ns;
    if (filtered)
        cli_warn("nothing to show: no event matches the options");
    else if (kymo_reader_horizon(r, &ticks, &ns))
        cli_warn(
            "nothing to show: all events are older than the horizon, from which the recording is complete "
            "(--all includes older events)");
    else
        cli_warn("nothing to show: the recording has no events");
}

static int help(const char *command)
{
    const char *text = cli_help(command);
    if (text == NULL)
        return cli_usage(NULL, "there is no command '%s'", command);
    fputs(text, stdout);
    return cli_flush(KYMO_EXIT_OK);
}

/* Occupies the standard descriptors that the caller has closed, which files and pipes would get
 * otherwise. Reading and writing them fails as before. */
static void hold_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
}

int main(int argc, char **argv)
{
    static char out[1 << 16];
    hold_standard();
    /* Writing to a closed pipe returns an error and does not kill the program. */
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, out, _IOFBF, sizeof out);
    if (argc < 2) {
        fputs(cli_help(NULL), stderr);
        return KYMO_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return argc > 3 ? cli_usage(NULL, "help takes one command, not '%s'", argv[3])
                        : help(argc > 2 ? argv[2] : NULL);
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        if (argc > 2)
            return cli_usage(NULL, "--version takes no argument, not '%s'", argv[2]);
        printf("kymo %s (recording format %u)\n", cli_version(), KYMO_FORMAT_VERSION);
        return cli_flush(KYMO_EXIT_OK);
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            for (int a = 2; a < argc; a++) {
                if (strcmp(argv[a], "--") == 0)
                    break;
                if (strcmp(argv[a], "--help") == 0 || strcmp(argv[a], "-h") == 0)
                    return help(name);
            }
            opterr = 0;
            arguments = argv + 1;
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    return cli_usage(NULL, name[0] == '-' ? "unknown option '%s'" : "there is no command '%s'", name);
}
