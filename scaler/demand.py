"""Pending pods → classes of pods that are alike. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from fleet.model import ClusterSnapshot, Pod
from scaler.values import Group, PodClass

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def pending(snapshot: ClusterSnapshot) -> tuple[Pod, ...]:
    """Pods that the scheduler found no place for, in governed namespaces. Gated ones are not among them
    (they are not Unschedulable), nor DaemonSet pods (they wait for their own node), nor pods on their way out."""
    governed = snapshot.governed
    found = [
        pod
        for pod in snapshot.pods.values()
        if pod.unschedulable
        and pod.phase == "Pending"
        and not pod.node
        and not pod.daemon
        and pod.deleting is None
        and pod.namespace in governed
    ]
    found.sort(key=lambda pod: (-pod.priority, pod.created or _EPOCH, pod.namespace, pod.name))
    return tuple(found)


def classes(pods: Iterable[Pod]) -> tuple[PodClass, ...]:
    """Group them: same run and owner, same requests, same placement, and the same labels as far as any
    constraint looks at labels. The order of the first pod of each class is kept."""
    pods = tuple(pods)
    watched = _watched_labels(pods)
    found: dict[object, list[Pod]] = {}
    for pod in pods:
        labels = tuple(pod.labels.get(key) for key in watched) if watched else ()
        key = (pod.namespace, Group.of(pod.labels), pod.requests, pod.placement, labels)
        found.setdefault(key, []).append(pod)
    return tuple(PodClass(Group.of(members[0].labels), tuple(members)) for members in found.values())


def _watched_labels(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Label keys that some selector among these pods looks at."""
    keys = {
        expression.key
        for placement in {pod.placement for pod in pods}
        for terms in (placement.spreads, placement.pod_affinity)
        for term in terms
        for expression in term.selector
    }
    return tuple(sorted(keys))
