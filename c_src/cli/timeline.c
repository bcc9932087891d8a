/* SPDX-License-Identifier: Apache-2.0
 *
 * The recordings in a command's arguments, and messages about the relations of their clocks.
 */
#include "kymo_timeline.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "json.h"
#include "kymo_cli.h"

/* ---- folders ---- */

struct folders {
    char **name;
    uint32_t n;
};

static void free_folders(struct folders *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        free(f->name[i]);
    free(f->name);
}

/* Takes name, which is malloc'ed or NULL. */
static int add_folder(struct folders *f, char *name)
{
    char **more = name != NULL ? realloc(f->name, (f->n + 1) * sizeof *more) : NULL;
    if (more == NULL) {
        free(name);
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    }
    f->name = more;
    more[f->n++] = name;
    return KYMO_EXIT_OK;
}

static bool has_meta(const char *folder)
{
    char *path = NULL;
    struct stat st;
    bool found = asprintf(&path, "%s/%s", folder, KYMO_META_NAME) >= 0 && stat(path, &st) == 0;
    free(path);
    return found;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the recordings in a folder that is not a recording, sorted by name. */
static int add_inner(struct folders *f, const char *folder)
{
    uint32_t first = f->n;
    int status = KYMO_EXIT_OK;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir != NULL && status == KYMO_EXIT_OK && (e = readdir(dir)) != NULL;) {
        char *path = NULL;
        if (e->d_name[0] == '.')
            continue;
        if (asprintf(&path, "%s/%s", folder, e->d_name) < 0)
            path = NULL;
        if (path != NULL && !has_meta(path))
            free(path);
        else
            status = add_folder(f, path);
    }
    if (dir != NULL)
        closedir(dir);
    if (f->n > first)
        qsort(f->name + first, f->n - first, sizeof *f->name, by_name);
    return status;
}

static int add_argument(struct folders *f, const char *arg)
{
    uint32_t before = f->n;
    int status = has_meta(arg) ? KYMO_EXIT_OK : add_inner(f, arg);
    /* If there are none, opening the folder will report the error. */
    return status == KYMO_EXIT_OK && f->n == before ? add_folder(f, strdup(arg)) : status;
}

/* ---- clocks ---- */

static void say_relation(const struct kymo_reader *r, uint32_t i)
{
    struct kymo_relation to = kymo_timeline_relation(r, i);
    const char *name = kymo_timeline_name(r, i), *first = kymo_timeline_name(r, 0);
    char wrong[32];
    switch (to.kind) {
    case KYMO_RELATION_MESSAGES:
        cli_format_seconds(to.uncertainty, wrong, sizeof wrong);
        cli_warn("the times of %s are related to those of %s by %" PRIu64
                 " messages, and wrong by less than %s s",
                 name, first, to.sent + to.received, wrong);
        break;
    case KYMO_RELATION_WALL:
        cli_warn("the times of %s are those of its machine's wall clock: %s; what took how long between it "
                 "and %s is not known",
                 name,
                 to.contradicted              ? "its messages contradict each other, a clock has jumped"
                 : to.sent + to.received == 0 ? "the recordings have no requests between it and the others"
                                              : "its requests and replies went in one direction only",
                 first);
        break;
    default: break;
    }
}

/* True if recording i overlaps in time with another one, or has no events. */
static bool meets_another(struct kymo_reader *r, uint32_t i)
{
    int64_t first, last, from, to;
    if (kymo_timeline_member_span(r, i, &first, &last) != 0)
        return true;
    for (uint32_t k = 0; k < kymo_timeline_size(r); k++) {
        if (k != i && kymo_timeline_member_span(r, k, &from, &to) == 0 && from <= last && to >= first)
            return true;
    }
    return false;
}

static void say_relations(struct kymo_reader *r)
{
    for (uint32_t i = 0; i < kymo_timeline_size(r); i++) {
        say_relation(r, i);
        if (kymo_timeline_size(r) > 1 && !meets_another(r, i))
            cli_warn("the recording of %s has no time in common with the others: they were not made together",
                     kymo_timeline_name(r, i));
    }
}

bool cli_say_inner(const char *folder)
{
    struct folders f = {.n = 0};
    bool found = !has_meta(folder) && add_inner(&f, folder) == KYMO_EXIT_OK && f.n > 0;
    if (found)
        cli_fail(KYMO_EXIT_READ,
                 "%s: not a recording, but it holds %" PRIu32 ": give one of them, such as %s", folder, f.n,
                 f.name[0]);
    free_folders(&f);
    return found;
}

int cli_open_timeline(const char *command, int n, char **args, bool quiet, struct kymo_reader **out)
{
    struct folders f = {.n = 0};
    char err[1200] = "";
    int status = n > 0 ? KYMO_EXIT_OK : cli_usage(command, "a recording is needed");
    for (int i = 0; i < n && status == KYMO_EXIT_OK; i++)
        status = cli_one_recording(command, 1, args + i);
    for (int i = 0; i < n && status == KYMO_EXIT_OK; i++)
        status = add_argument(&f, args[i]);
    if (status == KYMO_EXIT_OK) {
        int rc = kymo_timeline_open((const char *const *)f.name, f.n, out, err, sizeof err);
        if (rc != 0)
            status = rc == -EINVAL ? cli_fail(KYMO_EXIT_USAGE, "%s", err) : cli_not_opened(rc, err);
    }
    if (status == KYMO_EXIT_OK && !quiet)
        say_relations(*out);
    free_folders(&f);
    return status;
}

/* ---- JSON ---- */

void cli_json_nodes(const struct kymo_reader *r)
{
    static const char *const kinds[] = {"self", "counter", "clock", "messages", "wall"};
    cli_json_open("nodes", '[');
    for (uint32_t i = 0; kymo_timeline_size(r) > 1 && i < kymo_timeline_size(r); i++) {
        struct kymo_relation to = kymo_timeline_relation(r, i);
        cli_json_open(NULL, '{');
        cli_json_text("node", kymo_timeline_name(r, i));
        cli_json_text("clock", kinds[to.kind]);
        cli_json_uint("messages", to.sent + to.received);
        cli_json_int("uncertainty_ns", to.uncertainty);
        cli_json_exact(cli_exact_of(kymo_timeline_meta(r, i)->exact));
        cli_json_close('}');
    }
    cli_json_close(']');
}
