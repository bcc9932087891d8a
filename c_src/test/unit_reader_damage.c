/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the reader with damaged recordings: intact parts are read, damaged parts are skipped and
 * counted, and anything that is not a recording is refused with a reason.
 */

#include <sys/types.h>

#include <fcntl.h>

#include "reader_fixture.h"

enum { RECORDS = 20, SEGMENT_USED = KYMO_SEG_HEADER + RECORDS * 17 };

static void assert_refused(const struct testrec *t, int rc, const char *why)
{
    struct kymo_reader *r = (void *)1;
    char err[256] = "";
    if (t != NULL)
        tr_write(t, dir);
    assert_int_equal(kymo_reader_open(dir, &r, err, sizeof err), rc);
    assert_null(r);
    if (strstr(err, why) == NULL || strstr(err, dir) == NULL)
        fail_msg("'%s' does not say '%s'", err, why);
}

/* RECORDS calls at 1,000,000 * seq + i. */
static void segment(struct testseg *s, const struct testrec *t, uint32_t slot, uint64_t seq)
{
    ts_open(s, t, slot, seq, 1000000 * seq);
    for (uint64_t i = 0; i < RECORDS; i++)
        ts_wm(s, 1000000 * seq + i, KYMO_E_CALL, seq, 0);
}

/* Segments 1 .. n of slot 0, closed, in data.000001. */
static void in_data(struct testrec *t, unsigned n, bool crc)
{
    struct testseg s;
    tr_init(t);
    for (uint64_t seq = 1; seq <= n; seq++) {
        segment(&s, t, 0, seq);
        ts_close(&s, crc);
        tr_to_data(t, 1, &s, true);
    }
}

/* Checks the number of records of each segment. */
static void count(struct kymo_reader *r, unsigned *of, unsigned n)
{
    struct kymo_event ev;
    int rc;
    memset(of, 0, n * sizeof *of);
    while ((rc = kymo_reader_next(r, &ev)) == 1) {
        assert_true(ev.who > 0 && ev.who < n);
        of[ev.who]++;
    }
    assert_int_equal(rc, 0);
}

/* ---- not a recording ---- */

static void refused(void **state)
{
    (void)state;
    struct testrec t;
    char path[128];
    assert_refused(NULL, -EBADMSG, "no file 'meta'");
    tr_init(&t);
    t.meta.magic ^= 1;
    assert_refused(&t, -EBADMSG, "magic");
    t.meta.magic ^= 1;
    t.meta.version = 1;
    assert_refused(&t, -EPROTO, "format version 1; this program reads versions 2 to 3");
    t.meta.version = KYMO_FORMAT_VERSION + 1;
    assert_refused(&t, -EPROTO, "format version 4; this program reads versions 2 to 3");
    t.meta.version = KYMO_FORMAT_VERSION;
    t.meta.n_slots = 4097;
    assert_refused(&t, -EBADMSG, "n_slots");
    t.meta.n_slots = 0;
    assert_refused(&t, -EBADMSG, "n_slots");
    t.meta.n_slots = TR_SLOTS;
    t.meta.segment_bytes = 4097;
    assert_refused(&t, -EBADMSG, "segment_bytes");
    t.meta.segment_bytes = 1u << 31;
    assert_refused(&t, -EBADMSG, "segment_bytes");
    t.meta.segment_bytes = TR_SEGMENT;
    t.meta.n_segments = UINT32_MAX;
    assert_refused(&t, -EBADMSG, "n_segments");
    t.meta.n_segments = KYMO_SEGMENTS_MIN - 1;
    assert_refused(&t, -EBADMSG, "n_segments");
    t.meta.n_segments = TR_SLOTS * TR_SEGS;
    t.meta.meta_bytes = 17;
    assert_refused(&t, -EBADMSG, "meta_bytes");
    t.meta.meta_bytes = KYMO_META_BYTES;
    t.meta.clock = 2;
    assert_refused(&t, -EBADMSG, "clock");

    snprintf(path, sizeof path, "%s/meta", dir);
    assert_int_equal(truncate(path, 4000), 0);
    assert_refused(NULL, -EBADMSG, "cut short");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(NULL, -EBADMSG, "regular"); /* and does not wait for a writer of the FIFO */
    tr_remove(dir);
    assert_refused(NULL, -ENOENT, "No such file");
    tr_file("/tmp", strrchr(dir, '/') + 1, "x", 1);
    assert_refused(NULL, -ENOTDIR, "Not a directory");
    unlink(dir);
    tr_free(&t);
}

