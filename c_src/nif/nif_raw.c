/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes one record of each raw event, the same that the callbacks of the behaviour would make,
 * but in one call instead of two or three. */
#include "nif_raw.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "erl_nif_tracer.h"
#include "nif_callbacks.h"
#include "nif_put.h"
#include "nif_short.h"
#include "nif_tags.h"

static enum nif_class class_of(ErlNifTraceKind kind)
{
    switch (kind) {
    case ERL_NIF_TRACE_CALL:
    case ERL_NIF_TRACE_SLOW: return NIF_CALLS;
    case ERL_NIF_TRACE_SEND: return NIF_SEND;
    case ERL_NIF_TRACE_RECEIVE:
    case ERL_NIF_TRACE_TAKEN: return NIF_RECEIVE;
    case ERL_NIF_TRACE_PROCS: return NIF_PROCS;
    case ERL_NIF_TRACE_PORTS: return NIF_PORTS;
    case ERL_NIF_TRACE_RUNNING_PROCS:
    case ERL_NIF_TRACE_STOPPED: return NIF_RUNNING_PROCS;
    case ERL_NIF_TRACE_RUNNING_PORTS: return NIF_RUNNING_PORTS;
    default: return NIF_GC;
    }
}

/* ---- filtering ------------------------------------------------------------------ */

/* Calls the function of the behaviour, for calls and messages that the fast path does not
 * decide. */
static NIF_RARE bool ask(ErlNifEnv *env, const ErlNifTraceEvent *e)
{
    const ERL_NIF_TERM argv[] = {e->tag, e->state, e->tracee};
    ERL_NIF_TERM answer =
        e->kind == ERL_NIF_TRACE_SEND ? nif_enabled_send(env, 3, argv) : nif_enabled(env, 3, argv);
    /* A raw event is not followed by trace_send. */
    nif_send_expected = 0;
    return answer == nif_am.trace;
}

/* The answer for a state that is not a recorder, or a recorder that is not active. Only one that
 * has ended removes itself from the tracee. */
static NIF_RARE ErlNifTracerAnswer refused(const struct nif_handle *h)
{
    return h == NULL || kymo_recorder_ended(h->rec) ? ERL_NIF_TRACER_REMOVE : ERL_NIF_TRACER_DISCARD;
}

static inline bool wants(ErlNifEnv *env, const struct nif_handle *h, const ErlNifTraceEvent *e,
                         enum nif_class c, unsigned id)
{
    ERL_NIF_TERM known = 0;
    if (c != NIF_CALLS && c != NIF_SEND) {
        return nif_wanted(h, c, id) && nif_sampled(h, e->tracee);
    }
    if (id == KYMO_E_CALL) {
        known = h->on_call;
    } else if (id == KYMO_E_SEND && nif_is_local_pid(e->tracee)) {
        known = h->on_send;
    }
    return NIF_LIKELY(known != 0) ? known == nif_shortcut.trace : ask(env, e);
}

static inline ErlNifTracerAnswer wanted(ErlNifEnv *env, const struct nif_handle *h, const ErlNifTraceEvent *e,
                                        enum nif_class c, unsigned id)
{
    if (NIF_UNLIKELY(h == NULL) || NIF_UNLIKELY(!kymo_recorder_active(h->rec))) {
        return refused(h);
    }
    return wants(env, h, e, c, id) ? ERL_NIF_TRACER_TRACE : ERL_NIF_TRACER_DISCARD;
}

static ErlNifTracerAnswer raw_enabled(ErlNifEnv *env, const ErlNifTraceEvent *e)
{
    enum nif_class c = class_of(e->kind);
    return wanted(env, nif_handle_of(env, e->state), e, c, nif_tag_event_of(c, e->tag));
}

/* ---- reading an event ----------------------------------------------------------- */

static void read_options(ErlNifEnv *env, const ErlNifTraceEvent *e, struct nif_options *o)
{
    memset(o, 0, sizeof *o);
    o->extra = e->extra;
    if (e->match_spec_result != 0) {
        o->msr = e->match_spec_result;
        o->flags |= KYMO_O_MSR;
    }
    if ((e->flags & ERL_NIF_TRACE_SCHEDULER_ID) != 0) {
        o->sched = (uint16_t)e->scheduler_id;
        o->flags |= KYMO_O_SCHED;
    }
    if ((e->flags & ERL_NIF_TRACE_TIMESTAMP) != 0) {
        nif_options_time(env, nif_am.timestamp, o);
    } else if ((e->flags & ERL_NIF_TRACE_CPU_TIMESTAMP) != 0) {
        nif_options_time(env, nif_am.cpu_timestamp, o);
    } else if ((e->flags & ERL_NIF_TRACE_MONOTONIC) != 0) {
        nif_options_time(env, nif_am.monotonic, o);
    } else if ((e->flags & ERL_NIF_TRACE_STRICT_MONOTONIC) != 0) {
        nif_options_time(env, nif_am.strict_monotonic, o);
    }
}

