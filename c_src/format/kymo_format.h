/* SPDX-License-Identifier: Apache-2.0
 *
 * The recording on disk and in the memory-mapped pool of segments.
 *
 * This header is the only definition of the format: the recorder, the reader and the CTF
 * exporter take all offsets from it. doc/format.md explains it in prose.
 *
 * A recording is a directory:
 *   meta          struct kymo_meta, the calibration table, and one struct kymo_slot per
 *                 tracing thread. Memory-mapped, so the counters survive the node.
 *   dict          append-only definitions: atoms, MFAs, terms, processes.
 *   ring          n_segments places of segment_bytes: one pool for all threads. Absent in
 *                 a snapshot, and after a discard recorder has written everything to data
 *                 files.
 *   data.NNNNNN   whole segments, one after the other, each packet_bits long (policy
 *                 discard, and snapshots). NNNNNN counts from 1.
 *
 * A segment may be both in `ring` and in a data file. The pair (instance, seq) identifies
 * it; readers use one copy.
 *
 * All integers are little-endian. Those of headers are naturally aligned; records in a
 * segment are packed without padding.
 */
#ifndef KYMO_FORMAT_H
#define KYMO_FORMAT_H

#include <stdint.h>

/* The tables are aligned by hand. */
/* clang-format off */

/* Version 3 adds the events 38 to 51. Readers of version 3 read version 2 too. */
#define KYMO_FORMAT_VERSION 3u
#define KYMO_FORMAT_OLDEST 2u
#define KYMO_META_MAGIC 0x314345524f4d594bull /* "KYMOREC1" */
#define KYMO_SEG_MAGIC 0xC1FC1FC1u            /* CTF 1.8 packet magic */
#define KYMO_DICT_MAGIC 0x444d594bu           /* "KYMD" */

#define KYMO_META_NAME "meta"
#define KYMO_DICT_NAME "dict"
#define KYMO_RING_NAME "ring"
#define KYMO_DATA_FMT "data.%06u"

/* ---- limits: kymo never writes anything beyond them ----------------------- */

#define KYMO_SLOTS_MAX 4096u
#define KYMO_SEGMENT_MIN 4096u
#define KYMO_SEGMENT_MAX (1u << 20)
#define KYMO_SEGMENTS_MIN 4u
#define KYMO_SEGMENTS_MAX (1u << 22)
#define KYMO_DICT_MIN 4096u
#define KYMO_DICT_MAX (1u << 30)
#define KYMO_CONTENT_MAX 16384u

/* ---- meta -------------------------------------------------------------- */

enum kymo_policy { KYMO_OVERWRITE = 0, KYMO_DISCARD = 1 };

/* The states of a recorder. state.c has the transitions. */
enum kymo_state {
    KYMO_IDLE = 0,
    KYMO_ACTIVE = 1,
    KYMO_PAUSED = 2,
    KYMO_STOPPING = 3,
    KYMO_CLOSED = 4
};

/* Why a recorder ended. */
enum kymo_reason {
    KYMO_R_NONE = 0,
    KYMO_R_STOP = 1,       /* stop was called */
    KYMO_R_OWNER = 2,      /* the owner died */
    KYMO_R_BYTES = 3,      /* limit on bytes reached */
    KYMO_R_EVENTS = 4,     /* limit on events reached */
    KYMO_R_DURATION = 5,   /* limit on duration reached */
    KYMO_R_UNLOAD = 6,     /* the module was unloaded or the node halted */
    KYMO_R_COLLECTED = 7   /* the last reference to the state was dropped */
};

/* The unit of ticks: nanoseconds of CLOCK_MONOTONIC, or the processor's counter (TSC on
 * x86-64, CNTVCT on ARM64) plus an offset. The offset is corrected when counter and
 * CLOCK_MONOTONIC diverge (suspend, migration of a virtual machine), so the ticks of a
 * recording follow CLOCK_MONOTONIC and never go back. */
enum kymo_clock { KYMO_CLOCK_MONOTONIC = 0, KYMO_CLOCK_COUNTER = 1 };

/* Causes of loss. Each lost event is counted under exactly one. */
enum kymo_loss {
    KYMO_LOST_RING_FULL = 0, /* discard: the drain thread was too slow */
    KYMO_LOST_IO = 1,        /* no room: segments could not be written (errno in meta) */
    KYMO_LOST_NO_SLOT = 2,   /* more tracing threads than slots (in meta only) */
    KYMO_LOST_TOO_BIG = 3,   /* a record that does not fit in a segment */
    KYMO_LOST_BAD_TERM = 4,  /* the runtime passed an unreadable term */
    KYMO_LOST_REENTRY = 5,   /* the thread was interrupted inside the recorder */
    KYMO_LOSS_CAUSES = 8     /* size of the tables; the rest is reserved, 0 */
};

#define KYMO_META_BYTES 4096u
#define KYMO_MEASURES_BYTES 1536u
#define KYMO_CALIB_MAX 256u
#define KYMO_CALIB_BYTES (KYMO_CALIB_MAX * 16u)

