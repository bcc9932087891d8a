/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace tags: the event for each tag and class of callbacks. */
#ifndef KYMO_NIF_TAGS_H
#define KYMO_NIF_TAGS_H

#include "nif_atoms.h"
#include "nif_handle.h"

#define NIF_BIT(id) (UINT64_C(1) << (id))

/* clang-format off */
/* X(class, tag atom, event) */
#define NIF_TAGS(X)                                                            \
    X(NIF_CALLS, call, CALL) X(NIF_CALLS, return_to, RETURN_TO)                \
    X(NIF_CALLS, return_from, RETURN_FROM)                                     \
    X(NIF_CALLS, exception_from, EXCEPTION_FROM) X(NIF_CALLS, slow, SLOW)      \
    X(NIF_SEND, send, SEND) X(NIF_SEND, send_ne, SEND_NE)                      \
    X(NIF_RECEIVE, receive, RECEIVE) X(NIF_RECEIVE, taken, TAKEN)              \
    X(NIF_PROCS, spawn, SPAWN) X(NIF_PROCS, spawned, SPAWNED)                  \
    X(NIF_PROCS, exit, EXIT) X(NIF_PROCS, link, LINK)                          \
    X(NIF_PROCS, unlink, UNLINK) X(NIF_PROCS, getting_linked, GETTING_LINKED)  \
    X(NIF_PROCS, getting_unlinked, GETTING_UNLINKED)                           \
    X(NIF_PROCS, register_, REGISTER) X(NIF_PROCS, unregister, UNREGISTER)     \
    X(NIF_PORTS, open, OPEN) X(NIF_PORTS, closed, CLOSED)                      \
    X(NIF_PORTS, link, LINK) X(NIF_PORTS, unlink, UNLINK)                      \
    X(NIF_PORTS, getting_linked, GETTING_LINKED)                               \
    X(NIF_PORTS, getting_unlinked, GETTING_UNLINKED)                           \
    X(NIF_PORTS, register_, REGISTER) X(NIF_PORTS, unregister, UNREGISTER)     \
    X(NIF_RUNNING_PROCS, in, IN) X(NIF_RUNNING_PROCS, out, OUT)                \
    X(NIF_RUNNING_PROCS, in_exiting, IN_EXITING)                               \
    X(NIF_RUNNING_PROCS, out_exiting, OUT_EXITING)                             \
    X(NIF_RUNNING_PROCS, out_exited, OUT_EXITED)                               \
    X(NIF_RUNNING_PROCS, stopped, STOPPED)                                     \
    X(NIF_RUNNING_PORTS, in, PORT_IN) X(NIF_RUNNING_PORTS, out, PORT_OUT)      \
    X(NIF_RUNNING_PORTS, in_exiting, PORT_IN_EXITING)                          \
    X(NIF_RUNNING_PORTS, out_exiting, PORT_OUT_EXITING)                        \
    X(NIF_RUNNING_PORTS, out_exited, PORT_OUT_EXITED)                          \
    X(NIF_GC, gc_minor_start, GC_MINOR_START)                                  \
    X(NIF_GC, gc_minor_end, GC_MINOR_END)                                      \
    X(NIF_GC, gc_major_start, GC_MAJOR_START)                                  \
    X(NIF_GC, gc_major_end, GC_MAJOR_END)                                      \
    X(NIF_SEQ, seq_trace, SEQ_TRACE)
/* clang-format on */

/* The event of a tag in a class; KYMO_E_OTHER for an unknown tag. The class is a compile-time
 * constant, so only the comparisons of that class are compiled. */
static inline __attribute__((always_inline)) unsigned nif_tag_event(enum nif_class c, ERL_NIF_TERM tag)
{
#define NIF_X(class, atom, event) \
    if (c == class && tag == nif_am.atom) \
        return KYMO_E_##event;
    NIF_TAGS(NIF_X)
#undef NIF_X
    return KYMO_E_OTHER;
}

/* The same for a class that is not constant. */
static inline unsigned nif_tag_event_of(enum nif_class c, ERL_NIF_TERM tag)
{
    switch (c) {
    case NIF_CALLS: return nif_tag_event(NIF_CALLS, tag);
    case NIF_SEND: return nif_tag_event(NIF_SEND, tag);
    case NIF_RECEIVE: return nif_tag_event(NIF_RECEIVE, tag);
    case NIF_PROCS: return nif_tag_event(NIF_PROCS, tag);
    case NIF_PORTS: return nif_tag_event(NIF_PORTS, tag);
    case NIF_RUNNING_PROCS: return nif_tag_event(NIF_RUNNING_PROCS, tag);
    case NIF_RUNNING_PORTS: return nif_tag_event(NIF_RUNNING_PORTS, tag);
    case NIF_GC: return nif_tag_event(NIF_GC, tag);
    default: return nif_tag_event(NIF_SEQ, tag);
    }
}

static inline bool nif_wanted(const struct nif_handle *h, enum nif_class c, unsigned event)
{
    return (h->mask[c] & NIF_BIT(event)) != 0;
}

/* Adds a name of the option `events` to h->mask: a class, a single tag (in every class that has
 * it), or messages or running, which are two classes each. Returns false for unknown names. */
bool nif_tags_add(struct nif_handle *h, ERL_NIF_TERM name);
/* Adds all tags, including those of later runtimes. */
void nif_tags_all(struct nif_handle *h);

#endif
