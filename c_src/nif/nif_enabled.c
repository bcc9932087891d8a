/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_callbacks.h"
#include "nif_tags.h"

#include "nif_layout.h"

_Thread_local ERL_NIF_TERM nif_send_expected;

/* Not a recorder, or one that takes no events now. A paused one keeps its trace
 * flags: only `remove` takes them off. */
static ERL_NIF_TERM refuse(const struct nif_handle *h, ERL_NIF_TERM tag)
{
    if (tag != nif_am.trace_status) {
        return nif_am.discard;
    }
    return h == NULL || kymo_recorder_ended(h->rec) ? nif_am.remove : nif_am.trace;
}

/* Is the tracee one of the 1 in N that are recorded? Neighbouring pids are
 * spread by the multiplication. */
static bool sampled(const struct nif_handle *h, ERL_NIF_TERM tracee)
{
    if (h->sample_process <= 1 || !(nif_is_local_pid(tracee) || nif_is_local_port(tracee))) {
        return true;
    }
    return (tracee * UINT64_C(0x9e3779b97f4a7c15) >> 32) % h->sample_process == 0;
}

static inline __attribute__((always_inline)) ERL_NIF_TERM answer(ErlNifEnv *env, const ERL_NIF_TERM argv[],
                                                                 enum nif_class c)
{
    const struct nif_handle *h = nif_handle_of(env, argv[1]);
    if (h == NULL || !kymo_recorder_active(h->rec)) {
        return refuse(h, argv[0]);
    }
    if (nif_wanted(h, c, nif_tag_event(c, argv[0])) && sampled(h, argv[2])) {
        return nif_am.trace;
    }
    return argv[0] == nif_am.trace_status ? nif_am.trace : nif_am.discard;
}

/* trace_status and seq_trace come here, and whatever a later runtime adds. */
ERL_NIF_TERM nif_enabled(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    const struct nif_handle *h = nif_handle_of(env, argv[1]);
    if (h == NULL || !kymo_recorder_active(h->rec)) {
        return refuse(h, argv[0]);
    }
    if (argv[0] == nif_am.trace_status) {
        return nif_am.trace;
    }
    if (argv[0] == nif_am.seq_trace) {
        return nif_wanted(h, NIF_SEQ, KYMO_E_SEQ_TRACE) ? nif_am.trace : nif_am.discard;
    }
    for (enum nif_class c = 0; c < NIF_CLASSES; c++) {
        if (nif_wanted(h, c, nif_tag_event(c, argv[0])) && sampled(h, argv[2])) {
            return nif_am.trace;
        }
    }
    return nif_am.discard;
}

ERL_NIF_TERM nif_answer(ErlNifEnv *env, const ERL_NIF_TERM argv[], enum nif_class c)
{
    return answer(env, argv, c);
}

static void expect_send(ErlNifEnv *env, ERL_NIF_TERM port)
{
    ErlNifPid pid;
    if (enif_self(env, &pid) == NULL) {
        nif_send_expected = port;
    }
}

#define NIF_X(name, class)                                                     \
    ERL_NIF_TERM nif_##name(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) \
    {                                                                          \
        (void)argc;                                                            \
        ERL_NIF_TERM a = answer(env, argv, class);                             \
        if (class == NIF_SEND && nif_is_local_port(argv[2]) && a == nif_am.trace) { \
            expect_send(env, argv[2]);                                         \
        }                                                                      \
        return a;                                                              \
    }
NIF_ENABLED_CALLBACKS(NIF_X)
#undef NIF_X
