// The schedule as a moving strip: who ran when, on how many tuples, with how many riders.

import { classIndex, link, nameOf, nowS, run } from "./model.js";
import { LineChart, classColour, palette, surface, timeLabel, timeTicks } from "./chart.js";
import * as plan from "./plan.js";
import { h, text, tip, untip } from "./dom.js";
import { count, duration, percent } from "./format.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");
const LANE = 46;
let strip, share, shareNow, body, range, hint;
let seconds = 10;
let frame = 0;
let hits = [];

function build(section) {
  strip = h("canvas", { class: "strip", role: "img" });
  strip.addEventListener("pointermove", hover);
  strip.addEventListener("pointerleave", untip);
  range = h("div", { class: "range", role: "group", "aria-label": "Time span of the strip" },
    ...[5, 10, 60].map((s) => h("button", { type: "button", class: "quiet", "aria-pressed": String(s === seconds), onclick: (e) => { seconds = s; for (const b of range.children) b.setAttribute("aria-pressed", String(b === e.target)); paint(); } }, `${s} s`)));
  hint = h("p", { class: "legend muted" }, "A lane is a worker, a block a job in the colour of its class: the query that was asked, + those that rode along, and how many tuples each took. The darker part grows with the tuples.");
  const canvas = h("canvas", { class: "chart low" });
  share = new LineChart(canvas, { title: "Share of time", top: 1, format: (v) => percent(v, 1), axis: percent });
  shareNow = h("span", { class: "muted now" });
  body = h("tbody");
  section.replaceChildren(
    h("div", { class: "bar-line" }, hint, h("span", { class: "grow" }), range),
    h("article", { class: "card" }, strip),
    h("article", { class: "card" }, h("h2", { title: "Workers: share of their time in jobs. Scheduler: share of all threads' time" }, "Workers and scheduler, share of time", h("span", { class: "grow" }), shareNow), canvas),
    plan.build(),
    h("article", { class: "card table-card" }, h("h2", {}, "Last jobs"), h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, ...["When", "Asked", "Along", "Tuples", "Rows", "Took", "Worker"].map((t, i) => h("th", { scope: "col", class: i > 1 ? "num" : null }, t)))), body)));
}

/** Lanes of jobs; of a finished run, whose workers are not recorded, as few as fit. */
function lanes(jobs) {
  if (jobs.every((j) => j.worker >= 0)) return { of: jobs.map((j) => j.worker), count: run.head.workers };
  const ends = [];
  const of = jobs.map((j) => {
    let lane = ends.findIndex((end) => end <= j.begin_s + 1e-4);
    if (lane < 0) lane = ends.push(0) - 1;
    ends[lane] = j.end_s;
    return lane;
  });
  return { of, count: Math.max(1, ends.length) };
}

function paint() {
  const jobs = run.jobs;
  const to = run.head.state === "ended" ? (jobs.at(-1)?.end_s ?? 1) : nowS();
  const from = to - seconds;
  const seen = jobs.filter((j) => j.end_s > from);
  const { of, count: n } = lanes(seen);
  const tall = n * LANE + 22;
  if (strip.dataset.tall !== String(tall)) { strip.dataset.tall = String(tall); strip.style.height = `${tall}px`; }
  const on = surface(strip);
  if (!on) return;
  const { g, width, height } = on;
  const p = palette();
  const at = (t) => ((t - from) / seconds) * width;
  hits = [];
  g.fillStyle = p.line;
  for (let lane = 0; lane <= n; lane++) g.fillRect(0, lane * LANE + 0.5, width, 1);
  g.textAlign = "center"; g.textBaseline = "alphabetic";
  for (const t of timeTicks(from, to, width)) {
    if (at(t) < 30 || at(t) > width - 30) continue;
    g.fillStyle = p.line; g.fillRect(Math.round(at(t)), 0, 1, height - 18);
    g.fillStyle = p.muted; g.fillText(timeLabel(t), at(t), height - 5);
  }
  const top = Math.max(1, ...seen.map((j) => j.tuples));
  g.textAlign = "left"; g.textBaseline = "middle";
  seen.forEach((job, i) => block(g, job, of[i], at, top, p));
  for (const u of run.head.state === "running" ? run.head.underway : []) {
    block(g, { ...u, seq: -1, begin_s: run.head.elapsed_s - u.for_s, end_s: to, rows: 0, open: true }, u.worker, at, top, p);
  }
  strip.setAttribute("aria-label", `Schedule of the last ${seconds} seconds: ${seen.length} jobs on ${n} lanes`);
}

