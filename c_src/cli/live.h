/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a recording window by window while it is written, for `kymo top`. The recorder is not
 * involved: each round opens the files in their present state, reads what is new, and closes
 * them. One thread.
 *
 * A window ends LIVE_MARGIN_NS before the present, because a thread of the node may not have
 * written an event whose timestamp it has taken. Events that appear even later count in the
 * next window.
 *
 * If the reader cannot keep up, it skips events and reports how many: those that were
 * overwritten before they were read; and all but the newest window, if the last round did not
 * read everything and this one begins more than two windows and a second late. A round takes
 * at most as long as a window, but at least half a second.
 */
#ifndef KYMO_CLI_LIVE_H
#define KYMO_CLI_LIVE_H

#include "analyse.h"
#include "follow.h"
#include "kymo_live.h"
#include "kymo_window.h"
#include "node_now.h"

#define LIVE_MARGIN_NS INT64_C(50000000)

struct cli_live {
    struct cli_analysis a; /* reader and names of the newest state */
    const char *dir;
    int64_t interval;          /* ns between edges */
    struct kymo_window window; /* after a round: its sums are complete */
    struct cli_node_now node;  /* the node's counters in the same window */
    int64_t end;               /* of the window, CLOCK_MONOTONIC */
    int64_t skipped;           /* ns skipped just before the window */
    uint64_t skipped_events;   /* approximate number of events in that time */
    uint64_t lost;             /* events lost since the round before, as the recorder counts them */
    bool over;                 /* the recording has ended */
    bool interrupted;          /* a signal ended the round early: the window is not complete */
    /* Private. */
    struct cli_follow follow;
    struct kymo_live *an;
    bool following, begun, jump;
    bool slow;          /* the last round did not read everything in time */
    uint64_t accounted; /* events that were read or reported as skipped */
    int64_t ahead;      /* by which the recording's clock is ahead of this program's */
};

/* interval > 0. Returns 0, or an exit status after a message; call cli_live_close in both cases.
 * While it is open, SIGINT and SIGTERM are blocked, as in follow.h. */
int cli_live_open(struct cli_live *l, const char *command, const char *dir, int64_t interval);
/* To be called when time has passed between cli_live_open and the first round: what was recorded
 * since then belongs to the first window, too. Returns 0, or an exit status after a message. */
int cli_live_again(struct cli_live *l);
/* Reads the next window: from the end of the previous one to the present; the first one is the
 * newest `interval`. Returns 0, or an exit status after a message. */
int cli_live_round(struct cli_live *l);
/* To be called after a deliberate pause: the next window is the newest `interval`, and nothing is
 * reported as skipped. */
void cli_live_jump(struct cli_live *l);
void cli_live_close(struct cli_live *l);

/* The newest time up to which the recording can be read; the end if `over`. now is
 * CLOCK_MONOTONIC of this process. *ahead, initially cli_live_ahead, is by how much the
 * recording's clock is ahead of it, since the node may be in another time namespace. */
int64_t cli_live_newest(struct kymo_reader *r, bool over, int64_t now, int64_t *ahead);
/* An estimate, from the wall clocks, of how far the recording's clock is behind this program's,
 * as a negative number or 0. The wall clock may have been set since, so newer events override
 * it. */
int64_t cli_live_ahead(const struct kymo_reader *r);
/* The reason why the recording has ended, as a clause without a full stop, in buf. */
const char *cli_live_why_over(const struct kymo_reader *r, char *buf, size_t size);

#endif
