// What if: the recorded run replayed under other policies, the curves over each other.

import { classIndex, post, session } from "./model.js";
import { LineChart, classColour, logBounds, palette } from "./chart.js";
import { h, text } from "./dom.js";
import { count, duration, percent, ratio } from "./format.js";

const DASHES = [[6, 4], [2, 3], [10, 3, 2, 3], [1, 2]];
let form, list, go, progress, said, results;
let shown = null;
let known = "";
let timer;

function build(section) {
  list = h("select", { multiple: true, size: 6, "aria-label": "Policies to replay under, up to four" });
  go = h("button", { class: "primary" }, "Replay");
  progress = h("progress", { max: 1, hidden: true, "aria-label": "Replayed so far" });
  said = h("p", { class: "muted", role: "status" });
  form = h("form", { class: "card whatif-form" },
    h("div", {}, h("h2", {}, "Replay what was recorded under other policies"),
      h("p", { class: "legend muted" }, "In virtual time, with the arrivals, costs and riders that were recorded; in a process of its own that yields to the run. Choose up to four.")),
    list, h("div", { class: "whatif-go" }, go, progress, said));
  form.addEventListener("submit", start);
  results = h("div");
  section.replaceChildren(form, results);
}

async function start(event) {
  event.preventDefault();
  const policies = [...list.selectedOptions].map((o) => o.value);
  try {
    follow(await post("/api/whatif", { policies }));
  } catch (failure) {
    text(said, failure.message);
  }
}

function follow(status) {
  const running = status.state === "running";
  progress.hidden = !running;
  go.disabled = running;
  if (running) {
    progress.value = status.done ?? 0;
    text(said, `replaying under ${status.policies.join(", ")}`);
    lookIn(500);
  } else if (status.state === "failed") text(said, status.error);
  else if (status.state === "ended" && shown?.key !== JSON.stringify(status.result.runs.map((r) => r.summary))) {
    text(said, "");
    draw(status.result);
  }
}

function lookIn(ms) {
  clearTimeout(timer);
  timer = setTimeout(look, ms);
}

async function look() {
  try {
    const answer = await fetch("/api/whatif");
    if (!answer.ok) throw new Error(answer.statusText);
    follow(await answer.json());
  } catch { lookIn(2000); } // the server may be starting anew
}

function draw(result) {
  // The recorded run in the colour of its class, its own policy replayed in grey, the others in
  // colours that no class has.
  const style = (i, own) => ({
    dash: i === 0 ? [] : DASHES[i % DASHES.length], width: i === 0 ? 2.5 : 1.5,
    colour: i === 0 ? own : i === 1 ? palette().muted : classColour(result.classes.length + i - 2),
  });
  const charts = result.classes.map((cls) => {
    const canvas = h("canvas", { class: "chart" });
    const node = h("article", { class: "card" }, h("h2", {}, h("i", { class: "swatch", style: { "--cls": `var(--c${Math.max(0, classIndex(cls)) % 8})` } }), `${cls}, p95`), canvas);
    return { cls, node, chart: new LineChart(canvas, { title: `95th percentile of ${cls}, recorded and replayed`, log: true, format: duration }) };
  });
  const key = h("p", { class: "legend muted whatif-key" }, ...result.runs.map((r, i) => h("span", {}, sample(style(i, palette().ink)), r.name)));
  const figures = [["p50", (s) => duration(s.p50_s)], ["p95", (s) => duration(s.p95_s)], ["utility", (s) => ratio(s.utility)], ["stale", (s) => percent(s.staleness)], ["answers", (s) => count(s.results)]];
  const rows = result.runs.flatMap((r) => result.classes.map((cls, c) => h("tr", { class: c === 0 ? "first" : null },
    h("th", { scope: "row" }, c === 0 ? r.name : ""), h("td", {}, cls), ...figures.map(([, get]) => h("td", { class: "num" }, get(r.summary.classes[cls]))))));
  const trust = result.calibration.worst_ratio;
  results.replaceChildren(
    h("p", {}, h("strong", {}, `How far to trust it: `), trust === null ? "too few results to tell." : `replaying the recorded policy itself is off by a factor of ${trust.toFixed(2)} at most (mean, p50, p95 of each class). Smaller differences mean nothing.`),
    h("ul", { class: "muted small caveats" }, ...result.caveats.map((c) => h("li", {}, c))),
    key, h("div", { class: "cards" }, ...charts.map((c) => c.node)),
    h("div", { class: "card table-card" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Run"), h("th", { scope: "col" }, "Class"), ...figures.map(([label]) => h("th", { scope: "col", class: "num" }, label)))), h("tbody", {}, ...rows))));
  shown = { key: JSON.stringify(result.runs.map((r) => r.summary)), result, charts, style };
  redraw();
}

function sample({ dash, width, colour }) {
  const canvas = h("canvas", { width: 34, height: 8, class: "sample", "aria-hidden": "true" });
  const g = canvas.getContext("2d");
  g.strokeStyle = colour; g.lineWidth = width; g.setLineDash(dash);
  g.beginPath(); g.moveTo(0, 4); g.lineTo(34, 4); g.stroke();
  return canvas;
}

function redraw() {
  if (!shown) return;
  const { result, charts, style } = shown;
  const bounds = logBounds(result.runs.flatMap((r) => result.classes.flatMap((c) => r.curves[c].p95_s)).filter((v) => v !== null));
  for (const { cls, chart } of charts) {
    const series = result.runs.map((r, i) => ({ label: r.name, values: r.curves[cls].p95_s, ...style(i, classColour(Math.max(0, classIndex(cls)))) }));
    chart.show(result.time_s, series, bounds, { from: result.from_s, to: result.to_s });
  }
}

export function show(section) {
  if (!form) { build(section); look(); }
  const names = Object.keys(session.policies);
  if (names.join() !== known) {
    known = names.join();
    list.replaceChildren(...names.map((n) => h("option", { value: n, title: session.policies[n] }, n)));
  }
  if (results.firstChild && results.offsetParent !== null) redraw();
}
