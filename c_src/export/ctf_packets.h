/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts segments of a recording to packets of a CTF trace: the same records with times in
 * nanoseconds, from the horizon on, restricted to the window and the filter. Single-threaded.
 */
#ifndef KYMO_CTF_PACKETS_H
#define KYMO_CTF_PACKETS_H

#include "kymo_export.h"

struct kymo_ctf_packets {
    struct kymo_reader *r;
    const struct kymo_export_options *o;
    uint64_t t0;     /* the time to which the window is relative */
    uint32_t thread; /* of the previous packet; UINT32_MAX = none yet */
    uint64_t last;   /* end of the previous packet: the next one of the thread does not begin earlier */
    uint8_t *buf;
    size_t room;
};

void kymo_ctf_packets_init(struct kymo_ctf_packets *x, struct kymo_reader *r,
                           const struct kymo_export_options *o);
void kymo_ctf_packets_free(struct kymo_ctf_packets *x);

/* Creates the packet of segment `index` in x->buf. Its size is *len, 0 if no record of the segment
 * belongs to the trace. bytes and n are those of kymo_reader_segment. Returns 0 or -ENOMEM. */
int kymo_ctf_packet(struct kymo_ctf_packets *x, uint64_t index, const uint8_t *bytes, size_t n, size_t *len);

#endif
