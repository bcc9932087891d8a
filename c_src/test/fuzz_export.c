/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes events in arbitrary order to all exporters. The input is a script: each record takes a few
 * bytes that choose among few processes, functions and names, so that their stacks, messages and lives
 * interact often. Whatever the input, slices of the Perfetto trace must nest, and its arrows must be
 * correct.
 *
 * Input: u8 flags, then records: u8 id with its variant bits, u8 thread and time
 * step, one byte per field, contents preceded by their length.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "kymo_export.h"
#include "pf_check.h"
#include "testrec.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LONGEST = 1 << 14, THREADS = 2, FUNCTIONS = 5 };
enum { FLAG_WALL = 1, FLAG_TSC = 2, FLAG_DICT = 4, FLAG_NAMES = 8, FLAG_CUT = 16, FLAG_JUMP = 32 };

static char dir[64], out[96], ctf[96];

static void remove_files(void)
{
    tr_remove(dir);
    unlink(out);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    snprintf(dir, sizeof dir, "%s/kymo-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(dir) == NULL) {
        perror(dir);
        exit(1);
    }
    snprintf(out, sizeof out, "%s.out", dir);
    snprintf(ctf, sizeof ctf, "%s.ctf", dir);
    atexit(remove_files);
    return 0;
}

/* ---- the recording ---- */

struct script {
    const uint8_t *p, *end;
};

static uint8_t next(struct script *s)
{
    return s->p < s->end ? *s->p++ : 0;
}

static uint64_t ident(struct script *s)
{
    uint8_t b = next(s);
    switch (b & 15) {
    case 10: return KYMO_IDENT(KYMO_I_PORT, b >> 4);
    case 11: return KYMO_IDENT(KYMO_I_ATOM, b >> 4);
    case 12: return KYMO_IDENT(KYMO_I_REF, b >> 4);
    case 13: return KYMO_IDENT(KYMO_I_TERM, b >> 4);
    case 14: return KYMO_IDENT(b >> 4, 7);
    case 15: return KYMO_IDENT_NONE;
    default: return KYMO_IDENT(KYMO_I_PID, b & 15);
    }
}

static uint8_t *put(uint8_t *p, uint64_t v, unsigned bytes)
{
    memcpy(p, &v, bytes);
    return p + bytes;
}

/* A term made of the script's bytes, or the bytes themselves. */
static uint8_t *term(struct script *s, uint8_t *p, unsigned *len)
{
    static const uint8_t good[] = {104, 2, 97, 1, 97, 2};
    uint8_t n = next(s);
    *len = 0;
    if (n == 255) {
        memcpy(p, good, sizeof good);
        *len = sizeof good;
        return p + sizeof good;
    }
    while ((*len) < (n & 31u))
        p[(*len)++] = next(s);
    return p + *len;
}

static size_t body_of(struct script *s, unsigned id, uint8_t *body)
{
    const char *fields = kymo_event_fields(id & KYMO_ID_MASK);
    uint8_t *p = body, *length;
    unsigned n;
    for (const char *f = fields; f != NULL && *f != 0; f++) {
        switch (*f) {
        case 'W':
        case 'P': p = put(p, ident(s), 8); break;
        case 'R':
            *p++ = next(s) % 8;
            p = put(p, next(s) % 8, 8);
            break;
        case 'B':
        case 'N': p = put(p, next(s) % 8, 8); break;
        case 'L':
        case 'O':
        case 'I':
        case 'J':
        case 'M':
        case 'A': p = put(p, next(s) % 16, 4); break;
        case 'S':
            n = next(s) % 8;
            p = put(p, n == 7 ? KYMO_SIZE_UNKNOWN : n, 4);
            break;
        case 'K': p = put(p, next(s), 1); break;
        case 'D':
            n = next(s);
            p += tr_put_depth(p, n < 250 ? n : n << 22);
            break;
        case 'Q':
        case 'U': p = put(p, next(s), 8); break;
        case 'G':
            n = next(s) % 2 * KYMO_GC_SIZES;
            p = put(p, n, 1);
            while (n-- > 0)
                p = put(p, n, 8);
            break;
        case 'C':
            n = next(s) % 4;
            p = put(p, n, 2);
            while (n-- > 0)
                p = put(put(put(p, next(s) % 32, 2), next(s) % 4, 2), next(s), 8);
            break;
        default: abort();
        }
    }
    if ((id & KYMO_HAS_CONTENT) != 0) {
        p = put(p, next(s) & 3, 1);
        length = p;
        p = term(s, p + 2, &n);
        put(length, n, 2);
    }
    if ((id & KYMO_HAS_OPTS) != 0) {
        p = put(put(put(p, next(s) & 31, 1), next(s), 2), next(s) % 5, 1);
        p = put(put(p, next(s), 8), next(s), 8);
        length = p;
        p = term(s, p + 2, &n);
        put(length, n, 2);
    }
    return (size_t)(p - body);
}

