"""What is known about holds beside granting them: questions of the watch and of people. Changes nothing."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from datetime import datetime
from typing import Any

from fleet.db import Database
from fleet.values import Money
from guard.moments import micros


class HoldRecords:
    """Reads the table `holds`, which `guard.holds.BudgetBook` writes."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def held_for(self, run: str) -> Money:
        """Everything that is held for a run now."""
        row = self._db.row("SELECT COALESCE(SUM(remaining), 0) AS held FROM holds WHERE run = ?", (run,))
        return Money(row["held"]) if row else Money(0)

    def launch_payload(self, run: str) -> Mapping[str, Any]:
        """The payload of the run's launch hold: what was declared at launch. Empty where there is none."""
        row = self._db.row(
            "SELECT payload FROM holds WHERE run = ? AND kind = 'launch' ORDER BY granted LIMIT 1", (run,)
        )
        found: Mapping[str, Any] = json.loads(row["payload"]) if row else {}
        return found

    def settled_purchases(self) -> int:
        """How many purchases were ever settled: a change means that there are new machines to look for."""
        row = self._db.row("SELECT COUNT(*) AS n FROM holds WHERE kind = 'purchase' AND settled IS NOT NULL")
        return int(row["n"]) if row else 0

    def coming(self, since: datetime, metered: Container[str]) -> dict[str, Money]:
        """By run: what purchases settled since then hold whose machines are not metered yet."""
        rows = self._db.rows(
            "SELECT id, run, amount FROM holds WHERE kind = 'purchase' AND settled > ? AND state = 'settled'",
            (micros(since),),
        )
        found: dict[str, Money] = {}
        for row in rows:
            if row["id"] not in metered:
                found[row["run"]] = found.get(row["run"], Money(0)) + Money(row["amount"])
        return found

    def settled_without_reserve(self) -> tuple[str, ...]:
        """Settled purchases that still hold something of their own (they drew on no run's hold)."""
        rows = self._db.rows(
            "SELECT id FROM holds WHERE kind = 'purchase' AND state = 'settled' AND remaining > 0 ORDER BY id"
        )
        return tuple(row["id"] for row in rows)

    def purchase_open(self, run: str) -> bool:
        """Whether a purchase for the run is on its way."""
        row = self._db.row(
            "SELECT 1 AS one FROM holds WHERE run = ? AND kind = 'purchase' AND state = 'held' LIMIT 1",
            (run,),
        )
        return row is not None
