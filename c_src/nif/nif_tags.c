/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_tags.h"

static void add_class(struct nif_handle *h, enum nif_class c)
{
    h->mask[c] = UINT64_MAX;
}

bool nif_tags_add(struct nif_handle *h, ERL_NIF_TERM name)
{
    const struct {
        ERL_NIF_TERM name;
        enum nif_class from, to;
    } classes[] = {
        {nif_am.calls, NIF_CALLS, NIF_CALLS},
        {nif_am.messages, NIF_SEND, NIF_RECEIVE},
        {nif_am.send, NIF_SEND, NIF_SEND},
        {nif_am.procs, NIF_PROCS, NIF_PROCS},
        {nif_am.ports, NIF_PORTS, NIF_PORTS},
        {nif_am.running, NIF_RUNNING_PROCS, NIF_RUNNING_PORTS},
        {nif_am.running_procs, NIF_RUNNING_PROCS, NIF_RUNNING_PROCS},
        {nif_am.running_ports, NIF_RUNNING_PORTS, NIF_RUNNING_PORTS},
        {nif_am.garbage_collection, NIF_GC, NIF_GC},
        {nif_am.seq_trace, NIF_SEQ, NIF_SEQ},
    };
    bool found = false;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (classes[i].name == name) {
            for (enum nif_class c = classes[i].from; c <= classes[i].to; c++) {
                add_class(h, c);
            }
            return true;
        }
    }
    for (enum nif_class c = 0; c < NIF_CLASSES; c++) {
#define NIF_X(class, atom, event) \
    if (c == class && name == nif_am.atom) { \
        h->mask[c] |= NIF_BIT(KYMO_E_##event); \
        found = true; \
    }
        NIF_TAGS(NIF_X)
#undef NIF_X
    }
    return found;
}

void nif_tags_all(struct nif_handle *h)
{
    for (enum nif_class c = 0; c < NIF_CLASSES; c++) {
        add_class(h, c);
    }
}
