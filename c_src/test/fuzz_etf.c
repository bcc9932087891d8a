/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as an external term: the text has the length that was announced,
 * in a buffer of any size, and nothing in it that a terminal would obey.
 */
#include <stdlib.h>
#include <string.h>

#include "kymo_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t need = kymo_format_term(data, size, NULL, 0);
    char *whole = malloc(need + 1), small[17];
    if (whole == NULL)
        return 0;
    if (kymo_format_term(data, size, whole, need + 1) != need || strlen(whole) != need)
        abort();
    for (size_t i = 0; i < need; i++) {
        unsigned char c = (unsigned char)whole[i];
        if (c < 32 || c == 127)
            abort();
    }
    if (kymo_format_term(data, size, small, sizeof small) != need ||
        strncmp(small, whole, strlen(small)) != 0)
        abort();
    free(whole);
    return 0;
}
