/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a recording: of a living recorder, of a dead node, a snapshot. Single
 * threaded: one struct kymo_reader belongs to one thread at a time. Memory
 * is bounded by the number of threads, segments (56 bytes each) and dictionary
 * entries, never by the number of events; of a living recorder the pool is copied too
 * (the oldest 512 MiB of it), as it may be reused before it is read. No input makes it crash: what is
 * damaged is skipped and counted.
 */
#ifndef KYMO_READER_H
#define KYMO_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kymo_names.h"
#include "kymo_record.h"

struct kymo_reader;

/* What is wrong with a recording, beyond what the recorder itself counted. */
struct kymo_damage {
    uint64_t segments_bad;   /* headers that are not valid, or contradict those around them */
    uint64_t records_bad;    /* segments cut short: at a record that is not valid, or by the end of a file */
    uint64_t bytes_cut;      /* bytes skipped in those segments and at ends of files */
    uint64_t segments_moved; /* overwritten by a living recorder after the first event was given */
    uint64_t dict_bad;       /* bytes skipped in the dictionary */
    uint64_t seq_gaps;       /* segments missing between the first and last seen (discard only) */
};

/* Opens the recording at dir. 0, or a negative errno with a sentence in err:
 * -ENOENT, -ENOTDIR, -EACCES, -EBADMSG (not a recording), -EPROTO (a format
 * version that this program does not know), -ENOMEM, -EIO. */
int kymo_reader_open(const char *dir, struct kymo_reader **out, char *err, size_t err_size);
/* The same for one that goes on where another reader of the recording has ended: begins as after
 * kymo_reader_skip. What that leaves out of a living recording is not copied, so the reader
 * must not be rewound. */
int kymo_reader_open_after(const char *dir, const uint64_t *before, uint32_t n, struct kymo_reader **out,
                           char *err, size_t err_size);
void kymo_reader_close(struct kymo_reader *r);

/* The header as found, but for events_removed, which leaves out what the pool
 * still has. The per-thread counters, set right by what was found: `bytes` counts
 * open segments too, and `overwritten` is what the oldest segment says, however the
 * recorder ended. Pointers live until close. */
const struct kymo_meta *kymo_reader_meta(const struct kymo_reader *r);
const struct kymo_slot *kymo_reader_slots(const struct kymo_reader *r, uint32_t *n);
/* Events of the thread that are lost for this cause (enum kymo_loss). */
static inline uint64_t kymo_slot_lost(const struct kymo_slot *s, unsigned cause)
{
    return s->lost[cause] + (cause == KYMO_LOST_IO ? s->io_lost : 0);
}
/* Events that are lost for any cause, of all threads, as the recorder counts them. */
uint64_t kymo_reader_lost(const struct kymo_reader *r);
const struct kymo_damage *kymo_reader_damage(const struct kymo_reader *r);
/* True when the recorder never closed the recording and its OS process is gone. */
bool kymo_reader_crashed(const struct kymo_reader *r);
/* Segments in use in the file `ring`, and their bytes with headers. */
void kymo_reader_pool(const struct kymo_reader *r, uint64_t *segments, uint64_t *bytes);

/* The horizon (kymo_format.h): the recording is complete after this time, but for
 * losses that it reports. Before it only a part of the threads has events left: an
 * event from there is `incomplete`, what was open there has no duration. False: the
 * recording is complete from its start; *ticks and *ns are then those of the start.
 * A living recorder that overwrites may move it while the first events are read: ask
 * when the first event was given that is complete. */
bool kymo_reader_horizon(const struct kymo_reader *r, uint64_t *ticks, int64_t *ns);
/* Whether an event of this thread at this time lies before the horizon. */
bool kymo_reader_incomplete(const struct kymo_reader *r, uint32_t slot, uint64_t ticks);
/* Whether kymo_reader_next gives incomplete events too; it does not at first. To be
 * called before the first kymo_reader_next, or followed by a rewind. */
void kymo_reader_show_all(struct kymo_reader *r, bool all);

/* The next event of all threads in order of ticks (ties: by slot), from the horizon
 * on; of a living recording, up to the newest event when it was opened. Notes of the
 * recorder (KYMO_E_FIRST_NOTE and up) come too. Of one thread `ns` does not go down;
 * between threads it may where the clock jumped (see kymo_reader_jumps). 1 = *ev
 * filled, 0 = end, negative errno = the recording can't be read further (-EIO,
 * -ENOMEM). */
int kymo_reader_next(struct kymo_reader *r, struct kymo_event *ev);
/* Changes with every event that kymo_reader_next gives while some thread loses events
 * (from a note of loss to the next one that follows it in the thread), or has a damaged
 * or missing segment, and between the first and the last loss of threads without a slot. Processes move between threads: what is open in any of them may
 * have ended unseen, and what looks like its end may be that of something else. */
uint64_t kymo_reader_loss_epoch(const struct kymo_reader *r);
/* Back to the first event. */
int kymo_reader_rewind(struct kymo_reader *r);
/* The same, but of the thread with slot i < n segments are left out whose events are all
 * older than before[i] (ticks): what was read of them is not read again. Some older events
 * may still come. */
void kymo_reader_skip(struct kymo_reader *r, const uint64_t *before, uint32_t n);
/* Bytes of segments read and in total, for progress. */
void kymo_reader_progress(const struct kymo_reader *r, uint64_t *done, uint64_t *total);

