/*
 * SPDX-License-Identifier: Apache-2.0
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "sys.h"
#include "global.h"
#include "erl_vm.h"
#include "beam_code.h"
#include "beam_bp.h"
#include "bp_load.h"
#include "erl_trace.h"
#include "jit/beam_asm.h"

/*
 * An export entry whose breakpoints change.
 */
typedef struct {
    Export *ep;
    GenericBp *retired;         /* Breakpoints to be removed, or NULL */
    GenericBp *added;           /* Breakpoints that take their place, or NULL */
    ErtsCodePtr address;        /* Where they continue */
    int is_kept;                /* Some breakpoints stay */
} BpExport;

static struct { /* Protected by code modification permission */
    /* Copies of instances with breakpoints to be removed. The module table
     * may change before that is done. */
    struct erl_module_instance *instances;
    int num_instances;
    int room_instances;

    BpExport *exports;
    Uint num_exports;
    Uint room_exports;
    int is_retiring_exports;    /* Some exports lose breakpoints */

    /* The code stays, and so do the breakpoints of sessions that keep
     * patterns. */
    int is_keeping;

    /* Code that runs, and in which breakpoints are to be installed, or NULL.
     * There is no more than one, as modules with an -on_load() function are
     * finished one by one. In the staging table. */
    struct erl_module_instance *running;
} bp_load;

GenericBp erts_bp_load_undefined__, erts_bp_load_gone__;

/* The code index that the last commit has made the active one, or makes it now.
 * Written before `replaced` of any list. */
static ErtsCodeIndex committed_ix;

enum hold {
    HOLD_NONE,
    HOLD_NEXT,
    HOLD_CURRENT
};

static erts_atomic32_t hold;

void
erts_bp_load_init(void)
{
    erts_atomic32_init_nob(&hold, HOLD_NONE);
}

void
erts_bp_load_hold_switch(int is_on)
{
    erts_atomic32_set_nob(&hold, is_on ? HOLD_NEXT : HOLD_NONE);
}

int
erts_bp_load_is_switch_held(void)
{
    return erts_atomic32_read_nob(&hold) == HOLD_CURRENT;
}

/*
 * A word that is not NULL is not always written by a commit: it can also be
 * `to_insert`. The active code index is that of the last commit then.
 */
GenericBp *
erts_bp_load_choose__(GenericBp *first, const GenericBp *replaced)
{
    const int is_new = (erts_active_code_ix() == committed_ix);

    if (replaced == &erts_bp_load_gone__) {
        return is_new ? NULL : first;
    }
    if (is_new) {
        return first;
    }
    return (replaced == &erts_bp_load_undefined__ ? NULL
            : (GenericBp *) replaced);
}

static void
wait_if_held(void)
{
    if (erts_atomic32_cmpxchg_nob(&hold, HOLD_CURRENT, HOLD_NEXT) == HOLD_NEXT) {
        while (erts_bp_load_is_switch_held()) {
            erts_milli_sleep(1);
        }
    }
}

/* The operation is complete. */
static void
reset(void)
{
    if (bp_load.instances) {
        erts_free(ERTS_ALC_T_BPD, bp_load.instances);
    }
    if (bp_load.exports) {
        erts_free(ERTS_ALC_T_BPD, bp_load.exports);
    }
    sys_memzero(&bp_load, sizeof(bp_load));
}

static BpExport *
add_export(Export *ep)
{
    BpExport *be;

    if (bp_load.num_exports == bp_load.room_exports) {
        bp_load.room_exports = 2 * bp_load.room_exports + 16;
        bp_load.exports = erts_realloc(ERTS_ALC_T_BPD, bp_load.exports,
                                       bp_load.room_exports *
                                       sizeof(BpExport));
    }
    be = &bp_load.exports[bp_load.num_exports++];
    be->ep = ep;
    be->retired = NULL;
    be->added = NULL;
    be->address = NULL;
    be->is_kept = 0;
    return be;
}

