/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Instrumentation of memory allocation: counters (+Mis true, +Mim true).
 *
 * Blocks are counted by type. Each thread has its own counters of what has
 * changed since they were last added to the global ones. No other thread writes
 * them. They are added when the sizes of all blocks that have been counted since
 * then (allocated or freed), plus PENDING_OP for each of them, exceed PENDING.
 *
 * The same differences are added to the counters of classes, allocators and the
 * total at the same time. So a global counter is wrong only by what is pending,
 * and its maximum by at most PENDING bytes and PENDING/PENDING_OP blocks for each
 * thread, besides one block that is being counted.
 *
 * A reader of the counters adds what is pending in all threads, so the current
 * values are exact if no thread allocates at the same time. What a thread adds
 * during the read can be missed or counted twice. The maximum, which is raised to
 * what has been read, can be too large by what is pending in such a thread.
 *
 * The size of a block is the memory that can be used in it: the requested size
 * rounded up to the size of the block, without headers and tags. Headers and tags
 * have the same size in all blocks of a type, and are subtracted when the counters
 * of a thread are read.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "sys.h"
#define ERL_THREADS_EMU_INTERNAL__
#include "erl_threads.h"
#include "global.h"
#include "bif.h"
#include "big.h"
#define GET_ERL_ALLOC_UTIL_IMPL
#include "erl_alloc_util.h"
#include "erl_instrument.h"
#include "erl_instrument_map.h"

#ifdef ETHR_PTHREADS
#  include <pthread.h>
#endif

#define PENDING    (1024*1024)
#define PENDING_OP 1024

int erts_instr_map_enabled;
int erts_instr_status_enabled;

/* The entries of erts_allctrs[] that have been replaced. */
static ErtsAllocatorFunctions_t real_allctrs[ERTS_ALC_A_MAX+1];

/* ------------------------------------------------------------------------- */

/* What each block of an allocator needs in addition to its data. */
static Uint overhead[ERTS_ALC_A_MAX+1];

/* Written by one thread only, read by all. 'bytes' includes overhead. */
typedef struct {
    erts_atomic_t bytes;
    erts_atomic_t blocks;
} pending_t;

typedef struct thr_counters__ {
    pending_t types[ERTS_ALC_N_MAX+1];

    /* Accessed by the owner only: how much more may be pending. */
    UWord left;

    /* Protected by 'instr_mtx'. */
    struct thr_counters__ *next;        /* of all counters */
    struct thr_counters__ *next_free;   /* of those without a thread */
} thr_counters_t;

/* A word each for current value and maximum, and what the maximum was when
 * it was reset last. 'ever' is protected by 'instr_mtx'. */
typedef struct {
    erts_atomic_t curr;
    erts_atomic_t max;
    UWord ever;
} value_t;

typedef struct {
    value_t bytes;
    value_t blocks;
} counter_t;

typedef union {
    counter_t c;
    char align__[ERTS_ALC_CACHE_LINE_ALIGN_SIZE(sizeof(counter_t))];
} aligned_counter_t;

static struct {
    aligned_counter_t types[ERTS_ALC_N_MAX+1];
    aligned_counter_t classes[ERTS_ALC_C_MAX+1];
    aligned_counter_t allocators[ERTS_ALC_A_MAX+1];
    aligned_counter_t total;
} counters erts_align_attribute(ERTS_CACHE_LINE_SIZE);

static erts_mtx_t instr_mtx;
static thr_counters_t *all_thr_counters;
static thr_counters_t *free_thr_counters;

/* For threads without counters. Nothing may be pending in it, so any count takes
 * the slow path. */
static thr_counters_t no_counters;

#ifdef ERTS_INSTR_THREAD_LOCAL
static ERTS_INSTR_THREAD_LOCAL thr_counters_t *my_counters = &no_counters;
#else
static erts_tsd_key_t my_counters_key;
#endif

