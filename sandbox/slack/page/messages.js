// A list of messages: days, groups, threads, what only you see.
import { renderBlocks } from "/static/blocks.js";
import { h, icon } from "/static/dom.js";
import { emojiOf, mrkdwn } from "/static/mrkdwn.js";
import { avatar, badge, personOf } from "/static/people.js";
import { click, isBusy, post, store } from "/static/store.js";
import { ago, clock, dateOf, dayKey, dayName, full } from "/static/when.js";
import { ask, toast } from "/static/dialogs.js";

const GROUP_SECONDS = 300;

export function messageList(messages, { openThread = null } = {}) {
  const nodes = [];
  let before = null;
  for (const message of messages) {
    const date = dateOf(message.ts);
    if (!before || dayKey(dateOf(before.ts)) !== dayKey(date)) {
      nodes.push(h("div", { class: "day", role: "separator" }, h("span", {}, dayName(date))));
      before = null;
    }
    nodes.push(messageRow(message, continues(before, message), openThread));
    before = message;
  }
  return nodes;
}

function continues(before, message) {
  return (
    before &&
    before.user === message.user &&
    !before.ephemeral === !message.ephemeral &&
    !before.reply_count &&
    Number(message.ts) - Number(before.ts) < GROUP_SECONDS
  );
}

function messageRow(message, follows, openThread) {
  const person = personOf(message);
  const date = dateOf(message.ts);
  const time = h("time", { datetime: date.toISOString(), title: full(date) }, clock(date));
  const classes = ["message", follows && "follows", message.ephemeral && "private", message.notice && "notice"];
  return h(
    "article",
    { class: classes.filter(Boolean).join(" "), "data-ts": message.ts, "aria-label": `${person.real_name}, ${clock(date)}` },
    h("div", { class: "gutter" }, follows ? time : avatar(person)),
    h(
      "div",
      { class: "content" },
      message.ephemeral ? onlyYou(message) : null,
      follows ? null : h("header", {}, h("strong", { class: "who" }, person.real_name), badge(person), time),
      message.subtype === "thread_broadcast" ? h("div", { class: "aside" }, "replied to a thread:") : null,
      body(message),
      (message.files ?? []).map(fileCard),
      reactions(message),
      openThread && message.reply_count ? threadLink(message, openThread) : null,
    ),
    openThread && !message.ephemeral && !message.reply_count
      ? h("div", { class: "tools" }, h("button", { type: "button", title: "Reply in thread", "aria-label": "Reply in thread", onclick: () => openThread(message.ts) }, icon("reply")))
      : null,
  );
}

function onlyYou(message) {
  const dismiss = () => post("dismiss", { message_ts: message.ts }).catch((error) => toast(error.message));
  return h(
    "div",
    { class: "only-you" },
    icon("eye"),
    h("span", {}, "Only visible to you"),
    h("button", { type: "button", class: "link", onclick: dismiss }, "Dismiss"),
  );
}

function body(message) {
  const edited = message.edited ? h("span", { class: "edited", title: `Edited ${full(dateOf(message.edited.ts))}` }, " (edited)") : null;
  if (!message.blocks?.length) return message.text ? h("div", { class: "text" }, mrkdwn(message.text), edited) : null;
  const act = async (block, element, value) => {
    if (element.confirm && !(await ask(element.confirm))) return;
    try {
      await click(message, block, element, value);
      if (element.url) window.open(element.url, "_blank", "noopener");
    } catch (error) {
      toast(error.message);
    }
  };
  const blocks = renderBlocks(message.blocks, { act, busy: (element) => isBusy(message, element) });
  const last = blocks.at(-1);
  if (edited && last.matches(".b-context")) last.append(edited);
  else if (edited) blocks.push(edited);
  return h("div", { class: "blocks" }, blocks);
}

function fileCard(file) {
  return h("a", { class: "file", href: `/files/${encodeURIComponent(file.id)}`, target: "_blank" }, h("strong", {}, file.title), h("span", {}, `${file.name} · ${file.size.toLocaleString("en")} bytes`));
}

function reactions(message) {
  if (!message.reactions?.length) return null;
  return h("div", { class: "reactions" }, message.reactions.map((each) => h("span", { title: `:${each.name}:` }, `${emojiOf(each.name)} ${each.count}`)));
}

function threadLink(message, openThread) {
  const faces = (message.reply_users ?? []).slice(0, 4).map((user) => avatar(personOf({ user }), "small"));
  const count = `${message.reply_count} ${message.reply_count === 1 ? "reply" : "replies"}`;
  return h(
    "button",
    { type: "button", class: "thread-link", onclick: () => openThread(message.ts) },
    faces,
    h("strong", {}, count),
    h("span", {}, `Last reply ${ago(dateOf(message.latest_reply ?? message.ts))}`),
  );
}
