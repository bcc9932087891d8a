// SPDX-License-Identifier: Apache-2.0
// Assembles the page.

import { el, replace } from "./dom.js";
import { load } from "./data.js";
import { follow } from "./live.js";
import { answers, head } from "./answers.js";
import { flame } from "./flame.js";
import { timeline } from "./timeline.js";
import { counters } from "./counters.js";
import { about, collections, functions, mailboxes, processes, requests, schedulers, slowCalls } from "./sections.js";

function section(id, title, ...children) {
  return el("section", { id, "aria-labelledby": id + "-title" }, el("h2", { id: id + "-title", tabindex: "-1" }, title), children);
}

// Fills `page`, which is in the document.
function build(report, page) {
  const lanes = timeline(report);
  const stacks = flame(report);
  const show = (answer) => {
    lanes.showAnswer(answer);
    const heading = document.getElementById("timeline-title");
    heading.scrollIntoView();
    heading.focus({ preventScroll: true });
  };
  const slow = slowCalls(report);
  const sections = [
    ["answers", "Why", answers(report, show)],
    ["timeline", "Timeline", section("timeline", "Timeline", lanes.node)],
    ["flame", "Flame graph", section("flame", "Flame graph: where the time went", stacks.node)],
    ["functions", "Functions", section("functions", "Functions", functions(report))],
    ...(slow ? [["slow", "Slow calls", section("slow", "Slow calls", slow)]] : []),
    ["requests", "Requests", section("requests", "Requests", requests(report))],
    ["mailboxes", "Mailboxes", section("mailboxes", "Mailboxes", mailboxes(report))],
    ["processes", "Processes", section("processes", "Processes", processes(report))],
    ["collections", "Collections", section("collections", "Garbage collections", collections(report))],
    ["schedulers", "Schedulers", section("schedulers", "Schedulers", schedulers(report))],
    ["counters", "Counters", section("counters", "Counters of the node", counters(report))],
    ["about", "About", section("about", "About this recording", about(report))],
  ];
  document.title = `kymo ${report.live ? "live" : "report"}: ${report.recording.node || report.recording.recording}`;
  replace(page,
    el("a", { class: "skip", href: "#answers" }, "Skip to what was slow"),
    head(report),
    el("nav", { "aria-label": "Sections" }, el("ul", null, sections.map(([id, title]) => el("li", null, el("a", { href: "#" + id }, title))))),
    el("main", null, sections.map(([, , node]) => node)));
  stacks.draw();
  lanes.draw();
}

const report = load();
const page = el("div", { id: "report" });
if (report.recording) {
  document.body.append(page);
  build(report, page);
} else {
  follow(build, page);
}
