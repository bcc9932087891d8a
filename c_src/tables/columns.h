/* SPDX-License-Identifier: Apache-2.0
 *
 * The columns of each table: X(name, type, "what it is"). All other definitions of columns are
 * generated from these lists.
 */
#ifndef KYMO_COLUMNS_H
#define KYMO_COLUMNS_H

/* These lists are aligned by hand. */
/* clang-format off */

#define KYMO_EVENTS_COLUMNS(X) \
    X(id,               INTEGER, "number of the row, from 1, in order of time") \
    X(time_ns,          INTEGER, "time of the event") \
    X(time,             TEXT,    "the same time as a date in UTC, with microseconds") \
    X(thread,           TEXT,    "thread of the runtime: s1 a scheduler, c2 a dirty CPU scheduler, i3 a dirty I/O scheduler, t4 another thread") \
    X(event,            TEXT,    "call, return_to, slow, send, receive, spawned, in, out, ... as in kymo print") \
    X(process,          TEXT,    "name of the process or port that the event belongs to") \
    X(pid,              TEXT,    "its pid, such as <0.12.0> or #Port<0.3>") \
    X(peer,             TEXT,    "name of the other process: receiver, sender, parent, ...") \
    X(peer_pid,         TEXT,    "its pid, or the name that the message was sent to") \
    X(function,         TEXT,    "function, such as lists:map/2; Enum.map/2 on nodes with Elixir") \
    X(module,           TEXT,    "its module") \
    X(initial_call,     TEXT,    "for spawned: the function that a process started by proc_lib runs") \
    X(duration_ns,      INTEGER, "for slow: how long the call took that ends here") \
    X(atom,             TEXT,    "class of an exception, registered name, exit reason, driver, operation of a port") \
    X(words,            INTEGER, "size of the message; a lower bound if the recorder stopped counting") \
    X(message,          TEXT,    "call, cast, reply, down, io, io_reply, spawn_reply or timeout (no message, but a receive that timed out); NULL for others") \
    X(reference,        TEXT,    "hash of the reference in the message: the same in request and reply") \
    X(content,          TEXT,    "arguments, return value, message or reason, as an Erlang term") \
    X(content_cut,      BOOLEAN, "part of content was too large and is shown as '...'") \
    X(match_result,     TEXT,    "result of the match specification") \
    X(details,          TEXT,    "the other fields, as a JSON object with the names of kymo print --json: scheduler, monotonic, number, stack_words, heap_size, serial, ...")

#define KYMO_SPANS_COLUMNS(X) \
    X(id,               INTEGER, "number of the call, in order of time") \
    X(parent_id,        INTEGER, "id of the traced call that made it") \
    X(process,          TEXT,    "name of the process") \
    X(pid,              TEXT,    "its pid") \
    X(function,         TEXT,    "function that was called") \
    X(module,           TEXT,    "its module") \
    X(caller,           TEXT,    "function of the parent") \
    X(depth,            INTEGER, "number of open calls and collections around it") \
    X(start_ns,         INTEGER, "time of the call") \
    X(start_time,       TEXT,    "the same time as a date in UTC, with microseconds") \
    X(end_ns,           INTEGER, "time of its end") \
    X(duration_ns,      INTEGER, "from start to end") \
    X(self_ns,          INTEGER, "duration without the traced calls and collections inside it") \
    X(running_ns,       INTEGER, "part of the duration in which the process was scheduled in") \
    X(self_running_ns,  INTEGER, "part of self_ns in which it was scheduled in") \
    X(gc_ns,            INTEGER, "part of the duration in garbage collections") \
    X(ended,            TEXT,    "return, exception, tail, hibernate, exit, lost, open or moment") \
    X(recursive,        BOOLEAN, "inside another call of the same function: exclude it from sums of duration_ns") \
    X(thread,           TEXT,    "thread in which it began")

