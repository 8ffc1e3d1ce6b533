"""What machines really cost: exact fractions, per second with a minimum of 60, spot price changes honoured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise

from sandbox.cloud.region import Machine, Region

MINIMUM = timedelta(seconds=60)


def decimal(value: Fraction, digits: int) -> str:
    """A fraction as decimal text, rounded half up."""
    scaled = (value * 10**digits + Fraction(1, 2)).__floor__()
    sign, scaled = ("-", -scaled) if scaled < 0 else ("", scaled)
    return f"{sign}{scaled // 10**digits}.{scaled % 10**digits:0{digits}d}"


def billed_until(machine: Machine, now: datetime) -> datetime:
    """The end of what is billed: the shutdown, but at least a minute after the launch."""
    return max(machine.ended or now, machine.launched + MINIMUM) if machine.ended else now


def cost(machine: Machine, region: Region, since: datetime, until: datetime) -> Fraction:
    """Dollars of a machine in [since, until), at the prices in force."""
    start = max(machine.launched, since)
    end = min(billed_until(machine, until), until)
    if end <= start:
        return Fraction(0)
    changes = region.prices[machine.zone, machine.kind.name, machine.spot]
    edges = [start, *(c.at for c in changes if start < c.at < end), end]
    total = Fraction(0)
    for left, right in pairwise(edges):
        price = region.price(machine.zone, machine.kind.name, machine.spot, left)
        total += price * _seconds(right - left) / 3600
    return total


def _seconds(duration: timedelta) -> Fraction:
    return Fraction(duration.days * 86_400 + duration.seconds) + Fraction(duration.microseconds, 1_000_000)


def spent(
    regions: Mapping[str, Region],
    since: datetime,
    until: datetime,
    keep: Callable[[Machine], bool] = lambda _: True,
) -> Fraction:
    """Dollars of all machines that are kept, in [since, until)."""
    return sum(
        (
            cost(m, region, since, until)
            for region in regions.values()
            for m in region.machines.values()
            if keep(m)
        ),
        Fraction(0),
    )


def by_day(machines: Iterable[tuple[Machine, Region]], day: datetime) -> Iterable[tuple[Machine, Fraction]]:
    """(machine, dollars) of a UTC day, those with none left out."""
    for machine, region in machines:
        amount = cost(machine, region, day, day + timedelta(days=1))
        if amount:
            yield machine, amount
