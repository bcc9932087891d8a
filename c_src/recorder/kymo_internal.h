/* SPDX-License-Identifier: Apache-2.0
 *
 * What the source files of the recorder share. Nobody outside recorder/
 * includes this.
 *
 *   open.c      open, close
 *   options.c   defaults, checks, how the memory is divided
 *   registry.c  which recorders there are
 *   state.c     the state machine: stop, pause, resume
 *   quiesce.c   waits until no producer is inside get .. put
 *   pool.c      the segments: who has which
 *   writer.c    the slow half of reserve, leases of the limit on events
 *   threads.c   thread tables, taking and leaving slots
 *   dict.c      the dictionary
 *   worker.c    the worker thread: limits in time, draining, the end
 *   datafile.c  data files: writing, rotation, retention
 *   giveback.c  disk space of a pool that is no longer written to
 *   snapshot.c  copies of a living pool
 *   files.c     folders, files with reserved space, mappings
 *   clock.c     which clock, its calibration and correction
 *   info.c      counters
 *   sample.c    which functions and events there are most of
 *   shed.c      the names of functions, and notes of what a budget has shed
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

/* ---- places where tests stop a thread ---------------------------------------- */

/* A test program that defines kymo_test_point is called there; all others leave
 * the weak symbol unresolved and pay one test against a constant. Never on the
 * path of an event that fits in the open segment. */
enum kymo_point {
    KYMO_AT_SEGMENT_RESET, /* producer: commit is 0, the header is still the old one */
    KYMO_AT_SEGMENT_OPEN,  /* producer: the header is new, commit is still 0 */
    KYMO_AT_PLACE,         /* producer: the slot has the new place, and the old seq */
    KYMO_AT_CLOCK,         /* producer: ticks look wrong; has read them, not CLOCK_MONOTONIC */
    KYMO_AT_CLAIM,         /* producer: has claimed a slot, is not yet inside get */
    KYMO_AT_QUIESCE,       /* stopper: state changed, has not yet waited for producers */
    KYMO_AT_TICKET,        /* producer: has a ticket for a place, has not looked at it */
    KYMO_AT_REUSE,         /* producer: the old events are counted, commit is still theirs */
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

/* Lock-free hash table entry: val is claimed by CAS from 0, key follows, then
 * the final val (release). */
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
    uint64_t found;   /* entries that the table has or will have; atomic */
};

/* The data files of a discard recorder; used by the worker alone. */
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
    struct kymo_full *full;                     /* by whoever drains */
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
    uint32_t correcting;      /* a thread is at it; atomic */
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

    /* Control. `ctl` is held by whoever owns the segments of stopped producers, by a
     * snapshot, and for the calibration table. Lock order: registry, join_lock, ctl. */
    pthread_mutex_t ctl, join_lock;
    bool joined; /* under join_lock */
    pthread_t worker;

    /* Worker. */
    uint32_t wake; /* futex word, counts requests */
    struct kymo_datafiles files;
    struct kymo_calib line_from; /* since then the counter is on its line; under ctl */
    uint64_t calib_step_ns;      /* under ctl */
    uint64_t calib_point_ns;     /* of the next point in the table; under ctl */
    uint64_t calib_next_ns;      /* of the next look at the clock; atomic: a snapshot looks too */
};

/* ---- options.c ----------------------------------------------------------------- */

/* The first bad option (*why filled in), or NULL and the layout. */
KYMO_HIDDEN const char *kymo_options_check(const struct kymo_options *o, struct kymo_layout *l,
                                           struct kymo_open_error *why);
/* Of the private memory that is counted. */
static inline uint64_t kymo_layout_private(const struct kymo_layout *l)
{
    return l->table + l->writers + l->pool;
}

/* ---- registry.c ----------------------------------------------------------------- */

/* While the registry is locked no recorder is closed. kymo_registry_at: the one
 * at this place if it still is of this generation, else NULL. */
KYMO_HIDDEN void kymo_registry_lock(void);
KYMO_HIDDEN void kymo_registry_unlock(void);
KYMO_HIDDEN struct kymo_recorder *kymo_registry_at(uint32_t index, uint64_t generation);
/* A place for a recorder, kept until it is set to NULL. 0, -ENFILE, or an error of
 * kymo_threads_init. */
KYMO_HIDDEN int kymo_registry_take(uint32_t *index);
KYMO_HIDDEN void kymo_registry_set(uint32_t index, struct kymo_recorder *r);

/* ---- state.c -------------------------------------------------------------------- */

/* 0 when the caller may use a control function, else what it returns. */
KYMO_HIDDEN int kymo_may_control(struct kymo_recorder *r);
KYMO_HIDDEN enum kymo_state kymo_state_of(const struct kymo_recorder *r);
/* IDLE -> ACTIVE, by open. */
KYMO_HIDDEN void kymo_enter_active(struct kymo_recorder *r);
/* Enters KYMO_STOPPING; false when it was already there. Any thread. */
KYMO_HIDDEN bool kymo_begin_stop(struct kymo_recorder *r, enum kymo_reason why);
/* KYMO_CLOSED, by the worker, when all files are complete. */
KYMO_HIDDEN void kymo_enter_closed(struct kymo_recorder *r);
/* Copies the state to meta, with ctl held. */
KYMO_HIDDEN void kymo_publish_state(struct kymo_recorder *r);

