/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The carriers of the allocator instances of one thread for a memory map. This
 * file is included by erl_alloc_util.c, because it needs all of its definitions.
 *
 * An instance is scanned in steps, by the thread that owns it, or with its
 * mutex held if it is thread safe. Only one map is made at a time, and only one
 * instance is scanned at a time, so there is at most one scan.
 *
 * Each block is recorded once, although carriers move between instances: all
 * multiblock carriers are counted (map_carriers.total). A map begins a new
 * epoch. A carrier that is created during the map is stamped with the epoch
 * immediately, as it holds no older blocks; other carriers are stamped when they
 * have been read. `left` is the number of carriers without a stamp. A carrier
 * that belongs to no instance while the instances are scanned is found in a
 * later round. The map is complete when `left` is 0.
 *
 * When a step ends inside a carrier, a cursor has the block to continue with,
 * which is always an allocated one, and the end of what has been recorded (the
 * mark). While the cursor exists
 *
 * - link_free_block is replaced. Every new free block is passed to it. If a free
 *   block has absorbed the block of the cursor, the scan continues with the next
 *   allocated block; the range between mark and cursor is recorded as free.
 * - remove_mbc is replaced. A call of it means that the instance gives up the
 *   carrier.
 * - the abandon limit of the carrier is zero, so it is not abandoned.
 * - mbc_realloc() calls map_block_moved() when it moves a block into the free
 *   block before it.
 *
 * So the fast paths for allocating and freeing memory need no checks.
 */

#define MAP_TIME_CHECK 64       /* blocks between looking at the clock */

struct erts_alcu_map_cursor {
    Carrier_t *carrier;         /* NULL if it has been given up */
    Block_t *next;              /* NULL if there is none */
    char *mark;

    UWord abandon_limit;
    void (*link_free_block)(Allctr_t *, Block_t *);
    void (*remove_mbc)(Allctr_t *, Carrier_t *);
};

/* In the order that instances are scanned. */
enum map_phase {
    MAP_POOL,   /* abandoned carriers that we have created */
    MAP_MBCS,
    MAP_DC,     /* empty carriers that wait for thread progress */
    MAP_SBCS,
    MAP_END
};

struct erts_alcu_map {
    /* Must be first. */
    blockscan_t common;

    Allctr_t *allctr;           /* NULL if no scan is active */
    int alloc_no;
    int aux_work_tid;
    int with_sbcs;
    enum map_phase phase;

    /* The last one looked at in the tree of pooled carriers. */
    Sint64 pool_birth_time;
    void *pool_node;

    /* In the list of carriers, after the last one looked at. */
    Carrier_t dummy;
    CarrierList_t *list;

    struct erts_alcu_map_cursor cursor;

    /* The carrier that is being written. */
    byte *section;
    Uint records;
    UWord carrier_addr, carrier_size;
    char *carrier_end;
    int section_flags;

    ErtsAlcuMapOut *out;
    ErtsSysHrTime deadline;
};

static struct {
    erts_mtx_t mtx;             /* protects all of it */
    Uint32 epoch;
    int active;
    UWord total;
    UWord left;
} map_carriers;

static void
map_init(void)
{
    erts_mtx_init(&map_carriers.mtx, "alcu_map", NIL,
                  ERTS_LOCK_FLAGS_PROPERTY_STATIC
                  | ERTS_LOCK_FLAGS_CATEGORY_ALLOCATOR);
}

/* Instances of test_alloc are created and destroyed by tests; no map has
 * them. */
static ERTS_INLINE int
map_has(Carrier_t *crr)
{
    return crr->cpool.orig_allctr->alloc_no != ERTS_ALC_A_TEST;
}

static void
map_carrier_created(Carrier_t *crr)
{
    if (map_has(crr)) {
        erts_mtx_lock(&map_carriers.mtx);
        crr->cpool.map_epoch = map_carriers.epoch;
        map_carriers.total++;
        erts_mtx_unlock(&map_carriers.mtx);
    }
}

