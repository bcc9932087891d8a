/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts one fuzzer input to a whole recording, for the targets that read folders. The input has the
 * files one after the other, each preceded by its length. A mutator that knows this layout starts from
 * valid recordings and damages them as disks, crashes and people would. It corrects magic numbers and
 * checksums most of the time, so that changes get past the first checks.
 *
 * Input: u8 flags, then for each file u32 length and its bytes:
 * meta, dict, ring, data.000001, data.000002.
 */
#ifndef KYMO_FUZZ_FILES_H
#define KYMO_FUZZ_FILES_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "kymo_reader_int.h"

enum { N_FILES = 5, FIX_UP = 1, LONGEST = 1 << 18 };

static const char *const names[N_FILES] = {KYMO_META_NAME, KYMO_DICT_NAME, KYMO_RING_NAME, "data.000001",
                                           "data.000002"};

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

struct part {
    uint8_t *p;
    size_t n;
};

static char dir[64];

static inline void remove_recording(void)
{
    char path[128];
    for (unsigned i = 0; i < N_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

/* In memory, if there is such a file system. */
static inline void make_dir(void)
{
    snprintf(dir, sizeof dir, "%s/kymo-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(dir) == NULL) {
        perror(dir);
        exit(1);
    }
    atexit(remove_recording);
}

/* Cuts the input into its files, as far as it goes. */
static inline void split(uint8_t *data, size_t size, struct part parts[N_FILES])
{
    size_t pos = 1;
    for (unsigned i = 0; i < N_FILES; i++) {
        uint32_t n = 0;
        parts[i].p = data;
        parts[i].n = 0;
        if (size < 4 || pos > size - 4)
            continue;
        n = kymo_get32(data + pos);
        pos += 4;
        parts[i].p = data + pos;
        parts[i].n = n < size - pos ? n : size - pos;
        pos += parts[i].n;
    }
}

static inline void fix_segments(struct part *p, const uint8_t *uuid)
{
    for (size_t pos = 0; pos + KYMO_SEG_HEADER <= p->n;) {
        struct kymo_segment h;
        memcpy(&h, p->p + pos, sizeof h);
        uint64_t room = p->n - pos;
        if (h.magic == KYMO_SEG_MAGIC) {
            memcpy(h.uuid, uuid, sizeof h.uuid);
            h.stream_id = 0;
            if ((h.flags & KYMO_SEG_CRC) != 0 && h.commit >= KYMO_SEG_HEADER && h.commit <= room)
                h.crc = (uint32_t)crc32(0, p->p + pos + KYMO_SEG_HEADER, (uInt)(h.commit - KYMO_SEG_HEADER));
            if (h.content_bits != 0)
                h.content_bits = h.commit * 8;
            memcpy(p->p + pos, &h, sizeof h);
        }
        pos += 64;
    }
}

static inline void fix_dict(struct part *p)
{
    for (size_t pos = 0; pos + KYMO_DICT_HDR <= p->n;) {
        uint16_t len = kymo_get16(p->p + pos + 10);
        if (kymo_get32(p->p + pos) == KYMO_DICT_MAGIC && len <= p->n - pos - KYMO_DICT_HDR) {
            uint32_t crc = (uint32_t)crc32(0, p->p + pos + 8, 8u + len);
            memcpy(p->p + pos + 4, &crc, 4);
        }
        pos += 8;
    }
}

static inline void fix_up(struct part parts[N_FILES])
{
    if (parts[0].n < sizeof(struct kymo_meta))
        return;
    struct kymo_meta m;
    memcpy(&m, parts[0].p, sizeof m);
    m.magic = KYMO_META_MAGIC;
    m.version = KYMO_FORMAT_VERSION;
    m.meta_bytes = KYMO_META_BYTES;
    m.n_slots = m.n_slots % 16 + 1;
    if (m.segment_bytes != 8192)
        m.segment_bytes = 4096;
    m.n_segments = m.n_segments % 32 + KYMO_SEGMENTS_MIN;
    m.clock %= 2;
    memcpy(parts[0].p, &m, sizeof m);
    fix_dict(&parts[1]);
    for (unsigned i = 2; i < N_FILES; i++)
        fix_segments(&parts[i], m.uuid);
}

/* Removes the bytes [at, at + n) of a file. Returns the size of the input. */
static inline size_t cut_out(uint8_t *data, size_t size, struct part *victim, size_t at, size_t n)
{
    uint32_t left = (uint32_t)(victim->n - n);
    memmove(victim->p + at, victim->p + at + n, size - (size_t)(victim->p + at + n - data));
    memcpy(victim->p - 4, &left, 4);
    return size - n;
}

/* Replaces a file by another file of the recording, or by text. */
static inline void replace(struct part *victim, const struct part *other)
{
    static const char foreign[] = "This is no part of a recording.\n";
    size_t n = other->n < victim->n ? other->n : victim->n;
    if (n > 0 && other->p != victim->p) {
        memmove(victim->p, other->p, n);
        return;
    }
    for (size_t at = 0; at < victim->n; at++)
        victim->p[at] = (uint8_t)foreign[at % (sizeof foreign - 1)];
}

/* Changes one place of a file. */
static inline size_t change(uint8_t *data, size_t size, struct part parts[N_FILES], struct part *victim,
                            unsigned seed)
{
    /* Near a place of interest, so that headers are hit often, also in large files. */
    size_t window = seed / 64 % 2 == 0 ? victim->n : 256;
    size_t at = window >= victim->n ? 0 : (size_t)(seed / 128) * 64 % (victim->n - window);
    size_t n = window < victim->n - at ? window : victim->n - at;
    switch (seed / 256 % 8) {
    case 0: /* a bit */ victim->p[at + seed / 2048 % n] ^= (uint8_t)(1u << (seed / 13 % 8)); return size;
    case 1: /* a block that was never written */ memset(victim->p + at, 0, n); return size;
    case 2: /* the end is missing */ return cut_out(data, size, victim, at, victim->n - at);
    case 3: /* a piece is missing */ return cut_out(data, size, victim, at, n);
    case 4: replace(victim, &parts[seed / 2048 % N_FILES]); return size;
    default: LLVMFuzzerMutate(victim->p + at, n, n); return size;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    struct part parts[N_FILES];
    if (size < 5 || seed % 16 == 0) /* lengths of the files too */
        return LLVMFuzzerMutate(data, size, max_size);
    split(data, size, parts);
    struct part *victim = &parts[seed / 8 % N_FILES];
    if (victim->n == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    size = change(data, size, parts, victim, seed);
    if (seed / 7 % 8 != 0)
        data[0] |= FIX_UP;
    else
        data[0] &= (uint8_t)~FIX_UP;
    return size;
}

static inline void write_part(const char *name, const struct part *p)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || (p->n > 0 && write(fd, p->p, p->n) != (ssize_t)p->n))
        abort();
    close(fd);
}

/* Writes the recording that the input describes into dir. Returns false if it is not one. */
static inline bool write_recording(const uint8_t *data, size_t size)
{
    struct part parts[N_FILES];
    if (size < 5 || size > LONGEST)
        return false;
    uint8_t *copy = malloc(size);
    if (copy == NULL)
        return false;
    memcpy(copy, data, size);
    split(copy, size, parts);
    if ((copy[0] & FIX_UP) != 0)
        fix_up(parts);
    for (unsigned i = 0; i < N_FILES; i++)
        write_part(names[i], &parts[i]);
    free(copy);
    return true;
}

#endif
