/* SPDX-License-Identifier: Apache-2.0 */
#include "out_json.h"

#include "json_text.h"

static void put(void *out, const void *bytes, size_t n)
{
    kymo_out_write(out, bytes, n);
}

void kymo_out_json_string(struct kymo_out *out, const char *text, size_t n)
{
    kymo_json_string(put, out, text, n);
}
