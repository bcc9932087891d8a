/* SPDX-License-Identifier: Apache-2.0
 *
 * Determines which request was made while another one was handled, and the ids of their spans.
 * The first pass fills the table, then kymo_otlp_chains_link computes the chains. After that,
 * only the notes of the second pass change. Single-threaded.
 */
#ifndef KYMO_OTLP_CHAINS_H
#define KYMO_OTLP_CHAINS_H

#include "kymo_analysis.h"
#include "kymo_map.h"

struct kymo_otlp_request {
    uint64_t id;  /* of the analysis */
    uint64_t key; /* id of its span, never 0; those of its parts derive from it */
    uint64_t client, server;
    uint64_t handler, waiter; /* as in struct kymo_request */
    int64_t sent, handled;
    int64_t until;   /* end of its handling; INT64_MAX: after the recording; KYMO_NO_TIME: unknown */
    uint32_t parent; /* index + 1 of the request that was handled when it was made; 0 = none */
    uint32_t root;   /* index of the first request of its chain */
    uint32_t inner;  /* number of spans of calls and collections in it so far, for their ids */
};

/* The span in which a request was made. */
struct kymo_otlp_waiter {
    uint64_t span;    /* its id in the export, 0 = none */
    uint32_t request; /* index + 1 of the request that contains it */
};

struct kymo_otlp_chains {
    uint8_t uuid[16];            /* of the recording: part of every id */
    struct kymo_otlp_request *q; /* by id once linked */
    uint32_t n, room;
    uint32_t *by_server;        /* indices, by (server, handled) */
    struct kymo_map handlers;   /* id of a span -> index + 1 of the request that it handles */
    struct kymo_map waiters;    /* id of a span -> struct kymo_otlp_waiter */
    struct kymo_map open;       /* first pass: set of the open spans */
    struct kymo_map unfinished; /* first pass: span of a handler -> index + 1 */
    uint64_t left_out;
    bool failed; /* no memory */
};

void kymo_otlp_chains_init(struct kymo_otlp_chains *c, const struct kymo_reader *r);
void kymo_otlp_chains_free(struct kymo_otlp_chains *c);
/* The sink for the first pass. */
struct kymo_analysis_sink kymo_otlp_chains_sink(struct kymo_otlp_chains *c);
/* Returns 0 or -ENOMEM. */
int kymo_otlp_chains_link(struct kymo_otlp_chains *c);

/* The request with this id, or NULL. */
struct kymo_otlp_request *kymo_otlp_find(const struct kymo_otlp_chains *c, uint64_t id);
/* The newest request that `process` was handling at this time, or NULL. Unless sent is
 * KYMO_NO_TIME, only requests that were made before (sent, id) are considered. */
struct kymo_otlp_request *kymo_otlp_handled_at(const struct kymo_otlp_chains *c, uint64_t process, int64_t at,
                                               int64_t sent, uint64_t id);
/* Stores up to `most` requests that the server of q handled while q was queued, newest first.
 * Returns their total number. */
size_t kymo_otlp_ahead(const struct kymo_otlp_chains *c, const struct kymo_otlp_request *q,
                       const struct kymo_otlp_request **out, size_t most);

/* Ids: the halves of a trace id, which are not both 0; the id of part `part` of the span `key`,
 * which is never 0. */
void kymo_otlp_trace_id(const struct kymo_otlp_chains *c, const struct kymo_otlp_request *q, uint64_t id[2]);
/* The trace of a slow call that belongs to no request. */
void kymo_otlp_slow_trace(const struct kymo_otlp_chains *c, uint64_t process, uint32_t mfa, int64_t start,
                          uint64_t id[2]);
uint64_t kymo_otlp_part_id(uint64_t key, uint64_t part);

#endif
