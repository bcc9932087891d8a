/* SPDX-License-Identifier: Apache-2.0 */
#include "kymo_fields.h"

#include <inttypes.h>
#include <string.h>

#include "etf_tags.h"
#include "kymo_sink.h"

static const struct {
    const char *name;
    uint8_t type;
} fields[KYMO_FIELD_IDS] = {
#define KYMO_X(sym, text, type_of) [KYMO_F_##sym] = {(text), KYMO_V_##type_of},
    KYMO_FIELDS(KYMO_X)
#undef KYMO_X
};
_Static_assert(KYMO_FIELD_IDS <= 64, "more fields than kymo_fields_of has bits");

#define HAS(sym) KYMO_FIELD(sym)
#define OF_CALL (HAS(PROCESS) | HAS(FUNCTION) | HAS(STACK_WORDS))
#define OF_MESSAGE (HAS(PROCESS) | HAS(PEER) | HAS(WORDS) | HAS(MESSAGE) | HAS(REFERENCE) | HAS(NUMBER))
#define OF_RUN (HAS(PROCESS) | HAS(FUNCTION))
#define OF_PEER (HAS(PROCESS) | HAS(PEER))
#define OF_ATOM (HAS(PROCESS) | HAS(ATOM))
#define OF_GC (HAS(PROCESS) | HAS(GC))
/* What any record may have. */
#define OPTIONAL (HAS(CONTENT) | HAS(EXTRA) | HAS(SCHEDULER) | HAS(STAMP) | HAS(RESULT))

/* Which fields an event can have, and how they are called in it; NULL: as in KYMO_FIELDS. Other forms of an
 * event are decoded as that event, which has the fields of all its forms. */
static const struct event {
    uint64_t has;
    const char *peer, *atom, *content;
    bool arguments;  /* the content is the list of arguments */
    bool undefined;  /* the runtime may name no function */
    bool in_content; /* the atom is the content, or its first element */
} events[KYMO_E_COUNT] = {
    [KYMO_E_CALL] = {.has = OF_CALL, .content = "args", .arguments = true},
    [KYMO_E_RETURN_TO] = {.has = OF_CALL, .undefined = true},
    [KYMO_E_RETURN_FROM] = {.has = OF_CALL, .content = "value"},
    [KYMO_E_EXCEPTION_FROM] = {.has = OF_CALL | HAS(ATOM), .atom = "class", .content = "value"},
    [KYMO_E_SEND] = {.has = OF_MESSAGE, .peer = "to", .content = "msg"},
    [KYMO_E_SEND_NE] = {.has = OF_PEER | HAS(WORDS), .peer = "to", .content = "msg"},
    [KYMO_E_RECEIVE] = {.has = OF_MESSAGE, .peer = "from", .content = "msg"},
    [KYMO_E_SPAWN] = {.has = OF_PEER | HAS(FUNCTION), .content = "args", .arguments = true},
    [KYMO_E_SPAWNED] = {.has = OF_PEER | HAS(FUNCTION) | HAS(INITIAL_CALL),
                        .peer = "by",
                        .content = "args",
                        .arguments = true},
    [KYMO_E_EXIT] = {.has = OF_ATOM | HAS(FUNCTION),
                     .atom = "reason",
                     .content = "reason",
                     .in_content = true},
    [KYMO_E_LINK] = {.has = OF_PEER},
    [KYMO_E_UNLINK] = {.has = OF_PEER},
    [KYMO_E_GETTING_LINKED] = {.has = OF_PEER},
    [KYMO_E_GETTING_UNLINKED] = {.has = OF_PEER},
    [KYMO_E_REGISTER] = {.has = OF_ATOM, .atom = "name"},
    [KYMO_E_UNREGISTER] = {.has = OF_ATOM, .atom = "name"},
    [KYMO_E_OPEN] =
        {.has = OF_PEER | HAS(ATOM), .peer = "by", .atom = "driver", .content = "driver", .in_content = true},
    [KYMO_E_CLOSED] = {.has = OF_ATOM, .atom = "reason", .content = "reason", .in_content = true},
    [KYMO_E_IN] = {.has = OF_RUN | HAS(RUNNABLE_BY) | HAS(WAITED), .undefined = true},
    [KYMO_E_OUT] = {.has = OF_RUN | HAS(OUT_REASON), .undefined = true},
    [KYMO_E_IN_EXITING] = {.has = OF_RUN, .undefined = true},
    [KYMO_E_OUT_EXITING] = {.has = OF_RUN, .undefined = true},
    [KYMO_E_OUT_EXITED] = {.has = OF_RUN, .undefined = true},
    [KYMO_E_PORT_IN] = {.has = OF_ATOM},
    [KYMO_E_PORT_OUT] = {.has = OF_ATOM},
    [KYMO_E_PORT_IN_EXITING] = {.has = OF_ATOM},
    [KYMO_E_PORT_OUT_EXITING] = {.has = OF_ATOM},
    [KYMO_E_PORT_OUT_EXITED] = {.has = OF_ATOM},
    [KYMO_E_GC_MINOR_START] = {.has = OF_GC},
    [KYMO_E_GC_MINOR_END] = {.has = OF_GC},
    [KYMO_E_GC_MAJOR_START] = {.has = OF_GC},
    [KYMO_E_GC_MAJOR_END] = {.has = OF_GC},
    [KYMO_E_SEQ_TRACE] = {.has = OF_PEER | HAS(KIND) | HAS(SERIAL) | HAS(LABEL) | HAS(WORDS), .peer = "to"},
    [KYMO_E_OTHER] = {.has = OF_ATOM, .atom = "tag"},
    [KYMO_E_TAKEN] = {.has = HAS(PROCESS) | HAS(NUMBER) | HAS(PASSED)},
    [KYMO_E_SLOW] = {.has = OF_CALL | HAS(DURATION)},
    [KYMO_E_STOPPED] = {.has = OF_ATOM | HAS(DURATION) | HAS(BEGAN) | HAS(OMITTED), .atom = "cause"},
    [KYMO_E_COUNTERS] = {.has = HAS(COUNTERS)},
    [KYMO_E_MONITOR] = {.has = OF_PEER | HAS(KIND) | HAS(VALUE) | HAS(IN) | HAS(OUT), .peer = "port"},
    [KYMO_E_OBSERVED] = {.has = OF_RUN | HAS(PEER) | HAS(ATOM) | HAS(KIND) | HAS(VALUE) | HAS(IN),
                         .peer = "waits_for",
                         .atom = "lock"},
    [KYMO_E_STATE] = {.has = HAS(STATE)},
    [KYMO_E_LOST] = {.has = HAS(CAUSE) | HAS(COUNT)},
};

