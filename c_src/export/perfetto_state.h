/* SPDX-License-Identifier: Apache-2.0
 *
 * State of one Perfetto export. An event passes through these files in one direction:
 *   export_perfetto.c    the run: the first event to the last
 *   perfetto_events.c    dispatches events by their kind
 *   perfetto_messages.c  messages, their arrows, and receives that wait for their send
 *   perfetto_slow.c      slow calls
 *   perfetto_counters.c  the node's counters, its system monitor, and stops of all schedulers
 *   perfetto_tracks.c    tracks of threads and processes, and the slices open on them
 *   perfetto.c           the encoding
 * Each calls those below it only.
 */
#ifndef KYMO_PERFETTO_STATE_H
#define KYMO_PERFETTO_STATE_H

#include "export_util.h"
#include "kymo_breaks.h"
#include "kymo_fields.h"
#include "kymo_flows.h"
#include "kymo_gauges.h"
#include "perfetto.h"
#include "shed_spans.h"

/* Numbers of tracks. Tracks of further nodes have numbers in the range of the processes. */
enum { TRACK_NODE = 1, TRACK_RUNNING = 2, TRACK_THREAD_BASE = 16, TRACK_PROCESS_BASE = 16 + 65536 };

/* Deeper calls have no slices: Perfetto shows deep stacks badly and rejects very deep ones. */
enum { DEPTH_MAX = 200 };

/* Tracks of the slow calls of one process: how deep they nest. */
enum { SLOW_TRACKS = 64 };

/* Processes kept after their exit, for events that still come from them, such as scheduling and
 * unregister. Must be a power of two. */
enum { DEAD_MAX = 1024 };

/* Number of receives that are held for a send with a later timestamp, and for how long. Clocks of
 * different cores differ by less. */
enum { HELD_MAX = 32, HELD_NS = 10000 };

/* Maximum number of messages that have been fetched and may still be taken. */
enum { FETCHED_MAX = 1 << 18 };

/* Maximum number of processes remembered from before the horizon. */
enum { OLDER_MAX = 200000 };

/* A process fetches all waiting messages at once. Messages that were in transit at the horizon are
 * among the first that it receives after it, so only messages that were sent later have an arrow. */
enum kymo_pfx_mail {
    MAIL_UNKNOWN = 0, /* nothing was received since the horizon */
    MAIL_FIRST,       /* the first messages are being received */
    MAIL_KNOWN        /* messages sent from now on were not in transit at the horizon */
};

/* The slow calls of a process. A call is reported when it ends, after those inside it. */
struct kymo_pfx_slow {
    uint64_t track[SLOW_TRACKS]; /* 0 = not described yet */
    int64_t end[SLOW_TRACKS];    /* of the newest slice */
};

struct kymo_pfx_process {
    uint64_t ident;
    uint64_t track;
    uint64_t heap_track; /* of the counter; 0 = not described yet */
    uint64_t name_iid;   /* its name as an event name and as a string; 0 = not written yet */
    uint64_t string_iid;
    uint64_t name; /* registered name as an ident, or KYMO_IDENT_NONE */
    struct kymo_stack stack;
    struct kymo_pfx_slow *slow; /* NULL = none */
    int64_t received;           /* time of the newest receive while MAIL_FIRST */
    int64_t last;               /* time of its newest event; times on its track do not decrease */
    uint32_t place;             /* among the residents */
    enum kymo_pfx_mail mail;
    bool begun; /* its slice has been begun */
    bool alive; /* its slice is open */
    bool dead;
    bool described; /* its track has been described */
};

/* A node: a process of the operating system. */
struct kymo_pfx_node {
    uint64_t pid;
    uint64_t track, running_track; /* the second is the counter */
    uint32_t n_running;            /* threads with an open slice */
    bool running_described;
    /* Events shed by a budget: a slice for each span of time. */
    struct kymo_shed_walk shed;
    struct kymo_shed_span shed_span; /* the next one, or the open one */
    uint64_t shed_track;
    bool shed_has, shed_open;
    uint64_t stopped_track; /* when all schedulers were stopped; 0 = not described yet */
    int64_t stopped_end;    /* of the newest slice; no slice: 0 */
};

struct kymo_pfx_thread {
    bool described;
    uint64_t running; /* the process whose slice is open, KYMO_IDENT_NONE = no slice */
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
    struct kymo_pfx_process *last; /* of the newest event: most events come in runs */
    struct kymo_pfx_process *dead[DEAD_MAX];
    uint32_t dead_next;
    uint64_t next_track;
    struct kymo_map names; /* registered name (canonical atom) -> ident */
    struct kymo_map older; /* set of idents that existed before the horizon */
    struct kymo_flows flows;
    struct kymo_map fetched; /* kymo_message_key -> id of the flow: not taken yet */
    struct kymo_breaks breaks;
    struct kymo_pfx_held held[HELD_MAX];
    uint32_t held_first, held_next; /* free-running places in held */
    struct kymo_pfx_thread *threads;
    uint32_t n_threads;
    struct kymo_pfx_node *nodes;
    uint32_t n_nodes;
    struct kymo_gauges gauges;
    struct kymo_map counter_tracks; /* node << 32 | counter << 16 | index -> number of the track */
    bool left_out;                  /* a budget has shed events */
    bool cut;                       /* the export begins at a horizon */
    int64_t cut_ns;                 /* its time */
    uint64_t loss_epoch;            /* of the reader plus broken, at the newest event */
    uint64_t broken;                /* number of times at which a budget shed or restored calls */
    uint64_t slices;                /* slices and instants */
    int64_t first;                  /* time of the first event of the export */
    int64_t now;                    /* of the newest event */
    int64_t newest;                 /* the latest time so far; may differ from now, see kymo_reader_jumps */
};

