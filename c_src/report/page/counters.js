// SPDX-License-Identifier: Apache-2.0
// The node's counters as line charts, and the reports of its system monitor.

import { count, since } from "./format.js";
import { code, el, svg } from "./dom.js";
import { table } from "./table.js";

const LINE_WIDTH = 360;
const LINE_HEIGHT = 110;
const LINE_FOOT = 20;

// Counters that share a chart have the same unit. The first one stands out.
const CHARTS = [
  ["Schedulers: share of the time in which they worked", ["schedulers_utilization", "dirty_cpu_utilization", "dirty_io_utilization", "cpu_time"]],
  ["Each scheduler: share of the time in which it worked", ["scheduler_utilization"]],
  ["Run queues: processes and ports that wait for a scheduler", ["run_queue", "run_queue_dirty_cpu", "run_queue_dirty_io"]],
  ["Memory", ["memory_total", "memory_processes", "memory_binary", "memory_ets", "memory_code", "memory_atom"]],
  ["Processes", ["process_count"]],
  ["Messages in the longest mailboxes", ["mailbox_length"]],
  ["Largest heaps", ["heap_size"]],
  ["Ports and ETS tables", ["port_count", "ets_count"]],
  ["Reductions per second", ["reductions"]],
  ["Context switches and garbage collections per second", ["context_switches", "garbage_collections"]],
  ["Read and written by ports, per second", ["io_input", "io_output"]],
];

function bytes(n) {
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (n >= size) return (n / size).toFixed(n >= 100 * size ? 0 : 1) + "\u00a0" + unit;
  }
  return n + "\u00a0B";
}

// Processor time per second is a share of one processor.
function levelText(line, n) {
  if (n === null) return "–";
  if (line.unit === "bytes") return bytes(n);
  if (line.unit === "millionths") return (n / 1e4).toFixed(1) + "\u00a0%";
  if (line.unit === "ns") return (n / 1e7).toFixed(1) + "\u00a0%";
  return count(n);
}

const scale = (line) => (line.unit === "ns" ? 1e7 : line.unit === "millionths" ? 1e4 : 1);

function lineName(line) {
  const name = line.counter.replace(/_/g, " ") + (line.scheduler > 0 ? ` ${line.scheduler}` : "");
  return line.node ? `${name} of ${line.node}` : name;
}

// The line is straight between samples; parts without a sample have no point.
function linePath(line, top) {
  let d = "";
  line.parts.forEach((n, i) => {
    if (n === null) return;
    const x = ((i + 0.5) * LINE_WIDTH) / line.parts.length;
    const y = LINE_HEIGHT - (LINE_HEIGHT - 4) * Math.min(1, n / scale(line) / top);
    d += `${d === "" ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
  });
  return d;
}

function lineChart(title, lines, span) {
  const top = Math.max(...lines.map((line) => Math.max(...line.parts.map((n) => (n === null ? 0 : n / scale(line))))));
  const least = Math.max(lines[0].unit === "millionths" ? 100 : 1, top);
  const picture = svg("svg", { viewBox: `0 0 ${LINE_WIDTH} ${LINE_HEIGHT + LINE_FOOT}`, role: "img", class: "lines", "aria-label": `${title}: ${lines.length} lines, see the table` });
  for (const y of [4, LINE_HEIGHT]) picture.append(svg("path", { d: `M0 ${y}H${LINE_WIDTH}`, class: "grid" }));
  lines.forEach((line, i) => picture.append(svg("path", { d: linePath(line, least), class: `line line-${i % 6}` }, svg("title", null, lineName(line)))));
  const step = (span[1] - span[0]) / 4;
  for (let i = 0; i <= 4; i++) {
    picture.append(svg("text", { x: String(Math.min(LINE_WIDTH - 24, Math.max(20, (i * LINE_WIDTH) / 4))), y: String(LINE_HEIGHT + 15), class: "axis" }, since(span[0] + i * step, step / 10)));
  }
  const unit = { ...lines[0] };
  return el("figure", { class: "counter" },
    el("figcaption", null, title, el("span", { class: "top" }, ` up to ${levelText(unit, least * scale(unit))}`)), picture,
    el("ul", { class: "legend" }, lines.slice(0, 8).map((line, i) => el("li", null, el("span", { class: `swatch line-${i % 6}` }), lineName(line))),
      lines.length > 8 && el("li", null, `and ${lines.length - 8} more`)));
}

const levels = (key, title) => ({ key, title, number: true, text: (r) => levelText(r, r[key]) });

export function counters(report) {
  const all = report.counters;
  if (all.lines.length === 0 && all.reports_in_all === 0) {
    return el("p", { class: "empty" }, "The node's counters and its system monitor were not recorded: see the options counters and system_monitor.");
  }
  const span = [all.from_ns, all.to_ns];
  const charts = CHARTS.map(([title, names]) => [title, all.lines.filter((line) => names.includes(line.counter))
    .sort((a, b) => names.indexOf(a.counter) - names.indexOf(b.counter))]).filter(([, lines]) => lines.length > 0);
  return [
    el("div", { class: "counters" }, charts.map(([title, lines]) => lineChart(title, lines, span))),
    all.lines.length > 0 && table({
      caption: "Counters: lowest, mean, highest and last value", rows: all.lines, inAll: all.lines.length, sort: "samples", filter: lineName,
      columns: [levels("min", "Lowest"), levels("mean", "Mean"), levels("max", "Highest"), levels("last", "Last"), { key: "samples", title: "Samples", number: true, text: (r) => count(r.samples) },
        { key: "counter", title: "Counter", sort: lineName, text: (r) => lineName(r) + (r.unit === "ns" ? " (of one processor)" : r.per_second ? " per second" : "") }],
    }),
    el("h3", null, "The system monitor"),
    table({
      caption: "Reports of erlang:system_monitor/2, and notes about it", rows: all.reports, inAll: all.reports_in_all, sort: "value",
      filter: (r) => `${r.kind} ${r.process || ""}`, empty: "It reported nothing, or was not recorded.",
      columns: [{ key: "ns", title: "Time", number: true, text: (r) => since(r.ns) }, { key: "value", title: "Value", number: true, text: reported },
        { key: "kind", title: "Report", text: (r) => r.kind.replace(/_/g, " ") }, { key: "port", title: "Port", text: (r) => r.port || "–" },
        { key: "process", title: "Process", text: (r) => (r.process ? code(r.process) : "–") }],
    }),
  ];
}

function reported(r) {
  if (r.kind === "long_gc" || r.kind === "long_schedule") return `${count(r.value)}\u00a0ms`;
  if (r.kind === "large_heap") return `${count(r.value)}\u00a0words`;
  if (r.kind === "long_message_queue") return r.value > 0 ? "long" : "short again";
  return r.kind === "too_many" ? count(r.value) : "–";
}
