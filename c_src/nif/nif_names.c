/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_names.h"

#include "nif_atoms.h"
#include "nif_boxed.h"
#include "nif_term.h"

/* The external format of a term with two atoms of 255 characters. */
enum { NAME_TERM_MAX = 2304 };

uint32_t nif_atom_define(const struct nif_event *ev, ERL_NIF_TERM atom)
{
    char text[NIF_ATOM_MAX];
    bool ok;
    if (!kymo_dict_has_room(ev->w)) {
        return KYMO_DICT_NO_ROOM;
    }
    size_t n = nif_atom_text(ev->env, atom, text, &ok);
    return ok ? kymo_dict_atom_add(ev->w, atom, text, n) : KYMO_DICT_NO_ROOM;
}

uint32_t nif_mfa_define(const struct nif_event *ev, ERL_NIF_TERM m, ERL_NIF_TERM f, uint32_t arity)
{
    if (!kymo_dict_has_room(ev->w)) {
        return KYMO_DICT_NO_ROOM;
    }
    uint32_t module = nif_atom_id(ev, m);
    uint32_t function = nif_atom_id(ev, f);
    return kymo_dict_mfa_add(ev->w, m, f, arity, module, function);
}

static uint64_t ident_other(const struct nif_event *ev, ERL_NIF_TERM t)
{
    return KYMO_IDENT(KYMO_I_OTHER, nif_term_hash(ev->env, ev->h, t));
}

/* Makes a key that is not the word of an atom: those never end in these two bits. */
uint32_t nif_text_id(const struct nif_event *ev, const ErlNifBinary *text)
{
    uint64_t word = nif_hash_bytes(text->data, text->size) << 2;
    uint32_t id = kymo_dict_atom(ev->w, word);
    if (id == 0 && kymo_dict_has_room(ev->w)) {
        id = kymo_dict_atom_add(ev->w, word, (const char *)text->data, text->size);
    }
    return id;
}

static uint64_t ident_term(const struct nif_event *ev, ERL_NIF_TERM t)
{
    uint8_t etf[NAME_TERM_MAX];
    bool cut = false;
    size_t n = nif_term_encode(ev->env, ev->h, t, etf, sizeof etf, &cut);
    uint32_t id = cut ? 0 : kymo_dict_term(ev->w, nif_hash_bytes(etf, n), etf, n);
    return id != 0 ? KYMO_IDENT(KYMO_I_TERM, id) : ident_other(ev, t);
}

/* For local pids and ports if their layout is unknown. */
static uint64_t ident_by_runtime(const struct nif_event *ev, ERL_NIF_TERM t, enum kymo_ident kind)
{
    enum { VERSION = 131, NEW_PID = 88, NEW_PORT = 89, V4_PORT = 120 };
    ErlNifBinary bin;
    uint64_t v = KYMO_IDENT_NONE;
    if (enif_term_to_binary(ev->env, t, &bin) == 0) {
        return v;
    }
    const uint8_t *e = bin.data + bin.size;
#define NIF_BE32(p) ((uint64_t)(p)[0] << 24 | (uint64_t)(p)[1] << 16 | (uint64_t)(p)[2] << 8 | (p)[3])
    if (bin.size > 14 && bin.data[0] == VERSION && bin.data[1] == NEW_PID && kind == KYMO_I_PID) {
        v = KYMO_IDENT(kind, NIF_BE32(e - 12) | NIF_BE32(e - 8) << 28);
    } else if (bin.size > 14 && bin.data[0] == VERSION && bin.data[1] == V4_PORT) {
        v = KYMO_IDENT(kind, NIF_BE32(e - 12) << 32 | NIF_BE32(e - 8));
    } else if (bin.size > 10 && bin.data[0] == VERSION && bin.data[1] == NEW_PORT) {
        v = KYMO_IDENT(kind, NIF_BE32(e - 8));
    }
#undef NIF_BE32
    enif_release_binary(&bin);
    return v;
}

uint64_t nif_ident_slow(const struct nif_event *ev, ERL_NIF_TERM t)
{
    const ERL_NIF_TERM *el;
    if (t == nif_am.undefined) {
        return KYMO_IDENT_NONE;
    }
    if (nif_is_atom(t)) {
        uint32_t id = nif_atom_id(ev, t);
        return id != 0 ? KYMO_IDENT(KYMO_I_ATOM, id) : ident_other(ev, t);
    }
    if (nif_is_local_pid(t) || nif_is_local_port(t)) {
        return ident_by_runtime(ev, t, nif_is_local_pid(t) ? KYMO_I_PID : KYMO_I_PORT);
    }
    switch (nif_any_kind(t)) {
    case NIF_EXTERNAL_PID:
    case NIF_EXTERNAL_PORT: return ident_term(ev, t);
    case NIF_REF:
    case NIF_EXTERNAL_REF: return KYMO_IDENT(KYMO_I_REF, nif_term_hash(ev->env, ev->h, t));
    case NIF_TUPLE:
        el = nif_tuple(t, 2);
        return el != NULL && nif_is_atom(el[0]) && nif_is_atom(el[1]) ? ident_term(ev, t)
                                                                      : ident_other(ev, t);
    default: return ident_other(ev, t);
    }
}

bool nif_mfa_term(const struct nif_event *ev, ERL_NIF_TERM t, uint32_t *id, ERL_NIF_TERM *args)
{
    const ERL_NIF_TERM *el = nif_mfa_elements(ev->env, t);
    unsigned arity;
    if (el == NULL) {
        return false;
    }
    *args = 0;
    if (nif_is_small(el[2])) {
        arity = (unsigned)nif_small(el[2]);
    } else if (nif_arguments(ev->env, el[2], &arity)) {
        *args = el[2];
    } else {
        return false;
    }
    *id = nif_mfa_id(ev, el[0], el[1], arity);
    return true;
}
