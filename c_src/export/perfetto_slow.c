/* SPDX-License-Identifier: Apache-2.0
 *
 * Slow calls: a slice from the beginning to the end of each, on tracks below that of their process.
 *
 * A call is reported after those inside it. Slices on one track have to be written in the order of
 * time, and must not overlap unless they nest. So the innermost calls are on the first track, those
 * around them on the second, and so on: slices on one track never overlap, and their ends are in
 * order. This also holds if times are imprecise. All these tracks have the same name, so that viewers
 * that join such tracks show one.
 */
#include <stdlib.h>

#include "perfetto_state.h"

static struct kymo_pfx_slow *slow_of(struct kymo_pfx_process *p)
{
    if (p->slow == NULL) {
        p->slow = malloc(sizeof *p->slow);
        for (unsigned i = 0; p->slow != NULL && i < SLOW_TRACKS; i++) {
            p->slow->track[i] = 0;
            p->slow->end[i] = INT64_MIN;
        }
    }
    return p->slow;
}

/* The track after the last one with a slice that ends after `start`. SLOW_TRACKS: there is none. */
static unsigned place_of(const struct kymo_pfx_slow *s, int64_t start)
{
    unsigned i = SLOW_TRACKS;
    while (i > 0 && s->end[i - 1] <= start)
        i--;
    return i;
}

static uint64_t track_of(struct kymo_pfx *x, struct kymo_pfx_process *p, unsigned i)
{
    static const char name[] = "slow calls";
    if (p->slow->track[i] == 0) {
        p->slow->track[i] = x->next_track++;
        kymo_pf_track(&x->w, p->slow->track[i], kymo_pfx_track(x, p), name, sizeof name - 1);
    }
    return p->slow->track[i];
}

/* The event that begins a slice, or is all that is shown of the call. */
static void begin(struct kymo_pfx *x, const struct kymo_event *ev, enum kymo_pf_type type, uint64_t track,
                  int64_t ns)
{
    kymo_pf_event(&x->w, type, track, KYMO_PF_CAT_SLOW);
    kymo_pf_name(&x->w, kymo_pf_mfa(&x->w, kymo_canonical(x->r, ev->mfa)));
    kymo_pfx_fields(x, ev, KYMO_FIELD(DURATION) | KYMO_PFX_OPTIONS);
    kymo_pf_emit(&x->w, ns);
    x->slices++;
}

void kymo_pfx_slow(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev)
{
    struct kymo_pfx_slow *s = slow_of(p);
    int64_t start;
    if (__builtin_sub_overflow(ev->ns, ev->value, &start) || start < 0)
        start = 0;
    unsigned i = s != NULL ? place_of(s, start) : SLOW_TRACKS;
    if (i == SLOW_TRACKS) { /* it contains too many others, or there is no memory */
        begin(x, ev, KYMO_PF_INSTANT, kymo_pfx_track(x, p), p->last);
        return;
    }
    uint64_t track = track_of(x, p, i);
    begin(x, ev, KYMO_PF_BEGIN, track, start);
    kymo_pf_event(&x->w, KYMO_PF_END, track, KYMO_PF_CAT_NONE);
    kymo_pf_emit(&x->w, ev->ns);
    s->end[i] = ev->ns;
}
