/* SPDX-License-Identifier: Apache-2.0
 *
 * The recording on disk and in the memory-mapped pool of segments.
 *
 * This header is the single definition of the format. The recorder writes it,
 * the reader decodes it, the CTF exporter describes it; nobody else repeats an
 * offset. doc/format.md explains it in prose.
 *
 * A recording is a directory:
 *   meta          struct kymo_meta, then the calibration table, then one
 *                 struct kymo_slot per tracing thread. Memory mapped by the
 *                 recorder, so counters survive the death of the node.
 *   dict          append-only definitions: atoms, MFAs, terms, processes.
 *   ring          n_segments places of segment_bytes, one pool for all threads.
 *                 Absent in a snapshot, and once a discard recorder has ended
 *                 with everything in data files.
 *   data.NNNNNN   whole segments one after the other, each packet_size bits
 *                 long (policy discard, and every snapshot). NNNNNN from 1.
 *
 * One segment may be found both in `ring` and in a data file: the pair
 * (instance, seq) identifies it, readers keep one copy.
 *
 * Everything is little-endian. All integers of the headers are naturally
 * aligned; records inside a segment are packed without padding.
 */
#ifndef KYMO_FORMAT_H
#define KYMO_FORMAT_H

#include <stdint.h>

/* The columns of these tables are for people. */
/* clang-format off */

#define KYMO_FORMAT_VERSION 2u
#define KYMO_META_MAGIC 0x314345524f4d594bull /* "KYMOREC1" */
#define KYMO_SEG_MAGIC 0xC1FC1FC1u            /* CTF 1.8 packet magic */
#define KYMO_DICT_MAGIC 0x444d594bu           /* "KYMD" */

#define KYMO_META_NAME "meta"
#define KYMO_DICT_NAME "dict"
#define KYMO_RING_NAME "ring"
#define KYMO_DATA_FMT "data.%06u"

/* ---- limits: beyond them nothing was written by kymo --------------------- */

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

/* Life of a recorder. state.c says which function makes which transition. */
enum kymo_state {
    KYMO_IDLE = 0,
    KYMO_ACTIVE = 1,
    KYMO_PAUSED = 2,
    KYMO_STOPPING = 3,
    KYMO_CLOSED = 4
};

/* Why a recorder left KYMO_ACTIVE for good. */
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

/* What ticks are: nanoseconds of CLOCK_MONOTONIC, or the counter of the processor
 * (TSC on x86-64, CNTVCT on ARM64) plus an offset that changes where the counter
 * was set back or ran on while CLOCK_MONOTONIC did not (suspend, a virtual machine
 * that was moved). Ticks of one recording follow CLOCK_MONOTONIC and never go back. */
enum kymo_clock { KYMO_CLOCK_MONOTONIC = 0, KYMO_CLOCK_COUNTER = 1 };

/* Causes of loss. A lost event is counted in exactly one of them. */
enum kymo_loss {
    KYMO_LOST_RING_FULL = 0, /* discard: the drain thread was too slow */
    KYMO_LOST_IO = 1,        /* no room: segments could not be written (errno in meta) */
    KYMO_LOST_NO_SLOT = 2,   /* more tracing threads than slots (in meta only) */
    KYMO_LOST_TOO_BIG = 3,   /* a record that does not fit in a segment */
    KYMO_LOST_BAD_TERM = 4,  /* the runtime handed over something unreadable */
    KYMO_LOST_REENTRY = 5,   /* the thread was interrupted inside the recorder */
    KYMO_LOSS_CAUSES = 8     /* size of the tables; the rest is reserved, 0 */
};

#define KYMO_META_BYTES 4096u
#define KYMO_CALIB_MAX 256u
#define KYMO_CALIB_BYTES (KYMO_CALIB_MAX * 16u)

