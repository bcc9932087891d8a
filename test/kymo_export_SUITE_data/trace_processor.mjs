// SPDX-License-Identifier: Apache-2.0
//
// Runs SQL queries on a trace with Perfetto's own trace_processor.
//
//   node trace_processor.mjs ASSETS TRACE QUERY...
//
// ASSETS is the folder of the WebAssembly build of trace_processor with its
// JavaScript: engine.mjs, engine_bundle.node.js, trace_processor.wasm.
// Prints one line of JSON for each query: an array of rows, each an array of
// values (numbers beyond 2^53 as strings). Exits 0 when all queries could be
// answered, 1 otherwise with the reason on standard error.
//
// The bundle is made for a Web Worker: it wants a `self` to listen on, a
// MessagePort to talk through, and to fetch its WebAssembly by URL. All three
// are given to it here.
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';
import vm from 'node:vm';

const [assets, trace, ...queries] = process.argv.slice(2);
if (queries.length === 0) {
  console.error('usage: node trace_processor.mjs ASSETS TRACE QUERY...');
  process.exit(2);
}

globalThis.self = globalThis;
globalThis.WorkerGlobalScope = function () {};
globalThis.location = {href: pathToFileURL(assets).href + '/'};
// The engine's log output must not mix with the answers.
console.log = console.warn = console.debug = console.info = () => {};

function replaceOnce(text, from, to) {
  if (text.split(from).length !== 2) throw new Error(`unknown version of the bundle: ${from}`);
  return text.replace(from, () => to);
}

// Starts the bundle; resolves with its message handler once it is ready.
async function startBundle() {
  globalThis.kymoWasm = new Uint8Array(readFileSync(join(assets, 'trace_processor.wasm')));
  const ready = new Promise((resolve) => { globalThis.kymoReady = resolve; });
  let glue = readFileSync(join(assets, 'engine_bundle.node.js'), 'utf8');
  glue = replaceOnce(glue, 'this.useMemory64 = hasMemory64Support();', 'this.useMemory64 = false;');
  glue = replaceOnce(glue, 'locateFile: (s) => s,', 'locateFile: (s) => s, wasmBinary: globalThis.kymoWasm,');
  glue = replaceOnce(glue, "[fn, REQ_BUF_SIZE]));", "[fn, REQ_BUF_SIZE])); globalThis.kymoReady();");
  vm.runInThisContext(glue, {filename: 'engine_bundle.node.js'});
  await ready;
  return globalThis.self.onmessage;
}

async function main() {
  const {EngineBase} = await import(pathToFileURL(join(assets, 'engine.mjs')).href);
  const onmessage = await startBundle();
  const {port1, port2} = new MessageChannel();
  onmessage({data: port1});

  class Engine extends EngineBase {
    mode = 'WASM';
    id = 'kymo';
    rpcSendRequestBytes(data) { port2.postMessage(data); }
  }
  const engine = new Engine();
  const failed = new Promise((resolve, reject) => {
    port2.onmessage = (m) => {
      try { engine.onRpcResponseBytes(m.data); } catch (e) { reject(e); }
    };
    process.on('uncaughtException', reject);
  });

  const answers = async () => {
    const bytes = readFileSync(trace);
    const chunk = 16 * 1024 * 1024;
    for (let at = 0; at < bytes.length; at += chunk)
      await engine.parse(new Uint8Array(bytes.subarray(at, at + chunk)));
    await engine.notifyEof();
    for (const sql of queries) {
      const result = await engine.query(sql);
      const columns = result.columns();
      const rows = [];
      for (const it = result.iter({}); it.valid(); it.next())
        rows.push(columns.map((c) => it.get(c)));
      const json = (key, v) =>
        typeof v !== 'bigint' ? v
          : v >= Number.MIN_SAFE_INTEGER && v <= Number.MAX_SAFE_INTEGER ? Number(v) : v.toString();
      process.stdout.write(JSON.stringify(rows, json) + '\n');
    }
  };
  await Promise.race([answers(), failed]);
}

// What was written to a pipe may still be in this process.
main().then(
  () => process.stdout.write('', () => process.exit(0)),
  (e) => { console.error(e.stack || String(e)); process.exit(1); });
