/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of a recorder.
 *
 *   IDLE      -> ACTIVE     kymo_recorder_open, its last step
 *   ACTIVE    -> PAUSED     kymo_recorder_pause
 *   PAUSED    -> ACTIVE     kymo_recorder_resume
 *   ACTIVE, PAUSED -> STOPPING   kymo_begin_stop, once: called by
 *                           kymo_recorder_stop and _stop_async, by the producer
 *                           that reaches a limit, by the worker (duration)
 *   STOPPING  -> CLOSED     kymo_enter_closed, by the worker at its end
 *
 * State changes are compare-and-swap: a stop may come between any two steps of
 * pause and resume, and wins. head.state decides; meta.state is its copy for
 * whoever reads the files.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kymo_internal.h"

/* ---- registry -------------------------------------------------------------------- */

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    bool taken;
    struct kymo_recorder *r; /* NULL while being opened */
} registry[KYMO_MAX_RECORDERS];

void kymo_registry_lock(void)
{
    pthread_mutex_lock(&registry_mutex);
}

void kymo_registry_unlock(void)
{
    pthread_mutex_unlock(&registry_mutex);
}

struct kymo_recorder *kymo_registry_at(uint32_t index, uint64_t generation)
{
    struct kymo_recorder *r = registry[index].r;

    return r != NULL && r->head.generation == generation ? r : NULL;
}

static int registry_take(uint32_t *index)
{
    int rc;

    kymo_registry_lock();
    rc = kymo_threads_init();
    *index = 0;
    while (rc == 0 && *index < KYMO_MAX_RECORDERS && registry[*index].taken)
        ++*index;
    if (*index == KYMO_MAX_RECORDERS)
        rc = -ENFILE;
    if (rc == 0)
        registry[*index].taken = true;
    kymo_registry_unlock();
    return rc;
}

static void registry_set(uint32_t index, struct kymo_recorder *r)
{
    kymo_registry_lock();
    registry[index].r = r;
    registry[index].taken = r != NULL;
    kymo_registry_unlock();
}

/* ---- options --------------------------------------------------------------------- */

#define KYMO_DETAIL_ALL \
    (KYMO_D_ARGS | KYMO_D_RETURNS | KYMO_D_MSG_SIZE | KYMO_D_MSG | KYMO_D_TERMS | KYMO_D_GC_SIZES)
#define KYMO_CONTENT_MAX 16384u
#define KYMO_DICT_BYTES_MAX (1u << 30)

void kymo_options_init(struct kymo_options *o)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);

    memset(o, 0, sizeof *o);
    o->policy = KYMO_OVERWRITE;
    o->clock = KYMO_CLOCK_TSC;
    o->segment_bytes = 64 * 1024;
    o->segs_per_ring = 64;
    /* A scheduler and a dirty CPU scheduler for each CPU, ten dirty IO schedulers,
     * and some more. */
    o->n_slots = (uint32_t)(cpus < 1 ? 1 : cpus > 1024 ? 1024 : cpus) * 2 + 14;
    o->dict_bytes = 8 * 1024 * 1024;
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