/* Detail bits in kymo_meta.detail. */
#define KYMO_D_ARGS 0x01u       /* calls carry their arguments */
#define KYMO_D_RETURNS 0x02u    /* return_from/exception_from carry values */
#define KYMO_D_MSG_SIZE 0x04u   /* messages carry their size */
#define KYMO_D_MSG 0x08u        /* messages carry their contents */
#define KYMO_D_TERMS 0x10u      /* exit reasons, spawn arguments, seq_trace */
#define KYMO_D_GC_SIZES 0x20u   /* garbage collections carry their sizes */

/* Bits of kymo_meta.exact. */
#define KYMO_EXACT_MESSAGES 0x01u /* sent and received messages have numbers */
#define KYMO_EXACT_TAKEN 0x02u    /* messages that leave a mailbox are recorded */
#define KYMO_EXACT_RUNNABLE 0x04u /* in: since when it could run; out: why */
#define KYMO_EXACT_CALLS 0x08u    /* calls and returns have the depth of the stack */
#define KYMO_EXACT_STOPPED 0x10u  /* times when all schedulers were stopped are recorded */

struct kymo_meta {
    uint64_t magic;         /* 0   KYMO_META_MAGIC, stored last at creation */
    uint32_t version;       /* 8   KYMO_FORMAT_VERSION */
    uint32_t meta_bytes;    /* 12  offset of the calibration table */
    uint8_t uuid[16];       /* 16  also in every segment */
    uint32_t policy;        /* 32  enum kymo_policy */
    uint32_t state;         /* 36  enum kymo_state (atomic) */
    uint32_t reason;        /* 40  enum kymo_reason (atomic) */
    uint32_t n_slots;       /* 44 */
    uint32_t segment_bytes; /* 48 */
    uint32_t n_segments;    /* 52  of the pool */
    uint32_t clock;         /* 56  enum kymo_clock */
    uint32_t detail;        /* 60  KYMO_D_* */
    uint64_t ticks_per_sec; /* 64  nominal; calibration refines it */
    uint64_t t0_ticks;      /* 72  recorder clock at creation */
    int64_t t0_mono_ns;     /* 80  CLOCK_MONOTONIC at creation */
    int64_t t0_wall_ns;     /* 88  CLOCK_REALTIME at creation (Unix epoch) */
    int64_t t0_erl_ns;      /* 96  erlang:monotonic_time(nanosecond), 0 without a VM */
    int64_t erl_offset_ns;  /* 104 erlang:time_offset(nanosecond) at creation */
    uint64_t os_pid;        /* 112 */
    uint64_t dict_bytes;    /* 120 size of the dict file while recording */
    uint64_t dict_used;     /* 128 bytes reserved in dict (atomic) */
    uint64_t dict_full;     /* 136 definitions that found no room (atomic) */
    uint64_t no_slot;       /* 144 events lost as KYMO_LOST_NO_SLOT (atomic) */
    uint64_t slots_used;    /* 152 (atomic) */
    uint32_t n_calib;       /* 160 valid entries of the calibration table (atomic) */
    uint32_t io_errno;      /* 164 last error of the drain thread, 0 = none (atomic) */
    uint64_t files;         /* 168 number of the newest data file, 0 = none */
    uint64_t files_removed; /* 176 data files removed by retention */
    uint64_t events_removed;/* 184 events in them */
    uint64_t limit_bytes;   /* 192 0 = none */
    uint64_t limit_events;  /* 200 0 = none */
    uint64_t limit_ns;      /* 208 0 = none */
    uint32_t sample;        /* 216 1 in N, 1 = everything */
    uint32_t sample_kind;   /* 220 0 = by event, 1 = by process */
    uint32_t content_max;   /* 224 bound of one content blob in bytes */
    uint32_t snapshot;      /* 228 1 in the meta of a snapshot */
    int64_t end_ticks;      /* 232 when the recorder closed, 0 = never did */
    uint32_t creation;      /* 240 creation of the node, for external terms */
    uint32_t node_len;      /* 244 */
    uint8_t node[256];      /* 248 UTF-8, node_len bytes */
    char otp_release[16];   /* 504 NUL padded */
    char erts_version[16];  /* 520 NUL padded */
    uint64_t taken;         /* 536 patterns, flags or sessions that other tracers removed (atomic) */
    uint64_t memory;        /* 544 bytes of the whole recorder, 0 in a snapshot */
    uint32_t epochs;        /* 552 how often the offset of the counter was corrected (atomic) */
    uint32_t locked;        /* 556 1: a running recorder has an OFD write lock on byte 0 of this file */
    uint64_t no_slot_first; /* 560 ticks of the first event of no_slot, 0 = none (atomic) */
    uint64_t no_slot_last;  /* 568 ticks of the newest (atomic, maximum) */
    uint64_t budget_ppm;    /* 576 of the time of each scheduler, in millionths; 0 = no budget (atomic) */
    uint64_t budget_events; /* 584 events per second; 0 = no budget (atomic) */
    uint64_t shed;          /* 592 how often a function or kind of events was shed; the notes
                             *     KYMO_DICT_SHED have which and when (atomic) */
    uint64_t shed_unnamed;  /* 600 how many of these, and of those given back, have no note because
                             *     dict was full (atomic) */
    uint32_t exact;         /* 608 KYMO_EXACT_*: what the runtime reports exactly; 0 in version 2 */
    uint32_t measures_len;  /* 612 bytes of measures (release) */
    uint8_t measures[KYMO_MEASURES_BYTES]; /* 616 what the recorder left undone because of faults of the
                             *     runtime: a line for each measure, with three fields that end with TAB, TAB
                             *     and LF: its name, the release that has the fix (empty if none is known),
                             *     and what is not recorded (empty if nothing is missing) */
    uint8_t reserved[KYMO_META_BYTES - 632 - KYMO_MEASURES_BYTES];
    uint8_t boot_id[16];    /* 4080 the kernel's boot id, 0 = unknown: recordings with the same one have
                               the same CLOCK_MONOTONIC and counter */
};

