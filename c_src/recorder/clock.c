/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks. Reading the processor's counter takes less than half as long as reading
 * CLOCK_MONOTONIC. The TSC is used only if the CPU reports it as constant and non-stop and
 * the kernel trusts it across cores; on aarch64, CNTVCT has these properties by
 * definition. Readers convert ticks with the calibration table, which holds pairs of both
 * clocks.
 *
 * After a suspend, or the migration of a virtual machine, the counter may have restarted, or
 * may have advanced while CLOCK_MONOTONIC did not. Therefore ticks are the counter plus an
 * offset, which is corrected so that ticks stay on a line, the linear relation to
 * CLOCK_MONOTONIC. A producer notices a deviation at its first event whose ticks are below
 * those of the previous event, or 2^32 (1.4 s at 3 GHz) or more above; the worker notices it
 * within a second.
 */
#include <fcntl.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kymo_internal.h"

#define KYMO_CHECK_NS 1000000000u
#define KYMO_RATE_NS 100000000 /* the minimum time over which a new rate is measured */

#if defined(__x86_64__)
static bool tsc_invariant(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;

    return __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
}

/* The kernel compares the TSCs of all cores, and switches to another clock source when they
 * disagree. */
static bool tsc_trusted(void)
{
    char buf[8] = "";
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return false;
    n = read(fd, buf, sizeof buf - 1);
    close(fd);
    return n == 4 && memcmp(buf, "tsc\n", 4) == 0;
}

static bool counter_reliable(void)
{
    return tsc_invariant() && tsc_trusted();
}
#else
static bool counter_reliable(void)
{
    return KYMO_HAVE_COUNTER;
}
#endif

enum kymo_clock kymo_clock_choose(enum kymo_clock asked)
{
    return asked == KYMO_CLOCK_COUNTER && counter_reliable() ? KYMO_CLOCK_COUNTER : KYMO_CLOCK_MONOTONIC;
}

struct kymo_calib kymo_clock_pair(enum kymo_clock c, uint64_t offset)
{
    struct kymo_calib best = {0, 0};
    uint64_t width = UINT64_MAX;

    if (c == KYMO_CLOCK_MONOTONIC) {
        best.ticks = kymo_clock_mono();
        best.mono_ns = (int64_t)best.ticks;
        return best;
    }
    /* An interrupt between the two readings makes a pair inaccurate: keep the best pair. */
    for (int i = 0; i < 8; i++) {
        uint64_t a = kymo_counter();
        uint64_t ns = kymo_clock_mono();
        uint64_t b = kymo_counter();

        if (b - a < width) {
            width = b - a;
            best = (struct kymo_calib){a + (b - a) / 2 + offset, (int64_t)ns};
        }
    }
    return best;
}

uint64_t kymo_clock_now(const struct kymo_recorder *r)
{
    return r->clock == KYMO_CLOCK_COUNTER ? kymo_counter() + kymo_get(&r->offset) : kymo_clock_mono();
}

static uint64_t rate_between(enum kymo_clock c, struct kymo_calib from, struct kymo_calib to)
{
    if (c == KYMO_CLOCK_MONOTONIC || to.mono_ns <= from.mono_ns)
        return 1000000000u;
    return (uint64_t)((double)(to.ticks - from.ticks) * 1e9 / (double)(to.mono_ns - from.mono_ns) + 0.5);
}

/* ---- the line -------------------------------------------------------------------- */

struct line {
    uint64_t ticks, ns, rate;
};

/* With ctl held, or before other threads use the recorder. */
static void set_line(struct kymo_recorder *r, struct kymo_calib at, uint64_t rate)
{
    struct kymo_clockline *l = &r->line;

    kymo_set(&l->version, l->version + 1);
    kymo_release_fence();
    kymo_set(&l->ticks, at.ticks);
    kymo_set(&l->ns, (uint64_t)at.mono_ns);
    kymo_set(&l->rate, rate);
    kymo_set_release(&l->version, l->version + 1);
}

