/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that keep a scheduler busy without yielding: hog/1 a normal scheduler,
 * dirty_hog/1 a dirty CPU scheduler. The argument is milliseconds of CLOCK_MONOTONIC.
 */
#include <erl_nif.h>

static ERL_NIF_TERM hog(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    long ms;
    (void)argc;
    if (!enif_get_long(env, argv[0], &ms))
        return enif_make_badarg(env);
    ErlNifTime end = enif_monotonic_time(ERL_NIF_MSEC) + ms;
    while (enif_monotonic_time(ERL_NIF_MSEC) < end)
        ;
    return enif_make_atom(env, "ok");
}

static ErlNifFunc functions[] = {{"hog", 1, hog, 0}, {"dirty_hog", 1, hog, ERL_NIF_DIRTY_JOB_CPU_BOUND}};

ERL_NIF_INIT(kymo_answers_work, functions, NULL, NULL, NULL, NULL)
