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
    int64_t until;   /* its handling ended; INT64_MAX: not in the recording; KYMO_NO_TIME: not known */
    uint32_t parent; /* index + 1 of the request that was handled when it was made; 0 = none */
    uint32_t root;   /* index of the first one of its chain */
    uint32_t inner;  /* spans of calls and collections in it so far, for their ids */
};

/* The span that a request was made in. */
struct kymo_otlp_waiter {
    uint64_t span;    /* its id in the export, 0 = it has none */
    uint32_t request; /* index + 1 of the request that it is part of */
};

struct kymo_otlp_chains {
    uint8_t uuid[16];            /* of the recording: part of every id */
    struct kymo_otlp_request *q; /* by id once linked */
    uint32_t n, room;
    uint32_t *by_server;        /* indices, by (server, handled) */
    struct kymo_map handlers;   /* id of a span -> index + 1 of the request it handles */
    struct kymo_map waiters;    /* id of a span -> struct kymo_otlp_waiter */
    struct kymo_map open;       /* first reading: set of the open spans */
    struct kymo_map unfinished; /* first reading: span of a handler -> index + 1 */
    uint64_t left_out;
    bool failed; /* no memory */
};

void kymo_otlp_chains_init(struct kymo_otlp_chains *c, const struct kymo_reader *r);
void kymo_otlp_chains_free(struct kymo_otlp_chains *c);
/* For the first reading. */
struct kymo_analysis_sink kymo_otlp_chains_sink(struct kymo_otlp_chains *c);
/* 0 or -ENOMEM. */
int kymo_otlp_chains_link(struct kymo_otlp_chains *c);

/* The request with this id, or NULL. */
struct kymo_otlp_request *kymo_otlp_find(const struct kymo_otlp_chains *c, uint64_t id);
/* The request that `process` handled at this time, the newest when there are several;
 * NULL: none. It was made before (sent, id), or is any if sent is KYMO_NO_TIME. */
struct kymo_otlp_request *kymo_otlp_handled_at(const struct kymo_otlp_chains *c, uint64_t process, int64_t at,
                                               int64_t sent, uint64_t id);
/* Requests that the server of q handled while q waited for it, the newest first, at most
 * `most` of them; returns how many there were. */
size_t kymo_otlp_ahead(const struct kymo_otlp_chains *c, const struct kymo_otlp_request *q,
                       const struct kymo_otlp_request **out, size_t most);

/* Ids. The halves of the id of a trace, not both 0; the id of part `part` of the span
 * `key`, never 0. */
void kymo_otlp_trace_id(const struct kymo_otlp_chains *c, const struct kymo_otlp_request *q, uint64_t id[2]);
uint64_t kymo_otlp_part_id(uint64_t key, uint64_t part);

#endif
