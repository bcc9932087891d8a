/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the seeds of fuzz_reader, which fuzz_cli uses too, and of fuzz_dict: small recordings that
 * contain every record in every variant, and one with a plausible sequence of events. Usage: tool_seeds
 * FOLDER, which must contain fuzz_reader/ and fuzz_dict/.
 */
#include "testrec.h"

static const struct {
    unsigned id;
    const char *fields;
} types[] = {
#define KYMO_X(id, sym, name, fields) {id, fields},
    KYMO_EVENTS(KYMO_X)
#undef KYMO_X
};

static size_t body(uint8_t *p, const char *fields, unsigned variant)
{
    static const uint8_t term[] = {104, 2, 97, 1, 119, 2, 'o', 'k'}; /* {1,ok} */
    size_t n = 0;
    for (const char *f = fields; *f != '\0'; f++) {
        uint64_t v = *f == 'W' || *f == 'P' ? KYMO_IDENT(KYMO_I_PID, 42) : 3;
        size_t size = *f == 'K' ? 1 : strchr("MASIJO", *f) != NULL ? 4 : 8;
        if (*f == 'R')
            p[n++] = KYMO_MSG_CALL;
        if (*f == 'G') {
            p[n] = KYMO_GC_SIZES;
            memset(p + n + 1, 1, 8 * KYMO_GC_SIZES);
            n += 1 + 8 * KYMO_GC_SIZES;
            continue;
        }
        if (*f == 'C') { /* two values */
            memset(p + n, 0, 2 + 2 * KYMO_COUNTER_BYTES);
            p[n] = 2;
            p[n + 2] = KYMO_N_REDUCTIONS;
            p[n + 2 + KYMO_COUNTER_BYTES] = KYMO_N_SCHEDULER;
            p[n + 4 + KYMO_COUNTER_BYTES] = 1;
            n += 2 + 2 * KYMO_COUNTER_BYTES;
            continue;
        }
        memcpy(p + n, &v, size);
        n += size;
    }
    if ((variant & KYMO_HAS_CONTENT) != 0) {
        uint16_t len = sizeof term;
        p[n] = 0;
        memcpy(p + n + 1, &len, 2);
        memcpy(p + n + 3, term, sizeof term);
        n += KYMO_CONTENT_HDR + sizeof term;
    }
    if ((variant & KYMO_HAS_OPTS) != 0) {
        uint16_t len = 2;
        memset(p + n, 0, KYMO_OPTS_HDR);
        p[n] = KYMO_O_SCHED | KYMO_O_TS | KYMO_O_MSR;
        p[n + 3] = KYMO_TS_STRICT;
        memcpy(p + n + 20, &len, 2);
        memcpy(p + n + KYMO_OPTS_HDR, term + 2, 2);
        n += KYMO_OPTS_HDR + 2;
    }
    return n;
}

static void every_record(struct testseg *s, const struct testrec *t, uint32_t slot, uint64_t seq,
                         unsigned variant)
{
    uint64_t ts = 1000000 + seq * 100000;
    ts_open(s, t, slot, seq, ts);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        uint8_t b[512];
        size_t n = body(b, types[i].fields, variant);
        ts += 17;
        ts_record(s, ts, types[i].id | variant, b, n, i % 5 == 0);
    }
}

#define PID(n) KYMO_IDENT(KYMO_I_PID, n)

/* A record with the field W, a field of 8 bytes if peer is not 0, one of 4 bytes, and a content. */
static void with_content(struct testseg *s, uint64_t ts, unsigned id, uint64_t who, uint64_t peer,
                         uint32_t last, const char *etf, size_t len)
{
    uint8_t b[128];
    size_t n = 8;
    memcpy(b, &who, 8);
    if (peer != 0) {
        memcpy(b + n, &peer, 8);
        n += 8;
    }
    memcpy(b + n, &last, 4);
    n += 4;
    b[n] = 0;
    b[n + 1] = (uint8_t)len;
    b[n + 2] = 0;
    memcpy(b + n + KYMO_CONTENT_HDR, etf, len);
    ts_record(s, ts, id | KYMO_HAS_CONTENT, b, n + KYMO_CONTENT_HDR + len, false);
}

/* Events of a small node: nested calls, a message and its reply, a process that starts and exits.
 * The node died, so the newest events are in the ring. */
