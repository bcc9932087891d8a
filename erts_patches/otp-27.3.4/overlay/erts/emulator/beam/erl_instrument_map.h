/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Maps of the allocated memory: +Mim true. Their form is described in
 * erl_instrument_map.c.
 */

#ifndef ERL_INSTRUMENT_MAP_H__
#define ERL_INSTRUMENT_MAP_H__

#include "erl_alloc.h"

/*
 * Set by erts_alloc_init() from +Mim, before any allocator is started. If it is
 * set, alloc_util counts its carriers.
 */
extern int erts_alcu_map_enabled;

/*
 * Replaces entries of erts_allctrs[]: what is freed is marked, and what comes
 * from malloc() is kept in lists. Called by erts_alloc_init(), before the first
 * allocation through the entries, if erts_alcu_map_enabled is set.
 */
void erts_instr_map_init(void);

#define ERTS_ALCU_MAP_BUF_SIZE     (64*1024)
#define ERTS_ALCU_MAP_SECTION_SIZE 64
#define ERTS_ALCU_MAP_RECORD_SIZE  16
#define ERTS_ALCU_MAP_UNIT         8

/* Room for a pooled carrier, which is written at once. */
#define ERTS_ALCU_MAP_IN_POOL_BLOCKS 256
#define ERTS_ALCU_MAP_MIN_ROOM                                            \
    (ERTS_ALCU_MAP_SECTION_SIZE                                           \
     + (2*ERTS_ALCU_MAP_IN_POOL_BLOCKS + 2)*ERTS_ALCU_MAP_RECORD_SIZE)

/* Kinds of sections */
#define ERTS_ALCU_MAP_MBC   1
#define ERTS_ALCU_MAP_SBC   2
#define ERTS_ALCU_MAP_LOOSE 3
#define ERTS_ALCU_MAP_CODE  4
#define ERTS_ALCU_MAP_SEGS  5

/* Flags of sections */
#define ERTS_ALCU_MAP_FLG_FIRST   (1 << 0)
#define ERTS_ALCU_MAP_FLG_LAST    (1 << 1)
#define ERTS_ALCU_MAP_FLG_IN_POOL (1 << 2)
#define ERTS_ALCU_MAP_FLG_MSEG    (1 << 3)
#define ERTS_ALCU_MAP_FLG_MAIN    (1 << 4)
#define ERTS_ALCU_MAP_FLG_GONE    (1 << 5)

/* Sizes and types of records that mean something else */
#define ERTS_ALCU_MAP_TO_END     0xffffffff
#define ERTS_ALCU_MAP_T_FREE     0
#define ERTS_ALCU_MAP_T_CODE     0xfffd
#define ERTS_ALCU_MAP_T_CACHED   0xfffe
#define ERTS_ALCU_MAP_T_UNTAGGED 0xffff

/* What is in the tag of a block that is freed but not deallocated yet. No
 * type has number 0. */
#define ERTS_ALCU_MAP_POISON ((UWord) 0)

#define ERTS_ALCU_MAP_ORIGINS      2048
#define ERTS_ALCU_MAP_ORIGIN_OTHER 0xffff

/* Where records are written; used by one thread at a time. */
typedef struct {
    byte *buf;                  /* ERTS_ALCU_MAP_BUF_SIZE bytes */
    Uint used;
    ErtsSysHrTime step;         /* nanoseconds */

    struct {
        Uint64 blocks, bytes;
        Uint64 free_blocks, free_bytes;
        Uint64 cached_blocks;
        Uint64 carriers, carriers_bytes;
        Uint64 loose_blocks, loose_bytes;
        Uint64 segments, segments_bytes;
        Uint64 steps, longest_step;
    } stat;

    /* Numbers of NIFs and drivers: a hash table of numbers of atoms. */
    Eterm last_origin;
    Uint last_origin_ix;
    Uint origins;
    Eterm origin[ERTS_ALCU_MAP_ORIGINS+1];
    Uint16 origin_ix[2*ERTS_ALCU_MAP_ORIGINS];

    /* Hash table of the code addresses found so far; NULL before the first one.
     * It is not enlarged: addresses that do not fit cannot be resolved. */
    UWord *code;
    Uint codes;
} ErtsAlcuMapOut;

Uint erts_alcu_map_new_origin(ErtsAlcuMapOut *, Eterm origin);
void erts_alcu_map_new_code(ErtsAlcuMapOut *, UWord pc);

#ifdef WORDS_BIGENDIAN
#  define ERTS_MAP_LE16(X) __builtin_bswap16((Uint16) (X))
#  define ERTS_MAP_LE32(X) __builtin_bswap32((Uint32) (X))
#  define ERTS_MAP_LE64(X) __builtin_bswap64((Uint64) (X))
#else
#  define ERTS_MAP_LE16(X) ((Uint16) (X))
#  define ERTS_MAP_LE32(X) ((Uint32) (X))
#  define ERTS_MAP_LE64(X) ((Uint64) (X))
#endif

