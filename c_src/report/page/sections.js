// SPDX-License-Identifier: Apache-2.0
// The tables of the report: functions, slow calls, requests, mailboxes, processes, collections,
// schedulers, and what is known about the recording.

import { count, date, duration, percent, since } from "./format.js";
import { button, code, el, replace, svg } from "./dom.js";
import { shares, stretches } from "./data.js";
import { histogram } from "./histogram.js";
import { table } from "./table.js";
import { exact, process } from "./words.js";

const time = (key, title, hint) => ({ key, title, hint, number: true, text: (r) => duration(r[key]) });
const number = (key, title, hint) => ({ key, title, hint, number: true, text: (r) => count(r[key]) });

// A table that shows the histogram of a row when its name is pressed.
function withHistogram({ caption, rows, inAll, name, columns, sort, empty, marks, what = "Latency of" }) {
  const place = el("div", { class: "latency", "aria-live": "polite" });
  const show = (row) => replace(place, histogram(`${what} ${row[name]}`, row.histogram, marks(row)));
  const best = rows.filter((r) => r.histogram.length > 0)[0];
  if (best) show(best);
  return [table({ caption, rows, inAll, sort, empty, filter: (r) => r[name], columns: [...columns,
    { key: name, title: name[0].toUpperCase() + name.slice(1),
      text: (r) => button(code(r[name]), () => { show(r); place.scrollIntoView({ block: "nearest" }); },
        { class: "link", title: "Show its histogram" }) }] }), place];
}

const quantiles = (r) => [["p50", r.p50_ns], ["p99", r.p99_ns], ["max", r.max_ns]];

export function functions(report) {
  return withHistogram({
    caption: "Functions: what their calls cost", rows: report.functions.rows, inAll: report.functions.rows_in_all,
    name: "function", sort: "self_ns", empty: "No calls were recorded.", marks: quantiles,
    columns: [number("calls", "Calls"), time("total_ns", "Total", "with the calls they made"), time("self_ns", "Self", "without the calls they made"),
      time("running_ns", "Running", "of the total, scheduled in"), time("p50_ns", "p50"), time("p99_ns", "p99"), time("max_ns", "Max"), time("gc_ns", "GC", "collections during the calls")],
  });
}

const processName = ({ name, pid }) => [code(name), pid && el("span", { class: "pid" }, " " + pid)];

// Calls that the runtime has reported as slow: null if there are none.
export function slowCalls(report) {
  const calls = report.slow_calls;
  return calls ? table({
    caption: "The slowest of the calls that the runtime reported as slow", rows: calls.rows, inAll: calls.rows_in_all, sort: "total_ns",
    filter: (r) => `${r.function} ${r.process} ${r.process_pid}`,
    columns: [{ key: "start_ns", title: "Start", number: true, text: (r) => since(r.start_ns, 1000) }, time("total_ns", "Time"),
      { key: "process", title: "Process", text: (r) => processName(process(r.process, r.process_pid)) },
      { key: "function", title: "Function", text: (r) => (r.function === null ? "–" : code(r.function)) }],
  }) : null;
}

