// The network: streams, shared views and queries as boxes, queue lengths on the arrows.
// Queries of one class over the same streams are one box with a cell for each of them, so that
// hundreds stay readable; they are also the ones that may run as one job.

import { classIndex, nameOf, queued, run } from "./model.js";
import { h, svg, text, tip, untip } from "./dom.js";
import { count, duration } from "./format.js";
import { filterTo } from "./queries.js";
import * as offsets from "./offsets.js";

const NAMED = 5;
const CELL = 13;
const ACROSS = 16;
const WIDTH = { stream: 170, group: 236, gap: 130 };
let drawn = "";
let canvas, jobsNode, picked = null;
let cells = new Map();
let labels = [];

function layout() {
  const streams = run.head.streams;
  const groups = new Map();
  for (const q of [...run.queries.values()].sort((a, b) => a.number - b.number)) {
    const key = q.view ? `view ${q.view}` : `${classIndex(q.cls)} ${q.reads.join(",")} ${q.reads.length > 1 ? q.name : ""}`;
    if (!groups.has(key)) groups.set(key, { key, cls: q.cls, reads: q.reads, view: q.view, queries: [] });
    groups.get(key).queries.push(q);
  }
  // A view stands one column after what it reads; queries stand one after the last view.
  const depth = new Map(streams.filter((s) => !s.view).map((s) => [s.name, 0]));
  const views = [...groups.values()].filter((g) => g.view);
  for (let pass = 0; pass <= views.length; pass++) {
    for (const g of views) if (g.reads.every((r) => depth.has(r))) depth.set(g.view, 1 + Math.max(...g.reads.map((r) => depth.get(r))));
  }
  const last = 1 + Math.max(0, ...depth.values());
  // Views and what reads them stand above, so that arrows from streams pass below.
  const deepest = (g) => Math.max(0, ...g.reads.map((r) => depth.get(r) ?? 0));
  const columns = Array.from({ length: last + 1 }, () => []);
  for (const s of streams) if (!s.view) columns[0].push({ kind: "stream", stream: s, name: s.name });
  for (const g of views) columns[depth.get(g.view) ?? 1].push({ kind: "view", group: g, name: g.view });
  const order = [...groups.values()].filter((g) => !g.view).sort((a, b) => deepest(b) - deepest(a) || classIndex(a.cls) - classIndex(b.cls) || a.key.localeCompare(b.key));
  for (const g of order) columns[last].push({ kind: "group", group: g, name: g.key });
  return { columns, signature: JSON.stringify(columns.map((c) => c.map((b) => [b.kind, b.name, b.group?.queries.map((q) => q.name), b.group?.reads]))) };
}

function sizeOf(box) {
  if (box.kind === "stream") return [WIDTH.stream, 48];
  const n = box.group.queries.length;
  if (box.kind === "view") return [WIDTH.stream, 48];
  if (n <= NAMED) return [WIDTH.group, 28 + n * 18 + 6];
  return [WIDTH.group, 34 + Math.ceil(n / ACROSS) * CELL + 4];
}

