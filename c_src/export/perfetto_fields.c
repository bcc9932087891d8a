/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of events as debug annotations.
 */
#include <stdio.h>
#include <string.h>

#include "perfetto_state.h"

/* The key of a field; of those whose name depends on the event, see named. */
static const uint8_t keys[KYMO_FIELD_IDS] = {
    [KYMO_F_PEER] = KYMO_PF_K_PEER,
    [KYMO_F_FUNCTION] = KYMO_PF_K_AT,
    [KYMO_F_INITIAL_CALL] = KYMO_PF_K_RUNS,
    [KYMO_F_KIND] = KYMO_PF_K_KIND,
    [KYMO_F_SERIAL] = KYMO_PF_K_SERIAL,
    [KYMO_F_LABEL] = KYMO_PF_K_LABEL,
    [KYMO_F_WORDS] = KYMO_PF_K_SIZE,
    [KYMO_F_MESSAGE] = KYMO_PF_K_MESSAGE_KIND,
    [KYMO_F_REFERENCE] = KYMO_PF_K_REFERENCE,
    [KYMO_F_NUMBER] = KYMO_PF_K_NUMBER,
    [KYMO_F_PASSED] = KYMO_PF_K_PASSED,
    [KYMO_F_STACK_WORDS] = KYMO_PF_K_STACK_WORDS,
    [KYMO_F_DURATION] = KYMO_PF_K_DURATION,
    [KYMO_F_BEGAN] = KYMO_PF_K_BEGAN,
    [KYMO_F_OMITTED] = KYMO_PF_K_OMITTED,
    [KYMO_F_RUNNABLE_BY] = KYMO_PF_K_RUNNABLE_BY,
    [KYMO_F_WAITED] = KYMO_PF_K_RUN_QUEUE_NS,
    [KYMO_F_OUT_REASON] = KYMO_PF_K_OUT_REASON,
    [KYMO_F_GC] = KYMO_PF_K_GC,
    [KYMO_F_IN] = KYMO_PF_K_IN,
    [KYMO_F_OUT] = KYMO_PF_K_AT,
    [KYMO_F_STATE] = KYMO_PF_K_STATE,
    [KYMO_F_CAUSE] = KYMO_PF_K_CAUSE,
    [KYMO_F_COUNT] = KYMO_PF_K_COUNT,
    [KYMO_F_EXTRA] = KYMO_PF_K_EXTRA,
    [KYMO_F_SCHEDULER] = KYMO_PF_K_SCHEDULER,
    [KYMO_F_RESULT] = KYMO_PF_K_RESULT,
};

static const struct {
    const char *name;
    enum kymo_pf_key key;
} named[] = {
    {"args", KYMO_PF_K_ARGS},     {"msg", KYMO_PF_K_MESSAGE}, {"value", KYMO_PF_K_VALUE},
    {"reason", KYMO_PF_K_REASON}, {"op", KYMO_PF_K_AT},       {"class", KYMO_PF_K_CLASS},
    {"name", KYMO_PF_K_NAME},     {"term", KYMO_PF_K_TERM},   {"driver", KYMO_PF_K_DRIVER},
    {"cause", KYMO_PF_K_CAUSE},   {"tag", KYMO_PF_K_TAG},     {"ms", KYMO_PF_K_MS},
    {"words", KYMO_PF_K_SIZE},    {"long", KYMO_PF_K_VALUE},  {"left_out", KYMO_PF_K_VALUE},
};

/* KYMO_PF_K_NONE: the trace shows the field in another way. */
static unsigned key_of(const struct kymo_event *ev, const struct kymo_field *f)
{
    if (f->id == KYMO_F_FUNCTION && (ev->id == KYMO_E_SPAWN || ev->id == KYMO_E_SPAWNED))
        return KYMO_PF_K_CALLED;
    if (f->id != KYMO_F_ATOM && f->id != KYMO_F_CONTENT && f->id != KYMO_F_VALUE)
        return keys[f->id];
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        if (strcmp(f->name, named[i].name) == 0)
            return named[i].key;
    }
    return KYMO_PF_K_NONE;
}

static void add(struct kymo_pf *w, unsigned key, const struct kymo_field *f)
{
    bool more = (f->flags & KYMO_F_MORE) != 0, cut = (f->flags & KYMO_F_CUT) != 0;
    char text[32];
    int len;
    switch ((enum kymo_field_type)f->type) {
    case KYMO_V_IDENT:
        if (f->n != KYMO_IDENT_NONE)
            kymo_pf_ident(w, key, f->n);
        break;
    case KYMO_V_REFERENCE: kymo_pf_ident(w, key, f->n); break;
    case KYMO_V_FUNCTION:
    case KYMO_V_ATOM: kymo_pf_dict(w, key, (uint32_t)f->n); break;
    case KYMO_V_WORD: kymo_pf_text(w, key, f->text); break;
    case KYMO_V_COUNT:
        if (f->id != KYMO_F_PASSED || !more)
            kymo_pf_uint(w, f->id == KYMO_F_GC ? key + (unsigned)f->second : key, f->n);
        break;
    case KYMO_V_NS:
    case KYMO_V_INTEGER: kymo_pf_uint(w, key, f->n); break;
    case KYMO_V_NUMBER:
        len = (int)kymo_format_field(w->r, f, text, sizeof text);
        kymo_pf_string(w, key, text, (size_t)len);
        break;
    case KYMO_V_PAIR:
        len = snprintf(text, sizeof text, "%u -> %u", (unsigned)f->n, (unsigned)f->second);
        kymo_pf_string(w, key, text, (size_t)len);
        break;
    case KYMO_V_TERM: kymo_pf_term(w, key, f->etf, f->len, cut); break;
    case KYMO_V_ARGUMENTS: kymo_pf_arguments(w, (uint32_t)f->n, f->etf, f->len, cut); break;
    case KYMO_V_STAMP:
    case KYMO_V_COUNTER: break;
    }
}

void kymo_pfx_fields(struct kymo_pfx *x, const struct kymo_event *ev, uint64_t which)
{
    struct kymo_field f;
    struct kymo_fields all = kymo_fields(ev);
    for (all.left &= which; kymo_fields_next(&all, &f);) {
        unsigned key = key_of(ev, &f);
        if (key != KYMO_PF_K_NONE && (f.flags & KYMO_F_SHORT) == 0)
            add(&x->w, key, &f);
    }
}