uint64_t kymo_fields_of(uint8_t id)
{
    uint64_t own = id < KYMO_E_COUNT ? events[id].has : 0;
    return own != 0 ? own | OPTIONAL : 0;
}

/* ---- values ---- */

/* NULL: records of this kind have no value. */
static const char *name_of_value(const struct kymo_event *ev)
{
    if (ev->id == KYMO_E_OBSERVED)
        return "mailbox";
    switch (ev->kind) {
    case KYMO_M_LONG_GC:
    case KYMO_M_LONG_SCHEDULE: return "ms";
    case KYMO_M_LARGE_HEAP: return "words";
    case KYMO_M_LONG_QUEUE: return "long";
    case KYMO_M_TOO_MANY: return "left_out";
    default: return NULL;
    }
}

static const char *name_of_stamp(uint8_t ts)
{
    static const char *const names[] = {NULL, "timestamp", "cpu_timestamp", "monotonic", "strict_monotonic"};
    return ts < sizeof names / sizeof *names ? names[ts] : NULL;
}

/* Its name in this event, unless that is NULL. */
static void name(struct kymo_field *f, const char *own)
{
    f->name = own != NULL ? own : f->name;
}

/* Each fills in a field and returns whether the event has it. */

static bool number(struct kymo_field *f, bool known, uint64_t n)
{
    f->n = n;
    return known;
}

static bool word(struct kymo_field *f, const char *text)
{
    f->text = text;
    return text != NULL;
}

static bool term(struct kymo_field *f, const uint8_t *etf, uint32_t len, bool cut)
{
    f->etf = etf;
    f->len = len;
    f->flags = cut ? KYMO_F_CUT : 0;
    return true;
}

static bool atom(const struct kymo_event *ev, struct kymo_field *f)
{
    name(f, events[ev->id].atom);
    f->flags = events[ev->id].in_content && ev->has_content ? KYMO_F_SHORT : 0;
    return number(f, ev->atom != 0, ev->atom);
}

