"""What was spent, by whom, where; and the bill beside it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from bot.operations.house import House
from fleet.errors import BadInput
from fleet.values import Money, parse_duration
from guard.answers import BillComparison, CostRow, Fault

DIMENSIONS = ("experiment", "run", "owner", "team", "region", "instance-type", "day")


@dataclass(frozen=True, slots=True)
class Costs:
    """Rows, dearest first."""

    by: str
    since: datetime
    until: datetime
    rows: tuple[CostRow, ...]
    total: Money


@dataclass(frozen=True, slots=True)
class Verified:
    """What recomputing the ledger found."""

    faults: tuple[Fault, ...]


def costs(house: House, by: str, since: str, now: datetime) -> Costs:
    """Cost rows over the last while (`7d`, `12h`). Raises BadInput."""
    if by not in DIMENSIONS:
        raise BadInput(f"Costs cannot be grouped by {by!r}.", hint=f"It can be {', '.join(DIMENSIONS)}.")
    start = now - parse_duration(since)
    rows = house.guard.costs(by=by, since=start, until=now)
    if by == "owner":
        rows = tuple(
            CostRow(house.directory.by_kubernetes_name(r.key).name if r.key else "", r.amount, r.estimated)
            for r in rows
        )
    ordered = rows if by == "day" else tuple(sorted(rows, key=lambda row: (-row.amount.micros, row.key)))
    return Costs(by, start, now, ordered, Money.total(row.amount for row in rows))


def bill(house: House, day: str, now: datetime) -> BillComparison:
    """A UTC day's bill beside the ledger."""
    try:
        datetime.strptime(day, "%Y-%m-%d")  # noqa: DTZ007 - only the form is checked
    except ValueError:
        raise BadInput(f"{day!r} is not a day.", hint="Write it like 2026-11-06.") from None
    return house.guard.bill(day, now)


def verify(house: House) -> Verified:
    """Recompute every line from the observations."""
    return Verified(house.guard.verify_ledger())
