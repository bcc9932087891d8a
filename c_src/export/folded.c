/* SPDX-License-Identifier: Apache-2.0 */
#include "folded.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Maximum numbers of different stacks, and of roots. Beyond them, time counts for the nearest
 * caller that has a node, or for "(others)". */
enum { NODES_MAX = 1 << 19, ROOTS_MAX = 1 << 16 };

/* The key of a root is a role, or an ident with these bits, which no known role has. */
#define ROOT_IDENT (UINT64_C(3) << 62)

struct process {
    struct kymo_stack stack;
    int64_t since; /* accounted up to here */
    uint32_t root, node;
    uint32_t place; /* among the residents */
    bool running;
    bool has_out;  /* an earlier run has ended, so this one is open until the end (kymo_run_state) */
    uint32_t slot; /* where it runs */
};

/* ---- nodes ---- */

/* A new node, or 0. */
static uint32_t new_node(struct kymo_folded *x, uint32_t parent, uint32_t key)
{
    if (x->n_nodes == NODES_MAX)
        return 0;
    if (x->n_nodes == x->nodes_room) {
        uint32_t room = x->nodes_room == 0 ? 1024 : x->nodes_room * 2;
        struct kymo_folded_node *p = realloc(x->nodes, room * sizeof *p);
        if (p == NULL) {
            x->failed = true;
            return 0;
        }
        x->nodes = p;
        x->nodes_room = room;
    }
    x->nodes[x->n_nodes] = (struct kymo_folded_node){.parent = parent, .key = key};
    return x->n_nodes++;
}

/* The node of `key` above `parent`; parent itself when there are too many. */
static uint32_t child(struct kymo_folded *x, uint32_t parent, uint32_t key)
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

/* Processes of one role share their lines.
 * 0 when there are too many nodes. */
static uint32_t root_of(struct kymo_folded *x, const struct kymo_event *ev)
{
    uint64_t ident = ev->who;
    uint64_t role = kymo_naming_role(x->naming, ident);
    uint64_t key = kymo_role_is_known(role) ? role : ROOT_IDENT | (ident & ~ROOT_IDENT);
    struct kymo_folded_root *root = kymo_map_get(&x->roots, key);
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
    root->role = role;
    root->node = node;
    return node;
}

/* ---- time ---- */

static void account(struct kymo_folded *x, struct process *p)
{
    if (p->running || x->wall) {
        if (x->now > p->since)
            x->nodes[p->node].own += (uint64_t)(x->now - p->since);
    }
    p->since = x->now;
}

static void stop_running(struct kymo_folded *x, struct process *p)
{
    account(x, p);
    p->running = false;
}

/* The process no longer runs, and it is unknown for how long it did after its last event. */
static void lose_running(struct kymo_folded *x, struct process *p)
{
    p->running = false;
    account(x, p);
}

/* The process begins to run on this thread: the previous one there has ended some time before. */
static void start_running(struct kymo_folded *x, struct process *p, const struct kymo_event *ev)
{
    if (p->running && ev->id >= KYMO_E_IN && ev->id <= KYMO_E_PORT_OUT_EXITED)
        lose_running(x, p);
    else
        account(x, p);
    p->running = true;
    p->slot = ev->slot;
    if (ev->slot >= x->n_slots)
        return;
    uint64_t before = x->running[ev->slot];
    x->running[ev->slot] = ev->who;
    struct process *q = before != ev->who ? kymo_map_get(&x->processes, before) : NULL;
    if (q != NULL && q->running && q->slot == ev->slot)
        lose_running(x, q);
}

/* ---- events ---- */

static void forget(struct kymo_folded *x, uint64_t ident, struct process *p)
{
    account(x, p);
    kymo_stack_clear(&p->stack, NULL, NULL);
    kymo_map_remove(&x->processes, ident);
}

static struct process *process_of(struct kymo_folded *x, const struct kymo_event *ev)
{
    struct process *p = kymo_map_get(&x->processes, ev->who);
    if (p == NULL) {
        uint64_t evicted;
        uint32_t place = kymo_residents_add(&x->residents, ev->who, &evicted);
        struct process *old = evicted != KYMO_IDENT_NONE ? kymo_map_get(&x->processes, evicted) : NULL;
        if (old != NULL) {
            lose_running(x, old);
            forget(x, evicted, old);
        }
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

static void enter(struct kymo_folded *x, struct process *p, struct kymo_frame *f, uint32_t key)
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
    if (f->depth < KYMO_FOLDED_DEPTH)
        f->user = child(x, (uint32_t)f->user, key);
}

static void on_stack_event(struct kymo_folded *x, struct process *p, const struct kymo_event *ev)
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
        enter(x, p, kymo_stack_call(&p->stack, facts, mfa, ev->depth, NULL, NULL), mfa & 0x7fffffffu);
        break;
    case KYMO_E_RETURN_TO: kymo_stack_return_to(&p->stack, facts, mfa, ev->depth, NULL, NULL); break;
    case KYMO_E_RETURN_FROM:
    case KYMO_E_EXCEPTION_FROM: kymo_stack_return_from(&p->stack, facts, mfa, ev->depth, NULL, NULL); break;
    case KYMO_E_GC_MINOR_START:
        enter(x, p, kymo_stack_gc_start(&p->stack, KYMO_FRAME_GC_MINOR, NULL, NULL), KYMO_FOLDED_GC_MINOR);
        break;
    case KYMO_E_GC_MAJOR_START:
        enter(x, p, kymo_stack_gc_start(&p->stack, KYMO_FRAME_GC_MAJOR, NULL, NULL), KYMO_FOLDED_GC_MAJOR);
        break;
    case KYMO_E_GC_MINOR_END: kymo_stack_gc_end(&p->stack, KYMO_FRAME_GC_MINOR, NULL, NULL); break;
    default: kymo_stack_gc_end(&p->stack, KYMO_FRAME_GC_MAJOR, NULL, NULL); break;
    }
    p->node = top_node(p);
}

