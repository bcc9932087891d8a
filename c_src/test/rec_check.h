/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the tests of the recorder: folders, producers, gates that stop a thread at a chosen place,
 * and functions that read recordings and share no code with the recorder or the reader (only the
 * layouts of kymo_format.h).
 *
 * Test events are calls whose `who` is a counter of the producing thread, so a
 * gap is visible.
 */
#ifndef REC_CHECK_H
#define REC_CHECK_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "kymo_internal.h"

/* A path longer than its buffer ends the test, as it should. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wunknown-warning-option"
#endif
#pragma GCC diagnostic ignored "-Wformat-truncation"

#if defined(__SANITIZE_ADDRESS__) || KYMO_TSAN
#define RC_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RC_SANITIZED 1
#endif
#endif
#ifndef RC_SANITIZED
#define RC_SANITIZED 0
#endif

/* qemu's user mode (scripts/test-arm64) accepts limits on memory and filters of system calls, and
 * ignores them. */
static inline bool rc_emulated(const char *test)
{
    if (getenv("KYMO_EMULATED") == NULL)
        return false;
    fprintf(stderr, "%s: skipped, the emulator can't do it\n", test);
    return true;
}

/* ---- folders --------------------------------------------------------------------- */

static char rc_root[64];

static inline int rc_setup(void **state)
{
    const char *tmp = getenv("TMPDIR");

    (void)state;
    (void)snprintf(rc_root, sizeof rc_root, "%.40s/kymo-test-XXXXXX", tmp != NULL ? tmp : "/tmp");
    return mkdtemp(rc_root) == NULL;
}

static inline void rc_remove(const char *dir)
{
    char path[600];
    struct dirent *e;
    DIR *d = opendir(dir);

    if (d == NULL) {
        unlink(dir);
        return;
    }
    while ((e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (unlink(path) != 0)
            rc_remove(path);
    }
    closedir(d);
    rmdir(dir);
}

static inline int rc_teardown(void **state)
{
    (void)state;
    rc_remove(rc_root);
    return 0;
}

/* A path in the test's folder, valid for the next seven calls. */
static inline const char *rc_path(const char *name)
{
    static char paths[8][400];
    static unsigned next;
    char *p = paths[next++ % 8];

    (void)snprintf(p, sizeof paths[0], "%s/%s", rc_root, name);
    return p;
}

static inline unsigned rc_entries(const char *dir)
{
    DIR *d = opendir(dir);
    unsigned n = 0;

    if (d == NULL) {
        fail_msg("%s", dir);
        return 0; /* not all tools know that this is unreachable */
    }
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n - 2;
}

/* ---- recorders and producers ------------------------------------------------------- */

/* A pool with exactly this number of segments, for this number of threads. */
static inline void rc_pool(struct kymo_options *o, uint32_t slots, uint32_t segments)
{
    struct kymo_open_error why;
    struct kymo_layout l;

    o->n_slots = slots;
    o->memory = kymo_options_least(o);
    assert_null(kymo_options_check(o, &l, &why));
    if (l.n_segments < segments)
        o->memory += (uint64_t)(segments - l.n_segments) * l.segment_bytes;
    for (o->memory += 3 * 4096; kymo_options_check(o, &l, &why) == NULL && l.n_segments > segments;)
        o->memory -= 4096;
    assert_int_equal(l.n_segments, segments);
}

/* One thread, 4 segments of 4 KiB. */
static inline struct kymo_options rc_options(const char *dir, enum kymo_policy policy)
{
    struct kymo_options o;

    kymo_options_init(&o);
    o.dir = dir;
    o.policy = policy;
    o.segment_bytes = 4096;
    o.dict_bytes = 64 * 1024;
    o.file_bytes = 0;
    rc_pool(&o, 1, 4);
    return o;
}

static inline struct kymo_recorder *rc_open(const struct kymo_options *o)
{
    struct kymo_recorder *r = NULL;
    struct kymo_open_error why;

    assert_int_equal(kymo_recorder_open(o, &r, &why), 0);
    assert_non_null(r);
    assert_null(why.option);
    return r;
}

/* A recorder with small rings in a folder of this name. */
static inline struct kymo_recorder *rc_fresh(struct kymo_options *o, const char *name,
                                             enum kymo_policy policy)
{
    *o = rc_options(rc_path(name), policy);
    return rc_open(o);
}

#define RC_CALL_BYTES (KYMO_HDR_COMPACT + 12u)

/* Returns true if the event was recorded. */
static inline bool rc_call(struct kymo_recorder *r, uint64_t counter)
{
    struct kymo_writer *w = kymo_writer_get(r);
    uint8_t *p;

    if (w == NULL)
        return false;
    p = kymo_reserve(w, KYMO_E_CALL, 12);
    if (p != NULL)
        kymo_commit(w, kymo_put32(kymo_put64(p, counter), 0));
    kymo_writer_put(w);
    return p != NULL;
}

static inline uint64_t rc_calls(struct kymo_recorder *r, uint64_t from, uint64_t n)
{
    uint64_t done = 0;

    for (uint64_t i = 0; i < n; i++)
        done += rc_call(r, from + i);
    return done;
}

static inline struct kymo_info rc_info(struct kymo_recorder *r)
{
    struct kymo_info i;

    kymo_recorder_info(r, &i);
    return i;
}

static inline uint64_t rc_lost(const struct kymo_info *i)
{
    uint64_t n = 0;

    for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++)
        n += i->lost[c];
    return n;
}

