/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <inttypes.h>
#include <stdio.h>

#include "kymo_analysis.h"
#include "kymo_cli.h"

static bool after; /* something stands before, in the same brackets */

static void begin(const char *key)
{
    if (after)
        putchar(',');
    after = true;
    if (key != NULL) {
        cli_json_string(key);
        putchar(':');
    }
}

void cli_json_open(const char *key, char bracket)
{
    begin(key);
    putchar(bracket);
    after = false;
}

void cli_json_close(char bracket)
{
    putchar(bracket);
    after = true;
}

void cli_json_text(const char *key, const char *text)
{
    begin(key);
    cli_json_string(text);
}

void cli_json_int(const char *key, int64_t n)
{
    begin(key);
    printf("%" PRId64, n);
}

void cli_json_uint(const char *key, uint64_t n)
{
    begin(key);
    printf("%" PRIu64, n);
}

void cli_json_double(const char *key, double d)
{
    begin(key);
    printf("%.17g", d);
}

void cli_json_bool(const char *key, bool b)
{
    begin(key);
    fputs(b ? "true" : "false", stdout);
}

void cli_json_null(const char *key)
{
    begin(key);
    fputs("null", stdout);
}

void cli_json_ns(const char *key, int64_t ns)
{
    if (ns == KYMO_NO_TIME)
        cli_json_null(key);
    else
        cli_json_int(key, ns);
}

void cli_json_end(void)
{
    putchar('\n');
    after = false;
}
