/* SPDX-License-Identifier: Apache-2.0 */
#include "nif_open.h"

#include <string.h>

#include "nif_atoms.h"
#include "nif_raw.h"
#include "nif_tags.h"

enum { SIZE_LIMIT_DEFAULT = 256, SIZE_LIMIT_MAX = 1000000 };

/* Option values that depend on other options. */
struct reading {
    ErlNifEnv *env;
    struct nif_open *o;
    struct nif_handle *h;
    bool has_dir, has_tags, has_content;
};

static bool in_range(ErlNifEnv *env, ERL_NIF_TERM t, uint64_t min, uint64_t max, uint64_t *out)
{
    ErlNifUInt64 v;
    if (!enif_get_uint64(env, t, &v) || v < min || v > max) {
        return false;
    }
    *out = v;
    return true;
}

static bool in_range32(ErlNifEnv *env, ERL_NIF_TERM t, uint32_t min, uint32_t max, uint32_t *out)
{
    uint64_t v;
    if (!in_range(env, t, min, max, &v)) {
        return false;
    }
    *out = (uint32_t)v;
    return true;
}

/* One of two atoms; *second says which. */
static bool either(ERL_NIF_TERM t, ERL_NIF_TERM a, ERL_NIF_TERM b, bool *second)
{
    *second = t == b;
    return t == a || t == b;
}

bool nif_path(ErlNifEnv *env, ERL_NIF_TERM t, char out[static NIF_PATH_MAX])
{
    ErlNifBinary bin;
    if (!enif_inspect_binary(env, t, &bin) || bin.size == 0 || bin.size >= NIF_PATH_MAX ||
        memchr(bin.data, 0, bin.size) != NULL) {
        return false;
    }
    memcpy(out, bin.data, bin.size);
    out[bin.size] = 0;
    return true;
}

static bool read_tags(struct reading *r, ERL_NIF_TERM t)
{
    ERL_NIF_TERM head, tail;
    r->has_tags = true;
    if (t == nif_am.all) {
        nif_tags_all(r->h);
        return true;
    }
    while (enif_get_list_cell(r->env, t, &head, &tail)) {
        if (!nif_tags_add(r->h, head)) {
            return false;
        }
        t = tail;
    }
    return enif_is_empty_list(r->env, t);
}

static bool read_sample(struct reading *r, ERL_NIF_TERM t)
{
    const ERL_NIF_TERM *el;
    int n;
    struct kymo_options *e = &r->o->engine;
    e->sample_kind = 0;
    if (enif_get_tuple(r->env, t, &n, &el)) {
        if (n != 2 || el[0] != nif_am.process) {
            return false;
        }
        e->sample_kind = 1;
        t = el[1];
    }
    return in_range32(r->env, t, 1, 1u << 30, &e->sample);
}

static bool read_limit(struct reading *r, ERL_NIF_TERM t)
{
    ErlNifMapIterator it;
    ERL_NIF_TERM key, value;
    struct kymo_options *e = &r->o->engine;
    uint64_t ms;
    bool ok = true;
    if (!enif_is_map(r->env, t) || !enif_map_iterator_create(r->env, t, &it, ERL_NIF_MAP_ITERATOR_FIRST)) {
        return false;
    }
    for (; ok && enif_map_iterator_get_pair(r->env, &it, &key, &value); enif_map_iterator_next(r->env, &it)) {
        if (key == nif_am.bytes) {
            ok = value == nif_am.infinity || in_range(r->env, value, 1, UINT64_MAX >> 1, &e->limit_bytes);
        } else if (key == nif_am.events) {
            ok = value == nif_am.infinity || in_range(r->env, value, 1, UINT64_MAX >> 1, &e->limit_events);
        } else if (key == nif_am.duration) {
            ok = value == nif_am.infinity || in_range(r->env, value, 1, UINT64_C(1) << 40, &ms);
            if (ok && value != nif_am.infinity) {
                e->limit_ns = ms * 1000000u;
            }
        } else {
            ok = false;
        }
    }
    enif_map_iterator_destroy(r->env, &it);
    return ok;
}

static bool read_detail(struct reading *r, ERL_NIF_TERM t, ERL_NIF_TERM off, ERL_NIF_TERM on, uint32_t bits)
{
    bool yes;
    if (!either(t, off, on, &yes)) {
        return false;
    }
    r->h->detail = yes ? r->h->detail | bits : r->h->detail & ~bits;
    return true;
}

static bool read_messages(struct reading *r, ERL_NIF_TERM t)
{
    uint32_t bits = t == nif_am.size ? KYMO_D_MSG_SIZE : KYMO_D_MSG_SIZE | KYMO_D_MSG;
    r->h->detail &= ~(uint32_t)(KYMO_D_MSG_SIZE | KYMO_D_MSG);
    if (t == nif_am.none) {
        return true;
    }
    r->h->detail |= bits;
    return t == nif_am.size || t == nif_am.contents;
}

static bool read_clock(struct reading *r, ERL_NIF_TERM t)
{
    r->o->engine.clock = t == nif_am.monotonic ? KYMO_CLOCK_MONOTONIC : KYMO_CLOCK_COUNTER;
    return t == nif_am.monotonic || t == nif_am.auto_ || t == nif_am.counter;
}

static bool read_policy(struct reading *r, ERL_NIF_TERM t)
{
    bool discard;
    bool ok = either(t, nif_am.overwrite, nif_am.discard, &discard);
    r->o->engine.policy = discard ? KYMO_DISCARD : KYMO_OVERWRITE;
    return ok;
}

static bool read_seconds(struct reading *r, ERL_NIF_TERM t, uint64_t *ns)
{
    uint64_t s;
    if (!in_range(r->env, t, 1, 1000000000, &s)) {
        return false;
    }
    *ns = s * 1000000000u;
    return true;
}

