/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP server of kymo live. It listens on 127.0.0.1 only, and answers GET and HEAD of
 *   /TOKEN/      the page
 *   /TOKEN/data  the newest report, as JSON; /TOKEN/data?N waits for one newer than number N,
 *                and answers null if there is none within 30 seconds
 * for requests of the same origin; everything else is an error. TOKEN is random, and known only to
 * those who were given the address. Single-threaded.
 *
 * Limits: LIVE_CONNECTIONS at a time, beyond which a new connection closes the oldest; 5 seconds and
 * HTTP_REQUEST_MAX bytes for a request, 30 seconds for a response. Each connection has one request.
 */
#ifndef KYMO_REPORT_LIVE_SERVER_H
#define KYMO_REPORT_LIVE_SERVER_H

#include "live_data.h"

#define LIVE_CONNECTIONS 32

struct live_server;

/* Listens on `port`; 0 = a port that the system chooses. Returns 0, or an exit status after a
 * message. */
int live_server_open(struct live_server **out, unsigned port);
/* "http://127.0.0.1:PORT/TOKEN/" */
const char *live_server_url(const struct live_server *s);
/* The eventfd that must be written to when there is a new report. */
int live_server_wake(const struct live_server *s);
/* Serves until a SIGINT, SIGTERM or SIGHUP, which must be blocked. Returns 0, or an exit status after a message
 * if it can't wait for requests. */
int live_server_run(struct live_server *s, struct live_data *data);
void live_server_close(struct live_server *s);

#endif