#define KYMO_MESSAGES_COLUMNS(X) \
    X(id,               INTEGER, "number of the message") \
    X(kind,             TEXT,    "call, cast, reply, down, io, io_reply or spawn_reply; NULL for others") \
    X(sender,           TEXT,    "name of the sender") \
    X(sender_pid,       TEXT,    "its pid") \
    X(receiver,         TEXT,    "name of the receiver") \
    X(receiver_pid,     TEXT,    "its pid, or the name that the message was sent to") \
    X(sent_ns,          INTEGER, "time at which it was sent") \
    X(sent_time,        TEXT,    "the same time as a date in UTC, with microseconds") \
    X(fetched_ns,       INTEGER, "time at which the receiver fetched it into its mailbox") \
    X(taken_ns,         INTEGER, "time at which the receiver took it out of its mailbox; known only on the patched runtime") \
    X(wait_ns,          INTEGER, "time from sent_ns to taken_ns, or to fetched_ns if that is unknown") \
    X(passed,           INTEGER, "messages before it in the mailbox when it was taken; NULL if unknown or very many") \
    X(exact,            BOOLEAN, "the runtime has numbered it: sent_ns is not derived from order or contents") \
    X(words,            INTEGER, "its size; NULL if the recorder stopped counting") \
    X(reference,        TEXT,    "hash of the reference in it: the same in request and reply") \
    X(to_nobody,        BOOLEAN, "the receiver did not exist")

#define KYMO_REQUESTS_COLUMNS(X) \
    X(id,               INTEGER, "number of the request") \
    X(kind,             TEXT,    "call (as of gen_server), cast, io or spawn (tasks, erpc)") \
    X(client,           TEXT,    "name of the process that made the request") \
    X(client_pid,       TEXT,    "its pid") \
    X(server,           TEXT,    "name of the process that received it") \
    X(server_pid,       TEXT,    "its pid, or the name that the request was sent to") \
    X(sent_ns,          INTEGER, "time at which it was sent") \
    X(sent_time,        TEXT,    "the same time as a date in UTC, with microseconds") \
    X(fetched_ns,       INTEGER, "time at which the server fetched it into its mailbox") \
    X(handled_ns,       INTEGER, "time at which the server began to handle it") \
    X(handled_end_ns,   INTEGER, "time at which the callback ended") \
    X(replied_ns,       INTEGER, "time at which the reply was sent") \
    X(received_ns,      INTEGER, "time at which the client received the reply, or gave up (timeout)") \
    X(duration_ns,      INTEGER, "time from sent_ns to received_ns; for a cast, until it was handled") \
    X(queued_ns,        INTEGER, "time from sent_ns to handled_ns") \
    X(handling_ns,      INTEGER, "time from handled_ns to replied_ns; for a cast, until it was handled") \
    X(reply_ns,         INTEGER, "time from replied_ns to received_ns") \
    X(ahead,            INTEGER, "number of requests to this server without a reply when it was sent") \
    X(ended,            TEXT,    "replied, down, open, no_reply (a cast), gone (the client exited) or timeout; a cast is open if no " \
                                 "callback is known to have handled it, though those of the server are traced") \
    X(passed_on,        BOOLEAN, "the client passed on a request of another process, which received the reply") \
    X(inferred,         BOOLEAN, "handled_ns was derived from the order of the replies, not from the callback") \
    X(handler,          TEXT,    "callback that handled it") \
    X(handler_id,       INTEGER, "id of that call in spans") \
    X(caller,           TEXT,    "innermost traced function of the client when it was sent") \
    X(caller_id,        INTEGER, "id of that call in spans") \
    X(message_id,       INTEGER, "id in messages") \
    X(reply_message_id, INTEGER, "id of the reply in messages") \
    X(reference,        TEXT,    "hash of the reference in it")

