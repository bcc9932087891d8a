/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_control.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "nif_atoms.h"
#include "nif_errno.h"
#include "nif_names.h"
#include "nif_open.h"
#include "nif_term.h"

static ERL_NIF_TERM ok(ErlNifEnv *env, ERL_NIF_TERM t)
{
    return enif_make_tuple2(env, nif_am.ok, t);
}

static ERL_NIF_TERM error(ErlNifEnv *env, ERL_NIF_TERM t)
{
    return enif_make_tuple2(env, nif_am.error, t);
}

/* ---- open -------------------------------------------------------------------- */

/* Returns kind and number of the calling thread to the engine. The runtime has a function for
 * the kind; the number is only in the thread's name. */
static void identify(enum kymo_thread *kind, uint32_t *no)
{
    char name[16] = "";
    switch (enif_thread_type()) {
    case ERL_NIF_THR_NORMAL_SCHEDULER: *kind = KYMO_T_SCHEDULER; break;
    case ERL_NIF_THR_DIRTY_CPU_SCHEDULER: *kind = KYMO_T_DIRTY_CPU; break;
    case ERL_NIF_THR_DIRTY_IO_SCHEDULER: *kind = KYMO_T_DIRTY_IO; break;
    default: *kind = KYMO_T_OTHER; break;
    }
    *no = 0;
    if (*kind == KYMO_T_OTHER || pthread_getname_np(pthread_self(), name, sizeof name) != 0) {
        return;
    }
    for (const char *c = name; *c != 0; c++) {
        if (isdigit((unsigned char)*c)) {
            while (isdigit((unsigned char)*c)) {
                *no = *no * 10u + (uint32_t)(*c++ - '0');
            }
            return;
        }
    }
}

static bool is_ascii(const uint8_t *text, size_t len)
{
    while (len > 0 && text[len - 1] < 0x80) {
        len--;
    }
    return len == 0;
}

/* Reads the name and creation of the node from the external format of a local pid. */
static void read_node(ErlNifEnv *env, struct nif_handle *h, struct kymo_options *e, char node[static 256])
{
    enum { VERSION = 131, NEW_PID = 88, ATOM = 100, SMALL_ATOM_UTF8 = 119, TAIL = 12 };
    ErlNifPid self;
    ErlNifBinary bin;
    node[0] = 0;
    e->node = node;
    if (enif_self(env, &self) == NULL || !enif_term_to_binary(env, self.pid, &bin)) {
        return;
    }
    const uint8_t *d = bin.data;
    if (bin.size > 2 + TAIL && d[0] == VERSION && d[1] == NEW_PID && bin.size - 2 - TAIL <= NIF_NODE_MAX) {
        size_t len = bin.size - 2 - TAIL;
        const uint8_t *c = d + bin.size - 4;
        memcpy(h->node_ext, d + 2, len);
        h->node_len = (uint32_t)len;
        /* OTP 25 writes the name in Latin-1. Convert it, so that contents are the same as on
         * other releases. */
        if (d[2] == ATOM && d[3] == 0 && is_ascii(d + 5, len - 3)) {
            h->node_ext[0] = SMALL_ATOM_UTF8;
            h->node_ext[1] = d[4];
            memcpy(h->node_ext + 2, d + 5, len - 3);
            h->node_len = (uint32_t)len - 1;
        }
        h->creation = (uint32_t)c[0] << 24 | (uint32_t)c[1] << 16 | (uint32_t)c[2] << 8 | c[3];
        size_t head = d[2] == SMALL_ATOM_UTF8 ? 2 : 3;
        if (len > head && len - head < 256) {
            memcpy(node, d + 2 + head, len - head);
            node[len - head] = 0;
        }
    }
    e->creation = h->creation;
    enif_release_binary(&bin);
}

/* The option of open/1 that corresponds to an option of the engine. */
static const char *option_name(const char *what)
{
    static const char *const names[][2] = {
        {"segment_bytes", "segment_size"}, {"memory", "memory"},     {"dict_bytes", "dict_size"},
        {"content_max", "content_bytes"},  {"limit_bytes", "limit"}, {"file_bytes", "file_size"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i][0], what) == 0) {
            return names[i][1];
        }
    }
    return what;
}

