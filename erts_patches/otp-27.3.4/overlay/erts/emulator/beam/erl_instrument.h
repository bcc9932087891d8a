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

/* Whether an allocator of alloc_util tags its blocks. All of its instances have
 * the same options. */
int erts_instr_has_tags(int alloc_no);

/* Faster than thread specific data. */
#if defined(__GNUC__)
#  define ERTS_INSTR_THREAD_LOCAL __thread
#endif

#ifdef GET_ERL_ALLOC_UTIL_IMPL

#include "erl_alloc_util.h"

/* Of an allocated block */
#if MBC_ABLK_OFFSET_BITS
#  define ERTS_INSTR_BLOCK_HDR_SIZE offsetof(Block_t, u)
#else
#  define ERTS_INSTR_BLOCK_HDR_SIZE sizeof(Block_t)
#endif

#define ERTS_INSTR_BLOCK(PTR) \
    ((Block_t *) ((char *) (PTR) - ERTS_INSTR_BLOCK_HDR_SIZE))

/*
 * The size of an allocated block, with its header and tag. Any owner of the block
 * may read it: other threads only change the flag in the header for whether the
 * previous block is free. This block is not free, so the flag for that is set for
 * single block carriers only.
 */
static ERTS_INLINE UWord
erts_instr_block_size(void *ptr)
{
    UWord hdr = ERTS_INSTR_BLOCK(ptr)->bhdr;

    if (ERTS_UNLIKELY(hdr & THIS_FREE_BLK_HDR_FLG)) {
        ASSERT((hdr & SBC_BLK_HDR_FLG) == SBC_BLK_HDR_FLG);
        return hdr & SBC_BLK_SZ_MASK;
    }
    return hdr & MBC_ABLK_SZ_MASK;
}

/* The first word of the tag of a block that has one. */
static ERTS_INLINE UWord *
erts_instr_block_tag(void *ptr, UWord block_size)
{
    ASSERT(ERTS_INSTR_BLOCK(ptr)->bhdr & ATAG_BLK_HDR_FLG);
    return (UWord *) ((char *) ERTS_INSTR_BLOCK(ptr) + block_size
                      - ERTS_ALC_ATAG_SIZE);
}

#endif /* GET_ERL_ALLOC_UTIL_IMPL */

#endif /* ERL_INSTRUMENT_H__ */
