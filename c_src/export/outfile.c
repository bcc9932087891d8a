/* SPDX-License-Identifier: Apache-2.0 */
#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void out_free(struct kymo_out *o)
{
    free(o->buf);
    free(o->path);
    free(o->temp);
    memset(o, 0, sizeof *o);
    o->fd = -1;
}

static int out_say(const struct kymo_out *o, const char *what, int error, char *err, size_t err_size)
{
    snprintf(err, err_size, "%s %s: %s", what, o->path != NULL ? o->path : "output", strerror(-error));
    return error;
}

/* Opens the temporary file next to o->path. */
static int out_open_temp(struct kymo_out *o)
{
    size_t n = strlen(o->path) + sizeof ".XXXXXX";
    o->temp = malloc(n);
    if (o->temp == NULL)
        return -ENOMEM;
    snprintf(o->temp, n, "%s.XXXXXX", o->path);
    o->fd = mkostemp(o->temp, O_CLOEXEC);
    if (o->fd < 0) {
        int error = -errno;
        free(o->temp);
        o->temp = NULL;
        return error;
    }
    return 0;
}

int kymo_out_open(struct kymo_out *o, const char *path, char *err, size_t err_size)
{
    memset(o, 0, sizeof *o);
    o->fd = -1;
    int error = 0;
    struct stat st;
    o->buf = malloc(KYMO_OUT_BUFFER);
    /* A symbolic link is kept; its target is replaced. */
    o->path = realpath(path, NULL);
    if (o->path == NULL)
        o->path = strdup(strcmp(path, "-") == 0 ? "standard output" : path);
    if (o->buf == NULL || o->path == NULL) {
        error = -ENOMEM;
    } else if (strcmp(path, "-") == 0) {
        o->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        error = o->fd < 0 ? -errno : 0;
    } else if (stat(o->path, &st) == 0 && !S_ISREG(st.st_mode)) {
        o->fd = S_ISDIR(st.st_mode) ? -1 : open(o->path, O_WRONLY | O_CLOEXEC);
        error = o->fd >= 0 ? 0 : S_ISDIR(st.st_mode) ? -EISDIR : -errno;
    } else {
        error = out_open_temp(o);
    }
    if (error != 0) {
        out_say(o, "cannot write", error, err, err_size);
        out_free(o);
    }
    return error;
}

static void out_to_system(struct kymo_out *o, const uint8_t *p, size_t n)
{
    while (n > 0 && o->error == 0) {
        ssize_t done = write(o->fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            o->error = -errno;
        } else {
            p += done;
            n -= (size_t)done;
            o->flushed += (uint64_t)done;
        }
    }
}

void kymo_out_flush(struct kymo_out *o)
{
    out_to_system(o, o->buf, o->used);
    o->used = 0;
}

void kymo_out_write(struct kymo_out *o, const void *bytes, size_t n)
{
    if (o->used + n > KYMO_OUT_BUFFER)
        kymo_out_flush(o);
    if (n > KYMO_OUT_BUFFER) {
        out_to_system(o, bytes, n);
    } else if (n > 0) {
        memcpy(o->buf + o->used, bytes, n);
        o->used += n;
    }
}

int kymo_out_finish(struct kymo_out *o, char *err, size_t err_size)
{
    if (o->fd < 0)
        return -EBADF;
    kymo_out_flush(o);
    /* On a network file system, close reports data that could not be stored. */
    if (close(o->fd) != 0 && o->error == 0 && errno != EINTR)
        o->error = -errno;
    o->fd = -1;
    if (o->error == 0 && o->temp != NULL && rename(o->temp, o->path) != 0)
        o->error = -errno;
    int error = o->error;
    if (error != 0) {
        out_say(o, "cannot write", error, err, err_size);
        if (o->temp != NULL)
            unlink(o->temp);
    }
    out_free(o);
    return error;
}

void kymo_out_abort(struct kymo_out *o)
{
    if (o->fd >= 0) {
        close(o->fd);
        if (o->temp != NULL)
            unlink(o->temp);
        out_free(o);
    }
}
