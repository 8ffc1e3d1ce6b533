"""The node lifecycle controller: taints that follow a node's condition, and evictions by NoExecute taints.

Source: k8s.io/kubernetes/pkg/controller/{nodelifecycle,tainteviction}.
"""

from __future__ import annotations

from typing import Any

from sandbox.kube.matching import tolerates
from sandbox.kube.pod_status import condition, is_ready, set_condition, stamp
from sandbox.kube.store import Store
from sandbox.world import World

Object = dict[str, Any]
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_OURS = (_NOT_READY, _UNREACHABLE, _UNSCHEDULABLE)
_DELAY = 0.1


class NodeLifecycle:
    """Acts on one store."""

    def __init__(self, world: World, store: Store) -> None:
        self._world = world
        self._store = store
        for node in store.list("nodes"):
            self._see_node(node)
        store.subscribe(self._see)

    def _see(self, event: str, resource: str, new: Object, old: Object | None) -> None:
        if event == "DELETED":
            return
        if resource == "nodes":
            self._see_node(new)
        elif resource == "pods" and new["spec"].get("nodeName"):
            if old is not None and old["spec"].get("nodeName"):
                return
            node = self._store.get("nodes", None, new["spec"]["nodeName"])
            if node is not None and _no_execute(node):
                self._plan_eviction(new, node)

    def _see_node(self, node: Object) -> None:
        wanted = wanted_taints(node)
        if wanted != _own_taints(node):
            name = node["metadata"]["name"]
            self._world.after(_DELAY, lambda: self._taint(name))
        if _no_execute(node):
            for pod in self._store.pods_on(node["metadata"]["name"]):
                self._plan_eviction(pod, node)

    def _taint(self, name: str) -> None:
        node = self._store.get("nodes", None, name)
        if node is None:
            return
        now = stamp(self._world.now)
        known = {(taint["key"], taint["effect"]): taint for taint in (node["spec"].get("taints") or ())}
        taints = [taint for pair, taint in known.items() if pair[0] not in _OURS]
        for key, effect in sorted(wanted_taints(node)):
            taints.append(known.get((key, effect)) or {"key": key, "effect": effect, "timeAdded": now})
        spec = {key: value for key, value in node["spec"].items() if key != "taints"}
        if taints:
            spec["taints"] = taints
        self._store.update("nodes", {**node, "spec": spec})
        if (condition(node, "Ready") or {}).get("status") == "Unknown":
            self._mark_unready(name)

    def _mark_unready(self, name: str) -> None:
        """Pods of a lost node are not ready, as far as anybody knows."""
        for pod in self._store.pods_on(name):
            if is_ready(pod):
                status = set_condition(pod["status"], "Ready", "False", now=stamp(self._world.now))
                self._store.update("pods", {**pod, "status": status})

    def _plan_eviction(self, pod: Object, node: Object) -> None:
        wait = seconds_tolerated(pod, node)
        if wait is None or pod["metadata"].get("deletionTimestamp"):
            return
        metadata = pod["metadata"]
        key, uid = (metadata["namespace"], metadata["name"]), metadata["uid"]
        self._world.after(max(wait, _DELAY), lambda: self._evict(key, uid))

    def _evict(self, key: tuple[str, str], uid: str) -> None:
        pod = self._store.get("pods", *key)
        if pod is None or pod["metadata"]["uid"] != uid or pod["metadata"].get("deletionTimestamp"):
            return
        node = self._store.get("nodes", None, pod["spec"]["nodeName"])
        if node is None or seconds_tolerated(pod, node) is None:
            return
        status = set_condition(
            pod.get("status") or {},
            "DisruptionTarget",
            "True",
            now=stamp(self._world.now),
            reason="DeletionByTaintManager",
            message="Taint manager: deleting due to NoExecute taint",
        )
        self._store.update("pods", {**pod, "status": status})
        self._store.delete("pods", *key)


def wanted_taints(node: Object) -> set[tuple[str, str]]:
    """(key, effect) of the taints that a node's condition and cordon call for."""
    found = set()
    ready = condition(node, "Ready")
    state = ready["status"] if ready else "False"
    if state != "True":
        key = _UNREACHABLE if state == "Unknown" else _NOT_READY
        found.add((key, "NoSchedule"))
        if ready is not None:
            found.add((key, "NoExecute"))
    if (node.get("spec") or {}).get("unschedulable"):
        found.add((_UNSCHEDULABLE, "NoSchedule"))
    return found


def seconds_tolerated(pod: Object, node: Object) -> float | None:
    """How long the pod may stay under the node's NoExecute taints; None = for ever, or there are none."""
    tolerations = pod["spec"].get("tolerations") or ()
    limits = []
    for taint in _no_execute(node):
        used = [entry for entry in tolerations if tolerates([entry], taint)]
        if not used:
            return 0.0
        limits += [
            float(entry["tolerationSeconds"]) for entry in used if entry.get("tolerationSeconds") is not None
        ]
    return max(min(limits), 0.0) if limits else None


def _no_execute(node: Object) -> list[Object]:
    return [t for t in (node.get("spec") or {}).get("taints") or () if t.get("effect") == "NoExecute"]


def _own_taints(node: Object) -> set[tuple[str, str]]:
    taints = (node.get("spec") or {}).get("taints") or ()
    return {(taint["key"], taint["effect"]) for taint in taints if taint["key"] in _OURS}
