/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of the report page, as JSON. Only one thread of the program may use it at a time.
 */
#ifndef KYMO_REPORT_DATA_H
#define KYMO_REPORT_DATA_H

#include <stdio.h>

#include "analyse.h"

/* Information for the page about a report that is renewed repeatedly. */
struct report_live {
    const char *over;       /* why no newer one will follow; NULL: one will follow */
    const char *failed;     /* why this one could not be made; NULL: no failure */
    int64_t window, wanted; /* ns that it covers, and that it should cover */
    int64_t until_unix;     /* end of that time */
    int64_t interval;       /* ns until the next one */
};

/* Analyses the recording that `a` has opened, and writes one object to f. Sets the members json and
 * histograms of `a`. The member "live" is written if live is not NULL. Returns 0, or an exit status
 * after a message. */
int report_data_write(struct cli_analysis *a, const char *dir, const struct report_live *live, FILE *f);
/* Writes the member "live" alone. */
void report_live_json(const struct report_live *live);

#endif
