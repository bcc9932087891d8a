/* SPDX-License-Identifier: Apache-2.0 */
#include "json_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "kymo_sink.h"

void kymo_json_string(void (*put)(void *arg, const void *bytes, size_t n), void *arg, const char *text,
                      size_t n)
{
    const uint8_t *p = (const uint8_t *)text, *plain = p;
    char escaped[8];
    put(arg, "\"", 1);
    while (n > 0) {
        uint32_t c;
        size_t len = kymo_utf8_decode(p, n, &c);
        bool as_it_is = len != 0 && c >= 32 && c != 127 && c != '"' && c != '\\';
        if (!as_it_is) {
            put(arg, plain, (size_t)(p - plain));
            bool quoted = len != 0 && (c == '"' || c == '\\');
            int e = quoted ? snprintf(escaped, sizeof escaped, "\\%c", (int)c)
                           : snprintf(escaped, sizeof escaped, "\\u%04x", len != 0 ? (unsigned)c : 0xfffdu);
            put(arg, escaped, (size_t)e);
        }
        len = len != 0 ? len : 1;
        p += len;
        n -= len;
        if (!as_it_is)
            plain = p;
    }
    put(arg, plain, (size_t)(p - plain));
    put(arg, "\"", 1);
}
