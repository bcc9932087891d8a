/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo info --json: one object; kymo.1 describes the keys. Times are integers
 * in nanoseconds, keys never disappear.
 */
#include <stdio.h>
#include <string.h>

#include "info.h"
#include "json.h"
#include "measures.h"
#include "shed.h"

/* 0 stands for "none" in the recording and is null here. */
static void optional(const char *name, uint64_t v)
{
    if (v != 0)
        cli_json_uint(name, v);
    else
        cli_json_null(name);
}

static void losses(const uint64_t *lost)
{
    uint64_t total = 0;
    for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++)
        total += lost[c];
    cli_json_open("lost", '{');
    cli_json_uint("total", total);
    for (unsigned c = 0; c <= KYMO_LOST_REENTRY; c++)
        cli_json_uint(kymo_loss_name(c), lost[c]);
    cli_json_close('}');
}

void cli_json_damage(const struct kymo_damage *d)
{
    cli_json_open("damage", '{');
    cli_json_uint("segments_bad", d->segments_bad);
    cli_json_uint("records_bad", d->records_bad);
    cli_json_uint("bytes_cut", d->bytes_cut);
    cli_json_uint("segments_moved", d->segments_moved);
    cli_json_uint("dict_bad", d->dict_bad);
    cli_json_uint("seq_gaps", d->seq_gaps);
    cli_json_uint("events_missing", d->events_missing);
    cli_json_close('}');
}

static void head(const struct cli_info *in)
{
    const struct kymo_meta *m = in->meta;
    char node[sizeof m->node + 1];
    memcpy(node, m->node, m->node_len);
    node[m->node_len] = '\0';
    cli_json_uint("format", m->version);
    cli_json_text("recording", in->dir);
    cli_json_text("state", in->state_word);
    cli_json_text("reason", kymo_reason_name(m->reason));
    cli_json_text("node", node);
    cli_json_text("otp_release", m->otp_release);
    cli_json_text("erts_version", m->erts_version);
    cli_json_uint("os_pid", m->os_pid);
    cli_json_exact(cli_info_exact(in));
    cli_json_text("policy", m->policy == KYMO_DISCARD ? "discard" : "overwrite");
    cli_json_text("clock", m->clock == KYMO_CLOCK_COUNTER ? "counter" : "monotonic");
    cli_json_uint("n_slots", m->n_slots);
    cli_json_uint("slots_used", m->slots_used);
    cli_json_uint("segment_bytes", m->segment_bytes);
    cli_json_uint("n_segments", m->n_segments);
    cli_json_uint("memory", m->memory);
    cli_json_uint("epochs", m->epochs);
    cli_json_int("start_unix_ns", m->t0_wall_ns);
    cli_json_int("start_erlang_ns", m->t0_erl_ns);
    optional("limit_bytes", m->limit_bytes);
    optional("limit_events", m->limit_events);
    optional("limit_ns", m->limit_ns);
    cli_json_uint("sample", m->sample);
    cli_json_text("sample_kind", m->sample_kind == 1 ? "process" : "event");
}

static void counters(const struct cli_info *in)
{
    uint64_t t0 = (uint64_t)in->meta->t0_mono_ns;
    cli_json_uint("events", in->events);
    cli_json_uint("incomplete_events", in->incomplete);
    cli_json_uint("recorded", in->counted);
    cli_json_uint("recorded_bytes", in->bytes);
    cli_json_uint("overwritten", in->overwritten);
    cli_json_uint("sampled_out", in->sampled_out);
    cli_json_uint("events_removed", in->meta->events_removed);
    cli_json_uint("files_removed", in->meta->files_removed);
    cli_json_int("first_ns", in->events != 0 ? (int64_t)((uint64_t)in->first_ns - t0) : 0);
    cli_json_int("last_ns", in->events != 0 ? (int64_t)((uint64_t)in->last_ns - t0) : 0);
    cli_json_bool("whole", in->whole);
    cli_json_int("complete_from_ns", (int64_t)((uint64_t)in->horizon_ns - t0));
    cli_json_int("complete_from_unix_ns", kymo_reader_wall_ns(in->r, in->horizon_ns));
    cli_json_int("complete_for_ns", cli_info_complete_ns(in));
    cli_json_uint("clock_jumps", kymo_reader_jumps(in->r));
    cli_json_uint("pool_segments", in->pool_segments);
    cli_json_uint("pool_bytes", in->pool_bytes);
    cli_json_uint("data_files", in->files);
    cli_json_uint("data_bytes", in->file_bytes);
    cli_json_uint("ring_bytes", in->ring_bytes);
    cli_json_uint("ring_disk_bytes", in->ring_disk_bytes);
    cli_json_uint("dict_used", in->meta->dict_used);
    cli_json_uint("dict_bytes", in->meta->dict_bytes);
    cli_json_uint("dict_full", in->meta->dict_full);
    cli_json_uint("dict_atoms", in->defs[KYMO_DICT_ATOM]);
    cli_json_uint("dict_functions", in->defs[KYMO_DICT_MFA]);
    cli_json_uint("dict_terms", in->defs[KYMO_DICT_TERM]);
    cli_json_uint("dict_processes", in->defs[KYMO_DICT_PROC]);
    cli_json_uint("io_errno", in->meta->io_errno);
    cli_json_uint("taken", in->meta->taken);
    cli_json_budget(in->r);
    cli_json_measures(in->meta);
    cli_json_uint("missing_events", in->missing);
    losses(in->lost);
    cli_json_damage(in->damage);
    cli_json_bool("complete", in->intact);
}

