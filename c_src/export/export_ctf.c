/* SPDX-License-Identifier: Apache-2.0
 *
 * A CTF 1.8 trace: a folder with `metadata`, one file per tracing thread that
 * holds its segments as CTF packets, and a file with the dictionary. The folder
 * appears under its name only when it is whole.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctf_metadata.h"
#include "ctf_packets.h"
#include "export_util.h"
#include "outdir.h"

/* Header and context of a packet of stream 1, in bytes. */
enum { DICT_HEADER = 72, DICT_PACKET = 65536, DICT_ENTRY_MAX = 24576 };

struct ctf {
    struct kymo_reader *r;
    struct kymo_outdir dir;
    struct kymo_naming *naming; /* for the dictionary */
    struct kymo_out out;        /* the file being written */
    uint64_t first_ns;          /* of all packets */
    uint64_t bytes;
    uint8_t *packet; /* of the dictionary: DICT_PACKET bytes */
    size_t used;
    uint64_t packets;
};

/* ---- files ---- */

static int open_file(struct ctf *x, const char *name, char *err, size_t err_size)
{
    char path[4096];
    int rc = kymo_outdir_file(&x->dir, name, path, sizeof path, err, err_size);
    return rc != 0 ? rc : kymo_out_open(&x->out, path, err, err_size);
}

static int close_file(struct ctf *x, char *err, size_t err_size)
{
    x->bytes += kymo_out_bytes(&x->out);
    return kymo_out_finish(&x->out, err, err_size);
}

/* ---- segments ---- */

/* Closes the file of the previous thread and opens that of the next one. */
static int next_thread(struct ctf *x, uint64_t instance, char *err, size_t err_size)
{
    char name[32];
    int rc = x->out.fd >= 0 ? close_file(x, err, err_size) : 0;
    snprintf(name, sizeof name, "thread_%04llu", (unsigned long long)instance);
    return rc != 0 ? rc : open_file(x, name, err, err_size);
}

static void show_progress(const struct ctf *x, const struct kymo_feed *feed, uint64_t done)
{
    uint64_t read, total;
    if (feed->o->progress == NULL)
        return;
    kymo_reader_progress(x->r, &read, &total);
    feed->o->progress(feed->o->progress_arg, done < total ? done : total, total);
}

/* Reads the whole recording for names that the filter needs: processes may get them late, and
 * packets are not written in order of time. */
static int learn_names(struct kymo_feed *feed, char *err, size_t err_size)
{
    struct kymo_event ev;
    int rc = 0;
    while (feed->o->keep != NULL && (rc = kymo_reader_next(feed->r, &ev)) == 1)
        continue;
    return rc < 0 ? kymo_feed_error(rc, err, err_size) : 0;
}

static int write_segments(struct ctf *x, struct kymo_feed *feed, struct kymo_ctf_packets *packets, char *err,
                          size_t err_size)
{
    const uint8_t *bytes;
    size_t n, len;
    uint64_t instance = UINT64_MAX, done = 0;
    int rc = 0, got;
    for (uint64_t i = 0; rc == 0 && (got = kymo_reader_segment(x->r, i, &bytes, &n)) != 0; i++) {
        if (got < 0)
            return kymo_feed_error(got, err, err_size);
        if (bytes == NULL)
            continue;
        if (kymo_ctf_packet(packets, i, bytes, n, &len) != 0)
            return kymo_feed_error(-ENOMEM, err, err_size);
        show_progress(x, feed, done += n);
        if (len == 0)
            continue;
        struct kymo_segment h;
        memcpy(&h, packets->buf, sizeof h);
        if (h.instance != instance)
            rc = next_thread(x, h.instance, err, err_size);
        instance = h.instance;
        if (rc == 0) {
            kymo_out_write(&x->out, packets->buf, len);
            x->first_ns = h.ts_begin < x->first_ns ? h.ts_begin : x->first_ns;
            feed->res->events += h.events;
            feed->res->written += h.events;
        }
    }
    if (rc == 0 && x->out.fd >= 0)
        rc = close_file(x, err, err_size);
    return rc;
}

/* ---- dictionary ---- */

static uint8_t *le(uint8_t *p, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        *p++ = (uint8_t)(v >> (8 * i));
    return p;
}

static void flush_packet(struct ctf *x)
{
    if (x->used == 0)
        return;
    const struct kymo_meta *meta = kymo_reader_meta(x->r);
    uint8_t *p = le(x->packet, KYMO_SEG_MAGIC, 4);
    memcpy(p, meta->uuid, 16);
    p = le(p + 16, 1, 4);
    p = le(p, 0, 8);
    p = le(p, x->first_ns, 8);
    p = le(p, x->first_ns, 8);
    p = le(p, (uint64_t)x->used * 8, 8);
    p = le(p, (uint64_t)x->used * 8, 8);
    le(p, x->packets++, 8);
    kymo_out_write(&x->out, x->packet, x->used);
    x->used = 0;
}

