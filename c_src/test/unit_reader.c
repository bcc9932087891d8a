/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the reader with valid recordings: every record in every variant, order of time, the
 * dictionary, clocks, raw segments. The recordings are written by testrec.h, which shares only the
 * header of the format with the reader.
 */
#include "reader_fixture.h"

static void assert_clean(const struct kymo_reader *r)
{
    static const struct kymo_damage none;
    assert_memory_equal(kymo_reader_damage(r), &none, sizeof none);
}

/* ---- records ---- */

static const struct {
    unsigned id;
    const char *fields;
} types[] = {
#define KYMO_X(id, sym, name, fields) {id, fields},
    KYMO_EVENTS(KYMO_X)
#undef KYMO_X
};

/* The values of the fields of record number i, all different. */
static uint64_t who_of(size_t i)
{
    return KYMO_IDENT(KYMO_I_PID, 1000 + i);
}

/* n bytes of a number, in little-endian order like this machine. */
static void put(uint8_t *p, uint64_t v, size_t n)
{
    memcpy(p, &v, n);
}

/* In both forms. */
static uint32_t depth_of(size_t i, unsigned variant)
{
    return (uint32_t)i + (variant != 0 ? KYMO_DEPTH_WIDE << 16 : 0);
}

static size_t body(uint8_t *p, size_t i, unsigned variant)
{
    size_t n = 0;
    for (const char *f = types[i].fields; *f != '\0'; f++) {
        uint64_t v = 0;
        size_t size = 4;
        switch (*f) {
        case 'W':
            v = who_of(i);
            size = 8;
            break;
        case 'P':
            v = KYMO_IDENT(KYMO_I_PORT, i);
            size = 8;
            break;
        case 'M': v = 100 + i; break;
        case 'A': v = 200 + i; break;
        case 'S': v = 300 + i; break;
        case 'K':
            v = i % 7;
            size = 1;
            break;
        case 'Q':
            v = 0x8877665544332211ull + i;
            size = 8;
            break;
        case 'U':
            v = (400 + i) | (500 + i) << 32;
            size = 8;
            break;
        case 'R':
            p[n++] = (uint8_t)(1 + i % 7);
            v = 0x1122334455667788ull + i;
            size = 8;
            break;
        case 'I': v = 600 + i; break;
        case 'N':
            v = 0x7766554433221100ull + i;
            size = 8;
            break;
        case 'B':
            v = 0x6655443322110077ull + i;
            size = 8;
            break;
        case 'L': v = 700 + i; break;
        case 'O': v = 900 + i; break;
        case 'D': n += tr_put_depth(p + n, depth_of(i, variant)); continue;
        case 'G':
            p[n++] = KYMO_GC_SIZES;
            for (uint64_t k = 0; k < KYMO_GC_SIZES; k++) {
                put(p + n, 1000000 * k + i, 8);
                n += 8;
            }
            continue;
        case 'J': v = 700 + i; break;
        case 'C':
            put(p + n, 2, 2);
            for (uint64_t k = 0; k < 2; k++) {
                put(p + n + 2 + 12 * k, KYMO_N_PROCESSES + k, 2);
                put(p + n + 4 + 12 * k, k, 2);
                put(p + n + 6 + 12 * k, 1000 * k + i, 8);
            }
            n += 2 + 2 * 12;
            continue;
        default: fail_msg("no such field: %c", *f);
        }
        memcpy(p + n, &v, size);
        n += size;
    }
    if ((variant & KYMO_HAS_CONTENT) != 0) {
        p[n] = KYMO_C_CUT;
        put(p + n + 1, 2, 2);
        p[n + 3] = 97;
        p[n + 4] = (uint8_t)i;
        n += 5;
    }
    if ((variant & KYMO_HAS_OPTS) != 0) {
        p[n] = KYMO_O_SCHED | KYMO_O_TS | KYMO_O_MSR;
        put(p + n + 1, 3 + i, 2);
        p[n + 3] = KYMO_TS_STRICT;
        put(p + n + 4, (uint64_t)(-5 - (int64_t)i), 8);
        put(p + n + 12, 77, 8);
        put(p + n + 20, 1, 2);
        p[n + 22] = 106;
        n += 23;
    }
    return n;
}

