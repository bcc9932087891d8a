/* SPDX-License-Identifier: Apache-2.0
 *
 * From an event, however the runtime tells it, to its record. */
#ifndef KYMO_NIF_PUT_H
#define KYMO_NIF_PUT_H

#include "nif_protocol.h"
#include "nif_record.h"
#include "nif_size.h"

/* What is known of an event. */
struct nif_input {
    ERL_NIF_TERM tag, tracee;
    ERL_NIF_TERM term; /* 0 when module is not */
    /* The function of a call and of a process that runs, or 0 where `term' tells
     * it, as in the behaviour. args: the list of arguments, 0 when unknown. */
    ERL_NIF_TERM module, function, args;
    uint32_t arity;
    struct nif_options options;
};

/* The recorder's side of an event: false when it is not to be recorded. Else
 * kymo_writer_put must follow. */
static inline bool nif_begin(struct nif_event *ev, ErlNifEnv *env, struct nif_handle *h)
{
    ev->env = env;
    ev->h = h;
    ev->w = kymo_writer_get(h->rec);
    if (ev->w == NULL) {
        return false;
    }
    if (!kymo_sample(ev->w)) {
        kymo_writer_put(ev->w);
        return false;
    }
    return true;
}

static inline uint32_t nif_message_size(const struct nif_event *ev, ERL_NIF_TERM msg)
{
    if ((ev->h->detail & KYMO_D_MSG_SIZE) == 0) {
        return KYMO_SIZE_UNKNOWN;
    }
    return nif_size_words(msg, ev->h->size_limit);
}

/* A call without contents or options; m and f must be atoms. */
static inline __attribute__((always_inline)) void
nif_put_call(const struct nif_event *ev, ERL_NIF_TERM tracee, ERL_NIF_TERM m, ERL_NIF_TERM f, uint32_t arity)
{
    uint64_t who = nif_ident(ev, tracee);
    uint32_t mfa = nif_mfa_id(ev, m, f, arity);
    uint8_t *p = kymo_reserve(ev->w, KYMO_E_CALL, 12);
    if (p != NULL) {
        p = kymo_put64(p, who);
        p = kymo_put32(p, mfa);
        kymo_commit(ev->w, p);
    }
}

/* A message without contents or options. */
static inline __attribute__((always_inline)) void
nif_put_send(const struct nif_event *ev, unsigned id, ERL_NIF_TERM tracee, ERL_NIF_TERM msg, ERL_NIF_TERM to)
{
    uint32_t size = nif_message_size(ev, msg);
    struct nif_message m = nif_message_look(msg);
    uint64_t who = nif_ident(ev, tracee);
    uint64_t peer = nif_ident(ev, to);
    bool seen = m.kind != KYMO_MSG_PLAIN && id == KYMO_E_SEND;
    uint8_t *p = kymo_reserve(ev->w, seen ? KYMO_E_SEND_REF : id, seen ? 29 : 20);
    if (p != NULL) {
        p = kymo_put64(p, who);
        p = kymo_put64(p, peer);
        p = kymo_put32(p, size);
        if (seen) {
            p = kymo_put8(p, m.kind);
            p = kymo_put64(p, m.ref);
        }
        kymo_commit(ev->w, p);
    }
}

/* Any event: id is that of its tag in its class. May change the options. */
void nif_put_event(const struct nif_event *ev, enum nif_class c, unsigned id, struct nif_input *in);

#endif