/* One calibration point: both clocks, read together. Entry 0 is from the creation; the
 * worker appends more. */
struct kymo_calib {
    uint64_t ticks;
    int64_t mono_ns;
};

enum kymo_thread {
    KYMO_T_OTHER = 0,
    KYMO_T_SCHEDULER = 1,
    KYMO_T_DIRTY_CPU = 2,
    KYMO_T_DIRTY_IO = 3
};

/* The counters of one tracing thread. All stores are atomic and relaxed. Each block of
 * cache lines names the threads that store there. */
struct kymo_slot {
    /* The slot's thread. */
    uint32_t used;          /* 0   1 once a thread has taken the slot (release) */
    uint32_t thread_kind;   /* 4   enum kymo_thread */
    uint32_t thread_no;     /* 8   scheduler number, 0 = unknown */
    uint32_t retired;       /* 12  1 once its thread has exited */
    char thread_name[16];   /* 16  as the operating system knows it */
    uint64_t events;        /* 32  recorded (committed) */
    uint64_t bytes;         /* 40  of records in closed segments, without headers */
    uint64_t seq;           /* 48  sequence number of the open segment, 0 = none */
    uint64_t sampled_out;   /* 56  left out by sampling: not a loss */
    uint64_t lost[KYMO_LOSS_CAUSES]; /* 64 by enum kymo_loss */
    /* Any thread that reuses a segment of this one, before it overwrites it; the worker
     * when it removes data files. Exceptions are marked. */
    uint64_t overwritten;   /* 128 events in segments that were reused (fetch-add) */
    uint64_t gone_until;    /* 136 ticks of the newest event that was overwritten or removed (maximum) */
    uint64_t lost_last;     /* 144 ticks of the newest loss, 0 = none (by the slot's thread) */
    uint64_t os_thread;     /* 152 thread id in the operating system, 0 = unknown (by the slot's thread) */
    uint64_t reserved0[3];  /* 160 */
    uint64_t place;         /* 184 of the open segment in the pool, valid with seq (by its thread) */
    /* The worker. */
    uint64_t drained_seq;   /* 192 last segment written to a data file */
    uint64_t io_lost;       /* 200 events in segments that could not be written and are not in ring */
    uint64_t reserved1[6];  /* 208 */
};

/* ---- segments ------------------------------------------------------------ */

/* A CTF 1.8 packet: packet.header, packet.context, then records.
 *
 * The pool. Place i of the file `ring` starts at byte i * segment_bytes. Each use of a
 * place has a unique number, `order`, which increases over all threads. A place is used by
 * one thread (`instance`) at a time, as its segment number `seq`. Places are reused roughly
 * in the order of `order`, so a segment may outlive newer ones of its thread.
 *
 * The horizon. If segments of a thread have been overwritten, gone_until of its slot is
 * the time of the newest event in them. In a snapshot, and if meta is older than the pool
 * (after a power failure), ts_before of a segment has the same meaning: that of the oldest
 * segment after which seq has no gap. The horizon is the latest of these times over all
 * threads. After it the recording is complete, except for the losses that it reports.
 *
 * Publication. `commit` is the number of complete bytes of the segment, header included.
 * The producer stores it with release order after each record. 0: the segment is empty or
 * being reused. A reader of a live or crashed pool loads order and then commit (both
 * acquire), and copies that many bytes. After an acquire fence, it discards the copy if
 * commit has decreased or order, loaded last, has changed. content_bits is 0 until the
 * segment is closed. crc and flags are stored together, once, at some time after that. */