#ifdef ETHR_PTHREADS
static pthread_key_t thr_exit_key;
#endif

static ERTS_INLINE int
type_allocator(ErtsAlcType_t type)
{
    int a = ERTS_ALC_T2A(type);
    return erts_allctrs_info[a].enabled ? a : ERTS_ALC_A_SYSTEM;
}

static ERTS_INLINE thr_counters_t *
get_my_counters(void)
{
#ifdef ERTS_INSTR_THREAD_LOCAL
    return my_counters;
#else
    thr_counters_t *thr = erts_tsd_get(my_counters_key);
    return thr ? thr : &no_counters;
#endif
}

static void
set_my_counters(thr_counters_t *thr)
{
#ifdef ERTS_INSTR_THREAD_LOCAL
    my_counters = thr;
#else
    erts_tsd_set(my_counters_key, thr);
#endif
}

static ERTS_INLINE void
read_pending(thr_counters_t *thr, int type_no, int a, Sint *bytes_p,
             Sint *blocks_p)
{
    pending_t *pend = &thr->types[type_no];
    Sint blocks = erts_atomic_read_nob(&pend->blocks);

    *blocks_p = blocks;
    *bytes_p = (erts_atomic_read_nob(&pend->bytes)
                - blocks * (Sint) overhead[a]);
}

static ERTS_INLINE void
value_raise_max(value_t *val, erts_aint_t curr)
{
    erts_aint_t max = erts_atomic_read_nob(&val->max);

    while (curr > max) {
        erts_aint_t act = erts_atomic_cmpxchg_nob(&val->max, curr, max);
        if (act == max)
            break;
        max = act;
    }
}

static void
counter_add(counter_t *cnt, Sint bytes, Sint blocks)
{
    if (bytes) {
        value_raise_max(&cnt->bytes,
                        erts_atomic_add_read_nob(&cnt->bytes.curr, bytes));
    }
    if (blocks) {
        value_raise_max(&cnt->blocks,
                        erts_atomic_add_read_nob(&cnt->blocks.curr, blocks));
    }
}

static ERTS_NOINLINE void
flush_all(thr_counters_t *thr)
{
    Sint class_bytes[ERTS_ALC_C_MAX+1] = {0};
    Sint class_blocks[ERTS_ALC_C_MAX+1] = {0};
    Sint allocator_bytes[ERTS_ALC_A_MAX+1] = {0};
    Sint allocator_blocks[ERTS_ALC_A_MAX+1] = {0};
    Sint total_bytes = 0, total_blocks = 0;
    int i;

    for (i = ERTS_ALC_N_MIN; i <= ERTS_ALC_N_MAX; i++) {
        pending_t *pend = &thr->types[i];

        if (erts_atomic_read_nob(&pend->bytes)
            | erts_atomic_read_nob(&pend->blocks)) {
            ErtsAlcType_t type = ERTS_ALC_N2T(i);
            int a = type_allocator(type), c = ERTS_ALC_T2C(type);
            Sint bytes, blocks;

            read_pending(thr, i, a, &bytes, &blocks);
            counter_add(&counters.types[i].c, bytes, blocks);
            class_bytes[c] += bytes;
            class_blocks[c] += blocks;
            allocator_bytes[a] += bytes;
            allocator_blocks[a] += blocks;
            total_bytes += bytes;
            total_blocks += blocks;
            erts_atomic_set_nob(&pend->bytes, 0);
            erts_atomic_set_nob(&pend->blocks, 0);
        }
    }

    for (i = ERTS_ALC_C_MIN; i <= ERTS_ALC_C_MAX; i++)
        counter_add(&counters.classes[i].c, class_bytes[i], class_blocks[i]);
    for (i = ERTS_ALC_A_MIN; i <= ERTS_ALC_A_MAX; i++)
        counter_add(&counters.allocators[i].c, allocator_bytes[i],
                    allocator_blocks[i]);
    counter_add(&counters.total.c, total_bytes, total_blocks);

    thr->left = PENDING;
}

