/* SPDX-License-Identifier: Apache-2.0
 *
 * The columns of each table: X(name, type, "what it is"). Everything else that knows
 * them is made from these lists.
 */
#ifndef KYMO_COLUMNS_H
#define KYMO_COLUMNS_H

/* The columns of these lists are for people. */
/* clang-format off */

#define KYMO_EVENTS_COLUMNS(X) \
    X(id,               INTEGER, "number of the row, from 1, in order of time") \
    X(time_ns,          INTEGER, "when") \
    X(time,             TEXT,    "the same as a date in UTC, with microseconds") \
    X(thread,           TEXT,    "thread of the runtime: s1 a scheduler, c2 dirty CPU, i3 dirty IO, t4 any other") \
    X(event,            TEXT,    "call, return_to, send, receive, spawned, in, out, ... as in kymo print") \
    X(process,          TEXT,    "name of the process or port that it happened to") \
    X(pid,              TEXT,    "its pid, as <0.12.0>, or #Port<0.3>") \
    X(peer,             TEXT,    "name of the other process: receiver, sender, parent, ...") \
    X(peer_pid,         TEXT,    "its pid, or what the message was addressed to") \
    X(function,         TEXT,    "lists:map/2; Enum.map/2 on nodes with Elixir") \
    X(module,           TEXT,    "its module") \
    X(initial_call,     TEXT,    "of spawned: the function that a process of proc_lib really runs") \
    X(atom,             TEXT,    "class of an exception, registered name, exit reason, driver, operation of a port") \
    X(words,            INTEGER, "size of the message; at least that where the recorder stopped counting") \
    X(message,          TEXT,    "call, cast, reply, down, io, io_reply, spawn_reply or timeout (no message: a receive waited in vain); NULL for any other") \
    X(reference,        TEXT,    "hash of the reference in the message: equal in request and reply") \
    X(content,          TEXT,    "arguments, return value, message or reason, as an Erlang term") \
    X(content_cut,      BOOLEAN, "something was too big and is '...' in content") \
    X(match_result,     TEXT,    "result of the match specification")

#define KYMO_SPANS_COLUMNS(X) \
    X(id,               INTEGER, "number of the call, in the order of the calls") \
    X(parent_id,        INTEGER, "id of the traced call that made it") \
    X(process,          TEXT,    "name of the process") \
    X(pid,              TEXT,    "its pid") \
    X(function,         TEXT,    "the function that was called") \
    X(module,           TEXT,    "its module") \
    X(caller,           TEXT,    "function of the parent") \
    X(depth,            INTEGER, "open calls and collections that it is in") \
    X(start_ns,         INTEGER, "when it was called") \
    X(start_time,       TEXT,    "the same as a date in UTC, with microseconds") \
    X(end_ns,           INTEGER, "when it ended") \
    X(duration_ns,      INTEGER, "from start to end") \
    X(self_ns,          INTEGER, "duration without the traced calls and the collections in it") \
    X(running_ns,       INTEGER, "part of the duration in which the process had a scheduler") \
    X(self_running_ns,  INTEGER, "part of self_ns in which it had one") \
    X(gc_ns,            INTEGER, "part of the duration in garbage collections") \
    X(ended,            TEXT,    "return, exception, tail, hibernate, exit, lost, open or moment") \
    X(recursive,        BOOLEAN, "inside another call of the same function: leave it out of sums of duration") \
    X(thread,           TEXT,    "thread that it began in")

#define KYMO_MESSAGES_COLUMNS(X) \
    X(id,               INTEGER, "number of the message") \
    X(kind,             TEXT,    "call, cast, reply, down, io, io_reply or spawn_reply; NULL for any other") \
    X(sender,           TEXT,    "name of the sender") \
    X(sender_pid,       TEXT,    "its pid") \
    X(receiver,         TEXT,    "name of the receiver") \
    X(receiver_pid,     TEXT,    "its pid, or what the message was addressed to") \
    X(sent_ns,          INTEGER, "when it was sent") \
    X(sent_time,        TEXT,    "the same as a date in UTC, with microseconds") \
    X(fetched_ns,       INTEGER, "when the receiver moved it into its mailbox") \
    X(taken_ns,         INTEGER, "when it left the mailbox; known on the patched runtime only") \
    X(wait_ns,          INTEGER, "from sent to fetched") \
    X(words,            INTEGER, "its size; NULL where the recorder stopped counting") \
    X(reference,        TEXT,    "hash of the reference in it: equal in request and reply") \
    X(to_nobody,        BOOLEAN, "the receiver did not exist")

