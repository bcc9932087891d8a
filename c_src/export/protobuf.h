/* SPDX-License-Identifier: Apache-2.0
 *
 * Protocol buffers wire format, writing only. A struct kymo_pb is a growing buffer that holds the
 * fields of one message; nested messages are built in a buffer of their own and added as bytes. If
 * memory runs out, `failed` is set and stays set, and later additions are dropped.
 */
#ifndef KYMO_PROTOBUF_H
#define KYMO_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct kymo_pb {
    uint8_t *p;
    size_t n, room;
    bool failed;
};

enum { KYMO_PB_VARINT = 0, KYMO_PB_FIXED64 = 1, KYMO_PB_BYTES = 2 };

/* Maximum size of a varint, and of a field's key if its number is below 2^28. */
#define KYMO_PB_VARINT_MAX 10u
#define KYMO_PB_KEY_MAX 5u

/* Stores v at p, which must have room for KYMO_PB_VARINT_MAX bytes; returns the end. */
static inline uint8_t *kymo_pb_put_varint(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

static inline uint8_t *kymo_pb_put_key(uint8_t *p, uint32_t field, unsigned wire)
{
    return kymo_pb_put_varint(p, (uint64_t)field << 3 | wire);
}

/* Returns a pointer to room for n more bytes, NULL if there is no memory. */
static inline uint8_t *kymo_pb_room(struct kymo_pb *b, size_t n)
{
    if (b->room - b->n < n) {
        size_t room = b->room == 0 ? 256 : b->room;
        while (room - b->n < n)
            room *= 2;
        uint8_t *p = b->failed ? NULL : realloc(b->p, room);
        if (p == NULL) {
            b->failed = true;
            return NULL;
        }
        b->p = p;
        b->room = room;
    }
    return b->p + b->n;
}

static inline void kymo_pb_took(struct kymo_pb *b, const uint8_t *end)
{
    b->n = (size_t)(end - b->p);
}

static inline void kymo_pb_uint(struct kymo_pb *b, uint32_t field, uint64_t v)
{
    uint8_t *p = kymo_pb_room(b, KYMO_PB_KEY_MAX + KYMO_PB_VARINT_MAX);
    if (p != NULL)
        kymo_pb_took(b, kymo_pb_put_varint(kymo_pb_put_key(p, field, KYMO_PB_VARINT), v));
}

static inline void kymo_pb_fixed64(struct kymo_pb *b, uint32_t field, uint64_t v)
{
    uint8_t *p = kymo_pb_room(b, KYMO_PB_KEY_MAX + 8);
    if (p != NULL) {
        p = kymo_pb_put_key(p, field, KYMO_PB_FIXED64);
        for (unsigned i = 0; i < 8; i++)
            *p++ = (uint8_t)(v >> (8 * i));
        kymo_pb_took(b, p);
    }
}

static inline void kymo_pb_bytes(struct kymo_pb *b, uint32_t field, const void *bytes, size_t n)
{
    uint8_t *p = kymo_pb_room(b, KYMO_PB_KEY_MAX + KYMO_PB_VARINT_MAX + n);
    if (p != NULL) {
        p = kymo_pb_put_varint(kymo_pb_put_key(p, field, KYMO_PB_BYTES), n);
        if (n > 0)
            memcpy(p, bytes, n);
        kymo_pb_took(b, p + n);
    }
}

static inline void kymo_pb_text(struct kymo_pb *b, uint32_t field, const char *s)
{
    kymo_pb_bytes(b, field, s, strlen(s));
}

static inline void kymo_pb_message(struct kymo_pb *b, uint32_t field, const struct kymo_pb *inner)
{
    b->failed = b->failed || inner->failed;
    kymo_pb_bytes(b, field, inner->p, inner->n);
}

static inline void kymo_pb_clear(struct kymo_pb *b)
{
    b->n = 0;
}

static inline void kymo_pb_free(struct kymo_pb *b)
{
    free(b->p);
    memset(b, 0, sizeof *b);
}

#endif
