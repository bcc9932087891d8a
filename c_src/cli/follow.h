/* SPDX-License-Identifier: Apache-2.0
 *
 * Following a recording that is being written: it is opened again and again, and of each
 * thread what comes after the newest event seen so far is new. One thread.
 */
#ifndef KYMO_CLI_FOLLOW_H
#define KYMO_CLI_FOLLOW_H

#include "kymo_cli.h"

/* Where a thread of the recording was left: events of one thread never go back in time. */
struct cli_place {
    uint64_t ticks; /* of its newest event that was seen */
    uint64_t n;     /* how many with that time were seen */
    uint64_t left;  /* of these, still to come again in this round */
};

struct cli_follow {
    struct cli_place *places; /* by slot */
    uint64_t *before;         /* by slot: events before this time were seen */
    uint32_t n_slots;
    uint64_t newest; /* ticks of the newest event that was seen */
    uint64_t lost;   /* events lost so far, as the recorder counts them */
    bool missed;     /* events were overwritten or removed before they were read */
};

/* Begins to follow what r reads. 0 or -ENOMEM. Between the two calls SIGINT and SIGTERM are
 * blocked: they end cli_follow_wait, and cli_follow_interrupted sees them. */
int cli_follow_begin(struct cli_follow *f, const struct kymo_reader *r);
void cli_follow_end(struct cli_follow *f);

/* Before the first event of each round: leaves out of r what was seen. Warns of events that
 * were lost, overwritten or removed since the last round, unless quiet. */
void cli_follow_round(struct cli_follow *f, struct kymo_reader *r, bool quiet);
/* Whether the event is new. To be asked of each event, in the order of the reader. */
bool cli_follow_is_new(struct cli_follow *f, const struct kymo_event *ev);

/* Leaves out what is older than these ticks: takes effect with the next cli_follow_round. */
void cli_follow_jump(struct cli_follow *f, uint64_t ticks);
/* Opens the recording that `older` reads as it is now: only what has not been seen is ready to
 * be read. 0, or an exit status after a message. */
int cli_follow_reopen(const struct cli_follow *f, const char *dir, const struct kymo_reader *older,
                      struct kymo_reader **out);

/* Whether nothing will be added to what r reads. */
bool cli_follow_is_over(const struct kymo_reader *r);
/* Waits until it is worth looking again; false: a signal asks to end. */
bool cli_follow_wait(void);
/* Whether a signal asks to end. Does not wait. */
bool cli_follow_interrupted(void);

#endif
