/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Reading the counters of call_time and call_memory, see trace_counters.h.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "sys.h"
#include "erl_vm.h"
#include "global.h"
#include "erl_process.h"
#include "error.h"
#include "bif.h"
#include "big.h"
#include "erl_binary.h"
#include "trace_counters.h"

/* Slots of a table that a scheduler copies in one step. */
#define COPY_STEP               1000

/* Items per block of copied ones. */
#define BLOCK_ITEMS             250

/* Slots or items that the process handles in one step, which costs STEP_REDS. */
#define STEP                    200
#define STEP_REDS               10

typedef struct Block_ {
    struct Block_ *next;
    Uint used;
    bp_data_trace_item_t item[BLOCK_ITEMS];
} Block;

/* The copy of the table of one scheduler. */
typedef struct {
    Block *blocks;
    Uint items;
    Uint size;                  /* Of the table; 0 if not begun */
    Uint next;                  /* Slot to be copied */
    int is_done;
} Copy;

/*
 * Counters of one kind. First each scheduler copies, then the process makes room
 * for the sums, adds up, and builds terms.
 */
typedef struct {
    BpDataCallTrace *bdt;       /* NULL if not requested */
    Copy *copies;               /* One for each table of bdt */
    enum {
        SUMS_CLEAR,
        SUMS_ADD,
        SUMS_TERMS,
        SUMS_DONE
    } stage;
    bp_data_trace_item_t *sums;
    Uint size;                  /* Slots of sums */
    Uint next;                  /* Slot, or copy, to continue with */
} Counters;

struct Request_;

/* What a scheduler does with its tables, if it takes more than one step. */
typedef struct {
    ErtsAuxYieldJob job;
    struct Request_ *req;
} CopyJob;

/*
 * One trace_info(), in a magic binary. The process has a reference, in the
 * arguments with which it continues. The schedulers have another one, as long as
 * one of them is copying.
 */
typedef struct Request_ {
    Process *proc;
    erts_atomic32_t copying;    /* Schedulers that haven't finished */
    Eterm key;
    Counters time;
    Counters memory;
    CopyJob jobs[1];            /* One for each normal scheduler */
} Request;

static Export go_on_export;

static BIF_RETTYPE go_on(BIF_ALIST_4);

void
erts_trace_counters_init(void)
{
    erts_init_trap_export(&go_on_export, am_erts_internal, am_trace_info, 4,
                          &go_on);
}

static void
drop_blocks(Copy *copy)
{
    while (copy->blocks) {
        Block *block = copy->blocks;
        copy->blocks = block->next;
        erts_free(ERTS_ALC_T_BPD, block);
    }
    copy->items = 0;
}

static void
init_counters(Counters *c, BpDataCallTrace *bdt)
{
    c->bdt = bdt;
    c->copies = NULL;
    c->sums = NULL;
    c->stage = SUMS_CLEAR;
    c->next = 0;
    c->size = 0;
    if (bdt) {
        c->copies = erts_alloc(ERTS_ALC_T_BPD, bdt->n*sizeof(Copy));
        sys_memzero(c->copies, bdt->n*sizeof(Copy));
    }
    else {
        c->stage = SUMS_DONE;
    }
}

static void
clear_counters(Counters *c)
{
    if (c->bdt) {
        Uint i;

        for (i = 0; i < c->bdt->n; i++)
            drop_blocks(&c->copies[i]);
        erts_free(ERTS_ALC_T_BPD, c->copies);
        if (c->sums)
            erts_free(ERTS_ALC_T_BPD, c->sums);
        erts_deref_call_break(c->bdt);
    }
}

static int
request_destructor(Binary *bin)
{
    Request *req = (Request *) ERTS_MAGIC_BIN_DATA(bin);

    ASSERT(erts_atomic32_read_nob(&req->copying) == 0);
    clear_counters(&req->time);
    clear_counters(&req->memory);
    return 1;
}

/*
 * Copy up to *slots of a table. Returns whether it is done.
 */
static int
copy_table(Copy *copy, const bp_trace_hash_t *table, Uint *slots)
{
    if (copy->is_done)
        return 1;

    if (copy->size != table->n) {
        drop_blocks(copy);
        copy->size = table->n;
        copy->next = 0;
    }
    for (; *slots > 0 && copy->next < copy->size; copy->next++, (*slots)--) {
        const bp_data_trace_item_t *item = &table->item[copy->next];

        if (item->pid == NIL)
            continue;
        if (!copy->blocks || copy->blocks->used == BLOCK_ITEMS) {
            Block *block = erts_alloc(ERTS_ALC_T_BPD, sizeof(Block));

            block->next = copy->blocks;
            block->used = 0;
            copy->blocks = block;
        }
        copy->blocks->item[copy->blocks->used++] = *item;
        copy->items++;
    }
    copy->is_done = copy->next == copy->size;
    return copy->is_done;
}

