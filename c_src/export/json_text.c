/* SPDX-License-Identifier: Apache-2.0 */
#include "json_text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "kymo_sink.h"

void kymo_json_string(void (*put)(void *arg, const void *bytes, size_t n), void *arg, const char *text)
{
    const uint8_t *p = (const uint8_t *)text;
    size_t n = strlen(text);
    char escaped[8];
    put(arg, "\"", 1);
    while (n > 0) {
        uint32_t c;
        size_t len = kymo_utf8_decode(p, n, &c);
        if (len == 0) {
            put(arg, "\\ufffd", 6);
            len = 1;
        } else if (c < 32 || c == 127 || c == '"' || c == '\\') {
            int e = snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)c);
            put(arg, escaped, (size_t)e);
        } else {
            put(arg, p, len);
        }
        p += len;
        n -= len;
    }
    put(arg, "\"", 1);
}