static ERL_NIF_TERM open_error(ErlNifEnv *env, ERL_NIF_TERM map, int err, const struct kymo_open_error *why)
{
    ERL_NIF_TERM key, value;
    if (err == ENFILE) {
        return error(env, nif_am.too_many_recorders);
    }
    if (err == EINVAL && why->option != NULL) {
        key = enif_make_atom(env, option_name(why->option));
        if (!enif_get_map_value(env, map, key, &value)) {
            value = nif_am.undefined;
        }
        if (why->needed != 0) {
            return error(env, enif_make_tuple4(env, nif_am.bad_option, key, value,
                                               enif_make_tuple2(env, nif_am.at_least,
                                                                enif_make_uint64(env, why->needed))));
        }
        return error(env, enif_make_tuple3(env, nif_am.bad_option, key, value));
    }
    if (err == ENOSPC && why->needed != 0) {
        return error(env, enif_make_tuple3(env, nif_errno(env, err), enif_make_uint64(env, why->needed),
                                           enif_make_uint64(env, why->available)));
    }
    return error(env, nif_errno(env, err));
}

ERL_NIF_TERM nif_open(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    char node[256], release[16];
    struct kymo_open_error why = {0};
    ErlNifSysInfo sys;
    ERL_NIF_TERM result;
    struct nif_open *o = enif_alloc(sizeof *o);
    struct nif_handle *h = nif_handle_new();
    if (o == NULL || h == NULL) {
        result = error(env, nif_errno(env, ENOMEM));
        goto out;
    }
    ERL_NIF_TERM bad = nif_open_options(env, argv[0], o, h);
    if (bad != 0) {
        result = error(env, bad);
        goto out;
    }
    struct kymo_options *e = &o->engine;
    if (!enif_get_uint(env, argv[1], &e->n_slots)) {
        result = enif_make_badarg(env);
        goto out;
    }
    h->policy = e->policy;
    h->dir = strdup(o->dir);
    if (h->dir == NULL) {
        result = error(env, nif_errno(env, ENOMEM));
        goto out;
    }
    enif_system_info(&sys, sizeof sys);
    snprintf(release, sizeof release, "%s", sys.otp_release);
    read_node(env, h, e, node);
    e->otp_release = release;
    e->erts_version = sys.erts_version;
    e->identify = identify;
    e->erl_offset_ns = enif_time_offset(ERL_NIF_NSEC);
    e->erl_mono_ns = enif_monotonic_time(ERL_NIF_NSEC);
    int err = kymo_recorder_open(e, &h->rec, &why);
    if (err != 0) {
        h->rec = NULL;
        result = open_error(env, argv[0], -err, &why);
        goto out;
    }
    nif_handle_prepare(h);
    /* If the owner is dead already, the recording ends at once, as if it had died later. */
    if (o->has_owner && enif_monitor_process(env, h, &o->owner, &h->monitor) != 0) {
        kymo_recorder_stop_async(h->rec, KYMO_R_OWNER);
    }
    result = ok(env, nif_handle_term(env, h));
out:
    if (h != NULL) {
        enif_release_resource(h);
    }
    if (o != NULL) {
        enif_free(o);
    }
    return result;
}

/* ---- stop, pause, resume, snapshot ---------------------------------------------- */

ERL_NIF_TERM nif_stop(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    struct nif_handle *h = nif_handle_of(env, argv[0]);
    if (h == NULL) {
        return enif_make_badarg(env);
    }
    int err = kymo_recorder_stop(h->rec, KYMO_R_STOP);
    if (err == -EALREADY) {
        return error(env, nif_am.already_stopped);
    }
    return err == 0 ? nif_am.ok : error(env, nif_errno(env, -err));
}

static ERL_NIF_TERM change(ErlNifEnv *env, ERL_NIF_TERM state, int (*f)(struct kymo_recorder *),
                           ERL_NIF_TERM already)
{
    struct nif_handle *h = nif_handle_of(env, state);
    if (h == NULL) {
        return enif_make_badarg(env);
    }
    int err = f(h->rec);
    switch (-err) {
    case 0: return nif_am.ok;
    case EALREADY: return error(env, already);
    case ESHUTDOWN: return error(env, nif_am.stopped);
    default: return error(env, nif_errno(env, -err));
    }
}

ERL_NIF_TERM nif_pause(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    return change(env, argv[0], kymo_recorder_pause, nif_am.already_paused);
}

ERL_NIF_TERM nif_resume(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    return change(env, argv[0], kymo_recorder_resume, nif_am.not_paused);
}

