/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats ids and idents as text.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kymo_sink.h"
#include "timeline.h"

enum { NS = 1000000000 };

static const struct kymo_def *definition(const struct kymo_reader *r, uint32_t id, uint8_t kind)
{
    if (id == 0 || id > r->defs.n || r->defs.def[id].kind != kind)
        return NULL;
    return &r->defs.def[id];
}

struct kymo_text kymo_reader_atom(const struct kymo_reader *r, uint32_t id)
{
    const struct kymo_def *d = definition(r, id, KYMO_DICT_ATOM);
    if (d == NULL)
        return (struct kymo_text){"?", 1};
    return (struct kymo_text){(const char *)r->defs.arena + d->at, d->len};
}

bool kymo_reader_mfa(const struct kymo_reader *r, uint32_t id, struct kymo_mfa *out)
{
    const struct kymo_def *d = definition(r, id, KYMO_DICT_MFA);
    memset(out, 0, sizeof *out);
    if (d == NULL)
        return false;
    const uint8_t *p = r->defs.arena + d->at;
    out->module = kymo_reader_canonical(r, kymo_get32(p));
    out->function = kymo_reader_canonical(r, kymo_get32(p + 4));
    out->arity = kymo_get32(p + 8);
    return true;
}

bool kymo_reader_term(const struct kymo_reader *r, uint32_t id, const uint8_t **etf, uint32_t *len)
{
    const struct kymo_def *d = definition(r, id, KYMO_DICT_TERM);
    *etf = d != NULL ? r->defs.arena + d->at : NULL;
    *len = d != NULL ? d->len : 0;
    return d != NULL;
}

uint32_t kymo_reader_canonical(const struct kymo_reader *r, uint32_t id)
{
    return id != 0 && id <= r->defs.n && r->defs.def[id].kind != 0 ? r->defs.def[id].canonical : id;
}

bool kymo_reader_process(const struct kymo_reader *r, uint64_t ident, uint32_t *name_atom, uint32_t *mfa)
{
    const struct kymo_process *p = kymo_map_get(&r->defs.processes, ident);
    *name_atom = p != NULL ? kymo_reader_canonical(r, p->name) : 0;
    *mfa = p != NULL ? kymo_reader_canonical(r, p->mfa) : 0;
    return p != NULL;
}

bool kymo_reader_relatives(const struct kymo_reader *r, uint64_t ident, uint64_t *parent, uint64_t *caller)
{
    const struct kymo_process *p = kymo_map_get(&r->defs.processes, ident);
    *parent = p != NULL ? p->parent : KYMO_IDENT_NONE;
    *caller = p != NULL ? p->caller : KYMO_IDENT_NONE;
    return *parent != KYMO_IDENT_NONE || *caller != KYMO_IDENT_NONE;
}

bool kymo_reader_described(const struct kymo_reader *r, uint32_t id, uint64_t *ident)
{
    const struct kymo_def *d = definition(r, id, KYMO_DICT_PROC);
    *ident = d != NULL ? kymo_get64(r->defs.arena + d->at) : KYMO_IDENT_NONE;
    return d != NULL;
}

uint32_t kymo_reader_dict_size(const struct kymo_reader *r)
{
    return r->defs.n;
}

uint8_t kymo_reader_dict_kind(const struct kymo_reader *r, uint32_t id)
{
    return id != 0 && id <= r->defs.n ? r->defs.def[id].kind : 0;
}

/* Writes the atom of an id, quoted if necessary; ? if it has no definition. */
static void atom(struct kymo_sink *out, const struct kymo_reader *r, uint32_t id)
{
    const struct kymo_def *d = definition(r, id, KYMO_DICT_ATOM);
    if (d == NULL)
        kymo_sink_char(out, '?');
    else
        kymo_sink_atom(out, r->defs.arena + d->at, d->len);
}

void kymo_put_function(struct kymo_sink *out, const struct kymo_reader *r, uint32_t id)
{
    struct kymo_mfa mfa;
    if (!kymo_reader_mfa(r, id, &mfa)) {
        kymo_sink_char(out, '?');
    } else {
        atom(out, r, mfa.module);
        kymo_sink_char(out, ':');
        atom(out, r, mfa.function);
    }
}

