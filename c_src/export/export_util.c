/* SPDX-License-Identifier: Apache-2.0 */
#include "export_util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRESS_EVERY = 1 << 17 };

int kymo_feed_error(int error, char *err, size_t err_size)
{
    snprintf(err, err_size, "cannot read the rest of the recording: %s", strerror(-error));
    return error;
}

int kymo_feed_start(struct kymo_feed *f, struct kymo_reader *r, const struct kymo_export_options *o,
                    struct kymo_export_result *res, char *err, size_t err_size)
{
    memset(f, 0, sizeof *f);
    memset(res, 0, sizeof *res);
    f->r = r;
    f->o = o;
    f->res = res;
    f->jumps = kymo_reader_jumps(r);
    f->t0 = (uint64_t)kymo_reader_meta(r)->t0_mono_ns;
    kymo_reader_show_all(r, o->all);
    int rc = kymo_reader_rewind(r);
    return rc < 0 ? kymo_feed_error(rc, err, err_size) : 0;
}

static void progress(struct kymo_feed *f)
{
    f->since_progress = 0;
    if (f->o->progress != NULL) {
        uint64_t done, total;
        kymo_reader_progress(f->r, &done, &total);
        f->o->progress(f->o->progress_arg, done, total);
    }
}

int kymo_feed_next(struct kymo_feed *f, struct kymo_event *ev)
{
    int rc;
    while ((rc = kymo_reader_next(f->r, ev)) == 1) {
        if (++f->since_progress == PROGRESS_EVERY)
            progress(f);
        if (ev->incomplete && !f->o->all)
            return 1;                                        /* see kymo_feed_older */
        int64_t since = (int64_t)((uint64_t)ev->ns - f->t0); /* may wrap if the clock is damaged */
        if (since > f->o->to_ns && f->jumps == 0)
            return 0;
        if (since < f->o->from_ns || since > f->o->to_ns)
            continue;
        if (ev->id >= KYMO_E_FIRST_NOTE)
            return 1;
        if (f->o->keep != NULL && !f->o->keep(f->o->keep_arg, f->r, ev))
            continue;
        f->res->events++;
        return 1;
    }
    if (rc == 0)
        progress(f);
    return rc;
}

int kymo_feed_older(struct kymo_feed *f, char *err, size_t err_size)
{
    kymo_reader_show_all(f->r, true);
    int rc = kymo_reader_rewind(f->r);
    return rc < 0 ? kymo_feed_error(rc, err, err_size) : 0;
}

/* ---- lesson ---- */

static int next_of_lesson(void *feed, struct kymo_event *ev)
{
    return kymo_feed_next(feed, ev);
}

int kymo_feed_lesson(struct kymo_feed *f, struct kymo_lesson *lesson, char *err, size_t err_size)
{
    struct kymo_export_result ignored;
    struct kymo_export_options quiet = *f->o;
    quiet.progress = NULL;
    struct kymo_feed feed = *f;
    feed.o = &quiet;
    feed.res = &ignored;
    memset(&ignored, 0, sizeof ignored);
    int rc = kymo_lesson_take(lesson, f->r, next_of_lesson, &feed);
    kymo_reader_show_all(f->r, f->o->all);
    if (rc >= 0)
        rc = kymo_reader_rewind(f->r);
    return rc < 0 ? kymo_feed_error(rc, err, err_size) : 0;
}
