/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of the recorder, shared by the files of recorder/ only.
 *
 *   open.c      open, close
 *   options.c   defaults, checks, division of the memory
 *   registry.c  the open recorders of the process
 *   state.c     the state machine: stop, pause, resume
 *   quiesce.c   waits until no producer is between get and put
 *   pool.c      allocation and reuse of segments
 *   writer.c    the slow path of reserve; leases of the limit on events
 *   threads.c   thread tables; taking and releasing slots
 *   dict.c      the dictionary
 *   worker.c    the worker thread: duration limit, draining, the end
 *   datafile.c  data files: writing, rotation, retention
 *   giveback.c  frees the disk space of an ended pool
 *   snapshot.c  copies of a running pool
 *   files.c     folders, files with reserved space, mappings
 *   room.c      the room for files
 *   clock.c     choice, calibration and correction of the clock
 *   info.c      counters
 *   sample.c    the most frequent functions and events
 *   shed.c      names of functions, and notes of what a budget has shed
 */
#ifndef KYMO_INTERNAL_H
#define KYMO_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>

#include "kymo_writer.h"

#define KYMO_HIDDEN __attribute__((visibility("hidden")))

#if defined(__SANITIZE_THREAD__)
#define KYMO_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KYMO_TSAN 1
#endif
#endif
#ifndef KYMO_TSAN
#define KYMO_TSAN 0
#endif

#ifndef MADV_POPULATE_WRITE /* of Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

/* ---- points at which tests stop a thread -------------------------------------- */

/* Calls kymo_test_point if a test program defines it. Otherwise the weak symbol is
 * unresolved, and a point costs a comparison with a constant. No point is on the path of an
 * event that fits in the open segment. */
enum kymo_point {
    KYMO_AT_SEGMENT_RESET, /* producer: commit is 0, the header is still the old one */
    KYMO_AT_SEGMENT_OPEN,  /* producer: the header is new, commit is still 0 */
    KYMO_AT_PLACE,         /* producer: the slot has the new place, and the old seq */
    KYMO_AT_CLOCK,         /* producer: ticks look wrong; has read them, not CLOCK_MONOTONIC */
    KYMO_AT_CLAIM,         /* producer: has claimed a slot, is not yet inside get */
    KYMO_AT_QUIESCE,       /* stopper: state changed, has not yet waited for producers */
    KYMO_AT_TICKET,        /* producer: has a ticket for a place, has not examined it */
    KYMO_AT_REUSE,         /* producer: the old events are counted, commit is still the old one */
    KYMO_AT_SUM,           /* worker: has the CRC of a segment, which may be in use again */
    KYMO_AT_DRAIN,         /* worker: about to write a segment */
    KYMO_AT_CUT,           /* snapshot: positions taken, nothing copied */
    KYMO_AT_COPY,          /* snapshot: a segment copied, not yet checked */
    KYMO_AT_DICT_RESERVED, /* producer: room in the dictionary taken, nothing written */
    KYMO_AT_IDLE           /* worker: about to wait */
};
extern void kymo_test_point(enum kymo_point at) __attribute__((weak, visibility("hidden")));
#define KYMO_POINT(at) \
    do { \
        if (kymo_test_point != NULL) \
            kymo_test_point(at); \
    } while (0)

/* What membarrier(2) would return; tests let it fail. */
extern int kymo_test_membarrier(int cmd) __attribute__((weak, visibility("hidden")));

/* ---- structures --------------------------------------------------------------- */

struct kymo_mapping {
    int fd;
    void *mem;
    size_t len;
};

/* An entry of the lock-free hash table: val is claimed by compare-and-swap from 0, then key
 * is stored, then the final val (release). */
struct kymo_dict_slot {
    uint64_t key;
    uint64_t val; /* 0 free, 1 claimed, else kind << 60 | offset / 8 << 32 | id */
};

