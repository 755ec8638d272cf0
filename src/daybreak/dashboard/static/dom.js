// Builds elements. Text only ever becomes text nodes, so names and errors cannot become HTML.

export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(node, props, children) {
  for (const [key, given] of Object.entries(props)) {
    if (given === null || given === undefined || given === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), given);
    else if (key === "style") for (const [k, v] of Object.entries(given)) node.style.setProperty(k, v);
    else node.setAttribute(key, given === true ? "" : given);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

/** Sets the text if it is another one: an unchanged page costs nothing. */
export function text(node, wanted) {
  if (node.textContent !== wanted) node.textContent = wanted;
}

export function flag(node, name, on) {
  if (node.classList.contains(name) !== Boolean(on)) node.classList.toggle(name, Boolean(on));
}

export const $ = (selector, within = document) => within.querySelector(selector);

const tipNode = () => document.getElementById("tip");

/** A note beside the pointer: lines of [label, text, colour]. */
export function tip(event, title, lines) {
  const node = tipNode();
  node.replaceChildren(
    h("strong", {}, title),
    ...lines.map(([label, said, colour]) =>
      h("span", {}, colour ? h("i", { style: { background: colour } }) : "", `${label} `, h("b", {}, said)),
    ),
  );
  node.hidden = false;
  const box = node.getBoundingClientRect();
  const x = Math.min(event.clientX + 14, window.innerWidth - box.width - 8);
  const y = event.clientY + 16 + box.height > window.innerHeight ? event.clientY - box.height - 12 : event.clientY + 16;
  node.style.left = `${Math.max(4, x)}px`;
  node.style.top = `${Math.max(4, y)}px`;
}

export function untip() {
  tipNode().hidden = true;
}
