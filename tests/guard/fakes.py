"""In-memory ports for the guard's tests: small, deterministic, and able to fail on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from fleet.errors import Unavailable
from fleet.model import (
    L_EXPERIMENT,
    L_OWNER,
    L_RUN,
    L_TEAM,
    ClusterSnapshot,
    Instance,
    Job,
    Node,
    Person,
    Pod,
    Price,
)
from fleet.ports import BilledDay, Sample, Scope, WorkState, WorkStatus
from fleet.values import Money

ADA = Person("U1", "Ada", "vision", frozenset({"researcher"}))
LEA = Person("U2", "Lea", "vision", frozenset({"lead"}), approval_limit=Money.usd(5000))
OLA = Person("U3", "Ola", "", frozenset({"admin"}), approval_limit=Money.usd(100_000))
BOB = Person("U4", "Bob", "games", frozenset({"researcher"}))


def labels(
    run: str = "abcde", team: str = "vision", owner: str = "U1", experiment: str = "dota"
) -> dict[str, str]:
    """What the launcher puts on everything of a run."""
    return {L_RUN: run, L_TEAM: team, L_OWNER: owner, L_EXPERIMENT: experiment}


class FakeView:
    """A cluster whose content the test sets."""

    def __init__(self, name: str = "home") -> None:
        self.name = name
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.jobs: dict[str, Job] = {}
        self.synced = True
        self.stale_since: datetime | None = None

    def put(self, *things: Pod | Node | Job) -> None:
        """Add or replace objects."""
        for thing in things:
            if isinstance(thing, Pod):
                self.pods = {**self.pods, thing.uid: thing}
            elif isinstance(thing, Node):
                self.nodes = {**self.nodes, thing.name: thing}
            else:
                self.jobs = {**self.jobs, thing.uid: thing}

    def drop(self, *names: str) -> None:
        """Remove objects by name."""
        self.pods = {uid: p for uid, p in self.pods.items() if p.name not in names}
        self.nodes = {name: n for name, n in self.nodes.items() if name not in names}
        self.jobs = {uid: j for uid, j in self.jobs.items() if j.name not in names}

    def snapshot(self, now: datetime) -> ClusterSnapshot:
        """What was set."""
        return ClusterSnapshot(
            self.name,
            now,
            self.synced,
            self.pods if self.synced else {},
            self.nodes if self.synced else {},
            self.jobs if self.synced else {},
            frozenset({"research"}),
            self.stale_since,
        )

    def wait_synced(self, timeout: float) -> bool:
        """At once."""
        return self.synced

    def close(self) -> None:
        """Nothing to end."""


class FakeMachines:
    """A provider whose machines the test sets."""

    provider = "aws"

    def __init__(self) -> None:
        self.listed: dict[str, Instance] = {}
        self.down = False
        self.asked = 0

    def put(self, *instances: Instance) -> None:
        """Add or replace machines."""
        for one in instances:
            self.listed[one.id] = one

    def end(self, instance_id: str, at: datetime) -> None:
        """The machine ended."""
        self.listed[instance_id] = replace(self.listed[instance_id], state="terminated", ended=at)

    def describe(self) -> tuple[Instance, ...]:
        """All of them."""
        self.asked += 1
        if self.down:
            raise Unavailable("EC2 does not answer.")
        return tuple(self.listed.values())

    def launch(self, request: Any) -> Any:
        """The guard buys nothing."""
        raise AssertionError("the guard launched a machine")

    def terminate(self, region: str, ids: Sequence[str]) -> None:
        """The guard ends nothing."""
        raise AssertionError("the guard terminated a machine")

    def interruptions(self) -> tuple[str, ...]:
        """None."""
        return ()


class FakePrices:
    """$3.60/h for everything, unless the test says otherwise."""

    def __init__(self, hourly: str = "3.60") -> None:
        self.price = Price(Money.usd(hourly), "list")
        self.by_machine: dict[str, Price] = {}

    def node_price(self, node: Node, instance: Instance | None, at: datetime) -> Price:
        """What was set for this machine."""
        key = instance.id if instance else node.instance_id or node.uid
        return self.by_machine.get(key, self.price)


class FakeWorkloads:
    """A cluster's answer to pause, resume and kill: pods go away when `work` is told to."""

    def __init__(self, view: FakeView) -> None:
        self.view = view
        self.calls: list[tuple[str, str]] = []
        self.paused: set[str] = set()
        self.killed: set[str] = set()
        self.stuck = 0
        self.error: Exception | None = None

    def _do(self, verb: str, run: str) -> None:
        self.calls.append((verb, run))
        if self.error is not None:
            raise self.error

    def _suspend(self, run: str, suspended: bool) -> None:
        for one in list(self.view.jobs.values()):
            if one.labels.get(L_RUN) == run:
                self.view.put(replace(one, suspended=suspended))

    def pause(self, cluster: str, run: str, now: datetime) -> WorkStatus:
        """Suspends the Jobs and lets the pods go, unless they are stuck."""
        self._do("pause", run)
        self.paused.add(run)
        self._suspend(run, True)
        if not self.stuck:
            gone = [p.name for p in self.view.pods.values() if p.labels.get(L_RUN) == run]
            self.view.drop(*gone)
        return self._status(run)

    def resume(self, cluster: str, run: str, now: datetime) -> WorkStatus:
        """Releases the Jobs."""
        self._do("resume", run)
        self.paused.discard(run)
        self._suspend(run, False)
        return self._status(run)

    def kill(self, cluster: str, run: str, now: datetime) -> WorkStatus:
        """Ends everything of the run."""
        self._do("kill", run)
        self.killed.add(run)
        return self._status(run)

    def verify(self, cluster: str, run: str, now: datetime) -> WorkStatus:
        """Where it stands."""
        if self.error is not None:
            raise self.error
        return self._status(run)

    def _status(self, run: str) -> WorkStatus:
        if run in self.killed:
            return WorkStatus(WorkState.KILLED)
        if run not in self.paused:
            return WorkStatus(WorkState.RUNNING, active=1)
        if self.stuck:
            return WorkStatus(
                WorkState.PAUSING,
                terminating=self.stuck,
                detail=f"pausing ({self.stuck} pods stuck on node x)",
            )
        return WorkStatus(WorkState.PAUSED)


