/* SPDX-License-Identifier: Apache-2.0 */
#include "measures.h"

#include <stdio.h>

#include "json.h"
#include "kymo_measures.h"

void cli_measures_text(const struct kymo_meta *m)
{
    struct kymo_measure one;
    for (size_t at = 0, n = 0; kymo_measure_next(m, &at, &one); n++) {
        printf("%s%s", n == 0 ? "measures     " : "             ", one.name);
        if (one.left_out[0] != '\0')
            printf(", so not recorded: %s", one.left_out);
        if (one.fixed_in[0] != '\0')
            printf("\n               needless from OTP %s on", one.fixed_in);
        putchar('\n');
    }
    if (m->measures_len != 0)
        printf("             because of faults of this runtime: see doc/runtime-faults.md\n");
}

void cli_json_measures(const struct kymo_meta *m)
{
    struct kymo_measure one;
    cli_json_open("measures", '[');
    for (size_t at = 0; kymo_measure_next(m, &at, &one);) {
        cli_json_open(NULL, '{');
        cli_json_text("name", one.name);
        if (one.left_out[0] != '\0')
            cli_json_text("not_recorded", one.left_out);
        else
            cli_json_null("not_recorded");
        if (one.fixed_in[0] != '\0')
            cli_json_text("fixed_in", one.fixed_in);
        else
            cli_json_null("fixed_in");
        cli_json_close('}');
    }
    cli_json_close(']');
}

bool cli_measures_phrase(const struct kymo_meta *m, char *buf, size_t size)
{
    struct kymo_measure one;
    size_t used = 0;
    for (size_t at = 0; kymo_measure_next(m, &at, &one);) {
        if (one.left_out[0] == '\0' || used >= size)
            continue;
        used += (size_t)snprintf(buf + used, size - used, "%s%s",
                                 used == 0 ? "not recorded because of faults of the runtime: " : "; ",
                                 one.left_out);
        if (one.fixed_in[0] != '\0' && used < size)
            used += (size_t)snprintf(buf + used, size - used, " (fixed in OTP %s)", one.fixed_in);
    }
    return used > 0;
}