static void check(const struct kymo_event *ev, size_t i, unsigned variant)
{
    const char *f = types[i].fields;
    static const uint8_t forms[KYMO_E_COUNT] = {[KYMO_E_SEND_REF] = KYMO_E_SEND,
                                                [KYMO_E_SEND_NUMBERED] = KYMO_E_SEND,
                                                [KYMO_E_SEND_REF_NUMBERED] = KYMO_E_SEND,
                                                [KYMO_E_RECEIVE_REF] = KYMO_E_RECEIVE,
                                                [KYMO_E_RECEIVE_NUMBERED] = KYMO_E_RECEIVE,
                                                [KYMO_E_RECEIVE_REF_NUMBERED] = KYMO_E_RECEIVE,
                                                [KYMO_E_SPAWNED_PROC] = KYMO_E_SPAWNED,
                                                [KYMO_E_EXIT_IN] = KYMO_E_EXIT,
                                                [KYMO_E_IN_RUNNABLE] = KYMO_E_IN,
                                                [KYMO_E_OUT_REASON] = KYMO_E_OUT,
                                                [KYMO_E_CALL_DEPTH] = KYMO_E_CALL,
                                                [KYMO_E_RETURN_TO_DEPTH] = KYMO_E_RETURN_TO,
                                                [KYMO_E_RETURN_FROM_DEPTH] = KYMO_E_RETURN_FROM,
                                                [KYMO_E_EXCEPTION_FROM_DEPTH] = KYMO_E_EXCEPTION_FROM,
                                                [KYMO_E_SLOW_DEPTH] = KYMO_E_SLOW};
    unsigned id = forms[types[i].id];
    assert_int_equal(ev->id, id != 0 ? id : types[i].id);
    assert_int_equal(ev->number, strchr(f, 'N') ? 0x7766554433221100ull + i : 0);
    assert_int_equal(ev->depth, strchr(f, 'D') ? depth_of(i, variant) : KYMO_DEPTH_UNKNOWN);
    assert_int_equal(ev->passed, strchr(f, 'L') ? 700 + i : 0);
    assert_int_equal(ev->begun, strchr(f, 'B') ? 0x6655443322110077ull + i : 0);
    assert_int_equal(ev->omitted, strchr(f, 'O') ? 900 + i : 0);
    assert_int_equal(ev->who, strchr(f, 'W') ? who_of(i) : KYMO_IDENT_NONE);
    assert_int_equal(ev->peer, strchr(f, 'P') ? KYMO_IDENT(KYMO_I_PORT, i) : KYMO_IDENT_NONE);
    assert_int_equal(ev->mfa, strchr(f, 'M') ? 100 + i : 0);
    assert_int_equal(ev->atom, strchr(f, 'A') ? 200 + i : 0);
    assert_int_equal(ev->size, strchr(f, 'S') ? 300 + i : 0);
    assert_int_equal(ev->kind, strchr(f, 'K') ? i % 7 : 0);
    assert_int_equal(ev->value, strchr(f, 'Q') ? 0x8877665544332211ull + i : 0);
    assert_int_equal(ev->message, strchr(f, 'R') ? 1 + i % 7 : 0);
    assert_int_equal(ev->ref, strchr(f, 'R') ? 0x1122334455667788ull + i : 0);
    assert_int_equal(ev->initial, strchr(f, 'I') ? 600 + i : 0);
    assert_int_equal(ev->serial_prev, strchr(f, 'U') ? 400 + i : 0);
    assert_int_equal(ev->serial_cur, strchr(f, 'U') ? 500 + i : 0);
    assert_int_equal(ev->n_gc, strchr(f, 'G') ? KYMO_GC_SIZES : 0);
    for (uint64_t k = 0; k < ev->n_gc; k++)
        assert_int_equal(ev->gc[k], 1000000 * k + i);
    assert_int_equal(ev->in_mfa, strchr(f, 'J') ? 700 + i : 0);
    assert_int_equal(ev->n_counters, strchr(f, 'C') ? 2 : 0);
    for (uint32_t k = 0; k < ev->n_counters; k++) {
        struct kymo_counter_value c = kymo_counter_at(ev, k);
        assert_int_equal(c.counter, KYMO_N_PROCESSES + k);
        assert_int_equal(c.index, k);
        assert_int_equal(c.value, 1000 * k + i);
    }
    assert_int_equal(ev->has_content, (variant & KYMO_HAS_CONTENT) != 0);
    assert_int_equal(ev->content_len, ev->has_content ? 2 : 0);
    assert_int_equal(ev->content_flags, ev->has_content ? KYMO_C_CUT : 0);
    if (ev->has_content)
        assert_int_equal(ev->content[1], i);
    assert_int_equal(ev->has_opts, (variant & KYMO_HAS_OPTS) != 0);
    assert_int_equal(ev->msr_len, ev->has_opts ? 1 : 0);
    if (ev->has_opts) {
        assert_int_equal(ev->opt_flags, KYMO_O_SCHED | KYMO_O_TS | KYMO_O_MSR);
        assert_int_equal(ev->opt_sched, 3 + i);
        assert_int_equal(ev->opt_ts, KYMO_TS_STRICT);
        assert_int_equal(ev->opt_a, -5 - (int64_t)i);
        assert_int_equal(ev->opt_b, 77);
        assert_int_equal(ev->msr[0], 106);
    }
}

