/* SPDX-License-Identifier: Apache-2.0 */
#include "largest.h"

#include <stdlib.h>
#include <string.h>

static int64_t length(const struct report_stretch *s)
{
    return s->end - s->start;
}

bool report_heap_init(struct report_heap *h, uint32_t room)
{
    *h = (struct report_heap){calloc(room, sizeof *h->item), 0, room};
    return h->item != NULL;
}

bool report_largest_init(struct report_largest *l, uint32_t most, uint32_t parts, uint32_t each,
                         int64_t first, int64_t last)
{
    *l = (struct report_largest){.first = first, .last = last};
    bool all = report_heap_init(&l->all, most);
    l->part = calloc(parts, sizeof *l->part);
    l->items = calloc((size_t)parts * each, sizeof *l->items);
    if (!all || l->part == NULL || l->items == NULL)
        return false;
    l->parts = parts;
    for (uint32_t i = 0; i < parts; i++)
        l->part[i] = (struct report_heap){l->items + (size_t)i * each, 0, each};
    return true;
}

void report_largest_free(struct report_largest *l)
{
    free(l->all.item);
    free(l->part);
    free(l->items);
    memset(l, 0, sizeof *l);
}

static void sink_down(struct report_heap *h, const struct report_stretch *s)
{
    uint32_t i = 0;
    for (uint32_t c; (c = 2 * i + 1) < h->n; i = c) {
        if (c + 1 < h->n && length(&h->item[c + 1]) < length(&h->item[c]))
            c++;
        if (length(&h->item[c]) >= length(s))
            break;
        h->item[i] = h->item[c];
    }
    h->item[i] = *s;
}

void report_heap_add(struct report_heap *h, const struct report_stretch *s)
{
    if (h->n == h->room) {
        if (length(s) > length(&h->item[0]))
            sink_down(h, s);
        return;
    }
    uint32_t i = h->n++;
    for (uint32_t up; i > 0 && length(&h->item[up = (i - 1) / 2]) > length(s); i = up)
        h->item[i] = h->item[up];
    h->item[i] = *s;
}

void report_largest_add(struct report_largest *l, const struct report_stretch *s)
{
    l->seen++;
    report_heap_add(&l->all, s);
    if (l->last <= l->first)
        return;
    double at = (double)(s->start - l->first) / (double)(l->last - l->first) * l->parts;
    uint32_t part = at <= 0 ? 0 : at >= l->parts ? l->parts - 1 : (uint32_t)at;
    report_heap_add(&l->part[part], s);
}

static int by_start(const void *a, const void *b)
{
    const struct report_stretch *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int longest_first(const void *a, const void *b)
{
    const struct report_stretch *x = a, *y = b;
    if (length(x) != length(y))
        return length(x) > length(y) ? -1 : 1;
    return by_start(x, y);
}

void report_heap_sort(struct report_heap *h)
{
    qsort(h->item, h->n, sizeof *h->item, longest_first);
}

struct report_stretch *report_largest_list(const struct report_largest *l, size_t *n)
{
    size_t all = l->all.n, unique = 0;
    for (uint32_t i = 0; i < l->parts; i++)
        all += l->part[i].n;
    struct report_stretch *list = calloc(all + 1, sizeof *list);
    if (list == NULL)
        return NULL;
    memcpy(list, l->all.item, l->all.n * sizeof *list);
    all = l->all.n;
    for (uint32_t i = 0; i < l->parts; i++) {
        memcpy(list + all, l->part[i].item, l->part[i].n * sizeof *list);
        all += l->part[i].n;
    }
    qsort(list, all, sizeof *list, by_start);
    for (size_t i = 0; i < all; i++) {
        if (unique == 0 || by_start(&list[unique - 1], &list[i]) != 0)
            list[unique++] = list[i];
    }
    *n = unique;
    return list;
}
