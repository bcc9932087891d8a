/* SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "kymo_timeline.h"

enum { LANES_MAX = 4096 };

bool report_lanes_init(struct report_lanes *l, const struct cli_analysis *a, int64_t first, int64_t last)
{
    *l = (struct report_lanes){.a = a, .first = first, .last = last};
    kymo_map_init(&l->processes, sizeof(struct report_lane *));
    kymo_map_init(&l->number, sizeof(uint32_t));
    (void)kymo_reader_slots(a->r, &l->n_threads);
    l->others = calloc(1, sizeof *l->others);
    l->threads = calloc((size_t)l->n_threads + 1, sizeof *l->threads);
    if (l->others != NULL)
        l->others->ident = KYMO_IDENT_NONE;
    return l->others != NULL && l->threads != NULL;
}

void report_lanes_free(struct report_lanes *l)
{
    size_t it = 0;
    for (struct report_lane **p; (p = kymo_map_next(&l->processes, &it, NULL)) != NULL;)
        free(*p);
    kymo_map_free(&l->processes);
    kymo_map_free(&l->number);
    free(l->others);
    free(l->threads);
    free(l->shown);
}

/* ---- collecting ---- */

static double activity(const struct report_lane *lane)
{
    double sum = 0;
    for (unsigned k = 0; k < LANE_KINDS; k++)
        sum += lane->sum[k];
    return sum;
}

static void merge(struct report_lane *into, const struct report_lane *from)
{
    for (unsigned k = 0; k < LANE_KINDS; k++) {
        into->sum[k] += from->sum[k];
        for (unsigned i = 0; i < LANE_PARTS; i++)
            into->part[k][i] += from->part[k][i];
    }
    into->runs += from->runs;
}

static int busiest_first(const void *a, const void *b)
{
    const struct report_lane *x = *(struct report_lane *const *)a, *y = *(struct report_lane *const *)b;
    if (x->wanted != y->wanted)
        return x->wanted ? -1 : 1;
    if (x->own != y->own)
        return x->own ? 1 : -1;
    if (activity(x) != activity(y))
        return activity(x) > activity(y) ? -1 : 1;
    return x->ident < y->ident ? -1 : x->ident > y->ident;
}

/* All lanes except that of the others, busiest first. Returns NULL if there is no memory. */
static struct report_lane **sorted(const struct report_lanes *l, size_t *n)
{
    struct report_lane **list = calloc(l->processes.count + 1, sizeof(struct report_lane *));
    size_t it = 0;
    *n = 0;
    for (struct report_lane **p; list != NULL && (p = kymo_map_next(&l->processes, &it, NULL)) != NULL;)
        list[(*n)++] = *p;
    if (list != NULL)
        qsort(list, *n, sizeof(struct report_lane *), busiest_first);
    return list;
}

/* Merges all but the first `most` lanes of the list into the lane of the others. */
static void make_others(struct report_lanes *l, struct report_lane **list, size_t n, size_t most)
{
    for (size_t i = most; i < n; i++) {
        if (list[i]->wanted)
            continue;
        merge(l->others, list[i]);
        l->n_others++;
        kymo_map_remove(&l->processes, list[i]->ident);
        free(list[i]);
        list[i] = NULL;
    }
}

static struct report_lane *lane_of(struct report_lanes *l, uint64_t ident)
{
    struct report_lane **known = kymo_map_get(&l->processes, ident);
    if (known != NULL)
        return *known;
    if (l->processes.count >= LANES_MAX) {
        size_t n;
        struct report_lane **list = sorted(l, &n);
        if (list != NULL)
            make_others(l, list, n, LANES_MAX / 2);
        free(list);
    }
    struct report_lane **place = kymo_map_put(&l->processes, ident, NULL);
    if (place != NULL && (*place = calloc(1, sizeof **place)) == NULL) {
        kymo_map_remove(&l->processes, ident);
        place = NULL;
    }
    if (place == NULL) {
        l->failed = true;
        return l->others;
    }
    (*place)->ident = ident;
    return *place;
}

/* Adds the interval from start to end to the parts of the lane that it overlaps. */
static void add(const struct report_lanes *l, struct report_lane *lane, enum report_activity kind,
                int64_t start, int64_t end)
{
    double width = (double)(l->last - l->first) / LANE_PARTS;
    lane->sum[kind] += (double)(end - start);
    if (width <= 0)
        return;
    double from = (double)(start - l->first) / width, to = (double)(end - l->first) / width;
    from = from < 0 ? 0 : from;
    to = to > LANE_PARTS ? LANE_PARTS : to;
    for (unsigned i = (unsigned)from; i < LANE_PARTS && (double)i < to; i++) {
        double low = from > i ? from : i, high = to < i + 1 ? to : i + 1;
        if (high > low)
            lane->part[kind][i] += (float)((high - low) * width);
    }
}

void report_lanes_run(struct report_lanes *l, const struct kymo_run *run)
{
    if (run->start == KYMO_NO_TIME || run->end == KYMO_NO_TIME)
        return;
    struct report_lane *lane = lane_of(l, run->process);
    add(l, lane, LANE_RUNNING, run->start, run->end);
    lane->runs++;
    if (run->slot >= l->n_threads)
        return;
    add(l, &l->threads[run->slot], LANE_RUNNING, run->start, run->end);
    l->threads[run->slot].runs++;
}

