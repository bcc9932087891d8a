/* SPDX-License-Identifier: Apache-2.0 */
#include "perfetto.h"

#include <errno.h>
#include <stdio.h>

/* Field numbers, by message. */
enum { TRACE_PACKET = 1 };
enum {
    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE_ID = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED_DATA = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_TIMESTAMP_CLOCK = 58,
    PACKET_DEFAULTS = 59,
    PACKET_TRACK_DESCRIPTOR = 60,
    PACKET_FIRST_ON_SEQUENCE = 87
};
enum { STATE_CLEARED = 1, NEEDS_STATE = 2 };
enum { DEFAULTS_TIMESTAMP_CLOCK = 58 };
enum { SNAPSHOT_CLOCKS = 1, SNAPSHOT_PRIMARY = 2, CLOCK_ID = 1, CLOCK_TIMESTAMP = 2, CLOCK_INCREMENTAL = 3 };
enum { CLOCK_REALTIME_ID = 1, CLOCK_MONOTONIC_ID = 3, CLOCK_DELTA_ID = 64 /* first of the sequence's own */ };
enum {
    DESCRIPTOR_UUID = 1,
    DESCRIPTOR_NAME = 2,
    DESCRIPTOR_PROCESS = 3,
    DESCRIPTOR_THREAD = 4,
    DESCRIPTOR_PARENT = 5,
    DESCRIPTOR_COUNTER = 8,
    DESCRIPTOR_SIBLING_MERGE = 15
};
enum { PROCESS_PID = 1, PROCESS_NAME = 6, THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum { COUNTER_UNIT = 3 };
enum { SIBLING_MERGE_NONE = 2 };
enum {
    EVENT_CATEGORY_IID = 3,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK = 11,
    EVENT_COUNTER_VALUE = 30,
    EVENT_DOUBLE_COUNTER_VALUE = 44,
    EVENT_FLOW = 47,
    EVENT_TERMINATING_FLOW = 48
};
enum { ANNOTATION_NAME_IID = 1, ANNOTATION_UINT = 3, ANNOTATION_STRING = 6, ANNOTATION_STRING_IID = 17 };
enum { INTERNED_CATEGORY = 1, INTERNED_EVENT_NAME = 2, INTERNED_KEY = 3, INTERNED_STRING = 29 };
enum { INTERNED_IID = 1, INTERNED_TEXT = 2 };

enum { NAMED_EVENT = 1, NAMED_STRING = 2 };

/* ---- packets ---- */

/* Writes w->packet as one packet of the sequence. */
static void write_packet(struct kymo_pf *w)
{
    if (w->packet.failed || w->intern.failed || w->event.failed || w->part.failed || w->what.failed) {
        w->out.error = w->out.error != 0 ? w->out.error : -ENOMEM;
        return;
    }
    uint8_t *p = kymo_out_room(&w->out, 16 + sizeof w->stamp);
    p = kymo_pb_put_key(p, TRACE_PACKET, KYMO_PB_BYTES);
    p = kymo_pb_put_varint(p, w->stamp_len + w->packet.n);
    memcpy(p, w->stamp, w->stamp_len);
    kymo_out_take(&w->out, p + w->stamp_len);
    kymo_out_write(&w->out, w->packet.p, w->packet.n);
}

static void intern(struct kymo_pf *w, uint32_t field, uint64_t iid, const char *s, size_t len)
{
    kymo_pb_clear(&w->part);
    kymo_pb_uint(&w->part, INTERNED_IID, iid);
    kymo_pb_bytes(&w->part, INTERNED_TEXT, s, len);
    kymo_pb_message(&w->intern, field, &w->part);
}

static void intern_text(struct kymo_pf *w, uint32_t field, uint64_t iid, const char *s)
{
    intern(w, field, iid, s, strlen(s));
}

/* Adds to the packet the strings interned since the last packet. */
static void add_interned(struct kymo_pf *w)
{
    if (w->intern.n > 0) {
        kymo_pb_message(&w->packet, PACKET_INTERNED_DATA, &w->intern);
        kymo_pb_clear(&w->intern);
    }
}

static void set_stamp(struct kymo_pf *w, uint64_t flags)
{
    const struct kymo_meta *meta = kymo_reader_meta(w->r);
    /* A number of two bytes that two recordings are unlikely to share, so that their exports can be
     * concatenated into one trace. */
    uint32_t sequence = 0x80u | (((uint32_t)meta->uuid[2] << 8 | meta->uuid[3]) & 0x3f7fu);
    uint8_t *p = kymo_pb_put_key(w->stamp, PACKET_SEQUENCE_ID, KYMO_PB_VARINT);
    p = kymo_pb_put_varint(p, sequence);
    p = kymo_pb_put_key(p, PACKET_SEQUENCE_FLAGS, KYMO_PB_VARINT);
    p = kymo_pb_put_varint(p, flags);
    w->stamp_len = (size_t)(p - w->stamp);
}

static void first_packet(struct kymo_pf *w)
{
    for (unsigned id = 1; id < KYMO_E_COUNT; id++) {
        if (kymo_event_name((uint8_t)id) != NULL)
            intern_text(w, INTERNED_EVENT_NAME, id, kymo_event_name((uint8_t)id));
    }
#define KYMO_X(sym, text) intern_text(w, INTERNED_EVENT_NAME, KYMO_PF_N_##sym, text);
    KYMO_PF_NAMES(KYMO_X)
#undef KYMO_X
#define KYMO_X(sym, text) intern_text(w, INTERNED_CATEGORY, KYMO_PF_CAT_##sym, text);
    KYMO_PF_CATEGORIES(KYMO_X)
#undef KYMO_X
#define KYMO_X(sym, text) intern_text(w, INTERNED_KEY, KYMO_PF_K_##sym, text);
    KYMO_PF_KEYS(KYMO_X)
#undef KYMO_X
    for (unsigned i = 0; i < KYMO_GC_SIZES; i++)
        intern_text(w, INTERNED_KEY, KYMO_PF_K_GC + i, kymo_gc_name(i));
    kymo_pb_clear(&w->packet);
    kymo_pb_uint(&w->packet, PACKET_FIRST_ON_SEQUENCE, 1);
    kymo_pb_clear(&w->part);
    kymo_pb_uint(&w->part, DEFAULTS_TIMESTAMP_CLOCK, CLOCK_DELTA_ID);
    kymo_pb_message(&w->packet, PACKET_DEFAULTS, &w->part);
    add_interned(w);
    set_stamp(w, STATE_CLEARED);
    write_packet(w);
    set_stamp(w, NEEDS_STATE);
}

static void add_clock(struct kymo_pf *w, uint64_t id, int64_t ns, bool delta)
{
    kymo_pb_clear(&w->part);
    kymo_pb_uint(&w->part, CLOCK_ID, id);
    kymo_pb_uint(&w->part, CLOCK_TIMESTAMP, ns < 0 ? 0 : (uint64_t)ns);
    if (delta)
        kymo_pb_uint(&w->part, CLOCK_INCREMENTAL, 1);
    kymo_pb_message(&w->event, SNAPSHOT_CLOCKS, &w->part);
}

static void clock_packet(struct kymo_pf *w)
{
    kymo_pb_clear(&w->event);
    add_clock(w, CLOCK_MONOTONIC_ID, w->last_ns, false);
    add_clock(w, CLOCK_REALTIME_ID, kymo_reader_wall_ns(w->r, w->last_ns), false);
    add_clock(w, CLOCK_DELTA_ID, w->last_ns, true);
    kymo_pb_uint(&w->event, SNAPSHOT_PRIMARY, CLOCK_MONOTONIC_ID);
    kymo_pb_clear(&w->packet);
    kymo_pb_message(&w->packet, PACKET_CLOCK_SNAPSHOT, &w->event);
    write_packet(w);
}

int kymo_pf_open(struct kymo_pf *w, const struct kymo_reader *r, const struct kymo_naming *naming,
                 const char *path, int64_t start_ns, char *err, size_t err_size)
{
    const struct kymo_meta *meta = kymo_reader_meta(r);
    memset(w, 0, sizeof *w);
    w->out.fd = -1;
    w->r = r;
    w->naming = naming;
    w->base = (uint64_t)(0x8000u | (uint32_t)meta->uuid[0] << 8 | meta->uuid[1]) << 32;
    w->dict_size = kymo_reader_dict_size(r);
    w->next_name = (uint64_t)KYMO_PF_N_DICT + w->dict_size + 1;
    w->last_ns = start_ns < 0 ? 0 : start_ns;
    w->named = calloc((size_t)w->dict_size + 1, 1);
    w->text = malloc(KYMO_PF_TEXT);
    if (w->named == NULL || w->text == NULL) {
        kymo_pf_free(w);
        snprintf(err, err_size, "not enough memory");
        return -ENOMEM;
    }
    int rc = kymo_out_open(&w->out, path, err, err_size);
    if (rc != 0) {
        kymo_pf_free(w);
        return rc;
    }
    first_packet(w);
    clock_packet(w);
    return 0;
}

int kymo_pf_finish(struct kymo_pf *w, char *err, size_t err_size)
{
    return kymo_out_finish(&w->out, err, err_size);
}

void kymo_pf_free(struct kymo_pf *w)
{
    kymo_out_abort(&w->out);
    kymo_pb_free(&w->event);
    kymo_pb_free(&w->intern);
    kymo_pb_free(&w->packet);
    kymo_pb_free(&w->part);
    kymo_pb_free(&w->what);
    free(w->named);
    free(w->text);
    w->named = NULL;
    w->text = NULL;
}

/* ---- tracks ---- */

/* Begins the descriptor of a track in w->part. */
static void start_track(struct kymo_pf *w, uint64_t track, uint64_t parent, const char *name, size_t len)
{
    kymo_pb_clear(&w->part);
    kymo_pb_uint(&w->part, DESCRIPTOR_UUID, w->base + track);
    if (parent != 0)
        kymo_pb_uint(&w->part, DESCRIPTOR_PARENT, w->base + parent);
    kymo_pb_bytes(&w->part, DESCRIPTOR_NAME, name, len);
    /* Tracks with the same name are not merged. */
    kymo_pb_uint(&w->part, DESCRIPTOR_SIBLING_MERGE, SIBLING_MERGE_NONE);
    kymo_pb_clear(&w->what);
}

/* Adds w->what, which describes what the track shows, and writes the descriptor. */
static void end_track(struct kymo_pf *w, uint32_t field)
{
    if (field != 0)
        kymo_pb_message(&w->part, field, &w->what);
    kymo_pb_clear(&w->packet);
    kymo_pb_message(&w->packet, PACKET_TRACK_DESCRIPTOR, &w->part);
    write_packet(w);
}

void kymo_pf_track(struct kymo_pf *w, uint64_t track, uint64_t parent, const char *name, size_t len)
{
    start_track(w, track, parent, name, len);
    end_track(w, 0);
}

/* Numbers of processes and threads of the operating system, limited to Perfetto's range. */
static uint64_t os_number(uint64_t n)
{
    return n & INT32_MAX;
}

void kymo_pf_process(struct kymo_pf *w, uint64_t track, uint64_t pid, const char *name, size_t len)
{
    start_track(w, track, 0, name, len);
    kymo_pb_uint(&w->what, PROCESS_PID, os_number(pid));
    kymo_pb_bytes(&w->what, PROCESS_NAME, name, len);
    end_track(w, DESCRIPTOR_PROCESS);
}

void kymo_pf_thread(struct kymo_pf *w, uint64_t track, uint64_t parent, uint64_t pid, const char *name,
                    size_t len)
{
    const struct kymo_meta *meta = kymo_reader_meta(w->r);
    uint64_t tid = ((uint64_t)meta->uuid[4] << 8 | meta->uuid[5]) << 21;
    start_track(w, track, parent, name, len);
    kymo_pb_uint(&w->what, THREAD_PID, os_number(pid));
    kymo_pb_uint(&w->what, THREAD_TID, os_number(tid + track));
    kymo_pb_bytes(&w->what, THREAD_NAME, name, len);
    end_track(w, DESCRIPTOR_THREAD);
}

void kymo_pf_counter_track(struct kymo_pf *w, uint64_t track, uint64_t parent, const char *name,
                           enum kymo_pf_unit unit)
{
    start_track(w, track, parent, name, strlen(name));
    kymo_pb_uint(&w->what, COUNTER_UNIT, unit);
    end_track(w, DESCRIPTOR_COUNTER);
}

void kymo_pf_counter(struct kymo_pf *w, uint64_t track, uint64_t value, int64_t ns)
{
    kymo_pf_event(w, KYMO_PF_COUNTER, track, KYMO_PF_CAT_NONE);
    kymo_pb_uint(&w->event, EVENT_COUNTER_VALUE, value);
    kymo_pf_emit(w, ns);
}

void kymo_pf_counter_double(struct kymo_pf *w, uint64_t track, double value, int64_t ns)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    kymo_pf_event(w, KYMO_PF_COUNTER, track, KYMO_PF_CAT_NONE);
    kymo_pb_fixed64(&w->event, EVENT_DOUBLE_COUNTER_VALUE, bits);
    kymo_pf_emit(w, ns);
}

