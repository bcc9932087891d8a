/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "json.h"
#include "json_text.h"
#include "kymo_analysis.h"
#include "kymo_cli.h"
#include "kymo_sink.h"

enum { NS = 1000000000 };

const char *cli_printable(const char *text, char *buf, size_t size)
{
    struct kymo_sink s;
    kymo_sink_init(&s, buf, size);
    for (size_t left = strlen(text); left > 0;) {
        uint32_t c;
        size_t n = kymo_utf8_decode((const uint8_t *)text, left, &c);
        if (n == 0 || c < 32 || (c >= 127 && c < 160))
            kymo_sink_printf(&s, "\\x{%02x}", n == 0 ? (unsigned)(unsigned char)*text : (unsigned)c);
        else
            kymo_sink_text(&s, text, n);
        text += n == 0 ? 1 : n;
        left -= n == 0 ? 1 : n;
    }
    (void)kymo_sink_end(&s);
    return buf;
}

void cli_format_local(int64_t unix_ns, char *buf, size_t size)
{
    int64_t ms = unix_ns / 1000000 % 1000;
    time_t seconds = (time_t)(unix_ns / NS);
    if (unix_ns % NS < 0) {
        ms += 999;
        seconds--;
    }
    struct tm tm;
    char date[32], zone[16];
    if (localtime_r(&seconds, &tm) == NULL || strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &tm) == 0 ||
        strftime(zone, sizeof zone, "%z", &tm) == 0)
        snprintf(buf, size, "?");
    else
        snprintf(buf, size, "%s.%03" PRId64 " %s", date, ms, zone);
}

void cli_format_seconds(int64_t ns, char *buf, size_t size)
{
    uint64_t v = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    snprintf(buf, size, "%s%" PRIu64 ".%09" PRIu64, ns < 0 ? "-" : "", v / NS, v % NS);
}

const char *cli_format_count(uint64_t n, char *buf, size_t size)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, n);
    size_t at = 0;
    for (int i = 0; i < len && at + 2 < size; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            buf[at++] = ',';
        buf[at++] = digits[i];
    }
    buf[at] = '\0';
    return buf;
}

const char *cli_format_bytes(uint64_t n, char *buf, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned u = 0;
    double v = (double)n;
    while (v >= 1024.0 && u + 1 < sizeof units / sizeof *units) {
        v /= 1024.0;
        u++;
    }
    snprintf(buf, size, u == 0 || v == (double)(uint64_t)v ? "%.0f %s" : "%.1f %s", v, units[u]);
    return buf;
}

const char *cli_format_duration(int64_t ns, char *buf, size_t size)
{
    static const struct {
        double ns;
        const char *unit;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};
    double v = ns < 0 ? -(double)ns : (double)ns;
    if (ns == KYMO_NO_TIME) {
        snprintf(buf, size, "-");
        return buf;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        /* Use the next unit if the value would be rounded to 1000 of this one. */
        if (v >= units[i].ns * 0.9995) {
            v /= units[i].ns;
            snprintf(buf, size,
                     v >= 99.95   ? "%s%.0f %s"
                     : v >= 9.995 ? "%s%.1f %s"
                                  : "%s%.2f %s",
                     ns < 0 ? "-" : "", v, units[i].unit);
            return buf;
        }
    }
    snprintf(buf, size, "%" PRId64 " ns", ns);
    return buf;
}

static void put(void *f, const void *bytes, size_t n)
{
    (void)fwrite(bytes, 1, n, f); /* cli_flush looks for errors */
}

void cli_json_string(const char *text)
{
    kymo_json_string(put, cli_json_stream(), text, strlen(text));
}

struct cli_exact cli_exact_of(uint32_t bits)
{
    return (struct cli_exact){.messages = (bits & KYMO_EXACT_MESSAGES) != 0,
                              .taken = (bits & KYMO_EXACT_TAKEN) != 0,
                              .run_queues = (bits & KYMO_EXACT_RUNNABLE) != 0,
                              .calls = (bits & KYMO_EXACT_CALLS) != 0,
                              .stops = (bits & KYMO_EXACT_STOPPED) != 0};
}

const char *cli_exact_text(struct cli_exact e, char *buf, size_t size)
{
    bool is[] = {e.messages, e.taken, e.run_queues, e.calls, e.stops};
    static const char *const names[] = {"senders of messages", "waits in mailboxes", "waits in run queues",
                                        "call trees", "stops of all schedulers"};
    size_t n = 0;
    snprintf(buf, size, "derived");
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        if (is[i] && n < size)
            n += (size_t)snprintf(buf + n, size - n, "%s%s", n > 0 ? ", " : "", names[i]);
    }
    return buf;
}

void cli_json_exact(struct cli_exact e)
{
    cli_json_open("exact", '{');
    cli_json_bool("messages", e.messages);
    cli_json_bool("taken", e.taken);
    cli_json_bool("run_queues", e.run_queues);
    cli_json_bool("calls", e.calls);
    cli_json_bool("stops", e.stops);
    cli_json_close('}');
}

void cli_print_process(const struct kymo_reader *r, uint64_t ident)
{
    char text[2200];
    uint32_t name, mfa;
    kymo_format_ident(r, ident, text, sizeof text);
    fputs(text, stdout);
    if (!kymo_reader_process(r, ident, &name, &mfa))
        return;
    if (name != 0) {
        kymo_format_atom(kymo_reader_atom(r, name), text, sizeof text);
        printf(" %s", text);
    }
    if (mfa != 0) {
        kymo_format_mfa(r, mfa, text, sizeof text);
        printf(" %s", text);
    }
}
