/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP server of kymo live. It listens on 127.0.0.1 only, and answers GET and HEAD of
 *   /TOKEN/      the page
 *   /TOKEN/data  the newest report, as JSON; /TOKEN/data?N waits for one newer than number N,
 *                and answers null if there is none within 30 seconds
 * to this very origin; everything else is an error. TOKEN is random, and known to those only
 * who were given the address. One thread.
 *
 * Bounds: LIVE_CONNECTIONS at a time, a newcomer closes the oldest; a request has 5 seconds
 * and HTTP_REQUEST_MAX bytes, an answer 30 seconds. Each connection has one request.
 */
#ifndef KYMO_REPORT_LIVE_SERVER_H
#define KYMO_REPORT_LIVE_SERVER_H

#include "live_data.h"

#define LIVE_CONNECTIONS 32

struct live_server;

/* Listens on `port`, or one that the system chooses for 0. 0 or an exit status after a
 * message. */
int live_server_open(struct live_server **out, unsigned port);
/* "http://127.0.0.1:PORT/TOKEN/" */
const char *live_server_url(const struct live_server *s);
/* An eventfd that says that there is a new report. */
int live_server_wake(const struct live_server *s);
/* Serves until a SIGINT, SIGTERM or SIGHUP, which must be blocked. */
void live_server_run(struct live_server *s, struct live_data *data);
void live_server_close(struct live_server *s);

#endif
