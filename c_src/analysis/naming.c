/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_naming.h"

#include <ctype.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_lesson.h"
#include "kymo_map.h"

/* Names of a process or port, from events. */
struct told {
    uint32_t name;    /* registered name */
    uint32_t initial; /* the function that proc_lib runs */
    uint32_t spawned; /* the function passed to spawn */
    uint32_t driver;
    uint64_t parent; /* the process that spawned it; KYMO_IDENT_NONE = unknown */
};

struct kymo_naming {
    const struct kymo_reader *r;
    struct kymo_map told; /* ident -> struct told */
    bool *vague;          /* by id: is_vague */
    uint32_t ids;
    bool elixir;
};

static const char prefix[] = "Elixir.";
enum { PREFIX = sizeof prefix - 1 };

/* True for an atom that Elixir writes without its prefix. With other characters it is not an
 * alias in Elixir either, and they might be control characters. */
static bool is_elixir(struct kymo_text t)
{
    if (t.len <= PREFIX || memcmp(t.s, prefix, PREFIX) != 0)
        return false;
    for (uint32_t i = PREFIX; i < t.len; i++) {
        unsigned char c = (unsigned char)t.s[i];
        if (c >= 128 || (c != '_' && c != '.' && !isalnum(c)))
            return false;
    }
    return true;
}

static bool is_atom(const struct kymo_reader *r, uint32_t id, const char *text)
{
    return kymo_text_is(kymo_reader_atom(r, id), text);
}

/* True for functions that do not characterise a process: funs, tasks and agents of Elixir,
 * supervisors without a module of their own. */
static bool runs_anything(const struct kymo_reader *r, uint32_t id)
{
    static const struct {
        const char *module, *function; /* NULL: any */
    } vague[] = {{"erlang", "apply"},
                 {"proc_lib", NULL},
                 {"supervisor", "Elixir.Supervisor.Default"},
                 {"Elixir.Task.Supervised", NULL},
                 {"Elixir.Agent.Server", NULL},
                 {"Elixir.DynamicSupervisor", NULL}};
    struct kymo_mfa mfa;
    if (!kymo_reader_mfa(r, id, &mfa))
        return false;
    for (size_t i = 0; i < sizeof vague / sizeof vague[0]; i++)
        if (is_atom(r, mfa.module, vague[i].module) &&
            (vague[i].function == NULL || is_atom(r, mfa.function, vague[i].function)))
            return true;
    return false;
}

struct kymo_naming *kymo_naming_new(const struct kymo_reader *r)
{
    struct kymo_naming *n = calloc(1, sizeof *n);
    if (n == NULL)
        return NULL;
    kymo_map_init(&n->told, sizeof(struct told));
    if (!kymo_naming_reader(n, r)) {
        free(n);
        return NULL;
    }
    return n;
}

bool kymo_naming_reader(struct kymo_naming *n, const struct kymo_reader *r)
{
    uint32_t ids = kymo_reader_dict_size(r) + 1, known = n->ids;
    bool *vague = realloc(n->vague, ids * sizeof *vague);
    if (vague == NULL)
        return false;
    n->r = r;
    n->vague = vague;
    n->ids = ids;
    for (uint32_t id = known; id < ids; id++) {
        uint8_t kind = kymo_reader_dict_kind(r, id);
        n->elixir = n->elixir || (kind == KYMO_DICT_ATOM && is_elixir(kymo_reader_atom(r, id)));
        vague[id] = kind == KYMO_DICT_MFA && runs_anything(r, id);
    }
    return true;
}

void kymo_naming_free(struct kymo_naming *n)
{
    if (n == NULL)
        return;
    kymo_map_free(&n->told);
    free(n->vague);
    free(n);
}

bool kymo_naming_elixir(const struct kymo_naming *n)
{
    return n->elixir;
}

void kymo_naming_event(void *naming, const struct kymo_event *ev)
{
    struct kymo_naming *n = naming;
    if (ev->id != KYMO_E_SPAWNED && ev->id != KYMO_E_OPEN && ev->id != KYMO_E_REGISTER)
        return;
    if (n->told.count >= KYMO_NAMED_MAX && kymo_map_get(&n->told, ev->who) == NULL)
        kymo_map_free(&n->told);
    bool added;
    struct told *t = kymo_map_put(&n->told, ev->who, &added);
    if (t == NULL)
        return; /* its name is in the dictionary */
    if (added)
        t->parent = KYMO_IDENT_NONE;
    if (ev->id == KYMO_E_REGISTER)
        t->name = kymo_canonical(n->r, ev->atom);
    else
        *t = (struct told){.initial = kymo_canonical(n->r, ev->initial),
                           .spawned = kymo_canonical(n->r, ev->mfa),
                           .driver = kymo_canonical(n->r, ev->atom),
                           .parent = ev->id == KYMO_E_SPAWNED ? ev->peer : KYMO_IDENT_NONE};
}