/* Starts an entry of at most DICT_ENTRY_MAX bytes. */
static uint8_t *entry(struct ctf *x, enum kymo_ctf_entry kind)
{
    if (x->used + DICT_ENTRY_MAX > DICT_PACKET)
        flush_packet(x);
    if (x->used == 0)
        x->used = DICT_HEADER;
    return le(le(x->packet + x->used, kind, 1), x->first_ns, 8);
}

/* Ends it with a NUL terminated text of n bytes as the formatting functions say. */
static void end_entry(struct ctf *x, const uint8_t *text, size_t n, size_t room)
{
    x->used = (size_t)(text - x->packet) + (n < room ? n : room - 1) + 1;
}

static void write_entry(struct ctf *x, uint32_t id)
{
    enum { ROOM = DICT_ENTRY_MAX - 64 };
    uint64_t ident;
    const uint8_t *etf;
    uint32_t name, mfa, len;
    uint8_t *p;
    switch (kymo_reader_dict_kind(x->r, id)) {
    case KYMO_DICT_ATOM:
        p = le(entry(x, KYMO_CTF_ATOM), id, 4);
        end_entry(x, p, kymo_format_atom(kymo_reader_atom(x->r, id), (char *)p, ROOM), ROOM);
        break;
    case KYMO_DICT_MFA:
        p = le(entry(x, KYMO_CTF_MFA), id, 4);
        end_entry(x, p, kymo_format_mfa(x->r, id, (char *)p, ROOM), ROOM);
        break;
    case KYMO_DICT_TERM:
        p = le(entry(x, KYMO_CTF_TERM), id, 4);
        kymo_reader_term(x->r, id, &etf, &len);
        end_entry(x, p, kymo_format_value(x->r, etf, len, (char *)p, ROOM), ROOM);
        break;
    case KYMO_DICT_PROC:
        kymo_reader_described(x->r, id, &ident);
        kymo_reader_process(x->r, ident, &name, &mfa);
        p = le(entry(x, KYMO_CTF_PROCESS), ident, 8);
        p = le(le(p, name, 4), mfa, 4);
        end_entry(x, p, kymo_name_process(x->naming, ident, (char *)p, ROOM), ROOM);
        break;
    default: break;
    }
}

static int write_dictionary(struct ctf *x, char *err, size_t err_size)
{
    int rc = open_file(x, "dictionary", err, err_size);
    if (rc != 0)
        return rc;
    x->naming = kymo_naming_new(x->r);
    if (x->naming == NULL) {
        snprintf(err, err_size, "not enough memory");
        return -ENOMEM;
    }
    uint32_t n = kymo_reader_dict_size(x->r);
    for (uint32_t id = 1; id <= n && id != 0; id++)
        write_entry(x, id);
    flush_packet(x);
    return close_file(x, err, err_size);
}

static int write_metadata(struct ctf *x, char *err, size_t err_size)
{
    int rc = open_file(x, "metadata", err, err_size);
    if (rc != 0)
        return rc;
    kymo_ctf_metadata(&x->out, x->r);
    return close_file(x, err, err_size);
}

static int write_trace(struct ctf *x, struct kymo_feed *feed, char *err, size_t err_size)
{
    struct kymo_ctf_packets packets;
    kymo_ctf_packets_init(&packets, x->r, feed->o);
    int rc = learn_names(feed, err, err_size);
    if (rc == 0)
        rc = write_segments(x, feed, &packets, err, err_size);
    kymo_ctf_packets_free(&packets);
    if (x->first_ns == UINT64_MAX)
        x->first_ns =
            kymo_reader_meta(x->r)->t0_mono_ns > 0 ? (uint64_t)kymo_reader_meta(x->r)->t0_mono_ns : 0;
    if (rc == 0)
        rc = write_dictionary(x, err, err_size);
    if (rc == 0)
        rc = write_metadata(x, err, err_size);
    return rc;
}

int kymo_export_ctf(struct kymo_reader *r, const struct kymo_export_options *o,
                    struct kymo_export_result *res, char *err, size_t err_size)
{
    struct kymo_feed feed;
    int rc = kymo_outdir_check(o->out, "a CTF trace", err, err_size);
    if (rc == 0)
        rc = kymo_feed_start(&feed, r, o, res, err, err_size);
    if (rc != 0)
        return rc;
    struct ctf x = {.r = r, .out.fd = -1, .first_ns = UINT64_MAX};
    x.packet = malloc(DICT_PACKET);
    if (x.packet == NULL) {
        snprintf(err, err_size, "not enough memory");
        return -ENOMEM;
    }
    rc = kymo_outdir_make(&x.dir, o->out, err, err_size);
    if (rc == 0)
        rc = write_trace(&x, &feed, err, err_size);
    kymo_out_abort(&x.out);
    if (rc == 0)
        rc = kymo_outdir_finish(&x.dir, err, err_size);
    kymo_outdir_abort(&x.dir);
    res->bytes = x.bytes;
    kymo_naming_free(x.naming);
    free(x.packet);
    return rc;
}