#define KYMO_REQUESTS_COLUMNS(X) \
    X(id,               INTEGER, "number of the request") \
    X(kind,             TEXT,    "call (gen_server and the like), cast, io or spawn (tasks, erpc)") \
    X(client,           TEXT,    "name of the process that asked") \
    X(client_pid,       TEXT,    "its pid") \
    X(server,           TEXT,    "name of the process that was asked") \
    X(server_pid,       TEXT,    "its pid, or what the request was addressed to") \
    X(sent_ns,          INTEGER, "when it was sent") \
    X(sent_time,        TEXT,    "the same as a date in UTC, with microseconds") \
    X(fetched_ns,       INTEGER, "when the server moved it into its mailbox") \
    X(handled_ns,       INTEGER, "when the server began with it") \
    X(handled_end_ns,   INTEGER, "when the callback ended") \
    X(replied_ns,       INTEGER, "when the reply was sent") \
    X(received_ns,      INTEGER, "when the client had the reply") \
    X(duration_ns,      INTEGER, "from sent to received; of a cast until it was handled") \
    X(queued_ns,        INTEGER, "from sent until the server began with it") \
    X(handling_ns,      INTEGER, "from then until the reply was sent; of a cast until it was handled") \
    X(reply_ns,         INTEGER, "from then until the client had it") \
    X(ahead,            INTEGER, "requests to this server without a reply when it was sent") \
    X(ended,            TEXT,    "replied, down, open, no_reply or gone (the client exited)") \
    X(inferred,         BOOLEAN, "handled_ns follows from the order of replies, not from the callback") \
    X(handler,          TEXT,    "callback that handled it") \
    X(handler_id,       INTEGER, "id of that call in spans") \
    X(caller,           TEXT,    "innermost traced function of the client when it was sent") \
    X(caller_id,        INTEGER, "id of that call in spans") \
    X(message_id,       INTEGER, "id in messages") \
    X(reply_message_id, INTEGER, "id of the reply in messages") \
    X(reference,        TEXT,    "hash of the reference in it")

#define KYMO_PROCESSES_COLUMNS(X) \
    X(process,          TEXT,    "name: registered, label, or the function that it runs; the pid without one") \
    X(pid,              TEXT,    "pid or port") \
    X(role,             TEXT,    "what processes of its kind have in common") \
    X(parent,           TEXT,    "name of the process that spawned it") \
    X(parent_pid,       TEXT,    "its pid") \
    X(spawned_as,       TEXT,    "function that it was spawned with") \
    X(start_ns,         INTEGER, "when it was spawned; NULL when that was before the recording") \
    X(start_time,       TEXT,    "the same as a date in UTC, with microseconds") \
    X(end_ns,           INTEGER, "when it exited; NULL when it was not seen to") \
    X(first_ns,         INTEGER, "its first event") \
    X(last_ns,          INTEGER, "its last event") \
    X(exit_reason,      TEXT,    "exit reason, or the first element of one that is a tuple") \
    X(running_ns,       INTEGER, "time with a scheduler") \
    X(waiting_ns,       INTEGER, "time without one, for whatever reason") \
    X(gc_ns,            INTEGER, "time in garbage collections") \
    X(calls,            INTEGER, "traced calls") \
    X(runs,             INTEGER, "how often it was scheduled in") \
    X(collections,      INTEGER, "garbage collections") \
    X(sent,             INTEGER, "messages that it sent") \
    X(received,         INTEGER, "messages that it received") \
    X(requests,         INTEGER, "requests that it made") \
    X(requests_handled, INTEGER, "requests that were made to it") \
    X(backlog_max,      INTEGER, "largest number of requests to it without a reply")

#define KYMO_COLLECTIONS_COLUMNS(X) \
    X(process,          TEXT,    "name of the process that collected garbage") \
    X(pid,              TEXT,    "its pid") \
    X(span_id,          INTEGER, "innermost open call, in spans") \
    X(start_ns,         INTEGER, "when it began") \
    X(start_time,       TEXT,    "the same as a date in UTC, with microseconds") \
    X(end_ns,           INTEGER, "when it ended") \
    X(duration_ns,      INTEGER, "from start to end") \
    X(major,            BOOLEAN, "a full collection") \
    X(words_before,     INTEGER, "size of the heap before, old heap included") \
    X(words_after,      INTEGER, "and after")

#define KYMO_RUNNING_COLUMNS(X) \
    X(process,          TEXT,    "name of the process or port that had a scheduler") \
    X(pid,              TEXT,    "its pid") \
    X(thread,           TEXT,    "the scheduler") \
    X(start_ns,         INTEGER, "when it was scheduled in") \
    X(start_time,       TEXT,    "the same as a date in UTC, with microseconds") \
    X(end_ns,           INTEGER, "when it was scheduled out") \
    X(duration_ns,      INTEGER, "from start to end") \
    X(waited_ns,        INTEGER, "time without a scheduler before, for whatever reason") \
    X(runnable_ns,      INTEGER, "time in a run queue before; known on the patched runtime only") \
    X(in_function,      TEXT,    "function that it went on with") \
    X(out_function,     TEXT,    "function that it stopped in") \
    X(dirty,            BOOLEAN, "on a dirty scheduler") \
    X(hibernated,       BOOLEAN, "it left to hibernate") \
    X(exited,           BOOLEAN, "it left to exit")