export function requests(report) {
  const mean = (sum, n) => (n > 0 && sum !== null ? sum / n : null);
  const servers = report.requests.servers.map((s) => ({ ...s, queued_mean: mean(s.queued_ns, s.with_queued), handling_mean: mean(s.handling_ns, s.with_handling) }));
  return [
    ...withHistogram({
      caption: "Servers: how long requests to them took", rows: servers, inAll: servers.length, name: "server", sort: "total_ns",
      empty: "No request could be paired with its reply.", marks: quantiles,
      columns: [number("requests", "Requests"), number("open", "Open", "without a reply"), time("total_ns", "Total"), time("p50_ns", "p50"), time("p99_ns", "p99"),
        time("max_ns", "Max"), time("queued_mean", "Queued", "mean wait before the server began"), time("handling_mean", "Handling", "mean time of the server")],
    }),
    report.requests.slowest.length > 0 && el("div", null, el("h3", null, "The slowest requests"), table({
      caption: "The slowest requests: queued, handled, replied", rows: report.requests.slowest, inAll: report.requests.requests, sort: "total_ns",
      filter: (r) => `${r.client} ${r.server} ${r.function}`,
      columns: [{ key: "sent_ns", title: "Sent", number: true, text: (r) => since(r.sent_ns) }, time("total_ns", "Total"), time("queued_ns", "Queued"),
        time("handling_ns", "Handling"), time("reply_ns", "Reply"), number("ahead", "Ahead", "requests without a reply when it was sent"),
        { key: "client", title: "Client", text: (r) => code(r.client) }, { key: "server", title: "Server", text: (r) => code(r.server) },
        { key: "function", title: "Function", text: (r) => (r.function === null ? "–" : code(r.function)) }],
    })),
  ];
}

export function mailboxes(report) {
  const top = (r) => r.top_senders[0];
  const sum = (r) => Math.max(1, r.received + r.unreceived);
  return withHistogram({
    caption: "Mailboxes: who receives messages, and how long they wait", rows: report.mailboxes.rows, inAll: report.mailboxes.rows_in_all,
    name: "process", sort: "received", empty: "No messages were recorded.", marks: quantiles, what: "Waiting in the mailbox of",
    columns: [number("received", "Received"), number("unreceived", "Unfetched", "sent, but never seen to be received"), time("p50_ns", "p50 wait", "until fetched into the mailbox"),
      time("p99_ns", "p99 wait"), time("max_ns", "Max wait"), time("queued_p99_ns", "p99 queue", "requests, until handled"),
      { ...number("longest", "Longest", "messages in the mailbox, in the samples of the counters"), text: (r) => (r.longest === null ? "–" : count(r.longest)) }, number("pending_max", "Backlog", "most requests without a reply"), number("senders", "Senders"),
      { key: "sender", title: "Most from", sort: (r) => (top(r) ? top(r).sender : ""), text: (r) => (top(r) ? [code(top(r).sender), ` ${percent(top(r).messages, sum(r))}`] : "–") }],
  });
}

function atWork(caption, name, source) {
  return table({
    caption, rows: source.rows, inAll: source.rows_in_all, sort: "running_ns", filter: (r) => r[name],
    empty: "The recording shows no activity of processes.",
    columns: [...(name === "role" ? [number("processes", "Processes")] : []), time("running_ns", "Running", "scheduled in"), number("runs", "Runs"),
      time("max_ns", "Max run"), time("waiting_ns", "Waiting", "scheduled out, for anything"), time("p99_waiting_ns", "p99 wait"),
      number("calls", "Calls"), number("sent", "Sent"), number("received", "Received"),
      { key: name, title: name === "role" ? "Role" : "Process", text: (r) => code(r[name]) }],
  });
}

export function processes(report) {
  return [atWork("Processes: running and waiting", "process", report.processes),
    el("h3", null, "By role"), atWork("Roles: what processes have in common", "role", report.roles)];
}

export function collections(report) {
  const rows = report.processes.rows.filter((r) => r.collections > 0);
  const t = report.timeline;
  const longest = stretches(t.collections).map((r) => ({ ...r, lane: t.lanes[r.lane] }));
  return [
    table({ caption: "Garbage collections by process", rows, inAll: rows.length, sort: "gc_ns", filter: (r) => r.process,
      empty: "No collections were recorded.",
      columns: [number("collections", "Collections"), time("gc_ns", "Time"), time("gc_max_ns", "Longest"), { key: "process", title: "Process", text: (r) => code(r.process) }] }),
    longest.length > 0 && el("div", null, el("h3", null, "The longest"), table({
      caption: "The longest collections", rows: longest, inAll: t.collections.in_all, sort: "ns", filter: (r) => r.lane.process,
      columns: [{ key: "start", title: "Start", number: true, text: (r) => since(r.start, 1000) }, { key: "ns", title: "Time", number: true, text: (r) => duration(r.ns) },
        { key: "depth", title: "Kind", text: (r) => (r.depth ? "major" : "minor") },
        { key: "first", title: "Words before", number: true, text: (r) => count(r.first) }, { key: "second", title: "After", number: true, text: (r) => count(r.second) },
        { key: "lane", title: "Process", sort: (r) => r.lane.process, text: (r) => code(r.lane.process) }] })),
  ];
}

