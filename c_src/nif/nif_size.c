/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_size.h"

#include <stdbool.h>

#include "kymo_format.h"
#include "nif_map.h"

/* The maximum nesting. Deeper terms count as "more". */
enum { STACK = 160 };

struct pending {
    const ERL_NIF_TERM *next; /* the remaining elements of a tuple, or &rest */
    uint32_t left;
    ERL_NIF_TERM rest; /* the tail of a list */
};

struct walk {
    uint64_t words;
    uint32_t visits_left;
    uint32_t depth;
    bool more;
    struct pending stack[STACK];
};

static struct pending *push(struct walk *w)
{
    if (w->depth == STACK) {
        w->more = true;
        return NULL;
    }
    return &w->stack[w->depth++];
}

static void push_array(struct walk *w, const ERL_NIF_TERM *el, uint32_t n)
{
    struct pending *p = n == 0 ? NULL : push(w);
    if (p != NULL) {
        p->next = el;
        p->left = n;
    }
}

static void push_term(struct walk *w, ERL_NIF_TERM t)
{
    struct pending *p = nif_is_immediate(t) ? NULL : push(w);
    if (p != NULL) {
        p->rest = t;
        p->next = &p->rest;
        p->left = 1;
    }
}

/* Adds the words of a map. A small map is header, size, the tuple of keys, and the values. A node
 * of a large map has header words before its children, and its pairs are list cells. */
static void size_map(struct walk *w, const ERL_NIF_TERM *map)
{
    enum { SIZE = 1, KEYS = 2 };
    if (nif_map_is_tree(map)) {
        struct nif_map_children c = nif_map_node(map);
        w->words += (uint64_t)(c.next - map) + c.left;
        push_array(w, c.next, (uint32_t)c.left);
    } else if (map[SIZE] == 0) {
        w->words += nif_layout.empty_map_words;
    } else {
        w->words += KEYS + 1 + map[SIZE];
        push_array(w, map + KEYS, (uint32_t)map[SIZE] + 1);
    }
}

static void size_boxed(struct walk *w, ERL_NIF_TERM t)
{
    const ERL_NIF_TERM *word = nif_words(t);
    uint32_t arity = (uint32_t)(word[0] >> 6);
    switch (nif_header_kind_of(word[0])) {
    case NIF_TUPLE:
    case NIF_RECORD:
        w->words += arity == 0 ? 0 : arity + 1u;
        push_array(w, word + 1, arity);
        break;
    case NIF_MAP: size_map(w, word); break;
    case NIF_HEAP_BITS:
    case NIF_REFC_BITS:
    case NIF_SUB_BITS: w->words += nif_bits_words(t); break;
    case NIF_FUN:
        w->words += nif_layout.fun_words;
        w->more = true;
        break;
    case NIF_UNKNOWN:
        w->words += 2;
        w->more = true;
        break;
    default: w->words += nif_header_words(word[0]); break;
    }
}

/* Visits t; if t is a list, also its tails. */
static void visit(struct walk *w, ERL_NIF_TERM t)
{
    while (!nif_is_immediate(t)) {
        if (w->visits_left-- == 0) {
            w->visits_left = 0;
            w->more = true;
            w->depth = 0;
            return;
        }
        if (!nif_is_list_cell(t)) {
            size_boxed(w, t);
            return;
        }
        ERL_NIF_TERM head = nif_words(t)[0], tail = nif_words(t)[1];
        w->words += 2;
        if (!nif_is_immediate(head)) {
            push_term(w, tail);
            t = head;
        } else {
            t = tail;
        }
    }
}

static __attribute__((noinline)) uint32_t walk_words(ERL_NIF_TERM t, uint32_t limit)
{
    struct walk w;
    w.words = 0;
    w.visits_left = limit;
    w.depth = 0;
    w.more = false;
    visit(&w, t);
    while (w.depth > 0) {
        struct pending *p = &w.stack[w.depth - 1];
        ERL_NIF_TERM next = *p->next++;
        if (--p->left == 0) {
            w.depth--;
        }
        if (!nif_is_immediate(next)) {
            visit(&w, next);
        } else if (w.visits_left-- == 0) {
            w.more = true;
            break;
        }
    }
    if (w.words >= KYMO_SIZE_MORE - 1u) {
        return (KYMO_SIZE_MORE - 2u) | KYMO_SIZE_MORE;
    }
    return (uint32_t)w.words | (w.more ? KYMO_SIZE_MORE : 0);
}

/* The fast path: most messages are a tuple of immediates, lists of immediates and binaries, or
 * one of these. visit() never counts more visits than words, so it is sufficient to keep the
 * words within the limit. Adds the words of a part of such a message to `words`. Returns the
 * sum, or 0 if the part is something else or too large. */
static inline uint32_t quick_part(ERL_NIF_TERM t, uint32_t words, uint32_t limit)
{
    while (nif_is_list_cell(t)) {
        const ERL_NIF_TERM *cell = nif_words(t);
        words += 2;
        if (!nif_is_immediate(cell[0]) || words > limit) {
            return 0;
        }
        t = cell[1];
    }
    if (nif_is_immediate(t)) {
        return words;
    }
    uint64_t header = nif_header(t);
    if (nif_header_kind(header) == nif_layout.heap_bin) {
        return words + nif_header_words(header);
    }
    return nif_header_kind(header) == nif_layout.refc_bin ? words + nif_layout.refc_words : 0;
}

/* The words of a message that is not immediate; 0 if the slow path is needed. */
static inline uint32_t quick_message(ERL_NIF_TERM t, uint32_t limit)
{
    if (nif_is_list_cell(t) || nif_header_kind(nif_header(t)) != 0) {
        return quick_part(t, 0, limit);
    }
    const ERL_NIF_TERM *el = nif_words(t) + 1;
    uint64_t arity = nif_header(t) >> 6;
    if (arity == 0 || arity >= limit) {
        return 0;
    }
    uint32_t words = (uint32_t)arity + 1u;
    for (const ERL_NIF_TERM *end = el + arity; el < end; el++) {
        if (!nif_is_immediate(*el)) {
            words = quick_part(*el, words, limit);
            if (words == 0) {
                return 0;
            }
        }
    }
    return words;
}

uint32_t nif_size_words(ERL_NIF_TERM t, uint32_t limit)
{
    if (nif_is_immediate(t)) {
        return 0;
    }
    if (NIF_UNLIKELY(!nif_layout.header_ok)) {
        return KYMO_SIZE_MORE;
    }
    uint32_t words = quick_message(t, limit);
    return NIF_LIKELY(words != 0) ? words : walk_words(t, limit);
}
