/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a recording of a running recorder or of a dead node, or a snapshot. One
 * struct kymo_reader may be used by one thread at a time. Its memory is proportional to
 * the number of threads, segments (56 bytes each) and dictionary entries, not to the
 * number of events. The pool of a running recorder is copied, too (the oldest 512 MiB of
 * it), because it may be reused before it is read. No input can make the reader crash:
 * damaged parts are skipped and counted.
 */
#ifndef KYMO_READER_H
#define KYMO_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kymo_names.h"
#include "kymo_record.h"

struct kymo_reader;

/* Damage found by the reader, in addition to the losses that the recorder counted. */
struct kymo_damage {
    uint64_t segments_bad;   /* invalid headers, and headers that contradict their neighbours */
    uint64_t records_bad;    /* segments truncated at an invalid record or by the end of a file */
    uint64_t bytes_cut;      /* bytes skipped in those segments and at ends of files */
    uint64_t segments_moved; /* overwritten by a running recorder after the first event was returned */
    uint64_t dict_bad;       /* bytes skipped in the dictionary */
    uint64_t dict_missing;   /* recordings whose dictionary had entries, and whose file is missing */
    uint64_t seq_gaps;       /* segments missing between the first and last seen (discard only) */
    uint64_t events_missing; /* kymo_reader_missing of the segments found: files were removed or cut */
};

/* Opens the recording at dir. Returns 0, or a negative errno and a message in err:
 * -ENOENT, -ENOTDIR, -EACCES, -EBADMSG (not a recording), -EPROTO (an unknown format
 * version), -ENOMEM, -EIO. */
int kymo_reader_open(const char *dir, struct kymo_reader **out, char *err, size_t err_size);
/* The same for a caller that has read an earlier state of the recording, and will begin with
 * kymo_reader_skip and these times: of a living recording, only the part of the pool that
 * skip leaves is copied. before may be NULL. */
int kymo_reader_reopen(const char *dir, const uint64_t *before, uint32_t n, struct kymo_reader **out,
                       char *err, size_t err_size);
void kymo_reader_close(struct kymo_reader *r);

/* The header as found, except for events_removed, which does not count events that
 * are still in the pool; and the counters of each thread, corrected by what was found:
 * `bytes` includes open segments, and `overwritten` is taken from the oldest segment,
 * so both are right however the recorder ended. The pointers are valid until close. */
const struct kymo_meta *kymo_reader_meta(const struct kymo_reader *r);
const struct kymo_slot *kymo_reader_slots(const struct kymo_reader *r, uint32_t *n);
/* Events of the thread that were lost for this cause (enum kymo_loss). */
static inline uint64_t kymo_slot_lost(const struct kymo_slot *s, unsigned cause)
{
    return s->lost[cause] + (cause == KYMO_LOST_IO ? s->io_lost : 0);
}
/* Events of all threads that were lost for any cause, as counted by the recorder. */
uint64_t kymo_reader_lost(const struct kymo_reader *r);
const struct kymo_damage *kymo_reader_damage(const struct kymo_reader *r);
/* Of a recording that is closed, or a snapshot: the events that were recorded, neither overwritten nor
 * removed by the recorder, and are not among the `found` ones. 0 for other recordings, whose counters
 * may still change. */
uint64_t kymo_reader_missing(const struct kymo_reader *r, uint64_t found);
/* If events_missing is not 0 and a file of the recording is missing, stores its name and returns
 * true. False: there are files for all of them, so they were cut or damaged. */
bool kymo_reader_missing_file(const struct kymo_reader *r, char *name, size_t size);
/* True if the recorder never closed the recording and its OS process is gone. */
bool kymo_reader_crashed(const struct kymo_reader *r);
/* Segments in use in the file `ring`, and their bytes with headers. */
void kymo_reader_pool(const struct kymo_reader *r, uint64_t *segments, uint64_t *bytes);

/* The horizon (kymo_format.h): from this time on the recording is complete, except for
 * losses that it reports. Before it, only some threads have events left: those events
 * are `incomplete`, and whatever was in progress then has no duration. False: the
 * recording is complete from its start, whose time is in *ticks and *ns. While a
 * running recorder overwrites, the horizon may move during the reading of the first
 * events: call this after the first complete event was returned. */
