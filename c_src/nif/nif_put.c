/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the records of all events except plain calls and sends. */
#include "nif_put.h"

#include <string.h>

#include "nif_boxed.h"
#include "nif_tags.h"
#include "nif_term.h"

/* Starts the record of an event with its process and its options. */
static void start(struct nif_record *r, const struct nif_event *ev, unsigned id, const struct nif_input *in)
{
    r->id = id;
    r->shape = NIF_NO_CONTENT;
    r->options = &in->options;
    r->len = 0;
    nif_field64(r, nif_ident(ev, in->tracee));
}

static void one_content(struct nif_record *r, ERL_NIF_TERM t)
{
    r->shape = NIF_ONE;
    r->first = t;
}

/* ---- calls ------------------------------------------------------------------- */

/* Stores the id of the event's function. Returns false if the term is something else. */
static bool function_of(const struct nif_event *ev, const struct nif_input *in, uint32_t *mfa,
                        ERL_NIF_TERM *args)
{
    if (in->module == 0) {
        return nif_mfa_term(ev, in->term, mfa, args);
    }
    *args = in->args;
    *mfa = nif_mfa_id(ev, in->module, in->function, in->arity);
    return true;
}

/* {Class, Value} of exception_from. */
static void exception_value(const struct nif_event *ev, struct nif_record *r, ERL_NIF_TERM extra)
{
    const ERL_NIF_TERM *el;
    int n;
    bool ok = extra != 0 && enif_get_tuple(ev->env, extra, &n, &el) && n == 2;
    nif_field32(r, ok ? nif_atom_id(ev, el[0]) : 0);
    if (ok && (ev->h->detail & KYMO_D_RETURNS) != 0) {
        one_content(r, el[1]);
    }
}

/* The form of a call or return that has the depth of the stack. */
static unsigned with_depth(unsigned id)
{
    switch (id) {
    case KYMO_E_CALL: return KYMO_E_CALL_DEPTH;
    case KYMO_E_RETURN_TO: return KYMO_E_RETURN_TO_DEPTH;
    case KYMO_E_RETURN_FROM: return KYMO_E_RETURN_FROM_DEPTH;
    case KYMO_E_SLOW: return KYMO_E_SLOW_DEPTH;
    default: return KYMO_E_EXCEPTION_FROM_DEPTH;
    }
}

/* The nanoseconds that a slow call took; negative if they are not known. The behaviour has
 * {Start, Duration} in the unit of the runtime. */
static int64_t slow_duration(const struct nif_event *ev, const struct nif_input *in)
{
    const ERL_NIF_TERM *el;
    int n;
    ErlNifSInt64 units;
    if (in->options.extra == 0) {
        return in->duration;
    }
    if (!enif_get_tuple(ev->env, in->options.extra, &n, &el) || n != 2 ||
        !enif_get_int64(ev->env, el[1], &units) || units < 0) {
        return -1;
    }
    return nif_layout_ns(units);
}

static void any_call(const struct nif_event *ev, unsigned id, const struct nif_input *in)
{
    const struct nif_options *o = &in->options;
    struct nif_record r;
    ERL_NIF_TERM args = 0;
    uint32_t mfa = 0;
    start(&r, ev, id, in);
    if (!function_of(ev, in, &mfa, &args) && in->term != nif_am.undefined) {
        kymo_lose(ev->w, KYMO_LOST_BAD_TERM);
        return;
    }
    nif_field32(&r, mfa);
    if (id == KYMO_E_CALL && args != 0 && (ev->h->detail & KYMO_D_ARGS) != 0) {
        one_content(&r, args);
    } else if (id == KYMO_E_RETURN_FROM && o->extra != 0 && (ev->h->detail & KYMO_D_RETURNS) != 0) {
        one_content(&r, o->extra);
    } else if (id == KYMO_E_EXCEPTION_FROM) {
        exception_value(ev, &r, o->extra);
    } else if (id == KYMO_E_SLOW) {
        int64_t ns = slow_duration(ev, in);
        if (ns < 0) {
            kymo_lose(ev->w, KYMO_LOST_BAD_TERM);
            return;
        }
        nif_field64(&r, (uint64_t)ns);
    }
    if (in->has_depth) {
        r.id = with_depth(id);
        nif_field_depth(&r, in->depth);
    }
    nif_record_write(ev, &r);
}

