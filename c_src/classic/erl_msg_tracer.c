/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest useful tracer module: for each message that a traced process or port sends, it
 * sends {trace, From, To} to the tracer process. See src/erl_msg_tracer.erl for how to use it.
 *
 *   gcc -I $ERTS/include -fPIC -shared -o erl_msg_tracer.so erl_msg_tracer.c
 *
 * Both callbacks run in the tracee, at the trace point. They only read terms and send one small
 * message.
 */
#include <erl_nif.h>

static ERL_NIF_TERM am_discard, am_extra, am_ok, am_remove, am_send, am_trace, am_trace_status;

/* enabled(Tag, Tracer, Tracee) -> trace | discard | remove */
static ERL_NIF_TERM enabled(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    const int is_status = enif_is_identical(argv[0], am_trace_status);
    ErlNifPid tracer;
    (void)argc;

    /* The tracer process is dead. "remove" removes the tracer from the tracee; the runtime
     * accepts this answer for trace_status only. */
    if (!enif_get_local_pid(env, argv[1], &tracer) || !enif_is_process_alive(env, &tracer)) {
        return is_status ? am_remove : am_discard;
    }
    /* A tracer that reported its own messages would never stop. */
    if (enif_is_identical(argv[1], argv[2])) {
        return am_discard;
    }
    return is_status || enif_is_identical(argv[0], am_send) ? am_trace : am_discard;
}

/* trace(send, Tracer, Tracee, Message, #{extra := Recipient}) -> ok */
static ERL_NIF_TERM trace(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ERL_NIF_TERM recipient;
    ErlNifPid tracer;
    (void)argc;

    if (enif_get_local_pid(env, argv[1], &tracer) && enif_get_map_value(env, argv[4], am_extra, &recipient)) {
        /* Without a message environment the term is copied directly to the tracer. Sending fails
         * if the tracer has just died, which needs no handling. */
        enif_send(env, &tracer, NULL, enif_make_tuple3(env, am_trace, argv[2], recipient));
    }
    return am_ok;
}

static int load(ErlNifEnv *env, void **priv_data, ERL_NIF_TERM load_info)
{
    (void)load_info;
    *priv_data = NULL;
    am_discard = enif_make_atom(env, "discard");
    am_extra = enif_make_atom(env, "extra");
    am_ok = enif_make_atom(env, "ok");
    am_remove = enif_make_atom(env, "remove");
    am_send = enif_make_atom(env, "send");
    am_trace = enif_make_atom(env, "trace");
    am_trace_status = enif_make_atom(env, "trace_status");
    return 0;
}

/* This library has no private data. If the old code has, it is an unknown version: fail. */
static int upgrade(ErlNifEnv *env, void **priv_data, void **old_priv_data, ERL_NIF_TERM load_info)
{
    if (*old_priv_data != NULL || *priv_data != NULL) {
        return -1;
    }
    return load(env, priv_data, load_info);
}

static ErlNifFunc functions[] = {
    {"enabled", 3, enabled, 0},
    {"trace", 5, trace, 0},
};

ERL_NIF_INIT(erl_msg_tracer, functions, load, NULL, upgrade, NULL)
