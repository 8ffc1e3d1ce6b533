"""Runs in the database: what was launched, by whom, where, and how it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlite_utils import Database as SqliteUtils
from sqlite_utils.migrations import Migrations

from fleet.db import Database
from fleet.values import rfc3339, utc
from launcher.names import RunIdentity
from launcher.spec import Experiment

MIGRATIONS = Migrations("launcher")


@MIGRATIONS()
def create_runs(db: SqliteUtils) -> None:
    """Runs, and the last words of what was ended."""
    db.execute(
        "CREATE TABLE runs (id TEXT PRIMARY KEY, request TEXT NOT NULL UNIQUE, experiment TEXT NOT NULL, "
        "owner TEXT NOT NULL, owner_name TEXT NOT NULL, team TEXT NOT NULL, cluster TEXT NOT NULL, "
        "namespace TEXT NOT NULL, spec TEXT NOT NULL, spec_hash TEXT NOT NULL, state TEXT NOT NULL, "
        "reason TEXT NOT NULL DEFAULT '', channel TEXT NOT NULL, thread TEXT NOT NULL, "
        "created TEXT NOT NULL, started TEXT, ended TEXT) STRICT"
    )
    db.execute("CREATE INDEX runs_by_experiment ON runs (experiment, created)")
    db.execute("CREATE INDEX runs_by_state ON runs (state)")
    db.execute(
        "CREATE TABLE run_logs (run TEXT NOT NULL, pod TEXT NOT NULL, taken_at TEXT NOT NULL, "
        "text TEXT NOT NULL, PRIMARY KEY (run, pod)) STRICT"
    )


WITHDRAWN = "withdrawn"
"""reason of a proposal that was cancelled, or not clicked in time"""


class RunState(StrEnum):
    """Where a run stands in the launcher's book; whether it is paused is in the cluster."""

    PROPOSED = "proposed"
    LAUNCHING = "launching"
    RUNNING = "running"
    FAILING = "failing"
    """the launch failed and something of it may still be there"""
    FAILED = "failed"
    DONE = "done"
    KILLED = "killed"
    GONE = "gone"
    """its objects vanished without us"""

    @property
    def live(self) -> bool:
        """It has, or is getting, objects in a cluster."""
        return self in (RunState.LAUNCHING, RunState.RUNNING, RunState.FAILING)


@dataclass(frozen=True, slots=True)
class Run:
    """One launch of an experiment."""

    id: str
    request: str
    """what asked for it: the same request is the same run"""
    experiment: str
    owner: str
    owner_name: str
    team: str
    cluster: str
    namespace: str
    spec: str
    """the experiment as JSON"""
    spec_hash: str
    state: RunState
    reason: str
    channel: str
    thread: str
    created: datetime
    started: datetime | None = None
    ended: datetime | None = None

    @property
    def launched(self) -> bool:
        """Somebody started it; a proposal, or one that was withdrawn, is no run to speak of."""
        return self.state is not RunState.PROPOSED and self.reason != WITHDRAWN

    @property
    def identity(self) -> RunIdentity:
        """What the manifests need to know of it."""
        return RunIdentity(self.id, self.namespace, self.cluster, self.owner, self.owner_name, self.team)

    def parsed(self) -> Experiment:
        """The experiment that it was launched from."""
        return Experiment.model_validate_json(self.spec)


class RunStore:
    """The runs table."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, run: Run) -> Run:
        """Store a new run; where its request is known already, that earlier run is returned."""
        with self._db.transaction() as connection:
            known = self.by_request(run.request)
            if known is not None:
                return known
            connection.execute(
                "INSERT INTO runs (id, request, experiment, owner, owner_name, team, cluster, namespace, spec, "
                "spec_hash, state, reason, channel, thread, created) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    run.id,
                    run.request,
                    run.experiment,
                    run.owner,
                    run.owner_name,
                    run.team,
                    run.cluster,
                    run.namespace,
                    run.spec,
                    run.spec_hash,
                    run.state.value,
                    run.reason,
                    run.channel,
                    run.thread,
                    rfc3339(run.created),
                ),
            )
        return run

    def move(self, run_id: str, state: RunState, now: datetime, reason: str = "") -> None:
        """Another state; running notes when it started, the last states when it ended. Repeatable."""
        with self._db.transaction() as connection:
            connection.execute(
                "UPDATE runs SET state = ?, reason = ? WHERE id = ?", (state.value, reason, run_id)
            )
            if state is RunState.RUNNING:
                connection.execute(
                    "UPDATE runs SET started = coalesce(started, ?) WHERE id = ?", (rfc3339(now), run_id)
                )
            elif not state.live:
                connection.execute(
                    "UPDATE runs SET ended = coalesce(ended, ?) WHERE id = ?", (rfc3339(now), run_id)
                )

    def get(self, run_id: str) -> Run | None:
        """The run with this id."""
        return self._one("SELECT * FROM runs WHERE id = ?", run_id)

    def by_request(self, request: str) -> Run | None:
        """The run that a request led to."""
        return self._one("SELECT * FROM runs WHERE request = ?", request)

    def latest(self, experiment: str) -> Run | None:
        """The latest run of an experiment that was really launched."""
        return self._one(
            f"SELECT * FROM runs WHERE experiment = ? AND state != 'proposed' AND reason != '{WITHDRAWN}' "
            "ORDER BY created DESC, rowid DESC",
            experiment,
        )

    def find(self, name: str) -> Run | None:
        """A run by its id, or else the latest of the experiment with this name."""
        return self.get(name) or self.latest(name)

    def live(self) -> tuple[Run, ...]:
        """Runs that have objects in a cluster, oldest first."""
        states = tuple(state.value for state in RunState if state.live)
        marks = ", ".join("?" * len(states))
        rows = self._db.rows(f"SELECT * FROM runs WHERE state IN ({marks}) ORDER BY created, rowid", states)
        return tuple(_run(row) for row in rows)

    def recent(self, limit: int = 50) -> tuple[Run, ...]:
        """Latest runs first."""
        rows = self._db.rows("SELECT * FROM runs ORDER BY created DESC, rowid DESC LIMIT ?", (limit,))
        return tuple(_run(row) for row in rows)

    def save_log(self, run_id: str, pod: str, text: str, now: datetime) -> None:
        """Keep the last lines of a pod that is about to go."""
        with self._db.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO run_logs (run, pod, taken_at, text) VALUES (?, ?, ?, ?)",
                (run_id, pod, rfc3339(now), text),
            )

    def logs(self, run_id: str) -> dict[str, str]:
        """Pod → last lines, as kept."""
        rows = self._db.rows("SELECT pod, text FROM run_logs WHERE run = ? ORDER BY pod", (run_id,))
        return {row["pod"]: row["text"] for row in rows}

    def _one(self, sql: str, value: str) -> Run | None:
        row = self._db.row(sql + " LIMIT 1", (value,))
        return _run(row) if row else None


def _run(row: Mapping[str, Any]) -> Run:
    moments = {name: utc(row[name]) if row[name] else None for name in ("started", "ended")}
    fields = {**row, **moments, "state": RunState(row["state"]), "created": utc(row["created"])}
    return Run(**fields)
