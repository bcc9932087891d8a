/* SPDX-License-Identifier: Apache-2.0
 *
 * A call that occupies a scheduler: nap(Milliseconds) -> Milliseconds.
 */
#include <time.h>

#include "erl_nif.h"

static ERL_NIF_TERM nap(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    int ms;
    struct timespec time;

    (void)argc;
    if (!enif_get_int(env, argv[0], &ms) || ms < 0)
        return enif_make_badarg(env);
    time = (struct timespec){ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
    enif_consume_timeslice(env, 100);
    return argv[0];
}

static ErlNifFunc functions[] = {{"nap", 1, nap, 0}};

ERL_NIF_INIT(erts_storm_nap, functions, NULL, NULL, NULL, NULL)
