"""The durable queue of what people typed and clicked: written before it is acknowledged, handled once.

Chat threads only `put`; the one deciding thread takes rows from here. A row that was being handled when the
process died is handled again, and what it does is keyed by the row, so it happens once.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleet.db import Database
from fleet.values import rfc3339


@dataclass(frozen=True, slots=True)
class Inbound:
    """One command or click. `request` is the idempotency key of whatever it leads to."""

    id: int
    kind: str
    """command or action"""
    request: str
    payload: Mapping[str, Any]
    again: bool = False
    """its handling was begun before and never ended: the process died in it"""


class Inbox:
    """Rows of `inbox`. `accepted` counts everything taken in by this process, repeats included."""

    def __init__(self, database: Database, now: Callable[[], datetime], nudge: Callable[[], None]) -> None:
        self._db = database
        self._now = now
        self._nudge = nudge
        self._lock = threading.Lock()
        self.accepted = 0

    def put(self, kind: str, key: str, payload: Mapping[str, Any]) -> bool:
        """Record it durably and wake the loop; False where it was here already.

        It counts as taken in where it cannot be recorded, too: whoever asked is told so in the ack.
        """
        try:
            with self._db.transaction() as connection:
                cursor = connection.execute(
                    "INSERT INTO inbox (key, kind, payload, received_at) VALUES (?, ?, ?, ?) "
                    "ON CONFLICT (key) DO NOTHING",
                    (key, kind, json.dumps(payload, sort_keys=True), rfc3339(self._now())),
                )
                return cursor.rowcount == 1
        finally:
            with self._lock:
                self.accepted += 1
            self._nudge()

    def pending(self) -> tuple[Inbound, ...]:
        """What is not handled yet, in the order it came."""
        rows = self._db.rows("SELECT * FROM inbox WHERE handled_at IS NULL ORDER BY id")
        return tuple(
            Inbound(
                row["id"],
                row["kind"],
                request_id(row["key"]),
                json.loads(row["payload"]),
                again=row["begun_at"] is not None,
            )
            for row in rows
        )

    def waiting(self) -> bool:
        """Whether anything is pending."""
        return self._db.row("SELECT 1 FROM inbox WHERE handled_at IS NULL LIMIT 1") is not None

    def begin(self, inbound: Inbound, now: datetime) -> None:
        """Its handling begins; where it does not end, the next process knows."""
        with self._db.transaction() as connection:
            connection.execute("UPDATE inbox SET begun_at = ? WHERE id = ?", (rfc3339(now), inbound.id))

    def handled(self, inbound: Inbound, now: datetime, outcome: str) -> None:
        """It is done with. The payload goes (it holds reply addresses); who asked for what stays in the journal."""
        with self._db.transaction() as connection:
            connection.execute(
                "UPDATE inbox SET handled_at = ?, outcome = ?, payload = '{}' WHERE id = ?",
                (rfc3339(now), outcome, inbound.id),
            )

    def forget_before(self, moment: datetime) -> None:
        """Drop handled rows older than the moment (a repeat of them cannot come any more)."""
        with self._db.transaction() as connection:
            connection.execute(
                "DELETE FROM inbox WHERE handled_at IS NOT NULL AND handled_at < ?", (rfc3339(moment),)
            )


def request_id(key: str) -> str:
    """A short id derived from what made the request unique: `r-4f2a9c81d3`."""
    return "r-" + hashlib.sha256(key.encode()).hexdigest()[:10]