/*
 * Copy from the tables that scheduler 'no' may read. The first scheduler also
 * copies the table of the dirty schedulers.
 */
static int
copy_counters(Counters *c, Uint no, Uint *slots)
{
    int is_done = 1;

    if (c->bdt) {
        is_done = copy_table(&c->copies[no - 1], &c->bdt->hash[no - 1], slots);
        if (no == 1) {
            erts_mtx_lock(&erts_dirty_bp_ix_mtx);
            is_done &= copy_table(&c->copies[erts_no_schedulers],
                                  &c->bdt->hash[erts_no_schedulers], slots);
            erts_mtx_unlock(&erts_dirty_bp_ix_mtx);
        }
    }
    return is_done;
}

/*
 * A step of the calling scheduler. Returns whether there is more to do.
 */
static int
copy_step(Request *req)
{
    Uint no = erts_get_scheduler_id();
    Uint slots = COPY_STEP;
    int is_done;

    is_done = copy_counters(&req->time, no, &slots);
    is_done &= copy_counters(&req->memory, no, &slots);
    if (!is_done)
        return 1;

    if (erts_atomic32_dec_read_mb(&req->copying) == 0) {
        Process *p = req->proc;

        erts_proc_lock(p, ERTS_PROC_LOCK_STATUS);
        if (!ERTS_PROC_IS_EXITING(p)) {
            erts_resume(p, ERTS_PROC_LOCK_STATUS);
        }
        erts_proc_unlock(p, ERTS_PROC_LOCK_STATUS);
        erts_proc_dec_refc(p);
        erts_bin_release(&ERTS_MAGIC_BIN_FROM_DATA(req)->binary);
    }
    return 0;
}

static int
copy_job_step(ErtsAuxYieldJob *job)
{
    return copy_step(ErtsContainerStruct(job, CopyJob, job)->req);
}

static void
copy_on_scheduler(void *vreq)
{
    Request *req = (Request *) vreq;

    if (copy_step(req)) {
        CopyJob *copy_job = &req->jobs[erts_get_scheduler_id() - 1];

        copy_job->job.step = copy_job_step;
        copy_job->req = req;
        erts_schedule_aux_yield_job(&copy_job->job);
    }
}

Eterm
erts_trace_counters(Process *p, Eterm key, Eterm items,
                    BpDataCallTrace *time, BpDataCallTrace *memory)
{
    Binary *bin = erts_create_magic_binary(
        offsetof(Request, jobs) + erts_no_schedulers*sizeof(CopyJob),
        request_destructor);
    Request *req = (Request *) ERTS_MAGIC_BIN_DATA(bin);
    Eterm *hp, ref;

    ASSERT(time || memory);
    ASSERT(is_not_nil(items) || !(time && memory));

    req->proc = p;
    req->key = key;
    erts_atomic32_init_nob(&req->copying, (erts_aint32_t) erts_no_schedulers);
    init_counters(&req->time, time);
    init_counters(&req->memory, memory);

    hp = HAlloc(p, ERTS_MAGIC_REF_THING_SIZE);
    ref = erts_mk_magic_ref(&hp, &MSO(p), bin);

    erts_refc_inc(&bin->intern.refc, 2);
    erts_proc_inc_refc(p);
    erts_suspend(p, ERTS_PROC_LOCK_MAIN, NULL);
    erts_schedule_multi_misc_aux_work(0, 1, erts_no_schedulers,
                                      copy_on_scheduler, (void *) req);
    ERTS_BIF_YIELD4(&go_on_export, p, ref, items, NIL, NIL);
}

static bp_data_trace_item_t *
find_sum(Counters *c, Eterm pid)
{
    Uint ix = (pid >> 4) % c->size;

    while (c->sums[ix].pid != NIL && c->sums[ix].pid != pid)
        ix = (ix + 1) % c->size;
    return &c->sums[ix];
}

static Eterm
sum_term(Eterm **hpp, const bp_data_trace_item_t *sum, int is_time)
{
    Eterm term;

    if (is_time) {
        BpDataAccumulator usec = ERTS_MONOTONIC_TO_USEC(sum->accumulator);
        BpDataAccumulator sec = usec / 1000000;

        term = TUPLE4(*hpp, sum->pid, make_small(sum->count),
                      make_small((Uint) sec),
                      make_small((Uint) (usec - sec*1000000)));
        *hpp += 5;
    }
    else {
        Eterm words = erts_bld_sint64(hpp, NULL, sum->accumulator);

        term = TUPLE3(*hpp, sum->pid, make_small(sum->count), words);
        *hpp += 4;
    }
    return term;
}

/*
 * Do the next step. Returns whether all is done.
 */
