/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Patterns of a trace session that apply to code that is loaded later.
 *
 * A session that was created with the option keep_patterns has a set of them.
 * It remembers what the session's operations on functions amount to, not the
 * operations: for each kind of breakpoint and each {M,F,A}, {M,F,'_'},
 * {M,'_','_'} and {'_','_','_'} that was named, whether it is wanted. What was
 * said last about a function counts, as it does for code that is there; thus an
 * operation makes the set forget what it says about less.
 *
 * All functions require code modification permission. They don't yield, except
 * where they say so. The time they take doesn't depend on the number of
 * patterns, except where they say so.
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

/* The set may be NULL. By a normal scheduler; if it is large, that frees most of
 * it later, in steps. */
void erts_kept_patterns_delete(KeptPatterns *kept);

/* Remember an operation. The arguments are those of the operation: `specified`
 * is the number of leading elements of `mfa` that are not '_'. The match
 * specification and the tracer are referred to as long as they are wanted.
 * Returns the number of patterns that it has looked at, all that name fewer
 * functions than this one: the time that it takes grows with them. */
Uint erts_kept_patterns_set(KeptPatterns *kept, const ErtsCodeMFA *mfa,
                            int specified, enum erts_break_op on,
                            struct trace_pattern_flags flags,
                            Binary *match_spec, ErtsTracer meta_tracer);

/* Whether erts_kept_patterns_apply() may change anything for its functions. */
int erts_kept_patterns_name_module(const KeptPatterns *kept, Eterm module);

/* Change what is wanted in a function to what the set says about it. What
 * `wanted` refers to belongs to the set. */
void erts_kept_patterns_apply(const KeptPatterns *kept, const ErtsCodeMFA *mfa,
                              BpWanted *wanted);

#endif /* !__KEPT_PATTERNS_H__ */
