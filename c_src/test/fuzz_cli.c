/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes damaged recordings to the command: info, print and every export. Either all of them open a
 * recording or all refuse it, they show the same events, and their output has the documented format.
 */
#include <ctype.h>
#include <dirent.h>
#include <getopt.h>

#include "../cli/kymo_cli.h"
#include "etf_check.h"
#include "etf_write.h"
#include "fuzz_files.h"
#include "kymo_names.h"
#include "pf_check.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_MAX = 1 << 26 };

static char out[96], ctf[96], printed[96];

#define ENSURE(what) \
    do { \
        if (!(what)) { \
            (void)dprintf(2, "fuzz_cli: %s:%d: %s\n", __FILE__, __LINE__, #what); \
            abort(); \
        } \
    } while (0)

static void remove_files(void)
{
    unlink(out);
    unlink(printed);
}

/* The command's messages would hide those of the fuzzer, which has its own descriptor 2. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    make_dir();
    snprintf(out, sizeof out, "%s.out", dir);
    snprintf(ctf, sizeof ctf, "%s.ctf", dir);
    snprintf(printed, sizeof printed, "%s.printed", dir);
    atexit(remove_files);
    ENSURE(freopen(printed, "w+", stdout) != NULL);
    stderr = fopen("/dev/null", "w");
    ENSURE(stderr != NULL);
    return 0;
}

/* ---- running it ---- */

struct text {
    char *p;
    size_t n;
};

static struct text slurp(FILE *f)
{
    struct text t = {NULL, 0};
    ENSURE(fseek(f, 0, SEEK_END) == 0);
    long size = ftell(f);
    ENSURE(size >= 0 && size < TEXT_MAX);
    ENSURE(fseek(f, 0, SEEK_SET) == 0);
    t.p = malloc((size_t)size + 1);
    ENSURE(t.p != NULL);
    t.n = fread(t.p, 1, (size_t)size, f);
    t.p[t.n] = '\0';
    return t;
}

static struct text slurp_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    ENSURE(f != NULL);
    struct text t = slurp(f);
    fclose(f);
    return t;
}

/* Runs a command and returns its exit status; the last argument is the recording. *t is the output,
 * which the caller frees. */