/* Detail bits in kymo_meta.detail. */
#define KYMO_D_ARGS 0x01u       /* calls carry their arguments */
#define KYMO_D_RETURNS 0x02u    /* return_from/exception_from carry values */
#define KYMO_D_MSG_SIZE 0x04u   /* messages carry their size */
#define KYMO_D_MSG 0x08u        /* messages carry their contents */
#define KYMO_D_TERMS 0x10u      /* exit reasons, spawn arguments, seq_trace */
#define KYMO_D_GC_SIZES 0x20u   /* garbage collections carry their sizes */

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
    uint64_t taken;         /* 536 patterns, flags or sessions that somebody else took away (atomic) */
    uint64_t memory;        /* 544 bytes of the whole recorder, 0 in a snapshot */
    uint32_t epochs;        /* 552 how often the offset of the counter changed (atomic) */
    uint32_t locked;        /* 556 1: a living recorder has an OFD write lock on byte 0 of this file */
    uint64_t no_slot_first; /* 560 ticks of the first event of no_slot, 0 = none (atomic) */
    uint64_t no_slot_last;  /* 568 ticks of the newest (atomic, maximum) */
    uint64_t budget_ppm;    /* 576 of the time of each scheduler, in millionths; 0 = no budget (atomic) */
    uint64_t budget_events; /* 584 events per second; 0 = no budget (atomic) */
    uint64_t shed;          /* 592 functions and kinds of events that were shed, each as often as it was;
                             *     KYMO_DICT_SHED says which and when (atomic) */
    uint64_t shed_unnamed;  /* 600 of these and of what was given back: without a note, for lack of room
                             *     in dict (atomic) */
    uint8_t reserved[KYMO_META_BYTES - 624];
    uint8_t boot_id[16];    /* 4080 of the machine since it was started, 0 = not known: recordings with the
                               same one have the same CLOCK_MONOTONIC and counter */
};

/* One point (clock ticks, CLOCK_MONOTONIC ns) taken together. Entry 0 is the
 * creation; the recorder's worker adds one from time to time. */
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

/* Counters of one tracing thread, with relaxed atomic stores. Each block of 64
 * bytes says who stores there. */
struct kymo_slot {
    /* Its thread. */
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
    /* Any thread that reuses a segment of this one, before it destroys it; the
     * worker that removes old data files. */
    uint64_t overwritten;   /* 128 events in segments that were reused (fetch-add) */
    uint64_t gone_until;    /* 136 ticks of the newest event that was reused or removed (maximum) */
    uint64_t lost_last;     /* 144 ticks of its newest loss, 0 = none (its thread) */
    uint64_t reserved0[4];  /* 152 */
    uint64_t place;         /* 184 of the open segment in the pool, valid with seq (its thread) */
    /* The worker. */
    uint64_t drained_seq;   /* 192 last segment handed over */
    uint64_t io_lost;       /* 200 events in segments that are in no file, not even ring */
    uint64_t reserved1[6];  /* 208 */
};

/* ---- segments ------------------------------------------------------------ */

/* A CTF 1.8 packet: packet.header, packet.context, then records.
 *
 * The pool. Place i of the file `ring` holds bytes i * segment_bytes on. Each use
 * of a place has a number of its own, `order`, which counts up over all threads;
 * it is used by one thread (`instance`), as its segment number `seq`. They are reused
 * roughly in the order of `order`; a segment may survive others of its thread that
 * are newer.
 *
 * The horizon. Of each thread that has lost a segment to others, gone_until of its
 * slot is the time of the newest event that is gone. ts_before of the oldest of its
 * newest segments without a gap in seq says the same where meta is older than the
 * pool (a power failure), and in a snapshot. The newest of all these times over all
 * threads is the horizon: after it the recording is complete but for losses that it
 * tells.
 *
 * Publication. `commit` is the number of bytes of the segment, header
 * included, that are complete; the producer stores it with release order after
 * every record. 0 means that the segment is empty or being set up again.
 * A reader of a live or crashed pool loads order, then commit (both acquire),
 * copies that many bytes, and keeps the copy only if after an acquire fence commit
 * has not gone down and order, loaded last, is unchanged. content_bits is 0 until
 * the segment is closed. crc and flags are stored together, once, some time after
 * that. */
