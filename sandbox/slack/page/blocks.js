// Block Kit → elements.
import { h } from "/static/dom.js";
import { emojiOf, mrkdwn, withEmoji } from "/static/mrkdwn.js";

export function textObject(object) {
  if (!object) return [];
  if (object.type === "mrkdwn") return mrkdwn(object.text);
  return [object.emoji === false ? object.text : withEmoji(object.text)];
}

// `act(block, element, value)` is called for clicks and choices; `busy(element)` marks one that waits.
export function renderBlocks(blocks, { act = () => {}, busy = () => false, input = null } = {}) {
  const context = { act, busy, input };
  return blocks.map((block) => (RENDER[block.type] ?? unknown)(block, context));
}

const RENDER = {
  header: (block) => h("h3", { class: "b-header" }, textObject(block.text)),
  divider: () => h("hr"),
  section,
  context: (block) => h("div", { class: "b-context" }, block.elements.map((each) => (each.type === "image" ? picture(each, "b-tiny") : h("span", {}, textObject(each))))),
  actions: (block, context) => h("div", { class: "b-actions" }, block.elements.map((each) => interactive(block, each, context))),
  image: (block) => h("figure", { class: "b-image" }, block.title ? h("figcaption", {}, textObject(block.title)) : null, picture(block, "")),
  markdown: (block) => h("div", { class: "b-section" }, mrkdwn(block.text.replace(/\*\*(.+?)\*\*/g, "*$1*"))),
  table: (block) => table(block, block.rows, false),
  data_table: (block) => table(block, block.rows, true),
  rich_text: (block) => h("div", { class: "b-section" }, block.elements.map(richText)),
  alert: (block) => h("div", { class: "b-alert" }, textObject(block.text)),
  input: (block, context) => (context.input ? context.input(block) : unknown(block)),
  data_visualization: (block) => h("div", { class: "b-unknown" }, `Chart: ${block.title ?? ""}`),
};

function unknown(block) {
  return h("div", { class: "b-unknown" }, `This page cannot show a ${block.type} block.`);
}

function section(block, context) {
  const body = [];
  if (block.text) body.push(h("div", {}, textObject(block.text)));
  if (block.fields) body.push(h("div", { class: "b-fields" }, block.fields.map((field) => h("div", {}, textObject(field)))));
  let accessory = null;
  if (block.accessory?.type === "image") accessory = picture(block.accessory, "b-thumb");
  else if (block.accessory) accessory = interactive(block, block.accessory, context);
  return h("div", { class: "b-section" }, h("div", { class: "b-body" }, body), accessory);
}

function picture(block, size) {
  const url = block.image_url ?? "";
  const alt = block.alt_text ?? "";
  // The page asks no other host for anything: pictures from elsewhere are shown by their description.
  if (url.startsWith("/") || url.startsWith("data:image/") || url.startsWith(location.origin)) return h("img", { src: url, alt, class: size, loading: "lazy" });
  return h("span", { class: `b-noimage ${size}`, role: "img", "aria-label": alt, title: alt }, size ? "▦" : alt);
}

function interactive(block, element, context) {
  if (element.type === "button") return button(block, element, context);
  if (element.options || element.option_groups) return menu(block, element, context);
  return unknown(element);
}

function button(block, element, context) {
  const waiting = context.busy(element);
  return h(
    "button",
    {
      type: "button",
      class: `b-button ${element.style ?? ""} ${waiting ? "busy" : ""}`,
      "data-action": element.action_id,
      "aria-label": element.accessibility_label,
      "aria-busy": waiting ? "true" : null,
      disabled: waiting,
      onclick: () => context.act(block, element),
    },
    textObject(element.text),
  );
}

function optionsOf(element) {
  return element.options ?? element.option_groups.flatMap((group) => group.options);
}

function menu(block, element, context) {
  const label = element.placeholder ? element.placeholder.text : "Choose…";
  const list = h(
    "select",
    { class: "b-select", "aria-label": label, disabled: context.busy(element), onchange: (event) => context.act(block, element, event.target.value) },
    h("option", { value: "" }, label),
    optionsOf(element).map((option) => h("option", { value: option.value }, textObject(option.text))),
  );
  list.value = element.initial_option?.value ?? "";
  return list;
}

function table(block, rows, data) {
  const settings = block.column_settings ?? [];
  const [header, ...rest] = rows;
  // A column of numbers is set right, its heading too.
  const align = (index) => ({ textAlign: settings[index]?.align ?? (rest[0]?.[index]?.type === "raw_number" ? "right" : "left") });
  return h(
    "div",
    { class: "b-table", tabindex: "0", role: "region", "aria-label": block.caption ?? "Table" },
    h(
      "table",
      {},
      data && block.caption ? h("caption", {}, block.caption) : null,
      h("thead", {}, h("tr", {}, header.map((cell, index) => h("th", { scope: "col", style: align(index) }, cellContent(cell))))),
      h("tbody", {}, rest.map((row) => h("tr", {}, row.map((cell, index) => h("td", { style: align(index) }, cellContent(cell)))))),
    ),
  );
}

function cellContent(cell) {
  if (cell.type === "rich_text") return cell.elements.map(richText);
  return String(cell.text ?? cell.value ?? "");
}

function richText(element) {
  const inner = () => (element.elements ?? []).map(richInline);
  if (element.type === "rich_text_preformatted") return h("pre", {}, inner());
  if (element.type === "rich_text_quote") return h("blockquote", {}, inner());
  if (element.type === "rich_text_list") return h(element.style === "ordered" ? "ol" : "ul", {}, element.elements.map((item) => h("li", {}, item.elements.map(richInline))));
  return h("span", {}, inner());
}

function richInline(element) {
  if (element.type === "user") return mrkdwn(`<@${element.user_id}>`);
  if (element.type === "channel") return mrkdwn(`<#${element.channel_id}>`);
  if (element.type === "emoji") return emojiOf(element.name);
  if (element.type === "link") return mrkdwn(`<${element.url}${element.text ? `|${element.text}` : ""}>`);
  const style = element.style ?? {};
  const tag = style.code ? "code" : style.bold ? "strong" : style.italic ? "em" : style.strike ? "s" : "span";
  return h(tag, {}, element.text ?? "");
}
