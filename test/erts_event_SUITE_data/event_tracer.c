/* SPDX-License-Identifier: Apache-2.0
 *
 * A tracer whose behaviour is given by its state: {Status, Answer, Events, Questions}.
 * Status is its answer to trace_status, Answer its answer to everything else. The atom
 * random means any of the three answers, and raise an exception. If Events is a pid, it
 * receives the events: {Function, Tag, Tracee, Term, Options}. If it is the atom raise,
 * the tracer raises an exception whose reason is the term of the event. Questions
 * receives the questions: {asked, Function, Tag}. (It must not be used where a match spec
 * changes trace flags, because the tracee is then locked while the tracer is called.)
 *
 * MODULE is the name of the module, and VERSION is the build of the library. With RAW the
 * tracer uses that version of the interface for raw events, and reports them as the
 * behaviour would. From version 2 on, the options also have what that version adds. With
 * MORE it sets the flags of version 2. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <erl_nif.h>
#include <stdatomic.h>
#include <stdint.h>
#ifdef RAW
#include "erl_nif_tracer.h"
#endif

static ERL_NIF_TERM am_ok, am_trace, am_discard, am_remove, am_random, am_raise, am_trace_status, am_asked;
static _Atomic uint64_t events, questions;

static void register_raw(ErlNifEnv *env, int how);
static int register_result = -1;

static int load(ErlNifEnv *env, void **priv_data, ERL_NIF_TERM info)
{
    int how = 0;
    (void)priv_data;
    enif_get_int(env, info, &how);
    register_raw(env, how);
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
    if (!enif_get_tuple(env, argv[1], &n, &state) || n != 4) {
        return am_ok;
    }
    if (state[2] == am_raise) {
        return enif_raise_exception(env, argv[3]);
    }
    if (enif_get_local_pid(env, state[2], &pid)) {
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

#ifdef RAW
static const char *function_of(const ErlNifTraceEvent *e)
{
    switch (e->kind) {
    case ERL_NIF_TRACE_CALL: return "trace_call";
    case ERL_NIF_TRACE_SEND: return "trace_send";
    default: return "trace";
    }
}

static ErlNifTracerAnswer raw_answer(ErlNifEnv *env, const ErlNifTraceEvent *e, const char *name)
{
    const ERL_NIF_TERM argv[] = {e->tag, e->state, e->tracee};
    ERL_NIF_TERM said = answer(env, name, argv);
    return said == am_trace     ? ERL_NIF_TRACER_TRACE
           : said == am_discard ? ERL_NIF_TRACER_DISCARD
                                : ERL_NIF_TRACER_REMOVE;
}

static ErlNifTracerAnswer raw_enabled(ErlNifEnv *env, const ErlNifTraceEvent *e)
{
    return raw_answer(env, e, "raw_enabled");
}

static ERL_NIF_TERM put(ErlNifEnv *env, ERL_NIF_TERM map, const char *key, ERL_NIF_TERM value)
{
    enif_make_map_put(env, map, enif_make_atom(env, key), value, &map);
    return map;
}

static ErlNifTracerAnswer raw_event(ErlNifEnv *env, const ErlNifTraceEvent *e)
{
    ErlNifPid self;
    ERL_NIF_TERM term = e->term, options = enif_make_new_map(env);
    if (enif_self(env, &self) != NULL) {
        return ERL_NIF_TRACER_REMOVE; /* the interface guarantees that there is no process */
    }
    /* There are no questions about returns. */
    if (e->kind != ERL_NIF_TRACE_CALL || enif_is_identical(e->tag, enif_make_atom(env, "call"))) {
        ErlNifTracerAnswer said = raw_answer(env, e, "raw_event");
        if (said != ERL_NIF_TRACER_TRACE) {
            return said;
        }
    }
    if (e->mfa != NULL) {
        term = enif_make_tuple3(env, e->mfa->module, e->mfa->function,
                                e->args != NULL
                                    ? enif_make_list_from_array(env, e->args, (unsigned)e->mfa->arity)
                                    : enif_make_uint64(env, e->mfa->arity));
    } else if (term == 0) {
        term = e->kind == ERL_NIF_TRACE_CALL ? enif_make_atom(env, "undefined") : enif_make_int(env, 0);
    }
    if (e->extra != 0) {
        options = put(env, options, "extra", e->extra);
    }
    if (e->match_spec_result != 0) {
        options = put(env, options, "match_spec_result", e->match_spec_result);
    }
    if ((e->flags & ERL_NIF_TRACE_SCHEDULER_ID) != 0) {
        options = put(env, options, "scheduler_id", enif_make_uint64(env, e->scheduler_id));
    }
    const char *stamps[] = {"timestamp", "cpu_timestamp", "monotonic", "strict_monotonic"};
    for (int i = 0; i < 4; i++) {
        if ((e->flags & (unsigned)ERL_NIF_TRACE_TIMESTAMP << i) != 0) {
            options = put(env, options, "timestamp", enif_make_atom(env, stamps[i]));
        }
    }
