/* SPDX-License-Identifier: Apache-2.0 */
#include "firing.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse.h"
#include "json.h"
#include "kymo_sink.h"

/* ---- from kymo watch ---- */

static void put_process(const struct kymo_reader *r, const struct kymo_naming *naming, const char *key,
                        uint64_t ident)
{
    char text[1200], member[64];
    snprintf(member, sizeof member, "%s_pid", key);
    if (ident == KYMO_IDENT_NONE) {
        cli_json_null(key);
        cli_json_null(member);
        return;
    }
    kymo_name_process(naming, ident, text, sizeof text);
    cli_json_text(key, text);
    kymo_format_ident(r, ident, text, sizeof text);
    cli_json_text(member, text);
}

void cli_firing_json(const struct kymo_reader *r, const struct kymo_naming *naming,
                     const struct kymo_firing *f)
{
    char text[2300];
    int64_t t0 = kymo_reader_meta(r)->t0_mono_ns;
    cli_json_open(NULL, '{');
    cli_json_text("trigger", f->trigger->text);
    cli_json_uint("number", f->number);
    cli_json_text("kind", kymo_trigger_name(f->trigger->kind));
    cli_json_int("value", f->value);
    cli_json_int("limit", f->trigger->limit);
    cli_json_bool("open", f->open);
    cli_json_int("start_ns", f->start - t0);
    cli_json_int("end_ns", f->end - t0);
    cli_json_int("start_unix_ns", kymo_reader_wall_ns(r, f->start));
    kymo_format_utc(kymo_reader_wall_ns(r, f->start), text, sizeof text);
    cli_json_text("time", text);
    put_process(r, naming, "process", f->process);
    put_process(r, naming, "server", f->server);
    if (f->mfa != 0) {
        kymo_name_function(naming, f->mfa, text, sizeof text);
        cli_json_text("function", text);
    } else {
        cli_json_null("function");
    }
    if (f->atom != 0) {
        kymo_format_atom(kymo_reader_atom(r, f->atom), text, sizeof text);
        cli_json_text("reason", text);
    } else if (f->reported != NULL) {
        cli_json_text("reason", f->reported);
    } else {
        cli_json_null("reason");
    }
    cli_json_close('}');
    cli_json_end();
}

/* ---- the file ---- */

enum { FILE_MAX = 16384, KEY_MAX = 32 };

/* Replaces control characters, including those from 0x80 on, because the text is printed to
 * terminals. */
static uint32_t printable(uint32_t c)
{
    bool control = c < 0x20 || (c >= 0x7f && c < 0xa0), surrogate = c >= 0xd800 && c < 0xe000;
    return control || surrogate ? '?' : c;
}

/* Appends c in UTF-8 if it fits. */
static size_t put_char(char *out, size_t n, size_t size, uint32_t c)
{
    char b[4];
    size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    b[0] = (char)(len == 1 ? c : (0xf00u >> len & 0xffu) | c >> 6 * (len - 1));
    for (size_t i = 1; i < len; i++)
        b[i] = (char)(0x80 | (c >> 6 * (len - 1 - i) & 0x3f));
    if (n + len + 1 > size) { /* nothing that follows may be appended either */
        memset(out + n, 0, size - n);
        return size;
    }
    memcpy(out + n, b, len);
    return n + len;
}