static bool read_owner(struct reading *r, ERL_NIF_TERM t)
{
    r->o->has_owner = true;
    return enif_get_local_pid(r->env, t, &r->o->owner) != 0;
}

static bool read_content(struct reading *r, ERL_NIF_TERM t)
{
    r->has_content = true;
    return in_range32(r->env, t, 0, KYMO_CONTENT_MAX, &r->h->content_max);
}

static bool is_power_of_two(uint32_t v)
{
    return (v & (v - 1)) == 0;
}

/* 1: done, 0: bad value, -1: no such key. */
static int read_option(struct reading *r, ERL_NIF_TERM key, ERL_NIF_TERM v)
{
    struct kymo_options *e = &r->o->engine;
    ErlNifEnv *env = r->env;
    if (key == nif_am.dir) {
        r->has_dir = true;
        return nif_path(env, v, r->o->dir);
    }
    if (key == nif_am.policy) {
        return read_policy(r, v);
    }
    if (key == nif_am.clock) {
        return read_clock(r, v);
    }
    if (key == nif_am.segment_size) {
        return in_range32(env, v, KYMO_SEGMENT_MIN, KYMO_SEGMENT_MAX, &e->segment_bytes) &&
               is_power_of_two(e->segment_bytes);
    }
    if (key == nif_am.memory) {
        return in_range(env, v, 1, UINT64_C(1) << 42, &e->memory);
    }
    if (key == nif_am.dict_size) {
        return in_range(env, v, KYMO_DICT_MIN, KYMO_DICT_MAX, &e->dict_bytes);
    }
    if (key == nif_am.events) {
        return read_tags(r, v);
    }
    if (key == nif_am.calls) {
        return read_detail(r, v, nif_am.arity, nif_am.arguments, KYMO_D_ARGS);
    }
    if (key == nif_am.returns) {
        return read_detail(r, v, nif_am.none, nif_am.values, KYMO_D_RETURNS);
    }
    if (key == nif_am.messages) {
        return read_messages(r, v);
    }
    if (key == nif_am.terms) {
        return read_detail(r, v, nif_am.none, nif_am.contents, KYMO_D_TERMS);
    }
    if (key == nif_am.gc) {
        return read_detail(r, v, nif_am.none, nif_am.sizes, KYMO_D_GC_SIZES);
    }
    if (key == nif_am.content_bytes) {
        return read_content(r, v);
    }
    if (key == nif_am.size_limit) {
        return in_range32(env, v, 1, SIZE_LIMIT_MAX, &r->h->size_limit);
    }
    if (key == nif_am.sample) {
        return read_sample(r, v);
    }
    if (key == nif_am.limit) {
        return read_limit(r, v);
    }
    if (key == nif_am.file_size) {
        return in_range(env, v, KYMO_SEGMENT_MIN, UINT64_MAX >> 1, &e->file_bytes);
    }
    if (key == nif_am.file_age) {
        return read_seconds(r, v, &e->file_ns);
    }
    if (key == nif_am.max_files) {
        return in_range32(env, v, 1, 1000000, &e->max_files);
    }
    if (key == nif_am.owner) {
        return read_owner(r, v);
    }
    return -1;
}

static ERL_NIF_TERM bad_option(ErlNifEnv *env, ERL_NIF_TERM map, ERL_NIF_TERM key)
{
    ERL_NIF_TERM value;
    if (!enif_get_map_value(env, map, key, &value)) {
        value = nif_am.undefined;
    }
    return enif_make_tuple3(env, nif_am.bad_option, key, value);
}

/* Evaluates options that depend on each other. */
static ERL_NIF_TERM put_together(struct reading *r, ERL_NIF_TERM map)
{
    struct kymo_options *e = &r->o->engine;
    if (!r->has_dir) {
        return bad_option(r->env, map, nif_am.dir);
    }
    if (!r->has_tags) {
        nif_tags_all(r->h);
    }
    if (e->segment_bytes != 0 && r->h->content_max > e->segment_bytes / 4) {
        if (r->has_content) {
            return bad_option(r->env, map, nif_am.content_bytes);
        }
        r->h->content_max = e->segment_bytes / 4;
    }
    e->dir = r->o->dir;
    e->detail = r->h->detail;
    e->exact = nif_raw_exact();
    e->content_max = r->h->content_max;
    if (e->sample_kind == 1) {
        r->h->sample_process = e->sample;
    }
    return 0;
}

ERL_NIF_TERM nif_open_options(ErlNifEnv *env, ERL_NIF_TERM map, struct nif_open *o, struct nif_handle *h)
{
    struct reading r = {.env = env, .o = o, .h = h};
    ErlNifMapIterator it;
    ERL_NIF_TERM key, value;
    ERL_NIF_TERM error = 0;
    kymo_options_init(&o->engine);
    o->has_owner = false;
    h->detail = o->engine.detail;
    h->content_max = o->engine.content_max;
    h->size_limit = SIZE_LIMIT_DEFAULT;
    h->sample_process = 1;
    if (!enif_map_iterator_create(env, map, &it, ERL_NIF_MAP_ITERATOR_FIRST)) {
        return enif_make_tuple3(env, nif_am.bad_option, nif_am.dir, nif_am.undefined);
    }
    while (error == 0 && enif_map_iterator_get_pair(env, &it, &key, &value)) {
        int n = read_option(&r, key, value);
        if (n < 0) {
            error = enif_make_tuple2(env, nif_am.unknown_option, key);
        } else if (n == 0) {
            error = enif_make_tuple3(env, nif_am.bad_option, key, value);
        }
        enif_map_iterator_next(env, &it);
    }
    enif_map_iterator_destroy(env, &it);
    return error != 0 ? error : put_together(&r, map);
}
