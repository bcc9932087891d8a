// SPDX-License-Identifier: Apache-2.0
// A histogram of durations: bars over a logarithmic scale, and the same as a table.

import { count, duration } from "./format.js";
import { el, svg } from "./dom.js";

const CHART_WIDTH = 640;
const CHART_HEIGHT = 150;
const FOOT = 22;

// Four bars per power of two, from the smallest to the largest duration, including empty ones.
function place(ns) {
  return Math.round(4 * Math.log2(Math.max(1, ns)));
}

export function histogram(title, pairs, marks) {
  if (!pairs || pairs.length === 0) return el("p", { class: "empty" }, "None of its durations is known.");
  const first = place(pairs[0][0]) - 1;
  const last = Math.max(place(pairs[pairs.length - 1][0]) + 1, first + 12);
  const most = Math.max(...pairs.map(([, n]) => n));
  const step = CHART_WIDTH / (last - first + 1);
  const x = (ns) => (4 * Math.log2(Math.max(1, ns)) - first + 0.5) * step;
  const y = (n) => (n === 0 ? 0 : Math.max(2, (CHART_HEIGHT - 14) * (n / most)));
  const picture = svg("svg", {
    viewBox: `0 0 ${CHART_WIDTH} ${CHART_HEIGHT + FOOT}`, role: "img", class: "histogram",
    "aria-label": `${title}: ${pairs.length} bars, see the table`,
  });
  for (const [ns, n] of pairs) {
    picture.append(svg("rect", {
      x: ((place(ns) - first) * step + 0.5).toFixed(1), y: (CHART_HEIGHT - y(n)).toFixed(1),
      width: Math.max(1, step - 1).toFixed(1), height: y(n).toFixed(1), class: "column",
    }, svg("title", null, `about ${duration(ns)}: ${count(n)}`)));
  }
  for (let ns = 1; ns < 1e13; ns *= 10) {
    if (x(ns) < 4 || x(ns) > CHART_WIDTH - 30) continue;
    picture.append(svg("path", { d: `M${x(ns).toFixed(1)} ${CHART_HEIGHT}v5`, class: "tick" }),
      svg("text", { x: x(ns).toFixed(1), y: CHART_HEIGHT + 18, class: "axis" }, duration(ns).replace(/\.0+(?=\s)/, "")));
  }
  let before = -Infinity;
  for (const [label, ns] of marks || []) {
    if (ns === null) continue;
    picture.append(svg("path", { d: `M${x(ns).toFixed(1)} 12V${CHART_HEIGHT}`, class: "mark" }));
    if (x(ns) - before > 34) picture.append(svg("text", { x: x(ns).toFixed(1), y: 9, class: "axis" }, label));
    before = x(ns);
  }
  return el("figure", null, el("figcaption", null, title), picture,
    el("details", null, el("summary", null, "As a table"),
      el("table", null, el("caption", null, title),
        el("thead", null, el("tr", null, el("th", { scope: "col" }, "About"), el("th", { scope: "col" }, "How many"))),
        el("tbody", null, pairs.map(([ns, n]) => el("tr", null, el("td", { class: "number" }, duration(ns)),
          el("td", { class: "number" }, count(n))))))));
}
