// Puts the page together and keeps it drawn.
import { Composer } from "/static/composer.js";
import { drawModal } from "/static/dialogs.js";
import { h, icon } from "/static/dom.js";
import { messageList } from "/static/messages.js";
import { avatar } from "/static/people.js";
import { actAs, changed, channelMessages, markRead, me, onChange, store, threadMessages, unread } from "/static/store.js";
import { clockWithSeconds, worldClock } from "/static/when.js";

const SHOWN = 300;
const place = { channel: "", thread: "", pane: "" };
const sidebar = document.getElementById("sidebar");
const main = document.getElementById("channel");
const pane = document.getElementById("pane");

const composer = new Composer("composer-text");
const replies = new Composer("reply-text", { threadOf: () => place.thread });
const channelHead = h("header", { class: "head" });
const channelLog = h("div", { class: "log", role: "log", "aria-live": "polite", "aria-label": "Messages", tabindex: "0" });
main.append(channelHead, channelLog, composer.element);
const worldTime = h("span", { class: "world", title: "The world's time, in your zone" });
const paneHead = h("header", { class: "head" });
const paneLog = h("div", { class: "log", role: "log", "aria-live": "polite", "aria-label": "Thread", tabindex: "0" });
pane.append(paneHead, paneLog, replies.element);

function goTo(channel, thread = "") {
  location.hash = thread ? `${channel}/${thread}` : channel;
}

function readPlace() {
  const [channel, thread = ""] = decodeURIComponent(location.hash.slice(1)).split("/");
  const known = store.channels.find((each) => each.id === channel);
  place.channel = known ? channel : (store.channels.find((each) => !each.archived)?.id ?? "");
  place.thread = known ? thread : "";
  if (place.thread) place.pane = "thread";
  else if (place.pane === "thread") place.pane = "";
  document.body.classList.remove("menu");
  changed();
}

function openThread(ts) {
  goTo(place.channel, ts);
  setTimeout(() => replies.text.focus(), 50);
}

function closePane() {
  place.pane = "";
  goTo(place.channel);
  changed();
}

function toggleActivity() {
  place.pane = place.pane === "activity" ? (place.thread ? "thread" : "") : "activity";
  changed();
}

// Redraw a part only where what it shows has changed: hovers, selections and open menus survive.
const drawn = new WeakMap();

function differs(element, ...shows) {
  const signature = JSON.stringify(shows);
  if (drawn.get(element) === signature) return false;
  drawn.set(element, signature);
  return true;
}

function drawSidebar() {
  const counts = store.channels.map((each) => unread(each.id));
  if (!differs(sidebar, store.me, store.channels, counts, place.channel, store.connections > 0)) return;
  const group = (title, channels) =>
    channels.length ? [h("h2", {}, title), h("ul", {}, channels.map(channelLink))] : [];
  const of = (kind) => store.channels.filter((each) => (kind === "im") === (each.kind === "im"));
  sidebar.replaceChildren(
    h("div", { class: "team" }, h("strong", {}, store.team.name), h("span", { class: store.connections ? "status" : "status off" }, store.connections ? `${store.app.name} is connected` : `${store.app.name} is not connected`)),
    h("div", { class: "lists" }, group("Channels", of("channel")), group("Apps", of("im"))),
    acting(),
  );
}

function channelLink(channel) {
  const count = channel.id === place.channel ? 0 : unread(channel.id);
  const current = channel.id === place.channel;
  return h(
    "li",
    {},
    h(
      "a",
      { href: `#${channel.id}`, class: [current && "current", count && "unread", channel.archived && "archived"].filter(Boolean).join(" "), "aria-current": current ? "page" : null },
      channel.kind === "im" ? avatar({ kind: "bot", id: "" }, "small") : icon(channel.archived ? "archive" : channel.kind === "private" ? "lock" : "hash"),
      h("span", {}, channel.name),
      count ? h("span", { class: "count", "aria-label": `${count} unread` }, String(count)) : null,
    ),
  );
}

function acting() {
  const list = h(
    "select",
    { id: "acting", "aria-label": "Acting as", onchange: async (event) => (await actAs(event.target.value), readPlace()) },
    [...store.people.values()].filter((person) => !["bot", "deactivated"].includes(person.kind)).map((person) => h("option", { value: person.id }, `${person.real_name}${person.kind === "member" ? "" : ` (${person.kind})`}`)),
  );
  list.value = store.me;
  return h("label", { class: "acting" }, avatar(me()), h("span", { class: "acting-text" }, h("span", {}, "Acting as"), list));
}

