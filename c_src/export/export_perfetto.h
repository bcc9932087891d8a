/* SPDX-License-Identifier: Apache-2.0
 *
 * State of one Perfetto export, shared by export_perfetto.c (tracks, slices,
 * everything else) and export_perfetto_msg.c (messages and their arrows).
 */
#ifndef KYMO_EXPORT_PERFETTO_H
#define KYMO_EXPORT_PERFETTO_H

#include "export_util.h"
#include "flows.h"
#include "perfetto.h"

/* Numbers of tracks. */
enum { TRACK_NODE = 1, TRACK_THREADS = 2, TRACK_THREAD_BASE = 16, TRACK_PROCESS_BASE = 16 + 65536 };

/* Perfetto draws deep stacks badly and refuses very deep ones. */
enum { DEPTH_MAX = 200 };

/* Processes kept after their exit, for what still comes from them: events of
 * the scheduler, unregister. Must be a power of two. */
enum { DEAD_MAX = 1024 };

/* Receives kept for a send that is stamped later, and for how long. Clocks of
 * different cores differ by less. */
enum { HELD_MAX = 32, HELD_NS = 10000 };

struct kymo_pfx_process {
    uint64_t ident;
    uint64_t track;
    uint64_t name_iid; /* its name as an event name and as a string; 0 = not written yet */
    uint64_t string_iid;
    uint32_t spawned; /* function that its spawn gave, or 0 */
    uint64_t name;    /* registered name as an ident, or KYMO_IDENT_NONE */
    struct kymo_stack stack;
    uint64_t losses; /* notes of loss that the stack knows of */
    uint32_t place;  /* among the residents */
    bool alive;      /* its slice is open */
    bool dead;
};

struct kymo_pfx_thread {
    bool described;
    uint64_t running; /* whose slice is open, KYMO_IDENT_NONE = no slice */
};

struct kymo_pfx_held {
    struct kymo_message m;
    struct kymo_pb event; /* TrackEvent without its flow */
    bool used;
};

struct kymo_pfx {
    struct kymo_pf w;
    struct kymo_reader *r;
    struct kymo_lesson lesson;
    struct kymo_residents residents;
    struct kymo_map processes; /* ident -> struct kymo_pfx_process * */
    struct kymo_pfx_process *last;
    struct kymo_pfx_process *dead[DEAD_MAX];
    uint32_t dead_next;
    uint64_t next_track;
    struct kymo_map names; /* registered name (canonical atom) -> ident */
    struct kymo_flows flows;
    struct kymo_pfx_held held[HELD_MAX];
    uint32_t held_first, held_next; /* free-running places in held */
    struct kymo_pfx_thread *threads;
    uint32_t n_threads;
    bool threads_described;
    bool fresh;      /* the process of this event was first seen with it */
    uint64_t losses; /* notes of loss so far */
    uint64_t slices; /* slices and instants */
    int64_t now;
    /* For on_leave: the event that ends the frame, NULL if none in particular. */
    const struct kymo_event *cause;
};

/* Add to the event being written: the contents and the options of a record. */
void kymo_pfx_content(struct kymo_pfx *x, unsigned key, const struct kymo_event *ev);
void kymo_pfx_options(struct kymo_pfx *x, const struct kymo_event *ev);

/* An instant with an arrow that starts there, or ends there when the send is
 * known. */
void kymo_pfx_send(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev);
void kymo_pfx_receive(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev);
/* Writes the receives whose send can't come any more at this time; INT64_MAX =
 * all of them. */
void kymo_pfx_expire(struct kymo_pfx *x, int64_t now);

#endif
