/* SPDX-License-Identifier: Apache-2.0
 *
 * The tracer state: a resource that owns one recorder. Its term, a reference,
 * is what the runtime hands to every callback.
 *
 *   made       kymo_tracer:open/1; everything in it but `rec` is set before the
 *              term exists and never changes, so callbacks read it without a
 *              lock. rec stays valid until the destructor.
 *   destroyed  when the last term is gone: neither Erlang nor a trace flag can
 *              reach the recorder any more.
 */
#ifndef KYMO_NIF_HANDLE_H
#define KYMO_NIF_HANDLE_H

#include <erl_nif.h>
#include <stdbool.h>
#include <stdint.h>

#include "kymo_writer.h"

/* Which callback an event comes through. */
enum nif_class {
    NIF_CALLS,
    NIF_SEND,
    NIF_RECEIVE,
    NIF_PROCS,
    NIF_PORTS,
    NIF_RUNNING_PROCS,
    NIF_RUNNING_PORTS,
    NIF_GC,
    NIF_SEQ,
    NIF_CLASSES
};

#define NIF_NODE_MAX 1024u

struct nif_handle {
    struct kymo_recorder *rec;   /* NULL only while open has not succeeded */
    uint64_t mask[NIF_CLASSES];  /* 1 << KYMO_E_x for each tag wanted */
    uint32_t detail;             /* KYMO_D_* */
    uint32_t content_max;        /* bytes of one content */
    uint32_t size_limit;         /* terms visited to find the size of a message */
    uint32_t sample_process;     /* 1 in N processes, 1 = all */
    uint32_t creation;
    uint32_t node_len;           /* of node_ext */
    uint8_t node_ext[NIF_NODE_MAX]; /* the local node's name as external term */
    enum kymo_policy policy;
    char *dir;                   /* as given; freed with the handle */
    ErlNifMonitor monitor;       /* of the owner, when there is one */
};

extern ErlNifResourceType *nif_handle_type;

/* The state behind a term; NULL when it is something else. Any thread. */
static inline struct nif_handle *nif_handle_of(ErlNifEnv *env, ERL_NIF_TERM state)
{
    void *h;
    return enif_get_resource(env, state, nif_handle_type, &h) ? h : NULL;
}

/* Opens the resource type, or takes it over from an older instance of this
 * library. Load and upgrade only. */
bool nif_handle_open_type(ErlNifEnv *env, ErlNifResourceFlags how);

/* Handles that exist; their destructors belong to this build of the library. */
unsigned nif_handle_count(void);

/* A new handle with rec NULL and everything else 0; NULL: no memory. */
struct nif_handle *nif_handle_new(void);

#endif