/* The name of the first bad option, NULL when all are good. */
static const char *bad_option(const struct kymo_options *o)
{
    if (o->dir == NULL || o->dir[0] == '\0')
        return "dir";
    if ((unsigned)o->policy > KYMO_DISCARD)
        return "policy";
    if ((unsigned)o->clock > KYMO_CLOCK_TSC)
        return "clock";
    if (o->segment_bytes < 4096 || o->segment_bytes > 1024 * 1024 ||
        (o->segment_bytes & (o->segment_bytes - 1)) != 0)
        return "segment_bytes";
    if (o->segs_per_ring < 2 || o->segs_per_ring > 65536)
        return "segs_per_ring";
    if (o->n_slots < 1 || o->n_slots > 4096)
        return "n_slots";
    if (o->dict_bytes < 4096 || o->dict_bytes > KYMO_DICT_BYTES_MAX)
        return "dict_bytes";
    if ((o->detail & ~KYMO_DETAIL_ALL) != 0)
        return "detail";
    if (o->content_max > o->segment_bytes / 4 || o->content_max > KYMO_CONTENT_MAX)
        return "content_max";
    if (o->sample < 1)
        return "sample";
    if (o->sample_kind > 1)
        return "sample_kind";
    if (o->limit_bytes != 0 && o->limit_bytes < o->segment_bytes)
        return "limit_bytes";
    if (o->file_bytes != 0 && o->file_bytes < o->segment_bytes)
        return "file_bytes";
    if (!fits(o->node, 255))
        return "node";
    if (!fits(o->otp_release, 15))
        return "otp_release";
    if (!fits(o->erts_version, 15))
        return "erts_version";
    return NULL;
}

/* Sizes that follow from the options; everything is rounded up to whole pages. */
struct sizes {
    uint64_t meta, dict, ring;
    uint64_t table, writers, mfas, atoms; /* parts of the private memory */
};

static uint64_t pages(uint64_t n)
{
    return (n + 4095) & ~(uint64_t)4095;
}

static struct sizes sizes_of(const struct kymo_options *o)
{
    struct sizes s = {
        .meta = pages(KYMO_META_BYTES + KYMO_CALIB_BYTES + (uint64_t)o->n_slots * sizeof(struct kymo_slot)),
        .dict = pages(o->dict_bytes),
        .ring = (uint64_t)o->n_slots * o->segs_per_ring * o->segment_bytes,
        .writers = pages((uint64_t)o->n_slots * sizeof(struct kymo_writer)),
        .mfas = (uint64_t)o->n_slots * (sizeof(struct kymo_cached_mfa) << KYMO_MFA_CACHE_BITS),
        .atoms = (uint64_t)o->n_slots * (sizeof(struct kymo_cached_atom) << KYMO_ATOM_CACHE_BITS),
    };

    s.table = pages(kymo_dict_table_bytes(s.dict));
    return s;
}

static uint64_t private_bytes(const struct sizes *s)
{
    return s->table + s->writers + s->mfas + s->atoms;
}

uint64_t kymo_options_memory(const struct kymo_options *o)
{
    struct sizes s = sizes_of(o);

    return s.meta + s.dict + s.ring + private_bytes(&s);
}

/* ---- state ------------------------------------------------------------------------- */

static bool change_state(struct kymo_recorder *r, enum kymo_state from, enum kymo_state to)
{
    uint32_t expected = from;

    if (!__atomic_compare_exchange_n(&r->head.state, &expected, (uint32_t)to, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_RELAXED))
        return false;
    kymo_set(&r->meta->state, (uint32_t)to);
    return true;
}