/* Waits for another thread: tests the condition, whose duration does not matter. After a minute it
 * counts as never true. */
#define rc_await(condition) \
    do { \
        unsigned rc_tries = 0; \
        while (!(condition)) { \
            assert_true(rc_tries++ < 60000); \
            usleep(1000); \
        } \
    } while (0)

/* ---- gates --------------------------------------------------------------------------- */

static pthread_mutex_t rc_gate_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t rc_gate_cond = PTHREAD_COND_INITIALIZER;
static struct {
    unsigned armed;  /* stops the nth thread from now, 0 = none */
    bool held;       /* a thread is stopped here */
    unsigned passed; /* how often a thread passed, stopped or not */
} rc_gates[KYMO_AT_IDLE + 1];

/* True: threads pass without checking the gates (a gate is a lock). */
static bool rc_gates_off;

void kymo_test_point(enum kymo_point at)
{
    if (rc_gates_off)
        return;
    pthread_mutex_lock(&rc_gate_mutex);
    rc_gates[at].passed++;
    pthread_cond_broadcast(&rc_gate_cond);
    if (rc_gates[at].armed > 0 && --rc_gates[at].armed == 0) {
        rc_gates[at].held = true;
        pthread_cond_broadcast(&rc_gate_cond);
        while (rc_gates[at].held)
            pthread_cond_wait(&rc_gate_cond, &rc_gate_mutex);
    }
    pthread_mutex_unlock(&rc_gate_mutex);
}

static inline void rc_arm_nth(enum kymo_point at, unsigned n)
{
    pthread_mutex_lock(&rc_gate_mutex);
    rc_gates[at].armed = n;
    pthread_mutex_unlock(&rc_gate_mutex);
}

static inline void rc_arm(enum kymo_point at)
{
    rc_arm_nth(at, 1);
}

/* Returns when a thread is stopped at the gate. */
static inline void rc_await_gate(enum kymo_point at)
{
    pthread_mutex_lock(&rc_gate_mutex);
    while (!rc_gates[at].held)
        pthread_cond_wait(&rc_gate_cond, &rc_gate_mutex);
    pthread_mutex_unlock(&rc_gate_mutex);
}

static inline void rc_release(enum kymo_point at)
{
    pthread_mutex_lock(&rc_gate_mutex);
    rc_gates[at].held = false;
    rc_gates[at].armed = 0;
    pthread_cond_broadcast(&rc_gate_cond);
    pthread_mutex_unlock(&rc_gate_mutex);
}

/* Returns after n more threads have passed. */
static inline unsigned rc_passed(enum kymo_point at)
{
    unsigned n;

    pthread_mutex_lock(&rc_gate_mutex);
    n = rc_gates[at].passed;
    pthread_mutex_unlock(&rc_gate_mutex);
    return n;
}

static inline void rc_await_passed(enum kymo_point at, unsigned n)
{
    pthread_mutex_lock(&rc_gate_mutex);
    while (rc_gates[at].passed < n)
        pthread_cond_wait(&rc_gate_cond, &rc_gate_mutex);
    pthread_mutex_unlock(&rc_gate_mutex);
}

/* The recorder was killed: a data file may end within a packet, which is then still in the ring. */
static bool rc_crashed;

