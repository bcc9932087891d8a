/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder writes to mapped memory, and there is no system call with which another
 * process can wait for that. So the recording is polled several times a second.
 */
#include "follow.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { INTERVAL_NS = 200000000 };

static sigset_t end_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

int cli_follow_begin(struct cli_follow *f, const struct kymo_reader *r)
{
    sigset_t set = end_signals();
    *f = (struct cli_follow){.lost = kymo_reader_lost(r)};
    (void)kymo_reader_slots(r, &f->n_slots);
    f->places = calloc(f->n_slots, sizeof *f->places);
    f->before = calloc(f->n_slots, sizeof *f->before);
    if (f->places == NULL || f->before == NULL) {
        cli_follow_end(f);
        return -ENOMEM;
    }
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    return 0;
}

void cli_follow_end(struct cli_follow *f)
{
    sigset_t set = end_signals();
    const struct timespec now = {0, 0};
    while (sigtimedwait(&set, NULL, &now) > 0) {
        /* discards a pending signal, which has been handled */
    }
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    free(f->places);
    free(f->before);
    f->places = NULL;
    f->before = NULL;
}

void cli_follow_round(struct cli_follow *f, struct kymo_reader *r, bool quiet)
{
    char n[32];
    uint64_t horizon, lost = kymo_reader_lost(r);
    int64_t ns;
    if (f->newest != 0 && kymo_reader_horizon(r, &horizon, &ns) && horizon > f->newest) {
        f->missed = true;
        if (!quiet)
            cli_warn("events were overwritten or removed before they could be printed");
    }
    if (lost > f->lost && !quiet)
        cli_warn("%s event%s lost", cli_format_count(lost - f->lost, n, sizeof n),
                 lost - f->lost == 1 ? " was" : "s were");
    f->lost = lost;
    for (uint32_t i = 0; i < f->n_slots; i++) {
        f->places[i].left = f->places[i].n;
        f->before[i] = f->places[i].ticks;
    }
    kymo_reader_skip(r, f->before, f->n_slots);
}

bool cli_follow_is_new(struct cli_follow *f, const struct kymo_event *ev)
{
    if (ev->slot >= f->n_slots)
        return true;
    struct cli_place *p = &f->places[ev->slot];
    if (ev->ticks < p->ticks)
        return false;
    if (ev->ticks == p->ticks && p->left > 0) {
        p->left--;
        return false;
    }
    if (ev->ticks > p->ticks)
        *p = (struct cli_place){.ticks = ev->ticks};
    p->n++;
    f->newest = ev->ticks > f->newest ? ev->ticks : f->newest;
    return true;
}

void cli_follow_jump(struct cli_follow *f, uint64_t ticks)
{
    for (uint32_t i = 0; i < f->n_slots; i++) {
        if (f->places[i].ticks < ticks)
            f->places[i] = (struct cli_place){.ticks = ticks};
    }
    f->newest = ticks > f->newest ? ticks : f->newest;
}

/* A folder may be replaced while it is followed. */
static bool is_same(const struct kymo_reader *older, const struct kymo_reader *r)
{
    const struct kymo_meta *a = kymo_reader_meta(older), *b = kymo_reader_meta(r);
    return memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0 && a->n_slots == b->n_slots;
}

int cli_follow_reopen(const struct cli_follow *f, const char *dir, const struct kymo_reader *older,
                      struct kymo_reader **out)
{
    char err[512] = "";
    for (uint32_t i = 0; i < f->n_slots; i++)
        f->before[i] = f->places[i].ticks;
    int rc = kymo_reader_reopen(dir, f->before, f->n_slots, out, err, sizeof err);
    if (rc != 0)
        return cli_fail(cli_read_status(rc), "%s", err);
    if (is_same(older, *out))
        return KYMO_EXIT_OK;
    kymo_reader_close(*out);
    *out = NULL;
    return cli_fail(KYMO_EXIT_READ, "%s: another recording has taken its place", dir);
}

bool cli_follow_is_over(const struct kymo_reader *r)
{
    const struct kymo_meta *meta = kymo_reader_meta(r);
    return meta->state == KYMO_CLOSED || meta->snapshot != 0 || kymo_reader_crashed(r);
}

bool cli_follow_wait(void)
{
    sigset_t set = end_signals();
    const struct timespec interval = {0, INTERVAL_NS};
    return sigtimedwait(&set, NULL, &interval) < 0;
}

bool cli_follow_interrupted(void)
{
    sigset_t set;
    return sigpending(&set) == 0 && (sigismember(&set, SIGINT) == 1 || sigismember(&set, SIGTERM) == 1);
}