struct kymo_dict {
    uint8_t *mem; /* the mapped dict file */
    uint64_t bytes;
    struct kymo_dict_slot *table;
    uint64_t mask;
    unsigned shift;   /* from a hash to a place in the table */
    uint32_t last_id; /* atomic */
    uint64_t found;   /* entries that are in the table or being added; atomic */
};

/* The data files of a discard recorder. Used by the worker only. */
struct kymo_datafiles {
    int fd;        /* -1 = none open */
    uint64_t size; /* whole packets */
    uint64_t opened_ns;
    uint64_t oldest; /* lowest number not yet removed */
};

/* How the memory of a recorder is divided; whole pages. */
struct kymo_layout {
    uint64_t meta, dict, ring;     /* files */
    uint64_t table, writers, pool; /* private memory */
    uint64_t caches;               /* of all slots: taken by threads that record, not counted */
    uint32_t segment_bytes, n_segments;
};

/* A place of the pool that the worker has found to be full. */
struct kymo_full {
    uint64_t order;
    uint64_t place;
};

/* The pool: see pool.c. */
struct kymo_pool {
    uint8_t *mem;                               /* the mapped file */
    uint64_t *claims;                           /* by place; atomic */
    struct kymo_full *full;                     /* used by the thread that drains */
    uint64_t *closed;                           /* by slot; likewise */
    uint64_t n;                                 /* places */
    uint64_t age;                               /* tickets after which an open segment is to be changed */
    uint64_t next __attribute__((aligned(64))); /* the next ticket; atomic */
    int64_t spare;                              /* discard: free segments beyond the reserved ones; atomic */
    uint64_t sum_at;                            /* overwrite: the worker's place in its rounds */
};

/* The line that ticks are expected on. `version` is odd while it changes. */
struct kymo_clockline {
    uint32_t version;         /* atomic */
    uint32_t correcting;      /* a thread is correcting it; atomic */
    uint64_t ticks, ns, rate; /* atomic */
};

struct kymo_recorder {
    struct kymo_recorder_head head; /* first: producers read it through this address */
    struct kymo_options opt;        /* the strings in it are not kept */
    pid_t pid;                      /* of the process that opened it */
    enum kymo_clock clock;
    uint64_t t0_ns; /* CLOCK_MONOTONIC at open */
    struct kymo_layout layout;

    int dirfd;
    struct kymo_mapping meta_map, dict_map, ring_map, priv_map, cache_map;
    struct kymo_meta *meta;
    struct kymo_calib *calib;
    struct kymo_slot *slots;
    struct kymo_writer *writers;
    struct kymo_dict dict;
    struct kymo_pool pool;
    struct kymo_clockline line;
    uint64_t offset; /* of new writers, see kymo_writer.offset; atomic */

    /* Producers, once per segment, lease or thread. */
    uint64_t events_left;  /* not leased yet; atomic */
    uint64_t bytes_opened; /* of segments; atomic */
    uint64_t free_epoch;   /* renewed whenever a slot becomes free; atomic */
    uint32_t io_failing;   /* the drain can't write; atomic */

    /* Control. `ctl` protects the segments of stopped producers, snapshots, and the
     * calibration table. Lock order: registry, join_lock, ctl. */
    pthread_mutex_t ctl, join_lock;
    bool joined; /* under join_lock */
    pthread_t worker;

    /* Worker. */
    uint32_t wake; /* futex word, counts requests */
    struct kymo_datafiles files;
    struct kymo_calib line_from; /* the point from which the rate is measured; under ctl */
    uint64_t calib_step_ns;      /* under ctl */
    uint64_t calib_point_ns;     /* of the next point in the table; under ctl */
    uint64_t calib_next_ns;      /* of the next check of the clock; atomic: snapshots check, too */
};

/* ---- options.c ----------------------------------------------------------------- */

