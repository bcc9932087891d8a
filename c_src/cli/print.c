/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo print: one line per event, as text or as a JSON object. The formats are interfaces, documented in
 * kymo.1. Text: [MARK] TIME THREAD PROCESS EVENT, followed by the event's data as a function or as
 * key=value. Terms are in Erlang syntax, between the parentheses of a function or after a key;
 * nothing else contains spaces.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "follow.h"
#include "json.h"
#include "kymo_cli.h"
#include "kymo_fields.h"
#include "kymo_timeline.h"

enum clock { SINCE_START, UTC, ERLANG };

struct printer {
    struct kymo_reader *r;
    const struct kymo_slot *slots;
    enum clock clock;
    bool json;
    bool all;   /* a column marks incomplete events */
    char *text; /* of one term */
    size_t room;
};

/* Enlarges the buffer for a term if necessary. Returns true if it did: format the term again. */
static bool outgrown(struct printer *p, size_t need)
{
    char *more = need >= p->room ? realloc(p->text, need + 1) : NULL;
    if (more == NULL)
        return false;
    p->text = more;
    p->room = need + 1;
    return true;
}

static void put_ident(struct printer *p, uint64_t ident)
{
    uint32_t atom, mfa;
    kymo_format_ident(p->r, ident, p->text, p->room);
    fputs(p->text, stdout);
    if (kymo_reader_process(p->r, ident, &atom, &mfa) && atom != 0) {
        kymo_format_atom(kymo_reader_atom(p->r, atom), p->text, p->room);
        printf("(%s)", p->text);
    }
}

static void put_time(const struct printer *p, const struct kymo_event *ev)
{
    char text[64];
    switch (p->clock) {
    case UTC: kymo_format_utc(kymo_reader_wall_ns(p->r, ev->ns), text, sizeof text); break;
    case ERLANG: snprintf(text, sizeof text, "%" PRId64, kymo_reader_erl_ns(p->r, ev->ns)); break;
    default:
        cli_format_seconds((int64_t)((uint64_t)ev->ns - (uint64_t)kymo_reader_meta(p->r)->t0_mono_ns), text,
                           sizeof text);
    }
    fputs(text, stdout);
    putchar(' ');
    kymo_format_thread(&p->slots[ev->slot], ev->slot, text, sizeof text);
    fputs(text, stdout);
}

/* The text of a field. */
static const char *format(struct printer *p, const struct kymo_field *f)
{
    if (outgrown(p, kymo_format_field(p->r, f, p->text, p->room)))
        kymo_format_field(p->r, f, p->text, p->room);
    return p->text;
}

static void put_cut(const struct kymo_field *f)
{
    if ((f->flags & KYMO_F_CUT) != 0)
        fputs("(cut)", stdout);
}

/* module:function(Argument, Argument); false if the arguments were not recorded. */
static bool put_call(struct printer *p, const struct kymo_event *ev)
{
    struct kymo_field f;
    if (!kymo_field(ev, KYMO_F_CONTENT, &f) || f.type != KYMO_V_ARGUMENTS)
        return false;
    size_t need = kymo_format_call(p->r, ev->mfa, f.etf, f.len, p->text, p->room);
    if (outgrown(p, need))
        kymo_format_call(p->r, ev->mfa, f.etf, f.len, p->text, p->room);
    if (need == 0)
        return false;
    putchar(' ');
    fputs(p->text, stdout);
    put_cut(&f);
    return true;
}

static void put_key(const struct kymo_event *ev, const struct kymo_field *f)
{
    if (f->id == KYMO_F_FUNCTION || (f->id == KYMO_F_KIND && ev->id != KYMO_E_SEQ_TRACE))
        return;
    fputs(f->id == KYMO_F_REFERENCE ? "ref" : f->name, stdout);
    if ((f->flags & KYMO_F_PAIRED) != 0)
        fputs("+peer", stdout);
    put_cut(f);
    putchar('=');
}

static void put_field(struct printer *p, const struct kymo_event *ev, const struct kymo_field *f)
{
    putchar(' ');
    put_key(ev, f);
    if (f->type == KYMO_V_IDENT)
        put_ident(p, f->n);
    else
        fputs(format(p, f), stdout);
}

/* People would read past it in each line. */
static bool only_for_programs(const struct kymo_field *f)
{
    return f->id == KYMO_F_STACK_WORDS || (f->id == KYMO_F_OMITTED && f->n == 0);
}

