/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_callbacks.h"
#include "nif_tags.h"

_Thread_local ERL_NIF_TERM nif_send_expected;

/* The answer for a term that is not a recorder, or a recorder that is not active. A paused one
 * must keep its trace flags, so `remove` is returned only by one that has ended. */
static NIF_RARE ERL_NIF_TERM refuse(const struct nif_handle *h, ERL_NIF_TERM tag)
{
    if (tag != nif_am.trace_status) {
        return nif_am.discard;
    }
    return h == NULL || kymo_recorder_ended(h->rec) ? nif_am.remove : nif_am.trace;
}

static inline __attribute__((always_inline)) ERL_NIF_TERM
answer_class(ErlNifEnv *env, const ERL_NIF_TERM argv[], enum nif_class c)
{
    const struct nif_handle *h = nif_handle_of(env, argv[1]);
    if (NIF_UNLIKELY(h == NULL) || NIF_UNLIKELY(!kymo_recorder_active(h->rec))) {
        return refuse(h, argv[0]);
    }
    if (nif_wanted(h, c, nif_tag_event(c, argv[0])) && nif_sampled(h, argv[2])) {
        return nif_am.trace;
    }
    return argv[0] == nif_am.trace_status ? nif_am.trace : nif_am.discard;
}

/* To be called when enabled_send returns `trace`: the runtime's next call in this thread will be
 * trace_send for this port. That does not apply if Erlang code has called enabled_send. */
static void expect_send(ErlNifEnv *env, ERL_NIF_TERM port)
{
    ErlNifPid pid;
    if (enif_self(env, &pid) == NULL) {
        nif_send_expected = port;
    }
}

/* The slow path: less frequent tags of calls and messages; sampling; and, through enabled/3,
 * seq_trace and tags of later runtimes. */
static NIF_RARE ERL_NIF_TERM answer_any(ErlNifEnv *env, const struct nif_handle *h, const ERL_NIF_TERM argv[])
{
    ERL_NIF_TERM tag = argv[0];
    bool known = false, wanted = false;
    for (enum nif_class c = 0; c < NIF_CLASSES; c++) {
        unsigned event = nif_tag_event(c, tag);
        known = known || event != KYMO_E_OTHER;
        wanted = wanted || (event == KYMO_E_CALL && h->mask[c] != 0);
        wanted = wanted || (event != KYMO_E_OTHER && nif_wanted(h, c, event));
    }
    for (enum nif_class c = 0; !known && c < NIF_CLASSES; c++) {
        wanted = wanted || nif_wanted(h, c, KYMO_E_OTHER);
    }
    if (!wanted || !nif_sampled(h, argv[2])) {
        return nif_am.discard;
    }
    if (nif_is_local_port(argv[2]) && nif_tag_event(NIF_SEND, tag) != KYMO_E_OTHER) {
        expect_send(env, argv[2]);
    }
    return nif_am.trace;
}

/* For a state that the fast path does not recognise, in most cases one of another module. */
static __attribute__((noinline)) ERL_NIF_TERM answer_other_state(ErlNifEnv *env, const ERL_NIF_TERM argv[])
{
    const struct nif_handle *h = nif_handle_slow(env, argv[1]);
    if (h == NULL || !kymo_recorder_active(h->rec)) {
        return refuse(h, argv[0]);
    }
    return argv[0] == nif_am.trace_status ? nif_am.trace : answer_any(env, h, argv);
}

static inline uint64_t all_ones_if(bool yes)
{
    return (uint64_t)0 - (uint64_t)yes;
}

/* enabled/3 and enabled_call/3, and the slow path of enabled_send/3. For each call the
 * runtime asks twice, with trace_status and with call. So much code runs in between that a
 * branch on the tag, or an indirect jump to one of two C functions, is mispredicted. So
 * both are one function without such a branch. */
ERL_NIF_TERM nif_enabled(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    const struct nif_handle *h = nif_handle_fast(argv[1]);
    if (NIF_UNLIKELY(h == NULL)) {
        return answer_other_state(env, argv);
    }
    ERL_NIF_TERM tag = argv[0];
    uint64_t is_status = all_ones_if(tag == nif_shortcut.trace_status);
    if (NIF_UNLIKELY(!kymo_recorder_active(h->rec))) {
        ERL_NIF_TERM status = kymo_recorder_ended(h->rec) ? nif_am.remove : nif_am.trace;
        return (status & is_status) | (nif_am.discard & ~is_status);
    }
    if (NIF_LIKELY((is_status | all_ones_if(tag == nif_shortcut.call)) != 0) && NIF_LIKELY(h->on_call != 0)) {
        return h->on_call ^ ((h->on_call ^ nif_shortcut.trace) & is_status);
    }
    if (NIF_LIKELY(tag == nif_shortcut.send) && nif_is_local_pid(argv[2]) && NIF_LIKELY(h->on_send != 0)) {
        return h->on_send;
    }
    return is_status != 0 ? nif_am.trace : answer_any(env, h, argv);
}

/* enabled_send/3. The runtime calls it once per message, so branches are predicted well. */
ERL_NIF_TERM nif_enabled_send(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    const struct nif_handle *h = nif_handle_fast(argv[1]);
    if (NIF_LIKELY(h != NULL) && NIF_LIKELY(argv[0] == nif_shortcut.send) && nif_is_local_pid(argv[2]) &&
        NIF_LIKELY(kymo_recorder_active(h->rec)) && NIF_LIKELY(h->on_send != 0)) {
        return h->on_send;
    }
    return nif_enabled(env, argc, argv);
}

#define NIF_X(name, class) \
    ERL_NIF_TERM nif_##name(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) \
    { \
        (void)argc; \
        return answer_class(env, argv, class); \
    }
NIF_ENABLED_CALLBACKS(NIF_X)
#undef NIF_X
