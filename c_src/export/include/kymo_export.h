/* SPDX-License-Identifier: Apache-2.0
 *
 * Exporters: each converts an open recording to the format of another tool, in one or two passes
 * of kymo_reader_next. They rewind the reader before each pass, not after the last.
 * Single-threaded, like the reader. Memory does not grow with the number of events.
 *
 * All return 0, or a negative errno with a message in err that names the file and the reason. An
 * incomplete file is never left under the final name. -EPIPE means that the reading end of
 * standard output was closed.
 */
#ifndef KYMO_EXPORT_H
#define KYMO_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kymo_reader.h"

struct kymo_export_options {
    const char
        *out; /* file, or directory for ctf and ndjson; "-" = standard output, if the format is a stream */
    /* Window, in ns since the start of the recording (meta.t0_mono_ns), both
     * ends included; INT64_MIN and INT64_MAX = no bound. */
    int64_t from_ns, to_ns;
    /* Returns false to leave the event out. Called for events inside the window only; NULL keeps
     * all events. */
    bool (*keep)(void *arg, const struct kymo_reader *r, const struct kymo_event *ev);
    void *keep_arg;
    bool all; /* incomplete events too, marked as such (kymo_reader_horizon); not for folded and speedscope */
    bool wall; /* folded, speedscope: wall clock instead of the time scheduled in */
    /* Called repeatedly with the work done so far; may be NULL. */
    void (*progress)(void *arg, uint64_t done, uint64_t total);
    void *progress_arg;
};

struct kymo_export_result {
    uint64_t events;  /* read from the recording, inside the window and kept */
    uint64_t written; /* packets, slices, stacks or terms, depending on the format */
    uint64_t bytes;   /* size of the output */
};

int kymo_export_perfetto(struct kymo_reader *r, const struct kymo_export_options *o,
                         struct kymo_export_result *res, char *err, size_t err_size);
int kymo_export_ctf(struct kymo_reader *r, const struct kymo_export_options *o,
                    struct kymo_export_result *res, char *err, size_t err_size);
int kymo_export_folded(struct kymo_reader *r, const struct kymo_export_options *o,
                       struct kymo_export_result *res, char *err, size_t err_size);
/* The same stacks as folded, in the file format of speedscope. */
int kymo_export_speedscope(struct kymo_reader *r, const struct kymo_export_options *o,
                           struct kymo_export_result *res, char *err, size_t err_size);
int kymo_export_dbg(struct kymo_reader *r, const struct kymo_export_options *o,
                    struct kymo_export_result *res, char *err, size_t err_size);
/* Writes the tables (kymo_tables.h) as lines of JSON, one file per table in a new folder. The window
 * applies to the analysis; keep and all are ignored. */
int kymo_export_ndjson(struct kymo_reader *r, const struct kymo_export_options *o,
                       struct kymo_export_result *res, char *err, size_t err_size);

#endif