struct kymo_segment {
    uint32_t magic;         /* 0   KYMO_SEG_MAGIC */
    uint8_t uuid[16];       /* 4 */
    uint32_t stream_id;     /* 20  always 0 */
    uint64_t instance;      /* 24  slot index */
    uint64_t ts_begin;      /* 32  ticks; ts_before <= ts_begin <= the first record */
    uint64_t ts_end;        /* 40  ticks of the last record, or ts_begin if there is none; 0 while open */
    uint64_t content_bits;  /* 48  header included; 0 while open */
    uint64_t packet_bits;   /* 56  space the segment takes where it is stored */
    uint64_t seq;           /* 64  consecutive, from 1 */
    uint64_t discarded;     /* 72  events lost by this thread up to ts_end */
    uint64_t commit;        /* 80  see above */
    uint64_t events;        /* 88  records of real events, set when closed */
    uint32_t thread_kind;   /* 96  enum kymo_thread */
    uint32_t thread_no;     /* 100 */
    uint32_t crc;           /* 104 CRC-32 (zlib) of the records when KYMO_SEG_CRC */
    uint32_t flags;         /* 108 KYMO_SEG_CRC; bits from KYMO_SEG_TURN_SHIFT on are private to the recorder */
    uint64_t lost_before;   /* 112 `discarded` when the segment was opened */
    uint64_t events_before; /* 120 events of this instance in segments with lower seq */
    uint64_t order;         /* 128 number of this use of the pool, never 0 */
    uint64_t ts_before;     /* 136 ticks of the last record in the previous segment of this instance */
    int64_t mono_ns;        /* 144 CLOCK_MONOTONIC at ts_begin */
    uint32_t epoch;         /* 152 kymo_meta.epochs at ts_begin */
    uint32_t reserved;      /* 156 */
};
#define KYMO_SEG_HEADER 160u
#define KYMO_SEG_TURN_SHIFT 8
#define KYMO_SEG_CRC 1u /* crc is valid: set by the worker and by snapshots */

/* ---- records --------------------------------------------------------------- */

/* Record = header, base fields, [content], [options].
 *   header   u8 id, u32 low 32 bits of the time in ticks      (compact), or
 *            u8 255, u32 id, u64 ticks                        (extended)
 * The compact form is used if less than 2^32 ticks have passed since the previous record
 * of the segment (for the first one, since ts_begin). The time is then the smallest value
 * with these low bits that is not less than the previous one. Times in a segment never
 * decrease.
 *
 * id = base id | KYMO_HAS_CONTENT | KYMO_HAS_OPTS. */
#define KYMO_ID_EXTENDED 255u
#define KYMO_HAS_CONTENT 0x40u
#define KYMO_HAS_OPTS 0x80u
#define KYMO_ID_MASK 0x3fu
#define KYMO_HDR_COMPACT 5u
#define KYMO_HDR_EXTENDED 13u

/* Field letters of the table below:
 *   W  tracee, ident u64
 *   P  peer, ident u64
 *   M  mfa, u32 dictionary id, 0 = unknown or undefined
 *   A  atom, u32 dictionary id, 0 = not an atom, unknown or undefined
 *   S  size, u32 heap words of the message (as erts_debug:flat_size/1);
 *      with KYMO_SIZE_MORE it is a lower bound,
 *      KYMO_SIZE_UNKNOWN means that sizes were not requested
 *   K  kind, u8
 *   Q  value, u64
 *   U  u32 previous, u32 current: a seq_trace serial
 *   R  u8 enum kymo_message_kind, u64 hash of the reference in the message; for a cast
 *      between nodes, of its contents
 *   I  u32 mfa id: the function that a process started by proc_lib runs
 *   N  u64 number of the message: the same in send, receive and taken, and different from that
 *      of any other message of the node; 0 = unknown
 *   D  depth of the stack in words: one byte, depth << 1, if the depth is below KYMO_DEPTH_WIDE,
 *      else u32 depth << 1 | 1. Frames that tracing has put on the stack are not included
 *   L  u32 messages before it in the mailbox, KYMO_PASSED_MANY: more than the runtime counted
 *   B  u64 nanoseconds before this event: when something began
 *   O  u32 events of this kind that were left out before it
 *   G  u8 count, count x u64: garbage collection sizes in words, in the order
 *      of enum kymo_gc; count is 0 or KYMO_GC_SIZES
 *   J  u32 mfa id: the function in which a process was scheduled in
 *   C  u16 count, count x { u16 enum kymo_counter, u16 number of the scheduler or 0,
 *      u64 value }; at most KYMO_COUNTERS_MAX
 *
 * content  u8 flags (KYMO_C_*), u16 length, that many bytes of external term
 *          format without the leading version byte 131
 * options  u8 flags (KYMO_O_*), u16 scheduler id, u8 enum kymo_ts, i64 a, i64 b,
 *          u16 length, external term of the match spec result (no 131) */
#define KYMO_SIZE_MORE 0x80000000u
#define KYMO_SIZE_UNKNOWN 0xffffffffu
#define KYMO_PASSED_MANY 0xffffffffu
#define KYMO_DEPTH_WIDE 128u
#define KYMO_DEPTH_MAX 0x7fffffffu /* a call at a greater depth is recorded without it */
#define KYMO_DEPTH_BYTES 4         /* at most */
#define KYMO_C_CUT 1u  /* the part beyond the bound was replaced by '...' */
#define KYMO_C_PAIR 2u /* the content is the tuple {Content, Peer}: the peer has no exact ident */
#define KYMO_CONTENT_HDR 3u
#define KYMO_O_SCHED 1u
#define KYMO_O_TS 2u
#define KYMO_O_MSR 4u     /* a match spec result follows */
#define KYMO_O_MSR_CUT 8u
#define KYMO_O_EXTRA 16u  /* reserved */
#define KYMO_OPTS_HDR 22u

