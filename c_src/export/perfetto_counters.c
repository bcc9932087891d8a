/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports the node's counters as counter tracks, the reports of its system monitor as instants, and
 * stops of all schedulers as slices.
 */
#include <stdio.h>

#include "kymo_timeline.h"
#include "perfetto_state.h"

/* The name of a track, which describes its values. */
static void name_track(const struct kymo_gauge *g, char *name, size_t size)
{
    char index[16] = "";
    const char *unit = "";
    if (g->index != 0)
        snprintf(index, sizeof index, " %u", g->index);
    if (kymo_counter_unit(g->counter) == KYMO_UNIT_SHARE || kymo_counter_unit(g->counter) == KYMO_UNIT_NS)
        unit = " %";
    else if (kymo_counter_is_sum(g->counter))
        unit = "/s";
    snprintf(name, size, "%s%s%s", kymo_counter_name(g->counter), index, unit);
}

/* The track of a counter, described on first use; 0 if there is no memory. */
static uint64_t track_of(struct kymo_pfx *x, const struct kymo_gauge *g)
{
    uint32_t node = kymo_timeline_of_slot(x->r, g->slot);
    uint64_t key = (uint64_t)node << 32 | (uint64_t)g->counter << 16 | g->index;
    bool added;
    uint64_t *track = kymo_map_put(&x->counter_tracks, key, &added);
    if (track == NULL)
        return 0;
    if (added) {
        char name[96];
        *track = x->next_track++;
        name_track(g, name, sizeof name);
        kymo_pf_counter_track(&x->w, *track, x->nodes[node].track, name,
                              kymo_counter_unit(g->counter) == KYMO_UNIT_BYTES ? KYMO_PF_BYTES
                                                                               : KYMO_PF_COUNT);
    }
    return *track;
}

/* The value to show: shares, and processor time per second, in percent. */
static double shown(const struct kymo_gauge *g, uint64_t level)
{
    switch (kymo_counter_unit(g->counter)) {
    case KYMO_UNIT_SHARE: return (double)level / 1e4;
    case KYMO_UNIT_NS: return (double)level / 1e7;
    default: return (double)level;
    }
}

void kymo_pfx_counters(struct kymo_pfx *x, const struct kymo_event *ev)
{
    struct kymo_gauge g;
    uint64_t level;
    for (uint32_t i = 0; i < ev->n_counters; i++) {
        if (!kymo_gauges_next(&x->gauges, x->r, ev, i, &g) || !kymo_gauge_level(&g, &level))
            continue;
        uint64_t track = track_of(x, &g);
        if (track != 0)
            kymo_pf_counter_double(&x->w, track, shown(&g, level), ev->ns);
    }
}

uint64_t kymo_pfx_track_of_note(struct kymo_pfx *x, const struct kymo_event *ev)
{
    struct kymo_pfx_process **p = kymo_map_get(&x->processes, ev->who);
    return p != NULL && !(*p)->dead ? kymo_pfx_track(x, *p) : kymo_pfx_node_of_slot(x, ev->slot)->track;
}

void kymo_pfx_monitor(struct kymo_pfx *x, const struct kymo_event *ev)
{
    kymo_pf_event(&x->w, KYMO_PF_INSTANT, kymo_pfx_track_of_note(x, ev), KYMO_PF_CAT_MONITOR);
    kymo_pf_name(&x->w, ev->id);
    if (ev->who != KYMO_IDENT_NONE)
        kymo_pfx_peer(x, KYMO_PF_K_PROCESS, ev->who);
    if (ev->peer != KYMO_IDENT_NONE)
        kymo_pf_ident(&x->w, KYMO_PF_K_PORT, ev->peer);
    kymo_pfx_fields(x, ev, KYMO_FIELD(KIND) | KYMO_FIELD(VALUE) | KYMO_FIELD(IN) | KYMO_FIELD(OUT));
    kymo_pf_emit(&x->w, ev->ns);
    x->slices++;
}

void kymo_pfx_stopped(struct kymo_pfx *x, const struct kymo_event *ev)
{
    static const char name[] = "all schedulers stopped";
    struct kymo_pfx_node *node = kymo_pfx_node_of_slot(x, ev->slot);
    int64_t start, end;
    if (__builtin_sub_overflow(ev->ns, ev->begun, &start) || start < 0)
        start = 0;
    if (__builtin_add_overflow(start, ev->value, &end) || end > ev->ns)
        end = ev->ns;
    /* Times of two reports differ a little. */
    if (end <= node->stopped_end || start + (end - start) / 2 < node->stopped_end)
        return;
    if (node->stopped_track == 0) {
        node->stopped_track = x->next_track++;
        kymo_pf_track(&x->w, node->stopped_track, node->track, name, sizeof name - 1);
    }
    kymo_pf_event(&x->w, KYMO_PF_BEGIN, node->stopped_track, KYMO_PF_CAT_STOPPED);
    kymo_pf_name(&x->w, ev->id);
    kymo_pfx_fields(x, ev, KYMO_FIELD(ATOM) | KYMO_FIELD(DURATION) | KYMO_FIELD(OMITTED));
    kymo_pf_emit(&x->w, start > node->stopped_end ? start : node->stopped_end);
    kymo_pf_event(&x->w, KYMO_PF_END, node->stopped_track, KYMO_PF_CAT_NONE);
    kymo_pf_emit(&x->w, end);
    node->stopped_end = end;
    x->slices++;
}