struct kymo_segment {
    uint32_t magic;         /* 0   KYMO_SEG_MAGIC */
    uint8_t uuid[16];       /* 4 */
    uint32_t stream_id;     /* 20  always 0 */
    uint64_t instance;      /* 24  slot index */
    uint64_t ts_begin;      /* 32  ticks, not after the first record, not before ts_before */
    uint64_t ts_end;        /* 40  ticks of the last record, ts_begin without one; 0 while open */
    uint64_t content_bits;  /* 48  header included; 0 while open */
    uint64_t packet_bits;   /* 56  space the segment takes where it is stored */
    uint64_t seq;           /* 64  from 1, without gaps as written */
    uint64_t discarded;     /* 72  events lost by this thread up to ts_end */
    uint64_t commit;        /* 80  see above */
    uint64_t events;        /* 88  records of real events, set when closed */
    uint32_t thread_kind;   /* 96  enum kymo_thread */
    uint32_t thread_no;     /* 100 */
    uint32_t crc;           /* 104 CRC-32 (zlib) of the records when KYMO_SEG_CRC */
    uint32_t flags;         /* 108 KYMO_SEG_CRC; the bits from KYMO_SEG_TURN_SHIFT are the recorder's own */
    uint64_t lost_before;   /* 112 `discarded` when the segment was opened */
    uint64_t events_before; /* 120 events of this instance in segments with lower seq */
    uint64_t order;         /* 128 of this use among all uses of the pool, never 0 */
    uint64_t ts_before;     /* 136 ticks of the last record of this instance in the segment before */
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
 * The compact form is used when less than 2^32 ticks have passed since the
 * previous record of the segment (since ts_begin for the first one); the full
 * time is the smallest value >= the previous one with these low bits. Times in
 * a segment never go down.
 *
 * id = base id | KYMO_HAS_CONTENT | KYMO_HAS_OPTS. */
#define KYMO_ID_EXTENDED 255u
#define KYMO_HAS_CONTENT 0x40u
#define KYMO_HAS_OPTS 0x80u
#define KYMO_ID_MASK 0x3fu
#define KYMO_HDR_COMPACT 5u
#define KYMO_HDR_EXTENDED 13u

/* Field letters of the table below:
 *   W  who, ident u64: the tracee
 *   P  peer, ident u64
 *   M  mfa, u32 dictionary id, 0 = unknown or undefined
 *   A  atom, u32 dictionary id, 0 = not an atom, unknown or undefined
 *   S  size, u32 heap words of the message (as erts_debug:flat_size/1);
 *      KYMO_SIZE_MORE is set when the count stopped at its bound,
 *      KYMO_SIZE_UNKNOWN means that sizes were not asked for
 *   K  kind, u8
 *   Q  value, u64
 *   U  u32 previous, u32 current: a seq_trace serial
 *   R  u8 enum kymo_message_kind, u64 hash of the reference in the message
 *   I  u32 mfa id: the function that a process of proc_lib really runs
 *   G  u8 count, count x u64: garbage collection sizes in words, in the order
 *      of enum kymo_gc; count is 0 or KYMO_GC_SIZES
 *
 * content  u8 flags (KYMO_C_*), u16 length, that many bytes of external term
 *          format without the leading version byte 131
 * options  u8 flags (KYMO_O_*), u16 scheduler id, u8 enum kymo_ts, i64 a, i64 b,
 *          u16 length, external term of the match spec result (no 131) */
#define KYMO_SIZE_MORE 0x80000000u
#define KYMO_SIZE_UNKNOWN 0xffffffffu
#define KYMO_C_CUT 1u  /* something over the bound was replaced by '...' */
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

/* X(id, SYMBOL, "name", "fields"); content in the comment. */
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
    X(10, EXIT, "exit", "WA")    /* A reason, or its first element; reason */  \
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
    X(34, OTHER, "other", "WA") /* A tag, of a later runtime; [Term | Extra] */ \
    /* The same events with what a reader needs to pair requests with replies, and to \
       name a process: decoded as SEND, RECEIVE and SPAWNED. */                \
    X(35, SEND_REF, "send", "WPSR")              /* message */                 \
    X(36, RECEIVE_REF, "receive", "WPSR")        /* message */                 \
    X(37, SPAWNED_PROC, "spawned", "WPMI")       /* argument list */           \
    X(60, STATE, "kymo_state", "K")              /* K enum kymo_state */       \
    X(61, LOST, "kymo_lost", "KQ")               /* K enum kymo_loss, Q how many */

enum kymo_event_id {
#define KYMO_X(id, sym, name, fields) KYMO_E_##sym = id,
    KYMO_EVENTS(KYMO_X)
#undef KYMO_X
    KYMO_E_COUNT = 64
};

/* Ids from here on are notes of the recorder, not events of the node. */
#define KYMO_E_FIRST_NOTE 60u

/* What a message is, as far as OTP's own protocols tell. Tag is a reference, or
 * [alias | Reference]; its hash is that of the reference, as in KYMO_I_REF. */
enum kymo_message_kind {
    KYMO_MSG_PLAIN = 0,    /* anything else, or not looked at */
    KYMO_MSG_CALL = 1,     /* {Label, {Pid, Tag}, Request}: gen:call */
    KYMO_MSG_CAST = 2,     /* {'$gen_cast', Request}; no reference: the hash is 0 */
    KYMO_MSG_REPLY = 3,    /* {Tag, Reply} */
    KYMO_MSG_DOWN = 4,     /* {'DOWN', Reference, Type, Object, Reason} */
    KYMO_MSG_IO = 5,       /* {io_request, Pid, Reference, Request} */
    KYMO_MSG_IO_REPLY = 6, /* {io_reply, Reference, Reply} */
    KYMO_MSG_SPAWNED = 7,  /* {spawn_reply, Reference, ok | error, PidOrReason} */
    KYMO_MSG_TIMEOUT = 8,  /* received only: the atom timeout, and no process is known to have sent
                              it: how the runtime tells of a `receive ... after` that waited in vain */
    KYMO_MSG_KINDS = 9
};

enum kymo_seq {
    KYMO_SEQ_SEND = 1,
    KYMO_SEQ_RECEIVE = 2,
    KYMO_SEQ_PRINT = 3,
    KYMO_SEQ_OTHER = 4,
    KYMO_SEQ_LABEL_TERM = 0x80 /* or-ed in: the label is not a small integer, Q is its hash */
};

/* X(SYMBOL, "name"): kinds of events that a budget sheds as a whole, by their names in
 * kymo:trace/2. Calls go with their returns; they are shed by function, and all of them
 * only while that is being done. */
#define KYMO_KINDS_OF_EVENTS(X)                                                \
    X(MESSAGES, "messages") X(RUNNING, "running") X(GC, "garbage_collection")  \
    X(PROCS, "procs") X(PORTS, "ports") X(CALLS, "calls")
enum kymo_kind {
#define KYMO_X(sym, name) KYMO_KIND_##sym,
    KYMO_KINDS_OF_EVENTS(KYMO_X)
#undef KYMO_X
    KYMO_KINDS
};

/* What happens to the functions and kinds of a KYMO_DICT_SHED. From the time of SHED to
 * that of GIVEN_BACK their events may be missing; outside of it they are not. */
enum kymo_shedding { KYMO_SHED = 1, KYMO_GIVEN_BACK = 2 };

/* Order of the sizes in field G, the order in which the runtime lists them.
 * wordsize: words needed at the start, words reclaimed at the end. */
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
    KYMO_I_NONE = 15 /* undefined, or not known */
};
#define KYMO_IDENT(kind, data)                                                 \
    (((uint64_t)(kind) << 60) | ((uint64_t)(data) & 0x0fffffffffffffffull))