static void
map_carrier_destroyed(Carrier_t *crr)
{
    if (map_has(crr)) {
        erts_mtx_lock(&map_carriers.mtx);
        map_carriers.total--;
        if (map_carriers.active
            && crr->cpool.map_epoch != map_carriers.epoch) {
            map_carriers.left--;
        }
        erts_mtx_unlock(&map_carriers.mtx);
    }
}

void
erts_alcu_map_begin(void)
{
    erts_mtx_lock(&map_carriers.mtx);
    map_carriers.epoch++;
    map_carriers.active = 1;
    map_carriers.left = map_carriers.total;
    erts_mtx_unlock(&map_carriers.mtx);
}

void
erts_alcu_map_end(void)
{
    erts_mtx_lock(&map_carriers.mtx);
    map_carriers.active = 0;
    erts_mtx_unlock(&map_carriers.mtx);
}

UWord
erts_alcu_map_left(void)
{
    UWord left;

    erts_mtx_lock(&map_carriers.mtx);
    left = map_carriers.left;
    erts_mtx_unlock(&map_carriers.mtx);
    return left;
}

/* The epoch changes only while no scan is active. */
static ERTS_INLINE int
map_is_stamped(Carrier_t *crr)
{
    return crr->cpool.map_epoch == map_carriers.epoch;
}

static void
map_stamp(Carrier_t *crr)
{
    ASSERT(!map_is_stamped(crr));
    erts_mtx_lock(&map_carriers.mtx);
    crr->cpool.map_epoch = map_carriers.epoch;
    ASSERT(map_carriers.left > 0);
    map_carriers.left--;
    erts_mtx_unlock(&map_carriers.mtx);
}

/* ------------------------------------------------------------------------- */

static void
map_link_free_block(Allctr_t *allctr, Block_t *blk)
{
    struct erts_alcu_map_cursor *cursor = allctr->map_cursor;
    UWord size = MBC_FBLK_SZ(blk);
    int is_last = !!IS_LAST_BLK(blk);

    (*cursor->link_free_block)(allctr, blk);

    if (cursor->carrier
        && (char *) blk <= (char *) cursor->next
        && (char *) cursor->next < (char *) blk + size) {
        cursor->next = is_last ? NULL : BLK_AFTER(blk, size);
        ASSERT(is_last || IS_ALLOCED_BLK(cursor->next));
    }
}

static void
map_remove_mbc(Allctr_t *allctr, Carrier_t *crr)
{
    struct erts_alcu_map_cursor *cursor = allctr->map_cursor;

    if (cursor->carrier == crr) {
        /* It may be used again before it is deallocated. */
        crr->cpool.abandon_limit = cursor->abandon_limit;
        map_stamp(crr);
        cursor->carrier = NULL;
    }

    if (cursor->remove_mbc)
        (*cursor->remove_mbc)(allctr, crr);
}

/* 'blk' has been moved to 'new_blk', the free block before it. */
static void
map_block_moved(Allctr_t *allctr, Block_t *blk, Block_t *new_blk)
{
    struct erts_alcu_map_cursor *cursor = allctr->map_cursor;

    if (cursor->next == blk)
        cursor->next = new_blk;
}

static void
map_set_cursor(struct erts_alcu_map *map, Carrier_t *crr, Block_t *next)
{
    Allctr_t *allctr = map->allctr;
    struct erts_alcu_map_cursor *cursor = &map->cursor;

    ASSERT(!allctr->map_cursor);
    ASSERT(IS_ALLOCED_BLK(next));

    cursor->carrier = crr;
    cursor->next = next;
    cursor->mark = (char *) next;
    cursor->abandon_limit = crr->cpool.abandon_limit;
    crr->cpool.abandon_limit = 0;
    cursor->link_free_block = allctr->link_free_block;
    allctr->link_free_block = map_link_free_block;
    cursor->remove_mbc = allctr->remove_mbc;
    allctr->remove_mbc = map_remove_mbc;
    allctr->map_cursor = cursor;
}

