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
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from typing import Any, Protocol

import structlog
from sqlite_utils import Database as SqliteUtils
from sqlite_utils.migrations import Migrations

from fleet.db import Database
from fleet.errors import OutsideError, QuartermasterError
from fleet.model import Decision
from fleet.values import format_duration, is_due, rfc3339, utc

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


@MIGRATIONS()
def add_patience(db: SqliteUtils) -> None:
    """Since when a decision's steps fail, and when the next try is due."""
    db.execute("ALTER TABLE decisions ADD COLUMN failing_since TEXT")
    db.execute("ALTER TABLE decisions ADD COLUMN next_try TEXT")


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
FIRST_WAIT = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a kind of decision is tried again while the outside fails it.

    Waits double from two seconds up to `slowest`. `gives_up` counts from the first failure in a row: an API that is
    upgraded or a cloud that is throttled for an hour is no reason to drop what somebody decided, yet nobody wants
    a launch of this morning to start tonight. What has been done is not given up: it is verified until the outside
    answers. None: never given up, as for what ends the spending.
    """

    slowest: timedelta = timedelta(minutes=1)
    gives_up: timedelta | None = timedelta(hours=2)

    def wait(self, attempts: int) -> timedelta:
        """How long to wait after this many failures in a row."""
        doublings: int = 2 ** min(attempts - 1, 10)
        return min(FIRST_WAIT * doublings, self.slowest)

    def over(self, failing_since: datetime | None, now: datetime) -> bool:
        """Whether a failure now would be the last."""
        return (
            self.gives_up is not None and failing_since is not None and now - failing_since >= self.gives_up
        )


GivenUp = Callable[[Decision, str, datetime], object]
"""undoes what can be undone and tells people; gets the decision, the last error and now"""
STOPS = Patience(slowest=timedelta(seconds=15), gives_up=None)
"""for whatever ends spending"""


class Journal:
    """Decisions and their steps in the database."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._handlers: dict[str, Handler] = {}
        self._patience: dict[str, Patience] = {}
        self._given_up: dict[str, GivenUp] = {}
        self.boundary: Callable[[Callable[[], None]], object] = lambda work: work()
        """run around each open decision: the process puts its fault boundary here, so that one decision that
        cannot be carried out by a fault of ours does not keep the others (a pause!) from being"""

    def register(
        self,
        kind: str,
        handler: Handler,
        patience: Patience | None = None,
        given_up: GivenUp | None = None,
    ) -> None:
        """Who carries out decisions of this kind, how long they are tried, and what follows where that was in vain.

        Recovery needs it too. `given_up` is called before the decision is failed, so again after a crash.
        """
        self._handlers[kind] = handler
        self._patience[kind] = patience or Patience()
        if given_up is not None:
            self._given_up[kind] = given_up

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
        """Take every open decision (of these kinds) that is due as far as it goes; returns those that moved."""
        moved: list[Decision] = []

        def take(decision: Decision) -> None:
            after = self.carry_out(decision, now)
            if after.state != decision.state:
                moved.append(after)

        for decision in self.unfinished(kinds):
            if self._due(decision, now):
                self.boundary(partial(take, decision))
        return tuple(moved)

    def _due(self, decision: Decision, now: datetime) -> bool:
        """Not while it waits after a failure. Kinds that nobody has registered never failed here."""
        patience = self._patience.get(decision.kind)
        return patience is None or is_due(decision.next_try, now, patience.slowest)

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
            decision = self._answered(self._move(replace(decision, result=result), "acted", now))
        if decision.state == "acted":
            verdict = handler.verify(decision, now)
            decision = self._answered(decision)
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
        patience = self._patience[current.kind]
        since = current.failing_since or now
        tried = replace(
            current,
            attempts=current.attempts + 1,
            failing_since=min(since, now),
            next_try=now + patience.wait(current.attempts + 1),
        )
        with self._db.transaction():
            self._keep_patience(tried)
            self._note(current.id, "error", now, {"error": str(error), "code": error.code})
        if current.state == "decided" and patience.over(current.failing_since, now):
            if current.kind in self._given_up:
                self._given_up[current.kind](
                    tried, f"Given up after {format_duration(now - since)}: {error}", now
                )
            return self._fail(tried, error, now)
        return tried

    def _answered(self, decision: Decision) -> Decision:
        """The outside answers (again): what failed before is forgotten."""
        if decision.attempts:
            decision = replace(decision, attempts=0, failing_since=None, next_try=None)
            self._keep_patience(decision)
        return decision

    def _keep_patience(self, decision: Decision) -> None:
        since, due = decision.failing_since, decision.next_try
        with self._db.transaction() as connection:
            connection.execute(
                "UPDATE decisions SET attempts = ?, failing_since = ?, next_try = ? WHERE id = ?",
                (decision.attempts, since and rfc3339(since), due and rfc3339(due), decision.id),
            )

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
        failing_since=utc(row["failing_since"]) if row["failing_since"] else None,
        next_try=utc(row["next_try"]) if row["next_try"] else None,
    )
