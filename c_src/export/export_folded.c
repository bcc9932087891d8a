/* SPDX-License-Identifier: Apache-2.0
 *
 * Folded stacks: one line per process name and stack, with the time spent in
 * the top of it, in nanoseconds. Collapsed while reading: what is kept is one
 * node per different stack, never the events.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "export_util.h"
#include "outfile.h"

/* Frames of one line; what is called deeper counts for the last one. */
enum { DEPTH_MAX = 512 };
/* Different stacks, and first frames. Beyond, time counts for the caller that still
 * has a node, or for "(others)". */
enum { NODES_MAX = 1 << 19, ROOTS_MAX = 1 << 16 };

/* What a node stands for: the id of a function, or one of these. */
enum { KEY_GC_MINOR = 0x80000000u, KEY_GC_MAJOR = 0x80000001u };

/* Kinds of roots, in the top bits of their keys. */
#define ROOT_NAME (UINT64_C(1) << 62)
#define ROOT_CALL (UINT64_C(2) << 62)
#define ROOT_IDENT (UINT64_C(3) << 62)

struct node {
    uint64_t own;    /* ns */
    uint32_t parent; /* 0 = none */
    uint32_t key;
    uint32_t child; /* looked up last */
    uint32_t child_key;
};

struct root {
    uint64_t ident; /* whose name to print when mfa is 0 */
    uint32_t mfa;
    uint32_t node;
};

struct process {
    struct kymo_stack stack;
    int64_t since; /* accounted up to here */
    uint32_t root, node;
    uint32_t place; /* among the residents */
    bool running;
    uint32_t slot; /* where it runs */
};

struct folded {
    struct kymo_reader *r;
    struct kymo_lesson lesson;
    struct kymo_residents residents;
    struct kymo_map processes; /* ident -> struct process */
    struct kymo_map roots;     /* kind and id -> struct root */
    struct kymo_map children;  /* parent << 32 | key -> uint32_t */
    struct node *nodes;        /* [0]: time of processes that got no root */
    uint32_t n_nodes, nodes_room;
    uint64_t *running; /* by slot: who runs there, KYMO_IDENT_NONE = nobody */
    uint32_t n_slots;
    bool wall;
    bool failed; /* out of memory */
    int64_t now;
    struct kymo_out out;
    char **texts; /* of functions, by id; NULL = not formatted yet */
    uint32_t dict_size;
};

/* ---- nodes ---- */

/* A new node, or 0. */
static uint32_t new_node(struct folded *x, uint32_t parent, uint32_t key)
{
    if (x->n_nodes == NODES_MAX)
        return 0;
    if (x->n_nodes == x->nodes_room) {
        uint32_t room = x->nodes_room == 0 ? 1024 : x->nodes_room * 2;
        struct node *p = realloc(x->nodes, room * sizeof *p);
        if (p == NULL) {
            x->failed = true;
            return 0;
        }
        x->nodes = p;
        x->nodes_room = room;
    }
    x->nodes[x->n_nodes] = (struct node){.parent = parent, .key = key};
    return x->n_nodes++;
}

/* The node of `key` above `parent`; parent itself when there are too many. */
static uint32_t child(struct folded *x, uint32_t parent, uint32_t key)
{
    if (x->nodes[parent].child != 0 && x->nodes[parent].child_key == key)
        return x->nodes[parent].child;
    uint64_t where = (uint64_t)parent << 32 | key;
    const uint32_t *known = kymo_map_get(&x->children, where);
    uint32_t node = known != NULL ? *known : new_node(x, parent, key);
    if (node == 0)
        return parent;
    if (known == NULL) {
        uint32_t *slot = kymo_map_put(&x->children, where, NULL);
        if (slot == NULL) {
            x->failed = true;
            return parent;
        }
        *slot = node;
    }
    x->nodes[parent].child = node;
    x->nodes[parent].child_key = key;
    return node;
}

/* Processes of one name share their lines; without a name, of one initial call.
 * 0 when there are too many nodes. */
