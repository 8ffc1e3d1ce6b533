"""The caps that are in force, and the approvals on top of them: in the database, and in memory for speed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleet.db import Database
from fleet.errors import BadInput
from fleet.ports import Scope
from fleet.values import Money
from guard.caps import Cap, ScopeKind, Window, applicable, checked, window_at
from guard.moments import micros, moment


@dataclass(frozen=True, slots=True)
class Approval:
    """More for one cap, in one window, until `expires`. What is not used of it lapses."""

    request: str
    cap: str
    amount: Money
    approver: str
    approver_name: str
    own: bool
    """somebody approved it for their own work"""
    granted: datetime
    expires: datetime
    window_start: int | None


class CapBook:
    """Every cap by name. One writer; readers of other threads see a whole tuple at any time."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self.reload()

    def reload(self) -> None:
        """Read everything from the database again."""
        self._caps = {row["name"]: _cap(row) for row in self._db.rows("SELECT * FROM caps ORDER BY name")}
        rows = self._db.rows("SELECT * FROM approvals WHERE lapsed = 0 ORDER BY granted, request")
        self._approvals = tuple(_approval(row) for row in rows)

    def all(self) -> tuple[Cap, ...]:
        """Every cap, by name."""
        return tuple(self._caps.values())

    def get(self, name: str) -> Cap | None:
        """The cap of this name."""
        return self._caps.get(name)

    def for_scope(self, scope: Scope) -> tuple[Cap, ...]:
        """The caps that apply, broadest first."""
        return applicable(self.all(), scope)

    def put(self, cap: Cap, actor: str, now: datetime) -> None:
        """Set a cap, or change one. Raises BadInput where it makes no sense."""
        checked(cap)
        if cap == self._caps.get(cap.name):
            return
        values = (
            cap.name,
            cap.dimension,
            cap.scope_kind.value,
            cap.scope_value,
            cap.limit.micros,
            cap.window.value,
            cap.zone,
            int(cap.kill),
            json.dumps(cap.raised_by),
            actor,
            micros(now),
        )
        with self._db.transaction() as connection:
            connection.execute(f"INSERT OR REPLACE INTO caps VALUES ({', '.join('?' * len(values))})", values)
        self._caps = dict(sorted((self._caps | {cap.name: cap}).items()))

    def remove(self, name: str) -> Cap:
        """Remove a cap; BadInput where there is none of this name."""
        cap = self._caps.get(name)
        if cap is None:
            known = ", ".join(self._caps) or "none yet"
            raise BadInput(f"There is no cap {name!r}.", hint=f"Known: {known}.")
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM caps WHERE name = ?", (name,))
            connection.execute("UPDATE approvals SET lapsed = 1 WHERE cap = ?", (name,))
        self.reload()
        return cap

    def approvals(self, cap: Cap, now: datetime) -> tuple[Approval, ...]:
        """Approvals that count for the cap now: not expired, and granted in this window."""
        start = window_key(cap, now)
        return tuple(
            a for a in self._approvals if a.cap == cap.name and now < a.expires and a.window_start == start
        )

    def allowed(self, cap: Cap, now: datetime) -> Money:
        """The limit with what was approved on top of it."""
        if not self._approvals:
            return cap.limit
        return cap.limit + Money.total(a.amount for a in self.approvals(cap, now))

    def next_lapse(self, cap: Cap, now: datetime) -> tuple[datetime, Money] | None:
        """When the next approval expires, and what is allowed from then on; None where none counts."""
        counting = self.approvals(cap, now) if self._approvals else ()
        if not counting:
            return None
        first = min(approval.expires for approval in counting)
        lasting = Money.total(a.amount for a in counting if a.expires > first)
        return first, cap.limit + lasting

    def approve(self, approval: Approval) -> None:
        """Record an approval; the same request counts once."""
        with self._db.transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO approvals (request, cap, amount, approver, approver_name, own, granted, "
                "expires, window_start) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    approval.request,
                    approval.cap,
                    approval.amount.micros,
                    approval.approver,
                    approval.approver_name,
                    int(approval.own),
                    micros(approval.granted),
                    micros(approval.expires),
                    approval.window_start,
                ),
            )
        self.reload()

    def lapse(self, now: datetime) -> tuple[Approval, ...]:
        """Approvals that have ended since; each is returned once."""
        ended = tuple(a for a in self._approvals if a.expires <= now)
        if ended:
            with self._db.transaction() as connection:
                for approval in ended:
                    connection.execute(
                        "UPDATE approvals SET lapsed = 1 WHERE request = ?", (approval.request,)
                    )
            self.reload()
        return ended

    def own_approvals(self, cap: str, person: str, window_start: int | None) -> int:
        """How many approvals for their own work a person has given in this window, lapsed ones too."""
        row = self._db.row(
            "SELECT COUNT(*) AS n FROM approvals WHERE cap = ? AND approver = ? AND own = 1 "
            "AND window_start IS ?",
            (cap, person, window_start),
        )
        return int(row["n"]) if row else 0


def window_key(cap: Cap, now: datetime) -> int | None:
    """The start of the cap's window in microseconds; None for `total`."""
    start, _ = window_at(cap.window, cap.zone, now)
    return None if start is None else micros(start)


def _cap(row: Mapping[str, Any]) -> Cap:
    return Cap(
        name=row["name"],
        scope_kind=ScopeKind(row["scope_kind"]),
        scope_value=row["scope_value"],
        limit=Money(row["amount"]),
        window=Window(row["window"]),
        zone=row["zone"],
        kill=bool(row["kill"]),
        raised_by=tuple(json.loads(row["raised_by"])),
        dimension=row["dimension"],
    )


def _approval(row: Mapping[str, Any]) -> Approval:
    return Approval(
        request=row["request"],
        cap=row["cap"],
        amount=Money(row["amount"]),
        approver=row["approver"],
        approver_name=row["approver_name"],
        own=bool(row["own"]),
        granted=moment(row["granted"]),
        expires=moment(row["expires"]),
        window_start=row["window_start"],
    )
