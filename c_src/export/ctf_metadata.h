/* SPDX-License-Identifier: Apache-2.0
 *
 * The metadata file of a CTF 1.8 trace: describes, in TSDL, the segments of a
 * recording as they are (stream 0, generated from the table of kymo_format.h)
 * and the dictionary that export_ctf.c writes (stream 1).
 */
#ifndef KYMO_CTF_METADATA_H
#define KYMO_CTF_METADATA_H

#include "kymo_reader.h"
#include "outfile.h"

/* The clock of a trace: Unix time in seconds = offset_s + (offset + ticks) / freq. */
struct kymo_ctf_clock {
    uint64_t freq;
    int64_t offset_s;
    uint64_t offset; /* 0 .. freq - 1 */
};

/* The clock that gives two points in time their right wall clock time, for a
 * recording whose records lie between them. */
void kymo_ctf_clock(const struct kymo_reader *r, uint64_t first_ticks, uint64_t last_ticks,
                    struct kymo_ctf_clock *clock);

void kymo_ctf_metadata(struct kymo_out *out, const struct kymo_reader *r, const struct kymo_ctf_clock *clock);

/* Events of stream 1, by their ids. */
enum kymo_ctf_entry { KYMO_CTF_ATOM = 0, KYMO_CTF_MFA = 1, KYMO_CTF_TERM = 2, KYMO_CTF_PROCESS = 3 };

#endif
