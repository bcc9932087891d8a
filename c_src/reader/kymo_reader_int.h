/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the reader: shared by reader*.c only.
 *
 * Parts, in the order they are used:
 *   reader.c          opens, closes, answers for the header
 *   reader_alive.c    whether the recorder's process is still there
 *   reader_io.c       files of the recording, by number, never trusted
 *   reader_index.c    finds the segments in ring and data files
 *   reader_order.c    leaves out segments whose times contradict their numbers
 *   reader_hold.c     keeps what a living recorder may reuse or remove
 *   reader_horizon.c  from when on the recording is complete
 *   reader_dict.c     definitions, canonical ids, processes
 *   reader_time.c     ticks to nanoseconds
 *   reader_segment.c  copies one segment and proves that the copy is good
 *   reader_merge.c    all threads in order of time
 *   reader_names.c    names and idents as text
 *   reader_etf.c      external terms as text
 *   reader_args.c     argument lists as text
 */
#ifndef KYMO_READER_INT_H
#define KYMO_READER_INT_H

#include <sys/types.h>

#include "kymo_map.h"
#include "kymo_reader.h"

#define KYMO_MAX_META_BYTES (1u << 20) /* room for later versions of meta */

/* ---- files ---- */

#define KYMO_FILE_RING 0u /* file number 0; data files have theirs, from 1 */
#define KYMO_OPEN_FILES 64u

struct kymo_files {
    int dir;
    struct {
        int fd; /* -1 = free */
        uint32_t number;
        uint64_t used; /* for the least recently used */
    } open[KYMO_OPEN_FILES];
    uint64_t clock;
};

/* Opens a regular file of the recording for reading; *size is its size now.
 * A descriptor, or a negative errno: -ENOENT, -EBADMSG when it is not a regular
 * file, and those of open. Never blocks on a fifo or a device. */
int kymo_file_open(int dir, const char *name, uint64_t *size);
/* A descriptor of file `number` that stays open until 63 others were asked for. */
int kymo_file_get(struct kymo_files *f, uint32_t number);
/* Reads up to n bytes; less only at the end of the file. Bytes read or -errno. */
ssize_t kymo_file_read(int fd, void *buf, size_t n, uint64_t offset);
/* The first offset >= pos that is not in a hole, or the size of the file. */
uint64_t kymo_file_data(int fd, uint64_t pos, uint64_t size);
void kymo_files_close(struct kymo_files *f);

/* ---- index ---- */

struct kymo_seg_ref {
    uint64_t seq;
    uint64_t offset;
    uint64_t ts_begin;
    uint64_t order;  /* which use of the pool it is: tells it from what came after it */
    int64_t mono_ns; /* at ts_begin; once the clock is built, what kymo_ref_ns adds */
    uint32_t slot;
    uint32_t file;
    uint32_t len;   /* header and committed content when the index was made */
    uint32_t flags; /* KYMO_REF_* */
};
#define KYMO_REF_CLOSED 1u /* content_bits was set */
#define KYMO_REF_CUT 2u    /* the file ends inside the segment: len is what is left */
#define KYMO_REF_BAD 4u    /* its damage has been counted */
#define KYMO_REF_OUT 8u    /* is on its way out of the index */
#define KYMO_REF_TIME 16u  /* ts_begin is not that of the header: mono_ns is of no use */
#define KYMO_REF_HELD 32u  /* offset is in kymo_reader.held */

struct kymo_index {
    struct kymo_seg_ref *refs; /* by (slot, seq), no pair twice */
    size_t n, room;
    uint64_t bytes;               /* sum of len */
    uint64_t places, place_bytes; /* of the pool: in use, and sum of their len */
    bool made;
    uint64_t newest;    /* order of the newest segment that belongs to what is read */
    uint32_t tail_file; /* how far the data files were looked at */
    uint64_t tail_pos;
};

/* ---- dictionary ---- */

struct kymo_def {
    uint64_t at; /* of the payload in the arena */
    uint32_t canonical;
    uint16_t len;
    uint8_t kind; /* 0 = not defined */
};

struct kymo_process {
    uint32_t name, mfa;
    uint64_t parent, caller; /* KYMO_IDENT_NONE: not known */
};

struct kymo_defs {
    uint8_t *arena;
    size_t used, room;
    struct kymo_def *def; /* [0] is unused */
    uint32_t n, def_room;
    struct kymo_map processes; /* ident -> struct kymo_process */
};

