/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells of the facts of the analysis.
 */
#include "cells.h"
#include "columns.h"
#include "kymo_names.h"
#include "kymo_server_loop.h"

/* A sum of durations, of which `known` were known; NULL if none was. */
static int sum(struct kymo_cell *c, int64_t ns, uint64_t known)
{
    return kymo_cell_duration(c, known > 0 ? ns : KYMO_NO_TIME);
}

static int size(struct kymo_cell *c, const struct kymo_heap *heap, uint64_t words)
{
    return heap->known ? kymo_cell_count(c, words) : kymo_cell_null(c);
}

static int words(struct kymo_cell *c, uint32_t size)
{
    return size != KYMO_SIZE_UNKNOWN ? kymo_cell_count(c, size) : kymo_cell_null(c);
}

static int span(const struct kymo_table_source *s, const struct kymo_span *row, unsigned column,
                struct kymo_cell *c)
{
    switch ((enum SPANS_columns)column) {
    case SPANS_id: return kymo_cell_id(c, row->id);
    case SPANS_parent_id: return kymo_cell_id(c, row->parent);
    case SPANS_process: return kymo_cell_process(c, s, row->process);
    case SPANS_pid: return kymo_cell_pid(c, s, row->process);
    case SPANS_function: return kymo_cell_function(c, s, row->mfa);
    case SPANS_module: return kymo_cell_module(c, s, row->mfa);
    case SPANS_caller: return kymo_cell_function(c, s, row->caller);
    case SPANS_depth: return kymo_cell_count(c, row->depth);
    case SPANS_start_ns: return kymo_cell_moment(c, s, row->start);
    case SPANS_start_time: return kymo_cell_date(c, s, row->start);
    case SPANS_end_ns: return kymo_cell_moment(c, s, row->end);
    case SPANS_duration_ns: return kymo_cell_duration(c, kymo_since(row->start, row->end));
    case SPANS_self_ns: return kymo_cell_duration(c, row->self);
    case SPANS_running_ns: return kymo_cell_duration(c, row->running);
    case SPANS_self_running_ns: return kymo_cell_duration(c, row->self_running);
    case SPANS_gc_ns: return sum(c, row->gc, s->has_gc && row->end != KYMO_NO_TIME);
    case SPANS_ended: return kymo_cell_word(c, kymo_span_end_name(row->ended));
    case SPANS_recursive: return kymo_cell_bool(c, row->recursive);
    case SPANS_thread: return kymo_cell_thread(c, s, row->slot);
    case SPANS_COUNT: break;
    }
    return kymo_cell_null(c);
}

static int mail(const struct kymo_table_source *s, const struct kymo_mail *row, unsigned column,
                struct kymo_cell *c)
{
    switch ((enum MESSAGES_columns)column) {
    case MESSAGES_id: return kymo_cell_id(c, row->id);
    case MESSAGES_kind: return kymo_cell_word(c, kymo_message_name(row->kind));
    case MESSAGES_sender: return kymo_cell_process(c, s, row->from);
    case MESSAGES_sender_pid: return kymo_cell_pid(c, s, row->from);
    case MESSAGES_receiver: return kymo_cell_process(c, s, row->to);
    case MESSAGES_receiver_pid: return kymo_cell_pid(c, s, row->to);
    case MESSAGES_sent_ns: return kymo_cell_moment(c, s, row->sent);
    case MESSAGES_sent_time: return kymo_cell_date(c, s, row->sent);
    case MESSAGES_fetched_ns: return kymo_cell_moment(c, s, row->assumed ? KYMO_NO_TIME : row->fetched);
    case MESSAGES_taken_ns: return kymo_cell_moment(c, s, row->taken);
    case MESSAGES_wait_ns: return kymo_cell_duration(c, kymo_mail_waited(row));
    case MESSAGES_passed:
        if (row->taken == KYMO_NO_TIME || row->passed == KYMO_PASSED_MANY)
            return kymo_cell_null(c);
        return kymo_cell_count(c, row->passed);
    case MESSAGES_exact: return kymo_cell_bool(c, row->exact);
    case MESSAGES_words: return words(c, row->size);
    case MESSAGES_reference: return kymo_cell_reference(c, s, row->ref);
    case MESSAGES_to_nobody: return kymo_cell_bool(c, row->to_nobody);
    case MESSAGES_COUNT: break;
    }
    return kymo_cell_null(c);
}

