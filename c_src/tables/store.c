/* SPDX-License-Identifier: Apache-2.0 */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FIRST_ROOM = 1 << 14 };

void kymo_store_init(struct kymo_store *s, size_t row_size)
{
    memset(s, 0, sizeof *s);
    s->row_size = row_size;
    s->fd = -1;
}

void kymo_store_free(struct kymo_store *s)
{
    if (s->map != NULL)
        munmap((void *)(uintptr_t)s->map, s->map_size);
    if (s->fd >= 0)
        close(s->fd);
    free(s->buf);
    kymo_store_init(s, s->row_size);
}

/* Creates a file without a name. Returns its descriptor or a negative errno. */
static int open_in(const char *folder)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/kymo-XXXXXX", folder);
    if (n < 0 || (size_t)n >= sizeof path)
        return -ENAMETOOLONG;
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    unlink(path);
    return fd;
}

static int open_temporary(void)
{
    const char *folders[] = {getenv("SQLITE_TMPDIR"), getenv("TMPDIR"), "/var/tmp", "/tmp"};
    int fd = -ENOENT;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && fd < 0; i++) {
        if (folders[i] != NULL && folders[i][0] != '\0')
            fd = open_in(folders[i]);
    }
    return fd;
}

static int flush(struct kymo_store *s)
{
    if (s->fd < 0) {
        int fd = open_temporary();
        if (fd < 0)
            return fd;
        s->fd = fd;
    }
    for (size_t done = 0; done < s->used;) {
        ssize_t n = write(s->fd, s->buf + done, s->used - done);
        if (n < 0 && errno != EINTR)
            return -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    s->used = 0;
    return 0;
}

/* Makes room for one more row. */
static int make_room(struct kymo_store *s)
{
    if (s->room >= KYMO_STORE_MEMORY)
        return flush(s);
    size_t room = s->room == 0 ? FIRST_ROOM : s->room * 2;
    uint8_t *more = realloc(s->buf, room);
    if (more == NULL)
        return -ENOMEM;
    s->buf = more;
    s->room = room;
    return 0;
}

int kymo_store_append(struct kymo_store *s, const void *row)
{
    int rc = s->room - s->used < s->row_size ? make_room(s) : 0;
    if (rc != 0)
        return rc;
    memcpy(s->buf + s->used, row, s->row_size);
    s->used += s->row_size;
    s->rows++;
    return 0;
}

int kymo_store_finish(struct kymo_store *s)
{
    if (s->fd < 0)
        return 0;
    int rc = flush(s);
    if (rc != 0)
        return rc;
    s->map_size = (size_t)s->rows * s->row_size;
    void *map = mmap(NULL, s->map_size, PROT_READ, MAP_SHARED, s->fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    s->map = map;
    free(s->buf);
    s->buf = NULL;
    s->room = 0;
    return 0;
}