static void on_exit_event(struct kymo_folded *x, const struct kymo_event *ev)
{
    struct process *p = kymo_map_get(&x->processes, ev->who);
    if (p == NULL)
        return;
    kymo_residents_remove(&x->residents, p->place);
    forget(x, ev->who, p);
}

static void on_event(struct kymo_folded *x, const struct kymo_event *ev)
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
        if ((p = kymo_map_get(&x->processes, ev->who)) != NULL) {
            stop_running(x, p);
            p->has_out = true;
        }
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

/* ---- results ---- */

struct kymo_folded_root *kymo_folded_roots(struct kymo_folded *x)
{
    struct kymo_folded_root *roots = calloc(x->n_nodes, sizeof *roots);
    size_t it = 0;
    for (struct kymo_folded_root *root;
         roots != NULL && (root = kymo_map_next(&x->roots, &it, NULL)) != NULL;)
        roots[root->node] = *root;
    return roots;
}

uint32_t kymo_folded_path(const struct kymo_folded *x, uint32_t node, uint32_t path[KYMO_FOLDED_DEPTH + 2],
                          uint32_t *root)
{
    uint32_t depth = 0;
    for (*root = node; x->nodes[*root].parent != 0 && depth < KYMO_FOLDED_DEPTH + 1;
         *root = x->nodes[*root].parent)
        path[depth++] = *root;
    return depth;
}

const char *kymo_folded_frame(struct kymo_folded *x, uint32_t key, char *buf, size_t size)
{
    if (key == KYMO_FOLDED_GC_MINOR)
        return "(minor gc)";
    if (key == KYMO_FOLDED_GC_MAJOR)
        return "(major gc)";
    if (key <= x->dict_size && x->texts[key] != NULL)
        return x->texts[key];
    kymo_name_function(x->naming, key, buf, size);
    if (key <= x->dict_size && (x->texts[key] = strdup(buf)) != NULL)
        return x->texts[key];
    return buf;
}

const char *kymo_folded_root_name(struct kymo_folded *x, uint32_t root, const struct kymo_folded_root *roots,
                                  char *buf, size_t size)
{
    if (root == 0)
        return "(others)";
    if (kymo_role_is_known(roots[root].role))
        kymo_name_of_role(x->naming, roots[root].role, buf, size);
    else
        kymo_name_short(x->naming, roots[root].ident, buf, size);
    return buf;
}

/* ---- reading a recording ---- */

int kymo_folded_read(struct kymo_folded *x, struct kymo_feed *feed, char *err, size_t err_size)
{
    int rc = kymo_feed_lesson(feed, &x->lesson, err, err_size);
    if (rc != 0)
        return rc;
    x->wall = feed->o->wall || !x->lesson.running;
    struct kymo_event ev;
    while (!x->failed && (rc = kymo_feed_next(feed, &ev)) == 1) {
        kymo_naming_event(x->naming, &ev);
        on_event(x, &ev);
    }
    if (rc < 0)
        return kymo_feed_error(rc, err, err_size);
    size_t it = 0;
    for (struct process *p; (p = kymo_map_next(&x->processes, &it, NULL)) != NULL;) {
        if (p->has_out)
            account(x, p);
        else
            lose_running(x, p);
    }
    if (x->failed) {
        snprintf(err, err_size, "not enough memory");
        return -ENOMEM;
    }
    return 0;
}

int kymo_folded_init(struct kymo_folded *x, struct kymo_reader *r, char *err, size_t err_size)
{
    memset(x, 0, sizeof *x);
    x->r = r;
    x->n_nodes = 1;
    x->nodes_room = 1024;
    kymo_map_init(&x->processes, sizeof(struct process));
    kymo_map_init(&x->roots, sizeof(struct kymo_folded_root));
    kymo_map_init(&x->children, sizeof(uint32_t));
    kymo_reader_slots(r, &x->n_slots);
    x->running = calloc(x->n_slots + 1, sizeof *x->running);
    x->nodes = calloc(x->nodes_room, sizeof *x->nodes);
    x->dict_size = kymo_reader_dict_size(r);
    x->texts = calloc((size_t)x->dict_size + 1, sizeof *x->texts);
    x->naming = kymo_naming_new(r);
    if (x->naming == NULL || x->running == NULL || x->nodes == NULL || x->texts == NULL ||
        kymo_residents_init(&x->residents) != 0) {
        snprintf(err, err_size, "not enough memory");
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < x->n_slots; i++)
        x->running[i] = KYMO_IDENT_NONE;
    return 0;
}

void kymo_folded_free(struct kymo_folded *x)
{
    size_t it = 0;
    for (struct process *p; (p = kymo_map_next(&x->processes, &it, NULL)) != NULL;)
        kymo_stack_free(&p->stack);
    kymo_map_free(&x->processes);
    kymo_residents_free(&x->residents);
    kymo_map_free(&x->roots);
    kymo_map_free(&x->children);
    kymo_facts_free(&x->lesson.facts);
    kymo_naming_free(x->naming);
    for (uint32_t i = 0; x->texts != NULL && i <= x->dict_size; i++)
        free(x->texts[i]);
    free(x->texts);
    free(x->running);
    free(x->nodes);
}
