/* SPDX-License-Identifier: Apache-2.0
 *
 * A library of the same module that has private data, as another version of the
 * tracer might have: erl_msg_tracer must refuse to take over from it.
 */
#include <erl_nif.h>

static int load(ErlNifEnv *env, void **priv_data, ERL_NIF_TERM load_info)
{
    static int something;
    (void)env;
    (void)load_info;
    *priv_data = &something;
    return 0;
}

static ERL_NIF_TERM enabled(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    (void)argv;
    return enif_make_atom(env, "stranger");
}

static ErlNifFunc functions[] = {{"enabled", 3, enabled, 0}};

ERL_NIF_INIT(erl_msg_tracer, functions, load, NULL, NULL, NULL)
