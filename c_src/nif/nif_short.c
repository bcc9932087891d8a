/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_short.h"

#include <string.h>

static uint64_t depth_of(const ErlNifTraceEvent *e, bool more)
{
    return more ? e->depth : NIF_NO_DEPTH;
}

static bool has_detail(const struct nif_event *ev, uint32_t detail)
{
    return (ev->h->detail & detail) != 0;
}

/* A call or return. */
static inline __attribute__((always_inline)) bool put_function(const struct nif_event *ev, unsigned id,
                                                               unsigned id_with_depth,
                                                               const ErlNifTraceEvent *e, bool more)
{
    const ErlNifTraceMFA *mfa = e->mfa;
    if (NIF_UNLIKELY(mfa == NULL)) {
        return false;
    }
    nif_put_function(ev, id, id_with_depth, e->tracee, mfa->module, mfa->function, (uint32_t)mfa->arity,
                     depth_of(e, more));
    return true;
}

/* The result of a match specification is the sender: see nif_message_sender. */
static bool put_receive(const struct nif_event *ev, const ErlNifTraceEvent *e, bool more)
{
    ERL_NIF_TERM msr = e->match_spec_result;
    uint64_t peer = nif_message_sender(ev, msr);
    if (peer == KYMO_IDENT_NONE && (msr != 0 || e->term == nif_am.timeout)) {
        return false;
    }
    uint64_t who = nif_ident(ev, e->tracee);
    uint32_t size = nif_message_size(ev, e->term);
    uint64_t number = more ? e->message : 0;
    struct nif_message m = nif_message_received(ev, false, e->term);
    nif_put_message(ev, nif_message_form(false, m.kind != KYMO_MSG_PLAIN, number != 0), who, peer, size, m,
                    number);
    return true;
}

static void put_taken(const struct nif_event *ev, const ErlNifTraceEvent *e)
{
    uint64_t who = nif_ident(ev, e->tracee);
    uint8_t *p = kymo_reserve(ev->w, KYMO_E_TAKEN, 20);
    if (p != NULL) {
        p = kymo_put64(p, who);
        p = kymo_put64(p, e->message);
        kymo_commit(ev->w, kymo_put32(p, nif_bounded(e->passed)));
    }
}

/* A process that is scheduled in or out. id_with_reason: the form of version 2, whose fields after
 * the function take `size` bytes. */
static inline __attribute__((always_inline)) void put_scheduled(const struct nif_event *ev, unsigned id,
                                                                unsigned id_with_reason, size_t size,
                                                                const ErlNifTraceEvent *e, bool more)
{
    const ErlNifTraceMFA *function = e->mfa;
    uint64_t who = nif_ident(ev, e->tracee);
    uint32_t mfa = function == NULL
                       ? 0
                       : nif_mfa_id(ev, function->module, function->function, (uint32_t)function->arity);
    uint8_t *p = kymo_reserve(ev->w, more ? id_with_reason : id, more ? 12 + size : 12);
    if (p == NULL) {
        return;
    }
    p = kymo_put64(p, who);
    p = kymo_put32(p, mfa);
    if (more && id == KYMO_E_IN) {
        p = kymo_put8(p, (uint8_t)e->runnable_by);
        p = kymo_put64(p, (uint64_t)e->runnable_for);
    } else if (more) {
        p = kymo_put8(p, (uint8_t)e->out_reason);
    }
    kymo_commit(ev->w, p);
}

static void put_collection(const struct nif_event *ev, unsigned id, const ErlNifTraceEvent *e, bool more)
{
    uint64_t listed[KYMO_GC_SIZES];
    const void *sizes = more ? (const void *)e->sizes : NULL;
    uint64_t who = nif_ident(ev, e->tracee);
    if (!has_detail(ev, KYMO_D_GC_SIZES)) {
        uint8_t *none = kymo_reserve(ev->w, id, 9);
        if (none != NULL) {
            kymo_commit(ev->w, kymo_put8(kymo_put64(none, who), 0));
        }
        return;
    }
    if (sizes == NULL) {
        nif_gc_sizes(ev, e->term, listed);
        sizes = listed;
    }
    uint8_t *p = kymo_reserve(ev->w, id, 9 + sizeof listed);
    if (p != NULL) {
        p = kymo_put8(kymo_put64(p, who), KYMO_GC_SIZES);
        memcpy(p, sizes, sizeof listed);
        kymo_commit(ev->w, p + sizeof listed);
    }
}

