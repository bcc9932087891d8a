/* SPDX-License-Identifier: Apache-2.0
 *
 * A progress bar on standard error, if that is a terminal and the work takes long enough.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "kymo_cli.h"

enum { FIRST_MS = 500, AGAIN_MS = 100, WIDTH = 30 };

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void cli_progress_start(struct cli_progress *p, const char *what, bool quiet)
{
    p->what = what;
    p->start_ms = p->shown_ms = now_ms();
    p->terminal = !quiet && isatty(STDERR_FILENO) == 1;
    p->drawn = false;
}

void cli_progress_show(void *progress, uint64_t done, uint64_t total)
{
    struct cli_progress *p = progress;
    if (!p->terminal || total == 0)
        return;
    int64_t now = now_ms(), since = now - p->start_ms;
    if (since < FIRST_MS || now - p->shown_ms < (p->drawn ? AGAIN_MS : 0))
        return;
    p->shown_ms = now;
    p->drawn = true;
    double part = done >= total ? 1.0 : (double)done / (double)total;
    int filled = (int)(part * (double)WIDTH);
    char left[32] = "";
    if (part > 0.01)
        snprintf(left, sizeof left, "%.0f s left", (double)since / 1000.0 * (1.0 - part) / part);
    fprintf(stderr, "\rkymo: %s [%.*s%.*s] %3.0f %% %s\033[K", p->what, filled,
            "==============================", WIDTH - filled, "                              ", part * 100.0,
            left);
    fflush(stderr);
}

void cli_progress_end(struct cli_progress *p)
{
    if (p->drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    p->drawn = false;
}
