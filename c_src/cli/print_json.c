/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo print --json: one JSON object per event and line. Members that an event does not
 * have are left out; terms are text in Erlang's syntax.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "json.h"
#include "kymo_timeline.h"
#include "print.h"

static void put_ident(const struct kymo_reader *r, const char *key, uint64_t ident)
{
    char text[1100], member[64];
    uint32_t atom, mfa;
    kymo_format_ident(r, ident, text, sizeof text);
    cli_json_text(key, text);
    if (!kymo_reader_process(r, ident, &atom, &mfa) || atom == 0)
        return;
    kymo_format_atom(kymo_reader_atom(r, atom), text, sizeof text);
    snprintf(member, sizeof member, "%s_name", key);
    cli_json_text(member, text);
}

static void put_term(const struct kymo_reader *r, const char *key, const uint8_t *etf, size_t len)
{
    size_t need = kymo_format_value(r, etf, len, NULL, 0);
    char *text = malloc(need + 1);
    if (text == NULL) {
        cli_json_null(key);
        return;
    }
    kymo_format_value(r, etf, len, text, need + 1);
    cli_json_text(key, text);
    free(text);
}

/* "(10, foo)"; false when the content is no list. */
static bool put_arguments(const struct kymo_reader *r, const struct kymo_event *ev)
{
    size_t need = kymo_format_arguments(r, ev->mfa, ev->content, ev->content_len, NULL, 0);
    char *text = need > 0 ? malloc(need + 1) : NULL;
    if (text == NULL)
        return false;
    kymo_format_arguments(r, ev->mfa, ev->content, ev->content_len, text, need + 1);
    cli_json_text("args", text);
    free(text);
    return true;
}

static void put_fields(const struct kymo_reader *r, const struct kymo_event *ev)
{
    static const char *const gc[] = {
#define KYMO_X(n) #n,
        KYMO_GC_NAMES(KYMO_X)
#undef KYMO_X
    };
    const char *fields = kymo_event_fields(ev->id);
    char text[2300];
    if (strchr(fields, 'P') != NULL && ev->peer != KYMO_IDENT_NONE)
        put_ident(r, "peer", ev->peer);
    if (strchr(fields, 'M') != NULL && ev->mfa != 0) {
        kymo_format_mfa(r, ev->mfa, text, sizeof text);
        cli_json_text("function", text);
    }
    if (ev->initial != 0) {
        kymo_format_mfa(r, ev->initial, text, sizeof text);
        cli_json_text("initial_call", text);
    }
    if (strchr(fields, 'A') != NULL && ev->atom != 0) {
        kymo_format_atom(kymo_reader_atom(r, ev->atom), text, sizeof text);
        cli_json_text(cli_atom_key(ev->id), text);
    }
    if (strchr(fields, 'S') != NULL && ev->size != KYMO_SIZE_UNKNOWN) {
        cli_json_uint("words", ev->size & ~KYMO_SIZE_MORE);
        cli_json_bool("words_more", (ev->size & KYMO_SIZE_MORE) != 0);
    }
    if (kymo_message_name(ev->message) != NULL)
        cli_json_text("message", kymo_message_name(ev->message));
    if (ev->ref != 0) {
        kymo_format_ident(r, KYMO_IDENT(KYMO_I_REF, ev->ref), text, sizeof text);
        cli_json_text("reference", text);
    }
    if (ev->number != 0) {
        snprintf(text, sizeof text, "%#" PRIx64, ev->number); /* more than a double holds */
        cli_json_text("number", text);
    }
    if (ev->id == KYMO_E_TAKEN && ev->passed != KYMO_PASSED_MANY)
        cli_json_uint("passed", ev->passed);
    if (ev->depth != KYMO_DEPTH_UNKNOWN)
        cli_json_uint("stack_words", ev->depth);
    if (kymo_has_duration(ev->id))
        cli_json_uint("duration_ns", ev->value);
    if (ev->id == KYMO_E_STOPPED) {
        cli_json_uint("began_ns_ago", ev->begun);
        cli_json_uint("omitted", ev->omitted);
    }
    if (ev->id == KYMO_E_IN && ev->kind != KYMO_RUNNABLE_UNKNOWN) {
        cli_json_text("runnable_by", kymo_runnable_name(ev->kind));
        cli_json_uint("waited_ns", ev->value);
    }
    if (ev->id == KYMO_E_OUT && ev->kind != KYMO_OUT_UNKNOWN)
        cli_json_text("reason", kymo_out_name(ev->kind));
    for (uint32_t i = 0; i < ev->n_gc; i++)
        cli_json_uint(gc[i], ev->gc[i]);
}

void cli_print_json(const struct kymo_reader *r, const struct kymo_slot *slots, const struct kymo_event *ev)
{
    char text[64];
    cli_json_open(NULL, '{');
    cli_json_int("ns", (int64_t)((uint64_t)ev->ns - (uint64_t)kymo_reader_meta(r)->t0_mono_ns));
    kymo_format_thread(&slots[ev->slot], ev->slot, text, sizeof text);
    cli_json_text("thread", text);
    if (kymo_timeline_size(r) > 1)
        cli_json_text("node", kymo_timeline_name(r, kymo_timeline_of_slot(r, ev->slot)));
    cli_json_text("event", kymo_event_name(ev->id));
    if (ev->incomplete)
        cli_json_bool("incomplete", true);
    if (strchr(kymo_event_fields(ev->id), 'W') != NULL &&
        (ev->id != KYMO_E_MONITOR || ev->who != KYMO_IDENT_NONE))
        put_ident(r, "process", ev->who);
    put_fields(r, ev);
    if (ev->id == KYMO_E_COUNTERS)
        cli_counters_members(r, ev);
    if (ev->id == KYMO_E_MONITOR)
        cli_monitor_members(r, ev);
    if (ev->id == KYMO_E_STATE)
        cli_json_text("state", kymo_state_name(ev->kind));
    if (ev->id == KYMO_E_LOST) {
        cli_json_text("cause", kymo_loss_name(ev->kind));
        cli_json_uint("count", ev->value);
    }
    if (ev->has_content) {
        bool arguments = ev->id == KYMO_E_CALL || ev->id == KYMO_E_SPAWN || ev->id == KYMO_E_SPAWNED;
        if (!arguments || !put_arguments(r, ev))
            put_term(r, cli_content_key(ev->id), ev->content, ev->content_len);
        if ((ev->content_flags & KYMO_C_CUT) != 0)
            cli_json_bool("cut", true);
    }
    if (ev->has_opts && (ev->opt_flags & KYMO_O_MSR) != 0)
        put_term(r, "match_spec_result", ev->msr, ev->msr_len);
    cli_json_close('}');
    cli_json_end();
}
