/* SPDX-License-Identifier: Apache-2.0
 *
 * What the API module asks of a recorder: a map, see kymo_tracer:info/1. On a dirty
 * I/O scheduler; badarg for a state of another module. */
#ifndef KYMO_NIF_INFO_H
#define KYMO_NIF_INFO_H

#include <erl_nif.h>

ERL_NIF_TERM nif_info(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);

#endif