/* Terms like those that the behaviour gets, made of words on the stack. Only kymo's encoder
 * reads them; they are never passed to the runtime. */
enum { MAX_ARITY = 255 };
struct made {
    ERL_NIF_TERM function[4];
    ERL_NIF_TERM cells[MAX_ARITY][2];
};

static ERL_NIF_TERM small(uint32_t n)
{
    return (ERL_NIF_TERM)n << 4 | NIF_TAG_SMALL;
}

/* {Module, Function, Arity} */
static ERL_NIF_TERM make_function(struct made *m, const struct nif_input *in)
{
    m->function[0] = 3u << 6;
    m->function[1] = in->module;
    m->function[2] = in->function;
    m->function[3] = small(in->arity);
    return (ERL_NIF_TERM)(uintptr_t)m->function | NIF_TAG_BOXED;
}

static ERL_NIF_TERM make_list(struct made *m, const ERL_NIF_TERM *el, uint32_t n)
{
    ERL_NIF_TERM list = NIF_NIL;
    while (n-- > 0) {
        m->cells[n][0] = el[n];
        m->cells[n][1] = list;
        list = (ERL_NIF_TERM)(uintptr_t)m->cells[n] | NIF_TAG_LIST;
    }
    return list;
}

/* Makes the term for an event that has none: the function, or the term for no function. */
static ERL_NIF_TERM no_term(struct made *m, const ErlNifTraceEvent *e, const struct nif_input *in)
{
    if (in->module != 0) {
        return nif_layout.header_ok ? make_function(m, in) : nif_am.undefined;
    }
    return e->kind == ERL_NIF_TRACE_CALL ? nif_am.undefined : small(0);
}

/* The version that has been registered: events have no more members than it knows. */
static _Atomic unsigned version;

static bool tells_more(void)
{
    return atomic_load_explicit(&version, memory_order_relaxed) >= 2;
}

/* How many nanoseconds ago that was. */
static uint64_t ago(ErlNifTime start)
{
    ErlNifTime now = enif_monotonic_time(ERL_NIF_NSEC);
    return now > start ? (uint64_t)now - (uint64_t)start : 0;
}

/* What version 2 has more. */
static void read_more(const ErlNifTraceEvent *e, struct nif_input *in)
{
    _Static_assert((int)ERL_NIF_TRACE_OUT_PORT + 1 == (int)KYMO_OUTS, "another list of reasons");
    _Static_assert((int)ERL_NIF_TRACE_SIZES == (int)KYMO_GC_SIZES, "other sizes");
    _Static_assert(KYMO_PASSED_MANY == UINT32_MAX, "not the largest number");
    _Static_assert((int)ERL_NIF_TRACE_BY_SIGNAL + 1 == (int)KYMO_RUNNABLES, "another list of causes");
    switch (e->kind) {
    case ERL_NIF_TRACE_CALL:
        in->has_depth = e->depth <= KYMO_DEPTH_MAX;
        in->depth = e->depth;
        break;
    case ERL_NIF_TRACE_SLOW:
        in->has_depth = e->depth <= KYMO_DEPTH_MAX;
        in->depth = e->depth;
        in->duration = e->duration;
        break;
    case ERL_NIF_TRACE_STOPPED:
        in->duration = e->duration;
        in->begun = ago(e->start);
        in->omitted = nif_bounded(e->missed);
        break;
    case ERL_NIF_TRACE_TAKEN:
        in->passed = nif_bounded(e->passed);
        in->number = e->message;
        break;
    case ERL_NIF_TRACE_SEND:
    case ERL_NIF_TRACE_RECEIVE: in->number = e->message; break;
    case ERL_NIF_TRACE_RUNNING_PROCS:
        in->has_reason = true;
        in->reason = (uint8_t)(e->tag == nif_am.in ? (unsigned)e->runnable_by : (unsigned)e->out_reason);
        in->waited = e->runnable_for;
        break;
    case ERL_NIF_TRACE_GARBAGE_COLLECTION: in->sizes = e->sizes; break;
    default: break;
    }
}

static NIF_RARE void put_any(const struct nif_event *ev, const ErlNifTraceEvent *e, enum nif_class c,
                             unsigned id)
{
    struct made made;
    struct nif_input in = {.tag = e->tag, .tracee = e->tracee, .term = e->term};
    if (e->mfa != NULL) {
        in.module = e->mfa->module;
        in.function = e->mfa->function;
        in.arity = (uint32_t)e->mfa->arity;
        if (e->args != NULL && (ev->h->detail & KYMO_D_ARGS) != 0 && in.arity <= MAX_ARITY) {
            in.args = make_list(&made, e->args, in.arity);
        }
    }
    if (in.term == 0) {
        in.term = no_term(&made, e, &in);
    }
    if (tells_more()) {
        read_more(e, &in);
    }
    read_options(ev->env, e, &in.options);
    nif_put_event(ev, c, id, &in);
}

/* ---- the event -------------------------------------------------------------------- */

