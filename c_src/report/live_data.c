/* SPDX-License-Identifier: Apache-2.0 */
#include "live_data.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "data.h"
#include "json.h"
#include "live.h"

#define WANTED_FOR_NS INT64_C(10000000000)
#define WINDOW_MIN_NS INT64_C(100000000)

struct live_data {
    const char *dir;
    int64_t interval, wanted, window;
    int wake;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop;                  /* with the lock */
    int64_t wanted_until;       /* with the lock */
    struct live_report *newest; /* with the lock; counts as one user */
    /* Used by the thread only. */
    uint64_t made;
    uint8_t uuid[16];
    uint64_t *before; /* by slot: older events are not needed by later reports */
    uint32_t n_before;
    int64_t ahead;
};

static int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- one report ---- */

/* Opens the part of the recording that later reports need. Returns NULL after a message in why; *gone
 * is set if the recording will not become readable again. */
static struct kymo_reader *open_newest(struct live_data *d, char *why, size_t size, bool *gone)
{
    struct kymo_reader *r;
    int rc = kymo_reader_reopen(d->dir, d->before, d->n_before, &r, why, size);
    *gone = rc == -ENOENT || rc == -ENOTDIR;
    if (rc != 0)
        return NULL;
    const struct kymo_meta *meta = kymo_reader_meta(r);
    if (d->before != NULL && memcmp(meta->uuid, d->uuid, sizeof d->uuid) != 0) {
        kymo_reader_close(r);
        snprintf(why, size, "%s: another recording has taken its place", d->dir);
        *gone = true;
        return NULL;
    }
    if (d->before == NULL)
        d->ahead = cli_live_ahead(r);
    memcpy(d->uuid, meta->uuid, sizeof d->uuid);
    return r;
}

/* Later reports begin after `start`. */
static bool remember(struct live_data *d, const struct kymo_reader *r, int64_t start)
{
    uint64_t ticks = kymo_reader_ticks(r, start);
    if (d->before == NULL) {
        (void)kymo_reader_slots(r, &d->n_before);
        d->before = calloc(d->n_before, sizeof *d->before);
    }
    for (uint32_t i = 0; d->before != NULL && i < d->n_before; i++)
        d->before[i] = ticks;
    return d->before != NULL;
}

/* Writes a report about the events of r, and closes r. Sets *over if no newer report will follow. */
static int write_report(struct live_data *d, struct kymo_reader *r, FILE *f, bool *over)
{
    struct cli_analysis a;
    char why[96];
    cli_analysis_init(&a, "live", 0);
    a.quiet = true;
    int status = cli_analysis_take(&a, r);
    *over = cli_follow_is_over(r);
    int64_t last = cli_live_newest(r, *over, clock_ns(), &d->ahead), start = last - d->window;
    struct report_live live = {.over = *over ? cli_live_why_over(r, why, sizeof why) : NULL,
                               .window = d->window,
                               .wanted = d->wanted,
                               .until_unix = kymo_reader_wall_ns(r, last),
                               .interval = d->interval};
    if (status == KYMO_EXIT_OK && !remember(d, r, start - (d->wanted - d->window)))
        status = KYMO_EXIT_MEMORY;
    if (status == KYMO_EXIT_OK) {
        kymo_reader_begin_at(r, start);
        a.filter.from = start - a.t0;
        a.filter.to = last - a.t0;
        status = report_data_write(&a, d->dir, &live, f);
    }
    return cli_analysis_close(&a, status);
}

/* Writes the JSON that explains why there is no report. */
static void write_failure(const struct live_data *d, const char *why, bool gone, FILE *f)
{
    const struct report_live live = {.over = gone ? why : NULL,
                                     .failed = why,
                                     .window = d->window,
                                     .wanted = d->wanted,
                                     .interval = d->interval};
    cli_json_to(f);
    cli_json_open(NULL, '{');
    report_live_json(&live);
    cli_json_close('}');
    cli_json_end();
    cli_json_to(NULL);
}