/* Returns the name of the first bad option and fills in *why; or NULL and the layout. */
KYMO_HIDDEN const char *kymo_options_check(const struct kymo_options *o, struct kymo_layout *l,
                                           struct kymo_open_error *why);
/* Bytes of private memory that count as `memory`. */
static inline uint64_t kymo_layout_private(const struct kymo_layout *l)
{
    return l->table + l->writers + l->pool;
}

/* ---- registry.c ----------------------------------------------------------------- */

/* While the registry is locked, no recorder is closed. kymo_registry_at returns the recorder
 * at this index if it has this generation, else NULL. */
KYMO_HIDDEN void kymo_registry_lock(void);
KYMO_HIDDEN void kymo_registry_unlock(void);
KYMO_HIDDEN struct kymo_recorder *kymo_registry_at(uint32_t index, uint64_t generation);
/* Reserves an index for a recorder, until it is set to NULL. Returns 0, -ENFILE, or an error
 * of kymo_threads_init. */
KYMO_HIDDEN int kymo_registry_take(uint32_t *index);
KYMO_HIDDEN void kymo_registry_set(uint32_t index, struct kymo_recorder *r);

/* ---- state.c -------------------------------------------------------------------- */

/* Returns 0 if the caller may use a control function, else the error for it to return. */
KYMO_HIDDEN int kymo_may_control(struct kymo_recorder *r);
KYMO_HIDDEN enum kymo_state kymo_state_of(const struct kymo_recorder *r);
/* IDLE -> ACTIVE, by open. */
KYMO_HIDDEN void kymo_enter_active(struct kymo_recorder *r);
/* Enters KYMO_STOPPING; false if the state was already that or a later one. Any thread. */
KYMO_HIDDEN bool kymo_begin_stop(struct kymo_recorder *r, enum kymo_reason why);
/* Enters KYMO_CLOSED. By the worker, when all files are complete. */
KYMO_HIDDEN void kymo_enter_closed(struct kymo_recorder *r);
/* Copies the state to meta, with ctl held. */
KYMO_HIDDEN void kymo_publish_state(struct kymo_recorder *r);

/* ---- quiesce.c ------------------------------------------------------------------ */

/* True if membarrier(2) can be used to order `busy` and `state`. */
KYMO_HIDDEN bool kymo_membarrier_works(void);
/* Waits until no producer is between get and put. Call it after the state has changed from
 * KYMO_ACTIVE. */
KYMO_HIDDEN void kymo_quiesce(struct kymo_recorder *r);

/* ---- pool.c --------------------------------------------------------------------- */

KYMO_HIDDEN uint64_t kymo_pool_bytes(uint64_t n_segments, uint64_t n_slots);
/* mem has kymo_pool_bytes bytes, all zero. */
KYMO_HIDDEN void kymo_pool_init(struct kymo_recorder *r, void *mem);
/* Takes a segment for w. Its old events are counted as overwritten, commit is 0, the header
 * is still the old one. *order is the number of this use. Returns NULL if none is free
 * (discard). By the producer between get and put, or the thread that quiesced. */
KYMO_HIDDEN struct kymo_segment *kymo_pool_take(struct kymo_writer *w, uint64_t *order);
/* Releases the closed segment of w for reuse. */
KYMO_HIDDEN void kymo_pool_release(struct kymo_writer *w);
/* True if the open segment of w is too old (pool.c). Call it after each store of `end`, which
 * may have overwritten the request of another thread. */
KYMO_HIDDEN bool kymo_pool_aged(const struct kymo_writer *w);
/* Raises slot->gone_until. Any thread. */
KYMO_HIDDEN void kymo_gone(struct kymo_slot *slot, uint64_t ticks);
/* Marks the segment as being opened for this order, without a CRC. By the thread that took
 * it. */
KYMO_HIDDEN void kymo_pool_no_crc(struct kymo_recorder *r, struct kymo_segment *s, uint64_t order);
/* Adds CRCs to at most `most` closed segments (policy overwrite). Returns how many. By the
 * worker only. */