/* ---- events ---- */

void kymo_pf_event(struct kymo_pf *w, enum kymo_pf_type type, uint64_t track, enum kymo_pf_category cat)
{
    kymo_pb_clear(&w->event);
    uint8_t *p = kymo_pb_room(&w->event, 4 * KYMO_PB_VARINT_MAX);
    if (p == NULL)
        return;
    p = kymo_pb_put_varint(kymo_pb_put_key(p, EVENT_TYPE, KYMO_PB_VARINT), type);
    p = kymo_pb_put_varint(kymo_pb_put_key(p, EVENT_TRACK, KYMO_PB_VARINT), w->base + track);
    if (cat != KYMO_PF_CAT_NONE)
        p = kymo_pb_put_varint(kymo_pb_put_key(p, EVENT_CATEGORY_IID, KYMO_PB_VARINT), cat);
    kymo_pb_took(&w->event, p);
}

void kymo_pf_emit(struct kymo_pf *w, int64_t ns)
{
    if (ns < 0)
        ns = 0;
    if (w->intern.n > 0 || w->event.n > KYMO_OUT_ROOM / 2 || ns < w->last_ns) {
        kymo_pb_clear(&w->packet);
        if (ns >= w->last_ns) {
            kymo_pb_uint(&w->packet, PACKET_TIMESTAMP, (uint64_t)(ns - w->last_ns));
            w->last_ns = ns;
        } else {
            kymo_pb_uint(&w->packet, PACKET_TIMESTAMP, (uint64_t)ns);
            kymo_pb_uint(&w->packet, PACKET_TIMESTAMP_CLOCK, CLOCK_MONOTONIC_ID);
        }
        add_interned(w);
        kymo_pb_message(&w->packet, PACKET_TRACK_EVENT, &w->event);
        write_packet(w);
        return;
    }
    /* Does the same for the common case, directly in the output buffer. The fields around the event
     * are built first, because their length precedes them. */
    uint8_t head[KYMO_PB_KEY_MAX * 2 + KYMO_PB_VARINT_MAX * 2];
    uint8_t *h = kymo_pb_put_key(head, PACKET_TIMESTAMP, KYMO_PB_VARINT);
    h = kymo_pb_put_varint(h, (uint64_t)(ns - w->last_ns));
    h = kymo_pb_put_varint(kymo_pb_put_key(h, PACKET_TRACK_EVENT, KYMO_PB_BYTES), w->event.n);
    w->last_ns = ns;
    size_t head_len = (size_t)(h - head);
    uint8_t *p = kymo_out_room(&w->out, KYMO_OUT_ROOM);
    p = kymo_pb_put_key(p, TRACE_PACKET, KYMO_PB_BYTES);
    p = kymo_pb_put_varint(p, w->stamp_len + head_len + w->event.n);
    memcpy(p, w->stamp, w->stamp_len);
    memcpy(p + w->stamp_len, head, head_len);
    p += w->stamp_len + head_len;
    if (w->event.n > 0)
        memcpy(p, w->event.p, w->event.n);
    kymo_out_take(&w->out, p + w->event.n);
    if (w->event.failed || w->part.failed)
        w->out.error = w->out.error != 0 ? w->out.error : -ENOMEM;
}

