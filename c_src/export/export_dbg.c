/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a file for dbg:trace_client(file, ...), as a port tracer would have written it. Each
 * event is the term that erlang:trace/3 documents for process tracers; doc/exports.md describes
 * the replacements for terms that were not recorded.
 */
#include <errno.h>
#include <stdio.h>

#include "etf_write.h"
#include "export_util.h"
#include "kymo_fields.h"
#include "outfile.h"

enum { OP_TERM = 0, OP_DROP = 1 };
/* The maximum number of drop counts for one loss. A damaged recording may claim any number of
 * lost events, which must not become gigabytes of drop counts. */
enum { DROPS_MAX = 1 << 16 };

struct dbg {
    struct kymo_reader *r;
    const struct kymo_meta *meta;
    struct kymo_out out;
    struct kymo_pb term; /* elements of the tuple */
    unsigned n;          /* how many */
};

/* ---- elements ---- */

static void atom(struct dbg *x, const char *s)
{
    kymo_etf_atom_z(&x->term, s);
}

static void dict_atom(struct dbg *x, uint32_t id)
{
    struct kymo_text t = kymo_reader_atom(x->r, id);
    kymo_etf_atom(&x->term, t.s, t.len);
}

/* Writes a term of the recording after checking it: a malformed one would stop the reader of the
 * whole file. */
static void raw(struct dbg *x, const uint8_t *p, uint32_t n)
{
    if (kymo_etf_readable(x->meta, p, n))
        kymo_etf_raw(&x->term, p, n);
    else
        atom(x, "$kymo_damaged");
}

static void ident(struct dbg *x, uint64_t id)
{
    const uint8_t *etf;
    uint32_t len;
    uint64_t data = KYMO_IDENT_DATA(id);
    unsigned kind = KYMO_IDENT_KIND(id);
    /* Impossible pids are damage, and would stop the reader, too. */
    if ((kind == KYMO_I_PID && !kymo_etf_may_be_pid(x->meta, KYMO_PID_NUMBER(id), KYMO_PID_SERIAL(id))) ||
        (kind == KYMO_I_PORT && !kymo_etf_may_be_port(x->meta, data)))
        kind = KYMO_I_OTHER;
    switch (kind) {
    case KYMO_I_PID: kymo_etf_pid(&x->term, x->meta, KYMO_PID_NUMBER(id), KYMO_PID_SERIAL(id)); break;
    case KYMO_I_PORT: kymo_etf_port(&x->term, x->meta, data); break;
    case KYMO_I_ATOM: dict_atom(x, (uint32_t)data); break;
    case KYMO_I_NONE: atom(x, "undefined"); break;
    case KYMO_I_TERM:
        if (data <= UINT32_MAX && kymo_reader_term(x->r, (uint32_t)data, &etf, &len)) {
            raw(x, etf, len);
            break;
        }
        atom(x, "$kymo_unknown");
        break;
    default:
        kymo_etf_tuple(&x->term, 2);
        atom(x, kind == KYMO_I_REF ? "$kymo_ref" : "$kymo_unknown");
        kymo_etf_uint(&x->term, data);
        break;
    }
}

/* Writes the replacement for a term that was not recorded. */
static void missing(struct dbg *x)
{
    atom(x, "$kymo_not_recorded");
}

static void content(struct dbg *x, const struct kymo_event *ev)
{
    if (ev->has_content)
        raw(x, ev->content, ev->content_len);
    else
        missing(x);
}

/* {M, F, Args or Arity}. If there is no function, running processes have 0. */
static void mfa(struct dbg *x, const struct kymo_event *ev)
{
    struct kymo_mfa f;
    struct kymo_field args;
    if (!kymo_reader_mfa(x->r, ev->mfa, &f)) {
        if (ev->id >= KYMO_E_IN && ev->id <= KYMO_E_OUT_EXITED)
            kymo_etf_int(&x->term, 0);
        else
            atom(x, "undefined");
        return;
    }
    kymo_etf_tuple(&x->term, 3);
    dict_atom(x, f.module);
    dict_atom(x, f.function);
    if (ev->has_content && kymo_field(ev, KYMO_F_CONTENT, &args) && args.type == KYMO_V_ARGUMENTS)
        raw(x, args.etf, args.len);
    else
        kymo_etf_uint(&x->term, f.arity);
}