KYMO_HIDDEN unsigned kymo_pool_sum(struct kymo_recorder *r, unsigned most);
/* Discard: lists the full segments in pool.full in the order of their use, those of each
 * thread without gaps. Returns how many. By the worker only. */
KYMO_HIDDEN uint64_t kymo_pool_full(struct kymo_recorder *r);
KYMO_HIDDEN void kymo_pool_drained(struct kymo_recorder *r, uint64_t place);
/* After all producers have ended. True if place has records that are in no data file. */
KYMO_HIDDEN bool kymo_pool_is_full(const struct kymo_recorder *r, uint64_t place);
KYMO_HIDDEN bool kymo_pool_is_open(const struct kymo_recorder *r, uint64_t place);
/* The disk space of the place was freed: it is never taken or read again. */
KYMO_HIDDEN void kymo_pool_retire(struct kymo_recorder *r, uint64_t place);
KYMO_HIDDEN bool kymo_pool_is_retired(const struct kymo_recorder *r, uint64_t place);

/* ---- writer.c ------------------------------------------------------------------ */

KYMO_HIDDEN void kymo_writer_init(struct kymo_recorder *r, uint32_t index);
/* By the owner of the segment: the producer between get and put, or the thread that
 * quiesced. */
KYMO_HIDDEN void kymo_segment_close(struct kymo_writer *w);
/* Writes notes of the losses that have none yet. Opens a segment for them if `open` and if
 * there is room. False if losses without a note are left. */
KYMO_HIDDEN bool kymo_write_losses(struct kymo_writer *w, uint64_t now, bool open);
/* Writes a note KYMO_E_STATE if the open segment has room. */
KYMO_HIDDEN void kymo_write_state(struct kymo_writer *w, enum kymo_state s, uint64_t now);
KYMO_HIDDEN void kymo_lease_return(struct kymo_writer *w);

/* ---- threads.c ------------------------------------------------------------------ */

/* With the registry locked. */
KYMO_HIDDEN int kymo_threads_init(void);
KYMO_HIDDEN void kymo_threads_exit(void);
/* Returns a new, unique value for free_epoch. */
KYMO_HIDDEN uint64_t kymo_next_epoch(void);
/* True if the calling thread is between get and put of r. */
KYMO_HIDDEN bool kymo_writer_inside(struct kymo_recorder *r);

/* ---- dict.c ---------------------------------------------------------------------- */

/* Bytes of the table for a dictionary of this size. */
KYMO_HIDDEN uint64_t kymo_dict_table_bytes(uint64_t dict_bytes);
/* mem and table are zero; bytes is a multiple of 8. */
KYMO_HIDDEN void kymo_dict_init(struct kymo_dict *d, void *mem, uint64_t bytes, void *table);

/* The atom ids and the arity in a function's key of the table. */
KYMO_HIDDEN void kymo_dict_mfa_of_key(uint64_t key, uint32_t *module, uint32_t *function, uint32_t *arity);
/* Appends an entry that is not in the table. False if there is no room, which is counted. */
KYMO_HIDDEN bool kymo_dict_note(struct kymo_recorder *r, enum kymo_dict_kind kind, const void *payload,
                                size_t len);

/* ---- shed.c ---------------------------------------------------------------------- */

/* Fills in the words of the atoms and the arities of n functions, given by their ids in v.
 * Scans the whole table. */
struct kymo_loud;
KYMO_HIDDEN void kymo_dict_find_functions(const struct kymo_dict *d, struct kymo_loud *v, uint32_t n);

/* ---- snapshot.c ------------------------------------------------------------------ */

/* Copies memory to which a producer may be writing. The caller detects a torn copy afterwards
 * (kymo_format.h). len is a multiple of 8. */
KYMO_HIDDEN void kymo_copy_racy(void *to, const void *from, size_t len);