/* Returns NULL if there is no memory. */
static struct live_report *make_report(struct live_data *d)
{
    struct live_report *report = calloc(1, sizeof *report);
    char why[512] = "the report could not be made";
    bool gone = false;
    FILE *f = report != NULL ? open_memstream(&report->json, &report->n) : NULL;
    if (f == NULL) {
        free(report);
        return NULL;
    }
    struct kymo_reader *r = open_newest(d, why, sizeof why, &gone);
    if (r == NULL || write_report(d, r, f, &report->over) != KYMO_EXIT_OK) {
        rewind(f);
        write_failure(d, why, gone, f);
        report->over = gone;
    }
    if (fclose(f) != 0) {
        free(report->json);
        free(report);
        return NULL;
    }
    report->number = ++d->made;
    report->made = clock_ns();
    report->users = 1;
    return report;
}

/* ---- the thread ---- */

static void free_report(struct live_report *r)
{
    if (r != NULL && --r->users == 0) {
        free(r->json);
        free(r);
    }
}

static void publish(struct live_data *d, struct live_report *r)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&d->lock);
    free_report(d->newest);
    d->newest = r;
    pthread_mutex_unlock(&d->lock);
    (void)!write(d->wake, &one, sizeof one);
}

/* Waits until `time`, and then until a report is wanted. Returns false if the thread should end. */
static bool wait_until(struct live_data *d, int64_t time)
{
    pthread_mutex_lock(&d->lock);
    while (!d->stop && (clock_ns() < time || d->wanted_until < clock_ns())) {
        if (clock_ns() < time) {
            struct timespec t = {.tv_sec = time / 1000000000, .tv_nsec = time % 1000000000};
            pthread_cond_timedwait(&d->changed, &d->lock, &t);
        } else {
            pthread_cond_wait(&d->changed, &d->lock);
        }
    }
    bool more = !d->stop;
    pthread_mutex_unlock(&d->lock);
    return more;
}

/* The length of the next window, adapted to the time that the last report took. */
static int64_t next_window(const struct live_data *d, int64_t took)
{
    if (took > 2 * d->interval && d->window / 2 >= WINDOW_MIN_NS)
        return d->window / 2;
    if (took < d->interval / 4 && d->window < d->wanted)
        return d->window * 2 < d->wanted ? d->window * 2 : d->wanted;
    return d->window;
}

static void *run(void *arg)
{
    struct live_data *d = arg;
    int64_t next = 0;
    bool over = false;
    while (!over && wait_until(d, next)) {
        int64_t begun = clock_ns();
        struct live_report *r = make_report(d);
        int64_t took = clock_ns() - begun;
        if (r != NULL) {
            over = r->over;
            publish(d, r);
        }
        d->window = next_window(d, took);
        next = clock_ns() + (took > d->interval / 2 ? took : d->interval - took);
    }
    return NULL;
}

/* ---- for the other thread ---- */

int live_data_start(struct live_data **out, const char *dir, int64_t interval, int64_t wanted, int wake)
{
    struct live_data *d = calloc(1, sizeof *d);
    pthread_condattr_t attr;
    *out = NULL;
    if (d == NULL)
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    d->dir = dir;
    d->interval = interval;
    d->wanted = d->window = wanted;
    d->wake = wake;
    pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&d->changed, &attr);
    pthread_condattr_destroy(&attr);
    int rc = pthread_create(&d->thread, NULL, run, d);
    if (rc != 0) {
        free(d);
        return cli_fail(KYMO_EXIT_MEMORY, "no thread: %s", strerror(rc));
    }
    *out = d;
    return KYMO_EXIT_OK;
}

struct live_report *live_data_get(struct live_data *d)
{
    pthread_mutex_lock(&d->lock);
    struct live_report *r = d->newest;
    if (r != NULL)
        r->users++;
    pthread_mutex_unlock(&d->lock);
    return r;
}

void live_data_release(struct live_data *d, struct live_report *r)
{
    pthread_mutex_lock(&d->lock);
    free_report(r);
    pthread_mutex_unlock(&d->lock);
}

void live_data_want(struct live_data *d)
{
    pthread_mutex_lock(&d->lock);
    d->wanted_until = clock_ns() + WANTED_FOR_NS;
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

void live_data_stop(struct live_data *d)
{
    if (d == NULL)
        return;
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    free_report(d->newest);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->changed);
    free(d->before);
    free(d);
}