ERL_NIF_TERM nif_let_go(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    return change(env, argv[0], kymo_recorder_let_go, nif_am.ok); /* never -EALREADY */
}

ERL_NIF_TERM nif_snapshot(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    uint64_t segments = 0, events = 0;
    struct nif_handle *h = nif_handle_of(env, argv[0]);
    if (h == NULL) {
        return enif_make_badarg(env);
    }
    char *dir = enif_alloc(NIF_PATH_MAX);
    if (dir == NULL) {
        return error(env, nif_errno(env, ENOMEM));
    }
    if (!nif_path(env, argv[1], dir)) {
        enif_free(dir);
        return error(env, enif_make_tuple3(env, nif_am.bad_option, nif_am.dir, argv[1]));
    }
    int err = kymo_recorder_snapshot(h->rec, dir, &segments, &events);
    enif_free(dir);
    if (err != 0) {
        return error(env, nif_errno(env, -err));
    }
    ERL_NIF_TERM map = enif_make_new_map(env);
    enif_make_map_put(env, map, nif_am.segments, enif_make_uint64(env, segments), &map);
    enif_make_map_put(env, map, nif_am.events, enif_make_uint64(env, events), &map);
    return ok(env, map);
}

/* ---- processes --------------------------------------------------------------------- */

/* True for a pid of any node, a registered name, or `undefined`. */
static bool is_relative(ErlNifEnv *env, ERL_NIF_TERM t)
{
    return nif_is_atom(t) || enif_is_pid(env, t);
}

ERL_NIF_TERM nif_define_process(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    struct nif_handle *h = nif_handle_of(env, argv[0]);
    const ERL_NIF_TERM *el;
    int n;
    unsigned arity = 0;
    bool has_mfa = argv[3] != nif_am.undefined;
    ErlNifBinary text = {.data = NULL};
    if (h == NULL || !(nif_is_local_pid(argv[1]) || nif_is_local_port(argv[1]))) {
        return enif_make_badarg(env);
    }
    if (!nif_is_atom(argv[2]) && (!enif_inspect_binary(env, argv[2], &text) || text.size >= NIF_ATOM_MAX)) {
        return enif_make_badarg(env);
    }
    if (has_mfa && (!enif_get_tuple(env, argv[3], &n, &el) || n != 3 || !nif_is_atom(el[0]) ||
                    !nif_is_atom(el[1]) || !enif_get_uint(env, el[2], &arity) || arity > 255)) {
        return enif_make_badarg(env);
    }
    if (!is_relative(env, argv[4]) || !is_relative(env, argv[5])) {
        return enif_make_badarg(env);
    }
    struct nif_event ev = {.env = env, .h = h, .w = kymo_writer_borrow(h->rec)};
    if (ev.w == NULL) {
        return error(env, kymo_recorder_ended(h->rec) ? nif_am.stopped : nif_am.not_recorded);
    }
    struct kymo_described process = {.ident = nif_ident(&ev, argv[1])};
    if (text.data != NULL) {
        process.name = nif_text_id(&ev, &text);
    } else if (argv[2] != nif_am.undefined) {
        process.name = nif_atom_id(&ev, argv[2]);
    }
    process.mfa = has_mfa ? nif_mfa_id(&ev, el[0], el[1], arity) : 0;
    process.parent = nif_ident(&ev, argv[4]);
    process.caller = nif_ident(&ev, argv[5]);
    bool done = kymo_dict_process(ev.w, &process);
    kymo_writer_put(ev.w);
    return done ? nif_am.ok : error(env, nif_am.dict_full);
}

/* ---- settings that other tracers removed ---------------------------------------------- */

ERL_NIF_TERM nif_note_taken(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    struct nif_handle *h = nif_handle_of(env, argv[0]);
    ErlNifUInt64 n;
    if (h == NULL || !enif_get_uint64(env, argv[1], &n)) {
        return enif_make_badarg(env);
    }
    kymo_recorder_note_taken(h->rec, n);
    return nif_am.ok;
}

ERL_NIF_TERM nif_note_measures(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    struct nif_handle *h = nif_handle_of(env, argv[0]);
    ErlNifBinary text;
    if (h == NULL || !enif_inspect_binary(env, argv[1], &text) ||
        !kymo_recorder_note_measures(h->rec, (const char *)text.data, text.size)) {
        return enif_make_badarg(env);
    }
    return nif_am.ok;
}