size_t kymo_format_mfa(const struct kymo_reader *r, uint32_t id, char *buf, size_t size)
{
    struct kymo_mfa mfa;
    struct kymo_sink out;
    kymo_sink_init(&out, buf, size);
    kymo_put_function(&out, r, id);
    if (kymo_reader_mfa(r, id, &mfa)) {
        kymo_sink_char(&out, '/');
        kymo_sink_uint(&out, mfa.arity);
    }
    return kymo_sink_end(&out);
}

size_t kymo_format_atom(struct kymo_text t, char *buf, size_t size)
{
    struct kymo_sink out;
    kymo_sink_init(&out, buf, size);
    kymo_sink_atom(&out, (const uint8_t *)t.s, t.len);
    return kymo_sink_end(&out);
}

size_t kymo_format_ident(const struct kymo_reader *r, uint64_t ident, char *buf, size_t size)
{
    uint64_t data = KYMO_IDENT_DATA(ident);
    const char *node = "0";
    const uint8_t *etf;
    uint32_t len;
    struct kymo_sink out;
    kymo_sink_init(&out, buf, size);
    if (r->timeline != NULL && KYMO_IDENT_KIND(ident) <= KYMO_I_PORT) {
        node = kymo_timeline_name(r, kymo_timeline_of(r, ident));
        data &= ~KYMO_NODE_MASK;
    }
    switch (KYMO_IDENT_KIND(ident)) {
    case KYMO_I_PID:
        kymo_sink_char(&out, '<');
        kymo_sink_text(&out, node, strlen(node));
        kymo_sink_char(&out, '.');
        kymo_sink_uint(&out, KYMO_PID_NUMBER(data));
        kymo_sink_char(&out, '.');
        kymo_sink_uint(&out, KYMO_PID_SERIAL(data));
        kymo_sink_char(&out, '>');
        break;
    case KYMO_I_PORT:
        kymo_sink_text(&out, "#Port<", 6);
        kymo_sink_text(&out, node, strlen(node));
        kymo_sink_char(&out, '.');
        kymo_sink_uint(&out, data);
        kymo_sink_char(&out, '>');
        break;
    case KYMO_I_TERM:
        if (data <= UINT32_MAX && kymo_reader_term(r, (uint32_t)data, &etf, &len))
            return kymo_format_value(r, etf, len, buf, size);
        kymo_sink_char(&out, '?');
        break;
    case KYMO_I_ATOM: atom(&out, r, data <= UINT32_MAX ? (uint32_t)data : 0); break;
    case KYMO_I_REF: kymo_sink_printf(&out, "#Ref<%015" PRIx64 ">", data); break;
    case KYMO_I_NONE: kymo_sink_text(&out, "undefined", 9); break;
    default: kymo_sink_printf(&out, "#Term<%015" PRIx64 ">", data); break;
    }
    return kymo_sink_end(&out);
}

size_t kymo_format_thread(const struct kymo_slot *slot, uint32_t index, char *buf, size_t size)
{
    static const char letters[] = {'t', 's', 'c', 'i'};
    bool other =
        slot->thread_kind == KYMO_T_OTHER || slot->thread_kind >= sizeof letters || slot->thread_no == 0;
    return (size_t)snprintf(buf, size, "%c%" PRIu32, other ? 't' : letters[slot->thread_kind],
                            other ? index : slot->thread_no);
}

size_t kymo_format_utc(int64_t unix_ns, char *buf, size_t size)
{
    int64_t frac = unix_ns % NS;
    time_t seconds = (time_t)(unix_ns / NS);
    if (frac < 0) {
        frac += NS;
        seconds--;
    }
    struct tm tm;
    char date[32];
    if (gmtime_r(&seconds, &tm) == NULL || strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm) == 0)
        return (size_t)snprintf(buf, size, "?");
    return (size_t)snprintf(buf, size, "%s.%09" PRId64 "Z", date, frac);
}