#define RUN(t, command, ...) \
    run(command, (char *[]){#command, __VA_ARGS__, dir, NULL}, \
        (int)(sizeof((char *[]){#command, __VA_ARGS__, dir}) / sizeof(char *)), t)

static int run(int (*command)(int, char **), char **argv, int argc, struct text *t)
{
    ENSURE(fseek(stdout, 0, SEEK_SET) == 0);
    ENSURE(ftruncate(fileno(stdout), 0) == 0);
    optind = 0; /* getopt starts anew */
    int status = command(argc, argv);
    fflush(stdout);
    *t = slurp(stdout);
    return status;
}

/* ---- what it writes ---- */

/* Checks that the text is safe for a terminal. Returns the number of lines. */
static uint64_t count_lines(const struct text *t)
{
    uint64_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        uint8_t c = (uint8_t)t->p[i];
        n += c == '\n';
        ENSURE(c == '\n' || (c >= 32 && c != 127));
        /* Control characters of Latin-1. */
        ENSURE(c != 0xc2 || (uint8_t)t->p[i + 1] >= 0xa0);
    }
    ENSURE(t->n == 0 || t->p[t->n - 1] == '\n');
    return n;
}

static const char *json_string(const char *p)
{
    for (p++; *p != '"'; p++) {
        ENSURE((uint8_t)*p >= 32);
        if (*p == '\\')
            p++;
    }
    return p + 1;
}

/* Checks one JSON value, as far as the command uses JSON. Returns the address after it. */
static const char *json(const char *p, unsigned depth)
{
    ENSURE(depth < 48);
    if (*p == '{' || *p == '[') {
        char end = *p == '{' ? '}' : ']';
        for (p++; *p != end;) {
            if (end == '}') {
                ENSURE(*p == '"');
                p = json_string(p);
                ENSURE(*p++ == ':');
            }
            p = json(p, depth + 1);
            ENSURE(*p == ',' || *p == end);
            p += *p == ',';
        }
        return p + 1;
    }
    if (*p == '"')
        return json_string(p);
    const char *start = p;
    while (isalnum((unsigned char)*p) || *p == '-' || *p == '+' || *p == '.')
        p++;
    ENSURE(p > start);
    return p;
}

static void check_perfetto(void)
{
    struct pf_check c = {.error = NULL};
    struct text t = slurp_file(out);
    pf_check(&c, (const uint8_t *)t.p, t.n);
    if (c.error != NULL && strcmp(c.error, "too many tracks") != 0) {
        (void)dprintf(2, "perfetto: %s\n", c.error);
        abort();
    }
    pf_check_free(&c);
    free(t.p);
}

/* Checks that each line is JSON. Returns the number of lines. */
static uint64_t json_lines(const struct text *t)
{
    uint64_t n = 0;
    for (const char *p = t->p; p < t->p + t->n; n++) {
        ENSURE(*p == '{');
        p = json(p, 0);
        ENSURE(*p++ == '\n');
    }
    return n;
}

/* Returns the number of lines that are notes of the recorder. */
static uint64_t count_notes(const struct text *t)
{
    static const char key[] = "\"event\":\"";
    uint64_t n = 0;
    /* In a string, a quotation mark follows a backslash. */
    for (const char *p = t->p; (p = strstr(p, key)) != NULL;) {
        p += sizeof key - 1;
        for (uint32_t id = KYMO_E_FIRST_NOTE; id < KYMO_E_COUNT; id++) {
            const char *name = kymo_event_name(id);
            size_t length = name == NULL ? 0 : strlen(name);
            n += length > 0 && strncmp(p, name, length) == 0 && p[length] == '"';
        }
    }
    return n;
}

/* Prints with this option, as text and as JSON. Returns the number of events. */
static uint64_t count_printed(char *option)
{
    struct text t, lines;
    ENSURE(RUN(&t, cli_print, "-q", option) == 0);
    ENSURE(RUN(&lines, cli_print, "-q", "--json", option) == 0);
    uint64_t n = count_lines(&t);
    ENSURE(json_lines(&lines) == n);
    n -= count_notes(&lines);
    free(t.p);
    free(lines.p);
    return n;
}

/* Checks frames with complete terms, and drop counts. Returns the number of terms. */
static uint64_t check_dbg(void)
{
    struct text t = slurp_file(out);
    uint64_t terms = 0;
    for (size_t at = 0; at < t.n;) {
        const uint8_t *p = (const uint8_t *)t.p + at;
        ENSURE(t.n - at >= 5);
        size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
        at += 5;
        if (p[0] == 1) /* a drop: the count is where the length would be */
            continue;
        ENSURE(p[0] == 0 && len > 1 && len <= t.n - at && p[5] == KYMO_ETF_VERSION);
        ENSURE(kymo_etf_length(p + 6, len - 1) == len - 1);
        terms++;
        at += len;
    }
    free(t.p);
    return terms;
}

static void check_folded(void)
{
    struct text t = slurp_file(out);
    for (char *line = t.p, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        char *p = end;
        while (p > line && isdigit((unsigned char)p[-1]))
            p--;
        ENSURE(p < end && p > line + 1 && p[-1] == ' ');
    }
    (void)count_lines(&t);
    free(t.p);
}

/* Each line is JSON. */
static void check_otlp(void)
{
    struct text t = slurp_file(out);
    for (const char *p = t.p; *p != '\0'; p++) {
        p = json(p, 0);
        ENSURE(*p == '\n');
    }
    free(t.p);
}

/* Returns the sum of the event counts in the packet headers of a thread. */
static uint64_t check_packets(const char *path)
{
    struct text t = slurp_file(path);
    uint64_t events = 0, last = 0;
    for (size_t at = 0; at < t.n;) {
        struct kymo_segment h;
        ENSURE(t.n - at >= sizeof h);
        memcpy(&h, t.p + at, sizeof h);
        ENSURE(h.magic == KYMO_SEG_MAGIC && h.packet_bits % 8 == 0 && h.packet_bits / 8 <= t.n - at);
        ENSURE(h.content_bits <= h.packet_bits && h.content_bits >= 8 * sizeof h);
        /* babeltrace2 requires this. */
        ENSURE(h.ts_begin >= last && h.ts_end >= h.ts_begin);
        last = h.ts_end;
        events += h.events;
        at += h.packet_bits / 8;
    }
    free(t.p);
    return events;
}

static uint64_t check_ctf(void)
{
    char path[512];
    uint64_t events = 0;
    unsigned others = 0;
    DIR *d = opendir(ctf);
    int at = d == NULL ? -1 : dirfd(d);
    ENSURE(at >= 0);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", ctf, e->d_name);
        if (strncmp(e->d_name, "thread_", 7) == 0)
            events += check_packets(path);
        else
            others += strcmp(e->d_name, "metadata") == 0 || strcmp(e->d_name, "dictionary") == 0;
        unlinkat(at, e->d_name, 0);
    }
    closedir(d);
    ENSURE(others == 2 && rmdir(ctf) == 0);
    return events;
}

/* ---- all of it ---- */

static void refuse_all(int status)
{
    struct text t;
    ENSURE(status == KYMO_EXIT_READ);
    ENSURE(RUN(&t, cli_print, "-q") == status && t.n == 0);
    free(t.p);
    static char *const formats[] = {"perfetto", "folded", "dbg", "ctf", "ndjson"};
    for (unsigned i = 0; i < sizeof formats / sizeof *formats; i++) {
        ENSURE(RUN(&t, cli_export, formats[i], "-q", "-o", ctf) == status && t.n == 0);
        ENSURE(access(ctf, F_OK) != 0);
        free(t.p);
    }
}

/* Includes events before the horizon. */
static void export_older(uint64_t events)
{
    struct text t;
    ENSURE(RUN(&t, cli_print, "-q", "--all", "--events", "taken") == 0);
    uint64_t taken = count_lines(&t); /* dbg has no such event */
    free(t.p);
    ENSURE(count_printed("--all") == events);
    ENSURE(RUN(&t, cli_export, "perfetto", "-q", "--all", "-o", out) == 0);
    free(t.p);
    check_perfetto();
    ENSURE(RUN(&t, cli_export, "dbg", "-q", "--all", "-o", out) == 0);
    free(t.p);
    ENSURE(check_dbg() == events - taken);
    ENSURE(RUN(&t, cli_export, "ctf", "-q", "--all", "-o", ctf) == 0);
    free(t.p);
    ENSURE(check_ctf() <= events);
}

static void export_all(uint64_t events)
{
    struct text t;
    ENSURE(RUN(&t, cli_print, "-q", "--events", "taken") == 0);
    uint64_t taken = count_lines(&t);
    free(t.p);
    ENSURE(RUN(&t, cli_export, "perfetto", "-q", "-o", out) == 0);
    free(t.p);
    check_perfetto();
    ENSURE(RUN(&t, cli_export, "dbg", "-q", "-o", out) == 0);
    free(t.p);
    ENSURE(check_dbg() == events - taken);
    ENSURE(RUN(&t, cli_export, "folded", "-q", "-o", out) == 0);
    free(t.p);
    check_folded();
    ENSURE(RUN(&t, cli_export, "ctf", "-q", "-o", ctf) == 0);
    free(t.p);
    ENSURE(check_ctf() <= events); /* it exports whole segments only */
}

/* With a window, filters and the user's choice of clock. */
static void filtered(void)
{
    struct text t;
    uint64_t some;
    ENSURE(RUN(&t, cli_print, "-q", "--utc", "--events", "calls,garbage_collection,procs", "--from",
               "-1ms") == 0);
    some = count_lines(&t);
    free(t.p);
    ENSURE(RUN(&t, cli_export, "dbg", "-q", "--events", "calls,garbage_collection,procs", "--from", "-1ms",
               "-o", out) == 0);
    ENSURE(check_dbg() >= some);
    free(t.p);
    ENSURE(RUN(&t, cli_print, "-q", "--erlang", "--pid", "<0.42.0>", "--pid", "lists", "--module", "lists",
               "--strict") <= KYMO_EXIT_INCOMPLETE);
    (void)count_lines(&t);
    free(t.p);
    ENSURE(RUN(&t, cli_export, "folded", "-q", "--wall", "--module", "lists", "--to", "1s", "-o", out) == 0);
    check_folded();
    free(t.p);
}

/* All views of the analysis refuse a recording whose events are missing. */
static void refuse_to_analyse(void)
{
    struct text t;
    ENSURE(RUN(&t, cli_requests, "-q", "--json") == KYMO_EXIT_READ);
    free(t.p);
    ENSURE(RUN(&t, cli_mailboxes, "-q", "--json") == KYMO_EXIT_READ);
    free(t.p);
    ENSURE(RUN(&t, cli_why, "-q", "--json") == KYMO_EXIT_READ);
    free(t.p);
}

/* The views of the analysis end without a crash whatever the recording contains, and their output
 * for programs is JSON. */
static void analysed(uint64_t events)
{
    struct text t;
    int status = RUN(&t, cli_stats, "-q", "--json");
    if (events == 0 && status == KYMO_EXIT_READ) {
        free(t.p);
        refuse_to_analyse();
        return;
    }
    ENSURE(status == 0);
    ENSURE(strcmp(json(t.p, 0), "\n") == 0);
    free(t.p);
    ENSURE(RUN(&t, cli_stats, "-q", "--by", "role") == 0);
    free(t.p);
    ENSURE(RUN(&t, cli_requests, "-q", "--json", "--casts", "--tree") == 0);
    ENSURE(strcmp(json(t.p, 0), "\n") == 0);
    free(t.p);
    ENSURE(RUN(&t, cli_mailboxes, "-q", "--json") == 0);
    ENSURE(strcmp(json(t.p, 0), "\n") == 0);
    free(t.p);
    ENSURE(RUN(&t, cli_why, "-q", "--json", "-n2") == 0);
    ENSURE(strcmp(json(t.p, 0), "\n") == 0);
    free(t.p);
    ENSURE(RUN(&t, cli_why, "-q", "--json", "--all") == 0);
    ENSURE(strcmp(json(t.p, 0), "\n") == 0);
    free(t.p);
    status = RUN(&t, cli_check, "-q", "--json");
    ENSURE(status == KYMO_EXIT_OK || status == KYMO_EXIT_FINDINGS);
    ENSURE(strcmp(json(t.p, 0), "\n") == 0);
    free(t.p);
    ENSURE(RUN(&t, cli_print, "-q", "--tree") == 0);
    free(t.p);
    ENSURE(RUN(&t, cli_export, "speedscope", "-q", "-o", out) == 0);
    free(t.p);
    ENSURE(RUN(&t, cli_export, "otlp", "-q", "-o", out) == 0);
    free(t.p);
    check_otlp();
}

/* Shows a recording that is alive or looks alive. */
static void shown(void)
{
    struct text t;
    ENSURE(RUN(&t, cli_top, "-q", "--once", "-d", "1h") == 0);
    (void)count_lines(&t);
    free(t.p);
    ENSURE(RUN(&t, cli_top, "-q", "--once", "--json", "--sort", "max", "--sort", "waiting") == 0);
    ENSURE(strcmp(json(t.p, 0), "\n") == 0);
    free(t.p);
}

static uint64_t sql(const char *query)
{
    struct text t;
    char *args[] = {"sql", "-q", "--json", dir, (char *)(uintptr_t)query, NULL};
    ENSURE(run(cli_sql, args, 5, &t) == 0);
    uint64_t n = json_lines(&t);
    free(t.p);
    return n;
}

/* SQL and ndjson have the same rows of each table, and all of them are JSON. */
static void tabled(uint64_t events)
{
    static const char *const tables[] = {
        "events", "spans",     "messages", "requests", "processes", "collections",    "running",
        "waits",  "functions", "losses",   "shed",     "counters",  "system_monitor", "observed"};
    struct text t;
    char path[512], all[512] = "";
    uint64_t rows = 0;
    ENSURE(RUN(&t, cli_export, "ndjson", "-q", "-o", ctf) == 0);
    free(t.p);
    for (unsigned i = 0; i < sizeof tables / sizeof *tables; i++) {
        snprintf(path, sizeof path, "%s/%s.ndjson", ctf, tables[i]);
        size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "select * from %s;", tables[i]);
        t = slurp_file(path);
        rows += json_lines(&t);
        ENSURE(i > 0 || rows == events);
        free(t.p);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/schema.sql", ctf);
    unlink(path);
    ENSURE(rmdir(ctf) == 0);
    ENSURE(sql(all) == rows);
    (void)sql("select q.id from requests q join spans s on s.id = q.handler_id where q.sent_ns > 1000");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text t;
    char number[40];
    if (!write_recording(data, size))
        return 0;
    int status = RUN(&t, cli_info, "-q", "--json");
    if (status != 0) {
        free(t.p);
        refuse_all(status);
        return 0;
    }
    ENSURE(strcmp(json(t.p, 0), "\n") == 0);
    const char *found = strstr(t.p, "\"events\":");
    ENSURE(found != NULL);
    uint64_t events = strtoull(found + 9, NULL, 10), older;
    found = strstr(t.p, "\"incomplete_events\":");
    ENSURE(found != NULL);
    older = strtoull(found + 20, NULL, 10);
    free(t.p);
    ENSURE(RUN(&t, cli_info, "-q", "-n", "3") == 0);
    (void)count_lines(&t);
    free(t.p);
    ENSURE(count_printed("--quiet") == events);
    export_all(events);
    export_older(events + older);
    snprintf(number, sizeof number, "%zu", size);
    ENSURE(RUN(&t, cli_print, "-q", "-n", number) == 0);
    ENSURE(count_lines(&t) <= size);
    free(t.p);
    shown();
    filtered();
    analysed(events);
    tabled(events);
    return 0;
}
