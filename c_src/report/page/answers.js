// SPDX-License-Identifier: Apache-2.0
// The first screen: whether the recording is complete, what was slow, and why.

import { count, date, duration, percent, plural, since } from "./format.js";
import { button, code, el } from "./dom.js";
import { CAUSES, lacks, phrase, process, shortcomings } from "./words.js";

const PARTS_SHOWN = 6;

function words(list) {
  return list.map((x) => (typeof x === "string" ? x : [code(x.name), x.pid && el("span", { class: "pid" }, " " + x.pid)]));
}

function sentence(part) {
  const list = phrase(part);
  if (typeof list[0] === "string") list[0] = list[0][0].toUpperCase() + list[0].slice(1);
  return [...words(list), "."];
}

export function health(report) {
  const problems = shortcomings(report);
  const missing = lacks(report);
  const unknown = missing.length > 0 && el("p", { class: "lacks" }, "Not recorded: ",
    missing.map(([events, what], i) => [i > 0 && "; ", el("strong", null, events), " – " + what]), ".");
  if (problems.length === 0) {
    return el("div", { class: "health good" }, el("p", null, el("strong", null, "Complete. "),
      report.part ? `Nothing was lost. The report covers the requested part of the recording: ${count(report.events)} events.`
        : `Nothing was lost: the report covers all ${count(report.events)} recorded events.`), unknown);
  }
  return el("div", { class: "health bad" }, el("p", null, el("strong", null, "Not complete. "),
    problems.map((text, i) => [i > 0 ? "; " : "", i === 0 ? text[0].toUpperCase() + text.slice(1) : text]), ". ",
    "Values that are unknown because of this are shown as –."), unknown);
}

export function head(report) {
  const r = report.recording;
  const ns = report.last_ns !== null ? report.last_ns - report.first_ns : 0;
  return el("header", null,
    el("p", { class: "brand" }, "kymo report"),
    el("h1", null, r.node || r.recording),
    el("p", { class: "facts" }, [
      `recorded ${date(r.start_unix_ns + Math.max(0, report.first_ns || 0))}`, duration(ns), plural(report.events, "event"),
      r.otp_release && "OTP " + r.otp_release, r.state,
    ].filter(Boolean).map((text) => el("span", null, text))),
    health(report));
}

function bar(why) {
  const label = why.parts.map((p) => `${percent(p.ns, why.total_ns)} ${CAUSES[p.cause]}`).join(", ");
  const node = el("div", { class: "bar", role: "img", "aria-label": label });
  for (const part of why.parts) {
    const piece = el("span", { class: "cause-" + part.cause, title: `${duration(part.ns)} ${CAUSES[part.cause]}` });
    piece.style.flexGrow = String(part.ns / Math.max(1, why.total_ns));
    node.append(piece);
  }
  return node;
}

function parts(why) {
  const shown = why.parts.slice(0, PARTS_SHOWN);
  const rest = why.parts.slice(PARTS_SHOWN);
  const sum = rest.reduce((a, p) => a + p.ns, 0);
  return el("table", { class: "parts" },
    el("caption", null, "The parts of this time, the largest first"),
    el("thead", null, el("tr", null, el("th", { scope: "col" }, "Share"), el("th", { scope: "col" }, "Time"),
      el("th", { scope: "col" }, "What happened"))),
    el("tbody", null,
      shown.map((p) => el("tr", null, el("td", { class: "number" }, percent(p.ns, why.total_ns)),
        el("td", { class: "number" }, duration(p.ns)),
        el("td", null, el("span", { class: "swatch cause-" + p.cause }), sentence(p)))),
      rest.length > 0 && el("tr", null, el("td", { class: "number" }, percent(sum, why.total_ns)),
        el("td", { class: "number" }, duration(sum)), el("td", null, plural(rest.length, "smaller part"), "."))));
}

function title(why) {
  if (why.kind === "request") {
    return ["A request to ", words([process(why.server, why.server_pid)]), " took ", el("strong", null, duration(why.total_ns))];
  }
  return [why.function === null ? "A call" : code(why.function), " took ", el("strong", null, duration(why.total_ns)),
    " in ", words([process(why.process, why.process_pid)])];
}

function context(answer) {
  const { why } = answer;
  const list = [];
  if (why.kind === "request") {
    list.push("Asked by ", words([process(why.process, why.process_pid)]));
    if (why.function !== null) list.push(", handled by ", code(why.function));
    list.push(`, sent at ${since(why.start_ns)}`);
  } else {
    list.push(`From ${since(why.start_ns)} on`);
  }
  if (answer.of > 1) {
    const kind = why.kind === "request" ? "requests" : "calls";
    list.push(`. It is the slowest of ${count(answer.of)} such ${kind}, which took ${duration(answer.of_ns / answer.of)} on average`);
  }
  return [...list, "."];
}

function verdict(why) {
  const first = why.parts[0];
  if (!first) return el("p", { class: "verdict" }, "Nothing in the recording says why.");
  const share = first.ns / Math.max(1, why.total_ns);
  return el("p", { class: "verdict" }, el("strong", null,
    share > 0.99 ? "All of the time: " : share >= 0.5 ? `${percent(first.ns, why.total_ns)} of the time: ` : `The largest part, ${percent(first.ns, why.total_ns)}: `),
  words(phrase(first)), ".");
}

function details(answer, show) {
  const { why } = answer;
  return [
    el("p", { class: "context" }, context(answer)),
    bar(why), parts(why),
    why.cut && el("p", { class: "note" }, "There was too much activity during this time: the explanation leaves some of it out."),
    button("Show it in the timeline", () => show(answer), { class: "primary" }),
  ];
}

// `show` is called with the answer to show in the timeline.
export function answers(report, show) {
  const section = el("section", { id: "answers", "aria-labelledby": "answers-title" },
    el("h2", { id: "answers-title" }, "What was slow, and why"));
  if (report.answers.length === 0) {
    section.append(el("p", { class: "empty" }, report.events === 0
      ? "The recording has no events, so there is nothing to explain."
      : "The recording has no request with a reply and no call with a known end, so there is nothing to explain. "
        + "Record messages, or calls with return_to.",
      report.slow_calls && [" See the ", el("a", { href: "#slow" }, "slow calls"), "."]));
    return section;
  }
  report.answers.forEach((answer, i) => {
    const heading = [`${i + 1}. `, title(answer.why)];
    if (i === 0) {
      section.append(el("article", { class: "answer first", id: "cause" },
        el("h3", null, heading), verdict(answer.why), details(answer, show)));
    } else {
      section.append(el("details", { class: "answer" },
        el("summary", null, el("h3", null, heading), verdict(answer.why)), details(answer, show)));
    }
  });
  return section;
}
