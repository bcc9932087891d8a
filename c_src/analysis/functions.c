/* SPDX-License-Identifier: Apache-2.0
 *
 * The role of a function, derived from its name once per function.
 */
#include <string.h>

#include "analysis_int.h"
#include "server_loop.h"

static bool is_named(struct kymo_text t, const char *s)
{
    return t.len == strlen(s) && memcmp(t.s, s, t.len) == 0;
}

static uint8_t by_name(const struct kymo_an *x, uint32_t id)
{
    struct kymo_mfa mfa;
    if (!kymo_reader_mfa(x->r, id, &mfa))
        return 0;
    struct kymo_text f = kymo_reader_atom(x->r, mfa.function);
    if (is_named(f, "handle_call") && (mfa.arity == 3 || mfa.arity == 2))
        return KYMO_AN_F_CALL;
    if (is_named(f, "handle_cast") && mfa.arity == 2)
        return KYMO_AN_F_CAST;
    if (is_named(f, "handle_event") && mfa.arity == 4)
        return KYMO_AN_F_CALL | KYMO_AN_F_CAST;
    if (is_named(f, "hibernate") && mfa.arity == 3 && is_named(kymo_reader_atom(x->r, mfa.module), "erlang"))
        return KYMO_AN_F_HIBERNATE;
    if (is_named(f, "do_call") && mfa.arity == 4 && is_named(kymo_reader_atom(x->r, mfa.module), "gen"))
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