/* Parses n bytes of entries at a file offset into d. Returns how many bytes were
 * consumed: all of them when `last`, else up to the first entry that may go on
 * behind the end. *bad is increased by the bytes skipped that were not zero.
 * 0 <= ... <= n, or -ENOMEM. */
ssize_t kymo_defs_parse(struct kymo_defs *d, const uint8_t *p, size_t n, uint64_t offset, bool last,
                        uint64_t *bad);
/* Finds canonical ids, once everything is parsed. 0 or -ENOMEM. */
int kymo_defs_finish(struct kymo_defs *d);
/* A register event: names the process unless its name is known already. */
void kymo_defs_learn(struct kymo_defs *d, uint64_t ident, uint32_t name_atom);
void kymo_defs_free(struct kymo_defs *d);

/* ---- time ---- */

/* From ticks on: ns + ((t - ticks) * mult >> shift). */
struct kymo_piece {
    uint64_t ticks;
    int64_t ns;
    uint64_t mult;
    uint32_t shift;
};

struct kymo_reader;

struct kymo_clockmap {
    struct kymo_piece *pieces; /* NULL: ticks are nanoseconds */
    uint32_t n;
};

/* table holds n pairs as found on disk: those that do not go up are left out.
 * 0 or -ENOMEM. */
int kymo_clock_build(struct kymo_clockmap *c, const struct kymo_meta *meta, const struct kymo_calib *table,
                     uint32_t n);
/* Adds n pairs of segment headers, sorted by ticks, behind the last point: those that
 * are far enough apart and agree with the rate so far. 0 or -ENOMEM. */
int kymo_clock_extend(struct kymo_clockmap *c, const struct kymo_meta *meta, const struct kymo_calib *pairs,
                      size_t n);
/* *hint: the piece of the last question, as times mostly go up; any value will do. */
int64_t kymo_clock_ns(const struct kymo_clockmap *c, uint32_t *hint, uint64_t ticks);
void kymo_clock_free(struct kymo_clockmap *c);

/* Builds the clock from the table and from what the segments of the index say, and
 * replaces mono_ns there by corrections. 0 or -ENOMEM. */
int kymo_times_build(struct kymo_reader *r, const struct kymo_calib *table, uint32_t n);
/* CLOCK_MONOTONIC of a record of segment i. Never goes down with ticks and i. */
int64_t kymo_ref_ns(const struct kymo_reader *r, size_t i, uint32_t *hint, uint64_t ticks);

/* ---- merge ---- */

/* One thread of the recording. */
struct kymo_cursor {
    size_t first, n, next; /* its segments in the index; the one to load next */
    struct kymo_scan scan;
    bool loaded; /* scan is at a peeked record */
    bool losing; /* events are missing before its next record */
    /* Losses of the segment that is read: when it was opened, and what its notes say of
     * those since. Its first notes say of those before. */
    uint64_t lost_open, noted;
    bool noted_before;
    bool ended;    /* nothing follows but the time of its newest loss */
    uint64_t last; /* time of its newest event: never goes down */
    int64_t last_ns;
    uint8_t *buf;
    uint32_t room;
};

struct kymo_heap_entry {
    uint64_t key;
    uint32_t slot;
};

/* Losses of a thread, as the recorder has counted them. */
struct kymo_losses {
    uint64_t n;
    uint64_t last; /* ticks of the newest; UINT64_MAX: not known */
};

struct kymo_reader {
    struct kymo_meta meta;
    struct kymo_slot *slots;
    uint32_t n_slots;
    bool crashed;
    const uint64_t *before; /* while it is opened, by slot: what is older will not be read; or NULL */
    uint32_t n_before;
    struct kymo_damage damage;
    struct kymo_files files;
    struct kymo_index index;
    uint64_t horizon;           /* ticks; 0 = complete from the start */
    struct kymo_losses *losses; /* by slot; of a living recording, not older than `until` */
    uint64_t *floors;           /* by slot: what is after it is complete in this thread */
    uint64_t *ends;             /* by slot: of a living recording, the newest event found, or 0 */
    uint64_t until;             /* ticks of the newest event that is given */
    bool all;                   /* incomplete events are given too */
    bool given;                 /* an event that is complete was given to the caller since the start */
    struct kymo_defs defs;
    struct kymo_clockmap clock;
    uint32_t clock_hint;
    uint64_t jumps;              /* segments with a correction */
    struct kymo_cursor *cursors; /* one per slot */
    struct kymo_heap_entry *heap;
    uint32_t heap_n;
    uint64_t loss_epoch; /* see kymo_reader_loss_epoch */
    uint32_t losing;     /* cursors that are */
    bool no_slot_passed; /* what was lost for want of a slot is older than the newest event given */
    bool top_taken;      /* the top of the heap was handed out and must move on */
    uint64_t bytes_done;
    uint8_t *held; /* the pool of a living recorder, as it was when it was opened */
    uint8_t *raw;  /* for kymo_reader_segment */
    uint32_t raw_room;
    uint64_t raw_end, raw_lost; /* last time and losses of the raw segment before */
};

