// Times as the acting person sees them: the world's clock, in their own zone.
import { me, store } from "/static/store.js";

function zone() {
  return me()?.zone ?? "UTC";
}

function formatted(date, options) {
  return new Intl.DateTimeFormat("en-GB", { timeZone: zone(), ...options }).format(date);
}

export const dateOf = (ts) => new Date(Number(ts) * 1000);
export const clock = (date) => formatted(date, { hour: "2-digit", minute: "2-digit" });
export const clockWithSeconds = (date) => formatted(date, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
export const full = (date) => formatted(date, { dateStyle: "full", timeStyle: "medium" });
export const dayKey = (date) => formatted(date, { year: "numeric", month: "2-digit", day: "2-digit" });

export function worldClock() {
  const options = { weekday: "short", day: "numeric", month: "short", year: "numeric" };
  return `${formatted(store.now, options)}, ${clockWithSeconds(store.now)}`;
}

export function dayName(date) {
  const near = relativeDay(date);
  if (near) return near;
  return formatted(date, { weekday: "long", day: "numeric", month: "long" });
}

function relativeDay(date) {
  for (const [offset, name] of [[0, "Today"], [-1, "Yesterday"], [1, "Tomorrow"]]) {
    if (dayKey(date) === dayKey(new Date(store.now.getTime() + offset * 86400000))) return name;
  }
  return "";
}

export function ago(date) {
  const minutes = Math.round((store.now - date) / 60000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 48 * 60) return `${Math.round(minutes / 60)} h ago`;
  return `${Math.round(minutes / 1440)} days ago`;
}

const TOKENS = {
  date_num: (d) => formatted(d, { year: "numeric", month: "2-digit", day: "2-digit" }).split("/").reverse().join("-"),
  date: (d) => formatted(d, { year: "numeric", month: "long", day: "numeric" }),
  date_short: (d) => formatted(d, { year: "numeric", month: "short", day: "numeric" }),
  date_long: (d) => formatted(d, { weekday: "long", year: "numeric", month: "long", day: "numeric" }),
  time: clock,
  time_secs: clockWithSeconds,
  ago,
};
for (const name of ["date", "date_short", "date_long"]) {
  TOKENS[`${name}_pretty`] = (d) => relativeDay(d).toLowerCase() || TOKENS[name](d);
}

// <!date^1700000000^{date_short_pretty} {time}|fallback>
export function dateToken(seconds, format, fallback) {
  const date = dateOf(seconds);
  if (Number.isNaN(date.getTime())) return fallback;
  const text = format.replace(/\{(\w+)\}/g, (whole, name) => TOKENS[name]?.(date) ?? whole);
  return text.charAt(0).toUpperCase() + text.slice(1);
}
