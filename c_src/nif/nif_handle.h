/* SPDX-License-Identifier: Apache-2.0
 *
 * The tracer state: a resource that owns one recorder. The runtime passes its term, a
 * reference, to every callback.
 *
 *   created    by kymo_tracer:open/1. All members except `rec` are set before the term
 *              exists and never change, so callbacks read them without a lock. rec is valid
 *              until the destructor.
 *   destroyed  after the last term was collected: then neither Erlang nor a trace flag can
 *              reach the recorder.
 */
#ifndef KYMO_NIF_HANDLE_H
#define KYMO_NIF_HANDLE_H

#include <erl_nif.h>
#include <stdbool.h>
#include <stdint.h>

#include "kymo_writer.h"
#include "nif_layout.h"

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
    struct kymo_recorder *rec;     /* NULL only while open has not succeeded */
    ERL_NIF_TERM on_call, on_send; /* the answer for these tags while recording; 0 = not constant */
    ERL_NIF_TERM plain_call;       /* the tag call, when raw calls are recorded without arguments; else 0 */
    uint32_t detail;               /* KYMO_D_* */
    uint32_t size_limit;           /* terms visited to find the size of a message */
    uint64_t mask[NIF_CLASSES];    /* 1 << KYMO_E_x for each tag wanted */
    uint32_t content_max;          /* bytes of one content */
    uint32_t sample_process;       /* 1 in N processes, 1 = all */
    uint32_t creation;
    uint32_t node_len;              /* of node_ext */
    uint8_t node_ext[NIF_NODE_MAX]; /* the local node's name as external term */
    enum kymo_policy policy;
    char *dir;             /* as given; freed with the handle */
    ErlNifMonitor monitor; /* of the owner, when there is one */
};

extern ErlNifResourceType *nif_handle_type;

/* The fast path from a term to its handle. The term of a resource is boxed: a header word,
 * then the address of the runtime's object, in which the handle has a constant offset. So it
 * is enough to recognise the address. If the header matches, the address may be read. The
 * newest open handle is in `recent`, others in `known` (of two with the same index only one).
 * The term keeps the handle alive. The layout is determined and checked at load; if it is
 * different, the expected header is one that no term has, and the runtime is asked.
 *
 * What every event needs is in one cache line. */
#define NIF_KNOWN 64u
#define NIF_NO_HEADER UINT64_MAX
struct nif_shortcut {
    uint64_t header;
    uint64_t recent; /* atomic */
    uint64_t distance;
    ERL_NIF_TERM trace_status, call, send, trace, ok;
    uint64_t known[NIF_KNOWN]; /* atomic */
} __attribute__((aligned(64)));
extern struct nif_shortcut nif_shortcut;

static inline uint64_t *nif_known(uint64_t address)
{
    return &nif_shortcut.known[address * UINT64_C(0x9e3779b97f4a7c15) >> 58];
}

/* The fast path. Returns NULL if it does not recognise the term. */
static inline struct nif_handle *nif_handle_fast(ERL_NIF_TERM state)
{
    if (NIF_LIKELY((state & 7u) == 2u)) {
        const uint64_t *word = (const uint64_t *)(uintptr_t)(state - 2u);
        if (NIF_LIKELY(word[0] == nif_shortcut.header) &&
            NIF_LIKELY(word[1] == __atomic_load_n(&nif_shortcut.recent, __ATOMIC_RELAXED) ||
                       word[1] == __atomic_load_n(nif_known(word[1]), __ATOMIC_RELAXED))) {
            return (struct nif_handle *)(uintptr_t)(word[1] + nif_shortcut.distance);
        }
    }
    return NULL;
}

/* The slow path, through the runtime. */
struct nif_handle *nif_handle_slow(ErlNifEnv *env, ERL_NIF_TERM state);

/* The handle of a term, or NULL if it is something else. Any thread. */
static inline struct nif_handle *nif_handle_of(ErlNifEnv *env, ERL_NIF_TERM state)
{
    struct nif_handle *h = nif_handle_fast(state);
    return NIF_LIKELY(h != NULL) ? h : nif_handle_slow(env, state);
}

/* True if the tracee is among the 1 in N processes that are recorded. */
bool nif_chosen(const struct nif_handle *h, ERL_NIF_TERM tracee);
static inline bool nif_sampled(const struct nif_handle *h, ERL_NIF_TERM tracee)
{
    return NIF_LIKELY(h->sample_process <= 1) || nif_chosen(h, tracee);
}

/* Opens the resource type, or takes it over from an older instance of this
 * library. Load and upgrade only. */
bool nif_handle_open_type(ErlNifEnv *env, ErlNifResourceFlags how);

/* Handles that exist; their destructors belong to this build of the library. */
unsigned nif_handle_count(void);

/* Determines whether the fast path can be used. Load and upgrade only. */
void nif_handle_learn(ErlNifEnv *env);

/* Computes constant answers from the mask, the sampling and the details. Part of open. */
void nif_handle_prepare(struct nif_handle *h);

/* Creates the term of a handle, which the fast path recognises from then on. */
ERL_NIF_TERM nif_handle_term(ErlNifEnv *env, struct nif_handle *h);

/* A new handle with rec NULL and everything else 0; NULL: no memory. */
struct nif_handle *nif_handle_new(void);

#endif