static int request(const struct kymo_table_source *s, const struct kymo_request *row, unsigned column,
                   struct kymo_cell *c)
{
    switch ((enum REQUESTS_columns)column) {
    case REQUESTS_id: return kymo_cell_id(c, row->id);
    case REQUESTS_kind: return kymo_cell_word(c, kymo_request_kind_name(row->kind));
    case REQUESTS_client: return kymo_cell_process(c, s, row->client);
    case REQUESTS_client_pid: return kymo_cell_pid(c, s, row->client);
    case REQUESTS_server: return kymo_cell_process(c, s, row->server);
    case REQUESTS_server_pid: return kymo_cell_pid(c, s, row->server);
    case REQUESTS_sent_ns: return kymo_cell_moment(c, s, row->sent);
    case REQUESTS_sent_time: return kymo_cell_date(c, s, row->sent);
    case REQUESTS_fetched_ns: return kymo_cell_moment(c, s, row->fetched);
    case REQUESTS_handled_ns: return kymo_cell_moment(c, s, row->handled);
    case REQUESTS_handled_end_ns: return kymo_cell_moment(c, s, row->handled_end);
    case REQUESTS_replied_ns: return kymo_cell_moment(c, s, row->replied);
    case REQUESTS_received_ns: return kymo_cell_moment(c, s, row->received);
    case REQUESTS_duration_ns: return kymo_cell_duration(c, kymo_request_total(row));
    case REQUESTS_queued_ns: return kymo_cell_duration(c, kymo_request_queued(row));
    case REQUESTS_handling_ns: return kymo_cell_duration(c, kymo_request_handling(row));
    case REQUESTS_reply_ns: return kymo_cell_duration(c, kymo_request_reply(row));
    case REQUESTS_ahead: return kymo_cell_count(c, row->ahead);
    case REQUESTS_ended: return kymo_cell_word(c, kymo_request_end_name(row->ended));
    case REQUESTS_passed_on: return kymo_cell_bool(c, row->passed_on);
    case REQUESTS_inferred: return kymo_cell_bool(c, row->inferred);
    case REQUESTS_handler: return kymo_cell_function(c, s, row->handler_mfa);
    case REQUESTS_handler_id: return kymo_cell_id(c, row->handler);
    case REQUESTS_caller: return kymo_cell_function(c, s, row->waiter_mfa);
    case REQUESTS_caller_id: return kymo_cell_id(c, row->waiter);
    case REQUESTS_message_id: return kymo_cell_id(c, row->mail);
    case REQUESTS_reply_message_id: return kymo_cell_id(c, row->reply_mail);
    case REQUESTS_reference: return kymo_cell_reference(c, s, row->ref);
    case REQUESTS_COUNT: break;
    }
    return kymo_cell_null(c);
}

