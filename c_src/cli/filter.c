/* SPDX-License-Identifier: Apache-2.0
 *
 * Selection of events: --from, --to, --pid, --events, --module.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kymo_cli.h"
#include "kymo_timeline.h"

enum { NS_PER_SEC = 1000000000 };

static const struct {
    const char *name;
    int64_t ns;
} units[] = {{"ns", 1},
             {"us", 1000},
             {"ms", 1000000},
             {"s", NS_PER_SEC},
             {"min", 60ll * NS_PER_SEC},
             {"m", 60ll * NS_PER_SEC},
             {"h", 3600ll * NS_PER_SEC},
             {"", NS_PER_SEC}};

/* Names that stand for several events, like Erlang's trace flags. */
static const struct {
    const char *name;
    unsigned first, last;
} groups[] = {
    {"calls", KYMO_E_CALL, KYMO_E_EXCEPTION_FROM},
    {"calls", KYMO_E_SLOW, KYMO_E_SLOW},
    {"messages", KYMO_E_SEND, KYMO_E_RECEIVE},
    {"messages", KYMO_E_TAKEN, KYMO_E_TAKEN},
    {"procs", KYMO_E_SPAWN, KYMO_E_UNREGISTER},
    {"ports", KYMO_E_OPEN, KYMO_E_CLOSED},
    {"running", KYMO_E_IN, KYMO_E_PORT_OUT_EXITED},
    {"running_procs", KYMO_E_IN, KYMO_E_OUT_EXITED},
    {"running", KYMO_E_STOPPED, KYMO_E_STOPPED},
    {"running_procs", KYMO_E_STOPPED, KYMO_E_STOPPED},
    {"running_ports", KYMO_E_PORT_IN, KYMO_E_PORT_OUT_EXITED},
    {"garbage_collection", KYMO_E_GC_MINOR_START, KYMO_E_GC_MAJOR_END},
};

/* ---- times ---- */

static bool parse_unit(const char **text, int64_t *ns)
{
    size_t n = 0;
    while (isalpha((unsigned char)(*text)[n]))
        n++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strlen(units[i].name) == n && strncmp(units[i].name, *text, n) == 0) {
            *ns = units[i].ns;
            *text += n;
            return true;
        }
    }
    return false;
}

bool cli_parse_duration(const char *text, int64_t *ns)
{
    const char *start = text;
    int64_t sum = 0;
    do {
        const bool first = text == start;
        int64_t whole = 0, unit, part = 0, digit_ns;
        char fraction[19];
        size_t digits = 0;
        if (!isdigit((unsigned char)*text))
            return false;
        for (; isdigit((unsigned char)*text); text++) {
            if (__builtin_mul_overflow(whole, 10, &whole) ||
                __builtin_add_overflow(whole, *text - '0', &whole))
                return false;
        }
        if (*text == '.') {
            for (text++; isdigit((unsigned char)*text); text++) {
                if (digits < sizeof fraction)
                    fraction[digits++] = *text;
            }
        }
        if (!first && !isalpha((unsigned char)*text)) /* as in 5s5 */
            return false;
        if (!parse_unit(&text, &unit) || __builtin_mul_overflow(whole, unit, &whole))
            return false;
        digit_ns = unit;
        for (size_t i = 0; i < digits; i++) {
            digit_ns /= 10; /* digits below a nanosecond are ignored */
            part += digit_ns * (fraction[i] - '0');
        }
        if (__builtin_add_overflow(sum, whole, &sum) || __builtin_add_overflow(sum, part, &sum))
            return false;
    } while (*text != '\0');
    *ns = sum;
    return true;
}

bool cli_parse_number(const char *text, uint64_t *n)
{
    char *rest;
    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *n = strtoull(text, &rest, 10);
    return *rest == '\0' && errno == 0;
}

/* 2024-05-01T12:00:00[.5][Z], UTC. */
static bool parse_utc(const char *text, int64_t *unix_ns)
{
    struct tm tm = {0};
    int64_t fraction = 0, seconds;
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (rest == NULL)
        return false;
    if (*rest == '.') {
        int64_t scale = NS_PER_SEC;
        for (rest++; isdigit((unsigned char)*rest); rest++) {
            scale /= 10;
            fraction += scale * (*rest - '0');
        }
    }
    if (*rest == 'Z')
        rest++;
    seconds = timegm(&tm);
    return *rest == '\0' && !__builtin_mul_overflow(seconds, NS_PER_SEC, unix_ns) &&
           !__builtin_add_overflow(*unix_ns, fraction, unix_ns);
}