void report_lanes_call(struct report_lanes *l, const struct kymo_span *s)
{
    if (s->depth == 0 && s->start != KYMO_NO_TIME && s->end != KYMO_NO_TIME)
        add(l, lane_of(l, s->process), LANE_CALLS, s->start, s->end);
}

void report_lanes_collection(struct report_lanes *l, const struct kymo_collection *c)
{
    if (c->start != KYMO_NO_TIME && c->end != KYMO_NO_TIME)
        add(l, lane_of(l, c->process), LANE_GC, c->start, c->end);
}

void report_lanes_want(struct report_lanes *l, uint64_t ident)
{
    if (ident != KYMO_IDENT_NONE)
        lane_of(l, ident)->wanted = true;
}

/* ---- output ---- */

bool report_lanes_choose(struct report_lanes *l, size_t most)
{
    size_t n;
    size_t it = 0, own = 0;
    for (struct report_lane **p; (p = kymo_map_next(&l->processes, &it, NULL)) != NULL;)
        own += (*p)->own = !(*p)->wanted && !cli_wants_process(l->a, (*p)->ident);
    l->shown = sorted(l, &n);
    if (l->shown == NULL)
        return false;
    make_others(l, l->shown, n, most < n - own ? most : n - own);
    for (size_t i = 0; i < n; i++) {
        if (l->shown[i] == NULL)
            continue;
        uint32_t *number = kymo_map_put(&l->number, l->shown[i]->ident, NULL);
        if (number == NULL)
            return false;
        *number = (uint32_t)l->n_shown;
        l->shown[l->n_shown++] = l->shown[i];
    }
    return true;
}

int64_t report_lane_of(const struct report_lanes *l, uint64_t ident)
{
    const uint32_t *number = kymo_map_get(&l->number, ident);
    return number != NULL ? (int64_t)*number : -1;
}

static void json_share(const struct report_lanes *l, const char *key, const float *part, bool known,
                       double whole)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[LANE_PARTS + 1];
    double width = (double)(l->last - l->first) / LANE_PARTS * whole;
    if (!known) {
        cli_json_null(key);
        return;
    }
    for (unsigned i = 0; i < LANE_PARTS; i++) {
        double share = width > 0 ? (double)part[i] / width * 63 : 0;
        text[i] = digits[share <= 0 ? 0 : share < 1 ? 1 : share > 63 ? 63 : (unsigned)share];
    }
    text[LANE_PARTS] = '\0';
    cli_json_text(key, text);
}

static void json_lane(const struct report_lanes *l, const struct report_lane *lane)
{
    const struct kymo_analysis_result *res = &l->a->result;
    char text[1200];
    bool others = lane->ident == KYMO_IDENT_NONE;
    cli_json_open(NULL, '{');
    cli_json_process(l->a, "process", lane->ident);
    if (others) {
        cli_json_null("role");
        cli_json_uint("processes", l->n_others);
    } else {
        kymo_name_role(l->a->naming, lane->ident, text, sizeof text);
        cli_json_text("role", text);
    }
    if (res->has_running)
        cli_json_int("running_ns", (int64_t)lane->sum[LANE_RUNNING]);
    else
        cli_json_null("running_ns");
    cli_json_uint("runs", lane->runs);
    /* The lane of the others has the time of many processes: scale it to their mean. */
    double whole = others && l->n_others > 0 ? (double)l->n_others : 1;
    json_share(l, "running", lane->part[LANE_RUNNING], res->has_running, whole);
    json_share(l, "calls", lane->part[LANE_CALLS], res->has_ends, whole);
    json_share(l, "gc", lane->part[LANE_GC], res->has_gc, whole);
    cli_json_close('}');
}

void report_lanes_json(const struct report_lanes *l)
{
    uint32_t n;
    const struct kymo_slot *slots = kymo_reader_slots(l->a->r, &n);
    cli_json_open("lanes", '[');
    for (size_t i = 0; i < l->n_shown; i++)
        json_lane(l, l->shown[i]);
    if (l->n_others > 0)
        json_lane(l, l->others);
    cli_json_close(']');
    cli_json_open("threads", '[');
    for (uint32_t i = 0; i < l->n_threads; i++) {
        const struct report_lane *lane = &l->threads[i];
        char name[512];
        if (lane->runs == 0)
            continue;
        size_t len = kymo_format_thread(&slots[i], i, name, sizeof name);
        if (kymo_timeline_size(l->a->r) > 1)
            snprintf(name + len, sizeof name - len, " %s",
                     kymo_timeline_name(l->a->r, kymo_timeline_of_slot(l->a->r, i)));
        cli_json_open(NULL, '{');
        cli_json_text("thread", name);
        cli_json_int("running_ns", (int64_t)lane->sum[LANE_RUNNING]);
        cli_json_uint("runs", lane->runs);
        json_share(l, "running", lane->part[LANE_RUNNING], true, 1);
        cli_json_close('}');
    }
    cli_json_close(']');
}