static void size_of_message(struct dbg *x, const struct kymo_event *ev)
{
    struct kymo_field f;
    if (!kymo_field(ev, KYMO_F_WORDS, &f)) {
        missing(x);
        return;
    }
    kymo_etf_tuple(&x->term, 2);
    atom(x, "$kymo_size");
    kymo_etf_uint(&x->term, f.n);
}

static void message(struct dbg *x, const struct kymo_event *ev)
{
    if (ev->has_content)
        raw(x, ev->content, ev->content_len);
    else
        size_of_message(x, ev);
}

/* ---- events ---- */

/* The elements of a recorded tuple {A, B}, when that is what the content is. */
static bool pair(struct dbg *x, const struct kymo_event *ev)
{
    const uint8_t *p = ev->content;
    if (!ev->has_content || ev->content_len < 4 || p[0] != 104 || p[1] != 2 ||
        !kymo_etf_readable(x->meta, p, ev->content_len))
        return false;
    kymo_etf_raw(&x->term, p + 2, ev->content_len - 2);
    x->n += 2;
    return true;
}

static void head(struct dbg *x, const struct kymo_event *ev, const char *tag)
{
    ident(x, ev->who);
    atom(x, tag);
    x->n += 2;
}

static void send_or_receive(struct dbg *x, const struct kymo_event *ev)
{
    bool paired = ev->id != KYMO_E_RECEIVE && (ev->content_flags & KYMO_C_PAIR) != 0;
    if (paired && pair(x, ev))
        return;
    if (paired)
        missing(x);
    else
        message(x, ev);
    x->n++;
    /* In `receive` it is what the match specification answered: the recorder keeps it there. */
    if (ev->id != KYMO_E_RECEIVE || ev->peer != KYMO_IDENT_NONE) {
        ident(x, ev->peer);
        x->n++;
    }
}

static void gc_sizes(struct dbg *x, const struct kymo_event *ev)
{
    if (ev->n_gc > 0) {
        kymo_etf_list(&x->term, ev->n_gc);
        for (unsigned i = 0; i < ev->n_gc && i < KYMO_GC_SIZES; i++) {
            kymo_etf_tuple(&x->term, 2);
            atom(x, kymo_gc_name(i));
            kymo_etf_uint(&x->term, ev->gc[i]);
        }
    }
    kymo_etf_nil(&x->term);
}

/* {seq_trace, Label, {Type, {Previous, Current}, From, To, Message}} */
static void seq_trace(struct dbg *x, const struct kymo_event *ev)
{
    static const char *const kinds[] = {"$kymo_unknown", "send", "receive", "print", "$kymo_unknown"};
    unsigned kind = ev->kind & 0x7fu;
    if (pair(x, ev))
        return;
    if ((ev->kind & KYMO_SEQ_LABEL_TERM) != 0)
        missing(x);
    else
        kymo_etf_int(&x->term, (int64_t)ev->value);
    kymo_etf_tuple(&x->term, 5);
    atom(x, kinds[kind <= KYMO_SEQ_OTHER ? kind : 0]);
    kymo_etf_tuple(&x->term, 2);
    kymo_etf_uint(&x->term, ev->serial_prev);
    kymo_etf_uint(&x->term, ev->serial_cur);
    ident(x, ev->who);
    if (ev->peer == KYMO_IDENT_NONE)
        kymo_etf_nil(&x->term);
    else
        ident(x, ev->peer);
    size_of_message(x, ev);
    x->n += 2;
}

