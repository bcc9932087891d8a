/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of the reader, shared by reader*.c only.
 *
 * Parts, in the order in which they are used:
 *   reader.c          open and close; the header
 *   reader_alive.c    determines whether the recorder's process is alive
 *   reader_io.c       the files of the recording, which are never trusted
 *   reader_index.c    finds the segments in ring and data files
 *   reader_order.c    drops segments whose times contradict their numbers
 *   reader_hold.c     keeps what a running recorder may reuse or remove
 *   reader_horizon.c  computes the horizon
 *   reader_missing.c  compares what was found with the recorder's counters
 *   reader_dict.c     definitions, canonical ids, processes
 *   reader_time.c     ticks to nanoseconds
 *   reader_segment.c  copies and checks one segment
 *   reader_merge.c    merges all threads in order of time
 *   reader_names.c    names and idents as text
 *   reader_etf.c      external terms as text
 *   reader_args.c     argument lists as text
 *   timeline*.c       several recordings as one (timeline.h)
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

/* Opens a regular file of the recording for reading; *size is its present size. Returns a
 * descriptor or a negative errno: -ENOENT, -EBADMSG if it is not a regular file, or an error
 * of open. Never blocks on a fifo or a device. */
int kymo_file_open(int dir, const char *name, uint64_t *size);
/* Returns a descriptor of file `number`, which stays open until 63 others have been requested. */
int kymo_file_get(struct kymo_files *f, uint32_t number);
/* Reads n bytes, or fewer at the end of the file. Returns their number or -errno. */
ssize_t kymo_file_read(int fd, void *buf, size_t n, uint64_t offset);
/* The first offset >= pos that is not in a hole, or the size of the file. */
uint64_t kymo_file_data(int fd, uint64_t pos, uint64_t size);
void kymo_files_close(struct kymo_files *f);

/* ---- index ---- */

struct kymo_seg_ref {
    uint64_t seq;
    uint64_t offset;
    uint64_t ts_begin;
    uint64_t order;  /* number of this use of the pool; differs after a reuse */
    int64_t mono_ns; /* at ts_begin; once the clock is built, what kymo_ref_ns adds */
    uint32_t slot;
    uint32_t file;
    uint32_t len;   /* header and committed content when the index was made */
    uint32_t flags; /* KYMO_REF_* */
};
#define KYMO_REF_CLOSED 1u /* content_bits was set */
#define KYMO_REF_CUT 2u    /* the file ends inside the segment: len is the rest */
#define KYMO_REF_BAD 4u    /* its damage has been counted */
#define KYMO_REF_OUT 8u    /* will be removed from the index */
#define KYMO_REF_TIME 16u  /* ts_begin is not that of the header, so mono_ns is invalid */
#define KYMO_REF_HELD 32u  /* offset is in kymo_reader.held */
#define KYMO_REF_SUM 64u   /* its CRC was verified in an earlier pass */

