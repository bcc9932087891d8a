/* SPDX-License-Identifier: Apache-2.0 */
#include "shed_spans.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_map.h"

static bool overlaps(const struct kymo_shed *s, uint32_t recording, int64_t from, int64_t to)
{
    return s->recording == recording && s->from < to && s->to > from;
}

/* ---- spans ---- */

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int kymo_shed_walk_init(struct kymo_shed_walk *w, const struct kymo_reader *r, uint32_t recording)
{
    size_t n, unique = 0;
    const struct kymo_shed *s = kymo_reader_shed(r, &n);
    *w = (struct kymo_shed_walk){.r = r, .recording = recording};
    if (n == 0)
        return 0;
    w->times = malloc(2 * n * sizeof *w->times);
    if (w->times == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (s[i].recording == recording) {
            w->times[w->n++] = s[i].from;
            w->times[w->n++] = s[i].to;
        }
    }
    qsort(w->times, w->n, sizeof *w->times, by_time);
    for (size_t i = 0; i < w->n; i++) {
        if (unique == 0 || w->times[unique - 1] != w->times[i])
            w->times[unique++] = w->times[i];
    }
    w->n = unique;
    return 0;
}

bool kymo_shed_walk_next(struct kymo_shed_walk *w, struct kymo_shed_span *span)
{
    size_t n;
    const struct kymo_shed *s = kymo_reader_shed(w->r, &n);
    for (; w->next + 1 < w->n; w->next++) {
        *span = (struct kymo_shed_span){.from = w->times[w->next], .to = w->times[w->next + 1]};
        for (size_t i = 0; i < n; i++) {
            if (overlaps(&s[i], w->recording, span->from, span->to)) {
                w->next++;
                return true;
            }
        }
    }
    return false;
}

void kymo_shed_walk_free(struct kymo_shed_walk *w)
{
    free(w->times);
    w->times = NULL;
}

/* ---- text ---- */

enum { NAME_MAX_BYTES = 2200, TAIL = 160 };

size_t kymo_shed_text(const struct kymo_reader *r, uint32_t recording, int64_t from, int64_t to, char *buf,
                      size_t size)
{
    size_t n, used = 0, functions = 0, shown = 0, kinds = 0;
    unsigned seen_kinds = 0;
    const struct kymo_shed *s = kymo_reader_shed(r, &n);
    struct kymo_map seen;
    char name[NAME_MAX_BYTES];
    kymo_map_init(&seen, 0);
    buf[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        bool is_new = true;
        if (!overlaps(&s[i], recording, from, to))
            continue;
        if (s[i].kind < KYMO_KINDS) {
            seen_kinds |= 1u << s[i].kind;
            continue;
        }
        /* If there is no memory, a function may be counted twice; unknown functions are counted each
         * time. */
        if (s[i].mfa != 0)
            (void)kymo_map_put(&seen, s[i].mfa, &is_new);
        if (!is_new)
            continue;
        functions++;
        if (s[i].mfa == 0 || shown + 1 < functions)
            continue;
        size_t len = kymo_format_mfa(r, s[i].mfa, name, sizeof name);
        if (used + len + 2 + TAIL > size)
            continue;
        used += (size_t)snprintf(buf + used, size - used, "%s%s", shown > 0 ? ", " : "", name);
        shown++;
    }
    kymo_map_free(&seen);
    if (shown < functions)
        used += (size_t)snprintf(buf + used, size - used,
                                 shown > 0 ? " and %zu more functions" : "%zu functions", functions - shown);
    for (unsigned kind = 0; kind < KYMO_KINDS; kind++) {
        if ((seen_kinds >> kind & 1) != 0) {
            used +=
                (size_t)snprintf(buf + used, size - used, "%s%s", used > 0 ? ", " : "", kymo_kind_name(kind));
            kinds++;
        }
    }
    return functions + kinds;
}