/* ---- fields (perfetto_fields.c) ---- */

/* Adds fields to the event being written; which: KYMO_F_BIT of each. Those that the event does not have
 * are left out, and so are time stamps, because each event of the trace has its time. */
void kymo_pfx_fields(struct kymo_pfx *x, const struct kymo_event *ev, uint64_t which);
/* What the caller of the trace has asked for with an event. */
#define KYMO_PFX_OPTIONS (KYMO_FIELD(SCHEDULER) | KYMO_FIELD(RESULT))

/* ---- tracks (perfetto_tracks.c) ---- */

/* Adds the name of another process; for one with a track, as an interned string. */
void kymo_pfx_peer(struct kymo_pfx *x, unsigned key, uint64_t ident);

/* Begins and ends the slices of shed events, up to x->now. */
void kymo_pfx_shed(struct kymo_pfx *x);
/* Ends the open ones. */
void kymo_pfx_shed_end(struct kymo_pfx *x);

/* The node of an ident and of a thread. */
struct kymo_pfx_node *kymo_pfx_node(const struct kymo_pfx *x, uint64_t ident);
struct kymo_pfx_node *kymo_pfx_node_of_slot(const struct kymo_pfx *x, uint32_t slot);
/* The tracks of a process or port and of a thread. Each is described on first use, so that there are
 * none without events. Must not be called between kymo_pf_event and kymo_pf_emit. */
uint64_t kymo_pfx_track(struct kymo_pfx *x, struct kymo_pfx_process *p);
uint64_t kymo_pfx_thread(struct kymo_pfx *x, uint32_t slot);
/* Frees a process and what it owns. It has to be in no list or map. */
void kymo_pfx_process_free(struct kymo_pfx_process *p);
/* The process or port of an event; NULL if the event belongs to something else (seq_trace from a
 * name), or there is no memory. */
struct kymo_pfx_process *kymo_pfx_process(struct kymo_pfx *x, const struct kymo_event *ev);

/* Begins the slice of the life of p, unless that was done before. */
void kymo_pfx_begin_alive(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev);
/* Ends the open slices of p because of its exit. Events of p may still follow. */
void kymo_pfx_exit(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev);
/* Process p begins, or ceases, to run on the thread of ev. */
void kymo_pfx_run(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev);
void kymo_pfx_stop(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev);

/* kymo_pfx_leave ends slices; it is the callback for kymo_stack.h, with a struct kymo_pfx_leaving as
 * its argument. */
struct kymo_pfx_leaving {
    struct kymo_pfx *x;
    struct kymo_pfx_process *p;
    const struct kymo_event *cause; /* NULL: no event in particular */
};
void kymo_pfx_leave(void *leaving, const struct kymo_frame *f, enum kymo_leave why);
/* Begins the slice of a frame. */
void kymo_pfx_enter(struct kymo_pfx *x, struct kymo_pfx_process *p, struct kymo_frame *f,
                    const struct kymo_event *ev);

/* Ends all open slices at x->now. */
void kymo_pfx_end_all(struct kymo_pfx *x);

/* ---- messages (perfetto_messages.c) ---- */

/* Write an instant: at a send an arrow starts; at a receive it ends, if the send is known. */
void kymo_pfx_send(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev);
void kymo_pfx_receive(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev);
/* Writes an instant at which the arrow of the taken message ends. */
void kymo_pfx_taken(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev);
/* Writes the held receives whose send can no longer follow at time `now`; INT64_MAX = all held
 * receives. */
void kymo_pfx_expire(struct kymo_pfx *x, int64_t now);

/* ---- slow calls (perfetto_slow.c) ---- */

/* Writes the slice of a slow call that has ended. */
void kymo_pfx_slow(struct kymo_pfx *x, struct kymo_pfx_process *p, const struct kymo_event *ev);

/* ---- counters (perfetto_counters.c) ---- */

/* Writes the values of a record `counters`, each on its track. */
void kymo_pfx_counters(struct kymo_pfx *x, const struct kymo_event *ev);
/* The track of the process that a note is about, or that of the node. */
uint64_t kymo_pfx_track_of_note(struct kymo_pfx *x, const struct kymo_event *ev);
/* Writes a record `system_monitor` as an instant on the track of its process, if that has one. */
void kymo_pfx_monitor(struct kymo_pfx *x, const struct kymo_event *ev);
/* All schedulers were stopped. Ignores a stop that another session has reported before. */
void kymo_pfx_stopped(struct kymo_pfx *x, const struct kymo_event *ev);

/* ---- events (perfetto_events.c) ---- */

void kymo_pfx_event(struct kymo_pfx *x, const struct kymo_event *ev);
/* Handles an event from before the horizon; if `shown`, it gets an instant. */
void kymo_pfx_older(struct kymo_pfx *x, const struct kymo_event *ev, bool shown);

#endif