static void story(struct testrec *t)
{
    struct testseg s;
    uint32_t m = tr_atom(t, "lists"), f = tr_atom(t, "map"), name = tr_atom(t, "server");
    uint32_t normal = tr_atom(t, "normal");
    uint32_t map = tr_mfa(t, m, f, 2), run = tr_mfa(t, m, name, 1);
    uint8_t lost[9] = {KYMO_LOST_RING_FULL, 7};
    uint64_t ts = 2000000;
    tr_process(t, PID(42), name, run);
    tr_relatives(t, PID(43), 0, map, PID(42), KYMO_IDENT(KYMO_I_ATOM, name));
    tr_relatives(t, PID(44), 0, map, PID(45), KYMO_IDENT_NONE); /* a cycle */
    tr_relatives(t, PID(45), 0, map, PID(44), KYMO_IDENT_NONE);
    t->meta.policy = KYMO_DISCARD;
    t->meta.state = KYMO_ACTIVE;
    t->meta.os_pid = 0;
    for (uint32_t slot = 0; slot < 2; slot++) {
        t->slots[slot].used = 1;
        t->slots[slot].thread_kind = KYMO_T_SCHEDULER;
        t->slots[slot].thread_no = slot + 1;
        memcpy(t->slots[slot].thread_name, "scheduler", 10);
    }
    t->slots[0].lost[KYMO_LOST_RING_FULL] = 7;
    for (uint64_t seq = 1; seq <= 3; seq++) {
        const uint8_t gc[9] = {(uint8_t)(50 + seq)}; /* its ident, and no sizes */
        ts_open(&s, t, 0, seq, ts);
        ts_wm(&s, ts += 10, KYMO_E_IN, PID(42), run);
        with_content(&s, ts += 10, KYMO_E_CALL, PID(42), 0, map, "l\0\0\0\2a\12k\0\1\12j", 12);
        ts_wm(&s, ts += 10, KYMO_E_CALL, PID(42), run);
        with_content(&s, ts += 10, KYMO_E_SPAWN, PID(42), PID(50 + seq), run, "k\0\1\12", 4);
        with_content(&s, ts += 10, KYMO_E_SPAWNED, PID(50 + seq), PID(42), run, "k\0\1\12", 4);
        ts_send(&s, ts += 10, KYMO_E_SEND, PID(42), PID(50 + seq), 4);
        ts_wm(&s, ts += 10, KYMO_E_RETURN_TO, PID(42), map);
        ts_deep(&s, ts += 10, KYMO_E_CALL_DEPTH, PID(42), map, 20);
        ts_deep(&s, ts += 10, KYMO_E_CALL_DEPTH, PID(42), run, 300);
        ts_deep(&s, ts += 10, KYMO_E_EXCEPTION_FROM_DEPTH, PID(42), run, 300);
        ts_deep(&s, ts += 10, KYMO_E_RETURN_FROM_DEPTH, PID(42), map, 20);
        ts_deep(&s, ts += 10, KYMO_E_RETURN_TO_DEPTH, PID(42), run, 9);
        ts_slow(&s, ts += 10, PID(42), run, 70, UINT32_MAX);
        ts_slow(&s, ts += 10, PID(42), map, 90, 20);
        ts_wm(&s, ts += 10, KYMO_E_OUT, PID(42), map);
        ts_record(&s, ts += 10, KYMO_E_GC_MINOR_START, gc, 9, false);
        ts_record(&s, ts += 10, KYMO_E_GC_MINOR_END, gc, 9, false);
        ts_send(&s, ts += 10, KYMO_E_RECEIVE, PID(50 + seq), PID(42), 4);
        ts_wm(&s, ts += 10, KYMO_E_REGISTER, PID(50 + seq), name);
        with_content(&s, ts += 10, KYMO_E_OTHER, PID(42), 0, name, "l\0\0\0\1a\12j", 8);
        ts_record(&s, ts += 10, KYMO_E_LOST, lost, 9, false);
        ts_wm(&s, ts += 10, KYMO_E_EXIT, PID(50 + seq), normal);
        if (seq < 3)
            ts_close(&s, seq == 1);
        if (seq > 1)
            tr_to_ring(t, &s);
        if (seq < 3)
            tr_to_data(t, 1, &s, true);
    }
}

/* Three threads in one pool: one has lost its first segments, another one all of them. */
static void wrapped(struct testrec *t)
{
    struct testseg s;
    uint32_t m = tr_atom(t, "lists"), run = tr_mfa(t, m, m, 1);
    size_t place = 0;
    for (uint32_t slot = 0; slot < 2; slot++) {
        for (uint64_t seq = 1 + 2 * slot; seq <= 4; seq++) {
            uint64_t ts = 1000000 * seq;
            ts_open(&s, t, slot, seq, ts);
            if (seq > 1)
                ts_after(&s, ts - 1000000 + 40, 5 * (seq - 1));
            ts_wm(&s, ts += 10, KYMO_E_CALL, PID(42), run);
            ts_send(&s, ts += 10, KYMO_E_SEND, PID(42), PID(43), 4);
            ts_send(&s, ts += 10, KYMO_E_RECEIVE, PID(43), PID(42), 4);
            ts_wm(&s, ts += 5, KYMO_E_RETURN_FROM, PID(42), run);
            ts_wm(&s, ts + 5, KYMO_E_OUT, PID(43), run);
            if (seq < 4)
                ts_close(&s, true);
            tr_to_place(t, &s, place++);
        }
        t->slots[slot].used = 1;
        t->slots[slot].seq = 4;
        t->slots[slot].events = 20;
    }
    t->slots[2].used = 1;
    t->slots[2].gone_until = 2000015;
}

