// SPDX-License-Identifier: Apache-2.0
//
// A collector for tests: accepts requests and gives predefined answers.
//
//   node receiver.cjs FILE ANSWERS [KEY CERT]
//
// FILE gets the body of each request that is answered with 200, one per line. ANSWERS is
// JSON: an array of [STATUS, HEADERS, BODY], one for each request in turn, the last one for
// all that follow. FILE.log gets a line of JSON for each request, before it is answered:
// method, url, some headers, and the milliseconds since the one before. With KEY and CERT
// it speaks TLS. Prints its port, and ends with its standard input.
'use strict';
const {appendFileSync, readFileSync, writeFileSync} = require('node:fs');
const http = require('node:http');
const https = require('node:https');

const [file, answers, key, cert] = process.argv.slice(2);
const script = JSON.parse(answers);
let last = performance.now(), n = 0;
writeFileSync(file, '');
writeFileSync(file + '.log', '');

function answer(request, response) {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    const body = Buffer.concat(parts);
    const [status, headers, text] = script[Math.min(n++, script.length - 1)];
    const now = performance.now();
    if (status === 200) appendFileSync(file, Buffer.concat([body, Buffer.from('\n')]));
    appendFileSync(file + '.log', JSON.stringify({method: request.method, url: request.url,
      type: request.headers['content-type'], agent: request.headers['user-agent'],
      test: request.headers['x-test'] || '', after: Math.floor(now - last)}) + '\n');
    last = now;
    response.writeHead(status, headers).end(text);
  });
}

const server = key ? https.createServer({key: readFileSync(key), cert: readFileSync(cert)}, answer)
  : http.createServer(answer);
server.listen(0, '127.0.0.1', () => process.stdout.write(`${server.address().port}\n`));
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