/* ---- reading a recording --------------------------------------------------------------- */

struct rc_event {
    uint64_t instance, seq, ticks, who, value;
    uint32_t mfa, size, depth;
    uint8_t id, kind;
    bool extended;
};

struct rc_seg {
    struct kymo_segment head;
    uint64_t events, notes;
    size_t first;  /* in rec->events */
    unsigned file; /* number of the data file, 0 = ring */
};

struct rc_rec {
    struct kymo_meta meta;
    struct kymo_calib calib[KYMO_CALIB_MAX];
    struct kymo_slot *slots;
    struct rc_event *events; /* in order of (instance, seq), notes included */
    size_t n_events, room;
    struct rc_seg *segs; /* in order of (instance, seq), each once */
    size_t n_segs;
    uint64_t real; /* events that are not notes */
    uint64_t noted[KYMO_LOSS_CAUSES];
    uint8_t *dict;
    size_t dict_len;
    unsigned files;
};

static inline uint8_t *rc_slurp(const char *dir, const char *name, size_t *len)
{
    char path[600];
    struct stat st;
    uint8_t *mem;
    int fd;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = open(path, O_RDONLY);
    *len = 0;
    if (fd < 0)
        return NULL;
    assert_int_equal(fstat(fd, &st), 0);
    mem = malloc((size_t)st.st_size + 1);
    assert_non_null(mem);
    while (*len < (size_t)st.st_size) {
        ssize_t n = read(fd, mem + *len, (size_t)st.st_size - *len);

        assert_true(n > 0);
        *len += (size_t)n;
    }
    close(fd);
    return mem;
}

static inline uint64_t rc_num(const uint8_t *p, unsigned bytes)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static inline const char *rc_fields(unsigned id)
{
    switch (id) {
#define X(number, sym, name, letters) \
    case number: return letters;
        KYMO_EVENTS(X)
#undef X
    }
    return NULL;
}

/* Decodes one record at p. Returns its length. */
static inline size_t rc_record(const uint8_t *p, size_t left, uint64_t *ticks, struct rc_event *e)
{
    const uint8_t *start = p;
    unsigned id;

    memset(e, 0, sizeof *e);
    assert_true(left >= 6);
    id = p[0];
    if (id == KYMO_ID_EXTENDED) {
        e->extended = true;
        id = (unsigned)rc_num(p + 1, 4);
        e->ticks = rc_num(p + 5, 8);
        p += 13;
    } else {
        e->ticks = (*ticks & ~0xffffffffull) | rc_num(p + 1, 4);
        if (e->ticks < *ticks)
            e->ticks += 1ull << 32;
        p += 5;
    }
    assert_true(e->ticks >= *ticks);
    *ticks = e->ticks;
    assert_true(id < 256);
    e->id = id & 63;
    assert_non_null(rc_fields(e->id));
    for (const char *f = rc_fields(e->id); *f != '\0'; f++) {
        switch (*f) {
        case 'W':
            e->who = rc_num(p, 8);
            p += 8;
            break;
        case 'B':
        case 'N':
        case 'P': p += 8; break;
        case 'Q':
            e->value = rc_num(p, 8);
            p += 8;
            break;
        case 'U': p += 8; break;
        case 'M':
            e->mfa = (uint32_t)rc_num(p, 4);
            p += 4;
            break;
        case 'A':
        case 'I':
        case 'J':
        case 'L':
        case 'O': p += 4; break;
        case 'C': p += 2 + rc_num(p, 2) * 12; break;
        case 'R': p += 9; break;
        case 'S':
            e->size = (uint32_t)rc_num(p, 4);
            p += 4;
            break;
        case 'K': e->kind = *p++; break;
        case 'D':
            e->depth = (uint32_t)(*p & 1 ? rc_num(p, 4) : *p) >> 1;
            p += *p & 1 ? 4 : 1;
            break;
        default: assert_int_equal(*f, 'G'); p += 1 + 8 * *p;
        }
    }
    if (id & 64)
        p += 3 + rc_num(p + 1, 2);
    if (id & 128)
        p += 22 + rc_num(p + 20, 2);
    assert_true((size_t)(p - start) <= left);
    return (size_t)(p - start);
}

