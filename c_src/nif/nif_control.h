/* SPDX-License-Identifier: Apache-2.0
 *
 * NIFs of the API module: open, stop and snapshot, which run on dirty I/O schedulers because
 * they wait for files and threads; pause, resume, define_process, note_taken and note_measures. All return
 * ok, {ok, _} or {error, _}, and raise badarg only for a state of another module. */
#ifndef KYMO_NIF_CONTROL_H
#define KYMO_NIF_CONTROL_H

#include <erl_nif.h>

ERL_NIF_TERM nif_open(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
ERL_NIF_TERM nif_stop(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
ERL_NIF_TERM nif_pause(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
ERL_NIF_TERM nif_resume(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
ERL_NIF_TERM nif_let_go(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
ERL_NIF_TERM nif_snapshot(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
ERL_NIF_TERM nif_define_process(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
ERL_NIF_TERM nif_note_taken(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);
ERL_NIF_TERM nif_note_measures(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);

#endif
