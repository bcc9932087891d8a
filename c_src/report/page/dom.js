// SPDX-License-Identifier: Apache-2.0
// Creates elements from data. Text becomes text nodes only: no name of a recording is ever parsed
// as HTML, and no attribute that runs a script can be set.

const ATTRIBUTES = /^(id|class|href|for|type|value|placeholder|title|role|scope|colspan|tabindex|width|height|open|viewBox|x|y|d|hidden|aria-[a-z]+|data-[a-z]+)$/;

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (!ATTRIBUTES.test(name)) throw new Error("attribute " + name);
    if (name === "href" && !value.startsWith("#")) throw new Error("link out of the page");
    node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

export function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

export function button(text, onClick, attributes) {
  const b = el("button", { type: "button", ...attributes }, text);
  b.addEventListener("click", onClick);
  return b;
}

// Puts a possible line break behind each : . / and _ so that long names can wrap.
export function code(name, attributes) {
  const node = el("code", attributes);
  for (const piece of String(name).split(/(?<=[:./_,])/)) node.append(piece, document.createElement("wbr"));
  return node;
}

export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
}

// The value of a colour that the style sheet defines for the present theme.
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

let themeWatchers = [];
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => themeWatchers.forEach((f) => f()));

export function onThemeChange(f) {
  themeWatchers.push(f);
}

// Called before the elements that they draw are removed.
export function forgetThemeWatchers() {
  themeWatchers = [];
}
