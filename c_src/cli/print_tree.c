/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo print --tree: calls with their durations, indented below their callers. An outermost
 * call is printed with everything below it when it has ended, in the order of the calls. A call that
 * the runtime has reported as slow, and that is not recorded otherwise, is a line of its own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse.h"
#include "json.h"
#include "kymo_lesson.h"
#include "kymo_slow_calls.h"

/* The maximum number of spans kept until their outermost call ends. Further spans are printed as
 * they end. */
enum { KEPT_MAX = 1000000 };

struct kept {
    struct kymo_span *p;
    size_t n, room;
};

struct tree {
    struct cli_analysis a;
    struct kymo_map kept; /* process -> struct kept */
    struct kymo_slow_calls slow;
    size_t n_kept;
    int64_t slower; /* ns */
    uint64_t limit, printed;
    const struct kymo_slot *slots;
    uint32_t n_slots;
    bool failed, early; /* early: some spans were printed as they ended */
};

/* ---- one call ---- */

static const char *ended_word(const struct kymo_span *s)
{
    static const char *const words[] = {"",     "exception", "tail call", "hibernation",
                                        "exit", "lost",      "open",      "no end recorded"};
    return words[s->ended <= KYMO_SPAN_MOMENT ? s->ended : 0];
}

static void text_span(struct tree *t, const struct kymo_span *s, uint32_t indent)
{
    char thread[32] = "?", process[1200], function[2300];
    if (s->slot < t->n_slots)
        kymo_format_thread(&t->slots[s->slot], s->slot, thread, sizeof thread);
    kymo_name_process(t->a.naming, s->process, process, sizeof process);
    kymo_name_function(t->a.naming, s->mfa, function, sizeof function);
    printf("%s %s %s %9s %*s%s%s%s%s\n", CLI_SINCE(&t->a, s->start), thread, process,
           CLI_DURATION(kymo_since(s->start, s->end)), (int)indent * 2, "", function,
           s->ended != KYMO_SPAN_RETURN ? "  (" : "", ended_word(s), s->ended != KYMO_SPAN_RETURN ? ")" : "");
}

static void json_span(struct tree *t, const struct kymo_span *s)
{
    cli_json_open(NULL, '{');
    cli_json_uint("id", s->id);
    cli_json_uint("parent", s->parent);
    cli_json_process(&t->a, "process", s->process);
    cli_json_function(&t->a, "function", s->mfa);
    cli_json_uint("depth", s->depth);
    cli_json_since(&t->a, "start_ns", s->start);
    cli_json_ns("total_ns", kymo_since(s->start, s->end));
    cli_json_ns("self_ns", s->self);
    cli_json_ns("running_ns", s->running);
    cli_json_ns("gc_ns", s->gc);
    cli_json_text("ended", kymo_span_end_name(s->ended));
    cli_json_close('}');
    cli_json_end();
}

static bool slow_enough(const struct tree *t, const struct kymo_span *s)
{
    return t->slower == 0 || (s->end != KYMO_NO_TIME && s->end - s->start >= t->slower);
}

static void print_span(struct tree *t, const struct kymo_span *s, uint32_t indent)
{
    if (t->printed >= t->limit || !slow_enough(t, s))
        return;
    t->printed++;
    if (t->a.json)
        json_span(t, s);
    else
        text_span(t, s, indent);
}

/* ---- the calls of a process ---- */

