"""The daily digest and the bill of a day."""

from __future__ import annotations

from collections.abc import Sequence

from bot.messages.model import Block, Context, Fields, Header, Message, Table, Text
from bot.words import clock_time, hourly, name, percent
from guard.events import BillArrived, CapFigures, Digest, DigestLine

SHOWN = 10


def digest(event: Digest) -> Message:
    """What a day cost, for whom and where, and how the caps stand."""
    dearest = max(event.teams, key=lambda line: line.amount, default=None)
    most = f", most of it by {name(dearest.name) or 'nobody'} ({dearest.amount})" if dearest else ""
    span = f"from {clock_time(event.since)} to {clock_time(event.until)}"
    text = f"{event.total} was spent {span}{most}; {hourly(event.burn)} is burning now."
    blocks: list[Block] = [Header(f"Digest of {event.day}"), Text(text)]
    pairs = [
        ("Total", str(event.total)),
        ("Burning now", hourly(event.burn)),
        ("Fleet overhead", str(event.overhead)),
    ]
    if event.estimated:
        pairs.append(("At estimated prices", str(event.estimated)))
    blocks.append(Fields(tuple(pairs)))
    for title, lines in (("TEAM", event.teams), ("EXPERIMENT", event.experiments), ("REGION", event.regions)):
        if lines:
            blocks.append(_lines(title, lines))
    if event.caps:
        blocks.append(_caps(event.caps))
    if event.waiting:
        blocks.append(Text("Waiting for an answer: " + ", ".join(event.waiting) + "."))
    blocks += [Text(note) for note in event.notes]
    blocks.append(Context("Metered; the provider's bill of a day comes about a day after it has ended."))
    return Message(text, tuple(blocks))


def bill_arrived(event: BillArrived) -> Message:
    """The bill beside the ledger, differences named."""
    kind = "The estimated bill" if event.estimated else "The bill"
    text = f"{kind} of {event.day} says {event.billed}; the ledger says {event.metered} ({event.drift_percent} %)."
    if not event.differences:
        return Message(text)
    rows = tuple((label, str(amount)) for label, amount in event.differences.items())
    named = Table(("NAMED PART OF THE LEDGER", "AMOUNT"), rows, frozenset({1}))
    return Message(text, (Text(text), named))


def _lines(title: str, lines: Sequence[DigestLine]) -> Table:
    ordered = sorted(lines, key=lambda line: (-line.amount.micros, line.name))
    rows = [(name(line.name) or "nobody", str(line.amount)) for line in ordered[:SHOWN]]
    if len(ordered) > SHOWN:
        rest = ordered[SHOWN:]
        total = sum((line.amount for line in rest[1:]), rest[0].amount)
        rows.append((f"{len(rest)} others", str(total)))
    return Table((title, "SPENT"), tuple(rows), frozenset({1}))


def _caps(caps: Sequence[CapFigures]) -> Table:
    rows = tuple(
        (c.cap, c.scope, f"{c.spent} of {c.limit}", percent(c.spent, c.limit), hourly(c.burn)) for c in caps
    )
    return Table(("CAP", "FOR", "SPENT", "", "$/h"), rows, frozenset({2, 3, 4}))
