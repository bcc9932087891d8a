/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells of an event: kymo_fields.h says which fields it has.
 */
#include "cells.h"
#include "columns.h"
#include "kymo_fields.h"

/* The fields that have columns of their own; the last is a part of the content. */
static const uint64_t in_columns = KYMO_FIELD(PROCESS) | KYMO_FIELD(PEER) | KYMO_FIELD(FUNCTION) |
                                   KYMO_FIELD(INITIAL_CALL) | KYMO_FIELD(DURATION) | KYMO_FIELD(ATOM) |
                                   KYMO_FIELD(WORDS) | KYMO_FIELD(MESSAGE) | KYMO_FIELD(REFERENCE) |
                                   KYMO_FIELD(CONTENT) | KYMO_FIELD(RESULT) | KYMO_FIELD(EXTRA);

/* The number that a field has; `otherwise` if the event does not have it. */
static uint64_t number(const struct kymo_event *ev, unsigned field, uint64_t otherwise)
{
    struct kymo_field f;
    return kymo_field(ev, field, &f) ? f.n : otherwise;
}

static uint32_t function(const struct kymo_table_source *s, const struct kymo_event *ev, unsigned field)
{
    return kymo_reader_canonical(s->r, (uint32_t)number(ev, field, 0));
}

static int count(const struct kymo_event *ev, unsigned field, struct kymo_cell *c)
{
    struct kymo_field f;
    return kymo_field(ev, field, &f) ? kymo_cell_count(c, f.n) : kymo_cell_null(c);
}

static int word(const struct kymo_event *ev, unsigned field, struct kymo_cell *c)
{
    struct kymo_field f;
    return kymo_cell_word(c, kymo_field(ev, field, &f) ? f.text : NULL);
}

static int term(const struct kymo_table_source *s, const struct kymo_event *ev, unsigned field,
                struct kymo_cell *c)
{
    struct kymo_field f;
    if (!kymo_field(ev, field, &f))
        return kymo_cell_null(c);
    if (field == KYMO_F_CONTENT && ev->id == KYMO_E_OTHER) /* there is no column for its extra term */
        return kymo_cell_term(c, s, ev->content, ev->content_len);
    if (f.type == KYMO_V_ARGUMENTS) {
        int rc = kymo_cell_arguments(c, s, (uint32_t)f.n, f.etf, f.len);
        if (rc != 0 || c->kind != KYMO_CELL_NULL)
            return rc;
    }
    return kymo_cell_term(c, s, f.etf, f.len);
}

static int is_cut(const struct kymo_event *ev, struct kymo_cell *c)
{
    struct kymo_field f;
    return kymo_field(ev, KYMO_F_CONTENT, &f) ? kymo_cell_bool(c, (f.flags & KYMO_F_CUT) != 0)
                                              : kymo_cell_null(c);
}

int kymo_event_cell(const struct kymo_table_source *s, const struct kymo_event_row *row, unsigned column,
                    struct kymo_cell *c)
{
    const struct kymo_event *ev = row->event;
    const uint64_t none = KYMO_IDENT_NONE;
    switch ((enum EVENTS_columns)column) {
    case EVENTS_id: return kymo_cell_id(c, row->id);
    case EVENTS_time_ns: return kymo_cell_moment(c, s, ev->ns);
    case EVENTS_time: return kymo_cell_date(c, s, ev->ns);
    case EVENTS_thread: return kymo_cell_thread(c, s, ev->slot);
    case EVENTS_event: return kymo_cell_word(c, kymo_event_name(ev->id));
    case EVENTS_process: return kymo_cell_process(c, s, number(ev, KYMO_F_PROCESS, none));
    case EVENTS_pid: return kymo_cell_pid(c, s, number(ev, KYMO_F_PROCESS, none));
    case EVENTS_peer: return kymo_cell_process(c, s, number(ev, KYMO_F_PEER, none));
    case EVENTS_peer_pid: return kymo_cell_pid(c, s, number(ev, KYMO_F_PEER, none));
    case EVENTS_function: return kymo_cell_function(c, s, function(s, ev, KYMO_F_FUNCTION));
    case EVENTS_module: return kymo_cell_module(c, s, function(s, ev, KYMO_F_FUNCTION));
    case EVENTS_initial_call: return kymo_cell_function(c, s, function(s, ev, KYMO_F_INITIAL_CALL));
    case EVENTS_duration_ns: return count(ev, KYMO_F_DURATION, c);
    case EVENTS_atom: return kymo_cell_atom(c, s, (uint32_t)number(ev, KYMO_F_ATOM, 0));
    case EVENTS_words: return count(ev, KYMO_F_WORDS, c);
    case EVENTS_message: return word(ev, KYMO_F_MESSAGE, c);
    case EVENTS_reference: return kymo_cell_pid(c, s, number(ev, KYMO_F_REFERENCE, none));
    case EVENTS_content: return term(s, ev, KYMO_F_CONTENT, c);
    case EVENTS_content_cut: return is_cut(ev, c);
    case EVENTS_match_result: return term(s, ev, KYMO_F_RESULT, c);
    case EVENTS_details: return kymo_cell_members(c, s, ev, ~in_columns);
    case EVENTS_COUNT: break;
    }
    return kymo_cell_null(c);
}
