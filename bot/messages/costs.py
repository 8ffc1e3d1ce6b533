"""Costs, the bill beside the ledger, and what verifying the ledger found."""

from __future__ import annotations

from bot.messages.model import Block, Context, Message, Table, Text
from bot.operations.costs import Costs, Verified
from bot.words import clock_time, count, name
from guard.answers import BillComparison

NOBODY = "overhead"


def costs(found: Costs) -> Message:
    """`costs`: metered, so an estimate until the bill is there."""
    span = f"{clock_time(found.since)} to {clock_time(found.until)}"
    if not found.rows:
        return Message(f"Nothing was spent from {span}.")
    rows = tuple(
        (name(row.key) if row.key else NOBODY, str(row.amount), str(row.estimated) if row.estimated else "")
        for row in found.rows
    )
    table = Table((found.by.upper(), "SPENT", "AT ESTIMATED PRICES"), rows, frozenset({1, 2}))
    text = f"{found.total} was spent from {span} (metered; the bill comes about a day later)."
    return Message(text, (table, Context(text)))


def bill(found: BillComparison) -> Message:
    """A day's bill beside the ledger."""
    if found.note:
        return Message(f"{found.day}: {found.note}")
    kind = "estimated bill" if found.estimated else "bill"
    text = (
        f"{found.day}: the {kind} says {found.billed}, the ledger {found.metered} ({found.drift_percent} %)."
    )
    blocks: list[Block] = [Text(text)]
    if found.regions:
        rows = tuple((region, str(billed), str(metered)) for region, billed, metered in found.regions)
        blocks.append(Table(("REGION", "BILLED", "METERED"), rows, frozenset({1, 2})))
    if found.differences:
        named = tuple((d.name, str(d.amount), d.explanation) for d in found.differences)
        blocks.append(Table(("NAMED PART", "AMOUNT", "WHY"), named, frozenset({1})))
    return Message(text, tuple(blocks))


def verified(found: Verified) -> Message:
    """`ledger verify`."""
    if not found.faults:
        return Message("The ledger agrees with its observations to the micro-dollar.")
    rows = tuple(
        (f.kind, f.machine, f.subject, clock_time(f.started) if f.started else "", f.detail)
        for f in found.faults
    )
    text = f"The ledger has {count(len(found.faults), 'fault')}: {found.faults[0].detail}"
    return Message(text, (Text(text), Table(("FAULT", "MACHINE", "FOR", "FROM", "WHAT"), rows)))
