"""The scheduler: binds pending pods to nodes, or writes why it cannot.

One pass places everything that is due, a class of identical pods at a time. Classes that found no room
are not judged again until a node changed or a pod left. Ties go to the first node by name, so a seed
repeats. Not simulated: volumes, dynamic resource claims, disruption budgets in preemption, the
FailedScheduling event (the PodScheduled condition carries its words).
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Any

from sandbox.kube.admission import with_topology_labels
from sandbox.kube.fitting import (
    Misfit,
    NodeState,
    PodClass,
    class_key,
    fits,
    read_class,
    room_misfit,
    selector_keys,
    static_misfit,
)
from sandbox.kube.placement import Placement
from sandbox.kube.pod_status import in_phase, set_condition, stamp
from sandbox.kube.preemption import find_candidate
from sandbox.kube.scheduling_queue import SchedulingQueue, Waiting
from sandbox.kube.spreading import Neighbours
from sandbox.kube.store import Store
from sandbox.world import Timer, World

Object = dict[str, Any]
Key = tuple[str, str]
_DELAY = 0.1
_NO_NODES = "no nodes available to schedule pods"
_DISRUPTED = "preempting to accommodate a higher priority pod"


class Scheduler:
    """Acts on one store, a tenth of a second of world time after something changed."""

    def __init__(self, world: World, store: Store) -> None:
        self._world = world
        self._store = store
        self._nodes: dict[str, NodeState] = {}
        self._placed: dict[Key, str] = {}
        self._queue = SchedulingQueue()
        self._classes: dict[bytes, PodClass] = {}
        self._label_keys: set[str] = set()
        self._keeps_apart = False
        """some pod ever seen has required anti-affinity"""
        self._lowest_priority = 0
        self._nominated: dict[Key, str] = {}
        self._dirty: set[str] = set()
        """nodes that changed, or on which room came free, since the last pass"""
        self._timer: Timer | None = None
        for node in store.list("nodes"):
            self._see_node("ADDED", node)
        for pod in store.list("pods"):
            self._see_pod("ADDED", pod)
        store.subscribe(self._see)

    # Watching

    def _see(self, event: str, resource: str, new: Object, _old: Object | None) -> None:
        if resource == "pods":
            self._see_pod(event, new)
        elif resource == "nodes":
            self._see_node(event, new)

    def _see_node(self, event: str, node: Object) -> None:
        name = node["metadata"]["name"]
        if event == "DELETED":
            gone = self._nodes.pop(name, None)
            for key in gone.pods if gone else ():
                self._placed.pop(key, None)
            self._dirty.add(name)
            self._trigger()
            return
        state = self._nodes.get(name)
        if state is None:
            state = self._nodes[name] = NodeState(name)
            for pod in self._store.pods_on(name):
                self._see_pod("ADDED", pod)
        if state.read(node):
            self._dirty.add(name)
            self._trigger()

    def _see_pod(self, event: str, pod: Object) -> None:
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        node = pod["spec"].get("nodeName")
        if event == "DELETED" or in_phase(pod, "Succeeded", "Failed"):
            self._forget(key)
        elif node:
            self._settle(key, pod, node)
        elif pod["spec"].get("schedulingGates"):
            self._hold_gated(key, pod)
        elif pod["metadata"].get("deletionTimestamp"):
            self._queue.remove(key)
        elif not self._queue.holds(key) and _is_ours(pod):
            self._queue.add(key, self._classify(pod), _message(pod))
            self._trigger()

    def _settle(self, key: Key, pod: Object, node: str) -> None:
        self._queue.remove(key)
        state = self._nodes.get(node)
        if state is None:
            return
        if key not in self._placed:
            state.add(key, self._classify(pod))
            self._placed[key] = node
            self._unnominate(key)
        elif pod["metadata"].get("deletionTimestamp") and key not in state.leaving:
            state.leaving.add(key)
            if any(waiting.pod_class.spreads for waiting in self._queue.classes()):
                self._dirty.add(node)
                self._trigger()

    def _forget(self, key: Key) -> None:
        self._queue.remove(key)
        self._unnominate(key)
        node = self._placed.pop(key, None)
        if node is not None:
            self._nodes[node].remove(key)
            self._dirty.add(node)
            self._trigger()

    def _hold_gated(self, key: Key, pod: Object) -> None:
        self._queue.remove(key)
        if any(c["type"] == "PodScheduled" for c in pod.get("status", {}).get("conditions") or ()):
            return
        message = "Scheduling is blocked due to non-empty scheduling gates"
        self._world.after(_DELAY, lambda: self._tell(key, "SchedulingGated", message))

    def _classify(self, pod: Object) -> PodClass:
        asked = selector_keys(pod["spec"]) - self._label_keys
        if asked:
            self._label_keys |= asked
            self._reclassify()
        key = class_key(pod, self._label_keys)
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = read_class(pod, key, self._label_keys)
            self._keeps_apart = self._keeps_apart or bool(found.anti_affinity)
            self._lowest_priority = min(self._lowest_priority, found.priority)
        return found

    def _reclassify(self) -> None:
        """A selector asks for labels that were not part of the classes yet: read all pods again."""
        self._classes.clear()
        for key, name in self._placed.items():
            pod = self._store.get("pods", *key)
            if pod is not None:
                self._nodes[name].pods[key] = self._classify(pod)
        for waiting in self._queue.classes():
            for key in list(waiting.pods):
                pod = self._store.get("pods", *key)
                if pod is not None:
                    self._queue.add(key, self._classify(pod), waiting.told.get(key, ""))

    # Placing

    def _trigger(self) -> None:
        if self._timer is None and len(self._queue):
            self._timer = self._world.after(_DELAY, self._pass)

    def _pass(self) -> None:
        """One scheduling pass over every class that has something to hope for."""
        self._timer = None
        dirty, self._dirty = self._dirty, set()
        changed = [self._nodes[name] for name in sorted(dirty) if name in self._nodes]
        placements: dict[bytes, Placement] = {}
        heap: list[tuple[tuple[int, int], bytes, Waiting]] = []
        for waiting in self._queue.classes():
            placement = self._placement(waiting, changed)
            if placement is not None:
                placements[waiting.pod_class.key] = placement
                heap.append((waiting.head(), waiting.pod_class.key, waiting))
            elif dirty:
                self._refresh_later(waiting)
        heapq.heapify(heap)
        while heap:
            _, class_key_, waiting = heapq.heappop(heap)
            node = placements[class_key_].best()
            if node is None:
                self._give_up(waiting)
                continue
            self._bind(next(iter(waiting.pods)), waiting.pod_class, node, placements)
            if waiting.pods:
                heapq.heappush(heap, (waiting.head(), class_key_, waiting))

    def _placement(self, waiting: Waiting, changed: list[NodeState]) -> Placement | None:
        """None where nothing changed that could help this class."""
        pod_class = waiting.pod_class
        if pod_class.constrained or self._keeps_apart:
            if not waiting.fresh and not changed:
                return None
            return Placement(pod_class, self._in_order(), Neighbours(pod_class, self._nodes.values()))
        if waiting.fresh:
            return Placement(pod_class, self._nodes.values(), None)
        if any(fits(pod_class, node) for node in changed):
            return Placement(pod_class, changed, None)
        return None

    def _bind(
        self, key: Key, pod_class: PodClass, node: NodeState, placements: dict[bytes, Placement]
    ) -> None:
        pod = self._store.must_get("pods", *key)
        status = set_condition(pod.get("status", {}), "PodScheduled", "True", now=stamp(self._world.now))
        status.pop("nominatedNodeName", None)
        bound = {**pod, "spec": {**pod["spec"], "nodeName": node.name}, "status": status}
        self._store.update("pods", with_topology_labels(bound, self._store.get("nodes", None, node.name)))
        for placement in placements.values():
            if placement.neighbours is not None:
                placement.neighbours.add(node, pod_class)

    def _in_order(self) -> list[NodeState]:
        return [self._nodes[name] for name in sorted(self._nodes)]

    # Refusing

    def _give_up(self, waiting: Waiting) -> None:
        """Tell the pods of a class that there is no room; those of high priority may make some."""
        waiting.fresh = False
        while self._preempt(waiting):
            continue
        if waiting.told:
            self._refresh_later(waiting)
        if waiting.untold:
            message = self._explain(waiting.pod_class)
            for key in list(waiting.untold):
                self._tell(key, "Unschedulable", message, waiting)

    def _refresh_later(self, waiting: Waiting) -> None:
        """Outdated messages are rewritten later, the later the more pods wait (as back-off does)."""
        if waiting.refreshing:
            return
        waiting.refreshing = True
        delay = min(max(len(waiting.pods) / 50, 1.0), 300.0)
        self._world.after(delay, lambda: self._refresh(waiting))

    def _refresh(self, waiting: Waiting) -> None:
        waiting.refreshing = False
        if not waiting.pods or waiting.fresh:
            return
        if self._timer is not None:
            self._refresh_later(waiting)
            return
        message = self._explain(waiting.pod_class)
        for key in [key for key in waiting.pods if waiting.told.get(key) != message]:
            self._tell(key, "Unschedulable", message, waiting)

    def _tell(self, key: Key, reason: str, message: str, waiting: Waiting | None = None) -> None:
        pod = self._store.get("pods", *key)
        if pod is None or pod["spec"].get("nodeName"):
            return
        if waiting is not None:
            waiting.told[key] = message
            waiting.untold.pop(key, None)
        condition = {"reason": reason, "message": message}
        status = set_condition(
            pod.get("status", {}), "PodScheduled", "False", now=stamp(self._world.now), **condition
        )
        self._store.update("pods", {**pod, "status": status})

    def _explain(self, pod_class: PodClass) -> str:
        """The FitError's words."""
        if not self._nodes:
            return _NO_NODES
        neighbours = self._neighbours(pod_class)
        reasons: Counter[str] = Counter()
        helpless = 0
        for node in self._nodes.values():
            misfit = _misfit(pod_class, node, neighbours)
            if misfit is not None:
                reasons.update(misfit.reasons)
                helpless += misfit.final
        total = len(self._nodes)
        return (
            f"0/{total} nodes are available: {_histogram(reasons)}. no new claims to deallocate, "
            f"preemption: {_preemption_words(pod_class, total, helpless)}"
        )

    def _neighbours(self, pod_class: PodClass) -> Neighbours | None:
        if pod_class.constrained or self._keeps_apart:
            return Neighbours(pod_class, self._nodes.values())
        return None

    # Preemption

    def _preempt(self, waiting: Waiting) -> bool:
        """Evict pods of lower priority for the first pod of the class that was not promised room yet."""
        pod_class = waiting.pod_class
        if not pod_class.may_preempt or self._lowest_priority >= pod_class.priority:
            return False
        key = next((key for key in waiting.pods if key not in self._nominated), None)
        if key is None:
            return False

        def others_agree(trial: NodeState) -> bool:
            if not pod_class.constrained:
                return True
            nodes = [trial if node.name == trial.name else node for node in self._nodes.values()]
            return Neighbours(pod_class, nodes).misfit(trial) is None

        candidate = find_candidate(pod_class, self._open_nodes(), others_agree)
        if candidate is None:
            return False
        self._nominated[key] = candidate.node
        self._nodes[candidate.node].nominated[key] = pod_class
        pod = self._store.must_get("pods", *key)
        self._store.update("pods", {**pod, "status": {**pod["status"], "nominatedNodeName": candidate.node}})
        for victim in candidate.victims:
            self._evict(victim)
        return True

    def _open_nodes(self) -> list[NodeState]:
        """Nodes on which no room is being made already."""
        return [node for node in self._nodes.values() if not node.nominated]

    def _evict(self, key: Key) -> None:
        pod = self._store.must_get("pods", *key)
        status = set_condition(
            pod.get("status", {}),
            "DisruptionTarget",
            "True",
            now=stamp(self._world.now),
            reason="PreemptionByScheduler",
            message=f"default-scheduler: {_DISRUPTED}",
        )
        self._store.update("pods", {**pod, "status": status})
        self._store.delete("pods", *key)

    def _unnominate(self, key: Key) -> None:
        node = self._nominated.pop(key, None)
        if node in self._nodes:
            self._nodes[node].nominated.pop(key, None)


def _is_ours(pod: Object) -> bool:
    return (pod["spec"].get("schedulerName") or "default-scheduler") == "default-scheduler"


def _message(pod: Object) -> str:
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return str(condition.get("message", ""))
    return ""


def _misfit(pod_class: PodClass, node: NodeState, neighbours: Neighbours | None) -> Misfit | None:
    found = static_misfit(pod_class, node) or room_misfit(pod_class, node)
    return found or (neighbours.misfit(node) if neighbours else None)


def _histogram(reasons: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))


def _preemption_words(pod_class: PodClass, total: int, helpless: int) -> str:
    if not pod_class.may_preempt:
        return "not eligible due to preemptionPolicy=Never."
    words = Counter(
        {
            "Preemption is not helpful for scheduling": helpless,
            "No preemption victims found for incoming pod": total - helpless,
        }
    )
    return f"0/{total} nodes are available: {_histogram(+words)}."
