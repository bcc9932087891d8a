/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Breakpoints of code that comes and goes.
 *
 * A load operation (finish_loading/1, delete_module/1, finish_after_on_load/2)
 * removes the breakpoints of the code that it replaces and makes those that
 * sessions want in new code, while all other threads keep running. It never
 * stages anything in a breakpoint that others can reach. New code gets
 * breakpoints of its own, which are complete, and enabled in both halves of
 * their data, before anyone can reach them; the old ones retire as they are.
 *
 * The steps, each in a later operation of its own, with a code barrier before
 * it, so that all that was written in the steps before is seen by everyone:
 *
 *   stage     By the BIF. Note what is replaced, make the new breakpoints,
 *             write their instructions into new code that nobody runs.
 *   install   Write the instructions into new code that somebody may run:
 *             processes that its -on_load() function has started. Only if
 *             there are any.
 *   commit    Point the trampolines of export entries at the new code, and
 *             make the staged code index the active one. Calls reach the new
 *             code, with its breakpoints, from here on.
 *   retire    All schedulers have seen the new code index: the old code gets
 *             no calls through export entries any more. Disable its
 *             breakpoints and remove their instructions. Only if it has any.
 *   unlink    Nobody uses the breakpoints of the old code any more: release
 *             what they refer to, and have them freed after another barrier.
 *
 * Until `retire` a call that reaches the old code is traced as before; from
 * `commit` a call that reaches the new code is traced as the new code is. There
 * is no time between the two at which a call could miss both.
 *
 * An export entry is shared by old and new code, and so is its trampoline if
 * both are traced. Whoever has come to the trampoline reads the head of the
 * list of breakpoints once: it tells the breakpoints and the address that
 * belong to them. To turn the entry from old to new code is one word.
 *
 * So a process can come to new code with the code index of the old one, which
 * would lead it back from there, to funs that the old index does not have. Who
 * leaves a trampoline therefore goes on with the index that is active then
 * (generic_bp_global of the JIT; the interpreter looks at each call), and who
 * has read the head while a commit turns trampolines waits for its end first
 * (erts_bp_load_sync_commit()). These are some instructions of one thread.
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
 * staged. `is_running` tells that processes may run the code. */
void erts_bp_load_new_code(Module *modp, int is_running);

int erts_bp_load_has_install(void);
void erts_bp_load_install(void);

/* Makes the staged code index the active one, by way of
 * erts_commit_staging_code_ix(). */
void erts_bp_load_commit(void);

/* By erts_commit_staging_code_ix(), immediately before and after it sets the
 * active code index. The first one switches the trampolines. Processes that pass
 * traced trampolines can wait for the second one: nothing else may be done between
 * the two. */
void erts_bp_load_begin_switch(void);
void erts_bp_load_end_switch(void);

void erts_bp_load_init(void);

/* The lock is held from the first trampoline that leads to new code until the new
 * code index is active; the flag tells so. Calls through trampolines read it. No
 * other lock is taken, and no memory allocated or freed, while it is held. */
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

/* By who has come to a trampoline, after it has read the head of the list of
 * breakpoints, and before it reads the active code index. Any thread. */
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
