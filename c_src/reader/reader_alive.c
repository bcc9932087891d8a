/* SPDX-License-Identifier: Apache-2.0
 *
 * Is the process that wrote this recording still there? Its number may belong
 * to another one by now, so the files it has mapped are looked at where that
 * is allowed.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "kymo_reader_int.h"

static bool is_meta(const char *path)
{
    const char *name = strrchr(path, '/');
    return name != NULL && strcmp(name + 1, KYMO_META_NAME) == 0;
}

/* True when process pid has the file of st mapped, or when nobody can tell. */
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
        /* A union mount may show the inode of the file below: ask by path too. */
        found = n == 2 && (inode == (uintmax_t)st->st_ino ||
                           (is_meta(path) && stat(path, &there) == 0 && there.st_ino == st->st_ino &&
                            there.st_dev == st->st_dev));
    }
    fclose(f);
    return found || !any;
}

bool kymo_owner_gone(const struct kymo_reader *r)
{
    if (r->meta.state == KYMO_CLOSED || r->meta.snapshot != 0)
        return false;
    if (r->meta.os_pid == 0 || r->meta.os_pid > INT_MAX)
        return true;
    pid_t pid = (pid_t)r->meta.os_pid;
    if (kill(pid, 0) != 0 && errno == ESRCH)
        return true;
    struct stat st;
    return fstatat(r->files.dir, KYMO_META_NAME, &st, 0) == 0 && !maps_file(pid, &st);
}