static bool kind(const struct kymo_event *ev, struct kymo_field *f)
{
    static const char *const of_seq[] = {"?", "send", "receive", "print", "other"};
    unsigned seq = ev->kind & ~(unsigned)KYMO_SEQ_LABEL_TERM;
    const char *text = ev->id == KYMO_E_MONITOR    ? kymo_monitor_name(ev->kind)
                       : ev->id == KYMO_E_OBSERVED ? kymo_observed_name(ev->kind)
                                                   : of_seq[seq <= KYMO_SEQ_OTHER ? seq : 0];
    return word(f, text != NULL ? text : "?");
}

static bool words(const struct kymo_event *ev, struct kymo_field *f)
{
    f->flags = (ev->size & KYMO_SIZE_MORE) != 0 ? KYMO_F_MORE : 0;
    return number(f, ev->size != KYMO_SIZE_UNKNOWN, ev->size & ~KYMO_SIZE_MORE);
}

static bool size_of_gc(const struct kymo_event *ev, uint32_t i, struct kymo_field *f)
{
    if (i >= ev->n_gc || i >= KYMO_GC_SIZES)
        return false;
    f->name = kymo_gc_name(i);
    f->second = i;
    return number(f, true, ev->gc[i]);
}

/* Where the content of `other`, which is [Term | Extra], is divided; 0 for other events, and if it is
 * damaged. */
static uint32_t head_of_content(const struct kymo_event *ev)
{
    size_t head;
    bool cell = ev->id == KYMO_E_OTHER && kymo_term_cell(ev->content, ev->content_len, &head);
    return cell ? (uint32_t)head : 0;
}

static bool content(const struct kymo_event *ev, struct kymo_field *f)
{
    if (!ev->has_content)
        return false;
    uint32_t head = head_of_content(ev);
    name(f, events[ev->id].content);
    term(f, ev->content, ev->content_len, (ev->content_flags & KYMO_C_CUT) != 0);
    if (head != 0)
        term(f, ev->content + KYMO_CELL_HEAD, head, f->flags != 0);
    if ((ev->content_flags & KYMO_C_PAIR) != 0)
        f->flags |= KYMO_F_PAIRED;
    if (events[ev->id].arguments) {
        f->type = KYMO_V_ARGUMENTS;
        f->n = ev->mfa;
    }
    return true;
}

static bool extra(const struct kymo_event *ev, struct kymo_field *f)
{
    uint32_t head = ev->has_content ? head_of_content(ev) : 0;
    if (head == 0 || ev->content[KYMO_CELL_HEAD + head] == T_NIL)
        return false;
    return term(f, ev->content + KYMO_CELL_HEAD + head, ev->content_len - KYMO_CELL_HEAD - head,
                (ev->content_flags & KYMO_C_CUT) != 0);
}

static bool has_option(const struct kymo_event *ev, unsigned option)
{
    return ev->has_opts && (ev->opt_flags & option) != 0;
}

static bool stamp(const struct kymo_event *ev, struct kymo_field *f)
{
    f->name = name_of_stamp(ev->opt_ts);
    f->flags = ev->opt_ts == KYMO_TS_STRICT ? KYMO_F_STRICT : 0;
    f->second = (uint64_t)ev->opt_b;
    return number(f, has_option(ev, KYMO_O_TS) && f->name != NULL, (uint64_t)ev->opt_a);
}