bool kymo_reader_horizon(const struct kymo_reader *r, uint64_t *ticks, int64_t *ns);
/* True if an event of this thread at this time lies before the horizon. */
bool kymo_reader_incomplete(const struct kymo_reader *r, uint32_t slot, uint64_t ticks);
/* Selects whether kymo_reader_next returns incomplete events, too (default: false).
 * Call it before the first kymo_reader_next, or call kymo_reader_rewind afterwards. */
void kymo_reader_show_all(struct kymo_reader *r, bool all);
/* The lowest ticks that kymo_reader_ns converts to this time or a later one. */
uint64_t kymo_reader_ticks(const struct kymo_reader *r, int64_t ns);
/* Moves the horizon forward to just before this time, and rewinds. The recording is then read as
 * if older events had been overwritten; they are not read. */
void kymo_reader_begin_at(struct kymo_reader *r, int64_t ns);

/* Returns the next event of all threads in order of ticks (ties: by slot), from the
 * horizon on, including notes of the recorder (KYMO_E_FIRST_NOTE and up). In a running
 * recording the last event is the newest one at the time of opening. `ns` never
 * decreases within a thread; it may decrease between threads after a jump of the clock
 * (see kymo_reader_jumps). 1: *ev is filled; 0: end; a negative errno: the rest cannot
 * be read (-EIO, -ENOMEM). */
int kymo_reader_next(struct kymo_reader *r, struct kymo_event *ev);
/* A number that changes with every event that kymo_reader_next returns while a thread
 * loses events (from a note of loss to the next one in that thread), at a damaged or
 * missing segment, and between the first and the last loss of threads without a slot.
 * Because processes move between threads, anything that is open across such a change
 * may have ended unrecorded, and what looks like its end may belong to something else. */
uint64_t kymo_reader_loss_epoch(const struct kymo_reader *r);
/* Returns to the first event. */
int kymo_reader_rewind(struct kymo_reader *r);
/* The same, but skips segments of the thread with slot i < n whose events are all older
 * than before[i] (ticks). Some older events may still be returned. */
void kymo_reader_skip(struct kymo_reader *r, const uint64_t *before, uint32_t n);
/* Bytes of segments read and in total, for progress. */
void kymo_reader_progress(const struct kymo_reader *r, uint64_t *done, uint64_t *total);

/* The times of the first and the last readable record, without reading those between;
 * the first is not before the horizon, unless kymo_reader_show_all was set. Invalidates
 * what kymo_reader_segment returned. 0, -ENODATA if there is no record, -ENOMEM. */
int kymo_reader_span(struct kymo_reader *r, int64_t *first_ns, int64_t *last_ns);

/* A function or kind of events that the recorder shed to keep its budget (kymo_format.h), in
 * order of time. Outside of these periods nothing was left out. */
struct kymo_shed {
    uint32_t mfa;       /* canonical id of the function; 0 = unknown, or a kind of events */
    uint32_t kind;      /* enum kymo_kind, KYMO_KINDS for a function */
    int64_t from, to;   /* CLOCK_MONOTONIC; to: INT64_MAX = the end of the recording */
    uint32_t recording; /* its number in a timeline, otherwise 0 */
};
const struct kymo_shed *kymo_reader_shed(const struct kymo_reader *r, size_t *n);

/* Time. */
int64_t kymo_reader_ns(const struct kymo_reader *r, uint64_t ticks); /* CLOCK_MONOTONIC */
/* The same for a record of segment `index` (see kymo_reader_segment). */
int64_t kymo_reader_segment_ns(struct kymo_reader *r, uint64_t index, uint64_t ticks);
/* The number of segments during which the clock jumped before the recorder noticed.
 * Their times are corrected, each by the time at which it began. */
uint64_t kymo_reader_jumps(const struct kymo_reader *r);
int64_t kymo_reader_wall_ns(const struct kymo_reader *r, int64_t mono_ns); /* Unix epoch */
int64_t kymo_reader_erl_ns(const struct kymo_reader *r, int64_t mono_ns);  /* erlang:monotonic_time */

