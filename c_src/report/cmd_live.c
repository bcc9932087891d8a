/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo live: the page of kymo report, of the newest time of a living recording, on 127.0.0.1.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "live_server.h"

#include "kymo_cli.h"

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

/* Before anything is listened on: is this a recording? */
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
        live_server_run(server, data);
    live_data_stop(data);
    live_server_close(server);
    return status;
}

int cli_live(int argc, char **argv)
{
    static const struct option options[] = {{"delay", required_argument, NULL, 'd'},
                                            {"last", required_argument, NULL, OPT_LAST},
                                            {"port", required_argument, NULL, OPT_PORT},
                                            {NULL, 0, NULL, 0}};
    struct options o = {.interval = SECOND, .last = 10 * SECOND};
    sigset_t set;
    int status = KYMO_EXIT_OK;
    for (int c; status == KYMO_EXIT_OK && (c = getopt_long(argc, argv, "d:", options, NULL)) != -1;)
        status = take(&o, c, optarg);
    if (status == KYMO_EXIT_OK)
        status = cli_one_recording("live", argc - optind, argv + optind);
    if (status == KYMO_EXIT_OK)
        status = check(argv[optind]);
    /* Of all threads: the server waits for them. */
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return status == KYMO_EXIT_OK ? serve(&o, argv[optind]) : status;
}
