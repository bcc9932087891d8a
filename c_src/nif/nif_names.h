/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts terms to the words of a record: dictionary ids of atoms and functions, idents of
 * processes, ports and names. In callbacks only, between kymo_writer_get and kymo_writer_put,
 * and before kymo_reserve, because a definition may be written. */
#ifndef KYMO_NIF_NAMES_H
#define KYMO_NIF_NAMES_H

#include "nif_handle.h"
#include "nif_layout.h"

/* An event that is being recorded. */
struct nif_event {
    ErlNifEnv *env;
    const struct nif_handle *h;
    struct kymo_writer *w;
};

/* The slow paths, for names that the recorder has not seen before. */
uint32_t nif_atom_define(const struct nif_event *ev, ERL_NIF_TERM atom);
uint32_t nif_mfa_define(const struct nif_event *ev, ERL_NIF_TERM m, ERL_NIF_TERM f, uint32_t arity);
uint64_t nif_ident_slow(const struct nif_event *ev, ERL_NIF_TERM t);

/* The dictionary id of an atom; 0 if t is not an atom, or the dictionary is full. */
static inline uint32_t nif_atom_id(const struct nif_event *ev, ERL_NIF_TERM t)
{
    if (!nif_is_atom(t)) {
        return 0;
    }
    uint32_t id = kymo_dict_atom(ev->w, t);
    return NIF_LIKELY(id != 0) ? id : nif_atom_define(ev, t);
}

/* The dictionary id of a function; 0 if the dictionary is full. m and f must be atoms. */
static inline uint32_t nif_mfa_id(const struct nif_event *ev, ERL_NIF_TERM m, ERL_NIF_TERM f, uint32_t arity)
{
    uint32_t id = kymo_dict_mfa(ev->w, m, f, arity);
    return NIF_LIKELY(id != 0) ? id : nif_mfa_define(ev, m, f, arity);
}

/* True for a local pid if the runtime divides its data into number and serial like an ident, as
 * since OTP 26. */
static inline bool nif_has_plain_ident(ERL_NIF_TERM t)
{
    return NIF_LIKELY(nif_is_local_pid(t)) && NIF_LIKELY(nif_layout.pid_plain);
}
static inline uint64_t nif_plain_ident(ERL_NIF_TERM t)
{
    return (uint64_t)KYMO_I_PID << 60 | nif_pid_data(t);
}

/* The ident of a pid, port or name; KYMO_IDENT_NONE for `undefined`. */
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

/* The id of a text that is shown like an atom; 0 if the dictionary is full. Creates no atom in
 * the runtime, whose atom table is bounded. */
uint32_t nif_text_id(const struct nif_event *ev, const ErlNifBinary *text);

/* Stores the length of a list of arguments. Returns false for other terms, and for lists longer
 * than the maximum arity. */
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

/* The elements of {Module, Function, _}; NULL if t is something else. */
static inline const ERL_NIF_TERM *nif_mfa_elements(ErlNifEnv *env, ERL_NIF_TERM t)
{
    const ERL_NIF_TERM *el;
    int n;
    if (NIF_LIKELY(nif_layout.header_ok)) {
        el = nif_tuple(t, 3);
    } else if (!enif_get_tuple(env, t, &n, &el) || n != 3) {
        el = NULL;
    }
    return el != NULL && nif_is_atom(el[0]) && nif_is_atom(el[1]) ? el : NULL;
}

/* For t = {Module, Function, Arity | Arguments}, stores the id of the function, and the list of
 * arguments, or 0 if t has only their number. Returns false if t is something else. */
bool nif_mfa_term(const struct nif_event *ev, ERL_NIF_TERM t, uint32_t *id, ERL_NIF_TERM *args);

#endif
