// SPDX-License-Identifier: Apache-2.0
// Numbers and times as text. null is "not known", as in the JSON of the command.

export const UNKNOWN = "–";

// With the same digits as the command prints: 1.23 ms, 12.3 ms, 123 ms.
export function duration(ns) {
  if (ns === null || ns === undefined) return UNKNOWN;
  const v = Math.abs(ns);
  const sign = ns < 0 ? "-" : "";
  for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (v >= size * 0.9995) {
      const x = v / size;
      const digits = x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2;
      return sign + x.toFixed(digits) + "\u00a0" + unit;
    }
  }
  return sign + Math.round(v) + "\u00a0ns";
}

export function count(n) {
  if (n === null || n === undefined) return UNKNOWN;
  return String(n).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

export function percent(part, whole) {
  if (!(whole > 0)) return UNKNOWN;
  const p = (100 * part) / whole;
  if (p > 0 && p < 0.05) return "<\u00a00.1\u00a0%";
  return (p >= 99.95 || p === 0 ? p.toFixed(0) : p >= 10 ? p.toFixed(0) : p.toFixed(1)) + "\u00a0%";
}

// A time since the start of the recording, with the digits that a step of `step` ns needs.
export function since(ns, step) {
  if (ns === null || ns === undefined) return UNKNOWN;
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10((step || 1e6) / 1e9))));
  return (ns / 1e9).toFixed(digits) + "\u00a0s";
}

export function plural(n, one, many) {
  return count(n) + "\u00a0" + (n === 1 ? one : many || one + "s");
}

export function date(unixNs) {
  return new Date(unixNs / 1e6).toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");
}

// 1, 2 or 5 times a power of ten, at least `min`.
export function roundStep(min) {
  const power = 10 ** Math.floor(Math.log10(min));
  for (const f of [1, 2, 5, 10]) if (f * power >= min * 0.999999) return f * power;
  return 10 * power;
}
