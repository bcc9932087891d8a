/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds records that have more than their base fields: contents, and the options of the trace
 * event. */
#ifndef KYMO_NIF_RECORD_H
#define KYMO_NIF_RECORD_H

#include "nif_names.h"

/* The options map of a trace callback. Terms are 0 when absent. */
struct nif_options {
    ERL_NIF_TERM extra;
    ERL_NIF_TERM msr; /* match_spec_result */
    uint8_t flags;    /* KYMO_O_* */
    uint8_t ts;       /* enum kymo_ts */
    uint16_t sched;
    int64_t a, b;
};

/* Reads the map, and takes the timestamp that it requests. Other terms count as an empty map. */
void nif_options_read(ErlNifEnv *env, ERL_NIF_TERM map, struct nif_options *o);

/* Adds a timestamp of the kind that this atom names; none for other terms. */
void nif_options_time(ErlNifEnv *env, ERL_NIF_TERM how, struct nif_options *o);

/* How the content is composed of up to two terms. */
enum nif_shape {
    NIF_NO_CONTENT,
    NIF_ONE,  /* first */
    NIF_PAIR, /* {first, second} */
    NIF_CONS, /* [first | second] */
    NIF_PEER  /* {first, second} and KYMO_C_PAIR; second is not subject to the bound */
};

struct nif_record {
    unsigned id; /* KYMO_E_*, without the variant bits */
    enum nif_shape shape;
    ERL_NIF_TERM first, second;
    const struct nif_options *options;
    size_t len;        /* of body */
    uint8_t body[128]; /* base fields */
};

/* Appends a field to the body. */
static inline void nif_field8(struct nif_record *r, uint8_t v)
{
    r->body[r->len++] = v;
}
static inline void nif_field32(struct nif_record *r, uint32_t v)
{
    kymo_put32(r->body + r->len, v);
    r->len += 4;
}
static inline void nif_field64(struct nif_record *r, uint64_t v)
{
    kymo_put64(r->body + r->len, v);
    r->len += 8;
}

/* Field D. */
static inline void nif_field_depth(struct nif_record *r, uint64_t depth)
{
    r->len = (size_t)(kymo_put_depth(r->body + r->len, depth) - r->body);
}

/* Writes the record. If that is impossible, counts the loss by its cause. */
void nif_record_write(const struct nif_event *ev, const struct nif_record *r);

#endif
