// SPDX-License-Identifier: Apache-2.0
// The timeline: a lane for each process, zoomed with buttons, keys, wheel and drag. A table below
// it has the same data.

import { count, duration, roundStep, since } from "./format.js";
import { button, code, color, el, onThemeChange, replace } from "./dom.js";
import { shares } from "./data.js";
import { Rows } from "./stretches.js";
import { table } from "./table.js";

const AXIS = 26;
const BAND = 12; // running and collections
const CALL = 12; // one row of calls
const CALL_ROWS = 3;
const LANE = BAND + CALL * CALL_ROWS + 8;
const LANES_FIRST = 10;
const LANES_MORE = 15;
const ARROWS = 250;
const KINDS = { calls: "call", runs: "run", requests: "request", messages: "message", collections: "collection" };

export function timeline(report) {
  const t = report.timeline;
  const rows = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, new Rows(t[kind])]));
  const lanes = t.lanes.map((lane, index) => ({ ...lane, index,
    running: shares(lane.running), calls: shares(lane.calls), gc: shares(lane.gc) }));
  let order = lanes;
  const nameOf = (index) => (index >= 0 ? report.names[index] : "?");
  const laneName = (lane) => (lane.process === null ? `${count(lane.processes)} other processes` : lane.process);
  const full = { from: t.first_ns, to: Math.max(t.last_ns, t.first_ns + 1000) };
  const state = { from: full.from, to: full.to, lanes: LANES_FIRST, text: "", path: null, arrows: true, drag: null };
  let hits = [];

  const canvas = el("canvas", { tabindex: "0", role: "application",
    "aria-label": "Timeline of processes. Keys: left and right move, plus and minus zoom, 0 shows all. The table below has what is in view." });
  const labels = el("ul", { class: "lanes", "aria-label": "Processes of the timeline" });
  const said = el("p", { class: "said", "aria-live": "polite" });
  const range = el("span", { class: "range", "aria-live": "polite" });
  const more = el("p", { class: "more" });
  const listPlace = el("div");
  const list = el("details", null, el("summary", null, "What is in view, as a table"), listPlace);
  const search = el("input", { type: "search", placeholder: "Filter processes", "aria-label": "Filter the processes of the timeline" });
  const arrows = el("input", { type: "checkbox", id: "arrows" });
  arrows.checked = true;

  const span = () => state.to - state.from;
  const width = () => canvas.clientWidth;
  const x = (ns) => ((ns - state.from) / span()) * width();

  function shownLanes() {
    const wanted = state.text.toLowerCase();
    const all = order.filter((lane) => !wanted || `${laneName(lane)} ${lane.process_pid} ${lane.role}`.toLowerCase().includes(wanted));
    return { all, shown: all.slice(0, state.lanes) };
  }

  function show(from, to) {
    const least = 1000; // ns
    const length = Math.min(Math.max(to - from, least), full.to - full.from);
    state.from = Math.max(full.from, Math.min(from, full.to - length));
    state.to = state.from + length;
    draw();
  }

  function zoom(factor, at) {
    const middle = at === undefined ? state.from + span() / 2 : at;
    show(middle - (middle - state.from) * factor, middle + (state.to - middle) * factor);
  }

  const move = (share) => show(state.from + share * span(), state.to + share * span());

  // ---- drawing ----

  function axis(g, height) {
    const step = roundStep(span() / Math.max(2, width() / 110));
    g.font = "11px system-ui, sans-serif";
    g.textBaseline = "middle";
    for (let ns = Math.ceil(state.from / step) * step; ns <= state.to; ns += step) {
      g.fillStyle = color("line");
      g.fillRect(Math.round(x(ns)), 18, 1, height);
      g.fillStyle = color("muted");
      g.fillText(since(ns, step), Math.round(x(ns)) + 3, 9);
    }
  }

  // The overview: shares of equal parts of the recording.
  function band(g, part, top, style) {
    if (part === null) return;
    const each = (full.to - full.from) / part.length;
    g.fillStyle = style;
    for (let i = Math.max(0, Math.floor((state.from - full.from) / each)); i < part.length; i++) {
      const left = x(full.from + i * each);
      if (left > width()) break;
      if (part[i] === 0) continue;
      const height = Math.max(2, BAND * part[i]);
      g.globalAlpha = 0.55;
      g.fillRect(left, top + BAND - height, x(full.from + (i + 1) * each) - left + 0.5, height);
    }
    g.globalAlpha = 1;
  }

  function box(g, row, kind, top, height, style) {
    const left = Math.max(-2, x(row.start));
    const right = Math.min(width() + 2, x(row.end));
    g.fillStyle = style;
    g.fillRect(left, top, Math.max(1, right - left), height);
    hits.push({ left: left - 1, right: Math.max(left + 2, right + 1), top, bottom: top + height, row, kind });
    return right - left;
  }

  function label(g, text, row, top, height) {
    const left = Math.max(0, x(row.start)) + 3;
    const room = Math.min(width(), x(row.end)) - left - 3;
    if (room < 24) return;
    g.save();
    g.beginPath();
    g.rect(left, top, room, height);
    g.clip();
    g.fillStyle = color("on-call");
    g.fillText(text, left, top + height / 2 + 0.5);
    g.restore();
  }

  function arrow(g, fromX, fromY, toX, toY, style) {
    g.strokeStyle = style;
    g.fillStyle = style;
    g.beginPath();
    g.moveTo(fromX, fromY);
    const bend = Math.max(8, Math.min(60, Math.abs(toX - fromX) / 2));
    g.bezierCurveTo(fromX + bend, fromY, toX - bend, toY, toX, toY);
    g.stroke();
    g.beginPath();
    g.moveTo(toX, toY);
    g.lineTo(toX - 5, toY - 3);
    g.lineTo(toX - 5, toY + 3);
    g.fill();
  }

  function drawArrows(g, top) {
    const longest = (kind) => rows[kind].within(state.from, state.to)
      .filter((r) => top.has(r.lane) && top.has(r.other)).sort((a, b) => b.ns - a.ns).slice(0, ARROWS);
    const middle = (lane) => top.get(lane) + BAND + 4;
    g.globalAlpha = 0.5;
    for (const r of longest("messages")) arrow(g, x(r.start), middle(r.lane), x(r.end), middle(r.other), color("message"));
    g.globalAlpha = 0.9;
    for (const r of longest("requests")) {
      const handled = r.first === null ? r.end : r.start + r.first;
      arrow(g, x(r.start), middle(r.lane), x(handled), middle(r.other), color("request"));
      if (r.second !== null) arrow(g, x(r.start + r.second), middle(r.other), x(r.end), middle(r.lane), color("reply"));
    }
    g.globalAlpha = 1;
  }

  function drawPath(g, top) {
    if (!state.path) return;
    for (const step of state.path) {
      if (!top.has(step.lane)) continue;
      const left = x(step.start);
      g.fillStyle = color("cause-" + step.cause);
      g.fillRect(left, top.get(step.lane) + LANE - 7, Math.max(1, x(step.end) - left), 5);
    }
  }

  function draw() {
    const { all, shown } = shownLanes();
    const height = AXIS + shown.length * LANE;
    const scale = window.devicePixelRatio || 1;
    canvas.style.height = height + "px";
    canvas.width = Math.max(1, Math.round(width() * scale));
    canvas.height = Math.round(height * scale);
    const g = canvas.getContext("2d");
    g.scale(scale, scale);
    hits = [];
    axis(g, height);
    const top = new Map(shown.map((lane, i) => [lane.index, AXIS + i * LANE]));
    shown.forEach((lane, i) => {
      g.fillStyle = color("line");
      g.fillRect(0, AXIS + i * LANE - 2, width(), 1);
      band(g, lane.running || lane.calls, AXIS + i * LANE, color("cause-running"));
      band(g, lane.gc, AXIS + i * LANE, color("cause-gc"));
    });
    for (const row of rows.runs.within(state.from, state.to)) {
      if (top.has(row.lane)) box(g, row, "runs", top.get(row.lane), BAND, color("cause-running"));
    }
    for (const row of rows.collections.within(state.from, state.to)) {
      if (top.has(row.lane)) box(g, row, "collections", top.get(row.lane), BAND, color("cause-gc"));
    }
    g.font = "10px system-ui, sans-serif";
    for (const row of rows.calls.within(state.from, state.to)) {
      if (!top.has(row.lane) || row.depth >= CALL_ROWS) continue;
      const y = top.get(row.lane) + BAND + row.depth * CALL + 1;
      box(g, row, "calls", y, CALL - 1, color("call-" + (row.depth % 3)));
      label(g, nameOf(row.name), row, y, CALL - 1);
    }
    if (state.arrows) drawArrows(g, top);
    drawPath(g, top);
    replace(labels, shown.map((lane) => el("li", null, code(laneName(lane)),
      lane.process_pid && lane.process_pid !== lane.process && el("span", { class: "pid" }, " " + lane.process_pid))));
    replace(range, `${since(state.from, span() / 100)} to ${since(state.to, span() / 100)} (${duration(span())})`);
    replace(more, all.length > shown.length && button(`Show ${Math.min(LANES_MORE, all.length - shown.length)} more of ${count(all.length)} processes`,
      () => { state.lanes += LANES_MORE; draw(); }));
    if (list.open) drawTable();
  }

  function drawTable() {
    const all = Object.keys(KINDS).flatMap((kind) => rows[kind].within(state.from, state.to).map((row) => ({ ...row, kind })));
    replace(listPlace, table({
      caption: `The longest between ${since(state.from, span() / 100)} and ${since(state.to, span() / 100)}`,
      sort: "ns", filter: (r) => `${laneName(lanes[r.lane])} ${what(r)}`, rows: all, columns: [
        { key: "start", title: "Start", number: true, text: (r) => since(r.start, 1000) },
        { key: "ns", title: "Time", number: true, text: (r) => duration(r.ns) },
        { key: "kind", title: "Kind", text: (r) => KINDS[r.kind] },
        { key: "lane", title: "Process", sort: (r) => laneName(lanes[r.lane]), text: (r) => code(laneName(lanes[r.lane])) },
        { key: "what", title: "What", sort: what, text: (r) => code(what(r)) },
      ],
    }));
  }

  function what(row) {
    if (row.kind === "collections") return (row.depth ? "major" : "minor") + " collection";
    if (row.kind === "messages") return "to " + (row.other >= 0 ? laneName(lanes[row.other]) : "a process without a lane");
    if (row.kind === "requests") {
      return "to " + (row.other >= 0 ? laneName(lanes[row.other]) : "a process without a lane") + (row.name >= 0 ? " " + nameOf(row.name) : "");
    }
    return row.name >= 0 ? nameOf(row.name) : "?";
  }

  // ---- input ----

  function at(event) {
    const r = canvas.getBoundingClientRect();
    return { px: event.clientX - r.left, py: event.clientY - r.top };
  }

  function hit(event) {
    const { px, py } = at(event);
    for (let i = hits.length - 1; i >= 0; i--) {
      const h = hits[i];
      if (px >= h.left && px <= h.right && py >= h.top && py <= h.bottom) return h;
    }
    return null;
  }

  function say(h) {
    if (!h) return;
    replace(said, `${duration(h.row.ns)} ${KINDS[h.kind]} `, code(what({ ...h.row, kind: h.kind })), " in ",
      code(laneName(lanes[h.row.lane])), ` at ${since(h.row.start, 1000)}`);
  }

  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && Math.abs(event.deltaY) >= Math.abs(event.deltaX)) return; // the page scrolls
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY / 300), state.from + (at(event).px / width()) * span());
    else move(event.deltaX / width());
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    state.drag = { px: at(event).px, from: state.from, to: state.to, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!state.drag) {
      say(hit(event));
      return;
    }
    const by = ((state.drag.px - at(event).px) / width()) * (state.drag.to - state.drag.from);
    state.drag.moved = state.drag.moved || Math.abs(state.drag.px - at(event).px) > 3;
    if (state.drag.moved) show(state.drag.from + by, state.drag.to + by);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (state.drag && !state.drag.moved) say(hit(event));
    state.drag = null;
  });
  canvas.addEventListener("pointercancel", () => { state.drag = null; });
  canvas.addEventListener("dblclick", (event) => zoom(0.4, state.from + (at(event).px / width()) * span()));
  canvas.addEventListener("keydown", (event) => {
    const keys = { ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5),
      "-": () => zoom(2), "0": () => show(full.from, full.to), Home: () => show(full.from, full.from + span()),
      End: () => show(full.to - span(), full.to) };
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  search.addEventListener("input", () => { state.text = search.value; state.lanes = LANES_FIRST; draw(); });
  arrows.addEventListener("change", () => { state.arrows = arrows.checked; draw(); });
  list.addEventListener("toggle", () => { if (list.open) drawTable(); });
  onThemeChange(draw);
  new ResizeObserver(() => canvas.isConnected && draw()).observe(canvas);

  // Shows the time of an answer, its path, and its processes.
  function showAnswer({ why }) {
    const byPid = new Map(lanes.map((lane) => [lane.process_pid, lane.index]));
    state.path = why.path.map((s) => ({ cause: s.cause, start: s.start_ns, end: s.start_ns + s.ns, lane: byPid.get(s.process_pid) }));
    const wanted = new Set([why.process_pid, why.server_pid, ...why.parts.map((p) => p.process_pid)].filter((pid) => pid !== null));
    order = [...lanes].sort((a, b) => wanted.has(b.process_pid) - wanted.has(a.process_pid) || a.index - b.index);
    state.text = search.value = "";
    show(why.start_ns - why.total_ns * 0.1, why.start_ns + why.total_ns * 1.1);
  }

  if (t.lanes.length === 0) {
    return { node: el("p", { class: "empty" }, "The recording shows no activity of processes."), showAnswer() {}, draw() {} };
  }
  const kept = Object.keys(KINDS).filter((kind) => rows[kind].inAll > 0)
    .map((kind) => `${count(rows[kind].list.length)} of ${count(rows[kind].inAll)} ${kind}`);
  const node = el("div", null,
    el("div", { class: "tools" },
      button("Zoom in", () => zoom(0.5)), button("Zoom out", () => zoom(2)),
      button("Earlier", () => move(-0.5)), button("Later", () => move(0.5)),
      button("Show all", () => { state.path = null; show(full.from, full.to); }), search,
      el("label", { for: "arrows", class: "check" }, arrows, "Messages and requests"), range),
    el("p", { class: "hint" }, "Upper band: how much the process ran (blue) and collected garbage (orange). Below: its calls, outermost first; "
      + "and, for the answer that is shown, its path in the colours of the causes. "
      + "Drag to move, Ctrl and the wheel or a double click to zoom. Keys: arrows, + and −, 0."),
    el("div", { class: "chart" }, labels, canvas), said, more, list,
    el("p", { class: "note" }, `The timeline has the longest ones of the whole recording, and of each of 480 parts of its time: ${kept.join(", ")}. `
      + "The bands include all events."));
  return { node, showAnswer, draw };
}
