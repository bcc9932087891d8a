// SPDX-License-Identifier: Apache-2.0
//
// Usage: node duckdb.mjs PACKAGES KYMO RECORDING NDJSON OTHER FILE...
//
// Asks DuckDB and `kymo sql RECORDING` the SQL in each FILE. DuckDB has the tables of NDJSON,
// a folder of `kymo export ndjson`, loaded with the schema.sql in it, and those of OTHER with
// the prefix new_. Both must answer with the same rows. Prints how many, one line for each
// FILE, or fails.
import {deepStrictEqual} from 'node:assert';
import {execFileSync} from 'node:child_process';
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join} from 'node:path';

const [packages, kymo, recording, ndjson, other, ...files] = process.argv.slice(2);
const {DuckDBInstance} = createRequire(join(packages, 'package.json'))('@duckdb/node-api');
const db = await (await DuckDBInstance.create(':memory:')).connect();

async function load(folder, prefix) {
  const schema = readFileSync(join(folder, 'schema.sql'), 'utf8');
  await db.run(schema.replaceAll('create table "', `create table "${prefix}`));
  for (const [, table] of schema.matchAll(/^create table "(\w+)"/gm))
    await db.run(`copy "${prefix}${table}" from '${join(folder, table)}.ndjson' (format json)`);
}

// DuckDB returns integers as strings, and booleans not as integers.
const plain = (value) => typeof value === 'boolean' ? Number(value)
  : /^-?\d+(\.\d+)?$/.test(String(value)) ? Number(value) : value;
const sorted = (rows) => rows.map((row) => JSON.stringify(row.map(plain))).sort();

await load(ndjson, '');
await load(other, 'new_');
// As in SQLite: the quotient of integers is an integer, and division by 0 gives NULL.
await db.run('set integer_division = true; set ieee_floating_point_ops = false');
for (const file of files) {
  const sql = readFileSync(file, 'utf8');
  const theirs = (await db.runAndReadAll(sql.replace(/^select kymo_open.*$/m, ''))).getRowsJson();
  const ours = execFileSync(kymo, ['sql', '-q', '--json', recording, sql], {encoding: 'utf8'}).trim().split('\n')
    .filter((line) => !line.startsWith('{"kymo_open(')).map((line) => Object.values(JSON.parse(line)));
  deepStrictEqual(sorted(ours), sorted(theirs), sql);
  console.log(ours.length);
}