static int by_id(const void *a, const void *b)
{
    const struct kymo_span *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Prints the selected calls and everything below them. */
static void print_kept(struct tree *t, struct kept *k)
{
    uint32_t below = UINT32_MAX; /* depth of the selected call */
    if (k->n > 1)
        qsort(k->p, k->n, sizeof *k->p, by_id);
    for (size_t i = 0; i < k->n && !cli_output_lost(); i++) {
        const struct kymo_span *s = &k->p[i];
        if (s->depth <= below)
            below = cli_wants_function(&t->a, s->mfa) ? s->depth : UINT32_MAX;
        if (below != UINT32_MAX)
            print_span(t, s, s->depth - below);
    }
    t->n_kept -= k->n;
    k->n = 0;
}

static bool keep(struct kept *k, const struct kymo_span *s)
{
    if (k->n == k->room) {
        size_t room = k->room == 0 ? 16 : k->room * 2;
        struct kymo_span *more = realloc(k->p, room * sizeof *more);
        if (more == NULL)
            return false;
        k->p = more;
        k->room = room;
    }
    k->p[k->n++] = *s;
    return true;
}

static void forget(struct tree *t, uint64_t process, struct kept *k)
{
    free(k->p);
    k->p = NULL;
    (void)kymo_map_remove(&t->kept, process);
}

static void on_span(void *arg, const struct kymo_span *s)
{
    struct tree *t = arg;
    if (t->printed >= t->limit || !cli_wants_process(&t->a, s->process))
        return;
    struct kept *k = kymo_map_put(&t->kept, s->process, NULL);
    if (k == NULL || !keep(k, s)) {
        t->failed = true;
        return;
    }
    t->n_kept++;
    if (s->depth == 0 || t->n_kept >= KEPT_MAX) {
        t->early = t->early || s->depth != 0;
        print_kept(t, k);
        forget(t, s->process, k);
    }
}

/* Prints what is left when a process ends: the outermost call may be below a collection, or
 * have begun before the recording. */
static void on_life(void *arg, const struct kymo_life *life)
{
    struct tree *t = arg;
    struct kept *k = kymo_map_get(&t->kept, life->process);
    if (k == NULL)
        return;
    print_kept(t, k);
    forget(t, life->process, k);
}

static void print_slow(struct tree *t, const struct kymo_event *ev, uint32_t mfa, int64_t start)
{
    char thread[32] = "?", process[1200], function[2300];
    t->printed++;
    if (t->a.json) {
        cli_json_open(NULL, '{');
        cli_json_process(&t->a, "process", ev->who);
        cli_json_function(&t->a, "function", mfa);
        cli_json_since(&t->a, "start_ns", start);
        cli_json_ns("total_ns", (int64_t)ev->value);
        cli_json_text("ended", "slow");
        cli_json_close('}');
        cli_json_end();
        return;
    }
    if (ev->slot < t->n_slots)
        kymo_format_thread(&t->slots[ev->slot], ev->slot, thread, sizeof thread);
    kymo_name_process(t->a.naming, ev->who, process, sizeof process);
    kymo_name_function(t->a.naming, mfa, function, sizeof function);
    printf("%s %s %s %9s %s  (slow)\n", CLI_SINCE(&t->a, start), thread, process,
           CLI_DURATION((int64_t)ev->value), function);
}

/* Calls are recorded before they end. */
static void on_event(void *arg, const struct kymo_event *ev)
{
    struct tree *t = arg;
    if (ev->id != KYMO_E_CALL && ev->id != KYMO_E_SLOW)
        return;
    uint32_t mfa = kymo_canonical(t->a.r, ev->mfa);
    int64_t start;
    if (ev->id == KYMO_E_CALL)
        t->failed = !kymo_slow_calls_called(&t->slow, mfa) || t->failed;
    else if (t->printed < t->limit && kymo_slow_calls_shows(&t->slow, ev, mfa, &start) &&
             cli_wants_process(&t->a, ev->who) && cli_wants_function(&t->a, mfa) &&
             (int64_t)ev->value >= t->slower)
        print_slow(t, ev, mfa, start);
}

/* ---- the command ---- */

static int run(struct tree *t)
{
    struct kymo_analysis_sink sink = {.arg = t, .event = on_event, .span = on_span, .life = on_life};
    t->slots = kymo_reader_slots(t->a.r, &t->n_slots);
    int status = cli_analysis_run(&t->a, &sink, 1);
    if (status == KYMO_EXIT_OK && t->failed)
        status = cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    if (status == KYMO_EXIT_OK) {
        cli_lacks(&t->a, t->a.result.has_calls || t->a.result.has_slow, "calls", "there is no tree to show");
        if (t->a.result.has_calls)
            cli_lacks(&t->a, t->a.result.has_ends, "return_to or return events",
                      "durations of calls are unknown");
        if (t->early && !t->a.quiet)
            cli_warn("too many calls were open at one time: some are not shown below their callers");
    }
    return status;
}

int cli_print_tree(int argc, char **argv)
{
    enum { OPT_TREE = 1, OPT_SLOWER, OPT_LIMIT, OPT_FOLLOW };
    static const struct option options[] = {CLI_ANALYSIS_OPTIONS,
                                            {"tree", no_argument, NULL, OPT_TREE},
                                            {"follow", no_argument, NULL, OPT_FOLLOW},
                                            {"slower", required_argument, NULL, OPT_SLOWER},
                                            {"limit", required_argument, NULL, OPT_LIMIT},
                                            {NULL, 0, NULL, 0}};
    struct tree t = {.limit = UINT64_MAX};
    int status = KYMO_EXIT_OK;
    cli_analysis_init(&t.a, "print", UINT64_MAX);
    kymo_map_init(&t.kept, sizeof(struct kept));
    kymo_slow_calls_init(&t.slow);
    for (int o; status == KYMO_EXIT_OK &&
                (o = getopt_long(argc, argv, CLI_ANALYSIS_SHORT "f", options, NULL)) != -1;) {
        switch (o) {
        case OPT_TREE: break;
        case 'f':
        case OPT_FOLLOW:
            status = cli_usage("print", "--follow prints new events, --tree prints finished calls: use "
                                        "one of them");
            break;
        case OPT_SLOWER:
            if (!cli_parse_duration(optarg, &t.slower))
                status = cli_usage("print", "--slower: '%s' is not a duration: use 10ms or 1.5s", optarg);
            break;
        case 'n':
        case OPT_LIMIT:
            if (!cli_parse_number(optarg, &t.limit))
                status = cli_usage("print", "--limit: '%s' is not a number", optarg);
            break;
        default: status = cli_analysis_option(&t.a, o, optarg);
        }
    }
    if (status == KYMO_EXIT_OK)
        status = cli_analysis_open_timeline(&t.a, argc - optind, argv + optind);
    if (status == KYMO_EXIT_OK)
        status = run(&t);
    size_t it = 0;
    for (struct kept *k; (k = kymo_map_next(&t.kept, &it, NULL)) != NULL;)
        free(k->p);
    kymo_map_free(&t.kept);
    kymo_slow_calls_free(&t.slow);
    return cli_analysis_close(&t.a, status);
}
