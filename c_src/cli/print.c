/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo print: one line per event. The format is an interface, documented in kymo.1: [MARK] TIME
 * THREAD PROCESS EVENT, followed by the event's data as a function or as key=value. Terms are
 * in Erlang syntax, between the parentheses of a function or after a key; nothing else contains
 * spaces.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "etf_tags.h"
#include "follow.h"
#include "kymo_timeline.h"
#include "print.h"

enum clock { SINCE_START, WALL, ERLANG };

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

static void put_term(struct printer *p, const char *key, const uint8_t *etf, size_t len)
{
    if (outgrown(p, kymo_format_value(p->r, etf, len, p->text, p->room)))
        kymo_format_value(p->r, etf, len, p->text, p->room);
    printf(" %s=%s", key, p->text);
}

static bool is_cut(const struct kymo_event *ev)
{
    return (ev->content_flags & KYMO_C_CUT) != 0;
}

/* module:function(Argument, Argument); false when the arguments were not
 * recorded. */
static bool put_call(struct printer *p, const struct kymo_event *ev)
{
    bool has = ev->id == KYMO_E_CALL || ev->id == KYMO_E_SPAWN || ev->id == KYMO_E_SPAWNED;
    if (!has || !ev->has_content)
        return false;
    size_t need = kymo_format_call(p->r, ev->mfa, ev->content, ev->content_len, p->text, p->room);
    if (outgrown(p, need))
        kymo_format_call(p->r, ev->mfa, ev->content, ev->content_len, p->text, p->room);
    if (need > 0)
        printf(" %s%s", p->text, is_cut(ev) ? "(cut)" : "");
    return need > 0;
}

static void put_ident(const struct printer *p, const char *key, uint64_t ident)
{
    char text[512], name[1024];
    uint32_t atom, mfa;
    kymo_format_ident(p->r, ident, text, sizeof text);
    printf(" %s%s", key, text);
    if (kymo_reader_process(p->r, ident, &atom, &mfa) && atom != 0) {
        kymo_format_atom(kymo_reader_atom(p->r, atom), name, sizeof name);
        printf("(%s)", name);
    }
}

static void put_atom(const struct printer *p, const char *key, uint32_t atom)
{
    char text[1100];
    if (atom == 0)
        return;
    kymo_format_atom(kymo_reader_atom(p->r, atom), text, sizeof text);
    printf(" %s=%s", key, text);
}

