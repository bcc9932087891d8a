// SPDX-License-Identifier: Apache-2.0
// Tables that sort and filter. A column: { key, title, text(row), sort(row), number }.

import { count } from "./format.js";
import { button, el, replace } from "./dom.js";

const FIRST = 15;

function value(column, row) {
  const v = column.sort ? column.sort(row) : row[column.key];
  return v === null || v === undefined ? -Infinity : v;
}

function compare(column, up) {
  return (a, b) => {
    const x = value(column, a);
    const y = value(column, b);
    const order = x < y ? -1 : x > y ? 1 : 0;
    return up ? order : -order;
  };
}

// options: caption, columns, rows, sort (key), filter (the text of a row to search; a search field
// is shown if there are many rows), inAll (the number of rows before the cut), empty (a text).
export function table(options) {
  const state = { key: options.sort, up: false, all: false, text: "" };
  const body = el("tbody");
  const more = el("p", { class: "more" });
  const heads = options.columns.map((column) => {
    const press = () => {
      state.up = state.key === column.key ? !state.up : !column.number;
      state.key = column.key;
      draw();
    };
    const head = el("th", { scope: "col", class: column.number ? "number" : null });
    head.append(button(column.title, press, { class: "sort", title: column.hint || null }));
    return head;
  });

  function draw() {
    const column = options.columns.find((c) => c.key === state.key) || options.columns[0];
    const wanted = state.text.toLowerCase();
    const rows = options.rows.filter((r) => !wanted || options.filter(r).toLowerCase().includes(wanted));
    rows.sort(compare(column, state.up));
    const shown = state.all ? rows : rows.slice(0, FIRST);
    heads.forEach((head, i) => {
      const mine = options.columns[i] === column;
      head.setAttribute("aria-sort", !mine ? "none" : state.up ? "ascending" : "descending");
    });
    replace(body, shown.map((row) => el("tr", null, options.columns.map((c, i) =>
      el(i === options.columns.length - 1 && !c.number ? "th" : "td", {
        class: c.number ? "number" : null, scope: i === options.columns.length - 1 && !c.number ? "row" : null,
      }, c.text(row))))));
    const left = rows.length - shown.length;
    replace(more,
      left > 0 && button(`Show all ${count(rows.length)}`, () => { state.all = true; draw(); }),
      options.inAll > options.rows.length && ` The report has ${count(options.rows.length)} of ${count(options.inAll)} rows.`);
  }

  if (options.rows.length === 0) return el("p", { class: "empty" }, options.empty || "There are none.");
  draw();
  const search = options.filter && options.rows.length > FIRST && el("input", {
    type: "search", placeholder: "Filter by name", "aria-label": "Filter: " + options.caption,
  });
  if (search) search.addEventListener("input", () => { state.text = search.value; draw(); });
  return el("div", { class: "table" }, search,
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": options.caption },
      el("table", null, el("caption", null, options.caption), el("thead", null, el("tr", null, heads)), body)),
    more);
}
