/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of events as members of a JSON object.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "json_text.h"
#include "kymo_fields.h"
#include "kymo_sink.h"

/* Here the peer of each event has the same name, and so has the function. */
static const char *name_of(const struct kymo_field *f)
{
    switch (f->id) {
    case KYMO_F_PEER: return "peer";
    case KYMO_F_IN: return "in_function";
    case KYMO_F_OUT: return "function";
    default: return f->name;
    }
}

/* A key with a suffix; "_pid" comes before the index of a name such as mailbox_length[1]. */
static void put_key(struct kymo_sink *s, const char *name, const char *suffix)
{
    size_t n = strcspn(name, "[");
    if (s->len > 0)
        kymo_sink_char(s, ',');
    kymo_sink_char(s, '"');
    kymo_sink_text(s, name, n);
    kymo_sink_text(s, suffix, strlen(suffix));
    kymo_sink_text(s, name + n, strlen(name + n));
    kymo_sink_text(s, "\":", 2);
}

static void put_bytes(void *sink, const void *bytes, size_t n)
{
    kymo_sink_text(sink, bytes, n);
}

static void put_string(struct kymo_sink *s, const char *text)
{
    kymo_json_string(put_bytes, s, text, strlen(text));
}

static void put_true(struct kymo_sink *s, const char *name, const char *suffix)
{
    put_key(s, name, suffix);
    kymo_sink_text(s, "true", 4);
}

/* The value as kymo_format_field shows it; null if there is no memory. */
static void put_text(struct kymo_sink *s, const struct kymo_reader *r, const struct kymo_field *f)
{
    char few[2300], *text = few;
    size_t need = kymo_format_field(r, f, few, sizeof few);
    if (need >= sizeof few) {
        text = malloc(need + 1);
        if (text != NULL)
            kymo_format_field(r, f, text, need + 1);
    }
    if (text != NULL)
        put_string(s, text);
    else
        kymo_sink_text(s, "null", 4);
    if (text != few)
        free(text);
}

static void put_name(struct kymo_sink *s, const struct kymo_reader *r, const char *key, uint64_t ident)
{
    char text[1100];
    uint32_t atom, mfa;
    if (!kymo_reader_process(r, ident, &atom, &mfa) || atom == 0)
        return;
    kymo_format_atom(kymo_reader_atom(r, atom), text, sizeof text);
    put_key(s, key, "_name");
    put_string(s, text);
}

static void put_pair(struct kymo_sink *s, const struct kymo_field *f)
{
    kymo_sink_printf(s, "[%" PRId64 ",%" PRId64 "]", (int64_t)f->n, (int64_t)f->second);
}

static void put_counter(struct kymo_sink *s, const struct kymo_reader *r, const struct kymo_field *f)
{
    char pid[256];
    kymo_sink_uint(s, f->n);
    if (f->second == KYMO_IDENT_NONE)
        return;
    kymo_format_ident(r, f->second, pid, sizeof pid);
    put_key(s, f->name, "_pid");
    put_string(s, pid);
}

/* Whether the member is left out: without a value, 0 would be wrong. */
static bool has_no_value(const struct kymo_field *f)
{
    return (f->flags & KYMO_F_SHORT) != 0 || (f->type == KYMO_V_FUNCTION && f->n == 0) ||
           (f->id == KYMO_F_PEER && f->n == KYMO_IDENT_NONE) ||
           (f->id == KYMO_F_PASSED && (f->flags & KYMO_F_MORE) != 0);
}

static void put_value(struct kymo_sink *s, const struct kymo_reader *r, const struct kymo_field *f)
{
    switch ((enum kymo_field_type)f->type) {
    case KYMO_V_WORD: put_string(s, f->text); break;
    case KYMO_V_COUNT:
    case KYMO_V_NS: kymo_sink_uint(s, f->n); break;
    case KYMO_V_INTEGER: kymo_sink_printf(s, "%" PRId64, (int64_t)f->n); break;
    case KYMO_V_PAIR: put_pair(s, f); break;
    case KYMO_V_STAMP:
        if ((f->flags & KYMO_F_STRICT) != 0)
            put_pair(s, f);
        else
            kymo_sink_printf(s, "%" PRId64, (int64_t)f->n);
        break;
    case KYMO_V_COUNTER: put_counter(s, r, f); break;
    case KYMO_V_NUMBER: /* has more bits than a double */
    case KYMO_V_IDENT:
    case KYMO_V_REFERENCE:
    case KYMO_V_FUNCTION:
    case KYMO_V_ATOM:
    case KYMO_V_TERM:
    case KYMO_V_ARGUMENTS: put_text(s, r, f); break;
    }
}

/* What a field says beside its value. */
static void put_remarks(struct kymo_sink *s, const struct kymo_reader *r, const struct kymo_field *f)
{
    bool more = (f->flags & KYMO_F_MORE) != 0, cut = (f->flags & KYMO_F_CUT) != 0;
    if (f->type == KYMO_V_IDENT)
        put_name(s, r, name_of(f), f->n);
    if (f->id == KYMO_F_WORDS) {
        put_key(s, f->name, "_more");
        kymo_sink_text(s, more ? "true" : "false", more ? 4 : 5);
    }
    if (cut && f->id == KYMO_F_CONTENT)
        put_true(s, "cut", "");
    if (cut && f->id == KYMO_F_RESULT)
        put_true(s, f->name, "_cut");
    if ((f->flags & KYMO_F_PAIRED) != 0)
        put_true(s, "pair", "");
}

size_t kymo_format_members(const struct kymo_reader *r, const struct kymo_event *ev, uint64_t which,
                           char *buf, size_t size)
{
    struct kymo_field f;
    struct kymo_sink s;
    struct kymo_fields all = kymo_fields(ev);
    kymo_sink_init(&s, buf, size);
    for (all.left &= which; kymo_fields_next(&all, &f);) {
        if (has_no_value(&f))
            continue;
        put_key(&s, name_of(&f), "");
        put_value(&s, r, &f);
        put_remarks(&s, r, &f);
    }
    return kymo_sink_end(&s);
}
