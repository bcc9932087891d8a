/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Maps of the allocated memory (+Mim true): requests for them, blocks from
 * malloc(), machine code, and the format.
 *
 * A map is a stream of sections, little-endian. A section is a header of 64
 * bytes
 *
 *    0  "EMAP"
 *    4  u16 kind (ERTS_ALCU_MAP_MBC etc), u16 flags (ERTS_ALCU_MAP_FLG_*)
 *    8  u32 number of records
 *   12  u16 allocator, u16 instance that use the carrier
 *   16  u64 address of the carrier, u64 its size
 *   32  u64 address of the first block in the section
 *   40  u16 allocator, u16 instance that created the carrier
 *   44  zeros
 *
 * and records of 16 bytes:
 *
 *    0  u32 size of the block in units of 8 bytes
 *    4  u16 type, u16 number of its NIF or driver, 0 for none
 *    8  u64 owner: 0, or kind << 60 | data: 1 pid, 2 port, 3 code, 4 module
 *
 * The blocks of a carrier lie one after the other. Those of ERTS_ALCU_MAP_LOOSE,
 * ERTS_ALCU_MAP_CODE and ERTS_ALCU_MAP_SEGS (segments that mseg keeps for the
 * next carrier, free) don't: there, before each record comes one of u64 address
 * and u64 size. File header and dictionary are made by instrument.erl.
 *
 * A job is the data of a magic binary. The process that has begun it requests
 * scans of the allocator instances of one thread after the other. The thread that
 * owns them scans them in steps and sends the records in messages, at most
 * 'window' binaries. Then it stops until the process makes another request. The
 * job belongs either to that thread ('running') or to the process.
 *
 * The job ends when the process requests this, when the process has died, or when
 * there are no references to the job left. If a scan is paused at that time, the
 * thread that owns the instance cleans it up.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "sys.h"
#define ERL_THREADS_EMU_INTERNAL__
#include "erl_threads.h"
#include "global.h"
#include "erl_process.h"
#include "bif.h"
#include "big.h"
#include "erl_binary.h"
#include "erl_bits.h"
#include "erl_bif_unique.h"
#include "module.h"
#include "code_ix.h"
#include "beam_code.h"
#include "erl_mseg.h"
#define GET_ERL_ALLOC_UTIL_IMPL
#include "erl_alloc_util.h"
#include "erl_instrument.h"
#include "erl_instrument_map.h"

#define LOOSE_LISTS    16
#define LOOSE_BLOCKS   64       /* while the lock of a list is held */
#define MODULES        500      /* in one call */
#define CODE_SLOTS     (64*1024)
#define CODE_ENTRIES   1000     /* in one call */

/* The entries of erts_allctrs[] that have been replaced. */
static ErtsAllocatorFunctions_t real_allctrs[ERTS_ALC_A_MAX+1];

/* Protects the slot of the one map, its job, and the list of waiters. */
static erts_mtx_t map_mtx;

/* ------------------------------------------------------------------------- */

/* A block that is freed is marked where it is counted (erl_instrument.c). A block
 * that realloc has copied can also remain in the queue of the instance that has
 * its carrier. */
static void *
marking_realloc(ErtsAlcType_t type, void *extra, void *ptr, Uint size)
{
    UWord *tag = NULL, saved = 0;
    void *res;

    if (ptr && erts_alcu_is_foreign(extra, ptr)) {
        tag = erts_instr_block_tag(ptr, erts_instr_block_size(ptr));
        saved = *tag;
        *tag = ERTS_ALCU_MAP_POISON;
    }
    res = (*real_allctrs[ERTS_ALC_T2A(type)].realloc)(type, extra, ptr, size);
    if (!res && tag)
        *tag = saved;
    return res;
}

/* ------------------------------------------------------------------------- */

/* In front of each block from malloc(); its size keeps the alignment, and the
 * size of the block has to be the last word (erl_instrument.c). */
typedef struct loose__ {
    struct loose__ *next;
    struct loose__ *prev;
    UWord packed;               /* as in the tag of other blocks */
    Eterm term;
    UWord list;
    UWord size;
} loose_t;

typedef union {
    struct {
        erts_mtx_t mtx;
        loose_t head;
    } l;
    char align__[ERTS_ALC_CACHE_LINE_ALIGN_SIZE(sizeof(erts_mtx_t)
                                                + sizeof(loose_t))];
} loose_list_t;

static loose_list_t loose_lists[LOOSE_LISTS]
    erts_align_attribute(ERTS_CACHE_LINE_SIZE);

/* Of the one map that is being made. 'pos' is in the list, after the last
 * block that has been written; new blocks are put first. */
static struct {
    int list;
    int in_list;
    loose_t pos;
} loose_scan;

static ERTS_INLINE void
loose_insert(loose_t *prev, loose_t *blk)
{
    blk->prev = prev;
    blk->next = prev->next;
    prev->next->prev = blk;
    prev->next = blk;
}

static ERTS_INLINE void
loose_remove(loose_t *blk)
{
    blk->prev->next = blk->next;
    blk->next->prev = blk->prev;
}

static void
loose_link(loose_t *blk)
{
    loose_list_t *ll = &loose_lists[blk->list];

    erts_mtx_lock(&ll->l.mtx);
    loose_insert(&ll->l.head, blk);
    erts_mtx_unlock(&ll->l.mtx);
}

static void
loose_unlink(loose_t *blk)
{
    loose_list_t *ll = &loose_lists[blk->list];

    erts_mtx_lock(&ll->l.mtx);
    loose_remove(blk);
    erts_mtx_unlock(&ll->l.mtx);
}