void kymo_pf_name(struct kymo_pf *w, uint64_t iid)
{
    kymo_pb_uint(&w->event, EVENT_NAME_IID, iid);
}

void kymo_pf_flow(struct kymo_pf *w, uint64_t id, bool terminating)
{
    kymo_pb_fixed64(&w->event, terminating ? EVENT_TERMINATING_FLOW : EVENT_FLOW, w->base + id);
}

static void start_annotation(struct kymo_pf *w, unsigned key)
{
    kymo_pb_clear(&w->part);
    kymo_pb_uint(&w->part, ANNOTATION_NAME_IID, key);
}

static void end_annotation(struct kymo_pf *w)
{
    kymo_pb_message(&w->event, EVENT_ANNOTATION, &w->part);
}

void kymo_pf_uint(struct kymo_pf *w, unsigned key, uint64_t v)
{
    start_annotation(w, key);
    kymo_pb_uint(&w->part, ANNOTATION_UINT, v);
    end_annotation(w);
}

void kymo_pf_string(struct kymo_pf *w, unsigned key, const char *s, size_t len)
{
    start_annotation(w, key);
    kymo_pb_bytes(&w->part, ANNOTATION_STRING, s, len);
    end_annotation(w);
}

void kymo_pf_string_iid(struct kymo_pf *w, unsigned key, uint64_t iid)
{
    start_annotation(w, key);
    kymo_pb_uint(&w->part, ANNOTATION_STRING_IID, iid);
    end_annotation(w);
}