struct kymo_index {
    struct kymo_seg_ref *refs; /* by (slot, seq), no pair twice */
    size_t n, room;
    uint64_t bytes;               /* sum of len */
    uint64_t places, place_bytes; /* of the pool: in use, and sum of their len */
    bool made;
    uint64_t newest;    /* order of the newest segment to be read */
    uint32_t tail_file; /* how far the data files were searched */
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

/* Parses n bytes of entries at a file offset into d. Returns the number of bytes consumed, or
 * -ENOMEM: all of them if `last`, else those before the first entry that may extend beyond the
 * end. Adds the number of skipped bytes that were not zero to *bad. */
ssize_t kymo_defs_parse(struct kymo_defs *d, const uint8_t *p, size_t n, uint64_t offset, bool last,
                        uint64_t *bad);
/* Determines canonical ids, after everything was parsed. Returns 0 or -ENOMEM. */
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

/* Builds the clock from a table of n pairs as found on disk. Ignores pairs that do not ascend.
 * Returns 0 or -ENOMEM. */
int kymo_clock_build(struct kymo_clockmap *c, const struct kymo_meta *meta, const struct kymo_calib *table,
                     uint32_t n);
/* Adds those of n pairs of segment headers, sorted by ticks, that are after the last point, far
 * enough apart, and agree with the rate so far. Returns 0 or -ENOMEM. */
int kymo_clock_extend(struct kymo_clockmap *c, const struct kymo_meta *meta, const struct kymo_calib *pairs,
                      size_t n);
/* Converts ticks to nanoseconds. *hint is the piece used last, as times mostly ascend; any value
 * is valid. */
int64_t kymo_clock_ns(const struct kymo_clockmap *c, uint32_t *hint, uint64_t ticks);
void kymo_clock_free(struct kymo_clockmap *c);

/* Builds the clock from the table and the segments of the index, in which it replaces mono_ns by
 * corrections. Returns 0 or -ENOMEM. */
int kymo_times_build(struct kymo_reader *r, const struct kymo_calib *table, uint32_t n);
/* CLOCK_MONOTONIC of a record of segment i. Never decreases with ticks and i. */
int64_t kymo_ref_ns(const struct kymo_reader *r, size_t i, uint32_t *hint, uint64_t ticks);

/* ---- merge ---- */

/* One thread of the recording. */
struct kymo_cursor {
    size_t first, n, next; /* its segments in the index; the one to load next */
    struct kymo_scan scan;
    bool loaded; /* scan is at a peeked record */
    bool losing; /* events are missing before its next record */
    /* The thread's losses when the present segment was opened, and those that its notes have
     * reported since. Its first notes are about earlier losses. */
    uint64_t lost_open, noted;
    bool noted_before;
    bool ended;    /* nothing follows except the time of its newest loss */
    uint64_t last; /* time of its newest event; never decreases */
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

struct kymo_timeline;

struct kymo_reader {
    struct kymo_timeline *timeline; /* NULL: it reads one recording itself */
    struct kymo_meta meta;
    struct kymo_slot *slots;
    uint32_t n_slots;
    bool crashed;
    struct kymo_damage damage;
    struct kymo_files files;
    struct kymo_index index;
    uint64_t horizon;           /* ticks; 0 = complete from the start */
    uint64_t begin;             /* ticks: segments that end earlier are not read; 0 = all */
    struct kymo_losses *losses; /* by slot; of a living recording, not older than `until` */
    uint64_t *floors;           /* by slot: the time after which this thread is complete */
    uint64_t *ends;             /* by slot: of a living recording, the newest event found, or 0 */
    uint64_t until;             /* ticks of the newest event that is returned */
    bool all;                   /* return incomplete events, too */
    bool given;                 /* a complete event was returned to the caller since the start */
    struct kymo_defs defs;
    struct kymo_shed *shed;
    size_t n_shed, shed_room;
    struct kymo_clockmap clock;
    uint32_t clock_hint;
    uint64_t jumps;              /* segments with a correction */
    struct kymo_cursor *cursors; /* one per slot */
    struct kymo_heap_entry *heap;
    uint32_t heap_n;
    uint64_t loss_epoch; /* see kymo_reader_loss_epoch */
    uint32_t losing;     /* cursors that are */
    bool no_slot_passed; /* the newest event returned is newer than the losses without a slot */
    bool top_taken;      /* the top of the heap was returned and must advance */
    uint64_t bytes_done;
    uint8_t *held;               /* copy of a living recorder's pool, made when it was opened */
    const uint64_t *read_before; /* by slot, while it is opened: see kymo_reader_reopen; or NULL */
    uint32_t n_read_before;
    uint8_t *raw; /* for kymo_reader_segment */
    uint32_t raw_room;
    uint64_t raw_end, raw_lost; /* last time and losses of the raw segment before */
};

/* Fills in r->index. Returns 0 or a negative errno: -ENOMEM, -EACCES, -EMFILE... */
int kymo_index_build(struct kymo_reader *r);
/* Drops segments whose numbers contradict their times. Returns 0 or -ENOMEM. */
int kymo_index_order(struct kymo_reader *r);
/* Sets `until` to the time of the newest event of a living recording, before the index
 * is made. */
void kymo_newest_find(struct kymo_reader *r);
/* The losses that a slot has counted. */
struct kymo_losses kymo_slot_losses(const struct kymo_slot *s);
/* Saves what a living recorder may reuse or remove: copies the segments of the pool, and opens
 * the data files (if there are many, the oldest ones). To be called before kymo_horizon_find.
 * Returns 0 or -ENOMEM. */
int kymo_index_hold(struct kymo_reader *r);
/* Reads up to n bytes of the segment from its header on. Returns their number or -errno. */
ssize_t kymo_ref_read(struct kymo_reader *r, const struct kymo_seg_ref *ref, void *buf, size_t n);
/* Reads ref's bytes into buf. Returns their number, 0 if the segment is gone, or -EIO. */
int kymo_segment_copy(struct kymo_reader *r, const struct kymo_seg_ref *ref, uint8_t *buf);
/* Computes the horizon and corrects counters of slots. Drops segments from the index that a
 * living recorder has reused since it was made. */
void kymo_horizon_find(struct kymo_reader *r);
/* Counts the events of segments that should be there, after index and horizon. */
void kymo_missing_find(struct kymo_reader *r);
/* Moves the horizon past a segment of the index that has been overwritten. */
void kymo_horizon_raise(struct kymo_reader *r, const struct kymo_seg_ref *gone);
/* Searches the data files written since for a segment that is no longer in the ring. Returns true
 * if it was found, and updates ref. */
bool kymo_index_left_ring(struct kymo_reader *r, const struct kymo_seg_ref *ref);
/* Fills in ref from a header. Returns false if the header is invalid. room is the number of bytes
 * from the header to the end of its space. */
bool kymo_segment_header(const struct kymo_reader *r, const struct kymo_segment *h, uint64_t room,
                         struct kymo_seg_ref *ref);
/* True if the present header is still that of ref. */
bool kymo_segment_unchanged(const struct kymo_reader *r, const struct kymo_seg_ref *ref,
                            const struct kymo_segment *h);
/* True if a recorder may be writing to the files. */
bool kymo_is_living(const struct kymo_reader *r);
/* Copies segment ref into *buf, which is enlarged if necessary, and checks it. Returns the number
 * of valid bytes with the header, 0 if it is unusable (counted once in r->damage), or
 * -ENOMEM. */
int kymo_segment_load(struct kymo_reader *r, struct kymo_seg_ref *ref, uint8_t **buf, uint32_t *room);
/* The times of the first and last valid record of a segment. Returns 1, 0 if it has none, or
 * -ENOMEM. */
int kymo_segment_ends(struct kymo_reader *r, struct kymo_seg_ref *ref, uint64_t *first, uint64_t *last);
/* After the last record: counts damage, once, if the header of the closed segment has
 * another time for it. */
void kymo_segment_check_end(struct kymo_reader *r, struct kymo_seg_ref *ref, const struct kymo_scan *s);
/* Counts the loss of the rest of a segment from byte `at` on, once. */
void kymo_segment_damaged(struct kymo_reader *r, struct kymo_seg_ref *ref, uint32_t at);

/* ---- shedding ---- */

/* Makes the list of kymo_reader_shed, after times and dictionary. Returns 0 or -ENOMEM. */
int kymo_shed_find(struct kymo_reader *r);

/* ---- text ---- */

struct kymo_sink;

/* Writes the term at *p as text and moves *p past it. Returns false if it is malformed; then
 * '...' was written for the malformed part, and what follows cannot be read. */
bool kymo_put_term(const struct kymo_reader *r, struct kymo_sink *out, const uint8_t **p, const uint8_t *end);
/* module:function without the arity, ? for an unknown id. */
void kymo_put_function(struct kymo_sink *out, const struct kymo_reader *r, uint32_t id);

/* ---- small things ---- */

/* The result of kymo_reader_crashed. */
bool kymo_owner_gone(const struct kymo_reader *r);

/* Makes room for `need` elements. Returns false if out of memory; then *p is unchanged. */
bool kymo_grow(void **p, size_t *room, size_t need, size_t elem);

#endif
