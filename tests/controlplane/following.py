"""The sandbox's scheduler where another one chooses: it judges every node itself and takes the other's choice.

So the two clusters stay the same whatever the nodes' scores are, and every verdict is still compared: a
node that the other one chose has to fit here, and where nothing fits the words have to be the same.
"""

from __future__ import annotations

from typing import Any

from sandbox.kube.fitting import room_misfit, static_misfit
from sandbox.kube.scheduler import Scheduler
from sandbox.kube.store import Store
from sandbox.world import World

Object = dict[str, Any]
Key = tuple[str, str]
JOB, INDEX = "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"


def identity(pod: Object) -> tuple[str, ...]:
    """What a pod is known by on both sides: its name, or its Job and index where the name is random."""
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    if JOB in labels:
        return metadata["namespace"], "job", labels[JOB], labels.get(INDEX, "")
    return metadata["namespace"], "pod", metadata["name"]


class Following(Scheduler):
    """A scheduler that binds a pod when, and where, the same pod of the other cluster is bound."""

    def __init__(self, world: World, store: Store) -> None:
        self.pairs: dict[str, str] = {}
        """uid here → uid there"""
        self.offered: dict[Key, list[str]] = {}
        """pods that would fit here and are not bound there → nodes"""
        self._there: dict[str, Object] = {}
        super().__init__(world, store)

    def follow(self, pods: list[Object]) -> None:
        """The other cluster's pods as they now are; judge everything that waits once more."""
        self._there = {pod["metadata"]["uid"]: pod for pod in pods}
        self._trigger()

    def _pass(self) -> None:
        self._timer = None
        self._dirty = set()
        self.offered = {}
        for waiting in self._queue.classes():
            for key in list(waiting.pods):
                neighbours = self._neighbours(waiting.pod_class)
                fitting = {
                    node.name: node
                    for node in self._in_order()
                    if not static_misfit(waiting.pod_class, node)
                    and not room_misfit(waiting.pod_class, node)
                    and not (neighbours and neighbours.misfit(node))
                }
                node = fitting.get(self._choice(key))
                if node is not None:
                    self._bind(key, waiting.pod_class, node, {})
                elif fitting:
                    self.offered[key] = list(fitting)
                else:
                    self._give_up(waiting)
                    break

    def _choice(self, key: Key) -> str:
        """The node that the other cluster gave the pod; "" as long as it has none."""
        pod = self._store.must_get("pods", *key)
        uid = pod["metadata"]["uid"]
        if uid not in self.pairs:
            taken = set(self.pairs.values())
            wanted = identity(pod)
            free = [u for u, other in self._there.items() if u not in taken and identity(other) == wanted]
            if not free:
                return ""
            self.pairs[uid] = min(free, key=lambda u: self._there[u]["metadata"]["creationTimestamp"])
        other = self._there.get(self.pairs[uid], {"spec": {}})
        return str(other["spec"].get("nodeName", ""))
