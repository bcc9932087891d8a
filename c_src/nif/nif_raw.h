/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw events: the interface for tracers of the patched runtime. */
#ifndef KYMO_NIF_RAW_H
#define KYMO_NIF_RAW_H

#include <erl_nif.h>
#include <stdbool.h>

/* Asks the runtime for raw events, if it has them and KYMO_EVENTS=behaviour isn't
 * in the environment of the node. Load and upgrade only. False: events come
 * through the behaviour. */
bool nif_raw_register(ErlNifEnv *env);

/* Whether they are raw. */
bool nif_raw_registered(void);

#endif
