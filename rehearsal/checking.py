"""Checks what a scenario expects, and the invariants at its end."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from fleet.errors import BadInput
from fleet.values import Money, format_duration, utc
from rehearsal.format import (
    Bounds,
    Decisions,
    Expectation,
    Machines,
    Messages,
    Nodes,
    Pods,
    Spend,
    WorkState,
)
from rehearsal.outcome import Check
from rehearsal.readings import Readings
from rehearsal.stage import PRODUCT, Stage

EXPERIMENT = "quartermaster.dev/experiment"
RUN = "quartermaster.dev/run"


class Checker:
    """Looks at the sandbox and at what the product wrote down; changes nothing."""

    def __init__(self, stage: Stage, readings: Readings) -> None:
        self._stage = stage
        self._readings = readings

    def expectation(self, expected: Expectation) -> Check:
        """One expectation, now."""
        self._readings.refresh()
        checkers: dict[str, Any] = {
            "spend": self._spend,
            "pods": self._pods,
            "nodes": self._nodes,
            "machines": self._machines,
            "messages": self._messages,
            "decisions": self._decisions,
            "work": self._work,
        }
        for name, check in checkers.items():
            given = getattr(expected, name)
            if given is not None:
                try:
                    held, detail = check(given)
                except BadInput as error:
                    held, detail = False, str(error)
                return Check(f"at {format_duration(expected.at)}: {name} {_words(given)}", held, detail)
        raise AssertionError("an expectation has a subject")

    def _spend(self, want: Spend) -> tuple[bool, str]:
        now = self._stage.world.now
        by, key = ("team", want.team) if want.team else ("experiment", want.experiment)
        spent = self._readings.spent(by, key, now)
        low = want.at_least is None or spent >= want.at_least
        high = want.at_most is None or spent <= want.at_most
        return low and high, f"spent {spent.exact()}"

    def _pods(self, want: Pods) -> tuple[bool, str]:
        pods = self._stage.host.call(self._stage.clusters[want.cluster].store.list, "pods")
        count = sum(
            1
            for pod in pods
            if want.phase in ("any", pod.get("status", {}).get("phase", "Pending"))
            and want.namespace in ("", pod["metadata"]["namespace"])
            and want.experiment in ("", pod["metadata"].get("labels", {}).get(EXPERIMENT))
        )
        return _within(want, count), f"{count} pods"

    def _nodes(self, want: Nodes) -> tuple[bool, str]:
        nodes = self._stage.host.call(self._stage.clusters[want.cluster].store.list, "nodes")
        count = sum(
            1
            for node in nodes
            if want.region
            in ("", node["metadata"].get("labels", {}).get("topology.kubernetes.io/region", ""))
            and node["metadata"]["name"].startswith(want.named)
            and want.cordoned in (None, bool(node.get("spec", {}).get("unschedulable")))
        )
        return _within(want, count), f"{count} nodes"

    def _machines(self, want: Machines) -> tuple[bool, str]:
        count = sum(
            1
            for machine in self._stage.host.call(self._stage.cloud.machines)
            if want.region in ("", machine.region)
            and want.zone in ("", machine.zone)
            and want.instance_type in ("", machine.kind.name)
            and want.state in ("any", "running" if machine.live else "ended")
        )
        return _within(want, count), f"{count} machines"

    def _messages(self, want: Messages) -> tuple[bool, str]:
        found = [
            m
            for m in self._stage.host.call(visible, self._stage, want.channel, want.to)
            if want.contains in json.dumps(m, ensure_ascii=False)
        ]
        return _within(want, len(found)), f"{len(found)} messages"

    def _decisions(self, want: Decisions) -> tuple[bool, str]:
        found = self._readings.decisions(want.kind, want.experiment, want.state)
        return _within(want, len(found)), f"{len(found)} decisions"

    def _work(self, want: WorkState) -> tuple[bool, str]:
        run = self._readings.run_of(want.experiment)
        state = self._stage.host.call(work_state, self._stage, want.cluster, run)
        return state == want.is_, f"it is {state}"

    def invariant(self, name: str) -> Check:
        """One invariant, at the end."""
        self._readings.refresh()
        held, detail = {
            "ledger-exact": self._ledger_exact,
            "no-double-purchase": self._no_double_purchase,
            "nothing-bought-while-paused": self._nothing_while_paused,
            "system-pods-untouched": self._system_untouched,
        }[name]()
        return Check(f"always: {name}", held, detail)

    def _ledger_exact(self) -> tuple[bool, str]:
        faults = self._readings.faults()
        first = f"; first: {faults[0].kind} {faults[0].machine} {faults[0].detail}" if faults else ""
        return not faults, f"{len(faults)} faults{first}"

    def _no_double_purchase(self) -> tuple[bool, str]:
        """Machines of the cloud against the attempts that asked for them."""
        asked = {row["id"]: json.loads(row["payload"]) for row in self._readings.purchases()}
        bought: dict[str, int] = {}
        for machine in self._stage.host.call(self._stage.cloud.machines):
            bought[machine.token] = bought.get(machine.token, 0) + 1
        bad = [
            token
            for token, count in bought.items()
            if token not in asked or count > int(asked[token]["request"]["count"])
        ]
        return not bad, f"{sum(bought.values())} machines by {len(bought)} purchases" + (
            f"; wrong: {bad[:3]}" if bad else ""
        )

    def _nothing_while_paused(self) -> tuple[bool, str]:
        pauses = [
            (row["subject"], utc(self._readings.step_time(row["id"], "acted")))
            for row in self._readings.decisions("pause")
            if self._readings.step_time(row["id"], "acted")
        ]
        resumes = [(row["subject"], utc(row["decided_at"])) for row in self._readings.decisions("resume")]
        bad = [
            machine.id
            for machine in self._stage.host.call(self._stage.cloud.machines)
            for run, since in pauses
            if machine.tags.get(RUN) == run
            and machine.launched > since
            and not _resumed(run, since, machine.launched, resumes)
        ]
        return not bad, f"{len(pauses)} pauses" + (f"; bought after one: {bad[:3]}" if bad else "")

    def _system_untouched(self) -> tuple[bool, str]:
        """Every change that the product asked for is in a governed namespace, on a node of ours, or its Lease."""
        bad = []
        others = _nodes_of_others(self._stage)
        for entry in self._stage.scenario.world.clusters:
            governed = set(entry.namespaces)
            for change in self._stage.host.call(_changes, self._stage, entry.name):
                allowed = (
                    change.namespace in governed
                    or (change.resource == "nodes" and change.name not in others)
                    or change.resource in ("leases", "leases.coordination.k8s.io")
                    or change.code >= 400
                )
                if not allowed:
                    bad.append(f"{change.verb} {change.resource} {change.namespace}/{change.name}")
        return not bad, f"{len(bad)} changes elsewhere" + (f": {bad[0]}" if bad else "")


def _resumed(run: str, since: datetime, until: datetime, resumes: list[tuple[str, datetime]]) -> bool:
    return any(subject == run and since <= at <= until for subject, at in resumes)


def _nodes_of_others(stage: Stage) -> set[str]:
    """Names of nodes that are on the premises, or that somebody made in a step."""
    scenario = stage.scenario
    racks = {
        f"{group.name}-{number}"
        for entry in scenario.world.clusters
        for group in entry.nodes
        for number in range(1, group.count + 1)
    }
    return racks | {s.create.name for s in scenario.steps if s.create and s.create.kind == "Node"}


def _changes(stage: Stage, cluster: str) -> list[Any]:
    return [m for m in stage.clusters[cluster].api.ledger.mutations if m.user == PRODUCT]


def _pods_of(stage: Stage, cluster: str, label: str, value: str) -> list[dict[str, Any]]:
    pods = stage.clusters[cluster].store.list("pods")
    return [pod for pod in pods if pod["metadata"].get("labels", {}).get(label) == value]


def visible(stage: Stage, channel: str, to: str) -> list[dict[str, Any]]:
    """What everybody sees in a channel, or what only this person sees there."""
    if not to:
        return all_messages(stage, channel)
    people = {str(p["name"]): str(p["id"]) for p in stage.scenario.settings.get("people", [])}
    people |= {person.name: person.id for person in stage.scenario.world.chat.people}
    if to not in people:
        raise BadInput(f"Nobody is called {to!r} in this scenario.", hint=f"There are: {', '.join(people)}.")
    return stage.workspace.ephemerals(people[to], channel)


def all_messages(stage: Stage, channel: str) -> list[dict[str, Any]]:
    """Messages of a channel with their threads' replies."""
    found = []
    for root in stage.workspace.messages(channel):
        found.append(root)
        found += [reply for reply in stage.workspace.thread(channel, root["ts"]) if reply["ts"] != root["ts"]]
    return found


