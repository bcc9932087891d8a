/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw events, the patched runtime's interface for tracers. */
#ifndef KYMO_NIF_RAW_H
#define KYMO_NIF_RAW_H

#include <erl_nif.h>
#include <stdbool.h>
#include <stdint.h>

/* Registers for raw events, if the runtime supports them and KYMO_EVENTS=behaviour is not in the
 * environment of the node. Returns false if events arrive through the behaviour. Load and
 * upgrade only. */
bool nif_raw_register(ErlNifEnv *env);

/* True if events are raw. */
bool nif_raw_registered(void);

/* KYMO_EXACT_*: the additional data that this runtime passes with events. */
uint32_t nif_raw_exact(void);

#endif
