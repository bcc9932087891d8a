/* SPDX-License-Identifier: Apache-2.0
 *
 * The role of a function, derived from its name once per function.
 */
#include "analysis_int.h"
#include "kymo_server_loop.h"

static uint8_t by_name(const struct kymo_an *x, uint32_t id)
{
    struct kymo_mfa mfa;
    if (!kymo_reader_mfa(x->r, id, &mfa))
        return 0;
    struct kymo_text f = kymo_reader_atom(x->r, mfa.function);
    if (kymo_text_is(f, "handle_call") && (mfa.arity == 3 || mfa.arity == 2))
        return KYMO_AN_F_CALL;
    if (kymo_text_is(f, "handle_cast") && mfa.arity == 2)
        return KYMO_AN_F_CAST;
    if (kymo_text_is(f, "handle_event") && mfa.arity == 4)
        return KYMO_AN_F_CALL | KYMO_AN_F_CAST;
    if (kymo_text_is(f, "hibernate") && mfa.arity == 3 &&
        kymo_text_is(kymo_reader_atom(x->r, mfa.module), "erlang"))
        return KYMO_AN_F_HIBERNATE;
    if (kymo_text_is(f, "do_call") && mfa.arity == 4 &&
        kymo_text_is(kymo_reader_atom(x->r, mfa.module), "gen"))
        return KYMO_AN_F_ASKS;
    return kymo_is_server_loop(x->r, id) ? KYMO_AN_F_LOOP : 0;
}

uint8_t kymo_an_look_at(struct kymo_an *x, uint32_t mfa)
{
    uint8_t what = KYMO_AN_F_KNOWN | by_name(x, mfa);
    if (mfa < x->n_functions)
        x->functions[mfa] = what;
    return what;
}
