/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of time by stack, for the formats for flame graphs. Events are summed up while they are
 * read: there is one node for each different stack. Single-threaded.
 */
#ifndef KYMO_FOLDED_H
#define KYMO_FOLDED_H

#include "export_util.h"

/* Maximum depth of a stack. The time of deeper calls counts for the last frame. */
enum { KYMO_FOLDED_DEPTH = 512 };
/* The key of a node is the id of a function, or one of these. */
enum { KYMO_FOLDED_GC_MINOR = 0x80000000u, KYMO_FOLDED_GC_MAJOR = 0x80000001u };

struct kymo_folded_node {
    uint64_t own;    /* ns */
    uint32_t parent; /* 0 = none */
    uint32_t key;
    uint32_t child; /* looked up last */
    uint32_t child_key;
};

struct kymo_folded_root {
    uint64_t ident; /* the process whose name is printed if the role is unknown */
    uint64_t role;
    uint32_t node;
};

struct kymo_folded {
    struct kymo_reader *r;
    struct kymo_naming *naming;
    struct kymo_lesson lesson;
    struct kymo_residents residents;
    struct kymo_map processes;      /* ident -> struct kymo_folded_process */
    struct kymo_map roots;          /* kind and id -> struct kymo_folded_root */
    struct kymo_map children;       /* parent << 32 | key -> uint32_t */
    struct kymo_folded_node *nodes; /* [0]: time of processes without a root */
    uint32_t n_nodes, nodes_room;
    uint64_t *running; /* by slot: the running process, KYMO_IDENT_NONE = none */
    uint32_t n_slots;
    bool wall;
    bool failed; /* out of memory */
    int64_t now;
    char **texts; /* of functions, by id; NULL = not formatted yet */
    uint32_t dict_size;
};

/* Returns 0, or -ENOMEM with a message in err; call kymo_folded_free in both cases. */
int kymo_folded_init(struct kymo_folded *x, struct kymo_reader *r, char *err, size_t err_size);
void kymo_folded_free(struct kymo_folded *x);
/* Reads all events of the feed. Returns 0, or a negative errno with a message in err. */
int kymo_folded_read(struct kymo_folded *x, struct kymo_feed *feed, char *err, size_t err_size);
/* Returns the roots by node, for the name of a node's process: an array of n_nodes elements,
 * which the caller frees. NULL: no memory. */
struct kymo_folded_root *kymo_folded_roots(struct kymo_folded *x);
/* Stores the nodes from `node` down to its root in path, the topmost frame first, and the root
 * in *root. Returns the number of nodes in path. */
uint32_t kymo_folded_path(const struct kymo_folded *x, uint32_t node, uint32_t path[KYMO_FOLDED_DEPTH + 2],
                          uint32_t *root);
/* The text of the frame with this key, and the name of a root. Valid until the next call. */
const char *kymo_folded_frame(struct kymo_folded *x, uint32_t key, char *buf, size_t size);
const char *kymo_folded_root_name(struct kymo_folded *x, uint32_t root, const struct kymo_folded_root *roots,
                                  char *buf, size_t size);

#endif