static void
map_clear_cursor(struct erts_alcu_map *map)
{
    Allctr_t *allctr = map->allctr;
    struct erts_alcu_map_cursor *cursor = &map->cursor;

    ASSERT(allctr->map_cursor == cursor);

    if (cursor->carrier)
        cursor->carrier->cpool.abandon_limit = cursor->abandon_limit;
    allctr->link_free_block = cursor->link_free_block;
    allctr->remove_mbc = cursor->remove_mbc;
    allctr->map_cursor = NULL;
}

/* ------------------------------------------------------------------------- */

static ERTS_INLINE int
map_has_room(struct erts_alcu_map *map, UWord records)
{
    return (ERTS_ALCU_MAP_BUF_SIZE - map->out->used
            >= ERTS_ALCU_MAP_SECTION_SIZE
               + records * ERTS_ALCU_MAP_RECORD_SIZE);
}

/* The next section has the contents of the carrier from 'start' on. */
static void
map_open_section(struct erts_alcu_map *map, Carrier_t *crr, char *start,
                 int flags)
{
    ErtsAlcuMapOut *out = map->out;
    byte *hdr = out->buf + out->used;
    Allctr_t *home = map->allctr;
    int is_sbc;

    if (crr) {
        is_sbc = !!IS_SB_CARRIER(crr);
        map->carrier_addr = (UWord) crr;
        map->carrier_size = CARRIER_SZ(crr);
        flags |= IS_MSEG_CARRIER(crr) ? ERTS_ALCU_MAP_FLG_MSEG : 0;
        if (!is_sbc) {
            map->carrier_end = ((char *) MBC_TO_FIRST_BLK(map->allctr, crr)
                                + UNIT_FLOOR(CARRIER_SZ(crr)
                                             - MBC_HEADER_SIZE(map->allctr)));
            home = crr->cpool.orig_allctr;
            if (crr == map->allctr->main_carrier)
                flags |= ERTS_ALCU_MAP_FLG_MAIN;
        }
    } else {
        /* It has been given up after its first part was written. */
        is_sbc = 0;
        flags |= (ERTS_ALCU_MAP_FLG_GONE
                  | (map->section_flags & ERTS_ALCU_MAP_FLG_MSEG));
    }

    erts_alcu_map_put_header(hdr,
                             (is_sbc
                              ? ERTS_ALCU_MAP_SBC
                              : ERTS_ALCU_MAP_MBC),
                             map->allctr->alloc_no, map->allctr->ix,
                             home->alloc_no, home->ix,
                             map->carrier_addr, map->carrier_size,
                             (UWord) start);
    map->section = hdr;
    map->section_flags = flags;
    map->records = 0;
    out->used += ERTS_ALCU_MAP_SECTION_SIZE;
}

static void
map_close_section(struct erts_alcu_map *map, int is_last)
{
    if (is_last) {
        map->section_flags |= ERTS_ALCU_MAP_FLG_LAST;
        map->out->stat.carriers++;
        map->out->stat.carriers_bytes += map->carrier_size;
    }
    erts_alcu_map_finish_header(map->section, map->section_flags,
                                map->records);
    map->section = NULL;
}

static ERTS_INLINE void
map_put(struct erts_alcu_map *map, UWord size, int type, int origin,
        Uint64 owner)
{
    ErtsAlcuMapOut *out = map->out;
    UWord units = size / ERTS_ALCU_MAP_UNIT;

    if (units >= ERTS_ALCU_MAP_TO_END)
        units = ERTS_ALCU_MAP_TO_END;
    erts_alcu_map_put_record(out->buf + out->used, (Uint32) units, type,
                             origin, owner);
    out->used += ERTS_ALCU_MAP_RECORD_SIZE;
    map->records++;
}

