"""Kills the served process for real, from the outside, at requests that change something, and starts it again.

A `Killer` stands in the three servers that the process talks to. It sees every changing request twice: `before`,
when it has arrived and nothing is done about it, and `after`, when it is carried out and its reply is not sent yet.
What the process knows when it dies `after` is what it knows the instant a reply arrives: nothing is written down.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bot.wire import PARTICIPANT
from rehearsal.checking import all_messages
from rehearsal.format import Scenario
from rehearsal.outcome import Outcome
from rehearsal.runner import PRODUCT_PRIORITY, START_SECONDS, Options, Play, play
from rehearsal.stage import PRODUCT

BEFORE, AFTER = "before", "after"
A_TICK = timedelta(seconds=65)
"""of the story's guard and scaler, and how long its pods take to end"""


@dataclass(frozen=True, order=True)
class Request:
    """One changing request: when, what, and the how-manieth of its kind at that moment."""

    at: datetime
    what: str
    number: int = 1


@dataclass(frozen=True, order=True)
class Point:
    """A moment to be killed at."""

    request: Request
    moment: str

    def is_at(self, request: Request, moment: str) -> bool:
        """Whether this request is the one: a kill before may have moved it by a tick, for a new process looks at once."""
        mine = self.request
        same = (mine.what, mine.number, self.moment) == (request.what, request.number, moment)
        return same and abs(mine.at - request.at) <= A_TICK


@dataclass
class Killer:
    """Kills at its points, each once."""

    points: tuple[Point, ...] = ()
    seen: list[Request] = field(default_factory=list)
    """every changing request, in the order in which they came"""
    done: list[Request] = field(default_factory=list)
    """those that were carried out; what EC2 or Slack refuses is not"""
    hit: list[Point] = field(default_factory=list)
    _run: Play | None = None
    _ending: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def stand(self, run: Play) -> None:
        """Stand in the servers of a play that has not started its process yet."""
        self._run = run
        stage = run.stage

        def hook() -> None:
            for cluster in stage.clusters.values():
                cluster.api.on_request = self._kubernetes
            stage.cloud.on_request(self._cloud)
            stage.workspace.on_request(self._chat)

        stage.host.call(hook)

    def end(self, run: Play) -> int:
        """SIGTERM, with the kills that are left; a process that was killed is started again and ended."""
        self._ending = True
        run.stage.host.call(run.stage.world.forget, PARTICIPANT)
        hits = len(self.hit)
        code = run.product.stop()
        if len(self.hit) > hits:
            self._ending = False
            run.stage.host.call(self._expect)
            run.stage.host.run(self._back(), timeout=START_SECONDS)
            run.stage.host.call(run.stage.world.forget, PARTICIPANT)
            code = run.product.stop()
        return code

    def _kubernetes(self, moment: str, change: Any) -> bool | None:
        if change.user != PRODUCT:
            return None
        place = "/".join(part for part in (change.resource, change.namespace, change.name) if part)
        return False if self._comes(moment, f"{change.verb} {place} {change.subresource}".strip()) else None

    def _cloud(self, moment: str, info: Mapping[str, Any]) -> str | None:
        return "drop" if self._comes(moment, f"{info['action']} {info['region']}") else None

    def _chat(self, moment: str, info: Mapping[str, Any]) -> str | None:
        return "drop" if self._comes(moment, f"{info['method']} {_key(info['arguments'])}") else None

    def _comes(self, moment: str, what: str) -> bool:
        """Note it; True where the process was killed at it."""
        assert self._run is not None
        at = self._run.stage.world.now
        if moment == BEFORE:
            same = sum(1 for each in self.seen if each.at == at and each.what == what)
            self.seen.append(Request(at, what, same + 1))
        request = next(each for each in reversed(self.seen) if each.at == at and each.what == what)
        if moment == AFTER:
            self.done.append(request)
        for point in self.points:
            if point not in self.hit and point.is_at(request, moment):
                self.hit.append(point)
                self._kill()
                return True
        return False

    def _kill(self) -> None:
        """On the loop: the world does not move until the next process is connected."""
        assert self._run is not None
        ending = self._ending  # as it is now: whoever waits for the end goes on at the kill
        self._run.stage.world.forget(PARTICIPANT)
        self._run.product.kill()
        if ending:
            return
        self._expect()
        task = asyncio.get_running_loop().create_task(self._back())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _expect(self) -> None:
        assert self._run is not None
        self._run.stage.world.expect(PARTICIPANT, priority=PRODUCT_PRIORITY)

    async def _back(self) -> None:
        assert self._run is not None
        workspace = self._run.stage.workspace
        with self._run.stage.world.working():
            while workspace.link.connections:
                workspace.link.changed.clear()
                await workspace.link.changed.wait()
            self._run.product.start()
            await workspace.connected(1, START_SECONDS)


