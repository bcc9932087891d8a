/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a Perfetto trace: a stream of TracePacket messages of one sequence,
 * with interned names and delta-encoded times. Knows Perfetto, not Erlang:
 * perfetto_events.c decides what is a track, a slice or an arrow.
 *
 * Field numbers are those of protos/perfetto/trace of the Perfetto project,
 * which never change once published. They are named where they are used.
 *
 * One event at a time:
 *     kymo_pf_event(w, KYMO_PF_BEGIN, track, KYMO_PF_CAT_CALL);
 *     kymo_pf_name(w, kymo_pf_mfa(w, id));
 *     kymo_pf_uint(w, KYMO_PF_K_SIZE, 12);
 *     kymo_pf_emit(w, ns);
 *
 * Errors stick in the output file and are reported by kymo_pf_finish.
 */
#ifndef KYMO_PERFETTO_H
#define KYMO_PERFETTO_H

#include "kymo_map.h"
#include "kymo_naming.h"
#include "kymo_reader.h"
#include "outfile.h"
#include "protobuf.h"

enum kymo_pf_type { KYMO_PF_BEGIN = 1, KYMO_PF_END = 2, KYMO_PF_INSTANT = 3, KYMO_PF_COUNTER = 4 };
enum kymo_pf_unit { KYMO_PF_COUNT = 2, KYMO_PF_BYTES = 3 };

/* X(SYMBOL, "category") */
#define KYMO_PF_CATEGORIES(X) \
    X(CALL, "call") \
    X(SLOW, "slow") \
    X(STOPPED, "stopped") \
    X(MESSAGE, "message") \
    X(MESSAGE_KIND, "message_kind") \
    X(REFERENCE, "reference") \
    X(NUMBER, "number") \
    X(GC, "gc") \
    X(PROCESS, "process") \
    X(PORT, "port") \
    X(RUNNING, "running") \
    X(LOSS, "loss") \
    X(SEQ_TRACE, "seq_trace") \
    X(NOTE, "recorder") \
    X(MONITOR, "system_monitor") \
    X(INCOMPLETE, "incomplete") \
    X(SHED, "shed")

/* X(SYMBOL, "key of a debug annotation") */
#define KYMO_PF_KEYS(X) \
    X(TO, "to") \
    X(FROM, "from") \
    X(SIZE, "size_words") \
    X(MESSAGE, "message") \
    X(MESSAGE_KIND, "message_kind") \
    X(REFERENCE, "reference") \
    X(NUMBER, "number") \
    X(ARGS, "arguments") \
    X(VALUE, "value") \
    X(CLASS, "class") \
    X(REASON, "reason") \
    X(NAME, "name") \
    X(PEER, "peer") \
    X(CALLED, "initial_call") \
    X(RUNS, "runs") \
    X(DRIVER, "driver") \
    X(AT, "at") \
    X(COUNT, "count") \
    X(CAUSE, "cause") \
    X(TAG, "tag") \
    X(TERM, "term") \
    X(EXTRA, "extra") \
    X(LABEL, "label") \
    X(SERIAL, "serial") \
    X(SINCE, "since") \
    X(ENDED, "ended") \
    X(LOST, "events_lost_meanwhile") \
    X(RESULT, "match_spec_result") \
    X(PROCESS, "process") \
    X(SCHEDULER, "scheduler") \
    X(STATE, "state") \
    X(KIND, "kind") \
    X(PORT, "port") \
    X(MS, "ms") \
    X(IN, "in") \
    X(LEFT_OUT, "left_out") \
    X(PASSED, "passed") \
    X(RUNNABLE_BY, "runnable_by") \
    X(RUN_QUEUE_NS, "run_queue_ns") \
    X(OUT_REASON, "out_reason") \
    X(DURATION, "duration_ns") \
    X(BEGAN, "began_ns_ago") \
    X(STACK_WORDS, "stack_words") \
    X(OMITTED, "omitted")

/* X(SYMBOL, "name of an event that is not the name of a record") */
#define KYMO_PF_NAMES(X) \
    X(UNKNOWN, "?") \
    X(ALIVE, "alive") \
    X(GC_MINOR, "minor gc") \
    X(GC_MAJOR, "major gc") \
    X(LOST, "events lost") \
    X(EXITING, "exiting") \
    X(SHED, "left out to keep the budget")

enum kymo_pf_category {
    KYMO_PF_CAT_NONE = 0,
#define KYMO_X(sym, text) KYMO_PF_CAT_##sym,
    KYMO_PF_CATEGORIES(KYMO_X)
#undef KYMO_X
};
enum kymo_pf_key {
    KYMO_PF_K_NONE = 0,
#define KYMO_X(sym, text) KYMO_PF_K_##sym,
    KYMO_PF_KEYS(KYMO_X)
#undef KYMO_X
        KYMO_PF_K_GC /* KYMO_GC_SIZES keys from here on, in the order of enum kymo_gc */
};
/* Names 1 .. 63 are those of the records with these ids. */
enum kymo_pf_fixed_name {
    KYMO_PF_N_BASE = 63,
#define KYMO_X(sym, text) KYMO_PF_N_##sym,
    KYMO_PF_NAMES(KYMO_X)
#undef KYMO_X
        KYMO_PF_N_DICT = 100 /* + dictionary id; then names of processes */
};