/* Only meta, which is cut after its first page. */
static void only_meta(void **state)
{
    (void)state;
    struct testrec t;
    struct kymo_event ev;
    uint32_t n;
    char path[128];
    in_data(&t, 1, true);
    t.slots[0].events = 17;
    tr_write(&t, dir);
    snprintf(path, sizeof path, "%s/meta", dir);
    assert_int_equal(truncate(path, KYMO_META_BYTES), 0);
    snprintf(path, sizeof path, "%s/dict", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/ring", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/data.000001", dir);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); /* not a data file: counted, and not opened in a blocking way */
    struct kymo_reader *r = open_written();
    assert_int_equal(kymo_reader_slots(r, &n)[0].events, 0);
    assert_int_equal(n, TR_SLOTS);
    assert_int_equal(kymo_reader_next(r, &ev), 0);
    assert_int_equal(kymo_reader_damage(r)->segments_bad, 1);
    kymo_reader_close(r);
    tr_free(&t);
}

/* ---- data files ---- */

static void cut_at_every_byte(void **state)
{
    (void)state;
    struct testrec t;
    unsigned of[4];
    in_data(&t, 3, true);
    size_t whole = t.data[1].n, each = whole / 3;
    if (each == 0) {
        tr_free(&t);
        fail_msg("nothing was written");
        return;
    }
    for (size_t n = 0; n <= whole; n++) {
        t.data[1].n = n;
        tr_write(&t, dir);
        if (n == 0) /* tr_write does not write empty files */
            tr_file(dir, "data.000001", "", 0);
        struct kymo_reader *r = open_written();
        count(r, of, 4);
        for (unsigned seq = 1; seq <= 3; seq++) {
            size_t begin = (seq - 1) * each;
            size_t have = n <= begin ? 0 : n - begin < SEGMENT_USED ? n - begin : SEGMENT_USED;
            unsigned records = have < KYMO_SEG_HEADER ? 0 : (unsigned)(have - KYMO_SEG_HEADER) / 17;
            assert_int_equal(of[seq], records);
        }
        const struct kymo_damage *d = kymo_reader_damage(r);
        size_t rest = n % each;
        bool clean = rest == 0 || rest >= SEGMENT_USED;
        assert_int_equal(d->bytes_cut == 0, clean);
        kymo_reader_close(r);
    }
    tr_free(&t);
}

/* With checksums, a flipped bit affects only its own segment, and never yields a wrong event.
 * Without them, it must do no harm. */
