// SPDX-License-Identifier: Apache-2.0
//
// A native call that keeps its scheduler for a while: reload_bench:native_call/1.

#include <errno.h>
#include <time.h>

#include <erl_nif.h>

// Microseconds. Asleep rather than busy, so that the processor is free for those
// that are measured; the scheduler can't tell the difference.
static ERL_NIF_TERM native_call(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    unsigned us;
    (void)argc;
    if (!enif_get_uint(env, argv[0], &us))
        return enif_make_badarg(env);
    struct timespec left = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};
    while (nanosleep(&left, &left) == -1 && errno == EINTR) {
    }
    return enif_make_atom(env, "ok");
}

static ErlNifFunc functions[] = {{"native_call", 1, native_call, 0}};

ERL_NIF_INIT(reload_bench, functions, NULL, NULL, NULL, NULL)
