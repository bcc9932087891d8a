/* SPDX-License-Identifier: Apache-2.0 */
#include "etf_write.h"
#include "etf_tags.h"

enum { ATOM_CHARS_MAX = 255, ATOM_BYTES_MAX = 4 * ATOM_CHARS_MAX };

/* ---- writing ---- */

static uint8_t *put_be(uint8_t *p, uint64_t v, unsigned bytes)
{
    while (bytes-- > 0)
        *p++ = (uint8_t)(v >> (8 * bytes));
    return p;
}

void kymo_etf_atom(struct kymo_pb *b, const char *s, size_t len)
{
    int chars = len <= ATOM_BYTES_MAX ? kymo_etf_chars((const uint8_t *)s, len) : -1;
    if (chars < 0 || chars > ATOM_CHARS_MAX) {
        s = "?";
        len = 1;
    }
    uint8_t *p = kymo_pb_room(b, len + 3);
    if (p == NULL)
        return;
    if (len <= 255) {
        *p++ = T_SMALL_UTF8_ATOM;
        *p++ = (uint8_t)len;
    } else {
        *p++ = T_UTF8_ATOM;
        p = put_be(p, len, 2);
    }
    if (len > 0)
        memcpy(p, s, len);
    kymo_pb_took(b, p + len);
}

void kymo_etf_atom_z(struct kymo_pb *b, const char *s)
{
    kymo_etf_atom(b, s, strlen(s));
}

static void put_big(struct kymo_pb *b, uint64_t v, bool negative)
{
    uint8_t *p = kymo_pb_room(b, 11);
    if (p == NULL)
        return;
    uint8_t *start = p;
    *p++ = T_SMALL_BIG;
    p++;
    *p++ = negative ? 1 : 0;
    for (; v != 0; v >>= 8)
        *p++ = (uint8_t)v;
    start[1] = (uint8_t)(p - start - 3);
    kymo_pb_took(b, p);
}

void kymo_etf_uint(struct kymo_pb *b, uint64_t v)
{
    if (v > INT64_MAX)
        put_big(b, v, false);
    else
        kymo_etf_int(b, (int64_t)v);
}

void kymo_etf_int(struct kymo_pb *b, int64_t v)
{
    uint8_t *p = kymo_pb_room(b, 5);
    if (p == NULL)
        return;
    if (v >= 0 && v < 256) {
        *p++ = T_SMALL_INT;
        *p++ = (uint8_t)v;
    } else if (v >= INT32_MIN && v <= INT32_MAX) {
        *p++ = T_INT;
        p = put_be(p, (uint32_t)v, 4);
    } else {
        put_big(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, v < 0);
        return;
    }
    kymo_pb_took(b, p);
}

void kymo_etf_tuple(struct kymo_pb *b, unsigned arity)
{
    uint8_t *p = kymo_pb_room(b, 2);
    if (p != NULL) {
        *p++ = T_SMALL_TUPLE;
        *p++ = (uint8_t)arity;
        kymo_pb_took(b, p);
    }
}

void kymo_etf_list(struct kymo_pb *b, uint32_t n)
{
    uint8_t *p = kymo_pb_room(b, 5);
    if (p != NULL) {
        *p++ = T_LIST;
        kymo_pb_took(b, put_be(p, n, 4));
    }
}

void kymo_etf_nil(struct kymo_pb *b)
{
    kymo_etf_raw(b, (const uint8_t[]){T_NIL}, 1);
}

static void put_node(struct kymo_pb *b, const struct kymo_meta *meta)
{
    size_t len = meta->node_len <= sizeof meta->node ? meta->node_len : 0;
    if (len == 0)
        kymo_etf_atom_z(b, "nonode@nohost");
    else
        kymo_etf_atom(b, (const char *)meta->node, len);
}

static void put_tag(struct kymo_pb *b, enum tag tag)
{
    kymo_etf_raw(b, (const uint8_t[]){(uint8_t)tag}, 1);
}

void kymo_etf_pid(struct kymo_pb *b, const struct kymo_meta *meta, uint32_t number, uint32_t serial)
{
    put_tag(b, T_NEW_PID);
    put_node(b, meta);
    uint8_t *p = kymo_pb_room(b, 12);
    if (p != NULL)
        kymo_pb_took(b, put_be(put_be(put_be(p, number, 4), serial, 4), meta->creation, 4));
}

void kymo_etf_port(struct kymo_pb *b, const struct kymo_meta *meta, uint64_t number)
{
    bool small = number < 1u << 28;
    put_tag(b, small ? T_NEW_PORT : T_V4_PORT);
    put_node(b, meta);
    uint8_t *p = kymo_pb_room(b, 12);
    if (p != NULL)
        kymo_pb_took(b, put_be(put_be(p, number, small ? 4 : 8), meta->creation, 4));
}

void kymo_etf_raw(struct kymo_pb *b, const uint8_t *bytes, size_t n)
{
    uint8_t *p = kymo_pb_room(b, n);
    if (p != NULL && n > 0) {
        memcpy(p, bytes, n);
        kymo_pb_took(b, p + n);
    }
}
