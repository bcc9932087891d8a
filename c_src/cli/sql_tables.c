/* SPDX-License-Identifier: Apache-2.0 */
#include "sql_tables.h"

#include <stdio.h>

#include "kymo_tables.h"

void cli_sql_tables(void)
{
    for (unsigned i = 0; i < KYMO_TABLES; i++) {
        const struct kymo_table *t = &kymo_tables[i];
        printf("%s### %s\n\n%s\n\n| column | type | |\n|---|---|---|\n", i > 0 ? "\n" : "", t->name, t->says);
        for (unsigned c = 0; c < t->n_columns; c++)
            printf("| `%s` | %s | %s |\n", t->columns[c].name, kymo_column_type_name(t->columns[c].type),
                   t->columns[c].says);
    }
}

void cli_sql_name_tables(void)
{
    fputs("The tables are", stderr);
    for (unsigned i = 0; i < KYMO_TABLES; i++)
        fprintf(stderr, "%s %s", i > 0 ? "," : "", kymo_tables[i].name);
    fputs(".\n", stderr);
}
