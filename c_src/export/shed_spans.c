/* SPDX-License-Identifier: Apache-2.0 */
#include "shed_spans.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_map.h"

/* ---- spans ---- */

/* One time from `from` to `to` in which a function or a kind of events is shed. Those that are
 * shed at present are linked, in the order in which they began. */
struct kymo_shed_stretch {
    int64_t from, to;
    size_t at;         /* in the list of the reader */
    size_t prev, next; /* NONE at the ends */
};

#define NONE SIZE_MAX

static int by_begin(const void *a, const void *b)
{
    const struct kymo_shed_stretch *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int by_end(const void *a, const void *b)
{
    const struct kymo_shed_end *x = a, *y = b;
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

int kymo_shed_walk_init(struct kymo_shed_walk *w, const struct kymo_reader *r, uint32_t recording)
{
    size_t n;
    const struct kymo_shed *s = kymo_reader_shed(r, &n);
    *w = (struct kymo_shed_walk){.r = r, .first = NONE, .last = NONE};
    if (n == 0)
        return 0;
    w->stretches = malloc(n * sizeof *w->stretches);
    w->ends = malloc(n * sizeof *w->ends);
    if (w->stretches == NULL || w->ends == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (s[i].recording == recording && s[i].from < s[i].to)
            w->stretches[w->n++] = (struct kymo_shed_stretch){.from = s[i].from, .to = s[i].to, .at = i};
    }
    if (w->n == 0)
        return 0;
    qsort(w->stretches, w->n, sizeof *w->stretches, by_begin);
    for (size_t i = 0; i < w->n; i++)
        w->ends[i] = (struct kymo_shed_end){w->stretches[i].to, i};
    qsort(w->ends, w->n, sizeof *w->ends, by_end);
    return 0;
}

/* Functions that are shed, or of this kind of events. */
static size_t *count_of(struct kymo_shed_walk *w, const struct kymo_shed_stretch *x)
{
    size_t n;
    return &w->shed[kymo_reader_shed(w->r, &n)[x->at].kind];
}

static void begin(struct kymo_shed_walk *w, size_t i)
{
    struct kymo_shed_stretch *x = &w->stretches[i];
    x->prev = w->last;
    x->next = NONE;
    *(w->last != NONE ? &w->stretches[w->last].next : &w->first) = i;
    w->last = i;
    ++*count_of(w, x);
}

static void end(struct kymo_shed_walk *w, size_t i)
{
    const struct kymo_shed_stretch *x = &w->stretches[i];
    *(x->prev != NONE ? &w->stretches[x->prev].next : &w->first) = x->next;
    *(x->next != NONE ? &w->stretches[x->next].prev : &w->last) = x->prev;
    --*count_of(w, x);
}

bool kymo_shed_walk_next(struct kymo_shed_walk *w, struct kymo_shed_span *span)
{
    /* A stretch ends after it has begun, so at each time ends come first. */
    while (w->next_end < w->n) {
        bool begins = w->next_begin < w->n && w->stretches[w->next_begin].from < w->ends[w->next_end].ns;
        int64_t now = begins ? w->stretches[w->next_begin].from : w->ends[w->next_end].ns;
        for (; w->next_end < w->n && w->ends[w->next_end].ns == now; w->next_end++)
            end(w, w->ends[w->next_end].stretch);
        for (; w->next_begin < w->n && w->stretches[w->next_begin].from == now; w->next_begin++)
            begin(w, w->next_begin);
        if (w->first == NONE)
            continue;
        int64_t ends = w->ends[w->next_end].ns;
        begins = w->next_begin < w->n && w->stretches[w->next_begin].from < ends;
        *span = (struct kymo_shed_span){now, begins ? w->stretches[w->next_begin].from : ends};
        return true;
    }
    return false;
}

void kymo_shed_walk_free(struct kymo_shed_walk *w)
{
    free(w->stretches);
    free(w->ends);
    w->stretches = NULL;
    w->ends = NULL;
}

/* ---- text ---- */

enum { NAME_MAX_BYTES = 2200, TAIL = 160 };

struct text {
    char *buf;
    size_t size, used, shown;
    bool full;
};

/* Adds the name of a function if all names so far have been added, and it has one and fits. */
static void put_function(struct text *t, const struct kymo_reader *r, uint32_t mfa)
{
    char name[NAME_MAX_BYTES];
    t->full =
        t->full || mfa == 0 || t->used + kymo_format_mfa(r, mfa, name, sizeof name) + 2 + TAIL > t->size;
    if (t->full)
        return;
    t->used += (size_t)snprintf(t->buf + t->used, t->size - t->used, "%s%s", t->shown > 0 ? ", " : "", name);
    t->shown++;
}

/* Adds how many functions are not named, and the kinds of events. Returns the number of both. */
static size_t put_rest(struct text *t, size_t functions, const size_t *kinds)
{
    size_t n = functions;
    if (t->shown < functions)
        t->used += (size_t)snprintf(t->buf + t->used, t->size - t->used,
                                    t->shown > 0 ? " and %zu more functions" : "%zu functions",
                                    functions - t->shown);
    for (unsigned kind = 0; kind < KYMO_KINDS; kind++) {
        if (kinds[kind] == 0)
            continue;
        t->used += (size_t)snprintf(t->buf + t->used, t->size - t->used, "%s%s", t->used > 0 ? ", " : "",
                                    kymo_kind_name(kind));
        n++;
    }
    return n;
}

size_t kymo_shed_walk_text(const struct kymo_shed_walk *w, char *buf, size_t size)
{
    size_t n;
    struct text t = {.buf = buf, .size = size};
    const struct kymo_shed *s = kymo_reader_shed(w->r, &n);
    buf[0] = '\0';
    for (size_t i = w->first; i != NONE && !t.full; i = w->stretches[i].next) {
        if (s[w->stretches[i].at].kind == KYMO_KINDS)
            put_function(&t, w->r, s[w->stretches[i].at].mfa);
    }
    return put_rest(&t, w->shed[KYMO_KINDS], w->shed);
}

size_t kymo_shed_text(const struct kymo_reader *r, uint32_t recording, char *buf, size_t size)
{
    size_t n, functions = 0, kinds[KYMO_KINDS] = {0};
    const struct kymo_shed *s = kymo_reader_shed(r, &n);
    struct text t = {.buf = buf, .size = size};
    struct kymo_map seen;
    kymo_map_init(&seen, 0);
    buf[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        bool is_new = true;
        if (s[i].recording != recording)
            continue;
        if (s[i].kind < KYMO_KINDS) {
            kinds[s[i].kind]++;
            continue;
        }
        /* If there is no memory, a function may be counted twice; unknown functions are counted each
         * time. */
        if (s[i].mfa != 0)
            (void)kymo_map_put(&seen, s[i].mfa, &is_new);
        if (!is_new)
            continue;
        functions++;
        put_function(&t, r, s[i].mfa);
    }
    kymo_map_free(&seen);
    return put_rest(&t, functions, kinds);
}
