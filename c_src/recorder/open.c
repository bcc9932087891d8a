/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing a recorder.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "kymo_internal.h"

static uint64_t bytes_mapped(const struct kymo_recorder *r)
{
    return r->layout.meta + r->layout.dict + r->layout.ring + kymo_layout_private(&r->layout);
}

static void copy_text(char *to, size_t size, const char *from)
{
    memcpy(to, from == NULL ? "" : from, from == NULL ? 0 : strnlen(from, size));
}

/* The kernel's id of this start of the machine, which containers share. It stays 0 where
 * /proc does not have it. */
static void read_boot_id(uint8_t id[16])
{
    char text[40] = "";
    uint8_t bytes[16] = {0};
    unsigned digits = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;

    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < n && digits < 32; i++) {
        const char *hex = "0123456789abcdef", *at = text[i] != '\0' ? strchr(hex, text[i]) : NULL;

        if (at == NULL)
            continue;
        bytes[digits / 2] = (uint8_t)(bytes[digits / 2] << 4 | (at - hex));
        digits++;
    }
    if (digits == 32)
        memcpy(id, bytes, sizeof bytes);
}

static void fill_meta(struct kymo_recorder *r, const struct kymo_options *o, struct kymo_calib t0,
                      int64_t wall)
{
    struct kymo_meta *m = r->meta;

    m->version = KYMO_FORMAT_VERSION;
    m->meta_bytes = KYMO_META_BYTES;
    if (getrandom(m->uuid, sizeof m->uuid, GRND_NONBLOCK) != (ssize_t)sizeof m->uuid) {
        /* No random numbers yet, early at boot. The id must only be unique. */
        uint64_t parts[2] = {kymo_mix(t0.ticks) ^ (uint64_t)wall,
                             kymo_mix((uint64_t)r->pid) ^ r->head.generation};

        memcpy(m->uuid, parts, sizeof m->uuid);
    }
    m->uuid[6] = (uint8_t)((m->uuid[6] & 0x0fu) | 0x40u);
    m->uuid[8] = (uint8_t)((m->uuid[8] & 0x3fu) | 0x80u);
    m->policy = o->policy;
    m->state = KYMO_ACTIVE; /* which it will be when open returns */
    m->n_slots = o->n_slots;
    m->segment_bytes = r->layout.segment_bytes;
    m->n_segments = r->layout.n_segments;
    m->clock = r->clock;
    m->detail = o->detail;
    m->exact = o->exact;
    m->t0_ticks = t0.ticks;
    m->t0_mono_ns = t0.mono_ns;
    m->t0_wall_ns = wall;
    m->t0_erl_ns = o->erl_mono_ns;
    m->erl_offset_ns = o->erl_offset_ns;
    m->os_pid = (uint64_t)r->pid;
    m->dict_bytes = r->dict.bytes;
    m->memory = bytes_mapped(r);
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
    read_boot_id(m->boot_id);
    r->calib[0] = t0;
    m->n_calib = 1;
    kymo_clock_start(r);
    kymo_set_release(&m->magic, KYMO_META_MAGIC);
}

static void place_private(struct kymo_recorder *r)
{
    const struct kymo_layout *l = &r->layout;
    uint8_t *p = r->priv_map.mem;

    r->writers = (struct kymo_writer *)(void *)p;
    p += l->writers;
    kymo_dict_init(&r->dict, r->dict_map.mem, l->dict, p);
    p += l->table;
    kymo_pool_init(r, p);
    p = r->cache_map.mem;
    for (uint32_t i = 0; i < r->opt.n_slots; i++) {
        r->writers[i].mfas = (struct kymo_cached_mfa *)(void *)p;
        p += sizeof(struct kymo_cached_mfa) << KYMO_MFA_CACHE_BITS;
        r->writers[i].atoms = (struct kymo_cached_atom *)(void *)p;
        p += sizeof(struct kymo_cached_atom) << KYMO_ATOM_CACHE_BITS;
        kymo_writer_init(r, i);
    }
}

/* Maps the files and the private memory. The meta file is created first: it claims the
 * folder, since its creation fails if it exists. */
static int map_all(struct kymo_recorder *r)
{
    const struct kymo_layout *s = &r->layout;
    int rc = kymo_mapping_create(r->dirfd, KYMO_META_NAME, s->meta, &r->meta_map);

    if (rc == 0)
        rc = kymo_mapping_create(r->dirfd, KYMO_DICT_NAME, s->dict, &r->dict_map);
    if (rc == 0)
        rc = kymo_mapping_create(r->dirfd, KYMO_RING_NAME, s->ring, &r->ring_map);
    if (rc == 0)
        rc = kymo_mapping_private(kymo_layout_private(s), true, &r->priv_map);
    if (rc == 0)
        rc = kymo_mapping_private(s->caches, false, &r->cache_map);
    return rc;
}