#if RAW >= 2
    static const char *const reasons[] = {"unknown", "exiting", "suspended",  "dirty",
                                          "waiting", "trap",    "reductions", "port"};
    static const char *const causes[] = {"unknown", "out",   "message", "port",
                                         "timer",   "spawn", "resume",  "signal"};
    switch (e->kind) {
    case ERL_NIF_TRACE_RUNNING_PROCS:
        options = put(env, options, "out_reason", enif_make_atom(env, reasons[e->out_reason]));
        options = put(env, options, "runnable_by", enif_make_atom(env, causes[e->runnable_by]));
        options = put(env, options, "runnable_for", enif_make_int64(env, e->runnable_for));
        options = put(env, options, "kernel_thread", enif_make_uint64(env, e->kernel_thread));
        options = put(env, options, "cpu", enif_make_int(env, e->cpu));
        break;
    case ERL_NIF_TRACE_STOPPED:
        options = put(env, options, "start", enif_make_int64(env, e->start));
        options = put(env, options, "duration", enif_make_int64(env, e->duration));
        options = put(env, options, "missed", enif_make_uint64(env, e->missed));
        break;
    case ERL_NIF_TRACE_TAKEN:
        options = put(env, options, "passed",
                      e->passed == ERL_NIF_TRACE_MANY ? enif_make_atom(env, "many")
                                                      : enif_make_uint64(env, e->passed));
        /* fall through */
    case ERL_NIF_TRACE_SEND:
    case ERL_NIF_TRACE_RECEIVE:
        options = put(env, options, "message", enif_make_uint64(env, e->message));
        break;
    case ERL_NIF_TRACE_CALL: options = put(env, options, "depth", enif_make_uint64(env, e->depth)); break;
    case ERL_NIF_TRACE_SLOW:
        options = put(env, options, "depth", enif_make_uint64(env, e->depth));
        options = put(env, options, "start", enif_make_int64(env, e->start));
        options = put(env, options, "duration", enif_make_int64(env, e->duration));
        break;
    case ERL_NIF_TRACE_GARBAGE_COLLECTION:
        if (e->sizes != NULL) {
            ERL_NIF_TERM list = enif_make_list(env, 0);
            for (int i = ERL_NIF_TRACE_SIZES; i-- > 0;) {
                list = enif_make_list_cell(env, enif_make_uint64(env, e->sizes[i]), list);
            }
            options = put(env, options, "sizes", list);
        }
        break;
    default: break;
    }
#endif
    if (e->time == 0 || e->time > enif_monotonic_time(ERL_NIF_NSEC)) {
        options = put(env, options, "bad_time", enif_make_int64(env, e->time));
    }
    const ERL_NIF_TERM argv[] = {e->tag, e->state, e->tracee, term, options};
    event(env, function_of(e), argv);
    return ERL_NIF_TRACER_TRACE;
}

/* 0 registers correctly, other values make a mistake. */
static void register_raw(ErlNifEnv *env, int how)
{
    ErlNifTracer tracer = {RAW, ERL_NIF_TRACER_TIME, raw_enabled, raw_event};
#ifdef MORE
    tracer.flags |= ERL_NIF_TRACER_CPU | ERL_NIF_TRACER_STOPPED | ERL_NIF_TRACER_SIZES;
#endif
    ErlNifTracerRegister *set;
    *(void **)&set = dlsym(RTLD_DEFAULT, ERL_NIF_TRACER_REGISTER);
    if (set == NULL) {
        return;
    }
    switch (how) {
    case 1: tracer.version = 0; break;
    case 2: tracer.version = ERL_NIF_TRACER_VERSION + 1; break;
    case 3: tracer.flags = 1u << 31; break;
    case 4: tracer.enabled = NULL; break;
    case 5: tracer.event = NULL; break;
    case 6: env = NULL; break;
    case 7: set(env, &tracer); break;
    case 8: register_result = set(env, NULL); return;
    case 9:
    case 10:
    case 11:
        tracer.version = 1;
        tracer.flags = how == 9    ? ERL_NIF_TRACER_CPU
                       : how == 10 ? ERL_NIF_TRACER_STOPPED
                                   : ERL_NIF_TRACER_SIZES;
        break;
    default: break;
    }
    register_result = set(env, &tracer);
}
#else
static void register_raw(ErlNifEnv *env, int how)
{
    (void)env;
    (void)how;
}
#endif

/* Registers after load, which is an error. */
static ERL_NIF_TERM registering(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    int before = register_result;
    (void)argc;
    (void)argv;
    register_raw(env, 0);
    return enif_make_tuple2(env, enif_make_int(env, before), enif_make_int(env, register_result));
}

static ERL_NIF_TERM counts(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    (void)argv;
    return enif_make_tuple3(env, enif_make_int(env, VERSION), enif_make_uint64(env, atomic_load(&questions)),
                            enif_make_uint64(env, atomic_load(&events)));
}

/* Sends a message from a dirty scheduler. */
static ERL_NIF_TERM dirty_send(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ErlNifPid pid;
    (void)argc;
    if (!enif_get_local_pid(env, argv[0], &pid)) {
        return enif_make_badarg(env);
    }
    enif_send(env, &pid, NULL, argv[1]);
    return am_ok;
}

/* The same with a message environment, as for messages with a seq_trace token. */
static ERL_NIF_TERM dirty_send_env(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ErlNifPid pid;
    ErlNifEnv *msg_env;
    (void)argc;
    if (!enif_get_local_pid(env, argv[0], &pid)) {
        return enif_make_badarg(env);
    }
    msg_env = enif_alloc_env();
    enif_send(env, &pid, msg_env, enif_make_copy(msg_env, argv[1]));
    enif_free_env(msg_env);
    return am_ok;
}

static ErlNifFunc functions[] = {
    {"enabled", 3, enabled, 0},
    {"enabled_call", 3, enabled_call, 0},
    {"enabled_send", 3, enabled_send, 0},
    {"trace", 5, trace, 0},
    {"trace_call", 5, trace_call, 0},
    {"trace_send", 5, trace_send, 0},
    {"counts", 0, counts, 0},
    {"registering", 0, registering, 0},
    {"dirty_cpu", 2, dirty_send, ERL_NIF_DIRTY_JOB_CPU_BOUND},
    {"dirty_io", 2, dirty_send_env, ERL_NIF_DIRTY_JOB_IO_BOUND},
};

#define INIT(module) ERL_NIF_INIT(module, functions, load, NULL, upgrade, NULL)
INIT(MODULE)