/* ---- everything else ------------------------------------------------------------ */

/* Records an event with a tag that this library does not know. */
static void other(const struct nif_event *ev, const struct nif_input *in)
{
    struct nif_record r;
    start(&r, ev, KYMO_E_OTHER, in);
    nif_field32(&r, nif_atom_id(ev, in->tag));
    if ((ev->h->detail & KYMO_D_TERMS) != 0) {
        r.shape = NIF_CONS;
        r.first = in->term;
        r.second = in->options.extra != 0 ? in->options.extra : NIF_NIL;
    }
    nif_record_write(ev, &r);
}

uint64_t nif_cast_digest(const struct nif_event *ev, ERL_NIF_TERM msg)
{
    uint64_t digest = KYMO_IDENT_DATA(nif_term_hash(ev->env, ev->h, msg));
    return digest != 0 ? digest : 1;
}

/* Adds the last base fields of a message whose kind is known, and its number if it has one:
 * these make the record one of the other forms. */
static void message_fields(struct nif_record *r, bool send, struct nif_message m, uint64_t number)
{
    bool seen = m.kind != KYMO_MSG_PLAIN;
    r->id = nif_message_form(send, seen, number != 0);
    if (seen) {
        nif_field8(r, m.kind);
        nif_field64(r, m.ref);
    }
    if (number != 0) {
        nif_field64(r, number);
    }
}

static void send(const struct nif_event *ev, unsigned id, const struct nif_input *in)
{
    struct nif_record r;
    ERL_NIF_TERM to = in->options.extra != 0 ? in->options.extra : nif_am.undefined;
    if (in->options.flags == 0 && (ev->h->detail & KYMO_D_MSG) == 0) {
        nif_put_send(ev, id, in->tracee, in->term, to, in->number);
        return;
    }
    start(&r, ev, id, in);
    uint64_t peer = nif_ident(ev, to);
    nif_field64(&r, peer);
    nif_field32(&r, nif_message_size(ev, in->term));
    if (id == KYMO_E_SEND) {
        message_fields(&r, true, nif_message_sent(ev, in->term, to), in->number);
    }
    if ((ev->h->detail & KYMO_D_MSG) != 0) {
        unsigned kind = KYMO_IDENT_KIND(peer);
        one_content(&r, in->term);
        if (kind == KYMO_I_REF || kind == KYMO_I_OTHER) {
            r.shape = NIF_PEER;
            r.second = to;
        }
    }
    nif_record_write(ev, &r);
}

uint64_t nif_message_sender(const struct nif_event *ev, ERL_NIF_TERM msr)
{
    if (msr == 0 || nif_is_small(msr) || msr == NIF_NIL) {
        return KYMO_IDENT_NONE;
    }
    enum nif_kind kind = nif_any_kind(msr);
    if (!nif_is_immediate(msr) && kind != NIF_EXTERNAL_PID && kind != NIF_EXTERNAL_PORT) {
        return KYMO_IDENT_NONE;
    }
    uint64_t peer = nif_ident(ev, msr);
    return KYMO_IDENT_KIND(peer) > KYMO_I_ATOM ? KYMO_IDENT_NONE : peer;
}

/* The sender, which is recorded as the peer. It is then not also recorded as a result. */
static uint64_t sender(const struct nif_event *ev, struct nif_options *o)
{
    uint64_t peer = nif_message_sender(ev, o->msr);
    if (peer != KYMO_IDENT_NONE) {
        o->msr = 0;
        o->flags = (uint8_t)(o->flags & ~KYMO_O_MSR);
    }
    return peer;
}

/* A receive that timed out arrives as the atom timeout from the sender clock_service, for which
 * the trace pattern returns undefined. The match spec result stays that of the pattern. */
static bool is_timeout(uint64_t peer, const struct nif_input *in)
{
    return in->term == nif_am.timeout && peer == KYMO_IDENT_NONE;
}