static void every_record_in_every_variant(void **state)
{
    (void)state;
    static const unsigned variants[] = {0, KYMO_HAS_CONTENT, KYMO_HAS_OPTS, KYMO_HAS_CONTENT | KYMO_HAS_OPTS};
    size_t n = sizeof types / sizeof *types;
    for (unsigned extended = 0; extended < 2; extended++) {
        for (unsigned v = 0; v < 4; v++) {
            struct testrec t;
            struct testseg s;
            struct kymo_event ev;
            tr_init(&t);
            ts_open(&s, &t, 2, 1, 1000000);
            for (size_t i = 0; i < n; i++) {
                uint8_t b[512];
                size_t len = body(b, i, variants[v]);
                ts_record(&s, 1000000 + i, types[i].id | variants[v], b, len, extended == 1);
            }
            ts_close(&s, true);
            tr_to_data(&t, 1, &s, true);
            struct kymo_reader *r = open_it(&t);
            for (size_t i = 0; i < n; i++) {
                memset(&ev, 0xaa, sizeof ev);
                assert_int_equal(kymo_reader_next(r, &ev), 1);
                assert_int_equal(ev.ticks, 1000000 + i);
                assert_int_equal(ev.slot, 2);
                check(&ev, i, variants[v]);
            }
            assert_int_equal(kymo_reader_next(r, &ev), 0);
            assert_int_equal(kymo_reader_next(r, &ev), 0);
            assert_clean(r);
            kymo_reader_close(r);
            tr_free(&t);
        }
    }
}

static void long_gaps_between_records(void **state)
{
    (void)state;
    static const uint64_t times[] = {1000000,         1000000,         0xffffffffull,
                                     0x100000000ull,  0x1ffffffffull,  0x5000000000ull,
                                     0x5000000001ull, 0x50ffffffffull, INT64_MAX};
    struct testrec t;
    struct testseg s;
    struct kymo_event ev;
    tr_init(&t);
    ts_open(&s, &t, 0, 1, times[0]);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        ts_wm(&s, times[i], KYMO_E_IN, 1, 0);
    ts_close(&s, true);
    tr_to_data(&t, 1, &s, false);
    struct kymo_reader *r = open_it(&t);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        assert_int_equal(kymo_reader_next(r, &ev), 1);
        assert_int_equal(ev.ticks, times[i]);
        assert_int_equal(ev.ns, times[i]);
    }
    assert_int_equal(kymo_reader_next(r, &ev), 0);
    assert_clean(r);
    kymo_reader_close(r);
    tr_free(&t);
}

/* ---- order ---- */