/* Names. Unknown ids give "?" and arity 0. The text is UTF-8, not quoted. */
struct kymo_text {
    const char *s;
    uint32_t len;
};
static inline bool kymo_text_is(struct kymo_text t, const char *s)
{
    return t.len == strlen(s) && memcmp(t.s, s, t.len) == 0;
}
struct kymo_mfa {
    uint32_t module, function, arity;
};
struct kymo_text kymo_reader_atom(const struct kymo_reader *r, uint32_t id);
bool kymo_reader_mfa(const struct kymo_reader *r, uint32_t id, struct kymo_mfa *out);
bool kymo_reader_term(const struct kymo_reader *r, uint32_t id, const uint8_t **etf, uint32_t *len);
/* The lowest id with the same definition, for counting by id. */
uint32_t kymo_reader_canonical(const struct kymo_reader *r, uint32_t id);
/* Name and function of a process, from the dictionary or from the register events read
 * so far; false if neither has it. */
bool kymo_reader_process(const struct kymo_reader *r, uint64_t ident, uint32_t *name_atom, uint32_t *mfa);
/* The parent of a process and the process it works for, from the dictionary: pids or
 * names, or KYMO_IDENT_NONE. False if it has neither. */
bool kymo_reader_relatives(const struct kymo_reader *r, uint64_t ident, uint64_t *parent, uint64_t *caller);
/* The process that dictionary entry id describes; false if it describes none. */
bool kymo_reader_described(const struct kymo_reader *r, uint32_t id, uint64_t *ident);
/* Number of dictionary ids (ids are 1 .. n), and the kind of one (0 = missing). */
uint32_t kymo_reader_dict_size(const struct kymo_reader *r);
uint8_t kymo_reader_dict_kind(const struct kymo_reader *r, uint32_t id);

/* Formatting as the Erlang shell would: <0.1.2>, #Port<0.3>, 'odd atom',
 * lists:map/2. Always NUL-terminated and cut to size; returns the full length,
 * as snprintf does. */
size_t kymo_format_ident(const struct kymo_reader *r, uint64_t ident, char *buf, size_t size);
size_t kymo_format_mfa(const struct kymo_reader *r, uint32_t id, char *buf, size_t size);
size_t kymo_format_atom(struct kymo_text t, char *buf, size_t size);
/* "s1" scheduler, "c2" dirty CPU, "i3" dirty IO, "t4" any other (slot number). */
size_t kymo_format_thread(const struct kymo_slot *slot, uint32_t index, char *buf, size_t size);
/* UTC, "2024-05-01T12:00:00.123456789Z"; "?" if the time is out of range. */
size_t kymo_format_utc(int64_t unix_ns, char *buf, size_t size);
/* An external term (no 131) as text; damage prints as '...'. */
size_t kymo_format_term(const uint8_t *etf, size_t len, char *buf, size_t size);
/* The same, but pids, ports and references of the recorded node are written as local
 * ones: <0.1.2> instead of <node@host.1.2>. */
size_t kymo_format_value(const struct kymo_reader *r, const uint8_t *etf, size_t len, char *buf, size_t size);
/* An argument list as (10, foo), and a call with it as lists:nth(10, foo). The list
 * itself is never printed as a string; its elements may be. Arguments that were cut
 * off are printed as '...'. Returns 0 if the term is not a list. */
size_t kymo_format_arguments(const struct kymo_reader *r, uint32_t mfa, const uint8_t *etf, size_t len,
                             char *buf, size_t size);
size_t kymo_format_call(const struct kymo_reader *r, uint32_t mfa, const uint8_t *etf, size_t len, char *buf,
                        size_t size);
/* The content of KYMO_E_OTHER, [Term | Extra]: Term is the *head bytes from
 * KYMO_CELL_HEAD on, Extra the rest, [] if there was none. False if it is damaged. */
#define KYMO_CELL_HEAD 5u
bool kymo_term_cell(const uint8_t *etf, size_t len, size_t *head);

/* Raw segments, for the exporter that copies them: valid, without duplicates, in order
 * of (slot, seq), including those before the horizon. *bytes is the header and the
 * committed content, with content_bits and events filled in; it is valid until the next
 * call. packet_bits equals content_bits, and ts_end is the time of the last record. Times
 * and losses of a thread never decrease from one segment to the next. Returns 1, 0 after
 * the last segment, or -errno. If a segment is unusable (damaged, or overwritten since;
 * both are counted), it returns 1 with *bytes NULL and *len 0: continue with the next
 * index. */
int kymo_reader_segment(struct kymo_reader *r, uint64_t index, const uint8_t **bytes, size_t *len);

#endif
