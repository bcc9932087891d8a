/* SPDX-License-Identifier: Apache-2.0
 *
 * Determines whether the process that writes this recording is alive. It has a lock on meta,
 * which is visible from every PID namespace. If it could not take the lock, its process id is
 * checked. That may belong to another process by now, so the files that the process has mapped
 * are checked, too, if that is allowed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "kymo_reader_int.h"

static bool is_meta(const char *path)
{
    const char *name = strrchr(path, '/');
    return name != NULL && strcmp(name + 1, KYMO_META_NAME) == 0;
}

/* True if process pid has the file of st mapped, or if that cannot be determined. */
static bool maps_file(pid_t pid, const struct stat *st)
{
    char line[PATH_MAX + 256], path[4096];
    snprintf(line, sizeof line, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(line, "re");
    if (f == NULL)
        return true;
    bool any = false, found = false;
    while (!found && fgets(line, sizeof line, f) != NULL) {
        uintmax_t inode;
        struct stat there;
        /* address perms offset dev inode path */
        int n = sscanf(line, "%*s %*s %*s %*s %ju %4095[^\n]", &inode, path);
        any = any || n >= 1;
        /* A union mount may report the inode of the underlying file, so compare the path, too. */
        found = n == 2 && (inode == (uintmax_t)st->st_ino ||
                           (is_meta(path) && stat(path, &there) == 0 && there.st_ino == st->st_ino &&
                            there.st_dev == st->st_dev));
    }
    fclose(f);
    return found || !any;
}

enum lock { LOCK_HELD, LOCK_FREE, LOCK_UNKNOWN };

/* The state of the recorder's lock. Testing does not take the lock, and needs no write access. */
static enum lock lock_of(const struct kymo_reader *r)
{
    int fd = kymo_file_open(r->files.dir, KYMO_META_NAME, NULL);
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    enum lock found = LOCK_UNKNOWN; /* not every file system has locks */
    if (fd >= 0 && fcntl(fd, F_OFD_GETLK, &l) == 0)
        found = l.l_type == F_UNLCK ? LOCK_FREE : LOCK_HELD;
    if (fd >= 0)
        close(fd);
    return found;
}

static bool process_gone(const struct kymo_reader *r)
{
    if (r->meta.os_pid == 0 || r->meta.os_pid > INT_MAX)
        return true;
    pid_t pid = (pid_t)r->meta.os_pid;
    if (kill(pid, 0) != 0 && errno == ESRCH)
        return true;
    struct stat st;
    return fstatat(r->files.dir, KYMO_META_NAME, &st, 0) == 0 && !maps_file(pid, &st);
}

bool kymo_owner_gone(const struct kymo_reader *r)
{
    if (r->meta.state == KYMO_CLOSED || r->meta.snapshot != 0)
        return false;
    enum lock lock = r->meta.locked == 1 ? lock_of(r) : LOCK_UNKNOWN;
    return lock == LOCK_UNKNOWN ? process_gone(r) : lock == LOCK_FREE;
}
