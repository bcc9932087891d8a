/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognises protocols of OTP: the kind of a message and its reference, and the function that a
 * process of proc_lib runs. Reads a few words, allocates nothing, and takes constant time. Any
 * thread, during the callback to which the term was passed. Recognises nothing if the layout of
 * terms is unknown (nif_layout.header_ok).
 */
#ifndef KYMO_NIF_PROTOCOL_H
#define KYMO_NIF_PROTOCOL_H

#include "kymo_format.h"
#include "nif_atoms.h"
#include "nif_boxed.h"
#include "nif_names.h"

struct nif_message {
    uint64_t ref; /* data of an ident KYMO_I_REF, 0 = none */
    uint8_t kind; /* enum kymo_message_kind */
};

/* The out-of-line part, which reads the elements. */
struct nif_message nif_message_of(const ERL_NIF_TERM *el, unsigned arity);

static inline struct nif_message nif_message_look(ERL_NIF_TERM msg)
{
    if ((msg & 3u) == NIF_TAG_BOXED && NIF_LIKELY(nif_layout.header_ok)) {
        uint64_t header = nif_header(msg);
        /* A tuple of 2 to 5 elements. */
        if ((header & 0x3fu) == 0 && header >= 2u << 6 && header <= 5u << 6) {
            return nif_message_of(nif_words(msg) + 1, (unsigned)(header >> 6));
        }
    }
    return (struct nif_message){0, KYMO_MSG_PLAIN};
}

/* The dictionary id of the function that proc_lib:init_p runs; for a behaviour, the callback
 * module's init/1, as in proc_lib:translate_initial_call/1. term is the {M, F, Args} of the
 * spawn. 0 if the process is not one of proc_lib. */
uint32_t nif_initial_call(const struct nif_event *ev, ERL_NIF_TERM term);

#endif
