// Numbers as people read them. What is not known is a dash.

const NONE = "–";

export function duration(s) {
  if (s === null || s === undefined) return NONE;
  if (s === 0) return "0";
  if (s < 0.001) return `${(s * 1e6).toFixed(0)} µs`;
  if (s < 0.01) return `${(s * 1e3).toFixed(1)} ms`;
  if (s < 1) return `${(s * 1e3).toFixed(0)} ms`;
  if (s < 10) return `${s.toFixed(2)} s`;
  if (s < 100) return `${s.toFixed(1)} s`;
  if (s < 3600) return `${(s / 60).toFixed(1)} min`;
  if (s < 172800) return `${(s / 3600).toFixed(1)} h`;
  return `${(s / 86400).toFixed(1)} d`;
}

export function uptime(s) {
  const whole = Math.floor(s);
  const [d, h, m] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  return m ? `${m} min ${whole % 60} s` : `${whole} s`;
}

export function count(n) {
  if (n === null || n === undefined) return NONE;
  const a = Math.abs(n);
  if (a >= 1e9) return `${(n / 1e9).toFixed(1)} G`;
  if (a >= 1e6) return `${(n / 1e6).toFixed(1)} M`;
  if (a >= 1e4) return `${(n / 1e3).toFixed(0)} k`;
  if (Number.isInteger(n) || a >= 100) return Math.round(n).toLocaleString("en").replaceAll(",", " ");
  return n.toFixed(a < 1 ? 2 : 1);
}

export function bytes(n) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (n < 1000 || unit === "GB") return `${unit === "B" ? n : n.toFixed(1)} ${unit}`;
    n /= 1000;
  }
}

export function percent(share, digits = 0) {
  if (share === null || share === undefined) return NONE;
  const p = share * 100;
  return `${p > 0 && p < 10 ** -digits / 2 ? `<${10 ** -digits}` : p.toFixed(digits)} %`;
}

export function ratio(x) {
  if (x === null || x === undefined) return NONE;
  if (x === 0) return "0";
  return x >= 100 ? x.toFixed(0) : x >= 0.1 ? x.toFixed(2) : x < 0.0001 ? "<0.0001" : x.toPrecision(2);
}

/** A figure on an axis: short, without zeros that say nothing. */
export function axisDuration(s) {
  if (s < 1) return s < 0.001 ? `${Math.round(s * 1e6)} µs` : `${Number((s * 1e3).toPrecision(3))} ms`;
  return s < 3600 ? `${Number(s.toPrecision(3))} s` : `${Number((s / 3600).toPrecision(2))} h`;
}

export const plain = (x) => (x >= 1000 ? count(x) : String(Number(x.toPrecision(3))));

export function clock(unix) {
  return new Date(unix * 1000).toLocaleTimeString("en-GB");
}

export function value(v) {
  if (v === null || v === undefined) return NONE;
  if (typeof v !== "object") return String(v);
  const inner = Object.entries(v).map(([k, x]) => `${k} ${x}`).join(", ");
  return inner || "defaults";
}
