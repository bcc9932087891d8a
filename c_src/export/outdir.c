/* SPDX-License-Identifier: Apache-2.0 */
#include "outdir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int kymo_outdir_check(const char *path, const char *what, char *err, size_t err_size)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return 0;
    int rc = -EEXIST;
    if (S_ISDIR(st.st_mode)) {
        DIR *d = opendir(path);
        int entries = 0;
        while (d != NULL && readdir(d) != NULL)
            entries++;
        if (d != NULL)
            closedir(d);
        rc = d != NULL && entries <= 2 ? 0 : -EEXIST;
    }
    if (rc != 0)
        snprintf(err, err_size, "%s exists: %s needs a new folder", path, what);
    return rc;
}

int kymo_outdir_make(struct kymo_outdir *d, const char *path, char *err, size_t err_size)
{
    size_t n = strlen(path);
    d->path = path;
    while (n > 1 && path[n - 1] == '/')
        n--;
    d->temp = malloc(n + sizeof ".XXXXXX");
    if (d->temp == NULL) {
        snprintf(err, err_size, "not enough memory");
        return -ENOMEM;
    }
    memcpy(d->temp, path, n);
    memcpy(d->temp + n, ".XXXXXX", sizeof ".XXXXXX");
    if (mkdtemp(d->temp) == NULL) {
        int rc = -errno;
        snprintf(err, err_size, "cannot create %s: %s", path, strerror(-rc));
        free(d->temp);
        d->temp = NULL;
        return rc;
    }
    return 0;
}

int kymo_outdir_file(const struct kymo_outdir *d, const char *name, char *path, size_t size, char *err,
                     size_t err_size)
{
    int n = snprintf(path, size, "%s/%s", d->temp, name);
    if (n >= 0 && (size_t)n < size)
        return 0;
    snprintf(err, err_size, "%s: the name is too long", d->temp);
    return -ENAMETOOLONG;
}

int kymo_outdir_finish(struct kymo_outdir *d, char *err, size_t err_size)
{
    if (rename(d->temp, d->path) != 0) {
        int rc = -errno;
        snprintf(err, err_size, "cannot create %s: %s", d->path, strerror(-rc));
        return rc;
    }
    free(d->temp);
    d->temp = NULL;
    return 0;
}

void kymo_outdir_abort(struct kymo_outdir *d)
{
    if (d->temp == NULL)
        return;
    DIR *dir = opendir(d->temp);
    if (dir != NULL) {
        for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
            int at = dirfd(dir);
            if (at >= 0 && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
                unlinkat(at, e->d_name, 0);
        }
        closedir(dir);
    }
    rmdir(d->temp);
    free(d->temp);
    d->temp = NULL;
}
