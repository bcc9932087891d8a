// SPDX-License-Identifier: Apache-2.0
//
// The processor time of the calling scheduler: scale_bench:thread_time/0. Unlike elapsed time,
// it does not grow while the operating system runs other programs.

#include <time.h>

#include <erl_nif.h>

// Nanoseconds.
static ERL_NIF_TERM thread_time(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct timespec now;
    (void)argc;
    (void)argv;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == -1)
        return enif_raise_exception(env, enif_make_atom(env, "no_thread_time"));
    return enif_make_int64(env, (ErlNifSInt64)now.tv_sec * 1000000000 + now.tv_nsec);
}

static ErlNifFunc functions[] = {{"thread_time", 0, thread_time, 0}};

ERL_NIF_INIT(scale_bench, functions, NULL, NULL, NULL, NULL)
