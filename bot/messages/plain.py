"""A message as plain text, for terminals and for the log of what was said."""

from __future__ import annotations

from datetime import datetime

from bot.messages.model import Block, Buttons, Context, Fields, Header, Message, Table, Text
from bot.words import clock_time


def as_text(message: Message) -> str:
    """All blocks, one under the other; the sentence alone where there are none."""
    if not message.blocks:
        return message.text
    return "\n".join(part for block in message.blocks if (part := _block(block)))


def _block(block: Block) -> str:
    match block:
        case Header(text) | Context(text):
            return text
        case Text(text=text):
            return text
        case Fields(pairs):
            width = max((len(label) for label, _ in pairs), default=0)
            return "\n".join(f"  {label:<{width}}  {_value(value)}" for label, value in pairs)
        case Table():
            return "\n".join(lines(block))
        case Buttons():
            return ""


def _value(value: str | datetime) -> str:
    return clock_time(value) if isinstance(value, datetime) else value


def lines(table: Table) -> list[str]:
    """The table's lines, header first, columns padded to their widest cell."""
    rows = [table.columns, *table.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.columns))]
    return [
        "  ".join(_cell(row, i, widths, table) for i in range(len(table.columns))).rstrip() for row in rows
    ]


def _cell(row: tuple[str, ...], index: int, widths: list[int], table: Table) -> str:
    cell = row[index]
    return cell.rjust(widths[index]) if index in table.right else cell.ljust(widths[index])
