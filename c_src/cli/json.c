/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <inttypes.h>

#include "kymo_analysis.h"
#include "kymo_cli.h"

static bool after;   /* the next element needs a comma before it */
static FILE *stream; /* NULL = standard output */

void cli_json_to(FILE *f)
{
    stream = f;
}

FILE *cli_json_stream(void)
{
    return stream != NULL ? stream : stdout;
}

static void begin(const char *key)
{
    if (after)
        putc(',', cli_json_stream());
    after = true;
    if (key != NULL) {
        cli_json_string(key);
        putc(':', cli_json_stream());
    }
}

void cli_json_key(const char *key)
{
    begin(key);
    after = false;
}

void cli_json_open(const char *key, char bracket)
{
    begin(key);
    putc(bracket, cli_json_stream());
    after = false;
}

void cli_json_close(char bracket)
{
    putc(bracket, cli_json_stream());
    after = true;
}

void cli_json_members(const char *members)
{
    begin(NULL);
    fputs(members, cli_json_stream());
}

void cli_json_text(const char *key, const char *text)
{
    begin(key);
    cli_json_string(text);
}

void cli_json_int(const char *key, int64_t n)
{
    begin(key);
    fprintf(cli_json_stream(), "%" PRId64, n);
}

void cli_json_uint(const char *key, uint64_t n)
{
    begin(key);
    fprintf(cli_json_stream(), "%" PRIu64, n);
}

void cli_json_double(const char *key, double d)
{
    begin(key);
    fprintf(cli_json_stream(), "%.17g", d);
}

void cli_json_bool(const char *key, bool b)
{
    begin(key);
    fputs(b ? "true" : "false", cli_json_stream());
}

void cli_json_null(const char *key)
{
    begin(key);
    fputs("null", cli_json_stream());
}

void cli_json_ns(const char *key, int64_t ns)
{
    if (ns == KYMO_NO_TIME)
        cli_json_null(key);
    else
        cli_json_int(key, ns);
}

void cli_json_histogram(const char *key, const struct kymo_histogram *h)
{
    enum { TOGETHER = KYMO_HISTOGRAM_SUB / 4 }; /* merges buckets to four per power of two */
    cli_json_open(key, '[');
    for (unsigned i = 0; i < h->count;) {
        unsigned group = (h->first + i) / TOGETHER;
        uint64_t n = 0;
        for (; i < h->count && (h->first + i) / TOGETHER == group; i++)
            n += h->n[i];
        if (n == 0)
            continue;
        cli_json_open(NULL, '[');
        cli_json_int(NULL, kymo_histogram_value(group * TOGETHER + TOGETHER / 2));
        cli_json_uint(NULL, n);
        cli_json_close(']');
    }
    cli_json_close(']');
}

void cli_json_end(void)
{
    putc('\n', cli_json_stream());
    after = false;
}