/* Eight threads, with segments in the ring and in both data files, some of them in two places. */
static void merge_of_all_threads(void **state)
{
    (void)state;
    struct testrec t;
    struct testseg s;
    uint64_t rng = 12345, sum = 0, records = 0;
    tr_init(&t);
    for (uint32_t slot = 0; slot < TR_SLOTS; slot++) {
        uint64_t ts = 1000000 + slot * 3;
        for (uint64_t seq = 1; seq <= 6; seq++) {
            ts_open(&s, &t, slot, seq, ts);
            for (unsigned i = 0; i < 50; i++) {
                rng = rng * 6364136223846793005ull + 1442695040888963407ull;
                ts += (rng >> 40) % 100;
                ts_wm(&s, ts, KYMO_E_CALL, records, slot);
                sum += records++;
            }
            if (seq != 6 || slot % 2 == 0)
                ts_close(&s, seq % 2 == 0); /* the last segments of odd slots are open */
            if (seq >= 3)
                tr_to_ring(&t, &s);
            if (seq <= 4)
                tr_to_data(&t, seq <= 2 ? 1 : 2, &s, slot % 2 == 0);
        }
    }
    struct kymo_reader *r = open_it(&t);
    for (unsigned pass = 0; pass < 3; pass++) {
        struct kymo_event ev, last = {.ticks = 0};
        uint64_t n = 0, got = 0, next_of[TR_SLOTS] = {0};
        while (kymo_reader_next(r, &ev) == 1) {
            assert_true(ev.ticks > last.ticks || (ev.ticks == last.ticks && ev.slot >= last.slot));
            assert_int_equal(ev.mfa, ev.slot);
            assert_true(ev.who >= next_of[ev.slot]);
            next_of[ev.slot] = ev.who + 1;
            got += ev.who;
            n++;
            last = ev;
            if (pass == 1 && n == 777)
                break; /* rewind from the middle too */
        }
        if (pass != 1) {
            uint64_t done, total;
            assert_int_equal(n, records);
            assert_int_equal(got, sum);
            kymo_reader_progress(r, &done, &total);
            assert_int_equal(done, total);
            assert_true(total > records * 17);
        }
        assert_clean(r);
        assert_int_equal(kymo_reader_rewind(r), 0);
    }
    /* Segments that are left out deliver no events and are not read. */
    uint64_t before[TR_SLOTS], skipped = 0, all, read;
    struct kymo_event ev, final = {.ns = 0};
    for (uint32_t slot = 0; slot < TR_SLOTS; slot++)
        before[slot] = slot % 2 == 0 ? 1000000 + 250 * 50 : 0;
    kymo_reader_skip(r, before, TR_SLOTS);
    for (uint64_t seen[TR_SLOTS] = {0}; kymo_reader_next(r, &ev) == 1; skipped++) {
        if (seen[ev.slot]++ == 0)
            assert_true(ev.slot % 2 == 0 ? ev.ticks < before[ev.slot] + 100 : ev.who == ev.slot * 300);
    }
    kymo_reader_progress(r, &read, &all);
    assert_true(skipped < records && read < all);
    uint64_t behind = 0;
    assert_int_equal(kymo_reader_rewind(r), 0);
    while (kymo_reader_next(r, &ev) == 1)
        behind += ev.ticks >= before[ev.slot];
    assert_true(skipped >= behind); /* no selected event is missing */
    int64_t first, last;
    assert_int_equal(kymo_reader_rewind(r), 0);
    assert_int_equal(kymo_reader_span(r, &first, &last), 0);
    assert_int_equal(kymo_reader_next(r, &ev), 1);
    assert_int_equal(first, ev.ns);
    while (kymo_reader_next(r, &ev) == 1)
        final = ev;
    assert_int_equal(last, final.ns);
    kymo_reader_close(r);
    tr_free(&t);
}

static void raw_segments(void **state)
{
    (void)state;
    struct testrec t;
    struct testseg s, other;
    struct kymo_segment h;
    const uint8_t *bytes;
    size_t len;
    tr_init(&t);
    /* An open segment in the ring: its header is not filled in yet. */
    ts_open(&s, &t, 1, 5, 2000000);
    for (uint64_t i = 0; i < 9; i++)
        ts_wm(&s, 2000000 + i * 5, KYMO_E_OUT, i, 1);
    ts_record(&s, 2000045, KYMO_E_STATE, "\x02", 1, false);
    tr_to_ring(&t, &s);
    ts_open(&other, &t, 0, 1, 1000000);
    ts_wm(&other, 1000001, KYMO_E_IN, 1, 1);
    ts_close(&other, true);
    tr_to_data(&t, 1, &other, false);
    struct kymo_reader *r = open_it(&t);
    assert_int_equal(kymo_reader_segment(r, 0, &bytes, &len), 1);
    memcpy(&h, bytes, sizeof h);
    assert_int_equal(h.instance, 0);
    assert_int_equal(h.events, 1);
    assert_int_equal(len, KYMO_SEG_HEADER + 17);
    assert_int_equal(h.content_bits, len * 8);
    assert_int_equal(h.packet_bits, len * 8);
    assert_int_equal(kymo_reader_segment(r, 1, &bytes, &len), 1);
    memcpy(&h, bytes, sizeof h);
    assert_int_equal(h.instance, 1);
    assert_int_equal(h.seq, 5);
    assert_int_equal(h.events, 9); /* a note is not an event */
    assert_int_equal(h.content_bits, len * 8);
    assert_int_equal(h.ts_end, 2000045);
    assert_memory_equal(bytes + KYMO_SEG_HEADER, s.b + KYMO_SEG_HEADER, len - KYMO_SEG_HEADER);
    assert_int_equal(len, s.len);
    assert_int_equal(kymo_reader_segment(r, 2, &bytes, &len), 0);
    assert_int_equal(kymo_reader_segment(r, UINT64_MAX, &bytes, &len), 0);
    assert_clean(r);
    kymo_reader_close(r);
    tr_free(&t);
}

