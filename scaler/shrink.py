"""Which of our nodes may go: cordon, look again, end. Pure.

Two phases on purpose: a pod that lands between the two keeps its node. Only nodes of ours that are empty
but for DaemonSets; never from a view that is old or not complete; never more than a share of them a tick.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from fleet.model import ClusterSnapshot, Node
from scaler.settings import ScalerSettings
from scaler.values import L_KEEP, Machine


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do about a machine of ours, and why."""

    machine: Machine
    node: Node
    reason: str


@dataclass(frozen=True, slots=True)
class Shrink:
    """What to do now, and what to remember about idle machines."""

    cordon: tuple[Step, ...] = ()
    uncordon: tuple[Step, ...] = ()
    end: tuple[Step, ...] = ()
    drop: tuple[Machine, ...] = ()
    """machines of stopped runs that boot for nobody: they have no node yet, and end at once"""
    changed: tuple[Machine, ...] = ()
    """machines with another `idle_since`"""


@dataclass(frozen=True, slots=True)
class Overdue:
    """A machine that is paid for and of no use; it is ended."""

    machine: Machine
    reason: str


def busy_nodes(snapshot: ClusterSnapshot) -> frozenset[str]:
    """Nodes with a pod that is not a DaemonSet's and has not finished."""
    return frozenset(pod.node for pod in snapshot.pods.values() if pod.node and pod.active and not pod.daemon)


def nodes_of(snapshot: ClusterSnapshot, machines: tuple[Machine, ...]) -> dict[str, Node]:
    """Machine id → its node in the cluster, where it has one."""
    ids = {machine.id for machine in machines}
    return {n.instance_id: n for n in snapshot.nodes.values() if n.provider_id and n.instance_id in ids}


@dataclass(frozen=True, slots=True)
class Occupied:
    """Nodes that must stay: `busy` hold pods, `used` (nodes and machines) will hold pending ones.

    Idle machines of `stopped` runs (nothing may be bought for them) go at once: what they cost past the
    pause counts against the cap that stopped them.
    """

    busy: frozenset[str]
    used: frozenset[str] = frozenset()
    stopped: frozenset[str] = frozenset()

    def keeps(self, node: Node) -> bool:
        """Whether this node stays."""
        return node.name in self.busy or node.name in self.used or node.labels.get(L_KEEP) == "true"


def decide(
    snapshot: ClusterSnapshot,
    machines: tuple[Machine, ...],
    occupied: Occupied,
    policy: ScalerSettings,
    now: datetime,
) -> Shrink:
    """What to cordon, uncordon and end now."""
    if not _reliable(snapshot):
        return Shrink()
    nodes = nodes_of(snapshot, machines)
    steps: dict[str, list[Step]] = {"cordon": [], "uncordon": [], "end": []}
    changed: list[Machine] = []
    drop: list[Machine] = []
    for machine in machines:
        node = nodes.get(machine.id)
        stopped = machine.group.run in occupied.stopped
        if machine.ending is not None or (machine.joined is None and not stopped):
            continue
        if machine.joined is None:
            drop += [machine] if node is None and machine.id not in occupied.used else []
            continue
        kept = node is not None and occupied.keeps(node)
        since = None if kept else machine.idle_since or now
        if since != machine.idle_since:
            changed.append(replace(machine, idle_since=since))
        if node is not None:
            what = _what(machine, node, since, timedelta(0) if stopped else policy.idle_after, now)
            if what:
                reason = "it is needed again" if kept else "it is idle"
                steps[what].append(Step(machine, node, reason))
    most = max(1, math.ceil(policy.shrink_fraction * len(nodes)))
    return Shrink(
        _limited(steps["cordon"], occupied.stopped, most),
        tuple(steps["uncordon"]),
        _limited(steps["end"], occupied.stopped, most),
        tuple(drop),
        tuple(changed),
    )


def _limited(steps: list[Step], stopped: frozenset[str], most: int) -> tuple[Step, ...]:
    """Everything of stopped runs, and at most so many others."""
    free = [step for step in steps if step.machine.group.run in stopped]
    return (*free, *[step for step in steps if step.machine.group.run not in stopped][:most])


def _what(
    machine: Machine, node: Node, idle_since: datetime | None, patience: timedelta, now: datetime
) -> str:
    """What to do about one machine; `idle_since` None means that its node stays."""
    if idle_since is None:
        return "uncordon" if machine.cordoned is not None else ""
    if machine.cordoned is None:
        return "cordon" if now - idle_since >= patience else ""
    # Only when the view shows our cordon does it show every pod that came before it.
    return "end" if node.unschedulable and machine.cordoned < now else ""


def overdue(
    snapshot: ClusterSnapshot,
    machines: tuple[Machine, ...],
    busy: frozenset[str],
    policy: ScalerSettings,
    now: datetime,
) -> tuple[Overdue, ...]:
    """Machines that are of no use: never joined, lost their node, or lack the GPUs that are paid for."""
    if not _reliable(snapshot):
        return ()
    nodes = nodes_of(snapshot, machines)
    found = []
    for machine in machines:
        reason = (
            "" if machine.ending is not None else _useless(machine, nodes.get(machine.id), busy, policy, now)
        )
        if reason:
            found.append(Overdue(machine, reason))
    return tuple(found)


def _useless(
    machine: Machine, node: Node | None, busy: frozenset[str], policy: ScalerSettings, now: datetime
) -> str:
    if machine.joined is None:
        return "it did not join in time" if now - machine.launched >= policy.join_deadline else ""
    if node is None:
        lost = machine.idle_since is not None and now - machine.idle_since >= policy.join_deadline
        return "its node is gone" if lost else ""
    lacking = node.allocatable.gpus < machine.allocatable.gpus and node.name not in busy
    return (
        "its GPUs did not appear in time" if lacking and now - machine.joined >= policy.gpu_deadline else ""
    )


def _reliable(snapshot: ClusterSnapshot) -> bool:
    return snapshot.synced and snapshot.stale_since is None
