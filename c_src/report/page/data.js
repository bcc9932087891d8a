// SPDX-License-Identifier: Apache-2.0
// The data of the report: JSON in an element of the page.

export function load() {
  return JSON.parse(document.getElementById("data").textContent);
}

// Converts columns, with `start` relative to the previous row, to rows with absolute times.
export function stretches(columns) {
  const rows = [];
  let at = 0;
  for (let i = 0; i < columns.start.length; i++) {
    at += columns.start[i];
    const row = { start: at, end: at + columns.ns[i], ns: columns.ns[i] };
    for (const key of ["lane", "other", "name", "depth", "first", "second"]) {
      if (columns[key]) row[key] = columns[key][i];
    }
    rows.push(row);
  }
  return rows;
}

// The frames of a flame graph as a tree below one root; the largest children first. `own` is
// the column with the own time: self, or running.
export function tree(columns, own) {
  const root = { name: "all", parent: null, children: [], self: 0, calls: 0, total: 0, depth: 0 };
  const nodes = columns.parent.map((parent, i) => ({
    name: columns.name[i], parent, children: [], self: columns[own][i], calls: columns.calls[i],
    total: columns[own][i], depth: 0,
  }));
  for (const node of nodes) {
    node.parent = node.parent < 0 ? root : nodes[node.parent];
    node.parent.children.push(node);
  }
  const visit = (node) => {
    for (const child of node.children) {
      child.depth = node.depth + 1;
      visit(child);
      node.total += child.total;
    }
    node.children.sort((a, b) => b.total - a.total);
  };
  visit(root);
  return root;
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Shares from 0 to 1, one for each of the equal parts of the recording.
export function shares(text) {
  return text === null ? null : Float32Array.from(text, (c) => DIGITS.indexOf(c) / 63);
}
