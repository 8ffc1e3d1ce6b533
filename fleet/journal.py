"""Persist → act → verify → announce: written once, used by the launcher, the scaler, the guard and people.

A decision is recorded before anything is done about it. `advance` then takes it through its steps, each
of which is repeatable, and after a crash takes up what was left where it stood. What a step did is
stored with the step, so a later one (or an audit) can read it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any, Protocol

import structlog
from sqlite_utils import Database as SqliteUtils
from sqlite_utils.migrations import Migrations

from fleet.db import Database
from fleet.errors import OutsideError, QuartermasterError
from fleet.model import Decision
from fleet.values import rfc3339, utc

log = structlog.get_logger(__name__)
MIGRATIONS = Migrations("journal")


@MIGRATIONS()
def create_decisions(db: SqliteUtils) -> None:
    """Decisions, and one row for every step that was taken."""
    db.execute(
        "CREATE TABLE decisions (id TEXT PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL UNIQUE, "
        "actor TEXT NOT NULL, subject TEXT NOT NULL, reasons TEXT NOT NULL, payload TEXT NOT NULL, "
        "decided_at TEXT NOT NULL, state TEXT NOT NULL, result TEXT NOT NULL DEFAULT '{}', "
        "attempts INTEGER NOT NULL DEFAULT 0) STRICT"
    )
    db.execute("CREATE INDEX decisions_open ON decisions (state, kind)")
    db.execute("CREATE INDEX decisions_subject ON decisions (subject, decided_at)")
    db.execute(
        "CREATE TABLE decision_steps (id INTEGER PRIMARY KEY, decision TEXT NOT NULL REFERENCES decisions(id), "
        "step TEXT NOT NULL, at TEXT NOT NULL, detail TEXT NOT NULL DEFAULT '{}') STRICT"
    )


class Verdict(Enum):
    """What verifying found."""

    YES = "yes"
    NOT_YET = "not yet"
    FAILED = "failed"


class Handler(Protocol):
    """Carries out one kind of decision. Every method may be called again after a crash."""

    def act(self, decision: Decision, now: datetime) -> Mapping[str, Any]:
        """Do it; what is returned is stored in `decision.result`. Raise a typed error to be tried again."""
        ...

    def verify(self, decision: Decision, now: datetime) -> Verdict:
        """Is it so, in the outside world?"""
        ...

    def announce(self, decision: Decision, now: datetime) -> None:
        """Tell people (queue messages under keys derived from the decision's id)."""
        ...


@dataclass(frozen=True, slots=True)
class NewDecision:
    """A decision to be recorded. `key` makes it happen once."""

    kind: str
    key: str
    actor: str
    subject: str
    reasons: tuple[str, ...]
    payload: Mapping[str, Any]


OPEN_STATES = ("decided", "acted", "verified")
MAX_ATTEMPTS = 20


class Journal:
    """Decisions and their steps in the database."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._handlers: dict[str, Handler] = {}
        self.boundary: Callable[[Callable[[], None]], object] = lambda work: work()
        """run around each open decision: the process puts its fault boundary here, so that one decision that
        cannot be carried out by a fault of ours does not keep the others (a pause!) from being"""

    def register(self, kind: str, handler: Handler) -> None:
        """Who carries out decisions of this kind; recovery needs it too."""
        self._handlers[kind] = handler

    def decide(self, new: NewDecision, now: datetime) -> Decision:
        """Record a decision; where its key is known already, that earlier decision is returned."""
        with self._db.transaction() as connection:
            known = self.by_key(new.key)
            if known is not None:
                return known
            decision_id = "d-" + uuid.uuid5(uuid.NAMESPACE_URL, f"quartermaster:{new.key}").hex[:12]
            connection.execute(
                "INSERT INTO decisions (id, kind, key, actor, subject, reasons, payload, decided_at, state) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'decided')",
                (
                    decision_id,
                    new.kind,
                    new.key,
                    new.actor,
                    new.subject,
                    json.dumps(new.reasons),
                    json.dumps(new.payload, sort_keys=True),
                    rfc3339(now),
                ),
            )
            self._note(decision_id, "decided", now, {})
        decision = self.by_key(new.key)
        assert decision is not None
        return decision

    def advance(self, now: datetime, kinds: Sequence[str] = ()) -> tuple[Decision, ...]:
        """Take every open decision (of these kinds) as far as it goes; returns those that moved."""
        moved: list[Decision] = []

        def take(decision: Decision) -> None:
            after = self.carry_out(decision, now)
            if after.state != decision.state:
                moved.append(after)

        for decision in self.unfinished(kinds):
            self.boundary(partial(take, decision))
        return tuple(moved)

    def carry_out(self, decision: Decision, now: datetime) -> Decision:
        """Take one decision through act, verify and announce, as far as it goes now."""
        handler = self._handlers.get(decision.kind)
        if handler is None:
            return decision
        try:
            return self._steps(decision, handler, now)
        except OutsideError as error:
            return self._failed_attempt(decision, error, now)
        except QuartermasterError as error:
            return self._fail(decision, error, now)

    def _steps(self, decision: Decision, handler: Handler, now: datetime) -> Decision:
        if decision.state == "decided":
            result = dict(handler.act(decision, now))
            decision = self._move(replace(decision, result=result), "acted", now)
        if decision.state == "acted":
            verdict = handler.verify(decision, now)
            if verdict is Verdict.NOT_YET:
                return decision
            if verdict is Verdict.FAILED:
                return self._move(decision, "failed", now)
            decision = self._move(decision, "verified", now)
        if decision.state == "verified":
            handler.announce(decision, now)
            decision = self._move(decision, "announced", now)
        return decision

    def _failed_attempt(self, decision: Decision, error: OutsideError, now: datetime) -> Decision:
        current = self.get(decision.id) or decision
        log.warning(
            "step failed", decision=current.id, kind=current.kind, state=current.state, error=str(error)
        )
        with self._db.transaction() as connection:
            connection.execute("UPDATE decisions SET attempts = attempts + 1 WHERE id = ?", (current.id,))
            self._note(current.id, "error", now, {"error": str(error), "code": error.code})
        if current.attempts + 1 >= MAX_ATTEMPTS:
            return self._fail(current, error, now)
        return replace(current, attempts=current.attempts + 1)

    def _fail(self, decision: Decision, error: QuartermasterError, now: datetime) -> Decision:
        current = self.get(decision.id) or decision
        return self._move(replace(current, result={**current.result, "error": str(error)}), "failed", now)

    def _move(self, decision: Decision, state: str, now: datetime) -> Decision:
        with self._db.transaction() as connection:
            connection.execute(
                "UPDATE decisions SET state = ?, result = ? WHERE id = ?",
                (state, json.dumps(decision.result, sort_keys=True), decision.id),
            )
            self._note(decision.id, state, now, decision.result)
        return replace(decision, state=state)

    def _note(self, decision_id: str, step: str, now: datetime, detail: Mapping[str, Any]) -> None:
        with self._db.transaction() as connection:
            connection.execute(
                "INSERT INTO decision_steps (decision, step, at, detail) VALUES (?, ?, ?, ?)",
                (decision_id, step, rfc3339(now), json.dumps(detail, sort_keys=True)),
            )

    def get(self, decision_id: str) -> Decision | None:
        """The decision with this id."""
        row = self._db.row("SELECT * FROM decisions WHERE id = ?", (decision_id,))
        return _decision(row) if row else None

    def by_key(self, key: str) -> Decision | None:
        """The decision with this idempotency key."""
        row = self._db.row("SELECT * FROM decisions WHERE key = ?", (key,))
        return _decision(row) if row else None

    def unfinished(self, kinds: Sequence[str] = ()) -> tuple[Decision, ...]:
        """Open decisions, oldest first."""
        marks = ", ".join("?" * len(OPEN_STATES))
        rows = self._db.rows(
            f"SELECT * FROM decisions WHERE state IN ({marks}) ORDER BY decided_at, rowid", OPEN_STATES
        )
        return tuple(_decision(row) for row in rows if not kinds or row["kind"] in kinds)

    def history(self, *, subject: str = "", kind: str = "", limit: int = 100) -> tuple[Decision, ...]:
        """Latest decisions first, of a subject or a kind."""
        rows = self._db.rows(
            "SELECT * FROM decisions WHERE (:subject = '' OR subject = :subject) AND (:kind = '' OR kind = :kind) "
            "ORDER BY decided_at DESC, rowid DESC LIMIT :limit",
            {"subject": subject, "kind": kind, "limit": limit},
        )
        return tuple(_decision(row) for row in rows)

    def steps(self, decision_id: str) -> tuple[Mapping[str, Any], ...]:
        """Every step taken for a decision, in order, with its time."""
        rows = self._db.rows(
            "SELECT step, at, detail FROM decision_steps WHERE decision = ? ORDER BY id", (decision_id,)
        )
        return tuple({**row, "detail": json.loads(row["detail"])} for row in rows)


def _decision(row: Mapping[str, Any]) -> Decision:
    return Decision(
        id=row["id"],
        kind=row["kind"],
        key=row["key"],
        actor=row["actor"],
        subject=row["subject"],
        reasons=tuple(json.loads(row["reasons"])),
        payload=json.loads(row["payload"]),
        decided_at=utc(row["decided_at"]),
        state=row["state"],
        result=json.loads(row["result"]),
        attempts=row["attempts"],
    )
