/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffered output file of an exporter. Single-threaded.
 *
 * A regular file appears under its final name only when it is complete: bytes are written to a
 * temporary file next to it (mode 0600), which kymo_out_finish renames and kymo_out_abort removes.
 * Devices, fifos and "-" (standard output) are written directly. The first error is kept: later
 * writes do nothing, and finish reports it.
 */
#ifndef KYMO_OUTFILE_H
#define KYMO_OUTFILE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KYMO_OUT_BUFFER (1u << 18)
#define KYMO_OUT_ROOM 4096u /* maximum argument of kymo_out_room */

struct kymo_out {
    uint8_t *buf;
    size_t used;
    uint64_t flushed; /* bytes passed to the operating system */
    int fd;           /* -1 = not open */
    int error;        /* negative errno, 0 = none */
    char *path;       /* final name, also used in messages */
    char *temp;       /* name while writing, NULL if written directly */
};

/* Returns 0, or -ENOMEM or the negative errno of open, with a message in err; then there is nothing
 * to abort. */
int kymo_out_open(struct kymo_out *o, const char *path, char *err, size_t err_size);

/* Writes the buffer to the file. */
void kymo_out_flush(struct kymo_out *o);

/* Returns room for n <= KYMO_OUT_ROOM bytes; kymo_out_take sets the end of the bytes that were
 * written there. */
static inline uint8_t *kymo_out_room(struct kymo_out *o, size_t n)
{
    if (o->used + n > KYMO_OUT_BUFFER)
        kymo_out_flush(o);
    return o->buf + o->used;
}
static inline void kymo_out_take(struct kymo_out *o, const uint8_t *end)
{
    o->used = (size_t)(end - o->buf);
}

/* Any number of bytes. */
void kymo_out_write(struct kymo_out *o, const void *bytes, size_t n);

/* Number of bytes written so far, including buffered ones. */
static inline uint64_t kymo_out_bytes(const struct kymo_out *o)
{
    return o->flushed + o->used;
}

/* Writes the buffer, closes the file and renames it to its final name. Returns 0 or a negative errno
 * with a message in err; then no file is left behind. */
int kymo_out_finish(struct kymo_out *o, char *err, size_t err_size);

/* Closes and removes the file. For cleanup after any failure; may be called repeatedly. */
void kymo_out_abort(struct kymo_out *o);

#endif
