"""Where each run stands: running, pausing, paused, resuming, killing, killed, done. In the database and in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from fleet.db import Database
from fleet.ports import Scope
from fleet.values import Money
from guard.events import About
from guard.moments import micros, moment

RUNNING, PAUSING, PAUSED, RESUMING = "running", "pausing", "paused", "resuming"
KILLING, KILLED, DONE = "killing", "killed", "done"
STOPPED = (PAUSING, PAUSED, KILLING, KILLED)
"""states in which nothing is bought for the run"""
CAP_CAUSE = "cap:"
"""prefix of a cause that is a cap, before its name; other causes are people's ids"""


@dataclass(frozen=True, slots=True)
class Run:
    """One run as the guard knows it. `cycle` counts pauses, so that each is one decision."""

    run: str
    cluster: str
    experiment: str
    owner: str
    team: str
    first_seen: datetime
    state: str = RUNNING
    since: datetime | None = None
    cause: str = ""
    cycle: int = 0
    unpaused: int = 0
    """how often somebody released it by hand in this cycle"""
    again_at: datetime | None = None
    """when it is paused again because of that"""
    burn: Money = Money(0)
    """dollars an hour when it was paused: what a resume has to fit"""

    @property
    def about(self) -> About:
        """Whom events about it name."""
        return About(self.cluster, self.run, self.experiment, self.owner, self.team)

    @property
    def scope(self) -> Scope:
        """What its caps apply to; a run may span regions, so none is named."""
        return Scope(
            cluster=self.cluster,
            team=self.team,
            person=self.owner,
            experiment=self.experiment,
            run=self.run,
        )

    @property
    def cap(self) -> str:
        """The cap that paused it; "" where a person did."""
        return self.cause.removeprefix(CAP_CAUSE) if self.cause.startswith(CAP_CAUSE) else ""


class RunBook:
    """Every run that was seen in a governed namespace."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self.reload()

    def reload(self) -> None:
        """Read everything from the database again."""
        self._runs = {
            row["run"]: _run(row) for row in self._db.rows("SELECT * FROM guard_runs ORDER BY rowid")
        }

    def get(self, run: str) -> Run | None:
        """The run of this id."""
        return self._runs.get(run)

    def all(self) -> tuple[Run, ...]:
        """Every run, oldest first."""
        return tuple(self._runs.values())

    def in_state(self, *states: str) -> tuple[Run, ...]:
        """The runs in these states, oldest first."""
        return tuple(run for run in self._runs.values() if run.state in states)

    def put(self, run: Run) -> Run:
        """Record a run as it stands now; writes only where it changed."""
        if self._runs.get(run.run) == run:
            return run
        values = (
            run.run,
            run.cluster,
            run.experiment,
            run.owner,
            run.team,
            micros(run.first_seen),
            run.state,
            micros(run.since or run.first_seen),
            run.cause,
            run.cycle,
            run.unpaused,
            None if run.again_at is None else micros(run.again_at),
            run.burn.micros,
        )
        with self._db.transaction() as connection:
            connection.execute(
                "INSERT INTO guard_runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run) DO UPDATE "
                "SET cluster = excluded.cluster, experiment = excluded.experiment, owner = excluded.owner, "
                "team = excluded.team, state = excluded.state, since = excluded.since, cause = excluded.cause, "
                "cycle = excluded.cycle, unpaused = excluded.unpaused, again_at = excluded.again_at, "
                "burn = excluded.burn",
                values,
            )
        self._runs[run.run] = run
        return run

    def move(self, run: str, state: str, now: datetime, **changes: Any) -> Run | None:
        """Put a run into a state; `since` moves with it. None where the run is not known."""
        known = self._runs.get(run)
        if known is None:
            return None
        since = known.since if known.state == state else now
        return self.put(replace(known, state=state, since=since, **changes))


def _run(row: Mapping[str, Any]) -> Run:
    return Run(
        run=row["run"],
        cluster=row["cluster"],
        experiment=row["experiment"],
        owner=row["owner"],
        team=row["team"],
        first_seen=moment(row["first_seen"]),
        state=row["state"],
        since=moment(row["since"]),
        cause=row["cause"],
        cycle=row["cycle"],
        unpaused=row["unpaused"],
        again_at=None if row["again_at"] is None else moment(row["again_at"]),
        burn=Money(row["burn"]),
    )
