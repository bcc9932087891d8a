/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats arbitrary bytes as an external term, and as the arguments of a call. The text must have the
 * returned length with a buffer of any size, and contain no terminal control sequences. Only a
 * complete term may count as decodable.
 */
#include <stdlib.h>
#include <string.h>

#include "etf_check.h"
#include "kymo_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Formats with a limit of `size` bytes. */
typedef size_t format(const uint8_t *data, size_t n, char *buf, size_t size);

static size_t call(const uint8_t *data, size_t n, char *buf, size_t size)
{
    return kymo_format_call(NULL, 0, data, n, buf, size);
}

static void check(format *f, const uint8_t *data, size_t size)
{
    size_t need = f(data, size, NULL, 0);
    char *whole = malloc(need + 1), small[17] = "";
    if (whole == NULL)
        return;
    if (f(data, size, whole, need + 1) != need || (need > 0 && strlen(whole) != need))
        abort();
    for (size_t i = 0; i < need; i++) {
        unsigned char c = (unsigned char)whole[i];
        if (c < 32 || c == 127)
            abort();
    }
    if (f(data, size, small, sizeof small) != need || (need > 0 && strncmp(small, whole, strlen(small)) != 0))
        abort();
    free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kymo_meta old = {.otp_release = "25"}, recent = {.otp_release = "27"};
    check(kymo_format_term, data, size);
    check(call, data, size);
    bool whole = size > 0 && kymo_etf_length(data, size) == size;
    bool takes_old = kymo_etf_readable(&old, data, size),
         takes_recent = kymo_etf_readable(&recent, data, size);
    if ((takes_old && !takes_recent) || (takes_recent && !whole))
        abort();
    return 0;
}