static void
thr_counters_release(void *vthr)
{
    thr_counters_t *thr = vthr;

    /* What this thread frees from here on gets new counters; this function
     * is then called for them as well. */
    set_my_counters(&no_counters);

    flush_all(thr);
    erts_mtx_lock(&instr_mtx);
    thr->next_free = free_thr_counters;
    free_thr_counters = thr;
    erts_mtx_unlock(&instr_mtx);
}

#ifndef ETHR_PTHREADS
static void
thr_exit_handler(void)
{
    thr_counters_t *thr = get_my_counters();

    if (thr != &no_counters)
        thr_counters_release(thr);
}
#endif

static thr_counters_t *
thr_counters_get_new(void)
{
    thr_counters_t *thr;

    erts_mtx_lock(&instr_mtx);
    thr = free_thr_counters;
    if (thr) {
        free_thr_counters = thr->next_free;
    } else {
        int i;

        /* Not through an allocator that counts. */
        thr = erts_sys_alloc(ERTS_ALC_T_UNDEF, NULL, sizeof(thr_counters_t));
        if (!thr)
            erts_exit(ERTS_ABORT_EXIT,
                      "Failed to allocate counters of a thread\n");
        for (i = 0; i <= ERTS_ALC_N_MAX; i++) {
            erts_atomic_init_nob(&thr->types[i].bytes, 0);
            erts_atomic_init_nob(&thr->types[i].blocks, 0);
        }
        thr->left = PENDING;
        thr->next = all_thr_counters;
        all_thr_counters = thr;
    }
    erts_mtx_unlock(&instr_mtx);

#ifdef ETHR_PTHREADS
    pthread_setspecific(thr_exit_key, thr);
#endif
    set_my_counters(thr);

    return thr;
}

static ERTS_INLINE void
add_pending(thr_counters_t *thr, ErtsAlcType_t type, Sint bytes, Sint blocks)
{
    pending_t *pend = &thr->types[ERTS_ALC_T2N(type)];

    erts_atomic_set_nob(&pend->bytes,
                        erts_atomic_read_nob(&pend->bytes) + bytes);
    if (blocks) {
        erts_atomic_set_nob(&pend->blocks,
                            erts_atomic_read_nob(&pend->blocks) + blocks);
    }
}

/*
 * Counts if that needs no more than the counters of this thread. 'amount' is
 * what has been allocated or freed. Otherwise returns zero, and a function
 * that isn't inline has to call count_slow(): the fast ones then have no calls
 * that they would have to save registers for.
 */
static ERTS_INLINE int
count_fast(ErtsAlcType_t type, Sint bytes, Sint blocks, UWord amount)
{
    thr_counters_t *thr = get_my_counters();
    UWord left = thr->left;

    amount += PENDING_OP;
    if (ERTS_UNLIKELY(left < amount))
        return 0;
    thr->left = left - amount;
    add_pending(thr, type, bytes, blocks);
    return 1;
}

static ERTS_NOINLINE void
count_slow(ErtsAlcType_t type, Sint bytes, Sint blocks)
{
    thr_counters_t *thr = get_my_counters();

    if (thr == &no_counters)
        thr = thr_counters_get_new();
    add_pending(thr, type, bytes, blocks);
    flush_all(thr);
}

static ERTS_INLINE void
count(ErtsAlcType_t type, Sint bytes, Sint blocks, UWord amount)
{
    if (!count_fast(type, bytes, blocks, amount))
        count_slow(type, bytes, blocks);
}

/* ------------------------------------------------------------------------- */

static ERTS_NOINLINE void *
count_alloc_slow(ErtsAlcType_t type, Uint size, void *res)
{
    count_slow(type, (Sint) size, 1);
    return res;
}