static void bit_flips_in_data(void **state)
{
    (void)state;
    struct testrec t;
    for (unsigned crc = 0; crc < 2; crc++) {
        in_data(&t, 3, crc == 1);
        size_t each = t.data[1].n / 3;
        for (size_t bit = each * 8; bit < 2 * each * 8; bit += 3) {
            unsigned of[4] = {0};
            struct kymo_event ev;
            t.data[1].p[bit / 8] ^= (uint8_t)(1 << bit % 8);
            struct kymo_reader *r = open_it(&t);
            while (kymo_reader_next(r, &ev) == 1) {
                if (ev.who < 4)
                    of[ev.who]++;
                bool in_header = bit / 8 - each < KYMO_SEG_HEADER;
                assert_true(ev.id == KYMO_E_CALL || (crc == 0 && !in_header));
                /* Damage to one segment does not move the events of others. */
                if (crc == 1 || in_header)
                    assert_true(ev.ticks / 1000000 == ev.who || (in_header && ev.who == 2));
            }
            size_t in_segment = bit / 8 - each;
            assert_int_equal(of[1], RECORDS);
            /* A false sequence number may make it look like a copy of the third. */
            if (in_segment < 64 || in_segment >= 72)
                assert_true(of[3] >= RECORDS); /* and possibly a changed one of the second */
            if (crc == 1 && in_segment >= KYMO_SEG_HEADER && in_segment < SEGMENT_USED) {
                assert_int_equal(of[2], 0);
                assert_int_equal(kymo_reader_damage(r)->segments_bad, 1);
            }
            kymo_reader_close(r);
            t.data[1].p[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        tr_free(&t);
    }
}

/* Foreign bytes and zeros between valid segments. */
static void garbage_between_segments(void **state)
{
    (void)state;
    struct testrec t;
    struct testseg s;
    unsigned of[6];
    uint8_t *junk = malloc(200001);
    assert_non_null(junk);
    tr_init(&t);
    t.meta.policy = KYMO_DISCARD;
    for (size_t i = 0; i < 200001; i++)
        junk[i] = (uint8_t)(i * 7);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        segment(&s, &t, 0, seq == 3 ? 5 : seq); /* 3 and 4 are missing */
        ts_close(&s, true);
        tr_to_data(&t, 1, &s, true);
        if (seq == 1)
            tr_append(&t.data[1], junk, 200001);
        memset(junk, 0, 200001);
        if (seq == 2)
            tr_append(&t.data[1], junk, 70000); /* a hole that was never written */
    }
    struct kymo_reader *r = open_it(&t);
    count(r, of, 6);
    assert_int_equal(of[1], RECORDS);
    assert_int_equal(of[2], RECORDS);
    assert_int_equal(of[5], RECORDS);
    assert_int_equal(kymo_reader_damage(r)->segments_bad, 1);
    assert_int_equal(kymo_reader_damage(r)->bytes_cut, 200001);
    assert_int_equal(kymo_reader_damage(r)->seq_gaps, 2);
    assert_int_equal(kymo_reader_damage(r)->records_bad, 0);
    kymo_reader_close(r);
    free(junk);
    tr_free(&t);
}

/* A segment of another recording, and one of a thread that does not exist. */
static void foreign_segments(void **state)
{
    (void)state;
    struct testrec t;
    struct testseg s;
    unsigned of[4];
    tr_init(&t);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        segment(&s, &t, 0, seq);
        ts_close(&s, true);
        if (seq == 1)
            s.b[4] ^= 1; /* uuid */
        if (seq == 2)
            s.b[24] = TR_SLOTS; /* instance */
        tr_to_data(&t, 1, &s, true);
    }
    struct kymo_reader *r = open_it(&t);
    count(r, of, 4);
    assert_int_equal(of[1] + of[2], 0);
    assert_int_equal(of[3], RECORDS);
    assert_true(kymo_reader_damage(r)->segments_bad >= 1);
    assert_int_equal(kymo_reader_damage(r)->bytes_cut, t.data[1].n / 3 * 2);
    kymo_reader_close(r);
    tr_free(&t);
}

/* A valid segment that claims the space of the following ones: invalid headers, and a valid segment
 * after them. */
static void lying_segment(void **state)
{
    (void)state;
    struct testrec t;
    struct testseg s;
    unsigned of[4];
    tr_init(&t);
    segment(&s, &t, 0, 1);
    ts_close(&s, true);
    tr_to_data(&t, 1, &s, true);
    uint64_t bits = TR_SEGMENT * 8;
    memcpy(t.data[1].p + 56, &bits, 8);
    for (unsigned i = 0; i < 20; i++) {
        segment(&s, &t, 0, 2);
        memset(s.b + 64, 0, 8); /* no sequence number */
        tr_append(&t.data[1], s.b, i < 10 ? KYMO_SEG_HEADER : 24);
    }
    segment(&s, &t, 0, 2);
    ts_close(&s, true);
    tr_to_data(&t, 1, &s, true);
    tr_append(&t.data[1], s.b, 3000); /* a copy, whose end is claimed by the first one */
    struct kymo_reader *r = open_it(&t);
    count(r, of, 4);
    assert_int_equal(of[1], RECORDS);
    assert_int_equal(of[2], RECORDS);
    /* The wrong size, the headers, and what the copy leaves over: each is counted once. */
    assert_in_range(kymo_reader_damage(r)->segments_bad, 21, 23);
    kymo_reader_close(r);
    tr_free(&t);
}