static void *
loose_alloc(ErtsAlcType_t type, void *extra, Uint size)
{
    ErtsAllocatorFunctions_t *real_af = (ErtsAllocatorFunctions_t *) extra;
    loose_t *blk;

    if (size > ERTS_UINT_MAX - sizeof(loose_t))
        return NULL;
    blk = (*real_af->alloc)(type, real_af->extra, size + sizeof(loose_t));
    if (!blk)
        return NULL;
    blk->size = size;
    erts_alcu_get_tag(type, &blk->packed, &blk->term);
    blk->list = (UWord) erts_get_thr_alloc_ix() % LOOSE_LISTS;
    loose_link(blk);
    return blk + 1;
}

static void *
loose_realloc(ErtsAlcType_t type, void *extra, void *ptr, Uint size)
{
    ErtsAllocatorFunctions_t *real_af = (ErtsAllocatorFunctions_t *) extra;
    loose_t *blk, *old_blk;

    if (!ptr)
        return loose_alloc(type, extra, size);
    if (size > ERTS_UINT_MAX - sizeof(loose_t))
        return NULL;

    old_blk = (loose_t *) ptr - 1;
    loose_unlink(old_blk);
    blk = (*real_af->realloc)(type, real_af->extra, old_blk,
                              size + sizeof(loose_t));
    if (!blk) {
        loose_link(old_blk);
        return NULL;
    }
    blk->size = size;
    erts_alcu_get_tag(type, &blk->packed, &blk->term);
    loose_link(blk);
    return blk + 1;
}

static void
loose_free(ErtsAlcType_t type, void *extra, void *ptr)
{
    ErtsAllocatorFunctions_t *real_af = (ErtsAllocatorFunctions_t *) extra;

    if (ptr) {
        loose_t *blk = (loose_t *) ptr - 1;

        loose_unlink(blk);
        (*real_af->free)(type, real_af->extra, blk);
    }
}

static void
loose_begin(void)
{
    loose_scan.list = 0;
    loose_scan.in_list = 0;
}

static void
loose_end(void)
{
    if (loose_scan.in_list) {
        loose_scan.pos.list = loose_scan.list;
        loose_unlink(&loose_scan.pos);
        loose_scan.in_list = 0;
    }
}

static void
put_addr_record(ErtsAlcuMapOut *out, UWord addr, UWord size, int type,
                int origin, Uint64 owner)
{
    byte *p = out->buf + out->used;

    ((Uint64 *) p)[0] = ERTS_MAP_LE64(addr);
    ((Uint64 *) p)[1] = ERTS_MAP_LE64(size);
    erts_alcu_map_put_record(p + ERTS_ALCU_MAP_RECORD_SIZE, 0, type, origin,
                             owner);
    out->used += 2*ERTS_ALCU_MAP_RECORD_SIZE;
}

/* Returns nonzero when there are no more. */
static int
loose_write(ErtsAlcuMapOut *out)
{
    ErtsSysHrTime deadline = erts_sys_hrtime() + out->step;

    while (loose_scan.list < LOOSE_LISTS) {
        loose_list_t *ll = &loose_lists[loose_scan.list];
        byte *hdr = out->buf + out->used;
        UWord bytes = 0;
        Uint n = 0;
        int at_end = 0;

        if (ERTS_ALCU_MAP_BUF_SIZE - out->used < ERTS_ALCU_MAP_MIN_ROOM)
            return 0;

        out->used += ERTS_ALCU_MAP_SECTION_SIZE;

        erts_mtx_lock(&ll->l.mtx);
        if (!loose_scan.in_list) {
            loose_insert(&ll->l.head, &loose_scan.pos);
            loose_scan.in_list = 1;
        }
        while (n < LOOSE_BLOCKS) {
            loose_t *blk = loose_scan.pos.next;
            int type;
            Eterm origin;

            loose_remove(&loose_scan.pos);
            if (blk == &ll->l.head) {
                loose_scan.in_list = 0;
                at_end = 1;
                break;
            }
            loose_insert(blk, &loose_scan.pos);

            erts_alcu_unpack_tag(blk->packed, &type, &origin);
            put_addr_record(out, (UWord) (blk + 1), blk->size, type,
                            erts_alcu_map_origin(out, origin),
                            erts_alcu_map_owner(out, blk->term));
            bytes += blk->size;
            n++;
        }
        erts_mtx_unlock(&ll->l.mtx);

        if (at_end)
            loose_scan.list++;
        if (n == 0) {
            out->used -= ERTS_ALCU_MAP_SECTION_SIZE;
            continue;
        }
        erts_alcu_map_put_header(hdr, ERTS_ALCU_MAP_LOOSE,
                                 ERTS_ALC_A_SYSTEM, 0, ERTS_ALC_A_SYSTEM, 0,
                                 0, bytes, 0);
        erts_alcu_map_finish_header(hdr, 0, 2*n);
        out->stat.loose_blocks += n;
        out->stat.loose_bytes += bytes;

        if (erts_sys_hrtime() >= deadline)
            return loose_scan.list == LOOSE_LISTS;
    }
    return 1;
}

/* ------------------------------------------------------------------------- */

#if HAVE_ERTS_MSEG

/* Returns zero if there is no such cache. The caller makes room. */
static int
put_segments(ErtsAlcuMapOut *out, int ix)
{
    ErtsMsegCached segs[ERTS_MSEG_MAX_CACHED];
    int n = erts_mseg_get_cached(ix, segs);
    int i;
    byte *hdr;
    UWord bytes = 0;

    ERTS_CT_ASSERT(ERTS_ALCU_MAP_SECTION_SIZE
                   + 2*ERTS_MSEG_MAX_CACHED*ERTS_ALCU_MAP_RECORD_SIZE
                   <= ERTS_ALCU_MAP_MIN_ROOM);

    if (n <= 0)
        return n == 0;

    hdr = out->buf + out->used;
    out->used += ERTS_ALCU_MAP_SECTION_SIZE;
    for (i = 0; i < n; i++) {
        put_addr_record(out, (UWord) segs[i].seg, segs[i].size,
                        ERTS_ALCU_MAP_T_FREE, 0, 0);
        bytes += segs[i].size;
    }
    erts_alcu_map_put_header(hdr, ERTS_ALCU_MAP_SEGS,
                             ERTS_ALC_A_SYSTEM, ix, ERTS_ALC_A_SYSTEM, ix,
                             0, bytes, 0);
    erts_alcu_map_finish_header(hdr, 0, 2*n);
    out->stat.segments += n;
    out->stat.segments_bytes += bytes;
    return 1;
}

