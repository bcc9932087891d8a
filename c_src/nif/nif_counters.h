/* SPDX-License-Identifier: Apache-2.0
 *
 * NIFs that record the measurements of kymo_counters, and what kymo_observed has seen. They run on a
 * scheduler, take microseconds and neither allocate nor wait. All return ok, or {error, not_recorded} if the recorder is
 * paused, has ended, or has no room at the moment. They raise badarg for wrong types.
 */
#ifndef KYMO_NIF_COUNTERS_H
#define KYMO_NIF_COUNTERS_H

#include <erl_nif.h>

/* (State, [{Counter :: atom(), Index :: 0..65535, Value :: 0..2^64-1}]), fewer than
 * KYMO_COUNTERS_MAX of them; adds cpu_time. Raises badarg for unknown counters as well. */
ERL_NIF_TERM nif_note_counters(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
/* (State, Kind :: atom(), Process, Port, Value, Out :: mfa() | undefined, In): a record
 * `system_monitor`. Process and Port are pids, ports or undefined. */
ERL_NIF_TERM nif_note_monitor(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
/* (State, Kind :: atom(), Process, For, Lock :: atom(), Mailbox, Function :: mfa() | undefined, CalledFrom): a
 * record `observed'. Process and For are pids, ports or undefined. */
ERL_NIF_TERM nif_note_observed(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);

#endif