/* spawn and spawned: extra is {Module, Function, Arguments}. */
static bool put_spawn(const struct nif_event *ev, unsigned id, const ErlNifTraceEvent *e)
{
    ERL_NIF_TERM args;
    uint32_t mfa, initial;
    if (e->extra == 0 || !nif_mfa_term(ev, e->extra, &mfa, &args)) {
        return false;
    }
    initial = id == KYMO_E_SPAWNED ? nif_initial_call(ev, e->extra) : 0;
    uint64_t who = nif_ident(ev, e->tracee);
    uint64_t peer = nif_ident(ev, e->term);
    uint8_t *p = kymo_reserve(ev->w, initial != 0 ? KYMO_E_SPAWNED_PROC : id, initial != 0 ? 24 : 20);
    if (p != NULL) {
        p = kymo_put64(p, who);
        p = kymo_put64(p, peer);
        p = kymo_put32(p, mfa);
        kymo_commit(ev->w, initial != 0 ? kymo_put32(p, initial) : p);
    }
    return true;
}

static bool put_exit(const struct nif_event *ev, const ErlNifTraceEvent *e)
{
    if (!nif_is_atom(e->term)) {
        return false;
    }
    uint64_t who = nif_ident(ev, e->tracee);
    uint32_t reason = nif_atom_id(ev, e->term);
    uint8_t *p = kymo_reserve(ev->w, KYMO_E_EXIT, 12);
    if (p != NULL) {
        kymo_commit(ev->w, kymo_put32(kymo_put64(p, who), reason));
    }
    return true;
}

bool nif_short_put(const struct nif_event *ev, unsigned id, const ErlNifTraceEvent *e, bool more)
{
    if (e->flags != 0) {
        return false;
    }
    if (id == KYMO_E_RECEIVE) {
        return !has_detail(ev, KYMO_D_MSG) && put_receive(ev, e, more);
    }
    if (e->match_spec_result != 0) {
        return false;
    }
    switch (id) {
    case KYMO_E_CALL: return !has_detail(ev, KYMO_D_ARGS) && put_function(ev, id, KYMO_E_CALL_DEPTH, e, more);
    case KYMO_E_RETURN_TO: return put_function(ev, id, KYMO_E_RETURN_TO_DEPTH, e, more);
    case KYMO_E_RETURN_FROM:
        return !has_detail(ev, KYMO_D_RETURNS) && put_function(ev, id, KYMO_E_RETURN_FROM_DEPTH, e, more);
    case KYMO_E_SEND:
        if (has_detail(ev, KYMO_D_MSG)) {
            return false;
        }
        nif_put_send(ev, id, e->tracee, e->term, e->extra, more ? e->message : 0);
        return true;
    case KYMO_E_TAKEN: put_taken(ev, e); return true;
    case KYMO_E_IN: put_scheduled(ev, KYMO_E_IN, KYMO_E_IN_RUNNABLE, 9, e, more); return true;
    case KYMO_E_OUT: put_scheduled(ev, KYMO_E_OUT, KYMO_E_OUT_REASON, 1, e, more); return true;
    case KYMO_E_GC_MINOR_START:
    case KYMO_E_GC_MINOR_END:
    case KYMO_E_GC_MAJOR_START:
    case KYMO_E_GC_MAJOR_END: put_collection(ev, id, e, more); return true;
    case KYMO_E_SPAWN:
    case KYMO_E_SPAWNED: return !has_detail(ev, KYMO_D_TERMS) && put_spawn(ev, id, e);
    case KYMO_E_EXIT: return !has_detail(ev, KYMO_D_TERMS) && put_exit(ev, e);
    default: return false;
    }
}
