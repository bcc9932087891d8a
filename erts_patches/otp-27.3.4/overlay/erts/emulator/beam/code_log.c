/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Log of what has changed between the code indexes; see code_log.h.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "sys.h"
#include "code_log.h"

#define MIN_SIZE 256

/* The current round, and the two before it. */
#define ROUND_BITS ((1 << ERTS_NUM_CODE_IX) - 1)

void
erts_code_log_init(ErtsCodeLog *log, ErtsAlcType_t type)
{
    ERTS_CT_ASSERT(ERTS_NUM_CODE_IX == 3);

    sys_memset(log, 0, sizeof(*log));
    log->type = type;
    log->size = MIN_SIZE;
    log->slots = erts_alloc(type, MIN_SIZE * sizeof(void*));
}

/* Returns the slot that holds the entry, or `used` if there is none. */
static UWord
find_slot(const ErtsCodeLog *log, const void *entry, Uint32 pos)
{
    /* Both positions wrap around at 32 bits; their distance is what counts. */
    UWord ix = (Uint32)(pos - log->first);

    return (ix < log->used && log->slots[ix] == entry) ? ix : log->used;
}

static void
resize(ErtsCodeLog *log, UWord size)
{
    ASSERT(size >= log->used);

    log->slots = erts_realloc(log->type, log->slots, size * sizeof(void*));
    log->size = size;
}

void
erts_code_log_add(ErtsCodeLog *log, void *entry, Uint32 *posp)
{
    UWord ix = find_slot(log, entry, *posp);

    if (ix < log->used) {
        if (ix >= log->this_round) {
            return;
        }
        log->slots[ix] = NULL;
    }

    if (log->used == log->size) {
        resize(log, 2 * log->size);
    }
    *posp = log->first + (Uint32)log->used;
    log->slots[log->used++] = entry;
}

void
erts_code_log_add_all(ErtsCodeLog *log)
{
    log->all_rounds |= 1;
}

int
erts_code_log_all_this_round(const ErtsCodeLog *log)
{
    return log->all_rounds & 1;
}

int
erts_code_log_replay_all(const ErtsCodeLog *log)
{
    return log->all_rounds != 0;
}

void
erts_code_log_forget(ErtsCodeLog *log, void *entry, Uint32 pos)
{
    UWord ix = find_slot(log, entry, pos);

    if (ix < log->used) {
        log->slots[ix] = NULL;
    }
}

void
erts_code_log_commit(ErtsCodeLog *log)
{
    /* The round that is the previous one now will be two rounds back. */
    UWord drop = log->prev_round;

    log->prev_round = log->this_round - drop;
    log->this_round = log->used - drop;
    log->used -= drop;
    log->first += (Uint32)drop;
    log->all_rounds = (log->all_rounds << 1) & ROUND_BITS;
    sys_memmove(log->slots, &log->slots[drop], log->used * sizeof(void*));

    /* Give back the memory of a large load once its rounds are gone. */
    if (log->size > MIN_SIZE && log->used < log->size / 8) {
        resize(log, MAX(MIN_SIZE, 2 * log->used));
    }
}

UWord
erts_code_log_sz(const ErtsCodeLog *log)
{
    return log->size * sizeof(void*);
}
