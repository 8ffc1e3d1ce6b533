"""The bill against the ledger, one closed UTC day at a time. Pure; the bill raises alarms, it never pauses.

Compared is what both know: compute, gross of credits, by region. What the ledger cannot see (transfer,
storage, control planes) is named beside the drift, and so is what explains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal

from fleet.ports import BilledDay
from fleet.values import Money
from guard.answers import BillComparison, Difference
from guard.meter import CORRECTION, UNJOINED, Line

COMPUTE = "Elastic Compute Cloud"
"""part of the name of the service that machines are billed under"""
BILLED = ("aws",)
"""providers that send a bill; other machines are metered at configured rates, and nobody bills them"""


def is_compute(service: str) -> bool:
    """Whether a line of the bill is for machines as such."""
    return COMPUTE in service or service in ("EC2", "AmazonEC2")


def compare(day: str, billed: Sequence[BilledDay], lines: Iterable[Line]) -> BillComparison:
    """The bill's lines of a day beside the ledger's."""
    ours = [line for line in lines if line.account.provider in BILLED]
    compute = [entry for entry in billed if is_compute(entry.service)]
    by_region: dict[str, list[int]] = {}
    for entry in compute:
        by_region.setdefault(entry.region, [0, 0])[0] += entry.amount.micros
    for line in ours:
        by_region.setdefault(line.account.region, [0, 0])[1] += line.amount
    total = sum(pair[0] for pair in by_region.values())
    metered = sum(pair[1] for pair in by_region.values())
    return BillComparison(
        day=day,
        billed=Money(total),
        metered=Money(metered),
        drift_percent=percent(metered - total, total),
        estimated=any(entry.estimated for entry in billed),
        regions=tuple((name, Money(b), Money(m)) for name, (b, m) in sorted(by_region.items())),
        differences=(*_explained(ours), *_unmetered(billed)),
        note="" if billed else "the bill of this day is not there yet",
    )


def percent(part: int, whole: int) -> str:
    """A signed percentage with two decimals, no minus on zero; `n/a` of nothing."""
    if whole == 0:
        return "n/a" if part else "+0.00"
    value = (Decimal(part) * 100 / Decimal(whole)).quantize(Decimal("0.01"), ROUND_HALF_UP)
    return f"{value:+}" if value else "+0.00"


def _explained(lines: Sequence[Line]) -> list[Difference]:
    parts = (
        (
            "unjoined machines",
            sum(
                line.amount for line in lines if line.account.kind == UNJOINED and "minimum" not in line.flags
            ),
            "machines that were booting, or that billed and never joined; the bill has them too",
        ),
        (
            "60-second minimum",
            sum(line.amount for line in lines if "minimum" in line.flags),
            "machines that ended within their first minute are billed for all of it",
        ),
        (
            "estimated price",
            sum(line.amount for line in lines if "estimated" in line.flags),
            "no price was known, so an upper bound was metered; the true price is at most this",
        ),
        (
            "guard was not looking",
            sum(line.amount for line in lines if "gap" in line.flags),
            "metered from timestamps and the last known burn",
        ),
        (
            "corrections",
            sum(line.amount for line in lines if line.subject == CORRECTION),
            "signed lines that were added later",
        ),
    )
    return [Difference(name, Money(amount), why) for name, amount, why in parts if amount]


def _unmetered(billed: Sequence[BilledDay]) -> list[Difference]:
    sums: dict[str, int] = {}
    for entry in billed:
        if not is_compute(entry.service):
            sums[entry.service] = sums.get(entry.service, 0) + entry.amount.micros
    return [
        Difference(
            f"unmetered: {name}", Money(-amount), "billed beside the machines; the guard does not meter it"
        )
        for name, amount in sorted(sums.items())
        if amount
    ]