static uint32_t root_of(struct folded *x, const struct kymo_event *ev)
{
    uint64_t ident = ev->who;
    uint32_t name = 0, mfa = 0;
    uint64_t key = ROOT_IDENT | (ident & ~ROOT_IDENT);
    (void)kymo_reader_process(x->r, ident, &name, &mfa);
    if (mfa == 0 && ev->id == KYMO_E_SPAWNED)
        mfa = ev->mfa;
    if (name != 0 || mfa != 0)
        key = name != 0 ? ROOT_NAME | kymo_canonical(x->r, name) : ROOT_CALL | kymo_canonical(x->r, mfa);
    struct root *root = kymo_map_get(&x->roots, key);
    if (root != NULL)
        return root->node;
    uint32_t node = x->roots.count < ROOTS_MAX ? new_node(x, 0, 0) : 0;
    if (node == 0)
        return 0;
    root = kymo_map_put(&x->roots, key, NULL);
    if (root == NULL) {
        x->failed = true;
        return 0;
    }
    root->ident = ident;
    root->mfa = name != 0 ? 0 : mfa;
    root->node = node;
    return node;
}

/* ---- time ---- */

static void account(struct folded *x, struct process *p)
{
    if (p->running || x->wall) {
        if (x->now > p->since)
            x->nodes[p->node].own += (uint64_t)(x->now - p->since);
    }
    p->since = x->now;
}

static void stop_running(struct folded *x, struct process *p)
{
    account(x, p);
    p->running = false;
}

/* The process runs on this thread from now on, so whoever ran there does not. */
static void start_running(struct folded *x, struct process *p, const struct kymo_event *ev)
{
    account(x, p);
    p->running = true;
    p->slot = ev->slot;
    if (ev->slot >= x->n_slots)
        return;
    uint64_t before = x->running[ev->slot];
    x->running[ev->slot] = ev->who;
    struct process *q = before != ev->who ? kymo_map_get(&x->processes, before) : NULL;
    if (q != NULL && q->running && q->slot == ev->slot)
        stop_running(x, q);
}

/* ---- events ---- */

static void forget(struct folded *x, uint64_t ident, struct process *p)
{
    account(x, p);
    kymo_stack_clear(&p->stack, NULL, NULL);
    kymo_map_remove(&x->processes, ident);
}

static struct process *process_of(struct folded *x, const struct kymo_event *ev)
{
    struct process *p = kymo_map_get(&x->processes, ev->who);
    if (p == NULL) {
        uint64_t evicted;
        uint32_t place = kymo_residents_add(&x->residents, ev->who, &evicted);
        struct process *old = evicted != KYMO_IDENT_NONE ? kymo_map_get(&x->processes, evicted) : NULL;
        if (old != NULL)
            forget(x, evicted, old);
        p = kymo_map_put(&x->processes, ev->who, NULL);
        if (p == NULL) {
            x->failed = true;
            return NULL;
        }
        p->root = p->node = root_of(x, ev);
        p->since = x->now;
        p->place = place;
    }
    kymo_residents_heard(&x->residents, p->place);
    return p;
}

/* The node of the topmost frame that is shown. */
static uint32_t top_node(const struct process *p)
{
    for (uint32_t i = p->stack.n; i-- > 0;) {
        if (p->stack.f[i].kind != KYMO_FRAME_INFERRED)
            return (uint32_t)p->stack.f[i].user;
    }
    return p->root;
}

static void enter(struct folded *x, struct process *p, struct kymo_frame *f, uint32_t key)
{
    if (f == NULL)
        return;
    /* What the frame is on: the calls that a loop of tail calls left. */
    f->user = p->root;
    for (uint32_t i = p->stack.n - 1; i-- > 0;) {
        if (p->stack.f[i].kind != KYMO_FRAME_INFERRED) {
            f->user = p->stack.f[i].user;
            break;
        }
    }
    if (f->depth < DEPTH_MAX)
        f->user = child(x, (uint32_t)f->user, key);
}

static void on_stack_event(struct folded *x, struct process *p, const struct kymo_event *ev)
{
    struct kymo_facts *facts = &x->lesson.facts;
    uint32_t mfa = kymo_canonical(x->r, ev->mfa);
    if (!p->running)
        start_running(x, p, ev);
    else
        account(x, p);
    kymo_stack_lost(&p->stack, kymo_reader_loss_epoch(x->r));
    switch (ev->id) {
    case KYMO_E_CALL:
        enter(x, p, kymo_stack_call(&p->stack, facts, mfa, NULL, NULL), mfa & 0x7fffffffu);
        break;
    case KYMO_E_RETURN_TO: kymo_stack_return_to(&p->stack, facts, mfa, NULL, NULL); break;
    case KYMO_E_RETURN_FROM:
    case KYMO_E_EXCEPTION_FROM: kymo_stack_return_from(&p->stack, facts, mfa, NULL, NULL); break;
    case KYMO_E_GC_MINOR_START:
        enter(x, p, kymo_stack_gc_start(&p->stack, KYMO_FRAME_GC_MINOR, NULL, NULL), KEY_GC_MINOR);
        break;
    case KYMO_E_GC_MAJOR_START:
        enter(x, p, kymo_stack_gc_start(&p->stack, KYMO_FRAME_GC_MAJOR, NULL, NULL), KEY_GC_MAJOR);
        break;
    case KYMO_E_GC_MINOR_END: kymo_stack_gc_end(&p->stack, KYMO_FRAME_GC_MINOR, NULL, NULL); break;
    default: kymo_stack_gc_end(&p->stack, KYMO_FRAME_GC_MAJOR, NULL, NULL); break;
    }
    p->node = top_node(p);
}