static void *
counting_alloc(ErtsAlcType_t type, void *extra, Uint size)
{
    ErtsAllocatorFunctions_t *real_af = (ErtsAllocatorFunctions_t *) extra;
    void *res = (*real_af->alloc)(type, real_af->extra, size);

    if (ERTS_LIKELY(res != NULL)) {
        Uint block_size = erts_instr_block_size(res);

        if (!count_fast(type, (Sint) block_size, 1, block_size))
            return count_alloc_slow(type, block_size, res);
    }
    return res;
}

static void *
counting_realloc(ErtsAlcType_t type, void *extra, void *ptr, Uint size)
{
    ErtsAllocatorFunctions_t *real_af = (ErtsAllocatorFunctions_t *) extra;
    Uint old_size, new_size;
    void *res;

    if (!ptr)
        return counting_alloc(type, extra, size);

    old_size = erts_instr_block_size(ptr);
    res = (*real_af->realloc)(type, real_af->extra, ptr, size);
    if (res) {
        new_size = erts_instr_block_size(res);
        count(type, (Sint) (new_size - old_size), 0, old_size + new_size);
    }
    return res;
}

static ERTS_NOINLINE void
counting_free_slow(ErtsAlcType_t type, void *extra, void *ptr)
{
    ErtsAllocatorFunctions_t *real_af = (ErtsAllocatorFunctions_t *) extra;

    count_slow(type, -(Sint) erts_instr_block_size(ptr), -1);
    (*real_af->free)(type, real_af->extra, ptr);
}

static ERTS_INLINE void
count_and_free(ErtsAlcType_t type, void *extra, void *ptr, int mark)
{
    ErtsAllocatorFunctions_t *real_af = (ErtsAllocatorFunctions_t *) extra;
    Uint size;

    if (ERTS_UNLIKELY(ptr == NULL))
        return;
    size = erts_instr_block_size(ptr);
    if (mark)
        *erts_instr_block_tag(ptr, size) = ERTS_ALCU_MAP_POISON;
    if (count_fast(type, -(Sint) size, -1, size))
        (*real_af->free)(type, real_af->extra, ptr);
    else
        counting_free_slow(type, extra, ptr);
}

static void
counting_free(ErtsAlcType_t type, void *extra, void *ptr)
{
    count_and_free(type, extra, ptr, 0);
}

/* For maps: a freed block can remain in a list for reuse, or in the queue of the
 * instance that has its carrier. Only for allocators that tag their blocks. */
static void
counting_marking_free(ErtsAlcType_t type, void *extra, void *ptr)
{
    count_and_free(type, extra, ptr, 1);
}

/*
 * Blocks from malloc() have no header that we could read. Their size is kept in
 * the word before them: that of a map is there already, otherwise they get a
 * header that keeps the alignment of malloc().
 */
#define MALLOC_BLOCK_SIZE(PTR) (((UWord *) (PTR))[-1])

static Uint malloc_header_size;

static void *
counting_malloc_alloc(ErtsAlcType_t type, void *extra, Uint size)
{
    ErtsAllocatorFunctions_t *real_af = (ErtsAllocatorFunctions_t *) extra;
    char *res;

    if (size > ERTS_UINT_MAX - malloc_header_size)
        return NULL;
    res = (*real_af->alloc)(type, real_af->extra, size + malloc_header_size);
    if (!res)
        return NULL;
    res += malloc_header_size;
    MALLOC_BLOCK_SIZE(res) = size;
    count(type, (Sint) size, 1, size);
    return res;
}

static void *
counting_malloc_realloc(ErtsAlcType_t type, void *extra, void *ptr, Uint size)
{
    ErtsAllocatorFunctions_t *real_af = (ErtsAllocatorFunctions_t *) extra;
    Uint old_size;
    char *res;

    if (!ptr)
        return counting_malloc_alloc(type, extra, size);
    if (size > ERTS_UINT_MAX - malloc_header_size)
        return NULL;
    old_size = MALLOC_BLOCK_SIZE(ptr);
    res = (*real_af->realloc)(type, real_af->extra,
                              (char *) ptr - malloc_header_size,
                              size + malloc_header_size);
    if (!res)
        return NULL;
    res += malloc_header_size;
    MALLOC_BLOCK_SIZE(res) = size;
    count(type, (Sint) (size - old_size), 0, old_size + size);
    return res;
}