struct kymo_pf {
    struct kymo_out out;
    const struct kymo_reader *r;
    const struct kymo_naming *naming;
    uint64_t base;      /* added to every track number */
    uint64_t next_name; /* iid of the next new name */
    uint32_t dict_size;
    uint8_t *named;        /* by dictionary id: bit 0 event name, bit 1 string value */
    struct kymo_pb event;  /* of the TrackEvent being built */
    struct kymo_pb intern; /* InternedData for its packet */
    struct kymo_pb packet, part, what;
    uint8_t stamp[8]; /* the two fields that every packet has */
    size_t stamp_len;
    int64_t last_ns; /* the time that deltas refer to */
    char *text;      /* KYMO_PF_TEXT bytes for formatting terms */
};
#define KYMO_PF_TEXT 16384u

/* Opens the file and writes everything that precedes the first event. start_ns is the
 * CLOCK_MONOTONIC time that the first delta refers to; it must not be after the first event.
 * Returns 0 or a negative errno with a message in err. */
int kymo_pf_open(struct kymo_pf *w, const struct kymo_reader *r, const struct kymo_naming *naming,
                 const char *path, int64_t start_ns, char *err, size_t err_size);
int kymo_pf_finish(struct kymo_pf *w, char *err, size_t err_size);
/* For cleanup, both after a failure and after finish. */
void kymo_pf_free(struct kymo_pf *w);

/* The following functions describe tracks. Numbers of tracks are unique and > 0; parent 0 = none.
 * They must not be called between kymo_pf_event and kymo_pf_emit. */

/* A track that belongs neither to a process nor to a thread. */
void kymo_pf_track(struct kymo_pf *w, uint64_t track, uint64_t parent, const char *name, size_t len);
/* The track of a process of the operating system, to which threads belong: a node. */
void kymo_pf_process(struct kymo_pf *w, uint64_t track, uint64_t pid, const char *name, size_t len);
/* The track of a thread of process `pid`, with a row of its own in Perfetto's table of threads; its
 * tid is derived from the track number. */
void kymo_pf_thread(struct kymo_pf *w, uint64_t track, uint64_t parent, uint64_t pid, const char *name,
                    size_t len);
/* The track of a counter, for kymo_pf_counter only. */
void kymo_pf_counter_track(struct kymo_pf *w, uint64_t track, uint64_t parent, const char *name,
                           enum kymo_pf_unit unit);
/* Sets the value of a counter from this time on. Must not be called between kymo_pf_event and
 * kymo_pf_emit. */
void kymo_pf_counter(struct kymo_pf *w, uint64_t track, uint64_t value, int64_t ns);
void kymo_pf_counter_double(struct kymo_pf *w, uint64_t track, double value, int64_t ns);

/* Starts an event. */
void kymo_pf_event(struct kymo_pf *w, enum kymo_pf_type type, uint64_t track, enum kymo_pf_category cat);
/* Writes the event that was started. Times may decrease, which only costs space. */
void kymo_pf_emit(struct kymo_pf *w, int64_t ns);

/* The following functions add to the event that was started. */
void kymo_pf_name(struct kymo_pf *w, uint64_t iid);
void kymo_pf_flow(struct kymo_pf *w, uint64_t id, bool terminating);
void kymo_pf_uint(struct kymo_pf *w, unsigned key, uint64_t v);
void kymo_pf_string(struct kymo_pf *w, unsigned key, const char *s, size_t len);
void kymo_pf_text(struct kymo_pf *w, unsigned key, const char *s);
/* A string by the iid that kymo_pf_new_string returned. */
void kymo_pf_string_iid(struct kymo_pf *w, unsigned key, uint64_t iid);
void kymo_pf_ident(struct kymo_pf *w, unsigned key, uint64_t ident);
/* A function or an atom of the dictionary; nothing if id is 0. */
void kymo_pf_dict(struct kymo_pf *w, unsigned key, uint32_t id);
/* An external term; `cut` marks that something was left out of it. */
void kymo_pf_term(struct kymo_pf *w, unsigned key, const uint8_t *etf, uint32_t len, bool cut);
/* The arguments of function mfa. */
void kymo_pf_arguments(struct kymo_pf *w, uint32_t mfa, const uint8_t *etf, uint32_t len, bool cut);

/* Return the iid of a name, for kymo_pf_name. May be called only between kymo_pf_event and
 * kymo_pf_emit. */
uint64_t kymo_pf_mfa(struct kymo_pf *w, uint32_t id); /* canonical id of a function */
uint64_t kymo_pf_new_name(struct kymo_pf *w, const char *s, size_t len);
/* The same for kymo_pf_string_iid. */
uint64_t kymo_pf_new_string(struct kymo_pf *w, const char *s, size_t len);

#endif
