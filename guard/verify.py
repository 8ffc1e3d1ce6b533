"""`ledger verify`: fold every observation again and compare with the ledger, line by line.

A fault names its machine, subject and interval: *changed* (even by one micro-dollar), *missing*, *doubled*,
*shifted*, *gap* (a whole interval is gone), *unexpected*, *uneven* (an interval's lines do not sum to the
machine's price), *totals* (a day's running total differs from its lines), *open* (a machine's open
interval differs).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator

from fleet.db import Database
from guard.answers import Fault
from guard.ledger import day_rows, line_from, machine_from
from guard.meter import CORRECTION, Line, Meter, Observation
from guard.moments import HOUR, moment
from guard.tables import ACCOUNT_COLUMNS

Key = tuple[str, str, int, int]
"""machine, subject, start, end"""


def verify(database: Database) -> tuple[Fault, ...]:
    """Every fault of the ledger; none where it is what the observations say."""
    meter = Meter()
    expected = [line for one in observations(database) for line in meter.apply(one)]
    actual = [line_from(row) for row in database.rows("SELECT * FROM lines ORDER BY id")]
    found = list(_compare(expected, actual))
    found += _uneven(actual, {(f.machine, f.started) for f in found})
    found += _totals(database, actual)
    found += _open(database, meter)
    return tuple(found)


def observations(database: Database) -> Iterator[Observation]:
    """Every observation in the order in which the meter took it."""
    for row in database.rows("SELECT kind, key, at, seen, payload FROM observations ORDER BY id"):
        yield Observation(row["kind"], row["key"], row["at"], row["seen"], json.loads(row["payload"]))


def _compare(expected: Iterable[Line], actual: Iterable[Line]) -> Iterator[Fault]:
    wanted: dict[Key, list[Line]] = defaultdict(list)
    found: dict[Key, list[Line]] = defaultdict(list)
    for line in expected:
        wanted[_key(line)].append(line)
    for line in actual:
        found[_key(line)].append(line)
    extra = {key: lines for key, lines in found.items() if key not in wanted}
    covered = {(key[0], key[2], key[3]) for key in found if key in wanted}
    for key, lines in sorted(wanted.items()):
        have = found.get(key, [])
        if not have:
            yield _absent(lines[0], extra, covered)
            continue
        if len(have) > len(lines):
            yield _fault("doubled", have[0], f"it is there {len(have)} times, {len(lines)} is right")
        for want, got in zip(lines, have, strict=False):
            if want != got:
                yield _fault("changed", got, _differences(want, got))
    for key in sorted(extra):
        for line in extra[key]:
            yield _fault("unexpected", line, "no observation leads to it")


def _absent(want: Line, extra: dict[Key, list[Line]], covered: set[tuple[str, int, int]]) -> Fault:
    """A line that should be there: was it moved, is its whole interval gone, or it alone?"""
    for key in sorted(extra):
        moved = extra[key][0]
        same = (key[0], key[1]) == (want.machine, want.subject) and moved.account == want.account
        if same and (
            moved.amount == want.amount or (moved.started < want.ended and want.started < moved.ended)
        ):
            extra[key].pop(0)
            if not extra[key]:
                del extra[key]
            return _fault(
                "shifted", want, f"it stands at {moment(moved.started):%F %T}–{moment(moved.ended):%T}"
            )
    if (want.machine, want.started, want.ended) not in covered:
        return _fault("gap", want, f"nothing is there for the whole interval ({want.amount} micro-dollars)")
    return _fault("missing", want, f"{want.amount} micro-dollars")


def _uneven(actual: Iterable[Line], known: set[tuple[str, object]]) -> list[Fault]:
    intervals: dict[tuple[str, int, int], list[Line]] = defaultdict(list)
    for line in actual:
        if line.subject != CORRECTION:
            intervals[line.machine, line.started, line.ended].append(line)
    found = []
    for (machine, started, ended), lines in sorted(intervals.items()):
        off = sum(line.amount for line in lines) - lines[0].hourly * (ended - started) // HOUR
        if off and (machine, moment(started)) not in known:
            found.append(_fault("uneven", lines[0], f"the interval's lines are {off:+d} micro-dollars off"))
    return found


def _totals(database: Database, actual: Iterable[Line]) -> list[Fault]:
    wanted = {tuple(row[:-2]): (row[-2], row[-1]) for row in day_rows(actual)}
    columns = ", ".join(ACCOUNT_COLUMNS)
    rows = database.rows(f"SELECT day, {columns}, amount, estimated FROM ledger_days")
    have = {tuple(row.values())[:-2]: (row["amount"], row["estimated"]) for row in rows}
    return [
        Fault(
            "totals",
            "",
            " ".join(str(part) for part in key if part),
            None,
            f"{have.get(key)} ≠ {wanted.get(key)}",
        )
        for key in sorted(wanted.keys() | have.keys())
        if wanted.get(key, (0, 0)) != have.get(key, (0, 0))
    ]


def _open(database: Database, meter: Meter) -> list[Fault]:
    rows = database.rows("SELECT key, state FROM machines ORDER BY key")
    have = {row["key"]: machine_from(json.loads(row["state"])) for row in rows}
    return [
        Fault(
            "open",
            key,
            "",
            moment(meter.machines[key].since) if key in meter.machines else None,
            "the open interval is not what the observations say",
        )
        for key in sorted(have.keys() | meter.machines.keys())
        if have.get(key) != meter.machines.get(key)
    ]


def _key(line: Line) -> Key:
    return line.machine, line.subject, line.started, line.ended


def _differences(want: Line, got: Line) -> str:
    if want.amount != got.amount:
        return f"{got.amount - want.amount:+d} micro-dollars (right: {want.amount})"
    names = [name for name, a, b in zip(Line._fields, want, got, strict=True) if a != b]
    return (
        f"{', '.join(names)}: {[getattr(got, n) for n in names]} (right: {[getattr(want, n) for n in names]})"
    )


def _fault(kind: str, line: Line, detail: str) -> Fault:
    return Fault(kind, line.machine, line.subject, moment(line.started), detail)
