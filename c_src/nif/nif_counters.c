/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_counters.h"

#include <time.h>

#include "nif_atoms.h"
#include "nif_names.h"

static ERL_NIF_TERM answer(ErlNifEnv *env, bool recorded)
{
    return recorded ? nif_am.ok : enif_make_tuple2(env, nif_am.error, nif_am.not_recorded);
}

/* The number of an atom in a table of n; 0 if it is not in the table. */
static unsigned number_of(const ERL_NIF_TERM *table, unsigned n, ERL_NIF_TERM name)
{
    for (unsigned i = 1; i < n; i++) {
        if (table[i] == name) {
            return i;
        }
    }
    return 0;
}

/* The number or, of a local pid, the ident. Returns false for other terms. */
static bool value_of(const struct nif_event *ev, ERL_NIF_TERM t, ErlNifUInt64 *value)
{
    if (!enif_is_pid(ev->env, t)) {
        return enif_get_uint64(ev->env, t, value);
    }
    ErlNifPid pid;
    *value = ev->w != NULL ? nif_ident(ev, t) : KYMO_IDENT_NONE;
    return enif_get_local_pid(ev->env, t, &pid);
}

/* Writes one value of field C. Returns NULL if the term is not a value. */
static uint8_t *put_value(const struct nif_event *ev, ERL_NIF_TERM t, uint8_t *p)
{
    const ERL_NIF_TERM *el;
    int n;
    unsigned index;
    ErlNifUInt64 value;
    if (!enif_get_tuple(ev->env, t, &n, &el) || n != 3 || !enif_get_uint(ev->env, el[1], &index) ||
        index > UINT16_MAX || !value_of(ev, el[2], &value)) {
        return NULL;
    }
    unsigned counter = number_of(nif_am.counters, KYMO_N_COUNT, el[0]);
    if (counter == 0) {
        return NULL;
    }
    return kymo_put64(kymo_put16(kymo_put16(p, (uint16_t)counter), (uint16_t)index), value);
}

/* The processor time of the node. erlang:statistics(runtime) has only a resolution of
 * milliseconds, and each call changes the results of other callers. */
