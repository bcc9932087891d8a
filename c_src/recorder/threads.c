/* SPDX-License-Identifier: Apache-2.0
 *
 * Assignment of slots to threads. A thread finds its writers through a thread-local pointer
 * to a table with one entry per open recorder.
 *
 * The tables are a static pool, so none is freed while a thread may still have a pointer to
 * it, even if the library is unloaded and loaded again. There are as many tables as a
 * recorder can have slots.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kymo_internal.h"

#define KYMO_TABLES 4096u

static struct kymo_tls no_table;
static struct kymo_tls tables[KYMO_TABLES];
static uint64_t last_epoch; /* atomic */

_Thread_local struct kymo_tls *kymo_tls_current = &no_table;

/* The key exists while key_epoch is odd; a table belongs to the key of its epoch. */
static pthread_key_t key;
static uint32_t key_epoch; /* atomic; changed under the registry lock */

uint64_t kymo_next_epoch(void)
{
    return kymo_add(&last_epoch, (uint64_t)1) + 1;
}

static void leave_slot(struct kymo_writer *w)
{
    struct kymo_recorder *r = w->rec;

    /* The thread may have called pthread_exit between get and put. */
    kymo_writer_put(w);
    /* If the recorder is not active, another thread owns the segment. It is closed by the
     * next owner of the slot, or at the end. */
    if (kymo_writer_enter(w, &r->head)) {
        kymo_segment_close(w);
        kymo_lease_return(w);
        kymo_writer_put(w);
    }
    kymo_set(&w->slot->retired, 1u);
    kymo_set_release(&w->owner, 0u);
    kymo_set_release(&r->free_epoch, kymo_next_epoch());
}

/* Runs in a thread that exits. */
static void thread_exits(void *table)
{
    struct kymo_tls *t = table;

    kymo_registry_lock();
    for (uint32_t i = 0; i < KYMO_MAX_RECORDERS; i++) {
        if (t->e[i].generation != 0 && kymo_registry_at(i, t->e[i].generation) != NULL)
            leave_slot(t->e[i].writer);
        t->e[i] = (struct kymo_tls_entry){0, NULL, 0};
    }
    kymo_registry_unlock();
    kymo_tls_current = &no_table;
    t->epoch = 0; /* the next thread has to set its own key */
    kymo_set_release(&t->in_use, 0u);
}

int kymo_threads_init(void)
{
    int rc;

    if (key_epoch % 2 == 1)
        return 0;
    rc = pthread_key_create(&key, thread_exits);
    if (rc == 0)
        kymo_set_release(&key_epoch, key_epoch + 1);
    return -rc;
}

void kymo_threads_exit(void)
{
    if (key_epoch % 2 == 0)
        return;
    kymo_set_release(&key_epoch, key_epoch + 1);
    pthread_key_delete(key);
}

/* The calling thread's table, assigned if necessary; NULL if none is free. */
static struct kymo_tls *own_table(void)
{
    uint32_t epoch = kymo_get_acquire(&key_epoch);
    struct kymo_tls *t = kymo_tls_current;

    for (uint32_t i = 0; t == &no_table && i < KYMO_TABLES; i++) {
        uint32_t none = 0;

        if (kymo_get(&tables[i].in_use) == 0 &&
            __atomic_compare_exchange_n(&tables[i].in_use, &none, 1u, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            t = &tables[i];
    }
    if (t == &no_table)
        return NULL;
    if (t->epoch != epoch) {
        if (pthread_setspecific(key, t) != 0) {
            if (kymo_tls_current == &no_table)
                kymo_set_release(&t->in_use, 0u);
            return NULL;
        }
        t->epoch = epoch;
    }
    kymo_tls_current = t;
    return t;
}

static void take_slot(struct kymo_writer *w)
{
    struct kymo_recorder *r = w->rec;
    struct kymo_slot *slot = w->slot;
    enum kymo_thread kind = KYMO_T_OTHER;
    uint64_t used = kymo_get(&r->meta->slots_used);
    uint64_t name[2] = {0, 0}; /* stored in words, because info may read it concurrently */

    kymo_segment_close(w); /* of the slot's previous thread */
    w->thread_no = 0;
    if (r->opt.identify != NULL)
        r->opt.identify(&kind, &w->thread_no);
    w->thread_kind = kind;
    kymo_set(&slot->thread_kind, w->thread_kind);
    kymo_set(&slot->thread_no, w->thread_no);
    kymo_set(&slot->os_thread, kymo_thread_id());
    kymo_set(&slot->retired, 0u);
    (void)pthread_getname_np(pthread_self(), (char *)name, sizeof name);
    for (unsigned i = 0; i < 2; i++)
        kymo_set((uint64_t *)(void *)slot->thread_name + i, name[i]);
    while (used < w->index + 1u &&
           !__atomic_compare_exchange_n(&r->meta->slots_used, &used, w->index + (uint64_t)1, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    kymo_set_release(&slot->used, 1u);
}

/* Allocates the pages of a slot's caches, which slots without a thread do not need. */
static void prepare_caches(struct kymo_writer *w)
{
    uintptr_t begin = (uintptr_t)w->mfas & ~(uintptr_t)4095;
    uintptr_t end = ((uintptr_t)w->mfas + KYMO_CACHES_BYTES + 4095) & ~(uintptr_t)4095;

    /* On a kernel without this, the first lookups fault the pages in. */
    (void)madvise((void *)begin, end - begin, MADV_POPULATE_WRITE);
}

/* Stores the times before the count, so a reader that sees the count sees its times. */
static void count_no_slot(struct kymo_recorder *r)
{
    uint64_t now = kymo_clock_now(r), none = 0, newest = kymo_get(&r->meta->no_slot_last);

    (void)__atomic_compare_exchange_n(&r->meta->no_slot_first, &none, now, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED);
    while (newest < now && !__atomic_compare_exchange_n(&r->meta->no_slot_last, &newest, now, true,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    (void)__atomic_fetch_add(&r->meta->no_slot, 1, __ATOMIC_RELEASE);
}

struct kymo_writer *kymo_writer_attach(struct kymo_recorder *r, bool count)
{
    struct kymo_tls *t;
    struct kymo_tls_entry *e;
    uint64_t epoch;

    if (!kymo_recorder_active(r))
        return NULL;
    t = own_table();
    epoch = kymo_get_acquire(&r->free_epoch);
    e = t == NULL ? NULL : &t->e[r->head.index];
    for (uint32_t i = 0; e != NULL && e->refused != epoch && i < r->opt.n_slots; i++) {
        struct kymo_writer *w = &r->writers[i];
        uint32_t none = 0;

        if (kymo_get(&w->owner) != 0 ||
            !__atomic_compare_exchange_n(&w->owner, &none, 1u, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        KYMO_POINT(KYMO_AT_CLAIM);
        if (!kymo_writer_enter(w, &r->head)) {
            kymo_set_release(&w->owner, 0u);
            return NULL;
        }
        prepare_caches(w);
        take_slot(w);
        e->writer = w;
        e->refused = 0;
        e->generation = r->head.generation;
        return w;
    }
    if (e != NULL)
        e->refused = epoch;
    if (count)
        count_no_slot(r);
    return NULL;
}

bool kymo_writer_inside(struct kymo_recorder *r)
{
    const struct kymo_tls_entry *e = &kymo_tls_current->e[r->head.index];

    return e->generation == r->head.generation && e->writer->busy != 0;
}
