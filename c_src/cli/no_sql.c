/* SPDX-License-Identifier: Apache-2.0
 *
 * kymo sql and check in a program that was built without SQLite.
 */
#include "kymo_cli.h"

static int without(void)
{
    return cli_fail(
        KYMO_EXIT_USAGE,
        "this kymo was built without SQLite: install libsqlite3-dev (sqlite3ext.h) and build it again");
}

int cli_sql(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return without();
}

int cli_check(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return without();
}
