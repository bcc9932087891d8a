/* SPDX-License-Identifier: Apache-2.0
 *
 * Folded stacks: one line per process name and stack, with the time in nanoseconds spent in the
 * innermost frame.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folded.h"
#include "outfile.h"

/* Replaces ';' in the name of a frame, because it separates frames. */
static void write_frame(struct kymo_out *out, const char *text)
{
    for (size_t n; *text != '\0'; text += n) {
        n = strcspn(text, ";");
        kymo_out_write(out, text, n);
        if (text[n] == ';') {
            kymo_out_write(out, ",", 1);
            n++;
        }
    }
}

static void write_line(struct kymo_folded *x, struct kymo_out *out, uint32_t node,
                       const struct kymo_folded_root *roots)
{
    uint32_t path[KYMO_FOLDED_DEPTH + 2], root;
    char text[2300], own[24];
    uint32_t depth = kymo_folded_path(x, node, path, &root);
    write_frame(out, kymo_folded_root_name(x, root, roots, text, sizeof text));
    while (depth > 0) {
        kymo_out_write(out, ";", 1);
        write_frame(out, kymo_folded_frame(x, x->nodes[path[--depth]].key, text, sizeof text));
    }
    int n = snprintf(own, sizeof own, " %llu\n", (unsigned long long)x->nodes[node].own);
    kymo_out_write(out, own, (size_t)n);
}

static int write_lines(struct kymo_folded *x, const char *path, struct kymo_export_result *res, char *err,
                       size_t err_size)
{
    struct kymo_out out = {.fd = -1};
    struct kymo_folded_root *roots = kymo_folded_roots(x);
    if (roots == NULL) {
        snprintf(err, err_size, "not enough memory");
        return -ENOMEM;
    }
    int rc = kymo_out_open(&out, path, err, err_size);
    for (uint32_t i = 0; rc == 0 && i < x->n_nodes && out.error == 0; i++) {
        if (x->nodes[i].own > 0) {
            write_line(x, &out, i, roots);
            res->written++;
        }
    }
    free(roots);
    if (rc != 0)
        return rc;
    res->bytes = kymo_out_bytes(&out);
    rc = kymo_out_finish(&out, err, err_size);
    kymo_out_abort(&out);
    return rc;
}

int kymo_export_folded(struct kymo_reader *r, const struct kymo_export_options *o,
                       struct kymo_export_result *res, char *err, size_t err_size)
{
    struct kymo_feed feed;
    struct kymo_folded x;
    int rc = kymo_feed_start(&feed, r, o, res, err, err_size);
    if (rc != 0)
        return rc;
    rc = kymo_folded_init(&x, r, err, err_size);
    if (rc == 0)
        rc = kymo_folded_read(&x, &feed, err, err_size);
    if (rc == 0)
        rc = write_lines(&x, o->out, res, err, err_size);
    kymo_folded_free(&x);
    return rc;
}
