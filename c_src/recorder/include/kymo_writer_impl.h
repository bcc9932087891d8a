/* SPDX-License-Identifier: Apache-2.0
 *
 * The inline functions of kymo_writer.h: the path of each traced event. Included by
 * kymo_writer.h only. Users of the writer must not access these structures.
 *
 * Memory order. A writer belongs to the thread that took its slot. These members are
 * shared:
 *   busy      stored by the producer around its critical section. A thread that stops or
 *             pauses the recorder changes `state`, makes every producer pass a barrier
 *             (membarrier, or seq_cst on both sides if head.fenced), and waits until busy
 *             is 0. From then on it owns the writer.
 *   commit    in the segment: release, after every record (kymo_format.h).
 *   counters  in the slot: relaxed, one writer.
 *   end       any thread may store 0, relaxed, so that the producer's next event takes
 *             kymo_reserve_slow (pool.c). If a store of the producer overwrites the 0, the
 *             request is repeated one lap later.
 *   offset    stored by the thread that corrects the clock (clock.c), relaxed.
 */
#ifndef KYMO_WRITER_IMPL_H
#define KYMO_WRITER_IMPL_H

#ifndef KYMO_WRITER_H
#error "include kymo_writer.h"
#endif

#include <time.h>

#define KYMO_LIKELY(x) __builtin_expect(!!(x), 1)
#define KYMO_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* The part of struct kymo_recorder that producers read. */
struct kymo_recorder_head {
    uint32_t state;      /* enum kymo_state | enum kymo_reason << 8; atomic */
    uint32_t index;      /* in the thread tables, 0 .. KYMO_MAX_RECORDERS-1 */
    uint64_t generation; /* differs between all recorders of the process, never 0 */
    uint32_t fenced;     /* membarrier can't be used: order busy and state with seq_cst */
    uint32_t dict_full;  /* no further definition will find room; atomic */
};

#define KYMO_MFA_CACHE_BITS 11
#define KYMO_ATOM_CACHE_BITS 9

struct kymo_cached_mfa {
    uint64_t m, f;
    uint32_t arity, id;
};
struct kymo_cached_atom {
    uint64_t word;
    uint32_t id;
    uint32_t unused;
};

#define KYMO_CACHES_BYTES \
    ((sizeof(struct kymo_cached_mfa) << KYMO_MFA_CACHE_BITS) + \
     (sizeof(struct kymo_cached_atom) << KYMO_ATOM_CACHE_BITS))

struct kymo_writer {
    /* Every event. */
    uint8_t *cur;             /* next free byte of the open segment */
    uintptr_t end;            /* stop here; <= cur forces the slow path; atomic */
    uint64_t last;            /* time of the last record, or ts_begin */
    uint64_t pending;         /* time of the reserved record */
    uint64_t events_stop;     /* value of slot->events at which the lease is used up */
    struct kymo_segment *seg; /* the open segment; NULL = none */
    struct kymo_slot *slot;   /* in the mapped meta */
    uint32_t busy;            /* inside get .. put; atomic */
    uint32_t counter;         /* the clock is the counter of the processor */

    /* Most events. */
    struct kymo_cached_mfa *mfas;
    struct kymo_cached_atom *atoms;
    struct kymo_recorder *rec;
    uint64_t sample_left; /* events to leave out before the next one is taken */
    uint64_t rng;
    uint32_t sample; /* 1 = take all */
    uint32_t index;  /* of the slot */
    uint64_t offset; /* from the counter to ticks; atomic */
    uint64_t unused;

    /* Once per segment. */
    uint8_t *seg_end; /* end of the open segment */
    uint64_t seq;     /* last segment opened, 0 = none yet */
    uint64_t order;   /* of the open segment */
    uint64_t lost_total;
    uint64_t noted[KYMO_LOSS_CAUSES]; /* losses already noted in the stream */
    uint64_t lost_first, lost_last;   /* ticks of the losses not yet noted; 0 = none, or unknown */
    uint32_t owner;                   /* 1 = a thread has the slot; atomic */
    uint32_t thread_kind, thread_no;

    /* Shared with the worker (policy discard). */
    uint32_t own_free;   /* reserved segments that this thread may still take; atomic */
    uint64_t closed_seq; /* segments up to this one are complete; release by the producer */
    uint64_t pool_until; /* ticks of the newest event that only data files have; atomic */
} __attribute__((aligned(64)));