/* ---- the ring ---- */

static void crashed_ring(void **state)
{
    (void)state;
    struct testrec t;
    struct testseg s;
    unsigned of[8];
    tr_init(&t);
    t.meta.state = KYMO_ACTIVE;
    t.meta.os_pid = 0;
    for (uint64_t seq = 2; seq <= 5; seq++) {
        segment(&s, &t, 3, seq);
        if (seq < 5)
            ts_close(&s, false);
        tr_to_ring(&t, &s);
    }
    /* The open segment's committed bytes end, garbage follows. */
    uint8_t *ring = t.ring.p + (3 * TR_SEGS + 4 % TR_SEGS) * TR_SEGMENT;
    memset(ring + SEGMENT_USED, 0xee, 500);
    /* One segment is being reused: commit is 0. */
    memset(t.ring.p + (3 * TR_SEGS + 1) * TR_SEGMENT + 80, 0, 8);
    struct kymo_reader *r = open_it(&t);
    assert_true(kymo_reader_crashed(r));
    count(r, of, 8);
    assert_int_equal(of[2], 0);
    assert_int_equal(of[3], RECORDS);
    assert_int_equal(of[4], RECORDS);
    assert_int_equal(of[5], RECORDS);
    static const struct kymo_damage none;
    assert_memory_equal(kymo_reader_damage(r), &none, sizeof none);
    kymo_reader_close(r);

    /* Any place may have any segment, duplicates are read once, and segments of other recordings
     * are ignored. */
    uint8_t *other = t.ring.p + 5 * TR_SEGS * TR_SEGMENT;
    memcpy(other, t.ring.p + (3 * TR_SEGS + 2) * TR_SEGMENT, TR_SEGMENT);
    memcpy(other + TR_SEGMENT, other, TR_SEGMENT);
    other[TR_SEGMENT + 4] ^= 1;
    r = open_it(&t);
    count(r, of, 8);
    assert_int_equal(of[3], RECORDS);
    assert_int_equal(kymo_reader_damage(r)->segments_bad, 1);
    kymo_reader_close(r);

    /* The file ends in segment 4 of slot 3. */
    size_t whole = t.ring.n;
    t.ring.n = (3 * TR_SEGS + 3) * TR_SEGMENT + KYMO_SEG_HEADER + 5 * 17;
    r = open_it(&t);
    count(r, of, 8);
    assert_int_equal(of[5], RECORDS);
    assert_int_equal(of[3], RECORDS);
    assert_int_equal(of[4], 5);
    assert_true(kymo_reader_damage(r)->bytes_cut >= whole - t.ring.n);
    kymo_reader_close(r);
    tr_free(&t);
}

