// SPDX-License-Identifier: Apache-2.0
//
// Reads OTLP in JSON with OpenTelemetry's own definitions of the protocol.
//
//   node otlp_read.cjs PACKAGES FILE
//
// Each line of FILE must be an ExportTraceServiceRequest or an ExportMetricsServiceRequest of
// which the definitions know every member: encoding the line to bytes and decoding them again
// must give what was in the line. Prints Erlang terms, one for each span and metric:
//   {span, ResourceAttributes, Scope, Span}.
//   {metric, ResourceAttributes, Scope, Metric}.
// with maps and binaries. Exits 0 when all lines could be read, else 1 with the reason.
'use strict';
const {readFileSync} = require('node:fs');
const {createRequire} = require('node:module');
const {join} = require('node:path');
const {isDeepStrictEqual} = require('node:util');

const [packages, file] = process.argv.slice(2);
const root = createRequire(join(packages, 'package.json'))(
  join(packages, 'node_modules/@opentelemetry/otlp-transformer/build/src/generated/root.js'));
const collector = root.opentelemetry.proto.collector;

function fail(text) { throw new Error(text); }

// OTLP's JSON has ids in hex, where that of protocol buffers has base64.
const ID_LENGTH = {traceId: 32, spanId: 16, parentSpanId: 16};
function toBase64(value) {
  if (Array.isArray(value)) return value.map(toBase64);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, v]) => {
    if (!(key in ID_LENGTH)) return [key, toBase64(v)];
    if (typeof v !== 'string' || !/^[0-9a-f]+$/.test(v) || v.length !== ID_LENGTH[key] || /^0+$/.test(v))
      fail(`${key} is not an id: ${v}`);
    return [key, Buffer.from(v, 'hex').toString('base64')];
  }));
}

// 64-bit integers must be strings of digits.
const TIMES = ['startTimeUnixNano', 'endTimeUnixNano', 'timeUnixNano', 'intValue', 'asInt'];
function checkIntegers(value) {
  if (Array.isArray(value)) return value.forEach(checkIntegers);
  if (value === null || typeof value !== 'object') return;
  for (const [key, v] of Object.entries(value)) {
    if (TIMES.includes(key) && !(typeof v === 'string' && /^-?\d+$/.test(v))) fail(`${key} is ${v}`);
    checkIntegers(v);
  }
}

function read(line) {
  const plain = toBase64(JSON.parse(line));
  const Request = 'resourceMetrics' in plain ? collector.metrics.v1.ExportMetricsServiceRequest
    : collector.trace.v1.ExportTraceServiceRequest;
  checkIntegers(plain);
  const wrong = Request.verify(Request.fromObject(plain));
  if (wrong) fail(wrong);
  const decoded = Request.toObject(Request.decode(Request.encode(Request.fromObject(plain)).finish()),
    {longs: String, bytes: String, enums: Number});
  // Empty members may get lost.
  const known = (v) => Array.isArray(v) ? v.map(known)
    : v !== null && typeof v === 'object'
      ? Object.fromEntries(Object.entries(v).filter(([, x]) => !(Array.isArray(x) && x.length === 0))
        .map(([k, x]) => [k, known(x)])) : v;
  if (!isDeepStrictEqual(known(plain), known(decoded)))
    fail(`not all of it is OTLP: ${line.slice(0, 2000)}`);
  return decoded;
}

// ---- Erlang terms ----

const text = (s) => `<<${[...Buffer.from(s)].join(',')}>>`;
const hex = (s) => text(Buffer.from(s, 'base64').toString('hex'));
const map = (pairs) => `#{${pairs.map(([k, v]) => `${k} => ${v}`).join(',')}}`;
function value(v) {
  if ('stringValue' in v) return text(v.stringValue);
  if ('intValue' in v) return v.intValue;
  if ('boolValue' in v) return String(v.boolValue);
  return fail(`a value that kymo does not write: ${JSON.stringify(v)}`);
}
function attributes(list) {
  const keys = (list || []).map((a) => a.key);
  if (new Set(keys).size !== keys.length) fail(`an attribute is there twice: ${keys}`);
  return map((list || []).map((a) => [text(a.key), value(a.value)]));
}
function span(s) {
  return map([
    ['trace', hex(s.traceId)], ['id', hex(s.spanId)], ['parent', s.parentSpanId ? hex(s.parentSpanId) : 'none'],
    ['name', text(s.name)], ['kind', s.kind], ['start', s.startTimeUnixNano], ['stop', s.endTimeUnixNano],
    ['attributes', attributes(s.attributes)],
    ['events', `[${(s.events || []).map((e) => `{${text(e.name)},${e.timeUnixNano}}`).join(',')}]`],
    ['links', `[${(s.links || []).map((l) => `{${hex(l.traceId)},${hex(l.spanId)}}`).join(',')}]`],
    ['status', s.status && s.status.code ? s.status.code : 0],
    ['message', text(s.status && s.status.message ? s.status.message : '')]]);
}

const number = (p) => 'asInt' in p ? p.asInt : p.asDouble.toFixed(12);
function metric(m) {
  const data = m.sum || m.gauge;
  return map([
    ['name', text(m.name)], ['unit', text(m.unit)],
    ['type', m.sum ? `{sum,${data.aggregationTemporality},${data.isMonotonic}}` : 'gauge'],
    ['points', `[${data.dataPoints.map((p) => `{${attributes(p.attributes)},` +
      `${p.startTimeUnixNano === undefined || p.startTimeUnixNano === '0' ? 'none' : p.startTimeUnixNano},` +
      `${p.timeUnixNano},${number(p)}}`).join(',')}]`]]);
}

try {
  const lines = readFileSync(file, 'utf8').split('\n');
  if (lines.pop() !== '') fail('the last line has no end');
  for (const line of lines) {
    const request = read(line);
    const print = (kind, r, scope, what) =>
      process.stdout.write(`{${kind},${attributes(r.resource.attributes)},` +
        `{${text(scope.scope.name)},${text(scope.scope.version)}},${what}}.\n`);
    for (const r of request.resourceSpans || [])
      for (const scope of r.scopeSpans)
        for (const s of scope.spans) print('span', r, scope, span(s));
    for (const r of request.resourceMetrics || [])
      for (const scope of r.scopeMetrics)
        for (const m of scope.metrics) print('metric', r, scope, metric(m));
  }
} catch (e) {
  console.error(e.stack || String(e));
  process.exitCode = 1;
}
