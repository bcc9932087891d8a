/* SPDX-License-Identifier: Apache-2.0 */
#include "live.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LOOK_UP = 4096 };          /* events between checks of the clock and of signals */
#define FAR_NS (INT64_C(1) << 61) /* a larger distance between clocks means damage */

static int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int cli_live_open(struct cli_live *l, const char *command, const char *dir, int64_t interval)
{
    memset(l, 0, sizeof *l);
    l->dir = dir;
    l->interval = interval;
    cli_analysis_init(&l->a, command, 0);
    l->a.quiet = true;
    int status = cli_analysis_open(&l->a, dir);
    if (status != KYMO_EXIT_OK)
        return status;
    uint32_t n;
    l->ahead = cli_live_ahead(l->a.r);
    (void)kymo_reader_slots(l->a.r, &n);
    if (kymo_window_init(&l->window, n) != 0 || cli_follow_begin(&l->follow, l->a.r) != 0)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    l->following = true;
    kymo_window_read(&l->window, l->a.r);
    cli_node_now_read(&l->node, l->a.r);
    const struct kymo_analysis_sink sinks[] = {{.arg = l->a.naming, .event = kymo_naming_event},
                                               kymo_window_sink(&l->window),
                                               cli_node_now_sink(&l->node)};
    int rc = kymo_live_new(&l->an, l->a.r, sinks, sizeof sinks / sizeof *sinks);
    return rc == 0 ? KYMO_EXIT_OK
                   : cli_fail(cli_read_status(rc), "%s: can't be read: %s", dir, strerror(-rc));
}

void cli_live_close(struct cli_live *l)
{
    if (l->following)
        cli_follow_end(&l->follow);
    kymo_live_free(l->an);
    kymo_window_free(&l->window);
    cli_node_now_free(&l->node);
    (void)cli_analysis_close(&l->a, KYMO_EXIT_OK);
}

void cli_live_jump(struct cli_live *l)
{
    l->jump = true;
}

const char *cli_live_why_over(const struct kymo_reader *r, char *buf, size_t size)
{
    const struct kymo_meta *meta = kymo_reader_meta(r);
    if (meta->snapshot != 0)
        snprintf(buf, size, "this is a snapshot, to which nothing is added");
    else if (meta->state != KYMO_CLOSED)
        snprintf(buf, size, "the node died");
    else
        snprintf(buf, size, "the recorder has stopped (%s)", kymo_reason_name(meta->reason));
    return buf;
}

/* ---- where to read ---- */

static uint64_t recorded(const struct kymo_reader *r)
{
    uint32_t n;
    uint64_t sum = 0;
    const struct kymo_slot *slots = kymo_reader_slots(r, &n);
    for (uint32_t i = 0; i < n; i++)
        sum += slots[i].events;
    return sum;
}

/* Continues at `start`, skipping everything before it. */
static int leave_out(struct cli_live *l, int64_t start)
{
    if (!kymo_live_gap(l->an))
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    cli_follow_jump(&l->follow, kymo_reader_ticks(l->a.r, start));
    if (l->begun && !l->jump)
        l->skipped = start > l->end ? start - l->end : 0;
    return KYMO_EXIT_OK;
}

/* Chooses the start of the window that ends at `edge`. */
static int begin_window(struct cli_live *l, int64_t edge)
{
    uint64_t ticks;
    int64_t horizon, start = l->end;
    bool gap = true;
    int status = KYMO_EXIT_OK;
    bool cut = kymo_reader_horizon(l->a.r, &ticks, &horizon);
    if (!l->begun || l->jump || (l->slow && edge - l->end > 2 * l->interval + INT64_C(1000000000)))
        start = edge - l->interval;
    else
        gap = cut && horizon > l->end;
    l->skipped = 0;
    l->skipped_events = 0;
    if (gap) {
        /* A window does not begin before the horizon. */
        if (start < horizon)
            start = horizon < edge ? horizon : edge;
        status = leave_out(l, start);
    }
    kymo_window_next(&l->window, start, gap);
    cli_node_now_next(&l->node);
    return status;
}

/* ---- a round ---- */

/* Opens the recording in its present state. */
int cli_live_again(struct cli_live *l)
{
    struct kymo_reader *r;
    int status = cli_follow_reopen(&l->follow, l->dir, l->a.r, &r);
    if (status != KYMO_EXIT_OK)
        return status;
    kymo_live_reader(l->an, r);
    kymo_window_read(&l->window, r);
    cli_node_now_read(&l->node, r);
    bool named = kymo_naming_reader(l->a.naming, r);
    kymo_reader_close(l->a.r);
    l->a.r = r;
    if (!named)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    return KYMO_EXIT_OK;
}

