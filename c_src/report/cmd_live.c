/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo live: serves the page of kymo report on 127.0.0.1, for the newest part of a recording that is
 * being written.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "attach_show.h"
#include "kymo_cli.h"
#include "live_server.h"

enum { OPT_PORT = 1, OPT_LAST };
#define SECOND INT64_C(1000000000)

struct options {
    int64_t interval, last;
    uint64_t port;
};

static int take(struct options *o, int option, const char *value)
{
    switch (option) {
    case 'd':
        if (!cli_parse_duration(value, &o->interval) || o->interval < SECOND / 2 ||
            o->interval > 3600 * SECOND)
            return cli_usage("live", "--delay takes a time from 500ms to 1h, not '%s'", value);
        return KYMO_EXIT_OK;
    case OPT_LAST:
        if (!cli_parse_duration(value, &o->last) || o->last < SECOND / 10 || o->last > 3600 * SECOND)
            return cli_usage("live", "--last takes a time from 100ms to 1h, not '%s'", value);
        return KYMO_EXIT_OK;
    case OPT_PORT:
        if (!cli_parse_number(value, &o->port) || o->port > 65535)
            return cli_usage("live", "--port takes a number up to 65535, not '%s'", value);
        return KYMO_EXIT_OK;
    default: return cli_bad_option("live");
    }
}

/* Checks that this is a recording, before the server listens. */
static int check(const char *dir)
{
    struct kymo_reader *r;
    int status = cli_open(dir, &r);
    if (status == KYMO_EXIT_OK)
        kymo_reader_close(r);
    return status;
}

static int serve(const struct options *o, const char *dir)
{
    struct live_server *server;
    struct live_data *data = NULL;
    int status = live_server_open(&server, (unsigned)o->port);
    if (status != KYMO_EXIT_OK)
        return status;
    status = live_data_start(&data, dir, o->interval, o->last, live_server_wake(server));
    if (status == KYMO_EXIT_OK) {
        printf("%s\n", live_server_url(server));
        status = cli_flush(status);
    }
    if (status == KYMO_EXIT_OK)
        status = live_server_run(server, data);
    live_data_stop(data);
    live_server_close(server);
    return status;
}

/* Serves with the signals blocked in all threads, because the server waits for them. */
static int serve_dir(const struct options *o, const char *dir)
{
    sigset_t set, before;
    int status = check(dir);
    if (status != KYMO_EXIT_OK)
        return status;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, &before);
    status = serve(o, dir);
    /* The signal has been handled: discard it, so that unblocking does not deliver it. */
    while (sigtimedwait(&set, NULL, &(struct timespec){0}) > 0)
        continue;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

static int serve_node(const struct options *o, const struct attach_options *node, char **nodes)
{
    struct attach_show s;
    int status = attach_show_open(&s, node, nodes, false);
    if (status == KYMO_EXIT_OK)
        status = serve_dir(o, s.dir);
    return attach_show_close(&s, status);
}

int cli_live(int argc, char **argv)
{
    struct option options[8 + ATTACH_OPTIONS] = {{"delay", required_argument, NULL, 'd'},
                                                 {"last", required_argument, NULL, OPT_LAST},
                                                 {"port", required_argument, NULL, OPT_PORT}};
    enum { OWN = 3 };
    struct options o = {.interval = SECOND, .last = 10 * SECOND};
    struct attach_options node;
    bool is_node = false;
    int status = KYMO_EXIT_OK;
    attach_options_init(&node, "live");
    (void)attach_options_add(options, OWN, "node-port");
    for (int c; status == KYMO_EXIT_OK && (c = getopt_long(argc, argv, "d:", options, NULL)) != -1;)
        status = c >= ATTACH_OPTION ? attach_options_take(&node, c, optarg) : take(&o, c, optarg);
    if (status == KYMO_EXIT_OK)
        status = attach_show_target(&node, argc - optind, argv + optind, &is_node);
    if (status == KYMO_EXIT_OK)
        status = is_node ? serve_node(&o, &node, argv + optind) : serve_dir(&o, argv[optind]);
    attach_options_free(&node);
    return status;
}