/* A point in time: "1.5s" and "+1.5s" after the start, "-2s" before the last event, or a date.
 * Returns false if the text has none of these forms. If r is NULL, checks only the syntax. */
bool cli_parse_time(const char *text, struct kymo_reader *r, int64_t *since_start)
{
    int64_t v, first, last;
    if (*text == '-') {
        if (!cli_parse_duration(text + 1, &v))
            return false;
        if (r != NULL && kymo_reader_span(r, &first, &last) == 0)
            *since_start =
                (int64_t)((uint64_t)last - (uint64_t)kymo_reader_meta(r)->t0_mono_ns - (uint64_t)v);
        return true;
    }
    if (cli_parse_duration(*text == '+' ? text + 1 : text, &v)) {
        *since_start = v;
        return true;
    }
    if (!parse_utc(text, &v))
        return false;
    if (r != NULL)
        *since_start = (int64_t)((uint64_t)v - (uint64_t)kymo_reader_meta(r)->t0_wall_ns);
    return true;
}

/* ---- options ---- */

static bool add_event(uint64_t *events, const char *name, size_t n)
{
    bool found = false;
    for (unsigned id = 0; id < KYMO_E_COUNT; id++) {
        const char *event = kymo_event_name((uint8_t)id);
        if (event != NULL && strlen(event) == n && memcmp(event, name, n) == 0) {
            *events |= 1ull << id;
            found = true;
        }
    }
    bool single = found;
    for (size_t i = 0; i < sizeof groups / sizeof *groups && !single; i++) {
        if (strlen(groups[i].name) == n && memcmp(groups[i].name, name, n) == 0) {
            for (unsigned id = groups[i].first; id <= groups[i].last; id++)
                *events |= 1ull << id;
            found = true;
        }
    }
    return found;
}

static int add_events(struct cli_filter *f, const char *command, const char *list)
{
    while (*list != '\0') {
        size_t n = strcspn(list, ",");
        if (!add_event(&f->events, list, n))
            return cli_usage(command, "--events: there is no event or group '%.*s'", (int)n, list);
        list += n + (list[n] == ',');
    }
    return f->events == 0 ? cli_usage(command, "--events: the list is empty") : KYMO_EXIT_OK;
}

