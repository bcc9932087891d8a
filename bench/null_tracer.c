/* SPDX-License-Identifier: Apache-2.0
 *
 * The cheapest possible tracer module: the minimum cost of any tracer in C.
 * Its state is what `enabled` answers: the atom trace or the atom discard.
 * cpu_time/0 returns the processor time of the calling thread in nanoseconds. Under
 * callgrind, count_from/0 resets its counters, and count_to/1 writes them out under
 * a name; otherwise both return false. */
#define _GNU_SOURCE
#include <erl_nif.h>
#include <time.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS_AT(name) (void)(name)
#endif

static ERL_NIF_TERM am_ok;

static int load(ErlNifEnv *env, void **priv_data, ERL_NIF_TERM info)
{
    (void)priv_data;
    (void)info;
    am_ok = enif_make_atom(env, "ok");
    return 0;
}

static ERL_NIF_TERM enabled(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)env;
    (void)argc;
    return argv[1];
}

static ERL_NIF_TERM trace(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)env;
    (void)argc;
    (void)argv;
    return am_ok;
}

static ERL_NIF_TERM cpu_time(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct timespec ts = {0, 0};
    (void)argc;
    (void)argv;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return enif_make_int64(env, (ErlNifSInt64)ts.tv_sec * 1000000000 + ts.tv_nsec);
}

static ERL_NIF_TERM count_from(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    (void)argv;
    CALLGRIND_ZERO_STATS;
    return enif_make_atom(env, RUNNING_ON_VALGRIND ? "true" : "false");
}

static ERL_NIF_TERM count_to(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    char name[64];
    (void)argc;
    if (enif_get_atom(env, argv[0], name, sizeof name, ERL_NIF_LATIN1) == 0) {
        return enif_make_badarg(env);
    }
    CALLGRIND_DUMP_STATS_AT(name);
    return enif_make_atom(env, RUNNING_ON_VALGRIND ? "true" : "false");
}

static ErlNifFunc functions[] = {
    {"enabled", 3, enabled, 0},   {"enabled_call", 3, enabled, 0},  {"enabled_send", 3, enabled, 0},
    {"trace", 5, trace, 0},       {"trace_call", 5, trace, 0},      {"trace_send", 5, trace, 0},
    {"cpu_time", 0, cpu_time, 0}, {"count_from", 0, count_from, 0}, {"count_to", 1, count_to, 0},
};

ERL_NIF_INIT(null_tracer, functions, load, NULL, NULL, NULL)
