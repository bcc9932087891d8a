/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Patterns of a trace session that apply to code that is loaded later.
 *
 * A session that was created with the option keep_patterns has a set of them. The
 * set has the net effect of the session's operations, not the operations: for each
 * kind of breakpoint and each {M,F,A}, {M,F,'_'}, {M,'_','_'} and {'_','_','_'}
 * that was named, whether it is wanted. The last operation on a function counts,
 * as for code that is loaded. So an operation removes the settings of all patterns
 * that name fewer functions.
 *
 * All functions require code modification permission. Unless their description
 * states otherwise, they do not yield, and the time that they take does not depend
 * on the number of patterns.
 */

#ifndef __KEPT_PATTERNS_H__
#define __KEPT_PATTERNS_H__

#include "sys.h"
#include "erl_trace.h"
#include "beam_bp.h"

typedef struct KeptPatterns_ KeptPatterns;

void erts_kept_patterns_init(void);

/* The number of patterns in all sets. Any thread. */
UWord erts_kept_patterns_count(void);

KeptPatterns *erts_kept_patterns_new(void);

/* To be called on a normal scheduler, which frees most of a large set later, in
 * steps. done(arg) is called on it when the set has been freed. */
void erts_kept_patterns_delete(KeptPatterns *kept, void (*done)(void *),
                               void *arg);

/* Record an operation. The arguments are those of the operation: `specified` is
 * the number of leading elements of `mfa` that are not '_'. The set refers to the
 * match specification and the tracer as long as they are wanted. Returns the number
 * of patterns visited, which are all that name fewer functions than this one. The
 * time taken is proportional to that number. */
Uint erts_kept_patterns_set(KeptPatterns *kept, const ErtsCodeMFA *mfa,
                            int specified, enum erts_break_op on,
                            struct trace_pattern_flags flags,
                            Binary *match_spec, ErtsTracer meta_tracer);

/* Whether erts_kept_patterns_apply() may change anything for its functions. */
int erts_kept_patterns_name_module(const KeptPatterns *kept, Eterm module);

/* Apply the settings of the set for a function to `wanted`. What `wanted` refers to
 * belongs to the set. */
void erts_kept_patterns_apply(const KeptPatterns *kept, const ErtsCodeMFA *mfa,
                              BpWanted *wanted);

#endif /* !__KEPT_PATTERNS_H__ */