/* Fills r->index. 0, or a negative errno: -ENOMEM, -EACCES, -EMFILE... */
int kymo_index_build(struct kymo_reader *r);
/* Leaves segments out that can't be where their numbers put them. 0 or -ENOMEM. */
int kymo_index_order(struct kymo_reader *r);
/* Sets `until` to the time of the newest event of a living recording, before the index
 * is made. */
void kymo_newest_find(struct kymo_reader *r);
/* What the slot says of losses. */
struct kymo_losses kymo_slot_losses(const struct kymo_slot *s);
/* Takes hold of what a living recorder may reuse or remove: copies the segments of the
 * pool, opens the data files (the oldest ones, when there are many). Before the horizon
 * is looked for. 0 or -ENOMEM. */
int kymo_index_hold(struct kymo_reader *r);
/* Up to n bytes of the segment from its header on. Bytes read or a negative errno. */
ssize_t kymo_ref_read(struct kymo_reader *r, const struct kymo_seg_ref *ref, void *buf, size_t n);
/* Reads ref's bytes into buf. Their number; 0 when it isn't there any more; -EIO. */
int kymo_segment_copy(struct kymo_reader *r, const struct kymo_seg_ref *ref, uint8_t *buf);
/* Finds the horizon, sets counters of slots right. Drops segments from the index that
 * a living recorder has reused since it was made. */
void kymo_horizon_find(struct kymo_reader *r);
/* A segment of the index is gone: the recording is complete only after it. */
void kymo_horizon_raise(struct kymo_reader *r, const struct kymo_seg_ref *gone);
/* A segment is no longer where the ring had it: looks at what the recorder has
 * written to data files since. True when it is there, and ref says where. */
bool kymo_index_left_ring(struct kymo_reader *r, const struct kymo_seg_ref *ref);
/* What a header says when it is good enough to be indexed: false if it isn't.
 * room: bytes from the header to the end of its space. */
bool kymo_segment_header(const struct kymo_reader *r, const struct kymo_segment *h, uint64_t room,
                         struct kymo_seg_ref *ref);
/* The header of ref as it is now is still that of ref. */
bool kymo_segment_unchanged(const struct kymo_reader *r, const struct kymo_seg_ref *ref,
                            const struct kymo_segment *h);
/* Somebody may write to the files while they are read. */
bool kymo_is_living(const struct kymo_reader *r);
/* Copies segment ref into *buf (grown to fit) and checks it. Bytes of good
 * content with header; 0 when it is unusable (counted once in r->damage);
 * -ENOMEM. */
int kymo_segment_load(struct kymo_reader *r, struct kymo_seg_ref *ref, uint8_t **buf, uint32_t *room);
/* The times of the first and last good record of a segment. 1, 0 when it has
 * none, -ENOMEM. */
int kymo_segment_ends(struct kymo_reader *r, struct kymo_seg_ref *ref, uint64_t *first, uint64_t *last);
/* All records have been gone through: the header of a closed segment tells the
 * time of the last one. Counts it once when it doesn't. */
void kymo_segment_check_end(struct kymo_reader *r, struct kymo_seg_ref *ref, const struct kymo_scan *s);
/* Counts the loss of the rest of a segment from byte `at` on, once. */
void kymo_segment_damaged(struct kymo_reader *r, struct kymo_seg_ref *ref, uint32_t at);

/* ---- text ---- */

struct kymo_sink;

/* Writes the term at *p and moves *p behind it. False: it is no whole term,
 * '...' stands where it was wrong, and what is behind can't be read. */
bool kymo_put_term(const struct kymo_reader *r, struct kymo_sink *out, const uint8_t **p, const uint8_t *end);
/* module:function without the arity, ? for an unknown id. */
void kymo_put_function(struct kymo_sink *out, const struct kymo_reader *r, uint32_t id);

/* ---- small things ---- */

/* What kymo_reader_crashed answers. */
bool kymo_owner_gone(const struct kymo_reader *r);

/* Makes room for `need` elements. False: no memory, *p unchanged. */
bool kymo_grow(void **p, size_t *room, size_t need, size_t elem);

#endif