#endif

/* ------------------------------------------------------------------------- */

void
erts_instr_map_init(void)
{
    int i;

    ERTS_CT_ASSERT(sizeof(loose_t) % (2*sizeof(UWord)) == 0);
    ERTS_CT_ASSERT(offsetof(loose_t, size) == sizeof(loose_t) - sizeof(UWord));

    erts_mtx_init(&map_mtx, "instr", NIL,
                  ERTS_LOCK_FLAGS_PROPERTY_STATIC
                  | ERTS_LOCK_FLAGS_CATEGORY_ALLOCATOR);

    for (i = 0; i < LOOSE_LISTS; i++) {
        loose_list_t *ll = &loose_lists[i];
        erts_mtx_init(&ll->l.mtx, "instr_x", make_small(i),
                      ERTS_LOCK_FLAGS_PROPERTY_STATIC
                      | ERTS_LOCK_FLAGS_CATEGORY_ALLOCATOR);
        ll->l.head.next = ll->l.head.prev = &ll->l.head;
    }

    sys_memcpy((void *) real_allctrs, (void *) erts_allctrs,
               sizeof(real_allctrs));

    for (i = ERTS_ALC_A_MIN; i <= ERTS_ALC_A_MAX; i++) {
        if (!erts_allctrs_info[i].alloc_util) {
            erts_allctrs[i].alloc = loose_alloc;
            erts_allctrs[i].realloc = loose_realloc;
            erts_allctrs[i].free = loose_free;
            erts_allctrs[i].extra = (void *) &real_allctrs[i];
        } else if (erts_allctr_thr_spec[i].dd && erts_instr_has_tags(i)) {
            erts_allctrs[i].realloc = marking_realloc;
        }
    }
}

/* ------------------------------------------------------------------------- */

typedef struct {
    ErtsAlcuMapOut out;         /* must be first */

    ErtsAlcuMap *scan;
    Binary *bin;                /* out.buf is its data; NULL if there is none */
    Eterm owner;
    ErtsIRefStorage tag;        /* of messages */
    int window;

    /* Of the thread that runs it */
    Process *process;
    int credits;
    int done;
    int no_memory;
    ErtsSysHrTime step_began;
    int with_segments;

    /* Of the process: the messages about ends that it hasn't received yet. If
     * the sender counted them, it would do so before or after the process has
     * received one. */
    int ends_to_receive;

    /* Protected by map_mtx */
    int running;
    int stopped;                /* requested to stop, or has stopped */
    int has_slot;               /* is the one map that is being made */

    /* Of machine code */
    int module_ix;
    Uint modules;

    /* Of segments: the next cache to look at */
    int mseg_ix;
} map_job_t;

typedef struct waiter__ {
    struct waiter__ *next;
    Eterm pid;
    ErtsIRefStorage tag;
} waiter_t;

/* The one map that is being made; protected by map_mtx. */
static int map_slot_taken;
static Eterm map_slot_owner;
static map_job_t *map_slot_job;         /* NULL while it begins */
static waiter_t *map_waiters;

#define JOB_BIN(JOB) (&ERTS_MAGIC_BIN_FROM_DATA((JOB))->binary)

/* Processor time of this thread, which steps are measured in. */
static ErtsSysHrTime
thread_time(void)
{
#ifdef CLOCK_THREAD_CPUTIME_ID
    struct timespec ts;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts) == 0)
        return ((ErtsSysHrTime) ts.tv_sec) * 1000000000 + ts.tv_nsec;
#endif
    return erts_sys_hrtime();
}

static void
send_tagged(Process *process, ErtsIRefStorage *tag, Eterm atom, Binary *bin,
            Uint size)
{
    ErtsMessage *mp;
    ErlOffHeap *ohp;
    Eterm *hp, msg, ref;
    Uint hsz = 3 + erts_iref_storage_heap_size(tag);

    if (bin)
        hsz += ERL_REFC_BITS_SIZE;
    mp = erts_alloc_message(hsz, &hp);
    ohp = &mp->hfrag.off_heap;
    ref = erts_iref_storage_make_ref(tag, &hp, ohp, 0);
    msg = atom;
    if (bin) {
        msg = erts_wrap_refc_bitstring(&ohp->first, &ohp->overhead, &hp, bin,
                                       (byte *) bin->orig_bytes, 0,
                                       NBITS(size));
    }
    msg = TUPLE2(hp, ref, msg);
    erts_queue_message(process, 0, mp, msg, am_system);
}

static Eterm
make_an_atom(const char *name)
{
    return erts_atom_put((byte *) name, sys_strlen(name),
                         ERTS_ATOM_ENC_LATIN1, 1);
}

/* Called by the last user of the job, apart from the magic reference. No scan is
 * active any more. */
static void
job_release_slot(map_job_t *job)
{
    waiter_t *waiters;

    loose_end();
    erts_alcu_map_end();

    erts_mtx_lock(&map_mtx);
    ASSERT(job->has_slot && map_slot_taken && map_slot_job == job);
    job->has_slot = 0;
    map_slot_taken = 0;
    map_slot_job = NULL;
    waiters = map_waiters;
    map_waiters = NULL;
    erts_mtx_unlock(&map_mtx);

    while (waiters) {
        waiter_t *waiter = waiters;
        Process *process;

        waiters = waiter->next;
        process = erts_pid2proc_opt(NULL, 0, waiter->pid, 0,
                                    ERTS_P2P_FLG_INC_REFC);
        if (process) {
            send_tagged(process, &waiter->tag, make_an_atom("free"), NULL, 0);
            erts_proc_dec_refc(process);
        } else {
            erts_iref_storage_clean(&waiter->tag);
        }
        free(waiter);
    }
}