/* The caller's timestamp option. a is nanoseconds: Erlang system time for the
 * first, CPU time of the OS process for the second, Erlang monotonic time for
 * the last two; b is the unique integer of strict_monotonic. */
enum kymo_ts {
    KYMO_TS_NONE = 0,
    KYMO_TS_TIMESTAMP = 1,
    KYMO_TS_CPU = 2,
    KYMO_TS_MONOTONIC = 3,
    KYMO_TS_STRICT = 4
};

/* X(id, SYMBOL, "name", "fields"); the comment has the content. */
#define KYMO_EVENTS(X)                                                         \
    X(1, CALL, "call", "WM")                     /* argument list */           \
    X(2, RETURN_TO, "return_to", "WM")                                         \
    X(3, RETURN_FROM, "return_from", "WM")       /* value */                   \
    X(4, EXCEPTION_FROM, "exception_from", "WMA") /* A class; value */         \
    X(5, SEND, "send", "WPS")                    /* message */                 \
    X(6, SEND_NE, "send_to_non_existing_process", "WPS") /* message */         \
    X(7, RECEIVE, "receive", "WPS")              /* P sender or none; message */ \
    X(8, SPAWN, "spawn", "WPM")                  /* argument list */           \
    X(9, SPAWNED, "spawned", "WPM")              /* argument list */           \
    X(10, EXIT, "exit", "WA")    /* A reason, or the first atom in it; reason */ \
    X(11, LINK, "link", "WP")                                                  \
    X(12, UNLINK, "unlink", "WP")                                              \
    X(13, GETTING_LINKED, "getting_linked", "WP")                              \
    X(14, GETTING_UNLINKED, "getting_unlinked", "WP")                          \
    X(15, REGISTER, "register", "WA")                                          \
    X(16, UNREGISTER, "unregister", "WA")                                      \
    X(17, OPEN, "open", "WPA")                   /* P opener, A driver; driver */ \
    X(18, CLOSED, "closed", "WA")                /* reason */                  \
    X(19, IN, "in", "WM")                                                      \
    X(20, OUT, "out", "WM")                                                    \
    X(21, IN_EXITING, "in_exiting", "WM")                                      \
    X(22, OUT_EXITING, "out_exiting", "WM")                                    \
    X(23, OUT_EXITED, "out_exited", "WM")                                      \
    X(24, PORT_IN, "in", "WA")                   /* A port operation */        \
    X(25, PORT_OUT, "out", "WA")                                               \
    X(26, PORT_IN_EXITING, "in_exiting", "WA")                                 \
    X(27, PORT_OUT_EXITING, "out_exiting", "WA")                               \
    X(28, PORT_OUT_EXITED, "out_exited", "WA")                                 \
    X(29, GC_MINOR_START, "gc_minor_start", "WG")                              \
    X(30, GC_MINOR_END, "gc_minor_end", "WG")                                  \
    X(31, GC_MAJOR_START, "gc_major_start", "WG")                              \
    X(32, GC_MAJOR_END, "gc_major_end", "WG")                                  \
    X(33, SEQ_TRACE, "seq_trace", "WPKUQS") /* W from, P to, K enum kymo_seq,  \
                                               Q label; {Label, Info} */       \
    X(34, OTHER, "other", "WA") /* A tag that only later runtimes have; [Term | Extra] */ \
    /* Decoded as SEND, RECEIVE and SPAWNED, with data that pairs requests with replies, \
       and names a process. */                                                 \
    X(35, SEND_REF, "send", "WPSR")              /* message */                 \
    X(36, RECEIVE_REF, "receive", "WPSR")        /* message */                 \
    X(37, SPAWNED_PROC, "spawned", "WPMI")       /* argument list */           \
    /* From a runtime with version 2 of erl_nif_tracer.h: decoded as SEND, RECEIVE, IN and \
       OUT, with more data. TAKEN is an event of its own. */                   \
    X(38, SEND_NUMBERED, "send", "WPSN")         /* message */                 \
    X(39, RECEIVE_NUMBERED, "receive", "WPSN")   /* message */                 \
    X(40, SEND_REF_NUMBERED, "send", "WPSRN")    /* message */                 \
    X(41, RECEIVE_REF_NUMBERED, "receive", "WPSRN") /* message */              \
    X(42, TAKEN, "taken", "WNL") /* out of the mailbox; N 0: sent before the tracing */ \
    X(43, IN_RUNNABLE, "in", "WMKQ") /* K enum kymo_runnable, Q ns in the run queue */ \
    X(44, OUT_REASON, "out", "WMK")  /* K enum kymo_out_reason */              \
    /* Decoded as CALL, RETURN_TO, RETURN_FROM and EXCEPTION_FROM. */          \
    X(45, CALL_DEPTH, "call", "WMD")             /* argument list */           \
    X(46, RETURN_TO_DEPTH, "return_to", "WMD")                                 \
    X(47, RETURN_FROM_DEPTH, "return_from", "WMD") /* value */                 \
    X(48, EXCEPTION_FROM_DEPTH, "exception_from", "WMAD") /* A class; value */ \
    /* From a runtime with the action slow of match specifications, when the call ends. Those \
       with the depth of the stack are decoded as SLOW. */                     \
    X(49, SLOW, "slow", "WMQ")       /* Q ns from the call until now */        \
    X(50, SLOW_DEPTH, "slow", "WMQD")                                          \
    /* Recorded in the next process that is scheduled, which has nothing to do with it. */ \
    X(51, STOPPED, "stopped", "WAQBO") /* all schedulers: A why, Q ns, B since when */ \
    /* Decoded as EXIT. */                                                     \
    X(52, EXIT_IN, "exit", "WAM") /* M function at the top of the stack in the reason; reason */ \
    X(57, OBSERVED, "observed", "WPMJAKQ") /* what W did when it was named: enum kymo_observed */ \
    X(58, COUNTERS, "counters", "C")             /* of the node, at one time */ \
    X(59, MONITOR, "system_monitor", "WPKQMJ")   /* W process or port, P the port of busy_port, \
                                                    K enum kymo_monitor, Q its value, M where it \
                                                    was scheduled out, J where in */ \
    X(60, STATE, "kymo_state", "K")              /* K enum kymo_state */       \
    X(61, LOST, "kymo_lost", "KQ")               /* K enum kymo_loss, Q count */