function strip(thread) {
  const part = shares(thread.running);
  const picture = svg("svg", { viewBox: `0 0 ${part.length} 20`, class: "strip", role: "img", "aria-label": `How busy ${thread.thread} was over time` });
  let d = "M0 20";
  part.forEach((share, i) => { d += `V${(20 - 20 * share).toFixed(1)}H${i + 1}`; });
  picture.append(svg("path", { d: d + "V20z", class: "column" }));
  return picture;
}

const THREADS = { s: "Scheduler", c: "Dirty CPU scheduler", i: "Dirty I/O scheduler", t: "Thread" };

export function schedulers(report) {
  const ns = report.last_ns - report.first_ns;
  return table({
    caption: "Schedulers: how busy each was with the processes that were recorded", rows: report.timeline.threads, inAll: report.timeline.threads.length,
    sort: "running_ns", empty: "Running events were not recorded.",
    columns: [{ key: "share", title: "Busy", number: true, sort: (r) => r.running_ns, text: (r) => percent(r.running_ns, ns) }, time("running_ns", "Running"), number("runs", "Runs"),
      { key: "strip", title: "Over time", sort: (r) => r.running_ns, number: true, text: strip },
      { key: "thread", title: "Thread", text: (r) => `${THREADS[r.thread[0]] || "Thread"} ${r.thread.slice(1)}` }],
  });
}

export function about(report) {
  const r = report.recording;
  const facts = [["Recording", code(r.recording)], ["Node", code(r.node)], ["State", r.state], ["Started", date(r.start_unix_ns)],
    ["Events in this report", count(report.events)], ["Complete from", r.whole ? "its start" : since(r.complete_from_ns)],
    ...(exact(report.has).length > 0 ? [["Exact", exact(report.has).join(", ")]] : []),
    ["Policy", r.policy === "discard" ? "discard (new events, when there is no room)" : "overwrite (the oldest, when there is no room)"],
    ["Lost while recording", count(r.lost_total)], ...Object.entries(r.lost).map(([cause, n]) => [`– ${cause.replace(/_/g, " ")}`, count(n)]),
    ["Overwritten", count(r.overwritten)], ["Left out by sampling", count(r.sampled_out)], ["Removed with old files", count(r.events_removed)],
    ...Object.entries(r.damage).filter(([, n]) => n > 0).map(([what, n]) => [`Damage: ${what.replace(/_/g, " ")}`, count(n)]),
    ["OTP", `${r.otp_release} (erts ${r.erts_version})`], ["Made by", `kymo ${report.version}`]];
  return [
    el("dl", { class: "about" }, facts.map(([term, text]) => el("div", null, el("dt", null, term), el("dd", null, text)))),
    el("h3", null, "What this report contains"),
    el("p", null, "Sums, counts, quantiles and histograms include all events, as in kymo stats, calls, mailboxes and why. "
      + "Of single events, the page has the longest ones of the whole recording, and of each of 480 equal parts of its time. "
      + `The flame graphs have the ${count(report.flame.role.parent.length)} and ${count(report.flame.process.parent.length)} largest frames of `
      + `${count(report.flame.role.nodes_in_all)} (by role) and ${count(report.flame.process.nodes_in_all)} (by process); the time of smaller ones is summed up below their caller. `
      + "For other events, use kymo print on the recording."),
  ];
}
