"""Choosing the node for one class of pods within one scheduling pass."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from sandbox.kube.fitting import NodeState, PodClass, fits, room_misfit, score
from sandbox.kube.spreading import Neighbours


class Placement:
    """The choice of nodes for one class within one pass."""

    def __init__(
        self, pod_class: PodClass, nodes: Iterable[NodeState], neighbours: Neighbours | None
    ) -> None:
        self._class = pod_class
        self.neighbours = neighbours
        self._nodes = [node for node in nodes if fits(pod_class, node)]
        self._heap = [(-score(pod_class, node), node.name, node) for node in self._nodes]
        heapq.heapify(self._heap)

    def best(self) -> NodeState | None:
        """The node for the next pod of the class, None where there is none left."""
        return self._freest() if self.neighbours is None else self._least_penalised(self.neighbours)

    def _freest(self) -> NodeState | None:
        """Scores only fall during a pass, so an outdated entry is re-scored when it comes to the top."""
        while self._heap:
            old, name, node = self._heap[0]
            if room_misfit(self._class, node) is not None:
                heapq.heappop(self._heap)
                continue
            present = -score(self._class, node)
            if present <= old:
                return node
            heapq.heapreplace(self._heap, (present, name, node))
        return None

    def _least_penalised(self, neighbours: Neighbours) -> NodeState | None:
        best: tuple[tuple[float, float, str], NodeState] | None = None
        for node in self._nodes:
            if neighbours.misfit(node) is not None or room_misfit(self._class, node) is not None:
                continue
            rank = (neighbours.penalty(node), -score(self._class, node), node.name)
            if best is None or rank < best[0]:
                best = (rank, node)
        return best[1] if best else None
