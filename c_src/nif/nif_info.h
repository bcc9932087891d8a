/* SPDX-License-Identifier: Apache-2.0
 *
 * The NIF of kymo_tracer:info/1. Runs on a dirty I/O scheduler; raises badarg for a state of
 * another module. */
#ifndef KYMO_NIF_INFO_H
#define KYMO_NIF_INFO_H

#include <erl_nif.h>

ERL_NIF_TERM nif_info(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);

#endif
