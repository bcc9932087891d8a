/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffered output file of an exporter. Single threaded.
 *
 * A regular file appears under its name only when it is whole: bytes go to a
 * temporary neighbour (mode 0600) that kymo_out_finish renames and
 * kymo_out_abort removes. Devices, fifos and "-" (standard output) are written
 * directly. The first error sticks: later writes do nothing, and finish
 * reports it.
 */
#ifndef KYMO_OUTFILE_H
#define KYMO_OUTFILE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KYMO_OUT_BUFFER (1u << 18)
#define KYMO_OUT_ROOM 4096u /* most that kymo_out_room may be asked for */

struct kymo_out {
    uint8_t *buf;
    size_t used;
    uint64_t flushed; /* bytes handed to the system */
    int fd;           /* -1 = not open */
    int error;        /* negative errno, 0 = none */
    char *path;       /* final name, for messages too */
    char *temp;       /* name while writing, NULL when written directly */
};

/* 0, or the negative errno of open with a sentence in err (-ENOMEM too); then
 * there is nothing to abort. */
int kymo_out_open(struct kymo_out *o, const char *path, char *err, size_t err_size);

/* Hands the buffer to the system. */
void kymo_out_flush(struct kymo_out *o);

/* At least n <= KYMO_OUT_ROOM writable bytes; kymo_out_take says up to where
 * they were used. */
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

/* Bytes written so far, the buffered ones too. */
static inline uint64_t kymo_out_bytes(const struct kymo_out *o)
{
    return o->flushed + o->used;
}

/* Writes what is buffered, closes, gives the file its name. 0 or a negative
 * errno with a sentence in err; then nothing is left behind. */
int kymo_out_finish(struct kymo_out *o, char *err, size_t err_size);

/* Closes and removes. For the way out after any failure; harmless twice. */
void kymo_out_abort(struct kymo_out *o);

#endif
