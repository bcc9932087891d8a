/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of the report page, as JSON. One thread at a time, in the whole program.
 */
#ifndef KYMO_REPORT_DATA_H
#define KYMO_REPORT_DATA_H

#include <stdio.h>

#include "analyse.h"

/* Of a report that is made again and again, for the page. */
struct report_live {
    const char *over;       /* why there will be no newer one; NULL: there will */
    int64_t window, wanted; /* ns that it covers, and was asked to */
    int64_t until_unix;     /* its end */
    int64_t interval;       /* ns to the next one */
};

/* Analyses what `a` has opened, of which it sets json and histograms, and writes one object to
 * f. The member "live" is written if live is not NULL. 0 or an exit status after a message. */
int report_data_write(struct cli_analysis *a, const char *dir, const struct report_live *live, FILE *f);
/* The member "live" alone. */
void report_live_json(const struct report_live *live);

#endif
