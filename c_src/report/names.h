/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that the page refers to by number, so that it contains each only once. Single-threaded.
 */
#ifndef KYMO_REPORT_NAMES_H
#define KYMO_REPORT_NAMES_H

#include "analyse.h"

enum report_name_kind {
    REPORT_FUNCTION = 0,
    REPORT_PROCESS = 1,
    REPORT_ROLE = 2,
    REPORT_GC = 3,
    REPORT_OTHERS = 4,
    REPORT_KINDS
};

struct report_names {
    const struct cli_analysis *a;
    struct kymo_map index[REPORT_KINDS]; /* id -> uint32_t */
    struct report_name *list;
    size_t n, room;
    bool failed; /* out of memory */
};

void report_names_init(struct report_names *names, const struct cli_analysis *a);
void report_names_free(struct report_names *names);
/* The number of a name; 0 if there is no memory. id: the canonical id of a function, the ident of a
 * process, or for a role the ident of one of its processes. */
uint32_t report_name(struct report_names *names, enum report_name_kind kind, uint64_t id);
/* JSON: an array of strings. */
void report_names_json(const struct report_names *names, const char *key);

#endif