enum kymo_event_id {
#define KYMO_X(id, sym, name, fields) KYMO_E_##sym = id,
    KYMO_EVENTS(KYMO_X)
#undef KYMO_X
    KYMO_E_COUNT = 64
};

/* Ids from here on are notes of the recorder, not events of the node. 63 is no id: with all
 * KYMO_HAS_* it would be KYMO_ID_EXTENDED. */
#define KYMO_E_FIRST_NOTE 57u

/* The kind of a message in OTP's own protocols. Tag is a reference, or [alias |
 * Reference]; the hash is that of the reference, as in KYMO_I_REF. */
enum kymo_message_kind {
    KYMO_MSG_PLAIN = 0,    /* anything else, or not examined */
    KYMO_MSG_CALL = 1,     /* {Label, {Pid, Tag}, Request}: gen:call */
    KYMO_MSG_CAST = 2,     /* {'$gen_cast', Request}; between processes of one node the hash is 0 */
    KYMO_MSG_REPLY = 3,    /* {Tag, Reply} */
    KYMO_MSG_DOWN = 4,     /* {'DOWN', Reference, Type, Object, Reason} */
    KYMO_MSG_IO = 5,       /* {io_request, Pid, Reference, Request} */
    KYMO_MSG_IO_REPLY = 6, /* {io_reply, Reference, Reply} */
    KYMO_MSG_SPAWNED = 7,  /* {spawn_reply, Reference, ok | error, PidOrReason} */
    KYMO_MSG_TIMEOUT = 8,  /* receive only: the atom timeout without a known sender, with which the
                              runtime reports that a `receive ... after` timed out */
    KYMO_MSG_KINDS = 9
};

/* What made a process runnable that is scheduled in, and why one is scheduled out: the
 * numbers of ErlNifTraceRunnable and ErlNifTraceOut. */
#define KYMO_RUNNABLE_NAMES(X) \
    X(UNKNOWN, "unknown") X(OUT, "out") X(MESSAGE, "message") X(PORT, "port") X(TIMER, "timer") \
    X(SPAWN, "spawn") X(RESUME, "resume") X(SIGNAL, "signal")
#define KYMO_OUT_NAMES(X) \
    X(UNKNOWN, "unknown") X(EXITING, "exiting") X(SUSPENDED, "suspended") X(DIRTY, "dirty") \
    X(WAITING, "waiting") X(TRAP, "trap") X(REDUCTIONS, "reductions") X(PORT, "port")
#define KYMO_X(sym, text) KYMO_RUNNABLE_##sym,
enum kymo_runnable { KYMO_RUNNABLE_NAMES(KYMO_X) KYMO_RUNNABLES };
#undef KYMO_X
#define KYMO_X(sym, text) KYMO_OUT_##sym,
enum kymo_out_reason { KYMO_OUT_NAMES(KYMO_X) KYMO_OUTS };
#undef KYMO_X

enum kymo_seq {
    KYMO_SEQ_SEND = 1,
    KYMO_SEQ_RECEIVE = 2,
    KYMO_SEQ_PRINT = 3,
    KYMO_SEQ_OTHER = 4,
    KYMO_SEQ_LABEL_TERM = 0x80 /* or-ed in: the label is not a small integer, Q is its hash */
};

/* X(number, SYMBOL, "name", UNIT, SUM): a counter of the node. SUM is 1 for what counts up
 * from the start of the node, and 0 for a level. The names of memory are those of
 * erlang:memory/0; the others follow erlang:statistics/1 and erlang:system_info/1. Units:
 * a number, bytes, nanoseconds, or a share in millionths. */