/* A thread's writers, one per open recorder. */
struct kymo_tls_entry {
    uint64_t generation; /* 0 = free */
    struct kymo_writer *writer;
    uint64_t refused; /* no slot was left at this free_epoch of the recorder */
};
struct kymo_tls {
    struct kymo_tls_entry e[KYMO_MAX_RECORDERS];
    uint32_t in_use; /* atomic */
    uint32_t epoch;  /* of the key whose destructor will release this table */
};
/* Never NULL: threads start with an empty table that all share. */
extern _Thread_local struct kymo_tls *kymo_tls_current
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

struct kymo_writer *kymo_writer_attach(struct kymo_recorder *r, bool count);
void kymo_writer_reentered(struct kymo_writer *w);
uint8_t *kymo_reserve_slow(struct kymo_writer *w, unsigned id, size_t max_body, uint64_t now);
void kymo_lease_spent(struct kymo_writer *w);
void kymo_sample_next(struct kymo_writer *w);
uint32_t kymo_dict_atom_shared(struct kymo_writer *w, uint64_t word);
uint32_t kymo_dict_mfa_shared(struct kymo_writer *w, uint64_t m, uint64_t f, uint32_t arity);

static inline const struct kymo_recorder_head *kymo_head(const struct kymo_recorder *r)
{
    return (const struct kymo_recorder_head *)(const void *)r;
}

static inline bool kymo_recorder_active(const struct kymo_recorder *r)
{
    return __atomic_load_n(&kymo_head(r)->state, __ATOMIC_RELAXED) == KYMO_ACTIVE;
}

static inline bool kymo_recorder_ended(const struct kymo_recorder *r)
{
    return __atomic_load_n(&kymo_head(r)->state, __ATOMIC_RELAXED) >= KYMO_STOPPING;
}

/* Enters the critical section; false when the recorder is not active. */
static inline bool kymo_writer_enter(struct kymo_writer *w, const struct kymo_recorder_head *h)
{
    uint32_t state;

    if (KYMO_UNLIKELY(h->fenced)) {
        (void)__atomic_exchange_n(&w->busy, 1, __ATOMIC_SEQ_CST);
        state = __atomic_load_n(&h->state, __ATOMIC_SEQ_CST);
    } else {
        __atomic_store_n(&w->busy, 1, __ATOMIC_RELAXED);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        state = __atomic_load_n(&h->state, __ATOMIC_ACQUIRE);
    }
    if (KYMO_LIKELY(state == KYMO_ACTIVE))
        return true;
    __atomic_store_n(&w->busy, 0, __ATOMIC_RELEASE);
    return false;
}

static inline struct kymo_writer *kymo_writer_get(struct kymo_recorder *r)
{
    const struct kymo_recorder_head *h = kymo_head(r);
    const struct kymo_tls_entry *e = &kymo_tls_current->e[h->index];
    struct kymo_writer *w;

    if (KYMO_UNLIKELY(e->generation != h->generation))
        return kymo_writer_attach(r, true);
    w = e->writer;
    if (KYMO_UNLIKELY(w->busy)) {
        kymo_writer_reentered(w);
        return NULL;
    }
    return kymo_writer_enter(w, h) ? w : NULL;
}

static inline struct kymo_writer *kymo_writer_borrow(struct kymo_recorder *r)
{
    const struct kymo_recorder_head *h = kymo_head(r);
    const struct kymo_tls_entry *e = &kymo_tls_current->e[h->index];

    if (e->generation != h->generation)
        return kymo_writer_attach(r, false);
    return !e->writer->busy && kymo_writer_enter(e->writer, h) ? e->writer : NULL;
}

static inline void kymo_writer_put(struct kymo_writer *w)
{
    __atomic_store_n(&w->busy, 0, __ATOMIC_RELEASE);
}

static inline bool kymo_sample(struct kymo_writer *w)
{
    if (KYMO_LIKELY(w->sample == 1))
        return true;
    if (w->sample_left == 0) {
        kymo_sample_next(w);
        return true;
    }
    w->sample_left--;
    __atomic_store_n(&w->slot->sampled_out, w->slot->sampled_out + 1, __ATOMIC_RELAXED);
    return false;
}