static void put_event(struct printer *p, const struct kymo_event *ev)
{
    struct kymo_field f;
    bool told = false; /* the arguments have been printed */
    if (p->all)
        fputs(ev->incomplete ? "? " : ". ", stdout);
    put_time(p, ev);
    putchar(' ');
    if (kymo_field(ev, KYMO_F_PROCESS, &f))
        put_ident(p, f.n);
    else if (kymo_timeline_size(p->r) > 1)
        fputs(kymo_timeline_name(p->r, kymo_timeline_of_slot(p->r, ev->slot)), stdout);
    else
        putchar('-');
    putchar(' ');
    fputs(kymo_event_name(ev->id), stdout);
    for (struct kymo_fields all = kymo_fields(ev); kymo_fields_next(&all, &f);) {
        if (f.id == KYMO_F_FUNCTION)
            told = put_call(p, ev);
        bool done = f.id == KYMO_F_PROCESS || (told && (f.id == KYMO_F_FUNCTION || f.id == KYMO_F_CONTENT)) ||
                    (f.flags & KYMO_F_SHORT) != 0 || only_for_programs(&f);
        if (!done)
            put_field(p, ev, &f);
    }
    putchar('\n');
}

/* Returns 0 or -ENOMEM. */
static int put_json(struct printer *p, const struct kymo_event *ev)
{
    const uint64_t all = ~UINT64_C(0);
    char text[64];
    size_t need = kymo_format_members(p->r, ev, all, p->text, p->room);
    if (outgrown(p, need))
        kymo_format_members(p->r, ev, all, p->text, p->room);
    else if (need >= p->room) /* a part of an object is none */
        return -ENOMEM;
    cli_json_open(NULL, '{');
    cli_json_int("ns", (int64_t)((uint64_t)ev->ns - (uint64_t)kymo_reader_meta(p->r)->t0_mono_ns));
    kymo_format_thread(&p->slots[ev->slot], ev->slot, text, sizeof text);
    cli_json_text("thread", text);
    if (kymo_timeline_size(p->r) > 1)
        cli_json_text("node", kymo_timeline_name(p->r, kymo_timeline_of_slot(p->r, ev->slot)));
    cli_json_text("event", kymo_event_name(ev->id));
    if (ev->incomplete)
        cli_json_bool("incomplete", true);
    if (need > 0)
        cli_json_members(p->text);
    cli_json_close('}');
    cli_json_end();
    return 0;
}

/* How much is printed. */
struct run {
    struct printer *p;
    struct cli_filter *f;
    struct cli_follow *follow; /* NULL without --follow */
    uint64_t limit, seen, printed;
    bool quiet;
};

static bool is_wanted(struct run *x, const struct kymo_event *ev, int64_t since)
{
    if (x->follow != NULL && !cli_follow_is_new(x->follow, ev))
        return false;
    return since >= x->f->from && since <= x->f->to && cli_filter_keep(x->f, x->p->r, ev);
}

/* Prints the events of the reader. Returns 0 or a negative errno. */
static int print_all(struct run *x)
{
    struct printer *p = x->p;
    struct kymo_event ev;
    struct cli_progress progress;
    uint64_t done, total;
    int64_t t0 = kymo_reader_meta(p->r)->t0_mono_ns;
    uint64_t jumps = kymo_reader_jumps(p->r); /* if not 0, times are not in order between threads */
    int rc = 0;
    cli_progress_start(&progress, "printing", x->quiet || x->follow != NULL);
    while (x->printed < x->limit && (rc = kymo_reader_next(p->r, &ev)) == 1) {
        if (++x->seen % 4096 == 0) {
            kymo_reader_progress(p->r, &done, &total);
            cli_progress_show(&progress, done, total);
            if (x->follow != NULL && cli_follow_interrupted())
                break;
        }
        int64_t since = (int64_t)((uint64_t)ev.ns - (uint64_t)t0);
        if (since > x->f->to && jumps == 0)
            break;
        if (!is_wanted(x, &ev, since))
            continue;
        if (p->json)
            rc = put_json(p, &ev);
        else
            put_event(p, &ev);
        x->printed++;
        if (rc < 0 || cli_output_lost())
            break;
    }
    cli_progress_end(&progress);
    return rc < 0 ? rc : 0;
}

static int stopped(int rc)
{
    return rc < 0 ? cli_fail(cli_read_status(rc), "reading stopped: %s", strerror(-rc)) : KYMO_EXIT_OK;
}

static int run(struct run *x)
{
    int rc = print_all(x);
    if (rc == 0 && x->printed == 0 && x->limit > 0 && !x->quiet)
        cli_warn_empty(x->p->r, x->seen > 0);
    return stopped(rc);
}

/* Replaces the reader by one of the recording's present state. */
static int reopen(struct run *x, const char *dir)
{
    struct kymo_reader *r;
    uint32_t n;
    int status = cli_follow_reopen(x->follow, dir, x->p->r, &r);
    if (status != KYMO_EXIT_OK)
        return status;
    kymo_reader_close(x->p->r);
    x->p->r = r;
    x->p->slots = kymo_reader_slots(r, &n);
    kymo_reader_show_all(r, x->p->all);
    return cli_filter_resolve_names(x->f, r);
}

/* Prints the events of the recording, then new ones, until the recording ends, a signal
 * arrives, or standard output is closed. */