static void receive(const struct nif_event *ev, struct nif_input *in)
{
    struct nif_record r;
    bool from_afar = in->options.msr == nif_am.undefined;
    uint64_t peer = sender(ev, &in->options);
    bool timeout = is_timeout(peer, in);
    start(&r, ev, KYMO_E_RECEIVE, in);
    nif_field64(&r, peer);
    nif_field32(&r, nif_message_size(ev, in->term));
    message_fields(&r, false,
                   timeout ? (struct nif_message){0, KYMO_MSG_TIMEOUT}
                           : nif_message_received(ev, from_afar, in->term),
                   in->number);
    if ((ev->h->detail & KYMO_D_MSG) != 0) {
        one_content(&r, in->term);
    }
    nif_record_write(ev, &r);
}

static void taken(const struct nif_event *ev, const struct nif_input *in)
{
    struct nif_record r;
    start(&r, ev, KYMO_E_TAKEN, in);
    nif_field64(&r, in->number);
    nif_field32(&r, in->passed);
    nif_record_write(ev, &r);
}

/* The reason or the first atom in it: badkey of {{badkey, Key}, Stack}. A term that is no atom if there is
 * none in its first elements. */
static ERL_NIF_TERM reason_of(const struct nif_event *ev, ERL_NIF_TERM t)
{
    enum { DEPTH = 4 };
    const ERL_NIF_TERM *el;
    int n;
    for (int i = 0; i < DEPTH && enif_get_tuple(ev->env, t, &n, &el) && n > 0; i++) {
        t = el[0];
    }
    return t;
}

/* The id of the function in an entry of a stack, 0 if it is none. */
static uint32_t entry_of_stack(const struct nif_event *ev, ERL_NIF_TERM t, bool *bif)
{
    const ERL_NIF_TERM *el;
    int n;
    unsigned arity;
    *bif = false;
    if (!enif_get_tuple(ev->env, t, &n, &el) || n != 4 || !nif_is_atom(el[0]) || !nif_is_atom(el[1]) ||
        (!enif_get_uint(ev->env, el[2], &arity) && !enif_get_list_length(ev->env, el[2], &arity)) ||
        arity > UINT8_MAX) {
        return 0;
    }
    *bif = el[0] == nif_am.erlang;
    return nif_mfa_id(ev, el[0], el[1], arity);
}

/* The function at the top of the stack in the reason {Reason, Stack}, below those of the module erlang; 0
 * if there is none. */
static uint32_t crashed_in(const struct nif_event *ev, ERL_NIF_TERM t)
{
    enum { BIFS = 3 };
    const ERL_NIF_TERM *el;
    ERL_NIF_TERM head, stack;
    uint32_t top = 0;
    int n;
    if (!enif_get_tuple(ev->env, t, &n, &el) || n != 2) {
        return 0;
    }
    stack = el[1];
    for (int i = 0; i < BIFS && enif_get_list_cell(ev->env, stack, &head, &stack); i++) {
        bool bif;
        uint32_t mfa = entry_of_stack(ev, head, &bif);
        if (mfa != 0 && !bif) {
            return mfa;
        }
        top = top == 0 ? mfa : top;
    }
    return top;
}

