/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders and files. Disk space is reserved when a file is created, because a store through a
 * mapping raises SIGBUS if the disk is full.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kymo_internal.h"

void kymo_no_sigxfsz(struct kymo_sigs *s)
{
    sigset_t add, old, pending;
    struct rlimit most;

    *s = (struct kymo_sigs){.blocked = 1};
    /* Without a limit there is no signal. */
    if (kymo_filtered() && getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur == RLIM_INFINITY)
        return;
    sigemptyset(&add);
    sigemptyset(&pending);
    sigaddset(&add, SIGXFSZ);
    sigpending(&pending);
    s->pending = sigismember(&pending, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &add, &old);
    s->blocked = sigismember(&old, SIGXFSZ);
}

void kymo_allow_sigxfsz(const struct kymo_sigs *s)
{
    const struct timespec zero = {0, 0};
    sigset_t set, pending;

    if (s->blocked)
        return;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    sigpending(&pending);
    if (!s->pending && sigismember(&pending, SIGXFSZ))
        (void)sigtimedwait(&set, NULL, &zero);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static int holds_recording(int dirfd)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent *e;
    int rc = 0;
    DIR *d;

    if (fd < 0)
        return -errno;
    d = fdopendir(fd);
    if (d == NULL) {
        rc = -errno;
        close(fd);
        return rc;
    }
    errno = 0;
    while (rc == 0 && (e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, KYMO_META_NAME) == 0 || strcmp(e->d_name, KYMO_DICT_NAME) == 0 ||
            strcmp(e->d_name, KYMO_RING_NAME) == 0 || strncmp(e->d_name, "data.", 5) == 0)
            rc = -EEXIST;
    }
    if (rc == 0 && errno != 0)
        rc = -errno;
    closedir(d);
    return rc;
}

int kymo_dir_open(const char *dir, bool *created)
{
    int fd, rc;

    *created = mkdir(dir, 0700) == 0;
    if (!*created && errno != EEXIST)
        return -errno;
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rc = fd < 0 ? -errno : holds_recording(fd);
    if (rc == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    if (*created)
        rmdir(dir);
    *created = false;
    return rc;
}

int kymo_write_all(int fd, const void *p, size_t len, uint64_t offset)
{
    const char *c = p;

    while (len > 0) {
        ssize_t n = pwrite(fd, c, len, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        c += n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

/* Writes len zeros into an empty file. Uses write(2), which a filter of system calls allows. */
static int write_zeros(int fd, uint64_t len)
{
    static const char zeros[65536];

    while (len > 0) {
        ssize_t n = write(fd, zeros, len < sizeof zeros ? (size_t)len : sizeof zeros);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        len -= (uint64_t)n;
    }
    return 0;
}

/* Reserves disk space of an empty file; without fallocate(2), by writing zeros. Tries neither
 * if there is too little free space, because the file system might use all of it before it
 * reports the error, and other programs would run out of space until then. */
static int reserve_space(int fd, uint64_t len)
{
    int rc;

    if (len > kymo_file_room(fd))
        return -ENOSPC;
    do {
        rc = fallocate(fd, 0, 0, (off_t)len) == 0 ? 0 : -errno;
    } while (rc == -EINTR);
    /* The file system does not support it, or a filter refuses it. */
    return rc == -EOPNOTSUPP || rc == -ENOSYS || rc == -EPERM || rc == -EACCES || rc == -EINVAL
               ? write_zeros(fd, len)
               : rc;
}

void kymo_file_punch(int fd, uint64_t offset, uint64_t len)
{
    while (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)len) != 0 &&
           errno == EINTR)
        ;
}

int kymo_file_create(int dirfd, const char *name, uint64_t len)
{
    int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct kymo_sigs sigs;
    int rc;

    if (fd < 0)
        return -errno;
    kymo_no_sigxfsz(&sigs);
    rc = len == 0 ? 0 : reserve_space(fd, len);
    kymo_allow_sigxfsz(&sigs);
    if (rc == 0)
        return fd;
    close(fd);
    unlinkat(dirfd, name, 0);
    return rc;
}

/* Faults in all pages. madvise(2) returns an error where a store would raise a signal. It is
 * not available before Linux 5.14, and a filter of system calls may refuse it. */
static int touch(uint8_t *mem, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (madvise(mem, len, MADV_POPULATE_WRITE) == 0)
        return 0;
    if (errno == EFAULT || errno == EHWPOISON)
        return -ENOSPC;
    if (errno == ENOMEM)
        return -ENOMEM;
    for (size_t i = 0; i < len; i += page)
        ((volatile uint8_t *)mem)[i] = 0;
    return 0;
}

int kymo_mapping_create(int dirfd, const char *name, uint64_t len, struct kymo_mapping *map)
{
    void *mem;
    int rc;

    map->fd = kymo_file_create(dirfd, name, len);
    if (map->fd < 0)
        return map->fd;
    mem = mmap(NULL, (size_t)len, PROT_READ | PROT_WRITE, MAP_SHARED, map->fd, 0);
    if (mem == MAP_FAILED) {
        rc = -errno;
    } else {
        map->mem = mem;
        map->len = (size_t)len;
        rc = touch(mem, map->len);
    }
    if (rc != 0) {
        kymo_mapping_close(map);
        unlinkat(dirfd, name, 0);
    }
    return rc;
}

int kymo_mapping_private(uint64_t len, bool touched, struct kymo_mapping *map)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (touched ? MAP_POPULATE : MAP_NORESERVE);
    void *mem = mmap(NULL, (size_t)len, PROT_READ | PROT_WRITE, flags, -1, 0);

    if (mem == MAP_FAILED)
        return -errno;
    map->fd = -1;
    map->mem = mem;
    map->len = (size_t)len;
    return 0;
}

int kymo_mapping_let_go(struct kymo_mapping *map, bool copy)
{
    struct kymo_mapping private = {-1, NULL, 0};

    if (map->fd < 0)
        return 0;
    int rc = kymo_mapping_private(map->len, false, &private);
    if (rc != 0)
        return rc;
    if (copy)
        memcpy(private.mem, map->mem, map->len);
    if (mremap(private.mem, private.len, map->len, MREMAP_MAYMOVE | MREMAP_FIXED, map->mem) == MAP_FAILED) {
        rc = -errno;
        kymo_mapping_close(&private);
        return rc;
    }
    close(map->fd);
    map->fd = -1;
    return 0;
}

void kymo_mapping_close(struct kymo_mapping *map)
{
    if (map->mem != NULL)
        munmap(map->mem, map->len);
    if (map->fd >= 0)
        close(map->fd);
    *map = (struct kymo_mapping){-1, NULL, 0};
}