#define KYMO_FUNCTIONS_COLUMNS(X) \
    X(function,         TEXT,    "the function") \
    X(module,           TEXT,    "its module") \
    X(calls,            INTEGER, "how often it was called") \
    X(calls_with_end,   INTEGER, "calls whose duration is known: the times are those of these calls") \
    X(exceptions,       INTEGER, "calls that ended with an exception") \
    X(total_ns,         INTEGER, "sum of the durations, recursive calls left out") \
    X(self_ns,          INTEGER, "sum of self_ns of spans") \
    X(running_ns,       INTEGER, "part of total_ns with a scheduler") \
    X(self_running_ns,  INTEGER, "part of self_ns with a scheduler") \
    X(gc_ns,            INTEGER, "part of total_ns in garbage collections") \
    X(p50_ns,           INTEGER, "median of the durations, within 1.6 %") \
    X(p99_ns,           INTEGER, "99 % are not longer, within 1.6 %") \
    X(max_ns,           INTEGER, "the longest") \
    X(max_at_ns,        INTEGER, "when that one began")

#define KYMO_LOSSES_COLUMNS(X) \
    X(thread,           TEXT,    "thread that lost events; NULL: threads that found no place") \
    X(cause,            TEXT,    "ring_full, io, no_slot, too_big, bad_term or reentry") \
    X(events,           INTEGER, "how many, in the whole time of the recording") \
    X(first_ns,         INTEGER, "first note of loss that the recording still has; without a thread: the first loss") \
    X(last_ns,          INTEGER, "the last")

#define KYMO_SHED_COLUMNS(X) \
    X(function,         TEXT,    "function whose calls are missing; NULL: a kind of events is, or the function has no name") \
    X(module,           TEXT,    "its module") \
    X(events,           TEXT,    "kind of events that is missing: messages, running, garbage_collection, procs, ports, or calls (of all functions)") \
    X(from_ns,          INTEGER, "since when") \
    X(to_ns,            INTEGER, "until when; NULL: until the end of the recording")

/* X(enum, name, id column, time column, "what a row is") */
#define KYMO_TABLE_LIST(X) \
    X(EVENTS,      events,      -1,          EVENTS_time_ns,       "An event as it was recorded.") \
    X(SPANS,       spans,       SPANS_id,    SPANS_start_ns,       "A call of a traced function.") \
    X(MESSAGES,    messages,    MESSAGES_id, MESSAGES_sent_ns,     "A message.") \
    X(REQUESTS,    requests,    REQUESTS_id, REQUESTS_sent_ns,     "A request of one process to another.") \
    X(PROCESSES,   processes,   -1,          -1,                   "A process or port, as far as it is in the recording.") \
    X(COLLECTIONS, collections, -1,          COLLECTIONS_start_ns, "A garbage collection.") \
    X(RUNNING,     running,     -1,          RUNNING_start_ns,     "A stretch of time in which a process had a scheduler.") \
    X(FUNCTIONS,   functions,   -1,          -1,                   "A function, with sums over its calls.") \
    X(LOSSES,      losses,      -1,          -1,                   "Events that one thread lost for one reason.") \
    X(SHED,        shed,        -1,          -1,                   "What the recorder left out for a while, to keep its budget.")

/* clang-format on */

/* EVENTS_id, EVENTS_time_ns, ... */
#define KYMO_COLUMN_NUMBERS(table) \
    enum table##_columns \
    { \
        KYMO_##table##_COLUMNS(KYMO_X_##table) table##_COUNT \
    }
#define KYMO_X_EVENTS(name, type, says) EVENTS_##name,
#define KYMO_X_SPANS(name, type, says) SPANS_##name,
#define KYMO_X_MESSAGES(name, type, says) MESSAGES_##name,
#define KYMO_X_REQUESTS(name, type, says) REQUESTS_##name,
#define KYMO_X_PROCESSES(name, type, says) PROCESSES_##name,
#define KYMO_X_COLLECTIONS(name, type, says) COLLECTIONS_##name,
#define KYMO_X_RUNNING(name, type, says) RUNNING_##name,
#define KYMO_X_FUNCTIONS(name, type, says) FUNCTIONS_##name,
#define KYMO_X_LOSSES(name, type, says) LOSSES_##name,
#define KYMO_X_SHED(name, type, says) SHED_##name,
KYMO_COLUMN_NUMBERS(EVENTS);
KYMO_COLUMN_NUMBERS(SPANS);
KYMO_COLUMN_NUMBERS(MESSAGES);
KYMO_COLUMN_NUMBERS(REQUESTS);
KYMO_COLUMN_NUMBERS(PROCESSES);
KYMO_COLUMN_NUMBERS(COLLECTIONS);
KYMO_COLUMN_NUMBERS(RUNNING);
KYMO_COLUMN_NUMBERS(FUNCTIONS);
KYMO_COLUMN_NUMBERS(LOSSES);
KYMO_COLUMN_NUMBERS(SHED);

#endif