static void
job_tell_end(map_job_t *job, Process *process, const char *result)
{
    send_tagged(process, &job->tag, make_an_atom(result), NULL, 0);
    erts_proc_dec_refc(process);
}

/* On the thread that owns the instance of the paused scan. Has a reference to
 * the job. */
static void
job_leave_scan(void *vjob)
{
    map_job_t *job = vjob;

    erts_alcu_map_leave(job->scan);
    job_release_slot(job);
    if (job->process)
        job_tell_end(job, job->process, "stopped");
    erts_bin_release(JOB_BIN(job));
}

/* The caller owns the job, which has been stopped. The process, if there is one,
 * gets a message when the scan, if there is one, has been cleaned up. */
static void
job_end(map_job_t *job, Process *process)
{
    job->process = NULL;
    if (erts_alcu_map_is_paused(job->scan)) {
        if (process) {
            job->process = process;
            erts_proc_inc_refc(process);
            job->ends_to_receive++;
        }
        erts_refc_inc(&JOB_BIN(job)->intern.refc, 1);
        erts_schedule_misc_aux_work(erts_alcu_map_tid(job->scan),
                                    job_leave_scan, job);
    } else {
        job_release_slot(job);
    }
}

static int
job_destructor(Binary *mbp)
{
    map_job_t *job = ERTS_MAGIC_BIN_DATA(mbp);
    int has_slot, stopped;

    erts_mtx_lock(&map_mtx);
    ASSERT(!job->running);
    has_slot = job->has_slot;
    stopped = job->stopped;
    job->stopped = 1;
    erts_mtx_unlock(&map_mtx);

    if (has_slot) {
        ASSERT(!stopped);
        (void) stopped;
        /* There is no reference left. Keep the job until job_end() has finished
         * with it, which calls this function again. */
        erts_refc_inc(&mbp->intern.refc, 1);
        job_end(job, NULL);
        erts_bin_release(mbp);
        return 0;
    }

    if (job->bin)
        erts_bin_release(job->bin);
    if (job->out.code)
        free(job->out.code);
    erts_iref_storage_clean(&job->tag);
    erts_alcu_map_destroy(job->scan);
    return 1;
}

static int
job_get_buffer(map_job_t *job)
{
    if (!job->bin) {
        job->bin = erts_bin_nrml_alloc_fnf(ERTS_ALCU_MAP_BUF_SIZE);
        if (!job->bin)
            return 0;
        job->out.buf = (byte *) job->bin->orig_bytes;
        job->out.used = 0;
    }
    return 1;
}

static int
job_buffer_is_full(map_job_t *job)
{
    return (ERTS_ALCU_MAP_BUF_SIZE - job->out.used
            < ERTS_ALCU_MAP_MIN_ROOM);
}

/* A part of the binary that isn't used is no part of the term. */
static Binary *
job_take_buffer(map_job_t *job, Uint *size_p)
{
    Binary *bin = job->bin;

    *size_p = job->out.used;
    job->bin = NULL;
    job->out.buf = NULL;
    job->out.used = 0;
    return bin;
}

int
erts_alcu_map_step_begin(ErtsAlcuMapOut *out)
{
    map_job_t *job = (map_job_t *) out;
    int stopped;

    job->step_began = thread_time();

    erts_mtx_lock(&map_mtx);
    if (ERTS_PROC_IS_EXITING(job->process))
        job->stopped = 1;
    stopped = job->stopped;
    erts_mtx_unlock(&map_mtx);
    if (stopped)
        return ERTS_ALCU_MAP_STOP;

    if (!job_get_buffer(job)) {
        job->no_memory = 1;
        return ERTS_ALCU_MAP_STOP;
    }
    return ERTS_ALCU_MAP_GO;
}

int
erts_alcu_map_step_end(ErtsAlcuMapOut *out, int done)
{
    map_job_t *job = (map_job_t *) out;
    Uint64 time;

    job->done = done;
#if HAVE_ERTS_MSEG
    /* An instance is done only while there is room. */
    if (done && job->with_segments) {
        int tid = erts_alcu_map_tid(job->scan);

        if (tid > 0 && tid <= (int) erts_no_schedulers)
            (void) put_segments(out, tid);
    }
#endif
    if (job_buffer_is_full(job)) {
        Uint size;
        Binary *bin = job_take_buffer(job, &size);

        send_tagged(job->process, &job->tag, THE_NON_VALUE, bin, size);
        job->credits--;
    }

    time = (Uint64) (thread_time() - job->step_began);
    out->stat.steps++;
    if (time > out->stat.longest_step)
        out->stat.longest_step = time;

    return !done && job->credits > 0;
}

void
erts_alcu_map_over(ErtsAlcuMapOut *out)
{
    map_job_t *job = (map_job_t *) out;
    Process *process = job->process;
    const char *result;
    int end;

    erts_mtx_lock(&map_mtx);
    job->running = 0;
    /* If slot_state() has found that the process is dead, it relies on this
     * check. */
    if (job->no_memory || ERTS_PROC_IS_EXITING(process))
        job->stopped = 1;
    end = job->stopped;
    erts_mtx_unlock(&map_mtx);

    if (job->no_memory)
        result = "enomem";
    else if (end)
        result = "stopped";
    else
        result = job->done ? "done" : "more";

    if (end)
        job_end(job, NULL);
    job_tell_end(job, process, result);
    erts_bin_release(JOB_BIN(job));
}

