"""What machines really cost: exact fractions, per second with a minimum of 60, spot price changes honoured."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise

from sandbox.cloud.machine import Machine
from sandbox.cloud.region import Region

MINIMUM = timedelta(seconds=60)
_HOUR = 3600


def decimal(value: Fraction, digits: int) -> str:
    """A fraction as decimal text, rounded half up."""
    scaled = (abs(value) * 10**digits + Fraction(1, 2)).__floor__()
    sign = "-" if value < 0 and scaled else ""
    return f"{sign}{scaled // 10**digits}.{scaled % 10**digits:0{digits}d}"


def billed(machine: Machine, since: datetime, until: datetime) -> tuple[datetime, datetime] | None:
    """The part of [since, until) that is billed: from the launch to the shutdown, a minute at least.

    `until` is not later than now: nothing is known of a machine that still runs.
    """
    end = until if machine.ended is None else max(machine.ended, machine.launched + MINIMUM)
    start, end = max(machine.launched, since), min(end, until)
    return (start, end) if start < end else None


def hours(machine: Machine, since: datetime, until: datetime) -> Fraction:
    """Billed hours in [since, until)."""
    part = billed(machine, since, until)
    return Fraction(0) if part is None else _seconds(part[1] - part[0]) / _HOUR


def cost(machine: Machine, region: Region, since: datetime, until: datetime) -> Fraction:
    """Dollars of a machine in [since, until), at the prices in force."""
    part = billed(machine, since, until)
    if part is None:
        return Fraction(0)
    start, end = part
    changes = region.prices[machine.zone, machine.kind.name, machine.spot]
    edges = [start, *(c.at for c in changes if start < c.at < end), end]
    total = Fraction(0)
    for left, right in pairwise(edges):
        price = region.price(machine.zone, machine.kind.name, machine.spot, left)
        total += price * _seconds(right - left) / _HOUR
    return total


def _seconds(duration: timedelta) -> Fraction:
    return Fraction(duration.days * 86_400 + duration.seconds) + Fraction(duration.microseconds, 1_000_000)