static void threads(const struct cli_info *in)
{
    static const char *const kinds[] = {"other", "scheduler", "dirty_cpu", "dirty_io"};
    cli_json_open("threads", '[');
    for (uint32_t i = 0; i < in->n_slots; i++) {
        const struct kymo_slot *s = &in->slots[i];
        uint64_t lost[KYMO_LOSS_CAUSES];
        if (s->used == 0 && in->slot_events[i] + in->slot_incomplete[i] == 0)
            continue;
        for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++)
            lost[c] = kymo_slot_lost(s, c);
        cli_json_open(NULL, '{');
        cli_json_uint("slot", i);
        cli_json_text("kind",
                      s->thread_kind < sizeof kinds / sizeof *kinds ? kinds[s->thread_kind] : "other");
        cli_json_uint("number", s->thread_no);
        cli_json_text("name", s->thread_name);
        cli_json_uint("os_thread", s->os_thread);
        cli_json_uint("events", in->slot_events[i]);
        cli_json_uint("incomplete_events", in->slot_incomplete[i]);
        cli_json_uint("recorded", s->events);
        cli_json_uint("recorded_bytes", s->bytes);
        cli_json_uint("overwritten", s->overwritten);
        cli_json_uint("sampled_out", s->sampled_out);
        losses(lost);
        cli_json_close('}');
    }
    cli_json_close(']');
}

/* Events of ports have names of their own here: "in" and "port_in". */
static void by_event(const struct cli_info *in)
{
    cli_json_open("by_event", '{');
    for (unsigned id = 0; id < KYMO_E_COUNT; id++) {
        char name[64];
        bool of_port = id >= KYMO_E_PORT_IN && id <= KYMO_E_PORT_OUT_EXITED;
        if (in->by_event[id] == 0)
            continue;
        snprintf(name, sizeof name, "%s%s", of_port ? "port_" : "", kymo_event_name((uint8_t)id));
        cli_json_uint(name, in->by_event[id]);
    }
    cli_json_close('}');
}

static void processes(const struct cli_info *in)
{
    cli_json_uint("process_count", in->processes.map.count);
    cli_json_uint("process_count_error", in->processes.error);
    cli_json_open("processes", '[');
    for (size_t i = 0; i < in->n_top_processes && !cli_output_lost(); i++) {
        const struct cli_count *c = &in->top_processes[i];
        char text[2200];
        uint32_t name, mfa;
        cli_json_open(NULL, '{');
        cli_json_uint("events", c->count);
        kymo_format_ident(in->r, c->key, text, sizeof text);
        cli_json_text("process", text);
        kymo_reader_process(in->r, c->key, &name, &mfa);
        if (name != 0) {
            kymo_format_atom(kymo_reader_atom(in->r, name), text, sizeof text);
            cli_json_text("name", text);
        }
        if (mfa != 0) {
            kymo_format_mfa(in->r, mfa, text, sizeof text);
            cli_json_text("initial_call", text);
        }
        cli_json_close('}');
    }
    cli_json_close(']');
}

static void functions(const struct cli_info *in)
{
    cli_json_uint("function_count", in->n_functions);
    cli_json_open("functions", '[');
    for (size_t i = 0; i < in->n_top_functions && !cli_output_lost(); i++) {
        const struct cli_count *c = &in->top_functions[i];
        char mfa[2200];
        cli_json_open(NULL, '{');
        cli_json_uint("calls", c->count);
        kymo_format_mfa(in->r, (uint32_t)c->key, mfa, sizeof mfa);
        cli_json_text("function", mfa);
        cli_json_close('}');
    }
    cli_json_close(']');
}

static void firing(const struct cli_info *in)
{
    if (!in->has_firing) {
        cli_json_null("firing");
        return;
    }
    cli_json_open("firing", '{');
    cli_firing_members(&in->firing, in->r);
    cli_json_close('}');
}

void cli_info_json(const struct cli_info *in)
{
    cli_json_open(NULL, '{');
    head(in);
    firing(in);
    counters(in);
    threads(in);
    by_event(in);
    processes(in);
    functions(in);
    cli_counters_json(&in->node);
    cli_json_close('}');
    cli_json_end();
}