function draw(columns) {
  cells = new Map(); labels = [];
  const places = new Map();
  let x = 4, height = 0;
  columns.forEach((column, i) => {
    let y = 8;
    let widest = 0;
    for (const box of column) {
      const [w, tall] = sizeOf(box);
      Object.assign(box, { x, y, w, tall });
      widest = Math.max(widest, w);
      y += tall + (column.length > 12 ? 8 : 14);
      if (box.kind !== "group") places.set(box.name, box);
    }
    height = Math.max(height, y);
    x += widest + (i < columns.length - 1 && column.length ? WIDTH.gap : 8);
  });
  // Streams stand beside the middle of what reads them.
  const below = columns.at(-1).filter((b) => b.group.reads.some((r) => places.get(r)?.kind === "stream"));
  if (below.length && columns.length > 1) {
    const middle = (below[0].y + below.at(-1).y + below.at(-1).tall) / 2;
    const tall = columns[0].at(-1).y + columns[0].at(-1).tall;
    for (const box of columns[0]) box.y += Math.max(0, Math.min(middle - tall / 2, height - tall - 8));
  }
  const root = svg("svg", { viewBox: `0 0 ${x} ${height}`, style: { "max-width": `${x * 1.1}px`, "min-width": `${x * 0.7}px` }, role: "group", "aria-label": "Network of streams, views and queries" });
  root.append(svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" }, svg("path", { d: "M0 0 8 4 0 8z", class: "arrowhead" }))));
  const arrows = svg("g");
  const boxes = svg("g");
  root.append(arrows, boxes);
  const outs = new Map();
  for (const box of columns.flat()) for (const r of box.group?.reads ?? []) outs.set(r, (outs.get(r) ?? 0) + 1);
  const used = new Map();
  for (const box of columns.flat()) {
    (box.group?.reads ?? []).forEach((stream, i, all) => {
      const from = places.get(stream);
      if (from) arrows.append(...arrow(from, box, stream, used, outs.get(stream), (i + 1) / (all.length + 1)));
    });
    boxes.append(node(box));
  }
  canvas.replaceChildren(root);
}

function arrow(from, to, stream, used, outs, entry) {
  const nth = (used.get(stream) ?? 0) + 1;
  used.set(stream, nth);
  const [x0, y0] = [from.x + from.w, from.y + (from.tall * nth) / (outs + 1)];
  const [x1, y1] = [to.x - 1, to.y + to.tall * entry];
  const bend = Math.max(30, (x1 - x0) / 2);
  const line = svg("path", { d: `M${x0} ${y0}C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}`, class: "edge", "marker-end": "url(#arrow)", style: { "--cls": `var(--c${Math.max(0, classIndex(to.group.cls)) % 8})` } });
  const label = svg("text", { x: x1 - 10, y: y1 - 6, "text-anchor": "end", class: "queue" });
  labels.push(() => {
    const members = to.group.queries.map((q) => run.queries.get(q.number)).filter(Boolean);
    // All of a group read the same tuples: the arrow tells what the last of them has yet to take.
    const waits = Math.max(0, ...members.map((q) => queued(q, stream)));
    text(label, waits ? count(waits) : "");
    line.style.setProperty("stroke-width", String(1.2 + Math.min(6, Math.log10(1 + waits))));
    line.classList.toggle("full", waits > 0);
  });
  return [line, label];
}

function node(box) {
  const cls = box.group ? Math.max(0, classIndex(box.group.cls)) % 8 : 0;
  const head = svg("text", { x: 10, y: 19, class: "box-title" });
  const about = svg("text", { x: 10, y: 36, class: "box-about" });
  const g = svg("g", { transform: `translate(${box.x} ${box.y})`, class: `box ${box.kind}`, style: { "--cls": `var(--c${cls})` } },
    svg("rect", { width: box.w, height: box.tall, rx: 7, class: "frame" }), head);
  if (box.kind === "stream") {
    head.textContent = clip(box.name, 22);
    g.append(about);
    labels.push(() => {
      const s = run.head.streams.find((s) => s.name === box.name);
      text(about, s ? (s.error ? "source failed" : s.blocked ? "blocked: log is full" : `${count(s.arrived_per_s)}/s · ${count(s.arrived)} rows`) : "");
      g.classList.toggle("bad", Boolean(s?.error || s?.blocked));
    });
    g.addEventListener("pointermove", (event) => {
      const s = run.head.streams.find((s) => s.name === box.name);
      if (s) tip(event, s.name, [["arrived", count(s.arrived)], ["through the driver", count(s.rows_through_driver)], ["kept segments", count(s.segments)], ["read", s.ingest || "–"], ["reading took", `${s.ingest_work_s.toFixed(1)} s`], ["waited for its turn", `${s.ingest_waited_s.toFixed(1)} s`]]);
    });
    g.addEventListener("pointerleave", untip);
    return g;
  }
  const members = box.group.queries;
  if (box.kind === "view") {
    head.textContent = `view ${clip(box.name, 18)}`;
    g.append(about);
    cells.set(members[0].number, g);
    labels.push(() => {
      const s = run.head.streams.find((s) => s.name === box.name);
      text(about, s ? `${count(s.arrived_per_s)} rows/s out` : "");
    });
  } else if (members.length <= NAMED) {
    head.textContent = `${box.group.cls}${members.length > 1 ? ` · ${members.length}` : ""}`;
    members.forEach((q, i) => {
      const line = svg("g", { transform: `translate(10 ${28 + i * 18})`, class: "cell named" }, svg("rect", { width: box.w - 20, height: 16, rx: 4 }), svg("text", { x: 6, y: 12 }, clip(q.name, 30)));
      cells.set(q.number, line);
      g.append(line);
    });
  } else {
    head.textContent = `${box.group.cls} · ${members.length} queries`;
    members.forEach((q, i) => {
      const cell = svg("rect", { x: 10 + (i % ACROSS) * CELL, y: 30 + Math.floor(i / ACROSS) * CELL, width: CELL - 2, height: CELL - 2, rx: 2.5, class: "cell" });
      cells.set(q.number, cell);
      g.append(cell);
    });
  }
  const link = svg("a", { href: "#queries", "aria-label": describe(box.group), onclick: () => filterTo(box.group.view ? `view ${box.group.view}` : members.length === 1 ? members[0].name : box.group.reads.join(" "), members.length === 1 ? "" : box.group.cls) }, g);
  g.addEventListener("pointermove", (event) => {
    const number = [...cells].find(([, c]) => c === event.target || c.contains(event.target))?.[0];
    const q = run.queries.get(number ?? (members.length === 1 ? members[0].number : -1));
    if (q) tip(event, q.name, [["", q.state], ["waiting", count(q.waiting)], ["cost", duration(q.cost_us / 1e6)], ["jobs", count(q.jobs)], ...(q.error ? [["error", q.error]] : [])]);
    else untip();
  });
  g.addEventListener("pointerleave", untip);
  return link;
}

const clip = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);
const describe = (group) => `${group.view ? `view ${group.view}` : `${group.queries.length} queries of class ${group.cls}`}, reading ${group.reads.join(" and ")}: show in the table`;

