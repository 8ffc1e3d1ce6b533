"""Messages → Block Kit, within every limit: split where a message may be several, trimmed with a note where not.

A message is never lost for being too long, and a button never falls off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from bot.messages.model import Block, Button, Buttons, Confirm, Context, Fields, Header, Message, Table, Text
from bot.messages.plain import lines
from bot.slack import limits

Json = dict[str, Any]
Item = TypeVar("Item")
_BROADCAST = re.compile(r"@(?=(?:channel|here|everyone)\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Page:
    """One message as Slack takes it: the sentence and the blocks."""

    text: str
    blocks: tuple[Json, ...]


def render(message: Message) -> tuple[Page, ...]:
    """The pages of a message in order; exactly one for a card."""
    text = trim(escape(message.text), limits.MESSAGE_TEXT)
    rendered = [json for block in message.blocks for json in _blocks(block)]
    if message.card:
        return (Page(text, _unique(_fit(message.blocks))),)
    pages = list(_paged(rendered)) or [()]
    more = [f"{text[:200]} (part {number} of {len(pages)})" for number in range(2, len(pages) + 1)]
    return tuple(Page(words, _unique(page)) for words, page in zip([text, *more], pages, strict=True))


def escape(text: str) -> str:
    """Slack's three escapes, and broadcasts made harmless: nothing a person wrote becomes a link or a call."""
    calm = _BROADCAST.sub("@\u200b", text)
    return calm.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def trim(text: str, limit: int) -> str:
    """Cut to the limit with `…`, never inside an escape."""
    if len(text) <= limit:
        return text
    kept = text[: limit - 1]
    start = kept.rfind("&", max(0, len(kept) - 5))
    if start >= 0 and ";" not in kept[start:]:
        kept = kept[:start]
    return kept + "…"


def _blocks(block: Block) -> Iterator[Json]:
    match block:
        case Header(text):
            if text.strip():
                yield {"type": "header", "text": _plain(trim(text, limits.HEADER))}
        case Text():
            yield from _text(block)
        case Fields(pairs):
            for chunk in _groups(pairs, limits.FIELDS):
                yield {"type": "section", "fields": [_field(label, value) for label, value in chunk]}
        case Table():
            yield from map(_code, _chunks(lines(block)))
        case Context(text):
            yield from _context(text)
        case Buttons(buttons):
            for group in _groups(buttons, limits.ACTION_ELEMENTS):
                yield {"type": "actions", "elements": [_button(button) for button in group]}