int64_t cli_live_ahead(const struct kymo_reader *r)
{
    struct timespec wall;
    const struct kymo_meta *meta = kymo_reader_meta(r);
    clock_gettime(CLOCK_REALTIME, &wall);
    uint64_t here = (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec - (uint64_t)clock_ns();
    uint64_t there = (uint64_t)meta->t0_wall_ns - (uint64_t)meta->t0_mono_ns;
    int64_t ahead = (int64_t)(here - there);
    return ahead < -FAR_NS ? 0 : ahead < 0 ? ahead : 0;
}

int64_t cli_live_newest(struct kymo_reader *r, bool over, int64_t now, int64_t *ahead)
{
    int64_t first, last;
    if (kymo_reader_span(r, &first, &last) != 0)
        last = kymo_reader_meta(r)->t0_mono_ns;
    if (over)
        return last;
    last = last < -FAR_NS ? -FAR_NS : last > FAR_NS ? FAR_NS : last;
    if (last - now > *ahead)
        *ahead = last - now;
    return now + *ahead - LIVE_MARGIN_NS;
}

/* The number of remaining events, which belong to later windows. */
static uint64_t count_left(struct kymo_reader *r)
{
    struct kymo_event ev;
    uint64_t n = 0;
    while (kymo_reader_next(r, &ev) == 1)
        n += ev.id < KYMO_E_FIRST_NOTE;
    return n;
}

/* Reads up to `edge`. *end is the time that was reached. If this window does not continue the
 * previous one, *left is the number of events after it. Returns an exit status. */
static int read_window(struct cli_live *l, int64_t edge, int64_t *end, uint64_t *left)
{
    struct kymo_event ev;
    int64_t begun = clock_ns(), most = l->interval > 500000000 ? l->interval : 500000000;
    uint64_t n = 0;
    int rc;
    *end = edge;
    *left = 0;
    l->slow = false;
    while ((rc = kymo_reader_next(l->a.r, &ev)) == 1 && ev.ns <= edge) {
        bool seen = !cli_follow_is_new(&l->follow, &ev);
        if (!kymo_live_event(l->an, &ev, !seen) || l->window.failed)
            return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
        if (++n % LOOK_UP != 0)
            continue;
        l->interrupted = cli_follow_interrupted();
        if (l->interrupted || clock_ns() - begun > most) {
            *end = ev.ns > l->window.start ? ev.ns : l->window.start + 1;
            l->slow = true;
            l->over = false; /* there is more to be read */
            break;
        }
    }
    if ((l->skipped != 0 || l->jump || !l->begun) && rc == 1)
        *left = (ev.ns > edge && ev.id < KYMO_E_FIRST_NOTE) + count_left(l->a.r);
    return rc < 0 ? cli_fail(cli_read_status(rc), "%s: reading stopped: %s", l->dir, strerror(-rc))
                  : KYMO_EXIT_OK;
}

int cli_live_round(struct cli_live *l)
{
    int status = l->begun ? cli_live_again(l) : KYMO_EXIT_OK;
    if (status != KYMO_EXIT_OK)
        return status;
    uint64_t lost = kymo_reader_lost(l->a.r), all = recorded(l->a.r), left;
    l->over = cli_follow_is_over(l->a.r);
    int64_t end, edge = cli_live_newest(l->a.r, l->over, clock_ns(), &l->ahead);
    if (l->begun && edge <= l->end) /* nothing has happened since */
        edge = l->end + 1;
    l->lost = l->begun ? lost - l->follow.lost : 0;
    status = begin_window(l, edge);
    if (status != KYMO_EXIT_OK)
        return status;
    cli_follow_round(&l->follow, l->a.r, true);
    kymo_live_reader(l->an, l->a.r);
    status = read_window(l, edge, &end, &left);
    if (status != KYMO_EXIT_OK)
        return status;
    kymo_window_cut(&l->window, l->an, end);
    if (l->skipped != 0 && all > l->accounted + l->window.events + left)
        l->skipped_events = all - l->accounted - l->window.events - left;
    if (!l->begun || l->jump || l->skipped != 0)
        l->accounted = all > left ? all - left : 0;
    else
        l->accounted += l->window.events;
    l->end = end;
    l->begun = true;
    l->jump = false;
    return KYMO_EXIT_OK;
}
