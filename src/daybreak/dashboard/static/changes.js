// Who changed what, when, from which value to which.

import { run } from "./model.js";
import { h } from "./dom.js";
import { clock, value } from "./format.js";

let listed = -1;
let body, none;

export function show(section) {
  if (!body) {
    body = h("tbody");
    none = h("p", { class: "muted" }, "Nothing was changed since the run began.");
    section.replaceChildren(h("p", { class: "legend muted" }, "Kept in the run's event log, events.jsonl, and in its report."), none,
      h("div", { class: "card table-card" }, h("table", { class: "plain" },
        h("thead", {}, h("tr", {}, ...["When", "Who", "What", "Subject", "Was", "Is"].map((t) => h("th", { scope: "col" }, t)))), body)));
  }
  const newest = run.changes.at(-1)?.seq ?? -2;
  if (newest === listed) return;
  listed = newest;
  none.hidden = run.changes.length > 0;
  body.closest(".card").hidden = !none.hidden;
  body.replaceChildren(...run.changes.toReversed().map((c) => h("tr", {},
    h("td", {}, c.time_s ? clock(c.time_s) : `${c.at_s} s`), h("td", {}, c.by), h("td", {}, c.what), h("td", {}, c.subject),
    h("td", {}, value(c.was)), h("td", {}, value(c.now)))));
}
