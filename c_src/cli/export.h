/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo export otlp, which takes several recordings and may post to a collector. Options
 * are those of kymo export; one thread.
 */
#ifndef KYMO_CLI_EXPORT_H
#define KYMO_CLI_EXPORT_H

#include "kymo_cli.h"

struct cli_otlp {
    const char *out; /* file or "-" ... */
    char *endpoint;  /* ... or the collector's URL, malloc'ed; the other one is NULL */
    char **headers;  /* for the HTTP requests, malloc'ed */
    size_t n_headers;
    const char *cacert; /* certificates to trust, or NULL */
    bool quiet, strict;
};

/* Each takes the value of an option, or @ and the name of a file with it, and a file of headers has one
 * in each line. They erase what is secret from the value, since other users can see the arguments of a
 * process. Return an exit status. */
int cli_otlp_endpoint(struct cli_otlp *o, char *value);
int cli_otlp_header(struct cli_otlp *o, char *value);
/* Exports the n recordings as one timeline. The filter has its options; only its window is used.
 * Returns an exit status. */
int cli_export_otlp(struct cli_otlp *o, struct cli_filter *filter, int n, char **recordings);
void cli_otlp_free(struct cli_otlp *o);

#endif
