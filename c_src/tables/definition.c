/* SPDX-License-Identifier: Apache-2.0 */
#include "columns.h"
#include "kymo_tables.h"

#define COLUMN(name, type, says) {#name, KYMO_##type, says},
#define COLUMNS(table, name, id, time, says) \
    static const struct kymo_column columns_of_##name[] = {KYMO_##table##_COLUMNS(COLUMN)};
KYMO_TABLE_LIST(COLUMNS)

#define TABLE(table, name, id, time, says) \
    [KYMO_TABLE_##table] = {#name, says, columns_of_##name, table##_COUNT, id, time},
const struct kymo_table kymo_tables[KYMO_TABLES] = {KYMO_TABLE_LIST(TABLE)};

const char *kymo_column_type_name(enum kymo_column_type type)
{
    static const char *const names[] = {"integer", "text", "boolean"};
    return names[type];
}
