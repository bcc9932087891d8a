// SPDX-License-Identifier: Apache-2.0
// The flame graph: time by stack. Frames are elements, so that the keyboard and screen
// readers reach them; those narrower than a pixel are not drawn.

import { count, duration, percent } from "./format.js";
import { button, code, el, replace } from "./dom.js";
import { tree } from "./data.js";
import { table } from "./table.js";

const ROW = 20;
const HUES = 6;

function hue(name) {
  if (name === "(garbage collection)") return "gc";
  let h = 7;
  for (let i = 0; i < name.length && name[i] !== ":"; i++) h = (h * 31 + name.charCodeAt(i)) >>> 0;
  return h % HUES;
}

// Self and total time of each function below a node. The total of recursive calls is that of the
// outermost one.
export function sums(top, nameOf) {
  const rows = new Map();
  const open = new Map();
  const visit = (node) => {
    const name = nameOf(node);
    const isFrame = node.depth > 1 && node.name !== -1;
    if (isFrame) {
      const row = rows.get(name) || { name, self: 0, total: 0, calls: 0 };
      rows.set(name, row);
      row.self += node.self;
      row.calls += node.calls;
      if (!open.get(name)) row.total += node.total;
      open.set(name, (open.get(name) || 0) + 1);
    }
    node.children.forEach(visit);
    if (isFrame) open.set(name, open.get(name) - 1);
  };
  visit(top);
  return [...rows.values()];
}