void kymo_pf_text(struct kymo_pf *w, unsigned key, const char *s)
{
    kymo_pf_string(w, key, s, strlen(s));
}

/* Length of text formatted into `size` bytes, from the return value of an snprintf-like function. */
static size_t formatted(size_t n, size_t size)
{
    return n < size ? n : size - 1;
}

void kymo_pf_ident(struct kymo_pf *w, unsigned key, uint64_t ident)
{
    kymo_pf_string(w, key, w->text,
                   formatted(kymo_format_ident(w->r, ident, w->text, KYMO_PF_TEXT), KYMO_PF_TEXT));
}

/* The text of a function or an atom, in w->text. */
static size_t format_mfa(struct kymo_pf *w, uint32_t id)
{
    return kymo_name_function(w->naming, id, w->text, KYMO_PF_TEXT);
}

static size_t format_dict(struct kymo_pf *w, uint32_t id)
{
    if (kymo_reader_dict_kind(w->r, id) == KYMO_DICT_MFA)
        return format_mfa(w, id);
    return formatted(kymo_format_atom(kymo_reader_atom(w->r, id), w->text, KYMO_PF_TEXT), KYMO_PF_TEXT);
}

void kymo_pf_dict(struct kymo_pf *w, unsigned key, uint32_t id)
{
    if (id == 0 || id > w->dict_size)
        return;
    id = kymo_reader_canonical(w->r, id);
    if ((w->named[id] & NAMED_STRING) == 0) {
        w->named[id] |= NAMED_STRING;
        intern(w, INTERNED_STRING, id, w->text, format_dict(w, id));
    }
    kymo_pf_string_iid(w, key, id);
}

