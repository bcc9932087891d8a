/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of requests, for kymo requests and kymo why: all of them, and the slowest. One thread.
 */
#ifndef KYMO_CLI_REQUEST_LIST_H
#define KYMO_CLI_REQUEST_LIST_H

#include "analyse.h"
#include "kymo_histogram.h"

/* A list that grows up to `most` requests. Further ones are only counted. */
struct cli_request_list {
    struct kymo_request *q;
    size_t n, room, most;
    uint64_t left_out;
    bool failed;
};
void cli_request_list_add(struct cli_request_list *l, const struct kymo_request *q);
void cli_request_list_free(struct cli_request_list *l);

/* The n slowest requests so far, the slowest first. */
struct cli_slowest {
    struct kymo_request *q;
    size_t n, room;
};
void cli_slowest_add(struct cli_slowest *s, const struct kymo_request *q, int64_t value);

#endif
