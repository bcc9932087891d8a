/* SPDX-License-Identifier: Apache-2.0
 *
 * The slowest request of each server and function, slowest first; if there are no requests with a
 * reply, the slowest call of each function. Those that are part of a slower one are left out. The
 * first is the one that kymo why explains. Single-threaded.
 */
#ifndef KYMO_REPORT_ANSWERS_H
#define KYMO_REPORT_ANSWERS_H

#include "why.h"

enum { ANSWERS_MAX = 5 };

struct report_answers {
    struct cli_analysis *a;
    struct kymo_map requests, calls; /* group -> struct report_group (answers.c) */
    struct report_answer {
        struct cli_why_target target;
        uint64_t n;    /* number of requests or calls in its group */
        int64_t total; /* sum of their durations */
        struct kymo_why_answer *why;
    } answer[ANSWERS_MAX];
    size_t n, explained;
    bool failed; /* out of memory */
};

void report_answers_init(struct report_answers *x, struct cli_analysis *a);
void report_answers_free(struct report_answers *x);
struct kymo_analysis_sink report_answers_sink(struct report_answers *x);
/* Chooses the slowest and explains them, which reads the recording once more. Returns 0 or an exit
 * status. */
int report_answers_explain(struct report_answers *x);
/* JSON: an array of { of: n, of_ns, why: as kymo why --json }. */
void report_answers_json(const struct report_answers *x, const char *key);

#endif
