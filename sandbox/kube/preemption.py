"""Which pods of lower priority would have to go so that one of higher priority fits.

A simplified pkg/scheduler/framework/preemption: the node whose victims have the lowest top priority,
then the fewest victims, then the first by name. Disruption budgets are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sandbox.kube.fitting import NodeState, PodClass, room_misfit, static_misfit

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node, and the pods that would go."""

    node: str
    victims: tuple[Key, ...]
    top_priority: int


def find_candidate(
    pod_class: PodClass, nodes: Iterable[NodeState], others_agree: Callable[[NodeState], bool]
) -> Candidate | None:
    """The cheapest node to make room on; `others_agree` judges spread and affinity with the victims gone."""
    found = [_candidate(pod_class, node, others_agree) for node in nodes]
    return min(
        (candidate for candidate in found if candidate),
        key=lambda candidate: (candidate.top_priority, len(candidate.victims), candidate.node),
        default=None,
    )


def _candidate(
    pod_class: PodClass, node: NodeState, others_agree: Callable[[NodeState], bool]
) -> Candidate | None:
    if static_misfit(pod_class, node) is not None:
        return None
    lower = {key: other for key, other in node.pods.items() if other.priority < pod_class.priority}
    if not lower or not _could_fit(pod_class, node, lower.values()):
        return None
    trial = _copy_without(node, lower)
    if room_misfit(pod_class, trial) is not None or not others_agree(trial):
        return None
    victims: list[Key] = []
    for key in sorted(lower, key=lambda key: (-lower[key].priority, key)):
        trial.add(key, lower[key])
        if room_misfit(pod_class, trial) is not None or not others_agree(trial):
            trial.remove(key)
            victims.append(key)
    return (
        Candidate(node.name, tuple(victims), max(lower[key].priority for key in victims)) if victims else None
    )


def _could_fit(pod_class: PodClass, node: NodeState, lower: Iterable[PodClass]) -> bool:
    """Whether the requests fit with all victims gone: the quick look before the exact one."""
    victims = list(lower)
    return all(
        quantity
        <= node.allocatable.get(name, 0)
        - node.used.get(name, 0)
        + sum(victim.requests.get(name, 0) for victim in victims)
        for name, quantity in pod_class.requests.items()
    )


def _copy_without(node: NodeState, gone: Iterable[Key]) -> NodeState:
    trial = NodeState(
        node.name,
        node.revision,
        node.labels,
        node.taints,
        node.unschedulable,
        node.allocatable,
        dict(node.used),
        dict(node.pods),
        dict(node.ports),
        set(node.leaving),
        dict(node.nominated),
    )
    for key in gone:
        trial.remove(key)
    return trial
