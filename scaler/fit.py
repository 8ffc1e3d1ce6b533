"""Whether pods fit a node, as the scheduler would say: resources, selectors, affinity, taints, spread. Pure.

A `Space` is a node that exists, one that boots, or one that could be bought. Hostname constraints are
judged here; zones in `scaler.zones`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fleet.model import Expression, Placement, Pod, Taint
from fleet.values import Resources

HOSTNAME = "kubernetes.io/hostname"
_BLOCKING = ("NoSchedule", "NoExecute")


@dataclass(slots=True)
class Space:
    """Room for pods; `add` takes of it."""

    name: str
    zone: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    free: Resources
    pods: list[tuple[Pod, int]] = field(default_factory=list)
    """what is on it: one pod of a kind, and how many"""
    joined: bool = True
    """its node is ready: the scheduler sees it, too"""

    def copy(self) -> Space:
        """An independent one, to try something out."""
        return replace(self, pods=list(self.pods))

    def add(self, pod: Pod, count: int) -> None:
        """Put pods on it."""
        self.free = self.free - pod.requests * count
        self.pods.append((pod, count))

    def room(self, pod: Pod, wanted: int) -> int:
        """How many of `wanted` such pods fit by resources and hostname rules (not labels and taints)."""
        count = min(wanted, times(pod.requests, self.free))
        if count <= 0:
            return 0
        for other, _ in self.pods:
            if any(
                term.anti and term.topology_key == HOSTNAME and selected(term.selector, other, pod)
                for term in other.placement.pod_affinity
            ):
                return 0
        return self._spread(pod, self._affinity(pod, count, wanted))

    def _present(self, selector: tuple[Expression, ...], pod: Pod) -> int:
        return sum(count for other, count in self.pods if selected(selector, pod, other))

    def _affinity(self, pod: Pod, count: int, wanted: int) -> int:
        for term in pod.placement.pod_affinity:
            if term.topology_key != HOSTNAME:
                continue
            present, itself = self._present(term.selector, pod), selected(term.selector, pod, pod)
            if term.anti:
                count = 0 if present else min(count, 1) if itself else count
            elif not present and (not itself or count < wanted):
                # They have to be together: a node that does not hold all of them would part them for good.
                count = 0
        return count

    def _spread(self, pod: Pod, count: int) -> int:
        for spread in pod.placement.spreads:
            if spread.topology_key != HOSTNAME or spread.when_unsatisfiable != "DoNotSchedule":
                continue
            # An empty node exists or can be bought, so the smallest count is taken as none.
            left = spread.max_skew - self._present(spread.selector, pod)
            itself = selected(spread.selector, pod, pod)
            count = min(count, left) if itself else count if left >= 0 else 0
        return max(count, 0)


def times(request: Resources, free: Resources) -> int:
    """How often a request fits into what is free."""
    counts = [
        have // need
        for need, have in (
            (request.millicores, free.millicores),
            (request.memory, free.memory),
            (request.gpus, free.gpus),
            (request.pods, free.pods),
        )
        if need > 0
    ]
    return max(0, min(counts)) if counts else 0


def misfit(placement: Placement, labels: Mapping[str, str], taints: Iterable[Taint]) -> str:
    """Why pods of this placement may not run on a node with these labels and taints; "" where they may."""
    for key, value in placement.node_selector:
        if labels.get(key) != value:
            return f"it needs {key}={value}"
    if placement.node_affinity and not any(
        all(matches(expression, labels) for expression in term) and term for term in placement.node_affinity
    ):
        return f"it needs {_words(placement.node_affinity)}"
    for taint in taints:
        if taint.effect in _BLOCKING and not tolerated(placement, taint):
            return f"it does not tolerate {taint.key}={taint.value}:{taint.effect}"
    return ""


def tolerated(placement: Placement, taint: Taint) -> bool:
    """Whether some toleration covers the taint."""
    for toleration in placement.tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if not toleration.key and toleration.operator == "Exists":
            return True
        if toleration.key == taint.key and (
            toleration.operator == "Exists" or toleration.value == taint.value
        ):
            return True
    return False


def matches(expression: Expression, labels: Mapping[str, str]) -> bool:
    """One matchExpressions entry against labels. NotIn and DoesNotExist are true where the key is missing."""
    value = labels.get(expression.key)
    operator = expression.operator
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator == "NotIn":
        return value not in expression.values
    if value is None:
        return False
    if operator == "In":
        return value in expression.values
    return _compared(operator, value, expression.values)


def _compared(operator: str, value: str, values: tuple[str, ...]) -> bool:
    try:
        left, right = int(value), int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right if operator == "Lt" else False


def selected(selector: tuple[Expression, ...], owner: Pod, other: Pod) -> bool:
    """Whether the selector of `owner`'s constraint selects `other`: same namespace, all expressions."""
    return owner.namespace == other.namespace and all(matches(e, other.labels) for e in selector)


def _words(terms: tuple[tuple[Expression, ...], ...]) -> str:
    told = [
        " and ".join(f"{e.key} {e.operator} {', '.join(e.values)}".strip() for e in term) for term in terms
    ]
    return " or ".join(told)