/* ---- worker.c -------------------------------------------------------------------- */

KYMO_HIDDEN void *kymo_worker(void *recorder);
KYMO_HIDDEN void kymo_wake(struct kymo_recorder *r);

/* ---- datafile.c ------------------------------------------------------------------ */

KYMO_HIDDEN int kymo_datafile_write(struct kymo_recorder *r, const struct kymo_segment *seg);
/* Closes the data file if it has reached its maximum age. */
KYMO_HIDDEN void kymo_datafile_age(struct kymo_recorder *r, uint64_t now_ns);
KYMO_HIDDEN void kymo_datafile_close(struct kymo_recorder *r);
/* Makes all data files durable, at the end. Returns 0 or the last error. */
KYMO_HIDDEN int kymo_datafile_sync(struct kymo_recorder *r);

/* ---- giveback.c ------------------------------------------------------------------ */

enum kymo_giveback {
    KYMO_GIVE_UNUSED,  /* places in which no segment was opened */
    KYMO_GIVE_DRAINED, /* also drained segments, except one for each thread with losses to note */
    KYMO_GIVE_ALL      /* all that is drained or unused */
};
/* Frees disk space of the ring file, if the file system can. By the worker, after
 * kymo_quiesce, with ctl held. Freed places read as zero from the file, and must not be
 * accessed through the mapping again. */
KYMO_HIDDEN void kymo_ring_give_back(struct kymo_recorder *r, enum kymo_giveback what);

/* ---- seccomp.c ------------------------------------------------------------------- */

/* True if a seccomp filter decides on the system calls of this process, or if that can't be found out. Looks
 * once. Any thread. */
KYMO_HIDDEN bool kymo_filtered(void);
/* The id of the calling thread in the operating system; 0 if unknown. */
KYMO_HIDDEN uint64_t kymo_thread_id(void);

/* ---- files.c --------------------------------------------------------------------- */

/* Opens the folder, and creates it if it does not exist (*created). Returns a descriptor;
 * -EEXIST if the folder contains a recording. */
KYMO_HIDDEN int kymo_dir_open(const char *dir, bool *created);
/* Bytes that new files of this file system can take; UINT64_MAX if it does not report that, or may not be
 * asked. In a tmpfs not more than kymo_memory_room. */
KYMO_HIDDEN uint64_t kymo_file_room(int fd);
/* Whether /proc/self/mountinfo, or the file of that format, says that device `dev` is a tmpfs. */
KYMO_HIDDEN bool kymo_mounted_in_memory(const char *mountinfo, dev_t dev);
/* The number behind `name` at the beginning of a line of a file; `otherwise` if there is none. */
KYMO_HIDDEN uint64_t kymo_file_number(const char *path, const char *name, uint64_t otherwise);
/* Half of the bytes that this process can still have before the kernel kills one: what is available on the
 * machine, or what the memory cgroups leave, of version 1 or 2. UINT64_MAX if both are unknown. The arguments
 * are /proc and /sys/fs/cgroup. */
KYMO_HIDDEN uint64_t kymo_memory_room(const char *proc, const char *cgroup);
/* Creates a file of len zero bytes and reserves its space. */
KYMO_HIDDEN int kymo_file_create(int dirfd, const char *name, uint64_t len);
/* The same; also maps it and touches its pages. On failure nothing is left behind. */
KYMO_HIDDEN int kymo_mapping_create(int dirfd, const char *name, uint64_t len, struct kymo_mapping *map);
/* Maps private memory. Unless `touched`, pages are allocated on their first use. */
KYMO_HIDDEN int kymo_mapping_private(uint64_t len, bool touched, struct kymo_mapping *map);
KYMO_HIDDEN void kymo_mapping_close(struct kymo_mapping *map);
/* Replaces the mapping of a file, atomically and at the same address, by private memory: zeros, or a copy of
 * its content if `copy`. Closes the file. Does nothing if there is no file. */