static ERTS_INLINE void
erts_alcu_map_put_record(byte *p, Uint32 units, int type, int origin,
                         Uint64 owner)
{
    ((Uint32 *) p)[0] = ERTS_MAP_LE32(units);
    ((Uint16 *) p)[2] = ERTS_MAP_LE16(type);
    ((Uint16 *) p)[3] = ERTS_MAP_LE16(origin);
    ((Uint64 *) p)[1] = ERTS_MAP_LE64(owner);
}

static ERTS_INLINE void
erts_alcu_map_put_header(byte *p, int kind, int alloc_no, int ix,
                         int home_alloc_no, int home_ix,
                         UWord addr, UWord size, UWord start)
{
    sys_memset(p, 0, ERTS_ALCU_MAP_SECTION_SIZE);
    sys_memcpy(p, "EMAP", 4);
    ((Uint16 *) p)[2] = ERTS_MAP_LE16(kind);
    ((Uint16 *) p)[6] = ERTS_MAP_LE16(alloc_no);
    ((Uint16 *) p)[7] = ERTS_MAP_LE16(ix);
    ((Uint64 *) p)[2] = ERTS_MAP_LE64(addr);
    ((Uint64 *) p)[3] = ERTS_MAP_LE64(size);
    ((Uint64 *) p)[4] = ERTS_MAP_LE64(start);
    ((Uint16 *) p)[20] = ERTS_MAP_LE16(home_alloc_no);
    ((Uint16 *) p)[21] = ERTS_MAP_LE16(home_ix);
}

static ERTS_INLINE void
erts_alcu_map_finish_header(byte *p, int flags, Uint records)
{
    ((Uint16 *) p)[3] = ERTS_MAP_LE16(flags);
    ((Uint32 *) p)[2] = ERTS_MAP_LE32(records);
}

static ERTS_INLINE int
erts_alcu_map_origin(ErtsAlcuMapOut *out, Eterm origin)
{
    if (ERTS_UNLIKELY(origin != out->last_origin)) {
        out->last_origin_ix = erts_alcu_map_new_origin(out, origin);
        out->last_origin = origin;
    }
    return (int) out->last_origin_ix;
}

static ERTS_INLINE Uint64
erts_alcu_map_owner(ErtsAlcuMapOut *out, Eterm term)
{
    if (is_non_value(term))
        return 0;
    if (is_internal_pid(term))
        return ((Uint64) 1 << 60) | internal_pid_data(term);
    if (is_internal_port(term))
        return ((Uint64) 2 << 60) | internal_port_data(term);
    if (is_CP(term)) {
        UWord pc = (UWord) cp_val(term);
        erts_alcu_map_new_code(out, pc);
        return ((Uint64) 3 << 60) | pc;
    }
    return 0;
}

/*
 * The scan of the carriers of the allocators of a thread; see erl_alloc_map.h.
 */
typedef struct erts_alcu_map ErtsAlcuMap;

/* Called in the beginning and in the end of a map. */
void erts_alcu_map_begin(void);
void erts_alcu_map_end(void);

/* The number of carriers that have not been scanned yet. */
UWord erts_alcu_map_left(void);

/* NULL without memory. */
ErtsAlcuMap *erts_alcu_map_create(ErtsAlcuMapOut *);
void erts_alcu_map_destroy(ErtsAlcuMap *);

/* Begins with the instances of a thread. Returns zero if there is none. */
int erts_alcu_map_select(ErtsAlcuMap *, int aux_work_tid, int with_sbcs);

/* Whether instances are selected and not finished; the thread that owns them. */
int erts_alcu_map_is_paused(ErtsAlcuMap *);
int erts_alcu_map_tid(ErtsAlcuMap *);

/* Makes the owner scan its instances until erts_alcu_map_step_end() returns 0 or
 * erts_alcu_map_step_begin() returns ERTS_ALCU_MAP_STOP. Then erts_alcu_map_over()
 * is called. */
void erts_alcu_map_run(ErtsAlcuMap *);

/* Gives the scan up; only by the owner. */
void erts_alcu_map_leave(ErtsAlcuMap *);

/* Implemented in erl_instrument_map.c, called by the owner of the instance
 * without any lock. */
enum { ERTS_ALCU_MAP_GO, ERTS_ALCU_MAP_STOP };
int erts_alcu_map_step_begin(ErtsAlcuMapOut *);
int erts_alcu_map_step_end(ErtsAlcuMapOut *, int done);
void erts_alcu_map_over(ErtsAlcuMapOut *);

/* Whether the block would be sent to another instance when it is freed. */
int erts_alcu_is_foreign(void *tspec, void *ptr);

/* What the tag of a block of this type, allocated now, would be. */
void erts_alcu_get_tag(ErtsAlcType_t type, UWord *packed_p, Eterm *term_p);
void erts_alcu_unpack_tag(UWord packed, int *type_p, Eterm *origin_p);

#endif /* ERL_INSTRUMENT_MAP_H__ */