Uint
erts_alcu_map_new_origin(ErtsAlcuMapOut *out, Eterm origin)
{
    const Uint slots = sizeof(out->origin_ix)/sizeof(out->origin_ix[0]);
    Uint slot;

    if (origin == am_system)
        return 0;

    for (slot = atom_val(origin) % slots;
         out->origin_ix[slot];
         slot = (slot + 1) % slots) {
        if (out->origin[out->origin_ix[slot]] == origin)
            return out->origin_ix[slot];
    }

    /* Half of the slots at most are used. */
    if (out->origins == ERTS_ALCU_MAP_ORIGINS)
        return ERTS_ALCU_MAP_ORIGIN_OTHER;
    out->origin_ix[slot] = (Uint16) ++out->origins;
    out->origin[out->origins] = origin;
    return out->origins;
}

void
erts_alcu_map_new_code(ErtsAlcuMapOut *out, UWord pc)
{
    Uint slot;

    if (!out->code) {
        /* Not through an allocator that may be scanned right now. */
        out->code = calloc(CODE_SLOTS, sizeof(UWord));
        if (!out->code)
            return;
    }

    for (slot = (Uint) ((pc >> 2) * 0x9e3779b1u) % CODE_SLOTS;
         out->code[slot];
         slot = (slot + 1) % CODE_SLOTS) {
        if (out->code[slot] == pc)
            return;
    }
    if (out->codes < CODE_SLOTS/2) {
        out->code[slot] = pc;
        out->codes++;
    }
}

/* ------------------------------------------------------------------------- */

/*
 * Why a process cannot begin a map: 'busy', there is a map of another process;
 * 'own', there is one that it has begun itself; 'ending', there is one that is
 * about to end or has ended.
 *
 * When a process dies, its reference ends its map only if there are no other
 * references. Therefore the map of a dead process is ended here.
 */
static Eterm
slot_state(Process *c_p)
{
    map_job_t *job;
    const char *state;
    int end = 0;

    erts_mtx_lock(&map_mtx);
    job = map_slot_job;
    if (!map_slot_taken || (job && job->stopped)) {
        state = "ending";
    } else if (map_slot_owner == c_p->common.id) {
        state = "own";
    } else if (!job || erts_proc_lookup(map_slot_owner)) {
        state = "busy";
    } else {
        state = "ending";
        /* Otherwise the thread that runs it, or the destructor, ends it. */
        if (!job->running
            && erts_refc_inc_unless(&JOB_BIN(job)->intern.refc, 0, 0) != 0) {
            job->stopped = 1;
            end = 1;
        }
    }
    erts_mtx_unlock(&map_mtx);

    if (end) {
        job_end(job, NULL);
        erts_bin_release(JOB_BIN(job));
    }
    return make_an_atom(state);
}

/* {Step, Window, Tag} -> Ref, or the result of slot_state() */
static Eterm
job_start(Process *c_p, Eterm arg)
{
    Eterm *tp, *hp;
    Uint step, window;
    ErtsAlcuMap *scan;
    Binary *mbp;
    map_job_t *job;
    int taken;

    if (!is_tuple_arity(arg, 3))
        return THE_NON_VALUE;
    tp = tuple_val(arg);
    if (!term_to_Uint(tp[1], &step) || step < 1 || step > 1000*1000
        || !term_to_Uint(tp[2], &window) || window < 1 || window > 1024
        || !is_internal_ordinary_ref(tp[3])) {
        return THE_NON_VALUE;
    }

    erts_mtx_lock(&map_mtx);
    taken = map_slot_taken;
    if (!taken) {
        map_slot_taken = 1;
        map_slot_owner = c_p->common.id;
    }
    erts_mtx_unlock(&map_mtx);
    if (taken)
        return slot_state(c_p);

    mbp = erts_create_magic_binary(sizeof(map_job_t), job_destructor);
    job = ERTS_MAGIC_BIN_DATA(mbp);
    sys_memset(job, 0, sizeof(map_job_t));
    scan = erts_alcu_map_create(&job->out);
    if (!scan)
        erts_alloc_enomem(ERTS_ALC_T_BINARY, sizeof(map_job_t));

    job->out.step = (ErtsSysHrTime) step * 1000;
    job->out.last_origin = am_system;
    job->scan = scan;
    job->owner = c_p->common.id;
    erts_iref_storage_save(&job->tag, tp[3]);
    job->window = (int) window;
    job->has_slot = 1;

    erts_alcu_map_begin();
    loose_begin();

    erts_mtx_lock(&map_mtx);
    map_slot_job = job;
    erts_mtx_unlock(&map_mtx);

    hp = HAlloc(c_p, ERTS_MAGIC_REF_THING_SIZE);
    return erts_mk_magic_ref(&hp, &MSO(c_p), mbp);
}

/* Tag -> free, or {wait, Owner}. In the latter case the process gets {Tag, free},
 * provided that some process calls slot_state() if the owner dies. After that,
 * another process may begin a map first. */
static Eterm
job_wait(Process *c_p, Eterm tag)
{
    waiter_t *waiter;
    Eterm owner = NIL, *hp;
    int taken;

    if (!is_internal_ordinary_ref(tag))
        return THE_NON_VALUE;

    waiter = malloc(sizeof(waiter_t));
    if (!waiter)
        erts_alloc_enomem(ERTS_ALC_T_TMP, sizeof(waiter_t));
    waiter->pid = c_p->common.id;
    erts_iref_storage_save(&waiter->tag, tag);

    erts_mtx_lock(&map_mtx);
    taken = map_slot_taken;
    if (taken) {
        owner = map_slot_owner;
        waiter->next = map_waiters;
        map_waiters = waiter;
    }
    erts_mtx_unlock(&map_mtx);

    if (taken) {
        hp = HAlloc(c_p, 3);
        return TUPLE2(hp, make_an_atom("wait"), owner);
    }
    erts_iref_storage_clean(&waiter->tag);
    free(waiter);
    return make_an_atom("free");
}

