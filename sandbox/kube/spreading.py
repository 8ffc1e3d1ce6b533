"""Verdicts that depend on where other pods run: topology spread and inter-pod (anti-)affinity.

Sources: k8s.io/kubernetes/pkg/scheduler/framework/plugins/{podtopologyspread,interpodaffinity}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from sandbox.kube.fitting import (
    AffinityTerm,
    Misfit,
    NodeState,
    PodClass,
    Spread,
    matches_affinity,
)
from sandbox.kube.matching import matches, untolerated

_NOT_SPREAD = "node(s) didn't match pod topology spread constraints"
_NO_LABEL = f"{_NOT_SPREAD} (missing required label)"
_NO_AFFINITY = "node(s) didn't match pod affinity rules"
_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
_EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"


class Domains:
    """How many matching pods each domain of one spread constraint holds."""

    def __init__(self, spread: Spread, pod_class: PodClass, required_keys: frozenset[str]) -> None:
        self.spread = spread
        self._class = pod_class
        self._required_keys = required_keys
        self.counts: dict[str, int] = {}
        self._minimum: int | None = None
        self.counts_itself = int(matches(spread.selector, pod_class.labels))

    def considers(self, node: NodeState) -> bool:
        """Whether the node's domain and pods count (nodeAffinityPolicy, nodeTaintsPolicy, labels)."""
        if any(key not in node.labels for key in self._required_keys | {self.spread.key}):
            return False
        if self.spread.honor_affinity and not matches_affinity(self._class, node):
            return False
        blocking = ("NoSchedule", "NoExecute")
        return not (self.spread.honor_taints and untolerated(self._class.tolerations, node.taints, blocking))

    def add(self, node: NodeState, other: PodClass | None, count: int) -> None:
        """Count pods of another class on the node; with None only the domain itself."""
        if not self.considers(node):
            return
        domain = node.labels[self.spread.key]
        same = other is not None and other.namespace == self._class.namespace
        matching = count if same and other and matches(self.spread.selector, other.labels) else 0
        self.counts[domain] = self.counts.get(domain, 0) + matching
        self._minimum = None

    def minimum(self) -> int:
        """Pods in the emptiest domain; 0 while there are fewer domains than minDomains."""
        if self._minimum is None:
            enough = len(self.counts) >= self.spread.min_domains
            self._minimum = min(self.counts.values(), default=0) if enough else 0
        return self._minimum

    def misfit(self, node: NodeState) -> Misfit | None:
        """DoNotSchedule's verdict."""
        domain = node.labels.get(self.spread.key)
        if domain is None:
            return Misfit((_NO_LABEL,), final=True)
        skew = self.counts.get(domain, 0) + self.counts_itself - self.minimum()
        return Misfit((_NOT_SPREAD,), final=False) if skew > self.spread.max_skew else None

    def penalty(self, node: NodeState) -> int:
        """ScheduleAnyway's preference: fewer is better."""
        return self.counts.get(node.labels.get(self.spread.key, ""), 0)


class Neighbours:
    """Everything about other pods' whereabouts that decides for one class; kept up to date while placing."""

    def __init__(self, pod_class: PodClass, nodes: Iterable[NodeState]) -> None:
        self._class = pod_class
        hard_keys = frozenset(spread.key for spread in pod_class.spreads if spread.hard)
        self._hard = [Domains(s, pod_class, hard_keys) for s in pod_class.spreads if s.hard]
        self._soft = [Domains(s, pod_class, frozenset()) for s in pod_class.spreads if not s.hard]
        self._attracting: Counter[tuple[str, str]] = Counter()
        self._repelled: Counter[tuple[str, str]] = Counter()
        self._repelling: Counter[tuple[str, str]] = Counter()
        for node in nodes:
            for domains in (*self._hard, *self._soft):
                domains.add(node, None, 0)
            staying = Counter(other for key, other in node.pods.items() if key not in node.leaving)
            for other, count in staying.items():
                self._count_spread(node, other, count)
            for other, count in Counter(node.pods.values()).items():
                self._count_affinity(node, other, count)

    def add(self, node: NodeState, other: PodClass) -> None:
        """A pod has just been placed."""
        self._count_spread(node, other, 1)
        self._count_affinity(node, other, 1)

    def misfit(self, node: NodeState) -> Misfit | None:
        """The first filter that says no, in the scheduler's order."""
        for domains in self._hard:
            found = domains.misfit(node)
            if found:
                return found
        if not self._affinity_holds(node):
            return Misfit((_NO_AFFINITY,), final=True)
        if any(self._repelled[term.key, node.labels.get(term.key, "")] for term in self._class.anti_affinity):
            return Misfit((_ANTI_AFFINITY,), final=False)
        if self._repelling and any(self._repelling[pair] for pair in node.labels.items()):
            return Misfit((_EXISTING_ANTI_AFFINITY,), final=False)
        return None

    def penalty(self, node: NodeState) -> int:
        """Lower is better."""
        return sum(domains.penalty(node) for domains in self._soft)

    def _count_spread(self, node: NodeState, other: PodClass, count: int) -> None:
        for domains in (*self._hard, *self._soft):
            domains.add(node, other, count)

    def _count_affinity(self, node: NodeState, other: PodClass, count: int) -> None:
        mine = self._class
        if mine.affinity and all(term_matches(term, other) for term in mine.affinity):
            _count(self._attracting, mine.affinity, node.labels, count)
        matching = [term for term in mine.anti_affinity if term_matches(term, other)]
        _count(self._repelled, matching, node.labels, count)
        against_us = [term for term in other.anti_affinity if term_matches(term, mine)]
        _count(self._repelling, against_us, node.labels, count)

    def _affinity_holds(self, node: NodeState) -> bool:
        terms = self._class.affinity
        if any(term.key not in node.labels for term in terms):
            return False
        if all(self._attracting[term.key, node.labels[term.key]] for term in terms):
            return True
        # The first of a group that wants to be near itself may start anywhere.
        return not self._attracting and all(term_matches(term, self._class) for term in terms)


def term_matches(term: AffinityTerm, other: PodClass) -> bool:
    """Whether a pod of the other class is one the term speaks of."""
    if term.namespaces is not None and other.namespace not in term.namespaces:
        return False
    return matches(term.selector, other.labels)


def _count(
    counter: Counter[tuple[str, str]], terms: Iterable[AffinityTerm], labels: Mapping[str, str], count: int
) -> None:
    for term in terms:
        if term.key in labels:
            counter[term.key, labels[term.key]] += count
