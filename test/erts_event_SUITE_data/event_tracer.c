/* SPDX-License-Identifier: Apache-2.0
 *
 * A tracer that does as its state says: {Status, Answer, Events, Questions}. Status
 * is what it answers to trace_status, Answer to everything else; the atom random
 * stands for any of the three answers, and raise for an exception. Events, if it is
 * a pid, is told of events: {Function, Tag, Tracee, Term, Options}; Questions of
 * questions: {asked, Function, Tag}. (Not where a match spec changes the trace
 * flags: the tracee is locked then while the tracer is asked.)
 *
 * MODULE is the name of the module, VERSION which build of the library this is. */
#include <erl_nif.h>
#include <stdatomic.h>
#include <stdint.h>

static ERL_NIF_TERM am_ok, am_trace, am_discard, am_remove, am_random, am_raise, am_trace_status, am_asked;
static _Atomic uint64_t events, questions;

static int load(ErlNifEnv *env, void **priv_data, ERL_NIF_TERM info)
{
    (void)priv_data;
    (void)info;
    am_ok = enif_make_atom(env, "ok");
    am_trace = enif_make_atom(env, "trace");
    am_discard = enif_make_atom(env, "discard");
    am_remove = enif_make_atom(env, "remove");
    am_random = enif_make_atom(env, "random");
    am_raise = enif_make_atom(env, "raise");
    am_trace_status = enif_make_atom(env, "trace_status");
    am_asked = enif_make_atom(env, "asked");
    return 0;
}

static int upgrade(ErlNifEnv *env, void **priv_data, void **old_priv_data, ERL_NIF_TERM info)
{
    (void)old_priv_data;
    return load(env, priv_data, info);
}

static ERL_NIF_TERM any_answer(uint64_t n)
{
    const ERL_NIF_TERM answers[] = {am_trace, am_discard, am_trace, am_remove};
    return answers[(n * UINT64_C(0x9e3779b97f4a7c15) >> 40) % 4];
}

static ERL_NIF_TERM answer(ErlNifEnv *env, const char *function, const ERL_NIF_TERM argv[])
{
    const ERL_NIF_TERM *state;
    ErlNifPid pid;
    int n;
    uint64_t count = atomic_fetch_add(&questions, 1);
    if (!enif_get_tuple(env, argv[1], &n, &state) || n != 4) {
        return am_remove;
    }
    if (enif_get_local_pid(env, state[3], &pid)) {
        enif_send(env, &pid, NULL, enif_make_tuple3(env, am_asked, enif_make_atom(env, function), argv[0]));
    }
    ERL_NIF_TERM said = argv[0] == am_trace_status ? state[0] : state[1];
    if (said == am_raise) {
        return enif_make_badarg(env);
    }
    return said == am_random ? any_answer(count) : said;
}

static ERL_NIF_TERM event(ErlNifEnv *env, const char *function, const ERL_NIF_TERM argv[])
{
    const ERL_NIF_TERM *state;
    ErlNifPid pid;
    int n;
    atomic_fetch_add(&events, 1);
    if (enif_get_tuple(env, argv[1], &n, &state) && n == 4 && enif_get_local_pid(env, state[2], &pid)) {
        enif_send(env, &pid, NULL,
                  enif_make_tuple5(env, enif_make_atom(env, function), argv[0], argv[2], argv[3], argv[4]));
    }
    return am_ok;
}

#define ENABLED(name) \
    static ERL_NIF_TERM name(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) \
    { \
        (void)argc; \
        return answer(env, #name, argv); \
    }
#define TRACE(name) \
    static ERL_NIF_TERM name(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) \
    { \
        (void)argc; \
        return event(env, #name, argv); \
    }
ENABLED(enabled)
ENABLED(enabled_call)
ENABLED(enabled_send)
TRACE(trace)
TRACE(trace_call)
TRACE(trace_send)

static ERL_NIF_TERM counts(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    (void)argv;
    return enif_make_tuple3(env, enif_make_int(env, VERSION), enif_make_uint64(env, atomic_load(&questions)),
                            enif_make_uint64(env, atomic_load(&events)));
}

static ErlNifFunc functions[] = {
    {"enabled", 3, enabled, 0},
    {"enabled_call", 3, enabled_call, 0},
    {"enabled_send", 3, enabled_send, 0},
    {"trace", 5, trace, 0},
    {"trace_call", 5, trace_call, 0},
    {"trace_send", 5, trace_send, 0},
    {"counts", 0, counts, 0},
};

#define INIT(module) ERL_NIF_INIT(module, functions, load, NULL, upgrade, NULL)
INIT(MODULE)
