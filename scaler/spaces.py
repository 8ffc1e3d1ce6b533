"""Room that exists or boots already, and what a new machine would offer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fleet.model import L_ZONE, ClusterSnapshot, Node, Offer, Pod, Taint
from fleet.values import Resources
from scaler.fit import Space, misfit
from scaler.values import Group, Machine, Situation, node_labels, offer_taints

_STARTING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that a node loses when it is ready."""
_LAGGING_TAINTS = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/uninitialized",
)
"""Of these, what a controller takes from a ready node only seconds after its condition has changed: the pods
that the node was bought for do not need another one meanwhile. Where it stays, `scheduler_patience` ends it."""


class Rooms:
    """Spaces of one situation. DaemonSets are looked for once."""

    def __init__(self, situation: Situation, pending: Iterable[Pod]) -> None:
        self._situation = situation
        self._pending = tuple(pending)
        daemons: dict[str, Pod] = {}
        for pod in situation.snapshot.pods.values():
            if pod.daemon and pod.active and pod.owner is not None:
                daemons.setdefault(pod.owner.uid, pod)
        self._daemons = tuple(daemons.values())

    def existing(self) -> list[Space]:
        """Nodes that pods may go to, then machines of ours that are no nodes yet. Deterministic order."""
        snapshot = self._situation.snapshot
        machines = {machine.id: machine for machine in self._situation.machines if machine.ending is None}
        on_node = self._by_node(snapshot)
        # Who shares a node with whom matters only where some constraint looks at neighbours.
        neighbours = any(pod.placement.pod_affinity or pod.placement.spreads for pod in self._pending)
        found: list[Space] = []
        for name in sorted(snapshot.nodes):
            node = snapshot.nodes[name]
            machine = machines.pop(node.instance_id, None) if node.instance_id else None
            space = _of_node(node, machine)
            if space is None:
                continue
            for pod in on_node.get(name, ()):
                if neighbours or pod.placement.pod_affinity:
                    space.add(pod, 1)
                else:
                    space.free = space.free - pod.requests
            found.append(space)
        waiting = sorted(machines.values(), key=lambda machine: (machine.launched, machine.id))
        return found + [self._of_machine(machine) for machine in waiting]

    def of_offer(self, offer: Offer, group: Group) -> Space:
        """What one new machine would offer to the group's pods."""
        labels = node_labels(offer, group)
        taints = offer_taints(offer, self._situation.pools)
        free = offer.allocatable - self._overhead(labels, taints)
        return Space(f"new/{offer.key}", offer.zone, labels, taints, free, joined=False)

    def _of_machine(self, machine: Machine) -> Space:
        pools = self._situation.pools
        taints = next((pool.taints for pool in pools if pool.name == machine.pool), ())
        free = machine.allocatable - self._overhead(machine.labels, taints)
        return Space(machine.id, machine.zone, machine.labels, taints, free, joined=False)

    def _overhead(self, labels: Mapping[str, str], taints: tuple[Taint, ...]) -> Resources:
        """What DaemonSets would take of a new node with these labels."""
        total = Resources()
        for pod in self._daemons:
            # Its pods are pinned to their node by name (affinity), which says nothing about other nodes.
            placement = replace(pod.placement, node_affinity=())
            if not misfit(placement, labels, taints):
                total = total + pod.requests
        return total

    @staticmethod
    def _by_node(snapshot: ClusterSnapshot) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = {}
        for pod in snapshot.pods.values():
            if pod.node and pod.active:
                found.setdefault(pod.node, []).append(pod)
        return found


def _of_node(node: Node, machine: Machine | None) -> Space | None:
    """A node as empty room; None where pods cannot go there."""
    cordoned_by_us = machine is not None and machine.cordoned is not None
    if (node.unschedulable and not cordoned_by_us) or (machine is None and not node.ready):
        return None
    allocatable, taints, joined = node.allocatable, node.taints, node.ready
    if machine is not None and (not node.ready or node.allocatable.gpus < machine.allocatable.gpus):
        # It boots, or its device plugin has not told of the GPUs yet: it will be what was bought.
        allocatable, joined = node.allocatable.maximum(machine.allocatable), False
        taints = tuple(taint for taint in taints if not taint.key.startswith(_STARTING_TAINTS))
    if joined:
        taints = tuple(taint for taint in taints if taint.key not in _LAGGING_TAINTS)
    if cordoned_by_us:
        taints = tuple(taint for taint in taints if taint.key != "node.kubernetes.io/unschedulable")
    return Space(node.name, node.labels.get(L_ZONE, ""), node.labels, taints, allocatable, joined=joined)
