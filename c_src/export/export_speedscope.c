/* SPDX-License-Identifier: Apache-2.0
 *
 * The file format of speedscope: first all frames, then a profile for each role of processes, whose
 * samples are its stacks with the time in nanoseconds spent in the innermost frame of each.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folded.h"
#include "out_json.h"

enum { KEY_SLOTS = 2 }; /* keys of the two kinds of collections, after those of functions */

struct writer {
    struct kymo_folded *x;
    struct kymo_folded_root *roots;
    uint32_t *frame; /* by function id, then the collections: index + 1 of the frame */
    uint32_t n_frames;
    struct kymo_out out;
};

static void say(struct writer *w, const char *text)
{
    kymo_out_write(&w->out, text, strlen(text));
}

static void say_number(struct writer *w, uint64_t n)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    kymo_out_write(&w->out, text, (size_t)len);
}

static void say_string(struct writer *w, const char *text)
{
    kymo_out_json_string(&w->out, text, strlen(text));
}

static uint32_t *frame_of(struct writer *w, uint32_t key)
{
    uint32_t last = w->x->dict_size;
    if (key == KYMO_FOLDED_GC_MINOR)
        return &w->frame[last + 1];
    if (key == KYMO_FOLDED_GC_MAJOR)
        return &w->frame[last + 2];
    return &w->frame[key <= last ? key : 0];
}

static void write_frames(struct writer *w)
{
    char text[2300];
    say(w, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"kymo\","
           "\"name\":\"kymo\",\"activeProfileIndex\":0,\"shared\":{\"frames\":[");
    for (uint32_t i = 1; i < w->x->n_nodes; i++) {
        if (w->x->nodes[i].parent == 0)
            continue; /* a root */
        uint32_t *frame = frame_of(w, w->x->nodes[i].key);
        if (*frame != 0)
            continue;
        say(w, w->n_frames > 0 ? ",{\"name\":" : "{\"name\":");
        say_string(w, kymo_folded_frame(w->x, w->x->nodes[i].key, text, sizeof text));
        say(w, "}");
        *frame = ++w->n_frames;
    }
    say(w, "]},\"profiles\":[");
}

static void write_sample(struct writer *w, uint32_t node)
{
    uint32_t path[KYMO_FOLDED_DEPTH + 2], root;
    uint32_t depth = kymo_folded_path(w->x, node, path, &root);
    say(w, "[");
    for (uint32_t i = depth; i-- > 0;) {
        say_number(w, *frame_of(w, w->x->nodes[path[i]].key) - 1u);
        if (i > 0)
            say(w, ",");
    }
    say(w, "]");
}

struct sample {
    uint32_t root, node;
};

static int by_root(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    if (x->root != y->root)
        return x->root < y->root ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Writes the samples of one root as a profile. */
static void write_profile(struct writer *w, const struct sample *s, size_t n, bool first)
{
    char text[2300];
    uint64_t sum = 0;
    say(w, first ? "" : ",");
    say(w, "{\"type\":\"sampled\",\"name\":");
    say_string(w, kymo_folded_root_name(w->x, s[0].root, w->roots, text, sizeof text));
    say(w, ",\"unit\":\"nanoseconds\",\"startValue\":0,\"samples\":[");
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            say(w, ",");
        write_sample(w, s[i].node);
        sum += w->x->nodes[s[i].node].own;
    }
    say(w, "],\"weights\":[");
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            say(w, ",");
        say_number(w, w->x->nodes[s[i].node].own);
    }
    say(w, "],\"endValue\":");
    say_number(w, sum);
    say(w, "}");
}

static int write_profiles(struct writer *w, struct kymo_export_result *res)
{
    struct sample *s = calloc(w->x->n_nodes, sizeof *s);
    size_t n = 0;
    if (s == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < w->x->n_nodes; i++) {
        uint32_t path[KYMO_FOLDED_DEPTH + 2];
        if (w->x->nodes[i].own == 0)
            continue;
        s[n].node = i;
        (void)kymo_folded_path(w->x, i, path, &s[n].root);
        n++;
    }
    qsort(s, n, sizeof *s, by_root);
    for (size_t i = 0, end; i < n && w->out.error == 0; i = end) {
        for (end = i; end < n && s[end].root == s[i].root;)
            end++;
        write_profile(w, s + i, end - i, i == 0);
    }
    res->written = n;
    free(s);
    say(w, "]}\n");
    return 0;
}

static int write_all(struct kymo_folded *x, const char *path, struct kymo_export_result *res, char *err,
                     size_t err_size)
{
    struct writer w = {.x = x, .out.fd = -1};
    w.roots = kymo_folded_roots(x);
    w.frame = calloc((size_t)x->dict_size + 1 + KEY_SLOTS, sizeof *w.frame);
    int rc = w.roots != NULL && w.frame != NULL ? kymo_out_open(&w.out, path, err, err_size) : -ENOMEM;
    if (rc == 0) {
        write_frames(&w);
        rc = write_profiles(&w, res);
    }
    if (rc == 0) {
        res->bytes = kymo_out_bytes(&w.out);
        rc = kymo_out_finish(&w.out, err, err_size);
    }
    if (rc == -ENOMEM)
        snprintf(err, err_size, "not enough memory");
    kymo_out_abort(&w.out);
    free(w.roots);
    free(w.frame);
    return rc;
}

int kymo_export_speedscope(struct kymo_reader *r, const struct kymo_export_options *o,
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
        rc = write_all(&x, o->out, res, err, err_size);
    kymo_folded_free(&x);
    return rc;
}
