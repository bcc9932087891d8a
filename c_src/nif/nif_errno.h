/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KYMO_NIF_ERRNO_H
#define KYMO_NIF_ERRNO_H

#include <erl_nif.h>

/* The atom of an errno, as in file:posix/0: enoent, enospc... */
ERL_NIF_TERM nif_errno(ErlNifEnv *env, int err);

#endif
