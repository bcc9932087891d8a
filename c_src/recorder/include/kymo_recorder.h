/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder engine, in plain C11. It has no knowledge of Erlang terms: the words that
 * identify atoms are opaque 64-bit keys.
 *
 * Threads. Three roles:
 *   control  any thread; calls open, stop, pause, snapshot, info, close. These
 *            calls exclude each other with a mutex of the recorder and may block
 *            (files, joining the worker): never call them from a tracer callback.
 *   producer any thread that traces; calls kymo_writer_get and everything that takes
 *            a struct kymo_writer. These take no lock, allocate nothing and make no
 *            system call, except for a thread's first event in the process (one
 *            allocation) and in a recorder (it takes a slot).
 *   worker   one thread per recorder, started by open and joined by stop: it drains
 *            the pool (discard), enforces the duration limit, calibrates the clock,
 *            and closes the files.
 *
 * Functions return 0 or a negative errno unless noted otherwise.
 */
#ifndef KYMO_RECORDER_H
#define KYMO_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kymo_format.h"

struct kymo_recorder;
struct kymo_writer; /* one thread in one recorder; see kymo_writer.h */

struct kymo_options {
    const char *dir; /* created (0700) if missing; must not contain a recording */
    enum kymo_policy policy;
    enum kymo_clock clock;  /* requested; monotonic is used if the counter is not reliable */
    uint64_t memory;        /* bytes that open maps, without the caches of 56 KiB for each thread
                             * that records; see kymo_options_least */
    uint32_t segment_bytes; /* power of two, 4096 .. 1 MiB; 0 = chosen from memory and n_slots */
    uint32_t n_slots;       /* threads that may record, 1 .. 4096 */
    uint64_t dict_bytes;    /* 4096 .. 1 GiB; 0 = a twelfth of memory */
    uint32_t detail;        /* KYMO_D_*: copied to meta */
    uint32_t exact;         /* KYMO_EXACT_*: copied to meta */
    uint32_t content_max;   /* 0 .. segment_bytes / 4, at most KYMO_CONTENT_MAX */
    uint32_t sample;        /* 1 in N, at least 1 */
    uint32_t sample_kind;   /* 0 by event, 1 by process: applied by the caller */
    uint64_t limit_bytes;   /* 0 = none; bytes of closed segments, open ones in full */
    uint64_t limit_events;  /* 0 = none; never more than this many are recorded */
    uint64_t limit_ns;      /* 0 = none; from open */
    uint64_t file_bytes;    /* discard: a data file is closed at this size; 0 = never */
    uint64_t file_ns;       /* discard: ... or at this age; 0 = never */
    uint32_t max_files;     /* discard: the oldest is removed beyond this many; 0 = keep all */
    /* About the node, for meta; zero and "" without a VM. */
    int64_t erl_mono_ns; /* erlang:monotonic_time(nanosecond), taken just before open */
    int64_t erl_offset_ns;
    uint32_t creation;
    const char *node;
    const char *otp_release;
    const char *erts_version;
    /* Returns the kind and number of the calling thread; called once by each thread,
     * when it takes a slot. NULL means KYMO_T_OTHER, number 0. Must not trace or block. */
    void (*identify)(enum kymo_thread *kind, uint32_t *no);
};

/* Defaults for everything but dir. Never fails. */
void kymo_options_init(struct kymo_options *o);

/* Why open failed. */
struct kymo_open_error {
    const char *option; /* -EINVAL: the name of the member of kymo_options, else NULL */
    uint64_t needed;    /* bytes: -EINVAL of memory, the least; -ENOSPC, on the file system */
    uint64_t available; /* -ENOSPC: bytes that the folder has room for */
};

/* Creates the files, reserves their disk space (a full disk is an error here and
 * can never become a SIGBUS later), maps and touches them, starts the worker, and
 * enters KYMO_ACTIVE. On failure everything is undone, and *why (may be NULL) is
 * filled in.
 * -EINVAL, -EEXIST the folder holds a recording, -EACCES, -ENOENT, -ENOTDIR,
 * -ENOSPC, -EDQUOT, -EROFS, -EFBIG (a limit on file sizes), -ENOMEM, -EAGAIN, and
 * -ENFILE if KYMO_MAX_RECORDERS are open. */
#define KYMO_MAX_RECORDERS 64u
int kymo_recorder_open(const struct kymo_options *o, struct kymo_recorder **out, struct kymo_open_error *why);

/* Ends the recording. When it returns, no more events are accepted, all segments
 * are closed and drained (discard), the files are complete, and the worker has been
 * joined. The mappings remain until kymo_recorder_close, so a late producer finds a
 * closed recorder and not unmapped memory. Returns 0 to the call that joined the
 * worker, even if the end had been requested before (stop_async, a limit), and
 * -EALREADY to later calls. -EDEADLK if the calling thread is between
 * kymo_writer_get and kymo_writer_put. In a forked child all control functions
 * except info and close return -ECHILD. */