static ERTS_INLINE void
map_put_free(struct erts_alcu_map *map, UWord size)
{
    map->out->stat.free_blocks++;
    map->out->stat.free_bytes += size;
    map_put(map, size, ERTS_ALCU_MAP_T_FREE, 0, 0);
}

/* 'size' is the size to be recorded for the block. */
static ERTS_INLINE void
map_put_allocated(struct erts_alcu_map *map, Block_t *blk, UWord block_size,
                  UWord size)
{
    ErtsAlcuMapOut *out = map->out;

    if (!BLK_HAS_ATAG(blk)) {
        out->stat.blocks++;
        out->stat.bytes += block_size - ABLK_HDR_SZ;
        map_put(map, size, ERTS_ALCU_MAP_T_UNTAGGED, 0, 0);
    } else {
        const alcu_atag_t *tag = (const alcu_atag_t *)
            ((char *) blk + block_size - sizeof(alcu_atag_t));
        /* Another thread may be changing the tag: see copy_atag(). */
        UWord packed = *(const volatile UWord *) &tag->packed;
        Eterm term = *(const volatile Eterm *) &tag->term;

        if (packed == ERTS_ALCU_MAP_POISON) {
            out->stat.cached_blocks++;
            map_put(map, size, ERTS_ALCU_MAP_T_CACHED, 0, 0);
        } else {
            out->stat.blocks++;
            out->stat.bytes += block_size - ABLK_HDR_SZ - sizeof(alcu_atag_t);
            map_put(map, size, (int) ATAG_PACKED_TYPE(packed),
                    erts_alcu_map_origin(out, ATAG_PACKED_ID(packed)),
                    erts_alcu_map_owner(out, term));
        }
    }
}

static ERTS_INLINE int
map_time_is_up(struct erts_alcu_map *map)
{
    return erts_sys_hrtime() >= map->deadline;
}

/*
 * Writes what is in the carrier from 'blk' on. No other thread can change the
 * carrier during the call. Returns zero if there is more; then the cursor has the
 * position at which to continue. Without 'may_pause', the caller has made room
 * for the whole carrier.
 */
static int
map_walk(struct erts_alcu_map *map, Carrier_t *crr, Block_t *blk, char *mark,
         int may_pause)
{
    int countdown = MAP_TIME_CHECK;

    /* What has been freed since the last step. */
    if (!blk) {
        if (map->carrier_end > mark)
            map_put_free(map, map->carrier_end - mark);
        return 1;
    }
    if ((char *) blk > mark)
        map_put_free(map, (char *) blk - mark);

    while (1) {
        UWord size = MBC_BLK_SZ(blk);
        int is_last = !!IS_LAST_BLK(blk);

        UWord shown = size;

        if (ERTS_UNLIKELY((char *) blk < mark)) {
            /* A block that has been moved across the mark, and what follows
             * it. Records of what lies before the mark have been written. */
            shown = ((char *) blk + size > mark
                     ? (char *) blk + size - mark
                     : 0);
        }

        if (ERTS_LIKELY(shown > 0)) {
            if (IS_FREE_BLK(blk))
                map_put_free(map, shown);
            else
                map_put_allocated(map, blk, size, shown);
        }

        if (is_last)
            return 1;
        blk = BLK_AFTER(blk, size);

        /* Two more fit, so there is room for the tail after a free block. */
        if (may_pause && IS_ALLOCED_BLK(blk) && (char *) blk >= mark
            && (!map_has_room(map, 2)
                || (--countdown <= 0
                    && (countdown = MAP_TIME_CHECK, map_time_is_up(map))))) {
            map_set_cursor(map, crr, blk);
            return 0;
        }
    }
}

static int
map_begin_carrier(struct erts_alcu_map *map, Carrier_t *crr, int flags,
                  int may_pause)
{
    Block_t *blk = MBC_TO_FIRST_BLK(map->allctr, crr);
    int done;

    map_open_section(map, crr, (char *) blk,
                     flags | ERTS_ALCU_MAP_FLG_FIRST);
    done = map_walk(map, crr, blk, (char *) blk, may_pause);
    map_close_section(map, done);
    if (done)
        map_stamp(crr);
    return done;
}