/* A tag that this program does not know: [Term | Extra] as recorded. */
static void other(struct dbg *x, const struct kymo_event *ev)
{
    size_t first;
    ident(x, ev->who);
    dict_atom(x, ev->atom);
    x->n += 3;
    if (!ev->has_content || !kymo_term_cell(ev->content, ev->content_len, &first) ||
        !kymo_etf_readable(x->meta, ev->content, ev->content_len)) {
        missing(x);
        return;
    }
    const uint8_t *p = ev->content + KYMO_CELL_HEAD;
    size_t rest = ev->content_len - KYMO_CELL_HEAD - first;
    bool extra = rest != 1 || p[first] != 106;
    kymo_etf_raw(&x->term, p, extra ? first + rest : first);
    x->n += extra;
}

/* The reason of an exit, a driver, a name or the operation of a port. */
static void reason_or_name(struct dbg *x, const struct kymo_event *ev)
{
    struct kymo_field f;
    bool known = kymo_field(ev, KYMO_F_ATOM, &f);
    if (known && (f.flags & KYMO_F_SHORT) == 0)
        dict_atom(x, ev->atom);
    else if (ev->id == KYMO_E_EXIT || ev->id == KYMO_E_CLOSED || ev->id == KYMO_E_OPEN)
        content(x, ev);
    else if (ev->id >= KYMO_E_PORT_IN && ev->id <= KYMO_E_PORT_OUT_EXITED)
        kymo_etf_int(&x->term, 0);
    else
        dict_atom(x, 0);
}

/* What follows function or peer; false if nothing does. */
static bool last_element(struct dbg *x, const struct kymo_event *ev)
{
    switch (ev->id) {
    case KYMO_E_RETURN_FROM: content(x, ev); return true;
    case KYMO_E_EXCEPTION_FROM:
        kymo_etf_tuple(&x->term, 2);
        dict_atom(x, ev->atom);
        content(x, ev);
        return true;
    case KYMO_E_SLOW: /* {Start, Duration} */
        kymo_etf_tuple(&x->term, 2);
        kymo_etf_int(&x->term, (int64_t)((uint64_t)kymo_reader_erl_ns(x->r, ev->ns) - ev->value));
        kymo_etf_uint(&x->term, ev->value);
        return true;
    default:
        if ((kymo_fields_of(ev->id) & KYMO_FIELD(ATOM)) == 0)
            return false;
        reason_or_name(x, ev);
        return true;
    }
}

/* After the tag, the tuple has the fields in the order of kymo_fields.h, except for messages. */
static void elements(struct dbg *x, const struct kymo_event *ev)
{
    uint64_t has = kymo_fields_of(ev->id);
    switch (ev->id) {
    case KYMO_E_SEQ_TRACE: seq_trace(x, ev); return;
    case KYMO_E_OTHER: other(x, ev); return;
    default: head(x, ev, kymo_event_name(ev->id)); break;
    }
    if ((has & KYMO_FIELD(MESSAGE)) != 0 || ev->id == KYMO_E_SEND_NE) {
        send_or_receive(x, ev);
        return;
    }
    if ((has & KYMO_FIELD(PEER)) != 0) {
        ident(x, ev->peer);
        x->n++;
    }
    if ((has & KYMO_FIELD(FUNCTION)) != 0 && ev->id != KYMO_E_EXIT) { /* the reason has the stack */
        mfa(x, ev);
        x->n++;
    }
    if ((has & KYMO_FIELD(GC)) != 0) {
        gc_sizes(x, ev);
        x->n++;
    }
    if (last_element(x, ev))
        x->n++;
}

static void timestamp(struct dbg *x, const struct kymo_event *ev, const struct kymo_field *f)
{
    int64_t a = (int64_t)f->n;
    if ((f->flags & KYMO_F_STRICT) != 0) {
        kymo_etf_tuple(&x->term, 2);
        kymo_etf_int(&x->term, a);
        kymo_etf_int(&x->term, (int64_t)f->second);
    } else if (ev->opt_ts == KYMO_TS_MONOTONIC) {
        kymo_etf_int(&x->term, a);
    } else { /* {MegaSecs, Secs, MicroSecs} */
        kymo_etf_tuple(&x->term, 3);
        kymo_etf_int(&x->term, a / 1000000000000000);
        kymo_etf_int(&x->term, a / 1000000000 % 1000000);
        kymo_etf_int(&x->term, a / 1000 % 1000000);
    }
    x->n++;
}

