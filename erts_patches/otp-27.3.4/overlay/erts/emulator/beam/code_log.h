/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Log of what has changed between the code indexes.
 *
 * Each of the code access structures (export table, fun table, module table,
 * code ranges) exists once per code index. Staging has to turn the staging
 * copy, which was the active one two commits ago, into a copy of the active
 * one. An entry can only differ between the two if it has been written since
 * that copy was active; this log names those entries, so that staging copies
 * them and nothing else.
 *
 * Rounds. A round is the time between two commits. With ERTS_NUM_CODE_IX (3)
 * code indexes, the copy that is staged in round R was the active one in round
 * R-2 and is neither read nor written by a load operation in round R-1. What
 * can differ from the active copy is what was written
 *
 *   - in round R-2, in the copy itself while it was active (tracing, purging),
 *     or in the copy that was staged then and became active in R-1;
 *   - in round R-1, in the copy that was active then, or in the one that was
 *     staged then and is active now;
 *   - in round R, in the active copy, or by a load that was aborted.
 *
 * Hence erts_code_log_add() must be called for each entry that is written, under
 * any code index, in the round in which it is written. Replaying the entries of
 * the rounds and R then makes the copies equal. An aborted load needs no
 * rollback of its own: the round continues, its entries are still in the log, and
 * are copied again when the next load starts.
 *
 * An entry is in the log once, in the latest round that changed it. It holds
 * its own position in the log (32 bits, initially anything). The position is
 * a hint that is verified against the log, so it needs no upkeep when old
 * rounds are dropped.
 *
 * An operation that writes a large part of all entries calls
 * erts_code_log_add_all() instead of logging each of them. The stagings of three
 * rounds then copy everything, which costs little more than copying these entries.
 *
 * Memory: one word per entry changed in the last three rounds.
 *
 * Locking: none here. The caller serializes all operations on one log.
 */

#ifndef __CODE_LOG_H__
#define __CODE_LOG_H__

#include "sys.h"
#include "erl_alloc.h"
#include "code_ix.h"

/* Compare each staged structure with a full copy of the active one after each
 * replay, and abort on a difference. This costs as much as copying. */
#if defined(DEBUG) && !defined(ERTS_CODE_STAGING_CHECK)
#  define ERTS_CODE_STAGING_CHECK
#endif

typedef struct {
    ErtsAlcType_t type;
    void **slots;          /* NULL: the entry was logged again, or forgotten */
    UWord size;            /* Allocated slots */
    UWord used;            /* Used slots */
    UWord prev_round;      /* Slot where the previous round starts */
    UWord this_round;      /* Slot where the current round starts */
    Uint32 first;          /* Log position of slot 0; wraps around */
    Uint32 all_rounds;     /* Bit N: add_all() was called N rounds ago */
} ErtsCodeLog;

void erts_code_log_init(ErtsCodeLog *log, ErtsAlcType_t type);

/* Log that `entry` has been, or is about to be, written. Idempotent within a
 * round. `*posp` is the position held by the entry. */
void erts_code_log_add(ErtsCodeLog *log, void *entry, Uint32 *posp);

/* Log that any of the entries may be written in the rest of this round. */
void erts_code_log_add_all(ErtsCodeLog *log);

/* Has erts_code_log_add_all() been called in this round? Then erts_code_log_add()
 * can be omitted, except for new entries. */
int erts_code_log_all_this_round(const ErtsCodeLog *log);

/* Remove an entry that is about to be freed. `pos` is the position held by
 * the entry, which need not be in the log. */
void erts_code_log_forget(ErtsCodeLog *log, void *entry, Uint32 pos);

/* A new round starts: the staging code index has just become the active one.
 * Drops entries that no later staging needs. */
void erts_code_log_commit(ErtsCodeLog *log);

/* Memory used by the log, in bytes, besides the struct itself. */
UWord erts_code_log_sz(const ErtsCodeLog *log);

/* Does a replay have to visit all entries of the active copy? */
int erts_code_log_replay_all(const ErtsCodeLog *log);

/* To replay: visit slots 0 to `used` - 1 and skip those that are NULL; before
 * that all entries of the active copy, if erts_code_log_replay_all() is true.
 */

#endif /* __CODE_LOG_H__ */
