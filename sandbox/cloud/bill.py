"""The account's bill: what machines ran up a day, and what else is on it, as lines with their dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

from sandbox.cloud.costs import cost, hours
from sandbox.cloud.region import Region
from sandbox.cloud.shapes import ACCOUNT
from sandbox.cloud.spec import COMPUTE, BillLine, BillSpec
from sandbox.world import World

USAGE = "Usage"


@dataclass(frozen=True)
class Item:
    """An amount with everything by which it can be grouped and filtered."""

    amount: Fraction
    """dollars"""
    quantity: Fraction
    """hours"""
    dimensions: Mapping[str, str]
    tags: Mapping[str, str]


@dataclass
class Bill:
    """What was used, by UTC day, and how much of it the account already sees."""

    world: World
    spec: BillSpec
    regions: Mapping[str, Region]
    lines: list[BillLine] = field(init=False)
    """further lines; scenarios may append"""
    opened: datetime = field(init=False)
    """the account's first day"""

    def __post_init__(self) -> None:
        self.lines = list(self.spec.lines)
        days = [self.world.now.date(), *(line.day for line in self.lines)]
        self.opened = midnight(min(days))

    def edge(self) -> datetime:
        """The end of the newest day that is on the bill."""
        return midnight((self.world.now - timedelta(hours=self.spec.after_hours)).date())

    def estimated(self, end: datetime) -> bool:
        """Whether a period that ends then may still change."""
        return self.world.now < end + timedelta(days=self.spec.final_after_days)

    def items(self, since: datetime, until: datetime) -> Iterator[Item]:
        """Everything in [since, until) that is on the bill by now."""
        yield from self.really(since, min(until, self.edge()))

    def really(self, since: datetime, until: datetime) -> Iterator[Item]:
        """Everything in [since, until) and not later than now, billed or not."""
        until = min(until, self.world.now)
        for region in self.regions.values():
            for machine in region.machines.values():
                amount = cost(machine, region, since, until)
                if not amount:
                    continue
                usage = "SpotUsage" if machine.spot else "BoxUsage"
                dimensions = {
                    "SERVICE": COMPUTE,
                    "REGION": machine.region,
                    "AZ": machine.zone,
                    "INSTANCE_TYPE": machine.kind.name,
                    "USAGE_TYPE": f"{usage}:{machine.kind.name}",
                    "OPERATION": "RunInstances:SV001" if machine.spot else "RunInstances",
                    "PURCHASE_TYPE": "Spot Instances" if machine.spot else "On Demand Instances",
                    "RECORD_TYPE": USAGE,
                    "LINKED_ACCOUNT": ACCOUNT,
                }
                yield Item(amount, hours(machine, since, until), dimensions, machine.tags)
        for line in self.lines:
            if since <= midnight(line.day) < until:
                yield _item(line)

    def spent(
        self, since: datetime, until: datetime, keep: Callable[[Mapping[str, str]], bool] = lambda _: True
    ) -> Fraction:
        """Dollars of machines whose tags are kept, in [since, until) and not later than now, exactly."""
        until = min(until, self.world.now)
        return sum(
            (
                cost(machine, region, since, until)
                for region in self.regions.values()
                for machine in region.machines.values()
                if keep(machine.tags)
            ),
            Fraction(0),
        )


def _item(line: BillLine) -> Item:
    dimensions = {
        "SERVICE": line.service,
        "REGION": line.region,
        "RECORD_TYPE": line.record_type,
        "LINKED_ACCOUNT": ACCOUNT,
    }
    return Item(line.amount, Fraction(0), dimensions, line.tags)


def midnight(day: date) -> datetime:
    """The beginning of a UTC day."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
