// What an operator does from the page. Every change is confirmed first, and told afterwards.

import { command, run, session } from "./model.js";
import { h, $ } from "./dom.js";

export function toast(said, bad = false) {
  const node = h("p", { class: bad ? "toast bad" : "toast" }, said);
  $("#toasts").append(node);
  setTimeout(() => node.remove(), bad ? 12000 : 6000);
}

/** What the worst answers of a query, or of a class, were lost to: the lines of `daybreak why`. */
export async function whyLate(subject) {
  const said = h("pre", { class: "why", tabindex: "0" }, "asking ...");
  const title = h("h2", { id: "dialog-title" }, "Why late?");
  const close = h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close");
  const dialog = h("dialog", { "aria-labelledby": "dialog-title", class: "wide" }, title, said, h("div", { class: "buttons" }, close));
  const opener = document.activeElement;
  dialog.addEventListener("close", () => { dialog.remove(); opener?.focus?.(); });
  document.body.append(dialog);
  dialog.showModal();
  const answer = await fetch(`/api/why?${new URLSearchParams(subject)}`);
  const found = await answer.json();
  title.textContent = found.query ? `Why is ${found.query} late?` : "Why late?";
  said.textContent = found.lines ? found.lines.join("\n") : `${found.error?.place}: ${found.error?.finding}; ${found.error?.remedy}`;
}

/** Asks; calls `act` with the form's values, and stays open with the reason if that fails. */
export function confirm({ title, body, fields = [], action, act }) {
  const error = h("p", { class: "error", role: "alert" });
  const go = h("button", { class: "primary", value: "go" }, action);
  const cancel = h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Cancel");
  const inputs = fields.map((f) => f.node);
  const form = h("form", { method: "dialog" },
    h("h2", { id: "dialog-title" }, title), body ? h("p", {}, body) : "",
    ...fields.map((f) => h("label", {}, h("span", {}, f.label), f.node, f.hint ? h("small", {}, f.hint) : "")),
    error, h("div", { class: "buttons" }, cancel, go));
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true;
    error.textContent = "";
    try {
      const said = await act(inputs.map((node) => (node.type === "checkbox" ? node.checked : node.value)));
      dialog.close();
      if (said) toast(said);
    } catch (failure) {
      error.textContent = failure.message;
      go.disabled = false;
    }
  });
  const opener = document.activeElement;
  dialog.addEventListener("close", () => { dialog.remove(); opener?.focus?.(); });
  document.body.append(dialog);
  dialog.showModal();
  (inputs[0] ?? go).focus();
  if (inputs[0]?.select) inputs[0].select();
}

const number = (value, props = {}) => h("input", { type: "number", step: "any", required: true, value, ...props });
const choice = (chosen, options) => h("select", {}, ...options.map((o) => h("option", { value: o, selected: o === chosen }, o)));

export function changePriority(name) {
  const cls = run.classes.find((c) => c.name === name);
  confirm({
    title: `Priority of class ${name}`,
    body: `Now ${cls.priority}. It holds from the next schedule on, for its ${cls.queries} queries, until the run ends.`,
    fields: [{ label: "New priority", node: number(cls.priority, { min: "0", name: "priority" }) }],
    action: "Change priority",
    act: async ([given]) => {
      await command("set-class", { class: name, priority: Number(given) });
      return `class ${name}: priority ${cls.priority} → ${Number(given)}`;
    },
  });
}

export function pauseQuery(query) {
  confirm({
    title: `Pause ${query.name}?`,
    body: "A job under way ends, then none begins. What arrives waits, also beyond a restart.",
    action: "Pause",
    act: async () => { await command("pause", { query: query.name }); return `${query.name} is paused`; },
  });
}

export function resumeQuery(query) {
  const parked = query.state === "parked" || query.state === "retrying";
  confirm({
    title: `Resume ${query.name}?`,
    body: query.error ? `It failed: ${query.error}` : `${query.waiting} tuples wait for it.`,
    fields: parked ? [{ label: "Give up what it failed on, for ever", node: h("input", { type: "checkbox", name: "skip" }), hint: "Rows, or one result that its sink refuses. They are recorded as lost." }] : [],
    action: "Resume",
    act: async ([skip]) => {
      const result = await command("resume", { query: query.name, skip: Boolean(skip) });
      return `${query.name} goes on` + (result.skipped ? `, ${result.skipped} rows given up` : "");
    },
  });
}

export function changeQuery(query) {
  confirm({
    title: `Change ${query.name}`,
    body: `Now in class ${query.cls}, weight ${query.weight}. Its priority is that of its class (${query.priority}).`,
    fields: [
      { label: "Class", node: choice(query.cls, run.classes.map((c) => c.name)) },
      { label: "Freshness weight", node: number(query.weight, { min: "0", max: "1", name: "weight" }), hint: "above 0, up to 1" },
    ],
    action: "Change",
    act: async ([cls, weight]) => {
      const args = { query: query.name };
      if (cls !== query.cls) args.class = cls;
      if (Number(weight) !== query.weight) args.weight = Number(weight);
      if (Object.keys(args).length === 1) return "nothing was changed";
      await command("set-query", args);
      return `${query.name}: ${[args.class && `class ${query.cls} → ${cls}`, args.weight && `weight ${query.weight} → ${args.weight}`].filter(Boolean).join(", ")}`;
    },
  });
}

export function changePolicy() {
  const select = choice(run.head.policy, Object.keys(session.policies));
  const about = h("small", {}, session.policies[run.head.policy] ?? "");
  select.addEventListener("change", () => { about.textContent = session.policies[select.value] ?? ""; });
  const field = { label: "Policy", node: select };
  confirm({
    title: "Policy of the run",
    body: `Now ${run.head.policy}. Jobs under way end as they are; the new policy begins with its defaults.`,
    fields: [field],
    action: "Change policy",
    act: async ([policy]) => {
      const was = run.head.policy;
      if (policy === was) return "nothing was changed";
      await command("set-policy", { policy });
      return `policy ${was} → ${policy}`;
    },
  });
  select.after(about);
}
