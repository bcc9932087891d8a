/* SPDX-License-Identifier: Apache-2.0 */
#include "health.h"

#include <string.h>

#include "info.h"
#include "json.h"
#include "measures.h"
#include "shed.h"

static void json_node(const struct kymo_meta *m)
{
    char node[sizeof m->node + 1] = "";
    memcpy(node, m->node, m->node_len < sizeof m->node ? m->node_len : sizeof m->node);
    cli_json_text("node", node);
    cli_json_text("otp_release", m->otp_release);
    cli_json_text("erts_version", m->erts_version);
    cli_json_int("start_unix_ns", m->t0_wall_ns);
    cli_json_text("policy", m->policy == KYMO_DISCARD ? "discard" : "overwrite");
    cli_json_uint("sample", m->sample);
    cli_json_text("sample_kind", m->sample_kind == 1 ? "process" : "event");
    cli_json_uint("taken", m->taken);
    cli_json_uint("dict_full", m->dict_full);
    cli_json_uint("events_removed", m->events_removed);
}

static void json_losses(const struct kymo_reader *r)
{
    uint64_t lost[KYMO_LOSS_CAUSES] = {0}, overwritten = 0, sampled_out = 0, total = 0;
    uint32_t n;
    const struct kymo_slot *slots = kymo_reader_slots(r, &n);
    lost[KYMO_LOST_NO_SLOT] += kymo_reader_meta(r)->no_slot;
    for (uint32_t i = 0; i < n; i++) {
        for (unsigned c = 0; c < KYMO_LOSS_CAUSES; c++)
            lost[c] += kymo_slot_lost(&slots[i], c);
        overwritten += slots[i].overwritten;
        sampled_out += slots[i].sampled_out;
    }
    cli_json_uint("overwritten", overwritten);
    cli_json_uint("sampled_out", sampled_out);
    cli_json_open("lost", '{');
    for (unsigned c = 0; c <= KYMO_LOST_REENTRY; c++) {
        if (lost[c] > 0)
            cli_json_uint(kymo_loss_name(c), lost[c]);
        total += lost[c];
    }
    cli_json_close('}');
    cli_json_uint("lost_total", total);
}

/* Whether requested events are missing before the horizon: events older than the requested time do
 * not count. */
static bool is_missed(const struct cli_analysis *a, int64_t horizon)
{
    enum { TICK_NS = 1000 }; /* tolerance, because the horizon is the first tick after the requested time */
    return a->filter.from == INT64_MIN || horizon - a->t0 > a->filter.from + TICK_NS;
}

void report_health_json(const struct cli_analysis *a, const char *key, const char *dir)
{
    uint64_t ticks;
    int64_t horizon;
    bool cut = kymo_reader_horizon(a->r, &ticks, &horizon) && is_missed(a, horizon);
    const char *name = strrchr(dir, '/');
    cli_json_open(key, '{');
    cli_json_text("recording", name != NULL && name[1] != '\0' ? name + 1 : dir);
    cli_json_text("state", cli_state_text(a->r));
    cli_json_text("state_word", cli_state_word(a->r));
    json_node(kymo_reader_meta(a->r));
    cli_json_bool("whole", !cut);
    cli_json_since(a, "complete_from_ns", horizon);
    cli_json_bool("complete", !cli_incomplete(a->r));
    json_losses(a->r);
    cli_json_budget(a->r);
    cli_json_measures(kymo_reader_meta(a->r));
    cli_json_damage(kymo_reader_damage(a->r));
    cli_json_uint("given_up", a->result.evicted);
    cli_json_bool("elixir", kymo_naming_elixir(a->naming));
    cli_json_close('}');
}
