/* SPDX-License-Identifier: Apache-2.0
 *
 * What the exporters share: the events inside the window and the filter, with
 * progress; the lesson that the shadow stack takes before the first frame; and
 * names of processes.
 */
#ifndef KYMO_EXPORT_UTIL_H
#define KYMO_EXPORT_UTIL_H

#include "kymo_export.h"
#include "stack.h"

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

/* What a first look at the recording tells. */
struct kymo_lesson {
    struct kymo_facts facts;
    bool running; /* processes were traced in and out */
};

/* Events that the first look takes in. */
#define KYMO_LESSON_EVENTS 1000000u

/* Reads the first events from the horizon on and rewinds. Free the facts whatever it returns. 0 or
 * a negative errno with a sentence in err. */
int kymo_feed_lesson(struct kymo_feed *f, struct kymo_lesson *lesson, char *err, size_t err_size);

/* Canonical id of a function, 0 when there is none. */
static inline uint32_t kymo_canonical(const struct kymo_reader *r, uint32_t id)
{
    return id == 0 ? 0 : kymo_reader_canonical(r, id);
}

/* The event is the one with which a process leaves its scheduler to hibernate. */
bool kymo_hibernates(const struct kymo_reader *r, const struct kymo_event *ev);

/* Who has state in an exporter. Not every process that was seen says when it is
 * gone, so there is a bound: who comes in when it is reached takes the place of one
 * that nothing was heard of lately. */
#define KYMO_RESIDENTS 32768u

struct kymo_residents {
    uint64_t *ident; /* by place; KYMO_IDENT_NONE = free */
    uint8_t *recent; /* by place: heard of since the hand was there last */
    uint32_t n, hand;
};

/* 0 or -ENOMEM; free in both cases. */
int kymo_residents_init(struct kymo_residents *r);
void kymo_residents_free(struct kymo_residents *r);
/* The place for a newcomer. *evicted: who had it and must go, or
 * KYMO_IDENT_NONE. */
uint32_t kymo_residents_add(struct kymo_residents *r, uint64_t ident, uint64_t *evicted);
static inline void kymo_residents_heard(struct kymo_residents *r, uint32_t place)
{
    r->recent[place] = 1;
}
/* It is gone by itself. */
void kymo_residents_remove(struct kymo_residents *r, uint32_t place);

/* "<0.12.0> name": the ident, then the registered name or the initial call as
 * far as they are known. spawned: the function that a spawn event gave, or 0.
 * Returns the length, below size. */
size_t kymo_label(const struct kymo_reader *r, uint64_t ident, uint32_t spawned, char *buf, size_t size);
/* The registered name or the initial call alone, else the ident. */
size_t kymo_short_label(const struct kymo_reader *r, uint64_t ident, char *buf, size_t size);

#endif
