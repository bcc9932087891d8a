/* SPDX-License-Identifier: Apache-2.0
 *
 * The metadata file of a CTF 1.8 trace. It describes in TSDL the packets that ctf_packets.c
 * creates from segments (stream 0, generated from the table of kymo_format.h), and the dictionary
 * that export_ctf.c writes (stream 1). Times are nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef KYMO_CTF_METADATA_H
#define KYMO_CTF_METADATA_H

#include "kymo_reader.h"
#include "outfile.h"

void kymo_ctf_metadata(struct kymo_out *out, const struct kymo_reader *r);

/* Ids of the events of stream 1. */
enum kymo_ctf_entry { KYMO_CTF_ATOM = 0, KYMO_CTF_MFA = 1, KYMO_CTF_TERM = 2, KYMO_CTF_PROCESS = 3 };

#endif
