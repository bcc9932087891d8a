/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_recorded.h"

#include <errno.h>
#include <stdlib.h>

struct kymo_recorded_stretch {
    int64_t from, to;
    int64_t before; /* of calls: the length of all earlier ones */
    uint32_t mfa;
};

static int by_function(const void *a, const void *b)
{
    const struct kymo_recorded_stretch *x = a, *y = b;
    if (x->mfa != y->mfa)
        return x->mfa < y->mfa ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Cuts `s` to the time in question; false if nothing is left of it. */
static bool cut(const struct kymo_recorded *x, const struct kymo_shed *s, struct kymo_recorded_stretch *out)
{
    *out = (struct kymo_recorded_stretch){.from = s->from > x->first ? s->from : x->first,
                                          .to = s->to < x->last ? s->to : x->last,
                                          .mfa = s->mfa};
    return out->from < out->to;
}

/* Joins those that overlap or touch. */
static void join_calls(struct kymo_recorded *x)
{
    size_t kept = 0;
    int64_t sum = 0;
    for (size_t i = 0; i < x->n_calls; i++) {
        struct kymo_recorded_stretch *last = kept > 0 ? &x->calls[kept - 1] : NULL;
        if (last != NULL && x->calls[i].from <= last->to)
            last->to = x->calls[i].to > last->to ? x->calls[i].to : last->to;
        else
            x->calls[kept++] = x->calls[i];
    }
    x->n_calls = kept;
    for (size_t i = 0; i < kept; i++) {
        x->calls[i].before = sum;
        sum += x->calls[i].to - x->calls[i].from;
    }
}

int kymo_recorded_init(struct kymo_recorded *x, const struct kymo_reader *r, int64_t first, int64_t last)
{
    size_t n;
    const struct kymo_shed *s = kymo_reader_shed(r, &n);
    *x = (struct kymo_recorded){.first = first, .last = last};
    if (n == 0)
        return 0;
    x->calls = malloc(n * sizeof *x->calls);
    x->functions = malloc(n * sizeof *x->functions);
    if (x->calls == NULL || x->functions == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (s[i].kind == KYMO_KIND_CALLS)
            x->n_calls += cut(x, &s[i], &x->calls[x->n_calls]);
        else if (s[i].kind == KYMO_KINDS)
            x->n_functions += cut(x, &s[i], &x->functions[x->n_functions]);
    }
    qsort(x->calls, x->n_calls, sizeof *x->calls, by_function);
    qsort(x->functions, x->n_functions, sizeof *x->functions, by_function);
    join_calls(x);
    return 0;
}

/* The time before ns for which calls were shed. */
static int64_t calls_before(const struct kymo_recorded *x, int64_t ns)
{
    size_t low = 0, high = x->n_calls;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (x->calls[middle].from < ns)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return 0;
    const struct kymo_recorded_stretch *s = &x->calls[low - 1];
    return s->before + (ns < s->to ? ns : s->to) - s->from;
}

static size_t first_of(const struct kymo_recorded *x, uint32_t mfa)
{
    size_t low = 0, high = x->n_functions;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (x->functions[middle].mfa < mfa)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t kymo_recorded_ns(const struct kymo_recorded *x, uint32_t mfa)
{
    int64_t shed = calls_before(x, x->last), until = x->first;
    for (size_t i = first_of(x, mfa); i < x->n_functions && x->functions[i].mfa == mfa; i++) {
        int64_t from = x->functions[i].from > until ? x->functions[i].from : until, to = x->functions[i].to;
        if (from >= to)
            continue;
        shed += to - from - (calls_before(x, to) - calls_before(x, from));
        until = to;
    }
    return x->last - x->first - shed;
}

void kymo_recorded_free(struct kymo_recorded *x)
{
    free(x->calls);
    free(x->functions);
    *x = (struct kymo_recorded){.first = 0};
}
