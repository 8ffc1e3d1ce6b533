"""What the product has written down, read from its database while it is idle."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from bot.terminal import DATABASE
from fleet.db import Database
from fleet.errors import BadInput
from fleet.values import Money
from guard.answers import Fault
from guard.costs import cost_rows
from guard.ledger import Ledger
from guard.verify import verify


class Readings:
    """A reader of one data folder; it never writes."""

    def __init__(self, data: Path) -> None:
        self._database = Database(data / DATABASE)
        self._ledger: Ledger | None = None

    def refresh(self) -> None:
        """Forget what was read: the product has gone on."""
        self._ledger = None

    @property
    def ledger(self) -> Ledger:
        """The ledger as it stands."""
        if self._ledger is None:
            self._ledger = Ledger(self._database)
        return self._ledger

    def run_of(self, experiment: str) -> str:
        """The newest run of an experiment. Raises BadInput where it was never launched."""
        row = self._database.row(
            "SELECT id FROM runs WHERE experiment = ? AND state != 'proposed' AND reason != 'withdrawn' "
            "ORDER BY created DESC, rowid DESC",
            (experiment,),
        )
        if row is None:
            raise BadInput(f"The experiment {experiment!r} was not launched in this scenario.")
        return str(row["id"])

    def runs_of(self, experiment: str) -> list[str]:
        """All runs of an experiment."""
        return [
            row["id"]
            for row in self._database.rows("SELECT id FROM runs WHERE experiment = ?", (experiment,))
        ]

    def spent(self, by: str, key: str, until: datetime, since: datetime | None = None) -> Money:
        """Dollars of one experiment, team, run …, since the start."""
        rows = cost_rows(self._database, self.ledger, by=by, since=since, until=until)
        return Money.total(row.amount for row in rows if row.key == key)

    def total(self, until: datetime) -> Money:
        """Dollars of everything."""
        rows = cost_rows(self._database, self.ledger, by="day", since=None, until=until)
        return Money.total(row.amount for row in rows)

    def by(self, column: str, until: datetime) -> dict[str, Money]:
        """Dollars by experiment, team, region or day."""
        rows = cost_rows(self._database, self.ledger, by=column, since=None, until=until)
        return {row.key: row.amount for row in rows}

    def ended(self, experiment: str) -> str:
        """When the newest run of an experiment ended; empty while it has not."""
        row = self._database.row("SELECT ended FROM runs WHERE id = ?", (self.run_of(experiment),))
        return str(row["ended"] or "") if row else ""

    def decisions(self, kind: str, experiment: str = "", state: str = "") -> list[dict[str, Any]]:
        """Recorded decisions of a kind (about an experiment's runs), oldest first."""
        rows = self._database.rows(
            "SELECT id, kind, key, actor, subject, reasons, payload, decided_at, state, result FROM decisions "
            "WHERE kind = ? AND (? = '' OR state = ?) ORDER BY decided_at, rowid",
            (kind, state, state),
        )
        if not experiment:
            return rows
        runs = self.runs_of(experiment)
        return [row for row in rows if row["subject"] in runs or any(run in row["payload"] for run in runs)]

    def step_time(self, decision: str, step: str) -> str:
        """When a decision's step was taken; empty where it was not."""
        row = self._database.row(
            "SELECT at FROM decision_steps WHERE decision = ? AND step = ?", (decision, step)
        )
        return str(row["at"]) if row else ""

    def purchases(self) -> list[dict[str, Any]]:
        """Every purchase attempt's hold."""
        return self._database.rows(
            "SELECT id, run, state, payload, result, granted FROM holds WHERE kind = 'purchase' ORDER BY granted, id"
        )

    def faults(self) -> tuple[Fault, ...]:
        """What `ledger verify` finds."""
        return verify(self._database)

    def close(self) -> None:
        """Close the database."""
        self._database.close()
