"""The ledger: observations and the lines that follow from them, in the database; totals in memory.

Closed lines are rows and never change; an open line is what `Machine.lines` gives for the open interval,
recomputed from its start. `absorb` writes observations, closed lines, day totals, the machines' state and
the tick's mark in one transaction, so that a crash leaves neither a gap nor a double.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from fleet.db import Database
from fleet.errors import Unavailable
from fleet.values import Money
from guard.caps import Cap, window_at
from guard.meter import Account, Line, Machine, Meter, Observation, Share, Who, in_order
from guard.moments import DAY, day_of, micros, moment
from guard.tables import ACCOUNT_COLUMNS
from guard.tally import Tally, counts, overlap

_LINE_COLUMNS = ("machine", "subject", *ACCOUNT_COLUMNS, "started", "ended", "hourly", "share", "amount")
_INSERT_LINE = (
    f"INSERT INTO lines (batch, {', '.join(_LINE_COLUMNS)}, source, flags) "
    f"VALUES ({', '.join('?' * (len(_LINE_COLUMNS) + 3))})"
)
_ADD_DAY = (
    f"INSERT INTO ledger_days VALUES ({', '.join('?' * (len(ACCOUNT_COLUMNS) + 3))}) "
    f"ON CONFLICT (day, {', '.join(ACCOUNT_COLUMNS)}) DO UPDATE SET amount = amount + excluded.amount, "
    "estimated = estimated + excluded.estimated"
)


class Ledger:
    """What everything cost, to the micro-dollar."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self.reload()

    def reload(self) -> None:
        """Take up where the database stands."""
        self.meter = Meter()
        for row in self._db.rows("SELECT key, state FROM machines ORDER BY key"):
            self.meter.restore(machine_from(json.loads(row["state"])))
        self.meter.touched.clear()
        mark = self._db.row("SELECT at, batch FROM marks WHERE name = 'tick'")
        self.mark: int | None = mark["at"] if mark else None
        self._batch: int = mark["batch"] if mark else 0
        self._caps: dict[str, tuple[Cap, Tally]] = {}
        self._targets: dict[Account, tuple[Tally, ...]] = {}
        self._open: dict[str, tuple[int, list[tuple[Account, int]]]] = {}
        self._rates: dict[Account, dict[int, int]] = {}
        """open rates by account and start: what a new tally begins with"""
        self._runs = {
            row["run"]: Tally(closed=row["amount"])
            for row in self._db.rows(
                "SELECT run, SUM(amount) AS amount FROM ledger_days WHERE run != '' GROUP BY run"
            )
        }
        for key in self.meter.machines:
            self._follow(key)

    def absorb(self, seen: Sequence[Observation], now: datetime) -> list[Line]:
        """Record what one look has found, and the lines that it closes; returns those.

        Where writing fails (a full disk, a lock), memory goes back to what the database holds, and
        Unavailable is raised: nothing is forgotten, the next look sees the same changes again.
        """
        ordered = in_order(list(seen))
        at = micros(now)
        try:
            with self._db.transaction() as connection:
                if ordered:
                    self._batch += 1
                closed = [line for one in ordered for line in self.meter.apply(one)]
                if ordered:
                    self._write(connection, ordered, closed)
                connection.execute(
                    "INSERT INTO marks VALUES ('tick', ?, ?) ON CONFLICT (name) DO UPDATE "
                    "SET at = excluded.at, batch = excluded.batch",
                    (at, self._batch),
                )
        except sqlite3.Error as error:
            self.reload()
            raise Unavailable(f"The ledger cannot be written: {error}.") from error
        except BaseException:
            self.reload()
            raise
        self.mark = at
        touched, self.meter.touched = self.meter.touched, set()
        for key in touched:
            self._unfollow(key)
        for line in closed:
            for tally in self._tallies(line.account):
                tally.add(line)
        for key in touched:
            self._follow(key)
        return closed

    def _write(
        self, connection: sqlite3.Connection, seen: Sequence[Observation], closed: Sequence[Line]
    ) -> None:
        batch = self._batch
        connection.executemany(
            "INSERT INTO observations (batch, kind, key, at, seen, payload) VALUES (?, ?, ?, ?, ?, ?)",
            [(batch, o.kind, o.key, o.at, o.seen, json.dumps(dict(o.payload), sort_keys=True)) for o in seen],
        )
        connection.executemany(
            _INSERT_LINE,
            [(batch, *_line_values(line)) for line in closed],
        )
        connection.executemany(_ADD_DAY, day_rows(closed))
        for key in sorted(self.meter.touched):
            machine = self.meter.machines.get(key)
            if machine is None:
                connection.execute("DELETE FROM machines WHERE key = ?", (key,))
            else:
                state = json.dumps(machine_state(machine))
                connection.execute("INSERT OR REPLACE INTO machines VALUES (?, ?)", (key, state))

    def _follow(self, key: str) -> None:
        machine = self.meter.machines.get(key)
        if machine is None:
            return
        rates = [(account, rate) for account, rate in machine.rates() if rate]
        self._open[key] = (machine.since, rates)
        for account, rate in rates:
            starts = self._rates.setdefault(account, {})
            starts[machine.since] = starts.get(machine.since, 0) + rate
            for tally in self._tallies(account):
                tally.open(rate, machine.since)

    def _unfollow(self, key: str) -> None:
        since, rates = self._open.pop(key, (0, []))
        for account, rate in rates:
            starts = self._rates[account]
            starts[since] -= rate
            if not starts[since]:
                del starts[since]
                if not starts:
                    del self._rates[account]
            for tally in self._tallies(account):
                tally.shut(rate, since)

    def _tallies(self, account: Account) -> tuple[Tally, ...]:
        known = self._targets.get(account)
        if known is None:
            found = [tally for cap, tally in self._caps.values() if counts(cap, account)]
            if account.run:
                found.append(self._runs.setdefault(account.run, Tally()))
            known = self._targets[account] = tuple(found)
        return known

    def cap_spent(self, cap: Cap, now: datetime) -> Money:
        """Spent under the cap in the window that holds `now`."""
        return self._cap_tally(cap, now).at(micros(now))

    def cap_burn(self, cap: Cap, now: datetime) -> Money:
        """What runs up under the cap right now, dollars an hour."""
        return self._cap_tally(cap, now).burn

    def forget_cap(self, name: str) -> None:
        """The cap was changed or removed."""
        if self._caps.pop(name, None) is not None:
            self._targets.clear()

    def _cap_tally(self, cap: Cap, now: datetime) -> Tally:
        known = self._caps.get(cap.name)
        at = micros(now)
        if known is not None and known[0] == cap:
            tally = known[1]
            if (tally.start is None or tally.start <= at) and (tally.end is None or at < tally.end):
                return tally
        start, end = window_at(cap.window, cap.zone, now)
        tally = Tally(None if start is None else micros(start), None if end is None else micros(end))
        tally.closed = sum(
            amount for account, amount in self.closed_since(tally.start) if counts(cap, account)
        )
        for account, starts in self._rates.items():
            if counts(cap, account):
                for since, rate in starts.items():
                    tally.open(rate, since)
        self._caps[cap.name] = (cap, tally)
        self._targets.clear()
        return tally

    def closed_since(self, start: int | None) -> Iterator[tuple[Account, int]]:
        """Closed amounts by account since a moment (None: ever): whole days from their totals."""
        columns = ", ".join(ACCOUNT_COLUMNS)
        first = "" if start is None else day_of(start + DAY - 1)
        for row in self._db.rows(
            f"SELECT {columns}, SUM(amount) AS amount FROM ledger_days WHERE day >= ? GROUP BY {columns}",
            (first,),
        ):
            yield Account(*(row[name] for name in ACCOUNT_COLUMNS)), row["amount"]
        if start is not None and start % DAY:
            for line in self.closed_lines(start - start % DAY, start - start % DAY + DAY):
                yield line.account, overlap(line, start)

    def closed_lines(self, first: int, last: int) -> Iterator[Line]:
        """Closed lines that started within [first, last)."""
        for row in self._db.rows(
            "SELECT * FROM lines WHERE started >= ? AND started < ? ORDER BY id", (first, last)
        ):
            yield line_from(row)

    def open_lines(self, until: int) -> Iterator[Line]:
        """Open intervals as lines up to a moment."""
        for key in sorted(self.meter.machines):
            yield from self.meter.machines[key].lines(until)

    def run_spent(self, run: str, now: datetime) -> Money:
        """Everything the run has cost."""
        tally = self._runs.get(run)
        return tally.at(micros(now)) if tally else Money(0)

    def run_burn(self, run: str) -> Money:
        """What the run costs an hour right now."""
        tally = self._runs.get(run)
        return tally.burn if tally else Money(0)

    def runs_in(self, region: str) -> frozenset[str]:
        """Runs that cost something in a region right now."""
        return frozenset(account.run for account in self._rates if account.region == region and account.run)

    def burn(self) -> Money:
        """What everything costs an hour right now."""
        return Money(sum(machine.hourly for machine in self.meter.machines.values()))

    @property
    def marked(self) -> datetime | None:
        """When the last look was."""
        return None if self.mark is None else moment(self.mark)