#define KYMO_PROCESSES_COLUMNS(X) \
    X(process,          TEXT,    "its name, its label, or the function that it runs; otherwise the pid") \
    X(pid,              TEXT,    "pid or port") \
    X(role,             TEXT,    "what it has in common with processes of its kind, such as the function that they run") \
    X(parent,           TEXT,    "name of the process that spawned it") \
    X(parent_pid,       TEXT,    "its pid") \
    X(spawned_as,       TEXT,    "function with which it was spawned") \
    X(start_ns,         INTEGER, "time at which it was spawned; NULL if that was before the recording") \
    X(start_time,       TEXT,    "the same time as a date in UTC, with microseconds") \
    X(end_ns,           INTEGER, "time at which it exited; NULL if that was not recorded") \
    X(first_ns,         INTEGER, "time of its first event") \
    X(last_ns,          INTEGER, "time of its last event") \
    X(exit_reason,      TEXT,    "exit reason; for a tuple, the first atom in it") \
    X(exit_function,    TEXT,    "function in which it crashed: the top of the stack in its exit reason, if there is one") \
    X(running_ns,       INTEGER, "time in which it was scheduled in") \
    X(waiting_ns,       INTEGER, "time in which it was not, for any reason") \
    X(gc_ns,            INTEGER, "time in garbage collections") \
    X(calls,            INTEGER, "number of traced calls") \
    X(runs,             INTEGER, "number of times that it was scheduled in") \
    X(collections,      INTEGER, "number of garbage collections") \
    X(sent,             INTEGER, "number of messages that it sent") \
    X(received,         INTEGER, "number of messages that it received") \
    X(requests,         INTEGER, "number of requests that it made") \
    X(requests_handled, INTEGER, "number of requests that it received") \
    X(backlog_max,      INTEGER, "largest number of requests to it without a reply at one time")

#define KYMO_COLLECTIONS_COLUMNS(X) \
    X(process,          TEXT,    "name of the process that collected garbage") \
    X(pid,              TEXT,    "its pid") \
    X(span_id,          INTEGER, "id in spans of the innermost open call") \
    X(start_ns,         INTEGER, "time of its beginning") \
    X(start_time,       TEXT,    "the same time as a date in UTC, with microseconds") \
    X(end_ns,           INTEGER, "time of its end") \
    X(duration_ns,      INTEGER, "from start to end") \
    X(major,            BOOLEAN, "a full collection") \
    X(words_before,     INTEGER, "size of the heap before it, including the old heap") \
    X(words_after,      INTEGER, "size of the heap after it") \
    X(fragments_before, INTEGER, "words in fragments outside of the heap before it: terms that were copied to the process") \
    X(fragments_after,  INTEGER, "words in fragments after it") \
    X(binaries_before,  INTEGER, "words of the binaries to which the process referred before it") \
    X(binaries_after,   INTEGER, "words of the binaries to which it refers after it")

#define KYMO_RUNNING_COLUMNS(X) \
    X(process,          TEXT,    "name of the process or port") \
    X(pid,              TEXT,    "its pid") \
    X(thread,           TEXT,    "the scheduler") \
    X(start_ns,         INTEGER, "time at which it was scheduled in") \
    X(start_time,       TEXT,    "the same time as a date in UTC, with microseconds") \
    X(end_ns,           INTEGER, "time at which it was scheduled out") \
    X(duration_ns,      INTEGER, "from start to end") \
    X(waited_ns,        INTEGER, "time for which it was scheduled out before, for any reason") \
    X(runnable_ns,      INTEGER, "time in a run queue before; known only on the patched runtime") \
    X(runnable_by,      TEXT,    "what put it in the run queue: message, timer, port, spawn, resume, signal or out") \
    X(out_reason,       TEXT,    "why it was scheduled out: waiting, reductions, trap, suspended, exiting, dirty or port") \
    X(in_function,      TEXT,    "function in which it continued") \
    X(out_function,     TEXT,    "function in which it stopped") \
    X(dirty,            BOOLEAN, "on a dirty scheduler") \
    X(hibernated,       BOOLEAN, "it was scheduled out to hibernate") \
    X(exited,           BOOLEAN, "it was scheduled out because it exited")

#define KYMO_WAITS_COLUMNS(X) \
    X(process,          TEXT,    "name of the process") \
    X(pid,              TEXT,    "its pid") \
    X(role,             TEXT,    "what it has in common with processes of its kind") \
    X(function,         TEXT,    "function in which it stopped, or that it called on a dirty scheduler; NULL: unknown, or the command of a port") \
    X(idle,             BOOLEAN, "the loop in which a behaviour, such as gen_server, waits for any message") \
    X(runs,             INTEGER, "number of times that it stopped there") \
    X(running_ns,       INTEGER, "duration of these runs on normal schedulers") \
    X(dirty_ns,         INTEGER, "duration of these runs on dirty schedulers") \
    X(waits,            INTEGER, "number of times that it was scheduled out there until it continued, the recording ended or runs were left out") \
    X(waiting_ns,       INTEGER, "duration of these") \
    X(longest_ns,       INTEGER, "longest of them") \
    X(longest_start_ns, INTEGER, "when that began")

