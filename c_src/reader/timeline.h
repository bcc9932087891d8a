/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of timelines (kymo_timeline.h):
 *   timeline.c          opens the recordings, merges their events
 *   timeline_names.c    one dictionary, idents, names of nodes
 *   timeline_clocks.c   which recordings have the same clock, and the conversion of times
 *   timeline_messages.c messages between machines
 *   bridge.c            two clocks related by messages
 * Each file calls only those below it.
 */
#ifndef KYMO_TIMELINE_INT_H
#define KYMO_TIMELINE_INT_H

#include "bridge.h"
#include "kymo_reader_int.h"
#include "kymo_timeline.h"

#define KYMO_NODE_SHIFT 52
#define KYMO_NODE_MASK (UINT64_C(0xff) << KYMO_NODE_SHIFT)

/* One recording. */
struct kymo_member {
    struct kymo_reader *r;
    uint32_t first_slot, first_id; /* added to its slots and dictionary ids */
    char name[300];                /* of its node */
    struct kymo_relation relation;
    uint32_t domain; /* the first recording with the same clock */
    uint32_t hint;   /* of kymo_clock_ns */
    /* Its next event. */
    struct kymo_event ev;
    bool has_next;
    uint64_t loss_epoch; /* of the newest event that was returned */
};

struct kymo_timeline {
    struct kymo_member *m;
    uint32_t n;
    struct kymo_bridge *bridges; /* by domain: its clock to that of the first recording */
    struct kymo_map elsewhere;   /* merged id of a term -> ident of the process, port or name */
    struct kymo_damage damage;   /* sum, see kymo_reader_damage */
    bool started;                /* the next event of each recording has been read */
    uint32_t given;              /* the recording of the newest event returned; n = none */
    int64_t newest;              /* its time */
};

/* ---- timeline.c: the functions of kymo_reader.h for timelines ---- */

int kymo_timeline_next(struct kymo_reader *r, struct kymo_event *ev);
void kymo_timeline_rewind(struct kymo_reader *r);
void kymo_timeline_show_all(struct kymo_reader *r, bool all);
void kymo_timeline_progress(const struct kymo_reader *r, uint64_t *done, uint64_t *total);
bool kymo_timeline_missing_file(const struct kymo_reader *r, char *name, size_t size);
bool kymo_timeline_horizon(const struct kymo_reader *r, uint64_t *ticks, int64_t *ns);
int kymo_timeline_span(struct kymo_reader *r, int64_t *first_ns, int64_t *last_ns);
const struct kymo_damage *kymo_timeline_damage(const struct kymo_reader *r);
void kymo_timeline_close(struct kymo_timeline *t);

/* ---- timeline_names.c ---- */

/* Names the nodes and makes the dictionary of r from those of the recordings. Returns 0 or
 * -ENOMEM. */
int kymo_timeline_merge_names(struct kymo_reader *r);
/* Convert ids and idents of recording i to those of the timeline. */
uint32_t kymo_timeline_id(const struct kymo_timeline *t, uint32_t i, uint32_t id);
uint64_t kymo_timeline_translate(const struct kymo_timeline *t, uint32_t i, uint64_t ident);

/* ---- timeline_clocks.c ---- */

/* Relates the clocks of all recordings, which it reads. Returns 0 or a negative errno. */
int kymo_timeline_relate(struct kymo_timeline *t);
/* The time of an event of recording i on the timeline. */
int64_t kymo_timeline_ns(struct kymo_timeline *t, uint32_t i, uint64_t ticks, int64_t ns);

/* ---- timeline_messages.c ---- */

/* A message between recordings with different clocks: times are those of the domains. */
struct kymo_crossing {
    uint32_t from, to; /* domains */
    int64_t sent, received;
};
/* Finds all such messages. *out is allocated with malloc. Returns 0 or a negative errno. */
int kymo_timeline_crossings(struct kymo_timeline *t, struct kymo_crossing **out, size_t *n);
/* The time of an event on the clock of its domain. */
int64_t kymo_timeline_domain_ns(struct kymo_timeline *t, uint32_t i, uint64_t ticks, int64_t ns);

#endif