int kymo_recorder_stop(struct kymo_recorder *r, enum kymo_reason why);

/* As stop, but returns immediately; the worker ends the recording. May be called by
 * any thread, also from a monitor callback. Idempotent. */
void kymo_recorder_stop_async(struct kymo_recorder *r, enum kymo_reason why);

/* For a recorder that has been stopped but not closed, because others may still hold r: it keeps no file any
 * more, so that the space of files that are removed is free. Its mappings become private memory, and the
 * counters stay. Idempotent. -EBUSY before the first call of stop has returned; -ENOMEM, -EAGAIN: call it
 * again. */
int kymo_recorder_let_go(struct kymo_recorder *r);

/* Stops if needed, unmaps, frees. Only when no thread can still hold r. */
void kymo_recorder_close(struct kymo_recorder *r);

/* -EALREADY if it is in that state already, -ESHUTDOWN if it is stopping. */
int kymo_recorder_pause(struct kymo_recorder *r);
int kymo_recorder_resume(struct kymo_recorder *r);

/* Copies the current contents of the pool into a new recording at dir, without
 * stopping writers: closed segments, open ones up to their last committed record, the
 * dictionary, and the counters. A segment that is overwritten during the copy is
 * left out and counted as overwritten in the meta of the copy. Also works after
 * stop, but fails with -ESHUTDOWN after let_go. *segments and *events (may be NULL)
 * return how many were copied. Errors as for open, and -EIO. A failed snapshot leaves
 * no partial recording behind. */
int kymo_recorder_snapshot(struct kymo_recorder *r, const char *dir, uint64_t *segments, uint64_t *events);

/* A copy of the counters. Each value is exact at some point during the call, but not
 * all at the same one. Valid in every state until close. */
struct kymo_info {
    enum kymo_state state;
    enum kymo_reason reason;
    enum kymo_clock clock;
    uint64_t events, bytes, sampled_out, overwritten;
    uint64_t lost[KYMO_LOSS_CAUSES];
    uint64_t dict_used, dict_bytes, dict_full;
    uint64_t memory; /* bytes mapped by open: constant, at most kymo_options.memory */
    uint64_t used;   /* bytes of these that have held records or definitions */
    uint64_t files, files_removed, events_removed;
    /* CLOCK_MONOTONIC ns: from this time on the recording is complete, except for
     * losses; the time of open while nothing has been overwritten or removed. */
    int64_t complete_from_ns;
    int64_t until_ns;       /* the same clock: now, or the time at which the recorder closed */
    int64_t wall_offset_ns; /* from CLOCK_MONOTONIC to the Unix epoch, as it was at open */
    uint64_t taken;         /* see kymo_recorder_note_taken */
    uint32_t epochs;        /* of the clock, see enum kymo_clock */
    uint32_t io_errno;
    uint32_t slots_used, n_slots;
    uint32_t n_segments, segment_bytes;
};
void kymo_recorder_info(struct kymo_recorder *r, struct kymo_info *out);
/* Counters of slot i (0 .. slots_used-1); bytes include those of its open segment.
 * -ERANGE. */
int kymo_recorder_slot(struct kymo_recorder *r, uint32_t i, struct kymo_slot *out);

/* Notes in meta that other tracers removed n of the recorder's trace patterns, flags
 * and sessions. The largest n is kept. Any thread, any time before
 * kymo_recorder_close. */
void kymo_recorder_note_taken(struct kymo_recorder *r, uint64_t n);
/* Stores the measures that are in force, see kymo_meta.measures. The text must begin with that of the
 * call before. From one thread at a time, also after the end. Returns false, and changes nothing, if it
 * is longer than KYMO_MEASURES_BYTES. */
bool kymo_recorder_note_measures(struct kymo_recorder *r, const char *text, size_t len);

/* Bytes that open will map with these options, as in kymo_info.memory; 0 if they are
 * invalid. */
uint64_t kymo_options_memory(const struct kymo_options *o);
/* The minimum of `memory` for the other options: two segments for each slot, and two
 * more. */
uint64_t kymo_options_least(const struct kymo_options *o);

/* Ends all recorders (KYMO_R_UNLOAD) and joins their workers. For unload and
 * for the halt of the node. */
void kymo_recorder_stop_all(void);

/* For the unload callback. Calls stop_all, then removes the library's thread-exit
 * hook, so that threads that exit later no longer call it. A thread that is exiting
 * now may still be in it, so the library must stay mapped (-z nodelete). Recorders
 * that are still open may only be closed. The next open sets the library up again.
 * No producer may be active. */
void kymo_recorder_library_unload(void);

#endif
