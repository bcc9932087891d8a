/* SPDX-License-Identifier: Apache-2.0
 *
 * The lesson that the shadow stack takes before the first frame: what the first
 * events of a recording tell about its functions. Single threaded.
 */
#ifndef KYMO_LESSON_H
#define KYMO_LESSON_H

#include "kymo_reader.h"
#include "kymo_stack.h"

/* What a first look at the recording tells. */
struct kymo_lesson {
    struct kymo_facts facts;
    bool running; /* processes were traced in and out */
    bool taken;   /* all of this is known */
};

/* Events that the first look takes in. */
#define KYMO_LESSON_EVENTS 1000000u

/* Reads the first events from the horizon on, from `next` (1, 0 at the end, or a
 * negative errno). The reader is rewound before, and left where it is: rewind it after.
 * Free the facts whatever it returns. 0, or a negative errno. */
int kymo_lesson_take(struct kymo_lesson *lesson, struct kymo_reader *r,
                     int (*next)(void *arg, struct kymo_event *ev), void *arg);

/* Canonical id of a function, 0 when there is none. */
static inline uint32_t kymo_canonical(const struct kymo_reader *r, uint32_t id)
{
    return id == 0 ? 0 : kymo_reader_canonical(r, id);
}

/* The event is the one with which a process leaves its scheduler to hibernate. */
bool kymo_hibernates(const struct kymo_reader *r, const struct kymo_event *ev);

#endif
