/* SPDX-License-Identifier: Apache-2.0
 *
 * Slow requests or calls and their explanations, for kymo why and kymo report. One thread.
 */
#ifndef KYMO_CLI_WHY_H
#define KYMO_CLI_WHY_H

#include "analyse.h"
#include "kymo_why.h"

/* A request or a call to explain; times of CLOCK_MONOTONIC. */
struct cli_why_target {
    uint64_t process, server; /* server: KYMO_IDENT_NONE for a call */
    uint32_t mfa;
    uint32_t ahead;
    int64_t start, end;
    struct kymo_request request; /* all zero for a call */
    bool cast;
};

/* Called with each answer, which is valid only during the call. */
typedef void (*cli_why_answered)(void *arg, const struct cli_why_target *t,
                                 const struct kymo_why_answer *answer);
/* Explains n targets, in order. Reads the recording once more, up to the end of the last target.
 * If the facts are too many to be kept at once, reads it once for each half of the targets, and
 * so on. Returns 0, or an exit status after a message. */
int cli_why_explain(struct cli_analysis *a, const struct cli_why_target *targets, size_t n,
                    cli_why_answered answered, void *arg);
/* A JSON object, without a key. */
void cli_why_json(const struct cli_analysis *a, const struct cli_why_target *t,
                  const struct kymo_why_answer *answer);

#endif