export function flame(report) {
  const own = report.has.running ? ["running", "self"] : ["self"];
  const trees = Object.fromEntries(["role", "process"].flatMap((by) => own.map((o) => [by + o, tree(report.flame[by], o)])));
  const state = { by: "role", own: own[0], zoom: null, text: "", focus: null };
  const whole = () => trees[state.by + state.own];
  state.zoom = whole();
  const nameOf = (node) => (node.parent === null ? "all" : node.name < 0 ? "(many small ones)" : report.names[node.name]);
  const frames = el("div", { class: "flame", role: "tree", "aria-label": "Flame graph" });
  const said = el("p", { class: "said", "aria-live": "polite" });
  const found = el("span", { class: "found", "aria-live": "polite" });
  const sumsPlace = el("div");
  const search = el("input", { type: "search", placeholder: "Search functions", "aria-label": "Search functions in the flame graph" });
  let elements = new Map();

  const describe = (node) => `${nameOf(node)}: total ${duration(node.total)}, ${percent(node.total, whole().total)} of all; `
    + `self ${duration(node.self)}${node.depth > 1 ? `; ${count(node.calls)} calls` : ""}`;

  function say(node) {
    replace(said, code(nameOf(node)), ` – total ${duration(node.total)} (${percent(node.total, whole().total)} of all, `
      + `${percent(node.total, state.zoom.total)} of what is shown), self ${duration(node.self)}`,
    node.depth > 1 && node.name >= 0 && `, ${count(node.calls)} calls`);
  }

  function zoomTo(node) {
    state.zoom = node;
    state.focus = node;
    draw();
  }

  function place(node, left, width, row, matches) {
    const name = nameOf(node);
    const match = matches && name.toLowerCase().includes(state.text);
    const frame = el("div", {
      class: `frame hue-${hue(name)}${match ? " match" : ""}${matches && !match ? " dim" : ""}`,
      role: "treeitem", tabindex: "-1", "aria-level": row + 1, "aria-label": describe(node),
      "aria-expanded": node.children.length > 0 ? "true" : null, title: describe(node),
    }, name);
    frame.style.left = (100 * left).toFixed(4) + "%";
    frame.style.width = (100 * width).toFixed(4) + "%";
    frame.style.top = row * ROW + "px";
    frame.addEventListener("click", () => zoomTo(node));
    frame.addEventListener("mouseenter", () => say(node));
    frame.addEventListener("focus", () => { state.focus = node; roving(); say(node); });
    elements.set(node, frame);
    frames.append(frame);
    return match;
  }

  function roving() {
    for (const [node, frame] of elements) frame.setAttribute("tabindex", node === state.focus ? "0" : "-1");
  }

  function draw() {
    const hadFocus = frames.contains(document.activeElement);
    const pixel = 1 / Math.max(300, frames.clientWidth);
    const matches = state.text !== "";
    let depth = 0;
    let matched = 0;
    elements = new Map();
    frames.replaceChildren();
    const path = [];
    for (let n = state.zoom; n !== null; n = n.parent) path.unshift(n);
    path.forEach((node, row) => place(node, 0, 1, row, matches));
    const below = (node, left, row, inMatch) => {
      let at = left;
      depth = Math.max(depth, row);
      for (const child of node.children) {
        const width = child.total / Math.max(1, state.zoom.total);
        if (width < pixel) break; // the largest come first
        const match = place(child, at, width, row, matches);
        if (match && !inMatch) matched += child.total;
        below(child, at, row + 1, inMatch || match);
        at += width;
      }
    };
    below(state.zoom, 0, path.length, false);
    frames.style.height = (Math.max(depth, path.length) + 1) * ROW + "px";
    if (!elements.has(state.focus)) state.focus = state.zoom;
    roving();
    if (hadFocus) elements.get(state.focus).focus();
    replace(found, matches && `${percent(matched, state.zoom.total)} of what is shown is in functions that match`);
    say(state.zoom);
    replace(sumsPlace, table({
      caption: `Self and total time in ${nameOf(state.zoom)}`, sort: "self", filter: (r) => r.name,
      rows: sums(state.zoom, nameOf), empty: "No calls with a known end.",
      columns: [
        { key: "self", title: "Self", number: true, text: (r) => duration(r.self) },
        { key: "total", title: "Total", number: true, text: (r) => duration(r.total) },
        { key: "share", title: "Self share", number: true, sort: (r) => r.self, text: (r) => percent(r.self, state.zoom.total) },
        { key: "calls", title: "Calls", number: true, text: (r) => count(r.calls) },
        { key: "name", title: "Function", text: (r) => code(r.name) },
      ],
    }));
  }

  const drawn = (node) => node && elements.has(node);
  function neighbour(node, step) {
    const all = node.parent ? node.parent.children : [];
    return all[all.indexOf(node) + step];
  }

  frames.addEventListener("keydown", (event) => {
    const node = state.focus;
    let to = null;
    if (event.key === "ArrowDown") [to] = node.children;
    else if (event.key === "ArrowUp") to = node.parent;
    else if (event.key === "ArrowRight") to = neighbour(node, 1);
    else if (event.key === "ArrowLeft") to = neighbour(node, -1);
    else if (event.key === "Home") to = state.zoom;
    else if (event.key === "Enter" || event.key === " ") zoomTo(node);
    else if (event.key === "Escape") zoomTo(state.zoom.parent || state.zoom);
    else return;
    event.preventDefault();
    if (drawn(to)) elements.get(to).focus();
  });
  search.addEventListener("input", () => { state.text = search.value.toLowerCase(); draw(); });

  // A group of buttons, one of which is pressed.
  function choice(key, values) {
    const buttons = values.map(([value, title]) => button(title, () => {
      state[key] = value;
      buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(values[i][0] === value)));
      zoomTo(whole());
    }, { "aria-pressed": String(state[key] === value) }));
    return el("span", { class: "choice" }, buttons);
  }

  if (trees.roleself.total === 0) {
    return { node: el("p", { class: "empty" }, "No call has a known end: record calls with return_to or return events."), draw() {} };
  }
  const node = el("div", null,
    el("div", { class: "tools" }, choice("by", [["role", "By role"], ["process", "By process"]]),
      own.length > 1 && choice("own", [["running", "Time scheduled in"], ["self", "Wall clock"]]),
      button("Show all", () => zoomTo(whole())), search, found),
    el("p", { class: "hint" }, "The width is time; with the wall clock, this includes waiting. Press a frame to zoom in on it. Keys: arrows move, Enter zooms in, Escape zooms out."),
    frames, said, sumsPlace);
  return { node, draw };
}
