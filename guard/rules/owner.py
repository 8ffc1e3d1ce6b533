"""No owner: work in a governed namespace that names nobody. It is metered, and somebody is told."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.model import L_OWNER, Pod
from guard.rules.finding import Finding


def check(pods: Iterable[Pod], governed: frozenset[str]) -> tuple[Finding, ...]:
    """One finding a namespace, with how many pods and one of them by name."""
    ownerless: dict[tuple[str, str], list[str]] = {}
    for pod in pods:
        if pod.namespace in governed and pod.active and not pod.daemon and not pod.labels.get(L_OWNER):
            ownerless.setdefault((pod.cluster, pod.namespace), []).append(pod.name)
    return tuple(
        Finding(
            "no-owner",
            f"{cluster}/{namespace}",
            f"{len(names)} pods in {namespace} of {cluster} name no owner, e.g. {min(names)}.",
            {"cluster": cluster, "namespace": namespace, "pods": str(len(names)), "example": min(names)},
        )
        for (cluster, namespace), names in sorted(ownerless.items())
    )
