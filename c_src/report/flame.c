/* SPDX-License-Identifier: Apache-2.0 */
#include "flame.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"

enum { FLAME_NODES = 1 << 19, FLAME_ROOTS = 1 << 16, DEPTH_MAX = 256 };
/* Keys of nodes that are not functions. */
enum { KEY_GC = 0x80000000u, KEY_ROOT = 0x80000001u, KEY_OTHERS = 0x80000002u };

struct report_node {
    int64_t self, running;
    uint64_t calls;
    uint32_t parent, key;
    uint32_t child, child_key; /* looked up last */
};

/* The open calls of a process. */
struct report_stack {
    struct open_call {
        uint64_t id;
        uint32_t node;
    } * open;
    uint32_t n, room;
    uint32_t root;
};

/* ---- nodes ---- */

static uint32_t new_node(struct report_flame *f, uint32_t parent, uint32_t key)
{
    if (f->n == FLAME_NODES)
        return 0;
    if (f->n == f->room) {
        uint32_t room = f->room * 2;
        struct report_node *more = realloc(f->nodes, room * sizeof *more);
        if (more == NULL) {
            f->failed = true;
            return 0;
        }
        f->nodes = more;
        f->room = room;
    }
    f->nodes[f->n] = (struct report_node){.parent = parent, .key = key};
    return f->n++;
}

/* The child node of `parent` with this key; parent itself if there are too many nodes. */
static uint32_t child(struct report_flame *f, uint32_t parent, uint32_t key)
{
    if (f->nodes[parent].child != 0 && f->nodes[parent].child_key == key)
        return f->nodes[parent].child;
    bool added = false;
    uint64_t place = (uint64_t)parent << 32 | key;
    uint32_t *node = kymo_map_get(&f->children, place);
    if (node == NULL && f->n == FLAME_NODES)
        return parent;
    if (node == NULL)
        node = kymo_map_put(&f->children, place, &added);
    if (node == NULL) {
        f->failed = true;
        return parent;
    }
    if (added)
        *node = new_node(f, parent, key);
    if (*node == 0)
        return parent;
    f->nodes[parent].child = *node;
    f->nodes[parent].child_key = key;
    return *node;
}

struct root {
    uint64_t ident; /* the process, or one of the role */
    uint32_t node;
};

/* The root node of a process, or that of all other processes. */
static uint32_t root_of(struct report_flame *f, uint64_t ident)
{
    uint64_t key = f->by_role ? kymo_naming_role(f->a->naming, ident) : ident;
    const struct root *known = kymo_map_get(&f->roots, key);
    if (known != NULL)
        return known->node;
    if (f->roots.count >= FLAME_ROOTS || f->n == FLAME_NODES)
        return child(f, 0, KEY_OTHERS);
    struct root *root = kymo_map_put(&f->roots, key, NULL);
    if (root == NULL) {
        f->failed = true;
        return 0;
    }
    *root = (struct root){ident, new_node(f, 0, KEY_ROOT)};
    return root->node;
}

/* ---- stacks ---- */

static struct report_stack *stack_of(struct report_flame *f, uint64_t ident)
{
    if (f->last != NULL && f->last_ident == ident)
        return f->last;
    bool added;
    struct report_stack **p = kymo_map_put(&f->processes, ident, &added);
    if (p != NULL && added && (*p = calloc(1, sizeof **p)) == NULL)
        kymo_map_remove(&f->processes, ident), p = NULL;
    if (p == NULL) {
        f->failed = true;
        return NULL;
    }
    f->last = *p;
    f->last_ident = ident;
    return *p;
}

/* The number of open calls up to and including this one; 0 if it is not open. */
static uint32_t place_of(const struct report_stack *st, uint64_t id)
{
    uint32_t n = st->n;
    while (n > 0 && st->open[n - 1].id != id)
        n--;
    return n;
}

