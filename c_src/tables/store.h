/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores rows of one size, which are written once and then read in any order. Up to
 * KYMO_STORE_MEMORY bytes are kept in memory; larger stores use a temporary file without a name, in
 * SQLITE_TMPDIR, TMPDIR, /var/tmp or /tmp, which is mapped for reading. Single-threaded.
 *
 * A full disk makes append or finish fail; it cannot cause a SIGBUS, because nothing is written
 * through the mapping.
 */
#ifndef KYMO_STORE_H
#define KYMO_STORE_H

#include <stddef.h>
#include <stdint.h>

#define KYMO_STORE_MEMORY (4u << 20)

struct kymo_store {
    size_t row_size;
    uint64_t rows;
    uint8_t *buf;       /* rows that are not in the file */
    size_t used, room;  /* of buf, in bytes */
    int fd;             /* -1 = no file yet */
    const uint8_t *map; /* of the whole file once it is finished */
    size_t map_size;
};

/* Never fails. */
void kymo_store_init(struct kymo_store *s, size_t row_size);
void kymo_store_free(struct kymo_store *s);
/* Returns 0, or a negative errno: -ENOMEM, or those of open(2) and write(2). */
int kymo_store_append(struct kymo_store *s, const void *row);
/* Must be called after the last row. Same errors. */
int kymo_store_finish(struct kymo_store *s);
/* A row of a finished store, i < rows; valid as long as the store. */
static inline const void *kymo_store_row(const struct kymo_store *s, uint64_t i)
{
    return (s->map != NULL ? s->map : s->buf) + i * s->row_size;
}

#endif