def _groups(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _context(text: str) -> Iterator[Json]:
    if text.strip():
        element = {"type": "mrkdwn", "text": trim(escape(text), limits.CONTEXT), "verbatim": True}
        yield {"type": "context", "elements": [element]}


def _plain(text: str) -> Json:
    return {"type": "plain_text", "text": text, "emoji": False}


def _text(block: Text) -> Iterator[Json]:
    words = escape(block.text)
    if block.strong and words.strip():
        words = "\n".join(f"*{line}*" if line.strip() else line for line in words.split("\n"))
    mention = f"<@{block.mention}> " if re.fullmatch(r"[UW][A-Z0-9]+", block.mention) else ""
    for part in _pieces(mention + words, limits.SECTION):
        if part.strip():
            yield {"type": "section", "text": {"type": "mrkdwn", "text": part, "verbatim": True}}


def _pieces(text: str, limit: int) -> Iterator[str]:
    """Split at line ends where possible, else inside a line but never inside an escape."""
    while len(text) > limit:
        cut = text.rfind("\n", 0, limit) + 1 or _safe_cut(text, limit)
        yield text[:cut]
        text = text[cut:]
    yield text


def _safe_cut(text: str, limit: int) -> int:
    start = text.rfind("&", limit - 5, limit)
    return start if start > 0 and ";" not in text[start:limit] else limit


def _field(label: str, value: str | datetime) -> Json:
    shown = _date(value) if isinstance(value, datetime) else escape(value)
    text = trim(f"*{escape(label)}*\n{shown or '–'}", limits.FIELD)
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _date(moment: datetime) -> str:
    fallback = f"{moment.astimezone(UTC):%Y-%m-%d %H:%M UTC}"
    return f"<!date^{int(moment.timestamp())}^{{date_short_pretty}} {{time}}|{fallback}>"


def _chunks(rows: Sequence[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for row in rows:
        line = trim(escape(row.replace("`", "'")), limits.CODE)
        if chunk and size + len(line) + 1 > limits.CODE:
            yield chunk
            chunk, size = [], 0
        chunk.append(line)
        size += len(line) + 1
    if chunk:
        yield chunk


def _code(rows: Sequence[str]) -> Json:
    text = "```\n" + "\n".join(rows) + "\n```"
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _button(button: Button) -> Json:
    if len(button.value) > limits.BUTTON_VALUE or len(button.action) > limits.ACTION_ID - 4:
        raise ValueError(f"The button {button.action} carries more than a request id.")
    element: Json = {
        "type": "button",
        "action_id": button.action,
        "value": button.value,
        "text": _plain(trim(button.label, limits.BUTTON_LABEL)),
    }
    if button.style:
        element["style"] = button.style
    if button.confirm:
        element["confirm"] = _confirm(button.confirm)
    return element


def _confirm(confirm: Confirm) -> Json:
    return {
        "title": _plain(trim(confirm.title, limits.CONFIRM_TITLE)),
        "text": _plain(trim(confirm.text, limits.CONFIRM_TEXT)),
        "confirm": _plain(trim(confirm.yes, limits.CONFIRM_BUTTON)),
        "deny": _plain(trim(confirm.no, limits.CONFIRM_BUTTON)),
    }


def size(block: Json) -> int:
    """Characters of text in a rendered block, as the total limit counts them."""
    if block["type"] == "actions":
        return sum(len(element["text"]["text"]) for element in block["elements"])
    if block["type"] == "context":
        return sum(len(element["text"]) for element in block["elements"])
    if "fields" in block:
        return sum(len(entry["text"]) for entry in block["fields"])
    return len(block["text"]["text"])


def _paged(blocks: Sequence[Json]) -> Iterator[tuple[Json, ...]]:
    page: list[Json] = []
    total = 0
    for block in blocks:
        if page and (len(page) >= limits.BLOCKS or total + size(block) > limits.TOTAL_TEXT):
            yield tuple(page)
            page, total = [], 0
        page.append(block)
        total += size(block)
    if page:
        yield tuple(page)


def _fit(blocks: Sequence[Block]) -> tuple[Json, ...]:
    """One page: tables give way first, then paragraphs, then fields; headers and buttons stay."""
    kept = list(blocks)
    for kind in (Table, Text, Context, Fields):
        while not _fits(kept) and (index := _longest(kept, kind)) is not None:
            kept[index] = _shorter(kept[index])
    return tuple(json for block in kept for json in _blocks(block))


def _fits(blocks: Sequence[Block]) -> bool:
    rendered = [json for block in blocks for json in _blocks(block)]
    return len(rendered) <= limits.BLOCKS and sum(map(size, rendered)) <= limits.TOTAL_TEXT


def _longest(blocks: Sequence[Block], kind: type[Block]) -> int | None:
    """The block of a kind that can give most, None where none can give any more."""
    sizes = {i: _bulk(b) for i, b in enumerate(blocks) if isinstance(b, kind)}
    best = max(sizes, key=lambda i: sizes[i], default=None)
    return best if best is not None and sizes[best] > 0 else None


_NOTE = re.compile(r"^… ([\d,]+) (?:lines|values|characters) omitted$")


def _bulk(block: Block) -> int:
    match block:
        case Table(rows=rows):
            return sum(sum(map(len, row)) for row in rows if not _NOTE.match(row[0])) if len(rows) > 1 else 0
        case Fields(pairs):
            return sum(len(str(value)) for _, value in pairs) if len(pairs) > 1 else 0
        case Text(text=text) | Context(text):
            return len(text) if len(text) > 200 else 0
        case _:
            return 0


def _shorter(block: Block) -> Block:
    """About half of it, saying what was left out."""
    match block:
        case Table(columns, rows):
            before, real = _omitted(rows)
            keep = real[: len(real) // 2]
            note = f"… {before + len(real) - len(keep):,} lines omitted"
            return replace(block, rows=(*keep, (note, *[""] * (len(columns) - 1))))
        case Fields(pairs):
            half = len(pairs) // 2
            return Fields(pairs[:half])
        case Text(text=text):
            return replace(block, text=trim(text, max(200, len(text) // 2)))
        case Context(text):
            return Context(trim(text, max(200, len(text) // 2)))
        case _:
            return block


def _omitted(rows: tuple[tuple[str, ...], ...]) -> tuple[int, tuple[tuple[str, ...], ...]]:
    note = _NOTE.match(rows[-1][0]) if rows else None
    return (int(note[1].replace(",", "")), rows[:-1]) if note else (0, rows)


def _unique(blocks: Sequence[Json]) -> tuple[Json, ...]:
    """action_ids that stand twice get a number behind; `action_name` takes it off again."""
    seen: dict[str, int] = {}
    for block in blocks:
        for element in block.get("elements", ()) if block["type"] == "actions" else ():
            action = element["action_id"]
            seen[action] = seen.get(action, 0) + 1
            if seen[action] > 1:
                element["action_id"] = f"{action}#{seen[action]}"
    return tuple(blocks)


def action_name(action_id: str) -> str:
    """The action a rendered action_id stands for."""
    return action_id.split("#", 1)[0]