function block(g, job, lane, at, top, p) {
  const x = Math.max(0, at(job.begin_s));
  const w = Math.max(1.5, at(job.end_s) - x - 0.5);
  const y = lane * LANE + 5, tall = LANE - 9;
  const cls = Math.max(0, classIndex(run.queries.get(job.queries[0])?.cls));
  const colour = job.failed ? p.bad : classColour(cls);
  const part = tall * (0.12 + 0.88 * (Math.log1p(job.tuples) / Math.log1p(top)));
  g.fillStyle = colour; g.globalAlpha = 0.28; g.fillRect(x, y, w, tall);
  g.globalAlpha = job.open ? 0.45 : 0.85; g.fillRect(x, y + tall - part, w, part); g.globalAlpha = 1;
  if (job.failed) { g.strokeStyle = p.ink; g.beginPath(); g.moveTo(x, y); g.lineTo(x + w, y + tall); g.stroke(); }
  hits.push({ x, w, y, tall, job });
  if (w < 24) return;
  const along = job.queries.length - 1;
  g.save(); g.beginPath(); g.rect(x, y, w - 3, tall); g.clip();
  g.fillStyle = p.ink; g.lineJoin = "round"; g.strokeStyle = p.card; g.lineWidth = 3;
  [[nameOf(job.queries[0]), along ? ` +${along}` : "", 0.3], [count(job.tuples), w > 70 ? " tuples" : "", 0.72]].forEach(([name, more, down]) => {
    const said = fitted(g, name, more, w - 8);
    g.strokeText(said, x + 4, y + tall * down); g.fillText(said, x + 4, y + tall * down);
  });
  g.restore(); g.lineWidth = 1;
}

/** As much of a name as there is room for, and what must not be cut off. */
function fitted(g, name, more, room) {
  if (g.measureText(name + more).width <= room) return name + more;
  let most = name.length - 1;
  while (most > 1 && g.measureText(`${name.slice(0, most)}…${more}`).width > room) most--;
  return most > 1 ? `${name.slice(0, most)}…${more}` : more.trim();
}

function hover(event) {
  const hit = hits.findLast((b) => event.offsetX >= b.x - 1 && event.offsetX <= b.x + b.w + 1 && event.offsetY >= b.y && event.offsetY <= b.y + b.tall);
  if (!hit) { untip(); return; }
  const { job } = hit;
  const along = job.queries.slice(1, 9).map(nameOf);
  tip(event, nameOf(job.queries[0]), [
    ["tuples", count(job.tuples)], ["took", duration(job.end_s - job.begin_s)],
    ["along", job.queries.length > 1 ? `${job.queries.length - 1}: ${along.join(", ")}${job.queries.length > 9 ? " …" : ""}` : "nobody"],
    ...(job.failed ? [["", "failed"]] : []),
  ]);
}

function move() {
  frame = 0;
  if (strip.offsetParent === null) return;
  paint();
  if (!still.matches && run.head.state === "running" && link.state === "live") later();
}

/** About twenty times a second is smooth enough, and cheap. */
function later() {
  if (frame) return;
  frame = setTimeout(() => requestAnimationFrame(move), 50);
}

export function show(section) {
  if (!strip) build(section);
  paint();
  if (!still.matches) later();
  const times = run.points.map((p) => p.at_s);
  const { classes, muted } = palette();
  share.show(times, [
    { label: "workers busy", colour: classes[6], values: run.points.map((p) => p.busy_share), fillTo: run.points.map(() => 0) },
    { label: "scheduler", colour: muted, values: run.points.map((p) => p.scheduler_share), width: 2 },
  ]);
  const last = run.points.at(-1);
  text(shareNow, last ? `workers ${percent(last.busy_share)} · scheduler ${percent(last.scheduler_share, 1)}` : "");
  plan.show();
  if (body.matches(":hover")) return;
  body.replaceChildren(...run.jobs.slice(-15).reverse().map((j) => h("tr", { class: j.failed ? "failed" : null },
    h("td", {}, timeLabel(j.end_s)), h("td", {}, nameOf(j.queries[0])),
    ...[String(j.queries.length - 1), count(j.tuples), j.failed ? "failed" : count(j.rows), duration(j.end_s - j.begin_s), j.worker < 0 ? "–" : String(j.worker)].map((t) => h("td", { class: "num" }, t)))));
}
