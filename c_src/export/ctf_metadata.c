/* SPDX-License-Identifier: Apache-2.0 */
#include "ctf_metadata.h"

#include <stdarg.h>
#include <stdio.h>

enum { NS_PER_SEC = 1000000000 };

/* ---- text ---- */

static void say(struct kymo_out *out, const char *text)
{
    kymo_out_write(out, text, strlen(text));
}

static __attribute__((format(printf, 2, 3))) void sayf(struct kymo_out *out, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    kymo_out_write(out, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

/* Writes a string literal; characters that TSDL cannot represent become '?'. */
static void say_string(struct kymo_out *out, const void *s, size_t n)
{
    char text[600];
    size_t len = 0;
    const char *p = s;
    for (size_t i = 0; i < n && p[i] != 0 && len + 3 < sizeof text; i++) {
        if (p[i] == '"' || p[i] == '\\')
            text[len++] = '\\';
        text[len++] = p[i] >= ' ' && p[i] != 0x7f ? p[i] : '?';
    }
    text[len] = 0;
    sayf(out, "\"%s\"", text);
}

static void say_uuid(struct kymo_out *out, const uint8_t u[16])
{
    sayf(out, "\"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\"", u[0], u[1], u[2],
         u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

/* ---- types ---- */

static const char types[] =
    "typealias integer { size = 8; align = 8; signed = false; } := u8;\n"
    "typealias integer { size = 16; align = 8; signed = false; } := u16;\n"
    "typealias integer { size = 32; align = 8; signed = false; } := u32;\n"
    "typealias integer { size = 64; align = 8; signed = false; } := u64;\n"
    "typealias integer { size = 64; align = 8; signed = false; base = 16; } := x64;\n"
    "typealias integer { size = 64; align = 8; signed = true; } := i64;\n"
    "typealias integer { size = 32; align = 8; signed = false; map = clock.kymo.value; } := clock32;\n"
    "typealias integer { size = 64; align = 8; signed = false; map = clock.kymo.value; } := clock64;\n"
    /* kind << 60 | serial << 28 | number, little-endian. */
    "struct ident {\n"
    "    integer { size = 28; align = 1; signed = false; } number;\n"
    "    integer { size = 32; align = 1; signed = false; } serial;\n"
    "    enum : integer { size = 4; align = 1; signed = false; } {\n"
    "        pid = 0, port = 1, term = 2, atom = 3, reference = 4, other = 5, none = 15\n"
    "    } kind;\n"
    "};\n"
    /* One byte, or four. */
    "struct depth {\n"
    "    enum : integer { size = 1; align = 1; signed = false; } { small = 0, wide = 1 } form;\n"
    "    variant <form> {\n"
    "        integer { size = 7; align = 1; signed = false; } small;\n"
    "        integer { size = 31; align = 1; signed = false; } wide;\n"
    "    } words;\n"
    "};\n";

/* The values of a record `counters`, and the kinds of `system_monitor` and `observed`. */
static const char counter_types[] =
    "struct counter {\n"
    "    enum : integer { size = 16; align = 8; signed = false; } {\n        none = 0"
#define KYMO_X(n, sym, text, unit, sum) ", " text " = " #n
    KYMO_COUNTERS_OF_NODE(KYMO_X)
#undef KYMO_X
        "\n    } name;\n    u16 index; u64 value;\n};\n"
        "enum monitored : integer { size = 8; align = 8; signed = false; } {\n    none = 0"
#define KYMO_X(n, sym, text) ", " text " = " #n
    KYMO_MONITORED(KYMO_X)
#undef KYMO_X
        "\n};\nenum observed : integer { size = 8; align = 8; signed = false; } {\n    none = 0"
#define KYMO_X(n, sym, text) ", " text " = " #n
    KYMO_OBSERVED(KYMO_X)
#undef KYMO_X
        "\n};\n";

static void say_fields(struct kymo_out *out, uint8_t id, const char *fields)
{
    for (const char *f = fields; *f != 0; f++) {
        switch (*f) {
        case 'W': say(out, " struct ident who;"); break;
        case 'P': say(out, " struct ident peer;"); break;
        case 'M': say(out, " u32 mfa;"); break;
        case 'A': say(out, " u32 atom;"); break;
        case 'S': say(out, " u32 size;"); break;
        case 'K':
            say(out, id == KYMO_E_MONITOR    ? " enum monitored kind;"
                     : id == KYMO_E_OBSERVED ? " enum observed kind;"
                                             : " u8 kind;");
            break;
        case 'Q':
            say(out, id == KYMO_E_SEQ_TRACE     ? " u64 label;"
                     : id == KYMO_E_MONITOR     ? " u64 value;"
                     : id == KYMO_E_OBSERVED    ? " u64 mailbox;"
                     : id == KYMO_E_IN_RUNNABLE ? " u64 waited_ns;"
                     : kymo_has_duration(id)    ? " u64 duration_ns;"
                                                : " u64 count;");
            break;
        case 'U': say(out, " u32 serial_previous; u32 serial_current;"); break;
        case 'R': say(out, " u8 message_kind; x64 reference;"); break;
        case 'I': say(out, " u32 initial_call;"); break;
        case 'J': say(out, " u32 in_mfa;"); break;
        case 'C': say(out, " u16 values_count; struct counter values[values_count];"); break;
        case 'N': say(out, " x64 number;"); break;
        case 'L': say(out, " u32 passed;"); break;
        case 'B': say(out, " u64 began_ns_ago;"); break;
        case 'O': say(out, " u32 omitted;"); break;
        case 'D': say(out, " struct depth depth;"); break;
        case 'G': say(out, " u8 gc_count; u64 gc[gc_count];"); break;
        default: break;
        }
    }
}

/* The four variants of a record share its name. */
static void say_event(struct kymo_out *out, uint8_t id)
{
    for (unsigned variant = 0; variant < 256; variant += KYMO_HAS_CONTENT) {
        sayf(out, "event { name = \"%s\"; id = %u; stream_id = 0; fields := struct {", kymo_event_name(id),
             id | variant);
        say_fields(out, id, kymo_event_fields(id));
        if ((variant & KYMO_HAS_CONTENT) != 0)
            say(out, " u8 content_flags; u16 content_length; u8 content[content_length];");
        if ((variant & KYMO_HAS_OPTS) != 0)
            say(out,
                " u8 option_flags; u16 scheduler_id;"
                " enum : u8 { none, timestamp, cpu_timestamp, monotonic, strict_monotonic } timestamp_type;"
                " i64 timestamp_ns; i64 timestamp_unique;"
                " u16 result_length; u8 match_spec_result[result_length];");
        say(out, " }; };\n");
    }
}

/* Maximum number of shed entries in the environment, which should stay small; `shed` is the number of
 * all entries. */
enum { SHED_MAX = 1000 };

/* Writes the budget, and what was shed from when to when. */
static void say_shed(struct kymo_out *out, const struct kymo_reader *r)
{
    const struct kymo_meta *meta = kymo_reader_meta(r);
    size_t n;
    const struct kymo_shed *s = kymo_reader_shed(r, &n);
    if (meta->budget_ppm == 0 && meta->budget_events == 0)
        return;
    sayf(out, "    budget_cpu_ppm = %llu; budget_events = %llu; shed = %zu; shed_unnamed = %llu;\n",
         (unsigned long long)(meta->budget_ppm & INT64_MAX),
         (unsigned long long)(meta->budget_events & INT64_MAX), n,
         (unsigned long long)(meta->shed_unnamed & INT64_MAX));
    for (size_t i = 0; i < n && i < SHED_MAX; i++) {
        char name[2200];
        if (s[i].kind < KYMO_KINDS)
            snprintf(name, sizeof name, "%s", kymo_kind_name(s[i].kind));
        else
            (void)kymo_format_mfa(r, s[i].mfa, name, sizeof name);
        sayf(out, "    shed_%zu_from = %lld;", i, (long long)(s[i].from > 0 ? s[i].from : 0));
        if (s[i].to != INT64_MAX)
            sayf(out, " shed_%zu_to = %lld;", i, (long long)(s[i].to > 0 ? s[i].to : 0));
        sayf(out, " shed_%zu = ", i);
        say_string(out, name, strlen(name));
        say(out, ";\n");
    }
}

/* Unix time = offset_s + (offset + ns) / 1e9. */
static void say_clock(struct kymo_out *out, const struct kymo_reader *r)
{
    int64_t offset = kymo_reader_wall_ns(r, 0), seconds = offset / NS_PER_SEC, rest = offset % NS_PER_SEC;
    if (rest < 0) {
        rest += NS_PER_SEC;
        seconds--;
    }
    sayf(out,
         "clock { name = \"kymo\"; description = \"CLOCK_MONOTONIC of the node, as Unix time\";\n"
         "    freq = %d; precision = 1; offset_s = %lld; offset = %lld; absolute = true; };\n",
         NS_PER_SEC, (long long)seconds, (long long)rest);
}

static void say_env(struct kymo_out *out, const struct kymo_reader *r)
{
    const struct kymo_meta *meta = kymo_reader_meta(r);
    say(out, "env {\n    domain = \"erlang\"; tracer_name = \"kymo\";\n    node = ");
    say_string(out, meta->node, meta->node_len < sizeof meta->node ? meta->node_len : sizeof meta->node);
    say(out, ";\n    otp_release = ");
    say_string(out, meta->otp_release, sizeof meta->otp_release);
    say(out, ";\n    erts_version = ");
    say_string(out, meta->erts_version, sizeof meta->erts_version);
    sayf(out, ";\n    os_pid = %llu;\n    gc_fields = \"", (unsigned long long)(meta->os_pid & INT64_MAX));
    for (unsigned i = 0; i < KYMO_GC_SIZES; i++)
        sayf(out, "%s%s", i == 0 ? "" : " ", kymo_gc_name(i));
    uint64_t ticks;
    int64_t horizon;
    (void)kymo_reader_horizon(r, &ticks, &horizon);
    sayf(out, "\";\n    complete_from = %lld;\n", (long long)(horizon > 0 ? horizon : 0));
    say_shed(out, r);
    say(out, "};\n");
}

/* ---- streams ---- */

static const char stream_0[] =
    "stream {\n"
    "    id = 0;\n"
    "    packet.context := struct {\n"
    "        clock64 timestamp_begin; clock64 timestamp_end; u64 content_size; u64 packet_size;\n"
    "        u64 packet_seq_num; u64 events_discarded; u64 commit; u64 events;\n"
    "        enum : u32 { thread, scheduler, dirty_cpu, dirty_io } thread_kind; u32 thread_number;\n"
    "        u32 crc; u32 flags; u64 lost_before; u64 events_before; u64 order; u64 timestamp_before;\n"
    "        i64 clock_monotonic; u32 clock_epoch; u32 reserved;\n"
    "    };\n"
    "    event.header := struct {\n"
    "        enum : u8 { compact = 0 ... 254, extended = 255 } id;\n"
    "        variant <id> {\n"
    "            struct { clock32 timestamp; } compact;\n"
    "            struct { u32 id; clock64 timestamp; } extended;\n"
    "        } v;\n"
    "    };\n"
    "};\n";

static const char stream_1[] =
    "stream {\n"
    "    id = 1;\n"
    "    packet.context := struct {\n"
    "        clock64 timestamp_begin; clock64 timestamp_end; u64 content_size; u64 packet_size;\n"
    "        u64 packet_seq_num;\n"
    "    };\n"
    "    event.header := struct { u8 id; clock64 timestamp; };\n"
    "};\n";

static const char dictionary[] =
    "event { name = \"kymo_atom\"; id = 0; stream_id = 1; fields := struct { u32 id; string name; }; };\n"
    "event { name = \"kymo_mfa\"; id = 1; stream_id = 1; fields := struct { u32 id; string name; }; };\n"
    "event { name = \"kymo_term\"; id = 2; stream_id = 1; fields := struct { u32 id; string name; }; };\n"
    "event { name = \"kymo_process\"; id = 3; stream_id = 1;"
    " fields := struct { struct ident who; u32 atom; u32 mfa; string name; }; };\n";

void kymo_ctf_metadata(struct kymo_out *out, const struct kymo_reader *r)
{
    const struct kymo_meta *meta = kymo_reader_meta(r);
    say(out, "/* CTF 1.8 */\n");
    /* Integers before the clock must not map to it, so the clock comes first. */
    say_clock(out, r);
    say(out, types);
    say(out, counter_types);
    say(out, "trace {\n    major = 1; minor = 8; byte_order = le;\n    uuid = ");
    say_uuid(out, meta->uuid);
    say(out, ";\n    packet.header := struct { u32 magic; u8 uuid[16]; u32 stream_id; u64 "
             "stream_instance_id; };\n};\n");
    say_env(out, r);
    say(out, stream_0);
    say(out, stream_1);
    say(out, dictionary);
    for (unsigned id = 1; id < KYMO_E_COUNT; id++) {
        if (kymo_event_name((uint8_t)id) != NULL)
            say_event(out, (uint8_t)id);
    }
}