/* ---- the best name of a process ---- */

void kymo_naming_best(const struct kymo_naming *n, uint64_t ident, uint32_t *atom, uint32_t *mfa)
{
    *atom = *mfa = 0;
    const struct told *t = kymo_map_get(&n->told, ident);
    (void)kymo_reader_process(n->r, ident, atom, mfa);
    if (t == NULL)
        return;
    *atom = t->name != 0 ? t->name : *atom != 0 ? *atom : t->driver;
    *mfa = *mfa != 0 ? *mfa : t->initial != 0 ? t->initial : t->spawned;
}

/* ---- kymo's own processes ---- */

static bool is_one_of(struct kymo_text t, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (kymo_text_is(t, names[i]))
            return true;
    }
    return false;
}

/* Whether the process belongs to a node that kymo attach runs in. */
static bool is_attaching(const struct kymo_naming *n, uint64_t ident)
{
    char buf[512];
    if (KYMO_IDENT_KIND(ident) != KYMO_I_TERM)
        return false;
    kymo_format_ident(n->r, ident, buf, sizeof buf);
    return strstr(buf, "<kymo_attach_") != NULL;
}

/* Whether the process has a registered name that only kymo uses; an ident may be the name itself. */
static bool has_own_name(const struct kymo_naming *n, uint64_t ident)
{
    static const char *const names[] = {"kymo_attach", "kymo_recorders", "kymo_sup"};
    uint32_t atom = 0, mfa;
    if (KYMO_IDENT_KIND(ident) == KYMO_I_ATOM)
        atom = (uint32_t)KYMO_IDENT_DATA(ident);
    else if (KYMO_IDENT_KIND(ident) == KYMO_I_PID)
        kymo_naming_best(n, ident, &atom, &mfa);
    return atom != 0 && is_one_of(kymo_reader_atom(n->r, atom), names, sizeof names / sizeof *names);
}

/* depth: ancestors that may still be examined. */
static bool is_own(const struct kymo_naming *n, uint64_t ident, unsigned depth)
{
    static const char *const modules[] = {
        "kymo_attach_node", "kymo_busiest", "kymo_cost", "kymo_counters",     "kymo_janitor",
        "kymo_recorders",   "kymo_server",  "kymo_sup",  "kymo_trigger_look", "kymo_trigger_server"};
    uint32_t atom, id;
    uint64_t parent, caller;
    struct kymo_mfa mfa;
    if (has_own_name(n, ident) || is_attaching(n, ident))
        return true;
    if (KYMO_IDENT_KIND(ident) != KYMO_I_PID)
        return false;
    kymo_naming_best(n, ident, &atom, &id);
    if (kymo_reader_mfa(n->r, id, &mfa) &&
        is_one_of(kymo_reader_atom(n->r, mfa.module), modules, sizeof modules / sizeof *modules))
        return true;
    const struct told *t = kymo_map_get(&n->told, ident);
    (void)kymo_reader_relatives(n->r, ident, &parent, &caller);
    if (parent == KYMO_IDENT_NONE && t != NULL)
        parent = t->parent;
    return depth > 0 && is_own(n, parent, depth - 1);
}

bool kymo_naming_is_own(const struct kymo_naming *n, uint64_t ident)
{
    enum { ANCESTORS = 3 };
    return is_own(n, ident, ANCESTORS);
}

/* ---- text ---- */

static size_t cut_length(size_t n, size_t size)
{
    return n < size ? n : size - 1;
}

static size_t put_module(const struct kymo_naming *n, struct kymo_text t, char *buf, size_t size)
{
    char text[1100];
    if (n->elixir && is_elixir(t))
        return cut_length((size_t)snprintf(buf, size, "%.*s", (int)(t.len - PREFIX), t.s + PREFIX), size);
    kymo_format_atom(t, text, sizeof text);
    return cut_length((size_t)snprintf(buf, size, "%s%s", n->elixir ? ":" : "", text), size);
}

size_t kymo_name_module(const struct kymo_naming *n, uint32_t atom, char *buf, size_t size)
{
    return put_module(n, kymo_reader_atom(n->r, atom), buf, size);
}

