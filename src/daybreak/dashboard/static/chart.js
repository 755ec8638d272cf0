// Line charts and box plots on canvas: small, sharp, in the page's own colours.

import { run } from "./model.js";
import { axisDuration, clock, duration, plain } from "./format.js";
import { tip, untip } from "./dom.js";

const PAD = { left: 46, right: 8, top: 6, bottom: 18 };
export const spans = { choices: [60, 300, 600], chosen: 300 };

let colours = null;
export function palette() {
  if (!colours) {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(name).trim();
    colours = {
      classes: Array.from({ length: 8 }, (_, i) => get(`--c${i}`)),
      ink: get("--ink"), muted: get("--muted"), line: get("--line"), card: get("--card"),
      bad: get("--bad"), warn: get("--warn"), accent: get("--accent"),
    };
  }
  return colours;
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colours = null; });
export const classColour = (i) => palette().classes[((i % 8) + 8) % 8];

/** A canvas with its real size; null while it is not shown. */
export function surface(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!width || !height) return null;
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const g = canvas.getContext("2d");
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, width, height);
  g.font = "11px system-ui, sans-serif";
  return { g, width, height };
}

export function timeLabel(at) {
  return run.head.started_s ? clock(run.head.started_s + at) : `${Math.round(at)} s`;
}

/** Round times within the span, as many as there is room for. */
export function timeTicks(from, to, width) {
  const most = Math.max(1, Math.floor(width / 90));
  const step = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600].find((s) => (to - from) / s <= most) ?? 7200;
  const shift = (run.head.started_s ?? 0) % step;
  const ticks = [];
  for (let t = Math.ceil((from + shift) / step) * step - shift; t <= to; t += step) ticks.push(t);
  return ticks;
}

/** The last seconds that were asked for; all of a shorter run. */
export function span() {
  const to = run.points.at(-1)?.at_s ?? 1;
  const first = run.points[0]?.at_s ?? 0;
  const chosen = run.head.state === "ended" ? Infinity : spans.chosen;
  return { from: Math.max(Math.max(0, first - 1), to - chosen), to: Math.max(to, 1) };
}

function logTicks(low, high) {
  const ticks = [];
  for (let d = Math.ceil(Math.log10(low) - 1e-9); d <= Math.log10(high) + 1e-9; d++) ticks.push(10 ** d);
  return ticks;
}

/** Bounds of a log scale that hold the values, whole decades. */
export function logBounds(values) {
  const known = values.filter((v) => v > 0);
  if (!known.length) return [0.01, 10];
  const low = 10 ** Math.floor(Math.log10(Math.min(...known)) + 1e-9);
  const high = 10 ** Math.ceil(Math.log10(Math.max(...known)) - 1e-9);
  return [Math.min(low, high / 10), high];
}

function niceTop(v) {
  if (v <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 2.5, 5, 10].map((m) => m * unit).find((t) => t >= v - 1e-12);
}

