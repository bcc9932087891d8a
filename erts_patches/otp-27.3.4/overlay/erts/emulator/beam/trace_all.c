/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * trace/3 on all processes and ports, see trace_all.h.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "sys.h"
#include "erl_vm.h"
#include "global.h"
#include "erl_process.h"
#include "erl_proc_sig_queue.h"
#include "erl_port_task.h"
#include "error.h"
#include "bif.h"
#include "big.h"
#include "erl_binary.h"
#include "code_ix.h"
#include "trace_all.h"

/* The work of one step, and that of one change, as numbers of slots. */
#define STEP                    10000
#define CHANGE                  20

erts_atomic32_t erts_trace_all_is_on__;

/* For the caller. In a magic binary, to which the caller refers while it waits. */
typedef struct {
    erts_atomic32_t is_done;
    Uint matches;
} Result;

/*
 * The operation, if there is one. Written by its beginning, and then by the
 * scheduler that does the steps only, except for the atomics.
 */
static struct {
    ErtsTraceAll what;
    Process *caller;
    Result *result;
    int prio;                   /* Of the caller, for signals */
    int scheduler;              /* The one that does the steps */
    int in_ports;               /* Visiting ports, not processes */
    int slot;                   /* To be visited next */
    erts_atomic_t matches;
    erts_atomic_t pending;      /* Signals not handled, and 1 while visiting */
    ErtsThrPrgrLaterOp later;
    ErtsAuxYieldJob job;
} op;

/*
 * Threads that create processes or ports read op.what with this locked for
 * reading while erts_trace_all_is_on__ is set, which is changed with it locked
 * for writing.
 */
static erts_rwmtx_t is_on_lock;

static Export wait_export;

static BIF_RETTYPE wait_result(BIF_ALIST_1);
static void begin(void *unused);
static int step(ErtsAuxYieldJob *job);
static void finish(void *unused);

void
erts_trace_all_init(void)
{
    erts_atomic32_init_nob(&erts_trace_all_is_on__, 0);
    erts_rwmtx_init(&is_on_lock, "trace_all", NIL,
                    ERTS_LOCK_FLAGS_PROPERTY_STATIC
                    | ERTS_LOCK_FLAGS_CATEGORY_GENERIC);
    erts_init_trap_export(&wait_export, am_erts_internal, am_trace, 1,
                          &wait_result);
}

static int
result_destructor(Binary *bin)
{
    return 1;
}

static void
switch_on(int on)
{
    erts_rwmtx_rwlock(&is_on_lock);
    erts_atomic32_set_nob(&erts_trace_all_is_on__, on);
    erts_rwmtx_rwunlock(&is_on_lock);
}

/* Change one, with its locks held. */
static int
change(ErtsPTabElementCommon *common)
{
    return erts_start_trace(op.what.session, op.what.tracer, common,
                            op.what.on, op.what.mask) == 0;
}

void
erts_trace_all_new__(ErtsPTabElementCommon *common)
{
    erts_rwmtx_rlock(&is_on_lock);
    if (erts_atomic32_read_nob(&erts_trace_all_is_on__)
        && (is_internal_pid(common->id) ? op.what.procs : op.what.ports)) {
        (void) change(common);
    }
    erts_rwmtx_runlock(&is_on_lock);
}

Eterm
erts_trace_all(Process *p, const ErtsTraceAll *what)
{
    erts_aint32_t state = erts_atomic32_read_nob(&p->state);
    Binary *bin = erts_create_magic_binary(sizeof(Result), result_destructor);
    Eterm *hp, ref;

    ERTS_LC_ASSERT(erts_has_code_mod_permission());
    ASSERT(!erts_atomic32_read_nob(&erts_trace_all_is_on__));

    op.what = *what;
    op.what.tracer = erts_tracer_nil;
    erts_tracer_update(&op.what.tracer, what->tracer);
    erts_ref_trace_session(op.what.session);
    op.caller = p;
    op.prio = (int) ERTS_PSFLGS_GET_USR_PRIO(state);
    op.scheduler = (int) erts_get_scheduler_id();
    op.in_ports = 0;
    op.slot = 0;
    erts_atomic_init_nob(&op.matches, 0);
    erts_atomic_init_nob(&op.pending, 1);
    op.result = (Result *) ERTS_MAGIC_BIN_DATA(bin);
    op.result->matches = 0;
    erts_atomic32_init_nob(&op.result->is_done, 0);
    op.job.step = step;

    hp = HAlloc(p, ERTS_MAGIC_REF_THING_SIZE);
    ref = erts_mk_magic_ref(&hp, &MSO(p), bin);

    erts_refc_inc(&bin->intern.refc, 2);
    erts_proc_inc_refc(p);
    switch_on(1);
    erts_suspend(p, ERTS_PROC_LOCK_MAIN, NULL);
    erts_schedule_thr_prgr_later_op(begin, NULL, &op.later);
    ERTS_BIF_YIELD1(&wait_export, p, ref);
}

/*
 * All processes and ports whose creators could not see the operation are in the
 * tables now.
 */
static void
begin(void *unused)
{
    erts_schedule_aux_yield_job(&op.job);
}

/*
 * One of those that 'pending' counts is done. The last one, which can be in any
 * thread and hold any locks, makes the scheduler that did the steps finish.
 */
static void
one_done(void)
{
    if (erts_atomic_dec_read_mb(&op.pending) == 0) {
        erts_schedule_misc_aux_work(op.scheduler, finish, NULL);
    }
}

