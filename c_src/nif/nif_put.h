/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the record of an event, from either tracer interface of the runtime. */
#ifndef KYMO_NIF_PUT_H
#define KYMO_NIF_PUT_H

#include "nif_protocol.h"
#include "nif_record.h"
#include "nif_size.h"

/* The data of an event. */
struct nif_input {
    ERL_NIF_TERM tag, tracee;
    ERL_NIF_TERM term; /* 0 if module is given */
    /* The function of a call or of a scheduled process; 0 if it is in `term', as in the
     * behaviour. args: the list of arguments, 0 = unknown. */
    ERL_NIF_TERM module, function, args;
    uint32_t arity;
    /* Only from a runtime with version 2 of erl_nif_tracer.h. */
    uint64_t number; /* of a message, 0 = none */
    uint32_t passed; /* of taken */
    bool has_reason; /* of in and out: */
    uint8_t reason;  /* enum kymo_runnable, enum kymo_out_reason */
    int64_t waited;  /* of in: ns in the run queue */
    bool has_depth;  /* of calls and returns: */
    uint64_t depth;  /* words on the stack, at most KYMO_DEPTH_MAX */
    /* Of a slow call and of stopped: ns. Of a slow call it is ignored if there is `extra' among
     * the options, as in the behaviour. */
    int64_t duration;
    uint64_t begun;            /* of stopped: how many ns ago it began */
    uint32_t omitted;          /* of stopped: how many before it are not reported */
    const ErlNifUInt64 *sizes; /* of a collection: KYMO_GC_SIZES; NULL if `term' has them */
    struct nif_options options;
};

/* Begins to record an event. Returns false if it is not to be recorded; otherwise
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

/* A number as a field of 32 bits; larger ones are its maximum, which the format defines as "many". */
static inline uint32_t nif_bounded(uint64_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* Depth of a call or return that the runtime does not report. */
#define NIF_NO_DEPTH UINT64_MAX

/* A call or return without contents or options, id if its depth is not known; m and f must be
 * atoms. */
static inline __attribute__((always_inline)) void
nif_put_function(const struct nif_event *ev, unsigned id, unsigned id_with_depth, ERL_NIF_TERM tracee,
                 ERL_NIF_TERM m, ERL_NIF_TERM f, uint32_t arity, uint64_t depth)
{
    uint64_t who = nif_ident(ev, tracee);
    uint32_t mfa = nif_mfa_id(ev, m, f, arity);
    bool has_depth = depth <= KYMO_DEPTH_MAX;
    uint8_t *p = kymo_reserve(ev->w, has_depth ? id_with_depth : id, has_depth ? 12 + KYMO_DEPTH_BYTES : 12);
    if (p != NULL) {
        p = kymo_put64(p, who);
        p = kymo_put32(p, mfa);
        kymo_commit(ev->w, has_depth ? kymo_put_depth(p, depth) : p);
    }
}

static inline __attribute__((always_inline)) void nif_put_call(const struct nif_event *ev,
                                                               ERL_NIF_TERM tracee, ERL_NIF_TERM m,
                                                               ERL_NIF_TERM f, uint32_t arity, uint64_t depth)
{
    nif_put_function(ev, KYMO_E_CALL, KYMO_E_CALL_DEPTH, tracee, m, f, arity, depth);
}

/* The digest of a cast to or from another node: a hash of its contents, as far as they fit into
 * 512 bytes. A cast has no reference that would identify it on both nodes. */
uint64_t nif_cast_digest(const struct nif_event *ev, ERL_NIF_TERM msg);
/* The kind of a message that is sent to `to`. */
static inline struct nif_message nif_message_sent(const struct nif_event *ev, ERL_NIF_TERM msg,
                                                  ERL_NIF_TERM to)
{
    struct nif_message m = nif_message_look(msg);
    if (m.kind == KYMO_MSG_CAST && !nif_is_immediate(to) && !nif_is_ref(to)) {
        m.ref = nif_cast_digest(ev, msg);
    }
    return m;
}

/* The form of the record of a message. seen: its kind is known. */
static inline unsigned nif_message_form(bool send, bool seen, bool numbered)
{
    if (send) {
        return seen ? (numbered ? KYMO_E_SEND_REF_NUMBERED : KYMO_E_SEND_REF)
                    : (numbered ? KYMO_E_SEND_NUMBERED : KYMO_E_SEND);
    }
    return seen ? (numbered ? KYMO_E_RECEIVE_REF_NUMBERED : KYMO_E_RECEIVE_REF)
                : (numbered ? KYMO_E_RECEIVE_NUMBERED : KYMO_E_RECEIVE);
}

/* A message without contents or options. number: 0 = none. */
static inline __attribute__((always_inline)) void nif_put_message(const struct nif_event *ev, unsigned form,
                                                                  uint64_t who, uint64_t peer, uint32_t size,
                                                                  struct nif_message m, uint64_t number)
{
    bool seen = m.kind != KYMO_MSG_PLAIN;
    uint8_t *p = kymo_reserve(ev->w, form, 20 + (seen ? 9u : 0) + (number != 0 ? 8u : 0));
    if (p != NULL) {
        p = kymo_put64(p, who);
        p = kymo_put64(p, peer);
        p = kymo_put32(p, size);
        if (seen) {
            p = kymo_put8(p, m.kind);
            p = kymo_put64(p, m.ref);
        }
        if (number != 0) {
            p = kymo_put64(p, number);
        }
        kymo_commit(ev->w, p);
    }
}

static inline __attribute__((always_inline)) void nif_put_send(const struct nif_event *ev, unsigned id,
                                                               ERL_NIF_TERM tracee, ERL_NIF_TERM msg,
                                                               ERL_NIF_TERM to, uint64_t number)
{
    uint32_t size = nif_message_size(ev, msg);
    uint64_t who = nif_ident(ev, tracee);
    if (NIF_LIKELY(id == KYMO_E_SEND)) {
        struct nif_message m = nif_message_sent(ev, msg, to);
        unsigned form = nif_message_form(true, m.kind != KYMO_MSG_PLAIN, number != 0);
        nif_put_message(ev, form, who, nif_ident(ev, to), size, m, number);
    } else {
        nif_put_message(ev, id, who, nif_ident(ev, to), size, (struct nif_message){0, KYMO_MSG_PLAIN}, 0);
    }
}

/* The kind of a received message. from_afar: the trace pattern has returned undefined as its
 * sender, so it may be from another node. */
static inline struct nif_message nif_message_received(const struct nif_event *ev, bool from_afar,
                                                      ERL_NIF_TERM msg)
{
    struct nif_message m = nif_message_look(msg);
    if (m.kind == KYMO_MSG_CAST && from_afar) {
        m.ref = nif_cast_digest(ev, msg);
    }
    return m;
}

/* The sender of a received message, which the runtime does not pass; but a trace pattern may
 * return {message, Sender}. KYMO_IDENT_NONE if msr, the result of the pattern, is something else. */
uint64_t nif_message_sender(const struct nif_event *ev, ERL_NIF_TERM msr);

/* The sizes of a garbage collection, from the runtime's list. Those that it does not have are 0. */
void nif_gc_sizes(const struct nif_event *ev, ERL_NIF_TERM list, uint64_t sizes[static KYMO_GC_SIZES]);

/* Records any event. id is that of its tag in its class. May change the options. */
void nif_put_event(const struct nif_event *ev, enum nif_class c, unsigned id, struct nif_input *in);

#endif