static int life(const struct kymo_table_source *s, const struct kymo_life *row, unsigned column,
                struct kymo_cell *c)
{
    switch ((enum PROCESSES_columns)column) {
    case PROCESSES_process: return kymo_cell_process(c, s, row->process);
    case PROCESSES_pid: return kymo_cell_pid(c, s, row->process);
    case PROCESSES_role: return kymo_cell_role(c, s, row->process);
    case PROCESSES_parent: return kymo_cell_process(c, s, row->parent);
    case PROCESSES_parent_pid: return kymo_cell_pid(c, s, row->parent);
    case PROCESSES_spawned_as: return kymo_cell_function(c, s, row->spawned_as);
    case PROCESSES_start_ns: return kymo_cell_moment(c, s, row->start);
    case PROCESSES_start_time: return kymo_cell_date(c, s, row->start);
    case PROCESSES_end_ns: return kymo_cell_moment(c, s, row->end);
    case PROCESSES_first_ns: return kymo_cell_moment(c, s, row->first);
    case PROCESSES_last_ns: return kymo_cell_moment(c, s, row->last);
    case PROCESSES_exit_reason: return kymo_cell_atom(c, s, row->reason);
    case PROCESSES_exit_function: return kymo_cell_function(c, s, row->exited_in);
    case PROCESSES_running_ns: return kymo_cell_duration(c, row->running);
    case PROCESSES_waiting_ns: return sum(c, row->waiting, row->runs);
    case PROCESSES_gc_ns: return sum(c, row->gc, row->collections);
    case PROCESSES_calls: return kymo_cell_count(c, row->calls);
    case PROCESSES_runs: return kymo_cell_count(c, row->runs);
    case PROCESSES_collections: return kymo_cell_count(c, row->collections);
    case PROCESSES_sent: return kymo_cell_count(c, row->sent);
    case PROCESSES_received: return kymo_cell_count(c, row->received);
    case PROCESSES_requests: return kymo_cell_count(c, row->requests);
    case PROCESSES_requests_handled: return kymo_cell_count(c, row->requests_handled);
    case PROCESSES_backlog_max: return kymo_cell_count(c, row->mailbox_max);
    case PROCESSES_COUNT: break;
    }
    return kymo_cell_null(c);
}

static int collection(const struct kymo_table_source *s, const struct kymo_collection *row, unsigned column,
                      struct kymo_cell *c)
{
    switch ((enum COLLECTIONS_columns)column) {
    case COLLECTIONS_process: return kymo_cell_process(c, s, row->process);
    case COLLECTIONS_pid: return kymo_cell_pid(c, s, row->process);
    case COLLECTIONS_span_id: return kymo_cell_id(c, row->span);
    case COLLECTIONS_start_ns: return kymo_cell_moment(c, s, row->start);
    case COLLECTIONS_start_time: return kymo_cell_date(c, s, row->start);
    case COLLECTIONS_end_ns: return kymo_cell_moment(c, s, row->end);
    case COLLECTIONS_duration_ns: return kymo_cell_duration(c, kymo_since(row->start, row->end));
    case COLLECTIONS_major: return kymo_cell_bool(c, row->major);
    case COLLECTIONS_words_before: return size(c, &row->before, row->before.heap);
    case COLLECTIONS_words_after: return size(c, &row->after, row->after.heap);
    case COLLECTIONS_fragments_before: return size(c, &row->before, row->before.fragments);
    case COLLECTIONS_fragments_after: return size(c, &row->after, row->after.fragments);
    case COLLECTIONS_binaries_before: return size(c, &row->before, row->before.binaries);
    case COLLECTIONS_binaries_after: return size(c, &row->after, row->after.binaries);
    case COLLECTIONS_COUNT: break;
    }
    return kymo_cell_null(c);
}

