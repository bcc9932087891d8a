/* SPDX-License-Identifier: Apache-2.0
 *
 * A first look at a recording: what its first events show about its functions. The shadow
 * stack (kymo_stack.h) needs this before the first frame. Single-threaded.
 */
#ifndef KYMO_LESSON_H
#define KYMO_LESSON_H

#include "kymo_reader.h"
#include "kymo_stack.h"

/* The results of the first look. */
struct kymo_lesson {
    struct kymo_facts facts;
    bool running; /* there are in and out events */
    bool taken;   /* the first look was completed */
    bool takes;   /* it has events `taken` */
};

/* The maximum number of events that are read for it. */
#define KYMO_LESSON_EVENTS 1000000u

/* Rewinds the reader and reads the first events after the horizon with `next` (which returns
 * 1, 0 at the end, or a negative errno). Rewind the reader afterwards, and free the facts,
 * whatever it returns. Returns 0 or a negative errno. */
int kymo_lesson_take(struct kymo_lesson *lesson, struct kymo_reader *r,
                     int (*next)(void *arg, struct kymo_event *ev), void *arg);

/* Canonical id of a function, 0 if there is none. */
static inline uint32_t kymo_canonical(const struct kymo_reader *r, uint32_t id)
{
    return id == 0 ? 0 : kymo_reader_canonical(r, id);
}

/* True if with this event a process is scheduled out to hibernate. */
bool kymo_hibernates(const struct kymo_reader *r, const struct kymo_event *ev);

#endif
