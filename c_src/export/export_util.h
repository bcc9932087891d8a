/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the exporters: reading the events inside the window and the filter, with progress;
 * and the lesson for the shadow stack.
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

/* Rewinds the reader and clears *res. Returns 0, or a negative errno with a message in err. */
int kymo_feed_start(struct kymo_feed *f, struct kymo_reader *r, const struct kymo_export_options *o,
                    struct kymo_export_result *res, char *err, size_t err_size);

/* Reads the next event to export. Notes of the recorder always pass the filter. Returns 1, 0 at
 * the end, or a negative errno (kymo_feed_error has the message). */
int kymo_feed_next(struct kymo_feed *f, struct kymo_event *ev);
/* Rewinds. From then on kymo_feed_next also returns incomplete events, even if the options exclude
 * them: those that are not to be exported are not filtered and not counted. Returns 0, or a
 * negative errno with a message in err. */
int kymo_feed_older(struct kymo_feed *f, char *err, size_t err_size);
int kymo_feed_error(int error, char *err, size_t err_size);

/* Takes the lesson of the recording, inside the window and the filter, and rewinds. Free its facts
 * in all cases. Returns 0, or a negative errno with a message in err. */
int kymo_feed_lesson(struct kymo_feed *f, struct kymo_lesson *lesson, char *err, size_t err_size);

#endif