static int follow(struct run *x, const char *dir, bool strict)
{
    struct cli_follow f;
    if (cli_follow_begin(&f, x->p->r) != 0)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    x->follow = &f;
    int status = KYMO_EXIT_OK;
    for (bool more = true; more && status == KYMO_EXIT_OK;) {
        bool over = cli_follow_is_over(x->p->r);
        cli_follow_round(&f, x->p->r, x->quiet);
        status = stopped(print_all(x));
        (void)fflush(stdout);
        more = !over && x->printed < x->limit && !cli_output_lost() && cli_follow_wait();
        if (more && status == KYMO_EXIT_OK)
            status = reopen(x, dir);
    }
    if (status == KYMO_EXIT_OK && strict && f.missed)
        status = KYMO_EXIT_INCOMPLETE;
    cli_follow_end(&f);
    x->follow = NULL;
    return status;
}

/* True if --tree is among the options. It is implemented by print_tree.c. */
static bool wants_tree(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--tree") == 0)
            return true;
    }
    return false;
}

int cli_print(int argc, char **argv)
{
    if (wants_tree(argc, argv))
        return cli_print_tree(argc, argv);
    enum {
        OPT_UTC = 1,
        OPT_ERLANG,
        OPT_LIMIT,
        OPT_ALL,
        OPT_JSON,
        OPT_QUIET,
        OPT_STRICT,
        OPT_OF_TREE,
        OPT_FOLLOW
    };
    static const struct option options[] = {CLI_FILTER_OPTIONS,
                                            {"utc", no_argument, NULL, OPT_UTC},
                                            {"erlang", no_argument, NULL, OPT_ERLANG},
                                            {"limit", required_argument, NULL, OPT_LIMIT},
                                            {"all", no_argument, NULL, OPT_ALL},
                                            {"json", no_argument, NULL, OPT_JSON},
                                            {"quiet", no_argument, NULL, OPT_QUIET},
                                            {"strict", no_argument, NULL, OPT_STRICT},
                                            {"follow", no_argument, NULL, OPT_FOLLOW},
                                            {"slower", required_argument, NULL, OPT_OF_TREE},
                                            {"function", required_argument, NULL, OPT_OF_TREE},
                                            {NULL, 0, NULL, 0}};
    struct printer p = {.clock = SINCE_START};
    struct cli_filter filter;
    uint64_t limit = UINT64_MAX;
    bool quiet = false, strict = false, utc = false, erlang = false, following = false;
    int status = KYMO_EXIT_OK;
    cli_filter_init(&filter);
    for (int o; status == KYMO_EXIT_OK && (o = getopt_long(argc, argv, "n:qf", options, NULL)) != -1;) {
        switch (o) {
        case OPT_UTC:
            p.clock = UTC;
            utc = true;
            break;
        case OPT_ERLANG:
            p.clock = ERLANG;
            erlang = true;
            break;
        case 'n':
        case OPT_LIMIT:
            if (!cli_parse_number(optarg, &limit))
                status = cli_usage("print", "--limit: '%s' is not a number", optarg);
            break;
        case OPT_JSON: p.json = true; break;
        case OPT_ALL: p.all = filter.all = true; break;
        case 'q':
        case OPT_QUIET: quiet = true; break;
        case OPT_STRICT: strict = true; break;
        case 'f':
        case OPT_FOLLOW: following = true; break;
        case OPT_OF_TREE: status = cli_usage("print", "--slower and --function work only with --tree"); break;
        case '?': status = cli_bad_option("print"); break;
        default: status = cli_filter_option(&filter, "print", o, optarg);
        }
    }
    if (status == KYMO_EXIT_OK && p.json && (utc || erlang))
        status = cli_usage("print", "--json has its own times: remove --utc and --erlang");
    if (status == KYMO_EXIT_OK && following && filter.to_text != NULL)
        status = cli_usage("print", "--follow ends with the recording: remove --to");
    if (status == KYMO_EXIT_OK && utc && erlang)
        status = cli_usage("print", "--utc and --erlang exclude each other");
    if (status == KYMO_EXIT_OK && following)
        status = cli_one_recording("print", argc - optind, argv + optind);
    if (status == KYMO_EXIT_OK)
        status = following ? cli_open(argv[optind], &p.r)
                           : cli_open_timeline("print", argc - optind, argv + optind, quiet, &p.r);
    if (status == KYMO_EXIT_OK) {
        uint32_t n;
        kymo_reader_show_all(p.r, p.all);
        p.slots = kymo_reader_slots(p.r, &n);
        p.room = 4096;
        p.text = malloc(p.room);
        status = p.text == NULL ? cli_fail(KYMO_EXIT_MEMORY, "out of memory")
                                : cli_filter_resolve(&filter, "print", p.r);
    }
    struct run x = {.p = &p, .f = &filter, .limit = limit, .quiet = quiet};
    if (status == KYMO_EXIT_OK)
        status = following ? follow(&x, argv[optind], strict) : run(&x);
    status = cli_flush(status);
    if (status == KYMO_EXIT_OK && (strict || !quiet))
        status = cli_say_incomplete(p.r, strict);
    free(p.text);
    kymo_reader_close(p.r);
    cli_filter_free(&filter);
    return status;
}
