/* SPDX-License-Identifier: Apache-2.0 */
#include "otlp_chains.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_otlp.h"

/* The maximum number of requests of one server that are searched, the newest first, for one that
 * was handled at a given time: a server may have many without a reply. */
enum { LOOK_BACK = 256 };

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0xff51afd7ed558ccd);
    h ^= h >> 33;
    h *= UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ h >> 29;
}

uint64_t kymo_otlp_part_id(uint64_t key, uint64_t part)
{
    uint64_t id = mix(mix(UINT64_C(0x6b796d6f), key), part);
    return id != 0 ? id : 1;
}

static uint64_t of_recording(const struct kymo_otlp_chains *c)
{
    uint64_t half[2];
    memcpy(half, c->uuid, sizeof half);
    return mix(mix(1, half[0]), half[1]);
}

void kymo_otlp_trace_id(const struct kymo_otlp_chains *c, const struct kymo_otlp_request *q, uint64_t id[2])
{
    id[0] = mix(of_recording(c), c->q[q->root].key);
    id[1] = kymo_otlp_part_id(c->q[q->root].key, UINT64_MAX);
}

void kymo_otlp_slow_trace(const struct kymo_otlp_chains *c, uint64_t process, uint32_t mfa, int64_t start,
                          uint64_t id[2])
{
    id[0] = mix(mix(of_recording(c), process), (uint64_t)start);
    id[1] = kymo_otlp_part_id(id[0], mfa);
}

/* Computes the key from the data of the request, not from its position in the recording, so that
 * the request has the same id in a later snapshot of the node. */
static uint64_t key_of(const struct kymo_otlp_chains *c, const struct kymo_request *q)
{
    uint64_t key = mix(mix(of_recording(c), q->kind), q->client);
    return mix(mix(key, (uint64_t)q->sent), q->ref);
}

/* ---- the first reading ---- */

static void on_span_open(void *arg, const struct kymo_span *s)
{
    struct kymo_otlp_chains *c = arg;
    c->failed = c->failed || kymo_map_put(&c->open, s->id, NULL) == NULL;
}

static void on_span(void *arg, const struct kymo_span *s)
{
    struct kymo_otlp_chains *c = arg;
    const uint32_t *place = kymo_map_get(&c->unfinished, s->id);
    kymo_map_remove(&c->open, s->id);
    if (place == NULL)
        return;
    c->q[*place - 1].until = s->ended == KYMO_SPAN_OPEN ? INT64_MAX : s->end;
    kymo_map_remove(&c->unfinished, s->id);
}

static struct kymo_otlp_request *new_request(struct kymo_otlp_chains *c)
{
    if (c->n == KYMO_OTLP_REQUESTS) {
        c->left_out++;
        return NULL;
    }
    if (c->n == c->room) {
        uint32_t room = c->room == 0 ? 1024 : c->room * 2;
        struct kymo_otlp_request *more = realloc(c->q, room * sizeof *more);
        if (more == NULL) {
            c->failed = true;
            return NULL;
        }
        c->q = more;
        c->room = room;
    }
    return &c->q[c->n++];
}

static void on_request(void *arg, const struct kymo_request *q)
{
    struct kymo_otlp_chains *c = arg;
    struct kymo_otlp_request *r = new_request(c);
    if (r == NULL)
        return;
    *r = (struct kymo_otlp_request){.id = q->id,
                                    .key = key_of(c, q),
                                    .client = q->client,
                                    .server = q->server,
                                    .handler = q->handler,
                                    .waiter = q->waiter,
                                    .sent = q->sent,
                                    .handled = q->handled,
                                    .until = kymo_request_done(q)};
    if (q->handler == 0 || kymo_map_get(&c->open, q->handler) == NULL)
        return;
    uint32_t *place = kymo_map_put(&c->unfinished, q->handler, NULL); /* it goes on */
    if (place != NULL)
        *place = c->n;
    else
        c->failed = true;
}

struct kymo_analysis_sink kymo_otlp_chains_sink(struct kymo_otlp_chains *c)
{
    return (struct kymo_analysis_sink){
        .arg = c, .span_open = on_span_open, .span = on_span, .request = on_request};
}

void kymo_otlp_chains_init(struct kymo_otlp_chains *c, const struct kymo_reader *r)
{
    memset(c, 0, sizeof *c);
    memcpy(c->uuid, kymo_reader_meta(r)->uuid, sizeof c->uuid);
    kymo_map_init(&c->handlers, sizeof(uint32_t));
    kymo_map_init(&c->waiters, sizeof(struct kymo_otlp_waiter));
    kymo_map_init(&c->open, 0);
    kymo_map_init(&c->unfinished, sizeof(uint32_t));
}

void kymo_otlp_chains_free(struct kymo_otlp_chains *c)
{
    kymo_map_free(&c->handlers);
    kymo_map_free(&c->waiters);
    kymo_map_free(&c->open);
    kymo_map_free(&c->unfinished);
    free(c->q);
    free(c->by_server);
    c->q = NULL;
    c->by_server = NULL;
}