#define KYMO_COUNTERS_OF_NODE(X)                                               \
    X(1, RUN_QUEUE, "run_queue", COUNT, 0)                                     \
    X(2, RUN_QUEUE_CPU, "run_queue_dirty_cpu", COUNT, 0)                       \
    X(3, RUN_QUEUE_IO, "run_queue_dirty_io", COUNT, 0)                         \
    X(4, SCHEDULER, "scheduler_utilization", SHARE, 0) /* of one scheduler */  \
    X(5, SCHEDULERS, "schedulers_utilization", SHARE, 0) /* of all that are online */ \
    X(6, DIRTY_CPU, "dirty_cpu_utilization", SHARE, 0)                         \
    X(7, DIRTY_IO, "dirty_io_utilization", SHARE, 0)                           \
    X(8, PROCESSES, "process_count", COUNT, 0)                                 \
    X(9, PORTS, "port_count", COUNT, 0)                                        \
    X(10, ATOMS, "atom_count", COUNT, 0)                                       \
    X(11, ETS, "ets_count", COUNT, 0)                                          \
    X(12, MEMORY_TOTAL, "memory_total", BYTES, 0)                              \
    X(13, MEMORY_PROCESSES, "memory_processes", BYTES, 0)                      \
    X(14, MEMORY_SYSTEM, "memory_system", BYTES, 0)                            \
    X(15, MEMORY_ATOM, "memory_atom", BYTES, 0)                                \
    X(16, MEMORY_BINARY, "memory_binary", BYTES, 0)                            \
    X(17, MEMORY_CODE, "memory_code", BYTES, 0)                                \
    X(18, MEMORY_ETS, "memory_ets", BYTES, 0)                                  \
    X(19, REDUCTIONS, "reductions", COUNT, 1)                                  \
    X(20, CONTEXT_SWITCHES, "context_switches", COUNT, 1)                      \
    X(21, COLLECTIONS, "garbage_collections", COUNT, 1)                        \
    X(22, RECLAIMED, "garbage_reclaimed", BYTES, 1)                            \
    X(23, INPUT, "io_input", BYTES, 1)                                         \
    X(24, OUTPUT, "io_output", BYTES, 1)                                       \
    X(25, CPU_TIME, "cpu_time", NS, 1) /* of all threads of the node */        \
    X(26, BUSY_PROCESS, "busy_process", COUNT, 0) /* ident of the next value's process */ \
    X(27, MAILBOX, "mailbox_length", COUNT, 0)    /* index: rank, 1 = the longest */ \
    X(28, HEAP, "heap_size", BYTES, 0)            /* index: rank, 1 = the largest */
enum kymo_counter {
#define KYMO_X(n, sym, name, unit, sum) KYMO_N_##sym = n,
    KYMO_COUNTERS_OF_NODE(KYMO_X)
#undef KYMO_X
    KYMO_N_COUNT /* one more than the highest number */
};
enum kymo_unit { KYMO_UNIT_COUNT = 0, KYMO_UNIT_BYTES = 1, KYMO_UNIT_NS = 2, KYMO_UNIT_SHARE = 3 };
#define KYMO_COUNTER_BYTES 12u
#define KYMO_COUNTERS_MAX 128u

/* X(number, SYMBOL, "name"): what erlang:system_monitor/2 reports, by its names there, and
 * then what the recorder notes about it. Q is: for long_gc and long_schedule the time in
 * milliseconds, which ended shortly before that of the record; for large_heap the words of
 * the heap; for long_message_queue 1 when it has become long, 0 when it is short again. */
#define KYMO_MONITORED(X)                                                      \
    X(1, LONG_GC, "long_gc") X(2, LONG_SCHEDULE, "long_schedule")              \
    X(3, LARGE_HEAP, "large_heap") X(4, BUSY_PORT, "busy_port")                \
    X(5, BUSY_DIST_PORT, "busy_dist_port") X(6, LONG_QUEUE, "long_message_queue") \
    X(16, SET, "set")          /* from here on they are recorded */            \
    X(17, HELD, "held")        /* not from here on: process W has set system_monitor */ \
    X(18, TOO_MANY, "too_many") /* Q of them were left out, until the next SET */
enum kymo_monitor {
#define KYMO_X(n, sym, name) KYMO_M_##sym = n,
    KYMO_MONITORED(KYMO_X)
#undef KYMO_X
    KYMO_M_COUNT
};
#define KYMO_M_FIRST_NOTE 16u

/* What a process did when the recorder named it, mostly when tracing began. M is the function in which it
 * waited or was suspended, J the first on its stack that is not OTP's, P the process that it waited for,
 * Q the length of its mailbox. Of those that hold locks of global A is the lock, or the first atom in its name. */
#define KYMO_OBSERVED(X)                                                       \
    X(1, WAITS, "waits") X(2, SUSPENDED, "suspended")                          \
    X(3, GLOBAL_LOCK, "holds_global_lock")
enum kymo_observed {
#define KYMO_X(n, sym, name) KYMO_OB_##sym = n,
    KYMO_OBSERVED(KYMO_X)
#undef KYMO_X
    KYMO_OB_COUNT
};

/* X(SYMBOL, "name"): kinds of events that a budget sheds as a whole, by their names in
 * kymo:trace/2. Calls, with their returns, are normally shed by function; the kind CALLS
 * is shed only during changes of trace patterns. */