static void on_open(void *arg, const struct kymo_span *s)
{
    struct report_flame *f = arg;
    struct report_stack *st = stack_of(f, s->process);
    if (st == NULL)
        return;
    st->n = s->parent == 0 || st->open == NULL ? 0 : place_of(st, s->parent);
    if (st->n >= st->room || st->open == NULL) {
        uint32_t room = st->room == 0 ? 16 : st->room * 2;
        struct open_call *more = realloc(st->open, room * sizeof *more);
        if (more == NULL) {
            f->failed = true;
            return;
        }
        st->open = more;
        st->room = room;
    }
    if (st->n == 0) /* its name may have changed */
        st->root = root_of(f, s->process);
    uint32_t in = st->n > 0 ? st->open[st->n - 1].node : st->root;
    st->open[st->n] = (struct open_call){s->id, st->n < DEPTH_MAX ? child(f, in, s->mfa & 0x7fffffffu) : in};
    st->n++;
}

static void on_span(void *arg, const struct kymo_span *s)
{
    struct report_flame *f = arg;
    if (s->ended == KYMO_SPAN_MOMENT)
        return;
    struct report_stack *st = stack_of(f, s->process);
    uint32_t place = st != NULL ? place_of(st, s->id) : 0;
    if (place == 0 || st->open == NULL)
        return;
    st->n = place - 1;
    struct report_node *node = &f->nodes[st->open[place - 1].node];
    node->calls++;
    if (s->self != KYMO_NO_TIME)
        node->self += s->self;
    if (s->self_running != KYMO_NO_TIME)
        node->running += s->self_running;
}

static void on_collection(void *arg, const struct kymo_collection *c)
{
    struct report_flame *f = arg;
    int64_t ns = kymo_since(c->start, c->end);
    struct report_stack *st = ns != KYMO_NO_TIME ? stack_of(f, c->process) : NULL;
    if (st == NULL)
        return;
    uint32_t place = c->span != 0 ? place_of(st, c->span) : 0;
    uint32_t in = place > 0 && st->open != NULL ? st->open[place - 1].node : root_of(f, c->process);
    uint32_t gc = child(f, in, KEY_GC);
    struct report_node *node = &f->nodes[gc];
    node->calls++;
    node->self += ns;
    node->running += ns;
}

static void on_life(void *arg, const struct kymo_life *life)
{
    struct report_flame *f = arg;
    struct report_stack **p = kymo_map_get(&f->processes, life->process);
    if (p == NULL)
        return;
    free((*p)->open);
    free(*p);
    kymo_map_remove(&f->processes, life->process);
    f->last = NULL;
}

/* ---- the run ---- */

int report_flame_init(struct report_flame *f, const struct cli_analysis *a, bool by_role)
{
    *f = (struct report_flame){.a = a, .by_role = by_role, .n = 1, .room = 1024};
    kymo_map_init(&f->children, sizeof(uint32_t));
    kymo_map_init(&f->roots, sizeof(struct root));
    kymo_map_init(&f->processes, sizeof(struct report_stack *));
    f->nodes = calloc(f->room, sizeof *f->nodes);
    return f->nodes != NULL ? KYMO_EXIT_OK : cli_fail(KYMO_EXIT_MEMORY, "out of memory");
}

void report_flame_free(struct report_flame *f)
{
    size_t it = 0;
    for (struct report_stack **p; (p = kymo_map_next(&f->processes, &it, NULL)) != NULL;) {
        free((*p)->open);
        free(*p);
    }
    kymo_map_free(&f->processes);
    kymo_map_free(&f->roots);
    kymo_map_free(&f->children);
    free(f->nodes);
}

struct kymo_analysis_sink report_flame_sink(struct report_flame *f)
{
    return (struct kymo_analysis_sink){
        .arg = f, .span_open = on_open, .span = on_span, .collection = on_collection, .life = on_life};
}

/* ---- output ---- */

static int largest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

/* A node that is kept, with the sums of the nodes left out below it. */
struct shown {
    uint32_t parent, number; /* number: of the node on the page */
    int64_t total, self, running;
    uint64_t calls;
    bool kept;
};

