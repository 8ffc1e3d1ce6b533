"""Money set aside before it is spent: `BudgetBook` implements `fleet.ports.Budget`.

committed = spent + held. One transaction with synchronous=FULL, the writer's lock, BEGIN IMMEDIATE and
one conditional statement, so that any number of callers on one cap never exceed it and lose no grant.

What a hold turns into:
* a **launch** (scale, resume) hold is its run's reserve. With a declared end it is the worst case, and
  metered spend takes its place dollar by dollar. Without one it is rolling: burn × (tick + countdown +
  drain), kept up for as long as the run lives.
* a **purchase** draws on the holds it names and holds only the rest. Settled, both go into the run's
  reserve, as the part of what runs; released, what was drawn goes back where it came from.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from fleet.db import Database
from fleet.ports import HoldAnswer, HoldKind, HoldRequest, Misfit, Scope
from fleet.values import Money
from guard.capbook import CapBook
from guard.caps import Cap, Standing, applies, misfits
from guard.gate import Gate, sentence
from guard.moments import micros
from guard.reserves import RunBurn, what_remains

RESERVES = (HoldKind.LAUNCH.value, HoldKind.SCALE.value, HoldKind.RESUME.value)

_SCOPE_MATCHES = """CASE c.value ->> 'kind'
    WHEN 'fleet' THEN 1
    WHEN 'cluster' THEN h.cluster = c.value ->> 'value'
    WHEN 'region' THEN h.region = c.value ->> 'value'
    WHEN 'team' THEN h.team = c.value ->> 'value'
    WHEN 'person' THEN h.person = c.value ->> 'value'
    WHEN 'experiment' THEN h.experiment = c.value ->> 'value'
    WHEN 'run' THEN h.run = c.value ->> 'value'
    ELSE 1 END"""
_GRANT = f"""INSERT INTO holds
    (id, kind, cluster, region, team, person, experiment, run, amount, drawn, remaining, base, rolling,
     burn, reason, payload, draws, state, result, granted, note)
SELECT :id, :kind, :cluster, :region, :team, :person, :experiment, :run, :amount, 0, :amount, :base,
       :rolling, :burn, :reason, :payload, :draws, 'held', '{{}}', :now, ''
WHERE NOT EXISTS (
    SELECT 1 FROM json_each(:caps) AS c
    WHERE (c.value ->> 'more') > 0 AND (c.value ->> 'spent') + :amount + (
        SELECT COALESCE(SUM(h.remaining), 0) FROM holds AS h WHERE h.remaining > 0 AND {_SCOPE_MATCHES}
    ) > (c.value ->> 'allowed'))"""


class Spending(Protocol):
    """What has been metered so far (`guard.ledger.Ledger`)."""

    def cap_spent(self, cap: Cap, now: datetime) -> Money:
        """Spent under the cap in its window that holds `now`."""
        ...

    def run_spent(self, run: str, now: datetime) -> Money:
        """Everything the run has cost."""
        ...


@dataclass(frozen=True, slots=True)
class _Draw:
    """What a request takes out of another hold."""

    source: str
    amount: int
    scope: Scope


def _more(cap: Cap, amount: int, draws: Sequence[_Draw]) -> int:
    """By how much the cap's commitment grows: what is drawn from holds under the same cap is there already."""
    return amount - sum(draw.amount for draw in draws if applies(cap, draw.scope))


