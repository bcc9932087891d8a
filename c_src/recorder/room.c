/* SPDX-License-Identifier: Apache-2.0
 *
 * The room for files. Those of a tmpfs take memory, also of the cgroup, and the kernel kills a process
 * when there is none left.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "kymo_internal.h"

#define TMPFS 0x01021994
#define RAMFS 0x858458f6

uint64_t kymo_file_number(const char *path, const char *name, uint64_t otherwise)
{
    size_t len = strlen(name);
    uint64_t value = otherwise;
    char line[256];
    FILE *f = fopen(path, "re");

    if (f == NULL)
        return otherwise;
    while (fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, name, len) == 0 && sscanf(line + len, "%" SCNu64, &value) == 1)
            break;
    }
    fclose(f);
    return value;
}

static uint64_t named(const char *root, const char *group, const char *file, const char *name,
                      uint64_t otherwise)
{
    char path[4096];

    if ((size_t)snprintf(path, sizeof path, "%s%s/%s", root, group, file) >= sizeof path)
        return otherwise;
    return kymo_file_number(path, name, otherwise);
}

/* The number in a file that holds nothing else; UINT64_MAX if there is none, such as `max`. */
static uint64_t number(const char *root, const char *group, const char *file)
{
    return named(root, group, file, "", UINT64_MAX);
}

/* What a group and its parents can still take. Cached files are dropped before a process is killed. */
static uint64_t room_of_group(const char *root, char *group, const char *limit, const char *used,
                              const char *cached)
{
    uint64_t room = UINT64_MAX;

    for (;;) {
        uint64_t most = number(root, group, limit), now = number(root, group, used);
        char *end;

        if (most != UINT64_MAX && now != UINT64_MAX) {
            uint64_t files = named(root, group, "memory.stat", cached, 0);
            uint64_t held = now > files ? now - files : 0;
            uint64_t left = most > held ? most - held : 0;

            room = left < room ? left : room;
        }
        end = strrchr(group, '/');
        if (end == NULL)
            return room;
        *end = '\0';
    }
}

static uint64_t room_of_groups(const char *proc, const char *cgroup)
{
    char path[4096], line[4096];
    uint64_t room = UINT64_MAX;
    FILE *f;

    if ((size_t)snprintf(path, sizeof path, "%s/self/cgroup", proc) >= sizeof path)
        return room;
    f = fopen(path, "re");
    if (f == NULL)
        return room;
    while (fgets(line, sizeof line, f) != NULL) {
        char *controllers = strchr(line, ':'),
             *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        uint64_t left = UINT64_MAX;

        if (group == NULL)
            continue;
        *controllers++ = '\0';
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (*controllers == '\0') {
            left = room_of_group(cgroup, group, "memory.max", "memory.current", "inactive_file ");
        } else if (strstr(controllers, "memory") != NULL &&
                   (size_t)snprintf(path, sizeof path, "%s/memory", cgroup) < sizeof path) {
            left = room_of_group(path, group, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                 "total_inactive_file ");
        }
        room = left < room ? left : room;
    }
    fclose(f);
    return room;
}

uint64_t kymo_memory_room(const char *proc, const char *cgroup)
{
    uint64_t kib = named(proc, "", "meminfo", "MemAvailable:", UINT64_MAX),
             groups = room_of_groups(proc, cgroup);
    uint64_t machine = kib > UINT64_MAX / 1024 ? UINT64_MAX : kib * 1024;

    return (machine < groups ? machine : groups) / 2;
}

/* A line: id, parent, MAJOR:MINOR, root, mount point, options, fields of their own names, -, type, ... */
bool kymo_mounted_in_memory(const char *mountinfo, dev_t dev)
{
    FILE *f = fopen(mountinfo, "re");
    bool memory = false;
    char *line = NULL;
    size_t size = 0;

    if (f == NULL)
        return false;
    while (!memory && getline(&line, &size, f) > 0) {
        const char *type = strstr(line, " - ");
        unsigned major, minor;

        memory = type != NULL && sscanf(line, "%*u %*u %u:%u", &major, &minor) == 2 &&
                 makedev(major, minor) == dev &&
                 (strncmp(type + 3, "tmpfs ", 6) == 0 || strncmp(type + 3, "ramfs ", 6) == 0);
    }
    free(line);
    fclose(f);
    return memory;
}

static bool in_memory(int fd)
{
    struct statfs type;
    struct stat st;

    if (fstatfs(fd, &type) == 0)
        return type.f_type == TMPFS || type.f_type == RAMFS;
    return fstat(fd, &st) == 0 && kymo_mounted_in_memory("/proc/self/mountinfo", st.st_dev);
}

uint64_t kymo_file_room(int fd)
{
    struct statvfs fs;
    uint64_t room = UINT64_MAX, memory;

    if (fstatvfs(fd, &fs) == 0 && fs.f_blocks != 0 && fs.f_frsize != 0)
        room = fs.f_bavail > UINT64_MAX / fs.f_frsize ? UINT64_MAX : (uint64_t)fs.f_bavail * fs.f_frsize;
    if (!in_memory(fd))
        return room;
    memory = kymo_memory_room("/proc", "/sys/fs/cgroup");
    return memory < room ? memory : room;
}
