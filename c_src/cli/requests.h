/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of a recording: the slowest, those that were made for them, and sums by
 * server. For kymo calls and kymo why. One thread.
 */
#ifndef KYMO_CLI_REQUESTS_H
#define KYMO_CLI_REQUESTS_H

#include "analyse.h"
#include "kymo_histogram.h"

/* A list that grows up to `most`, beyond which requests are counted only. */
struct cli_request_list {
    struct kymo_request *q;
    size_t n, room, most;
    uint64_t left_out;
    bool failed;
};
void cli_request_list_add(struct cli_request_list *l, const struct kymo_request *q);
void cli_request_list_free(struct cli_request_list *l);

/* The n slowest so far, the slowest first; n is the room of the array. */
struct cli_slowest {
    struct kymo_request *q;
    size_t n, room;
};
void cli_slowest_add(struct cli_slowest *s, const struct kymo_request *q, int64_t value);

#endif
