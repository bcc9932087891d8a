/* SPDX-License-Identifier: Apache-2.0
 *
 * A firing of a trigger as text. kymo watch prints it as one flat JSON object (numbers,
 * texts, booleans and null); the node writes that object, with what it knows itself, into
 * the file `firing.json` of the snapshot, where kymo info and kymo why find it. One thread.
 */
#ifndef KYMO_CLI_FIRING_H
#define KYMO_CLI_FIRING_H

#include "kymo_cli.h"
#include "kymo_naming.h"
#include "kymo_triggers.h"

#define CLI_FIRING_NAME "firing.json"

/* Prints it as a line. */
void cli_firing_json(const struct kymo_reader *r, const struct kymo_naming *naming,
                     const struct kymo_firing *f);

/* What a file says; texts are cut to their size, and empty where there is none. */
struct cli_firing {
    char trigger[256], kind[32], function[512], reason[256];
    char process[512], process_pid[64], server[512], server_pid[64];
    int64_t value, limit;     /* ns, or messages */
    int64_t start_ns, end_ns; /* of the cause, since the start of the recording */
    int64_t fired_ms;         /* Unix time of the node, 0 = not known */
    bool open;                /* the cause was not over yet */
    bool has_times;           /* start_ns and end_ns are known */
};

/* Reads the file of the recording at dir. False: there is none, or it is no such object. */
bool cli_firing_read(const char *dir, struct cli_firing *f);
/* Whether all of the cause is in the recording, which it may have been overwritten in before
 * the snapshot was taken. False also when that is not known. */
bool cli_firing_is_held(const struct cli_firing *f, const struct kymo_reader *r);
/* One or two lines for people: what fired, and where its cause is. */
void cli_firing_text(const struct cli_firing *f, const struct kymo_reader *r);
/* Members of the object that is open. */
void cli_firing_members(const struct cli_firing *f, const struct kymo_reader *r);

#endif
