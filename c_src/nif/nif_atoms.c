/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_atoms.h"

struct nif_atoms nif_am;

void nif_atoms_init(ErlNifEnv *env)
{
#define NIF_X(sym, text) nif_am.sym = enif_make_atom(env, text);
    NIF_ATOMS(NIF_X)
#undef NIF_X
#define NIF_X(name) nif_am.gc_sizes[KYMO_GC_##name] = enif_make_atom(env, #name);
    KYMO_GC_NAMES(NIF_X)
#undef NIF_X
#define NIF_X(n, sym, text, unit, sum) nif_am.counters[n] = enif_make_atom(env, text);
    KYMO_COUNTERS_OF_NODE(NIF_X)
#undef NIF_X
#define NIF_X(n, sym, text) nif_am.monitored[n] = enif_make_atom(env, text);
    KYMO_MONITORED(NIF_X)
#undef NIF_X
#define NIF_X(n, sym, text) nif_am.observed[n] = enif_make_atom(env, text);
    KYMO_OBSERVED(NIF_X)
#undef NIF_X
}