static void
counting_malloc_free(ErtsAlcType_t type, void *extra, void *ptr)
{
    ErtsAllocatorFunctions_t *real_af = (ErtsAllocatorFunctions_t *) extra;

    if (ptr) {
        Uint size = MALLOC_BLOCK_SIZE(ptr);

        count(type, -(Sint) size, -1, size);
        (*real_af->free)(type, real_af->extra,
                         (char *) ptr - malloc_header_size);
    }
}

/* ------------------------------------------------------------------------- */

static void
init_counter(counter_t *cnt)
{
    erts_atomic_init_nob(&cnt->bytes.curr, 0);
    erts_atomic_init_nob(&cnt->bytes.max, 0);
    erts_atomic_init_nob(&cnt->blocks.curr, 0);
    erts_atomic_init_nob(&cnt->blocks.max, 0);
}

int
erts_instr_has_tags(int a)
{
    void *extra = erts_allctrs_info[a].extra;
    Allctr_t *allctr;

    if (erts_allctrs_info[a].thr_spec)
        allctr = ((ErtsAllocatorThrSpec_t *) extra)->allctr[0];
    else
        allctr = (Allctr_t *) extra;
    return allctr->atags != 0;
}

void
erts_instr_init(int map, int status)
{
    int i;

    erts_instr_map_enabled = map;
    erts_instr_status_enabled = map || status;

    if (!erts_instr_status_enabled)
        return;

    erts_mtx_init(&instr_mtx, "instr", NIL,
                  ERTS_LOCK_FLAGS_PROPERTY_STATIC
                  | ERTS_LOCK_FLAGS_CATEGORY_ALLOCATOR);
#ifndef ERTS_INSTR_THREAD_LOCAL
    erts_tsd_key_create(&my_counters_key, "erts_instr_counters_key");
#endif
#ifdef ETHR_PTHREADS
    if (pthread_key_create(&thr_exit_key, thr_counters_release) != 0)
        erts_exit(ERTS_ABORT_EXIT, "Failed to create a key for threads\n");
#else
    erts_thr_install_exit_handler(thr_exit_handler);
#endif

    for (i = 0; i <= ERTS_ALC_N_MAX; i++)
        init_counter(&counters.types[i].c);
    for (i = 0; i <= ERTS_ALC_C_MAX; i++)
        init_counter(&counters.classes[i].c);
    for (i = 0; i <= ERTS_ALC_A_MAX; i++)
        init_counter(&counters.allocators[i].c);
    init_counter(&counters.total.c);

    malloc_header_size = map ? 0 : 2*sizeof(UWord);

    sys_memcpy((void *) real_allctrs, (void *) erts_allctrs,
               sizeof(real_allctrs));

    for (i = ERTS_ALC_A_MIN; i <= ERTS_ALC_A_MAX; i++) {
        if (erts_allctrs_info[i].alloc_util) {
            erts_allctrs[i].alloc = counting_alloc;
            erts_allctrs[i].realloc = counting_realloc;
            if (erts_instr_has_tags(i)) {
                erts_allctrs[i].free = (map
                                        ? counting_marking_free
                                        : counting_free);
                overhead[i] = ERTS_INSTR_BLOCK_HDR_SIZE + ERTS_ALC_ATAG_SIZE;
            } else {
                erts_allctrs[i].free = counting_free;
                overhead[i] = ERTS_INSTR_BLOCK_HDR_SIZE;
            }
        } else {
            erts_allctrs[i].alloc = counting_malloc_alloc;
            erts_allctrs[i].realloc = counting_malloc_realloc;
            erts_allctrs[i].free = counting_malloc_free;
        }
        erts_allctrs[i].extra = (void *) &real_allctrs[i];
    }
}

