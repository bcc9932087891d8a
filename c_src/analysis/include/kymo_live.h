/* SPDX-License-Identifier: Apache-2.0
 *
 * The analysis of a recording that is being written: it keeps its state while the
 * recording is opened again and again, and is given the events that are new. One thread.
 *
 * The reader of a later state of the same recording takes the place of the older one with
 * kymo_live_reader; the older one is not used any more from then on. Ids of the dictionary
 * stay valid, as it only grows.
 */
#ifndef KYMO_LIVE_H
#define KYMO_LIVE_H

#include "kymo_analysis.h"

struct kymo_live;

/* Learns from what r has (see kymo_lesson.h) and rewinds it. The n sinks are copied, what
 * their args point to must live as long; they may be called by kymo_live_event and
 * kymo_live_gap. 0, or a negative errno with *out NULL: -ENOMEM, -EIO. */
int kymo_live_new(struct kymo_live **out, struct kymo_reader *r, const struct kymo_analysis_sink *sinks,
                  size_t n);
void kymo_live_free(struct kymo_live *l);
void kymo_live_reader(struct kymo_live *l, struct kymo_reader *r);

/* To be called for each event that the reader gives, in its order, also for those that an
 * older reader gave before: these are not new, and only what the reader says of losses
 * is looked at. False: no memory. */
bool kymo_live_event(struct kymo_live *l, const struct kymo_event *ev, bool is_new);
/* Events are left out before the next one: what is open is reported without an end, and
 * forgotten. False: no memory. */
bool kymo_live_gap(struct kymo_live *l);

/* What kymo_analyse would return, as far as it is known now. */
const struct kymo_analysis_result *kymo_live_result(const struct kymo_live *l);
/* Calls of this function (canonical id) have an end, which is recorded: so the first of
 * them is a span too. */
void kymo_live_expect(struct kymo_live *l, uint32_t mfa);
/* Whether a call of this function was seen to end, or return_to events were seen. */
bool kymo_live_ends(const struct kymo_live *l, uint32_t mfa);

/* Each request that is open, as far as it is known, and each process that has a scheduler
 * now: `end` of the run is KYMO_NO_TIME. */
void kymo_live_requests(const struct kymo_live *l, void (*f)(void *arg, const struct kymo_request *q),
                        void *arg);
void kymo_live_runs(const struct kymo_live *l, void (*f)(void *arg, const struct kymo_run *run), void *arg);
/* Messages that were sent to what the event of a send names, and that it has not fetched. *oldest: when
 * the first of them was sent. */
uint32_t kymo_live_waiting(const struct kymo_live *l, const struct kymo_event *send, uint64_t *to,
                           int64_t *oldest);

/* Requests asked of the process, or sent to it, that have no reply yet. */
uint32_t kymo_live_pending(const struct kymo_live *l, uint64_t process);

#endif
