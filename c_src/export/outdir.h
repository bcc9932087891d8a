/* SPDX-License-Identifier: Apache-2.0
 *
 * The output folder of an exporter. Single-threaded. It appears under its final name only when it
 * is complete: files are written to a temporary folder next to it, which kymo_outdir_finish renames
 * and kymo_outdir_abort removes.
 */
#ifndef KYMO_OUTDIR_H
#define KYMO_OUTDIR_H

#include <stddef.h>

struct kymo_outdir {
    const char *path; /* the final name, as given; must stay valid */
    char *temp;       /* the temporary folder, NULL = not created, renamed or removed */
};

/* Checks that `path` does not exist or is an empty folder. Returns 0, or -EEXIST with a message in
 * err that names `what`, the format that needs a new folder. */
int kymo_outdir_check(const char *path, const char *what, char *err, size_t err_size);
/* Creates the temporary folder. Returns 0 or a negative errno with a message in err. */
int kymo_outdir_make(struct kymo_outdir *d, const char *path, char *err, size_t err_size);
/* Stores the path of a file in it. Returns 0 or -ENAMETOOLONG with a message in err. */
int kymo_outdir_file(const struct kymo_outdir *d, const char *name, char *path, size_t size, char *err,
                     size_t err_size);
/* Renames it to its final name. Returns 0 or a negative errno with a message in err. */
int kymo_outdir_finish(struct kymo_outdir *d, char *err, size_t err_size);
/* Removes the folder and its files, unless it was finished. May be called repeatedly. */
void kymo_outdir_abort(struct kymo_outdir *d);

#endif