static inline uint64_t kymo_clock_mono(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#if defined(__x86_64__)
#define KYMO_HAVE_COUNTER 1
static inline uint64_t kymo_counter(void)
{
    return __builtin_ia32_rdtsc();
}
#elif defined(__aarch64__)
#define KYMO_HAVE_COUNTER 1
static inline uint64_t kymo_counter(void)
{
    uint64_t v;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
    return v;
}
#else
#define KYMO_HAVE_COUNTER 0
static inline uint64_t kymo_counter(void)
{
    return 0;
}
#endif

static inline uint64_t kymo_now(const struct kymo_writer *w)
{
    if (KYMO_HAVE_COUNTER && KYMO_LIKELY(w->counter))
        return kymo_counter() + __atomic_load_n(&w->offset, __ATOMIC_RELAXED);
    return kymo_clock_mono();
}

static inline uint8_t *kymo_put8(uint8_t *p, uint8_t v)
{
    *p = v;
    return p + 1;
}

/* memcpy of a fixed size is one store; the format is little-endian. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "little-endian machines only");

static inline uint8_t *kymo_put16(uint8_t *p, uint16_t v)
{
    memcpy(p, &v, sizeof v);
    return p + sizeof v;
}

static inline uint8_t *kymo_put32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
    return p + sizeof v;
}

static inline uint8_t *kymo_put64(uint8_t *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
    return p + sizeof v;
}

/* Field D. Stores four bytes, of which the next field overwrites three if the depth is small. */
static inline uint8_t *kymo_put_depth(uint8_t *p, uint64_t depth)
{
    uint32_t wide = depth >= KYMO_DEPTH_WIDE;

    (void)kymo_put32(p, (uint32_t)depth << 1 | wide);
    return p + (wide ? 4 : 1);
}

/* Prefetches the place of a later record for writing: the pool is larger than the caches,
 * and the hardware prefetcher stops at page boundaries. A prefetch never faults, so the
 * address may be after the end. The compiler's builtin prefetches for reading unless it is
 * compiled for a processor with prefetchw; older processors treat this as a nop. */
#define KYMO_AHEAD 1024
static inline void kymo_prefetch(const uint8_t *p)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*p));
#else
    __builtin_prefetch(p, 1);
#endif
}

/* Room in the open segment, negative when `end` lies before `cur`. */
static inline ptrdiff_t kymo_room(const struct kymo_writer *w)
{
    return (ptrdiff_t)(__atomic_load_n(&w->end, __ATOMIC_RELAXED) - (uintptr_t)w->cur);
}

static inline uint8_t *kymo_reserve(struct kymo_writer *w, unsigned id, size_t max_body)
{
    uint64_t now = kymo_now(w);
    uint8_t *p = w->cur;

    /* If the clock has gone back, the difference is huge, and the slow path handles it. */
    if (KYMO_UNLIKELY(((now - w->last) >> 32) != 0 ||
                      kymo_room(w) < (ptrdiff_t)(max_body + KYMO_HDR_COMPACT)))
        return kymo_reserve_slow(w, id, max_body, now);
    w->pending = now;
    kymo_prefetch((const uint8_t *)((uintptr_t)p + KYMO_AHEAD));
    p = kymo_put8(p, (uint8_t)id);
    return kymo_put32(p, (uint32_t)now);
}

static inline void kymo_commit(struct kymo_writer *w, uint8_t *end)
{
    struct kymo_slot *slot = w->slot;
    uint64_t events = slot->events + 1;

    w->last = w->pending;
    __atomic_store_n(&slot->events, events, __ATOMIC_RELAXED);
    w->cur = end;
    __atomic_store_n(&w->seg->commit, (uint64_t)(end - (uint8_t *)w->seg), __ATOMIC_RELEASE);
    if (KYMO_UNLIKELY(events == w->events_stop))
        kymo_lease_spent(w);
}

static inline uint64_t kymo_mix(uint64_t x)
{
    return x * 0x9e3779b97f4a7c15u;
}

static inline struct kymo_cached_atom *kymo_atom_cache(struct kymo_writer *w, uint64_t word)
{
    return &w->atoms[kymo_mix(word) >> (64 - KYMO_ATOM_CACHE_BITS)];
}

/* Words of atoms differ in few bits: rotate those of f to where the bits of m do not vary. */
static inline struct kymo_cached_mfa *kymo_mfa_cache(struct kymo_writer *w, uint64_t m, uint64_t f,
                                                     uint32_t arity)
{
    return &w->mfas[kymo_mix(m ^ f << 28 ^ arity) >> (64 - KYMO_MFA_CACHE_BITS)];
}

