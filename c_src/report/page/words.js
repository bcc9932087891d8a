// SPDX-License-Identifier: Apache-2.0
// Describes the causes of kymo why in words. A phrase is an array of texts and of { name, pid },
// for names that come from the recorded program.

import { count, duration } from "./format.js";

export const CAUSES = {
  running: "running", running_dirty: "running on a dirty scheduler", gc: "collecting garbage",
  queue: "waiting in a mailbox", scheduler: "waiting for a scheduler",
  dirty_queue: "waiting for a dirty scheduler", port: "waiting for a port", timer: "waiting for a timer",
  suspended: "suspended", node: "no process of the node ran", active: "running or waiting",
  network: "on the way between nodes", stopped: "all schedulers stopped",
  unknown: "not known",
};

const name = (text) => ({ name: text === null ? "?" : text });
// A process, with its pid unless the name is the pid.
export const process = (text, pid) => ({ name: text === null ? "?" : text, pid: pid === text ? null : pid });
const busy = (p) => process(p.process, p.process_pid);
const blamed = (p) => process(p.blame, p.blame_pid);

function mostlyIn(part, words) {
  if (part.function === null) return [];
  return [words, name(part.function), part.function_ns > 0 ? ` (${duration(part.function_ns)})` : ""];
}

function instead(part) {
  if (part.blame === null || part.blame_ns === 0) return [];
  return ["; ", blamed(part), " ran instead, for " + duration(part.blame_ns)];
}

// What took most of the time of the requests before this one.
function heldUp(part) {
  if (part.held_up === undefined) return [];
  return ["; for " + duration(part.held_up.ns) + " of that ", ...phrase(part.held_up)];
}

const PHRASES = {
  running: (p) => [busy(p), " was running", ...mostlyIn(p, ", mostly in ")],
  running_dirty: (p) => [busy(p), " was running on a dirty scheduler", ...mostlyIn(p, ", mostly in ")],
  active: (p) => [busy(p), " was busy", ...mostlyIn(p, ", mostly in "),
    "; whether it ran or waited was not recorded"],
  gc: (p) => [busy(p), " collected garbage", p.stretches > 1 ? `, ${count(p.stretches)} times` : ""],
  queue: (p) => ["the request waited in the mailbox of ", busy(p), p.requests > 0
    ? ` behind ${count(p.requests)} other request${p.requests === 1 ? "" : "s"}` : "",
  ...heldUp(p)],
  scheduler: (p) => [busy(p), " could run but waited for a scheduler", ...instead(p)],
  dirty_queue: (p) => [busy(p), " waited for a dirty scheduler",
    ...mostlyIn({ ...p, function_ns: 0 }, " to run "), ...instead(p)],
  port: (p) => [busy(p), " waited for ", p.blame !== null ? blamed(p) : "a port"],
  timer: (p) => [busy(p), " waited for a time to pass", ...mostlyIn({ ...p, function_ns: 0 }, ", in ")],
  suspended: (p) => [busy(p), " was suspended by ", blamed(p)],
  stopped: (p) => [busy(p), " could run while all schedulers were stopped: ", blamed(p)],
  node: (p) => [busy(p), " could run, but no process of the node ran"],
  network: (p) => ["messages to ", busy(p), " were on their way from another node, or it waited for a scheduler"],
  unknown: (p) => ["nothing in the recording says what ", busy(p), " waited for"],
};

export function phrase(part) {
  return (PHRASES[part.cause] || PHRASES.unknown)(part).filter((x) => x !== "");
}

// Some of what a budget has shed, and when: kinds of events first, which matter most.
function leftOut(shed) {
  const last = new Map();
  // All calls are left out only while functions are being shed.
  for (const s of shed) if (s.events !== "calls") last.set(s.function || s.events, s);
  const all = [...last.values()].sort((a, b) => ("function" in a) - ("function" in b))
    .map((s) => `${s.function || s.events} ${s.to_ns === null ? `from ${(s.from_ns / 1e9).toFixed(3)} s on` : "for a while"}`);
  if (all.length === 0) return "functions without a name";
  return all.slice(0, 3).join(", ") + (all.length > 3 ? ` and ${count(all.length - 3)} more` : "");
}

// What is missing from the recording, one phrase each; empty if it is complete.
export function shortcomings(report) {
  const r = report.recording;
  const list = [];
  if (r.lost_total > 0) list.push(`${count(r.lost_total)} events were lost while recording`);
  if (!r.whole) {
    list.push(`older events were overwritten: it is complete from ${(r.complete_from_ns / 1e9).toFixed(3)} s on`);
  }
  const { events_missing: missing, ...damage } = r.damage;
  if (missing > 0) list.push(`${count(missing)} recorded events are missing: files of the recording were removed or cut`);
  if (Object.values(damage).some((n) => n > 0)) list.push("its files are damaged: unreadable parts are left out");
  if (r.taken > 0) list.push("another tracer removed trace flags or patterns of the recorder");
  if (r.budget !== null && (r.budget.shed.length > 0 || r.budget.without_name > 0)) {
    list.push(`the recorder left out ${leftOut(r.budget.shed)}, to keep its budget`);
  }
  for (const { not_recorded: what, fixed_in: fixed } of r.measures) {
    if (what !== null) list.push(`faults of the runtime: ${what} were not recorded${fixed === null ? "" : ` (fixed in OTP ${fixed})`}`);
  }
  if (r.dict_full > 0) list.push(`${count(r.dict_full)} names did not fit into the dictionary and are shown as ?`);
  if (r.sample > 1) list.push(`only one in ${count(r.sample)} ${r.sample_kind === "process" ? "processes" : "events"} was recorded`);
  if (r.given_up > 0) list.push(`${count(r.given_up)} processes or requests were dropped to limit the memory used`);
  return list;
}

// What the runtime reported, so that nothing had to be derived; empty if nothing of that.
export function exact(has) {
  return [[has.message_numbers, "senders of messages"], [has.taken, "waits in mailboxes"], [has.run_queues, "waits in run queues"],
    [has.call_depths, "call trees"]].filter(([is]) => is).map(([, what]) => what);
}

// Kinds of events that the recording lacks, and what is unknown because of that.
export function lacks({ has, slow_calls: slow }) {
  const list = [];
  if (!has.calls) list.push([slow ? "calls other than slow ones" : "calls", "there are no functions to show"]);
  else if (!has.returns) list.push(["return_to or return events", "durations of calls are unknown"]);
  if (!has.running) list.push(["running events", "it is unknown when processes ran or waited for a scheduler"]);
  if (!has.messages) list.push(["messages", "there are no mailboxes and no requests"]);
  else if (!has.references) list.push(["references in messages", "requests cannot be paired with their replies"]);
  if (!has.gc) list.push(["garbage_collection events", "the cost of collections is unknown"]);
  return list;
}