static int run(const struct kymo_table_source *s, const struct kymo_run *row, unsigned column,
               struct kymo_cell *c)
{
    switch ((enum RUNNING_columns)column) {
    case RUNNING_process: return kymo_cell_process(c, s, row->process);
    case RUNNING_pid: return kymo_cell_pid(c, s, row->process);
    case RUNNING_thread: return kymo_cell_thread(c, s, row->slot);
    case RUNNING_start_ns: return kymo_cell_moment(c, s, row->start);
    case RUNNING_start_time: return kymo_cell_date(c, s, row->start);
    case RUNNING_end_ns: return kymo_cell_moment(c, s, row->end);
    case RUNNING_duration_ns: return kymo_cell_duration(c, kymo_since(row->start, row->end));
    case RUNNING_waited_ns: return kymo_cell_duration(c, row->waited);
    case RUNNING_runnable_ns: return kymo_cell_duration(c, row->runnable);
    case RUNNING_runnable_by:
        return kymo_cell_word(c, row->by != KYMO_RUNNABLE_UNKNOWN ? kymo_runnable_name(row->by) : NULL);
    case RUNNING_out_reason:
        return kymo_cell_word(c, row->reason != KYMO_OUT_UNKNOWN ? kymo_out_name(row->reason) : NULL);
    case RUNNING_in_function: return kymo_cell_function(c, s, row->in_mfa);
    case RUNNING_out_function: return kymo_cell_function(c, s, row->out_mfa);
    case RUNNING_dirty: return kymo_cell_bool(c, row->dirty);
    case RUNNING_hibernated: return kymo_cell_bool(c, row->hibernated);
    case RUNNING_exited: return kymo_cell_bool(c, row->exited);
    case RUNNING_COUNT: break;
    }
    return kymo_cell_null(c);
}

static int wait(const struct kymo_table_source *s, const struct kymo_wait_row *row, unsigned column,
                struct kymo_cell *c)
{
    switch ((enum WAITS_columns)column) {
    case WAITS_process: return kymo_cell_process(c, s, row->process);
    case WAITS_pid: return kymo_cell_pid(c, s, row->process);
    case WAITS_role: return kymo_cell_role(c, s, row->process);
    case WAITS_function: return kymo_cell_function(c, s, row->mfa);
    case WAITS_idle: return kymo_cell_bool(c, kymo_is_server_loop(s->r, row->mfa));
    case WAITS_runs: return kymo_cell_count(c, row->runs);
    case WAITS_running_ns: return kymo_cell_duration(c, row->running);
    case WAITS_dirty_ns: return kymo_cell_duration(c, row->dirty);
    case WAITS_waits: return kymo_cell_count(c, row->waits);
    case WAITS_waiting_ns: return kymo_cell_duration(c, row->waiting);
    case WAITS_longest_ns: return kymo_cell_duration(c, row->waits > 0 ? row->longest : KYMO_NO_TIME);
    case WAITS_longest_start_ns: return kymo_cell_moment(c, s, row->longest_start);
    case WAITS_COUNT: break;
    }
    return kymo_cell_null(c);
}

static int function(const struct kymo_table_source *s, const struct kymo_function_row *row, unsigned column,
                    struct kymo_cell *c)
{
    switch ((enum FUNCTIONS_columns)column) {
    case FUNCTIONS_function: return kymo_cell_function(c, s, row->mfa);
    case FUNCTIONS_module: return kymo_cell_module(c, s, row->mfa);
    case FUNCTIONS_calls: return kymo_cell_count(c, row->calls);
    case FUNCTIONS_calls_with_end: return kymo_cell_count(c, row->ended);
    case FUNCTIONS_exceptions: return kymo_cell_count(c, row->exceptions);
    case FUNCTIONS_total_ns: return sum(c, row->total, row->ended);
    case FUNCTIONS_self_ns: return sum(c, row->self, row->ended);
    case FUNCTIONS_running_ns: return sum(c, row->running, row->with_running);
    case FUNCTIONS_self_running_ns: return sum(c, row->self_running, row->with_running);
    case FUNCTIONS_gc_ns: return sum(c, row->gc, s->has_gc ? row->ended : 0);
    case FUNCTIONS_p50_ns: return kymo_cell_duration(c, row->p50);
    case FUNCTIONS_p99_ns: return kymo_cell_duration(c, row->p99);
    case FUNCTIONS_max_ns: return sum(c, row->max, row->ended);
    case FUNCTIONS_max_at_ns: return kymo_cell_moment(c, s, row->ended > 0 ? row->max_at : KYMO_NO_TIME);
    case FUNCTIONS_COUNT: break;
    }
    return kymo_cell_null(c);
}