#define KYMO_FUNCTIONS_COLUMNS(X) \
    X(function,         TEXT,    "name of the function") \
    X(module,           TEXT,    "its module") \
    X(calls,            INTEGER, "number of calls") \
    X(calls_with_end,   INTEGER, "number of calls with a known duration; all times are of these calls") \
    X(exceptions,       INTEGER, "number of calls that ended with an exception") \
    X(total_ns,         INTEGER, "sum of the durations, without recursive calls") \
    X(self_ns,          INTEGER, "sum of self_ns of its spans") \
    X(running_ns,       INTEGER, "part of total_ns in which processes were scheduled in") \
    X(self_running_ns,  INTEGER, "part of self_ns in which processes were scheduled in") \
    X(gc_ns,            INTEGER, "part of total_ns in garbage collections") \
    X(p50_ns,           INTEGER, "median of the durations, accurate to 1.6 %") \
    X(p99_ns,           INTEGER, "99th percentile of the durations, accurate to 1.6 %") \
    X(max_ns,           INTEGER, "longest duration") \
    X(max_at_ns,        INTEGER, "time at which that call began")

#define KYMO_LOSSES_COLUMNS(X) \
    X(thread,           TEXT,    "thread that lost events; NULL: threads for which there was no slot") \
    X(cause,            TEXT,    "ring_full, io, no_slot, too_big, bad_term or reentry") \
    X(events,           INTEGER, "number of lost events, during the whole recording") \
    X(first_ns,         INTEGER, "time of the first loss that is still noted in the recording; without a thread, of the first loss") \
    X(last_ns,          INTEGER, "time of the last one")

#define KYMO_SHED_COLUMNS(X) \
    X(function,         TEXT,    "function whose calls are missing; NULL: a kind of events is, or the function has no name") \
    X(module,           TEXT,    "its module") \
    X(events,           TEXT,    "kind of events that is missing: messages, running, garbage_collection, procs, ports, or calls (of all functions)") \
    X(from_ns,          INTEGER, "beginning") \
    X(to_ns,            INTEGER, "end; NULL: the end of the recording")

#define KYMO_COUNTERS_COLUMNS(X) \
    X(time_ns,          INTEGER, "time of the sample") \
    X(time,             TEXT,    "the same time as a date in UTC, with microseconds") \
    X(counter,          TEXT,    "name of the counter, such as run_queue, memory_ets or reductions") \
    X(scheduler,        INTEGER, "number of the scheduler for scheduler_utilization; NULL: the whole node") \
    X(rank,             INTEGER, "for mailbox_length and heap_size: 1 for the longest or largest found, to 3") \
    X(process,          TEXT,    "for mailbox_length and heap_size: name of the process") \
    X(pid,              TEXT,    "its pid") \
    X(value,            INTEGER, "its value; for what counts up (reductions, io_input, ...) since the start of the node") \
    X(per_second,       INTEGER, "for what counts up: increase per second since the sample before") \
    X(unit,             TEXT,    "of value: count, bytes, ns or millionths (of the time)") \
    X(node,             TEXT,    "name of the node")

#define KYMO_MONITOR_COLUMNS(X) \
    X(time_ns,          INTEGER, "time of the report, shortly after what it reports") \
    X(time,             TEXT,    "the same time as a date in UTC, with microseconds") \
    X(kind,             TEXT,    "long_gc, long_schedule, large_heap, busy_port, busy_dist_port or long_message_queue; notes of the recorder: set, held (by process), too_many (value: how many were left out)") \
    X(process,          TEXT,    "name of the process or port") \
    X(pid,              TEXT,    "its pid") \
    X(port,             TEXT,    "for busy_port and busy_dist_port: the port") \
    X(start_ns,         INTEGER, "for long_gc and long_schedule: about when it began") \
    X(duration_ns,      INTEGER, "for long_gc and long_schedule: how long it took, in whole milliseconds") \
    X(words,            INTEGER, "for large_heap: size of the heap") \
    X(value,            INTEGER, "for long_message_queue 1 when it became long and 0 when it was short again; for too_many how many") \
    X(in_function,      TEXT,    "for long_schedule: function in which the process was scheduled in") \
    X(out_function,     TEXT,    "for long_schedule: function in which it was scheduled out")

