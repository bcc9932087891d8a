/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a recording window by window while it is written, for `kymo top`. The recorder
 * knows nothing of it: each round opens the files as they are, reads what is new, and
 * closes them. One thread.
 *
 * A window ends LIVE_MARGIN_NS ago: a thread of the node may have taken the time of an event
 * and not written it yet. Events that are later still count in the next window.
 *
 * A reader that cannot keep up leaves events out and says how much: those that were
 * overwritten before they were read; and all but the newest window if the last round ended
 * before it had read everything, and this one begins more than two windows and a second
 * behind. A round reads for no longer than a window takes, half a second at least.
 */
#ifndef KYMO_CLI_LIVE_H
#define KYMO_CLI_LIVE_H

#include "analyse.h"
#include "follow.h"
#include "kymo_live.h"
#include "kymo_window.h"

#define LIVE_MARGIN_NS INT64_C(50000000)

struct cli_live {
    struct cli_analysis a; /* reader and names of the newest state */
    const char *dir;
    int64_t interval;          /* ns between edges */
    struct kymo_window window; /* after a round: its sums are complete */
    int64_t end;               /* of the window, CLOCK_MONOTONIC */
    int64_t skipped;           /* ns left out just before the window */
    uint64_t skipped_events;   /* in them, about */
    uint64_t lost;             /* events lost since the round before, as the recorder counts them */
    bool over;                 /* nothing will follow */
    bool interrupted;          /* a signal ended the round early: the window is not complete */
    /* Private. */
    struct cli_follow follow;
    struct kymo_live *an;
    bool following, begun, jump;
    bool slow;          /* the last round had no time to read everything */
    uint64_t accounted; /* events that were read or reported as skipped */
    int64_t ahead;      /* by which the recording's clock is ahead of this program's */
};

/* interval > 0. 0 or an exit status after a message; close in both cases. While it is open
 * SIGINT and SIGTERM are blocked, as in follow.h. */
int cli_live_open(struct cli_live *l, const char *command, const char *dir, int64_t interval);
/* The next window: from the end of the one before to now; the first is the newest `interval`.
 * 0 or an exit status after a message. */
int cli_live_round(struct cli_live *l);
/* The caller did not read on purpose: the next window begins anew, and nothing is reported
 * as skipped. */
void cli_live_jump(struct cli_live *l);
void cli_live_close(struct cli_live *l);

/* The newest time that can be read for good; `over`: nothing will follow. now:
 * CLOCK_MONOTONIC. *ahead, cli_live_ahead at first, is by how much the recording's clock is ahead of that:
 * the node may be in a time namespace of its own. */
int64_t cli_live_newest(struct kymo_reader *r, bool over, int64_t now, int64_t *ahead);
/* By how much the recording's clock is behind this program's, as a number below 0, or 0. As
 * far as the wall clock says: it may have been set since, so events that are newer say more. */
int64_t cli_live_ahead(const struct kymo_reader *r);
/* Why nothing will follow: a sentence without an end, in buf. */
const char *cli_live_why_over(const struct kymo_reader *r, char *buf, size_t size);

#endif