static int loss(const struct kymo_table_source *s, const struct kymo_loss_row *row, unsigned column,
                struct kymo_cell *c)
{
    switch ((enum LOSSES_columns)column) {
    case LOSSES_thread: return kymo_cell_thread(c, s, row->slot);
    case LOSSES_cause: return kymo_cell_word(c, kymo_loss_name(row->cause));
    case LOSSES_events: return kymo_cell_count(c, row->events);
    case LOSSES_first_ns: return kymo_cell_moment(c, s, row->first);
    case LOSSES_last_ns: return kymo_cell_moment(c, s, row->last);
    case LOSSES_COUNT: break;
    }
    return kymo_cell_null(c);
}

static int shed(const struct kymo_table_source *s, const struct kymo_shed *row, unsigned column,
                struct kymo_cell *c)
{
    switch ((enum SHED_columns)column) {
    case SHED_function: return row->mfa != 0 ? kymo_cell_function(c, s, row->mfa) : kymo_cell_null(c);
    case SHED_module: return row->mfa != 0 ? kymo_cell_module(c, s, row->mfa) : kymo_cell_null(c);
    case SHED_events: return kymo_cell_word(c, kymo_kind_name(row->kind));
    case SHED_from_ns: return kymo_cell_moment(c, s, row->from);
    case SHED_to_ns: return kymo_cell_moment(c, s, row->to == INT64_MAX ? KYMO_NO_TIME : row->to);
    case SHED_COUNT: break;
    }
    return kymo_cell_null(c);
}

static int gauge(const struct kymo_table_source *s, const struct kymo_gauge *row, unsigned column,
                 struct kymo_cell *c)
{
    switch ((enum COUNTERS_columns)column) {
    case COUNTERS_time_ns: return kymo_cell_moment(c, s, row->ns);
    case COUNTERS_time: return kymo_cell_date(c, s, row->ns);
    case COUNTERS_counter: return kymo_cell_word(c, kymo_counter_name(row->counter));
    case COUNTERS_scheduler: return kymo_cell_id(c, kymo_counter_is_ranked(row->counter) ? 0 : row->index);
    case COUNTERS_rank: return kymo_cell_id(c, kymo_counter_is_ranked(row->counter) ? row->index : 0);
    case COUNTERS_process: return kymo_cell_process(c, s, row->process);
    case COUNTERS_pid: return kymo_cell_pid(c, s, row->process);
    case COUNTERS_value: return kymo_cell_count(c, row->value);
    case COUNTERS_per_second: return row->has_rate ? kymo_cell_count(c, row->rate) : kymo_cell_null(c);
    case COUNTERS_unit: return kymo_cell_word(c, kymo_unit_name(kymo_counter_unit(row->counter)));
    case COUNTERS_node: return kymo_cell_node(c, s, row->slot);
    case COUNTERS_COUNT: break;
    }
    return kymo_cell_null(c);
}

/* The duration of a report whose value is in milliseconds, in nanoseconds; KYMO_NO_TIME for other
 * reports, and for values that no runtime writes. */
static int64_t took(const struct kymo_monitor_row *row)
{
    bool timed = row->kind == KYMO_M_LONG_GC || row->kind == KYMO_M_LONG_SCHEDULE;
    return timed && row->value < INT64_MAX / 2000000 ? (int64_t)row->value * 1000000 : KYMO_NO_TIME;
}

