/* SPDX-License-Identifier: Apache-2.0
 *
 * What OTP's protocols let be seen of a term: what a message is and which reference it
 * carries, and what a process of proc_lib really runs. Reads a few words, allocates
 * nothing, takes the same time for all terms. Any thread, during the callback that was
 * given the term. Where the layout of terms is not understood (nif_layout.header_ok)
 * nothing is seen.
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

/* The half that reads the elements. */
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

/* The function that proc_lib:init_p was asked to run: the callback module's init/1 of a
 * behaviour, as proc_lib:translate_initial_call/1 has it. term: {M, F, Args} as spawned.
 * 0: no process of proc_lib. */
uint32_t nif_initial_call(const struct nif_event *ev, ERL_NIF_TERM term);

#endif