/* Adds w->text, whose full length is n, even if it did not fit. */
static void put_text(struct kymo_pf *w, unsigned key, size_t n, bool cut)
{
    n = formatted(n, KYMO_PF_TEXT - 8);
    if (cut) {
        memcpy(w->text + n, " (cut)", 6);
        n += 6;
    }
    kymo_pf_string(w, key, w->text, n);
}

void kymo_pf_term(struct kymo_pf *w, unsigned key, const uint8_t *etf, uint32_t len, bool cut)
{
    put_text(w, key, kymo_format_value(w->r, etf, len, w->text, KYMO_PF_TEXT - 8), cut);
}

void kymo_pf_arguments(struct kymo_pf *w, uint32_t mfa, const uint8_t *etf, uint32_t len, bool cut)
{
    size_t n = kymo_format_arguments(w->r, mfa, etf, len, w->text, KYMO_PF_TEXT - 8);
    if (n > 0)
        put_text(w, KYMO_PF_K_ARGS, n, cut);
    else
        kymo_pf_term(w, KYMO_PF_K_ARGS, etf, len, cut);
}

uint64_t kymo_pf_mfa(struct kymo_pf *w, uint32_t id)
{
    if (id == 0 || id > w->dict_size)
        return KYMO_PF_N_UNKNOWN;
    uint64_t iid = (uint64_t)KYMO_PF_N_DICT + id;
    if ((w->named[id] & NAMED_EVENT) == 0) {
        w->named[id] |= NAMED_EVENT;
        intern(w, INTERNED_EVENT_NAME, iid, w->text, format_mfa(w, id));
    }
    return iid;
}

uint64_t kymo_pf_new_name(struct kymo_pf *w, const char *s, size_t len)
{
    uint64_t iid = w->next_name++;
    intern(w, INTERNED_EVENT_NAME, iid, s, len);
    return iid;
}

uint64_t kymo_pf_new_string(struct kymo_pf *w, const char *s, size_t len)
{
    uint64_t iid = w->next_name++;
    intern(w, INTERNED_STRING, iid, s, len);
    return iid;
}
