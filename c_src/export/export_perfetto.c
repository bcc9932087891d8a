/* SPDX-License-Identifier: Apache-2.0
 *
 * A recording as a Perfetto trace: from its horizon to its end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "kymo_timeline.h"
#include "perfetto_state.h"

/* The names of the nodes, for their tracks. */
static void describe_nodes(struct kymo_pfx *x)
{
    for (uint32_t i = 0; i < x->n_nodes; i++) {
        const struct kymo_meta *meta = kymo_timeline_meta(x->r, i);
        uint32_t n = meta->node_len < sizeof meta->node ? meta->node_len : (uint32_t)sizeof meta->node;
        kymo_pf_process(&x->w, x->nodes[i].track, x->nodes[i].pid,
                        n > 0 ? (const char *)meta->node : "Erlang node", n > 0 ? n : 11);
    }
}

/* A process id that is not in use: nodes of several machines may have the same process id, and
 * Perfetto would treat them as one process. */
static uint64_t free_pid(const struct kymo_pfx *x, uint32_t n, uint64_t pid)
{
    for (uint32_t i = 0; i < n; i++) {
        if (x->nodes[i].pid == pid)
            return free_pid(x, n, pid + 1);
    }
    return pid;
}

static bool number_nodes(struct kymo_pfx *x)
{
    x->n_nodes = kymo_timeline_size(x->r);
    x->nodes = calloc(x->n_nodes, sizeof *x->nodes);
    for (uint32_t i = 0; x->nodes != NULL && i < x->n_nodes; i++)
        x->nodes[i] = (struct kymo_pfx_node){.pid = free_pid(x, i, kymo_timeline_meta(x->r, i)->os_pid),
                                             .track = i == 0 ? TRACK_NODE : x->next_track++,
                                             .running_track = i == 0 ? TRACK_RUNNING : x->next_track++};
    return x->nodes != NULL;
}

/* Collects what the budgets of all nodes have shed. Returns 0 or -ENOMEM. */
static int find_shed(struct kymo_pfx *x)
{
    for (uint32_t i = 0; i < x->n_nodes; i++) {
        struct kymo_pfx_node *node = &x->nodes[i];
        if (kymo_shed_walk_init(&node->shed, x->r, i) != 0)
            return -ENOMEM;
        node->shed_has = kymo_shed_walk_next(&node->shed, &node->shed_span);
        x->left_out = x->left_out || node->shed_has;
    }
    return 0;
}

/* Determines where the export begins, when the first complete event has been read. */
static void find_cut(struct kymo_pfx *x, const struct kymo_export_options *o)
{
    uint64_t ticks, t0 = (uint64_t)kymo_reader_meta(x->r)->t0_mono_ns;
    x->cut = kymo_reader_horizon(x->r, &ticks, &x->cut_ns);
    /* A window that begins later does not need that time. */
    if (o->from_ns > (int64_t)((uint64_t)x->cut_ns - t0))
        x->cut_ns = (int64_t)(t0 + (uint64_t)o->from_ns);
}

static int run(struct kymo_pfx *x, struct kymo_feed *feed, const char *path, char *err, size_t err_size)
{
    struct kymo_event ev;
    int rc = kymo_feed_next(feed, &ev);
    int64_t start = rc == 1 ? ev.ns : kymo_reader_meta(x->r)->t0_mono_ns;
    if (rc < 0)
        return kymo_feed_error(rc, err, err_size);
    int opened = kymo_pf_open(&x->w, x->r, x->naming, path, start, err, err_size);
    if (opened != 0)
        return opened;
    x->first = x->now = x->newest = start;
    describe_nodes(x);
    for (bool begun = false; rc == 1 && x->w.out.error == 0; rc = kymo_feed_next(feed, &ev)) {
        kymo_naming_event(x->naming, &ev);
        if (ev.incomplete) {
            kymo_pfx_older(x, &ev, feed->o->all);
            continue;
        }
        if (!begun)
            find_cut(x, feed->o);
        begun = true;
        kymo_pfx_event(x, &ev);
    }
    if (rc < 0)
        return kymo_feed_error(rc, err, err_size);
    kymo_pfx_expire(x, INT64_MAX);
    kymo_pfx_end_all(x);
    kymo_pfx_shed_end(x);
    feed->res->written = x->slices;
    feed->res->bytes = kymo_out_bytes(&x->w.out);
    return kymo_pf_finish(&x->w, err, err_size);
}

