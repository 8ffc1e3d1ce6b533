"""How amounts, times, names and counts are written, everywhere alike."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from fleet.model import Person
from fleet.values import Money, format_duration

_BROADCAST = re.compile(r"@(?=(?:channel|here|everyone)\b)", re.IGNORECASE)
NAME_LIMIT = 80


def name(text: str) -> str:
    """A name somebody chose, made harmless: one line, no control or direction marks, no backticks, no broadcast."""
    kept = "".join(" " if c in "\n\r\t" else c for c in text if c in "\n\r\t" or _printable(c))
    calm = _BROADCAST.sub("@\u200b", kept.replace("`", "'")).strip()
    return calm if len(calm) <= NAME_LIMIT else calm[: NAME_LIMIT - 1] + "…"


def _printable(character: str) -> bool:
    return unicodedata.category(character) not in {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


def hourly(rate: Money) -> str:
    """`$13.20/h`."""
    return f"{rate}/h"


def span(low: Money, high: Money) -> str:
    """`$900.00 to $1,100.00`, or one amount where both are written alike."""
    return str(low) if str(low) == str(high) else f"{low} to {high}"


def percent(part: Money, whole: Money) -> str:
    """`82 %` of the whole, floored; a whole of zero is used up."""
    ratio = part.fraction_of(whole)
    return f"{ratio.numerator * 100 // ratio.denominator} %"


def duration(length: timedelta | None, never: str = "never") -> str:
    """`3 h 12 m`, or a word for None."""
    return never if length is None else format_duration(length)


def clock_time(moment: datetime, zone: ZoneInfo | None = None) -> str:
    """`17:05 UTC`, with the date in front where a reader could mistake the day: `Fri 6 Nov 17:05 UTC`."""
    local = moment.astimezone(zone or UTC)
    return f"{local:%a} {local.day} {local:%b %H:%M %Z}"


def count(number: int, singular: str, plural: str = "") -> str:
    """`1 node`, `3 nodes`, `10,000 pods`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def listed(items: Iterable[str], limit: int = 4, last: str = "and") -> str:
    """`a, b and c`; beyond the limit `a, b, c, d and 5 others`."""
    words = list(items)
    if len(words) > limit:
        rest = len(words) - limit
        words = [*words[:limit], f"{rest} other{'' if rest == 1 else 's'}"]
    if len(words) <= 1:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def people(persons: Sequence[Person], nobody: str = "nobody") -> str:
    """`Ada, Grace or 3 others`."""
    return listed((name(p.name) for p in persons), limit=3, last="or") or nobody


def cores(millicores: int) -> str:
    """`432`, `0.5`."""
    whole, rest = divmod(millicores, 1000)
    return f"{whole:,}" if not rest else f"{whole:,}.{rest:03d}".rstrip("0")


def memory(size: int) -> str:
    """Bytes in the largest binary unit that leaves a whole or one decimal: `64Gi`, `1.5Gi`, `512Mi`."""
    for unit, scale in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if size >= scale:
            tenths = size * 10 // scale
            return f"{tenths // 10}{unit}" if tenths % 10 == 0 else f"{tenths // 10}.{tenths % 10}{unit}"
    return str(size)