static int monitor(const struct kymo_table_source *s, const struct kymo_monitor_row *row, unsigned column,
                   struct kymo_cell *c)
{
    bool counts = row->kind == KYMO_M_LONG_QUEUE || row->kind == KYMO_M_TOO_MANY;
    int64_t ns = took(row);
    switch ((enum MONITOR_columns)column) {
    case MONITOR_time_ns: return kymo_cell_moment(c, s, row->ns);
    case MONITOR_time: return kymo_cell_date(c, s, row->ns);
    case MONITOR_kind: return kymo_cell_word(c, kymo_monitor_name(row->kind));
    case MONITOR_process: return kymo_cell_process(c, s, row->process);
    case MONITOR_pid: return kymo_cell_pid(c, s, row->process);
    case MONITOR_port: return kymo_cell_pid(c, s, row->port);
    case MONITOR_start_ns:
        return kymo_cell_moment(c, s, ns != KYMO_NO_TIME ? (int64_t)((uint64_t)row->ns - (uint64_t)ns) : ns);
    case MONITOR_duration_ns: return kymo_cell_duration(c, ns);
    case MONITOR_words:
        return row->kind == KYMO_M_LARGE_HEAP ? kymo_cell_count(c, row->value) : kymo_cell_null(c);
    case MONITOR_value: return counts ? kymo_cell_count(c, row->value) : kymo_cell_null(c);
    case MONITOR_in_function: return kymo_cell_function(c, s, row->in_mfa);
    case MONITOR_out_function: return kymo_cell_function(c, s, row->out_mfa);
    case MONITOR_COUNT: break;
    }
    return kymo_cell_null(c);
}

static int observed(const struct kymo_table_source *s, const struct kymo_observed_row *row, unsigned column,
                    struct kymo_cell *c)
{
    switch ((enum OBSERVED_columns)column) {
    case OBSERVED_time_ns: return kymo_cell_moment(c, s, row->ns);
    case OBSERVED_time: return kymo_cell_date(c, s, row->ns);
    case OBSERVED_kind: return kymo_cell_word(c, kymo_observed_name(row->kind));
    case OBSERVED_process: return kymo_cell_process(c, s, row->process);
    case OBSERVED_pid: return kymo_cell_pid(c, s, row->process);
    case OBSERVED_function: return kymo_cell_function(c, s, row->function);
    case OBSERVED_idle: return kymo_cell_bool(c, kymo_is_server_loop(s->r, row->function));
    case OBSERVED_called_from: return kymo_cell_function(c, s, row->called_from);
    case OBSERVED_waits_for: return kymo_cell_process(c, s, row->waits_for);
    case OBSERVED_waits_for_pid: return kymo_cell_pid(c, s, row->waits_for);
    case OBSERVED_lock: return kymo_cell_atom(c, s, row->lock);
    case OBSERVED_mailbox: return kymo_cell_count(c, row->mailbox);
    case OBSERVED_COUNT: break;
    }
    return kymo_cell_null(c);
}

int kymo_table_cell(const struct kymo_table_source *s, enum kymo_table_id table, const void *row,
                    unsigned column, struct kymo_cell *cell)
{
    switch (table) {
    case KYMO_TABLE_EVENTS: return kymo_event_cell(s, row, column, cell);
    case KYMO_TABLE_SPANS: return span(s, row, column, cell);
    case KYMO_TABLE_MESSAGES: return mail(s, row, column, cell);
    case KYMO_TABLE_REQUESTS: return request(s, row, column, cell);
    case KYMO_TABLE_PROCESSES: return life(s, row, column, cell);
    case KYMO_TABLE_COLLECTIONS: return collection(s, row, column, cell);
    case KYMO_TABLE_RUNNING: return run(s, row, column, cell);
    case KYMO_TABLE_WAITS: return wait(s, row, column, cell);
    case KYMO_TABLE_FUNCTIONS: return function(s, row, column, cell);
    case KYMO_TABLE_LOSSES: return loss(s, row, column, cell);
    case KYMO_TABLE_SHED: return shed(s, row, column, cell);
    case KYMO_TABLE_COUNTERS: return gauge(s, row, column, cell);
    case KYMO_TABLE_MONITOR: return monitor(s, row, column, cell);
    case KYMO_TABLE_OBSERVED: return observed(s, row, column, cell);
    case KYMO_TABLES: break;
    }
    return kymo_cell_null(cell);
}