/* ---- quiesce.c ------------------------------------------------------------------ */

/* True when membarrier can be relied on to order `busy` and `state`. */
KYMO_HIDDEN bool kymo_membarrier_works(void);
/* After the state was changed away from KYMO_ACTIVE: returns once no producer is
 * between get and put. */
KYMO_HIDDEN void kymo_quiesce(struct kymo_recorder *r);

/* ---- pool.c --------------------------------------------------------------------- */

KYMO_HIDDEN uint64_t kymo_pool_bytes(uint64_t n_segments, uint64_t n_slots);
/* mem is kymo_pool_bytes of zeros. */
KYMO_HIDDEN void kymo_pool_init(struct kymo_recorder *r, void *mem);
/* A segment for w, with all that it held before accounted for, commit 0 and the
 * header still the old one; its number in *order. NULL: discard, and there is none.
 * The producer inside get, or whoever quiesced. */
KYMO_HIDDEN struct kymo_segment *kymo_pool_take(struct kymo_writer *w, uint64_t *order);
/* The segment of w, which is closed: others may have it. */
KYMO_HIDDEN void kymo_pool_release(struct kymo_writer *w);
/* The open segment of w has had its share of the pool's time. To be asked after each
 * store of `end`: a request of others may be lost under it. */
KYMO_HIDDEN bool kymo_pool_aged(const struct kymo_writer *w);
/* Raises slot->gone_until. Any thread. */
KYMO_HIDDEN void kymo_gone(struct kymo_slot *slot, uint64_t ticks);
/* The segment is being opened for this order and has no CRC. Whoever took it. */
KYMO_HIDDEN void kymo_pool_no_crc(struct kymo_recorder *r, struct kymo_segment *s, uint64_t order);
/* Adds CRCs to at most `most` closed segments (policy overwrite); how many. The
 * worker alone. */
KYMO_HIDDEN unsigned kymo_pool_sum(struct kymo_recorder *r, unsigned most);
/* Discard: the full segments in pool.full, in the order of their use; how many.
 * Of each thread without gaps. By the worker. */
KYMO_HIDDEN uint64_t kymo_pool_full(struct kymo_recorder *r);
KYMO_HIDDEN void kymo_pool_drained(struct kymo_recorder *r, uint64_t place);
/* After the end of all producers. True: place holds what no data file has. */
KYMO_HIDDEN bool kymo_pool_is_full(const struct kymo_recorder *r, uint64_t place);
KYMO_HIDDEN bool kymo_pool_is_open(const struct kymo_recorder *r, uint64_t place);
/* The place's space on disk was given back: it is never taken or read again. */
KYMO_HIDDEN void kymo_pool_retire(struct kymo_recorder *r, uint64_t place);
KYMO_HIDDEN bool kymo_pool_is_retired(const struct kymo_recorder *r, uint64_t place);

/* ---- writer.c ------------------------------------------------------------------ */

KYMO_HIDDEN void kymo_writer_init(struct kymo_recorder *r, uint32_t index);
/* The owner of the segment only (the producer inside get, or whoever quiesced). */
KYMO_HIDDEN void kymo_segment_close(struct kymo_writer *w);
/* Tells losses that the stream does not know yet; opens a segment when `open` and
 * there is room. False when something is left to tell. */
KYMO_HIDDEN bool kymo_write_losses(struct kymo_writer *w, uint64_t now, bool open);
/* A KYMO_E_STATE note, where the open segment has room. */
KYMO_HIDDEN void kymo_write_state(struct kymo_writer *w, enum kymo_state s, uint64_t now);
KYMO_HIDDEN void kymo_lease_return(struct kymo_writer *w);

/* ---- threads.c ------------------------------------------------------------------ */

/* With the registry locked. */
KYMO_HIDDEN int kymo_threads_init(void);
KYMO_HIDDEN void kymo_threads_exit(void);
/* A number that no recorder had before as free_epoch. */
KYMO_HIDDEN uint64_t kymo_next_epoch(void);
/* The calling thread is inside get .. put of r. */
KYMO_HIDDEN bool kymo_writer_inside(struct kymo_recorder *r);

/* ---- dict.c ---------------------------------------------------------------------- */

/* Of the table of a dictionary of that size. */
KYMO_HIDDEN uint64_t kymo_dict_table_bytes(uint64_t dict_bytes);
/* mem and table are zero; bytes is a multiple of 8. */
KYMO_HIDDEN void kymo_dict_init(struct kymo_dict *d, void *mem, uint64_t bytes, void *table);

/* From the key of a function in the table: ids of atoms. */
KYMO_HIDDEN void kymo_dict_mfa_of_key(uint64_t key, uint32_t *module, uint32_t *function, uint32_t *arity);
/* Appends an entry that nothing refers to. False: no room, which is counted. */
KYMO_HIDDEN bool kymo_dict_note(struct kymo_recorder *r, enum kymo_dict_kind kind, const void *payload,
                                size_t len);