static void put_time(const struct printer *p, const struct kymo_event *ev)
{
    char text[64];
    switch (p->clock) {
    case WALL: kymo_format_utc(kymo_reader_wall_ns(p->r, ev->ns), text, sizeof text); break;
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

/* Prints the kind of a message and the reference that its reply will have. */
static void put_message(const struct printer *p, const struct kymo_event *ev)
{
    const char *kind = kymo_message_name(ev->message);
    char text[64];
    if (kind == NULL)
        return;
    printf(" message=%s", kind);
    if (ev->ref == 0)
        return;
    kymo_format_ident(p->r, KYMO_IDENT(KYMO_I_REF, ev->ref), text, sizeof text);
    printf(" ref=%s", text);
}

/* Data that only some runtimes report. */
static void put_exact(const struct kymo_event *ev)
{
    if (ev->number != 0)
        printf(" number=%#" PRIx64, ev->number);
    if (ev->id == KYMO_E_TAKEN && ev->passed == KYMO_PASSED_MANY)
        fputs(" passed=many", stdout);
    else if (ev->id == KYMO_E_TAKEN)
        printf(" passed=%" PRIu32, ev->passed);
    if (kymo_has_duration(ev->id))
        printf(" duration_ns=%" PRIu64, ev->value);
    if (ev->id == KYMO_E_STOPPED)
        printf(" began_ns_ago=%" PRIu64, ev->begun);
    if (ev->omitted != 0)
        printf(" omitted=%" PRIu32, ev->omitted);
    if (ev->id == KYMO_E_IN && ev->kind != KYMO_RUNNABLE_UNKNOWN)
        printf(" runnable_by=%s waited_ns=%" PRIu64, kymo_runnable_name(ev->kind), ev->value);
    if (ev->id == KYMO_E_OUT && ev->kind != KYMO_OUT_UNKNOWN)
        printf(" reason=%s", kymo_out_name(ev->kind));
}

static void put_size(uint32_t size)
{
    if (size == KYMO_SIZE_UNKNOWN)
        return;
    printf(" words=%" PRIu32 "%s", size & ~KYMO_SIZE_MORE, (size & KYMO_SIZE_MORE) != 0 ? "+" : "");
}

const char *cli_content_key(uint8_t id)
{
    switch (id) {
    case KYMO_E_CALL:
    case KYMO_E_SPAWN:
    case KYMO_E_SPAWNED: return "args";
    case KYMO_E_RETURN_FROM:
    case KYMO_E_EXCEPTION_FROM: return "value";
    case KYMO_E_SEND:
    case KYMO_E_SEND_NE:
    case KYMO_E_RECEIVE: return "msg";
    case KYMO_E_EXIT:
    case KYMO_E_CLOSED: return "reason";
    case KYMO_E_OPEN: return "driver";
    default: return "term";
    }
}

/* The key of an event's peer. */
static const char *peer_key(uint8_t id)
{
    switch (id) {
    case KYMO_E_SEND:
    case KYMO_E_SEND_NE:
    case KYMO_E_SEQ_TRACE: return "to=";
    case KYMO_E_RECEIVE: return "from=";
    case KYMO_E_SPAWNED:
    case KYMO_E_OPEN: return "by=";
    case KYMO_E_MONITOR: return "port=";
    default: return "peer=";
    }
}

const char *cli_atom_key(uint8_t id)
{
    switch (id) {
    case KYMO_E_EXCEPTION_FROM: return "class";
    case KYMO_E_REGISTER:
    case KYMO_E_UNREGISTER: return "name";
    case KYMO_E_OPEN: return "driver";
    case KYMO_E_EXIT:
    case KYMO_E_CLOSED: return "reason";
    case KYMO_E_OTHER: return "tag";
    case KYMO_E_STOPPED: return "cause";
    default: return "op";
    }
}

static void put_gc(const struct kymo_event *ev)
{
    static const char *const names[] = {
#define KYMO_X(n) #n,
        KYMO_GC_NAMES(KYMO_X)
#undef KYMO_X
    };
    for (uint32_t i = 0; i < ev->n_gc; i++)
        printf(" %s=%" PRIu64, names[i], ev->gc[i]);
}

static void put_seq(const struct kymo_event *ev)
{
    static const char *const kinds[] = {"?", "send", "receive", "print", "other"};
    unsigned kind = ev->kind & ~(unsigned)KYMO_SEQ_LABEL_TERM;
    printf(" kind=%s serial={%" PRIu32 ",%" PRIu32 "}", kind <= KYMO_SEQ_OTHER ? kinds[kind] : "?",
           ev->serial_prev, ev->serial_cur);
    if ((ev->kind & KYMO_SEQ_LABEL_TERM) == 0)
        printf(" label=%" PRId64, (int64_t)ev->value);
}

static void put_note(const struct printer *p, const struct kymo_event *ev)
{
    if (ev->id == KYMO_E_COUNTERS)
        cli_counters_print(p->r, ev);
    else if (ev->id == KYMO_E_MONITOR)
        cli_monitor_print(p->r, ev);
    else if (ev->id == KYMO_E_STATE)
        printf(" state=%s", kymo_state_name(ev->kind));
    else if (ev->id == KYMO_E_LOST)
        printf(" cause=%s count=%" PRIu64, kymo_loss_name(ev->kind), ev->value);
}

/* Prints the content of an event with an unknown tag, which is [Term | Extra]. */
static bool put_other(struct printer *p, const struct kymo_event *ev)
{
    size_t head;
    if (ev->id != KYMO_E_OTHER || !kymo_term_cell(ev->content, ev->content_len, &head))
        return false;
    const uint8_t *etf = ev->content + KYMO_CELL_HEAD;
    size_t rest = ev->content_len - KYMO_CELL_HEAD - head;
    put_term(p, is_cut(ev) ? "term(cut)" : "term", etf, head);
    if (etf[head] != T_NIL)
        put_term(p, is_cut(ev) ? "extra(cut)" : "extra", etf + head, rest);
    return true;
}

/* True if the runtime may report no function for this event. For other events, a missing
 * function means that the dictionary was full. */
static bool may_be_undefined(uint8_t id)
{
    return id == KYMO_E_RETURN_TO || (id >= KYMO_E_IN && id <= KYMO_E_OUT_EXITED);
}

static void put_options(struct printer *p, const struct kymo_event *ev)
{
    static const char *const kinds[] = {"none", "timestamp", "cpu_timestamp", "monotonic",
                                        "strict_monotonic"};
    if ((ev->opt_flags & KYMO_O_SCHED) != 0)
        printf(" scheduler=%u", ev->opt_sched);
    if ((ev->opt_flags & KYMO_O_TS) != 0 && ev->opt_ts < sizeof kinds / sizeof *kinds) {
        printf(" %s=%" PRId64, kinds[ev->opt_ts], ev->opt_a);
        if (ev->opt_ts == KYMO_TS_STRICT)
            printf(",%" PRId64, ev->opt_b);
    }
    if ((ev->opt_flags & KYMO_O_MSR) != 0)
        put_term(p, (ev->opt_flags & KYMO_O_MSR_CUT) != 0 ? "match_spec_result(cut)" : "match_spec_result",
                 ev->msr, ev->msr_len);
}

static void put_event(struct printer *p, const struct kymo_event *ev)
{
    const char *fields = kymo_event_fields(ev->id);
    char mfa[2200];
    bool told = false; /* the content has been printed */
    if (p->all)
        fputs(ev->incomplete ? "? " : ". ", stdout);
    put_time(p, ev);
    if (strchr(fields, 'W') != NULL && (ev->id != KYMO_E_MONITOR || ev->who != KYMO_IDENT_NONE))
        put_ident(p, "", ev->who);
    else if (kymo_timeline_size(p->r) > 1)
        printf(" %s", kymo_timeline_name(p->r, kymo_timeline_of_slot(p->r, ev->slot)));
    else
        fputs(" -", stdout);
    printf(" %s", kymo_event_name(ev->id));
    if (strchr(fields, 'P') != NULL && (ev->peer != KYMO_IDENT_NONE || ev->id == KYMO_E_OPEN))
        put_ident(p, peer_key(ev->id), ev->peer);
    bool has_mfa = strchr(fields, 'M') != NULL && ev->id != KYMO_E_MONITOR;
    if (has_mfa)
        told = put_call(p, ev);
    if (has_mfa && !told) {
        kymo_format_mfa(p->r, ev->mfa, mfa, sizeof mfa);
        printf(" %s", ev->mfa == 0 && may_be_undefined(ev->id) ? "undefined" : mfa);
    }
    if (strchr(fields, 'A') != NULL &&
        (ev->id == KYMO_E_EXCEPTION_FROM || ev->id == KYMO_E_OTHER || !ev->has_content))
        put_atom(p, cli_atom_key(ev->id), ev->atom);
    if (ev->id == KYMO_E_SEQ_TRACE)
        put_seq(ev);
    if (strchr(fields, 'S') != NULL)
        put_size(ev->size);
    put_message(p, ev);
    put_exact(ev);
    put_gc(ev);
    if (ev->id >= KYMO_E_FIRST_NOTE)
        put_note(p, ev);
    if (ev->has_content && !told && !put_other(p, ev)) {
        char key[32];
        snprintf(key, sizeof key, "%s%s%s", cli_content_key(ev->id),
                 (ev->content_flags & KYMO_C_PAIR) != 0 ? "+peer" : "", is_cut(ev) ? "(cut)" : "");
        put_term(p, key, ev->content, ev->content_len);
    }
    if (ev->has_opts)
        put_options(p, ev);
    putchar('\n');
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
            cli_print_json(p->r, p->slots, &ev);
        else
            put_event(p, &ev);
        x->printed++;
        if (cli_output_lost())
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
        OPT_WALL = 1,
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
                                            {"wall", no_argument, NULL, OPT_WALL},
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
    bool quiet = false, strict = false, wall = false, erlang = false, following = false;
    int status = KYMO_EXIT_OK;
    cli_filter_init(&filter);
    for (int o; status == KYMO_EXIT_OK && (o = getopt_long(argc, argv, "n:qf", options, NULL)) != -1;) {
        switch (o) {
        case OPT_WALL:
            p.clock = WALL;
            wall = true;
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
    if (status == KYMO_EXIT_OK && p.json && (wall || erlang))
        status = cli_usage("print", "--json has its own times: remove --wall and --erlang");
    if (status == KYMO_EXIT_OK && following && filter.to_text != NULL)
        status = cli_usage("print", "--follow ends with the recording: remove --to");
    if (status == KYMO_EXIT_OK && wall && erlang)
        status = cli_usage("print", "--wall and --erlang exclude each other");
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
