"""Which message a later event edits, and what was told already: durable, so that a restart goes on with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleet.db import Database
from fleet.values import rfc3339


@dataclass(frozen=True, slots=True)
class CardRef:
    """A message that stands for something."""

    key: str
    sentence: str
    data: Mapping[str, Any]


class Cards:
    """The tables `cards` and `told`."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def remember(self, subject: str, key: str, sentence: str, data: Mapping[str, Any] | None = None) -> None:
        """From here on this message stands for the subject."""
        with self._db.transaction() as connection:
            connection.execute(
                "INSERT INTO cards (subject, key, sentence, data) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (subject) DO UPDATE SET key = excluded.key, sentence = excluded.sentence, "
                "data = excluded.data",
                (subject, key, sentence, json.dumps(data or {}, sort_keys=True)),
            )

    def find(self, subject: str) -> CardRef | None:
        """The message that stands for the subject."""
        row = self._db.row("SELECT * FROM cards WHERE subject = ?", (subject,))
        return CardRef(row["key"], row["sentence"], json.loads(row["data"])) if row else None

    def about_cap(self, cap: str) -> tuple[tuple[str, CardRef], ...]:
        """Every (subject, message) that asks for more of a cap."""
        rows = self._db.rows("SELECT * FROM cards WHERE data ->> 'cap' = ? ORDER BY subject", (cap,))
        return tuple(
            (row["subject"], CardRef(row["key"], row["sentence"], json.loads(row["data"]))) for row in rows
        )

    def forget(self, subject: str) -> None:
        """Nothing stands for it any more."""
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM cards WHERE subject = ?", (subject,))

    def first_time(self, key: str, now: datetime) -> bool:
        """True once a key; join a transaction to make what follows happen with it."""
        with self._db.transaction() as connection:
            cursor = connection.execute(
                "INSERT INTO told (key, told_at) VALUES (?, ?) ON CONFLICT (key) DO NOTHING",
                (key, rfc3339(now)),
            )
            return cursor.rowcount == 1
