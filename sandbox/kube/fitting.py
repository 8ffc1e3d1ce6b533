"""Whether one pod fits one node: requests, selectors, taints, ports. Pure; no store, no time.

Pods whose verdicts can only be the same form a class, so that ten thousand of them are judged once.
Reasons are worded and ordered as the real scheduler's filter plugins word and order them (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sandbox.kube.amounts import amounts
from sandbox.kube.matching import (
    NodeTerm,
    Selector,
    compile_node_term,
    compile_selector,
    node_term_matches,
    untolerated,
)

Object = dict[str, Any]
_BLOCKING = ("NoSchedule", "NoExecute")
_UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_JUDGED = (
    "containers",
    "initContainers",
    "overhead",
    "resources",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priority",
    "preemptionPolicy",
)


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a node was filtered out. `final`: removing pods from it would not help."""

    reasons: tuple[str, ...]
    final: bool


@dataclass(frozen=True, slots=True)
class Spread:
    """A topologySpreadConstraint."""

    key: str
    max_skew: int
    hard: bool
    selector: Selector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A required pod (anti-)affinity term; `namespaces` None = all of them."""

    key: str
    selector: Selector
    namespaces: frozenset[str] | None


@dataclass(eq=False, slots=True)
class PodClass:
    """What decides where a pod may run, read once for all pods that share it."""

    key: bytes
    namespace: str
    labels: dict[str, str]
    """only those that some selector asks for"""
    priority: int
    may_preempt: bool
    requests: dict[str, int]
    ports: frozenset[tuple[str, str, int]]
    node_selector: dict[str, str]
    node_terms: tuple[NodeTerm, ...] | None
    preferred_nodes: tuple[tuple[int, NodeTerm], ...]
    tolerations: tuple[Mapping[str, Any], ...]
    spreads: tuple[Spread, ...]
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    static: dict[str, tuple[int, Misfit | None]] = field(default_factory=dict)
    """node name → (node's revision, verdict that does not depend on other pods)"""

    @property
    def constrained(self) -> bool:
        """Its verdict depends on where other pods run, beyond what they take up."""
        return bool(self.spreads or self.affinity or self.anti_affinity)


@dataclass(eq=False, slots=True)
class NodeState:
    """A node and what runs on it, as the scheduler counts it."""

    name: str
    revision: int = 0
    """grows when something about the node itself changes"""
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, Any]] = field(default_factory=list)
    unschedulable: bool = False
    allocatable: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    pods: dict[tuple[str, str], PodClass] = field(default_factory=dict)
    ports: dict[tuple[str, str, int], int] = field(default_factory=dict)
    leaving: set[tuple[str, str]] = field(default_factory=set)
    """pods that are being deleted: they take up room, and no longer count for spreading"""
    nominated: dict[tuple[str, str], PodClass] = field(default_factory=dict)
    """pods that preempted others here and wait for the room"""

    def read(self, node: Object) -> bool:
        """Take over a Node object; True where it changed what matters."""
        spec = node.get("spec") or {}
        fresh = (
            node["metadata"].get("labels") or {},
            spec.get("taints") or [],
            bool(spec.get("unschedulable")),
            amounts((node.get("status") or {}).get("allocatable")),
        )
        if self.revision and fresh == (self.labels, self.taints, self.unschedulable, self.allocatable):
            return False
        self.labels, self.taints, self.unschedulable, self.allocatable = fresh
        self.revision += 1
        return True

    def add(self, key: tuple[str, str], pod_class: PodClass) -> None:
        """A pod takes its place."""
        self.pods[key] = pod_class
        self.nominated.pop(key, None)
        for name, quantity in pod_class.requests.items():
            self.used[name] = self.used.get(name, 0) + quantity
        for port in pod_class.ports:
            self.ports[port] = self.ports.get(port, 0) + 1

    def remove(self, key: tuple[str, str]) -> None:
        """A pod gives its place back."""
        pod_class = self.pods.pop(key)
        self.leaving.discard(key)
        for name, quantity in pod_class.requests.items():
            self.used[name] -= quantity
        for port in pod_class.ports:
            self.ports[port] -= 1
            if not self.ports[port]:
                del self.ports[port]