static void define(struct testrec *t, uint8_t flags)
{
    uint32_t m = tr_atom(t, "m");
    for (unsigned i = 0; i < FUNCTIONS; i++)
        tr_mfa(t, m, (flags & FLAG_NAMES) != 0 ? tr_atom(t, "f;\n'\xff") : m, i);
    tr_define(t, KYMO_DICT_TERM, "\x58\x77\x01zabcdefghijkl", 16);
    for (unsigned i = 0; i < 6; i++)
        tr_process(t, KYMO_IDENT(KYMO_I_PID, i), i < 3 ? m : 0, 2 + i);
}

/* A segment of the script, before which the clock may have jumped. */
static void open_segment(struct testseg *seg, const struct testrec *t, uint32_t slot, uint64_t seq,
                         uint64_t now, struct script *s, bool jump)
{
    uint64_t before = seq > 1 ? seg->last : 0;
    ts_open(seg, t, slot, seq, now);
    ts_after(seg, before, 0);
    if (jump) {
        int64_t mono = tr_mono(t, now) + ((int64_t)next(s) - 128) * 1000000;
        memcpy(seg->b + offsetof(struct kymo_segment, mono_ns), &mono, sizeof mono);
    }
}

static void play(struct testrec *t, struct script *s, bool jump)
{
    static struct testseg segs[THREADS];
    uint64_t now = 1000000, seq[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        open_segment(&segs[i], t, i, seq[i] = 1, now, s, jump);
    while (s->p < s->end) {
        uint8_t body[512], id = next(s), step = next(s);
        unsigned slot = step & 1;
        if (kymo_event_name(id & KYMO_ID_MASK) == NULL)
            id = (uint8_t)((id & ~KYMO_ID_MASK) | KYMO_E_CALL);
        now += step / 2u * (step > 200 ? 1000u : 1u);
        size_t n = body_of(s, id, body);
        struct testseg *seg = &segs[slot];
        if (seg->len + KYMO_HDR_EXTENDED + n > TR_SEGMENT) {
            ts_close(seg, true);
            tr_to_data(t, 1, seg, true);
            open_segment(seg, t, slot, ++seq[slot], now, s, jump);
        }
        ts_record(seg, now, id, body, n, step == 255);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        ts_close(&segs[i], true);
        tr_to_data(t, 1, &segs[i], true);
    }
}

/* ---- checks ---- */

static void check_perfetto(void)
{
    struct pf_check c = {.error = NULL};
    FILE *f = fopen(out, "rb");
    static uint8_t bytes[1 << 22];
    if (f == NULL)
        abort();
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    pf_check(&c, bytes, n);
    if (c.error != NULL) {
        fprintf(stderr, "perfetto: %s\n", c.error);
        abort();
    }
    pf_check_free(&c);
}

static void remove_ctf(void)
{
    DIR *d = opendir(ctf);
    int at = d == NULL ? -1 : dirfd(d);
    if (at < 0)
        abort();
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        unlinkat(at, e->d_name, 0);
    closedir(d);
    if (rmdir(ctf) != 0)
        abort();
}

static void export_all(struct kymo_reader *r, uint8_t flags, bool all)
{
    struct kymo_export_options o = {.out = out, .from_ns = INT64_MIN, .to_ns = INT64_MAX, .all = all};
    struct kymo_export_result res;
    uint64_t events;
    char err[256];
    o.wall = (flags & FLAG_WALL) != 0;
    if (kymo_export_perfetto(r, &o, &res, err, sizeof err) != 0)
        abort();
    check_perfetto();
    if (kymo_export_dbg(r, &o, &res, err, sizeof err) != 0 || res.written > res.events)
        abort();
    events = res.events;
    if (kymo_export_folded(r, &o, &res, err, sizeof err) != 0)
        abort();
    o.out = ctf;
    if (kymo_export_ctf(r, &o, &res, err, sizeof err) != 0 || res.events != events)
        abort();
    remove_ctf();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4 || size > LONGEST)
        return 0;
    struct script s = {data + 1, data + size};
    struct testrec t;
    struct kymo_reader *r;
    char err[256];
    tr_init(&t);
    if ((data[0] & FLAG_TSC) != 0)
        t.meta.clock = KYMO_CLOCK_COUNTER;
    if ((data[0] & FLAG_DICT) != 0)
        define(&t, data[0]);
    /* A thread without any segment left, somewhere in the middle. */
    if ((data[0] & FLAG_CUT) != 0)
        t.slots[THREADS].gone_until = 1000000 + data[1] * 100ull;
    play(&t, &s, (data[0] & FLAG_JUMP) != 0);
    tr_write(&t, dir);
    tr_free(&t);
    if (kymo_reader_open(dir, &r, err, sizeof err) != 0)
        abort();
    export_all(r, data[0], false);
    export_all(r, data[0], true);
    kymo_reader_close(r);
    return 0;
}
