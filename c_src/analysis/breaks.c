/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_breaks.h"

#include <errno.h>
#include <stdlib.h>

static int by_time(const void *a, const void *b)
{
    const struct kymo_break *x = a, *y = b;
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static unsigned kinds_of(const struct kymo_shed *s)
{
    switch (s->kind) {
    case KYMO_KIND_MESSAGES: return KYMO_BREAK_MESSAGES;
    case KYMO_KIND_RUNNING: return KYMO_BREAK_RUNNING;
    case KYMO_KIND_GC:
    case KYMO_KIND_CALLS: return KYMO_BREAK_CALLS;
    case KYMO_KINDS: return KYMO_BREAK_FUNCTIONS;
    default: return 0;
    }
}

static void add(struct kymo_breaks *b, int64_t ns, int64_t after, unsigned kinds)
{
    if (kinds != 0 && ns > after && ns != INT64_MAX)
        b->list[b->n++] = (struct kymo_break){ns, kinds};
}

int kymo_breaks_read(struct kymo_breaks *b, const struct kymo_reader *r, int64_t after)
{
    size_t n, kept = 0;
    const struct kymo_shed *s = kymo_reader_shed(r, &n);
    kymo_breaks_free(b);
    if (n == 0)
        return 0;
    b->list = malloc(2 * n * sizeof *b->list);
    if (b->list == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        add(b, s[i].from, after, kinds_of(&s[i]));
        add(b, s[i].to, after, kinds_of(&s[i]));
    }
    if (b->n > 0)
        qsort(b->list, b->n, sizeof *b->list, by_time);
    for (size_t i = 0; i < b->n; i++) {
        if (kept > 0 && b->list[kept - 1].ns == b->list[i].ns)
            b->list[kept - 1].kinds |= b->list[i].kinds;
        else
            b->list[kept++] = b->list[i];
    }
    b->n = kept;
    return 0;
}

void kymo_breaks_free(struct kymo_breaks *b)
{
    free(b->list);
    *b = (struct kymo_breaks){.list = NULL};
}

unsigned kymo_breaks_take(struct kymo_breaks *b, int64_t ns)
{
    unsigned kinds = 0;
    while (b->next < b->n && ns >= b->list[b->next].ns)
        kinds |= b->list[b->next++].kinds;
    return kinds;
}
