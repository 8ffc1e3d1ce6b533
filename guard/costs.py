"""What something cost: sums by experiment, run, owner, team, region, instance type or day."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from fleet.db import Database
from fleet.errors import BadInput
from fleet.values import Money
from guard.answers import CostRow
from guard.ledger import Ledger
from guard.meter import Account, Line
from guard.moments import DAY, day_of, micros
from guard.tables import ACCOUNT_COLUMNS
from guard.tally import overlap

COLUMNS = {
    "experiment": "experiment",
    "run": "run",
    "owner": "owner",
    "team": "team",
    "region": "region",
    "instance-type": "instance_type",
    "cluster": "cluster",
    "kind": "kind",
    "day": "day",
}

Entry = tuple[str, Account, int, int]
"""UTC day, account, amount, the part at estimated prices"""


def cost_rows(
    database: Database, ledger: Ledger, *, by: str, since: datetime | None, until: datetime
) -> tuple[CostRow, ...]:
    """Sums within [since, until), the dearest first (days in order). BadInput for an unknown `by`."""
    column = COLUMNS.get(by)
    if column is None:
        raise BadInput(f"Costs cannot be summed by {by!r}.", hint=f"Use one of {', '.join(COLUMNS)}.")
    sums: dict[str, list[int]] = {}
    for day, account, amount, estimated in entries(database, ledger, since, until):
        key = day if column == "day" else str(getattr(account, column))
        entry = sums.setdefault(key, [0, 0])
        entry[0] += amount
        entry[1] += estimated
    rows = [
        CostRow(key, Money(amount), Money(part)) for key, (amount, part) in sums.items() if amount or part
    ]
    if column == "day":
        return tuple(sorted(rows, key=lambda row: row.key))
    return tuple(sorted(rows, key=lambda row: (-row.amount.micros, row.key)))


def entries(database: Database, ledger: Ledger, since: datetime | None, until: datetime) -> Iterator[Entry]:
    """Every amount within [since, until): whole closed days from their totals, the edges line by line."""
    first = 0 if since is None else micros(since)
    last = micros(until)
    first_day = -(-first // DAY)
    last_day = last // DAY
    if ledger.mark is not None and last >= ledger.mark:
        last_day = max(last_day, -(-last // DAY))  # nothing is closed after the mark: the day is whole
    if first_day <= last_day:
        yield from _days(database, day_of(first_day * DAY), day_of(last_day * DAY))
        edges = [(first_day * DAY - DAY, first_day * DAY)] if first % DAY else []
        if last_day * DAY < last:
            edges.append((last_day * DAY, last_day * DAY + DAY))
    else:
        edges = [(first - first % DAY, first - first % DAY + DAY)]
    for start, end in edges:
        for line in ledger.closed_lines(start, end):
            yield _entry(line, first, last)
    for line in ledger.open_lines(last):
        yield _entry(line, first, last)


def _entry(line: Line, first: int, last: int) -> Entry:
    amount = overlap(line, first, last)
    return day_of(line.started), line.account, amount, amount if "estimated" in line.flags else 0


def _days(database: Database, first: str, last: str) -> Iterator[Entry]:
    for row in database.rows("SELECT * FROM ledger_days WHERE day >= ? AND day < ?", (first, last)):
        account = Account(*(row[name] for name in ACCOUNT_COLUMNS))
        yield row["day"], account, row["amount"], row["estimated"]
