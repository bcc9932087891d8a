/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_naming.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_lesson.h"
#include "kymo_map.h"

/* What events told of one process or port. */
struct told {
    uint32_t name;    /* registered name */
    uint32_t initial; /* what proc_lib really runs */
    uint32_t spawned; /* what spawn was given */
    uint32_t driver;
};

struct kymo_naming {
    const struct kymo_reader *r;
    struct kymo_map told; /* ident -> struct told */
    bool elixir;
};

static const char prefix[] = "Elixir.";
enum { PREFIX = sizeof prefix - 1 };

static bool is_elixir(struct kymo_text t)
{
    return t.len > PREFIX && memcmp(t.s, prefix, PREFIX) == 0;
}

struct kymo_naming *kymo_naming_new(const struct kymo_reader *r)
{
    struct kymo_naming *n = calloc(1, sizeof *n);
    if (n == NULL)
        return NULL;
    n->r = r;
    kymo_map_init(&n->told, sizeof(struct told));
    for (uint32_t id = 1; id <= kymo_reader_dict_size(r) && !n->elixir; id++)
        n->elixir = kymo_reader_dict_kind(r, id) == KYMO_DICT_ATOM && is_elixir(kymo_reader_atom(r, id));
    return n;
}

void kymo_naming_free(struct kymo_naming *n)
{
    if (n == NULL)
        return;
    kymo_map_free(&n->told);
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
    struct told *t = kymo_map_put(&n->told, ev->who, NULL);
    if (t == NULL)
        return; /* its name is what the dictionary says */
    if (ev->id == KYMO_E_REGISTER)
        t->name = kymo_canonical(n->r, ev->atom);
    else
        *t = (struct told){.initial = kymo_canonical(n->r, ev->initial),
                           .spawned = kymo_canonical(n->r, ev->mfa),
                           .driver = kymo_canonical(n->r, ev->atom)};
}

/* ---- what is known of a process ---- */

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
    /* run, valid? and save! are written as they are in Elixir. */
    kymo_format_atom((struct kymo_text){f.s, f.len - (f.len > 1 && strchr("?!", f.s[f.len - 1]) != NULL)},
                     function, sizeof function);
    if (function[0] == '\'')
        kymo_format_atom(f, function, sizeof function);
    else
        snprintf(function, sizeof function, "%.*s", (int)f.len, f.s);
    return cut_length((size_t)snprintf(buf, size, "%s.%s/%" PRIu32, module, function, mfa.arity), size);
}

/* The name alone; 0 when there is none. */
static size_t name_of(const struct kymo_naming *n, uint64_t ident, char *buf, size_t size)
{
    uint32_t atom, mfa;
    kymo_naming_best(n, ident, &atom, &mfa);
    if (atom != 0) {
        struct kymo_text t = kymo_reader_atom(n->r, atom);
        if (n->elixir && is_elixir(t))
            return put_module(n, t, buf, size);
        return cut_length(kymo_format_atom(t, buf, size), size);
    }
    return mfa != 0 ? kymo_name_function(n, mfa, buf, size) : 0;
}

static size_t put_ident(const struct kymo_naming *n, uint64_t ident, char *buf, size_t size)
{
    if (ident == KYMO_IDENT_NONE)
        return cut_length((size_t)snprintf(buf, size, "unknown"), size);
    return cut_length(kymo_format_ident(n->r, ident, buf, size), size);
}

size_t kymo_name_process(const struct kymo_naming *n, uint64_t ident, char *buf, size_t size)
{
    size_t len = put_ident(n, ident, buf, size);
    if (size - len <= 2)
        return len;
    size_t more = name_of(n, ident, buf + len + 1, size - len - 1);
    buf[len] = more > 0 ? ' ' : '\0';
    return more > 0 ? len + 1 + more : len;
}

size_t kymo_name_short(const struct kymo_naming *n, uint64_t ident, char *buf, size_t size)
{
    size_t len = name_of(n, ident, buf, size);
    return len > 0 ? len : put_ident(n, ident, buf, size);
}

/* ---- roles ---- */

uint64_t kymo_naming_role(const struct kymo_naming *n, uint64_t ident)
{
    uint32_t atom, mfa;
    kymo_naming_best(n, ident, &atom, &mfa);
    if (atom != 0)
        return UINT64_C(1) << 62 | atom;
    if (mfa != 0)
        return UINT64_C(2) << 62 | mfa;
    return UINT64_C(3) << 62 | KYMO_IDENT_KIND(ident);
}

size_t kymo_name_role(const struct kymo_naming *n, uint64_t ident, char *buf, size_t size)
{
    size_t len = name_of(n, ident, buf, size);
    if (len > 0)
        return len;
    const char *kind = KYMO_IDENT_KIND(ident) == KYMO_I_PORT  ? "(ports)"
                       : KYMO_IDENT_KIND(ident) == KYMO_I_PID ? "(processes without a name)"
                                                              : "(unknown)";
    return cut_length((size_t)snprintf(buf, size, "%s", kind), size);
}
