/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorders of this process.
 */
#include <errno.h>

#include "kymo_internal.h"

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    bool taken;
    struct kymo_recorder *r; /* NULL while being opened */
} registry[KYMO_MAX_RECORDERS];

void kymo_registry_lock(void)
{
    pthread_mutex_lock(&registry_mutex);
}

void kymo_registry_unlock(void)
{
    pthread_mutex_unlock(&registry_mutex);
}

struct kymo_recorder *kymo_registry_at(uint32_t index, uint64_t generation)
{
    struct kymo_recorder *r = registry[index].r;

    return r != NULL && r->head.generation == generation ? r : NULL;
}

int kymo_registry_take(uint32_t *index)
{
    int rc;

    kymo_registry_lock();
    rc = kymo_threads_init();
    *index = 0;
    while (rc == 0 && *index < KYMO_MAX_RECORDERS && registry[*index].taken)
        ++*index;
    if (*index == KYMO_MAX_RECORDERS)
        rc = -ENFILE;
    if (rc == 0)
        registry[*index].taken = true;
    kymo_registry_unlock();
    return rc;
}

void kymo_registry_set(uint32_t index, struct kymo_recorder *r)
{
    kymo_registry_lock();
    registry[index].r = r;
    registry[index].taken = r != NULL;
    kymo_registry_unlock();
}

void kymo_recorder_stop_all(void)
{
    kymo_registry_lock();
    for (uint32_t i = 0; i < KYMO_MAX_RECORDERS; i++) {
        if (registry[i].r != NULL)
            (void)kymo_recorder_stop(registry[i].r, KYMO_R_UNLOAD);
    }
    kymo_registry_unlock();
}

void kymo_recorder_library_unload(void)
{
    kymo_recorder_stop_all();
    kymo_registry_lock();
    kymo_threads_exit();
    kymo_registry_unlock();
}
