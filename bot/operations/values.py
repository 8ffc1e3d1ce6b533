"""Result values as plain JSON values: money with all six decimals, times as RFC 3339, durations in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Any

from fleet.values import Money, rfc3339


def plain(value: Any) -> Any:
    """The value made of dicts, lists, strings, numbers and booleans."""
    if isinstance(value, Money):
        return value.exact()
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, timedelta):
        return int(value.total_seconds())
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return value.isoformat() if isinstance(value, date) else value
