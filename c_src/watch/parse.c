/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the text of a trigger.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kymo_names.h"
#include "watch_int.h"

/* The parts that follow the kind, in this order. */
static const struct {
    const char *name, *form;
    bool pattern, time, number;
} kinds[] = {[KYMO_TRIG_CALL] = {"call", "call,FUNCTIONS,TIME", true, true, false},
             [KYMO_TRIG_REQUEST] = {"request", "request,WHAT,TIME", true, true, false},
             [KYMO_TRIG_MAILBOX] = {"mailbox", "mailbox,MESSAGES", false, false, true},
             [KYMO_TRIG_EXIT] = {"exit", "exit,REASON", true, false, false},
             [KYMO_TRIG_COLLECTION] = {"collection", "collection,TIME", false, true, false},
             [KYMO_TRIG_SCHEDULE] = {"schedule", "schedule,TIME", false, true, false},
             [KYMO_TRIG_STOPPED] = {"stopped", "stopped,TIME", false, true, false},
             [KYMO_TRIG_REPORTED] = {"reported", "reported,KIND", true, false, false}};

const char *kymo_trigger_name(unsigned kind)
{
    return kind < KYMO_TRIG_KINDS ? kinds[kind].name : "?";
}

static int refuse(char *err, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int refuse(char *err, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err, size, fmt, ap);
    va_end(ap);
    return -EINVAL;
}

/* Parses a positive duration: "50ms", "1.5s". */
static bool parse_time(const char *text, int64_t *ns)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
    char *unit;
    if (*text < '0' || *text > '9')
        return false;
    double v = strtod(text, &unit);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(unit, units[i].unit) != 0)
            continue;
        v *= units[i].ns;
        if (!(v >= 1 && v < 9e18))
            return false;
        *ns = (int64_t)v;
        return true;
    }
    return false;
}

static bool parse_number(const char *text, int64_t *n)
{
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    *n = strtoll(text, &end, 10);
    return *end == '\0' && errno == 0 && *n <= UINT32_MAX;
}

/* Copies the text with * for each part that is _, as in "_:handle_call/3" and "lists:_/_".
 * Returns NULL if out of memory. */
static char *with_stars(const char *text, size_t n)
{
    char *copy = strndup(text, n);
    for (size_t i = 0; copy != NULL && i < n; i++) {
        bool first = i == 0 || copy[i - 1] == ':' || copy[i - 1] == '/';
        bool last = i + 1 == n || copy[i + 1] == ':' || copy[i + 1] == '/';
        if (copy[i] == '_' && first && last)
            copy[i] = '*';
    }
    return copy;
}

static bool is_anything(const char *pattern)
{
    return strcmp(pattern, "*") == 0 || strcmp(pattern, "*:*") == 0 || strcmp(pattern, "*:*/*") == 0;
}

static int take_pattern(struct kymo_trigger *g, const char *text, size_t n, char *err, size_t err_size)
{
    if (n == 0)
        return refuse(err, err_size, "'%s': the pattern is empty; allowed: %s, with _ for anything", g->text,
                      kinds[g->kind].form);
    g->pattern = with_stars(text, n);
    if (g->pattern == NULL)
        return -ENOMEM;
    if (is_anything(g->pattern)) {
        free(g->pattern);
        g->pattern = NULL;
    }
    return 0;
}

/* Something that the system monitor may report fits it; nothing else would ever fire. */
static int check_report(const struct kymo_trigger *g, char *err, size_t err_size)
{
    for (unsigned i = 0; i < KYMO_M_FIRST_NOTE; i++) {
        const char *name = kymo_monitor_name(i);
        if (name != NULL && (g->pattern == NULL || kymo_name_fits(name, g->pattern)))
            return 0;
    }
    return refuse(err, err_size,
                  "'%s': the system monitor reports long_gc, long_schedule, large_heap, busy_port, "
                  "busy_dist_port and long_message_queue",
                  g->text);
}

int kymo_trigger_parse(struct kymo_trigger *g, const char *text, char *err, size_t err_size)
{
    size_t n = strcspn(text, ",");
    unsigned k = 0;
    while (k < KYMO_TRIG_KINDS && (strlen(kinds[k].name) != n || strncmp(kinds[k].name, text, n) != 0))
        k++;
    g->text = strdup(text);
    if (g->text == NULL)
        return -ENOMEM;
    if (k == KYMO_TRIG_KINDS)
        return refuse(err, err_size, "'%s' is not a trigger; allowed: %s; %s; %s; %s; %s; %s; %s; %s", text,
                      kinds[0].form, kinds[1].form, kinds[2].form, kinds[3].form, kinds[4].form,
                      kinds[5].form, kinds[6].form, kinds[7].form);
    g->kind = (uint8_t)k;
    const char *rest = text[n] == ',' ? text + n + 1 : text + n, *limit = rest;
    int rc = 0;
    if (kinds[k].pattern) { /* up to the last comma: a quoted name may have some */
        const char *comma = strrchr(rest, ',');
        if (kinds[k].time && comma == NULL)
            return refuse(err, err_size, "'%s' has no time; allowed: %s", text, kinds[k].form);
        size_t len = kinds[k].time ? (size_t)(comma - rest) : strlen(rest);
        rc = take_pattern(g, rest, len, err, err_size);
        limit = comma != NULL ? comma + 1 : "";
    }
    if (rc == 0 && kinds[k].time && !parse_time(limit, &g->limit))
        rc = refuse(err, err_size, "'%s': '%s' is not a time; allowed: %s, with a TIME such as 50ms or 1.5s",
                    text, limit, kinds[k].form);
    if (rc == 0 && kinds[k].number && !parse_number(limit, &g->limit))
        rc = refuse(err, err_size, "'%s': '%s' is not a number of messages; allowed: %s, 0 to %" PRIu32, text,
                    limit, kinds[k].form, UINT32_MAX);
    if (rc == 0 && k == KYMO_TRIG_REPORTED)
        rc = check_report(g, err, err_size);
    return rc;
}

void kymo_trigger_free(struct kymo_trigger *g)
{
    free(g->text);
    free(g->pattern);
}