/* ---- order ---- */

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_times(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_id(const void *a, const void *b)
{
    return compare(((const struct kymo_otlp_request *)a)->id, ((const struct kymo_otlp_request *)b)->id);
}

static int by_key(const void *a, const void *b)
{
    const struct kymo_otlp_request *x = a, *y = b;
    return x->key != y->key ? compare(x->key, y->key) : compare(x->id, y->id);
}

static int by_server(const void *a, const void *b, void *requests)
{
    const struct kymo_otlp_request *q = requests;
    const struct kymo_otlp_request *x = &q[*(const uint32_t *)a], *y = &q[*(const uint32_t *)b];
    if (x->server != y->server)
        return compare(x->server, y->server);
    return x->handled != y->handled ? compare_times(x->handled, y->handled) : compare(x->id, y->id);
}

/* Made before (sent, id)? Chains go back in this order, so they end. */
static bool earlier(const struct kymo_otlp_request *q, int64_t sent, uint64_t id)
{
    return q->sent != sent ? q->sent < sent : q->id < id;
}

static int by_time(const void *a, const void *b, void *requests)
{
    const struct kymo_otlp_request *q = requests;
    const struct kymo_otlp_request *x = &q[*(const uint32_t *)a], *y = &q[*(const uint32_t *)b];
    return x->sent != y->sent ? compare_times(x->sent, y->sent) : compare(x->id, y->id);
}

/* ---- chains ---- */

/* The number of requests in by_server that are not after (server, at). */
static uint32_t not_after(const struct kymo_otlp_chains *c, uint64_t server, int64_t at)
{
    uint32_t low = 0, high = c->n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct kymo_otlp_request *q = &c->q[c->by_server[mid]];
        if (q->server < server || (q->server == server && q->handled <= at))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct kymo_otlp_request *kymo_otlp_handled_at(const struct kymo_otlp_chains *c, uint64_t process, int64_t at,
                                               int64_t sent, uint64_t id)
{
    uint32_t i = not_after(c, process, at);
    for (uint32_t looked = 0; i > 0 && looked < LOOK_BACK; looked++) {
        struct kymo_otlp_request *q = &c->q[c->by_server[--i]];
        if (q->server != process || q->handled == KYMO_NO_TIME)
            return NULL;
        if (q->until != KYMO_NO_TIME && q->until >= at && (sent == KYMO_NO_TIME || earlier(q, sent, id)))
            return q;
    }
    return NULL;
}

size_t kymo_otlp_ahead(const struct kymo_otlp_chains *c, const struct kymo_otlp_request *q,
                       const struct kymo_otlp_request **out, size_t most)
{
    size_t n = 0;
    for (uint32_t i = not_after(c, q->server, q->handled), looked = 0; i > 0 && looked < LOOK_BACK;
         looked++) {
        const struct kymo_otlp_request *before = &c->q[c->by_server[--i]];
        if (before->server != q->server || before->handled == KYMO_NO_TIME)
            break;
        if (before == q || before->until == KYMO_NO_TIME || before->until > q->handled)
            continue;
        if (before->until <= q->sent)
            break;
        if (n < most)
            out[n] = before;
        n++;
    }
    return n;
}

struct kymo_otlp_request *kymo_otlp_find(const struct kymo_otlp_chains *c, uint64_t id)
{
    struct kymo_otlp_request wanted = {.id = id};
    return c->n > 0 ? bsearch(&wanted, c->q, c->n, sizeof *c->q, by_id) : NULL;
}

/* Requests with equal keys, such as casts of one process in the same nanosecond, are
 * distinguished by their order. */
static void make_keys_unique(struct kymo_otlp_chains *c)
{
    qsort(c->q, c->n, sizeof *c->q, by_key);
    uint64_t same = 0, key = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        same = i > 0 && c->q[i].key == key ? same + 1 : 0;
        key = c->q[i].key;
        c->q[i].key = kymo_otlp_part_id(key, same);
    }
}

static int note_spans(struct kymo_otlp_chains *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const struct kymo_otlp_request *q = &c->q[i];
        uint32_t *place = q->handler != 0 ? kymo_map_put(&c->handlers, q->handler, NULL) : NULL;
        if (place != NULL)
            *place = i + 1;
        if ((q->handler != 0 && place == NULL) ||
            (q->waiter != 0 && kymo_map_put(&c->waiters, q->waiter, NULL) == NULL))
            return -ENOMEM;
    }
    return 0;
}

int kymo_otlp_chains_link(struct kymo_otlp_chains *c)
{
    uint32_t *order = malloc((c->n + 1) * sizeof *order);
    c->by_server = malloc((c->n + 1) * sizeof *c->by_server);
    if (c->failed || order == NULL || c->by_server == NULL) {
        free(order);
        return -ENOMEM;
    }
    if (c->n > 0) {
        make_keys_unique(c);
        qsort(c->q, c->n, sizeof *c->q, by_id);
    }
    for (uint32_t i = 0; i < c->n; i++)
        order[i] = c->by_server[i] = i;
    if (c->n > 0) {
        qsort_r(c->by_server, c->n, sizeof *c->by_server, by_server, c->q);
        qsort_r(order, c->n, sizeof *order, by_time, c->q);
    }
    for (uint32_t i = 0; i < c->n; i++) {
        struct kymo_otlp_request *q = &c->q[order[i]];
        const struct kymo_otlp_request *in = kymo_otlp_handled_at(c, q->client, q->sent, q->sent, q->id);
        q->parent = in != NULL ? (uint32_t)(in - c->q) + 1 : 0;
        q->root = in != NULL ? in->root : order[i]; /* that of an earlier one is known */
    }
    free(order);
    kymo_map_free(&c->open);
    kymo_map_free(&c->unfinished);
    return note_spans(c);
}
