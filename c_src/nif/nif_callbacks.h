/* SPDX-License-Identifier: Apache-2.0
 *
 * The callbacks of the erl_tracer behaviour. They run in the thread in which the event happens:
 * a scheduler, a dirty scheduler, or another thread of the runtime. The environment may have
 * no process. They never block or raise, and accept any arguments. */
#ifndef KYMO_NIF_CALLBACKS_H
#define KYMO_NIF_CALLBACKS_H

#include <erl_nif.h>

#include "nif_handle.h"

/* X(function, class): one C function of that name for each. enabled/3 and
 * enabled_call/3 are nif_enabled. */
#define NIF_ENABLED_CALLBACKS(X) \
    X(enabled_garbage_collection, NIF_GC) \
    X(enabled_ports, NIF_PORTS) \
    X(enabled_procs, NIF_PROCS) \
    X(enabled_receive, NIF_RECEIVE) \
    X(enabled_running_ports, NIF_RUNNING_PORTS) \
    X(enabled_running_procs, NIF_RUNNING_PROCS)
#define NIF_TRACE_CALLBACKS(X) \
    X(trace) \
    X(trace_call) \
    X(trace_garbage_collection) \
    X(trace_ports) \
    X(trace_procs) \
    X(trace_receive) \
    X(trace_running_ports) \
    X(trace_running_procs) \
    X(trace_send)

ERL_NIF_TERM nif_enabled(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
ERL_NIF_TERM nif_enabled_send(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
#define NIF_X(name, class) ERL_NIF_TERM nif_##name(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
NIF_ENABLED_CALLBACKS(NIF_X)
#undef NIF_X
#define NIF_X(name) ERL_NIF_TERM nif_##name(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
NIF_TRACE_CALLBACKS(NIF_X)
#undef NIF_X

/* The word of the port for which enabled_send has returned `trace` in this thread, while
 * trace_send has not been called yet; 0 = none. */
extern _Thread_local ERL_NIF_TERM nif_send_expected;

#endif
