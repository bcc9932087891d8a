/* SPDX-License-Identifier: Apache-2.0
 *
 * State of one Perfetto export. An event goes one way through these files:
 *   export_perfetto.c    the run: the first event to the last
 *   perfetto_events.c    what an event is, and what is done about it
 *   perfetto_messages.c  messages, their arrows, and receives that wait for their send
 *   perfetto_tracks.c    tracks of threads and processes, and the slices open on them
 *   perfetto.c           the bytes
 * Each calls those below it only.
 */
#ifndef KYMO_PERFETTO_STATE_H
#define KYMO_PERFETTO_STATE_H

#include "export_util.h"
#include "kymo_flows.h"
#include "perfetto.h"

/* Numbers of tracks: those of further nodes are among those of the processes. */
enum { TRACK_NODE = 1, TRACK_RUNNING = 2, TRACK_THREAD_BASE = 16, TRACK_PROCESS_BASE = 16 + 65536 };

/* Perfetto draws deep stacks badly and refuses very deep ones. */
enum { DEPTH_MAX = 200 };

/* Processes kept after their exit, for what still comes from them: events of
 * the scheduler, unregister. Must be a power of two. */
enum { DEAD_MAX = 1024 };

/* Receives kept for a send that is stamped later, and for how long. Clocks of
 * different cores differ by less. */
enum { HELD_MAX = 32, HELD_NS = 10000 };

/* Processes remembered from before the horizon. */
enum { OLDER_MAX = 200000 };

/* A process takes all messages that wait for it at once. Those under way at the horizon
 * are among the first that it receives after it; only what is sent to it later has an
 * arrow. */
enum kymo_pfx_mail {
    MAIL_UNKNOWN = 0, /* nothing was received since the horizon */
    MAIL_FIRST,       /* the first messages are being received */
    MAIL_KNOWN        /* what is sent from now on was not under way at the horizon */
};

struct kymo_pfx_process {
    uint64_t ident;
    uint64_t track;
    uint64_t heap_track; /* of the counter; 0 = not described yet */
    uint64_t name_iid;   /* its name as an event name and as a string; 0 = not written yet */
    uint64_t string_iid;
    uint64_t name; /* registered name as an ident, or KYMO_IDENT_NONE */
    struct kymo_stack stack;
    int64_t received; /* time of the newest receive while MAIL_FIRST */
    int64_t last;     /* time of its newest event: its track does not go back */
    uint32_t place;   /* among the residents */
    enum kymo_pfx_mail mail;
    bool begun; /* its slice has been begun */
    bool alive; /* its slice is open */
    bool dead;
    bool described; /* its track */
};

/* A node: a process of the operating system. */
struct kymo_pfx_node {
    uint64_t pid;
    uint64_t track, running_track; /* the second is the counter */
    uint32_t n_running;            /* threads with an open slice */
    bool running_described;
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
    struct kymo_naming *naming;
    struct kymo_lesson lesson;
    struct kymo_residents residents;
    struct kymo_map processes;     /* ident -> struct kymo_pfx_process * */
    struct kymo_pfx_process *last; /* of the newest event: most come in runs */
    struct kymo_pfx_process *dead[DEAD_MAX];
    uint32_t dead_next;
    uint64_t next_track;
    struct kymo_map names; /* registered name (canonical atom) -> ident */
    struct kymo_map older; /* set of idents that were there before the horizon */
    struct kymo_flows flows;
    struct kymo_pfx_held held[HELD_MAX];
    uint32_t held_first, held_next; /* free-running places in held */
    struct kymo_pfx_thread *threads;
    uint32_t n_threads;
    struct kymo_pfx_node *nodes;
    uint32_t n_nodes;
    bool cut;            /* the export begins at a horizon */
    int64_t cut_ns;      /* its time */
    uint64_t loss_epoch; /* of the reader, at the newest event */
    uint64_t slices;     /* slices and instants */
    int64_t now;         /* of the newest event */
    int64_t newest;      /* the latest of all: not always that of the newest, see kymo_reader_jumps */
};

/* ---- tracks (perfetto_tracks.c) ---- */

/* Add to the event being written: parts of a record. */
void kymo_pfx_content(struct kymo_pfx *x, unsigned key, const struct kymo_event *ev);
void kymo_pfx_options(struct kymo_pfx *x, const struct kymo_event *ev);
void kymo_pfx_arguments(struct kymo_pfx *x, const struct kymo_event *ev);
void kymo_pfx_gc_sizes(struct kymo_pfx *x, const struct kymo_event *ev);
/* Names another process: those with a track by a string that is written once. */
void kymo_pfx_peer(struct kymo_pfx *x, unsigned key, uint64_t ident);

/* The node of an ident and of a thread. */
struct kymo_pfx_node *kymo_pfx_node(const struct kymo_pfx *x, uint64_t ident);
struct kymo_pfx_node *kymo_pfx_node_of_slot(const struct kymo_pfx *x, uint32_t slot);
/* The tracks of a process or port and of a thread; each is described when it is first
 * asked for, so that there are none without events. Not between kymo_pf_event and
 * kymo_pf_emit. */
uint64_t kymo_pfx_track(struct kymo_pfx *x, struct kymo_pfx_process *p);
uint64_t kymo_pfx_thread(struct kymo_pfx *x, uint32_t slot);
/* The process or port that an event is about; NULL when it is about something else
 * (seq_trace from a name) or there is no memory. */
struct kymo_pfx_process *kymo_pfx_process(struct kymo_pfx *x, const struct kymo_event *ev);

/* Begins the slice of the life of p, unless it was begun. */
void kymo_pfx_begin_alive(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev);
/* Ends what is open of p, because of its exit. It may be heard of a little longer. */
void kymo_pfx_exit(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev);
/* Process p runs on the thread of ev, or doesn't any more. */
void kymo_pfx_run(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev);
void kymo_pfx_stop(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev);

/* Ends slices: what the functions of kymo_stack.h call with a struct kymo_pfx_leaving. */
struct kymo_pfx_leaving {
    struct kymo_pfx *x;
    struct kymo_pfx_process *p;
    const struct kymo_event *cause; /* NULL: no event in particular */
};
void kymo_pfx_leave(void *leaving, const struct kymo_frame *f, enum kymo_leave why);
/* Begins the slice of a frame. */
void kymo_pfx_enter(struct kymo_pfx *x, struct kymo_pfx_process *p, struct kymo_frame *f,
                    const struct kymo_event *ev);

/* Ends all that is open at x->now. */
void kymo_pfx_end_all(struct kymo_pfx *x);

/* ---- messages (perfetto_messages.c) ---- */

/* An instant with an arrow that starts there, or ends there when the send is
 * known. */
void kymo_pfx_send(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev);
void kymo_pfx_receive(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev);
/* Writes the receives whose send can't come any more at this time; INT64_MAX =
 * all of them. */
void kymo_pfx_expire(struct kymo_pfx *x, int64_t now);

/* ---- events (perfetto_events.c) ---- */

void kymo_pfx_event(struct kymo_pfx *x, const struct kymo_event *ev);
/* An event from before the horizon; `shown`: it gets an instant. */
void kymo_pfx_older(struct kymo_pfx *x, const struct kymo_event *ev, bool shown);

#endif