static int
map_continue_carrier(struct erts_alcu_map *map)
{
    struct erts_alcu_map_cursor *cursor = &map->cursor;
    Carrier_t *crr = cursor->carrier;
    int done;

    map_clear_cursor(map);
    map_open_section(map, crr, cursor->mark,
                     map->section_flags & ERTS_ALCU_MAP_FLG_IN_POOL);
    done = map_walk(map, crr, crr ? cursor->next : NULL, cursor->mark, 1);
    map_close_section(map, done);
    if (done && crr)
        map_stamp(crr);
    return done;
}

/* ------------------------------------------------------------------------- */

/* The dummy is a carrier of no size, as those of blockscan_t are. */
static void
map_begin_list(struct erts_alcu_map *map, CarrierList_t *list, UWord hdr_flag)
{
    SET_CARRIER_HDR(&map->dummy, 0, hdr_flag, map->allctr);
    map->list = list;
    map->dummy.prev = NULL;
    map->dummy.next = list->first;
    relink_carrier(list, &map->dummy);
}

static void
map_end_list(struct erts_alcu_map *map)
{
    unlink_carrier(map->list, &map->dummy);
    map->list = NULL;
}

/* Advances by one carrier. Between calls, other carriers can be unlinked, and
 * new ones linked at the end. */
static Carrier_t *
map_next_in_list(struct erts_alcu_map *map)
{
    Carrier_t *crr = map->dummy.next;

    if (!crr)
        return NULL;
    unlink_carrier(map->list, &map->dummy);
    map->dummy.next = crr->next;
    map->dummy.prev = crr;
    relink_carrier(map->list, &map->dummy);
    return crr;
}

/*
 * A pooled carrier is either read at once, marked as busy, or taken out of the
 * pool as if memory had been needed. It is abandoned again when memory in it is
 * freed, as any other.
 */
static int
map_pooled_carrier(struct erts_alcu_map *map, Carrier_t *crr)
{
    Allctr_t *allctr = map->allctr;
    erts_aint_t exp;
    UWord blocks = 0;
    int i;

    ERTS_ALC_CPOOL_ASSERT(crr->cpool.orig_allctr == allctr);

    exp = erts_atomic_read_rb(&crr->allctr);
    if ((exp & (ERTS_CRR_ALCTR_FLG_IN_POOL | ERTS_CRR_ALCTR_FLG_BUSY))
        != ERTS_CRR_ALCTR_FLG_IN_POOL) {
        return 1;
    }
    if (erts_atomic_cmpxchg_mb(&crr->allctr, exp | ERTS_CRR_ALCTR_FLG_BUSY,
                               exp) != exp) {
        return 1;
    }

    if (map_is_stamped(crr)) {
        erts_atomic_set_relb(&crr->allctr, exp);
        return 1;
    }

    for (i = 0; i < ERTS_ALC_A_COUNT; i++)
        blocks += crr->cpool.blocks[i];

    if (blocks <= ERTS_ALCU_MAP_IN_POOL_BLOCKS) {
        /* map_scan() has made room for it. */
        (void) map_begin_carrier(map, crr, ERTS_ALCU_MAP_FLG_IN_POOL, 0);
        erts_atomic_set_relb(&crr->allctr, exp);
        return 1;
    }

    /* As in cpool_fetch(). */
    erts_atomic_set_nob(&crr->allctr, exp & ~ERTS_CRR_ALCTR_FLG_IN_POOL);
    cpool_delete(allctr, allctr, crr);
    unlink_abandoned_carrier(crr);
    crr->cpool.state = ERTS_MBC_IS_HOME;
    STAT_MBC_CPOOL_FETCH(allctr, crr);
    INC_CC(allctr->cpool.stat.fetch);
    link_carrier(&allctr->mbc_list, crr);
    (*allctr->add_mbc)(allctr, crr);

    return map_begin_carrier(map, crr, ERTS_ALCU_MAP_FLG_IN_POOL, 1);
}