KYMO_HIDDEN int kymo_mapping_let_go(struct kymo_mapping *map, bool copy);
/* Frees the disk space of len bytes, which then read as zero; the size of the file does not
 * change. Does nothing if the file system does not support it. */
KYMO_HIDDEN void kymo_file_punch(int fd, uint64_t offset, uint64_t len);
KYMO_HIDDEN int kymo_write_all(int fd, const void *p, size_t len, uint64_t offset);
/* Between these two, exceeding RLIMIT_FSIZE is an error and raises no signal. */
struct kymo_sigs {
    int blocked;
    int pending;
};
KYMO_HIDDEN void kymo_no_sigxfsz(struct kymo_sigs *s);
KYMO_HIDDEN void kymo_allow_sigxfsz(const struct kymo_sigs *s);

/* ---- clock.c --------------------------------------------------------------------- */

KYMO_HIDDEN enum kymo_clock kymo_clock_choose(enum kymo_clock asked);
/* Ticks and CLOCK_MONOTONIC, read together. */
KYMO_HIDDEN struct kymo_calib kymo_clock_pair(enum kymo_clock c, uint64_t offset);
/* The line at open, from the first two points of the table. */
KYMO_HIDDEN void kymo_clock_start(struct kymo_recorder *r);
enum kymo_calibration {
    KYMO_CALIB_LOOK,  /* adds a point if one is due, or if the counter has left its line */
    KYMO_CALIB_POINT, /* adds a point */
    KYMO_CALIB_END    /* adds the last point */
};
/* Checks the clock, appends a point to the table, refines the rate, and thins the table if it
 * is full. With ctl held. */
KYMO_HIDDEN void kymo_calibrate(struct kymo_recorder *r, enum kymo_calibration what);
/* now: ticks that are implausible after those of the thread's last event. Returns them if
 * they agree with CLOCK_MONOTONIC. Otherwise returns ticks that do, corrects the offset of
 * all threads, and increases meta->epochs. By producers between get and put. */
KYMO_HIDDEN uint64_t kymo_clock_correct(struct kymo_writer *w, uint64_t now);
/* CLOCK_MONOTONIC at `ticks`, which may have been read some time ago. By the owner of the
 * writer. */
KYMO_HIDDEN int64_t kymo_clock_mono_at(const struct kymo_writer *w, uint64_t ticks);
/* Converts ticks to CLOCK_MONOTONIC ns with the present line. Any thread. */
KYMO_HIDDEN int64_t kymo_clock_ns_of(const struct kymo_recorder *r, uint64_t ticks);
/* Now, in ticks of this recorder. */
KYMO_HIDDEN uint64_t kymo_clock_now(const struct kymo_recorder *r);

/* A release fence. ThreadSanitizer does not model fences; the machines that it runs on keep
 * the order of stores. */
static inline void kymo_release_fence(void)
{
#if KYMO_TSAN
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
#else
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/* Orders stores before with loads after. */
static inline void kymo_full_fence(void)
{
#if KYMO_TSAN
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static inline void kymo_acquire_fence(void)
{
#if KYMO_TSAN
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
#else
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

/* ---- small ------------------------------------------------------------------------- */

static inline struct kymo_segment *kymo_segment_at(const struct kymo_recorder *r, uint64_t place)
{
    return (struct kymo_segment *)(void *)(r->pool.mem + place * r->layout.segment_bytes);
}

/* Atomic maximum. */
static inline void kymo_raise(uint64_t *p, uint64_t v)
{
    uint64_t old = __atomic_load_n(p, __ATOMIC_RELAXED);

    while (old < v && !__atomic_compare_exchange_n(p, &old, v, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static inline uint64_t kymo_round8(uint64_t n)
{
    return (n + 7) & ~(uint64_t)7;
}

#define kymo_get(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define kymo_get_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define kymo_set(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define kymo_set_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define kymo_add(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)

#endif