/* Adds the segment at p and checks all of its fields. */
static inline void rc_take_segment(struct rc_rec *r, const uint8_t *p, size_t left, unsigned file)
{
    struct rc_seg s = {.first = r->n_events, .file = file};
    size_t end, at = KYMO_SEG_HEADER;
    uint64_t ticks;

    assert_true(left >= KYMO_SEG_HEADER);
    memcpy(&s.head, p, sizeof s.head);
    for (size_t i = 0; i < r->n_segs; i++) {
        if (r->segs[i].head.instance == s.head.instance && r->segs[i].head.seq == s.head.seq)
            return; /* in the ring and in a file */
    }
    assert_int_equal(s.head.magic, KYMO_SEG_MAGIC);
    assert_memory_equal(s.head.uuid, r->meta.uuid, 16);
    assert_int_equal(s.head.stream_id, 0);
    assert_true(s.head.instance < r->meta.n_slots);
    end = (size_t)(s.head.content_bits == 0 ? s.head.commit : s.head.content_bits / 8);
    assert_true(end >= KYMO_SEG_HEADER && end <= left && end <= r->meta.segment_bytes);
    ticks = s.head.ts_begin;
    while (at < end) {
        struct rc_event e;

        at += rc_record(p + at, end - at, &ticks, &e);
        e.instance = s.head.instance;
        e.seq = s.head.seq;
        if (e.id >= KYMO_E_FIRST_NOTE)
            s.notes++;
        else
            s.events++;
        if (r->n_events == r->room) {
            r->room = r->room * 2 + 1024;
            r->events = realloc(r->events, r->room * sizeof *r->events);
            assert_non_null(r->events);
        }
        r->events[r->n_events++] = e;
    }
    assert_int_equal(at, end);
    if (s.head.content_bits != 0) {
        assert_int_equal(s.head.commit * 8, s.head.content_bits);
        assert_int_equal(s.head.events, s.events);
        assert_true(s.head.ts_end >= ticks);
    }
    assert_true(s.head.discarded >= s.head.lost_before);
    if (s.head.flags & KYMO_SEG_CRC)
        assert_int_equal(s.head.crc, crc32(0, p + KYMO_SEG_HEADER, (uInt)(end - KYMO_SEG_HEADER)));
    if (file != 0)
        assert_true(s.head.flags & KYMO_SEG_CRC);
    r->segs = realloc(r->segs, (r->n_segs + 1) * sizeof *r->segs);
    assert_non_null(r->segs);
    r->segs[r->n_segs++] = s;
}

