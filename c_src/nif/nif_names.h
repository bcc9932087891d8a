/* SPDX-License-Identifier: Apache-2.0
 *
 * Terms into the words of a record: dictionary ids of atoms and functions,
 * idents of processes, ports and names. Callbacks only, between kymo_writer_get
 * and kymo_writer_put, and before kymo_reserve: a definition may be written. */
#ifndef KYMO_NIF_NAMES_H
#define KYMO_NIF_NAMES_H

#include "nif_handle.h"
#include "nif_layout.h"

/* One event on its way into the ring. */
struct nif_event {
    ErlNifEnv *env;
    const struct nif_handle *h;
    struct kymo_writer *w;
};

/* The slow halves: the first time that a recorder sees the name. */
uint32_t nif_atom_define(const struct nif_event *ev, ERL_NIF_TERM atom);
uint32_t nif_mfa_define(const struct nif_event *ev, ERL_NIF_TERM m, ERL_NIF_TERM f, uint32_t arity);
uint64_t nif_ident_slow(const struct nif_event *ev, ERL_NIF_TERM t);

/* Dictionary id of an atom; 0: not an atom, or the dictionary is full. */
static inline uint32_t nif_atom_id(const struct nif_event *ev, ERL_NIF_TERM t)
{
    if (!nif_is_atom(t)) {
        return 0;
    }
    uint32_t id = kymo_dict_atom(ev->w, t);
    return NIF_LIKELY(id != 0) ? id : nif_atom_define(ev, t);
}

/* Dictionary id of a function; m and f must be atoms. 0: no room. */
static inline uint32_t nif_mfa_id(const struct nif_event *ev, ERL_NIF_TERM m, ERL_NIF_TERM f, uint32_t arity)
{
    uint32_t id = kymo_dict_mfa(ev->w, m, f, arity);
    return NIF_LIKELY(id != 0) ? id : nif_mfa_define(ev, m, f, arity);
}

/* A process of this node, in a runtime that divides the data of its pid as an ident
 * does: since OTP 26. */
static inline bool nif_has_plain_ident(ERL_NIF_TERM t)
{
    return NIF_LIKELY(nif_is_local_pid(t)) && NIF_LIKELY(nif_layout.pid_plain);
}
static inline uint64_t nif_plain_ident(ERL_NIF_TERM t)
{
    return (uint64_t)KYMO_I_PID << 60 | nif_pid_data(t);
}

/* Any term as the ident of a process, port or name. `undefined` is none. */
static inline uint64_t nif_ident(const struct nif_event *ev, ERL_NIF_TERM t)
{
    if (nif_has_plain_ident(t)) {
        return nif_plain_ident(t);
    }
    if (nif_is_local_pid(t) && nif_layout.pid.ok) {
        uint64_t data = nif_pid_data(t);
        return KYMO_IDENT(KYMO_I_PID, nif_pid_number(data) | nif_pid_serial(data) << 28);
    }
    if (nif_is_local_port(t) && nif_layout.port.ok) {
        return KYMO_IDENT(KYMO_I_PORT, nif_port_number(t));
    }
    return nif_ident_slow(ev, t);
}

/* The id of a text that is shown like an atom. Makes no atom of the
 * runtime, whose table is bounded. 0: no room. */
uint32_t nif_text_id(const struct nif_event *ev, const ErlNifBinary *text);

/* The length of a list of arguments; false for what is none: another term, or a list
 * longer than what a function can have. */
static inline bool nif_arguments(ErlNifEnv *env, ERL_NIF_TERM t, unsigned *n)
{
    enum { MAX_ARITY = 255 };
    if (NIF_UNLIKELY(!nif_layout.header_ok)) {
        return enif_get_list_length(env, t, n);
    }
    for (*n = 0; nif_is_list_cell(t) && *n <= MAX_ARITY; ++*n) {
        t = nif_words(t)[1];
    }
    return t == NIF_NIL && *n <= MAX_ARITY;
}

/* {Module, Function, Arity | Arguments}: the id of the function. *args is the
 * list of arguments, or 0 when only their number is given. False when t is
 * something else. */
bool nif_mfa_term(const struct nif_event *ev, ERL_NIF_TERM t, uint32_t *id, ERL_NIF_TERM *args);

#endif
