/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_errno.h"

#include <errno.h>

ERL_NIF_TERM nif_errno(ErlNifEnv *env, int err)
{
    static const struct {
        int err;
        const char *name;
    } names[] = {
        {EACCES, "eacces"},       {EAGAIN, "eagain"},     {EBADF, "ebadf"},       {EBUSY, "ebusy"},
        {ECHILD, "echild"},       {EDEADLK, "edeadlk"},   {EDQUOT, "edquot"},     {EEXIST, "eexist"},
        {EFAULT, "efault"},       {EFBIG, "efbig"},       {EINTR, "eintr"},       {EINVAL, "einval"},
        {EIO, "eio"},             {EISDIR, "eisdir"},     {ELOOP, "eloop"},       {EMFILE, "emfile"},
        {EMLINK, "emlink"},       {ENODEV, "enodev"},     {ENOENT, "enoent"},     {ENOLCK, "enolck"},
        {ENAMETOOLONG, "enametoolong"},                   {ENFILE, "enfile"},     {ENOMEM, "enomem"},
        {ENOSPC, "enospc"},       {ENOSYS, "enosys"},     {ENOTDIR, "enotdir"},   {ENOTEMPTY, "enotempty"},
        {ENOTSUP, "enotsup"},     {ENXIO, "enxio"},       {EOVERFLOW, "eoverflow"}, {EPERM, "eperm"},
        {ERANGE, "erange"},       {EROFS, "erofs"},       {ESHUTDOWN, "eshutdown"}, {ESTALE, "estale"},
        {ETXTBSY, "etxtbsy"},     {EXDEV, "exdev"},       {EALREADY, "ealready"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].err == err) {
            return enif_make_atom(env, names[i].name);
        }
    }
    return enif_make_atom(env, "unknown");
}
