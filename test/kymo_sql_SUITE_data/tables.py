# SPDX-License-Identifier: Apache-2.0
#
# Usage: tables.py EXTENSION RECORDING NDJSON
#
# Reads the tables of a recording in two ways without the command: with the
# extension in Python's sqlite3, and from the files of `kymo export ndjson` with Python's
# json. Both must have the same columns and the same rows. Prints "TABLE ROWS" for each,
# or the differences, with status 1; status 2 if this Python cannot load extensions.
import json
import os
import sqlite3
import sys

extension, recording, folder = sys.argv[1:]
db = sqlite3.connect(":memory:")
if not hasattr(db, "enable_load_extension"):
    sys.exit(2)
db.enable_load_extension(True)
db.load_extension(extension)
db.execute("select kymo_open(?)", (recording,))


def fail(*what):
    print(*what)
    sys.exit(1)


def check_value(table, declared, name, value):
    """A value of ndjson has the type of its column."""
    types = {"integer": int, "text": str, "boolean": bool}
    if value is not None and type(value) is not types[declared]:
        fail(table, name, declared, value)


def rows_of(table, columns):
    with open(os.path.join(folder, table + ".ndjson"), encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if list(row) != [name for name, _ in columns]:
                fail(table, "columns", list(row))
            for name, declared in columns:
                check_value(table, declared, name, row[name])
            yield tuple(int(v) if isinstance(v, bool) else v for v in row.values())


tables = [n for (n,) in db.execute("select name from sqlite_temp_master where type = 'table' order by rowid")]
if sorted(t + ".ndjson" for t in tables) + ["schema.sql"] != sorted(os.listdir(folder), key=lambda f: (f == "schema.sql", f)):
    fail("tables", tables, os.listdir(folder))
for table in tables:
    columns = [(row[1], row[2].lower()) for row in db.execute("select * from pragma_table_info(?)", (table,))]
    from_sql = list(db.execute('select * from "%s"' % table))
    from_file = list(rows_of(table, columns))
    if sorted(map(repr, from_sql)) != sorted(map(repr, from_file)):
        differ = set(map(repr, from_sql)) ^ set(map(repr, from_file))
        fail(table, "rows differ:", len(from_sql), len(from_file), sorted(differ)[:4])
    # The values of the file as SQLite converts them.
    names = ", ".join('"%s" %s' % column for column in columns)
    db.execute('create table main."copy_%s" (%s)' % (table, names))
    db.executemany('insert into "copy_%s" values (%s)' % (table, ", ".join("?" * len(columns))), from_file)
    both = db.execute('select count(*) from (select * from "copy_%s" except select * from temp."%s")' % (table, table))
    if both.fetchone() != (0,):
        fail(table, "the copy differs")
    print(table, len(from_sql))