static void on_exit_event(struct folded *x, const struct kymo_event *ev)
{
    struct process *p = kymo_map_get(&x->processes, ev->who);
    if (p == NULL)
        return;
    kymo_residents_remove(&x->residents, p->place);
    forget(x, ev->who, p);
}

static void on_event(struct folded *x, const struct kymo_event *ev)
{
    x->now = ev->ns;
    struct process *p;
    switch (ev->id) {
    case KYMO_E_CALL:
    case KYMO_E_RETURN_TO:
    case KYMO_E_RETURN_FROM:
    case KYMO_E_EXCEPTION_FROM:
    case KYMO_E_GC_MINOR_START:
    case KYMO_E_GC_MINOR_END:
    case KYMO_E_GC_MAJOR_START:
    case KYMO_E_GC_MAJOR_END:
        if ((p = process_of(x, ev)) != NULL)
            on_stack_event(x, p, ev);
        break;
    case KYMO_E_IN:
    case KYMO_E_IN_EXITING:
    case KYMO_E_PORT_IN:
    case KYMO_E_PORT_IN_EXITING:
        if ((p = process_of(x, ev)) != NULL)
            start_running(x, p, ev);
        break;
    case KYMO_E_OUT:
    case KYMO_E_OUT_EXITING:
    case KYMO_E_PORT_OUT:
    case KYMO_E_PORT_OUT_EXITING:
        if ((p = kymo_map_get(&x->processes, ev->who)) != NULL)
            stop_running(x, p);
        if (p != NULL && kymo_hibernates(x->r, ev))
            kymo_stack_hibernate(&p->stack, NULL, NULL);
        break;
    case KYMO_E_EXIT:
    case KYMO_E_CLOSED:
    /* A process still runs after its exit, until this. */
    case KYMO_E_OUT_EXITED:
    case KYMO_E_PORT_OUT_EXITED: on_exit_event(x, ev); break;
    case KYMO_E_SPAWNED:
    case KYMO_E_OPEN: process_of(x, ev); break;
    default: break;
    }
}

/* ---- output ---- */

/* ';' separates frames, so it can't be in one. */
static void clean(char *s, size_t n)
{
    for (char *p = s; (p = memchr(p, ';', n - (size_t)(p - s))) != NULL;)
        *p = ',';
}

/* The text of a function, formatted once. */
static void write_mfa(struct folded *x, uint32_t id)
{
    char text[1024];
    char *known = id <= x->dict_size ? x->texts[id] : NULL;
    if (known == NULL) {
        size_t n = kymo_format_mfa(x->r, id, text, sizeof text);
        clean(text, n < sizeof text ? n : sizeof text - 1);
        if (id <= x->dict_size)
            known = x->texts[id] = strdup(text);
        if (known == NULL)
            known = text;
    }
    kymo_out_write(&x->out, known, strlen(known));
}

static void write_ident(struct folded *x, uint64_t ident)
{
    char text[1024];
    size_t n = kymo_short_label(x->r, ident, text, sizeof text);
    clean(text, n);
    kymo_out_write(&x->out, text, n);
}