bool kymo_begin_stop(struct kymo_recorder *r, enum kymo_reason why)
{
    uint32_t none = KYMO_R_NONE;

    /* The first to give a reason is the one who stops. */
    if (!__atomic_compare_exchange_n(&r->meta->reason, &none, (uint32_t)why, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return false;
    while (!change_state(r, KYMO_ACTIVE, KYMO_STOPPING) && !change_state(r, KYMO_PAUSED, KYMO_STOPPING))
        ;
    return true;
}

void kymo_enter_closed(struct kymo_recorder *r)
{
    kymo_set(&r->meta->state, (uint32_t)KYMO_CLOSED);
    (void)fsync(r->meta_map.fd);
    __atomic_store_n(&r->head.state, (uint32_t)KYMO_CLOSED, __ATOMIC_SEQ_CST);
}

static bool membarrier_works(void)
{
    return !KYMO_TSAN && syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* Producers are a few hundred nanoseconds inside, unless the system takes their
 * CPU away. They make no system call, so nobody can wake this thread: it looks. */
void kymo_quiesce(struct kymo_recorder *r)
{
    const struct timespec nap = {0, 50000};
    unsigned looks = 0;

    KYMO_POINT(KYMO_AT_QUIESCE);
    if (!r->head.fenced)
        (void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    for (uint32_t i = 0; i < r->opt.n_slots; i++) {
        while (__atomic_load_n(&r->writers[i].busy, __ATOMIC_SEQ_CST) != 0) {
            if (looks++ < 100)
                sched_yield();
            else
                (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
        }
    }
}

/* ---- open ---------------------------------------------------------------------------- */

static void copy_text(char *to, size_t size, const char *from)
{
    memcpy(to, from == NULL ? "" : from, from == NULL ? 0 : strnlen(from, size));
}

static void fill_meta(struct kymo_recorder *r, const struct kymo_options *o, struct kymo_calib t0,
                      int64_t wall)
{
    struct kymo_meta *m = r->meta;

    m->version = KYMO_FORMAT_VERSION;
    m->meta_bytes = KYMO_META_BYTES;
    if (getrandom(m->uuid, sizeof m->uuid, GRND_NONBLOCK) != (ssize_t)sizeof m->uuid) {
        /* Early at boot: unique is enough. */
        uint64_t parts[2] = {kymo_mix(t0.ticks) ^ (uint64_t)wall,
                             kymo_mix((uint64_t)r->pid) ^ r->head.generation};

        memcpy(m->uuid, parts, sizeof m->uuid);
    }
    m->uuid[6] = (uint8_t)((m->uuid[6] & 0x0fu) | 0x40u);
    m->uuid[8] = (uint8_t)((m->uuid[8] & 0x3fu) | 0x80u);
    m->policy = o->policy;
    m->state = KYMO_IDLE;
    m->n_slots = o->n_slots;
    m->segment_bytes = o->segment_bytes;
    m->segs_per_ring = o->segs_per_ring;
    m->clock = r->clock;
    m->detail = o->detail;
    m->t0_ticks = t0.ticks;
    m->t0_mono_ns = t0.mono_ns;
    m->t0_wall_ns = wall;
    m->t0_erl_ns = o->erl_mono_ns;
    m->erl_offset_ns = o->erl_offset_ns;
    m->os_pid = (uint64_t)r->pid;
    m->dict_bytes = r->dict.bytes;
    m->limit_bytes = o->limit_bytes;
    m->limit_events = o->limit_events;
    m->limit_ns = o->limit_ns;
    m->sample = o->sample;
    m->sample_kind = o->sample_kind;
    m->content_max = o->content_max;
    m->creation = o->creation;
    m->node_len = o->node == NULL ? 0 : (uint32_t)strlen(o->node);
    copy_text((char *)m->node, sizeof m->node, o->node);
    copy_text(m->otp_release, sizeof m->otp_release, o->otp_release);
    copy_text(m->erts_version, sizeof m->erts_version, o->erts_version);
    r->calib[0] = t0;
    m->n_calib = 1;
    kymo_calibrate(r, false);
    kymo_set_release(&m->magic, KYMO_META_MAGIC);
}

static void place_private(struct kymo_recorder *r, const struct sizes *s)
{
    uint8_t *p = r->priv_map.mem;

    r->writers = (struct kymo_writer *)(void *)p;
    p += s->writers;
    kymo_dict_init(&r->dict, r->dict_map.mem, s->dict, p);
    p += s->table;
    for (uint32_t i = 0; i < r->opt.n_slots; i++) {
        r->writers[i].mfas = (struct kymo_cached_mfa *)(void *)p;
        p += sizeof(struct kymo_cached_mfa) << KYMO_MFA_CACHE_BITS;
        r->writers[i].atoms = (struct kymo_cached_atom *)(void *)p;
        p += sizeof(struct kymo_cached_atom) << KYMO_ATOM_CACHE_BITS;
        kymo_writer_init(r, i);
    }
}

/* Maps the files and the private memory. The meta file comes first: creating it
 * takes the folder. */
static int map_all(struct kymo_recorder *r, const struct sizes *s)
{
    int rc = kymo_map_create(r->dirfd, KYMO_META_NAME, s->meta, &r->meta_map);

    if (rc == 0)
        rc = kymo_map_create(r->dirfd, KYMO_DICT_NAME, s->dict, &r->dict_map);
    if (rc == 0)
        rc = kymo_map_create(r->dirfd, KYMO_RING_NAME, s->ring, &r->ring_map);
    if (rc == 0)
        rc = kymo_map_private(private_bytes(s), &r->priv_map);
    return rc;
}

static void unmap_all(struct kymo_recorder *r)
{
    kymo_map_close(&r->priv_map);
    kymo_map_close(&r->ring_map);
    kymo_map_close(&r->dict_map);
    kymo_map_close(&r->meta_map);
}

/* Removes what this open created: a file that is mapped is one of them. */
static void remove_files(struct kymo_recorder *r)
{
    if (r->ring_map.mem != NULL)
        unlinkat(r->dirfd, KYMO_RING_NAME, 0);
    if (r->dict_map.mem != NULL)
        unlinkat(r->dirfd, KYMO_DICT_NAME, 0);
    if (r->meta_map.mem != NULL)
        unlinkat(r->dirfd, KYMO_META_NAME, 0);
}

static int start_worker(struct kymo_recorder *r)
{
    sigset_t all, old;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&r->worker, NULL, kymo_worker, r);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0)
        (void)pthread_setname_np(r->worker, "kymo_worker");
    return -rc;
}

static struct kymo_recorder *allocate(const struct kymo_options *o, enum kymo_clock clock)
{
    struct kymo_recorder *r = calloc(1, sizeof *r);

    if (r == NULL)
        return NULL;
    r->opt = *o;
    r->opt.dir = r->opt.node = r->opt.otp_release = r->opt.erts_version = NULL;
    r->pid = getpid();
    r->clock = clock;
    r->head.generation = kymo_next_epoch();
    r->head.fenced = !membarrier_works();
    r->free_epoch = kymo_next_epoch();
    r->events_left = o->limit_events;
    r->dirfd = -1;
    r->meta_map.fd = r->dict_map.fd = r->ring_map.fd = r->priv_map.fd = -1;
    r->files.fd = -1;
    r->files.oldest = 1;
    pthread_mutex_init(&r->ctl, NULL);
    pthread_mutex_init(&r->join_lock, NULL);
    return r;
}

static void release(struct kymo_recorder *r)
{
    unmap_all(r);
    if (r->dirfd >= 0)
        close(r->dirfd);
    pthread_mutex_destroy(&r->join_lock);
    pthread_mutex_destroy(&r->ctl);
    free(r);
}

int kymo_recorder_open(const struct kymo_options *o, struct kymo_recorder **out, const char **what)
{
    const char *bad = bad_option(o);
    struct kymo_recorder *r = NULL;
    enum kymo_clock clock;
    struct timespec wall;
    struct kymo_calib t0;
    struct sizes s;
    bool created = false;
    uint32_t index = 0;
    int rc;

    *out = NULL;
    if (what != NULL)
        *what = bad;
    if (bad != NULL)
        return -EINVAL;
    clock = kymo_clock_choose(o->clock);
    t0 = kymo_clock_pair(clock); /* near the caller's erl_mono_ns */
    clock_gettime(CLOCK_REALTIME, &wall);
    s = sizes_of(o);
    rc = registry_take(&index);
    if (rc != 0)
        return rc;
    r = allocate(o, clock);
    if (r == NULL) {
        rc = -ENOMEM;
        goto fail;
    }
    r->head.index = index;
    r->t0_ns = (uint64_t)t0.mono_ns;
    rc = r->dirfd = kymo_dir_open(o->dir, &created);
    if (rc >= 0)
        rc = map_all(r, &s);
    if (rc != 0)
        goto fail;
    r->meta = r->meta_map.mem;
    r->calib = (struct kymo_calib *)(void *)((uint8_t *)r->meta_map.mem + KYMO_META_BYTES);
    r->slots = (struct kymo_slot *)(void *)((uint8_t *)r->calib + KYMO_CALIB_BYTES);
    place_private(r, &s);
    fill_meta(r, o, t0, (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec);
    rc = start_worker(r);
    if (rc != 0)
        goto fail;
    registry_set(index, r);
    (void)change_state(r, KYMO_IDLE, KYMO_ACTIVE);
    *out = r;
    return 0;

fail:
    registry_set(index, NULL);
    if (r != NULL) {
        remove_files(r);
        release(r);
    }
    if (created)
        rmdir(o->dir);
    return rc;
}

/* ---- stop, pause --------------------------------------------------------------------- */

/* What every control function asks first. */
int kymo_may_control(struct kymo_recorder *r)
{
    if (r->pid != getpid())
        return -ECHILD;
    return kymo_writer_inside(r) ? -EDEADLK : 0;
}

void kymo_recorder_stop_async(struct kymo_recorder *r, enum kymo_reason why)
{
    if (kymo_begin_stop(r, why))
        kymo_wake(r);
}

int kymo_recorder_stop(struct kymo_recorder *r, enum kymo_reason why)
{
    int rc = kymo_may_control(r);

    if (rc != 0)
        return rc;
    kymo_recorder_stop_async(r, why);
    pthread_mutex_lock(&r->join_lock);
    if (r->joined) {
        rc = -EALREADY;
    } else {
        pthread_join(r->worker, NULL);
        r->joined = true;
    }
    pthread_mutex_unlock(&r->join_lock);
    return rc;
}

void kymo_recorder_close(struct kymo_recorder *r)
{
    if (r->pid == getpid()) {
        (void)kymo_recorder_stop(r, KYMO_R_COLLECTED);
        registry_set(r->head.index, NULL);
    }
    release(r);
}

static int change_and_note(struct kymo_recorder *r, enum kymo_state from, enum kymo_state to)
{
    int rc = kymo_may_control(r);

    if (rc != 0)
        return rc;
    pthread_mutex_lock(&r->ctl);
    if (kymo_get(&r->head.state) == (uint32_t)to) {
        rc = -EALREADY;
    } else if (to == KYMO_PAUSED ? !change_state(r, from, to) : kymo_get(&r->head.state) != (uint32_t)from) {
        rc = -ESHUTDOWN;
    } else {
        uint64_t now = kymo_clock_ticks(r->clock);

        if (to == KYMO_PAUSED)
            kymo_quiesce(r);
        for (uint32_t i = 0; i < r->opt.n_slots; i++) {
            kymo_write_state(&r->writers[i], to, now);
            kymo_lease_return(&r->writers[i]);
        }
        if (to == KYMO_ACTIVE && !change_state(r, from, to))
            rc = -ESHUTDOWN;
    }
    pthread_mutex_unlock(&r->ctl);
    return rc;
}

int kymo_recorder_pause(struct kymo_recorder *r)
{
    return change_and_note(r, KYMO_ACTIVE, KYMO_PAUSED);
}

int kymo_recorder_resume(struct kymo_recorder *r)
{
    return change_and_note(r, KYMO_PAUSED, KYMO_ACTIVE);
}

void kymo_recorder_stop_all(void)
{
    kymo_registry_lock();
    for (uint32_t i = 0; i < KYMO_MAX_RECORDERS; i++) {
        if (registry[i].r != NULL)
            (void)kymo_recorder_stop(registry[i].r, KYMO_R_UNLOAD);
    }
    kymo_registry_unlock();
}

void kymo_recorder_library_unload(void)
{
    kymo_recorder_stop_all();
    kymo_registry_lock();
    kymo_threads_exit();
    kymo_registry_unlock();
}
