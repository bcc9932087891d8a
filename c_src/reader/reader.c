/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a recording. If its recorder is active, the order matters: counters, then segments, then
 * the dictionary, so that everything a segment refers to is found.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "timeline.h"

enum { DICT_BLOCK = 1 << 20 };

static int fail(char *err, size_t err_size, int rc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static int fail(char *err, size_t err_size, int rc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (err_size > 0)
        vsnprintf(err, err_size, fmt, ap);
    va_end(ap);
    return rc;
}

/* The name of the first field of meta with an impossible value, or NULL. */
static const char *bad_field(const struct kymo_meta *m)
{
    if (m->meta_bytes < KYMO_META_BYTES || m->meta_bytes > KYMO_MAX_META_BYTES || m->meta_bytes % 8 != 0)
        return "meta_bytes";
    if (m->n_slots < 1 || m->n_slots > KYMO_SLOTS_MAX)
        return "n_slots";
    if (m->segment_bytes < KYMO_SEGMENT_MIN || m->segment_bytes > KYMO_SEGMENT_MAX ||
        (m->segment_bytes & (m->segment_bytes - 1)) != 0)
        return "segment_bytes";
    if (m->n_segments > KYMO_SEGMENTS_MAX || (m->n_segments < KYMO_SEGMENTS_MIN && m->snapshot == 0))
        return "n_segments";
    if (m->clock > KYMO_CLOCK_COUNTER)
        return "clock";
    return NULL;
}

/* Terminates the text and replaces control characters. */
static void tame_text(char *s, size_t size)
{
    s[size - 1] = '\0';
    for (; *s != '\0'; s++) {
        if (*s < 32 || *s > 126)
            *s = '?';
    }
}

/* Sanitises values that are only displayed, so that damage in them does not prevent reading. */
static void tame(struct kymo_meta *m)
{
    if (m->node_len > sizeof m->node)
        m->node_len = sizeof m->node;
    tame_text(m->otp_release, sizeof m->otp_release);
    tame_text(m->erts_version, sizeof m->erts_version);
}

/* Reads meta. Stores the calibration table in calib, and the number of its entries in *n_calib. */
static int read_meta(struct kymo_reader *r, const char *dir, struct kymo_calib *calib, uint32_t *n_calib,
                     char *err, size_t err_size)
{
    uint64_t size;
    int fd = kymo_file_open(r->files.dir, KYMO_META_NAME, &size);
    if (fd == -ENOENT)
        return fail(err, err_size, -EBADMSG, "%s: not a recording: it has no file '%s'", dir, KYMO_META_NAME);
    if (fd == -EBADMSG)
        return fail(err, err_size, fd, "%s/%s: not a regular file", dir, KYMO_META_NAME);
    if (fd < 0)
        return fail(err, err_size, fd, "%s/%s: %s", dir, KYMO_META_NAME, strerror(-fd));
    int rc = 0;
    const char *field;
    ssize_t got = kymo_file_read(fd, &r->meta, sizeof r->meta, 0);
    if (got < 0) {
        rc = fail(err, err_size, -EIO, "%s/%s: %s", dir, KYMO_META_NAME, strerror((int)-got));
    } else if (got < (ssize_t)sizeof r->meta) {
        rc = fail(err, err_size, -EBADMSG, "%s/%s: cut short: %zd bytes of at least %zu", dir, KYMO_META_NAME,
                  got, sizeof r->meta);
    } else if (r->meta.magic != KYMO_META_MAGIC) {
        rc =
            fail(err, err_size, -EBADMSG, "%s/%s: not a recording (wrong magic number)", dir, KYMO_META_NAME);
    } else if (r->meta.version < KYMO_FORMAT_OLDEST || r->meta.version > KYMO_FORMAT_VERSION) {
        rc = fail(err, err_size, -EPROTO,
                  "%s/%s: format version %" PRIu32 "; this program reads versions %u to %u", dir,
                  KYMO_META_NAME, r->meta.version, KYMO_FORMAT_OLDEST, KYMO_FORMAT_VERSION);
    } else if ((field = bad_field(&r->meta)) != NULL) {
        rc = fail(err, err_size, -EBADMSG, "%s/%s: damaged: impossible value of %s", dir, KYMO_META_NAME,
                  field);
    }
    if (rc != 0)
        goto out;
    tame(&r->meta);

    rc = -ENOMEM;
    r->n_slots = r->meta.n_slots;
    r->slots = calloc(r->n_slots, sizeof *r->slots);
    r->cursors = calloc(r->n_slots, sizeof *r->cursors);
    r->heap = calloc(r->n_slots, sizeof *r->heap);
    r->floors = calloc(r->n_slots, sizeof *r->floors);
    r->ends = calloc(r->n_slots, sizeof *r->ends);
    r->losses = calloc(r->n_slots, sizeof *r->losses);
    if (r->slots == NULL || r->cursors == NULL || r->heap == NULL || r->floors == NULL || r->ends == NULL ||
        r->losses == NULL)
        goto out;
    rc = 0;
    got = kymo_file_read(fd, calib, KYMO_CALIB_BYTES, r->meta.meta_bytes);
    uint32_t pairs = got > 0 ? (uint32_t)((size_t)got / sizeof *calib) : 0;
    *n_calib = pairs < r->meta.n_calib ? pairs : r->meta.n_calib;
    size_t want = r->n_slots * sizeof *r->slots;
    got = kymo_file_read(fd, r->slots, want, (uint64_t)r->meta.meta_bytes + KYMO_CALIB_BYTES);
    if (got < (ssize_t)want) /* counters that are cut off are 0 */
        memset((uint8_t *)r->slots + (got > 0 ? got : 0), 0, want - (size_t)(got > 0 ? got : 0));
    for (uint32_t i = 0; i < r->n_slots; i++) {
        tame_text(r->slots[i].thread_name, sizeof r->slots[i].thread_name);
        r->losses[i] = kymo_slot_losses(&r->slots[i]);
    }
out:
    close(fd);
    return rc == -ENOMEM ? fail(err, err_size, rc, "%s: %s", dir, strerror(ENOMEM)) : rc;
}

/* Reads entries up to the end stored in meta, and further entries after it, since that word may
 * be damaged or outdated. */
static int read_dict(struct kymo_reader *r)
{
    uint64_t size;
    int fd = kymo_file_open(r->files.dir, KYMO_DICT_NAME, &size);
    if (fd == -ENOMEM)
        return fd;
    if (fd < 0)
        size = 0; /* then names are unknown */
    if (fd == -ENOENT && r->meta.dict_used > 0)
        r->damage.dict_missing = 1;
    if (size > KYMO_DICT_MAX)
        size = KYMO_DICT_MAX;
    if (size < r->meta.dict_used)
        r->damage.dict_bad += r->meta.dict_used - size;
    if (fd < 0)
        return kymo_defs_finish(&r->defs);
    uint8_t *block = malloc(DICT_BLOCK);
    int rc = block == NULL ? -ENOMEM : 0;
    uint64_t pos = 0, stop = r->meta.dict_used;
    while (rc == 0 && pos < size) {
        pos = kymo_file_data(fd, pos, size) & ~7ull;
        ssize_t got = kymo_file_read(fd, block, DICT_BLOCK, pos);
        if (got <= 0)
            break;
        if (pos >= stop && stop != 0 && (got < 4 || kymo_get32(block) != KYMO_DICT_MAGIC))
            break;
        bool last = got < DICT_BLOCK || pos + (uint64_t)got >= size;
        ssize_t used = kymo_defs_parse(&r->defs, block, (size_t)got, pos, last, &r->damage.dict_bad);
        if (used < 0)
            rc = (int)used;
        else
            pos += (uint64_t)used;
    }
    free(block);
    close(fd);
    return rc != 0 ? rc : kymo_defs_finish(&r->defs);
}

static void place_cursors(struct kymo_reader *r)
{
    for (size_t i = 0; i < r->index.n; i++) {
        struct kymo_cursor *c = &r->cursors[r->index.refs[i].slot];
        if (c->n++ == 0)
            c->first = i;
    }
}

int kymo_reader_open(const char *dir, struct kymo_reader **out, char *err, size_t err_size)
{
    return kymo_reader_reopen(dir, NULL, 0, out, err, err_size);
}

int kymo_reader_reopen(const char *dir, const uint64_t *before, uint32_t n, struct kymo_reader **out,
                       char *err, size_t err_size)
{
    *out = NULL;
    struct kymo_reader *r = calloc(1, sizeof *r);
    if (r == NULL)
        return fail(err, err_size, -ENOMEM, "%s: %s", dir, strerror(ENOMEM));
    for (unsigned i = 0; i < KYMO_OPEN_FILES; i++)
        r->files.open[i].fd = -1;
    kymo_map_init(&r->defs.processes, sizeof(struct kymo_process));
    struct kymo_calib *calib = calloc(KYMO_CALIB_MAX, sizeof *calib);
    uint32_t n_calib = 0;
    int rc = calib == NULL ? fail(err, err_size, -ENOMEM, "%s: %s", dir, strerror(ENOMEM)) : 0;
    r->files.dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (rc == 0 && r->files.dir < 0) {
        rc = -errno;
        fail(err, err_size, rc, "%s: %s", dir, strerror(-rc));
    }
    if (rc == 0)
        rc = read_meta(r, dir, calib, &n_calib, err, err_size);
    if (rc == 0) {
        r->read_before = before;
        r->n_read_before = n;
        r->crashed = kymo_owner_gone(r);
        r->until = UINT64_MAX;
        kymo_newest_find(r);
        rc = kymo_index_build(r);
        if (rc == 0)
            rc = kymo_times_build(r, calib, n_calib);
        if (rc == 0)
            rc = read_dict(r);
        if (rc == 0)
            rc = kymo_shed_find(r);
        if (rc != 0)
            fail(err, err_size, rc, "%s: %s", dir, strerror(-rc));
    }
    free(calib);
    if (rc != 0) {
        kymo_reader_close(r);
        return rc;
    }
    r->read_before = NULL;
    place_cursors(r);
    kymo_reader_rewind(r);
    *out = r;
    return 0;
}

void kymo_reader_close(struct kymo_reader *r)
{
    if (r == NULL)
        return;
    kymo_timeline_close(r->timeline);
    if (r->cursors != NULL) {
        for (uint32_t i = 0; i < r->n_slots; i++)
            free(r->cursors[i].buf);
    }
    kymo_files_close(&r->files);
    kymo_defs_free(&r->defs);
    kymo_clock_free(&r->clock);
    free(r->index.refs);
    free(r->cursors);
    free(r->heap);
    free(r->floors);
    free(r->ends);
    free(r->losses);
    free(r->slots);
    free(r->raw);
    free(r->held);
    free(r->shed);
    free(r);
}

const struct kymo_meta *kymo_reader_meta(const struct kymo_reader *r)
{
    return &r->meta;
}

const struct kymo_slot *kymo_reader_slots(const struct kymo_reader *r, uint32_t *n)
{
    *n = r->n_slots;
    return r->slots;
}

uint64_t kymo_reader_lost(const struct kymo_reader *r)
{
    uint64_t sum = r->meta.no_slot;
    for (uint32_t i = 0; i < r->n_slots; i++) {
        for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++)
            sum += kymo_slot_lost(&r->slots[i], c);
    }
    return sum;
}