/* Records events of the life of processes and ports. */
static void life(const struct nif_event *ev, unsigned id, const struct nif_input *in)
{
    struct nif_record r;
    ERL_NIF_TERM args = 0;
    uint32_t mfa = 0;
    bool terms = (ev->h->detail & KYMO_D_TERMS) != 0;
    ERL_NIF_TERM t = in->term;
    start(&r, ev, id, in);
    switch (id) {
    case KYMO_E_SPAWN:
    case KYMO_E_SPAWNED:
        nif_field64(&r, nif_ident(ev, t));
        if (in->options.extra != 0) {
            nif_mfa_term(ev, in->options.extra, &mfa, &args);
        }
        nif_field32(&r, mfa);
        if (id == KYMO_E_SPAWNED && in->options.extra != 0) {
            uint32_t initial = nif_initial_call(ev, in->options.extra);
            if (initial != 0) {
                r.id = KYMO_E_SPAWNED_PROC;
                nif_field32(&r, initial);
            }
        }
        if (terms && args != 0) {
            one_content(&r, args);
        }
        break;
    case KYMO_E_EXIT:
        nif_field32(&r, nif_atom_id(ev, reason_of(ev, t)));
        mfa = crashed_in(ev, t);
        if (mfa != 0) {
            r.id = KYMO_E_EXIT_IN;
            nif_field32(&r, mfa);
        }
        if (terms) {
            one_content(&r, t);
        }
        break;
    case KYMO_E_OPEN:
        nif_field64(&r, nif_ident(ev, t));
        nif_field32(&r, nif_atom_id(ev, in->options.extra));
        if (terms && in->options.extra != 0) {
            one_content(&r, in->options.extra);
        }
        break;
    case KYMO_E_CLOSED:
        nif_field32(&r, nif_atom_id(ev, t));
        if (terms) {
            one_content(&r, t);
        }
        break;
    case KYMO_E_REGISTER:
    case KYMO_E_UNREGISTER: nif_field32(&r, nif_atom_id(ev, t)); break;
    default: /* links */ nif_field64(&r, nif_ident(ev, t)); break;
    }
    nif_record_write(ev, &r);
}

static void running_process(const struct nif_event *ev, unsigned id, const struct nif_input *in)
{
    struct nif_record r;
    ERL_NIF_TERM args;
    uint32_t mfa = 0;
    start(&r, ev, id, in);
    function_of(ev, in, &mfa, &args);
    nif_field32(&r, mfa);
    if (in->has_reason && id == KYMO_E_IN) {
        r.id = KYMO_E_IN_RUNNABLE;
        nif_field8(&r, in->reason);
        nif_field64(&r, (uint64_t)in->waited);
    } else if (in->has_reason && id == KYMO_E_OUT) {
        r.id = KYMO_E_OUT_REASON;
        nif_field8(&r, in->reason);
    }
    nif_record_write(ev, &r);
}

static void stopped(const struct nif_event *ev, const struct nif_input *in)
{
    struct nif_record r;
    start(&r, ev, KYMO_E_STOPPED, in);
    nif_field32(&r, nif_atom_id(ev, in->term));
    nif_field64(&r, (uint64_t)in->duration);
    nif_field64(&r, in->begun);
    nif_field32(&r, in->omitted);
    nif_record_write(ev, &r);
}

static void running_port(const struct nif_event *ev, unsigned id, const struct nif_input *in)
{
    struct nif_record r;
    start(&r, ev, id, in);
    nif_field32(&r, nif_atom_id(ev, in->term));
    nif_record_write(ev, &r);
}

/* The fast path: all names in the runtime's order, which is that of the sizes. */
static bool sizes_in_order(ERL_NIF_TERM list, uint64_t sizes[static KYMO_GC_SIZES])
{
    for (size_t i = 0; i < KYMO_GC_SIZES; i++) {
        const ERL_NIF_TERM *el;
        if (!nif_is_list_cell(list) || (el = nif_tuple(nif_words(list)[0], 2)) == NULL ||
            el[0] != nif_am.gc_sizes[i] || !nif_is_small(el[1]) || nif_small(el[1]) < 0) {
            return false;
        }
        sizes[i] = (uint64_t)nif_small(el[1]);
        list = nif_words(list)[1];
    }
    return list == NIF_NIL;
}

void nif_gc_sizes(const struct nif_event *ev, ERL_NIF_TERM list, uint64_t sizes[static KYMO_GC_SIZES])
{
    ERL_NIF_TERM head;
    const ERL_NIF_TERM *el;
    ErlNifUInt64 v;
    int n;
    if (NIF_LIKELY(nif_layout.header_ok) && NIF_LIKELY(sizes_in_order(list, sizes))) {
        return;
    }
    memset(sizes, 0, KYMO_GC_SIZES * sizeof *sizes);
    while (enif_get_list_cell(ev->env, list, &head, &list)) {
        if (enif_get_tuple(ev->env, head, &n, &el) && n == 2 && enif_get_uint64(ev->env, el[1], &v)) {
            int i = nif_gc_index(el[0]);
            if (i >= 0) {
                sizes[i] = v;
            }
        }
    }
}