#define KYMO_KINDS_OF_EVENTS(X)                                                \
    X(MESSAGES, "messages") X(RUNNING, "running") X(GC, "garbage_collection")  \
    X(PROCS, "procs") X(PORTS, "ports") X(CALLS, "calls")
enum kymo_kind {
#define KYMO_X(sym, name) KYMO_KIND_##sym,
    KYMO_KINDS_OF_EVENTS(KYMO_X)
#undef KYMO_X
    KYMO_KINDS
};

/* What a note KYMO_DICT_SHED reports. Events of its functions and kinds may be missing from
 * the time of SHED to that of GIVEN_BACK, and at no other time. */
enum kymo_shedding { KYMO_SHED = 1, KYMO_GIVEN_BACK = 2 };

/* The sizes in field G, in the runtime's order. wordsize is the number of words needed (at
 * the start) or reclaimed (at the end). */
#define KYMO_GC_NAMES(X)                                                       \
    X(wordsize) X(old_heap_block_size) X(heap_block_size) X(mbuf_size) X(recent_size)      \
    X(stack_size) X(old_heap_size) X(heap_size) X(bin_vheap_size)              \
    X(bin_vheap_block_size) X(bin_old_vheap_size) X(bin_old_vheap_block_size)
enum kymo_gc {
#define KYMO_X(n) KYMO_GC_##n,
    KYMO_GC_NAMES(KYMO_X)
#undef KYMO_X
    KYMO_GC_SIZES
};

/* ---- idents ------------------------------------------------------------------ */

/* A process, port, name or reference in 64 bits: kind << 60 | data. */
enum kymo_ident {
    KYMO_I_PID = 0,  /* local pid: number | serial << 28, as <0.number.serial> */
    KYMO_I_PORT = 1, /* local port: its number, as #Port<0.number> */
    KYMO_I_TERM = 2, /* dictionary id of a term: remote pid or port, {Name, Node} */
    KYMO_I_ATOM = 3, /* dictionary id of an atom: a registered name */
    KYMO_I_REF = 4,  /* hash of a reference (an alias) */
    KYMO_I_OTHER = 5,/* hash of anything else */
    KYMO_I_NONE = 15 /* undefined or unknown */
};
#define KYMO_IDENT(kind, data)                                                 \
    (((uint64_t)(kind) << 60) | ((uint64_t)(data) & 0x0fffffffffffffffull))
#define KYMO_IDENT_KIND(i) ((unsigned)((i) >> 60))
#define KYMO_IDENT_DATA(i) ((i) & 0x0fffffffffffffffull)
#define KYMO_IDENT_NONE KYMO_IDENT(KYMO_I_NONE, 0)
#define KYMO_PID_NUMBER(i) ((uint32_t)((i) & 0xfffffffu))
#define KYMO_PID_SERIAL(i) ((uint32_t)(KYMO_IDENT_DATA(i) >> 28))

/* ---- dictionary ----------------------------------------------------------------- */

/* Entries start at multiples of 8. If the node dies between reserving and writing an entry,
 * it has no valid magic and CRC: readers skip 8 bytes at a time to the next valid entry.
 * Ids count from 1 over all kinds. An entry refers only to entries with lower ids. Two
 * threads may define the same thing at the same time; both ids are valid. */
struct kymo_dict_entry {
    uint32_t magic; /* KYMO_DICT_MAGIC, stored last, with release order */
    uint32_t crc;   /* CRC-32 (zlib) of the bytes from `kind` to the end of the payload */
    uint8_t kind;   /* enum kymo_dict_kind */
    uint8_t flags;  /* 0 */
    uint16_t len;   /* bytes of payload */
    uint32_t id;
    /* payload, zero padded to a multiple of 8 */
};
#define KYMO_DICT_HDR 16u

enum kymo_dict_kind {
    KYMO_DICT_ATOM = 1, /* UTF-8 text */
    KYMO_DICT_MFA = 2,  /* u32 module atom id, u32 function atom id, u32 arity */
    KYMO_DICT_TERM = 3, /* external term format without 131 */
    KYMO_DICT_PROC = 4, /* u64 ident, u64 ticks, u32 name atom id or 0, u32 initial call mfa id or 0,
                           u64 ident of its parent or none, u64 ident of its caller or none (both may
                           be registered names). The last two may be absent. A later entry of the
                           same ident adds to earlier ones */
    KYMO_DICT_SHED = 5, /* a note of the budget: u64 ticks, u32 enum kymo_shedding, u32 bits 1 << enum
                           kymo_kind, and any number of u32 mfa ids, 0 for an unknown function */
    KYMO_DICT_KINDS = 6
};
#define KYMO_DICT_SHED_HDR 16u

_Static_assert(sizeof(struct kymo_meta) == KYMO_META_BYTES, "meta layout");
_Static_assert(sizeof(struct kymo_slot) == 256, "slot layout");
_Static_assert(sizeof(struct kymo_segment) == KYMO_SEG_HEADER, "segment layout");
_Static_assert(sizeof(struct kymo_dict_entry) == KYMO_DICT_HDR, "dict layout");

/* clang-format on */

#endif
