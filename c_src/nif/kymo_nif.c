/* SPDX-License-Identifier: Apache-2.0
 *
 * Load, upgrade and unload of the library, and the halt of the node.
 *
 * During an upgrade there are two instances of the module, with old and new code. They share
 * one state per process, whose users are counted in `instances`. The library is linked with
 * -z nodelete and is never unmapped, because threads of the runtime may still be executing it
 * when the module is purged.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "nif_atoms.h"
#include "nif_budget.h"
#include "nif_callbacks.h"
#include "nif_control.h"
#include "nif_counters.h"
#include "nif_handle.h"
#include "nif_info.h"
#include "nif_layout.h"
#include "nif_raw.h"

#define NIF_HALT_OPTION (ERL_NIF_MAJOR_VERSION > 2 || ERL_NIF_MINOR_VERSION >= 17)

/* The object that priv_data points to. During an upgrade another build of the library reads the
 * one of this build, so the first members must not change. */
static struct library {
    atomic_uint instances;
    unsigned (*handles)(void);
    bool ready; /* the runtime was examined, which is necessary once per process */
} library = {.handles = nif_handle_count};

/* Return values of load, which tell which step failed. Numbers from 10 on are those of
 * nif_layout_init. kymo_tracer.erl has the messages. */
enum load_error { LOAD_OK = 0, LOAD_TYPE = 1, LOAD_HALT = 2, LOAD_EXIT = 3, LOAD_BUSY = 4, LOAD_LAYOUT = 10 };

static void at_exit(void)
{
    kymo_recorder_stop_all();
}

#if NIF_HALT_OPTION
static void on_halt(void *priv_data)
{
    (void)priv_data;
    kymo_recorder_stop_all();
}
#endif

static enum load_error watch_exit(ErlNifEnv *env)
{
    static atomic_bool registered;
#if NIF_HALT_OPTION
    /* The callback runs while schedulers still run, before files are closed. A halt without
     * flush does not call it, so there is an atexit handler, too. */
    if (enif_set_option(env, ERL_NIF_OPT_DELAY_HALT) != 0 ||
        enif_set_option(env, ERL_NIF_OPT_ON_HALT, on_halt) != 0) {
        return LOAD_HALT;
    }
#else
    (void)env;
#endif
    if (!atomic_exchange(&registered, true) && atexit(at_exit) != 0) {
        return LOAD_EXIT;
    }
    return LOAD_OK;
}

static int start(ErlNifEnv *env, void **priv_data, ERL_NIF_TERM info, ErlNifResourceFlags how)
{
    if (!library.ready) {
        nif_atoms_init(env);
        int layout = nif_layout_init(env, info);
        if (layout != 0) {
            return (int)LOAD_LAYOUT + layout;
        }
    }
    if (!nif_handle_open_type(env, how)) {
        return LOAD_TYPE;
    }
    if (!library.ready) {
        nif_handle_learn(env);
        library.ready = true;
    }
    enum load_error e = watch_exit(env);
    if (e != LOAD_OK) {
        return (int)e;
    }
    (void)nif_raw_register(env);
    atomic_fetch_add(&library.instances, 1);
    *priv_data = &library;
    return LOAD_OK;
}

static int load(ErlNifEnv *env, void **priv_data, ERL_NIF_TERM info)
{
    return start(env, priv_data, info, ERL_NIF_RT_CREATE | ERL_NIF_RT_TAKEOVER);
}

/* Fails if recorders of another build exist, because their worker threads and structures belong
 * to that build. */
static int upgrade(ErlNifEnv *env, void **priv_data, void **old_priv_data, ERL_NIF_TERM info)
{
    struct library *old = *old_priv_data;
    if (old != NULL && old != &library && old->handles() != 0) {
        return LOAD_BUSY;
    }
    return start(env, priv_data, info, ERL_NIF_RT_CREATE | ERL_NIF_RT_TAKEOVER);
}

static void unload(ErlNifEnv *env, void *priv_data)
{
    (void)env;
    struct library *lib = priv_data;
    if (lib == &library && atomic_fetch_sub(&library.instances, 1) == 1) {
        kymo_recorder_library_unload();
    }
}

/* clang-format off */
static ErlNifFunc functions[] = {
    {"enabled", 3, nif_enabled, 0},
    {"enabled_call", 3, nif_enabled, 0},
    {"enabled_send", 3, nif_enabled_send, 0},
#define NIF_X(name, class) {#name, 3, nif_##name, 0},
    NIF_ENABLED_CALLBACKS(NIF_X)
#undef NIF_X
#define NIF_X(name) {#name, 5, nif_##name, 0},
    NIF_TRACE_CALLBACKS(NIF_X)
#undef NIF_X
    {"nif_open", 2, nif_open, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"nif_stop", 1, nif_stop, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"nif_pause", 1, nif_pause, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"nif_resume", 1, nif_resume, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"nif_info", 1, nif_info, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"nif_let_go", 1, nif_let_go, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"nif_snapshot", 2, nif_snapshot, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"nif_define_process", 6, nif_define_process, 0},
    {"nif_note_taken", 2, nif_note_taken, 0},
    {"nif_note_measures", 2, nif_note_measures, 0},
    {"nif_budget", 3, nif_budget, 0},
    {"nif_rates", 1, nif_rates, 0},
    {"nif_sample", 3, nif_sample, ERL_NIF_DIRTY_JOB_CPU_BOUND},
    {"nif_note_shed", 4, nif_note_shed, 0},
    {"nif_note_counters", 2, nif_note_counters, 0},
    {"nif_note_monitor", 7, nif_note_monitor, 0},
    {"nif_note_observed", 8, nif_note_observed, 0},
};
/* clang-format on */

ERL_NIF_INIT(kymo_tracer, functions, load, NULL, upgrade, unload)