static void collection(const struct nif_event *ev, unsigned id, const struct nif_input *in)
{
    struct nif_record r;
    start(&r, ev, id, in);
    if ((ev->h->detail & KYMO_D_GC_SIZES) == 0) {
        nif_field8(&r, 0);
        nif_record_write(ev, &r);
        return;
    }
    uint64_t sizes[KYMO_GC_SIZES];
    if (in->sizes == NULL) {
        nif_gc_sizes(ev, in->term, sizes);
    }
    nif_field8(&r, KYMO_GC_SIZES);
    for (size_t i = 0; i < KYMO_GC_SIZES; i++) {
        nif_field64(&r, in->sizes != NULL ? in->sizes[i] : sizes[i]);
    }
    nif_record_write(ev, &r);
}

/* trace(seq_trace, State, Label, {Type, {Previous, Current}, From, To, Message}, Options) */
static void sequential(const struct nif_event *ev, const struct nif_input *in)
{
    struct nif_record r;
    const ERL_NIF_TERM *el, *serial;
    int n;
    unsigned prev = 0, cur = 0;
    ERL_NIF_TERM label = in->tracee;
    if (!enif_get_tuple(ev->env, in->term, &n, &el) || n != 5) {
        kymo_lose(ev->w, KYMO_LOST_BAD_TERM);
        return;
    }
    if (enif_get_tuple(ev->env, el[1], &n, &serial) && n == 2) {
        enif_get_uint(ev->env, serial[0], &prev);
        enif_get_uint(ev->env, serial[1], &cur);
    }
    unsigned kind = el[0] == nif_am.send      ? KYMO_SEQ_SEND
                    : el[0] == nif_am.receive ? KYMO_SEQ_RECEIVE
                    : el[0] == nif_am.print   ? KYMO_SEQ_PRINT
                                              : KYMO_SEQ_OTHER;
    r.id = KYMO_E_SEQ_TRACE;
    r.shape = NIF_NO_CONTENT;
    r.options = &in->options;
    r.len = 0;
    nif_field64(&r, nif_ident(ev, el[2]));
    nif_field64(&r, el[3] == NIF_NIL ? KYMO_IDENT_NONE : nif_ident(ev, el[3]));
    nif_field8(&r, (uint8_t)(nif_is_small(label) ? kind : kind | KYMO_SEQ_LABEL_TERM));
    nif_field32(&r, prev);
    nif_field32(&r, cur);
    nif_field64(&r, nif_is_small(label) ? (uint64_t)nif_small(label) : nif_term_hash(ev->env, ev->h, label));
    nif_field32(&r, nif_message_size(ev, el[4]));
    if ((ev->h->detail & KYMO_D_TERMS) != 0) {
        r.shape = NIF_PAIR;
        r.first = label;
        r.second = in->term;
    }
    nif_record_write(ev, &r);
}

__attribute__((noinline)) void nif_put_event(const struct nif_event *ev, enum nif_class c, unsigned id,
                                             struct nif_input *in)
{
    if (id == KYMO_E_OTHER) {
        other(ev, in);
        return;
    }
    switch (c) {
    case NIF_CALLS: any_call(ev, id, in); break;
    case NIF_SEND: send(ev, id, in); break;
    case NIF_RECEIVE:
        if (id == KYMO_E_TAKEN) {
            taken(ev, in);
        } else {
            receive(ev, in);
        }
        break;
    case NIF_PROCS:
    case NIF_PORTS: life(ev, id, in); break;
    case NIF_RUNNING_PROCS:
        if (id == KYMO_E_STOPPED) {
            stopped(ev, in);
        } else {
            running_process(ev, id, in);
        }
        break;
    case NIF_RUNNING_PORTS: running_port(ev, id, in); break;
    case NIF_GC: collection(ev, id, in); break;
    default: sequential(ev, in); break;
    }
}