/* 0 or -ENOMEM. */
static int init(struct kymo_pfx *x, struct kymo_reader *r)
{
    x->r = r;
    x->w.out.fd = -1;
    x->next_track = TRACK_PROCESS_BASE;
    kymo_map_init(&x->processes, sizeof(struct kymo_pfx_process *));
    kymo_map_init(&x->names, sizeof(uint64_t));
    kymo_map_init(&x->older, 0);
    kymo_map_init(&x->fetched, sizeof(uint64_t));
    kymo_map_init(&x->counter_tracks, sizeof(uint64_t));
    kymo_reader_slots(r, &x->n_threads);
    if (x->next_track < (uint64_t)TRACK_THREAD_BASE + x->n_threads)
        x->next_track = (uint64_t)TRACK_THREAD_BASE + x->n_threads;
    x->threads = calloc(x->n_threads + 1, sizeof *x->threads);
    x->naming = kymo_naming_new(r);
    if (x->naming == NULL || x->threads == NULL || !number_nodes(x) || find_shed(x) != 0 ||
        kymo_flows_init(&x->flows) != 0 || kymo_residents_init(&x->residents) != 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < x->n_threads; i++)
        x->threads[i].running = KYMO_IDENT_NONE;
    int rc = kymo_breaks_read(&x->breaks, r, INT64_MIN);
    return rc == 0 ? kymo_flows_timeline(&x->flows, r) : rc;
}

static void clear(struct kymo_pfx *x)
{
    size_t it = 0;
    for (struct kymo_pfx_process **p; (p = kymo_map_next(&x->processes, &it, NULL)) != NULL;)
        kymo_pfx_process_free(*p);
    kymo_map_free(&x->processes);
    kymo_map_free(&x->names);
    kymo_map_free(&x->older);
    kymo_map_free(&x->fetched);
    kymo_map_free(&x->counter_tracks);
    kymo_gauges_free(&x->gauges);
    for (uint32_t i = 0; i < HELD_MAX; i++)
        kymo_pb_free(&x->held[i].event);
    kymo_flows_free(&x->flows);
    kymo_breaks_free(&x->breaks);
    kymo_residents_free(&x->residents);
    kymo_facts_free(&x->lesson.facts);
    kymo_naming_free(x->naming);
    kymo_pf_free(&x->w);
    free(x->threads);
    for (uint32_t i = 0; x->nodes != NULL && i < x->n_nodes; i++)
        kymo_shed_walk_free(&x->nodes[i].shed);
    free(x->nodes);
    free(x);
}

int kymo_export_perfetto(struct kymo_reader *r, const struct kymo_export_options *o,
                         struct kymo_export_result *res, char *err, size_t err_size)
{
    struct kymo_feed feed;
    int rc = kymo_feed_start(&feed, r, o, res, err, err_size);
    if (rc != 0)
        return rc;
    struct kymo_pfx *x = calloc(1, sizeof *x);
    if (x == NULL || init(x, r) != 0) {
        snprintf(err, err_size, "not enough memory");
        rc = -ENOMEM;
    }
    if (rc == 0)
        rc = kymo_feed_lesson(&feed, &x->lesson, err, err_size);
    if (rc == 0)
        rc = kymo_feed_older(&feed, err, err_size);
    if (rc == 0)
        rc = run(x, &feed, o->out, err, err_size);
    if (x != NULL)
        clear(x);
    return rc;
}
