/* SPDX-License-Identifier: Apache-2.0
 *
 * Firings of triggers as JSON. kymo watch prints a firing as one flat object (numbers, strings,
 * booleans and null). The node adds members and writes the object into the file `firing.json`
 * of the snapshot, from which kymo info and kymo why read it. One thread.
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

/* The contents of such a file. Strings are cut to their size, and empty if missing. */
struct cli_firing {
    char trigger[256], kind[32], function[512], reason[256];
    char process[512], process_pid[64], server[512], server_pid[64];
    int64_t value, limit;     /* ns, or messages, or words */
    int64_t start_ns, end_ns; /* of the cause, since the start of the recording */
    int64_t fired_ms;         /* Unix time of the node, 0 = not known */
    bool open;                /* the cause was not over yet */
    bool has_times;           /* start_ns and end_ns are known */
};

/* Reads the file of the recording at dir. Returns false if it is missing or malformed. */
bool cli_firing_read(const char *dir, struct cli_firing *f);
/* True if the recording has the whole cause. Parts may have been overwritten before the snapshot
 * was taken. False if that is unknown. */
bool cli_firing_is_held(const struct cli_firing *f, const struct kymo_reader *r);
/* Prints one or two lines of text: what fired, and where its cause is. */
void cli_firing_text(const struct cli_firing *f, const struct kymo_reader *r);
/* Members of the object that is open. */
void cli_firing_members(const struct cli_firing *f, const struct kymo_reader *r);

#endif
