// Elements are built, never parsed: whatever a message contains ends up in a text node.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";
const PATHS = {
  hash: "M4 6.2h9M3.4 10h9M6.6 3l-1.4 10M11 3 9.6 13",
  lock: "M4.5 7.5h7v5h-7zM6 7.5V5.6a2 2 0 0 1 4 0v1.9",
  close: "m4 4 8 8m0-8-8 8",
  send: "M2.5 8 13.5 3l-3 10-2.7-3.7zM7.8 9.3 13.5 3",
  eye: "M1.8 8S4 4 8 4s6.2 4 6.2 4S12 12 8 12 1.8 8 1.8 8zM8 9.6a1.6 1.6 0 1 0 0-3.2 1.6 1.6 0 0 0 0 3.2z",
  reply: "M3 4h10v6.5H8L5 13v-2.5H3z",
  pulse: "M2 8h3l1.6-4 2.8 8L11 8h3",
  menu: "M3 4.5h10M3 8h10M3 11.5h10",
  archive: "M3 4h10v2.5H3zM4 6.5V12h8V6.5M6.5 9h3",
  people: "M6 8a2.2 2.2 0 1 0 0-4.4A2.2 2.2 0 0 0 6 8zm-3.6 4.6c0-1.9 1.6-3 3.6-3s3.6 1.1 3.6 3M10.4 7.6a1.8 1.8 0 1 0-.6-3.5m1.5 5.2c1.4.2 2.4 1.2 2.4 2.7",
};

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}
