/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_budget.h"

#include "kymo_budget.h"
#include "nif_atoms.h"
#include "nif_names.h"

/* The maximum number of functions in one call. */
enum { MAX_FUNCTIONS = 1 << 16 };

ERL_NIF_TERM nif_budget(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    struct nif_handle *h = nif_handle_of(env, argv[0]);
    ErlNifUInt64 ppm, events;
    if (h == NULL || !enif_get_uint64(env, argv[1], &ppm) || !enif_get_uint64(env, argv[2], &events)) {
        return enif_make_badarg(env);
    }
    kymo_recorder_budget(h->rec, ppm, events);
    return nif_am.ok;
}

ERL_NIF_TERM nif_rates(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    struct nif_handle *h = nif_handle_of(env, argv[0]);
    if (h == NULL) {
        return enif_make_badarg(env);
    }
    if (!kymo_recorder_active(h->rec)) {
        return nif_am.not_recorded;
    }
    ERL_NIF_TERM ticks = enif_make_uint64(env, kymo_recorder_ticks(h->rec));
    ERL_NIF_TERM reversed = enif_make_list(env, 0), list;
    uint64_t events;
    for (uint32_t i = 0; kymo_recorder_offered(h->rec, i, &events); i++) {
        reversed = enif_make_list_cell(env, enif_make_uint64(env, events), reversed);
    }
    (void)enif_make_reverse_list(env, reversed, &list);
    return enif_make_tuple2(env, ticks, list);
}

/* ---- a sample ------------------------------------------------------------------------ */

static void put(ErlNifEnv *env, ERL_NIF_TERM *map, ERL_NIF_TERM key, uint64_t n)
{
    enif_make_map_put(env, *map, key, enif_make_uint64(env, n), map);
}

static ERL_NIF_TERM kind_atom(unsigned kind)
{
    switch (kind) {
    case KYMO_KIND_MESSAGES: return nif_am.messages;
    case KYMO_KIND_RUNNING: return nif_am.running;
    case KYMO_KIND_GC: return nif_am.garbage_collection;
    case KYMO_KIND_PROCS: return nif_am.procs;
    case KYMO_KIND_CALLS: return nif_am.calls;
    default: return nif_am.ports;
    }
}

static ERL_NIF_TERM kinds_map(ErlNifEnv *env, const struct kymo_sample *s)
{
    ERL_NIF_TERM map = enif_make_new_map(env);
    for (unsigned kind = 0; kind < KYMO_KINDS; kind++) {
        put(env, &map, kind_atom(kind), s->kinds[kind]);
    }
    put(env, &map, nif_am.return_tos, s->return_to);
    put(env, &map, nif_am.other, s->other);
    return map;
}

/* Leaves out functions without a name, because the dictionary was full. */
static ERL_NIF_TERM functions_list(ErlNifEnv *env, const struct kymo_sample *s)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (uint32_t i = s->n_functions; i-- > 0;) {
        const struct kymo_loud *f = &s->functions[i];
        if (f->module != 0 && f->function != 0) {
            ERL_NIF_TERM mfa = enif_make_tuple3(env, f->module, f->function, enif_make_uint(env, f->arity));
            ERL_NIF_TERM one = enif_make_tuple2(env, mfa, enif_make_uint64(env, f->events));
            list = enif_make_list_cell(env, one, list);
        }
    }
    return list;
}

ERL_NIF_TERM nif_sample(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    struct nif_handle *h = nif_handle_of(env, argv[0]);
    struct kymo_sample s = {.n_functions = 0};
    ErlNifUInt64 since;
    unsigned most;
    if (h == NULL || !enif_get_uint64(env, argv[1], &since) || !enif_get_uint(env, argv[2], &most) ||
        most > MAX_FUNCTIONS) {
        return enif_make_badarg(env);
    }
    s.functions = enif_alloc(((size_t)most + 1) * sizeof *s.functions);
    s.n_functions = most;
    ERL_NIF_TERM answer = enif_make_tuple2(env, nif_am.error, nif_am.busy);
    if (s.functions != NULL && kymo_recorder_sample(h->rec, since, &s) == 0) {
        answer = enif_make_tuple3(env, nif_am.ok, kinds_map(env, &s), functions_list(env, &s));
    }
    enif_free(s.functions);
    return answer;
}

/* ---- notes --------------------------------------------------------------------------- */

static bool kinds_of(ErlNifEnv *env, ERL_NIF_TERM list, uint32_t *bits)
{
    ERL_NIF_TERM head;
    for (*bits = 0; enif_get_list_cell(env, list, &head, &list);) {
        unsigned kind = 0;
        while (kind < KYMO_KINDS && kind_atom(kind) != head) {
            kind++;
        }
        if (kind == KYMO_KINDS) {
            return false;
        }
        *bits |= 1u << kind;
    }
    return enif_is_empty_list(env, list);
}

/* Stores the ids of the functions in the list. Returns false if it is not a list of functions. */
static bool ids_of(const struct nif_event *ev, ERL_NIF_TERM list, uint32_t *ids)
{
    ERL_NIF_TERM head;
    while (enif_get_list_cell(ev->env, list, &head, &list)) {
        const ERL_NIF_TERM *el;
        int n;
        unsigned arity;
        if (!enif_get_tuple(ev->env, head, &n, &el) || n != 3 || !nif_is_atom(el[0]) || !nif_is_atom(el[1]) ||
            !enif_get_uint(ev->env, el[2], &arity) || arity > 255) {
            return false;
        }
        *ids++ = nif_mfa_id(ev, el[0], el[1], arity);
    }
    return true;
}

ERL_NIF_TERM nif_note_shed(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    struct nif_handle *h = nif_handle_of(env, argv[0]);
    uint32_t kinds;
    unsigned n;
    if (h == NULL || (argv[1] != nif_am.shed && argv[1] != nif_am.given_back) ||
        !kinds_of(env, argv[2], &kinds) || !enif_get_list_length(env, argv[3], &n) || n > MAX_FUNCTIONS) {
        return enif_make_badarg(env);
    }
    uint32_t *ids = enif_alloc(((size_t)n + 1) * sizeof *ids);
    struct nif_event ev = {.env = env, .h = h, .w = ids != NULL ? kymo_writer_borrow(h->rec) : NULL};
    if (ev.w == NULL) {
        enif_free(ids);
        return enif_make_tuple2(env, nif_am.error, nif_am.not_recorded);
    }
    bool good = ids_of(&ev, argv[3], ids);
    if (good) {
        kymo_note_shed(ev.w, argv[1] == nif_am.shed ? KYMO_SHED : KYMO_GIVEN_BACK, kinds, ids, n);
    }
    kymo_writer_put(ev.w);
    enif_free(ids);
    return good ? nif_am.ok : enif_make_badarg(env);
}
