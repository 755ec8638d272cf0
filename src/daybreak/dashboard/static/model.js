// What is known of the run, kept up to date by server-sent events.

const POINTS = 600;
const JOBS = 1500;
const CHANGES = 200;

export const run = {
  known: false, head: {}, classes: [], queries: new Map(), edges: new Map(),
  points: [], jobs: [], changes: [], fields: null,
  /** Numbers of the queries in jobs that ended since the message before. */
  fresh: new Map(),
};
export const session = { csrf: "", policies: {}, version: "" };
/** connecting, live, lost, or gone (with why). */
export const link = { state: "connecting", why: "" };

const listeners = new Set();
export function subscribe(listener) { listeners.add(listener); }
function tell() { for (const listener of listeners) listener(); }

const named = (fields, row) => Object.fromEntries(fields.map((f, i) => [f, row[i]]));

function point(row) {
  const p = named(run.fields.points, row);
  p.classes = p.classes.map((c) => named(run.fields.class_points, c));
  return p;
}

function take(message, anew) {
  if (anew) {
    run.fields = message.fields;
    run.queries.clear();
    run.points = []; run.jobs = []; run.changes = [];
  }
  const { queries, gone, edges, points, jobs, groups, changes, fields, ...head } = message;
  run.head = head;
  run.classes = head.classes;
  for (const row of queries) {
    const q = named(run.fields.queries, row);
    run.queries.set(q.number, q);
  }
  for (const n of gone) run.queries.delete(n);
  run.edges.clear();
  for (const [stream, query, waiting] of edges) run.edges.set(`${query} ${stream}`, waiting);
  run.points.push(...points.map(point));
  run.points.splice(0, run.points.length - POINTS);
  run.fresh.clear();
  for (const row of jobs) {
    const job = named(run.fields.jobs, row);
    job.queries = groups[job.queries];
    run.jobs.push(job);
    if (!anew) job.queries.forEach((n, i) => { if (i === 0 || !run.fresh.has(n)) run.fresh.set(n, i === 0); });
  }
  run.jobs.splice(0, run.jobs.length - JOBS);
  run.changes.push(...changes);
  run.changes.splice(0, run.changes.length - CHANGES);
  run.received = performance.now();
  run.known = true;
}

/** Tuples of a stream that wait for a query. */
export function queued(query, stream) {
  return query.reads.length > 1 ? run.edges.get(`${query.number} ${stream}`) ?? 0 : query.waiting;
}

export const classIndex = (name) => run.classes.findIndex((c) => c.name === name);
export const nameOf = (number) => run.queries.get(number)?.name ?? `query ${number}`;
/** The run's clock now; it goes on between two messages, while the run does. */
export function nowS() {
  const since = run.head.state === "running" && link.state === "live" ? (performance.now() - run.received) / 1000 : 0;
  return run.head.elapsed_s + Math.min(since, 1.5);
}

let lastId = "";
let waitMs = 0;

function become(state, why = "") {
  if (link.state === state && link.why === why) return;
  link.state = state; link.why = why;
  tell();
}

async function openSession() {
  const answer = await fetch("/api/session");
  if (!answer.ok) throw new Error((await answer.text()).trim());
  Object.assign(session, await answer.json());
}

export function connect() {
  openSession().then(listen, (error) => again(error.message));
}

function listen() {
  const source = new EventSource(`/events?last=${encodeURIComponent(lastId)}`);
  const on = (kind, take) => source.addEventListener(kind, (event) => {
    lastId = event.lastEventId;
    waitMs = 0;
    take(JSON.parse(event.data));
  });
  on("hello", (data) => { take(data, true); link.state = "live"; link.why = ""; tell(); });
  on("news", (data) => { take(data, false); link.state = "live"; link.why = ""; tell(); });
  on("gone", (data) => become("gone", data.error));
  source.onerror = () => { source.close(); again(""); };
}

/** Tries for ever, at most every five seconds: the server may have been started anew. */
function again(why) {
  become("lost", why);
  waitMs = Math.min(5000, waitMs ? waitMs * 2 : 250);
  setTimeout(connect, waitMs);
}

/** Asks the run for a change; raises with what was wrong. */
export async function command(name, args) {
  return post("/api/command", { command: name, args });
}

export async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Daybreak-CSRF": session.csrf },
    body: JSON.stringify(body),
  });
  const said = await answer.text();
  let data = null;
  try { data = JSON.parse(said); } catch { /* a refusal is plain text */ }
  if (!answer.ok || !data?.ok) {
    const e = data?.error;
    throw new Error(e ? `${e.place}: ${e.finding}; ${e.remedy}` : said.trim() || `status ${answer.status}`);
  }
  return data.result;
}
