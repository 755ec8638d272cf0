// What the policy plans: how often each cell is served, what that takes, what is dropped and why.
// Hidden where the policy does not plan.

import { classIndex, nowS, run } from "./model.js";
import { flag, h, text } from "./dom.js";
import { duration, percent } from "./format.js";

const HEADS = ["Cell", "Period", "Share of workers", "Due", "Served"];
const SPARE = "from spare time: ";
let card, body, promise;
let rows = new Map();

export function build() {
  body = h("tbody");
  rows = new Map();
  promise = h("span", { class: "muted now" });
  card = h("article", { class: "card table-card", id: "plan", hidden: true },
    h("h2", { title: "A cell is what runs as one job. It is served a period after its oldest tuple arrived. Utility: planned, and what no schedule can exceed at these rates and costs." },
      "Plan", h("span", { class: "grow" }), promise),
    h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ...HEADS.map((t, i) => h("th", { scope: "col", class: i > 0 && i < 4 ? "num" : null }, t)))), body));
  return card;
}

const said = (cell) => cell.queries[0] + (cell.queries.length > 1 ? ` +${cell.queries.length - 1}` : "");

/** Shortest period first, what is dropped last. */
function ordered(cells) {
  return [...cells].sort((a, b) => (a.period_s ?? Infinity) - (b.period_s ?? Infinity) || said(a).localeCompare(said(b)));
}

function due(cell) {
  if (cell.due_s === null) return "–";
  const left = cell.due_s - (run.head.state === "running" ? nowS() : run.head.elapsed_s);
  return left > 0 ? `in ${duration(left)}` : "now";
}

function row(cell, classes) {
  const cells = HEADS.map((_, i) => h("td", { class: i > 0 && i < 4 ? "num" : null }));
  const name = h("span");
  const index = Math.max(0, classIndex(classes.get(cell.queries[0])));
  cells[0].append(h("i", { class: "swatch", "aria-hidden": "true", style: { "--cls": `var(--c${index % 8})` } }), " ", name);
  cells[0].title = cell.queries.slice(0, 20).join(", ") + (cell.queries.length > 20 ? " …" : "");
  return { node: h("tr", {}, ...cells), cells, name };
}

export function show() {
  const plan = run.head.plan;
  card.hidden = !plan;
  if (!plan) return;
  const of = (v) => (v === null ? "–" : v.toFixed(3));
  const dropped = plan.cells.filter((c) => c.period_s === null).length;
  const usable = plan.usable_workers === undefined ? "" : ` · cores suffice for ${plan.usable_workers.toFixed(1)} workers`; // earlier records lack it
  text(promise, `${plan.cells.length} cells, ${dropped} not served by plan · utility ${of(plan.utility)} planned, at most ${of(plan.bound)}${usable}`);
  const cells = ordered(plan.cells);
  const keys = cells.map((c) => c.queries.join("\n"));
  if (keys.join("\n\n") !== [...rows.keys()].join("\n\n")) {
    const classes = new Map([...run.queries.values()].map((q) => [q.name, q.cls]));
    rows = new Map(cells.map((c, i) => [keys[i], row(c, classes)]));
    body.replaceChildren(...[...rows.values()].map((r) => r.node));
  }
  cells.forEach((c, i) => {
    const r = rows.get(keys[i]);
    text(r.name, said(c));
    [duration(c.period_s), percent(c.share, 1), due(c), c.dropped ? SPARE + c.dropped : "by plan"].forEach((t, n) => text(r.cells[n + 1], t));
    flag(r.cells[4], "is-bad", Boolean(c.dropped));
  });
}
