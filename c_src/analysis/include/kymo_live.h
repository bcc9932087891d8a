/* SPDX-License-Identifier: Apache-2.0
 *
 * The analysis of a recording that is being written. It keeps its state while the recording is
 * reopened repeatedly, and receives the new events each time. Single-threaded.
 *
 * kymo_live_reader replaces the reader by one of a later state of the same recording; the older
 * one is not used from then on. Dictionary ids stay valid, because the dictionary only grows.
 */
#ifndef KYMO_LIVE_H
#define KYMO_LIVE_H

#include "kymo_analysis.h"

struct kymo_live;

/* Learns from the events of r (see kymo_lesson.h) and rewinds it. Copies the n sinks; their args
 * must stay valid until kymo_live_free. Sinks may be called by kymo_live_event and kymo_live_gap.
 * Returns 0, or a negative errno (-ENOMEM, -EIO) with *out NULL. */
int kymo_live_new(struct kymo_live **out, struct kymo_reader *r, const struct kymo_analysis_sink *sinks,
                  size_t n);
void kymo_live_free(struct kymo_live *l);
void kymo_live_reader(struct kymo_live *l, struct kymo_reader *r);

/* Must be called for each event of the reader, in its order, including those that an older reader
 * has delivered already: these are not new (is_new false), and only the reader's information about
 * losses is used. Returns false if there is no memory. */
bool kymo_live_event(struct kymo_live *l, const struct kymo_event *ev, bool is_new);
/* The caller skips events before the next one: reports everything open without an end, and drops
 * it. Returns false if there is no memory. */
bool kymo_live_gap(struct kymo_live *l);

/* The result that kymo_analyse would return, as far as it is known now. */
const struct kymo_analysis_result *kymo_live_result(const struct kymo_live *l);
/* Declares that the ends of calls of this function (canonical id) are recorded, so that already the
 * first call is reported as a span with an end. */
void kymo_live_expect(struct kymo_live *l, uint32_t mfa);
/* Whether the end of a call of this function, or any return_to event, has been seen. */
bool kymo_live_ends(const struct kymo_live *l, uint32_t mfa);

/* Call f for each open request, as far as it is known, and for each process that is scheduled in
 * now; `end` of the run is KYMO_NO_TIME. */
void kymo_live_requests(const struct kymo_live *l, void (*f)(void *arg, const struct kymo_request *q),
                        void *arg);
void kymo_live_runs(const struct kymo_live *l, void (*f)(void *arg, const struct kymo_run *run), void *arg);
/* The number of messages that the receiver of this send event has not fetched yet. Stores the
 * receiver in *to, and the time of the oldest of these sends in *oldest. */
uint32_t kymo_live_waiting(const struct kymo_live *l, const struct kymo_event *send, uint64_t *to,
                           int64_t *oldest);

/* The number of requests to the process that have no reply yet. */
uint32_t kymo_live_pending(const struct kymo_live *l, uint64_t process);

#endif