static bool fill(const struct kymo_event *ev, unsigned id, struct kymo_field *f)
{
    switch ((enum kymo_field_id)id) {
    case KYMO_F_PROCESS: return number(f, ev->id != KYMO_E_MONITOR || ev->who != KYMO_IDENT_NONE, ev->who);
    case KYMO_F_PEER:
        name(f, events[ev->id].peer);
        return number(f, ev->peer != KYMO_IDENT_NONE || ev->id == KYMO_E_OPEN, ev->peer);
    case KYMO_F_FUNCTION:
        f->flags = events[ev->id].undefined ? KYMO_F_UNDEFINED : 0;
        return number(f, ev->id != KYMO_E_EXIT || ev->mfa != 0, ev->mfa);
    case KYMO_F_INITIAL_CALL: return number(f, ev->initial != 0, ev->initial);
    case KYMO_F_ATOM: return atom(ev, f);
    case KYMO_F_KIND: return kind(ev, f);
    case KYMO_F_SERIAL: f->second = ev->serial_cur; return number(f, true, ev->serial_prev);
    case KYMO_F_LABEL: return number(f, (ev->kind & KYMO_SEQ_LABEL_TERM) == 0, ev->value);
    case KYMO_F_WORDS: return words(ev, f);
    case KYMO_F_MESSAGE: return word(f, kymo_message_name(ev->message));
    case KYMO_F_REFERENCE: return number(f, ev->ref != 0, KYMO_IDENT(KYMO_I_REF, ev->ref));
    case KYMO_F_NUMBER: return number(f, ev->number != 0, ev->number);
    case KYMO_F_PASSED:
        f->flags = ev->passed == KYMO_PASSED_MANY ? KYMO_F_MORE : 0;
        return number(f, true, ev->passed);
    case KYMO_F_STACK_WORDS: return number(f, ev->depth != KYMO_DEPTH_UNKNOWN, ev->depth);
    case KYMO_F_DURATION: return number(f, true, ev->value);
    case KYMO_F_BEGAN: return number(f, true, ev->begun);
    case KYMO_F_OMITTED: return number(f, true, ev->omitted);
    case KYMO_F_RUNNABLE_BY:
        return word(f, ev->kind != KYMO_RUNNABLE_UNKNOWN ? kymo_runnable_name(ev->kind) : NULL);
    case KYMO_F_WAITED: return number(f, ev->kind != KYMO_RUNNABLE_UNKNOWN, ev->value);
    case KYMO_F_OUT_REASON: return word(f, ev->kind != KYMO_OUT_UNKNOWN ? kymo_out_name(ev->kind) : NULL);
    case KYMO_F_GC: return size_of_gc(ev, 0, f);
    case KYMO_F_VALUE: f->name = name_of_value(ev); return number(f, f->name != NULL, ev->value);
    case KYMO_F_IN:
        name(f, ev->id == KYMO_E_OBSERVED ? "called_from" : NULL);
        return number(f, ev->in_mfa != 0, ev->in_mfa);
    case KYMO_F_OUT: return number(f, ev->mfa != 0, ev->mfa);
    case KYMO_F_STATE: return word(f, kymo_state_name(ev->kind));
    case KYMO_F_CAUSE: return word(f, kymo_loss_name(ev->kind));
    case KYMO_F_COUNT: return number(f, true, ev->value);
    case KYMO_F_CONTENT: return content(ev, f);
    case KYMO_F_EXTRA: return extra(ev, f);
    case KYMO_F_SCHEDULER: return number(f, has_option(ev, KYMO_O_SCHED), ev->opt_sched);
    case KYMO_F_STAMP: return stamp(ev, f);
    case KYMO_F_RESULT:
        return has_option(ev, KYMO_O_MSR) && term(f, ev->msr, ev->msr_len, has_option(ev, KYMO_O_MSR_CUT));
    case KYMO_F_COUNTERS:
    case KYMO_FIELD_IDS: break;
    }
    return false;
}

static bool start(const struct kymo_event *ev, unsigned id, struct kymo_field *f)
{
    f->name = fields[id].name;
    f->id = (uint8_t)id;
    f->type = fields[id].type;
    f->flags = 0;
    return fill(ev, id, f);
}

bool kymo_field(const struct kymo_event *ev, unsigned id, struct kymo_field *f)
{
    return (kymo_fields_of(ev->id) & KYMO_F_BIT(id)) != 0 && start(ev, id, f);
}

struct kymo_fields kymo_fields(const struct kymo_event *ev)
{
    uint64_t all = kymo_fields_of(ev->id);
    if (!ev->has_content)
        all &= ~(HAS(CONTENT) | HAS(EXTRA));
    if (!ev->has_opts)
        all &= ~(HAS(SCHEDULER) | HAS(STAMP) | HAS(RESULT));
    return (struct kymo_fields){.ev = ev, .left = all};
}

/* The next counter; those of later versions by number. */
static bool next_counter(struct kymo_fields *all, struct kymo_field *f)
{
    struct kymo_counter_value v = {.counter = KYMO_N_BUSY_PROCESS};
    struct kymo_sink out;
    while (v.counter == KYMO_N_BUSY_PROCESS) { /* belongs to the next one */
        if (all->next >= all->ev->n_counters)
            return false;
        v = kymo_counter_at(all->ev, all->next++);
    }
    const char *known = kymo_counter_name(v.counter);
    kymo_sink_init(&out, all->name, sizeof all->name);
    if (known != NULL)
        kymo_sink_text(&out, known, strlen(known));
    else
        kymo_sink_uint(&out, v.counter);
    if (v.index != 0)
        kymo_sink_printf(&out, "[%u]", v.index);
    (void)kymo_sink_end(&out);
    f->name = all->name;
    f->second = kymo_counter_process(all->ev, all->next - 1);
    return number(f, true, v.value);
}