function drawChannel() {
  const channel = store.channels.find((each) => each.id === place.channel);
  if (!channel) {
    channelHead.replaceChildren(h("p", {}, "There is no channel this person can see."));
    channelLog.replaceChildren();
    return;
  }
  drawHead(channel);
  const messages = channelMessages(channel.id);
  if (differs(channelLog, store.me, messages, [...store.busy.values()])) {
    const start = h("p", { class: "empty" }, `This is the very beginning of ${channel.kind === "im" ? channel.name : `#${channel.name}`}.`);
    const earlier = messages.length > SHOWN ? [h("p", { class: "empty" }, `${messages.length - SHOWN} earlier messages are not shown.`)] : [];
    const shown = messages.length ? messageList(messages.slice(-SHOWN), { openThread }) : [start];
    fill(channelLog, [...earlier, ...shown], channel.id);
  }
  composer.place(channel);
  markRead(channel.id);
}

function drawHead(channel) {
  if (!differs(channelHead, channel, place.pane)) return;
  document.title = `${channel.name} – ${store.team.name}`;
  const symbol = channel.kind === "im" ? avatar({ kind: "bot", id: "" }, "small") : icon(channel.kind === "private" ? "lock" : "hash");
  channelHead.replaceChildren(
    h("button", { type: "button", class: "menu-button", "aria-label": "Channels", onclick: () => document.body.classList.toggle("menu") }, icon("menu")),
    h("h1", {}, symbol, h("span", {}, channel.name)),
    h("p", { class: "topic" }, channel.topic),
    channel.kind === "im" ? null : h("span", { class: "members", title: `${channel.members} members` }, icon("people"), String(channel.members)),
    worldTime,
    h("button", { type: "button", class: "tool", "aria-pressed": String(place.pane === "activity"), title: "What went to the app and came back", onclick: toggleActivity }, icon("pulse"), h("span", {}, "Activity")),
  );
}

const nearEnd = (log) => log.scrollHeight - log.scrollTop - log.clientHeight < 60;

// A log that was read at its end stays there when it gets narrower or lower.
for (const log of [channelLog, paneLog]) {
  log.addEventListener("scroll", () => (log.dataset.end = nearEnd(log) ? "yes" : ""));
  new ResizeObserver(() => {
    if (log.dataset.end) log.scrollTop = log.scrollHeight;
  }).observe(log);
}

// Stay at the end if that is where the reader was; never move somebody who is reading above.
function fill(log, nodes, key) {
  const fresh = log.dataset.key !== key;
  const atEnd = fresh || nearEnd(log);
  const focused = document.activeElement?.closest?.("[data-ts]");
  const again = focused && log.contains(focused) ? { ts: focused.dataset.ts, action: document.activeElement.dataset.action } : null;
  log.replaceChildren(...nodes);
  log.dataset.key = key;
  if (atEnd) log.scrollTop = log.scrollHeight;
  log.dataset.end = atEnd ? "yes" : "";
  if (again?.action) log.querySelector(`[data-ts="${again.ts}"] [data-action="${CSS.escape(again.action)}"]`)?.focus({ preventScroll: true });
}

function drawPane() {
  pane.hidden = !place.pane;
  document.body.classList.toggle("with-pane", Boolean(place.pane));
  if (!place.pane) return;
  const thread = place.pane === "thread";
  pane.setAttribute("aria-label", thread ? "Thread" : "Activity");
  replies.element.hidden = !thread;
  const channel = store.channels.find((each) => each.id === place.channel);
  if (differs(paneHead, place.pane, channel?.name)) drawPaneHead(thread, channel);
  if (thread) drawThread(channel);
  else if (differs(paneLog, store.journal.length, store.journal.at(-1)?.seq)) fill(paneLog, store.journal.map(activity), "activity");
}

function drawPaneHead(thread, channel) {
  paneHead.replaceChildren(
    h("h2", {}, thread ? "Thread" : "Activity"),
    h("p", { class: "topic" }, thread ? `#${channel?.name ?? ""}` : "Envelopes to the app, calls back"),
    h("button", { type: "button", class: "tool", "aria-label": "Close", onclick: closePane }, icon("close")),
  );
}

function drawThread(channel) {
  if (channel) replies.place(channel);
  const messages = threadMessages(place.channel, place.thread);
  if (!differs(paneLog, store.me, place.thread, messages, [...store.busy.values()])) return;
  const nodes = messageList(messages.slice(0, 1));
  if (messages.length > 1) {
    const count = messages.filter((each) => !each.ephemeral).length - 1;
    nodes.push(h("div", { class: "day replies", role: "separator" }, h("span", {}, `${count} ${count === 1 ? "reply" : "replies"}`)));
    nodes.push(...messageList(messages.slice(1)).filter((node) => !node.classList.contains("day")));
  }
  fill(paneLog, messages.length ? nodes : [h("p", { class: "empty" }, "This message is gone.")], place.thread);
}

const DESCRIBE = {
  call: (e) => [e.method, e.ok ? "ok" : e.error],
  envelope: (e) => [e.type, e.state === "acknowledged" ? `acknowledged in ${e.ms} ms` : `${e.state}: ${e.error}`],
  act: (e) => [`${store.people.get(e.person)?.name ?? "somebody"}: ${e.act}`, e.what],
  link: (e) => ["connection", e.what],
};

function activity(entry) {
  const [what, detail] = (DESCRIBE[entry.kind] ?? ((e) => [e.kind, ""]))(entry);
  const bad = entry.ok === false || entry.state === "failed";
  return h("div", { class: `activity ${entry.kind} ${bad ? "bad" : ""}` }, h("time", {}, clockWithSeconds(new Date(entry.at))), h("code", {}, what), h("span", {}, detail));
}

function drawTime() {
  worldTime.replaceChildren(h("time", {}, worldClock()), h("small", {}, store.scale ? `${store.scale}×` : "stepped"));
}

function draw() {
  if (!store.ready) return;
  drawTime();
  drawSidebar();
  drawPane();
  drawChannel();
  drawModal();
}

function switchChannel(step) {
  const open = store.channels;
  const index = open.findIndex((each) => each.id === place.channel);
  goTo(open[(index + step + open.length) % open.length].id);
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && place.pane && !document.querySelector("dialog[open]")) closePane();
  if (event.altKey && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    event.preventDefault();
    switchChannel(event.key === "ArrowDown" ? 1 : -1);
  }
});
window.addEventListener("hashchange", readPlace);
onChange(draw);
await actAs(sessionStorage.getItem("person") ?? new URLSearchParams(location.search).get("as") ?? "");
readPlace();
composer.text.focus();