export class LineChart {
  /** log: response times in seconds; else from 0, up to `top` where that is fixed. */
  constructor(canvas, { title, log = false, top = null, format = String, axis = plain }) {
    Object.assign(this, { canvas, title, log, top, format, axis, shown: null });
    canvas.setAttribute("role", "img");
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => { untip(); if (this.hover !== undefined) { this.hover = undefined; this.draw(); } });
  }

  /** series: [{label, colour, values, width, dash, fillTo}], values beside the points' times. */
  show(times, series, bounds = null, range = null) {
    this.shown = { times, series, bounds, range };
    const last = series.map((s) => `${s.label} ${this.format(s.values.at(-1) ?? null)}`).join(", ");
    this.canvas.setAttribute("aria-label", `${this.title}, now: ${last}`);
    this.draw();
  }

  draw() {
    const on = this.shown && surface(this.canvas);
    if (!on) return;
    const { g, width, height } = on;
    const { times, series, bounds, range } = this.shown;
    const p = palette();
    const { from, to } = range ?? span();
    const [x0, x1, y0, y1] = [PAD.left, width - PAD.right, height - PAD.bottom, PAD.top];
    const seen = times.findIndex((t) => t >= from);
    const start = seen < 0 ? times.length : Math.max(0, seen - 1);
    const all = series.flatMap((s) => s.values.slice(start)).filter((v) => v !== null && v !== undefined);
    let low, high, ticks;
    if (this.log) {
      [low, high] = bounds ?? logBounds(all);
      ticks = logTicks(low, high);
    } else {
      low = 0;
      high = this.top ?? niceTop(Math.max(0, ...all));
      ticks = [0, high / 2, high];
    }
    const at = (t) => x0 + ((t - from) / (to - from)) * (x1 - x0);
    const level = this.log
      ? (v) => y0 - (Math.log(Math.max(v, low) / low) / Math.log(high / low)) * (y0 - y1)
      : (v) => y0 - ((v - low) / (high - low)) * (y0 - y1);
    this.scale = { from, to, x0, x1 };
    g.lineWidth = 1;
    g.textBaseline = "middle";
    for (const v of ticks) {
      g.strokeStyle = p.line;
      g.beginPath(); g.moveTo(x0, Math.round(level(v)) + 0.5); g.lineTo(x1, Math.round(level(v)) + 0.5); g.stroke();
      g.fillStyle = p.muted; g.textAlign = "right";
      g.fillText(this.log ? axisDuration(v) : this.axis(v), x0 - 6, Math.min(level(v), y0 - 1));
    }
    g.textAlign = "center"; g.textBaseline = "alphabetic";
    for (const t of timeTicks(from, to, x1 - x0)) {
      if (at(t) < x0 + 18 || at(t) > x1 - 18) continue;
      g.fillText(timeLabel(t), at(t), height - 4);
    }
    g.save();
    g.beginPath(); g.rect(x0, y1 - 2, x1 - x0, y0 - y1 + 4); g.clip();
    for (const s of series) if (s.fillTo) this.band(g, s, times, start, at, level);
    for (const s of series) this.line(g, s, times, start, at, level);
    if (this.hover !== undefined) {
      g.strokeStyle = p.muted; g.setLineDash([2, 3]);
      g.beginPath(); g.moveTo(at(times[this.hover]), y1); g.lineTo(at(times[this.hover]), y0); g.stroke();
    }
    g.restore();
  }

  line(g, s, times, start, at, level) {
    g.strokeStyle = s.colour; g.lineWidth = s.width ?? 1.5; g.globalAlpha = s.alpha ?? 1;
    g.setLineDash(s.dash ?? []);
    g.lineJoin = "round";
    g.beginPath();
    // A gap of a few seconds is bridged: a class need not have results every second.
    let before = null;
    for (let i = start; i < times.length; i++) {
      const v = s.values[i];
      if (v === null || v === undefined) continue;
      const far = before === null || times[i] - times[before] > Math.max(6, 3 * (times[1] - times[0]));
      if (far) { g.moveTo(at(times[i]), level(v)); g.lineTo(at(times[i]) + 0.5, level(v)); }
      else g.lineTo(at(times[i]), level(v));
      before = i;
    }
    g.stroke();
    g.globalAlpha = 1; g.setLineDash([]);
  }

  band(g, s, times, start, at, level) {
    const known = [];
    for (let i = start; i < times.length; i++) if (s.values[i] !== null && s.fillTo[i] !== null) known.push(i);
    if (known.length < 2) return;
    g.fillStyle = s.colour; g.globalAlpha = 0.16;
    g.beginPath();
    known.forEach((i, n) => g[n ? "lineTo" : "moveTo"](at(times[i]), level(s.values[i])));
    for (const i of known.reverse()) g.lineTo(at(times[i]), level(s.fillTo[i]));
    g.fill();
    g.globalAlpha = 1;
  }

  point(event) {
    if (!this.shown || !this.scale) return;
    const { times, series } = this.shown;
    const { from, to, x0, x1 } = this.scale;
    const t = from + ((event.offsetX - x0) / (x1 - x0)) * (to - from);
    if (!times.length) return;
    this.hover = times.reduce((best, at, i) => (Math.abs(at - t) < Math.abs(times[best] - t) ? i : best), 0);
    tip(event, timeLabel(times[this.hover]), series.map((s) => [s.label, this.format(s.values[this.hover] ?? null), s.colour]));
    this.draw();
  }
}

/** Box and whisker of each class, one below the other, on one log scale. */
export function boxPlots(canvas, classes) {
  const on = surface(canvas);
  if (!on) return;
  const { g, width, height } = on;
  const p = palette();
  const label = Math.min(110, Math.max(...classes.map((c) => g.measureText(c.name).width)) + 12);
  const [x0, x1, y0] = [label, width - 14, height - 20];
  const [low, high] = logBounds(classes.flatMap((c) => (c.spread ? Object.values(c.spread) : [])));
  const at = (v) => x0 + (Math.log(Math.max(v, low) / low) / Math.log(high / low)) * (x1 - x0);
  g.textAlign = "center"; g.textBaseline = "alphabetic";
  for (const v of logTicks(low, high)) {
    g.strokeStyle = p.line; g.beginPath(); g.moveTo(Math.round(at(v)) + 0.5, 4); g.lineTo(Math.round(at(v)) + 0.5, y0); g.stroke();
    g.fillStyle = p.muted; g.fillText(axisDuration(v), at(v), height - 5);
  }
  const step = (y0 - 4) / classes.length;
  classes.forEach((c, i) => {
    const y = 4 + step * (i + 0.5);
    const half = Math.min(11, step * 0.3);
    g.fillStyle = p.ink; g.textAlign = "left"; g.textBaseline = "middle";
    g.fillText(c.name, 0, y, label - 8);
    if (!c.spread) { g.fillStyle = p.muted; g.fillText("no answers in the last minute", x0 + 6, y); return; }
    const { p10_s, p25_s, p50_s, p75_s, p90_s } = c.spread;
    g.strokeStyle = classColour(i); g.lineWidth = 1.5;
    g.beginPath();
    g.moveTo(at(p10_s), y); g.lineTo(at(p25_s), y); g.moveTo(at(p75_s), y); g.lineTo(at(p90_s), y);
    for (const v of [p10_s, p90_s]) { g.moveTo(at(v), y - half * 0.6); g.lineTo(at(v), y + half * 0.6); }
    g.stroke();
    g.fillStyle = classColour(i); g.globalAlpha = 0.25;
    g.fillRect(at(p25_s), y - half, Math.max(1, at(p75_s) - at(p25_s)), half * 2); g.globalAlpha = 1;
    g.strokeRect(at(p25_s), y - half, Math.max(1, at(p75_s) - at(p25_s)), half * 2);
    g.lineWidth = 3; g.beginPath(); g.moveTo(at(p50_s), y - half); g.lineTo(at(p50_s), y + half); g.stroke();
    g.lineWidth = 1;
  });
  canvas.setAttribute("aria-label", "Spread of response times: " + classes.map((c) => (c.spread ? `${c.name} median ${duration(c.spread.p50_s)}, half within ${duration(c.spread.p25_s)} to ${duration(c.spread.p75_s)}` : `${c.name} none`)).join("; "));
}
