/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts the options of kymo_tracer:open/1 to those of the engine. */
#ifndef KYMO_NIF_OPEN_H
#define KYMO_NIF_OPEN_H

#include <limits.h>

#include "nif_handle.h"

#define NIF_PATH_MAX PATH_MAX

struct nif_open {
    struct kymo_options engine; /* its strings point into this structure */
    bool has_owner;
    ErlNifPid owner;
    char dir[NIF_PATH_MAX];
};

/* Reads the map into *o and *h (mask, detail, bounds, node). Returns 0, or the error
 * {bad_option, Key, Value} or {unknown_option, Key}. */
ERL_NIF_TERM nif_open_options(ErlNifEnv *env, ERL_NIF_TERM map, struct nif_open *o, struct nif_handle *h);

/* Copies a file name, a binary with the bytes for the operating system, to out, with a final NUL.
 * Returns false if it is not a binary, is empty, contains a NUL, or is too long. */
bool nif_path(ErlNifEnv *env, ERL_NIF_TERM t, char out[static NIF_PATH_MAX]);

#endif