static uint64_t cpu_time(void)
{
    struct timespec ts = {0, 0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

ERL_NIF_TERM nif_note_counters(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    struct nif_handle *h = nif_handle_of(env, argv[0]);
    uint8_t body[2 + KYMO_COUNTERS_MAX * KYMO_COUNTER_BYTES];
    ERL_NIF_TERM head, list = argv[1];
    unsigned n;
    if (h == NULL || !enif_get_list_length(env, list, &n) || n >= KYMO_COUNTERS_MAX) {
        return enif_make_badarg(env);
    }
    struct nif_event ev = {.env = env, .h = h, .w = kymo_writer_borrow(h->rec)};
    uint8_t *p = kymo_put16(body, (uint16_t)(n + 1));
    p = kymo_put64(kymo_put16(kymo_put16(p, KYMO_N_CPU_TIME), 0), cpu_time());
    while (p != NULL && enif_get_list_cell(env, list, &head, &list)) {
        p = put_value(&ev, head, p);
    }
    bool recorded = false;
    if (ev.w != NULL) {
        recorded = p != NULL && kymo_write_note(ev.w, KYMO_E_COUNTERS, body, (size_t)(p - body));
        kymo_writer_put(ev.w);
    }
    return p != NULL ? answer(env, recorded) : enif_make_badarg(env);
}

static bool is_local(ErlNifEnv *env, ERL_NIF_TERM t)
{
    return t == nif_am.undefined || enif_is_pid(env, t) || enif_is_port(env, t);
}

/* Stores the id of a function. Returns false if the term is neither a function nor undefined. */
static bool function_id(const struct nif_event *ev, ERL_NIF_TERM t, uint32_t *id)
{
    const ERL_NIF_TERM *el;
    int n;
    unsigned arity;
    *id = 0;
    if (t == nif_am.undefined) {
        return true;
    }
    if (!enif_get_tuple(ev->env, t, &n, &el) || n != 3 || !nif_is_atom(el[0]) || !nif_is_atom(el[1]) ||
        !enif_get_uint(ev->env, el[2], &arity) || arity > UINT8_MAX) {
        return false;
    }
    *id = nif_mfa_id(ev, el[0], el[1], arity);
    return true;
}

/* The first arguments of what records about a process; OTHER is a port or process. */
enum { STATE, KIND, PROCESS, OTHER, OWN };

/* Two functions, whose ids it stores, are left to check. */
static bool is_note(ErlNifEnv *env, const ERL_NIF_TERM argv[], const struct nif_handle *h, unsigned kind)
{
    return h != NULL && kind != 0 && is_local(env, argv[PROCESS]) && is_local(env, argv[OTHER]);
}

static uint8_t *put_idents(const struct nif_event *ev, const ERL_NIF_TERM argv[], uint8_t *p)
{
    return kymo_put64(kymo_put64(p, nif_ident(ev, argv[PROCESS])), nif_ident(ev, argv[OTHER]));
}

ERL_NIF_TERM nif_note_monitor(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    enum { VALUE = OWN, OUT, IN };
    (void)argc;
    struct nif_handle *h = nif_handle_of(env, argv[STATE]);
    unsigned kind = number_of(nif_am.monitored, KYMO_M_COUNT, argv[KIND]);
    ErlNifUInt64 value;
    if (!is_note(env, argv, h, kind) || !enif_get_uint64(env, argv[VALUE], &value)) {
        return enif_make_badarg(env);
    }
    struct nif_event ev = {.env = env, .h = h, .w = kymo_writer_borrow(h->rec)};
    if (ev.w == NULL) {
        return answer(env, false);
    }
    uint8_t body[8 + 8 + 1 + 8 + 4 + 4];
    uint32_t out, in;
    bool good = function_id(&ev, argv[OUT], &out) && function_id(&ev, argv[IN], &in);
    bool recorded = false;
    if (good) {
        uint8_t *p = put_idents(&ev, argv, body);
        p = kymo_put64(kymo_put8(p, (uint8_t)kind), value);
        p = kymo_put32(kymo_put32(p, out), in);
        recorded = kymo_write_note(ev.w, KYMO_E_MONITOR, body, (size_t)(p - body));
    }
    kymo_writer_put(ev.w);
    return good ? answer(env, recorded) : enif_make_badarg(env);
}

ERL_NIF_TERM nif_note_observed(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    enum { LOCK = OWN, MAILBOX, FUNCTION, CALLED_FROM };
    (void)argc;
    struct nif_handle *h = nif_handle_of(env, argv[STATE]);
    unsigned kind = number_of(nif_am.observed, KYMO_OB_COUNT, argv[KIND]);
    ErlNifUInt64 mailbox;
    if (!is_note(env, argv, h, kind) || !nif_is_atom(argv[LOCK]) ||
        !enif_get_uint64(env, argv[MAILBOX], &mailbox)) {
        return enif_make_badarg(env);
    }
    struct nif_event ev = {.env = env, .h = h, .w = kymo_writer_borrow(h->rec)};
    if (ev.w == NULL) {
        return answer(env, false);
    }
    uint8_t body[8 + 8 + 4 + 4 + 4 + 1 + 8];
    uint32_t function, from;
    bool good = function_id(&ev, argv[FUNCTION], &function) && function_id(&ev, argv[CALLED_FROM], &from);
    bool recorded = false;
    if (good) {
        uint32_t lock = argv[LOCK] == nif_am.undefined ? 0 : nif_atom_id(&ev, argv[LOCK]);
        uint8_t *p = put_idents(&ev, argv, body);
        p = kymo_put32(kymo_put32(kymo_put32(p, function), from), lock);
        p = kymo_put64(kymo_put8(p, (uint8_t)kind), mailbox);
        recorded = kymo_write_note(ev.w, KYMO_E_OBSERVED, body, (size_t)(p - body));
    }
    kymo_writer_put(ev.w);
    return good ? answer(env, recorded) : enif_make_badarg(env);
}