static void
map_sbc(struct erts_alcu_map *map, Carrier_t *crr)
{
    Block_t *blk = SBC2BLK(map->allctr, crr);

    map_open_section(map, crr, (char *) blk, ERTS_ALCU_MAP_FLG_FIRST);
    map_put_allocated(map, blk, SBC_BLK_SZ(blk), SBC_BLK_SZ(blk));
    map_close_section(map, 1);
}

/* Returns nonzero when all of the instance has been scanned. */
static int
map_scan(struct erts_alcu_map *map)
{
    Allctr_t *allctr = map->allctr;
    Carrier_t *crr;

    do {
        if (!map_has_room(map, 2*ERTS_ALCU_MAP_IN_POOL_BLOCKS + 2))
            return 0;

        if (allctr->map_cursor) {
            if (!map_continue_carrier(map))
                return 0;
            continue;
        }

        switch (map->phase) {
        case MAP_POOL:
            crr = (ERTS_ALC_IS_CPOOL_ENABLED(allctr)
                   ? aoff_next_pooled_mbc(allctr, &map->pool_birth_time,
                                          &map->pool_node)
                   : NULL);
            if (crr) {
                (void) map_pooled_carrier(map, crr);
            } else {
                map_begin_list(map, &allctr->mbc_list, SCH_MBC);
                map->phase = MAP_MBCS;
            }
            break;
        case MAP_MBCS:
            crr = map_next_in_list(map);
            if (!crr) {
                map_end_list(map);
                map->phase = MAP_DC;
            } else if (CARRIER_SZ(crr) > 0 && !map_is_stamped(crr)) {
                (void) map_begin_carrier(map, crr, 0, 1);
            }
            break;
        case MAP_DC:
            for (crr = allctr->cpool.dc_list.first;
                 crr && map_is_stamped(crr);
                 crr = crr->next)
                ;
            if (crr) {
                (void) map_begin_carrier(map, crr, ERTS_ALCU_MAP_FLG_GONE, 0);
            } else if (map->with_sbcs) {
                map_begin_list(map, &allctr->sbc_list, SCH_SBC);
                map->phase = MAP_SBCS;
            } else {
                map->phase = MAP_END;
            }
            break;
        case MAP_SBCS:
            crr = map_next_in_list(map);
            if (!crr) {
                map_end_list(map);
                map->phase = MAP_END;
            } else if (CARRIER_SZ(crr) > 0) {
                map_sbc(map, crr);
            }
            break;
        case MAP_END:
            return 1;
        }
    } while (!map_time_is_up(map));

    return map->phase == MAP_END;
}

static void
map_lock(Allctr_t *allctr)
{
    if (allctr->thread_safe)
        erts_mtx_lock(&allctr->mutex);
}

static void
map_unlock(Allctr_t *allctr)
{
    if (allctr->thread_safe)
        erts_mtx_unlock(&allctr->mutex);
}

/* ------------------------------------------------------------------------- */

/* The instance of the next allocator that the thread owns. */
static int
map_select_next(struct erts_alcu_map *map)
{
    while (map->alloc_no < ERTS_ALC_A_MAX) {
        int alloc_no = ++map->alloc_no;
        Allctr_t *allctr;

        if (alloc_no == ERTS_ALC_A_TEST
            || (erts_allctrs_info[alloc_no].thr_spec
                && map->aux_work_tid >= erts_allctr_thr_spec[alloc_no].size)
            || !blockscan_get_specific_allocator(alloc_no, map->aux_work_tid,
                                                 &allctr)
            || !allctr) {
            continue;
        }

        map->allctr = allctr;
        map->phase = MAP_POOL;
        map->pool_node = NULL;
        map->list = NULL;
        return 1;
    }

    map->allctr = NULL;
    return 0;
}

