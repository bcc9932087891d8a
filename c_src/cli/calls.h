/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over requests by server, and the slowest requests: what kymo calls and kymo
 * report show. One thread.
 */
#ifndef KYMO_CLI_CALLS_H
#define KYMO_CLI_CALLS_H

#include "analyse.h"
#include "requests.h"

struct cli_calls {
    struct cli_analysis *a;
    struct kymo_map servers; /* role -> sums (cmd_calls.c) */
    struct cli_slowest slowest;
    struct cli_request_list kept; /* requests of the second pass, for the tree */
    struct kymo_map shown;        /* set of the ids of requests printed below others */
    int64_t kept_from, kept_to;
    uint64_t requests, open;
    size_t inner; /* requests printed below the current one */
    bool casts, tree, failed;
};

/* 0, or an exit status; free in both cases. The number of slowest requests is a->top. */
int cli_calls_init(struct cli_calls *c, struct cli_analysis *a);
void cli_calls_free(struct cli_calls *c);
struct kymo_analysis_sink cli_calls_sink(struct cli_calls *c);
/* Prints text or, with a->json, one JSON object without a newline. Returns an exit status. */
int cli_calls_show(struct cli_calls *c);

#endif