/* Reads the JSON string at *p, which begins with a quote, into out, and moves *p past it. */
static bool take_text(const char **p, char *out, size_t size)
{
    static const char escapes[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    size_t n = 0;
    const char *s = *p;
    if (*s++ != '"')
        return false;
    while (*s != '"') {
        uint32_t c;
        size_t len = kymo_utf8_decode((const uint8_t *)s, strnlen(s, 4), &c);
        if (len != 0 && c < 0x20)
            return false;
        if (len == 0) {
            if (*s++ == '\0') /* the end of the file */
                return false;
            c = '?';
        } else if (c == '\\' && s[1] == 'u') {
            char hex[5] = "";
            strncpy(hex, s + 2, 4);
            if (strspn(hex, "0123456789abcdefABCDEF") != 4)
                return false;
            c = (uint32_t)strtoul(hex, NULL, 16);
            s += 6;
        } else if (c == '\\') {
            const char *e = s[1] != '\0' ? strchr(escapes, s[1]) : NULL;
            if (e == NULL)
                return false;
            c = (unsigned char)plain[e - escapes];
            s += 2;
        } else {
            s += len;
        }
        n = put_char(out, n, size, printable(c));
    }
    if (size > 0)
        out[n < size ? n : size - 1] = '\0';
    *p = s + 1;
    return true;
}

static void skip_space(const char **p)
{
    *p += strspn(*p, " \t\r\n");
}

/* The destination of a key's value. */
struct member {
    const char *key;
    char *text;
    size_t size;
    int64_t *number;
    bool *flag, *seen;
};

static bool take_value(const char **p, const struct member *m)
{
    char ignored[4];
    if (**p == '"') {
        bool wanted = m != NULL && m->text != NULL;
        return take_text(p, wanted ? m->text : ignored, wanted ? m->size : sizeof ignored);
    }
    size_t n = strcspn(*p, ",} \t\r\n");
    const char *value = *p;
    *p += n;
    if (n == 4 && strncmp(value, "null", n) == 0)
        return true;
    bool yes = n == 4 && strncmp(value, "true", n) == 0;
    if (yes || (n == 5 && strncmp(value, "false", n) == 0)) {
        if (m != NULL && m->flag != NULL)
            *m->flag = yes;
    } else {
        char *end;
        errno = 0;
        long long v = strtoll(value, &end, 10);
        if (end != *p || n == 0 || errno != 0)
            return false;
        if (m != NULL && m->number != NULL)
            *m->number = v;
    }
    if (m != NULL && m->seen != NULL)
        *m->seen = true;
    return true;
}

static bool take_object(const char *p, const struct member *members, size_t n)
{
    char key[KEY_MAX];
    skip_space(&p);
    if (*p++ != '{')
        return false;
    for (skip_space(&p); *p != '}'; skip_space(&p)) {
        if (!take_text(&p, key, sizeof key))
            return false;
        skip_space(&p);
        if (*p++ != ':')
            return false;
        skip_space(&p);
        const struct member *m = NULL;
        for (size_t i = 0; i < n; i++)
            m = strcmp(members[i].key, key) == 0 ? &members[i] : m;
        if (!take_value(&p, m))
            return false;
        skip_space(&p);
        if (*p == ',') {
            p++;
            skip_space(&p);
            if (*p != '"')
                return false;
        } else if (*p != '}') {
            return false;
        }
    }
    return true;
}

bool cli_firing_read(const char *dir, struct cli_firing *f)
{
    char path[4096], text[FILE_MAX + 1];
    *f = (struct cli_firing){.value = 0};
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, CLI_FIRING_NAME) >= sizeof path)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    ssize_t n = fd >= 0 ? read(fd, text, FILE_MAX) : -1;
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    bool start = false, end = false;
    const struct member members[] = {
        {.key = "trigger", .text = f->trigger, .size = sizeof f->trigger},
        {.key = "kind", .text = f->kind, .size = sizeof f->kind},
        {.key = "process", .text = f->process, .size = sizeof f->process},
        {.key = "process_pid", .text = f->process_pid, .size = sizeof f->process_pid},
        {.key = "server_pid", .text = f->server_pid, .size = sizeof f->server_pid},
        {.key = "server", .text = f->server, .size = sizeof f->server},
        {.key = "function", .text = f->function, .size = sizeof f->function},
        {.key = "reason", .text = f->reason, .size = sizeof f->reason},
        {.key = "value", .number = &f->value},
        {.key = "limit", .number = &f->limit},
        {.key = "start_ns", .number = &f->start_ns, .seen = &start},
        {.key = "end_ns", .number = &f->end_ns, .seen = &end},
        {.key = "fired_ms", .number = &f->fired_ms},
        {.key = "open", .flag = &f->open}};
    if (!take_object(text, members, sizeof members / sizeof *members) || f->kind[0] == '\0')
        return false;
    f->has_times = start && end && f->start_ns <= f->end_ns;
    return true;
}

bool cli_firing_is_held(const struct cli_firing *f, const struct kymo_reader *r)
{
    uint64_t ticks;
    int64_t horizon, t0 = kymo_reader_meta(r)->t0_mono_ns, start, end;
    if (!f->has_times || __builtin_add_overflow(t0, f->start_ns, &start) ||
        __builtin_add_overflow(t0, f->end_ns, &end))
        return false;
    return !kymo_reader_horizon(r, &ticks, &horizon) || start >= horizon;
}

static bool is_kind(const struct cli_firing *f, const char *kind)
{
    return strcmp(f->kind, kind) == 0;
}

static void put_report(const struct cli_firing *f)
{
    printf(": %s", f->reason);
    if (strcmp(f->reason, "large_heap") == 0)
        printf(", %" PRId64 " words", f->value);
    else if (f->value > 0)
        printf(", %s", CLI_DURATION(f->value));
}

void cli_firing_text(const struct cli_firing *f, const struct kymo_reader *r)
{
    char since[32];
    printf("fired        %s", f->trigger);
    if (is_kind(f, "exit"))
        printf(": %s", f->reason[0] != '\0' ? f->reason : "the reason is not an atom");
    else if (is_kind(f, "reported"))
        put_report(f);
    else if (is_kind(f, "mailbox"))
        printf(": %" PRId64 " message%s", f->value, CLI_S(f->value));
    else if (f->value > 0)
        printf(": %s%s", CLI_DURATION(f->value), f->open ? ", and was not over" : "");
    else if (f->reason[0] != '\0')
        printf(": %s", f->reason);
    putchar('\n');
    if (f->process[0] == '\0' && !f->has_times)
        return;
    printf("             %s%s%s", f->process, f->server[0] != '\0' ? " -> " : "", f->server);
    if (f->function[0] != '\0')
        printf("%s%s", f->process[0] != '\0' ? " " : "", f->function);
    if (f->has_times) {
        cli_format_seconds(f->start_ns, since, sizeof since);
        printf(" from %s s on; %s", since,
               cli_firing_is_held(f, r) ? "all of it is in this recording"
                                        : "its beginning had been overwritten before the snapshot was taken");
    }
    putchar('\n');
}

static void put_known(const char *key, const char *text)
{
    if (text[0] != '\0')
        cli_json_text(key, text);
    else
        cli_json_null(key);
}

void cli_firing_members(const struct cli_firing *f, const struct kymo_reader *r)
{
    put_known("trigger", f->trigger);
    put_known("kind", f->kind);
    cli_json_int("value", f->value);
    cli_json_int("limit", f->limit);
    cli_json_bool("open", f->open);
    cli_json_ns("start_ns", f->has_times ? f->start_ns : KYMO_NO_TIME);
    cli_json_ns("end_ns", f->has_times ? f->end_ns : KYMO_NO_TIME);
    put_known("process", f->process);
    put_known("process_pid", f->process_pid);
    put_known("server", f->server);
    put_known("server_pid", f->server_pid);
    put_known("function", f->function);
    put_known("reason", f->reason);
    if (f->has_times)
        cli_json_bool("held", cli_firing_is_held(f, r));
    else
        cli_json_null("held");
}