static void empty_recording(void **state)
{
    (void)state;
    struct testrec t;
    struct kymo_event ev;
    int64_t first, last;
    const uint8_t *bytes;
    size_t len;
    tr_init(&t);
    struct kymo_reader *r = open_it(&t);
    assert_int_equal(kymo_reader_next(r, &ev), 0);
    assert_int_equal(kymo_reader_span(r, &first, &last), -ENODATA);
    assert_int_equal(kymo_reader_segment(r, 0, &bytes, &len), 0);
    assert_int_equal(kymo_reader_dict_size(r), 0);
    assert_clean(r);
    kymo_reader_close(r);
    tr_free(&t);
}

/* ---- names ---- */

/* The entries of a process are merged: unknown values in a later one do not replace known ones. An
 * entry with an invalid length is damaged, and those after it are read. */
static void relatives_add_up(void **state)
{
    (void)state;
    struct testrec t;
    uint64_t pid = KYMO_IDENT(KYMO_I_PID, 1), none = KYMO_IDENT_NONE, parent, caller;
    uint64_t father = KYMO_IDENT(KYMO_I_PID, 2), other = KYMO_IDENT(KYMO_I_PID, 3);
    uint64_t odd[4] = {pid, 0, 0, other};
    uint32_t name, mfa;
    tr_init(&t);
    uint32_t boss = tr_atom(&t, "boss");
    tr_relatives(&t, pid, boss, 0, father, none);
    tr_define(&t, KYMO_DICT_PROC, odd, sizeof odd);
    tr_process(&t, pid, 0, 0);
    tr_relatives(&t, pid, 0, 0, none, other);
    struct kymo_reader *r = open_it(&t);
    assert_true(kymo_reader_relatives(r, pid, &parent, &caller));
    assert_true(parent == father);
    assert_true(caller == other);
    assert_true(kymo_reader_process(r, pid, &name, &mfa));
    assert_int_equal(name, boss);
    assert_int_equal(kymo_reader_damage(r)->dict_bad, KYMO_DICT_HDR + 2 * sizeof pid); /* zeros excluded */
    kymo_reader_close(r);
    tr_free(&t);
}

