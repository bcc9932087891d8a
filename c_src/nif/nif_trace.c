/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace callbacks, which make one record of each event.
 *
 * They work around a bug of the runtime: in two places it calls the trace function instead of
 * the enabled function to check whether the tracer is enabled: trace_call before a call that is
 * meta traced, and trace_send before a port's message to a process that does not exist. It then
 * passes three arguments with an argc of five, so reading argv[3] would read beyond an array.
 * Such a check is answered like enabled_*. It is recognised as follows.
 *   trace_call   the environment of a real event always has a process, that of a check never
 *   trace_send   for a process: the same. For a port: a real event directly follows an
 *                enabled_send that has returned `trace` for the same port in the same thread
 */
#include "nif_callbacks.h"
#include "nif_put.h"
#include "nif_tags.h"

enum { TAG, STATE, TRACEE, TERM, OPTIONS };

/* ---- from the behaviour's arguments ------------------------------------------- */

/* The fast path for a call without contents or options. */
static inline void put_plain_call(const struct nif_event *ev, const ERL_NIF_TERM argv[])
{
    const ERL_NIF_TERM *el = nif_mfa_elements(ev->env, argv[TERM]);
    unsigned arity;
    if (NIF_UNLIKELY(el == NULL)) {
        kymo_lose(ev->w, KYMO_LOST_BAD_TERM);
        return;
    }
    if (nif_is_small(el[2])) {
        arity = (unsigned)nif_small(el[2]);
    } else if (NIF_UNLIKELY(!nif_arguments(ev->env, el[2], &arity))) {
        kymo_lose(ev->w, KYMO_LOST_BAD_TERM);
        return;
    }
    nif_put_call(ev, argv[TRACEE], el[0], el[1], arity, NIF_NO_DEPTH);
}

/* Records an event with the arguments of the behaviour. */
static void put_any_event(const struct nif_event *ev, enum nif_class c, unsigned id,
                          const ERL_NIF_TERM argv[])
{
    struct nif_input in = {.tag = argv[TAG], .tracee = argv[TRACEE], .term = argv[TERM]};
    nif_options_read(ev->env, argv[OPTIONS], &in.options);
    nif_put_event(ev, c, id, &in);
}

/* ---- the callbacks ----------------------------------------------------------------- */

static inline __attribute__((always_inline)) ERL_NIF_TERM record(ErlNifEnv *env, const ERL_NIF_TERM argv[],
                                                                 enum nif_class c)
{
    struct nif_handle *h = nif_handle_of(env, argv[STATE]);
    unsigned id = nif_tag_event(c, argv[TAG]);
    struct nif_event ev;
    /* For return_to, return_from and exception_from no enabled function was called. */
    if (h != NULL && nif_wanted(h, c, id) && nif_begin(&ev, env, h)) {
        put_any_event(&ev, c, id, argv);
        kymo_writer_put(ev.w);
    }
    return nif_am.ok;
}

static NIF_RARE ERL_NIF_TERM rare_call(ErlNifEnv *env, const ERL_NIF_TERM argv[])
{
    return record(env, argv, NIF_CALLS);
}

static NIF_RARE ERL_NIF_TERM rare_send(ErlNifEnv *env, const ERL_NIF_TERM argv[])
{
    return record(env, argv, NIF_SEND);
}

static NIF_RARE ERL_NIF_TERM call_question(ErlNifEnv *env, const ERL_NIF_TERM argv[])
{
    return nif_enabled(env, 3, argv);
}

/* A check, or an event of a port: see the top of this file. */
static NIF_RARE ERL_NIF_TERM send_without_process(ErlNifEnv *env, const ERL_NIF_TERM argv[])
{
    bool real = nif_send_expected == argv[TRACEE] && nif_is_local_port(argv[TRACEE]);
    ERL_NIF_TERM answer = real ? record(env, argv, NIF_SEND) : nif_enabled(env, 3, argv);
    nif_send_expected = 0;
    return answer;
}

