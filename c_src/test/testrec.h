/* SPDX-License-Identifier: Apache-2.0
 *
 * Handmade recordings for the tests of the reader, built byte by byte from kymo_format.h without the
 * recorder's code. They are built in memory, may be damaged there, and are then written to a folder.
 */
#ifndef KYMO_TESTREC_H
#define KYMO_TESTREC_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "kymo_format.h"

#define TR_SLOTS 8u
#define TR_SEGMENT 4096u
#define TR_SEGS 4u /* places of the pool for each slot, as tr_to_ring uses them */
#define TR_FILES 4u

struct tr_buf {
    uint8_t *p;
    size_t n, room;
};

struct testrec {
    struct kymo_meta meta;
    struct kymo_calib calib[KYMO_CALIB_MAX];
    struct kymo_slot slots[TR_SLOTS];
    struct tr_buf dict, ring, data[TR_FILES + 1]; /* data[0] is unused */
    uint32_t next_id;
};

/* A segment under construction. */
struct testseg {
    uint8_t b[TR_SEGMENT];
    uint32_t len;
    uint64_t last;
    uint64_t events;
};

static inline void tr_append(struct tr_buf *b, const void *p, size_t n)
{
    if (b->p == NULL || b->n + n > b->room) {
        b->room = 2 * (b->n + n) + 1;
        b->p = realloc(b->p, b->room);
        if (b->p == NULL)
            abort();
    }
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

/* A closed recording of the monotonic clock that starts at 1,000,000 ns. */
static inline void tr_init(struct testrec *t)
{
    memset(t, 0, sizeof *t);
    t->meta.magic = KYMO_META_MAGIC; /* NOLINT(clang-analyzer-unix.Malloc): tr_free frees it */
    t->meta.version = KYMO_FORMAT_VERSION;
    t->meta.meta_bytes = KYMO_META_BYTES;
    memcpy(t->meta.uuid, "0123456789abcdef", 16);
    t->meta.state = KYMO_CLOSED;
    t->meta.reason = KYMO_R_STOP;
    t->meta.n_slots = TR_SLOTS;
    t->meta.segment_bytes = TR_SEGMENT;
    t->meta.n_segments = TR_SLOTS * TR_SEGS;
    t->meta.clock = KYMO_CLOCK_MONOTONIC;
    t->meta.ticks_per_sec = 1000000000;
    t->meta.t0_ticks = 1000000;
    t->meta.t0_mono_ns = 1000000;
    t->meta.t0_wall_ns = 1700000000000000000;
    t->meta.t0_erl_ns = -576460751000000000;
    t->meta.os_pid = (uint64_t)getpid();
    t->meta.sample = 1;
    t->meta.node_len = 13;
    memcpy(t->meta.node, "nonode@nohost", 13);
    strcpy(t->meta.otp_release, "25");
    strcpy(t->meta.erts_version, "13.1.5");
    t->next_id = 1;
    t->ring.n = (size_t)TR_SLOTS * TR_SEGS * TR_SEGMENT;
    t->ring.p = calloc(t->ring.n, 1);
}

static inline void tr_free(struct testrec *t)
{
    free(t->dict.p);
    free(t->ring.p);
    for (unsigned i = 1; i <= TR_FILES; i++)
        free(t->data[i].p);
}

/* ---- dictionary ---- */

static inline uint32_t tr_define(struct testrec *t, unsigned kind, const void *payload, size_t n)
{
    uint8_t b[KYMO_DICT_HDR + 65536 + 8] = {0};
    struct kymo_dict_entry e = {
        .magic = KYMO_DICT_MAGIC, .kind = (uint8_t)kind, .len = (uint16_t)n, .id = t->next_id};
    memcpy(b, &e, sizeof e);
    if (n > 0)
        memcpy(b + sizeof e, payload, n);
    e.crc = (uint32_t)crc32(0, b + 8, (uInt)(8 + n));
    memcpy(b, &e, sizeof e);
    tr_append(&t->dict, b, (sizeof e + n + 7) & ~(size_t)7);
    t->meta.dict_used = t->dict.n;
    return t->next_id++;
}

static inline uint32_t tr_atom(struct testrec *t, const char *s)
{
    return tr_define(t, KYMO_DICT_ATOM, s, strlen(s));
}

static inline uint32_t tr_mfa(struct testrec *t, uint32_t m, uint32_t f, uint32_t arity)
{
    uint32_t payload[3] = {m, f, arity};
    return tr_define(t, KYMO_DICT_MFA, payload, sizeof payload);
}

static inline uint32_t tr_process(struct testrec *t, uint64_t ident, uint32_t name, uint32_t mfa)
{
    struct {
        uint64_t ident, ticks;
        uint32_t name, mfa;
    } payload = {ident, 0, name, mfa};
    return tr_define(t, KYMO_DICT_PROC, &payload, sizeof payload);
}

static inline uint32_t tr_relatives(struct testrec *t, uint64_t ident, uint32_t name, uint32_t mfa,
                                    uint64_t parent, uint64_t caller)
{
    struct {
        uint64_t ident, ticks;
        uint32_t name, mfa;
        uint64_t parent, caller;
    } payload = {ident, 0, name, mfa, parent, caller};
    return tr_define(t, KYMO_DICT_PROC, &payload, sizeof payload);
}

/* ---- segments ---- */

__extension__ typedef unsigned __int128 tr_u128;

/* CLOCK_MONOTONIC according to the nominal rate of the recording's clock. */
static inline int64_t tr_mono(const struct testrec *t, uint64_t ticks)
{
    if (t->meta.clock == KYMO_CLOCK_MONOTONIC || t->meta.ticks_per_sec == 0)
        return (int64_t)ticks;
    tr_u128 ns = (tr_u128)(ticks - t->meta.t0_ticks) * 1000000000u;
    return t->meta.t0_mono_ns + (int64_t)(ns / t->meta.ticks_per_sec);
}

static inline void ts_open(struct testseg *s, const struct testrec *t, uint32_t slot, uint64_t seq,
                           uint64_t ts)
{
    memset(s, 0, sizeof *s);
    struct kymo_segment h = {.magic = KYMO_SEG_MAGIC,
                             .instance = slot,
                             .ts_begin = ts,
                             .seq = seq,
                             .packet_bits = TR_SEGMENT * 8u,
                             .commit = KYMO_SEG_HEADER,
                             .thread_kind = KYMO_T_SCHEDULER,
                             .thread_no = slot + 1,
                             .order = (seq - 1) * TR_SLOTS + slot + 1,
                             .mono_ns = tr_mono(t, ts)};
    memcpy(h.uuid, t->meta.uuid, 16);
    memcpy(s->b, &h, sizeof h);
    s->len = KYMO_SEG_HEADER;
    s->last = ts;
}

/* Sets the header fields for the case that all earlier segments are gone. */
static inline void ts_after(struct testseg *s, uint64_t ts_before, uint64_t events_before)
{
    memcpy(s->b + offsetof(struct kymo_segment, ts_before), &ts_before, 8);
    memcpy(s->b + offsetof(struct kymo_segment, events_before), &events_before, 8);
}

/* Commits all bytes so far. */
static inline void ts_commit(struct testseg *s)
{
    uint64_t commit = s->len;
    memcpy(s->b + 80, &commit, sizeof commit);
}

/* A record with its body as bytes. The extended header is used if requested or necessary. */
static inline void ts_record(struct testseg *s, uint64_t ts, unsigned id, const void *body, size_t n,
                             bool extended)
{
    uint32_t low = (uint32_t)ts, id32 = id;
    if (extended || ts - s->last > UINT32_MAX) {
        s->b[s->len++] = KYMO_ID_EXTENDED;
        memcpy(s->b + s->len, &id32, 4);
        memcpy(s->b + s->len + 4, &ts, 8);
        s->len += 12;
    } else {
        s->b[s->len++] = (uint8_t)id;
        memcpy(s->b + s->len, &low, 4);
        s->len += 4;
    }
    if (n > 0)
        memcpy(s->b + s->len, body, n);
    s->len += (uint32_t)n;
    s->last = ts;
    s->events += (id & KYMO_ID_MASK) < KYMO_E_FIRST_NOTE;
    ts_commit(s);
}

/* The two most common records. */
/* Field D. Returns its bytes. */
static inline size_t tr_put_depth(uint8_t *p, uint32_t depth)
{
    if (depth < KYMO_DEPTH_WIDE) {
        *p = (uint8_t)(depth << 1);
        return 1;
    }
    depth = depth << 1 | 1;
    memcpy(p, &depth, sizeof depth);
    return sizeof depth;
}

static inline void ts_wm(struct testseg *s, uint64_t ts, unsigned id, uint64_t who, uint32_t mfa)
{
    uint8_t body[12];
    memcpy(body, &who, 8);
    memcpy(body + 8, &mfa, 4);
    ts_record(s, ts, id, body, sizeof body, false);
}

/* A call or return with the depth of the stack; the class of exception_from is unknown. */
static inline void ts_deep(struct testseg *s, uint64_t ts, unsigned id, uint64_t who, uint32_t mfa,
                           uint32_t depth)
{
    uint8_t body[20] = {0};
    size_t n = id == KYMO_E_EXCEPTION_FROM_DEPTH ? 16 : 12;
    memcpy(body, &who, 8);
    memcpy(body + 8, &mfa, 4);
    ts_record(s, ts, id, body, n + tr_put_depth(body + n, depth), false);
}

/* A slow call that ends at ts. depth: UINT32_MAX = unknown. */
static inline void ts_slow(struct testseg *s, uint64_t ts, uint64_t who, uint32_t mfa, uint64_t ns,
                           uint32_t depth)
{
    uint8_t body[24];
    size_t n = 20;
    memcpy(body, &who, 8);
    memcpy(body + 8, &mfa, 4);
    memcpy(body + 12, &ns, 8);
    if (depth != UINT32_MAX)
        n += tr_put_depth(body + n, depth);
    ts_record(s, ts, depth != UINT32_MAX ? KYMO_E_SLOW_DEPTH : KYMO_E_SLOW, body, n, false);
}

/* All schedulers were stopped for ns, from `ago` before ts on. */
static inline void ts_stopped(struct testseg *s, uint64_t ts, uint64_t who, uint32_t cause, uint64_t ns,
                              uint64_t ago, uint32_t omitted)
{
    uint8_t body[32];
    memcpy(body, &who, 8);
    memcpy(body + 8, &cause, 4);
    memcpy(body + 12, &ns, 8);
    memcpy(body + 20, &ago, 8);
    memcpy(body + 28, &omitted, 4);
    ts_record(s, ts, KYMO_E_STOPPED, body, sizeof body, false);
}

static inline void ts_send(struct testseg *s, uint64_t ts, unsigned id, uint64_t who, uint64_t peer,
                           uint32_t size)
{
    uint8_t body[20];
    memcpy(body, &who, 8);
    memcpy(body + 8, &peer, 8);
    memcpy(body + 16, &size, 4);
    ts_record(s, ts, id, body, sizeof body, false);
}

/* A send or receive of 5 words with the kind of message and the reference in it. */
static inline void ts_message(struct testseg *s, uint64_t ts, unsigned id, uint64_t who, uint64_t peer,
                              uint8_t kind, uint64_t ref)
{
    uint8_t body[29];
    uint32_t size = 5;
    memcpy(body, &who, 8);
    memcpy(body + 8, &peer, 8);
    memcpy(body + 16, &size, 4);
    body[20] = kind;
    memcpy(body + 21, &ref, 8);
    unsigned with_ref = id == KYMO_E_SEND ? KYMO_E_SEND_REF : KYMO_E_RECEIVE_REF;
    ts_record(s, ts, kind == KYMO_MSG_PLAIN ? id : with_ref, body, kind == KYMO_MSG_PLAIN ? 20 : 29, false);
}

static inline void ts_close(struct testseg *s, bool with_crc)
{
    struct kymo_segment h;
    memcpy(&h, s->b, sizeof h);
    h.ts_end = s->last;
    h.content_bits = (uint64_t)s->len * 8;
    h.events = s->events;
    if (with_crc) {
        h.flags |= KYMO_SEG_CRC;
        h.crc = (uint32_t)crc32(0, s->b + KYMO_SEG_HEADER, s->len - KYMO_SEG_HEADER);
    }
    memcpy(s->b, &h, sizeof h);
}

static inline void tr_to_place(struct testrec *t, const struct testseg *s, size_t place)
{
    memcpy(t->ring.p + place * TR_SEGMENT, s->b, TR_SEGMENT);
}

static inline void tr_to_ring(struct testrec *t, const struct testseg *s)
{
    struct kymo_segment h;
    memcpy(&h, s->b, sizeof h);
    tr_to_place(t, s, h.instance * TR_SEGS + (h.seq - 1) % TR_SEGS);
}

/* Whole segments; with `trim`, only their content. */
static inline void tr_to_data(struct testrec *t, unsigned file, struct testseg *s, bool trim)
{
    struct kymo_segment h;
    memcpy(&h, s->b, sizeof h);
    size_t n = trim ? ((size_t)s->len + 7) & ~(size_t)7 : TR_SEGMENT;
    h.packet_bits = n * 8;
    memcpy(s->b, &h, sizeof h);
    tr_append(&t->data[file], s->b, n);
}

/* ---- files ---- */

static inline void tr_path(char *path, size_t size, const char *dir, const char *name)
{
    if ((size_t)snprintf(path, size, "%s/%s", dir, name) >= size)
        abort();
}

static inline void tr_file(const char *dir, const char *name, const void *p, size_t n)
{
    char path[512];
    tr_path(path, sizeof path, dir, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(p, 1, n, f) != n || fclose(f) != 0) {
        perror(path);
        abort();
    }
}

static inline void tr_write(const struct testrec *t, const char *dir)
{
    struct tr_buf meta = {NULL, 0, 0};
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        abort();
    tr_append(&meta, &t->meta, sizeof t->meta);
    tr_append(&meta, t->calib, sizeof t->calib);
    tr_append(&meta, t->slots, sizeof t->slots);
    tr_file(dir, KYMO_META_NAME, meta.p, meta.n);
    free(meta.p);
    tr_file(dir, KYMO_DICT_NAME, t->dict.p != NULL ? t->dict.p : (const uint8_t *)"", t->dict.n);
    tr_file(dir, KYMO_RING_NAME, t->ring.p, t->ring.n);
    for (unsigned i = 1; i <= TR_FILES; i++) {
        char name[32];
        snprintf(name, sizeof name, KYMO_DATA_FMT, i);
        if (t->data[i].n > 0)
            tr_file(dir, name, t->data[i].p, t->data[i].n);
    }
}

/* Removes what tr_write and the tests put there. */
static inline void tr_remove(const char *dir)
{
    static const char *const names[] = {KYMO_META_NAME, KYMO_DICT_NAME, KYMO_RING_NAME};
    char path[512];
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        tr_path(path, sizeof path, dir, names[i]);
        unlink(path);
    }
    for (unsigned i = 1; i <= TR_FILES; i++) {
        char name[32];
        snprintf(name, sizeof name, KYMO_DATA_FMT, i);
        tr_path(path, sizeof path, dir, name);
        unlink(path);
    }
    rmdir(dir);
}

#endif
