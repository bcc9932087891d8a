/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of a recording. They are read, never mapped: if a file shrinks, a read is short, while
 * an access to a mapping would raise SIGBUS.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kymo_reader_int.h"

int kymo_file_open(int dir, const char *name, uint64_t *size)
{
    int fd;
    do {
        fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return -errno;
    struct stat st;
    if (fstat(fd, &st) != 0) {
        int e = errno;
        close(fd);
        return -e;
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return -EBADMSG;
    }
    if (size != NULL)
        *size = st.st_size > 0 ? (uint64_t)st.st_size : 0;
    return fd;
}

int kymo_file_get(struct kymo_files *f, uint32_t number)
{
    unsigned oldest = 0;
    f->clock++;
    for (unsigned i = 0; i < KYMO_OPEN_FILES; i++) {
        if (f->open[i].fd >= 0 && f->open[i].number == number) {
            f->open[i].used = f->clock;
            return f->open[i].fd;
        }
        if (f->open[i].used < f->open[oldest].used)
            oldest = i;
    }
    char name[32];
    if (number == KYMO_FILE_RING)
        snprintf(name, sizeof name, "%s", KYMO_RING_NAME);
    else
        snprintf(name, sizeof name, KYMO_DATA_FMT, number);
    int fd = kymo_file_open(f->dir, name, NULL);
    if (fd < 0)
        return fd;
    if (f->open[oldest].fd >= 0)
        close(f->open[oldest].fd);
    f->open[oldest].fd = fd;
    f->open[oldest].number = number;
    f->open[oldest].used = f->clock;
    return fd;
}

ssize_t kymo_file_read(int fd, void *buf, size_t n, uint64_t offset)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(fd, (uint8_t *)buf + done, n - done, (off_t)(offset + done));
        if (got < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

uint64_t kymo_file_data(int fd, uint64_t pos, uint64_t size)
{
    off_t at = lseek(fd, (off_t)pos, SEEK_DATA);
    if (at >= 0)
        return (uint64_t)at < size ? (uint64_t)at : size;
    return errno == ENXIO ? size : pos; /* some file systems do not support this */
}

void kymo_files_close(struct kymo_files *f)
{
    for (unsigned i = 0; i < KYMO_OPEN_FILES; i++) {
        if (f->open[i].fd >= 0)
            close(f->open[i].fd);
        f->open[i].fd = -1;
    }
    if (f->dir >= 0)
        close(f->dir);
    f->dir = -1;
}

bool kymo_grow(void **p, size_t *room, size_t need, size_t elem)
{
    if (need <= *room)
        return true;
    size_t more = *room < 64 ? 64 : *room + *room / 2;
    if (more < need)
        more = need;
    if (more > SIZE_MAX / elem)
        return false;
    void *q = realloc(*p, more * elem);
    if (q == NULL)
        return false;
    *p = q;
    *room = more;
    return true;
}
