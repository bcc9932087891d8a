/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of one size, written once and then read in any order. The first
 * KYMO_STORE_MEMORY bytes are memory; what grows beyond is in a temporary file without a
 * name, in SQLITE_TMPDIR, TMPDIR, /var/tmp or /tmp, and is mapped to be read. One thread.
 *
 * A full disk is an error of append or finish: nothing is written through the mapping.
 */
#ifndef KYMO_STORE_H
#define KYMO_STORE_H

#include <stddef.h>
#include <stdint.h>

#define KYMO_STORE_MEMORY (4u << 20)

struct kymo_store {
    size_t row_size;
    uint64_t rows;
    uint8_t *buf;       /* what is not in the file */
    size_t used, room;  /* of buf, in bytes */
    int fd;             /* -1 = no file yet */
    const uint8_t *map; /* of the whole file once it is finished */
    size_t map_size;
};

/* Never fails. */
void kymo_store_init(struct kymo_store *s, size_t row_size);
void kymo_store_free(struct kymo_store *s);
/* 0, or a negative errno: -ENOMEM, or those of open(2) and write(2). */
int kymo_store_append(struct kymo_store *s, const void *row);
/* After the last row. The same errors. */
int kymo_store_finish(struct kymo_store *s);
/* A row of a finished store, i < rows; lives as long as the store. */
static inline const void *kymo_store_row(const struct kymo_store *s, uint64_t i)
{
    return (s->map != NULL ? s->map : s->buf) + i * s->row_size;
}

#endif