static void dictionary(void **state)
{
    (void)state;
    struct testrec t;
    struct kymo_mfa mfa;
    const uint8_t *etf;
    uint32_t len, name, call;
    char text[128];
    tr_init(&t);
    uint32_t lists = tr_atom(&t, "lists"), map = tr_atom(&t, "map");
    uint32_t m1 = tr_mfa(&t, lists, map, 2);
    uint32_t odd = tr_atom(&t, "odd one"), empty = tr_atom(&t, "");
    uint32_t lists2 = tr_atom(&t, "lists"), m2 = tr_mfa(&t, lists2, map, 2), m3 = tr_mfa(&t, lists2, odd, 2);
    uint32_t term = tr_define(&t, KYMO_DICT_TERM,
                              "\x58\x77\x03"
                              "a@b\0\0\0\x07\0\0\0\x01\0\0\0\x02",
                              18);
    uint64_t pid = KYMO_IDENT(KYMO_I_PID, 42 | 3ull << 28);
    uint32_t p1 = tr_process(&t, pid, 0, m2);
    tr_process(&t, pid, odd, 0);
    uint64_t child = KYMO_IDENT(KYMO_I_PID, 4711);
    uint32_t p3 = tr_relatives(&t, child, 0, 0, pid, KYMO_IDENT_NONE);
    struct kymo_reader *r = open_it(&t);
    assert_int_equal(kymo_reader_dict_size(r), p3);
    assert_int_equal(kymo_reader_canonical(r, lists2), lists);
    assert_int_equal(kymo_reader_canonical(r, m2), m1);
    assert_int_equal(kymo_reader_canonical(r, m3), m3);
    assert_int_equal(kymo_reader_canonical(r, p1), p1);
    assert_int_equal(kymo_reader_canonical(r, 9999), 9999);
    assert_true(kymo_reader_mfa(r, m2, &mfa));
    assert_int_equal(mfa.module, lists);
    assert_int_equal(mfa.function, map);
    assert_int_equal(mfa.arity, 2);
    assert_false(kymo_reader_mfa(r, lists, &mfa)); /* that is an atom */
    assert_int_equal(mfa.arity, 0);
    assert_int_equal(kymo_reader_atom(r, m1).len, 1);
    assert_int_equal(kymo_reader_atom(r, empty).len, 0);
    assert_true(kymo_reader_term(r, term, &etf, &len));
    assert_int_equal(len, 18);
    assert_int_equal(kymo_reader_dict_kind(r, term), KYMO_DICT_TERM);
    assert_int_equal(kymo_reader_dict_kind(r, 0), 0);
    assert_true(kymo_reader_process(r, pid, &name, &call));
    assert_int_equal(name, odd);
    assert_int_equal(call, m1);
    assert_false(kymo_reader_process(r, 1, &name, &call));
    uint64_t parent, caller;
    assert_false(kymo_reader_relatives(r, pid, &parent, &caller));
    assert_true(kymo_reader_relatives(r, child, &parent, &caller));
    assert_int_equal(parent, pid);
    assert_true(caller == KYMO_IDENT_NONE);

    kymo_format_mfa(r, m3, text, sizeof text);
    assert_string_equal(text, "lists:'odd one'/2");
    kymo_format_mfa(r, 999, text, sizeof text);
    assert_string_equal(text, "?");
    assert_int_equal(kymo_format_ident(r, pid, text, sizeof text), 8);
    assert_string_equal(text, "<0.42.3>");
    kymo_format_ident(r, KYMO_IDENT(KYMO_I_PORT, 7), text, sizeof text);
    assert_string_equal(text, "#Port<0.7>");
    kymo_format_ident(r, KYMO_IDENT(KYMO_I_ATOM, odd), text, sizeof text);
    assert_string_equal(text, "'odd one'");
    kymo_format_ident(r, KYMO_IDENT(KYMO_I_ATOM, 1ull << 40), text, sizeof text);
    assert_string_equal(text, "?");
    kymo_format_ident(r, KYMO_IDENT(KYMO_I_TERM, term), text, sizeof text);
    assert_string_equal(text, "<a@b.7.1>");
    kymo_format_ident(r, KYMO_IDENT(KYMO_I_TERM, m1), text, sizeof text);
    assert_string_equal(text, "?");
    kymo_format_ident(r, KYMO_IDENT_NONE, text, sizeof text);
    assert_string_equal(text, "undefined");
    assert_int_equal(kymo_format_ident(r, pid, text, 4), 8); /* the length, as with snprintf */
    assert_string_equal(text, "<0.");
    assert_clean(r);
    kymo_reader_close(r);
    tr_free(&t);
}