static void write_line(struct folded *x, uint32_t node, const struct root *roots)
{
    uint32_t path[DEPTH_MAX + 2];
    uint32_t depth = 0;
    uint32_t at = node;
    for (; x->nodes[at].parent != 0 && depth < DEPTH_MAX + 1; at = x->nodes[at].parent)
        path[depth++] = at;
    if (at == 0)
        kymo_out_write(&x->out, "(others)", 8);
    else if (roots[at].mfa != 0)
        write_mfa(x, roots[at].mfa);
    else
        write_ident(x, roots[at].ident);
    while (depth > 0) {
        uint32_t key = x->nodes[path[--depth]].key;
        kymo_out_write(&x->out, ";", 1);
        if (key == KEY_GC_MINOR) {
            kymo_out_write(&x->out, "(minor gc)", 10);
        } else if (key == KEY_GC_MAJOR) {
            kymo_out_write(&x->out, "(major gc)", 10);
        } else {
            write_mfa(x, key);
        }
    }
    char own[24];
    int n = snprintf(own, sizeof own, " %llu\n", (unsigned long long)x->nodes[node].own);
    kymo_out_write(&x->out, own, (size_t)n);
}

static int write_lines(struct folded *x, struct kymo_export_result *res, char *err, size_t err_size)
{
    /* Roots by node, to find the name again. */
    struct root *roots = calloc(x->n_nodes, sizeof *roots);
    if (roots == NULL) {
        snprintf(err, err_size, "not enough memory");
        return -ENOMEM;
    }
    size_t it = 0;
    for (struct root *root; (root = kymo_map_next(&x->roots, &it, NULL)) != NULL;)
        roots[root->node] = *root;
    for (uint32_t i = 0; i < x->n_nodes && x->out.error == 0; i++) {
        if (x->nodes[i].own > 0) {
            write_line(x, i, roots);
            res->written++;
        }
    }
    free(roots);
    res->bytes = kymo_out_bytes(&x->out);
    return kymo_out_finish(&x->out, err, err_size);
}

static int run(struct folded *x, struct kymo_feed *feed, char *err, size_t err_size)
{
    int rc = kymo_feed_lesson(feed, &x->lesson, err, err_size);
    if (rc != 0)
        return rc;
    x->wall = feed->o->wall || !x->lesson.running;
    struct kymo_event ev;
    while (!x->failed && (rc = kymo_feed_next(feed, &ev)) == 1)
        on_event(x, &ev);
    if (rc < 0)
        return kymo_feed_error(rc, err, err_size);
    size_t it = 0;
    for (struct process *p; (p = kymo_map_next(&x->processes, &it, NULL)) != NULL;)
        account(x, p);
    if (x->failed) {
        snprintf(err, err_size, "not enough memory");
        return -ENOMEM;
    }
    return write_lines(x, feed->res, err, err_size);
}

int kymo_export_folded(struct kymo_reader *r, const struct kymo_export_options *o,
                       struct kymo_export_result *res, char *err, size_t err_size)
{
    struct kymo_feed feed;
    int rc = kymo_feed_start(&feed, r, o, res, err, err_size);
    if (rc != 0)
        return rc;
    struct folded x = {.r = r, .n_nodes = 1, .nodes_room = 1024, .out.fd = -1};
    kymo_map_init(&x.processes, sizeof(struct process));
    kymo_map_init(&x.roots, sizeof(struct root));
    kymo_map_init(&x.children, sizeof(uint32_t));
    kymo_reader_slots(r, &x.n_slots);
    x.running = calloc(x.n_slots + 1, sizeof *x.running);
    x.nodes = calloc(x.nodes_room, sizeof *x.nodes);
    x.dict_size = kymo_reader_dict_size(r);
    x.texts = calloc((size_t)x.dict_size + 1, sizeof *x.texts);
    if (x.running == NULL || x.nodes == NULL || x.texts == NULL || kymo_residents_init(&x.residents) != 0) {
        snprintf(err, err_size, "not enough memory");
        rc = -ENOMEM;
    } else {
        for (uint32_t i = 0; i < x.n_slots; i++)
            x.running[i] = KYMO_IDENT_NONE;
        rc = kymo_out_open(&x.out, o->out, err, err_size);
        if (rc == 0)
            rc = run(&x, &feed, err, err_size);
    }
    kymo_out_abort(&x.out);
    size_t it = 0;
    for (struct process *p; (p = kymo_map_next(&x.processes, &it, NULL)) != NULL;)
        kymo_stack_free(&p->stack);
    kymo_map_free(&x.processes);
    kymo_residents_free(&x.residents);
    kymo_map_free(&x.roots);
    kymo_map_free(&x.children);
    kymo_facts_free(&x.lesson.facts);
    for (uint32_t i = 0; x.texts != NULL && i <= x.dict_size; i++)
        free(x.texts[i]);
    free(x.texts);
    free(x.running);
    free(x.nodes);
    return rc;
}