static void put_part(FILE *f, const void *p, size_t n)
{
    uint32_t len = (uint32_t)n;
    if (fwrite(&len, 4, 1, f) != 1 || (n > 0 && fwrite(p, 1, n, f) != n)) {
        perror("tool_seeds");
        exit(1);
    }
}

/* Concatenates the files as fuzz_reader expects them, with only the first `ring` bytes of the ring. */
static void pack(const struct testrec *t, const char *dir, const char *name, size_t ring, bool calibrated)
{
    char path[512];
    snprintf(path, sizeof path, "%s/fuzz_reader/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL) {
        perror(path);
        exit(1);
    }
    struct tr_buf meta = {NULL, 0, 0};
    tr_append(&meta, &t->meta, sizeof t->meta);
    if (calibrated) {
        tr_append(&meta, t->calib, sizeof t->calib);
        tr_append(&meta, t->slots, 3 * sizeof t->slots[0]);
    }
    putc(1, f);
    put_part(f, meta.p, meta.n);
    put_part(f, t->dict.p, t->dict.n);
    put_part(f, t->ring.p, ring);
    put_part(f, t->data[1].p, t->data[1].n);
    put_part(f, t->data[2].p, t->data[2].n);
    free(meta.p);
    if (fclose(f) != 0)
        exit(1);
}

int main(int argc, char **argv)
{
    struct testrec t;
    struct testseg s;
    if (argc != 2) {
        fprintf(stderr, "usage: tool_seeds FOLDER\n");
        return 2;
    }
    tr_init(&t);
    uint32_t m = tr_atom(&t, "lists"), f = tr_atom(&t, "odd atom");
    uint32_t mfa = tr_mfa(&t, m, f, 2);
    tr_define(&t, KYMO_DICT_TERM, "\x68\x01\x6a", 3);
    tr_process(&t, KYMO_IDENT(KYMO_I_PID, 42), m, mfa);
    tr_relatives(&t, KYMO_IDENT(KYMO_I_PID, 43), 0, mfa, KYMO_IDENT(KYMO_I_PID, 42),
                 KYMO_IDENT(KYMO_I_ATOM, m));
    tr_mfa(&t, tr_atom(&t, "lists"), f, 2);
    char path[512];
    snprintf(path, sizeof path, "%s/fuzz_dict", argv[1]);
    struct tr_buf dict = {NULL, 0, 0};
    tr_append(&dict, "\x01", 1);
    tr_append(&dict, t.dict.p, t.dict.n);
    tr_file(path, "all-kinds", dict.p, dict.n);
    free(dict.p);

    every_record(&s, &t, 0, 1, 0);
    tr_to_ring(&t, &s);
    t.meta.state = KYMO_ACTIVE;
    t.meta.os_pid = 0;
    pack(&t, argv[1], "crashed-ring", TR_SEGMENT, false);
    memset(t.ring.p, 0, t.ring.n);

    t.meta.state = KYMO_CLOSED;
    t.meta.policy = KYMO_DISCARD;
    t.meta.clock = KYMO_CLOCK_COUNTER;
    t.meta.ticks_per_sec = 3000000000;
    t.meta.n_calib = 3;
    for (unsigned i = 0; i < 3; i++) {
        t.calib[i].ticks = 1000000 + i * 300000;
        t.calib[i].mono_ns = 1000000 + (int64_t)i * 100000;
    }
    every_record(&s, &t, 0, 1, KYMO_HAS_CONTENT);
    ts_close(&s, true);
    tr_to_data(&t, 1, &s, true);
    every_record(&s, &t, 1, 1, KYMO_HAS_OPTS);
    ts_close(&s, true);
    tr_to_data(&t, 1, &s, true);
    every_record(&s, &t, 0, 3, 0);
    ts_close(&s, false);
    tr_to_data(&t, 2, &s, true);
    pack(&t, argv[1], "data-files", 0, true);
    tr_free(&t);

    tr_init(&t);
    story(&t);
    pack(&t, argv[1], "story", 3 * TR_SEGMENT, false);
    tr_free(&t);

    tr_init(&t);
    wrapped(&t);
    t.meta.n_segments = 6;
    pack(&t, argv[1], "wrapped", 6 * TR_SEGMENT, true);
    tr_free(&t);
    return 0;
}