/* A bad record in the middle: those before it are valid. */
static void bad_records(void **state)
{
    (void)state;
    struct bad {
        uint8_t bytes[20];
        size_t n;
    } bads[] = {
        {{50}, 20},                                                         /* no such event */
        {{255, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 20},                    /* id larger than a byte */
        {{255, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, 20},                    /* back in time */
        {{KYMO_E_CALL}, 3},                                                 /* cut header */
        {{KYMO_E_CALL}, 16},                                                /* cut fields */
        {{KYMO_E_GC_MINOR_END, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5}, 20}, /* impossible count */
        {{KYMO_E_IN | KYMO_HAS_CONTENT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 20},
    };
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct testrec t;
        struct testseg s;
        unsigned of[4];
        tr_init(&t);
        segment(&s, &t, 0, 1);
        memcpy(s.b + s.len, bads[i].bytes, bads[i].n);
        s.len += (uint32_t)bads[i].n;
        ts_commit(&s);
        tr_to_ring(&t, &s);
        segment(&s, &t, 0, 2);
        tr_to_ring(&t, &s);
        struct kymo_reader *r = open_it(&t);
        for (unsigned pass = 0; pass < 2; pass++) {
            const uint8_t *bytes;
            size_t len;
            count(r, of, 4);
            assert_int_equal(of[1], RECORDS);
            assert_int_equal(of[2], RECORDS);
            assert_int_equal(kymo_reader_damage(r)->records_bad, 1); /* once, however often it is read */
            assert_int_equal(kymo_reader_damage(r)->bytes_cut, bads[i].n);
            assert_int_equal(kymo_reader_segment(r, 0, &bytes, &len), 1);
            assert_int_equal(len, SEGMENT_USED);
            kymo_reader_rewind(r);
        }
        kymo_reader_close(r);
        tr_free(&t);
    }
}

/* Segments 1 .. 4 of thread 0, the last one open. Later, 5 and 6 are in the places of 1 and 2, and
 * 4 has grown. */
static void before(struct testrec *t)
{
    struct testseg s;
    for (uint64_t seq = 1; seq <= 4; seq++) {
        segment(&s, t, 0, seq);
        if (seq < 4)
            ts_close(&s, false);
        tr_to_ring(t, &s);
    }
}

static void move_on(struct testrec *t)
{
    struct testseg s;
    char path[128];
    uint8_t *last = t->ring.p + 3 * TR_SEGMENT;
    uint64_t commit = SEGMENT_USED + 17;
    for (uint64_t seq = 5; seq <= 6; seq++) {
        segment(&s, t, 0, seq);
        tr_to_ring(t, &s);
    }
    memcpy(last + SEGMENT_USED, last + SEGMENT_USED - 17, 17);
    memcpy(last + 80, &commit, 8);
    snprintf(path, sizeof path, "%s/ring", dir);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, t->ring.p, t->ring.n, 0), t->ring.n);
    close(fd);
}

/* The recorder overwrites part of the pool between opening and reading: those segments are left
 * out, the others are unchanged. Before the first event is delivered this moves the horizon; later
 * it leaves a gap. */
static void overwritten_while_read(void **state)
{
    (void)state;
    for (unsigned given = 0; given < 2; given++) {
        struct testrec t;
        struct kymo_event ev;
        unsigned n = 0;
        uint64_t ticks;
        int64_t ns;
        tr_init(&t);
        t.meta.state = KYMO_ACTIVE;
        before(&t);
        struct kymo_reader *r = open_it(&t);
        for (; n < given; n++)
            assert_int_equal(kymo_reader_next(r, &ev), 1);
        move_on(&t);
        while (kymo_reader_next(r, &ev) == 1) {
            assert_true(ev.who >= 3 - 2 * given && ev.who <= 4 && ev.who != 2 && !ev.incomplete);
            n++;
        }
        /* What was there when it was opened, and what was read before the change. */
        assert_int_equal(n, (2 + given) * RECORDS);
        assert_int_equal(kymo_reader_damage(r)->segments_moved, given);
        assert_int_equal(kymo_reader_damage(r)->segments_bad, 0);
        assert_int_equal(kymo_reader_horizon(r, &ticks, &ns), given == 0);
        assert_int_equal(ticks, given == 0 ? 3000000 : 1000000);
        kymo_reader_close(r);
        tr_free(&t);
    }
}

/* The only segment of a thread is overwritten before it is read, and its last event was later than
 * the beginning of all others: the slot has the time. */
