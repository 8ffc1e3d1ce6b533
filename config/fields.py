"""Field types that settings models of all packages share: money, durations, zones, times of day."""

from __future__ import annotations

from datetime import time, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo, available_timezones

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from fleet.errors import BadInput
from fleet.values import Money, format_duration, parse_duration


class Strict(BaseModel):
    """Base of every settings model: unknown keys are errors, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


def _money(value: Any) -> Money:
    if isinstance(value, Money):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("write an amount of dollars like 1204.18 or 1.5k")
    try:
        return Money.usd(repr(value) if isinstance(value, float) else value)
    except BadInput as error:
        raise ValueError(str(error)) from None


def _positive_money(value: Any) -> Money:
    amount = _money(value)
    if amount.micros < 0:
        raise ValueError("an amount cannot be below zero")
    return amount


def _duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("write a duration like 45s, 90m, 1h30m or 2d")
    try:
        return parse_duration(value)
    except BadInput as error:
        raise ValueError(str(error)) from None


def _zone(value: Any) -> ZoneInfo:
    if isinstance(value, ZoneInfo):
        return value
    if not isinstance(value, str) or value not in available_timezones():
        raise ValueError("write an IANA time zone like America/Los_Angeles or UTC")
    return ZoneInfo(value)


def _time_of_day(value: Any) -> time:
    if isinstance(value, time):
        return value
    try:
        return time.fromisoformat(str(value))
    except ValueError:
        raise ValueError('write a time of day like "09:00"') from None


Dollars = Annotated[
    Money, BeforeValidator(_positive_money), PlainSerializer(lambda money: money.exact(), return_type=str)
]
"""Money >= 0: `2000`, `"$1,204.18"`, `1.5k`."""
Duration = Annotated[timedelta, BeforeValidator(_duration), PlainSerializer(format_duration, return_type=str)]
"""A duration: `45s`, `90m`, `1h30m`, `2d`, or whole seconds."""
Zone = Annotated[ZoneInfo, BeforeValidator(_zone), PlainSerializer(lambda zone: zone.key, return_type=str)]
"""An IANA time zone."""
TimeOfDay = Annotated[
    time, BeforeValidator(_time_of_day), PlainSerializer(lambda moment: moment.isoformat(), return_type=str)
]
"""A local time of day: `"09:00"`."""