static inline int rc_by_seq(const void *a, const void *b)
{
    const struct kymo_segment *x = a, *y = b;

    if (x->instance != y->instance)
        return x->instance < y->instance ? -1 : 1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

/* Sorts segments and events, and compares neighbours. */
static inline void rc_order(struct rc_rec *r)
{
    struct rc_event *sorted = malloc((r->n_events + 1) * sizeof *sorted);
    size_t n = 0;

    assert_non_null(sorted);
    if (r->n_segs > 1)
        qsort(r->segs, r->n_segs, sizeof *r->segs, rc_by_seq); /* head comes first in it */
    for (size_t i = 0; i < r->n_segs; i++) {
        struct rc_seg *s = &r->segs[i];
        const struct rc_seg *before = i > 0 ? s - 1 : NULL;
        size_t count = (size_t)(s->events + s->notes);

        if (count > 0)
            memcpy(sorted + n, r->events + s->first, count * sizeof *sorted);
        s->first = n;
        n += count;
        r->real += s->events;
        if (before == NULL || before->head.instance != s->head.instance)
            continue;
        assert_true(s->head.ts_begin >= before->head.ts_end || before->head.content_bits == 0);
        assert_true(s->head.lost_before >= before->head.discarded);
        if (s->head.seq == before->head.seq + 1)
            assert_int_equal(s->head.events_before, before->head.events_before + before->events);
    }
    free(r->events);
    r->events = sorted;
    for (size_t i = 0; i < n; i++) {
        if (sorted[i].id == KYMO_E_LOST)
            r->noted[sorted[i].kind] += sorted[i].value;
    }
}

static inline void rc_load(const char *dir, struct rc_rec *r)
{
    size_t len, at = 0;
    uint8_t *mem = rc_slurp(dir, "meta", &len);

    memset(r, 0, sizeof *r);
    assert_non_null(mem);
    assert_true(len >= KYMO_META_BYTES + KYMO_CALIB_BYTES);
    memcpy(&r->meta, mem, sizeof r->meta);
    assert_true(r->meta.magic == KYMO_META_MAGIC);
    assert_int_equal(r->meta.version, KYMO_FORMAT_VERSION);
    assert_in_range(r->meta.n_calib, 1, KYMO_CALIB_MAX);
    memcpy(r->calib, mem + KYMO_META_BYTES, sizeof r->calib);
    for (uint32_t i = 1; i < r->meta.n_calib; i++)
        assert_true(r->calib[i].mono_ns > r->calib[i - 1].mono_ns &&
                    r->calib[i].ticks > r->calib[i - 1].ticks);
    assert_true(len >= KYMO_META_BYTES + KYMO_CALIB_BYTES + r->meta.n_slots * sizeof(struct kymo_slot));
    r->slots = malloc(r->meta.n_slots * sizeof *r->slots);
    assert_non_null(r->slots);
    memcpy(r->slots, mem + KYMO_META_BYTES + KYMO_CALIB_BYTES, r->meta.n_slots * sizeof *r->slots);
    free(mem);
    r->dict = rc_slurp(dir, "dict", &r->dict_len);
    assert_non_null(r->dict);
    mem = rc_slurp(dir, "ring", &len);
    for (at = 0; mem != NULL && at < len; at += r->meta.segment_bytes) {
        struct kymo_segment head;

        memcpy(&head, mem + at, sizeof head);
        if (head.magic != 0 && head.commit != 0)
            rc_take_segment(r, mem + at, len - at, 0);
    }
    free(mem);
    for (unsigned n = 1; n <= r->meta.files; n++) {
        char name[32];

        (void)snprintf(name, sizeof name, "data.%06u", n);
        mem = rc_slurp(dir, name, &len);
        if (mem == NULL)
            continue;
        r->files++;
        for (at = 0; at < len;) {
            struct kymo_segment head;

            if (rc_crashed && len - at < sizeof head)
                break;
            assert_true(len - at >= sizeof head);
            memcpy(&head, mem + at, sizeof head);
            if (rc_crashed && len - at < head.packet_bits / 8)
                break;
            assert_true(head.packet_bits % 64 == 0 && head.packet_bits >= head.content_bits);
            rc_take_segment(r, mem + at, len - at, n);
            at += (size_t)(head.packet_bits / 8);
        }
        assert_true(at == len || rc_crashed);
        free(mem);
    }
    rc_order(r);
}

static inline void rc_free(struct rc_rec *r)
{
    free(r->slots);
    free(r->events);
    free(r->segs);
    free(r->dict);
}

/* Checks that the calls of one instance count up by one within consecutive segments, from *first to
 * *last. Returns their number. */
static inline uint64_t rc_consecutive(const struct rc_rec *r, uint64_t instance, uint64_t *first,
                                      uint64_t *last)
{
    uint64_t n = 0, seq = 0;
    bool gap = false; /* since the last call; a segment may have none */

    for (size_t i = 0; i < r->n_segs; i++) {
        const struct rc_seg *s = &r->segs[i];

        if (s->head.instance != instance)
            continue;
        gap = gap || s->head.seq != seq + 1;
        seq = s->head.seq;
        for (size_t k = s->first; k < s->first + s->events + s->notes; k++) {
            if (r->events[k].id != KYMO_E_CALL)
                continue;
            if (n++ == 0)
                *first = r->events[k].who;
            else if (!gap)
                assert_int_equal(r->events[k].who, *last + 1);
            else
                assert_true(r->events[k].who > *last);
            gap = false;
            *last = r->events[k].who;
        }
    }
    return n;
}

/* Returns the next valid dictionary entry at or after *at, NULL at the end. */
static inline const struct kymo_dict_entry *rc_entry(const struct rc_rec *r, size_t *at)
{
    for (; *at + KYMO_DICT_HDR <= r->dict_len; *at += 8) {
        const struct kymo_dict_entry *e = (const struct kymo_dict_entry *)(const void *)(r->dict + *at);

        if (e->magic != KYMO_DICT_MAGIC || *at + KYMO_DICT_HDR + e->len > r->dict_len ||
            e->crc != crc32(0, r->dict + *at + 8, (uInt)(8 + e->len)))
            continue;
        *at += KYMO_DICT_HDR + ((size_t)e->len + 7) / 8 * 8;
        return e;
    }
    return NULL;
}

#endif