def day_rows(closed: Iterable[Line]) -> list[tuple[Any, ...]]:
    """What closed lines add to the day totals."""
    sums: dict[tuple[str, Account], list[int]] = {}
    for line in closed:
        entry = sums.setdefault((day_of(line.started), line.account), [0, 0])
        entry[0] += line.amount
        entry[1] += line.amount if "estimated" in line.flags else 0
    return [(day, *account, *amounts) for (day, account), amounts in sums.items()]


def _line_values(line: Line) -> tuple[Any, ...]:
    account = line.account
    return (line.machine, line.subject, *account, *line[3:])


def line_from(row: Mapping[str, Any]) -> Line:
    """A line from its row."""
    return Line(
        row["machine"],
        row["subject"],
        Account(*(row[name] for name in ACCOUNT_COLUMNS)),
        row["started"],
        row["ended"],
        row["hourly"],
        row["share"],
        row["amount"],
        row["source"],
        row["flags"],
    )


_MACHINE_FIELDS = tuple(field.name for field in fields(Machine))


def machine_state(machine: Machine) -> dict[str, Any]:
    """A machine as plain values, for its row."""
    return {name: getattr(machine, name) for name in _MACHINE_FIELDS}


def machine_from(state: Mapping[str, Any]) -> Machine:
    """A machine from its stored state."""
    pods = {uid: Share(*pod)._replace(who=Who(*pod[3])) for uid, pod in state["pods"].items()}
    facts = dict(state) | {
        "pods": pods,
        "claim": Who(*state["claim"]),
        "allocatable": tuple(state["allocatable"]),
    }
    return Machine(**facts)