/* The next of those fields of which an event has several. */
static bool next_of_many(struct kymo_fields *all, unsigned id, struct kymo_field *f)
{
    (void)start(all->ev, id, f);
    return id == KYMO_F_GC ? size_of_gc(all->ev, all->next++, f) : next_counter(all, f);
}

bool kymo_fields_next(struct kymo_fields *all, struct kymo_field *f)
{
    while (all->left != 0) {
        unsigned id = (unsigned)__builtin_ctzll(all->left);
        bool many = id == KYMO_F_GC || id == KYMO_F_COUNTERS;
        if (many && next_of_many(all, id, f))
            return true;
        all->left &= all->left - 1;
        if (!many && start(all->ev, id, f))
            return true;
    }
    return false;
}

/* ---- text ---- */

static size_t format_function(const struct kymo_reader *r, const struct kymo_field *f, char *buf, size_t size)
{
    struct kymo_sink out;
    if (f->n != 0 || (f->flags & KYMO_F_UNDEFINED) == 0)
        return kymo_format_mfa(r, (uint32_t)f->n, buf, size);
    kymo_sink_init(&out, buf, size);
    kymo_sink_text(&out, "undefined", sizeof "undefined" - 1);
    return kymo_sink_end(&out);
}

static size_t format_arguments(const struct kymo_reader *r, const struct kymo_field *f, char *buf,
                               size_t size)
{
    size_t n = kymo_format_arguments(r, (uint32_t)f->n, f->etf, f->len, buf, size);
    return n > 0 ? n : kymo_format_value(r, f->etf, f->len, buf, size);
}

static size_t format_counter(const struct kymo_reader *r, const struct kymo_field *f, char *buf, size_t size)
{
    char pid[256];
    struct kymo_sink out;
    kymo_sink_init(&out, buf, size);
    kymo_sink_uint(&out, f->n);
    if (f->second != KYMO_IDENT_NONE) {
        kymo_format_ident(r, f->second, pid, sizeof pid);
        kymo_sink_text(&out, " of ", 4);
        kymo_sink_text(&out, pid, strlen(pid));
    }
    return kymo_sink_end(&out);
}

static size_t format_simple(const struct kymo_field *f, char *buf, size_t size)
{
    struct kymo_sink out;
    kymo_sink_init(&out, buf, size);
    switch (f->type) {
    case KYMO_V_WORD: kymo_sink_text(&out, f->text, strlen(f->text)); break;
    case KYMO_V_NUMBER: kymo_sink_printf(&out, "%#" PRIx64, f->n); break;
    case KYMO_V_INTEGER: kymo_sink_printf(&out, "%" PRId64, (int64_t)f->n); break;
    case KYMO_V_PAIR: kymo_sink_printf(&out, "{%" PRIu64 ",%" PRIu64 "}", f->n, f->second); break;
    case KYMO_V_STAMP:
        kymo_sink_printf(&out, "%" PRId64, (int64_t)f->n);
        if ((f->flags & KYMO_F_STRICT) != 0)
            kymo_sink_printf(&out, ",%" PRId64, (int64_t)f->second);
        break;
    default:
        if (f->id == KYMO_F_PASSED && (f->flags & KYMO_F_MORE) != 0)
            kymo_sink_text(&out, "many", 4);
        else
            kymo_sink_uint(&out, f->n);
        if (f->id == KYMO_F_WORDS && (f->flags & KYMO_F_MORE) != 0)
            kymo_sink_char(&out, '+');
    }
    return kymo_sink_end(&out);
}

size_t kymo_format_field(const struct kymo_reader *r, const struct kymo_field *f, char *buf, size_t size)
{
    switch (f->type) {
    case KYMO_V_IDENT:
    case KYMO_V_REFERENCE: return kymo_format_ident(r, f->n, buf, size);
    case KYMO_V_FUNCTION: return format_function(r, f, buf, size);
    case KYMO_V_ATOM: return kymo_format_atom(kymo_reader_atom(r, (uint32_t)f->n), buf, size);
    case KYMO_V_TERM: return kymo_format_value(r, f->etf, f->len, buf, size);
    case KYMO_V_ARGUMENTS: return format_arguments(r, f, buf, size);
    case KYMO_V_COUNTER: return format_counter(r, f, buf, size);
    default: return format_simple(f, buf, size);
    }
}
