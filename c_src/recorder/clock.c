/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks. The TSC is read in a third of the time of CLOCK_MONOTONIC; it is used
 * where the CPU promises a constant, never stopping counter and the kernel itself
 * trusts it across cores. Pairs of both clocks let readers convert.
 */
#include <fcntl.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kymo_internal.h"

#define KYMO_CALIB_FIRST_STEP_NS 1000000000u

#if KYMO_HAVE_TSC
static bool tsc_invariant(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;

    return __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
}

/* The kernel watches the TSCs of all cores and leaves them when they disagree. */
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
#endif

enum kymo_clock kymo_clock_choose(enum kymo_clock asked)
{
#if KYMO_HAVE_TSC
    if (asked == KYMO_CLOCK_TSC && tsc_invariant() && tsc_trusted())
        return KYMO_CLOCK_TSC;
#endif
    (void)asked;
    return KYMO_CLOCK_MONOTONIC;
}

uint64_t kymo_clock_ticks(enum kymo_clock c)
{
#if KYMO_HAVE_TSC
    if (c == KYMO_CLOCK_TSC)
        return kymo_clock_tsc();
#endif
    (void)c;
    return kymo_clock_mono();
}

struct kymo_calib kymo_clock_pair(enum kymo_clock c)
{
    struct kymo_calib best = {0, 0};

#if KYMO_HAVE_TSC
    if (c == KYMO_CLOCK_TSC) {
        uint64_t width = UINT64_MAX;

        /* An interrupt between the readings widens the pair: keep the tightest. */
        for (int i = 0; i < 8; i++) {
            uint64_t a = kymo_clock_tsc();
            uint64_t ns = kymo_clock_mono();
            uint64_t b = kymo_clock_tsc();

            if (b - a < width) {
                width = b - a;
                best = (struct kymo_calib){a + (b - a) / 2, (int64_t)ns};
            }
        }
        return best;
    }
#endif
    (void)c;
    best.ticks = kymo_clock_mono();
    best.mono_ns = (int64_t)best.ticks;
    return best;
}

uint64_t kymo_clock_rate(enum kymo_clock c, struct kymo_calib from, struct kymo_calib to)
{
    if (c == KYMO_CLOCK_MONOTONIC || to.mono_ns <= from.mono_ns)
        return 1000000000u;
    return (uint64_t)((double)(to.ticks - from.ticks) * 1e9 / (double)(to.mono_ns - from.mono_ns) + 0.5);
}

/* The table keeps one place for the end. Thinning out is announced by n_calib = 1,
 * so that whoever reads the file at that moment still finds valid points. */
void kymo_calibrate(struct kymo_recorder *r, bool last)
{
    struct kymo_calib now = kymo_clock_pair(r->clock);
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
    kymo_set(&r->meta->ticks_per_sec, kymo_clock_rate(r->clock, r->calib[0], r->calib[n - 1]));
    if (r->calib_step_ns == 0)
        r->calib_step_ns = KYMO_CALIB_FIRST_STEP_NS;
    kymo_set(&r->calib_next_ns, (uint64_t)now.mono_ns + r->calib_step_ns);
}
