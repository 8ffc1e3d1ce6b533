// The field one types into: commands with their hints, people, history.
import { toast } from "/static/dialogs.js";
import { h, icon } from "/static/dom.js";
import { avatar } from "/static/people.js";
import { post, store } from "/static/store.js";

const history = [];

// One composer a place; it is built once and moved, so that what is being typed survives redrawing.
export class Composer {
  constructor(id, { threadOf = () => null } = {}) {
    this.threadOf = threadOf;
    this.channel = null;
    this.choice = 0;
    this.past = -1;
    this.text = h("textarea", {
      id,
      rows: "1",
      spellcheck: "false",
      autocomplete: "off",
      role: "combobox",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": `${id}-list`,
      oninput: () => this.typed(),
      onkeydown: (event) => this.key(event),
      onblur: () => setTimeout(() => this.suggest([]), 150),
    });
    this.list = h("ul", { class: "suggestions", id: `${id}-list`, role: "listbox", hidden: true });
    this.hint = h("div", { class: "hint", hidden: true });
    this.button = h("button", { type: "button", class: "send", "aria-label": "Send", title: "Send (Enter)", onclick: () => this.send() }, icon("send"));
    this.element = h("div", { class: "composer" }, this.list, h("div", { class: "box" }, this.text, this.button), this.hint);
  }

  place(channel) {
    this.channel = channel;
    const shut = channel.archived;
    this.text.disabled = shut;
    const where = channel.kind === "im" ? channel.name : `#${channel.name}`;
    this.text.placeholder = shut ? "This channel is archived" : this.threadOf() ? "Reply…" : `Message ${where}, or / for a command`;
    this.text.setAttribute("aria-label", this.threadOf() ? "Reply in thread" : `Message ${where}`);
  }

  typed() {
    this.text.style.height = "auto";
    this.text.style.height = `${Math.min(this.text.scrollHeight, 180)}px`;
    this.button.classList.toggle("ready", this.text.value.trim() !== "");
    this.choice = 0;
    this.suggest(this.suggestions());
    const command = this.threadOf() ? null : store.commands.find((each) => this.text.value.startsWith(`${each.name} `));
    this.hint.hidden = !command;
    if (command) this.hint.replaceChildren(h("code", {}, command.name), ` ${command.usage_hint}`);
  }

  suggestions() {
    const before = this.text.value.slice(0, this.text.selectionStart);
    const mention = before.match(/(^|\s)@([\w.-]*)$/);
    if (mention) {
      const people = [...store.people.values()].filter((person) => person.kind !== "deactivated");
      return people
        .filter((person) => `${person.name} ${person.real_name}`.toLowerCase().includes(mention[2].toLowerCase()))
        .slice(0, 6)
        .map((person) => ({ insert: `@${person.name} `, from: before.length - mention[2].length - 1, face: avatar(person, "small"), label: person.real_name, detail: `@${person.name}` }));
    }
    if (this.threadOf() || !/^\/\S*$/.test(before)) return [];
    return store.commands
      .filter((command) => command.name.startsWith(before))
      .map((command) => ({ insert: `${command.name} `, from: 0, face: avatar({ kind: "bot", id: "" }, "small"), label: command.name, extra: command.usage_hint, detail: command.description }));
  }

  suggest(items) {
    this.items = items;
    this.list.hidden = items.length === 0;
    this.text.setAttribute("aria-expanded", String(items.length > 0));
    this.list.replaceChildren(
      ...items.map((item, index) =>
        h(
          "li",
          { role: "option", "aria-selected": String(index === this.choice), onmousedown: (event) => (event.preventDefault(), this.complete(item)) },
          item.face,
          h("span", { class: "line" }, h("strong", {}, item.label), item.extra ? h("code", {}, item.extra) : null),
          h("small", {}, item.detail),
        ),
      ),
    );
  }

  complete(item) {
    const after = this.text.value.slice(this.text.selectionStart);
    this.text.value = this.text.value.slice(0, item.from) + item.insert + after;
    this.text.selectionStart = this.text.selectionEnd = item.from + item.insert.length;
    this.typed();
    this.text.focus();
  }

  key(event) {
    const open = this.items?.length > 0;
    if (open && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      this.choice = (this.choice + (event.key === "ArrowDown" ? 1 : this.items.length - 1)) % this.items.length;
      this.suggest(this.items);
    } else if (open && (event.key === "Tab" || event.key === "Enter") && !event.shiftKey) {
      event.preventDefault();
      this.complete(this.items[this.choice]);
    } else if (open && event.key === "Escape") {
      event.stopPropagation();
      this.suggest([]);
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.send();
    } else if (event.key === "ArrowUp" && (this.text.value === "" || this.past >= 0)) {
      this.recall(event, 1);
    } else if (event.key === "ArrowDown" && this.past >= 0) {
      this.recall(event, -1);
    }
  }

  recall(event, step) {
    event.preventDefault();
    this.past = Math.max(-1, Math.min(this.past + step, history.length - 1));
    this.text.value = this.past < 0 ? "" : history[this.past];
    this.typed();
    this.suggest([]);
  }

  async send() {
    const text = this.text.value.trim();
    if (!text || !this.channel) return;
    try {
      await post("say", { channel: this.channel.id, text, thread_ts: this.threadOf() ?? "" });
      if (history[0] !== text) history.unshift(text);
      this.past = -1;
      this.text.value = "";
      this.typed();
    } catch (error) {
      toast(error.message);
    }
  }
}