static inline bool plain(const ErlNifTraceEvent *e)
{
    return e->flags == 0 && e->match_spec_result == 0;
}

static __attribute__((noinline)) ErlNifTracerAnswer raw_any_event(ErlNifEnv *env, struct nif_handle *h,
                                                                  const ErlNifTraceEvent *e)
{
    enum nif_class c = class_of(e->kind);
    unsigned id = nif_tag_event_of(c, e->tag);
    struct nif_event ev;
    /* Returns need no check, because the call was wanted. A slow call has had none. */
    if (c != NIF_CALLS || id == KYMO_E_CALL || id == KYMO_E_SLOW) {
        ErlNifTracerAnswer answer = wanted(env, h, e, c, id);
        if (NIF_UNLIKELY(answer != ERL_NIF_TRACER_TRACE)) {
            return answer;
        }
    }
    if (NIF_LIKELY(h != NULL) && nif_wanted(h, c, id) && nif_begin(&ev, env, h)) {
        if (NIF_UNLIKELY(!nif_short_put(&ev, id, e, tells_more()))) {
            put_any(&ev, e, c, id);
        }
        kymo_writer_put(ev.w);
    }
    return ERL_NIF_TRACER_TRACE;
}

/* A plain call that kymo_record_call doesn't take. */
static NIF_RARE ErlNifTracerAnswer raw_plain_call(ErlNifEnv *env, struct nif_handle *h,
                                                  const ErlNifTraceEvent *e)
{
    struct nif_event ev;
    if (!nif_begin(&ev, env, h)) {
        return kymo_recorder_active(h->rec) ? ERL_NIF_TRACER_TRACE : refused(h);
    }
    (void)nif_short_put(&ev, KYMO_E_CALL, e, tells_more());
    kymo_writer_put(ev.w);
    return ERL_NIF_TRACER_TRACE;
}

/* The fast path, with a single comparison, is for calls that are recorded without arguments,
 * which most events are. deep: they have the depth of the stack, as in version 2. */
static inline __attribute__((always_inline)) ErlNifTracerAnswer
fast_event(ErlNifEnv *env, const ErlNifTraceEvent *e, bool deep)
{
    struct nif_handle *h = nif_handle_fast(e->state);
    if (NIF_UNLIKELY(h == NULL) || e->tag != h->plain_call || NIF_UNLIKELY(!plain(e))) {
        return raw_any_event(env, h != NULL ? h : nif_handle_slow(env, e->state), e);
    }
    if (NIF_LIKELY(nif_has_plain_ident(e->tracee))) {
        const ErlNifTraceMFA *mfa = e->mfa;
        uint64_t who = nif_plain_ident(e->tracee);
        /* Forces the compiler to compute it here. Otherwise it would keep all operands in
         * registers. */
        __asm__("" : "+r"(who));
        bool done = deep ? kymo_record_call_at(h->rec, who, mfa->module, mfa->function, (uint32_t)mfa->arity,
                                               e->depth)
                         : kymo_record_call(h->rec, who, mfa->module, mfa->function, (uint32_t)mfa->arity);
        if (NIF_LIKELY(done)) {
            return ERL_NIF_TRACER_TRACE;
        }
    }
    return raw_plain_call(env, h, e);
}

static ErlNifTracerAnswer raw_event(ErlNifEnv *env, const ErlNifTraceEvent *e)
{
    return fast_event(env, e, false);
}

static ErlNifTracerAnswer raw_event_2(ErlNifEnv *env, const ErlNifTraceEvent *e)
{
    return fast_event(env, e, true);
}

/* ---- registration ------------------------------------------------------------------ */

static atomic_bool registered;

bool nif_raw_register(ErlNifEnv *env)
{
    ErlNifTracer tracer = {ERL_NIF_TRACER_VERSION, ERL_NIF_TRACER_STOPPED | ERL_NIF_TRACER_SIZES, raw_enabled,
                           raw_event_2};
    const char *how = getenv("KYMO_EVENTS");
    ErlNifTracerRegister *set;
    *(void **)&set = dlsym(RTLD_DEFAULT, ERL_NIF_TRACER_REGISTER);
    bool raw = false;
    if (set != NULL && (how == NULL || strcmp(how, "behaviour") != 0)) {
        /* A runtime serves all versions up to its own. */
        while (!(raw = set(env, &tracer) == 0) && tracer.version > 1) {
            tracer.version--;
            tracer.flags = 0;
            tracer.event = raw_event;
        }
    }
    atomic_store(&version, raw ? tracer.version : 0);
    atomic_store(&registered, raw);
    return raw;
}

uint32_t nif_raw_exact(void)
{
    return tells_more() ? KYMO_EXACT_MESSAGES | KYMO_EXACT_TAKEN | KYMO_EXACT_RUNNABLE | KYMO_EXACT_CALLS |
                              KYMO_EXACT_STOPPED
                        : 0;
}

bool nif_raw_registered(void)
{
    return atomic_load(&registered);
}