def effective_requests(spec: Mapping[str, Any]) -> dict[str, int]:
    """max(sidecars before + each init container, sidecars + containers) + overhead, by resource.

    Source: k8s.io/component-helpers/resource/helpers.go, with pod-level resources on top.
    """
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, container_requests(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        asked = container_requests(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, asked)
            _add(total, asked)
            asked = dict(sidecars)
        else:
            _add(asked, sidecars)
        _raise(peak, asked)
    _raise(total, peak)
    whole_pod = spec.get("resources") or {}
    total.update({**amounts(whole_pod.get("limits")), **amounts(whole_pod.get("requests"))})
    _add(total, amounts(spec.get("overhead")))
    return {name: quantity for name, quantity in total.items() if quantity}


def container_requests(container: Mapping[str, Any]) -> dict[str, int]:
    """A container's requests; what has only a limit requests that."""
    resources = container.get("resources") or {}
    return {**amounts(resources.get("limits")), **amounts(resources.get("requests"))}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, quantity in more.items():
        total[name] = total.get(name, 0) + quantity


def _raise(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for name, quantity in floor.items():
        total[name] = max(total.get(name, 0), quantity)


def class_key(pod: Object, label_keys: Iterable[str]) -> bytes:
    """Pods with the same key get the same verdicts; only labels that a selector asks for are part of it."""
    spec, metadata = pod["spec"], pod["metadata"]
    labels = metadata.get("labels") or {}
    judged = [spec.get(name) for name in _JUDGED]
    judged[0] = [(c.get("resources"), c.get("ports")) for c in judged[0] or ()]
    judged[1] = [(c.get("resources"), c.get("ports"), c.get("restartPolicy")) for c in judged[1] or ()]
    seen = [(key, labels[key]) for key in sorted(label_keys) if key in labels]
    return msgspec.json.encode((metadata["namespace"], seen, judged))


def read_class(pod: Object, key: bytes, label_keys: Iterable[str]) -> PodClass:
    """Read the class of a pod."""
    spec, metadata = pod["spec"], pod["metadata"]
    labels = metadata.get("labels") or {}
    affinity = spec.get("affinity") or {}
    of_nodes = affinity.get("nodeAffinity") or {}
    required = of_nodes.get("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = of_nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return PodClass(
        key=key,
        namespace=metadata["namespace"],
        labels={name: labels[name] for name in label_keys if name in labels},
        priority=spec.get("priority") or 0,
        may_preempt=spec.get("preemptionPolicy") != "Never",
        requests=effective_requests(spec),
        ports=_host_ports(spec),
        node_selector=spec.get("nodeSelector") or {},
        node_terms=None
        if required is None
        else tuple(compile_node_term(term) for term in required.get("nodeSelectorTerms") or ()),
        preferred_nodes=tuple(
            (entry["weight"], compile_node_term(entry["preference"])) for entry in preferred
        ),
        tolerations=tuple(spec.get("tolerations") or ()),
        spreads=tuple(_spread(entry, labels) for entry in spec.get("topologySpreadConstraints") or ()),
        affinity=_terms(affinity.get("podAffinity"), metadata["namespace"]),
        anti_affinity=_terms(affinity.get("podAntiAffinity"), metadata["namespace"]),
    )


def selector_keys(spec: Mapping[str, Any]) -> set[str]:
    """Label keys that the pod's own spread and affinity selectors ask for."""
    found: set[str] = set()
    for entry in spec.get("topologySpreadConstraints") or ():
        found.update(key for key, _, _ in compile_selector(entry.get("labelSelector")) or ())
        found.update(entry.get("matchLabelKeys") or ())
    affinity = spec.get("affinity") or {}
    for side in ("podAffinity", "podAntiAffinity"):
        for term in _terms(affinity.get(side), ""):
            found.update(key for key, _, _ in term.selector or ())
    return found


def _spread(entry: Mapping[str, Any], labels: Mapping[str, str]) -> Spread:
    selector = compile_selector(entry.get("labelSelector"))
    extra = tuple((k, "In", (labels[k],)) for k in entry.get("matchLabelKeys") or () if k in labels)
    return Spread(
        key=entry["topologyKey"],
        max_skew=entry["maxSkew"],
        hard=entry["whenUnsatisfiable"] == "DoNotSchedule",
        selector=selector if selector is None else selector + extra,
        min_domains=entry.get("minDomains") or 1,
        honor_affinity=entry.get("nodeAffinityPolicy", "Honor") == "Honor",
        honor_taints=entry.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )


def _terms(side: Mapping[str, Any] | None, namespace: str) -> tuple[AffinityTerm, ...]:
    return tuple(
        AffinityTerm(
            key=term["topologyKey"],
            selector=compile_selector(term.get("labelSelector")),
            namespaces=_namespaces(term, namespace),
        )
        for term in (side or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    )


def _namespaces(term: Mapping[str, Any], own: str) -> frozenset[str] | None:
    """Only the empty namespaceSelector (all namespaces) is told apart from listed names."""
    if term.get("namespaceSelector") is not None:
        return None
    return frozenset(term.get("namespaces") or (own,))


def _host_ports(spec: Mapping[str, Any]) -> frozenset[tuple[str, str, int]]:
    found = set()
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                address = port.get("hostIP") or "0.0.0.0"
                found.add((address, port.get("protocol") or "TCP", port["hostPort"]))
    return frozenset(found)


def static_misfit(pod_class: PodClass, node: NodeState) -> Misfit | None:
    """Filters that look only at the node itself: cordon, taints, affinity."""
    known = pod_class.static.get(node.name)
    if known is None or known[0] != node.revision:
        known = (node.revision, _judge_static(pod_class, node))
        pod_class.static[node.name] = known
    return known[1]


def _judge_static(pod_class: PodClass, node: NodeState) -> Misfit | None:
    if node.unschedulable and untolerated(pod_class.tolerations, [_UNSCHEDULABLE_TAINT], _BLOCKING):
        return Misfit(("node(s) were unschedulable",), final=True)
    if untolerated(pod_class.tolerations, node.taints, _BLOCKING):
        return Misfit(("node(s) had untolerated taint(s)",), final=True)
    if not matches_affinity(pod_class, node):
        return Misfit(("node(s) didn't match Pod's node affinity/selector",), final=True)
    return None


def matches_affinity(pod_class: PodClass, node: NodeState) -> bool:
    """nodeSelector and required node affinity."""
    if any(node.labels.get(key) != value for key, value in pod_class.node_selector.items()):
        return False
    terms = pod_class.node_terms
    return terms is None or any(node_term_matches(term, node.name, node.labels) for term in terms)


def room_misfit(pod_class: PodClass, node: NodeState) -> Misfit | None:
    """Filters that look at what the node's pods take up: ports, pod slots, requests."""
    if pod_class.ports and any(_ports_clash(port, node.ports) for port in pod_class.ports):
        return Misfit(("node(s) didn't have free ports for the requested pod ports",), final=False)
    reserved, slots = _reserved(pod_class, node) if node.nominated else ({}, 0)
    reasons = []
    final = False
    if len(node.pods) + slots + 1 > node.allocatable.get("pods", 0):
        reasons.append("Too many pods")
    for name, quantity in pod_class.requests.items():
        whole = node.allocatable.get(name, 0)
        if quantity > whole - node.used.get(name, 0) - reserved.get(name, 0):
            reasons.append(f"Insufficient {name}")
            final = final or quantity > whole
    return Misfit(tuple(reasons), final) if reasons else None


def fits(pod_class: PodClass, node: NodeState) -> bool:
    """No filter but the ones about other pods' whereabouts says no."""
    return static_misfit(pod_class, node) is None and room_misfit(pod_class, node) is None


def _reserved(pod_class: PodClass, node: NodeState) -> tuple[dict[str, int], int]:
    """What nominated pods of the same or a higher priority will take."""
    total: dict[str, int] = {}
    slots = 0
    for other in node.nominated.values():
        if other.priority >= pod_class.priority and other is not pod_class:
            _add(total, other.requests)
            slots += 1
    return total, slots


def _ports_clash(port: tuple[str, str, int], taken: Mapping[tuple[str, str, int], int]) -> bool:
    address, protocol, number = port
    for other, other_protocol, other_number in taken:
        if (other_protocol, other_number) != (protocol, number):
            continue
        if address == other or "0.0.0.0" in (address, other):
            return True
    return False


def score(pod_class: PodClass, node: NodeState) -> float:
    """Higher is better: preferences first, then the least allocated node (NodeResourcesFit's default)."""
    static = sum(
        weight
        for weight, term in pod_class.preferred_nodes
        if node_term_matches(term, node.name, node.labels)
    )
    if node.taints and untolerated(pod_class.tolerations, node.taints, ("PreferNoSchedule",)):
        static -= 100
    free = 0.0
    for name in ("cpu", "memory"):
        whole = node.allocatable.get(name, 0)
        if whole:
            free += (whole - node.used.get(name, 0) - pod_class.requests.get(name, 0)) / whole
    return static + free / 2