static void last_one_overwritten(void **state)
{
    (void)state;
    struct testrec t;
    struct testseg s;
    struct kymo_event ev;
    unsigned n = 0;
    uint64_t ticks;
    int64_t ns;
    tr_init(&t);
    t.meta.state = KYMO_ACTIVE;
    for (uint32_t slot = 0; slot < 2; slot++) {
        ts_open(&s, &t, slot, 1, 1000000 + slot * 5000);
        for (uint64_t i = 0; i < 10; i++)
            ts_wm(&s, 1000000 + slot * 5000 + i * 1000, KYMO_E_CALL, slot, 0);
        tr_to_place(&t, &s, slot);
        t.slots[slot].used = 1;
        t.slots[slot].seq = 1;
    }
    struct kymo_reader *r = open_it(&t);
    ts_open(&s, &t, 1, 2, 1014000);
    tr_to_place(&t, &s, 0);
    t.slots[0].gone_until = 1009000;
    tr_write(&t, dir);
    for (; kymo_reader_next(r, &ev) == 1; n++)
        assert_true(ev.who == 1 && ev.ticks > 1009000 && !ev.incomplete);
    assert_int_equal(n, 5);
    assert_true(kymo_reader_horizon(r, &ticks, &ns));
    assert_int_equal(ticks, 1009000);
    kymo_reader_close(r);
    tr_free(&t);
}

/* Policy discard: segments that have left the ring are found in the data files, also in one created
 * after the recording was opened. */
static void drained_while_read(void **state)
{
    (void)state;
    struct testrec t;
    struct testseg s;
    unsigned of[8];
    tr_init(&t);
    t.meta.policy = KYMO_DISCARD;
    t.meta.state = KYMO_ACTIVE;
    for (uint64_t seq = 1; seq <= 4; seq++) {
        segment(&s, &t, 0, seq);
        if (seq < 4)
            ts_close(&s, false);
        tr_to_ring(&t, &s);
        if (seq == 1)
            tr_to_data(&t, 1, &s, true);
    }
    struct kymo_reader *r = open_it(&t);
    for (uint64_t seq = 2; seq <= 4; seq++) {
        segment(&s, &t, 0, seq);
        if (seq == 4) /* it was extended before it was closed */
            ts_wm(&s, 1000000 * seq + RECORDS, KYMO_E_CALL, seq, 0);
        ts_close(&s, true);
        tr_to_data(&t, seq < 4 ? 1 : 2, &s, true);
    }
    for (uint64_t seq = 5; seq <= 8; seq++) {
        segment(&s, &t, 0, seq);
        tr_to_ring(&t, &s);
    }
    tr_write(&t, dir);
    count(r, of, 8);
    for (unsigned seq = 1; seq <= 4; seq++)
        assert_int_equal(of[seq], RECORDS);
    assert_int_equal(of[5] + of[6] + of[7], 0);
    static const struct kymo_damage none;
    assert_memory_equal(kymo_reader_damage(r), &none, sizeof none);
    kymo_reader_close(r);
    tr_free(&t);
}

/* ---- the dictionary ---- */

static void damaged_dictionary(void **state)
{
    (void)state;
    struct testrec t;
    tr_init(&t);
    uint32_t a = tr_atom(&t, "first");
    size_t hole = t.dict.n;
    uint32_t b = tr_atom(&t, "never_completed"), c = tr_atom(&t, "flipped");
    size_t at = t.dict.n;
    uint32_t d = tr_atom(&t, "last");
    uint32_t e = tr_mfa(&t, a, b, 1);
    memset(t.dict.p + hole, 0, 4); /* the magic of b is missing */
    t.dict.p[at - 3] ^= 4;         /* a byte of c */
    t.meta.dict_used = 1ull << 60; /* and the length is invalid */
    struct kymo_reader *r = open_it(&t);
    char text[64];
    assert_int_equal(kymo_reader_atom(r, a).len, 5);
    assert_int_equal(kymo_reader_dict_kind(r, b), 0);
    assert_int_equal(kymo_reader_dict_kind(r, c), 0);
    assert_int_equal(kymo_reader_atom(r, d).len, 4);
    assert_true(kymo_reader_damage(r)->dict_bad > 0);
    kymo_format_mfa(r, e, text, sizeof text);
    assert_string_equal(text, "first:?/1");
    kymo_reader_close(r);

    t.meta.dict_used = 1; /* too small: there are more entries, and the reader continues */
    r = open_it(&t);
    assert_int_equal(kymo_reader_dict_size(r), e);
    kymo_reader_close(r);
    tr_free(&t);
}

