/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_info.h"

#include <string.h>

#include "nif_atoms.h"
#include "nif_errno.h"
#include "nif_handle.h"
#include "nif_raw.h"

static void put(ErlNifEnv *env, ERL_NIF_TERM *map, ERL_NIF_TERM key, ERL_NIF_TERM value)
{
    enif_make_map_put(env, *map, key, value, map);
}

static void put_count(ErlNifEnv *env, ERL_NIF_TERM *map, ERL_NIF_TERM key, uint64_t v)
{
    put(env, map, key, enif_make_uint64(env, v));
}

static ERL_NIF_TERM state_atom(enum kymo_state s)
{
    switch (s) {
    case KYMO_IDLE: return nif_am.idle;
    case KYMO_ACTIVE: return nif_am.active;
    case KYMO_PAUSED: return nif_am.paused;
    case KYMO_STOPPING: return nif_am.stopping;
    default: return nif_am.closed;
    }
}

static ERL_NIF_TERM reason_atom(enum kymo_reason r)
{
    switch (r) {
    case KYMO_R_NONE: return nif_am.none;
    case KYMO_R_STOP: return nif_am.stop;
    case KYMO_R_OWNER: return nif_am.owner;
    case KYMO_R_BYTES: return nif_am.bytes;
    case KYMO_R_EVENTS: return nif_am.events;
    case KYMO_R_DURATION: return nif_am.duration;
    case KYMO_R_UNLOAD: return nif_am.unload;
    default: return nif_am.collected;
    }
}

static ERL_NIF_TERM kind_atom(uint32_t kind)
{
    switch (kind) {
    case KYMO_T_SCHEDULER: return nif_am.scheduler;
    case KYMO_T_DIRTY_CPU: return nif_am.dirty_cpu;
    case KYMO_T_DIRTY_IO: return nif_am.dirty_io;
    default: return nif_am.other;
    }
}

static ERL_NIF_TERM lost_map(ErlNifEnv *env, const uint64_t lost[static KYMO_LOSS_CAUSES])
{
    ERL_NIF_TERM map = enif_make_new_map(env);
    put_count(env, &map, nif_am.ring_full, lost[KYMO_LOST_RING_FULL]);
    put_count(env, &map, nif_am.io, lost[KYMO_LOST_IO]);
    put_count(env, &map, nif_am.no_slot, lost[KYMO_LOST_NO_SLOT]);
    put_count(env, &map, nif_am.too_big, lost[KYMO_LOST_TOO_BIG]);
    put_count(env, &map, nif_am.bad_term, lost[KYMO_LOST_BAD_TERM]);
    put_count(env, &map, nif_am.reentry, lost[KYMO_LOST_REENTRY]);
    return map;
}

static ERL_NIF_TERM thread_map(ErlNifEnv *env, const struct kymo_slot *s)
{
    ERL_NIF_TERM map = enif_make_new_map(env);
    ERL_NIF_TERM name;
    size_t n = strnlen(s->thread_name, sizeof s->thread_name);
    unsigned char *bytes = enif_make_new_binary(env, n, &name);
    if (bytes != NULL) {
        memcpy(bytes, s->thread_name, n);
    }
    uint64_t lost[KYMO_LOSS_CAUSES];
    memcpy(lost, s->lost, sizeof lost);
    lost[KYMO_LOST_IO] += s->io_lost;
    put(env, &map, nif_am.kind, kind_atom(s->thread_kind));
    put_count(env, &map, nif_am.number, s->thread_no);
    put(env, &map, nif_am.name, name);
    put_count(env, &map, nif_am.events, s->events);
    put_count(env, &map, nif_am.bytes, s->bytes);
    put_count(env, &map, nif_am.sampled_out, s->sampled_out);
    put_count(env, &map, nif_am.overwritten, s->overwritten);
    put(env, &map, nif_am.lost, lost_map(env, lost));
    return map;
}

static ERL_NIF_TERM threads(ErlNifEnv *env, struct nif_handle *h, uint32_t n)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    while (n-- > 0) {
        struct kymo_slot s;
        if (kymo_recorder_slot(h->rec, n, &s) == 0) {
            list = enif_make_list_cell(env, thread_map(env, &s), list);
        }
    }
    return list;
}

static ERL_NIF_TERM dir_binary(ErlNifEnv *env, const struct nif_handle *h)
{
    ERL_NIF_TERM t;
    size_t n = strlen(h->dir);
    unsigned char *bytes = enif_make_new_binary(env, n, &t);
    if (bytes != NULL) {
        memcpy(bytes, h->dir, n);
    }
    return t;
}

ERL_NIF_TERM nif_info(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    struct nif_handle *h = nif_handle_of(env, argv[0]);
    struct kymo_info i;
    if (h == NULL) {
        return enif_make_badarg(env);
    }
    kymo_recorder_info(h->rec, &i);
    ERL_NIF_TERM dict = enif_make_new_map(env);
    put_count(env, &dict, nif_am.used, i.dict_used);
    put_count(env, &dict, nif_am.size, i.dict_bytes);
    put_count(env, &dict, nif_am.full, i.dict_full);
    ERL_NIF_TERM map = enif_make_new_map(env);
    put(env, &map, nif_am.state, state_atom(i.state));
    put(env, &map, nif_am.reason, reason_atom(i.reason));
    put(env, &map, nif_am.policy, h->policy == KYMO_DISCARD ? nif_am.discard : nif_am.overwrite);
    put(env, &map, nif_am.clock, i.clock == KYMO_CLOCK_COUNTER ? nif_am.counter : nif_am.monotonic);
    put(env, &map, nif_am.terms, nif_layout_known() ? nif_am.native : nif_am.external);
    put(env, &map, nif_am.interface, nif_raw_registered() ? nif_am.raw : nif_am.behaviour);
    put(env, &map, nif_am.dir, dir_binary(env, h));
    put_count(env, &map, nif_am.events, i.events);
    put_count(env, &map, nif_am.bytes, i.bytes);
    put_count(env, &map, nif_am.sampled_out, i.sampled_out);
    put_count(env, &map, nif_am.overwritten, i.overwritten);
    put(env, &map, nif_am.lost, lost_map(env, i.lost));
    put(env, &map, nif_am.dict, dict);
    put_count(env, &map, nif_am.memory, i.memory);
    put_count(env, &map, nif_am.memory_used, i.used);
    put(env, &map, nif_am.complete_from, enif_make_int64(env, i.complete_from_ns + i.wall_offset_ns));
    put(env, &map, nif_am.horizon, enif_make_int64(env, (i.until_ns - i.complete_from_ns) / 1000000));
    put_count(env, &map, nif_am.clock_epochs, i.epochs);
    put_count(env, &map, nif_am.files, i.files);
    put_count(env, &map, nif_am.files_removed, i.files_removed);
    put_count(env, &map, nif_am.events_removed, i.events_removed);
    put(env, &map, nif_am.io_error, i.io_errno == 0 ? nif_am.none : nif_errno(env, (int)i.io_errno));
    put(env, &map, nif_am.threads, threads(env, h, i.slots_used));
    return map;
}
