// Queries: a table to sort, filter and act on. Only rows in sight are kept up to date.

import { classIndex, run } from "./model.js";
import { h, text, flag } from "./dom.js";
import { count, duration, percent, ratio } from "./format.js";
import { changeQuery, pauseQuery, resumeQuery, whyLate } from "./actions.js";

const BAD = ["failed", "parked", "retrying"];
const ORDER = ["failed", "parked", "retrying", "paused", "running", "free", "ended"];
const COLUMNS = [
  { key: "name", label: "Query", get: (q) => q.name, sort: (q) => q.name },
  { key: "state", label: "State", get: (q) => q.state, sort: (q) => ORDER.indexOf(q.state) },
  { key: "cls", label: "Class", get: (q) => q.cls, sort: (q) => classIndex(q.cls) },
  { key: "priority", label: "Priority", num: true, get: (q) => String(q.priority), sort: (q) => -q.priority },
  { key: "weight", label: "Weight", num: true, get: (q) => String(Number(q.weight.toFixed(3))), sort: (q) => -q.weight },
  { key: "waiting", label: "Backlog", num: true, get: (q) => (q.waiting ? `${count(q.waiting)} · ${duration(q.oldest_s)}` : "0"), sort: (q) => -q.waiting, hint: "Tuples that wait, and the age of the oldest" },
  { key: "behind", label: "Behind", num: true, get: (q) => (q.behind == null ? "" : q.behind ? `${count(q.behind)} · ${duration(q.behind_s)}` : "0"), sort: (q) => -(q.behind ?? -1), hint: "In complete mode: tuples that the result lacks, and the age of the oldest" },
  { key: "rate", label: "Rate", num: true, get: (q) => `${count(q.arrived_per_s)}/s`, sort: (q) => -q.arrived_per_s, hint: "Tuples that come per second" },
  { key: "cost", label: "Cost", num: true, get: (q) => duration(q.cost_us / 1e6), sort: (q) => -q.cost_us, hint: "Work per tuple, as measured" },
  { key: "selectivity", label: "Selectivity", num: true, get: (q) => ratio(q.selectivity), sort: (q) => -q.selectivity, hint: "Results per tuple" },
  { key: "stale", label: "Stale", num: true, get: (q) => percent(q.staleness), sort: (q) => -q.staleness, hint: "Share of the last minute in which it was stale" },
  { key: "jobs", label: "Jobs", num: true, get: (q) => count(q.jobs), sort: (q) => -q.jobs },
  { key: "error", label: "Last error", get: (q) => q.error ?? (q.lost ? `${count(q.lost)} rows given up` : ""), sort: (q) => (q.error ? 0 : q.lost ? 1 : 2) },
];

const rows = new Map();
const inSight = new Set();
let table, body, counted, filter, only, classes, sight;
let sorted = { key: "state", up: true };
let listed = "";
let classNames = "";

/** Shows only what another view wants to see. */
export function filterTo(words, cls) {
  if (!filter) return;
  filter.value = words;
  classes.value = cls ?? "";
  only.checked = false;
}

function build(section) {
  filter = h("input", { type: "search", placeholder: "name, stream or error", "aria-label": "Filter queries", oninput: () => arrange() });
  classes = h("select", { "aria-label": "Class", onchange: () => arrange() });
  only = h("input", { type: "checkbox", onchange: () => arrange() });
  counted = h("span", { class: "muted", role: "status" });
  body = h("tbody");
  table = h("table", { class: "queries" },
    h("caption", { class: "hidden" }, "Queries and how each stands"),
    h("thead", {}, h("tr", {}, ...COLUMNS.map((c) => h("th", { scope: "col", class: c.num ? "num" : null, "data-key": c.key },
      h("button", { type: "button", title: c.hint, onclick: () => sortBy(c.key) }, c.label))),
      h("th", { scope: "col" }, h("span", { class: "hidden" }, "Actions")))),
    body);
  section.replaceChildren(
    h("div", { class: "bar-line" }, filter, classes, h("label", { class: "check" }, only, "only troubled"), h("span", { class: "grow" }), counted),
    h("div", { class: "card table-card" }, table));
  sight = new IntersectionObserver((entries) => {
    for (const e of entries) {
      const row = e.target.row;
      if (e.isIntersecting) { inSight.add(row); refresh(row); } else inSight.delete(row);
    }
  }, { rootMargin: "200px" });
}

function sortBy(key) {
  sorted = { key, up: sorted.key === key ? !sorted.up : true };
  arrange();
}