void
erts_bp_load_retire_instance(struct erl_module_instance *mi)
{
    ERTS_LC_ASSERT(erts_has_code_load_permission());

    if (mi->num_breakpoints == 0 ||
        (bp_load.is_keeping && erts_bp_count_functions(mi, 0) == 0)) {
        return;
    }

    if (bp_load.num_instances == bp_load.room_instances) {
        bp_load.room_instances = 2 * bp_load.room_instances + 1;
        bp_load.instances = erts_realloc(ERTS_ALC_T_BPD, bp_load.instances,
                                         bp_load.room_instances *
                                         sizeof(*bp_load.instances));
    }
    bp_load.instances[bp_load.num_instances++] = *mi;
    mi->num_breakpoints = bp_load.is_keeping ? erts_bp_count_functions(mi, 1) : 0;
}

static BpExport *
retire_export(Export *ep)
{
    BpExport *be = add_export(ep);

    be->retired = ep->info.gen_bp;
    bp_load.is_retiring_exports = 1;
    return be;
}

void
erts_bp_load_retire_export(Export *ep)
{
    ERTS_LC_ASSERT(erts_has_code_load_permission());
    (void) retire_export(ep);
}

void
erts_bp_load_retire_current(Module *modp)
{
    const ErtsCodeIndex staging_ix = erts_staging_code_ix();
    const Eterm module = make_atom(modp->module);
    Export *ep;

    ERTS_LC_ASSERT(erts_has_code_load_permission());

    bp_load.is_keeping = 1;
    for (ep = erts_export_first_in_module(module); ep != NULL;
         ep = erts_export_next_in_module(ep)) {
        if (erts_is_export_trampoline_active(ep, staging_ix) &&
            BeamIsOpCode(ep->trampoline.common.op, op_i_generic_breakpoint)) {
            BpExport *be;

            if (!erts_bp_has(ep->info.gen_bp, 0)) {
                continue;
            }
            be = retire_export(ep);
            be->is_kept = erts_bp_has(be->retired, 1);
            if (!be->is_kept) {
                erts_export_set_address(ep, staging_ix, (ErtsCodePtr)
                                        ep->trampoline.breakpoint.address);
                modp->curr.num_traced_exports--;
            }
        }
    }
    erts_bp_load_retire_instance(&modp->curr);
}

/*
 * Make the trampoline of an export entry lead to the breakpoints of new code.
 * The trampoline may be in use, even if the active code index does not lead to
 * it: a process can have reached it through the previous index, or have been
 * scheduled out there.
 */
static void
set_trampoline(BpExport *be)
{
    Export *ep = be->ep;

#if defined(DEBUG) && !defined(BEAMASM)
    ep->info.u.op = BeamOpCodeAddr(op_i_func_info_IaaI);
#endif
    ep->trampoline.breakpoint.address = (BeamInstr) be->address;
    ep->info.gen_bp = be->added;        /* Assumes atomic word write */

    /* Threads that reach the instruction must find the breakpoints. */
    ERTS_THR_WRITE_MEMORY_BARRIER;
    ep->trampoline.breakpoint.op = BeamOpCodeAddr(op_i_generic_breakpoint);
}

/*
 * Make the breakpoints that the sessions want in a function, or in an export
 * entry that leads to it.
 */
static GenericBp *
make_breakpoints(const ErtsCodeInfo *ci, int is_export)
{
    ErtsTraceSession *s;
    GenericBp *list = NULL;

    for (s = &erts_trace_session_0; s; s = s->next) {
        BpWanted wanted;

        if (erts_is_trace_session_alive(s) &&
            erts_trace_wanted(s, &ci->mfa, &wanted)) {
            wanted.flags &= (is_export ? ERTS_BPF_GLOBAL_TRACE
                             : ~ERTS_BPF_GLOBAL_TRACE);
            if (wanted.flags) {
                list = erts_bp_make(s, &wanted, ci, list);
            }
        }
    }
    return list;
}