/* Returns false if the line is being changed. */
static bool get_line(const struct kymo_recorder *r, struct line *out)
{
    const struct kymo_clockline *l = &r->line;
    uint32_t version = kymo_get_acquire(&l->version);

    *out = (struct line){kymo_get(&l->ticks), kymo_get(&l->ns), kymo_get(&l->rate)};
    kymo_acquire_fence();
    return version % 2 == 0 && kymo_get(&l->version) == version && out->rate != 0;
}

/* As get_line, but waits while another thread changes the line, which takes a few stores. */
static bool wait_line(const struct kymo_recorder *r, struct line *out)
{
    for (unsigned tries = 0; tries < 1000; tries++) {
        if (get_line(r, out))
            return true;
    }
    return false;
}

__extension__ typedef __int128 wide;

static uint64_t ticks_at(const struct line *l, uint64_t ns)
{
    return l->ticks + (uint64_t)((wide)(int64_t)(ns - l->ns) * (wide)l->rate / 1000000000);
}

int64_t kymo_clock_ns_of(const struct kymo_recorder *r, uint64_t ticks)
{
    struct line l;

    if (!wait_line(r, &l))
        return (int64_t)r->t0_ns;
    return (int64_t)l.ns + (int64_t)((wide)(int64_t)(ticks - l.ticks) * 1000000000 / (wide)l.rate);
}

/* True if `ticks` is within the tolerated distance of `want`: slack_ns, plus 0.1 % of the
 * time since the line's origin, because the kernel slews CLOCK_MONOTONIC by up to 0.05 %. */
static bool near(const struct line *l, uint64_t ticks, uint64_t want, uint64_t ns, uint64_t slack_ns)
{
    uint64_t distance = ticks > want ? ticks - want : want - ticks;
    uint64_t since = ns > l->ns ? ns - l->ns : 0;

    return distance <= (uint64_t)((wide)(slack_ns + since / 1000) * (wide)l->rate / 1000000000);
}

/* Increases the offset of all threads from `old` by `by`, which puts ticks back on the line.
 * Returns false if another thread is doing this or has done it. */
static bool move_to(struct kymo_recorder *r, uint64_t old, uint64_t by)
{
    uint64_t offset = old + by;

    if (__atomic_exchange_n(&r->line.correcting, 1u, __ATOMIC_ACQUIRE) != 0)
        return false;
    if (kymo_get(&r->offset) != old) {
        kymo_set_release(&r->line.correcting, 0u);
        return false;
    }
    kymo_set(&r->offset, offset);
    for (uint32_t i = 0; i < r->opt.n_slots; i++)
        kymo_set(&r->writers[i].offset, offset);
    kymo_add(&r->meta->epochs, 1u);
    kymo_set_release(&r->line.correcting, 0u);
    return true;
}

#define KYMO_PRODUCER_SLACK_NS 10000000u
#define KYMO_WORKER_SLACK_NS 1000000u
#define KYMO_PAIRS_PER_SEC 50000u /* readings within 20 us of each other are taken as a pair */

uint64_t kymo_clock_correct(struct kymo_writer *w, uint64_t now)
{
    struct kymo_recorder *r = w->rec;
    struct line l;
    struct kymo_calib pair;
    uint64_t ns, want, offset;

    if (r->clock != KYMO_CLOCK_COUNTER)
        return now;
    /* Without the line, do not use `now`: if it is too high, all later times of this thread
     * would be too high as well, because they never decrease. */
    if (!wait_line(r, &l))
        return w->seq == 0 ? now : w->last;
    offset = kymo_get(&w->offset); /* another thread may have corrected it */
    now = kymo_counter() + offset;
    KYMO_POINT(KYMO_AT_CLOCK);
    ns = kymo_clock_mono();
    if (near(&l, now, ticks_at(&l, ns), ns, KYMO_PRODUCER_SLACK_NS))
        return now;
    /* The thread may have been preempted between the two readings. */
    pair = kymo_clock_pair(r->clock, offset);
    want = ticks_at(&l, (uint64_t)pair.mono_ns);
    if (near(&l, pair.ticks, want, (uint64_t)pair.mono_ns, KYMO_PRODUCER_SLACK_NS))
        return pair.ticks;
    (void)move_to(r, offset, want - pair.ticks);
    return want;
}