static int
sum_up(Process *p, Counters *c, int is_time, Eterm *list)
{
    Uint i;

    switch (c->stage) {
    case SUMS_CLEAR:
        if (!c->sums) {
            Uint items = 0;

            for (i = 0; i < c->bdt->n; i++)
                items += c->copies[i].items;
            if (items == 0) {
                c->stage = SUMS_DONE;
                return 1;
            }
            c->size = 2*items;
            c->sums = erts_alloc(ERTS_ALC_T_BPD,
                                 c->size*sizeof(bp_data_trace_item_t));
        }
        for (i = 0; i < STEP && c->next < c->size; i++)
            c->sums[c->next++].pid = NIL;
        if (c->next == c->size) {
            c->next = 0;
            c->stage = SUMS_ADD;
        }
        return 0;

    case SUMS_ADD: {
        Copy *copy = &c->copies[c->next];
        Block *block = copy->blocks;

        if (block) {
            for (i = 0; i < block->used; i++) {
                bp_data_trace_item_t *sum = find_sum(c, block->item[i].pid);

                if (sum->pid == NIL) {
                    *sum = block->item[i];
                }
                else {
                    sum->count += block->item[i].count;
                    sum->accumulator += block->item[i].accumulator;
                }
            }
            copy->blocks = block->next;
            erts_free(ERTS_ALC_T_BPD, block);
        }
        else if (++c->next == c->bdt->n) {
            c->next = 0;
            c->stage = SUMS_TERMS;
        }
        return 0;
    }

    case SUMS_TERMS: {
        const Uint need = is_time ? 2+5 : 2+4+ERTS_MAX_SINT64_HEAP_SIZE;
        Uint used = 0;

        for (i = c->next; i < c->size && i < c->next + STEP; i++)
            used += c->sums[i].pid != NIL;
        if (used) {
            Eterm *hp = HAlloc(p, used*need);
            Eterm *hp_end = hp + used*need;

            for (i = c->next; i < c->size && i < c->next + STEP; i++) {
                if (c->sums[i].pid != NIL) {
                    Eterm term = sum_term(&hp, &c->sums[i], is_time);

                    *list = CONS(hp, term, *list);
                    hp += 2;
                }
            }
            ASSERT(hp <= hp_end);
            HRelease(p, hp_end, hp);
        }
        c->next += STEP;
        if (c->next < c->size)
            return 0;
        erts_free(ERTS_ALC_T_BPD, c->sums);
        c->sums = NULL;
        c->stage = SUMS_DONE;
        return 1;
    }

    case SUMS_DONE:
        break;
    }
    return 1;
}

/*
 * trace_info(Request, Items, Time, Memory), with the counters so far: add up
 * what has been copied, and return it.
 */
static BIF_RETTYPE
go_on(BIF_ALIST_4)
{
    Binary *bin = erts_magic_ref2bin(BIF_ARG_1);
    Request *req = (Request *) ERTS_MAGIC_BIN_DATA(bin);
    Eterm items = BIF_ARG_2;
    Eterm time = BIF_ARG_3;
    Eterm memory = BIF_ARG_4;
    Eterm result;
    Eterm *hp;
    Sint reds = ERTS_BIF_REDS_LEFT(BIF_P);

    ASSERT(ERTS_MAGIC_BIN_DESTRUCTOR(bin) == request_destructor);

    if (erts_atomic32_read_acqb(&req->copying) != 0) {
        /* Another process has resumed this one. */
        ERTS_BIF_YIELD4(&go_on_export, BIF_P, BIF_ARG_1, items, time, memory);
    }

    while (!sum_up(BIF_P, &req->time, 1, &time)
           || !sum_up(BIF_P, &req->memory, 0, &memory)) {
        reds -= STEP_REDS;
        BUMP_REDS(BIF_P, STEP_REDS);
        if (reds <= 0) {
            ERTS_BIF_YIELD4(&go_on_export, BIF_P, BIF_ARG_1, items, time,
                            memory);
        }
    }

    if (is_nil(items)) {
        result = req->time.bdt ? time : memory;
    }
    else {
        Eterm *tail = &result;

        hp = HAlloc(BIF_P, (3+2)*erts_list_length(items));
        for (; is_list(items); items = CDR(list_val(items))) {
            Eterm *tp = tuple_val(CAR(list_val(items)));
            Eterm value = tp[2];
            Eterm item;

            if (tp[1] == am_call_time && req->time.bdt)
                value = time;
            else if (tp[1] == am_call_memory && req->memory.bdt)
                value = memory;
            item = TUPLE2(hp, tp[1], value);
            hp += 3;
            *tail = CONS(hp, item, NIL);
            tail = &CDR(hp);
            hp += 2;
        }
    }
    hp = HAlloc(BIF_P, 3);
    BIF_RET(TUPLE2(hp, req->key, result));
}