static void
add_function_breakpoints(struct erl_module_instance *mi, int is_running)
{
    const BeamCodeHeader *code_hdr = mi->code_hdr;
    Uint i, n = (Uint) code_hdr->num_functions;

    erts_unseal_module(mi);
    for (i = 0; i < n; i++) {
        const ErtsCodeInfo *ci_exec = code_hdr->functions[i];
        GenericBp *list = make_breakpoints(ci_exec, 0);

        if (list) {
            ErtsCodeInfo *ci_rw =
                (ErtsCodeInfo *) erts_writable_code_ptr(mi, ci_exec);

            ASSERT(ci_rw->gen_bp == NULL);
            ci_rw->gen_bp = list;
            mi->num_breakpoints++;
            if (!is_running) {
                erts_bp_install(ci_rw, ci_exec);
            }
        }
    }
    erts_seal_module(mi);
}

static void
add_export_breakpoints(Module *modp)
{
    const ErtsCodeIndex staging_ix = erts_staging_code_ix();
    const Eterm module = make_atom(modp->module);
    Uint retired, end_retired;
    Export *ep;

    /* The entries for the old code of the module are last in the list, in the
     * order in which its exports are walked here. */
    end_retired = bp_load.num_exports;
    retired = end_retired;
    while (retired > 0 &&
           bp_load.exports[retired-1].ep->info.mfa.module == module) {
        retired--;
    }

    for (ep = erts_export_first_in_module(module); ep != NULL;
         ep = erts_export_next_in_module(ep)) {
        const ErtsCodeInfo *ci;
        GenericBp *list;
        BpExport *be = NULL;

        if (retired < end_retired && bp_load.exports[retired].ep == ep) {
            be = &bp_load.exports[retired++];
        }
        if (erts_is_export_trampoline_active(ep, staging_ix)) {
            continue;           /* Not exported by the new code. */
        }

        ci = erts_code_to_codeinfo(ep->dispatch.addresses[staging_ix]);
        list = make_breakpoints(ci, 1);

        if (ep->bif_number != -1 && (list || ci->gen_bp)) {
            erts_set_bif_traced(ep);
        }
        if (!list) {
            continue;
        }

        if (be == NULL) {
            be = add_export(ep);
        }
        be->added = list;
        be->address = ep->dispatch.addresses[staging_ix];
        modp->curr.num_traced_exports++;
        erts_export_set_trampoline(ep, staging_ix);
    }
    ASSERT(retired == end_retired);
}

void
erts_bp_load_new_code(Module *modp, int is_running)
{
    ERTS_LC_ASSERT(erts_has_code_load_permission());

    if (!erts_trace_wants_module(make_atom(modp->module))) {
        return;
    }

    erts_rwmtx_rlock(&erts_trace_session_list_lock);
    add_function_breakpoints(&modp->curr, is_running);
    add_export_breakpoints(modp);
    erts_rwmtx_runlock(&erts_trace_session_list_lock);

    if (is_running && modp->curr.num_breakpoints > 0) {
        ASSERT(bp_load.running == NULL);
        bp_load.running = &modp->curr;
    }
}

int
erts_bp_load_has_install(void)
{
    return bp_load.running != NULL;
}

void
erts_bp_load_install(void)
{
    struct erl_module_instance *mi = bp_load.running;
    Uint i, n = (Uint) mi->code_hdr->num_functions;

    ERTS_LC_ASSERT(erts_has_code_load_permission());

    erts_unseal_module(mi);
    for (i = 0; i < n; i++) {
        const ErtsCodeInfo *ci_exec = mi->code_hdr->functions[i];
        ErtsCodeInfo *ci_rw =
            (ErtsCodeInfo *) erts_writable_code_ptr(mi, ci_exec);

        if (ci_rw->gen_bp) {
            erts_bp_install(ci_rw, ci_exec);
        }
    }
    erts_seal_module(mi);
    bp_load.running = NULL;
}

void
erts_bp_load_commit(void)
{
    ERTS_LC_ASSERT(erts_has_code_load_permission());

    erts_commit_staging_code_ix();

    if (!erts_bp_load_has_retire()) {
        reset();
    }
}

