/* SPDX-License-Identifier: Apache-2.0 */
#include "sql_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "kymo_sink.h"

/* The maximum width of an aligned column. Longer values shift the rest of their line. */
enum { WIDTH_MAX = 60 };

/* ---- values as text ---- */

static void put_blob(struct kymo_sink *s, const uint8_t *p, int n)
{
    kymo_sink_text(s, "x'", 2);
    for (int i = 0; i < n; i++)
        kymo_sink_printf(s, "%02x", p[i]);
    kymo_sink_char(s, '\'');
}

/* Writes text with control characters as escapes. */
static void put_safe(struct kymo_sink *s, const char *text, size_t n)
{
    const uint8_t *p = (const uint8_t *)text;
    while (n > 0) {
        uint32_t c;
        size_t len = kymo_utf8_decode(p, n, &c);
        if (len == 0) {
            kymo_sink_printf(s, "\\x{%x}", *p);
            len = 1;
        } else if (c < 32 || (c >= 127 && c < 160)) {
            kymo_sink_quoted(s, c, '"');
        } else {
            kymo_sink_text(s, (const char *)p, len);
        }
        p += len;
        n -= len;
    }
}

static size_t format_value(sqlite3_stmt *stmt, int column, char *buf, size_t size)
{
    struct kymo_sink s;
    kymo_sink_init(&s, buf, size);
    const char *text = NULL;
    switch (sqlite3_column_type(stmt, column)) {
    case SQLITE_NULL: kymo_sink_text(&s, "NULL", 4); break;
    case SQLITE_BLOB:
        put_blob(&s, sqlite3_column_blob(stmt, column), sqlite3_column_bytes(stmt, column));
        break;
    default:
        text = (const char *)sqlite3_column_text(stmt, column);
        put_safe(&s, text != NULL ? text : "", (size_t)sqlite3_column_bytes(stmt, column));
    }
    return kymo_sink_end(&s);
}

/* Allocated with malloc; NULL if out of memory. */
static char *value_text(sqlite3_stmt *stmt, int column)
{
    size_t n = format_value(stmt, column, NULL, 0);
    char *text = malloc(n + 1);
    if (text != NULL)
        format_value(stmt, column, text, n + 1);
    return text;
}

/* ---- aligned text ---- */

/* Characters, not bytes. */
static unsigned width_of(const char *text)
{
    unsigned n = 0;
    for (; *text != '\0'; text++)
        n += ((uint8_t)*text & 0xc0) != 0x80;
    return n;
}

static void put_aligned(const struct cli_sql_printer *p, int column, const char *text)
{
    unsigned width = width_of(text), full = p->widths[column];
    int pad = width < full ? (int)(full - width) : 0;
    bool last = column + 1 == p->columns;
    if (p->right[column])
        printf("%*s%s%s", pad, "", text, last ? "\n" : "  ");
    else
        printf("%s%*s", text, last ? 0 : pad + 2, "");
    if (last && !p->right[column])
        putchar('\n');
}

static void put_kept(struct cli_sql_printer *p)
{
    if (p->kept == NULL)
        return;
    for (int i = 0; i < p->columns; i++)
        put_aligned(p, i, sqlite3_column_name(p->stmt, i));
    for (unsigned i = 0; i < p->rows * (unsigned)p->columns; i++) {
        put_aligned(p, (int)(i % (unsigned)p->columns), p->kept[i]);
        free(p->kept[i]);
    }
    free(p->kept);
    p->kept = NULL;
}

static void widen(struct cli_sql_printer *p, int column, const char *text)
{
    unsigned width = width_of(text);
    if (width > WIDTH_MAX)
        width = WIDTH_MAX;
    if (width > p->widths[column])
        p->widths[column] = width;
}

static void text_row(struct cli_sql_printer *p)
{
    if (p->rows == CLI_SQL_KEPT)
        put_kept(p);
    for (int i = 0; i < p->columns; i++) {
        int type = sqlite3_column_type(p->stmt, i);
        char *text = value_text(p->stmt, i);
        if (text == NULL) {
            p->failed = true;
            return;
        }
        if (p->kept == NULL) {
            put_aligned(p, i, text);
            free(text);
            continue;
        }
        if (type == SQLITE_TEXT || type == SQLITE_BLOB)
            p->right[i] = false;
        widen(p, i, text);
        p->kept[p->rows * (unsigned)p->columns + (unsigned)i] = text;
    }
    if (p->kept != NULL)
        p->rows++;
}

