/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over requests by server, and the slowest requests: what kymo requests and kymo
 * report show. One thread.
 */
#ifndef KYMO_CLI_REQUESTS_H
#define KYMO_CLI_REQUESTS_H

#include "analyse.h"
#include "request_list.h"

struct cli_requests {
    struct cli_analysis *a;
    struct kymo_map servers; /* role -> sums (cmd_requests.c) */
    struct cli_slowest slowest;
    struct cli_request_list kept; /* requests of the second pass, for the tree */
    struct kymo_map shown;        /* set of the ids of requests printed below others */
    int64_t kept_from, kept_to;
    uint64_t requests, open;
    size_t inner; /* requests printed below the current one */
    bool casts, tree, failed;
};

/* 0, or an exit status; free in both cases. The number of slowest requests is a->top. */
int cli_requests_init(struct cli_requests *c, struct cli_analysis *a);
void cli_requests_free(struct cli_requests *c);
struct kymo_analysis_sink cli_requests_sink(struct cli_requests *c);
/* Prints text or, with a->json, one JSON object without a newline. Returns an exit status. */
int cli_requests_show(struct cli_requests *c);

#endif
