"""What fired, which countdowns run, which requests wait for an answer: in the database and in memory."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleet.db import Database
from fleet.values import Money
from guard.moments import micros, moment

OPEN, APPROVED, DENIED, OVERTAKEN = "open", "approved", "denied", "overtaken"


@dataclass(frozen=True, slots=True)
class Countdown:
    """A cap whose work is paused at `deadline` unless there is more room by then."""

    cap: str
    request: str
    armed: datetime
    deadline: datetime
    belt: bool


@dataclass(frozen=True, slots=True)
class Request:
    """Something that people can approve or deny. `cause`: alert, arm or paused."""

    id: str
    cap: str
    window_start: int | None
    cause: str
    run: str
    owner: str
    suggested: Money
    created: datetime
    state: str = OPEN
    answered_by: str = ""
    answered: datetime | None = None


def request_id(cap: str, window_start: int | None, cause: str, number: int) -> str:
    """The id of a request: the same again for the same question."""
    text = f"quartermaster:request:{cap}:{window_start}:{cause}:{number}"
    return "r-" + uuid.uuid5(uuid.NAMESPACE_URL, text).hex[:10]


class History:
    """Once per cap, window and threshold; one countdown a cap; a request is answered once."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self.reload()

    def reload(self) -> None:
        """Read everything from the database again."""
        self._fired: dict[tuple[str, int], set[str]] = {}
        for row in self._db.rows("SELECT cap, window_start, threshold FROM firings"):
            self._fired.setdefault((row["cap"], row["window_start"]), set()).add(row["threshold"])
        self._countdowns = {row["cap"]: _countdown(row) for row in self._db.rows("SELECT * FROM countdowns")}

    def fired(self, cap: str, window_start: int | None) -> frozenset[str]:
        """What has fired for the cap in this window."""
        return frozenset(self._fired.get((cap, window_start or 0), ()))

    def fire(self, cap: str, window_start: int | None, thresholds: Sequence[str], now: datetime) -> None:
        """Record that these have fired."""
        with self._db.transaction() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO firings (cap, window_start, threshold, at) VALUES (?, ?, ?, ?)",
                [(cap, window_start or 0, threshold, micros(now)) for threshold in thresholds],
            )
        self._fired.setdefault((cap, window_start or 0), set()).update(thresholds)

    def countdown(self, cap: str) -> Countdown | None:
        """The countdown that runs for a cap."""
        return self._countdowns.get(cap)

    def belted(self) -> Sequence[str]:
        """Caps whose blast belt waits for an answer: nothing new starts under them."""
        return [c.cap for c in self._countdowns.values() if c.belt]

    def arm(self, countdown: Countdown) -> None:
        """Start a countdown, or move its deadline."""
        if self._countdowns.get(countdown.cap) == countdown:
            return
        with self._db.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO countdowns VALUES (?, ?, ?, ?, ?)",
                (
                    countdown.cap,
                    countdown.request,
                    micros(countdown.armed),
                    micros(countdown.deadline),
                    int(countdown.belt),
                ),
            )
        self._countdowns[countdown.cap] = countdown

    def disarm(self, cap: str) -> Countdown | None:
        """End a cap's countdown; returns the one that ran."""
        known = self._countdowns.get(cap)
        if known is not None:
            with self._db.transaction() as connection:
                connection.execute("DELETE FROM countdowns WHERE cap = ?", (cap,))
            del self._countdowns[cap]
        return known

    def ask(self, request: Request) -> Request:
        """Record a question; where it was asked already, that earlier one is returned."""
        with self._db.transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO requests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    request.id,
                    request.cap,
                    request.window_start,
                    request.cause,
                    request.run,
                    request.owner,
                    request.suggested.micros,
                    micros(request.created),
                    OPEN,
                    "",
                    None,
                ),
            )
        return self.request(request.id) or request

    def request(self, request: str) -> Request | None:
        """The request with this id."""
        row = self._db.row("SELECT * FROM requests WHERE id = ?", (request,))
        return _request(row) if row else None

    def open_requests(self) -> tuple[Request, ...]:
        """Requests that wait for an answer, oldest first."""
        rows = self._db.rows("SELECT * FROM requests WHERE state = 'open' ORDER BY created, id")
        return tuple(_request(row) for row in rows)

    def answer(self, request: str, state: str, person: str, now: datetime) -> bool:
        """Record an answer; False where there was one already."""
        with self._db.transaction() as connection:
            changed = connection.execute(
                "UPDATE requests SET state = ?, answered_by = ?, answered = ? WHERE id = ? AND state = 'open'",
                (state, person, micros(now), request),
            ).rowcount
        return changed == 1

    def overtake(self, cap: str, now: datetime, *, causes: Sequence[str]) -> None:
        """Open requests of these causes no longer make sense (approved through another card, paused)."""
        marks = ", ".join("?" * len(causes))
        with self._db.transaction() as connection:
            connection.execute(
                f"UPDATE requests SET state = 'overtaken', answered = ? WHERE cap = ? AND state = 'open' "
                f"AND cause IN ({marks})",
                (micros(now), cap, *causes),
            )


def _countdown(row: Mapping[str, Any]) -> Countdown:
    return Countdown(
        row["cap"], row["request"], moment(row["armed"]), moment(row["deadline"]), bool(row["belt"])
    )


def _request(row: Mapping[str, Any]) -> Request:
    return Request(
        id=row["id"],
        cap=row["cap"],
        window_start=row["window_start"],
        cause=row["cause"],
        run=row["run"],
        owner=row["owner"],
        suggested=Money(row["suggested"]),
        created=moment(row["created"]),
        state=row["state"],
        answered_by=row["answered_by"],
        answered=None if row["answered"] is None else moment(row["answered"]),
    )
