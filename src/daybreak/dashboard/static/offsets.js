// How far streams are behind their Kafka topics, partition by partition. Hidden without Kafka streams.

import { run } from "./model.js";
import { flag, h, text } from "./dom.js";
import { count } from "./format.js";

const HEADS = ["Stream", "Topic", "Partition", "Read to", "End", "Lag"];
const whole = (n) => (n === null ? "–" : n.toLocaleString("en").replaceAll(",", " "));
let card, body;
let rows = new Map();

/** Records that wait in Kafka, over all partitions; null if that is not known. */
export function totalLag(offsets) {
  return offsets.some((o) => o.lag === null) ? null : offsets.reduce((sum, o) => sum + o.lag, 0);
}

export function build() {
  body = h("tbody");
  rows = new Map();
  card = h("div", { class: "card table-card", id: "offsets", hidden: true },
    h("h2", { title: "Lag: records that are in Kafka and not in the log yet. A dash: the broker does not answer." }, "Kafka"),
    h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ...HEADS.map((t) => h("th", { scope: "col" }, t)))), body));
  return card;
}

export function show() {
  const { offsets } = run.head;
  card.hidden = !offsets.length;
  const keys = offsets.map((o) => `${o.stream} ${o.topic} ${o.partition}`);
  if (keys.join("\n") !== [...rows.keys()].join("\n")) {
    rows = new Map(keys.map((key) => [key, HEADS.map(() => h("td"))]));
    body.replaceChildren(...[...rows.values()].map((cells) => h("tr", {}, ...cells)));
  }
  offsets.forEach((o, i) => {
    const cells = rows.get(keys[i]);
    [o.stream, o.topic, String(o.partition), whole(o.read), whole(o.end), o.lag === null ? "–" : count(o.lag)].forEach((said, n) => text(cells[n], said));
    flag(cells.at(-1), "is-bad", o.lag === null);
  });
}
