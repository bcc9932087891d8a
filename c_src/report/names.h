/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that the page refers to by number, so that each is in it once. One thread.
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
/* The number of a name. id: canonical id of a function, or the ident of a process; of a
 * role, of one of its processes. 0 when there is no memory. */
uint32_t report_name(struct report_names *names, enum report_name_kind kind, uint64_t id);
/* JSON: an array of texts. */
void report_names_json(const struct report_names *names, const char *key);

#endif