/* Chooses the nodes to keep. Parents precede their children. */
static struct shown *choose(const struct report_flame *f, uint32_t most)
{
    struct shown *all = calloc(f->n, sizeof *all);
    int64_t *totals = calloc(f->n, sizeof *totals);
    if (all == NULL || totals == NULL) {
        free(all);
        free(totals);
        return NULL;
    }
    for (uint32_t i = f->n; i-- > 0;) {
        all[i].total += f->nodes[i].self;
        if (i > 0)
            all[f->nodes[i].parent].total += all[i].total;
        totals[i] = all[i].total;
    }
    qsort(totals, f->n, sizeof *totals, largest_first);
    int64_t least = f->n > most ? totals[most] + 1 : 1; /* excludes ties, which would be too many */
    free(totals);
    uint32_t n = 0;
    for (uint32_t i = 1; i < f->n; i++) {
        uint32_t parent = f->nodes[i].parent;
        all[i].kept = all[i].total >= least;
        if (all[i].kept) {
            all[i].number = n++;
            continue;
        }
        /* The nearest kept ancestor, which has been visited already. */
        uint32_t up = parent == 0 || all[parent].kept ? parent : all[parent].parent;
        all[i].parent = up;
        all[up].self += f->nodes[i].self;
        all[up].running += f->nodes[i].running;
        all[up].calls += f->nodes[i].calls;
    }
    all[0].number = n;
    return all;
}

enum column { PARENT, NAME, SELF, RUNNING, CALLS, COLUMNS };

static int64_t cell(const struct report_flame *f, const struct shown *all, uint32_t i, enum column c,
                    const uint32_t *names)
{
    const struct report_node *node = &f->nodes[i];
    switch (c) {
    case PARENT: return node->parent == 0 ? -1 : (int64_t)all[node->parent].number;
    case NAME: return names[i];
    case SELF: return node->self;
    case RUNNING: return node->running;
    default: return (int64_t)node->calls;
    }
}

/* The same for the nodes left out below node i. */
static int64_t cell_of_rest(const struct shown *all, uint32_t i, enum column c)
{
    switch (c) {
    case PARENT: return i == 0 ? -1 : (int64_t)all[i].number;
    case NAME: return -1;
    case SELF: return all[i].self;
    case RUNNING: return all[i].running;
    default: return (int64_t)all[i].calls;
    }
}

static void write_columns(const struct report_flame *f, const struct shown *all, const uint32_t *names)
{
    static const char *const keys[COLUMNS] = {"parent", "name", "self", "running", "calls"};
    for (enum column c = PARENT; c < COLUMNS; c++) {
        cli_json_open(keys[c], '[');
        for (uint32_t i = 1; i < f->n; i++) {
            if (all[i].kept)
                cli_json_int(NULL, cell(f, all, i, c, names));
        }
        for (uint32_t i = 0; i < f->n; i++) {
            if (all[i].self > 0)
                cli_json_int(NULL, cell_of_rest(all, i, c));
        }
        cli_json_close(']');
    }
}

int report_flame_json(struct report_flame *f, const char *key, uint32_t most, struct report_names *names)
{
    struct shown *all = choose(f, most);
    uint32_t *numbers = calloc(f->n, sizeof *numbers);
    if (all == NULL || numbers == NULL || f->failed) {
        free(all);
        free(numbers);
        return cli_fail(KYMO_EXIT_MEMORY, "out of memory");
    }
    size_t it = 0;
    for (const struct root *root; (root = kymo_map_next(&f->roots, &it, NULL)) != NULL;) {
        if (root->node != 0 && all[root->node].kept)
            numbers[root->node] = report_name(names, f->by_role ? REPORT_ROLE : REPORT_PROCESS, root->ident);
    }
    for (uint32_t i = 1; i < f->n; i++) {
        uint32_t k = f->nodes[i].key;
        if (all[i].kept && k != KEY_ROOT)
            numbers[i] = report_name(names,
                                     k == KEY_GC       ? REPORT_GC
                                     : k == KEY_OTHERS ? REPORT_OTHERS
                                                       : REPORT_FUNCTION,
                                     k);
    }
    cli_json_open(key, '{');
    cli_json_uint("nodes_in_all", f->n - 1);
    write_columns(f, all, numbers);
    cli_json_close('}');
    free(all);
    free(numbers);
    return KYMO_EXIT_OK;
}
