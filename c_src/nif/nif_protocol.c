/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_protocol.h"

#include "nif_term.h"

/* ---- messages ---- */

static struct nif_message with_ref(uint8_t kind, ERL_NIF_TERM ref)
{
    uint64_t hash;
    if (!nif_is_ref(ref) || !nif_ref_hash(ref, &hash)) {
        return (struct nif_message){0, KYMO_MSG_PLAIN};
    }
    return (struct nif_message){KYMO_IDENT_DATA(hash), kind};
}

/* A reference, or [alias | Reference]. */
static struct nif_message with_tag(uint8_t kind, ERL_NIF_TERM tag)
{
    if (nif_is_list_cell(tag)) {
        const ERL_NIF_TERM *cell = nif_words(tag);
        if (cell[0] != nif_am.alias) {
            return (struct nif_message){0, KYMO_MSG_PLAIN};
        }
        tag = cell[1];
    }
    return with_ref(kind, tag);
}

static bool is_pid(ERL_NIF_TERM t)
{
    return nif_is_local_pid(t) || nif_any_kind(t) == NIF_EXTERNAL_PID;
}

struct nif_message nif_message_of(const ERL_NIF_TERM *el, unsigned arity)
{
    const ERL_NIF_TERM *from;
    switch (arity) {
    case 2:
        if (nif_is_immediate(el[0])) {
            return (struct nif_message){0, el[0] == nif_am.gen_cast ? KYMO_MSG_CAST : KYMO_MSG_PLAIN};
        }
        return with_tag(KYMO_MSG_REPLY, el[0]);
    case 3:
        if (el[0] == nif_am.io_reply) {
            return with_ref(KYMO_MSG_IO_REPLY, el[1]);
        }
        from = nif_tuple(el[1], 2);
        if (from != NULL && is_pid(from[0])) {
            return with_tag(KYMO_MSG_CALL, from[1]);
        }
        break;
    case 4:
        if (el[0] == nif_am.io_request) {
            return with_ref(KYMO_MSG_IO, el[2]);
        }
        if (el[0] == nif_am.spawn_reply) {
            return with_ref(KYMO_MSG_SPAWNED, el[1]);
        }
        break;
    case 5:
        if (el[0] == nif_am.DOWN) {
            return with_ref(KYMO_MSG_DOWN, el[1]);
        }
        break;
    default: break;
    }
    return (struct nif_message){0, KYMO_MSG_PLAIN};
}

/* ---- initial calls ---- */

/* Stores up to `most` elements of a proper list. Returns their number, 0 if there are more. */
static unsigned elements(ERL_NIF_TERM list, ERL_NIF_TERM *el, unsigned most)
{
    unsigned n = 0;
    for (; nif_is_list_cell(list); list = nif_words(list)[1]) {
        if (n == most) {
            return 0;
        }
        el[n++] = nif_words(list)[0];
    }
    return list == NIF_NIL ? n : 0;
}

/* gen:init_it(GenMod, Starter, Parent, [Name,] Module, Args, Options) */
static uint32_t behaviour(const struct nif_event *ev, ERL_NIF_TERM list)
{
    ERL_NIF_TERM el[7];
    unsigned n = elements(list, el, 7);
    if (n != 6 && n != 7) {
        return 0;
    }
    ERL_NIF_TERM module = el[n - 3];
    const ERL_NIF_TERM *args = nif_tuple(el[n - 2], 3);
    if (module == nif_am.supervisor && args != NULL && nif_is_atom(args[1])) {
        return nif_mfa_id(ev, nif_am.supervisor, args[1], 1);
    }
    return nif_is_atom(module) ? nif_mfa_id(ev, module, nif_am.init, 1) : 0;
}

uint32_t nif_initial_call(const struct nif_event *ev, ERL_NIF_TERM term)
{
    ERL_NIF_TERM el[5];
    unsigned arity;
    const ERL_NIF_TERM *mfa = nif_layout.header_ok ? nif_tuple(term, 3) : NULL;
    /* init_p(Parent, Ancestors, Module, Function, Args) */
    if (mfa == NULL || mfa[0] != nif_am.proc_lib || mfa[1] != nif_am.init_p || elements(mfa[2], el, 5) != 5 ||
        !nif_is_atom(el[2]) || !nif_is_atom(el[3])) {
        return 0;
    }
    if (el[2] == nif_am.gen && el[3] == nif_am.init_it) {
        uint32_t id = behaviour(ev, el[4]);
        if (id != 0) {
            return id;
        }
    }
    return nif_arguments(ev->env, el[4], &arity) ? nif_mfa_id(ev, el[2], el[3], arity) : 0;
}