static int push(const char ***list, size_t *n, const char *value)
{
    const char **more = realloc(*list, (*n + 1) * sizeof *more);
    if (more == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    *list = more;
    more[(*n)++] = value;
    return KYMO_EXIT_OK;
}

/* Parses a process or port with the name of its node, as it is printed for timelines:
 * <node@host.1.2>. *node points to the name without quotes, of *len bytes. */
static bool parse_remote(const char *text, const char **node, size_t *len, uint64_t *ident)
{
    unsigned long number, serial;
    bool port = strncmp(text, "#Port<", 6) == 0;
    size_t n = strlen(text);
    *node = text + (port ? 6 : 1);
    if ((!port && text[0] != '<') || text[n - 1] != '>' || strchr(*node, '@') == NULL)
        return false;
    const char *at = text + n; /* moved back to the dot before the numbers */
    for (int dots = port ? 1 : 2; dots > 0 && at > *node;)
        dots -= *--at == '.';
    *len = (size_t)(at - *node);
    if (*len >= 2 && **node == '\'' && at[-1] == '\'') {
        ++*node;
        *len -= 2;
    }
    if (port && sscanf(at, ".%15lu>", &number) == 1)
        *ident = KYMO_IDENT(KYMO_I_PORT, number);
    else if (!port && sscanf(at, ".%9lu.%7lu>", &number, &serial) == 2)
        *ident = KYMO_IDENT(KYMO_I_PID, number | (uint64_t)serial << 28);
    else
        return false;
    return *len > 0;
}

bool cli_parse_ident(const char *text, uint64_t *ident)
{
    unsigned long number, serial;
    int end = 0;
    if ((sscanf(text, "<0.%9lu.%9lu>%n", &number, &serial, &end) == 2 && end > 0 && text[end] == '\0') ||
        (sscanf(text, "0.%9lu.%9lu%n", &number, &serial, &end) == 2 && end > 0 && text[end] == '\0'))
        *ident = KYMO_IDENT(KYMO_I_PID, number | (uint64_t)serial << 28);
    else if (sscanf(text, "#Port<0.%18lu>%n", &number, &end) == 1 && end > 0 && text[end] == '\0')
        *ident = KYMO_IDENT(KYMO_I_PORT, number);
    else
        return false;
    return true;
}

static bool is_ident(const char *text)
{
    uint64_t ident;
    const char *node;
    size_t len;
    return cli_parse_ident(text, &ident) || parse_remote(text, &node, &len, &ident);
}

void cli_filter_init(struct cli_filter *f)
{
    memset(f, 0, sizeof *f);
    f->from = INT64_MIN;
    f->to = INT64_MAX;
    kymo_map_init(&f->who, 0);
    kymo_map_init(&f->names, 0);
    kymo_map_init(&f->wanted, 0);
}

void cli_filter_free(struct cli_filter *f)
{
    kymo_map_free(&f->who);
    kymo_map_free(&f->names);
    kymo_map_free(&f->wanted);
    free(f->pids);
    free(f->modules);
}

int cli_filter_option(struct cli_filter *f, const char *command, int option, const char *value)
{
    int64_t ignored;
    switch (option) {
    case CLI_OPT_FROM:
    case CLI_OPT_TO:
        if (!cli_parse_time(value, NULL, &ignored))
            return cli_usage(command,
                             "'%s' is not a time: use 1.5s or 200ms after the start, -2s before the end, "
                             "or 2024-05-01T12:00:00Z",
                             value);
        *(option == CLI_OPT_FROM ? &f->from_text : &f->to_text) = value;
        return KYMO_EXIT_OK;
    case CLI_OPT_PID:
        if (*value == '\0' || ((*value == '<' || *value == '#') && !is_ident(value)))
            return cli_usage(command,
                             "'%s' is not a process: use <0.1.2>, #Port<0.3>, a registered name or, of "
                             "several nodes, <node@host.1.2>",
                             value);
        return push(&f->pids, &f->n_pids, value);
    case CLI_OPT_EVENTS: return add_events(f, command, value);
    default:
        if (*value == '\0')
            return cli_usage(command, "--module: the name is empty");
        return push(&f->modules, &f->n_modules, value);
    }
}

/* ---- looking up ---- */

/* Compares an atom with the user's spelling: without quotes, or quoted as the shell prints it.
 * The prefix "Elixir." of module names, which are often registered names, may be omitted. */
static bool is_atom(struct kymo_text atom, const char *wanted)
{
    size_t n = strlen(wanted);
    if (n >= 2 && wanted[0] == '\'' && wanted[n - 1] == '\'') {
        wanted++;
        n -= 2;
    }
    if (atom.len == n && memcmp(atom.s, wanted, n) == 0)
        return true;
    return isupper((unsigned char)*wanted) && atom.len == n + 7 && memcmp(atom.s, "Elixir.", 7) == 0 &&
           memcmp(atom.s + 7, wanted, n) == 0;
}

/* Adds the canonical ids of all atoms with this name. Returns false if out of memory. */
static bool find_atoms(const struct kymo_reader *r, const char *name, struct kymo_map *into, bool *found)
{
    *found = false;
    for (uint32_t id = 1; id <= kymo_reader_dict_size(r); id++) {
        if (kymo_reader_dict_kind(r, id) != KYMO_DICT_ATOM || kymo_reader_canonical(r, id) != id ||
            !is_atom(kymo_reader_atom(r, id), name))
            continue;
        *found = true;
        if (kymo_map_put(into, id, NULL) == NULL)
            return false;
    }
    return true;
}

/* Warns if --from is before the horizon, where the recording is incomplete. */
static void warn_of_horizon(const struct cli_filter *f, const struct kymo_reader *r)
{
    uint64_t ticks;
    int64_t ns;
    char since[64];
    if (f->from_text == NULL || f->all || !kymo_reader_horizon(r, &ticks, &ns))
        return;
    ns = (int64_t)((uint64_t)ns - (uint64_t)kymo_reader_meta(r)->t0_mono_ns);
    cli_format_seconds(ns, since, sizeof since);
    if (f->from < ns)
        cli_warn("the recording is complete from %s s on; --all includes older events", since);
}

/* Adds a process of the named node, or of all nodes if none is named. */
static bool add_ident(struct cli_filter *f, const struct kymo_reader *r, const char *text, bool warn)
{
    const char *node = NULL;
    size_t len = 0;
    uint64_t ident = 0;
    bool known = false;
    if (!cli_parse_ident(text, &ident))
        (void)parse_remote(text, &node, &len, &ident);
    for (uint32_t i = 0; i < kymo_timeline_size(r); i++) {
        const char *name = kymo_timeline_name(r, i);
        if (node != NULL && (strlen(name) != len || memcmp(name, node, len) != 0))
            continue;
        known = true;
        if (kymo_map_put(&f->who, kymo_timeline_ident(r, ident, i), NULL) == NULL)
            return false;
    }
    if (!known && warn)
        cli_warn("there is no recording of the node in '%s'", text);
    return true;
}

static int resolve_names(struct cli_filter *f, const struct kymo_reader *r, bool warn)
{
    bool found, ok = true;
    for (size_t i = 0; i < f->n_pids && ok; i++) {
        if (is_ident(f->pids[i])) {
            ok = add_ident(f, r, f->pids[i], warn);
        } else {
            ok = find_atoms(r, f->pids[i], &f->names, &found);
            if (ok && !found && warn)
                cli_warn("the recording contains no process called '%s'%s", f->pids[i],
                         strchr(f->pids[i], '/') == NULL
                             ? ""
                             : ": processes without a registered name are shown with "
                               "a function; give the pid");
        }
    }
    for (size_t i = 0; i < f->n_modules && ok; i++) {
        ok = find_atoms(r, f->modules[i], &f->wanted, &found);
        if (ok && !found && warn)
            cli_warn("the recording contains no module called '%s'", f->modules[i]);
    }
    return ok ? KYMO_EXIT_OK : cli_fail(KYMO_EXIT_MEMORY, "out of memory");
}

int cli_filter_resolve_names(struct cli_filter *f, const struct kymo_reader *r)
{
    kymo_map_free(&f->names);
    kymo_map_free(&f->wanted);
    return resolve_names(f, r, false);
}

int cli_filter_resolve(struct cli_filter *f, const char *command, struct kymo_reader *r)
{
    if (f->from_text != NULL)
        (void)cli_parse_time(f->from_text, r, &f->from);
    if (f->to_text != NULL)
        (void)cli_parse_time(f->to_text, r, &f->to);
    warn_of_horizon(f, r);
    if (f->from > f->to)
        return cli_usage(command, "--from %s is after --to %s", f->from_text, f->to_text);
    return resolve_names(f, r, true);
}

/* ---- events ---- */

bool cli_filter_process(const struct cli_filter *f, const struct kymo_reader *r, uint64_t ident)
{
    uint32_t name, mfa;
    if (kymo_map_get(&f->who, ident) != NULL)
        return true;
    if (f->names.count == 0)
        return false;
    return kymo_reader_process(r, ident, &name, &mfa) && kymo_map_get(&f->names, name) != NULL;
}

bool cli_filter_function(const struct cli_filter *f, const struct kymo_reader *r, uint32_t id)
{
    struct kymo_mfa mfa;
    return kymo_reader_mfa(r, id, &mfa) && kymo_map_get(&f->wanted, mfa.module) != NULL;
}

bool cli_filter_keep(void *filter, const struct kymo_reader *r, const struct kymo_event *ev)
{
    const struct cli_filter *f = filter;
    bool note = ev->id >= KYMO_E_FIRST_NOTE;
    if (note && f->notes_too)
        return true;
    if (f->events != 0 && (f->events >> ev->id & 1) == 0)
        return false;
    if ((ev->id == KYMO_E_MONITOR || ev->id == KYMO_E_OBSERVED) && f->n_pids != 0) /* notes about a process */
        return f->n_modules == 0 && cli_filter_process(f, r, ev->who);
    if (note)
        return f->events != 0 || (f->n_pids == 0 && f->n_modules == 0);
    if (f->n_pids != 0 && !cli_filter_process(f, r, ev->who))
        return false;
    if (f->n_modules != 0 && !(f->notes_too && ev->id == KYMO_E_RETURN_TO))
        return cli_filter_function(f, r, ev->mfa);
    return true;
}
