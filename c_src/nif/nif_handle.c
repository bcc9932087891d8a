/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_handle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

ErlNifResourceType *nif_handle_type;

static atomic_uint handles;

static void *close_thread(void *rec)
{
    kymo_recorder_close(rec);
    return NULL;
}

/* Runs on whatever scheduler collects the last reference. Closing waits for
 * the worker and for files, so a recorder that nobody stopped is closed by a
 * thread of its own. */
static void destroy(ErlNifEnv *env, void *obj)
{
    (void)env;
    struct nif_handle *h = obj;
    struct kymo_recorder *rec = h->rec;
    atomic_fetch_sub(&handles, 1);
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