static inline bool options_empty(ErlNifEnv *env, ERL_NIF_TERM map)
{
    size_t n;
    if (NIF_LIKELY(nif_layout.map_ok)) {
        return nif_map_has(map, 0);
    }
    return enif_get_map_size(env, map, &n) && n == 0;
}

/* The value of `extra` if the options contain nothing else; otherwise 0. */
static inline ERL_NIF_TERM only_extra(ErlNifEnv *env, ERL_NIF_TERM map)
{
    size_t n;
    ERL_NIF_TERM v;
    if (NIF_LIKELY(nif_layout.map_ok)) {
        return nif_map_one(map, nif_am.extra);
    }
    return enif_get_map_size(env, map, &n) && n == 1 && enif_get_map_value(env, map, nif_am.extra, &v) ? v
                                                                                                       : 0;
}

ERL_NIF_TERM nif_trace_call(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    struct nif_event ev;
    ErlNifPid self;
    if (NIF_UNLIKELY(enif_self(env, &self) == NULL)) {
        return call_question(env, argv);
    }
    struct nif_handle *h = nif_handle_of(env, argv[STATE]);
    if (NIF_UNLIKELY(h == NULL || argv[TAG] != nif_shortcut.call || (h->detail & KYMO_D_ARGS) != 0 ||
                     !options_empty(env, argv[OPTIONS]))) {
        return rare_call(env, argv);
    }
    if (nif_wanted(h, NIF_CALLS, KYMO_E_CALL) && nif_begin(&ev, env, h)) {
        put_plain_call(&ev, argv);
        kymo_writer_put(ev.w);
    }
    return nif_shortcut.ok;
}

ERL_NIF_TERM nif_trace_send(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    struct nif_event ev;
    ErlNifPid self;
    ERL_NIF_TERM to;
    if (NIF_UNLIKELY(enif_self(env, &self) == NULL)) {
        return send_without_process(env, argv);
    }
    struct nif_handle *h = nif_handle_of(env, argv[STATE]);
    if (NIF_UNLIKELY(h == NULL || argv[TAG] != nif_shortcut.send || (h->detail & KYMO_D_MSG) != 0 ||
                     (to = only_extra(env, argv[OPTIONS])) == 0)) {
        return rare_send(env, argv);
    }
    if (nif_wanted(h, NIF_SEND, KYMO_E_SEND) && nif_begin(&ev, env, h)) {
        nif_put_send(&ev, KYMO_E_SEND, argv[TRACEE], argv[TERM], to, 0);
        kymo_writer_put(ev.w);
    }
    return nif_shortcut.ok;
}

#define NIF_RECORDING(name, class) \
    ERL_NIF_TERM nif_##name(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) \
    { \
        (void)argc; \
        return record(env, argv, class); \
    }
NIF_RECORDING(trace_receive, NIF_RECEIVE)
NIF_RECORDING(trace_procs, NIF_PROCS)
NIF_RECORDING(trace_ports, NIF_PORTS)
NIF_RECORDING(trace_running_procs, NIF_RUNNING_PROCS)
NIF_RECORDING(trace_running_ports, NIF_RUNNING_PORTS)
NIF_RECORDING(trace_garbage_collection, NIF_GC)

/* Called for seq_trace, and with any tag by Erlang code. */
ERL_NIF_TERM nif_trace(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    struct nif_handle *h = nif_handle_of(env, argv[STATE]);
    struct nif_event ev;
    enum nif_class c = NIF_SEQ;
    if (h == NULL) {
        return nif_am.ok;
    }
    for (enum nif_class k = 0; k < NIF_CLASSES; k++) {
        if (nif_tag_event(k, argv[TAG]) != KYMO_E_OTHER) {
            c = k;
            break;
        }
    }
    unsigned id = nif_tag_event(c, argv[TAG]);
    if (nif_wanted(h, c, id) && nif_begin(&ev, env, h)) {
        put_any_event(&ev, c, id, argv);
        kymo_writer_put(ev.w);
    }
    return nif_am.ok;
}