static int
map_step(blockscan_t *scanner)
{
    struct erts_alcu_map *map = (struct erts_alcu_map *) scanner;
    /* The time for getting the buffer counts, too. */
    const ErtsSysHrTime end = erts_sys_hrtime() + map->out->step;
    int done;

    scanner->current_op = map_step;

    /* Memory is allocated before and after, never while a carrier is walked. */
    if (erts_alcu_map_step_begin(map->out) == ERTS_ALCU_MAP_STOP) {
        erts_alcu_map_leave(map);
        return 0;
    }

    do {
        Allctr_t *allctr = map->allctr;

        map->deadline = end;
        map_lock(allctr);
        if (allctr->thread_safe) {
            /* Other threads may be waiting for the mutex. */
            map->deadline = erts_sys_hrtime() + map->out->step / 4;
            map->deadline = MIN(map->deadline, end);
        }
        done = map_scan(map);
        map_unlock(allctr);
    } while (done
             && !(done = !map_select_next(map))
             && erts_sys_hrtime() < end);

    return erts_alcu_map_step_end(map->out, done);
}

static void
map_over(blockscan_t *scanner)
{
    struct erts_alcu_map *map = (struct erts_alcu_map *) scanner;

    erts_alcu_map_over(map->out);
}

ErtsAlcuMap *
erts_alcu_map_create(ErtsAlcuMapOut *out)
{
    /* Plain calloc as for the other scans. */
    struct erts_alcu_map *map = calloc(1, sizeof(struct erts_alcu_map));

    if (map) {
        map->out = out;
        map->common.release = map_over;
    }
    return map;
}

void
erts_alcu_map_destroy(ErtsAlcuMap *map)
{
    ASSERT(!map->allctr);
    free(map);
}

int
erts_alcu_map_is_paused(ErtsAlcuMap *map)
{
    return map->allctr != NULL;
}

int
erts_alcu_map_tid(ErtsAlcuMap *map)
{
    return map->aux_work_tid;
}

int
erts_alcu_map_select(ErtsAlcuMap *map, int aux_work_tid, int with_sbcs)
{
    ASSERT(!map->allctr);

    map->alloc_no = ERTS_ALC_A_MIN - 1;
    map->aux_work_tid = aux_work_tid;
    map->with_sbcs = with_sbcs;
    return map_select_next(map);
}

void
erts_alcu_map_run(ErtsAlcuMap *map)
{
    ASSERT(map->allctr);

    map->common.allocator = map->allctr;
    map->common.current_op = NULL;
    map->common.next_op = map_step;
    erts_schedule_misc_aux_work(map->aux_work_tid, blockscan_sched_trampoline,
                                &map->common);
}

/* By the thread that owns the instance. */
void
erts_alcu_map_leave(ErtsAlcuMap *map)
{
    Allctr_t *allctr = map->allctr;

    map_lock(allctr);
    if (allctr->map_cursor)
        map_clear_cursor(map);
    if (map->list)
        map_end_list(map);
    map_unlock(allctr);
    map->allctr = NULL;
}

int
erts_alcu_is_foreign(void *tspec, void *ptr)
{
    Block_t *blk = UMEM2BLK(ptr);
    Carrier_t *crr = IS_SBC_BLK(blk) ? BLK_TO_SBC(blk) : ABLK_TO_MBC(blk);

    return ERTS_ALC_CARRIER_TO_ALLCTR(crr) != get_pref_allctr(tspec);
}

void
erts_alcu_get_tag(ErtsAlcType_t type, UWord *packed_p, Eterm *term_p)
{
    alcu_atag_t tag;

    fill_alloc_tag(&tag, 1, type);
    *packed_p = tag.packed;
    *term_p = tag.term;
}

void
erts_alcu_unpack_tag(UWord packed, int *type_p, Eterm *origin_p)
{
    *type_p = (int) ATAG_PACKED_TYPE(packed);
    *origin_p = ATAG_PACKED_ID(packed);
}
