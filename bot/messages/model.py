"""Messages as values, without any chat system in them: cards build them, `bot.slack.blocks` renders them.

Text in here is plain: no markup, no escapes. What a chat system allows (lengths, numbers of blocks) is its
renderer's business. `Message.text` is a full sentence with the numbers in it, because notifications and
screen readers get nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Header:
    """The title of a card."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph. `mention` is the chat id of a person who is to be notified; it stands in front."""

    text: str
    mention: str = ""
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """Pairs of label and value, two columns. A datetime is shown in each reader's own zone."""

    pairs: tuple[tuple[str, str | datetime], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns, in a fixed-width face. `right` are the indexes of right-aligned columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Context:
    """Small print: where a figure comes from, who may click, request ids."""

    text: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """A question before a click counts."""

    title: str
    text: str
    yes: str
    no: str = "Cancel"


@dataclass(frozen=True, slots=True)
class Button:
    """`action` names a click handler; `value` carries a request id and nothing else."""

    action: str
    value: str
    label: str
    style: str = ""
    """"" or "primary" or "danger" """
    confirm: Confirm | None = None


@dataclass(frozen=True, slots=True)
class Buttons:
    """A row of buttons."""

    buttons: tuple[Button, ...]


Block = Header | Text | Fields | Table | Context | Buttons


@dataclass(frozen=True, slots=True)
class Message:
    """What is said. A `card` stays one message that is edited in place; others may be split."""

    text: str
    blocks: tuple[Block, ...] = field(default=())
    card: bool = False