/* The result of slot_state() */
static Eterm
job_state(Process *c_p, Eterm unused)
{
    return slot_state(c_p);
}

/* NULL if it isn't the caller's. Only the caller can start the scan again, so
 * it stays as it is if it isn't running. */
static map_job_t *
get_job(Process *c_p, Eterm ref, int *running_p, int *stopped_p)
{
    Binary *mbp;
    map_job_t *job;

    if (!is_internal_magic_ref(ref))
        return NULL;
    mbp = erts_magic_ref2bin(ref);
    if (ERTS_MAGIC_BIN_DESTRUCTOR(mbp) != job_destructor)
        return NULL;
    job = ERTS_MAGIC_BIN_DATA(mbp);
    if (job->owner != c_p->common.id)
        return NULL;

    erts_mtx_lock(&map_mtx);
    *running_p = job->running;
    *stopped_p = job->stopped;
    erts_mtx_unlock(&map_mtx);
    return job;
}

/* NULL if it isn't the caller's, is running or has been stopped; then *res_p is
 * the result. */
static map_job_t *
get_idle_job(Process *c_p, Eterm ref, Eterm *res_p)
{
    int running, stopped;
    map_job_t *job = get_job(c_p, ref, &running, &stopped);

    if (job && !running && !stopped)
        return job;
    *res_p = job && !running ? make_an_atom("stopped") : THE_NON_VALUE;
    return NULL;
}

static void
job_run(Process *c_p, map_job_t *job)
{
    erts_mtx_lock(&map_mtx);
    job->running = 1;
    erts_mtx_unlock(&map_mtx);

    job->ends_to_receive++;
    job->process = c_p;
    erts_proc_inc_refc(c_p);
    job->credits = job->window;
    job->done = 0;
    erts_refc_inc(&JOB_BIN(job)->intern.refc, 2);
    erts_alcu_map_run(job->scan);
}

/* {Ref, Thread, WithSbcs}: begins with the instances of a thread */
static Eterm
job_scan(Process *c_p, Eterm arg)
{
    map_job_t *job;
    Eterm *tp, res;
    Uint tid;

    if (!is_tuple_arity(arg, 3))
        return THE_NON_VALUE;
    tp = tuple_val(arg);
    if (!term_to_Uint(tp[2], &tid)
        || tid >= (Uint) erts_no_aux_work_threads) {
        return THE_NON_VALUE;
    }
    job = get_idle_job(c_p, tp[1], &res);
    if (!job)
        return res;
    if (erts_alcu_map_is_paused(job->scan))
        return THE_NON_VALUE;
    if (!erts_alcu_map_select(job->scan, (int) tid, tp[3] == am_true))
        return am_false;
    job->with_segments = tp[3] == am_true;
    job_run(c_p, job);
    return am_true;
}

/* Ref: continues with them */
static Eterm
job_continue(Process *c_p, Eterm ref)
{
    Eterm res;
    map_job_t *job = get_idle_job(c_p, ref, &res);

    if (!job)
        return res;
    if (!erts_alcu_map_is_paused(job->scan))
        return THE_NON_VALUE;
    job_run(c_p, job);
    return am_true;
}

static Eterm
buffer_term(Process *c_p, map_job_t *job)
{
    Uint size;
    Binary *bin = job_take_buffer(job, &size);
    Eterm *hp;

    if (size == 0) {
        erts_bin_release(bin);
        return NIL;
    }
    hp = HAlloc(c_p, ERL_REFC_BITS_SIZE);
    return erts_wrap_refc_bitstring(&MSO(c_p).first, &MSO(c_p).overhead, &hp,
                                    bin, (byte *) bin->orig_bytes, 0,
                                    NBITS(size));
}

#ifdef BEAMASM

static void
put_module(map_job_t *job, struct erl_module_instance *modi, UWord *bytes_p,
           Uint *n_p)
{
    if (modi->code_hdr && modi->code_length > 0) {
        put_addr_record(&job->out, (UWord) modi->executable_region,
                        (UWord) modi->code_length,
                        ERTS_ALCU_MAP_T_CODE, 0,
                        ((Uint64) 4 << 60) | job->modules);
        *bytes_p += modi->code_length;
        (*n_p)++;
    }
}

#endif

/* Ref -> {done | more, Binary | [], [Module]}. With the interpreter code is in
 * ordinary blocks. */
