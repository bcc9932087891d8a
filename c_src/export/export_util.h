/* SPDX-License-Identifier: Apache-2.0
 *
 * What the exporters share: the events inside the window and the filter, with
 * progress; and the lesson of the shadow stack.
 */
#ifndef KYMO_EXPORT_UTIL_H
#define KYMO_EXPORT_UTIL_H

#include "kymo_export.h"
#include "kymo_lesson.h"
#include "kymo_naming.h"
#include "kymo_residents.h"

struct kymo_feed {
    struct kymo_reader *r;
    const struct kymo_export_options *o;
    struct kymo_export_result *res;
    uint64_t t0;    /* what the window of the options counts from */
    uint64_t jumps; /* kymo_reader_jumps: times may go back between threads */
    uint32_t since_progress;
};

/* Rewinds the reader, empties *res. 0 or a negative errno with a sentence in
 * err. */
int kymo_feed_start(struct kymo_feed *f, struct kymo_reader *r, const struct kymo_export_options *o,
                    struct kymo_export_result *res, char *err, size_t err_size);

/* The next event to export. Notes of the recorder pass the filter always. 1, 0
 * at the end, or a negative errno (then kymo_feed_error says it in words). */
int kymo_feed_next(struct kymo_feed *f, struct kymo_event *ev);
/* Rewinds, and from then on kymo_feed_next gives incomplete events too, whatever the
 * options say: those that are not to be shown come without filter and are not counted.
 * 0 or a negative errno with a sentence in err. */
int kymo_feed_older(struct kymo_feed *f, char *err, size_t err_size);
int kymo_feed_error(int error, char *err, size_t err_size);

/* The lesson of the recording, inside the window and the filter; rewinds. Free its facts
 * whatever this returns. 0 or a negative errno with a sentence in err. */
int kymo_feed_lesson(struct kymo_feed *f, struct kymo_lesson *lesson, char *err, size_t err_size);

#endif
