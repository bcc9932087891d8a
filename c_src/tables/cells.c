/* SPDX-License-Identifier: Apache-2.0 */
#include "cells.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_fields.h"
#include "kymo_timeline.h"

/* Names of processes and functions are cut to this length, as everywhere in the command. */
enum { NAME_MAX_BYTES = 2300 };

void kymo_cell_free(struct kymo_cell *cell)
{
    free(cell->room);
    memset(cell, 0, sizeof *cell);
}

/* ---- numbers ---- */

int kymo_cell_null(struct kymo_cell *c)
{
    c->kind = KYMO_CELL_NULL;
    return 0;
}

static int put_integer(struct kymo_cell *c, int64_t n)
{
    c->kind = KYMO_CELL_INTEGER;
    c->integer = n;
    return 0;
}

int kymo_cell_bool(struct kymo_cell *c, bool b)
{
    c->kind = KYMO_CELL_BOOLEAN;
    c->integer = b;
    return 0;
}

int kymo_cell_count(struct kymo_cell *c, uint64_t n)
{
    return n <= INT64_MAX ? put_integer(c, (int64_t)n) : kymo_cell_null(c);
}

int kymo_cell_id(struct kymo_cell *c, uint64_t id)
{
    return id != 0 ? kymo_cell_count(c, id) : kymo_cell_null(c);
}

int kymo_cell_duration(struct kymo_cell *c, int64_t ns)
{
    return ns != KYMO_NO_TIME ? put_integer(c, ns) : kymo_cell_null(c);
}

int kymo_cell_moment(struct kymo_cell *c, const struct kymo_table_source *s, int64_t ns)
{
    /* May wrap if the clock is damaged. */
    uint64_t t0 = (uint64_t)kymo_reader_meta(s->r)->t0_mono_ns;
    return ns != KYMO_NO_TIME ? put_integer(c, (int64_t)((uint64_t)ns - t0)) : kymo_cell_null(c);
}

/* ---- text ---- */

/* Makes room for text of n bytes and a NUL. Returns false if there is no memory. */
static bool reserve(struct kymo_cell *c, size_t n)
{
    if (n < c->size)
        return true;
    char *more = realloc(c->room, n + 1);
    if (more == NULL)
        return false;
    c->room = more;
    c->size = n + 1;
    return true;
}

static int put_text(struct kymo_cell *c, const char *text, size_t len)
{
    c->kind = KYMO_CELL_TEXT;
    c->text = text;
    c->len = len;
    return 0;
}

/* Makes the text that was formatted into c->room the value of the cell. */
static int put_room(struct kymo_cell *c)
{
    return put_text(c, c->room, strlen(c->room));
}

int kymo_cell_word(struct kymo_cell *c, const char *text)
{
    return text != NULL ? put_text(c, text, strlen(text)) : kymo_cell_null(c);
}

int kymo_cell_date(struct kymo_cell *c, const struct kymo_table_source *s, int64_t ns)
{
    enum { MICROSECONDS = sizeof "2024-05-01T12:00:00.123456" - 1 };
    if (ns == KYMO_NO_TIME)
        return kymo_cell_null(c);
    if (!reserve(c, 64))
        return -ENOMEM;
    size_t len = kymo_format_utc(kymo_reader_wall_ns(s->r, ns), c->room, c->size);
    /* Years of five digits occur only if the clock is damaged. */
    if (len != MICROSECONDS + sizeof "789Z" - 1)
        return kymo_cell_null(c);
    memcpy(c->room + MICROSECONDS, "Z", sizeof "Z");
    return put_room(c);
}

int kymo_cell_process(struct kymo_cell *c, const struct kymo_table_source *s, uint64_t ident)
{
    if (ident == KYMO_IDENT_NONE)
        return kymo_cell_null(c);
    if (!reserve(c, NAME_MAX_BYTES))
        return -ENOMEM;
    kymo_name_short(s->naming, ident, c->room, c->size);
    return put_room(c);
}

int kymo_cell_role(struct kymo_cell *c, const struct kymo_table_source *s, uint64_t ident)
{
    if (!reserve(c, NAME_MAX_BYTES))
        return -ENOMEM;
    kymo_name_role(s->naming, ident, c->room, c->size);
    return put_room(c);
}