/* The runtime leaves out the match specification's result when it is true. */
static bool is_true(const uint8_t *p, uint32_t n)
{
    static const uint8_t small_utf8[] = {119, 4, 't', 'r', 'u', 'e'}, old[] = {100, 0, 4, 't', 'r', 'u', 'e'};
    return (n == sizeof small_utf8 && memcmp(p, small_utf8, n) == 0) ||
           (n == sizeof old && memcmp(p, old, n) == 0);
}

static void options(struct dbg *x, const struct kymo_event *ev)
{
    struct kymo_field f;
    if (kymo_field(ev, KYMO_F_RESULT, &f) && !is_true(f.etf, f.len)) {
        raw(x, f.etf, f.len);
        x->n++;
    }
    if (kymo_field(ev, KYMO_F_SCHEDULER, &f)) {
        kymo_etf_uint(&x->term, f.n);
        x->n++;
    }
}

static void write_event(struct dbg *x, const struct kymo_event *ev)
{
    struct kymo_field stamp;
    bool stamped = ev->has_opts && kymo_field(ev, KYMO_F_STAMP, &stamp);
    kymo_pb_clear(&x->term);
    x->n = 1;
    if (ev->id == KYMO_E_SEQ_TRACE)
        atom(x, "seq_trace");
    else
        atom(x, stamped ? "trace_ts" : "trace");
    elements(x, ev);
    if (ev->has_opts)
        options(x, ev);
    if (stamped)
        timestamp(x, ev, &stamp);
    uint32_t size = (uint32_t)x->term.n + 3;
    uint8_t frame[] = {OP_TERM,
                       (uint8_t)(size >> 24),
                       (uint8_t)(size >> 16),
                       (uint8_t)(size >> 8),
                       (uint8_t)size,
                       KYMO_ETF_VERSION,
                       104,
                       (uint8_t)x->n};
    kymo_out_write(&x->out, frame, sizeof frame);
    kymo_out_write(&x->out, x->term.p, x->term.n);
}

static void write_drop(struct dbg *x, uint64_t lost)
{
    for (unsigned i = 0; lost > 0 && i < DROPS_MAX; i++) {
        uint32_t n = lost > UINT32_MAX ? UINT32_MAX : (uint32_t)lost;
        uint8_t frame[] = {OP_DROP, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
        kymo_out_write(&x->out, frame, sizeof frame);
        lost -= n;
    }
}

static bool dbg_has(uint8_t id)
{
    return id < KYMO_E_FIRST_NOTE && id != KYMO_E_TAKEN && id != KYMO_E_STOPPED;
}

static int run(struct dbg *x, struct kymo_feed *feed, char *err, size_t err_size)
{
    struct kymo_event ev;
    int rc = 0;
    while (x->out.error == 0 && !x->term.failed && (rc = kymo_feed_next(feed, &ev)) == 1) {
        if (ev.id == KYMO_E_LOST) {
            write_drop(x, ev.value);
        } else if (dbg_has(ev.id)) {
            write_event(x, &ev);
            feed->res->written++;
        }
    }
    if (rc < 0)
        return kymo_feed_error(rc, err, err_size);
    if (x->term.failed) {
        snprintf(err, err_size, "not enough memory");
        return -ENOMEM;
    }
    feed->res->bytes = kymo_out_bytes(&x->out);
    return kymo_out_finish(&x->out, err, err_size);
}

int kymo_export_dbg(struct kymo_reader *r, const struct kymo_export_options *o,
                    struct kymo_export_result *res, char *err, size_t err_size)
{
    struct kymo_feed feed;
    int rc = kymo_feed_start(&feed, r, o, res, err, err_size);
    if (rc != 0)
        return rc;
    struct dbg x = {.r = r, .meta = kymo_reader_meta(r), .out.fd = -1};
    rc = kymo_out_open(&x.out, o->out, err, err_size);
    if (rc == 0)
        rc = run(&x, &feed, err, err_size);
    kymo_out_abort(&x.out);
    kymo_pb_free(&x.term);
    return rc;
}