#define KYMO_OBSERVED_COLUMNS(X) \
    X(time_ns,          INTEGER, "when the recorder looked") \
    X(time,             TEXT,    "the same time as a date in UTC, with microseconds") \
    X(kind,             TEXT,    "waits, suspended or holds_global_lock") \
    X(process,          TEXT,    "name of the process") \
    X(pid,              TEXT,    "its pid") \
    X(function,         TEXT,    "function in which it waited, or was suspended") \
    X(idle,             BOOLEAN, "that is the loop in which a behaviour, such as gen_server, waits for any message") \
    X(called_from,      TEXT,    "the first function on its stack that is not part of OTP") \
    X(waits_for,        TEXT,    "name of the process that it waited for, if that is known") \
    X(waits_for_pid,    TEXT,    "its pid") \
    X(lock,             TEXT,    "for holds_global_lock: its name, or the first atom in it") \
    X(mailbox,          INTEGER, "messages in its mailbox")

/* X(enum, name, id column, time column, "what a row is") */
#define KYMO_TABLE_LIST(X) \
    X(EVENTS,      events,      -1,          EVENTS_time_ns,       "An event as it was recorded.") \
    X(SPANS,       spans,       SPANS_id,    SPANS_start_ns,       "A call of a traced function.") \
    X(MESSAGES,    messages,    MESSAGES_id, MESSAGES_sent_ns,     "A message.") \
    X(REQUESTS,    requests,    REQUESTS_id, REQUESTS_sent_ns,     "A request of one process to another.") \
    X(PROCESSES,   processes,   -1,          -1,                   "A process or port, as far as it was recorded.") \
    X(COLLECTIONS, collections, -1,          COLLECTIONS_start_ns, "A garbage collection.") \
    X(RUNNING,     running,     -1,          RUNNING_start_ns,     "A period in which a process was scheduled in.") \
    X(WAITS,       waits,       -1,          -1,                   "A function in which a process stopped running, with sums over its runs and waits there.") \
    X(FUNCTIONS,   functions,   -1,          -1,                   "A function, with sums over its calls.") \
    X(LOSSES,      losses,      -1,          -1,                   "Events that one thread lost for one cause.") \
    X(SHED,        shed,        -1,          -1,                   "A function or kind of events that the recorder left out to keep its budget, and when.") \
    X(COUNTERS,    counters,    -1,          COUNTERS_time_ns,     "A value of one of the node's counters.") \
    X(MONITOR,     system_monitor, -1,       MONITOR_time_ns,      "A report of erlang:system_monitor/2, or a note about it.") \
    X(OBSERVED,    observed,    -1,          OBSERVED_time_ns,     "What a process waited for when tracing began.")

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
#define KYMO_X_WAITS(name, type, says) WAITS_##name,
#define KYMO_X_FUNCTIONS(name, type, says) FUNCTIONS_##name,
#define KYMO_X_LOSSES(name, type, says) LOSSES_##name,
#define KYMO_X_SHED(name, type, says) SHED_##name,
#define KYMO_X_COUNTERS(name, type, says) COUNTERS_##name,
#define KYMO_X_MONITOR(name, type, says) MONITOR_##name,
#define KYMO_X_OBSERVED(name, type, says) OBSERVED_##name,
KYMO_COLUMN_NUMBERS(EVENTS);
KYMO_COLUMN_NUMBERS(SPANS);
KYMO_COLUMN_NUMBERS(MESSAGES);
KYMO_COLUMN_NUMBERS(REQUESTS);
KYMO_COLUMN_NUMBERS(PROCESSES);
KYMO_COLUMN_NUMBERS(COLLECTIONS);
KYMO_COLUMN_NUMBERS(RUNNING);
KYMO_COLUMN_NUMBERS(WAITS);
KYMO_COLUMN_NUMBERS(FUNCTIONS);
KYMO_COLUMN_NUMBERS(LOSSES);
KYMO_COLUMN_NUMBERS(SHED);
KYMO_COLUMN_NUMBERS(COUNTERS);
KYMO_COLUMN_NUMBERS(MONITOR);
KYMO_COLUMN_NUMBERS(OBSERVED);

#endif