size_t kymo_name_function(const struct kymo_naming *n, uint32_t id, char *buf, size_t size)
{
    struct kymo_mfa mfa;
    char module[1100], function[1100];
    if (!kymo_reader_mfa(n->r, id, &mfa))
        return cut_length((size_t)snprintf(buf, size, "?"), size);
    if (!n->elixir)
        return cut_length(kymo_format_mfa(n->r, id, buf, size), size);
    put_module(n, kymo_reader_atom(n->r, mfa.module), module, sizeof module);
    struct kymo_text f = kymo_reader_atom(n->r, mfa.function);
    /* run, valid? and save! are written as in Elixir, without quotes. */
    kymo_format_atom((struct kymo_text){f.s, f.len - (f.len > 1 && strchr("?!", f.s[f.len - 1]) != NULL)},
                     function, sizeof function);
    if (function[0] == '\'')
        kymo_format_atom(f, function, sizeof function);
    else
        snprintf(function, sizeof function, "%.*s", (int)f.len, f.s);
    return cut_length((size_t)snprintf(buf, size, "%s.%s/%" PRIu32, module, function, mfa.arity), size);
}

static size_t put_ident(const struct kymo_naming *n, uint64_t ident, char *buf, size_t size)
{
    if (ident == KYMO_IDENT_NONE)
        return cut_length((size_t)snprintf(buf, size, "unknown"), size);
    return cut_length(kymo_format_ident(n->r, ident, buf, size), size);
}

/* Writes a name, or the function that a process runs. Returns 0 if there is neither. */
static size_t put_own(const struct kymo_naming *n, uint32_t atom, uint32_t mfa, char *buf, size_t size)
{
    if (atom == 0)
        return mfa != 0 ? kymo_name_function(n, mfa, buf, size) : 0;
    struct kymo_text t = kymo_reader_atom(n->r, atom);
    if (n->elixir && is_elixir(t))
        return put_module(n, t, buf, size);
    return cut_length(kymo_format_atom(t, buf, size), size);
}

/* ---- relatives ---- */

/* An ancestor of a process, or the process for which it works. */
struct relative {
    uint64_t ident; /* KYMO_IDENT_NONE: none */
    uint32_t atom, mfa;
    bool caller;
};

static void relatives(const struct kymo_naming *n, uint64_t ident, uint64_t *parent, uint64_t *caller)
{
    const struct told *t = kymo_map_get(&n->told, ident);
    (void)kymo_reader_relatives(n->r, ident, parent, caller);
    if (*parent == KYMO_IDENT_NONE && t != NULL)
        *parent = t->parent;
}

/* Determines the name of a relative, of which possibly only a registered name is known. */
static void best_of(const struct kymo_naming *n, struct relative *of)
{
    if (KYMO_IDENT_KIND(of->ident) == KYMO_I_ATOM) {
        of->atom = kymo_canonical(n->r, (uint32_t)KYMO_IDENT_DATA(of->ident));
        of->mfa = 0;
    } else {
        kymo_naming_best(n, of->ident, &of->atom, &of->mfa);
    }
}

static bool is_vague(const struct kymo_naming *n, uint32_t id)
{
    return id < n->ids && n->vague[id];
}

/* True if its name or its function characterises it. */
static bool is_clear(const struct kymo_naming *n, const struct relative *of)
{
    return of->atom != 0 || (of->mfa != 0 && !is_vague(n, of->mfa));
}

static bool is_supervisor(const struct kymo_naming *n, uint32_t id)
{
    struct kymo_mfa mfa;
    return kymo_reader_mfa(n->r, id, &mfa) && is_atom(n->r, mfa.module, "supervisor");
}

/* The relative that characterises a process without a name best: the process for which it works,
 * or else the nearest ancestor with a name or with code of its own. Supervisors without a name
 * are used only if there is no other. */
static struct relative closest(const struct kymo_naming *n, uint64_t ident)
{
    struct relative found = {.ident = KYMO_IDENT_NONE}, at = {0};
    uint64_t caller;
    relatives(n, ident, &at.ident, &caller);
    if (caller != KYMO_IDENT_NONE) {
        found = (struct relative){.ident = caller, .caller = true};
        best_of(n, &found);
        if (is_clear(n, &found))
            return found;
        found = (struct relative){.ident = KYMO_IDENT_NONE};
    }
    for (unsigned i = 0; i < KYMO_ANCESTORS_MAX && at.ident != KYMO_IDENT_NONE; i++) {
        best_of(n, &at);
        bool clear = is_clear(n, &at);
        if (clear && (at.atom != 0 || !is_supervisor(n, at.mfa)))
            return at;
        if (clear && found.ident == KYMO_IDENT_NONE)
            found = at;
        relatives(n, at.ident, &at.ident, &caller);
    }
    return found;
}

/* ---- roles ---- */