static void unmap_all(struct kymo_recorder *r)
{
    kymo_mapping_close(&r->cache_map);
    kymo_mapping_close(&r->priv_map);
    kymo_mapping_close(&r->ring_map);
    kymo_mapping_close(&r->dict_map);
    kymo_mapping_close(&r->meta_map);
}

/* Removes the files that this open has created, which are those that are mapped. */
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

static struct kymo_recorder *allocate(const struct kymo_options *o, const struct kymo_layout *layout,
                                      enum kymo_clock clock)
{
    struct kymo_recorder *r = calloc(1, sizeof *r);

    if (r == NULL)
        return NULL;
    r->opt = *o;
    r->opt.dir = r->opt.node = r->opt.otp_release = r->opt.erts_version = NULL;
    r->layout = *layout;
    r->pid = getpid();
    r->clock = clock;
    r->head.generation = kymo_next_epoch();
    r->head.fenced = !kymo_membarrier_works();
    r->free_epoch = kymo_next_epoch();
    r->events_left = o->limit_events;
    r->dirfd = -1;
    r->meta_map.fd = r->dict_map.fd = r->ring_map.fd = r->priv_map.fd = r->cache_map.fd = -1;
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

/* Locks the meta file, so that readers in any process and PID namespace can see whether the
 * recorder is alive. The lock belongs to the open file description, so the kernel releases it
 * however the process ends. */
static void lock_meta(struct kymo_recorder *r)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

    r->meta->locked = fcntl(r->meta_map.fd, F_OFD_SETLK, &lock) == 0;
}

/* Reports how much space a failed open needed, and how much there is. */
static void note_space(const struct kymo_options *o, const struct kymo_layout *l, struct kymo_open_error *why)
{
    char path[4096];
    uint64_t room;
    int fd;

    why->needed = l->meta + l->dict + l->ring;
    (void)snprintf(path, sizeof path, "%s", o->dir);
    fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        fd = open(dirname(path), O_PATH | O_CLOEXEC);
    if (fd < 0)
        return;
    room = kymo_file_room(fd);
    close(fd);
    if (room != UINT64_MAX)
        why->available = room;
}

int kymo_recorder_open(const struct kymo_options *o, struct kymo_recorder **out, struct kymo_open_error *why)
{
    struct kymo_open_error unwanted = {NULL, 0, 0};
    struct kymo_recorder *r = NULL;
    struct kymo_layout layout;
    enum kymo_clock clock;
    struct timespec wall;
    struct kymo_calib t0;
    bool created = false;
    uint32_t index = 0;
    int rc;

    *out = NULL;
    why = why == NULL ? &unwanted : why;
    if (kymo_options_check(o, &layout, why) != NULL)
        return -EINVAL;
    clock = kymo_clock_choose(o->clock);
    t0 = kymo_clock_pair(clock, 0); /* as soon as possible after the caller's erl_mono_ns */
    clock_gettime(CLOCK_REALTIME, &wall);
    rc = kymo_registry_take(&index);
    if (rc != 0)
        return rc;
    r = allocate(o, &layout, clock);
    if (r == NULL) {
        rc = -ENOMEM;
        goto fail;
    }
    r->head.index = index;
    r->t0_ns = (uint64_t)t0.mono_ns;
    rc = r->dirfd = kymo_dir_open(o->dir, &created);
    if (rc >= 0)
        rc = map_all(r);
    if (rc != 0)
        goto fail;
    r->meta = r->meta_map.mem;
    r->calib = (struct kymo_calib *)(void *)((uint8_t *)r->meta_map.mem + KYMO_META_BYTES);
    r->slots = (struct kymo_slot *)(void *)((uint8_t *)r->calib + KYMO_CALIB_BYTES);
    place_private(r);
    lock_meta(r);
    fill_meta(r, o, t0, (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec);
    rc = start_worker(r);
    if (rc != 0)
        goto fail;
    kymo_registry_set(index, r);
    kymo_enter_active(r);
    *out = r;
    return 0;

fail:
    if (rc == -ENOSPC)
        note_space(o, &layout, why);
    kymo_registry_set(index, NULL);
    if (r != NULL) {
        remove_files(r);
        release(r);
    }
    if (created)
        rmdir(o->dir);
    return rc;
}

void kymo_recorder_close(struct kymo_recorder *r)
{
    if (r->pid == getpid()) {
        (void)kymo_recorder_stop(r, KYMO_R_COLLECTED);
        kymo_registry_set(r->head.index, NULL);
    }
    release(r);
}