/* Times of the first and the last record that can be read, without reading what
 * lies between; the first is not before the horizon unless kymo_reader_show_all said
 * so. Ends the life of what kymo_reader_segment returned. 0, -ENODATA
 * when there is no record at all, -ENOMEM. */
int kymo_reader_span(struct kymo_reader *r, int64_t *first_ns, int64_t *last_ns);

/* Time. */
int64_t kymo_reader_ns(const struct kymo_reader *r, uint64_t ticks); /* CLOCK_MONOTONIC */
/* The same for a record of segment `index` (see kymo_reader_segment). */
int64_t kymo_reader_segment_ns(struct kymo_reader *r, uint64_t index, uint64_t ticks);
/* Segments whose clock had jumped without the recorder noticing: they are corrected
 * one by one, by what they say of their beginning. */
uint64_t kymo_reader_jumps(const struct kymo_reader *r);
int64_t kymo_reader_wall_ns(const struct kymo_reader *r, int64_t mono_ns); /* Unix epoch */
int64_t kymo_reader_erl_ns(const struct kymo_reader *r, int64_t mono_ns);  /* erlang:monotonic_time */

/* Names. Unknown ids give "?" and arity 0. The text is UTF-8, not quoted. */
struct kymo_text {
    const char *s;
    uint32_t len;
};
struct kymo_mfa {
    uint32_t module, function, arity;
};
struct kymo_text kymo_reader_atom(const struct kymo_reader *r, uint32_t id);
bool kymo_reader_mfa(const struct kymo_reader *r, uint32_t id, struct kymo_mfa *out);
bool kymo_reader_term(const struct kymo_reader *r, uint32_t id, const uint8_t **etf, uint32_t *len);
/* Canonical id: the lowest id with the same definition, for counting by id. */
uint32_t kymo_reader_canonical(const struct kymo_reader *r, uint32_t id);
/* What the dictionary knows of a process, or the register events read so far;
 * false when nothing. */
bool kymo_reader_process(const struct kymo_reader *r, uint64_t ident, uint32_t *name_atom, uint32_t *mfa);
/* The parent of a process and the one that it works for, as the dictionary has them: pids
 * or names, KYMO_IDENT_NONE where it has none. False when it has neither. */
bool kymo_reader_relatives(const struct kymo_reader *r, uint64_t ident, uint64_t *parent, uint64_t *caller);
/* The process that dictionary entry id describes; false when it is no such entry. */
bool kymo_reader_described(const struct kymo_reader *r, uint32_t id, uint64_t *ident);
/* Number of dictionary ids (ids are 1 .. n), and the kind of one (0 = missing). */
uint32_t kymo_reader_dict_size(const struct kymo_reader *r);
uint8_t kymo_reader_dict_kind(const struct kymo_reader *r, uint32_t id);

/* Formatting as the Erlang shell would: <0.1.2>, #Port<0.3>, 'odd atom',
 * lists:map/2. Always NUL terminated, cut to size; returns the length it would
 * have had, as snprintf. */
size_t kymo_format_ident(const struct kymo_reader *r, uint64_t ident, char *buf, size_t size);
size_t kymo_format_mfa(const struct kymo_reader *r, uint32_t id, char *buf, size_t size);
size_t kymo_format_atom(struct kymo_text t, char *buf, size_t size);
/* "s1" scheduler, "c2" dirty CPU, "i3" dirty IO, "t4" any other (slot number). */
size_t kymo_format_thread(const struct kymo_slot *slot, uint32_t index, char *buf, size_t size);
/* UTC, "2024-05-01T12:00:00.123456789Z"; "?" for a time that no calendar has. */
size_t kymo_format_utc(int64_t unix_ns, char *buf, size_t size);
/* An external term (no 131) as text; damage prints as '...'. */
size_t kymo_format_term(const uint8_t *etf, size_t len, char *buf, size_t size);
/* The same, with the pids, ports and references of the recorded node written as
 * local ones: <0.1.2> and not <node@host.1.2>. */
size_t kymo_format_value(const struct kymo_reader *r, const uint8_t *etf, size_t len, char *buf, size_t size);
/* An argument list as (10, foo), and a call with it as lists:nth(10, foo). The
 * list is never taken for a string, its elements are terms like others. Each
 * argument that was cut off is '...'. 0 when the term is no list. */
size_t kymo_format_arguments(const struct kymo_reader *r, uint32_t mfa, const uint8_t *etf, size_t len,
                             char *buf, size_t size);
size_t kymo_format_call(const struct kymo_reader *r, uint32_t mfa, const uint8_t *etf, size_t len, char *buf,
                        size_t size);
/* The content of KYMO_E_OTHER, [Term | Extra]: Term is the *head bytes from
 * KYMO_CELL_HEAD on, Extra the rest, [] when there was none. False: it is damaged. */
#define KYMO_CELL_HEAD 5u
bool kymo_term_cell(const uint8_t *etf, size_t len, size_t *head);

/* Raw segments, for the exporter that copies them: valid, deduplicated, in
 * order of (slot, seq), those before the horizon too. *bytes holds the header and the
 * committed content with content_bits and events filled in, valid until the next call;
 * packet_bits is the same as content_bits, ts_end the time of the last record. Times
 * and losses of one thread do not go down from one segment to the next. 1, 0 after the
 * last one, or -errno. When a segment can't be used (damaged, or overwritten meanwhile:
 * counted) the answer is 1 with *bytes NULL and *len 0: go on with the next index. */
int kymo_reader_segment(struct kymo_reader *r, uint64_t index, const uint8_t **bytes, size_t *len);

#endif