function makeRow(q) {
  const cells = COLUMNS.map((c) => h(c.key === "name" ? "th" : "td", { scope: c.key === "name" ? "row" : null, class: [c.num ? "num" : "", `col-${c.key}`].join(" "), "data-label": c.label }));
  const swatch = h("i", { class: "swatch", "aria-hidden": "true" });
  const clsName = h("span");
  cells[2].append(swatch, clsName);
  const dot = h("span", { class: "state" });
  cells[1].append(dot);
  const main = h("button", { type: "button", class: "quiet act" });
  const change = h("button", { type: "button", class: "quiet" }, "Change");
  const why = h("button", { type: "button", class: "quiet", "aria-label": `Why is ${q.name} late`, onclick: () => whyLate({ query: q.name }) }, "Why late?");
  const node = h("tr", { "data-query": q.name }, ...cells, h("td", { class: "acts" }, main, change, why));
  const row = { node, cells, swatch, clsName, dot, main, change, number: q.number };
  node.row = row;
  main.addEventListener("click", () => {
    const now = run.queries.get(row.number);
    if (now.state === "running") pauseQuery(now); else resumeQuery(now);
  });
  change.addEventListener("click", () => changeQuery(run.queries.get(row.number)));
  sight.observe(node);
  return row;
}

function refresh(row) {
  const q = run.queries.get(row.number);
  if (!q) return;
  COLUMNS.forEach((c, i) => {
    const said = c.get(q);
    if (c.key === "state") { text(row.dot, said); row.dot.dataset.state = said; }
    else if (c.key === "cls") { text(row.clsName, said); row.swatch.style.setProperty("--cls", `var(--c${Math.max(0, classIndex(said)) % 8})`); }
    else { text(row.cells[i], said); if (c.key === "error" && row.cells[i].title !== said) row.cells[i].title = said; }
  });
  flag(row.node, "failed", BAD.includes(q.state));
  flag(row.node, "held", q.state === "paused");
  const running = q.state === "running";
  text(row.main, running ? "Pause" : "Resume");
  const off = run.head.state !== "running";
  if (row.main.disabled !== off) { row.main.disabled = off; row.change.disabled = off; }
  if (row.labelled !== `${q.state} ${q.name}`) {
    row.labelled = `${q.state} ${q.name}`;
    row.main.setAttribute("aria-label", `${running ? "Pause" : "Resume"} ${q.name}`);
    row.change.setAttribute("aria-label", `Change ${q.name}`);
  }
}

function wanted() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const all = [...run.queries.values()];
  const found = all.filter((q) => {
    if (only.checked && !BAD.includes(q.state) && q.state !== "paused") return false;
    if (classes.value && q.cls !== classes.value) return false;
    const hay = `${q.name} ${q.state} ${q.kind} ${q.reads.join(" ")} ${q.error ?? ""}`.toLowerCase();
    return words.every((w) => hay.includes(w));
  });
  const { sort } = COLUMNS.find((c) => c.key === sorted.key);
  const natural = new Intl.Collator("en", { numeric: true }).compare;
  const by = (a, b) => (typeof a === "string" ? natural(a, b) : a - b);
  found.sort((a, b) => (sorted.up ? 1 : -1) * by(sort(a), sort(b)) || natural(a.name, b.name));
  text(counted, found.length === all.length ? `${all.length} queries` : `${found.length} of ${all.length} queries`);
  return found;
}

/** Puts the rows in order, if that changed. */
function arrange() {
  const found = wanted();
  const order = found.map((q) => q.number).join(" ");
  for (const th of table.tHead.rows[0].cells) {
    if (!th.dataset.key) continue;
    if (th.dataset.key === sorted.key) th.setAttribute("aria-sort", sorted.up ? "ascending" : "descending");
    else th.removeAttribute("aria-sort");
  }
  if (order === listed) return;
  listed = order;
  const focused = document.activeElement;
  body.replaceChildren(...found.map((q) => {
    if (!rows.has(q.number)) rows.set(q.number, makeRow(q));
    return rows.get(q.number).node;
  }));
  if (focused && body.contains(focused)) focused.focus();
  for (const row of rows.values()) if (row.node.isConnected) refresh(row);
}

export function show(section) {
  if (!table) build(section);
  const names = run.classes.map((c) => c.name).join("\n");
  if (names !== classNames) {
    classNames = names;
    const chosen = classes.value;
    classes.replaceChildren(h("option", { value: "" }, "all classes"), ...run.classes.map((c) => h("option", { value: c.name }, c.name)));
    classes.value = chosen;
  }
  for (const [n, row] of rows) {
    if (run.queries.has(n) && row.node.dataset.query === run.queries.get(n).name) continue;
    sight.unobserve(row.node); inSight.delete(row); rows.delete(n); listed = "";
  }
  // Rows do not jump away under a pointer or the keyboard.
  if (listed === "" || !body.matches(":hover, :focus-within")) arrange(); else wanted();
  for (const row of inSight) if (row.node.isConnected) refresh(row);
}

export const troubled = () => [...run.queries.values()].filter((q) => BAD.includes(q.state));
