/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Instrumentation of memory allocation: +Mim true and +Mis true.
 *
 * Nothing here costs anything when both flags are off. What has to see each
 * allocation replaces the entries of erts_allctrs[] when the emulator starts.
 */

#ifndef ERL_INSTRUMENT_H__
#define ERL_INSTRUMENT_H__

#include "erl_alloc.h"

/*
 * Set once by erts_instr_init(), before any thread but the first exists.
 *
 * erts_instr_map_enabled:    +Mim true; memory maps can be made.
 * erts_instr_status_enabled: +Mis true or +Mim true; blocks are counted.
 */
extern int erts_instr_map_enabled;
extern int erts_instr_status_enabled;

/*
 * Replaces the entries of erts_allctrs[]. Called by erts_alloc_init(), after
 * the entries have been set and before the first allocation through them.
 */
void erts_instr_init(int map, int status);

#endif /* ERL_INSTRUMENT_H__ */
