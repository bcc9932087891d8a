/* SPDX-License-Identifier: Apache-2.0
 *
 * Follows a recording that is being written. The recording is opened repeatedly; for each
 * thread, events after the newest one seen so far are new. One thread.
 */
#ifndef KYMO_CLI_FOLLOW_H
#define KYMO_CLI_FOLLOW_H

#include "kymo_cli.h"

/* The position in the events of one recorded thread, whose times never decrease. */
struct cli_place {
    uint64_t ticks; /* of its newest event that was seen */
    uint64_t n;     /* number of events with that time that were seen */
    uint64_t left;  /* of these, the number to be skipped in this round */
};

struct cli_follow {
    struct cli_place *places; /* by slot */
    uint64_t *before;         /* by slot: events before this time were seen */
    uint32_t n_slots;
    uint64_t newest; /* ticks of the newest event that was seen */
    uint64_t lost;   /* events lost so far, as the recorder counts them */
    bool missed;     /* events were overwritten or removed before they were read */
};

/* Begins to follow the recording of r. Returns 0 or -ENOMEM. Until cli_follow_end, SIGINT and
 * SIGTERM are blocked: they end cli_follow_wait, and cli_follow_interrupted reports them. */
int cli_follow_begin(struct cli_follow *f, const struct kymo_reader *r);
void cli_follow_end(struct cli_follow *f);

/* To be called before the first event of each round: makes r skip what was seen. Warns about
 * events that were lost, overwritten or removed since the last round, unless quiet. */
void cli_follow_round(struct cli_follow *f, struct kymo_reader *r, bool quiet);
/* True if the event is new. To be called for each event, in the order of the reader. */
bool cli_follow_is_new(struct cli_follow *f, const struct kymo_event *ev);

/* Skips everything older than these ticks, from the next cli_follow_round on. */
void cli_follow_jump(struct cli_follow *f, uint64_t ticks);
/* Opens the recording of `older` in its present state, positioned after what has been seen.
 * Returns 0, or an exit status after a message. */
int cli_follow_reopen(const struct cli_follow *f, const char *dir, const struct kymo_reader *older,
                      struct kymo_reader **out);

/* True if nothing will be added to the recording any more. */
bool cli_follow_is_over(const struct kymo_reader *r);
/* Waits until the recording should be read again. Returns false if a signal requests the end. */
bool cli_follow_wait(void);
/* True if a signal requests the end. Does not wait. */
bool cli_follow_interrupted(void);

#endif