/* Entries with valid checksums and impossible ids or lengths. */
static void hostile_dictionary(void **state)
{
    (void)state;
    struct testrec t;
    tr_init(&t);
    t.next_id = UINT32_MAX;
    tr_atom(&t, "huge_id");
    t.next_id = 5;
    tr_define(&t, KYMO_DICT_MFA, "short", 5);
    tr_define(&t, 77, "kind", 4);
    t.next_id = 7;
    tr_atom(&t, "seven");
    t.next_id = 7;
    tr_atom(&t, "another_seven");
    t.next_id = 8;
    uint32_t self = tr_mfa(&t, 8, 8, 255); /* refers to itself, which is not an atom */
    struct kymo_reader *r = open_it(&t);
    char text[64];
    assert_int_equal(kymo_reader_dict_size(r), 8);
    assert_int_equal(kymo_reader_atom(r, 7).len, 5);
    assert_int_equal(kymo_reader_dict_kind(r, 5), 0);
    kymo_format_mfa(r, self, text, sizeof text);
    assert_string_equal(text, "?:?/255");
    kymo_reader_close(r);
    tr_free(&t);
}

/* Segments that the recorder has counted and no file has. */
static void missing_files(void **state)
{
    (void)state;
    struct testrec t;
    struct testseg s;
    char name[64];
    tr_init(&t);
    t.meta.policy = KYMO_DISCARD;
    t.meta.files = 3;
    t.slots[0].events = 4 * RECORDS;
    for (uint64_t seq = 1; seq <= 4; seq++) {
        segment(&s, &t, 0, seq);
        ts_after(&s, 1000000 * seq - 1, (seq - 1) * RECORDS);
        ts_close(&s, true);
        tr_to_data(&t, seq < 3 ? 1 : (unsigned)seq - 1, &s, true);
    }
    struct kymo_reader *r = open_it(&t);
    assert_int_equal(kymo_reader_damage(r)->events_missing, 0);
    assert_false(kymo_reader_missing_file(r, name, sizeof name));
    kymo_reader_close(r);

    char path[128];
    snprintf(path, sizeof path, "%s/data.000003", dir);
    assert_int_equal(truncate(path, 0), 0);
    r = open_written();
    assert_int_equal(kymo_reader_damage(r)->events_missing, RECORDS);
    assert_int_equal(kymo_reader_missing(r, 2 * RECORDS), 2 * RECORDS);
    assert_false(kymo_reader_missing_file(r, name, sizeof name));
    kymo_reader_close(r);

    snprintf(path, sizeof path, "%s/data.000002", dir);
    assert_int_equal(unlink(path), 0);
    r = open_written();
    assert_int_equal(kymo_reader_damage(r)->events_missing, 2 * RECORDS);
    assert_true(kymo_reader_missing_file(r, name, sizeof name));
    assert_string_equal(name, "data.000002");
    kymo_reader_close(r);

    assert_int_equal(kymo_reader_damage(r = open_written())->dict_missing, 0);
    kymo_reader_close(r);
    t.meta.dict_used = 64;
    r = open_it(&t);
    assert_int_equal(kymo_reader_damage(r)->dict_missing, 0);
    kymo_reader_close(r);
    snprintf(path, sizeof path, "%s/dict", dir);
    assert_int_equal(unlink(path), 0);
    r = open_written();
    assert_int_equal(kymo_reader_damage(r)->dict_missing, 1);
    assert_int_equal(kymo_reader_damage(r)->dict_bad, 64);
    kymo_reader_close(r);
    t.meta.state = KYMO_ACTIVE; /* counters of a recorder that was killed may not fit */
    t.meta.os_pid = 0;
    r = open_it(&t);
    assert_int_equal(kymo_reader_damage(r)->events_missing, 0);
    kymo_reader_close(r);
    tr_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(refused, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(only_meta, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(cut_at_every_byte, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(bit_flips_in_data, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(garbage_between_segments, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(lying_segment, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(foreign_segments, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(crashed_ring, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(bad_records, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(overwritten_while_read, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(last_one_overwritten, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(drained_while_read, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(missing_files, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(damaged_dictionary, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(hostile_dictionary, make_dir, drop_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