def _key(arguments: Mapping[str, Any]) -> str:
    """What a message is known by: its key, else (an ephemeral) the beginning of its text, without figures."""
    metadata = arguments.get("metadata")
    given = json.loads(metadata) if isinstance(metadata, str) else metadata or {}
    return str(
        given.get("event_payload", {}).get("key") or re.sub(r"[\d.]+", "#", arguments.get("text", ""))[:40]
    )


@dataclass(frozen=True)
class Played:
    """What a play came to, as plain values that can be compared and sent between processes."""

    seen: tuple[Request, ...]
    done: tuple[Request, ...]
    hit: tuple[Point, ...]
    failed: tuple[str, ...]
    """expectations and invariants that did not hold"""
    facts: dict[str, Any]
    spent: dict[str, int]
    """micro-dollars: by experiment in the ledger, and by the cloud's own account"""
    whispers: Counter[str]
    """ephemerals by their text: the only thing that may be said twice"""
    exit_code: int
    starts: int
    seconds: float


def play_killed(scenario: Scenario, folder: Path, points: tuple[Point, ...] = ()) -> Played:
    """Play a scenario and kill its process at each of the points."""
    killer = Killer(points)
    kept: dict[str, Any] = {}

    def keep(run: Play) -> None:
        kept["facts"] = facts(run)
        kept["whispers"] = whispers(run)
        kept["code"] = killer.end(run)
        kept["starts"] = run.product.starts

    outcome = play(scenario, folder, Options(on_stage=killer.stand), keep=keep)
    return Played(
        seen=tuple(killer.seen),
        done=tuple(killer.done),
        hit=tuple(killer.hit),
        failed=tuple(f"{check.name}: {check.detail}" for check in outcome.checks if not check.held),
        facts=kept["facts"],
        spent=_money(outcome),
        whispers=kept["whispers"],
        exit_code=kept["code"],
        starts=kept["starts"],
        seconds=outcome.seconds,
    )


def facts(run: Play) -> dict[str, Any]:
    """How everything stands at the end: in the clusters, in the cloud, in the chat and in the database."""
    stage = run.stage

    def outside() -> dict[str, Any]:
        cluster = stage.clusters["home"].store
        return {
            "jobs": sorted((j["metadata"]["name"], _suspended(j)) for j in cluster.list("jobs.batch")),
            "services": sorted(s["metadata"]["name"] for s in cluster.list("services")),
            "pods": sorted((p["metadata"]["name"], p["status"].get("phase")) for p in cluster.list("pods")),
            "nodes": sorted(n["metadata"]["name"] for n in cluster.list("nodes")),
            "machines": sorted((m.zone, m.kind.name, m.live) for m in stage.cloud.machines()),
            "messages": sorted((m["text"], "thread_ts" in m) for m in all_messages(stage, "research")),
        }

    found = stage.host.call(outside)
    database = run.read()._database
    found["decisions"] = database.rows(
        "SELECT kind, actor, subject, state, count(*) AS n FROM decisions GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
    )
    found["runs"] = database.rows("SELECT id, state, reason FROM runs ORDER BY id")
    found["holds"] = database.rows(
        "SELECT kind, run, state FROM holds WHERE kind != 'purchase' OR state NOT IN ('settled', 'released') ORDER BY id"
    )
    found["unsent"] = database.rows("SELECT key, op, state, error FROM outbox ORDER BY id")
    return found


def whispers(run: Play) -> Counter[str]:
    """Ephemerals of everybody, by text."""
    people = [str(person["name"]).lower() for person in run.scenario.settings["people"]]
    said = [m["text"] for name in people for m in run.stage.host.call(run.stage.workspace.ephemerals, name)]
    return Counter(said)


def _suspended(job: Mapping[str, Any]) -> bool:
    return bool(job["spec"].get("suspend"))


def _money(outcome: Outcome) -> dict[str, int]:
    spent = {name: amount.micros for name, amount in outcome.spent.items()}
    return {**spent, "the cloud": outcome.cloud_spent.micros}