/* Entries that cross the blocks in which the file is read. */
static void large_dictionary(void **state)
{
    (void)state;
    enum { N = 40000 };
    struct testrec t;
    char name[200], text[256];
    tr_init(&t);
    for (unsigned i = 1; i <= N; i++) {
        snprintf(name, sizeof name, "atom_%u_%.*s", i, (int)(i % 150),
                 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                 "xxxxxxxxxxx"
                 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
        assert_int_equal(tr_atom(&t, name), i);
    }
    assert_true(t.dict.n > 3u << 20);
    struct kymo_reader *r = open_it(&t);
    assert_int_equal(kymo_reader_dict_size(r), N);
    for (unsigned i = 1; i <= N; i++) {
        int len = snprintf(name, sizeof name, "atom_%u_", i);
        struct kymo_text a = kymo_reader_atom(r, i);
        assert_int_equal(a.len, (unsigned)len + i % 150);
        assert_memory_equal(a.s, name, (size_t)len);
        assert_int_equal(kymo_reader_canonical(r, i), i);
    }
    assert_true(kymo_format_atom(kymo_reader_atom(r, N), text, sizeof text) > 0);
    assert_clean(r);
    kymo_reader_close(r);
    tr_free(&t);
}

/* ---- time ---- */

static void calibrated_clock(void **state)
{
    (void)state;
    struct testrec t;
    tr_init(&t);
    t.meta.clock = KYMO_CLOCK_COUNTER;
    t.meta.ticks_per_sec = 2000000000;
    t.meta.t0_ticks = 1000;
    t.meta.t0_mono_ns = 5000;
    struct kymo_reader *r = open_it(&t);
    assert_int_equal(kymo_reader_ns(r, 1000), 5000); /* no points: nominal rate */
    assert_int_equal(kymo_reader_ns(r, 3000), 6000);
    assert_int_equal(kymo_reader_ns(r, 0), 4500);
    kymo_reader_close(r);

    /* 3 ticks per ns at first, then 2; the third point goes back and is left out. */
    t.meta.n_calib = 5;
    t.calib[0] = (struct kymo_calib){1000, 5000};
    t.calib[1] = (struct kymo_calib){1000 + 3000000000ull, 5000 + 1000000000};
    t.calib[2] = (struct kymo_calib){2000, 900000000};
    t.calib[3] = (struct kymo_calib){1000 + 5000000000ull, 5000 + 2000000000};
    t.calib[4] = (struct kymo_calib){1000 + 6000000000ull, 17};
    r = open_it(&t);
    assert_int_equal(kymo_reader_ns(r, 1000), 5000);
    assert_int_equal(kymo_reader_ns(r, 1000 + 300), 5100);
    assert_int_equal(kymo_reader_ns(r, 1000 + 3000000000ull), 5000 + 1000000000);
    assert_int_equal(kymo_reader_ns(r, 1000 + 4000000000ull), 5000 + 1500000000);
    assert_int_equal(kymo_reader_ns(r, 1000 + 5000000000ull), 5000 + 2000000000);
    assert_int_equal(kymo_reader_ns(r, 1000 + 9000000000ull),
                     5000 + 4000000000ll); /* the last rate goes on */
    assert_true(kymo_reader_ns(r, UINT64_MAX) > INT64_MAX / 4 * 3);
    int64_t last = INT64_MIN;
    for (uint64_t ticks = 0; ticks < 12000000000ull; ticks += 999983) {
        int64_t ns = kymo_reader_ns(r, ticks);
        assert_true(ns >= last);
        last = ns;
    }
    assert_int_equal(kymo_reader_wall_ns(r, 5000 + 17), 1700000000000000017);
    assert_int_equal(kymo_reader_erl_ns(r, 5000 - 3), -576460751000000003);
    kymo_reader_close(r);

    /* Extreme values cause no trap. */
    t.meta.ticks_per_sec = 0;
    t.meta.t0_mono_ns = INT64_MIN;
    t.meta.n_calib = UINT32_MAX;
    t.calib[KYMO_CALIB_MAX - 1] = (struct kymo_calib){UINT64_MAX, INT64_MAX};
    r = open_it(&t);
    last = INT64_MIN;
    for (unsigned bit = 0; bit < 64; bit++) {
        int64_t ns = kymo_reader_ns(r, 1ull << bit);
        assert_true(ns >= last);
        last = ns;
    }
    kymo_reader_wall_ns(r, INT64_MAX);
    kymo_reader_close(r);
    tr_free(&t);
}

/* Releases and thread names with terminal control sequences. */
static void texts_are_tame(void **state)
{
    (void)state;
    struct testrec t;
    uint32_t n;
    tr_init(&t);
    memcpy(t.meta.otp_release, "2\033[2J\177\233\n56789012", 16);
    memcpy(t.slots[1].thread_name, "\a2_scheduler\37712", 16);
    struct kymo_reader *r = open_it(&t);
    assert_string_equal(kymo_reader_meta(r)->otp_release, "2?[2J???5678901");
    assert_string_equal(kymo_reader_meta(r)->erts_version, "13.1.5");
    assert_string_equal(kymo_reader_slots(r, &n)[1].thread_name, "?2_scheduler?12");
    kymo_reader_close(r);
    tr_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_record_in_every_variant, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(long_gaps_between_records, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(merge_of_all_threads, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(raw_segments, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(empty_recording, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(dictionary, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(relatives_add_up, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(large_dictionary, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(calibrated_clock, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(texts_are_tame, make_dir, drop_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
