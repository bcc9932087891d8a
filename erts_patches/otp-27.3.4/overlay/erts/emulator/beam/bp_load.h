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
 * A process could therefore enter new code while it uses the code index of the
 * old code, in which the new funs do not exist. For this reason, a process that
 * leaves a trampoline reads the active code index again (generic_bp_global of
 * the JIT; the interpreter reads it at each call). If it has read the head while
 * a commit switches trampolines, it first waits until the commit has ended
 * (erts_bp_load_sync_commit()). That is a few instructions of one thread.
 *
 * All functions require code modification permission, and up to `commit` code
 * staging permission too. There is one load operation at a time.
 */

#ifndef __BP_LOAD_H__
#define __BP_LOAD_H__

#include "sys.h"
#include "erl_alloc.h"
#include "erl_threads.h"
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

/* Called by erts_commit_staging_code_ix(), immediately before and after it sets the
 * active code index. The first one switches the trampolines. Processes that pass
 * traced trampolines can wait for the second one: nothing else may be done between
 * the two. */
void erts_bp_load_begin_switch(void);
void erts_bp_load_end_switch(void);

void erts_bp_load_init(void);

/* The lock is held from the first trampoline that leads to new code until the new
 * code index is active, and the flag is set during that time. Calls through
 * trampolines read the flag. While the lock is held, no other lock is taken, and no
 * memory is allocated or freed. */
typedef union {
    struct {
        erts_atomic32_t is_under_way;
        erts_mtx_t mtx;
    } c;
    char align__[ERTS_ALC_CACHE_LINE_ALIGN_SIZE(sizeof(erts_atomic32_t)
                                                + sizeof(erts_mtx_t))];
} ErtsBpLoadCommit;

extern ErtsBpLoadCommit erts_bp_load_commit__;
void erts_bp_load_wait_commit__(void);

/* For a process that executes a trampoline: called after it has read the head of
 * the list of breakpoints, and before it reads the active code index. Any
 * thread. */
static ERTS_INLINE void
erts_bp_load_sync_commit(void)
{
    ERTS_THR_READ_MEMORY_BARRIER;
    if (ERTS_UNLIKELY(
            erts_atomic32_read_nob(&erts_bp_load_commit__.c.is_under_way))) {
        erts_bp_load_wait_commit__();
    }
    ERTS_THR_READ_MEMORY_BARRIER;
}

int erts_bp_load_has_retire(void);
void erts_bp_load_retire(void);
void erts_bp_load_unlink(void);

#endif /* !__BP_LOAD_H__ */