static Eterm
job_code(Process *c_p, Eterm ref)
{
    int done = 1;
    Eterm res;
    map_job_t *job = get_idle_job(c_p, ref, &res);
    Eterm *hp, modules = NIL, bin = NIL;

    if (!job)
        return res;

#ifdef BEAMASM
    if (!job_get_buffer(job))
        erts_alloc_enomem(ERTS_ALC_T_BINARY, ERTS_ALCU_MAP_BUF_SIZE);
    else {
        ErtsAlcuMapOut *out = &job->out;
        ErtsCodeIndex code_ix = erts_active_code_ix();
        byte *hdr = out->buf + out->used;
        UWord bytes = 0;
        Uint n = 0;
        int i, end = module_code_size(code_ix);
        Eterm last = NIL;

        out->used += ERTS_ALCU_MAP_SECTION_SIZE;
        /* The old code of a module cannot be purged during the call. */
        erts_rlock_old_code(code_ix);
        for (i = job->module_ix;
             i < end && i < job->module_ix + MODULES
                 && (ERTS_ALCU_MAP_BUF_SIZE - out->used
                     >= 4*ERTS_ALCU_MAP_RECORD_SIZE);
             i++) {
            Module *modp = module_code(i, code_ix);
            Uint before = n;

            if (!modp)
                continue;
            job->modules++;
            put_module(job, &modp->curr, &bytes, &n);
            put_module(job, &modp->old, &bytes, &n);
            if (n == before) {
                job->modules--;
            } else {
                hp = HAlloc(c_p, 2);
                last = CONS(hp, make_atom(modp->module), last);
            }
        }
        erts_runlock_old_code(code_ix);
        modules = last;
        done = i >= end;
        job->module_ix = i;

        if (n == 0) {
            out->used -= ERTS_ALCU_MAP_SECTION_SIZE;
        } else {
            erts_alcu_map_put_header(hdr, ERTS_ALCU_MAP_CODE,
                                     ERTS_ALC_A_SYSTEM, 0,
                                     ERTS_ALC_A_SYSTEM, 0, 0, bytes, 0);
            erts_alcu_map_finish_header(hdr, 0, 2*n);
            out->stat.loose_blocks += n;
            out->stat.loose_bytes += bytes;
        }
        if (job_buffer_is_full(job))
            bin = buffer_term(c_p, job);
    }
#endif

    hp = HAlloc(c_p, 4);
    BUMP_REDS(c_p, 100);
    return TUPLE3(hp, make_an_atom(done ? "done" : "more"), bin, modules);
}

/* Ref -> {done | more, Binary | []} */
static Eterm
job_loose(Process *c_p, Eterm ref)
{
    int done;
    Eterm res;
    map_job_t *job = get_idle_job(c_p, ref, &res);
    Eterm *hp, bin = NIL;

    if (!job)
        return res;
    if (!job_get_buffer(job))
        erts_alloc_enomem(ERTS_ALC_T_BINARY, ERTS_ALCU_MAP_BUF_SIZE);
    done = loose_write(&job->out);
    if (job_buffer_is_full(job))
        bin = buffer_term(c_p, job);

    hp = HAlloc(c_p, 3);
    BUMP_REDS(c_p, 100);
    return TUPLE2(hp, make_an_atom(done ? "done" : "more"), bin);
}

/* Ref -> {done | more, Binary | []}: the contents of the caches that belong to no
 * scheduler */
static Eterm
job_segments(Process *c_p, Eterm ref)
{
    int done = 1;
    Eterm res;
    map_job_t *job = get_idle_job(c_p, ref, &res);
    Eterm *hp, bin = NIL;

    if (!job)
        return res;

#if HAVE_ERTS_MSEG
    if (!job_get_buffer(job))
        erts_alloc_enomem(ERTS_ALC_T_BINARY, ERTS_ALCU_MAP_BUF_SIZE);
    while ((done = !put_segments(&job->out, job->mseg_ix)) == 0) {
        job->mseg_ix = (job->mseg_ix == 0
                        ? (int) erts_no_schedulers + 1
                        : job->mseg_ix + 1);
        if (job_buffer_is_full(job)) {
            bin = buffer_term(c_p, job);
            break;
        }
    }
#endif

    hp = HAlloc(c_p, 3);
    BUMP_REDS(c_p, 10);
    return TUPLE2(hp, make_an_atom(done ? "done" : "more"), bin);
}

/* Ref -> Binary | []: what hasn't been sent yet */
static Eterm
job_rest(Process *c_p, Eterm ref)
{
    Eterm res;
    map_job_t *job = get_idle_job(c_p, ref, &res);

    if (!job)
        return res;
    return job->bin ? buffer_term(c_p, job) : NIL;
}

/* Ref -> number of carriers without stamp */
static Eterm
job_left(Process *c_p, Eterm ref)
{
    int running, stopped;
    map_job_t *job = get_job(c_p, ref, &running, &stopped);

    if (!job || running)
        return THE_NON_VALUE;
    return erts_make_integer(erts_alcu_map_left(), c_p);
}

/* Ref -> {[{Key, Number}], [Origin]} */
static Eterm
job_info(Process *c_p, Eterm ref)
{
    int running, stopped, i;
    map_job_t *job = get_job(c_p, ref, &running, &stopped);
    Eterm *hp, stats = NIL, origins = NIL;
    Uint j;

    if (!job || running)
        return THE_NON_VALUE;
    else {
        struct {
            const char *name;
            Uint64 value;
        } stat[] = {
            {"blocks", job->out.stat.blocks},
            {"bytes", job->out.stat.bytes},
            {"free_blocks", job->out.stat.free_blocks},
            {"free_bytes", job->out.stat.free_bytes},
            {"cached_blocks", job->out.stat.cached_blocks},
            {"carriers", job->out.stat.carriers},
            {"carriers_bytes", job->out.stat.carriers_bytes},
            {"loose_blocks", job->out.stat.loose_blocks},
            {"loose_bytes", job->out.stat.loose_bytes},
            {"segments", job->out.stat.segments},
            {"segments_bytes", job->out.stat.segments_bytes},
            {"steps", job->out.stat.steps},
            {"longest_step_ns", job->out.stat.longest_step}
        };

        for (i = (int) (sizeof(stat)/sizeof(stat[0])) - 1; i >= 0; i--) {
            Eterm value = erts_make_integer((Uint) stat[i].value, c_p);

            hp = HAlloc(c_p, 3 + 2);
            value = TUPLE2(hp, make_an_atom(stat[i].name), value);
            hp += 3;
            stats = CONS(hp, value, stats);
        }
    }

    for (j = job->out.origins; j > 0; j--) {
        hp = HAlloc(c_p, 2);
        origins = CONS(hp, job->out.origin[j], origins);
    }

    hp = HAlloc(c_p, 3);
    return TUPLE2(hp, stats, origins);
}

/* {Ref, From} -> {Next | done, [{Address, {Module, Function, Arity}}]}: the
 * code addresses that occur as owners */
