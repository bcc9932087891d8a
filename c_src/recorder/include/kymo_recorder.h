/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder engine: plain C11, knows nothing of Erlang terms. Words that
 * identify atoms are opaque 64-bit keys to it.
 *
 * Threads. Three roles:
 *   control  any thread, calls open, stop, pause, snapshot, info, close. These
 *            calls exclude each other with a mutex inside the recorder and may
 *            block (files, joining the worker): never call them from a tracee's
 *            callback.
 *   producer any thread that traces: kymo_writer_get and everything that takes
 *            a struct kymo_writer. No lock, no allocation and no system call,
 *            except for the first event of a thread in the process (one
 *            allocation) and in a recorder (its slot is taken).
 *   worker   one thread of each recorder, started by open and joined by stop:
 *            drains (discard), watches the duration limit, calibrates the clock,
 *            closes the files.
 *
 * Errors: functions return 0 or a negative errno unless said otherwise.
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
    const char *dir; /* created (0700) when missing; must not hold a recording */
    enum kymo_policy policy;
    enum kymo_clock clock;  /* asked for; monotonic is used where the counter can't be relied on */
    uint64_t memory;        /* bytes of all that open maps but caches, 56 KiB for each thread that
                             * records; see kymo_options_least */
    uint32_t segment_bytes; /* power of two, 4096 .. 1 MiB; 0 = chosen from memory and n_slots */
    uint32_t n_slots;       /* threads that may record, 1 .. 4096 */
    uint64_t dict_bytes;    /* 4096 .. 1 GiB; 0 = a twelfth of memory */
    uint32_t detail;        /* KYMO_D_*: copied to meta */
    uint32_t content_max;   /* 0 .. segment_bytes / 4, at most KYMO_CONTENT_MAX */
    uint32_t sample;        /* 1 in N, at least 1 */
    uint32_t sample_kind;   /* 0 by event, 1 by process: applied by the caller */
    uint64_t limit_bytes;   /* 0 = none; bytes of closed segments, open ones in full */
    uint64_t limit_events;  /* 0 = none; never more than this many are recorded */
    uint64_t limit_ns;      /* 0 = none; from open */
    uint64_t file_bytes;    /* discard: a data file is closed at this size; 0 = never */
    uint64_t file_ns;       /* discard: ... or at this age; 0 = never */
    uint32_t max_files;     /* discard: the oldest is removed beyond this many; 0 = keep all */
    /* Facts about the node for meta; zero and "" without a VM. */
    int64_t erl_mono_ns; /* erlang:monotonic_time(nanosecond), taken just before open */
    int64_t erl_offset_ns;
    uint32_t creation;
    const char *node;
    const char *otp_release;
    const char *erts_version;
    /* Called once by each tracing thread when it takes a slot: what is it?
     * NULL: KYMO_T_OTHER, number 0. Must not trace and not block. */
    void (*identify)(enum kymo_thread *kind, uint32_t *no);
};

/* Defaults for everything but dir. Never fails. */
void kymo_options_init(struct kymo_options *o);

/* Why open failed. */
struct kymo_open_error {
    const char *option; /* -EINVAL: the name of the member of kymo_options, else NULL */
    uint64_t needed;    /* bytes: -EINVAL of memory, the least; -ENOSPC, on the file system */
    uint64_t available; /* -ENOSPC: bytes that the file system has for this user */
};

/* Creates the files, reserves their disk space (so that a full disk is an
 * error here and never a signal later), maps and touches them, starts the
 * worker, and enters KYMO_ACTIVE. Everything is undone on failure, and *why (may
 * be NULL) filled in.
 * -EINVAL, -EEXIST the folder holds a recording, -EACCES, -ENOENT, -ENOTDIR,
 * -ENOSPC, -EDQUOT, -EROFS, -EFBIG (a limit on file sizes), -ENOMEM, -EAGAIN, and
 * -ENFILE when KYMO_MAX_RECORDERS are open. */
#define KYMO_MAX_RECORDERS 64u
int kymo_recorder_open(const struct kymo_options *o, struct kymo_recorder **out, struct kymo_open_error *why);

/* Ends the recording: no event is accepted once it returns, all segments are
 * closed, drained (discard), files complete, worker joined. The mappings stay
 * until kymo_recorder_close, so a late producer finds a closed recorder and
 * not a hole. 0 for the call that joined the worker, also when the end had been
 * asked for before (stop_async, a limit); later calls: -EALREADY. -EDEADLK when
 * the calling thread is between kymo_writer_get and kymo_writer_put. In a
 * forked child all control functions but info and close return -ECHILD. */
int kymo_recorder_stop(struct kymo_recorder *r, enum kymo_reason why);

/* As stop, but returns at once: the worker does it. Any thread, also from a
 * monitor callback. Idempotent. */
void kymo_recorder_stop_async(struct kymo_recorder *r, enum kymo_reason why);

/* Stops if needed, unmaps, frees. Only when no thread can still hold r. */
void kymo_recorder_close(struct kymo_recorder *r);

/* -EALREADY when already so, -ESHUTDOWN once stopping. */
int kymo_recorder_pause(struct kymo_recorder *r);
int kymo_recorder_resume(struct kymo_recorder *r);

/* Copies what the pool holds now into a new recording at dir, without
 * stopping writers: closed segments, open ones up to their commit, dictionary,
 * counters. A segment overwritten under the copy is left out and counted as
 * overwritten in the copy's meta. Works after stop too. *segments, *events (may
 * be NULL) say what was copied. Errors as open, -EIO. A failed snapshot leaves
 * no partial recording behind. */
int kymo_recorder_snapshot(struct kymo_recorder *r, const char *dir, uint64_t *segments, uint64_t *events);

/* A consistent-enough copy of the counters (each value is exact at some moment
 * of the call). Valid in every state until close. */
struct kymo_info {
    enum kymo_state state;
    enum kymo_reason reason;
    enum kymo_clock clock;
    uint64_t events, bytes, sampled_out, overwritten;
    uint64_t lost[KYMO_LOSS_CAUSES];
    uint64_t dict_used, dict_bytes, dict_full;
    uint64_t memory; /* bytes mapped by open: constant, at most kymo_options.memory */
    uint64_t used;   /* of these: whatever has held records or definitions */
    uint64_t files, files_removed, events_removed;
    /* CLOCK_MONOTONIC ns: from there on the recording is complete but for losses;
     * the time of open when nothing was overwritten or removed yet. */
    int64_t complete_from_ns;
    int64_t until_ns;       /* likewise: now, or when the recorder closed */
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

/* Notes in meta that n of the trace patterns, flags and sessions that the recording
 * was made with were taken away by others. The largest n is kept. Any thread, any
 * time before kymo_recorder_close. */
void kymo_recorder_note_taken(struct kymo_recorder *r, uint64_t n);

/* Bytes that the given options will map, as kymo_info.memory; 0 when they are
 * not valid. */
uint64_t kymo_options_memory(const struct kymo_options *o);
/* The least `memory` that goes with the other options: two segments for each slot,
 * and two. */
uint64_t kymo_options_least(const struct kymo_options *o);

/* Ends all recorders (KYMO_R_UNLOAD) and joins their workers. For unload and
 * for the halt of the node. */
void kymo_recorder_stop_all(void);

/* stop_all, and then takes back what the library has in the process: threads that
 * exit later no longer call it. One that is just exiting may still be in it, so
 * the library must stay mapped (-z nodelete). Recorders still open may only be
 * closed. The next open sets the library up again. No producer may be active: for
 * the unload callback. */
void kymo_recorder_library_unload(void);

#endif