int64_t kymo_clock_mono_at(const struct kymo_writer *w, uint64_t ticks)
{
    uint64_t rate = kymo_get(&w->rec->meta->ticks_per_sec), before, after, ns;

    if (!w->counter)
        return (int64_t)ticks;
    for (int i = 0;; i++) {
        before = kymo_now(w);
        ns = kymo_clock_mono();
        after = kymo_now(w);
        if (after - before < rate / KYMO_PAIRS_PER_SEC || i == 3)
            break;
    }
    /* If the clock was set back, `ticks` may be in the future. */
    if (before <= ticks || rate == 0)
        return (int64_t)ns;
    return (int64_t)(ns - (uint64_t)((wide)(before - ticks) * 1000000000 / (wide)rate));
}

/* ---- the table ------------------------------------------------------------------- */

/* One entry of the table is reserved for the last point. A full table is thinned: every other
 * point is dropped. During that n_calib is 1, so that a concurrent reader of the file finds
 * only valid points. */
static void append_point(struct kymo_recorder *r, struct kymo_calib now, bool last)
{
    uint32_t n = r->meta->n_calib;

    if (n + 1 >= KYMO_CALIB_MAX && !last) {
        kymo_set(&r->meta->n_calib, 1u);
        kymo_release_fence();
        n = n / 2;
        for (uint32_t i = 1; i < n; i++)
            r->calib[i] = r->calib[2 * i];
        r->calib_step_ns *= 2;
    }
    if (now.mono_ns > r->calib[n - 1].mono_ns && now.ticks > r->calib[n - 1].ticks) {
        r->calib[n] = now;
        n++;
    }
    kymo_set_release(&r->meta->n_calib, n);
    r->calib_point_ns = (uint64_t)now.mono_ns + r->calib_step_ns;
}

void kymo_clock_start(struct kymo_recorder *r)
{
    struct kymo_calib now = kymo_clock_pair(r->clock, 0);

    r->calib_step_ns = KYMO_CHECK_NS;
    r->line_from = r->calib[0];
    append_point(r, now, false);
    r->meta->ticks_per_sec = rate_between(r->clock, r->calib[0], now);
    set_line(r, now, r->meta->ticks_per_sec);
    r->calib_next_ns = (uint64_t)now.mono_ns + KYMO_CHECK_NS;
}

/* Returns true if the pair was off the line. Then the offset has been corrected, or the caller
 * has to start a new line at *now: ticks that are slightly ahead are never set back. */
static bool back_on_line(struct kymo_recorder *r, uint64_t offset, struct kymo_calib *now)
{
    struct line l;
    uint64_t want, ns = (uint64_t)now->mono_ns;

    if (r->clock != KYMO_CLOCK_COUNTER || !get_line(r, &l))
        return false;
    want = ticks_at(&l, ns);
    if (near(&l, now->ticks, want, ns, KYMO_WORKER_SLACK_NS))
        return false;
    if (now->ticks < want || (now->ticks - want) >> 32 != 0) {
        if (move_to(r, offset, want - now->ticks))
            now->ticks = want;
    }
    return true;
}

void kymo_calibrate(struct kymo_recorder *r, enum kymo_calibration what)
{
    uint64_t offset = kymo_get(&r->offset);
    struct kymo_calib now = kymo_clock_pair(r->clock, offset);
    bool left = back_on_line(r, offset, &now);
    uint64_t rate = r->meta->ticks_per_sec;

    if (left)
        r->line_from = now; /* earlier points do not predict the rate from here on */
    if (left || what != KYMO_CALIB_LOOK || (uint64_t)now.mono_ns >= r->calib_point_ns)
        append_point(r, now, what == KYMO_CALIB_END);
    if (now.mono_ns - r->line_from.mono_ns >= KYMO_RATE_NS)
        rate = rate_between(r->clock, r->line_from, now);
    kymo_set(&r->meta->ticks_per_sec, rate);
    set_line(r, now, rate);
    kymo_set(&r->calib_next_ns, (uint64_t)now.mono_ns + KYMO_CHECK_NS);
}
