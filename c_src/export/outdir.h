/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder that an exporter writes. Single threaded. It appears under its name only
 * when it is whole: files go to a temporary neighbour that kymo_outdir_finish renames
 * and kymo_outdir_abort removes.
 */
#ifndef KYMO_OUTDIR_H
#define KYMO_OUTDIR_H

#include <stddef.h>

struct kymo_outdir {
    const char *path; /* the final name, as given: must live as long */
    char *temp;       /* the folder while it is written, NULL = not made or gone */
};

/* Whether `path` is free: it does not exist or is an empty folder. 0, or -EEXIST with a
 * sentence in err. `what` needs a new folder. */
int kymo_outdir_check(const char *path, const char *what, char *err, size_t err_size);
/* Makes the temporary folder. 0 or a negative errno with a sentence in err. */
int kymo_outdir_make(struct kymo_outdir *d, const char *path, char *err, size_t err_size);
/* The path of a file in it. 0 or -ENAMETOOLONG with a sentence in err. */
int kymo_outdir_file(const struct kymo_outdir *d, const char *name, char *path, size_t size, char *err,
                     size_t err_size);
/* Gives it its name. 0 or a negative errno with a sentence in err. */
int kymo_outdir_finish(struct kymo_outdir *d, char *err, size_t err_size);
/* Removes the folder and the files in it unless it was finished. Harmless twice. */
void kymo_outdir_abort(struct kymo_outdir *d);

#endif
