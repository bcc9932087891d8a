/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_size.h"

#include <stdbool.h>

#include "kymo_format.h"
#include "nif_layout.h"

/* Terms whose visit is not over. Nested deeper than this counts as "more". */
enum { STACK = 160, FLAT_MAP_MAX = 32, HEAP_BIN_MAX = 64 };

struct pending {
    const ERL_NIF_TERM *next; /* what is left of a tuple, or &rest */
    uint32_t left;
    ERL_NIF_TERM rest; /* the tail of a list */
};

struct walk {
    ErlNifEnv *env;
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

static void size_bitstring(struct walk *w, ERL_NIF_TERM t)
{
    ErlNifBinary bin;
    uint64_t header = nif_layout.header_ok ? nif_header(t) : 0;
    unsigned kind = nif_header_kind(header);
    if (!nif_layout.header_ok) {
        w->words += 2;
        w->more = true;
    } else if (kind == nif_layout.heap_bin) {
        w->words += nif_header_words(header);
    } else if (kind == nif_layout.refc_bin) {
        w->words += nif_layout.refc_words;
    } else if (enif_inspect_binary(w->env, t, &bin) && bin.size > HEAP_BIN_MAX) {
        w->words += nif_layout.sub_words + nif_layout.refc_words;
    } else {
        w->words += nif_layout.sub_words + 2;
        w->more = true;
    }
}

static void size_map(struct walk *w, ERL_NIF_TERM t)
{
    ErlNifMapIterator it;
    ERL_NIF_TERM key, value;
    size_t n;
    if (enif_get_map_size(w->env, t, &n) == 0) {
        w->more = true;
        return;
    }
    if (n == 0) {
        w->words += nif_layout.empty_map_words;
        return;
    }
    if (n > FLAT_MAP_MAX) {
        w->words += 3 * n;
        w->more = true;
        return;
    }
    w->words += 2 * n + 4;
    if (enif_map_iterator_create(w->env, t, &it, ERL_NIF_MAP_ITERATOR_FIRST) == 0) {
        w->more = true;
        return;
    }
    while (enif_map_iterator_get_pair(w->env, &it, &key, &value)) {
        push_term(w, key);
        push_term(w, value);
        enif_map_iterator_next(w->env, &it);
    }
    enif_map_iterator_destroy(w->env, &it);
}

/* A term that is neither immediate, list nor tuple. */
static void size_boxed(struct walk *w, ERL_NIF_TERM t)
{
    switch (enif_term_type(w->env, t)) {
    case ERL_NIF_TERM_TYPE_MAP: size_map(w, t); break;
    case ERL_NIF_TERM_TYPE_BITSTRING: size_bitstring(w, t); break;
    case ERL_NIF_TERM_TYPE_FUN:
        w->words += nif_layout.fun_words;
        w->more = true;
        break;
    case ERL_NIF_TERM_TYPE_FLOAT: w->words += 2; break;
    case ERL_NIF_TERM_TYPE_INTEGER:
    case ERL_NIF_TERM_TYPE_REFERENCE:
    case ERL_NIF_TERM_TYPE_PID:
    case ERL_NIF_TERM_TYPE_PORT:
        if (nif_layout.header_ok) {
            w->words += nif_header_words(nif_header(t));
            break;
        }
        /* fall through */
    default:
        w->words += 2;
        w->more = true;
        break;
    }
}

static inline bool get_tuple(ErlNifEnv *env, ERL_NIF_TERM t, uint32_t *arity, const ERL_NIF_TERM **el)
{
    int n;
    if (nif_layout.header_ok) {
        uint64_t header = nif_header(t);
        *arity = (uint32_t)(header >> 6);
        *el = nif_words(t) + 1;
        return nif_header_kind(header) == 0;
    }
    if (!enif_get_tuple(env, t, &n, el)) {
        return false;
    }
    *arity = (uint32_t)n;
    return true;
}

static inline bool get_cell(ErlNifEnv *env, ERL_NIF_TERM t, ERL_NIF_TERM *head, ERL_NIF_TERM *tail)
{
    if (nif_layout.header_ok) {
        *head = nif_words(t)[0];
        *tail = nif_words(t)[1];
        return true;
    }
    return enif_get_list_cell(env, t, head, tail);
}

/* Visits t, and what hangs on it to the right when t is a list. */
static void visit(struct walk *w, ERL_NIF_TERM t)
{
    ERL_NIF_TERM head, tail;
    const ERL_NIF_TERM *el;
    uint32_t arity;
    while (!nif_is_immediate(t)) {
        if (w->visits_left-- == 0) {
            w->visits_left = 0;
            w->more = true;
            w->depth = 0;
            return;
        }
        if (!nif_is_list_cell(t)) {
            if (get_tuple(w->env, t, &arity, &el)) {
                w->words += arity == 0 ? 0 : arity + 1u;
                push_array(w, el, arity);
            } else {
                size_boxed(w, t);
            }
            return;
        }
        if (!get_cell(w->env, t, &head, &tail)) {
            return;
        }
        w->words += 2;
        if (!nif_is_immediate(head)) {
            push_term(w, tail);
            t = head;
        } else {
            t = tail;
        }
    }
}

static __attribute__((noinline)) uint32_t walk_words(ErlNifEnv *env, ERL_NIF_TERM t, uint32_t limit)
{
    struct walk w;
    w.env = env;
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

/* Most messages are a tuple of immediates, lists of immediates and binaries, or
 * one of these. What visit() counts as visits is never more than the words, so
 * these alone are kept within the limit. Returns the words with those of a part
 * of such a message; 0 when it is something else, or too large. */
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

/* A message that is not immediate; 0 when it has to be walked. */
static inline uint32_t quick_message(ERL_NIF_TERM t, uint32_t limit)
{
    if (NIF_UNLIKELY(!nif_layout.header_ok)) {
        return 0;
    }
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

uint32_t nif_size_words(ErlNifEnv *env, ERL_NIF_TERM t, uint32_t limit)
{
    if (nif_is_immediate(t)) {
        return 0;
    }
    uint32_t words = quick_message(t, limit);
    return NIF_LIKELY(words != 0) ? words : walk_words(env, t, limit);
}
