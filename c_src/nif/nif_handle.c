/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_handle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "nif_atoms.h"
#include "nif_tags.h"

ErlNifResourceType *nif_handle_type;

struct nif_shortcut nif_shortcut = {.header = NIF_NO_HEADER};

static atomic_uint handles;

static void forget(struct nif_handle *h)
{
    uint64_t address = (uint64_t)(uintptr_t)h - nif_shortcut.distance;
    uint64_t *const at[] = {nif_known(address), &nif_shortcut.recent};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        uint64_t expected = address;
        __atomic_compare_exchange_n(at[i], &expected, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

static void *close_thread(void *rec)
{
    kymo_recorder_close(rec);
    return NULL;
}

/* Runs on the scheduler that collects the last reference. Closing waits for the worker and
 * for files, so a recorder that was not stopped is closed by a thread of its own. */
static void destroy(ErlNifEnv *env, void *obj)
{
    (void)env;
    struct nif_handle *h = obj;
    struct kymo_recorder *rec = h->rec;
    atomic_fetch_sub(&handles, 1);
    forget(h);
    free(h->dir);
    if (rec == NULL) {
        return;
    }
    h->rec = NULL;
    kymo_recorder_stop_async(rec, KYMO_R_COLLECTED);
    pthread_t thread;
    pthread_attr_t attr;
    bool started = false;
    if (pthread_attr_init(&attr) == 0) {
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        started = pthread_create(&thread, &attr, close_thread, rec) == 0;
        pthread_attr_destroy(&attr);
    }
    if (!started) {
        kymo_recorder_close(rec);
    }
}

static void owner_down(ErlNifEnv *env, void *obj, ErlNifPid *pid, ErlNifMonitor *mon)
{
    (void)env;
    (void)pid;
    (void)mon;
    struct nif_handle *h = obj;
    if (h->rec != NULL) {
        kymo_recorder_stop_async(h->rec, KYMO_R_OWNER);
    }
}

__attribute__((noinline)) struct nif_handle *nif_handle_slow(ErlNifEnv *env, ERL_NIF_TERM state)
{
    void *h;
    return enif_get_resource(env, state, nif_handle_type, &h) ? h : NULL;
}

/* The multiplication distributes neighbouring pids. */
NIF_RARE bool nif_chosen(const struct nif_handle *h, ERL_NIF_TERM tracee)
{
    if (!(nif_is_local_pid(tracee) || nif_is_local_port(tracee))) {
        return true;
    }
    return (tracee * UINT64_C(0x9e3779b97f4a7c15) >> 32) % h->sample_process == 0;
}

bool nif_handle_open_type(ErlNifEnv *env, ErlNifResourceFlags how)
{
    ErlNifResourceTypeInit init = {.dtor = destroy, .down = owner_down};
    ErlNifResourceType *t = enif_open_resource_type_x(env, "kymo_recorder", &init, how, NULL);
    if (t == NULL) {
        return false;
    }
    nif_handle_type = t;
    return true;
}

unsigned nif_handle_count(void)
{
    return atomic_load(&handles);
}

struct nif_handle *nif_handle_new(void)
{
    struct nif_handle *h = enif_alloc_resource(nif_handle_type, sizeof *h);
    if (h != NULL) {
        memset(h, 0, sizeof *h);
        atomic_fetch_add(&handles, 1);
    }
    return h;
}

void nif_handle_prepare(struct nif_handle *h)
{
    if (h->sample_process <= 1) {
        /* If the answer is `discard`, the runtime does not report the call's return either. */
        h->on_call = h->mask[NIF_CALLS] != 0 ? nif_am.trace : nif_am.discard;
        h->on_send = nif_wanted(h, NIF_SEND, KYMO_E_SEND) ? nif_am.trace : nif_am.discard;
        if (nif_wanted(h, NIF_CALLS, KYMO_E_CALL) && (h->detail & KYMO_D_ARGS) == 0) {
            h->plain_call = nif_shortcut.call;
        }
    }
}

ERL_NIF_TERM nif_handle_term(ErlNifEnv *env, struct nif_handle *h)
{
    if (nif_shortcut.header != NIF_NO_HEADER) {
        uint64_t address = (uint64_t)(uintptr_t)h - nif_shortcut.distance;
        __atomic_store_n(nif_known(address), address, __ATOMIC_RELAXED);
        __atomic_store_n(&nif_shortcut.recent, address, __ATOMIC_RELAXED);
    }
    return enif_make_resource(env, h);
}

static const uint64_t *words(ERL_NIF_TERM t)
{
    return (const uint64_t *)(uintptr_t)(t & ~(ERL_NIF_TERM)7);
}

/* Checks the layout described in nif_handle.h with two terms of one handle and one of another.
 * An ordinary reference must not look like any of them. */
void nif_handle_learn(ErlNifEnv *env)
{
    struct nif_handle *a = nif_handle_new();
    struct nif_handle *b = nif_handle_new();
    nif_shortcut.trace_status = nif_am.trace_status;
    nif_shortcut.call = nif_am.call;
    nif_shortcut.send = nif_am.send;
    nif_shortcut.trace = nif_am.trace;
    nif_shortcut.ok = nif_am.ok;
    if (a != NULL && b != NULL) {
        const ERL_NIF_TERM terms[] = {enif_make_resource(env, a), enif_make_resource(env, a),
                                      enif_make_resource(env, b)};
        const struct nif_handle *handles_of[] = {a, a, b};
        ERL_NIF_TERM ref = enif_make_ref(env);
        uint64_t header = 0, distance = 0;
        bool ok = (ref & 3u) == 2u;
        for (size_t i = 0; ok && i < sizeof terms / sizeof *terms; i++) {
            ok = (terms[i] & 3u) == 2u;
            if (ok && i == 0) {
                header = words(terms[0])[0];
                ok = header >> 6 >= 2;
                distance = ok ? (uint64_t)(uintptr_t)a - words(terms[0])[1] : 0;
            }
            ok = ok && words(terms[i])[0] == header &&
                 words(terms[i])[1] + distance == (uint64_t)(uintptr_t)handles_of[i];
        }
        ok = ok && distance < 4096 && words(ref)[1] + distance != (uint64_t)(uintptr_t)a;
        if (ok) {
            nif_shortcut.header = header;
            nif_shortcut.distance = distance;
        }
    }
    if (a != NULL) {
        enif_release_resource(a);
    }
    if (b != NULL) {
        enif_release_resource(b);
    }
}
