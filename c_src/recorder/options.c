/* SPDX-License-Identifier: Apache-2.0
 *
 * Defaults and checks of a recorder's options, and the division of its memory.
 */
#include <string.h>
#include <unistd.h>

#include "kymo_internal.h"

#define KYMO_DETAIL_ALL \
    (KYMO_D_ARGS | KYMO_D_RETURNS | KYMO_D_MSG_SIZE | KYMO_D_MSG | KYMO_D_TERMS | KYMO_D_GC_SIZES)
#define KYMO_MEMORY_DEFAULT (48ull << 20)
#define KYMO_SEGMENT_LARGE (64u * 1024u)
/* Segments are made smaller until there are this many per thread. A thread that records
 * little changes segments four times per lap of the pool (see pool.c). */
#define KYMO_SEGMENTS_WANTED 16u

void kymo_options_init(struct kymo_options *o)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);

    memset(o, 0, sizeof *o);
    o->policy = KYMO_OVERWRITE;
    o->clock = KYMO_CLOCK_COUNTER;
    o->memory = KYMO_MEMORY_DEFAULT;
    /* An estimate. A caller that knows the runtime's number of threads replaces it. */
    o->n_slots = (uint32_t)(cpus < 1 ? 1 : cpus > 1024 ? 1024 : cpus) * 2 + 14;
    o->detail = KYMO_D_MSG_SIZE | KYMO_D_GC_SIZES;
    o->content_max = 512;
    o->sample = 1;
    o->file_bytes = 64 * 1024 * 1024;
    o->node = "";
    o->otp_release = "";
    o->erts_version = "";
}

static bool fits(const char *s, size_t max)
{
    return s == NULL || strlen(s) <= max;
}

/* The first invalid option among those that can be checked without the layout, or NULL. */
static const char *bad_option(const struct kymo_options *o)
{
    if (o->dir == NULL || o->dir[0] == '\0')
        return "dir";
    if ((unsigned)o->policy > KYMO_DISCARD)
        return "policy";
    if ((unsigned)o->clock > KYMO_CLOCK_COUNTER)
        return "clock";
    if (o->segment_bytes != 0 &&
        (o->segment_bytes < KYMO_SEGMENT_MIN || o->segment_bytes > KYMO_SEGMENT_MAX ||
         (o->segment_bytes & (o->segment_bytes - 1)) != 0))
        return "segment_bytes";
    if (o->n_slots < 1 || o->n_slots > KYMO_SLOTS_MAX)
        return "n_slots";
    if (o->dict_bytes != 0 && (o->dict_bytes < KYMO_DICT_MIN || o->dict_bytes > KYMO_DICT_MAX))
        return "dict_bytes";
    if ((o->detail & ~KYMO_DETAIL_ALL) != 0)
        return "detail";
    if (o->content_max > KYMO_CONTENT_MAX ||
        o->content_max > (o->segment_bytes != 0 ? o->segment_bytes : KYMO_SEGMENT_MAX) / 4)
        return "content_max";
    if (o->sample < 1)
        return "sample";
    if (o->sample_kind > 1)
        return "sample_kind";
    if (!fits(o->node, 255))
        return "node";
    if (!fits(o->otp_release, 15))
        return "otp_release";
    if (!fits(o->erts_version, 15))
        return "erts_version";
    return NULL;
}

static uint64_t pages(uint64_t n)
{
    return (n + 4095) & ~(uint64_t)4095;
}

static uint64_t fixed(const struct kymo_layout *l)
{
    return l->meta + l->dict + l->table + l->writers;
}

static uint64_t least_segments(const struct kymo_options *o)
{
    uint64_t n = 2 * (uint64_t)o->n_slots + 2;

    return n < KYMO_SEGMENTS_MIN ? KYMO_SEGMENTS_MIN : n;
}

/* The number of segments of this size that fit into memory. */
static uint64_t segments(const struct kymo_options *o, const struct kymo_layout *l, uint64_t memory,
                         uint64_t bytes)
{
    uint64_t used = fixed(l) + kymo_pool_bytes(0, o->n_slots) + 2 * 4096;
    uint64_t n = memory > used ? (memory - used) / (bytes + kymo_pool_bytes(1, 0)) : 0;

    return n > KYMO_SEGMENTS_MAX ? KYMO_SEGMENTS_MAX : n;
}

/* Computes the layout. Returns false if there is room for too few segments. */
static bool divide(const struct kymo_options *o, uint64_t memory, struct kymo_layout *l)
{
    uint64_t dict = o->dict_bytes != 0 ? o->dict_bytes : memory / 12;
    uint64_t bytes = o->segment_bytes != 0 ? o->segment_bytes : KYMO_SEGMENT_LARGE;
    uint64_t n;

    dict = dict < KYMO_DICT_MIN ? KYMO_DICT_MIN : dict > KYMO_DICT_MAX ? KYMO_DICT_MAX : dict;
    memset(l, 0, sizeof *l);
    l->meta = pages(KYMO_META_BYTES + KYMO_CALIB_BYTES + (uint64_t)o->n_slots * sizeof(struct kymo_slot));
    l->dict = pages(dict);
    l->table = pages(kymo_dict_table_bytes(l->dict));
    l->writers = pages((uint64_t)o->n_slots * sizeof(struct kymo_writer));
    l->caches = (uint64_t)o->n_slots * KYMO_CACHES_BYTES;
    n = segments(o, l, memory, bytes);
    while (o->segment_bytes == 0 && n < (uint64_t)KYMO_SEGMENTS_WANTED * o->n_slots &&
           bytes > KYMO_SEGMENT_MIN && bytes / 2 >= 4 * (uint64_t)o->content_max) {
        bytes /= 2;
        n = segments(o, l, memory, bytes);
    }
    while (o->segment_bytes == 0 && bytes < 4 * (uint64_t)o->content_max) {
        bytes *= 2; /* a segment must hold at least four contents of maximum size */
        n = segments(o, l, memory, bytes);
    }
    l->segment_bytes = (uint32_t)bytes;
    l->n_segments = (uint32_t)n;
    l->ring = n * bytes;
    l->pool = pages(kymo_pool_bytes(n, o->n_slots));
    return n >= least_segments(o);
}

uint64_t kymo_options_least(const struct kymo_options *o)
{
    struct kymo_layout l;
    uint64_t memory = 64 * 1024;

    while (!divide(o, memory, &l))
        memory += pages(memory / 32);
    return memory;
}

const char *kymo_options_check(const struct kymo_options *o, struct kymo_layout *l,
                               struct kymo_open_error *why)
{
    const char *bad = bad_option(o);

    memset(why, 0, sizeof *why);
    if (bad == NULL && !divide(o, o->memory, l)) {
        bad = "memory";
        why->needed = kymo_options_least(o);
    }
    if (bad == NULL && o->limit_bytes != 0 && o->limit_bytes < l->segment_bytes)
        bad = "limit_bytes";
    if (bad == NULL && o->file_bytes != 0 && o->file_bytes < l->segment_bytes)
        bad = "file_bytes";
    why->option = bad;
    return bad;
}

uint64_t kymo_options_memory(const struct kymo_options *o)
{
    struct kymo_open_error why;
    struct kymo_layout l;

    return kymo_options_check(o, &l, &why) == NULL ? l.meta + l.dict + l.ring + kymo_layout_private(&l) : 0;
}