#define KYMO_IDENT_KIND(i) ((unsigned)((i) >> 60))
#define KYMO_IDENT_DATA(i) ((i) & 0x0fffffffffffffffull)
#define KYMO_IDENT_NONE KYMO_IDENT(KYMO_I_NONE, 0)
#define KYMO_PID_NUMBER(i) ((uint32_t)((i) & 0xfffffffu))
#define KYMO_PID_SERIAL(i) ((uint32_t)(KYMO_IDENT_DATA(i) >> 28))

/* ---- dictionary ----------------------------------------------------------------- */

/* Entries start at multiples of 8. A reserved entry that was never completed
 * (its thread died between reserving and writing) has no valid magic and CRC:
 * readers go on 8 bytes at a time until the next valid entry.
 * Ids count from 1 over all kinds. An entry refers only to entries with
 * lower ids. The same thing may be defined twice (two threads at once): both
 * ids are good. */
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
                           u64 ident of its parent or none, u64 ident of its caller or none (a name is
                           an ident, too); the last two may be missing. A later entry of the same
                           ident adds to the earlier */
    KYMO_DICT_SHED = 5, /* u64 ticks, u32 enum kymo_shedding, u32 bits 1 << enum kymo_kind, and any number
                           of u32 mfa ids, 0 for a function without a name: a note of the budget */
    KYMO_DICT_KINDS = 6
};
#define KYMO_DICT_SHED_HDR 16u

_Static_assert(sizeof(struct kymo_meta) == KYMO_META_BYTES, "meta layout");
_Static_assert(sizeof(struct kymo_slot) == 256, "slot layout");
_Static_assert(sizeof(struct kymo_segment) == KYMO_SEG_HEADER, "segment layout");
_Static_assert(sizeof(struct kymo_dict_entry) == KYMO_DICT_HDR, "dict layout");

/* clang-format on */

#endif
