/* SPDX-License-Identifier: Apache-2.0
 *
 * Data files of a discard recorder. They contain whole packets only, are closed at a size or
 * age, and the oldest ones are removed beyond max_files. Used by the worker only.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zlib.h>

#include "kymo_internal.h"

#define KYMO_NAME_MAX 32u

static void file_name(char *name, uint64_t number)
{
    snprintf(name, KYMO_NAME_MAX, KYMO_DATA_FMT, (unsigned)number);
}

static void note(struct kymo_recorder *r, int error)
{
    kymo_set(&r->meta->io_errno, (uint32_t)error);
}

/* Returns the number of events in a data file that is about to be removed, and moves the
 * horizon past them. Reads the packet headers, as keeping the numbers would need memory for
 * each file. */
static uint64_t take_leave(struct kymo_recorder *r, const char *name)
{
    int fd = openat(r->dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct kymo_segment s;
    uint64_t events = 0;
    off_t at = 0;

    if (fd < 0)
        return 0;
    while (pread(fd, &s, sizeof s, at) == (ssize_t)sizeof s && s.magic == KYMO_SEG_MAGIC &&
           s.packet_bits / 8 >= KYMO_SEG_HEADER && s.packet_bits / 8 <= r->layout.segment_bytes) {
        events += s.events;
        if (s.instance < r->opt.n_slots)
            kymo_gone(&r->slots[s.instance], s.ts_end);
        at += (off_t)(s.packet_bits / 8);
    }
    close(fd);
    return events;
}

static void remove_old(struct kymo_recorder *r)
{
    char name[KYMO_NAME_MAX];

    while (r->opt.max_files != 0 && r->meta->files - r->files.oldest + 1 > r->opt.max_files) {
        uint64_t events;

        file_name(name, r->files.oldest);
        events = take_leave(r, name);
        if (unlinkat(r->dirfd, name, 0) == 0) {
            kymo_set(&r->meta->files_removed, r->meta->files_removed + 1);
            kymo_set(&r->meta->events_removed, r->meta->events_removed + events);
        } else if (errno != ENOENT) {
            note(r, errno); /* retried when the next file is opened */
            return;
        }
        r->files.oldest++;
    }
}

static int open_next(struct kymo_recorder *r)
{
    char name[KYMO_NAME_MAX];
    uint64_t number = r->meta->files;
    int fd;

    do { /* skips names that another program has created in the folder */
        file_name(name, ++number);
        fd = kymo_file_create(r->dirfd, name, 0);
    } while (fd == -EEXIST);
    if (fd < 0)
        return fd;
    kymo_set(&r->meta->files, number);
    r->files.fd = fd;
    r->files.size = 0;
    r->files.opened_ns = kymo_clock_mono();
    remove_old(r);
    return 0;
}

/* Only starts the write-back; kymo_datafile_sync waits for it at the end. Waiting for the disk
 * here would let the pool fill up. */
void kymo_datafile_close(struct kymo_recorder *r)
{
    if (r->files.fd < 0)
        return;
    (void)sync_file_range(r->files.fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    if (close(r->files.fd) != 0)
        note(r, errno);
    r->files.fd = -1;
}

int kymo_datafile_sync(struct kymo_recorder *r)
{
    char name[KYMO_NAME_MAX];
    int rc = 0;

    for (uint64_t n = r->files.oldest; n <= r->meta->files; n++) {
        int fd;

        file_name(name, n);
        fd = openat(r->dirfd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
            continue; /* removed by another program */
        if (fsync(fd) != 0) {
            rc = -errno;
            note(r, errno);
        }
        close(fd);
    }
    return rc;
}

void kymo_datafile_age(struct kymo_recorder *r, uint64_t now_ns)
{
    if (r->files.fd >= 0 && r->opt.file_ns != 0 && now_ns - r->files.opened_ns >= r->opt.file_ns)
        kymo_datafile_close(r);
}

/* Removes `written` bytes from the front of the vector. */
static void advance(struct iovec *v, int n, size_t written)
{
    for (int i = 0; i < n; i++) {
        size_t part = written < v[i].iov_len ? written : v[i].iov_len;

        v[i].iov_base = (uint8_t *)v[i].iov_base + part;
        v[i].iov_len -= part;
        written -= part;
    }
}

static int write_packet(int fd, const struct kymo_segment *seg, uint64_t offset, uint64_t total)
{
    uint8_t zeros[8] = {0};
    size_t content = (size_t)(seg->content_bits / 8);
    uint8_t *records = (uint8_t *)(uintptr_t)seg + KYMO_SEG_HEADER;
    struct kymo_segment head = *seg;
    struct iovec v[3] = {
        {&head, KYMO_SEG_HEADER},
        {records, content - KYMO_SEG_HEADER},
        {zeros, (size_t)total - content},
    };

    head.packet_bits = total * 8;
    head.crc = (uint32_t)crc32(0, records, (uInt)(content - KYMO_SEG_HEADER));
    head.flags |= KYMO_SEG_CRC;
    for (uint64_t done = 0; done < total;) {
        ssize_t n = pwritev(fd, v, 3, (off_t)(offset + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        advance(v, 3, (size_t)n);
        done += (uint64_t)n;
    }
    return 0;
}

int kymo_datafile_write(struct kymo_recorder *r, const struct kymo_segment *seg)
{
    uint64_t total = kymo_round8(seg->content_bits / 8);
    int rc;

    if (r->files.fd >= 0 && r->opt.file_bytes != 0 && r->files.size + total > r->opt.file_bytes)
        kymo_datafile_close(r);
    for (;;) {
        rc = r->files.fd < 0 ? open_next(r) : 0;
        if (rc != 0)
            return rc;
        rc = write_packet(r->files.fd, seg, r->files.size, total);
        if (rc == 0) {
            r->files.size += total;
            return 0;
        }
        (void)ftruncate(r->files.fd, (off_t)r->files.size);
        /* The file has reached the process's limit on file sizes: continue in a new one. */
        if (rc != -EFBIG || r->files.size == 0)
            return rc;
        kymo_datafile_close(r);
    }
}
