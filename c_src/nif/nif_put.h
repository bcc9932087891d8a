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
    uint64_t begun;   /* of stopped: how many ns ago it began */
    uint32_t omitted; /* of stopped: how many before it are not reported */
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

/* Depth of a call or return that the runtime does not report. */
#define NIF_NO_DEPTH UINT64_MAX

/* A call without contents or options; m and f must be atoms. */
static inline __attribute__((always_inline)) void nif_put_call(const struct nif_event *ev,
                                                               ERL_NIF_TERM tracee, ERL_NIF_TERM m,
                                                               ERL_NIF_TERM f, uint32_t arity, uint64_t depth)
{
    uint64_t who = nif_ident(ev, tracee);
    uint32_t mfa = nif_mfa_id(ev, m, f, arity);
    bool has_depth = depth <= KYMO_DEPTH_MAX;
    uint8_t *p = kymo_reserve(ev->w, has_depth ? KYMO_E_CALL_DEPTH : KYMO_E_CALL,
                              has_depth ? 12 + KYMO_DEPTH_BYTES : 12);
    if (p != NULL) {
        p = kymo_put64(p, who);
        p = kymo_put32(p, mfa);
        kymo_commit(ev->w, has_depth ? kymo_put_depth(p, depth) : p);
    }
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

/* A message without contents or options. number: 0 = none. */
static inline __attribute__((always_inline)) void nif_put_send(const struct nif_event *ev, unsigned id,
                                                               ERL_NIF_TERM tracee, ERL_NIF_TERM msg,
                                                               ERL_NIF_TERM to, uint64_t number)
{
    uint32_t size = nif_message_size(ev, msg);
    struct nif_message m = nif_message_sent(ev, msg, to);
    uint64_t who = nif_ident(ev, tracee);
    uint64_t peer = nif_ident(ev, to);
    bool seen = m.kind != KYMO_MSG_PLAIN && id == KYMO_E_SEND;
    size_t len = seen ? 29 : 20;
    if (number != 0) {
        id = seen ? KYMO_E_SEND_REF_NUMBERED : KYMO_E_SEND_NUMBERED;
        len += 8;
    } else if (seen) {
        id = KYMO_E_SEND_REF;
    }
    uint8_t *p = kymo_reserve(ev->w, id, len);
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

/* Records any event. id is that of its tag in its class. May change the options. */
void nif_put_event(const struct nif_event *ev, enum nif_class c, unsigned id, struct nif_input *in);

#endif
