/* SPDX-License-Identifier: Apache-2.0 */
#include "export_util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRESS_EVERY = 1 << 17 };

int kymo_feed_error(int error, char *err, size_t err_size)
{
    snprintf(err, err_size, "can't read the recording further: %s", strerror(-error));
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
        int64_t since = (int64_t)((uint64_t)ev->ns - f->t0); /* a damaged clock wraps */
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

/* ---- names ---- */

/* Brings what a formatting function returned below size. */
static size_t cut_length(size_t n, size_t size)
{
    return n < size ? n : size - 1;
}

/* The name or the initial call of a process; 0 when neither is known. */
static size_t known_name(const struct kymo_reader *r, uint64_t ident, uint32_t spawned, char *buf,
                         size_t size)
{
    uint32_t name = 0, mfa = 0;
    (void)kymo_reader_process(r, ident, &name, &mfa);
    mfa = mfa != 0 ? mfa : spawned;
    if (name != 0)
        return cut_length(kymo_format_atom(kymo_reader_atom(r, name), buf, size), size);
    return mfa != 0 ? cut_length(kymo_format_mfa(r, mfa, buf, size), size) : 0;
}

size_t kymo_label(const struct kymo_reader *r, uint64_t ident, uint32_t spawned, char *buf, size_t size)
{
    size_t n = cut_length(kymo_format_ident(r, ident, buf, size), size);
    if (size - n > 2) {
        size_t m = known_name(r, ident, spawned, buf + n + 1, size - n - 1);
        buf[n] = m > 0 ? ' ' : 0;
        n += m > 0 ? m + 1 : 0;
    }
    return n;
}

size_t kymo_short_label(const struct kymo_reader *r, uint64_t ident, char *buf, size_t size)
{
    size_t n = known_name(r, ident, 0, buf, size);
    return n > 0 ? n : cut_length(kymo_format_ident(r, ident, buf, size), size);
}
