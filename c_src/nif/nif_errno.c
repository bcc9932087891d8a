/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_errno.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>

/* clang-format off */
#define NIF_ERRNOS(X) \
    X(EACCES) X(EAGAIN) X(EBADF) X(EBUSY) X(ECHILD) X(EDEADLK) \
    X(EDQUOT) X(EEXIST) X(EFAULT) X(EFBIG) X(EINTR) X(EINVAL) \
    X(EIO) X(EISDIR) X(ELOOP) X(EMFILE) X(EMLINK) X(ENODEV) \
    X(ENOENT) X(ENOLCK) X(ENAMETOOLONG) X(ENFILE) X(ENOMEM) X(ENOSPC) \
    X(ENOSYS) X(ENOTDIR) X(ENOTEMPTY) X(ENOTSUP) X(ENXIO) X(EOVERFLOW) \
    X(EPERM) X(ERANGE) X(EROFS) X(ESHUTDOWN) X(ESTALE) X(ETXTBSY) \
    X(EXDEV) X(EALREADY)
/* clang-format on */

ERL_NIF_TERM nif_errno(ErlNifEnv *env, int err)
{
    static const struct {
        int err;
        const char *name;
    } names[] = {
#define NIF_X(e) {e, #e},
        NIF_ERRNOS(NIF_X)
#undef NIF_X
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].err == err) {
            char text[32];
            size_t n = 0;
            for (; n < sizeof text && names[i].name[n] != 0; n++) {
                text[n] = (char)tolower((unsigned char)names[i].name[n]);
            }
            return enif_make_atom_len(env, text, n);
        }
    }
    return enif_make_atom(env, "unknown");
}