const struct kymo_damage *kymo_reader_damage(const struct kymo_reader *r)
{
    return r->timeline != NULL ? kymo_timeline_damage(r) : &r->damage;
}

bool kymo_reader_crashed(const struct kymo_reader *r)
{
    return r->crashed;
}

void kymo_reader_pool(const struct kymo_reader *r, uint64_t *segments, uint64_t *bytes)
{
    *segments = r->index.places;
    *bytes = r->index.place_bytes;
}

int64_t kymo_reader_ns(const struct kymo_reader *r, uint64_t ticks)
{
    uint32_t hint = 0;
    return kymo_clock_ns(&r->clock, &hint, ticks);
}

/* Wraps on overflow, because a damaged meta may have any times. */
static int64_t shift(int64_t t, int64_t from, int64_t to)
{
    return (int64_t)((uint64_t)t - (uint64_t)from + (uint64_t)to);
}

int64_t kymo_reader_wall_ns(const struct kymo_reader *r, int64_t mono_ns)
{
    return shift(mono_ns, r->meta.t0_mono_ns, r->meta.t0_wall_ns);
}

int64_t kymo_reader_erl_ns(const struct kymo_reader *r, int64_t mono_ns)
{
    return shift(mono_ns, r->meta.t0_mono_ns, r->meta.t0_erl_ns);
}