/* The function is not in the new code. */
static int
is_gone(const BpExport *be, ErtsCodeIndex new_ix)
{
    return (!be->added && !be->is_kept &&
            erts_is_export_trampoline_active(be->ep, new_ix));
}

void
erts_bp_load_begin_switch(void)
{
    Uint i;

    committed_ix = erts_staging_code_ix();
    ERTS_THR_WRITE_MEMORY_BARRIER;

    if (bp_load.num_exports == 0) {
        return;
    }

    for (i = 0; i < bp_load.num_exports; i++) {
        BpExport *be = &bp_load.exports[i];

        if (be->added) {
            ASSERT(be->added->replaced == NULL);
            be->added->replaced = (be->retired ? be->retired
                                   : &erts_bp_load_undefined__);
        }
        else if (be->retired && is_gone(be, committed_ix)) {
            ASSERT(be->retired->replaced == NULL);
            be->retired->replaced = &erts_bp_load_gone__;
        }
    }
    ERTS_THR_WRITE_MEMORY_BARRIER;

    for (i = 0; i < bp_load.num_exports; i++) {
        if (bp_load.exports[i].added) {
            set_trampoline(&bp_load.exports[i]);
        }
    }

    wait_if_held();

    /* Calls by the new code index find what has been written here. */
    ERTS_THR_WRITE_MEMORY_BARRIER;
}

void
erts_bp_load_end_switch(void)
{
    Uint i;

    ERTS_THR_WRITE_MEMORY_BARRIER;

    for (i = 0; i < bp_load.num_exports; i++) {
        BpExport *be = &bp_load.exports[i];

        if (be->added) {
            be->added->replaced = NULL;
        }
        else if (is_gone(be, committed_ix)) {
            be->ep->is_bif_traced = 0;
            be->ep->trampoline.common.op = BeamOpCodeAddr(op_call_error_handler);
        }
    }
}

int
erts_bp_load_has_retire(void)
{
    return bp_load.num_instances > 0 || bp_load.is_retiring_exports;
}

void
erts_bp_load_retire(void)
{
    const ErtsCodeIndex code_ix = erts_active_code_ix();
    Uint i;
    int j;

    ERTS_LC_ASSERT(erts_has_code_load_permission());

    for (i = 0; i < bp_load.num_exports; i++) {
        const BpExport *be = &bp_load.exports[i];
        Export *ep = be->ep;

        if (be->retired) {
            be->retired->replaced = NULL;       /* If the function is gone */
        }
        erts_bp_retire(be->retired, bp_load.is_keeping);
        if (be->retired && !be->added &&
            !erts_is_export_trampoline_active(ep, code_ix)) {
            /* No new call goes through the trampoline. But in the interpreter,
             * a process can have been scheduled out there, and resume at any
             * time. It then reaches the new code through the error handler. */
            ep->trampoline.common.op = BeamOpCodeAddr(op_call_error_handler);
        }
    }

    for (j = 0; j < bp_load.num_instances; j++) {
        erts_bp_retire_instance(&bp_load.instances[j], bp_load.is_keeping);
    }
}

void
erts_bp_load_unlink(void)
{
    Uint i;
    int j;

    ERTS_LC_ASSERT(erts_has_code_mod_permission());

    for (i = 0; i < bp_load.num_exports; i++) {
        const BpExport *be = &bp_load.exports[i];
        Export *ep = be->ep;

        if (be->retired) {
            GenericBp *kept = erts_bp_release_retired(be->retired);

            ASSERT(kept == NULL || (be->is_kept && !be->added));
            if (!be->added) {
                ep->info.gen_bp = kept;
                if (!kept) {
                    ep->trampoline.breakpoint.address = (BeamInstr) 0;
                }
            }
        }
        if (ep->is_bif_traced) {
            erts_update_bif_traced(ep);
        }
    }

    for (j = 0; j < bp_load.num_instances; j++) {
        erts_bp_unlink_instance(&bp_load.instances[j]);
    }

    erts_free_breakpoints_later(NULL, NULL);
    reset();
}