/* ---- shed.c ---------------------------------------------------------------------- */

/* The words of the atoms and the arity of functions, by their ids in v; n of them, in any
 * order, which stays. Goes through the whole table. */
struct kymo_loud;
KYMO_HIDDEN void kymo_dict_find_functions(const struct kymo_dict *d, struct kymo_loud *v, uint32_t n);

/* ---- snapshot.c ------------------------------------------------------------------ */

/* Copies what a producer may be writing. What was torn is found out afterwards
 * (kymo_format.h). len is a multiple of 8. */
KYMO_HIDDEN void kymo_copy_racy(void *to, const void *from, size_t len);

/* ---- worker.c -------------------------------------------------------------------- */

KYMO_HIDDEN void *kymo_worker(void *recorder);
KYMO_HIDDEN void kymo_wake(struct kymo_recorder *r);

/* ---- datafile.c ------------------------------------------------------------------ */

KYMO_HIDDEN int kymo_datafile_write(struct kymo_recorder *r, const struct kymo_segment *seg);
/* Closes the file that is too old. */
KYMO_HIDDEN void kymo_datafile_age(struct kymo_recorder *r, uint64_t now_ns);
KYMO_HIDDEN void kymo_datafile_close(struct kymo_recorder *r);
/* Makes all data files durable; at the end. 0, or the last error. */
KYMO_HIDDEN int kymo_datafile_sync(struct kymo_recorder *r);

/* ---- giveback.c ------------------------------------------------------------------ */

enum kymo_giveback {
    KYMO_GIVE_UNUSED,  /* places that no segment was opened in */
    KYMO_GIVE_DRAINED, /* these and drained segments, but a place for each thread with losses to tell */
    KYMO_GIVE_ALL      /* all but what is not drained */
};
/* Frees disk space of the ring file, where the file system can. By the worker,
 * after kymo_quiesce, with ctl held. What was given back reads as zero from the
 * file, and is not touched in the mapping again. */
KYMO_HIDDEN void kymo_ring_give_back(struct kymo_recorder *r, enum kymo_giveback what);

/* ---- files.c --------------------------------------------------------------------- */

/* Opens the folder, creating it when missing (*created). -EEXIST when it holds a
 * recording. Returns a descriptor. */
KYMO_HIDDEN int kymo_dir_open(const char *dir, bool *created);
/* A new file of len bytes, zero, with its disk space reserved. */
KYMO_HIDDEN int kymo_file_create(int dirfd, const char *name, uint64_t len);
/* The same, mapped and touched. Nothing is left behind on failure. */
KYMO_HIDDEN int kymo_mapping_create(int dirfd, const char *name, uint64_t len, struct kymo_mapping *map);
/* Memory of the process; touched, or taken page by page by whoever uses it. */
KYMO_HIDDEN int kymo_mapping_private(uint64_t len, bool touched, struct kymo_mapping *map);
KYMO_HIDDEN void kymo_mapping_close(struct kymo_mapping *map);
/* Gives back the space of len bytes, which then are zero; the size stays. Does
 * nothing where the file system can't. */
KYMO_HIDDEN void kymo_file_punch(int fd, uint64_t offset, uint64_t len);
KYMO_HIDDEN int kymo_write_all(int fd, const void *p, size_t len, uint64_t offset);
/* Exceeding RLIMIT_FSIZE is to be an error and not a signal. */
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
    KYMO_CALIB_LOOK,  /* a point when it is time for one, or when the counter has left its line */
    KYMO_CALIB_POINT, /* a point in any case */
    KYMO_CALIB_END    /* the last point */
};
/* Looks at the clock and appends a point to the table; refines the rate; thins the
 * table out when it is full. With ctl held. */
KYMO_HIDDEN void kymo_calibrate(struct kymo_recorder *r, enum kymo_calibration what);
/* now: ticks that differ suspiciously from those of the thread's last event. The
 * same when CLOCK_MONOTONIC agrees, else ticks that do; then the offset is corrected
 * for all, and meta->epochs is higher than before. Producers inside get. */
KYMO_HIDDEN uint64_t kymo_clock_correct(struct kymo_writer *w, uint64_t now);
/* CLOCK_MONOTONIC at `ticks`, which were read a while ago: perhaps the system has
 * taken the processor away since. The owner of the writer. */
KYMO_HIDDEN int64_t kymo_clock_mono_at(const struct kymo_writer *w, uint64_t ticks);
/* Ticks as CLOCK_MONOTONIC ns, by the present line. Any thread. */
KYMO_HIDDEN int64_t kymo_clock_ns_of(const struct kymo_recorder *r, uint64_t ticks);
/* Now, in ticks of this recorder. */
KYMO_HIDDEN uint64_t kymo_clock_now(const struct kymo_recorder *r);

/* A release fence. ThreadSanitizer does not model fences; its machines keep the
 * order of stores. */
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

/* The highest of both. Atomic. */
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
