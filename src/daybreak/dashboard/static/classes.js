// Classes: response times, utility, staleness, inversion and starvation over time.

import { run } from "./model.js";
import { LineChart, boxPlots, classColour, logBounds, palette, span, spans } from "./chart.js";
import { h, text, flag } from "./dom.js";
import { count, duration, percent, ratio } from "./format.js";
import { changePriority, whyLate } from "./actions.js";

let cards = [];
let charts = null;
let built = "";

function figure(label, title) {
  const value = h("dd", {}, "–");
  return { node: h("div", { title }, h("dt", {}, label), value), value };
}

function card(cls, i) {
  const figures = {
    p50: figure("p50", "Half of the answers of the last 5 s were faster"),
    p95: figure("p95", "95 % of the answers of the last 5 s were faster"),
    p99: figure("p99", "99 % of the answers of the last 5 s were faster"),
    utility: figure("utility", "What answers were worth by their QoS graphs, 0 to 1"),
    stale: figure("stale", "Share of the last minute in which its queries were stale"),
    waiting: figure("waiting", "Tuples that wait, and the age of the oldest"),
  };
  const canvas = h("canvas", { class: "chart" });
  const badges = h("span", { class: "badges" });
  const priority = h("button", { type: "button", class: "quiet priority", onclick: () => changePriority(cls.name) });
  const why = h("button", { type: "button", class: "quiet", title: "What its worst answer was lost to", onclick: () => whyLate({ class: cls.name }) }, "Why late?");
  const about = h("span", { class: "muted" });
  const node = h(
    "article", { class: "card class-card", style: { "--cls": `var(--c${i % 8})` }, "data-class": cls.name },
    h("h2", {}, h("i", { class: "swatch", "aria-hidden": "true" }), h("span", { class: "clip" }, cls.name), badges, h("span", { class: "grow" }), about, why, priority),
    h("dl", { class: "figures" }, ...Object.values(figures).map((f) => f.node)),
    canvas,
  );
  const chart = new LineChart(canvas, { title: `Response times of ${cls.name}`, log: true, format: duration });
  return { node, figures, badges, priority, about, chart };
}

function panel(title, hint, options) {
  const canvas = h("canvas", { class: "chart" });
  const now = h("span", { class: "muted now" });
  const node = h("article", { class: "card" }, h("h2", { title: hint }, title, h("span", { class: "grow" }), now), canvas);
  return { node, now, chart: options ? new LineChart(canvas, { title, ...options }) : null, canvas };
}

function build(section) {
  cards = run.classes.map(card);
  charts = {
    spread: panel("Spread of response times", "Box: half of the answers of the last minute; whiskers: from the tenth to the ninetieth percentile", null),
    utility: panel("Utility", "What answers are worth by their QoS graphs", { top: 1, format: ratio }),
    staleness: panel("Staleness", "Share of the last minute in which queries were stale, by weight", { format: percent, axis: percent }),
    waiting: panel("Waiting tuples", "What has arrived and is not answered", { format: count, axis: count }),
    inversion: panel("Priority inversion", "Sum over classes of PrIR: how much slower a class is than the next one below it, by priority; 0 is none", { format: ratio }),
    starvation: panel("Starvation ratio", "Mean response time of the lowest class over that of the highest", { log: false, format: ratio }),
  };
  charts.spread.canvas.setAttribute("role", "img");
  const range = h("div", { class: "range", role: "group", "aria-label": "Time span of the charts" },
    ...spans.choices.map((s) => h("button", {
      type: "button", class: "quiet", "aria-pressed": String(s === spans.chosen), "data-span": s,
      onclick: () => { spans.chosen = s; for (const b of range.children) b.setAttribute("aria-pressed", String(Number(b.dataset.span) === s)); show(section); },
    }, `${s / 60} min`)));
  section.replaceChildren(
    h("div", { class: "bar-line" }, h("p", { class: "legend muted" }, "p50 thin, p95 bold, p99 dotted; all of the last 5 s"), h("span", { class: "grow" }), range),
    h("div", { class: "cards" }, ...cards.map((c) => c.node)),
    h("div", { class: "panels" }, ...Object.values(charts).map((c) => c.node)),
  );
}

export function show(section) {
  const names = run.classes.map((c) => c.name).join("\n");
  if (names !== built || !section.firstChild) { build(section); built = names; }
  const times = run.points.map((p) => p.at_s);
  const of = (i, key) => run.points.map((p) => p.classes[i]?.[key] ?? null);
  const from = span().from;
  const seen = run.points.filter((p) => p.at_s >= from);
  const bounds = logBounds(seen.flatMap((p) => p.classes.flatMap((c) => [c.p50_s, c.p99_s])).filter((v) => v !== null));
  run.classes.forEach((cls, i) => {
    const { figures, badges, priority, about, chart } = cards[i];
    const now = cls.recent;
    text(figures.p50.value, duration(now.p50_s));
    text(figures.p95.value, duration(now.p95_s));
    text(figures.p99.value, duration(now.p99_s));
    text(figures.utility.value, ratio(now.utility));
    flag(figures.utility.value, "is-bad", now.utility !== null && now.utility < 0.5);
    text(figures.stale.value, percent(now.staleness));
    text(figures.waiting.value, now.waiting && cls.oldest_s ? `${count(now.waiting)} · ${duration(cls.oldest_s)}` : count(now.waiting));
    text(priority, `priority ${cls.priority}`);
    priority.setAttribute("aria-label", `Change the priority of class ${cls.name}, now ${cls.priority}`);
    priority.disabled = run.head.state !== "running";
    text(about, `${cls.queries} ${cls.queries === 1 ? "query" : "queries"}`);
    const said = [cls.starving && "starving", cls.inversion > 0 && `inverted ${ratio(cls.inversion)}`].filter(Boolean).join("|");
    if (badges.dataset.said !== said) {
      badges.dataset.said = said;
      badges.replaceChildren(...said.split("|").filter(Boolean).map((s) => h("span", { class: "badge warn" }, s)));
    }
    const colour = classColour(i);
    const p50 = of(i, "p50_s");
    const series = [
      { label: "p99", colour, values: of(i, "p99_s"), width: 1, dash: [1, 3] },
      { label: "p95", colour, values: of(i, "p95_s"), width: 2, fillTo: p50 },
      { label: "p50", colour, values: p50, width: 1 },
    ];
    chart.show(times, series, bounds);
  });
  const lines = (key) => run.classes.map((c, i) => ({ label: c.name, colour: classColour(i), values: of(i, key) }));
  boxPlots(charts.spread.canvas, run.classes);
  text(charts.spread.now, run.head.state === "ended" ? "whole run" : "last minute");
  charts.utility.chart.show(times, lines("utility"));
  const stale = lines("staleness");
  charts.staleness.chart.show(times, stale);
  charts.waiting.chart.show(times, lines("waiting"));
  const { muted, warn } = palette();
  const last = run.points.at(-1);
  text(charts.waiting.now, count(run.classes.reduce((sum, c) => sum + c.recent.waiting, 0)));
  charts.inversion.chart.show(times, [{ label: "inversion", colour: warn, values: run.points.map((p) => p.inversion) }]);
  text(charts.inversion.now, last ? ratio(last.inversion) : "");
  charts.starvation.chart.show(times, [{ label: "lowest / highest", colour: muted, values: run.points.map((p) => p.starvation) }]);
  text(charts.starvation.now, last ? ratio(last.starvation) : "");
}
