// Faces and names.
import { h } from "/static/dom.js";
import { store } from "/static/store.js";

const HUES = [212, 152, 28, 268, 340, 188, 92, 12, 240, 310];

export function personOf(message) {
  if (message.user === "USLACKBOT") return { id: "USLACKBOT", name: "Slackbot", real_name: "Slackbot", kind: "bot" };
  return store.people.get(message.user) ?? { id: message.user, name: "unknown", real_name: "Unknown", kind: "member" };
}

export function avatar(person, size = "") {
  if (person.kind === "bot") return h("span", { class: `avatar bot ${size}`, "aria-hidden": "true" }, person.id === "USLACKBOT" ? "S" : "Q");
  const order = [...store.people.keys()].indexOf(person.id);
  const hue = HUES[Math.max(order, 0) % HUES.length];
  const initials = person.real_name.split(/\s+/).map((word) => word[0]).slice(0, 2).join("").toUpperCase();
  return h("span", { class: `avatar ${size}`, "aria-hidden": "true", style: { background: `hsl(${hue} 46% 42%)` } }, initials);
}

const BADGES = { guest: "Guest", external: "External", deactivated: "Left", bot: "App" };

export function badge(person) {
  return BADGES[person.kind] ? h("span", { class: `badge ${person.kind}` }, BADGES[person.kind]) : null;
}