class FakeDirectory:
    """Ada and Lea of vision, Bob of games, Ola the admin."""

    people = (ADA, LEA, OLA, BOB)

    def by_chat_id(self, chat_id: str) -> Person:
        """By id."""
        return next((p for p in self.people if p.id == chat_id), Person(chat_id, chat_id, known=False))

    by_system_user = by_kubernetes_name = by_chat_id

    def team_members(self, team: str) -> tuple[Person, ...]:
        """By team."""
        return tuple(p for p in self.people if p.team == team)

    def approvers(self, scope: Scope, amount: Money) -> tuple[Person, ...]:
        """The lead of the scope's team and the admin, within their limits."""
        return tuple(
            p
            for p in self.people
            if p.approval_limit >= amount
            and ("admin" in p.roles or ("lead" in p.roles and p.team == scope.team))
        )


class FakeNotifier:
    """Keeps every event under its key, once."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}

    def notify(self, event: Any, *, key: str, now: datetime) -> None:
        """The same key is told once."""
        self.told.setdefault(key, event)

    def of(self, kind: type) -> list[Any]:
        """Events of a type, in order."""
        return [event for event in self.told.values() if isinstance(event, kind)]


class FakeMetrics:
    """GPU utilisation by the first pod's name; none: absent."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def gpu_utilisation(
        self, cluster: str, pods: Sequence[tuple[str, str]], at: datetime, window: timedelta
    ) -> Sample:
        """What was set."""
        return Sample(self.values.get(pods[0][1]) if pods else None)

    def query(self, expression: str, at: datetime) -> Sample:
        """Nothing."""
        return Sample(None)


class FakeBilling:
    """A bill that the test writes."""

    def __init__(self) -> None:
        self.lines: list[BilledDay] = []
        self.down = False
        self.asked = 0

    def days(self, first: str, last: str, *, group_by_tag: str = "") -> tuple[BilledDay, ...]:
        """Lines within the days."""
        self.asked += 1
        if self.down:
            raise Unavailable("Cost Explorer does not answer.")
        return tuple(line for line in self.lines if first <= line.day <= last)
