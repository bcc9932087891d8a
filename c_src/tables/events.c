/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells of an event. The table of kymo_format.h defines which fields it has.
 */
#include <string.h>

#include "cells.h"
#include "columns.h"

static bool has(const struct kymo_event *ev, char field)
{
    return strchr(kymo_event_fields(ev->id), field) != NULL;
}

static int content(const struct kymo_table_source *s, const struct kymo_event *ev, struct kymo_cell *c)
{
    if (!ev->has_content)
        return kymo_cell_null(c);
    if (ev->id == KYMO_E_CALL || ev->id == KYMO_E_SPAWN || ev->id == KYMO_E_SPAWNED) {
        int rc = kymo_cell_arguments(c, s, ev->mfa, ev->content, ev->content_len);
        if (rc != 0 || c->kind != KYMO_CELL_NULL)
            return rc;
    }
    return kymo_cell_term(c, s, ev->content, ev->content_len);
}

int kymo_event_cell(const struct kymo_table_source *s, const struct kymo_event_row *row, unsigned column,
                    struct kymo_cell *c)
{
    const struct kymo_event *ev = row->event;
    uint64_t who = has(ev, 'W') ? ev->who : KYMO_IDENT_NONE;
    uint64_t peer = has(ev, 'P') ? ev->peer : KYMO_IDENT_NONE;
    uint32_t mfa = has(ev, 'M') ? kymo_reader_canonical(s->r, ev->mfa) : 0;
    switch ((enum EVENTS_columns)column) {
    case EVENTS_id: return kymo_cell_id(c, row->id);
    case EVENTS_time_ns: return kymo_cell_moment(c, s, ev->ns);
    case EVENTS_time: return kymo_cell_date(c, s, ev->ns);
    case EVENTS_thread: return kymo_cell_thread(c, s, ev->slot);
    case EVENTS_event: return kymo_cell_word(c, kymo_event_name(ev->id));
    case EVENTS_process: return kymo_cell_process(c, s, who);
    case EVENTS_pid: return kymo_cell_pid(c, s, who);
    case EVENTS_peer: return kymo_cell_process(c, s, peer);
    case EVENTS_peer_pid: return kymo_cell_pid(c, s, peer);
    case EVENTS_function: return kymo_cell_function(c, s, mfa);
    case EVENTS_module: return kymo_cell_module(c, s, mfa);
    case EVENTS_initial_call: return kymo_cell_function(c, s, kymo_reader_canonical(s->r, ev->initial));
    case EVENTS_duration_ns:
        return kymo_has_duration(ev->id) ? kymo_cell_count(c, ev->value) : kymo_cell_null(c);
    case EVENTS_atom: return kymo_cell_atom(c, s, has(ev, 'A') ? ev->atom : 0);
    case EVENTS_words:
        return has(ev, 'S') && ev->size != KYMO_SIZE_UNKNOWN ? kymo_cell_count(c, ev->size & ~KYMO_SIZE_MORE)
                                                             : kymo_cell_null(c);
    case EVENTS_message: return kymo_cell_word(c, kymo_message_name(ev->message));
    case EVENTS_reference: return kymo_cell_reference(c, s, ev->ref);
    case EVENTS_content: return content(s, ev, c);
    case EVENTS_content_cut:
        return ev->has_content ? kymo_cell_bool(c, (ev->content_flags & KYMO_C_CUT) != 0) : kymo_cell_null(c);
    case EVENTS_match_result:
        return ev->has_opts && (ev->opt_flags & KYMO_O_MSR) != 0 ? kymo_cell_term(c, s, ev->msr, ev->msr_len)
                                                                 : kymo_cell_null(c);
    case EVENTS_COUNT: break;
    }
    return kymo_cell_null(c);
}