class BudgetBook:
    """The one door to money. See the module's docstring."""

    def __init__(
        self,
        database: Database,
        caps: CapBook,
        spending: Spending,
        gate: Gate,
        *,
        span: timedelta,
        raisers: Callable[[Cap, Scope, Money], tuple[str, ...]] | None = None,
    ) -> None:
        self._db = database
        self._caps = caps
        self._spending = spending
        self._gate = gate
        self._span = span
        self._raisers = raisers

    def check(self, request: HoldRequest, now: datetime, *, within: int = 100) -> HoldAnswer:
        """What `hold` would answer; changes nothing."""
        if self._known(request.id):
            return HoldAnswer(request.id, granted=True)
        refused = self._refusal(request, self._draws(request), now, within=within)
        return refused or HoldAnswer(request.id, granted=True)

    def hold(self, request: HoldRequest, now: datetime, *, within: int = 100) -> HoldAnswer:
        """Set the money aside. A granted id is granted once; a refused one may ask again.

        `within`: percent of every cap that the commitment must stay inside (hysteresis of a resume).
        """
        self._gate.prepare(now)
        with self._db.transaction() as connection:
            if self._known(request.id):
                return HoldAnswer(request.id, granted=True)
            draws = self._draws(request)
            refused = self._refusal(request, draws, now, within=within)
            if refused is not None:
                return refused
            for draw in draws:
                connection.execute(
                    "UPDATE holds SET drawn = drawn + ?, remaining = remaining - ? WHERE id = ?",
                    (draw.amount, draw.amount, draw.source),
                )
            parameters = self._row(request, draws, now)
            parameters["caps"] = self._limits(request, draws, now, within)
            if connection.execute(_GRANT, parameters).rowcount != 1:
                raise RuntimeError("holds changed inside their own transaction")  # pragma: no cover
            return HoldAnswer(request.id, granted=True)

    def wanting(self, request: HoldRequest, cap: Cap, now: datetime, *, within: int = 100) -> Money:
        """How much more the cap would have to allow for `hold` to grant, in whole dollars; zero where it fits."""
        standing = self.standings((cap,), now)[0]
        more = _more(cap, request.amount.micros, self._draws(request))
        inside = -(-(standing.committed.micros + more) * 100 // within) if more > 0 else 0
        short = max(inside, standing.spent.micros + 1) - standing.allowed.micros
        return Money(max(0, -(-short // 1_000_000)) * 1_000_000)

    def settle(
        self,
        hold_id: str,
        now: datetime,
        *,
        burn: Money | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> None:
        """It was bought or started: metered spend takes the hold's place. Again: nothing happens."""
        with self._db.transaction() as connection:
            row = self._row_of(hold_id)
            if row is None or row["state"] != "held":
                return
            remaining = row["remaining"]
            if row["kind"] == HoldKind.PURCHASE.value:
                remaining = self._into_reserve(connection, row, burn)
            connection.execute(
                "UPDATE holds SET state = 'settled', settled = ?, burn = ?, result = ?, remaining = ? WHERE id = ?",
                (
                    micros(now),
                    row["burn"] if burn is None else burn.micros,
                    json.dumps(dict(result or {}), sort_keys=True),
                    remaining,
                    hold_id,
                ),
            )

    def release(self, hold_id: str, now: datetime, reason: str) -> None:
        """It was not bought, or has ended: what is left goes back. Again: nothing happens."""
        with self._db.transaction() as connection:
            row = self._row_of(hold_id)
            if row is None or row["state"] == "released":
                return
            if row["state"] == "held":
                for source, amount in json.loads(row["draws"]):
                    self._give_back(connection, source, amount, 0, bought=False)
            connection.execute(
                "UPDATE holds SET state = 'released', released = ?, remaining = 0, running = 0, note = ? WHERE id = ?",
                (micros(now), reason, hold_id),
            )

    def release_run(self, run: str, now: datetime, reason: str) -> None:
        """The run ended or is paused: its reserve is given back (purchases on their way keep theirs)."""
        marks = ", ".join("?" * len(RESERVES))
        for row in self._db.rows(
            f"SELECT id FROM holds WHERE run = ? AND state != 'released' AND kind IN ({marks})",
            (run, *RESERVES),
        ):
            self.release(row["id"], now, reason)

    def unsettled(self, kind: HoldKind) -> tuple[HoldRequest, ...]:
        """Holds whose outcome is not recorded yet, oldest first: recovery repeats their payload."""
        rows = self._db.rows(
            "SELECT * FROM holds WHERE state = 'held' AND kind = ? ORDER BY granted, rowid", (kind.value,)
        )
        return tuple(_request(row) for row in rows)

    def blocked(self, scope: Scope, now: datetime) -> str:
        """Why nothing may be bought for this scope now; "" where nothing stands against it."""
        return self._gate.refusal(scope, now) or self._used_up(scope, now)

    def follow(self, runs: Mapping[str, RunBurn]) -> None:
        """Let metered spend take the place of the reserves; called by the tick, in its transaction."""
        marks = ", ".join("?" * len(RESERVES))
        reserves: dict[str, list[dict[str, Any]]] = {}
        for row in self._db.rows(
            "SELECT id, run, amount, drawn, remaining, running, base, rolling FROM holds "
            f"WHERE state != 'released' AND run != '' AND kind IN ({marks}) ORDER BY granted, rowid",
            RESERVES,
        ):
            reserves.setdefault(row["run"], []).append(row)
        changes = [
            (*left, row["id"])
            for run, rows in reserves.items()
            if run in runs
            for row, left in zip(rows, what_remains(rows, runs[run], self._span), strict=True)
            if left != (row["remaining"], row["running"])
        ]
        if changes:
            with self._db.transaction() as connection:
                connection.executemany("UPDATE holds SET remaining = ?, running = ? WHERE id = ?", changes)

    def standings(self, caps: Iterable[Cap], now: datetime) -> tuple[Standing, ...]:
        """Each of these caps with what is allowed, spent and held."""
        held = self._db.rows(
            "SELECT cluster, region, team, person, experiment, run, SUM(remaining) AS held FROM holds "
            "WHERE remaining > 0 GROUP BY cluster, region, team, person, experiment, run"
        )
        scopes = [(_scope(row), row["held"]) for row in held]
        return tuple(
            Standing(
                cap,
                self._caps.allowed(cap, now),
                self._spending.cap_spent(cap, now),
                Money(sum(amount for scope, amount in scopes if applies(cap, scope))),
            )
            for cap in caps
        )

    def _into_reserve(
        self, connection: sqlite3.Connection, row: Mapping[str, Any], burn: Money | None
    ) -> int:
        """Fold a settled purchase into its run's reserve; returns what the row itself still holds."""
        draws = json.loads(row["draws"])
        drawn = sum(amount for _, amount in draws)
        extra = row["amount"] - drawn
        if burn is not None and 0 <= burn.micros < row["burn"]:
            extra = extra * burn.micros // row["burn"]
        for number, (source, amount) in enumerate(draws):
            self._give_back(connection, source, amount, 0 if number else extra, bought=True)
        return 0 if draws else extra

    def _give_back(
        self, connection: sqlite3.Connection, source: str, amount: int, extra: int, *, bought: bool
    ) -> None:
        """What was drawn goes back: for machines that run now it stays reserved, else it may be drawn again."""
        connection.execute(
            "UPDATE holds SET drawn = drawn - ?, amount = amount + ?, remaining = remaining + ?, "
            "running = running + ? WHERE id = ? AND state != 'released'",
            (amount, extra, amount + extra, amount + extra if bought else 0, source),
        )

    def _known(self, hold_id: str) -> bool:
        return self._db.row("SELECT 1 AS one FROM holds WHERE id = ?", (hold_id,)) is not None

    def _row_of(self, hold_id: str) -> dict[str, Any] | None:
        return self._db.row("SELECT * FROM holds WHERE id = ?", (hold_id,))

    def _draws(self, request: HoldRequest) -> list[_Draw]:
        """What the named holds give, then the other reserves of their runs (a scale, a resume)."""
        named = [row for source in request.draws_on if (row := self._row_of(source)) is not None]
        runs = {row["run"] for row in named if row["run"]}
        marks = ", ".join("?" * len(RESERVES))
        for run in sorted(runs):
            named += self._db.rows(
                f"SELECT * FROM holds WHERE run = ? AND remaining > 0 AND kind IN ({marks}) ORDER BY granted, rowid",
                (run, *RESERVES),
            )
        wanted = request.amount.micros
        draws: dict[str, _Draw] = {}
        for row in named:
            amount = min(wanted, row["remaining"] - row["running"])
            if amount > 0 and row["state"] != "released" and row["id"] not in draws:
                draws[row["id"]] = _Draw(row["id"], amount, _scope(row))
                wanted -= amount
        return list(draws.values())

    def _refusal(
        self, request: HoldRequest, draws: Sequence[_Draw], now: datetime, *, within: int = 100
    ) -> HoldAnswer | None:
        resuming = request.kind is HoldKind.RESUME
        reason = self._gate.refusal(request.scope, now, resuming=resuming)
        if reason:
            return HoldAnswer(request.id, granted=False, reason=reason)
        found = self._misfits(request, draws, now, within)
        if found:
            return HoldAnswer(request.id, granted=False, misfits=found, reason=sentence(found, within))
        reason = self._used_up(request.scope, now)
        return HoldAnswer(request.id, granted=False, reason=reason) if reason else None

    def _misfits(
        self, request: HoldRequest, draws: Sequence[_Draw], now: datetime, within: int
    ) -> tuple[Misfit, ...]:
        found: list[Misfit] = []
        for standing in self.standings(self._caps.for_scope(request.scope), now):
            cap = standing.cap
            allowed = Money(standing.allowed.micros * within // 100)
            more = _more(cap, request.amount.micros, draws)
            for misfit in misfits((replace(standing, allowed=allowed),), Money(more)) if more > 0 else ():
                names = self._raisers(cap, request.scope, misfit.short) if self._raisers else misfit.raised_by
                found.append(replace(misfit, limit=standing.allowed, raised_by=names))
        return tuple(found)

    def _used_up(self, scope: Scope, now: datetime) -> str:
        for cap in self._caps.for_scope(scope):
            allowed = self._caps.allowed(cap, now)
            spent = self._spending.cap_spent(cap, now)
            if spent >= allowed:
                return f"The cap {cap.name} ({cap.subject}) is used up: {spent} of {allowed}."
        return ""

    def _limits(self, request: HoldRequest, draws: Sequence[_Draw], now: datetime, within: int) -> str:
        return json.dumps(
            [
                {
                    "kind": cap.scope_kind.value,
                    "value": cap.scope_value,
                    "spent": self._spending.cap_spent(cap, now).micros,
                    "allowed": self._caps.allowed(cap, now).micros * within // 100,
                    "more": _more(cap, request.amount.micros, draws),
                }
                for cap in self._caps.for_scope(request.scope)
            ]
        )

    def _row(self, request: HoldRequest, draws: Sequence[_Draw], now: datetime) -> dict[str, Any]:
        rolling = request.payload.get("rolling")
        if rolling is None:
            rolling = request.amount <= request.burn.over(self._span)
        scope = request.scope
        return {
            "id": request.id,
            "kind": request.kind.value,
            "cluster": scope.cluster,
            "region": scope.region,
            "team": scope.team,
            "person": scope.person,
            "experiment": scope.experiment,
            "run": scope.run,
            "amount": request.amount.micros,
            "base": self._spending.run_spent(scope.run, now).micros if scope.run else 0,
            "rolling": int(bool(rolling)),
            "burn": request.burn.micros,
            "reason": request.reason,
            "payload": json.dumps(dict(request.payload), sort_keys=True),
            "draws": json.dumps([(draw.source, draw.amount) for draw in draws]),
            "now": micros(now),
        }


def _scope(row: Mapping[str, Any]) -> Scope:
    return Scope(row["cluster"], row["region"], row["team"], row["person"], row["experiment"], row["run"])


def _request(row: Mapping[str, Any]) -> HoldRequest:
    return HoldRequest(
        id=row["id"],
        kind=HoldKind(row["kind"]),
        scope=_scope(row),
        amount=Money(row["amount"]),
        burn=Money(row["burn"]),
        reason=row["reason"],
        draws_on=tuple(source for source, _ in json.loads(row["draws"])),
        payload=json.loads(row["payload"]),
    )
