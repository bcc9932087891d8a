/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Breakpoints of code that is loaded and deleted.
 *
 * A load operation (finish_loading/1, delete_module/1, finish_after_on_load/2)
 * removes the breakpoints of the code that it replaces and makes those that
 * sessions want in new code, while all other threads keep running. It never
 * stages anything in a breakpoint that other threads can reach. New code gets
 * its own breakpoints, which are complete, and enabled in both halves of their
 * data, before any thread can reach them. The old ones are retired unchanged.
 *
 * Each step runs in a later operation of its own, after a code barrier, so that
 * all threads see what was written in the previous steps:
 *
 *   stage     In the BIF. Record what is replaced, make the new breakpoints,
 *             and write their instructions into new code that is not running.
 *   install   Write the instructions into new code that may be running, in
 *             processes that its -on_load() function has started. Only if
 *             there is such code.
 *   commit    Switch the trampolines of export entries to the new code, and
 *             make the staged code index the active one. From now on, calls
 *             reach the new code with its breakpoints.
 *   retire    All schedulers have seen the new code index, so no more calls
 *             through export entries reach the old code. Disable its
 *             breakpoints and remove their instructions. Only if it has any.
 *   unlink    No thread uses the breakpoints of the old code any more. Release
 *             what they refer to, and free them after another barrier.
 *
 * Until `retire`, a call that reaches the old code is traced as before. From
 * `commit`, a call that reaches the new code is traced as the new code is. There
 * is no time between the two at which a call could miss both.
 *
 * Old and new code share an export entry, and also its trampoline if both are
 * traced. A process that executes the trampoline reads the head of the list of
 * breakpoints once, and finds there the breakpoints and the address that belong
 * to them. So writing one word switches the entry from old to new code.
 *
 * The trampolines are switched before the code index, so a process can read the
 * new head while the old code index is active, in which the new funs do not
 * exist. It then takes the list that the new one replaces, and continues in the
 * old code, or at the error handler if the function did not exist
 * (erts_bp_load_current()). A process that finds the new code index active
 * continues in the new code. Its own code index can still be the old one, so it
 * reads the active one again when it leaves the trampoline (generic_bp_global of
 * the JIT; the interpreter reads it at each call). A process that has taken the
 * old list can then use the new index in the old code, which is correct: the funs
 * of old code are in all tables until it is purged.
 *
 * A commit writes, in this order: `replaced` of each new list, and of the old
 * list if the function is gone; the heads; the active code index; `replaced` of
 * each new list again. A process reads the head, `replaced`, and the active code
 * index. There are barriers between any two of these. If the process has read a
 * new head, and in it NULL, then the new index is active. If it finds the old
 * index active, then what it has read in `replaced` was written by this commit.
 * The old list is freed after more thread progress, and the next commit follows
 * after more thread progress, which a process in a trampoline delays.
 *
 * All functions require code modification permission, and up to `commit` code
 * staging permission too. There is one load operation at a time.
 */

#ifndef __BP_LOAD_H__
#define __BP_LOAD_H__

#include "sys.h"
#include "erl_alloc.h"
#include "erl_threads.h"
#include "beam_bp.h"
#include "module.h"
#include "export.h"

/* Stage: the functions of an instance in the staging module table will be
 * replaced. Its counter of breakpoints is reset. */
void erts_bp_load_retire_instance(struct erl_module_instance *mi);

/* Stage: what a traced export entry leads to, or that of a traced BIF, will be
 * replaced. Its trampoline, if that is active, is in use: leave it alone. */
void erts_bp_load_retire_export(Export *ep);

/* Stage: the current code of a module of the staging table stays, but isn't to
 * be traced any more, except by sessions that keep patterns. It must be the only
 * module of the operation. */
void erts_bp_load_retire_current(Module *modp);

/* Stage: make the breakpoints that sessions want in the current code of a
 * module of the staging table. The addresses of its export entries have been
 * staged. `is_running`: processes may be running the code. */
void erts_bp_load_new_code(Module *modp, int is_running);

int erts_bp_load_has_install(void);
void erts_bp_load_install(void);

/* Makes the staged code index the active one, through
 * erts_commit_staging_code_ix(). */
void erts_bp_load_commit(void);

/* Called by erts_commit_staging_code_ix(), before its first lock, and after it has set the
 * active code index. The first one switches the trampolines. */
void erts_bp_load_begin_switch(void);
void erts_bp_load_end_switch(void);

void erts_bp_load_init(void);

/* For tests: the next load that switches trampolines waits between the two above,
 * until this is set to 0. Whether one waits. Any thread. */
void erts_bp_load_hold_switch(int is_on);
int erts_bp_load_is_switch_held(void);

/* What a list can replace, in place of another list: nothing, because the function did
 * not exist; or itself, because it will not exist. */
extern GenericBp erts_bp_load_undefined__, erts_bp_load_gone__;

GenericBp *erts_bp_load_choose__(GenericBp *first, const GenericBp *replaced);

/* For a process that executes the trampoline of an export entry: the breakpoints to
 * run, or NULL if the function does not exist. `first` is the head of the list, which
 * the process has read. Any thread that delays thread progress. */
static ERTS_INLINE GenericBp *
erts_bp_load_current(GenericBp *first)
{
    GenericBp *replaced;

    ERTS_THR_READ_MEMORY_BARRIER;
    replaced = first->replaced;
    ERTS_THR_READ_MEMORY_BARRIER;

    if (ERTS_UNLIKELY(replaced != NULL)) {
        return erts_bp_load_choose__(first, replaced);
    }
    return first;
}

/* Whether the trampoline of an export entry, whose operation is a breakpoint, leads to
 * a function under the active code index. Any thread that delays thread progress. */
static ERTS_INLINE int
erts_bp_load_is_function(const Export *ep)
{
    GenericBp *first;

    ERTS_THR_READ_MEMORY_BARRIER;
    first = ep->info.gen_bp;
    return first && erts_bp_load_current(first);
}

int erts_bp_load_has_retire(void);
void erts_bp_load_retire(void);
void erts_bp_load_unlink(void);

#endif /* !__BP_LOAD_H__ */