def work_state(stage: Stage, cluster: str, run: str) -> str:
    """Where a run stands by its Jobs and pods."""
    store = stage.clusters[cluster].store
    jobs = [j for j in store.list("jobs.batch") if j["metadata"].get("labels", {}).get(RUN) == run]
    pods = [
        p
        for p in _pods_of(stage, cluster, RUN, run)
        if p.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    ]
    if not jobs:
        return "killed" if not pods else "pausing"
    ended = [
        any(
            c["status"] == "True" and c["type"] in ("Complete", "Failed")
            for c in j.get("status", {}).get("conditions", ())
        )
        for j in jobs
    ]
    if all(ended) or (
        any(ended)
        and not pods
        and all(e or j["spec"].get("suspend") for e, j in zip(ended, jobs, strict=True))
    ):
        return "done"
    suspended = [bool(j["spec"].get("suspend")) for j, e in zip(jobs, ended, strict=True) if not e]
    if all(suspended):
        return "paused" if not pods else "pausing"
    return "running"


def _within(bounds: Bounds, value: int) -> bool:
    return (
        (bounds.equals is None or value == bounds.equals)
        and (bounds.at_least is None or value >= bounds.at_least)
        and (bounds.at_most is None or value <= bounds.at_most)
    )


def _words(given: Any) -> str:
    parts = []
    for name, value in given.model_dump(by_alias=True, exclude_none=True).items():
        if value not in ("", "home", "research"):
            parts.append(
                f"{name} {value}"
                if not isinstance(getattr(given, name, None), Money)
                else f"{name} {getattr(given, name)}"
            )
    return ", ".join(parts)


def offset(start: datetime, at: datetime) -> str:
    """A moment as its offset from the start."""
    return format_duration(max(at - start, timedelta(0)))
