/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole recording out of one input: the files one after the other, each with
 * its length in front. A structure-aware mutator starts from good recordings and
 * sets magic numbers and check sums right most of the time, so that changes get
 * behind the first checks.
 *
 * Input: u8 flags, then for each file u32 length and its bytes:
 * meta, dict, ring, data.000001, data.000002.
 */
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

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

struct part {
    uint8_t *p;
    size_t n;
};

static char dir[64];

static void remove_dir(void)
{
    char path[128];
    for (unsigned i = 0; i < N_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    /* In memory where there is a file system for that. */
    snprintf(dir, sizeof dir, "%s/kymo-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(dir) == NULL) {
        perror(dir);
        exit(1);
    }
    atexit(remove_dir);
    return 0;
}

/* Cuts the input into its files, as far as it goes. */
static void split(uint8_t *data, size_t size, struct part parts[N_FILES])
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

static void fix_segments(struct part *p, const uint8_t *uuid)
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

static void fix_dict(struct part *p)
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

static void fix_up(struct part parts[N_FILES])
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
    m.segs_per_ring = m.segs_per_ring % 8 + 1;
    m.clock %= 2;
    memcpy(parts[0].p, &m, sizeof m);
    fix_dict(&parts[1]);
    for (unsigned i = 2; i < N_FILES; i++)
        fix_segments(&parts[i], m.uuid);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    struct part parts[N_FILES];
    if (size < 5 || seed % 8 == 0) /* lengths of the files too */
        return LLVMFuzzerMutate(data, size, max_size);
    split(data, size, parts);
    struct part *victim = &parts[seed / 8 % N_FILES];
    if (victim->n == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    /* Near a place of interest, so that headers are met often in big files. */
    size_t window = seed / 64 % 2 == 0 ? victim->n : 256;
    size_t at = window >= victim->n ? 0 : (size_t)(seed / 128) * 64 % (victim->n - window);
    size_t n = window < victim->n - at ? window : victim->n - at;
    LLVMFuzzerMutate(victim->p + at, n, n);
    if (seed / 7 % 8 != 0)
        data[0] |= FIX_UP;
    else
        data[0] &= (uint8_t)~FIX_UP;
    return size;
}

static void write_file(const char *name, const struct part *p)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || (p->n > 0 && write(fd, p->p, p->n) != (ssize_t)p->n))
        abort();
    close(fd);
}

/* Reads every byte, under the eyes of the sanitizer. */
static void touch(const uint8_t *p, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += p[i];
    if (sum > 255ull * n)
        abort();
}

static uint64_t read_all(struct kymo_reader *r)
{
    struct kymo_event ev;
    uint64_t n = 0, last = 0;
    char text[256];
    int rc;
    while ((rc = kymo_reader_next(r, &ev)) == 1) {
        n++;
        if (ev.ticks < last || kymo_event_name(ev.id) == NULL || ev.slot >= r->n_slots)
            abort();
        last = ev.ticks;
        touch(ev.content, ev.content_len);
        touch(ev.msr, ev.msr_len);
        if (ev.has_content)
            kymo_format_value(r, ev.content, ev.content_len, text, sizeof text);
        kymo_format_ident(r, ev.who, text, sizeof text);
        kymo_format_ident(r, ev.peer, text, sizeof text);
        kymo_format_mfa(r, ev.mfa, text, sizeof text);
        kymo_reader_wall_ns(r, ev.ns);
        kymo_reader_erl_ns(r, ev.ns);
    }
    if (rc != 0)
        abort();
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct part parts[N_FILES];
    struct kymo_reader *r;
    char err[256];
    if (size < 5 || size > LONGEST)
        return 0;
    uint8_t *copy = malloc(size);
    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    split(copy, size, parts);
    if ((copy[0] & FIX_UP) != 0)
        fix_up(parts);
    for (unsigned i = 0; i < N_FILES; i++)
        write_file(names[i], &parts[i]);
    free(copy);
    if (kymo_reader_open(dir, &r, err, sizeof err) != 0)
        return err[0] == '\0' ? (abort(), 0) : 0;
    uint64_t first = read_all(r), raw = 0, done, total;
    struct kymo_damage damage = *kymo_reader_damage(r);
    kymo_reader_progress(r, &done, &total);
    if (done != total)
        abort();
    kymo_reader_rewind(r);
    if (read_all(r) != first || memcmp(&damage, kymo_reader_damage(r), sizeof damage) != 0)
        abort(); /* nothing is counted twice */
    const uint8_t *bytes;
    size_t len;
    for (uint64_t i = 0; kymo_reader_segment(r, i, &bytes, &len) == 1; i++) {
        struct kymo_segment h;
        if (bytes == NULL)
            continue;
        memcpy(&h, bytes, sizeof h);
        if (h.content_bits != len * 8)
            abort();
        raw += h.events;
    }
    if (raw > first) /* notes are counted by read_all only */
        abort();
    int64_t begin, end;
    if (kymo_reader_span(r, &begin, &end) == 0 && first == 0)
        abort();
    kymo_reader_close(r);
    return 0;
}