function paint() {
  const asked = new Set(), riding = new Set();
  for (const u of run.head.underway) u.queries.forEach((n, i) => (i ? riding : asked).add(n));
  for (const [n, cell] of cells) {
    const q = run.queries.get(n);
    const state = !q ? "" : q.state === "parked" || q.state === "retrying" ? "bad" : q.state === "paused" ? "off" : "";
    const now = asked.has(n) ? "asked" : riding.has(n) ? "riding" : run.fresh.has(n) ? "fresh" : "";
    const chosen = picked ? (picked.queries[0] === n ? "picked first" : picked.queries.includes(n) ? "picked" : "unpicked") : "";
    const base = cell.classList.contains("cell") ? (cell.classList.contains("named") ? "cell named" : "cell") : `box ${cell.classList.contains("view") ? "view" : ""}`;
    const wanted = `${base} ${state} ${now} ${chosen}`.replace(/\s+/g, " ").trim();
    if (cell.getAttribute("class") !== wanted) cell.setAttribute("class", wanted);
  }
}

function jobLine(job) {
  const others = job.queries.length - 1;
  const row = h("button", { type: "button", class: "job-line quiet", "aria-pressed": String(picked?.seq === job.seq), onclick: () => { picked = picked?.seq === job.seq ? null : job; paint(); listJobs(); } },
    h("i", { class: "swatch", style: { "--cls": `var(--c${Math.max(0, classIndex(run.queries.get(job.queries[0])?.cls)) % 8})` } }),
    h("span", { class: "clip" }, nameOf(job.queries[0]), others ? ` + ${others} along` : ""),
    h("span", { class: "muted" }, `${count(job.tuples)} tuples, ${duration(job.end_s - job.begin_s)}${job.failed ? ", failed" : ""}`));
  if (others) row.title = job.queries.slice(0, 40).map(nameOf).join(", ");
  if (job.failed) row.classList.add("bad");
  return row;
}

function listJobs() {
  const shown = run.jobs.slice(-12).reverse();
  if (picked && !shown.some((j) => j.seq === picked.seq)) shown.push(picked);
  jobsNode.replaceChildren(...shown.map(jobLine));
}

export function show(section) {
  if (!canvas) {
    canvas = h("div", { class: "network-canvas", tabindex: "0", role: "group", "aria-label": "Network drawing, scrolls" });
    jobsNode = h("div", { class: "jobs-list" });
    section.replaceChildren(
      h("p", { class: "legend muted" }, "Each cell is a query. ", h("i", { class: "key asked" }), "runs now ", h("i", { class: "key riding" }), "runs along ", h("i", { class: "key fresh" }), "ran in the last second ", h("i", { class: "key off" }), "paused ", h("i", { class: "key bad" }), "failed. On the arrows: tuples that wait."),
      h("div", { class: "network" }, h("div", { class: "card" }, canvas), h("aside", { class: "card jobs-card" }, h("h2", {}, "Last jobs"), h("p", { class: "muted small" }, "Choose one to see what was composited with what."), jobsNode)),
      offsets.build());
  }
  const { columns, signature } = layout();
  const full = signature + run.classes.map((c) => c.name).join();
  if (full !== drawn) { drawn = full; draw(columns); }
  for (const label of labels) label();
  paint();
  offsets.show();
  if (!jobsNode.matches(":hover, :focus-within")) listJobs();
}
