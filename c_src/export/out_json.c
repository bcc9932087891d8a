/* SPDX-License-Identifier: Apache-2.0 */
#include "out_json.h"

#include <stdbool.h>
#include <stdio.h>

#include "kymo_sink.h"

static bool is_plain(uint8_t c)
{
    return c >= 32 && c < 127 && c != '"' && c != '\\';
}

void kymo_out_json_string(struct kymo_out *out, const char *text, size_t n)
{
    const uint8_t *p = (const uint8_t *)text;
    char escaped[8];
    kymo_out_write(out, "\"", 1);
    while (n > 0) {
        uint32_t c;
        size_t len = 0;
        while (len < n && is_plain(p[len]))
            len++;
        if (len > 0) {
            kymo_out_write(out, p, len);
        } else if ((len = kymo_utf8_decode(p, n, &c)) == 0) {
            kymo_out_write(out, "\\ufffd", 6);
            len = 1;
        } else if (c < 128) {
            int written = snprintf(escaped, sizeof escaped, "\\u%04x", c);
            kymo_out_write(out, escaped, (size_t)written);
        } else {
            kymo_out_write(out, p, len);
        }
        p += len;
        n -= len;
    }
    kymo_out_write(out, "\"", 1);
}
