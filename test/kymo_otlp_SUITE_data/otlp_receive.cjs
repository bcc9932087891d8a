// SPDX-License-Identifier: Apache-2.0
//
// Elastic's receiver of OTLP/HTTP, which is independent of kymo:
//
//   node otlp_receive.cjs PACKAGES
//
// Prints its port. For each line of standard input it prints the spans that it has received
// since, one line each, as it understands them, and then an empty line:
//   TRACE ID PARENT KIND START END NAME
// and the values of metrics:
//   metric NAME UNIT TEMPORALITY ATTRIBUTES START TIME VALUE
// Ends with its standard input.
'use strict';
const {createRequire} = require('node:module');
const {join} = require('node:path');
const readline = require('node:readline');

const {MockOtlpServer, normalizeMetrics, normalizeTrace} = createRequire(join(process.argv[2], 'package.json'))('@elastic/mockotlpserver');
let spans = [];

function onTrace(request) {
  for (const resource of normalizeTrace(request).resourceSpans)
    for (const scope of resource.scopeSpans)
      for (const s of scope.spans)
        spans.push([s.traceId, s.spanId, s.parentSpanId || 'none', s.kind, s.startTimeUnixNano, s.endTimeUnixNano, s.name].join(' '));
}

function onMetrics(request) {
  for (const resource of normalizeMetrics(request).resourceMetrics)
    for (const scope of resource.scopeMetrics)
      for (const m of scope.metrics)
        for (const p of (m.sum || m.gauge).dataPoints)
          spans.push(['metric', m.name, m.unit, m.sum ? m.sum.aggregationTemporality : 'gauge',
            Object.values(p.attributes || {}).join(), p.startTimeUnixNano || 'none', p.timeUnixNano,
            p.asInt === undefined ? p.asDouble.toFixed(12) : p.asInt].join(' '));
}

const server = new MockOtlpServer({logLevel: 'fatal', services: ['http'], httpHostname: '127.0.0.1', httpPort: 0, onTrace, onMetrics});
server.start().then(() => {
  process.stdout.write(`${server.httpUrl.port}\n`);
  const lines = readline.createInterface({input: process.stdin});
  lines.on('line', () => {
    process.stdout.write(spans.concat('', '').join('\n'));
    spans = [];
  });
  lines.on('close', () => process.exit(0));
});
