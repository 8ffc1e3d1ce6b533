"""Pods as the scaler plans them, from a pod template: for the card that is shown before anything exists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fleet.model import (
    GPU_RESOURCE,
    Expression,
    Placement,
    Pod,
    PodAffinity,
    Spread,
    Toleration,
)
from fleet.values import Resources, parse_bytes, parse_millicores, parse_quantity


def planned_pods(
    cluster: str, namespace: str, job: str, template: Mapping[str, Any], count: int
) -> tuple[Pod, ...]:
    """`count` pods that a Job with this template would have running at once."""
    spec = template["spec"]
    first = Pod(
        cluster=cluster,
        namespace=namespace,
        name="",
        uid="",
        requests=effective_requests(spec),
        labels=dict(template["metadata"]["labels"]),
        placement=placement(spec),
        grace_seconds=spec.get("terminationGracePeriodSeconds", 30),
    )
    return tuple(
        replace(first, name=f"{job}-{index}", uid=f"planned-{namespace}-{job}-{index}")
        for index in range(count)
    )


def effective_requests(spec: Mapping[str, Any]) -> Resources:
    """What the scheduler sets aside: the larger of running and starting, sidecars in both, plus overhead."""
    sidecars = starting = Resources()
    for container in spec.get("initContainers", ()):
        asked = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = sidecars + asked
            starting = starting.maximum(sidecars)
        else:
            starting = starting.maximum(sidecars + asked)
    running = sidecars
    for container in spec["containers"]:
        running = running + _requests(container)
    overhead = _resources(spec.get("overhead", {}))
    return replace(running.maximum(starting) + overhead, pods=1)


def _requests(container: Mapping[str, Any]) -> Resources:
    resources = container.get("resources", {})
    return _resources({**resources.get("limits", {}), **resources.get("requests", {})})


def _resources(asked: Mapping[str, Any]) -> Resources:
    return Resources(
        parse_millicores(str(asked.get("cpu", "0"))),
        parse_bytes(str(asked.get("memory", "0"))),
        int(parse_quantity(str(asked.get(GPU_RESOURCE, "0")))),
    )


def placement(spec: Mapping[str, Any]) -> Placement:
    """Where the template's pods may run."""
    affinity = spec.get("affinity", {})
    required = affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms", ())
    return Placement(
        node_selector=tuple(sorted(spec.get("nodeSelector", {}).items())),
        node_affinity=tuple(tuple(_expressions(term.get("matchExpressions", ()))) for term in terms),
        tolerations=tuple(
            Toleration(t.get("key", ""), t.get("operator", "Equal"), t.get("value", ""), t.get("effect", ""))
            for t in spec.get("tolerations", ())
        ),
        spreads=tuple(
            Spread(
                c["topologyKey"], c["maxSkew"], c["whenUnsatisfiable"], _selector(c.get("labelSelector", {}))
            )
            for c in spec.get("topologySpreadConstraints", ())
        ),
        pod_affinity=(*_pod_terms(affinity, "podAffinity"), *_pod_terms(affinity, "podAntiAffinity")),
    )


def _pod_terms(affinity: Mapping[str, Any], kind: str) -> Iterator[PodAffinity]:
    for term in affinity.get(kind, {}).get("requiredDuringSchedulingIgnoredDuringExecution", ()):
        selector = _selector(term.get("labelSelector", {}))
        yield PodAffinity(term["topologyKey"], selector, anti=kind == "podAntiAffinity")


def _selector(selector: Mapping[str, Any]) -> tuple[Expression, ...]:
    exact = (
        Expression(key, "In", (value,)) for key, value in sorted(selector.get("matchLabels", {}).items())
    )
    return (*exact, *_expressions(selector.get("matchExpressions", ())))


def _expressions(terms: Sequence[Mapping[str, Any]]) -> Iterator[Expression]:
    return (Expression(t["key"], t["operator"], tuple(map(str, t.get("values", ())))) for t in terms)
