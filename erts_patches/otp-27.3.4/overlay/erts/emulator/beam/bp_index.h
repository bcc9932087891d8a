/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The functions of modules by name, for an operation that names functions.
 *
 * An operation on trace patterns that names many functions of one module would
 * walk all functions of the module for each of them. To avoid that, the first
 * pattern that names a function of a module makes an index of the module:
 * a hash table with a chain of functions for each name. It lives as long as
 * patterns are staged.
 *
 * All functions require code modification permission, so that the current code
 * of a module stays what it is from the first erts_bp_index_match() of an
 * operation until erts_bp_index_clear().
 */

#ifndef __BP_INDEX_H__
#define __BP_INDEX_H__

#include "sys.h"
#include "module.h"
#include "beam_bp.h"

void erts_bp_index_init(void);

/* Makes `f` the list of the functions in the current code of a module that are
 * named by the first `specified` parts of `mfa`, 2 or 3. The module has code.
 * If the module has no index yet, at most `max` of its functions are indexed at
 * a time: returns false, with an empty list, until that is done.
 * Sets f->looked_at to the number of functions visited: those that have been
 * indexed, and those of the same name. */
int erts_bp_index_match(BpFunctions *f, Module *modp, const ErtsCodeMFA *mfa,
                        int specified, Uint max);

/* Frees all indexes. */
void erts_bp_index_clear(void);

#endif /* !__BP_INDEX_H__ */
