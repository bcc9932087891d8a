/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments of a recording as packets of a CTF trace: the same records with times in
 * nanoseconds, from the horizon on, inside the window and the filter. Single threaded.
 */
#ifndef KYMO_CTF_PACKETS_H
#define KYMO_CTF_PACKETS_H

#include "kymo_export.h"

struct kymo_ctf_packets {
    struct kymo_reader *r;
    const struct kymo_export_options *o;
    uint64_t t0;     /* what the window counts from */
    uint32_t thread; /* of the packet before; UINT32_MAX = none yet */
    uint64_t last;   /* its end: no packet of the thread begins before */
    uint8_t *buf;
    size_t room;
};

void kymo_ctf_packets_init(struct kymo_ctf_packets *x, struct kymo_reader *r,
                           const struct kymo_export_options *o);
void kymo_ctf_packets_free(struct kymo_ctf_packets *x);

/* The packet of segment `index`, in x->buf: *len bytes, 0 when nothing of the segment
 * belongs to the trace. bytes and n are what kymo_reader_segment gave. 0 or -ENOMEM. */
int kymo_ctf_packet(struct kymo_ctf_packets *x, uint64_t index, const uint8_t *bytes, size_t n, size_t *len);

#endif
