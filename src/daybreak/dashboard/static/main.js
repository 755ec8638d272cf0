// Puts the views together: one is shown at a time, and only that one is kept up to date.

import { connect, link, run, subscribe } from "./model.js";
import * as classes from "./classes.js";
import * as queries from "./queries.js";
import * as network from "./network.js";
import * as schedule from "./schedule.js";
import * as whatif from "./whatif.js";
import * as changes from "./changes.js";
import { totalLag } from "./offsets.js";
import { changePolicy } from "./actions.js";
import { $, h, text, untip } from "./dom.js";
import { count, duration, percent, uptime } from "./format.js";

const views = { classes, queries, network, schedule, whatif, changes };
let current = "classes";

function choose() {
  const wanted = location.hash.slice(1);
  current = wanted in views ? wanted : "classes";
  for (const section of document.querySelectorAll("[data-view]")) section.hidden = section.dataset.view !== current;
  for (const tab of document.querySelectorAll("#tabs a")) {
    if (tab.hash === `#${current}`) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  untip();
  show();
}

const SAID = { connecting: "connecting", lost: "connection lost, trying again", gone: "nothing to show" };

function showState() {
  const node = $("#state");
  const ended = run.head.state === "ended";
  text(node, link.state === "live" ? (ended ? "ended" : "running") : SAID[link.state] + (link.why ? `: ${link.why}` : ""));
  node.dataset.state = link.state === "live" ? run.head.state : link.state;
  document.body.classList.toggle("stale", run.known && link.state !== "live");
}

const vitals = new Map();
function vital(label, said, hint) {
  if (!vitals.has(label)) {
    const value = h("dd");
    vitals.set(label, value);
    $("#vitals").append(h("div", { title: hint ?? null }, h("dt", {}, label), value));
  }
  text(vitals.get(label), said);
}

function showHead() {
  const { head } = run;
  text($("#pipeline"), head.pipeline);
  if (document.title !== `${head.pipeline} · Daybreak`) document.title = `${head.pipeline} · Daybreak`;
  const last = run.points.at(-1);
  const answered = head.state === "ended"
    ? head.classes.reduce((sum, c) => sum + c.answered, 0) / Math.max(head.elapsed_s, 1)
    : head.classes.reduce((sum, c) => sum + c.recent.answered, 0) / 5;
  vital("up", uptime(head.elapsed_s));
  vital("answered", `${count(answered)}/s`, "Answers per second: tuples times the queries that looked at them");
  vital("waiting", count(head.classes.reduce((sum, c) => sum + c.recent.waiting, 0)), "Tuples that wait, over all queries");
  if (head.offsets.length) vital("Kafka lag", count(totalLag(head.offsets)), "Records that are in Kafka and not in the log yet, over all partitions");
  vital("workers", last ? `${percent(last.busy_share)} of ${head.workers}` : "–", "Share of the workers' time spent on jobs");
  vital("scheduler", last ? percent(last.scheduler_share, 1) : "–", "Share of all threads' time spent on scheduling");
  const policy = $("#policy");
  policy.hidden = false;
  policy.disabled = head.state !== "running";
  text(policy, `policy ${head.policy}`);
  policy.setAttribute("aria-label", `Change the policy, now ${head.policy}`);
}

let attended = "";
function showAttention() {
  const troubled = queries.troubled();
  const badge = $("#troubled");
  badge.hidden = !troubled.length;
  text(badge, troubled.length ? String(troubled.length) : "");
  const notes = [
    ...troubled.map((q) => [`${q.name} is ${q.state}`, q.error ?? "", "#queries"]),
    ...run.head.streams.filter((s) => s.error).map((s) => [`source of ${s.name} fails`, s.error, "#network"]),
    ...run.head.streams.filter((s) => s.blocked).slice(0, 1).map(() => ["the log is full, sources wait", "", "#network"]),
    ...run.classes.filter((c) => c.starving).map((c) => [`class ${c.name} starves`, `its answers take ${duration(c.recent.mean_s)} and longer each second`, "#classes"]),
    ...Object.entries(run.head.troubles).map(([what, why]) => [`housekeeping: ${what.replaceAll("_", " ").trim()}`, why, "#changes"]),
  ];
  const shown = notes.slice(0, 4);
  const said = JSON.stringify([shown, notes.length]);
  if (said === attended) return;
  attended = said;
  const node = $("#attention");
  node.hidden = !notes.length;
  node.replaceChildren(...shown.map(([what, why, where]) => h("a", { href: where }, h("strong", {}, what), why ? ` ${why}` : "")),
    notes.length > shown.length ? h("span", {}, `and ${notes.length - shown.length} more`) : "");
}

function show() {
  showState();
  if (!run.known) return;
  showHead();
  showAttention();
  views[current].show($(`[data-view="${current}"]`));
}

// A token in the address was needed once; it is not to be bookmarked or shown around.
if (location.search) history.replaceState(null, "", location.pathname + location.hash);
$("#policy").addEventListener("click", changePolicy);
addEventListener("hashchange", choose);
let resized = 0;
addEventListener("resize", () => { cancelAnimationFrame(resized); resized = requestAnimationFrame(show); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => requestAnimationFrame(show));
document.addEventListener("visibilitychange", () => { if (!document.hidden) show(); });
subscribe(() => { if (!document.hidden) show(); });
choose();
connect();
