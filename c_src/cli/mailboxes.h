/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages by receiver, for kymo mailboxes and kymo report. One thread.
 */
#ifndef KYMO_CLI_MAILBOXES_H
#define KYMO_CLI_MAILBOXES_H

#include "analyse.h"

struct cli_mailboxes {
    struct cli_analysis *a;
    struct kymo_map rows;  /* process or role -> its row (cmd_mailboxes.c) */
    struct kymo_map pairs; /* hash of receiver and sender -> number of messages */
    bool by_role, failed;
    uint64_t left_out; /* messages of pairs beyond the maximum */
};

void cli_mailboxes_init(struct cli_mailboxes *x, struct cli_analysis *a);
void cli_mailboxes_free(struct cli_mailboxes *x);
struct kymo_analysis_sink cli_mailboxes_sink(struct cli_mailboxes *x);
/* Prints the table, sorted by the number of messages or by the longest wait: as text or, with
 * a->json, as one JSON object without a newline. To be called once. Returns an exit status. */
int cli_mailboxes_show(struct cli_mailboxes *x, bool by_wait);

#endif