/* A role is kind << 62 | what: the name; the function, with relation << 60 | relative <<
 * 32 where the function says little; the kind of the ident. */
enum { ROLE_NAME = 1, ROLE_FUNCTION = 2, ROLE_IDENT = 3 };
enum { RELATION_NONE = 0, RELATION_UNDER = 1, RELATION_FOR = 2 };
#define RELATIVE_IS_NAME (UINT64_C(1) << 59)
#define RELATIVE_MASK UINT64_C(0x7ffffff)

static uint64_t role_of(const struct kymo_naming *n, uint64_t ident, bool always)
{
    uint32_t atom, mfa;
    kymo_naming_best(n, ident, &atom, &mfa);
    if (atom != 0)
        return (uint64_t)ROLE_NAME << 62 | atom;
    if (mfa == 0)
        return (uint64_t)ROLE_IDENT << 62 | KYMO_IDENT_KIND(ident);
    uint64_t role = (uint64_t)ROLE_FUNCTION << 62 | mfa;
    if (!always && !is_vague(n, mfa))
        return role;
    struct relative of = closest(n, ident);
    if (of.ident == KYMO_IDENT_NONE)
        return role;
    return role | (uint64_t)(of.caller ? RELATION_FOR : RELATION_UNDER) << 60 |
           (of.atom != 0 ? RELATIVE_IS_NAME : 0) | ((of.atom != 0 ? of.atom : of.mfa) & RELATIVE_MASK) << 32;
}

uint64_t kymo_naming_role(const struct kymo_naming *n, uint64_t ident)
{
    return role_of(n, ident, false);
}

bool kymo_role_is_known(uint64_t role)
{
    return role >> 62 != ROLE_IDENT;
}

size_t kymo_name_of_role(const struct kymo_naming *n, uint64_t role, char *buf, size_t size)
{
    static const char *const relations[4] = {"", " under ", " for ", ""};
    uint32_t what = (uint32_t)role, relative = (uint32_t)(role >> 32 & RELATIVE_MASK);
    bool named = (role & RELATIVE_IS_NAME) != 0;
    if (role >> 62 == ROLE_IDENT) {
        const char *kind = what == KYMO_I_PORT  ? "(ports)"
                           : what == KYMO_I_PID ? "(processes without a name)"
                                                : "(unknown)";
        return cut_length((size_t)snprintf(buf, size, "%s", kind), size);
    }
    if (role >> 62 == ROLE_NAME)
        return put_own(n, what, 0, buf, size);
    size_t len = put_own(n, 0, what, buf, size);
    if ((role >> 60 & 3) == RELATION_NONE)
        return len;
    len += cut_length((size_t)snprintf(buf + len, size - len, "%s", relations[role >> 60 & 3]), size - len);
    return len + put_own(n, named ? relative : 0, named ? 0 : relative, buf + len, size - len);
}

size_t kymo_name_role(const struct kymo_naming *n, uint64_t ident, char *buf, size_t size)
{
    return kymo_name_of_role(n, kymo_naming_role(n, ident), buf, size);
}

/* ---- names ---- */

size_t kymo_name_process(const struct kymo_naming *n, uint64_t ident, char *buf, size_t size)
{
    size_t len = put_ident(n, ident, buf, size);
    uint64_t role = role_of(n, ident, true);
    if (size - len <= 2 || !kymo_role_is_known(role))
        return len;
    buf[len] = ' ';
    return len + 1 + kymo_name_of_role(n, role, buf + len + 1, size - len - 1);
}

size_t kymo_name_short(const struct kymo_naming *n, uint64_t ident, char *buf, size_t size)
{
    uint64_t role = kymo_naming_role(n, ident);
    return kymo_role_is_known(role) ? kymo_name_of_role(n, role, buf, size) : put_ident(n, ident, buf, size);
}

/* ---- matching names ---- */

bool kymo_name_fits(const char *name, const char *wanted)
{
    size_t n = strlen(wanted);
    if (strncmp(name, wanted, n) == 0 && (name[n] == '\0' || strchr(":./", name[n]) != NULL))
        return true;
    return strpbrk(wanted, "*?[") != NULL && fnmatch(wanted, name, 0) == 0;
}

bool kymo_function_fits(const struct kymo_naming *n, uint32_t mfa, const char *wanted)
{
    char as_elixir[2300], as_erlang[2300];
    kymo_name_function(n, mfa, as_elixir, sizeof as_elixir);
    kymo_format_mfa(n->r, mfa, as_erlang, sizeof as_erlang);
    return kymo_name_fits(as_elixir, wanted) || kymo_name_fits(as_erlang, wanted);
}
