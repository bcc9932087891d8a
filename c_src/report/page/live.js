// SPDX-License-Identifier: Apache-2.0
// kymo live: the page requests one report after the other from its server.

import { duration } from "./format.js";
import { button, el, forgetThemeWatchers, replace } from "./dom.js";

const RETRY_MS = 2000;

// Fetches the report after the one with this number. The server answers when there is one, or,
// after a while, that there is none yet.
async function ask(number) {
  const answer = await fetch("data?" + number, { cache: "no-store" });
  if (!answer.ok) throw new Error("status " + answer.status);
  const report = await answer.json();
  return [report === null ? number : Number(answer.headers.get("Kymo-Report")), report];
}

const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

// Waits until the page is visible: in the background it requests nothing.
const shown = () => new Promise((done) => {
  const look = () => {
    if (document.hidden) return;
    document.removeEventListener("visibilitychange", look);
    done();
  };
  document.addEventListener("visibilitychange", look);
  look();
});

function covers(live) {
  const until = new Date(live.until_unix_ns / 1e6).toLocaleTimeString();
  const less = live.window_ns < live.wanted_ns ? ` (not ${duration(live.wanted_ns)}: there are too many events)` : "";
  return `the last ${duration(live.window_ns)} until ${until}${less}`;
}

export function follow(build, page) {
  replace(page, el("main", null, el("h1", null, "kymo live"), el("p", null, "Waiting for the first report.")));
  const when = el("span", { class: "when" });
  const state = el("strong", { role: "status" }, "Live");
  let paused = false;
  let newest = null;

  // The page is not replaced while it is being used: a control has the focus, or text is selected.
  const inUse = () => page.contains(document.activeElement) || !getSelection().isCollapsed;
  const show = () => {
    if (newest === null || paused || inUse()) return;
    const at = scrollY;
    forgetThemeWatchers();
    build(newest, page);
    scrollTo(0, at);
    replace(when, covers(newest.live));
    newest = null;
  };
  const tell = (text) => { if (state.textContent !== text) replace(state, text); };
  const label = () => tell(paused ? "Paused" : inUse() ? "Held while you use the page" : "Live");
  const toggle = button("Pause", () => {
    paused = !paused;
    replace(toggle, paused ? "Continue" : "Pause");
    label();
    show();
  });
  const loop = async () => {
    for (let number = 0, report; ;) {
      await shown();
      try {
        [number, report] = await ask(number);
      } catch (error) {
        tell("No answer from kymo live");
        await pause(RETRY_MS);
        continue;
      }
      if (report === null) {
        label();
        continue;
      }
      if (report.recording) {
        newest = report;
        show();
      }
      if (report.recording || report.live.over) label();
      else tell(`No report: ${report.live.why}. Trying again`);
      if (!report.live.over) continue;
      toggle.remove();
      tell("The end: " + report.live.why);
      return;
    }
  };
  document.addEventListener("focusin", label);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && page.contains(document.activeElement)) document.activeElement.blur();
  });
  replace(document.body, el("aside", { class: "live", "aria-label": "Live" }, state, when, toggle), page);
  loop();
}
