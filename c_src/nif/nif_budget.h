/* SPDX-License-Identifier: Apache-2.0
 *
 * NIFs for budgets (kymo_budget.h), called by kymo_server: event rates, a sample of the newest
 * records, and notes of what was shed. Not for traced processes. */
#ifndef KYMO_NIF_BUDGET_H
#define KYMO_NIF_BUDGET_H

#include <erl_nif.h>

/* (State, Millionths, EventsPerSecond) -> ok */
ERL_NIF_TERM nif_budget(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
/* (State) -> {Ticks, [Offered]}, with the number of events offered for each thread that has
 * recorded, in a fixed order; or not_recorded if the recorder is paused or has ended. */
ERL_NIF_TERM nif_rates(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
/* (State, SinceTicks, MaxFunctions) -> {ok, Kinds, Functions} | {error, busy}: Kinds is a
 * map of the names of kinds, calls, return_tos and other to numbers of records, Functions
 * a list of {{M, F, A}, Records}, the most frequent first. On a dirty scheduler. */
ERL_NIF_TERM nif_sample(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
/* (State, shed | given_back, Kinds, Functions) -> ok | {error, not_recorded}: lists of
 * names of kinds and of {M, F, A}. */
ERL_NIF_TERM nif_note_shed(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);

#endif