/* An unused cache entry has the id 0, which means not found. */
static inline uint32_t kymo_dict_atom(struct kymo_writer *w, uint64_t word)
{
    const struct kymo_cached_atom *c = kymo_atom_cache(w, word);

    return KYMO_LIKELY(c->word == word) ? c->id : kymo_dict_atom_shared(w, word);
}

static inline uint32_t kymo_dict_mfa(struct kymo_writer *w, uint64_t m, uint64_t f, uint32_t arity)
{
    const struct kymo_cached_mfa *c = kymo_mfa_cache(w, m, f, arity);

    if (KYMO_LIKELY(c->m == m && c->f == f && c->arity == arity))
        return c->id;
    return kymo_dict_mfa_shared(w, m, f, arity);
}

static inline bool kymo_dict_has_room(const struct kymo_writer *w)
{
    return __atomic_load_n(&kymo_head(w->rec)->dict_full, __ATOMIC_RELAXED) == 0;
}

/* Does what kymo_writer_get, kymo_sample, kymo_dict_mfa, kymo_reserve, kymo_commit and
 * kymo_writer_put do in sequence, if none of them needs its slow path. */
static inline __attribute__((always_inline)) bool kymo_record_call_any(struct kymo_recorder *r,
                                                                       uint64_t tracee, uint64_t m,
                                                                       uint64_t f, uint32_t arity, bool deep,
                                                                       uint64_t depth)
{
    const struct kymo_recorder_head *h = kymo_head(r);
    const struct kymo_tls_entry *e = &kymo_tls_current->e[h->index];
    const ptrdiff_t size = KYMO_HDR_COMPACT + 12 + (deep ? KYMO_DEPTH_BYTES : 0);
    const struct kymo_cached_mfa *c;
    struct kymo_segment *seg;
    struct kymo_slot *slot;
    struct kymo_writer *w;
    uint64_t now, events;
    uint32_t mfa;
    uint8_t *p;

    if (KYMO_UNLIKELY(e->generation != h->generation))
        return false;
    w = e->writer;
    if (KYMO_UNLIKELY(w->busy) || KYMO_UNLIKELY(w->sample != 1) || KYMO_UNLIKELY(!kymo_writer_enter(w, h)))
        return false;
    if (deep && KYMO_UNLIKELY(depth > KYMO_DEPTH_MAX))
        goto no;
    c = kymo_mfa_cache(w, m, f, arity);
    mfa = c->id;
    if (KYMO_UNLIKELY(c->m != m) || KYMO_UNLIKELY(c->f != f) || KYMO_UNLIKELY(c->arity != arity) ||
        KYMO_UNLIKELY(mfa == 0))
        goto no;
    slot = w->slot;
    events = slot->events + 1;
    if (KYMO_UNLIKELY(events == w->events_stop))
        goto no;
    now = kymo_now(w);
    p = w->cur;
    if (KYMO_UNLIKELY(((now - w->last) >> 32) != 0) || KYMO_UNLIKELY(kymo_room(w) < size))
        goto no;
    seg = w->seg;
    w->last = now;
    __atomic_store_n(&slot->events, events, __ATOMIC_RELAXED);
    kymo_prefetch((const uint8_t *)((uintptr_t)p + KYMO_AHEAD));
    p = kymo_put8(p, deep ? KYMO_E_CALL_DEPTH : KYMO_E_CALL);
    p = kymo_put32(p, (uint32_t)now);
    p = kymo_put64(p, tracee);
    p = kymo_put32(p, mfa);
    if (deep)
        p = kymo_put_depth(p, depth);
    w->cur = p;
    __atomic_store_n(&seg->commit, (uint64_t)(p - (uint8_t *)seg), __ATOMIC_RELEASE);
    kymo_writer_put(w);
    return true;
no:
    kymo_writer_put(w);
    return false;
}

static inline bool kymo_record_call(struct kymo_recorder *r, uint64_t tracee, uint64_t m, uint64_t f,
                                    uint32_t arity)
{
    return kymo_record_call_any(r, tracee, m, f, arity, false, 0);
}

static inline bool kymo_record_call_at(struct kymo_recorder *r, uint64_t tracee, uint64_t m, uint64_t f,
                                       uint32_t arity, uint64_t depth)
{
    return kymo_record_call_any(r, tracee, m, f, arity, true, depth);
}

#endif
