/* SPDX-License-Identifier: Apache-2.0
 *
 * What erl_trace.c needs of erl_nif.c for tracers that want raw events.
 */
#ifndef ERL_NIF_RAW_H__
#define ERL_NIF_RAW_H__

#include "erl_nif_tracer.h"

/*
 * What the module registered when it was loaded, or NULL.
 */
const ErlNifTracer *erts_nif_get_tracer(const struct erl_module_nif *mod);

/*
 * Call one of the functions that it has registered, without a process; 'call_env'
 * is as in erts_nif_call_function().
 */
ErlNifTracerAnswer
erts_nif_call_tracer(ErlNifEnv *call_env, Process *tracee,
                     struct erl_module_nif *mod,
                     ErlNifTracerAnswer (*fun)(ErlNifEnv *,
                                               const ErlNifTraceEvent *),
                     const ErlNifTraceEvent *event);

#endif