int kymo_cell_pid(struct kymo_cell *c, const struct kymo_table_source *s, uint64_t ident)
{
    if (ident == KYMO_IDENT_NONE)
        return kymo_cell_null(c);
    if (!reserve(c, NAME_MAX_BYTES))
        return -ENOMEM;
    kymo_format_ident(s->r, ident, c->room, c->size);
    return put_room(c);
}

int kymo_cell_function(struct kymo_cell *c, const struct kymo_table_source *s, uint32_t mfa)
{
    if (mfa == 0)
        return kymo_cell_null(c);
    if (!reserve(c, NAME_MAX_BYTES))
        return -ENOMEM;
    kymo_name_function(s->naming, mfa, c->room, c->size);
    return put_room(c);
}

int kymo_cell_module(struct kymo_cell *c, const struct kymo_table_source *s, uint32_t mfa)
{
    struct kymo_mfa parts;
    if (!kymo_reader_mfa(s->r, mfa, &parts))
        return kymo_cell_null(c);
    if (!reserve(c, NAME_MAX_BYTES))
        return -ENOMEM;
    kymo_name_module(s->naming, parts.module, c->room, c->size);
    return put_room(c);
}

int kymo_cell_atom(struct kymo_cell *c, const struct kymo_table_source *s, uint32_t atom)
{
    if (atom == 0)
        return kymo_cell_null(c);
    if (!reserve(c, NAME_MAX_BYTES))
        return -ENOMEM;
    kymo_format_atom(kymo_reader_atom(s->r, atom), c->room, c->size);
    return put_room(c);
}

int kymo_cell_thread(struct kymo_cell *c, const struct kymo_table_source *s, uint32_t slot)
{
    uint32_t n;
    const struct kymo_slot *slots = kymo_reader_slots(s->r, &n);
    if (slot >= n)
        return kymo_cell_null(c);
    if (!reserve(c, 32))
        return -ENOMEM;
    kymo_format_thread(&slots[slot], slot, c->room, c->size);
    return put_room(c);
}

int kymo_cell_node(struct kymo_cell *c, const struct kymo_table_source *s, uint32_t slot)
{
    const struct kymo_meta *m = kymo_timeline_meta(s->r, kymo_timeline_of_slot(s->r, slot));
    if (m->node_len == 0 || m->node_len > sizeof m->node)
        return kymo_cell_null(c);
    if (!reserve(c, NAME_MAX_BYTES))
        return -ENOMEM;
    kymo_format_atom((struct kymo_text){(const char *)m->node, m->node_len}, c->room, c->size);
    return put_room(c);
}

int kymo_cell_reference(struct kymo_cell *c, const struct kymo_table_source *s, uint64_t hash)
{
    return hash != 0 ? kymo_cell_pid(c, s, KYMO_IDENT(KYMO_I_REF, hash)) : kymo_cell_null(c);
}

/* ---- terms ---- */

int kymo_cell_term(struct kymo_cell *c, const struct kymo_table_source *s, const uint8_t *etf, size_t len)
{
    size_t need = kymo_format_value(s->r, etf, len, c->room, c->size);
    if (need >= c->size) {
        if (!reserve(c, need))
            return -ENOMEM;
        kymo_format_value(s->r, etf, len, c->room, c->size);
    }
    return put_room(c);
}

int kymo_cell_arguments(struct kymo_cell *c, const struct kymo_table_source *s, uint32_t mfa,
                        const uint8_t *etf, size_t len)
{
    size_t need = kymo_format_arguments(s->r, mfa, etf, len, c->room, c->size);
    if (need == 0)
        return kymo_cell_null(c);
    if (need >= c->size) {
        if (!reserve(c, need))
            return -ENOMEM;
        kymo_format_arguments(s->r, mfa, etf, len, c->room, c->size);
    }
    return put_room(c);
}

int kymo_cell_members(struct kymo_cell *c, const struct kymo_table_source *s, const struct kymo_event *ev,
                      uint64_t which)
{
    enum { BRACES = 2 };
    if (!reserve(c, NAME_MAX_BYTES))
        return -ENOMEM;
    size_t need = kymo_format_members(s->r, ev, which, c->room + 1, c->size - BRACES);
    if (need == 0)
        return kymo_cell_null(c);
    if (need + BRACES >= c->size) {
        if (!reserve(c, need + BRACES))
            return -ENOMEM;
        kymo_format_members(s->r, ev, which, c->room + 1, c->size - BRACES);
    }
    c->room[0] = '{';
    memcpy(c->room + 1 + need, "}", sizeof "}");
    return put_room(c);
}