/* ---- JSON and CSV ---- */

static void json_value(sqlite3_stmt *stmt, int i)
{
    const int64_t exact = INT64_C(1) << 53; /* larger integers do not fit in a double */
    const char *key = sqlite3_column_name(stmt, i);
    char text[32];
    switch (sqlite3_column_type(stmt, i)) {
    case SQLITE_NULL: cli_json_null(key); return;
    case SQLITE_INTEGER: {
        int64_t n = sqlite3_column_int64(stmt, i);
        snprintf(text, sizeof text, "%" PRId64, n);
        if (n >= -exact && n <= exact)
            cli_json_int(key, n);
        else
            cli_json_text(key, text);
        return;
    }
    case SQLITE_FLOAT:
        if (isfinite(sqlite3_column_double(stmt, i)))
            cli_json_double(key, sqlite3_column_double(stmt, i));
        else
            cli_json_null(key);
        return;
    default: break;
    }
    char *blob = sqlite3_column_type(stmt, i) == SQLITE_BLOB ? value_text(stmt, i) : NULL;
    const char *value = blob != NULL ? blob : (const char *)sqlite3_column_text(stmt, i);
    cli_json_text(key, value != NULL ? value : "");
    free(blob);
}

static void csv_text(const char *text, bool quoted)
{
    quoted = quoted || strpbrk(text, "\",\r\n") != NULL;
    if (quoted)
        putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    if (quoted)
        putchar('"');
}

static void csv_value(sqlite3_stmt *stmt, int i)
{
    char *blob = sqlite3_column_type(stmt, i) == SQLITE_BLOB ? value_text(stmt, i) : NULL;
    const char *text = blob != NULL ? blob : (const char *)sqlite3_column_text(stmt, i);
    if (text != NULL)
        csv_text(text, *text == '\0'); /* an empty text is not NULL */
    free(blob);
}

/* ---- results ---- */

void cli_sql_begin(struct cli_sql_printer *p, sqlite3_stmt *stmt)
{
    p->stmt = stmt;
    p->columns = sqlite3_column_count(stmt);
    p->rows = 0;
    if (p->results++ > 0 && p->format != CLI_SQL_JSON)
        fputs(p->format == CLI_SQL_CSV ? "\r\n" : "\n", stdout);
    for (int i = 0; i < p->columns && p->format == CLI_SQL_CSV; i++) {
        csv_text(sqlite3_column_name(stmt, i), false);
        fputs(i + 1 < p->columns ? "," : "\r\n", stdout);
    }
    if (p->format != CLI_SQL_TEXT)
        return;
    size_t n = (size_t)p->columns;
    p->widths = calloc(n, sizeof *p->widths);
    p->right = malloc(n * sizeof *p->right);
    p->kept = calloc(n * CLI_SQL_KEPT, sizeof *p->kept);
    p->failed = p->widths == NULL || p->right == NULL || p->kept == NULL;
    for (int i = 0; i < p->columns && !p->failed; i++) {
        p->right[i] = true;
        widen(p, i, sqlite3_column_name(stmt, i));
    }
}

void cli_sql_row(struct cli_sql_printer *p)
{
    if (p->format == CLI_SQL_TEXT) {
        text_row(p);
        return;
    }
    if (p->format == CLI_SQL_JSON)
        cli_json_open(NULL, '{');
    for (int i = 0; i < p->columns; i++) {
        if (p->format == CLI_SQL_JSON) {
            json_value(p->stmt, i);
        } else {
            csv_value(p->stmt, i);
            fputs(i + 1 < p->columns ? "," : "\r\n", stdout);
        }
    }
    if (p->format == CLI_SQL_JSON) {
        cli_json_close('}');
        cli_json_end();
    }
}

void cli_sql_end(struct cli_sql_printer *p)
{
    if (!p->failed)
        put_kept(p);
    for (size_t i = 0; p->kept != NULL && i < (size_t)CLI_SQL_KEPT * (size_t)p->columns; i++)
        free(p->kept[i]);
    free(p->kept);
    free(p->widths);
    free(p->right);
    p->kept = NULL;
    p->widths = NULL;
    p->right = NULL;
}