static Eterm
job_code_owners(Process *c_p, Eterm arg)
{
    int running, stopped, n = 0;
    map_job_t *job;
    Eterm *tp, *hp, list = NIL, next;
    Uint slot;

    if (!is_tuple_arity(arg, 2))
        return THE_NON_VALUE;
    tp = tuple_val(arg);
    job = get_job(c_p, tp[1], &running, &stopped);
    if (!job || running || !term_to_Uint(tp[2], &slot))
        return THE_NON_VALUE;

    for (; job->out.code && slot < CODE_SLOTS && n < CODE_ENTRIES; slot++) {
        UWord pc = job->out.code[slot];
        const ErtsCodeMFA *mfa;
        Eterm addr, tuple;

        if (!pc)
            continue;
        n++;
        mfa = erts_find_function_from_pc((ErtsCodePtr) pc);
        if (!mfa)
            continue;
        addr = erts_make_integer(pc, c_p);
        hp = HAlloc(c_p, 4 + 3 + 2);
        tuple = TUPLE3(hp, mfa->module, mfa->function,
                       make_small(mfa->arity));
        hp += 4;
        tuple = TUPLE2(hp, addr, tuple);
        hp += 3;
        list = CONS(hp, tuple, list);
    }
    next = (job->out.code && slot < CODE_SLOTS
            ? make_small(slot)
            : make_an_atom("done"));

    BUMP_REDS(c_p, n);
    hp = HAlloc(c_p, 3);
    return TUPLE2(hp, next, list);
}

/* Ref: the process has received a message about an end. */
static Eterm
job_received(Process *c_p, Eterm ref)
{
    int running, stopped;
    map_job_t *job = get_job(c_p, ref, &running, &stopped);

    if (!job || job->ends_to_receive == 0)
        return THE_NON_VALUE;
    job->ends_to_receive--;
    return am_ok;
}

/* Ref -> whether a message about an end will come, if it isn't in the queue
 * already */
static Eterm
job_is_running(Process *c_p, Eterm ref)
{
    int running, stopped;
    map_job_t *job = get_job(c_p, ref, &running, &stopped);

    if (!job)
        return THE_NON_VALUE;
    return job->ends_to_receive ? am_true : am_false;
}

/* Ref: the map is given up or complete. */
static Eterm
job_stop(Process *c_p, Eterm ref)
{
    int running, stopped, end;
    map_job_t *job = get_job(c_p, ref, &running, &stopped);

    if (!job)
        return THE_NON_VALUE;

    erts_mtx_lock(&map_mtx);
    end = !job->stopped && !job->running;
    job->stopped = 1;
    erts_mtx_unlock(&map_mtx);
    if (end)
        job_end(job, c_p);
    return am_ok;
}

static Eterm
cons_atom(Process *c_p, const char *name, Eterm list)
{
    Eterm *hp = HAlloc(c_p, 2);

    return CONS(hp, make_an_atom(name), list);
}

/* {[{Type, Allocator, Class}], [Allocator], UserOffset, HeaderSize}, in the
 * order of their numbers */
static Eterm
map_names(Process *c_p)
{
    Eterm *hp, types = NIL, allocators = NIL;
    int i;

    for (i = ERTS_ALC_N_MAX; i >= ERTS_ALC_N_MIN; i--) {
        ErtsAlcType_t type = ERTS_ALC_N2T(i);
        int a = ERTS_ALC_T2A(type);
        Eterm tuple;

        if (!erts_allctrs_info[a].enabled)
            a = ERTS_ALC_A_SYSTEM;
        hp = HAlloc(c_p, 4 + 2);
        tuple = TUPLE3(hp, make_an_atom(ERTS_ALC_N2TD(i)),
                       make_an_atom(ERTS_ALC_A2AD(a)),
                       make_an_atom(ERTS_ALC_C2CD(ERTS_ALC_T2C(type))));
        hp += 4;
        types = CONS(hp, tuple, types);
    }
    for (i = ERTS_ALC_A_MAX; i >= ERTS_ALC_A_MIN; i--)
        allocators = cons_atom(c_p, ERTS_ALC_A2AD(i), allocators);

    hp = HAlloc(c_p, 5);
    return TUPLE4(hp, types, allocators, make_small(ERTS_INSTR_BLOCK_HDR_SIZE),
                  make_small(ERTS_INSTR_BLOCK_HDR_SIZE + ERTS_ALC_ATAG_SIZE));
}

/*
 * instrument:map_request(Operation, Argument), for instrument.erl only. The
 * functions above describe the results. Returns false without +Mim true.
 */
BIF_RETTYPE
instrument_map_request_2(BIF_ALIST_2)
{
    static const struct {
        const char *name;
        Eterm (*function)(Process *, Eterm);
    } ops[] = {
        {"start", job_start},
        {"wait", job_wait},
        {"state", job_state},
        {"scan", job_scan},
        {"continue", job_continue},
        {"loose", job_loose},
        {"code", job_code},
        {"segments", job_segments},
        {"rest", job_rest},
        {"left", job_left},
        {"info", job_info},
        {"code_owners", job_code_owners},
        {"received", job_received},
        {"is_running", job_is_running},
        {"stop", job_stop}
    };
    int i;

    if (!erts_alcu_map_enabled)
        BIF_RET(am_false);

    if (ERTS_IS_ATOM_STR("names", BIF_ARG_1))
        BIF_RET(map_names(BIF_P));

    for (i = 0; i < (int) (sizeof(ops)/sizeof(ops[0])); i++) {
        if (erts_is_atom_str(ops[i].name, BIF_ARG_1, 0)) {
            Eterm res = (*ops[i].function)(BIF_P, BIF_ARG_2);

            if (is_value(res))
                BIF_RET(res);
            break;
        }
    }

    BIF_ERROR(BIF_P, BADARG);
}