/* ------------------------------------------------------------------------- */

typedef struct {
    Sint bytes;
    Sint blocks;
} sum_t;

typedef struct {
    const char *descr;
    counter_t *counter;
    sum_t pending;
} level_entry_t;

#define MAX_LEVEL_ENTRIES (ERTS_ALC_N_MAX+1)

/* Takes the maximum since the last call and starts a new one; returns the
 * maximum ever. */
static void
read_value(value_t *val, Sint pending, UWord *curr_p, UWord *max_p,
           UWord *ever_p)
{
    erts_aint_t curr = erts_atomic_read_nob(&val->curr) + pending;

    /* A thread that adds its counters right now can make it wrong. */
    if (curr < 0)
        curr = 0;
    value_raise_max(val, curr);
    *curr_p = (UWord) curr;
    *max_p = (UWord) erts_atomic_xchg_nob(&val->max, curr);
    if (val->ever < *max_p)
        val->ever = *max_p;
    *ever_p = val->ever;
}

/*
 * instrument:request(status, total | allocators | classes | types) ->
 *     [{About, [{sizes | blocks, Current, MaxSinceLast, MaxEver}]}] | false
 */
static BIF_RETTYPE
request_status(Process *c_p, Eterm what)
{
    level_entry_t *entries, *ent;
    thr_counters_t *thr;
    int ix_of_type[ERTS_ALC_N_MAX+1];
    int level, n, i;
    Uint size;
    Eterm *hp, *hp_end, res;
    Eterm am_sizes, am_blocks_;
    UWord (*values)[6];

    enum { TOTAL, ALLOCATORS, CLASSES, TYPES };

    if (ERTS_IS_ATOM_STR("total", what))
        level = TOTAL;
    else if (ERTS_IS_ATOM_STR("allocators", what))
        level = ALLOCATORS;
    else if (ERTS_IS_ATOM_STR("classes", what))
        level = CLASSES;
    else if (ERTS_IS_ATOM_STR("types", what))
        level = TYPES;
    else
        BIF_ERROR(c_p, BADARG);

    if (!erts_instr_status_enabled)
        BIF_RET(am_false);

    entries = erts_alloc(ERTS_ALC_T_TMP,
                         MAX_LEVEL_ENTRIES * sizeof(level_entry_t));
    values = erts_alloc(ERTS_ALC_T_TMP, MAX_LEVEL_ENTRIES * sizeof(*values));

    n = 0;
    switch (level) {
    case TOTAL:
        entries[n].descr = "total";
        entries[n++].counter = &counters.total.c;
        for (i = ERTS_ALC_N_MIN; i <= ERTS_ALC_N_MAX; i++)
            ix_of_type[i] = 0;
        break;
    case ALLOCATORS: {
        int ix[ERTS_ALC_A_MAX+1];
        for (i = ERTS_ALC_A_MIN; i <= ERTS_ALC_A_MAX; i++) {
            if (!erts_allctrs_info[i].enabled)
                continue;
            ix[i] = n;
            entries[n].descr = ERTS_ALC_A2AD(i);
            entries[n++].counter = &counters.allocators[i].c;
        }
        for (i = ERTS_ALC_N_MIN; i <= ERTS_ALC_N_MAX; i++)
            ix_of_type[i] = ix[type_allocator(ERTS_ALC_N2T(i))];
        break;
    }
    case CLASSES:
        for (i = ERTS_ALC_C_MIN; i <= ERTS_ALC_C_MAX; i++) {
            entries[n].descr = ERTS_ALC_C2CD(i);
            entries[n++].counter = &counters.classes[i].c;
        }
        for (i = ERTS_ALC_N_MIN; i <= ERTS_ALC_N_MAX; i++)
            ix_of_type[i] = ERTS_ALC_T2C(ERTS_ALC_N2T(i)) - ERTS_ALC_C_MIN;
        break;
    case TYPES:
        for (i = ERTS_ALC_N_MIN; i <= ERTS_ALC_N_MAX; i++) {
            ix_of_type[i] = n;
            entries[n].descr = ERTS_ALC_N2TD(i);
            entries[n++].counter = &counters.types[i].c;
        }
        break;
    }

    for (i = 0; i < n; i++)
        entries[i].pending.bytes = entries[i].pending.blocks = 0;

    /* Resetting is serialized by the lock; it also keeps threads from
     * appearing and vanishing. Counting continues. */
    erts_mtx_lock(&instr_mtx);
    for (thr = all_thr_counters; thr; thr = thr->next) {
        for (i = ERTS_ALC_N_MIN; i <= ERTS_ALC_N_MAX; i++) {
            Sint bytes, blocks;

            read_pending(thr, i, type_allocator(ERTS_ALC_N2T(i)),
                         &bytes, &blocks);
            ent = &entries[ix_of_type[i]];
            ent->pending.bytes += bytes;
            ent->pending.blocks += blocks;
        }
    }
    for (i = 0; i < n; i++) {
        ent = &entries[i];
        read_value(&ent->counter->bytes, ent->pending.bytes,
                   &values[i][0], &values[i][1], &values[i][2]);
        read_value(&ent->counter->blocks, ent->pending.blocks,
                   &values[i][3], &values[i][4], &values[i][5]);
    }
    erts_mtx_unlock(&instr_mtx);

    /* {About, [{sizes,C,M,E},{blocks,C,M,E}]} */
    size = n * (2 + 3 + 2*(2 + 5));
    for (i = 0; i < n; i++) {
        int j;
        for (j = 0; j < 6; j++)
            (void) erts_bld_uword(NULL, &size, values[i][j]);
    }

    am_sizes = erts_atom_put((byte *) "sizes", 5, ERTS_ATOM_ENC_LATIN1, 1);
    am_blocks_ = erts_atom_put((byte *) "blocks", 6, ERTS_ATOM_ENC_LATIN1, 1);

    hp = HAlloc(c_p, size);
    hp_end = hp + size;
    res = NIL;
    for (i = n - 1; i >= 0; i--) {
        const char *descr = entries[i].descr;
        Eterm v[6], about, list;
        int j;

        for (j = 0; j < 6; j++)
            v[j] = erts_bld_uword(&hp, NULL, values[i][j]);
        about = erts_atom_put((byte *) descr, sys_strlen(descr),
                              ERTS_ATOM_ENC_LATIN1, 1);
        list = TUPLE4(hp, am_blocks_, v[3], v[4], v[5]);
        hp += 5;
        list = CONS(hp, list, NIL);
        hp += 2;
        v[3] = TUPLE4(hp, am_sizes, v[0], v[1], v[2]);
        hp += 5;
        list = CONS(hp, v[3], list);
        hp += 2;
        about = TUPLE2(hp, about, list);
        hp += 3;
        res = CONS(hp, about, res);
        hp += 2;
    }
    ASSERT(hp <= hp_end);
    HRelease(c_p, hp_end, hp);

    erts_free(ERTS_ALC_T_TMP, values);
    erts_free(ERTS_ALC_T_TMP, entries);

    BUMP_REDS(c_p, n);
    BIF_RET(res);
}

/* Requests of instrument.erl. The functions for each request check its
 * arguments. */
BIF_RETTYPE
instrument_request_2(BIF_ALIST_2)
{
    if (ERTS_IS_ATOM_STR("status", BIF_ARG_1))
        return request_status(BIF_P, BIF_ARG_2);

    BIF_ERROR(BIF_P, BADARG);
}
