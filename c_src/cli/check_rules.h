/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of kymo check that are part of the program, from c_src/check/ (made by check/embed).
 */
#ifndef KYMO_CLI_CHECK_RULES_H
#define KYMO_CLI_CHECK_RULES_H

#include <stddef.h>

struct check_rule {
    const char *name; /* of the file, without .sql */
    const char *sql;  /* its text; the first comment after the licence says what it looks for */
};

extern const char check_tables[]; /* statements that make the tables that rules share */
extern const struct check_rule check_rules[];
extern const size_t check_n_rules;

#endif