/* Handles the signal to a process whose main lock was not available. */
static Eterm
process_signal(Process *c_p, void *unused, int *reds, ErlHeapFragment **bpp)
{
    erts_proc_lock(c_p, ERTS_PROC_LOCKS_ALL_MINOR);
    /* An exiting process handles signals even after it has left the table. */
    if (!(erts_atomic32_read_nob(&c_p->state) & ERTS_PSFLG_FREE)
        && change(&c_p->common)) {
        erts_atomic_inc_nob(&op.matches);
    }
    erts_proc_unlock(c_p, ERTS_PROC_LOCKS_ALL_MINOR);
    one_done();
    *reds = 1;
    return NIL;
}

static void
visit_process(Process *rp)
{
    if (erts_proc_trylock(rp, ERTS_PROC_LOCK_MAIN) == 0) {
        erts_proc_lock(rp, ERTS_PROC_LOCKS_ALL_MINOR);
        if (!(erts_atomic32_read_nob(&rp->state) & ERTS_PSFLG_FREE)
            && change(&rp->common)) {
            erts_atomic_inc_nob(&op.matches);
        }
        erts_proc_unlock(rp, ERTS_PROC_LOCKS_ALL);
    }
    else {
        erts_atomic_inc_nob(&op.pending);
        if (erts_proc_sig_send_rpc_request_prio(NULL, rp->common.id, 0,
                                                process_signal, NULL,
                                                op.prio)
            == THE_NON_VALUE) {
            one_done(); /* It has exited */
        }
    }
}

/* Handles the signal to a port whose lock was not available, or which has closed. */
static int
port_signal(Port *prt, erts_aint32_t state, int sig_op,
            ErtsProc2PortSigData *sigdp)
{
    if (sig_op == ERTS_PROC2PORT_SIG_EXEC
        && !(state & ERTS_PORT_SFLGS_DEAD)
        && change(&prt->common)) {
        erts_atomic_inc_nob(&op.matches);
    }
    one_done();
    return 1;
}

static void
visit_port(Port *prt)
{
    if (erts_atomic32_read_nob(&prt->state) & ERTS_PORT_SFLGS_DEAD) {
        return;
    }
    if (erts_port_trylock(prt) != EBUSY) {
        if (!(erts_atomic32_read_nob(&prt->state) & ERTS_PORT_SFLGS_DEAD)
            && change(&prt->common)) {
            erts_atomic_inc_nob(&op.matches);
        }
        erts_port_release(prt);
    }
    else {
        ErtsProc2PortSigData *sigdp = erts_port_task_alloc_p2p_sig_data();

        sigdp->flags = ERTS_P2P_SIG_TYPE_TRACE;
        sigdp->caller = ERTS_INVALID_PID;
        erts_atomic_inc_nob(&op.pending);
        (void) erts_port_task_schedule(prt->common.id, NULL,
                                       ERTS_PORT_TASK_PROC_SIG, sigdp,
                                       port_signal, 0);
    }
}

static int
step(ErtsAuxYieldJob *job)
{
    int left = STEP;

    while (left > 0) {
        ErtsPTab *table = op.in_ports ? &erts_port : &erts_proc;
        int visits = op.in_ports ? op.what.ports : op.what.procs;

        if (!visits || op.slot == erts_ptab_max(table)) {
            if (op.in_ports) {
                one_done();
                return 0;
            }
            op.in_ports = 1;
            op.slot = 0;
        }
        else {
            void *in_slot = (void *) erts_ptab_pix2intptr_ddrb(table, op.slot);

            left--;
            op.slot++;
            /* A process or port that is being created has only reserved its slot. */
            if (in_slot && in_slot != (void *) table->r.o.invalid_element) {
                left -= CHANGE;
                if (op.in_ports)
                    visit_port((Port *) in_slot);
                else
                    visit_process((Process *) in_slot);
            }
        }
    }
    return 1;
}

static void
finish(void *unused)
{
    Process *caller = op.caller;
    ErtsTraceSession *session = op.what.session;
    Result *result = op.result;

    /* From here on, no other thread uses op.what. */
    switch_on(0);

    if (op.what.last) {
        (*op.what.last)();
    }
    ERTS_TRACER_CLEAR(&op.what.tracer);
    result->matches = (Uint) erts_atomic_read_nob(&op.matches);
    erts_atomic32_set_relb(&result->is_done, 1);
    erts_bin_release(&ERTS_MAGIC_BIN_FROM_DATA(result)->binary);

    erts_release_code_mod_permission();
    erts_deref_trace_session(session);

    erts_proc_lock(caller, ERTS_PROC_LOCK_STATUS);
    if (!ERTS_PROC_IS_EXITING(caller)) {
        erts_resume(caller, ERTS_PROC_LOCK_STATUS);
    }
    erts_proc_unlock(caller, ERTS_PROC_LOCK_STATUS);
    erts_proc_dec_refc(caller);
}

/*
 * trace(Result): wait until all have been changed.
 */
static BIF_RETTYPE
wait_result(BIF_ALIST_1)
{
    Binary *bin = erts_magic_ref2bin(BIF_ARG_1);
    Result *result = (Result *) ERTS_MAGIC_BIN_DATA(bin);

    ASSERT(ERTS_MAGIC_BIN_DESTRUCTOR(bin) == result_destructor);

    if (!erts_atomic32_read_acqb(&result->is_done)) {
        /* Another process has resumed this one. */
        ERTS_BIF_YIELD1(&wait_export, BIF_P, BIF_ARG_1);
    }
    BIF_RET(make_small(result->matches));
}
