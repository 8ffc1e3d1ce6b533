// Slack's mrkdwn → elements. Nothing here ever reaches the HTML parser.
import { h } from "/static/dom.js";
import { store } from "/static/store.js";
import { dateToken, full, dateOf } from "/static/when.js";

const EMOJI = {
  white_check_mark: "✅", heavy_check_mark: "✔️", warning: "⚠️", x: "❌", eyes: "👀", rotating_light: "🚨",
  money_with_wings: "💸", moneybag: "💰", hourglass: "⌛", hourglass_flowing_sand: "⏳", rocket: "🚀",
  octagonal_sign: "🛑", no_entry: "⛔", double_vertical_bar: "⏸️", arrow_forward: "▶️", bell: "🔔", no_bell: "🔕",
  information_source: "ℹ️", chart_with_upwards_trend: "📈", bar_chart: "📊", large_green_circle: "🟢",
  large_yellow_circle: "🟡", large_orange_circle: "🟠", red_circle: "🔴", white_circle: "⚪", skull: "💀",
  ghost: "👻", tada: "🎉", lock: "🔒", hammer_and_wrench: "🛠️", wave: "👋", sparkles: "✨", thumbsup: "👍", "+1": "👍",
  clock3: "🕒", calendar: "📅", memo: "📝", question: "❓", ok_hand: "👌", pray: "🙏",
};

const INLINE = new RegExp(
  [
    "```\\n?([\\s\\S]+?)\\n?```",
    "`([^`\\n]+)`",
    "<([^<>\\n]+)>",
    "(?<![\\w*])\\*(?! )([^*\\n]+?)(?<! )\\*(?![\\w*])",
    "(?<![\\w_])_(?! )([^_\\n]+?)(?<! )_(?![\\w_])",
    "(?<![\\w~])~(?! )([^~\\n]+?)(?<! )~(?![\\w~])",
    ":([a-z0-9_+-]+):",
  ].join("|"),
  "g",
);

export function unescape(text) {
  return text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
}

export function emojiOf(name) {
  return EMOJI[name] ?? `:${name}:`;
}

export function withEmoji(text) {
  return text.replace(/:([a-z0-9_+-]+):/g, (whole, name) => EMOJI[name] ?? whole);
}

export function mrkdwn(text) {
  const parts = [];
  let quoted = [];
  const flush = () => {
    if (quoted.length) parts.push(h("blockquote", {}, inline(quoted.join("\n"))));
    quoted = [];
  };
  // A quote is a run of lines; code spans lines, so it is looked for first.
  for (const piece of text.split(/(```[\s\S]+?```)/)) {
    if (piece.startsWith("```")) {
      flush();
      parts.push(...inline(piece));
      continue;
    }
    let plain = [];
    for (const line of piece.split("\n")) {
      const quote = line.match(/^(?:&gt;|>) ?(.*)$/);
      if (quote) {
        if (plain.length) parts.push(...inline(`${plain.join("\n")}`));
        plain = [];
        quoted.push(quote[1]);
      } else {
        flush();
        plain.push(line);
      }
    }
    flush();
    if (plain.length) parts.push(...inline(plain.join("\n")));
  }
  flush();
  return parts;
}

function inline(text) {
  const nodes = [];
  let last = 0;
  for (const match of text.matchAll(INLINE)) {
    nodes.push(...lines(text.slice(last, match.index)), element(match));
    last = match.index + match[0].length;
  }
  nodes.push(...lines(text.slice(last)));
  return nodes;
}

function lines(text) {
  return unescape(text).split("\n").flatMap((line, index) => (index ? [h("br"), line] : [line])).filter((node) => node !== "");
}

function element([whole, block, code, angle, bold, italic, strike, emoji]) {
  if (block !== undefined) return h("pre", {}, h("code", {}, unescape(block)));
  if (code !== undefined) return h("code", {}, unescape(code));
  if (angle !== undefined) return reference(angle);
  if (bold !== undefined) return h("strong", {}, inline(bold));
  if (italic !== undefined) return h("em", {}, inline(italic));
  if (strike !== undefined) return h("s", {}, inline(strike));
  return EMOJI[emoji] ? h("span", { class: "emoji", role: "img", "aria-label": emoji.replaceAll("_", " ") }, EMOJI[emoji]) : whole;
}

function reference(content) {
  const [target, label] = content.split(/\|(.*)/s);
  if (target.startsWith("@")) return mention(`@${store.people.get(target.slice(1))?.name ?? label ?? target.slice(1)}`, target.slice(1) === store.me);
  if (target.startsWith("#")) {
    const channel = store.channels.find((each) => each.id === target.slice(1));
    return h("a", { class: "mention", href: `#${target.slice(1)}` }, `#${channel?.name ?? label ?? "private channel"}`);
  }
  if (target.startsWith("!date^")) return date(target, label);
  if (target.startsWith("!subteam^")) return mention(`@${store.usergroups.get(target.slice(9))?.handle ?? label ?? "group"}`, false);
  if (target.startsWith("!")) return mention(`@${label ?? target.slice(1)}`, true);
  if (!/^(https?|mailto):/.test(target)) return unescape(`<${content}>`);
  return h("a", { href: unescape(target), target: "_blank", rel: "noopener noreferrer" }, unescape(label ?? target.replace(/^mailto:/, "")));
}

function mention(text, ofMe) {
  return h("span", { class: ofMe ? "mention me" : "mention" }, text);
}

function date(target, fallback = "") {
  const [, seconds, format] = target.split("^");
  const shown = dateToken(seconds, unescape(format ?? ""), unescape(fallback));
  return h("time", { title: full(dateOf(seconds)) }, shown);
}
